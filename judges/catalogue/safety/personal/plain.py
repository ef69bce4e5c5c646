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

    def sentence_start(self, place: int) -> int:
        """Return where the sentence of a place starts, at most 60 characters before it."""
        first = max(0, place - _BEFORE)
        return max((match.end() for match in _SENTENCE_END.finditer(self.text, first, place)), default=first)

    def line_start(self, place: int) -> int:
        """Return where the line of a place starts, within its sentence; at its beginning, the line before."""
        first = self.sentence_start(place)
        line = self.text.rfind("\n", first, place) + 1
        return line if line > first and self.text[line:place].strip() else first

    def sentence_end(self, place: int) -> int:
        """Return where the sentence of a place ends, at most 32 characters behind it."""
        match = _SENTENCE_END.search(self.text, place, place + _AFTER)
        return match.start() if match else min(len(self.text), place + _AFTER)

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
    if category == "Pd" or character == "\N{MINUS SIGN}":
        return "-"
    if category == "Zs":
        return " "
    return unicodedata.normalize("NFKC", character)
