"""Drafts that hold the loop's note in place of an answer: echoes.

A small model often repeats what it is told. Whatever it repeats is never shown to a user. An answer that does
what the feedback asked for is none: it has the words that were wanted, not the sentence that wanted them. So an
order to the writer counts and a statement does not, since that may be the answer itself; and of an order only what
begins as it begins, where a sentence begins.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property
from itertools import accumulate

from langchain_core.messages import BaseMessage
from pydantic import BaseModel

from graphs.answers import text_of_answer
from graphs.augment import answers_of, faults_of, keep_words, own_texts, read_pack, verify_first
from graphs.generators import Draft
from graphs.refinement import Refinement
from judges.prompting.prompts import LANGUAGES

_LETS_KEEP = ("verify_first", verify_first)
"""The form of a retry that lets an answer be kept, by its name and as a function."""

_LONGEST_TEXT = 50_000
"""Most characters of a draft that are searched."""

_HAN = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_HAN}]|(?:(?![{_HAN}_])\w)+")
_HAN_WORD = re.compile(f"[{_HAN}]")
_BOUNDARY = re.compile(r"[.!?:;。！？：；\n…]")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？;；])(?:\s+|(?<=[。！？；]))")

_START = re.compile(r"^\W+|[*_`]")
"""What may stand before, or in, the word to keep an answer."""

_SHORTEST = 4.0
"""Least length of what can be an echo, in words; what is shorter is found in honest answers too."""

_SHORT = 8.0
"""Length from which on a part of a sentence of our own is known as such."""

_HAN_LENGTH = 0.6
"""Length of a Chinese character, in words."""

_SHARE = 0.6
"""Share of a sentence, from its first word on, that counts as the sentence."""

_OWN_SHARE = 0.75
"""The same for a long sentence of our own, from any word on."""

_MOST = 0.5
"""Share of the feedback, or of the draft, from which on that is most of it."""


class _Text:
    """The words of a text, folded, and where its sentences begin.

    Attributes:
        words: The words.
        folded: All of them between blanks.
    """

    def __init__(self, text: str) -> None:
        text = unicodedata.normalize("NFKC", text[:_LONGEST_TEXT]).casefold()
        matches = list(_WORD.finditer(text))
        self.words = [match.group() for match in matches]
        self.folded = f" {' '.join(self.words)} "
        self._text = text
        self._spans = [match.span() for match in matches]

    @cached_property
    def _offsets(self) -> list[int]:
        return [0, *accumulate(len(word) + 1 for word in self.words)]

    @cached_property
    def length(self) -> float:
        """How long it is, in words."""
        return _length(self.words)

    def has(self, folded: str) -> bool:
        """Check whether it has words, given between blanks, one after the other."""
        return folded in self.folded

    def places(self, folded: str) -> Iterator[int]:
        """Yield the numbers of the words at which these words begin together with a sentence."""
        place = self.folded.find(folded)
        while place >= 0:
            number = bisect_right(self._offsets, place) - 1
            if self.is_boundary(number):
                yield number
            place = self.folded.find(folded, place + 1)

    def is_boundary(self, number: int) -> bool:
        """Check whether a sentence or a line begins with a word, or the text ends before it."""
        if number in (0, len(self.words)):
            return True
        return bool(_BOUNDARY.search(self._text[self._spans[number - 1][1] : self._spans[number][0]]))


def _length(words: Sequence[str]) -> float:
    return len(words) - (1 - _HAN_LENGTH) * len(list(filter(_HAN_WORD.fullmatch, words)))


def is_echo(draft: Draft, refinement: Refinement, conversation: Sequence[BaseMessage]) -> bool:
    """Check whether a retry's draft holds the loop's own sentences, or most of the feedback that it was to follow.

    Args:
        draft: The draft.
        refinement: The record before it.
        conversation: The messages up to the question; what stands there may be repeated.
    """
    if draft.kept or draft.skip_reason or not _repeats(text_of_answer(draft.answer), refinement, conversation):
        return False
    return draft.kind in ("text", "cut", "invalid_tool_call")


def _repeats(text: str, refinement: Refinement, conversation: Sequence[BaseMessage]) -> bool:
    if refinement.policy.augment in _LETS_KEEP and _keeps(text):
        return True
    draft = _Text(text)
    said_before = cache(lambda: _Text("\n".join(str(message.text) for message in conversation)[-_LONGEST_TEXT:]))
    repeated_parts = [
        part for part in _own_parts() if part in draft.folded
    ]  # hundreds: a call for each would cost more
    if any(not said_before().has(part) for part in repeated_parts):
        return True
    feedbacks = [faults_of(attempt, refinement) for attempt in refinement.attempts]
    together = tuple(dict.fromkeys(fault for faults in feedbacks for fault in faults))
    return any(_holds_feedback(draft, faults, said_before) for faults in dict.fromkeys((*feedbacks, together)))


def keep_answer(draft: Draft, refinement: Refinement) -> Draft:
    """Return the earlier answer in place of a retry's draft that says to keep it; any other draft as it is.

    There is one to keep only where it may be released. Its evidence and its raw reply belong to it.
    """
    if refinement.policy.augment not in _LETS_KEEP or draft.fault or draft.kind != "text":
        return draft
    text = text_of_answer(draft.answer)
    last = answers_of(refinement)[-1]
    if not _keeps(text) or last.is_unfit or last.own_kind != "text":
        return draft
    steps = (*last.steps, *(step for step in draft.steps if step not in last.steps))
    answer = draft.answer.model_copy(update={"content": last.answer.content})
    return replace(draft, answer=answer, steps=steps, evidence=last.evidence, raw=last.raw, kept=text)


def _keeps(text: str) -> bool:
    """Check whether a draft begins with the word by which the form that asked for it lets an answer be kept."""
    start = _START.sub("", unicodedata.normalize("NFKC", text[:200]))
    words = [unicodedata.normalize("NFKC", word) for word in keep_words()]
    spelt = tuple(word.rstrip(":") for word in words if word.isupper())
    return start.casefold().startswith(tuple(map(str.casefold, words))) or start.startswith(spelt)


@cache
def _own_parts() -> tuple[str, ...]:
    """Return what tells each sentence of our own: its parts that are long enough, between blanks."""
    parts: dict[str, None] = {}
    for text in own_texts():
        for line in text.splitlines():
            for sentence in filter(None, _SENTENCE_END.split(line)):
                parts.update(dict.fromkeys(_parts(_Text(sentence).words)))
    return tuple(parts)


def _parts(words: Sequence[str]) -> Iterator[str]:
    """Yield each run of words of a sentence that stands for it; of a short one only the whole."""
    length = _length(words)
    count = len(words) if length < _SHORT else round(_OWN_SHARE * len(words))
    if length >= _SHORTEST:
        for start in range(len(words) - count + 1):
            yield f" {' '.join(words[start : start + count])} "


def _holds_feedback(draft: _Text, faults: Sequence[str], said_before: Callable[[], _Text]) -> bool:
    """Check whether a draft has most of a feedback: most of the draft is that, or what speaks of answers alone."""
    sentences = [_Text(part) for fault in faults for part in _SENTENCE_END.split(fault)]
    sentences = [sentence for sentence in sentences if sentence.words]
    if [word for sentence in sentences for word in sentence.words] == draft.words:
        return any(map(_is_order, sentences))
    orders = [sentence for sentence in sentences if _is_order(sentence)]
    wanted = sum(order.length for order in orders)
    held = {id(order): _held(order, draft) for order in orders}
    total = sum(held.values())
    if not total or total < _MOST * wanted:
        return False
    if total >= _MOST * draft.length:
        return True
    plain = [
        o for o in orders if held[id(o)] == o.length and _has_any(o, "answers") and not said_before().has(o.folded)
    ]
    return sum(order.length for order in plain) >= _MOST * wanted


def _held(order: _Text, draft: _Text) -> float:
    """Return how much of an order a draft has, from the order's beginning on, where a sentence begins."""
    if order.length < _SHORTEST:
        return 0.0
    whole = next((n for n in draft.places(order.folded) if draft.is_boundary(n + len(order.words))), None)
    if whole is not None:
        return order.length
    count = max(1, round(_SHARE * len(order.words)))
    while count < len(order.words) and _length(order.words[:count]) < _SHORTEST:
        count += 1
    begins = f" {' '.join(order.words[:count])} "
    return _length(order.words[:count]) if next(draft.places(begins), None) is not None else 0.0


