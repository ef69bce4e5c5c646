"""The gate before a judge's model: it holds answers that are no answers, at no cost.

A lone `:`, the words that open a solution, or a copy of the question get a good rating from many model judges
("One Token to Fool LLM-as-a-Judge", arXiv 2507.08794), and neither longer prompts nor several votes help. Such
"master keys" are known without a model: `classify_non_answer` names what an answer is, or lets it pass.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice, takewhile
from typing import Literal

from judges.catalogue.general.gate_phrases import (
    ANNOUNCERS,
    ASKS,
    ASKS_FOR_A_SYMBOL,
    ASKS_FOR_A_WORD,
    ASKS_FOR_CODE,
    OPENERS,
)
from judges.prompting.prompts import Language

NonAnswer = Literal["symbols", "opener", "echo"]
"""What is held: nothing but symbols, only opening words, nothing but the question."""

_BLANK_LETTERS = {"\u115f", "\u1160", "\u3164", "\uffa0"}
_LONGEST_RUN = 2_000
_GREETING, _CONFIRMATION = 18, 8
_VALUES = set("∞∅⊤⊥")
_LONE = set(".,:;!?…。：，；！？、")
_PROSE = ".,:;?!'\"()-_*#/\\`~、。，：；？！「」『』（）《》“”‘’«»…—–·¿¡"

_WHY: dict[Language, dict[NonAnswer, str]] = {
    "en": {
        "symbols": "There is no answer, only punctuation or symbols.",
        "opener": "There is no answer, only the words that would open one.",
        "echo": "There is no answer, only the question over again.",
    },
    "zh": {
        "symbols": "没有作答，只有标点或符号。",
        "opener": "没有作答，只有开场的套话。",
        "echo": "没有作答，只是重复了问题。",
    },
    "ru": {
        "symbols": "Ответа нет: только знаки препинания или символы.",
        "opener": "Ответа нет: только вступительные слова.",
        "echo": "Ответа нет: только повторён вопрос.",
    },
}
_MEND: dict[Language, str] = {"en": "Answer the question. ", "zh": "请回答问题。", "ru": "Ответь на вопрос. "}


def classify_non_answer(answer: str, *, question: str = "", reference: str | None = None) -> NonAnswer | None:
    """Tell whether an answer is none, and of what kind; None where it passes.

    Compared are letters and digits alone, decomposed and without marks, width and case, so that full-width,
    zero-width, combining and directional variants are the same. Look-alikes of other scripts are not.

    - `symbols`: there is no letter or digit of any script. Passes where the question asks for a symbol (it names
      a kind of one: "character", "operator", "emoji", ...), offers it ("✓ or ✗?"; punctuation of prose does not
      count as offered), or has no letter or digit itself; where it asks for code or output ("print", "return",
      ...) and there is more than `.`, `:` and the like; and for signs that are values, such as ∞.
    - `opener`: there are only words that open an answer ("Solution", "Thought process:"), in any of ten
      languages and in any number; words such as "Result" only if a colon, dots, a heading's mark or empty tags
      announce what then does not come. A single word without such a mark passes where the question asks for a
      word ("What is the German for 'answer'?").
    - `echo`: there is only the question, once or more, perhaps with an opener. A greeting may be returned: a
      short text that asks nothing passes, and so does a short word that confirms ("Ready?").

    An answer that is the reference always passes.

    Args:
        answer: The answer.
        question: What was asked.
        reference: The expected answer, where one is known.
    """
    if reference is not None and answer.strip() == reference.strip():
        return None
    first = _first(_BEGINNING, answer)
    if not first:
        return None if _wants_symbols(answer, question) else "symbols"
    if _begins_otherwise(first, question) or _goes_on(answer, question):
        return None
    asked = "".join(_letters(question))
    longest = _LONGEST_RUN + 8 * len(asked)
    said = _first(longest + 1, answer)
    if len(said) > longest or (reference is not None and said == "".join(_letters(reference))):
        return None
    if _is_opener(said, answer, question):
        return "opener"
    return "echo" if _is_echo(said, asked, answer, question) else None


def explained(held: NonAnswer, language: Language) -> tuple[str, str]:
    """Give the rationale and the feedback for an answer that is held."""
    known = language if language in _WHY else "en"
    why = _WHY[known][held]
    return why, _MEND[known] + why


def _letters(text: str) -> Iterator[str]:
    """Yield the letters and digits of a text, one by one, without marks, width and case."""
    for one in text:
        if one.isascii():
            if one.isalnum():
                yield one.lower()
        else:
            yield from _folded(one)


@lru_cache(maxsize=4096)
def _folded(one: str) -> str:
    parts = unicodedata.normalize("NFKD", one).casefold()
    return "".join(part for part in parts if part.isalnum() and part not in _BLANK_LETTERS)


def _first(count: int, text: str) -> str:
    return "".join(islice(_letters(text), count))


def _words(listed: str) -> set[str]:
    """Read a list of words: separated by bars or empty lines, written over several lines."""
    return {"".join(_letters(one)) for one in re.split(r"\||\n\n", listed)} - {""}


_ONLY = frozenset(_words(OPENERS))
_EITHER = _ONLY | _words(ANNOUNCERS)
_LONGEST = max(map(len, _EITHER))
_BEGINNING = 4
_BEGINNINGS = {word[:_BEGINNING] for word in _EITHER}


def _ends(said: str, words: frozenset[str]) -> set[int]:
    """Tell where a run of words, of any number, may end that begins a text."""
    found, next_up = {0}, [0]
    while next_up:
        start = next_up.pop()
        last = min(start + _LONGEST, len(said))
        ends = {end for end in range(start + 1, last + 1) if said[start:end] in words} - found
        found |= ends
        next_up += ends
    return found


def _is_made_of(said: str, words: frozenset[str]) -> bool:
    return len(said) in _ends(said, words)


def _begins_otherwise(first: str, question: str) -> bool:
    """Tell by its first letters, as of most answers, that one begins with neither an opener nor the question."""
    beginnings = {first[:length] for length in range(1, _BEGINNING + 1)}
    asked = _first(_BEGINNING, question)
    return beginnings.isdisjoint(_BEGINNINGS) and not (asked and first.startswith(asked))


def _goes_on(answer: str, question: str) -> bool:
    """Tell by its beginning that an answer says more than openers and the question."""
    head, asked = _first(2 * _LONGEST, answer), _first(_LONGEST, question)
    rests = [head[end:] for end in _ends(head, _EITHER)]
    return all(len(rest) >= _LONGEST and not (asked and rest.startswith(asked)) for rest in rests)


def _is_opener(said: str, answer: str, question: str) -> bool:
    if _announces(answer):
        return _is_made_of(said, _EITHER)
    a_word = len(answer.split()) == 1 and ASKS_FOR_A_WORD.search(question)
    return _is_made_of(said, _ONLY) and not a_word


def _announces(answer: str) -> bool:
    """Tell whether an answer ends as if something followed, or is the heading or the empty shell of something."""
    tail = "".join(takewhile(lambda one: not one.isalnum(), reversed(answer)))
    follows = re.search(r":|\.\.", unicodedata.normalize("NFKC", tail))
    return bool(follows) or answer.lstrip().startswith("#") or "</" in answer or "\\boxed" in answer


def _is_echo(said: str, asked: str, answer: str, question: str) -> bool:
    if not any(one.isalpha() for one in asked) or _may_be_returned(asked, answer, question):
        return False
    rest = said.replace(asked, "")
    return len(rest) < len(said) and (not rest or _is_made_of(rest, _EITHER))


def _may_be_returned(asked: str, answer: str, question: str) -> bool:
    """Tell a greeting, or a word that its repetition confirms ("Ready?"), from a question that was copied."""
    if not ASKS.search(question):
        return len(asked) + sum(one > "\u3400" for one in asked) <= _GREETING
    confirms = asked.isalpha() and len(question.split()) == 1 and len(asked) <= _CONFIRMATION
    return confirms and not re.search("[?？؟]", answer)


def _wants_symbols(answer: str, question: str) -> bool:
    shown = {one for one in answer if unicodedata.category(one)[0] in "SP"}
    if not shown or not question.strip():
        return bool(shown & _VALUES)
    offered = {one.strip(_PROSE) for one in (*question.split(), *re.findall(r"[^\w\s!-~]+", question))}
    return (
        bool(shown & _VALUES)
        or answer.strip(_PROSE + string.whitespace) in offered - {""}
        or not any(_letters(question))
        or bool(ASKS_FOR_A_SYMBOL.search(question))
        or (not shown <= _LONE and bool(ASKS_FOR_CODE.search(question)))
    )
