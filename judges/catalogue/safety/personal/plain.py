"""Text as the rules read it: one form of each digit, dash and blank, with the places in the original."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from functools import lru_cache

_SENTENCE_END = re.compile(r"[!?。](?!\w)|。|\.\s+(?=[^\W\d_][a-zа-яё\u00df-\u00ff])|\n\s*\n")
_IGNORED = {"\u00ad", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u200e", "\u200f"}
_BEFORE, _AFTER = 60, 32


class Plain:
    """A text in plain form: NFKC, decimal digits as 0 to 9, any dash as `-`, any blank as a space, none invisible.

    Args:
        text: The original.

    Attributes:
        text: The plain form.
        folded: The plain form in lower case, of the same length.
    """

    def __init__(self, text: str) -> None:
        self._starts: list[int] | None = None
        self._length = len(text)
        if text.isascii():
            self.text = text
        else:
            parts = [_plain_form(character) for character in text]
            self.text = "".join(parts)
            self._starts = _starts_of(parts)
        self.folded = "".join(character.lower()[:1] for character in self.text)

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return the place in the original for a place in the plain form."""
        if self._starts is None:
            return start, end
        return self._index(start), self._index(end - 1) + 1

    def before(self, start: int) -> str:
        """Return what stands before a place in its sentence, in lower case, at most 60 characters."""
        first = max(0, start - _BEFORE)
        ends = [match.end() for match in _SENTENCE_END.finditer(self.text, first, start)]
        return self.folded[ends[-1] if ends else first : start]

    def after(self, end: int) -> str:
        """Return what stands behind a place in its sentence, in lower case, at most 32 characters."""
        match = _SENTENCE_END.search(self.text, end, end + _AFTER)
        return self.folded[end : match.start() if match else end + _AFTER]

    def _index(self, place: int) -> int:
        """Return the index of the original character from which the plain one at `place` comes."""
        starts = self._starts or []
        return bisect_right(starts, place) - 1


def _starts_of(parts: list[str]) -> list[int]:
    """Return where the plain form of each original character starts."""
    starts, place = [], 0
    for part in parts:
        starts.append(place)
        place += len(part)
    return starts


@lru_cache(maxsize=8192)
def _plain_form(character: str) -> str:
    if character in _IGNORED:
        return ""
    if character.isascii():
        return character
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category == "Pd" or character in "−":
        return "-"
    if category == "Zs":
        return " "
    return unicodedata.normalize("NFKC", character)
