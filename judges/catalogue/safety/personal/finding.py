"""What is found: its kind and its place, never its text."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args
from unicodedata import normalize

from judges.entry import own_tables

Kind = Literal[
    "private_key",
    "api_key",
    "token",
    "password",
    "iban",
    "card",
    "email",
    "national_id",
    "passport",
    "phone",
    "ip_address",
    "name",
    "address",
]
"""The kinds of personal data and secrets; of two that overlap the one listed first counts."""

KINDS: tuple[Kind, ...] = get_args(Kind)
BY_MODEL: frozenset[Kind] = frozenset(("name", "address"))
"""The kinds that no rule finds, only a model."""

UNLESS_SAID: frozenset[Kind] = frozenset(KINDS) - {"ip_address"}
"""The kinds that are looked for unless others are given: most addresses on networks are those of servers."""


@dataclass(frozen=True)
class Finding:
    """One item of personal data or one secret.

    Args:
        kind: What it is: one of `KINDS`, or the name of a pattern of one's own.
        start: Index of its first character in the text.
        end: Index behind its last character.
        country: ISO code of the country that issues it; empty where there is none.
    """

    kind: str
    start: int
    end: int
    country: str = ""

    def __len__(self) -> int:
        return self.end - self.start


_SENTENCE_END = re.compile(r"[!?。](?!\w)|。|\.\s+(?=[^\W\d_][a-zа-яё\u00df-\u00ff])|\n\s*\n")
_IGNORED = {"\u00ad", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u200e", "\u200f"}
_BEFORE = 60
"""Most characters between the start of a sentence and a place in it."""
_AFTER = 32
"""Most characters between a place and the end of its sentence."""


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


_WORDS = own_tables(__file__, "words.toml")
PHONE, REACH, CARD, _OTHER = (str(_WORDS[kind]) for kind in ("phone", "reach", "card", "other"))

QUANTITY = re.compile(
    r"\s*(?:%|€|\$|£|¥|₽|₹|元|円|원|人|次|个|米|公里|euros?|eur|usd|d[oó]lares|dollars?|pesos|reais|"
    r"руб\w*|рубл\w*|человек|тысяч\w*|миллион\w*|habitants?|habitantes|personas|people|users|km|kg|mb|gb|bytes|"
    r"einwohner|millones|millions?|unidades|units|штук\w*|шт\b|год\w*|лет\b|years)"
)
"""What may follow a number that counts something."""


_LETTERS = "A-Za-z0-9_\u00b5-\u06ff\u0900-\u0dff\u1e00-\u1fff"
"""What a word consists of, in scripts that separate words by blanks."""

_NEAR = 6
"""Most characters between a label and what it is the label of."""
_NEAR_WINDOW = 40
"""Characters before a place in which a label is looked for."""
_NUMBER = re.compile(r"\d{3}")
"""Between a label and a number: the label is that of another number."""


@lru_cache(maxsize=512)
def _pattern_of(words: str) -> re.Pattern[str]:
    """Return the pattern of words separated by bars; a trailing `*` stands for any ending.

    Words of scripts written without blanks are found anywhere.
    """
    longest_first = sorted(set(normalize("NFKC", words).split("|")) - {""}, key=lambda word: (-len(word), word))
    return re.compile("|".join(map(_one_word, longest_first)))


def _one_word(word: str) -> str:
    body = re.escape(word.removesuffix("*"))
    if re.match(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]", word):
        return body
    return rf"(?<![{_LETTERS}]){body}" + (rf"[{_LETTERS}]*" if word.endswith("*") else rf"(?![{_LETTERS}])")


@lru_cache(maxsize=8)
def words(kind: str) -> frozenset[str]:
    """Return the words of a kind that `words.toml` lists between blanks."""
    return frozenset(_WORDS[kind].split())


class Labels:
    """Where labels stand in a text; each set of words is searched for once.

    Args:
        plain: The text.
    """

    def __init__(self, plain: Plain) -> None:
        self._plain = plain
        self._places: dict[str, tuple[list[int], list[int]]] = {}

    def any(self, listed: str) -> bool:
        """Return whether one of the words stands anywhere in the text."""
        return bool(self._places_of(listed)[0])

    def names(self, listed: str, start: int, end: int) -> bool:
        """Return whether the nearest label before a number is one of the words, or one stands right behind it."""
        sentence, line = self._plain.sentence_start(start), self._plain.line_start(start)
        other_place = self._last(_OTHER, line, start)
        listed_place = self._last(listed, line, start)
        if listed_place >= 0 or other_place >= 0:
            return listed_place >= other_place
        return self._last(listed, sentence, start) >= 0 or self._first_behind(listed, end)

    def stands_at(self, listed: str, start: int) -> bool:
        """Return whether one of the words stands right before a number, with no other word between."""
        return self._last(listed, max(0, start - _NEAR_WINDOW), start) >= start - _NEAR

    def names_other(self, start: int, *listed: str) -> bool:
        """True if the nearest label before a number says that it is something else, such as an order's number."""
        line = self._plain.line_start(start)
        other = self._last(_OTHER, line, start)
        if other < 0 or _NUMBER.search(self._plain.text, other, start):
            return False
        return all(self._last(one, line, start) < other for one in listed)

    def _last(self, listed: str, first: int, last: int) -> int:
        """Return where the last of the words between two places ends; -1 if none is there."""
        starts, ends = self._places_of(listed)
        place = bisect_right(ends, last) - 1
        return ends[place] if place >= 0 and starts[place] >= first else -1

    def _first_behind(self, listed: str, end: int) -> bool:
        starts, ends = self._places_of(listed)
        place = bisect_left(starts, end)
        return place < len(starts) and ends[place] <= self._plain.sentence_end(end)

    def _places_of(self, listed: str) -> tuple[list[int], list[int]]:
        """Return where the words start, and where they end."""
        if listed not in self._places:
            spans = [match.span() for match in _pattern_of(listed).finditer(self._plain.folded)]
            self._places[listed] = [start for start, _ in spans], [end for _, end in spans]
        return self._places[listed]
