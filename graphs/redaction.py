"""Redaction of a reference answer from texts that a generator or a reader gets."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

PLACEHOLDER = "[...]"
"""The text that replaces a reference answer."""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Scripts written without spaces, or with joined endings: each of their letters counts as a word."""

_JOINING = "\u00ad\u0300-\u036f\u200b-\u200f\u2060-\u2064\ufeff"
"""Accents and invisible characters, which do not end a word."""

_WORD = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}_])\w|[{_JOINING}])+")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|(?<=[\u3002\uff01\uff1f])|\n+")
_STEM, _ENDING = 5, 3
_BEGINNING = 5


def redact(text: str, reference: str | None) -> str:
    """Replace the reference answer, whole or by sentence, in a text, so that it cannot be copied.

    Only words are compared: case, accents, spacing, punctuation and invisible characters are ignored, and so is a
    short ending of the last word. Sentences too short to be distinctive ("1.", "e.g.") remain; so do paraphrases
    and encoded copies.
    """
    if not reference or not reference.strip():
        return text
    bare = reference.strip()
    secret = _secret(bare)
    if (len(bare) == 1 and bare.isascii()) or not secret.whole:
        return re.sub(rf"(?<!\w){re.escape(bare)}(?!\w)" if bare.isalnum() else re.escape(bare), PLACEHOLDER, text)
    words = _words(text)
    folded = tuple(word.folded for word in words)
    parts, done, position = [], 0, 0
    while position < len(words):
        length = _match_length(secret, folded, position)
        if length:
            parts += [text[done : words[position].start], PLACEHOLDER]
            done = words[position + length - 1].end
        position += length or 1
    return "".join([*parts, text[done:]])


class _Word(NamedTuple):
    folded: str
    start: int
    end: int


def _words(text: str) -> list[_Word]:
    words = [_Word(_fold(match.group()), *match.span()) for match in _WORD.finditer(text)]
    return [word for word in words if word.folded]


def _fold(word: str) -> str:
    if word.isascii():
        return word.lower()
    parts = unicodedata.normalize("NFKD", word.casefold())
    return "".join(part for part in parts if unicodedata.category(part) not in ("Mn", "Cf"))


class _Secret(NamedTuple):
    """The words of a reference, and its sentences.

    Args:
        whole: All words of the reference.
        sentences: Last words of the sentences, by the number of words and by the words with the last one stemmed.
    """

    whole: tuple[str, ...]
    sentences: dict[int, dict[tuple[str, ...], list[str]]]


@lru_cache(maxsize=16)
def _secret(reference: str) -> _Secret:
    texts = _SENTENCE_END.split(reference)
    sentences = [tuple(filter(None, map(_fold, _WORD.findall(text)))) for text in texts]
    whole = tuple(chain.from_iterable(sentences))
    last_words: dict[int, dict[tuple[str, ...], list[str]]] = {}
    for piece in sorted({*filter(None, [whole]), *filter(_is_distinctive, sentences)}, key=len, reverse=True):
        last_words.setdefault(len(piece), {}).setdefault(_stem_last(piece), []).append(piece[-1])
    return _Secret(whole, last_words)


def _is_distinctive(sentence: tuple[str, ...]) -> bool:
    letters = "".join(sentence)
    return len(letters) > (2 if letters.isascii() and letters.isalpha() else 1)


def _stem_last(words: tuple[str, ...]) -> tuple[str, ...]:
    return (*words[:-1], words[-1][:_STEM])


def _match_length(secret: _Secret, words: tuple[str, ...], position: int) -> int:
    """Return how many words from a position on match the secret, also where the text is truncated; 0 for none."""
    for length, sentences in secret.sentences.items():
        if position + length <= len(words):
            candidate = words[position : position + length]
            if any(_same_stem(candidate[-1], last) for last in sentences.get(_stem_last(candidate), ())):
                return length
    if words[position] != secret.whole[0]:
        return 0
    *complete, truncated = words[position:]
    count = len(complete)
    begins = count >= _BEGINNING and secret.whole[:count] == tuple(complete)
    return count + 1 if begins and "".join(secret.whole[count:][:1]).startswith(truncated) else 0


def _same_stem(word: str, secret_word: str) -> bool:
    longer = len(word) - len(secret_word)
    return word == secret_word or (
        len(secret_word) >= _STEM and longer <= _ENDING and word.startswith(secret_word)
    )
