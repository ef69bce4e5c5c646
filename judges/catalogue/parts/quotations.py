"""Finding quotations in a text, in the quotation marks of many scripts."""

from __future__ import annotations

import re
from typing import NamedTuple
from unicodedata import normalize

_LETTER = r"[^\W_]"
_PARAGRAPH = r"\n[^\S\n]*\n"
_BEGINS = r"(?=[^\s.,;:!?)\]»›])"


class _Kind(NamedTuple):
    """A kind of quotation: its opening mark, and alternative patterns for its end, tried in turn."""

    opens: re.Pattern[str]
    ends: tuple[re.Pattern[str], ...]


def _kind(opens: str, closes: str, *, instead: str = "", ends: str = _PARAGRAPH) -> _Kind:
    """Return a kind that ends at its closing mark, another opening or `ends`; `instead` may also close it."""
    patterns = (f"(?P<closes>{mark})|{opens}|{ends}" for mark in (closes, instead) if mark)
    return _Kind(re.compile(opens), tuple(map(re.compile, patterns)))


_STRAIGHT = _Kind(
    re.compile(r"(?<!\d)[\"＂]"),  # after a number it means inches
    (re.compile(r"(?P<closes>[\"＂”])|“|\n"), re.compile(r"(?P<closes>[\"＂])|\n")),
)
_KINDS = (
    _STRAIGHT,
    _kind("[“〝]", "[”〞]", instead='"'),
    _kind("„", "[“”]", instead='"'),
    _kind(r"(?<!\w)”(?=\S)", r"(?<=\S)”"),  # Swedish and Finnish
    _kind(rf"(?<!\w)»{_BEGINS}", r"(?<=\S)[«»](?!\w)"),  # German and Danish
    _kind("«", "»"),
    _kind(rf"(?<!\w)›{_BEGINS}", r"(?<=\S)[‹›](?!\w)"),
    _kind("‹", "›"),
    _kind("「", "」"),
    _kind("『", "』"),
    _kind("《", "》"),
    _kind("﹁", "﹂"),
    _kind(r"(?<!\w)״(?=\S)", r"(?<=\S)״(?!\w)"),  # Hebrew
    _kind("‚", rf"[‘’](?!{_LETTER})"),
    _kind(rf"(?<!{_LETTER})[‘'](?=\S)", rf"(?<=\S)[’'](?!{_LETTER})", ends=r"\n"),  # no apostrophe in a word
)
_OPENING = re.compile("|".join(f"({kind.opens.pattern})" for kind in _KINDS))
_MARKS = re.compile("[“”„«»‹›「」『』《》〝〞﹁﹂״＂\"‘’‚']")
_OMISSION = re.compile(r" ?[\[(（]? ?(?:\.{3,}|…+) ?[\])）]? ?")
_ENDS = " .,;:!?。，；：！？、"
_HAN = r"\u3001-\u303f\u3040-\u30ff\u3400-\u9fff\uff01-\uff65"
_BLANK_IN_CHINESE = re.compile(rf"(?<=[{_HAN}]) | (?=[{_HAN}])")


def quotations(text: str) -> tuple[str, ...]:
    """Return the texts between quotation marks, outermost ones only.

    Apostrophes inside words and inch signs are not quotation marks. A quotation ends within its paragraph, and one
    in straight marks within its line.
    """
    quoted: list[str] = []
    place = 0
    while opening := _OPENING.search(text, place):
        place = opening.end()
        kind = _KINDS[(opening.lastindex or 1) - 1]
        matches = (pattern.search(text, place) for pattern in kind.ends)
        closing = next((match for match in matches if match and match["closes"]), None)
        if closing is not None:
            quoted.append(text[place : closing.start()].strip())
            place = closing.end()
    return tuple(quotation for quotation in quoted if quotation)


def plain_text(text: str, *, casefold: bool = True) -> str:
    """Return a text without quotation marks, width-normalised, with single blanks, and none beside Chinese."""
    text = normalize("NFKC", _MARKS.sub("", text))
    text = _BLANK_IN_CHINESE.sub("", " ".join(text.split()))
    return text.casefold() if casefold else text


def occurs_in(quotation: str, source: str, *, casefold: bool = True) -> bool:
    """Whether a quotation occurs in a text from `plain_text`; parts around `...` must occur in order."""
    begin = 0
    for part in _OMISSION.split(plain_text(quotation, casefold=casefold)):
        words = part.strip(_ENDS)
        place = source.find(words, begin)
        if place < 0:
            return False
        begin = place + len(words)
    return True
