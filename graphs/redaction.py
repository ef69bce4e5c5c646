"""Keeping a reference answer out of whatever a generator or a reader is shown."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

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
