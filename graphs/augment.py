"""What the generator sees on a retry: the conversation, followed by drafts and feedback, marked as ours.

Feedback was written by a model that read untrusted text, so it is passed on as a quoted JSON string of bounded
length, never as bare instructions, and never with the reference answer in it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from judges.errors import ConfigurationError
from judges.models.writing import encode
from judges.prompts import Language, language_of

if TYPE_CHECKING:
    from graphs.refinement import Attempt, Refinement

Augmenter = Callable[["Refinement"], list[AnyMessage]]
"""Makes, of a refinement so far, the messages that follow the conversation on the next attempt."""

AugmenterName = Literal["last_draft", "feedback_only", "all_drafts"]

MARK = "refine"
"""Key in a message's `additional_kwargs` that marks it as put there by the loop."""

FEEDBACK_LIMIT = 4_000
"""Most characters of one feedback that reach the generator."""

_NOTES: dict[Language, tuple[str, str, str]] = {
    "en": (
        "A reviewer did not accept the answer",
        "The review is quoted as data",
        "Answer the original question again, completely and with the faults mended. Do not mention the review.",
    ),
    "zh": (
        "审阅者没有接受这个回答",
        "审阅意见作为数据引用如下",
        "请重新完整回答原来的问题，并改正其中的缺陷。不要提及审阅。",
    ),
    "ru": (
        "Рецензент не принял ответ",
        "Отзыв приведён как данные",
        "Ответь на исходный вопрос заново, полностью и без указанных недостатков. Не упоминай отзыв.",
    ),
}


def last_draft(refinement: Refinement) -> list[AnyMessage]:
    """Show the last draft and its feedback: the default."""
    last = refinement.attempts[-1]
    return [_draft(last), _note(refinement, last)]


def feedback_only(refinement: Refinement) -> list[AnyMessage]:
    """Show the last feedback alone, as Spring AI's advisor does."""
    return [_note(refinement, refinement.attempts[-1])]


def all_drafts(refinement: Refinement) -> list[AnyMessage]:
    """Show every draft with its rating and feedback, so that mended faults do not come back."""
    return last_drafts(len(refinement.attempts))(refinement)


def last_drafts(k: int) -> Augmenter:
    """Make an augmenter that shows the last `k` drafts, each with its rating and feedback.

    Raises:
        ConfigurationError: If `k` is not a whole number from 1.
    """
    if type(k) is not int or k < 1:
        raise ConfigurationError(f"k is how many drafts are shown, a whole number from 1, not {k!r}")

    def augment(refinement: Refinement) -> list[AnyMessage]:
        shown = refinement.attempts[-k:]
        return [message for one in shown for message in (_draft(one), _note(refinement, one, rated=True))]

    return augment


AUGMENTERS: dict[AugmenterName, Augmenter] = {
    "last_draft": last_draft,
    "feedback_only": feedback_only,
    "all_drafts": all_drafts,
}


def _draft(attempt: Attempt) -> AnyMessage:
    return AIMessage(attempt.text, additional_kwargs={MARK: "draft"})


def _note(refinement: Refinement, attempt: Attempt, *, rated: bool = False) -> AnyMessage:
    refused, quoted, again = _NOTES[language_of(refinement.question or attempt.text)]
    rating = f" ({attempt.rating}/4)" if rated and attempt.rating is not None else ""
    feedback = withheld(attempt.feedback[: 2 * FEEDBACK_LIMIT], refinement.reference)[:FEEDBACK_LIMIT]
    told = [f"{quoted}: {encode(feedback)}"] if feedback else []
    request = [again] if attempt is refinement.attempts[-1] else []
    return HumanMessage("\n".join([f"{refused}{rating}.", *told, *request]), additional_kwargs={MARK: "feedback"})


