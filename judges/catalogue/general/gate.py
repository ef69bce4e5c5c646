"""The gate before a judge's model: it rejects answers without content, at no cost.

A lone `:`, the words that open a solution, or a copy of the question get a good rating from many model judges
("One Token to Fool LLM-as-a-Judge", arXiv 2507.08794), and neither longer prompts nor several votes help. Such
"master keys" can be detected without a model: `classify_non_answer` returns their kind, or None.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import takewhile
from typing import Literal

from judges.entry import own_tables
from judges.prompting.prompts import Language

_WORDS = own_tables(__file__, "gate.toml")
_ASKS, _ASKS_FOR_A_SYMBOL, _ASKS_FOR_CODE, _ASKS_FOR_A_WORD, _ASKS_FOR_MARKUP = (
    re.compile("".join(_WORDS["asks"][kind]), re.IGNORECASE)
    for kind in ("anything", "symbol", "code", "word", "markup")
)
_BLANK_MARKUP = re.compile(r"(?:\s|</?(?:br|p|div|span)\s*/?>|&(?:nbsp|ensp|emsp|#160|#xa0);)+", re.IGNORECASE)
"""Matches HTML that shows nothing."""

_NonAnswer = Literal["symbols", "opener", "echo"]
"""Kinds of rejected answers: nothing but symbols, only opening words, nothing but the question."""

_BLANK_LETTERS = {"\u115f", "\u1160", "\u3164", "\uffa0"}
_LONGEST_RUN = 2_000
_GREETING = 18
"""Most letters of a question that a greeting answers; one of Chinese counts as two."""
_CONFIRMATION = 8
"""Most letters of a question that a word of consent answers."""
_VALUES = set("∞∅⊤⊥")
_LONE = set(".,:;!?…。：，；！？、")
_PROSE = ".,:;?!'\"()-_*#/\\`~、。，：；？！「」『』（）《》“”‘’«»…—–·¿¡"

_WHY: Mapping[str, Mapping[_NonAnswer, str]] = _WORDS["why"]
_MEND: Mapping[str, str] = _WORDS["mend"]


def classify_non_answer(answer: str, *, question: str = "", reference: str | None = None) -> _NonAnswer | None:
    """Return the kind of non-answer that an answer is, or None where it passes.

    Only letters and digits are compared, decomposed and without marks, width and case, so that full-width,
    zero-width, combining and directional variants are the same. Look-alikes of other scripts are not.

    - `symbols`: there is no letter or digit of any script, or only HTML that shows nothing. Passes where the
      question asks for a symbol (it names a kind of one: "character", "operator", "emoji", ...), offers it
      ("✓ or ✗?"; punctuation of prose does not count as offered), or has no letter or digit itself; where it
      asks for code or output ("print", "return", ...) and there is more than `.`, `:` and the like; and for
      signs that are values, such as ∞. HTML passes where the question asks for a tag, or the like.
    - `opener`: there are only words that open an answer ("Solution", "Thought process:"), in any of ten
      languages and in any number; words such as "Result" only if a colon, dots, a heading's mark or empty tags
      announce content that then does not follow. A single word without such a mark passes where the question
      asks for a word ("What is the German for 'answer'?").
    - `echo`: there is only the question, once or more, perhaps with an opener. A greeting may be repeated: a
      short text that asks nothing passes, and so does a short word that confirms ("Ready?").

    An answer that is the reference always passes.

    Args:
        answer: The answer.
        question: The question.
        reference: The expected answer, if there is one.
    """
    if reference is not None and answer.strip() == reference.strip():
        return None
    head, question_start = _first(2 * _LONGEST, answer), _first(_LONGEST, question)
    if not head or (_BLANK_MARKUP.fullmatch(answer) and not _ASKS_FOR_MARKUP.search(question)):
        return None if _wants_symbols(answer, question) else "symbols"
    if _begins_otherwise(head[:_BEGINNING], question_start[:_BEGINNING]) or _goes_on(head, question_start):
        return None
    question_letters = question_start if len(question_start) < _LONGEST else "".join(_letters(question))
    longest = _LONGEST_RUN + 8 * len(question_letters)
    letters = head if len(head) < 2 * _LONGEST else _first(longest + 1, answer)
    if len(letters) > longest or (reference is not None and letters == "".join(_letters(reference))):
        return None
    if _is_opener(letters, answer, question):
        return "opener"
    return "echo" if _is_echo(letters, question_letters, answer, question) else None


def explain_non_answer(kind: _NonAnswer, language: Language) -> tuple[str, str]:
    """Return the rationale and the feedback for a rejected answer; in English for other languages."""
    supported = language if language in _WHY else "en"
    rationale = _WHY[supported][kind]
    return rationale, _MEND[supported] + rationale


_RUNS = re.compile(r"[0-9A-Za-z]{1,64}|[^\x00-\x7f]")
_NO_LETTERS = re.compile(r"[^0-9A-Za-z]+")


def _letters(text: str) -> Iterator[str]:
    """Yield the letters and digits of a text, some at a time, without marks, width and case."""
    for match in _RUNS.finditer(text):
        run = match[0]
        yield run.lower() if run.isascii() else _fold(run)


@lru_cache(maxsize=4096)
def _fold(character: str) -> str:
    parts = unicodedata.normalize("NFKD", character).casefold()
    return "".join(part for part in parts if part.isalnum() and part not in _BLANK_LETTERS)


def _first(count: int, text: str) -> str:
    """Return the first letters and digits of a text."""
    beginning = text[: 2 * count]
    if beginning.isascii():  # there is nothing to fold
        letters = _NO_LETTERS.sub("", beginning).lower()
        if len(letters) >= count or len(beginning) == len(text):
            return letters[:count]
    letters = ""
    for run in _letters(text):
        letters += run
        if len(letters) >= count:
            return letters[:count]
    return letters


def _words(listed: str) -> set[str]:
    """Parse a list of words, separated by bars or empty lines and written over several lines."""
    return {"".join(_letters(word)) for word in re.split(r"\||\n\n", listed)} - {""}


_ONLY = frozenset(_words(_WORDS["openers"]))
_EITHER = _ONLY | _words(_WORDS["announcers"])
_LONGEST = max(map(len, _EITHER))
_BEGINNING = 4
_LENGTHS = range(1, _BEGINNING + 1)
_BEGINNINGS = {word[:_BEGINNING] for word in _EITHER}


def _ends(letters: str, words: frozenset[str]) -> set[int]:
    """Return the positions up to which a text can be read as a run of words, of any number."""
    reached, pending = {0}, [0]
    while pending:
        start = pending.pop()
        if _BEGINNINGS.isdisjoint([letters[start : start + length] for length in _LENGTHS]):
            continue
        last = min(start + _LONGEST, len(letters))
        ends = {end for end in range(start + 1, last + 1) if letters[start:end] in words} - reached
        reached |= ends
        pending += ends
    return reached


def _consists_of(letters: str, words: frozenset[str]) -> bool:
    return len(letters) in _ends(letters, words)


def _begins_otherwise(first: str, question_start: str) -> bool:
    """Return whether an answer begins, like most, with neither an opener nor the question."""
    if not _BEGINNINGS.isdisjoint([first[:length] for length in _LENGTHS]):
        return False
    return not (question_start and first.startswith(question_start))


def _goes_on(head: str, question_start: str) -> bool:
    """Return whether the beginning of an answer already says more than openers and the question."""
    rests = [head[end:] for end in _ends(head, _EITHER)]
    return all(
        len(rest) >= _LONGEST and not (question_start and rest.startswith(question_start)) for rest in rests
    )


def _is_opener(letters: str, answer: str, question: str) -> bool:
    if not _consists_of(letters, _EITHER):
        return False
    if _announces(answer):
        return True
    is_word = len(answer.split()) == 1 and _ASKS_FOR_A_WORD.search(question)
    return _consists_of(letters, _ONLY) and not is_word


def _announces(answer: str) -> bool:
    """Return whether an answer ends as if something followed, or is a mere heading or empty markup."""
    tail = "".join(takewhile(lambda character: not character.isalnum(), reversed(answer)))
    follows = re.search(r":|\.\.", unicodedata.normalize("NFKC", tail))
    return bool(follows) or answer.lstrip().startswith("#") or "</" in answer or "\\boxed" in answer


def _is_echo(letters: str, question_letters: str, answer: str, question: str) -> bool:
    rest = letters.replace(question_letters, "")
    if len(rest) == len(letters) or (rest and not _consists_of(rest, _EITHER)):
        return False
    has_words = any(letter.isalpha() for letter in question_letters)
    return has_words and not _may_be_repeated(question_letters, answer, question)


def _may_be_repeated(question_letters: str, answer: str, question: str) -> bool:
    """Return whether repeating the question is an answer: to a greeting, or to a word it confirms ("Ready?")."""
    if not _ASKS.search(question):
        return len(question_letters) + sum(letter > "\u3400" for letter in question_letters) <= _GREETING
    short = len(question_letters) <= _CONFIRMATION
    confirms = question_letters.isalpha() and len(question.split()) == 1 and short
    return confirms and not re.search("[?？؟]", answer)


def _wants_symbols(answer: str, question: str) -> bool:
    """Return whether symbols alone may answer the question."""
    symbols = {character for character in answer if unicodedata.category(character)[0] in "SP"}
    if not symbols or not question.strip():
        return bool(symbols & _VALUES)
    offered = {piece.strip(_PROSE) for piece in (*question.split(), *re.findall(r"[^\w\s!-~]+", question))}
    return (
        bool(symbols & _VALUES)
        or answer.strip(_PROSE + string.whitespace) in offered - {""}
        or not any(_letters(question))
        or bool(_ASKS_FOR_A_SYMBOL.search(question))
        or (not symbols <= _LONE and bool(_ASKS_FOR_CODE.search(question)))
    )