class _OrderWords(BaseModel, frozen=True, extra="forbid"):
    """Words that tell an order to a writer from a statement, in one language.

    Args:
        begins: What an order begins with.
        begins_ending: How the first word of an order ends.
        states: What a statement begins with.
        states_second: The second word of a statement.
        marks: Words that tell this language from others of the same script.
        answers: Words for answers and what they are made of.
        modals: Words that order something, where an answer is spoken of.
        complaints: Words that say what an answer lacks.
    """

    begins: tuple[str, ...]
    begins_ending: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    states_second: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    answers: tuple[str, ...]
    modals: tuple[str, ...]
    complaints: tuple[str, ...]


@cache
def _listed(name: str) -> tuple[str, ...]:
    """Return the words of a list in all languages, each between blanks, save that endings stay as they are."""
    words = [word for language in LANGUAGES for word in getattr(read_pack(_OrderWords, language, "orders"), name)]
    return tuple(words if name == "begins_ending" else (_Text(word).folded for word in words))


def _has_any(sentence: _Text, name: str) -> bool:
    return bool([word for word in _listed(name) if word in sentence.folded])


def _is_surely_order(sentence: _Text) -> bool:
    """Check whether a sentence has a word that orders something of a writer, or says what an answer lacks."""
    begins = sentence.folded.startswith(_listed("begins")) or sentence.words[0].endswith(_listed("begins_ending"))
    is_rule = _has_any(sentence, "modals") and _has_any(sentence, "answers")
    return begins or is_rule or _has_any(sentence, "complaints")


def _is_order(sentence: _Text) -> bool:
    """Check whether a sentence tells a writer what to do; one that states something may be the answer itself.

    No list has every English verb: what is English and does not begin as a statement does is an order.
    """
    if _is_surely_order(sentence):
        return True
    if not _has_any(sentence, "marks"):
        return False
    second = f" {' '.join(sentence.words[1:2])} "
    return not sentence.folded.startswith(_listed("states")) and second not in _listed("states_second")