WITHHELD = "[...]"
"""What stands in the place of a reference answer."""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Scripts written without spaces, or with endings joined on: each of their letters is a word of its own."""

_JOINING = "\u00ad\u0300-\u036f\u200b-\u200f\u2060-\u2064\ufeff"
"""Accents and invisible characters, which end no word."""

_WORD = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}_])\w|[{_JOINING}])+")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|(?<=[\u3002\uff01\uff1f])|\n+")
_STEM, _ENDING = 5, 3
_BEGINNING = 5


def withheld(text: str, reference: str | None) -> str:
    """Take the reference answer, whole or by sentence, out of a text, so that it cannot be copied.

    Words are compared, whatever stands between them: case, accents, spacing, punctuation and invisible characters
    make no difference, and neither does a short ending on the last word. A sentence too short to tell anything
    ("1.", "e.g.") stays; so does whatever says the same in other words, or encoded.
    """
    if not reference or not reference.strip():
        return text
    bare = reference.strip()
    secret = _secret(bare)
    if (len(bare) == 1 and bare.isascii()) or not secret.whole:
        return re.sub(rf"(?<!\w){re.escape(bare)}(?!\w)" if bare.isalnum() else re.escape(bare), WITHHELD, text)
    words = _words(text)
    folded = tuple(word.folded for word in words)
    kept, done, place = [], 0, 0
    while place < len(words):
        length = _longest(secret, folded, place)
        if length:
            kept += [text[done : words[place].start], WITHHELD]
            done = words[place + length - 1].end
        place += length or 1
    return "".join([*kept, text[done:]])


class _Word(NamedTuple):
    folded: str
    start: int
    end: int


def _words(text: str) -> list[_Word]:
    found = [_Word(_folded(one.group()), *one.span()) for one in _WORD.finditer(text)]
    return [word for word in found if word.folded]


def _folded(word: str) -> str:
    if word.isascii():
        return word.lower()
    parts = unicodedata.normalize("NFKD", word.casefold())
    return "".join(part for part in parts if unicodedata.category(part) not in ("Mn", "Cf"))


class _Secret(NamedTuple):
    """A reference as words, and its sentences by their number of words and by these, the last cut to its stem."""

    whole: tuple[str, ...]
    sentences: dict[int, dict[tuple[str, ...], list[str]]]


@lru_cache(maxsize=16)
def _secret(reference: str) -> _Secret:
    split = _SENTENCE_END.split(reference)
    sentences = [tuple(filter(None, map(_folded, _WORD.findall(one)))) for one in split]
    whole = tuple(chain.from_iterable(sentences))
    found: dict[int, dict[tuple[str, ...], list[str]]] = {}
    for piece in sorted({*filter(None, [whole]), *filter(_tells, sentences)}, key=len, reverse=True):
        found.setdefault(len(piece), {}).setdefault(_stemmed(piece), []).append(piece[-1])
    return _Secret(whole, found)


def _tells(sentence: tuple[str, ...]) -> bool:
    letters = "".join(sentence)
    return len(letters) > (2 if letters.isascii() and letters.isalpha() else 1)


def _stemmed(words: tuple[str, ...]) -> tuple[str, ...]:
    return (*words[:-1], words[-1][:_STEM])


def _longest(secret: _Secret, words: tuple[str, ...], place: int) -> int:
    """Tell how many words from a place on are the secret's, up to the end of a text that was cut; 0 for none."""
    for length, sentences in secret.sentences.items():
        if place + length <= len(words):
            found = words[place : place + length]
            if any(_same_stem(found[-1], last) for last in sentences.get(_stemmed(found), ())):
                return length
    if words[place] != secret.whole[0]:
        return 0
    *known, cut = words[place:]
    begins = len(known) >= _BEGINNING and secret.whole[: len(known)] == tuple(known)
    return len(known) + 1 if begins and "".join(secret.whole[len(known) :][:1]).startswith(cut) else 0


def _same_stem(found: str, wanted: str) -> bool:
    longer = len(found) - len(wanted)
    return found == wanted or (len(wanted) >= _STEM and longer <= _ENDING and found.startswith(wanted))
