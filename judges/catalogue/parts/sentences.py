"""Splitting a text into sentences without a model, in scripts with and without blanks."""

from __future__ import annotations

import re

_ABBREVIATIONS = (
    "mr|mrs|ms|dr|prof|sr|jr|st|vs|etc|e\\.g|i\\.e|approx|no|vol|fig|inc|ltd|co|corp|u\\.s|u\\.k|a\\.m|p\\.m|"
    "т\\.е|т\\.к|т\\.д|т\\.п|г|гг|ул|рис|см|др|пр"
)
_ENDS = re.compile(
    r"(?<=[。！？；])[\"'”’」』）)]*"  # full-width ends need no blank after them
    r"|(?<=[.!?…؟۔।])[\"'”’»)\]]*\s+(?=[^\s\da-zа-яё])"  # a lower-case letter or a digit does not begin a sentence
    r"|\n+"
)
_ABBREVIATED = re.compile(rf"(?:^|[\s(\"'«])(?:{_ABBREVIATIONS}|[A-ZА-ЯЁ])\.$", re.IGNORECASE)


def sentences(text: str) -> tuple[str, ...]:
    """Split a text into sentences: at full stops, question and exclamation marks of any script, and line ends.

    Common abbreviations and initials (`Dr.`, `e.g.`, `J. Smith`) do not end a sentence, nor do decimal points.
    """
    parts: list[str] = []
    start = 0
    for end in _ENDS.finditer(text):
        piece = text[start : end.end()].strip()
        if "\n" not in end.group() and _ABBREVIATED.search(piece):
            continue
        parts.append(piece)
        start = end.end()
    parts.append(text[start:].strip())
    return tuple(part for part in parts if any(character.isalnum() for character in part))
