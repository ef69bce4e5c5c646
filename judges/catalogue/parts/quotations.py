"""Finding quotations in a text, in the quotation marks of many scripts."""

from __future__ import annotations

import re
from typing import NamedTuple
from unicodedata import normalize

_LETTER = r"[^\W_]"
_PARAGRAPH = r"\n[^\S\n]*\n"
_BEGINS = r"(?=[^\s.,;:!?)\]»›])"


class _Kind(NamedTuple):
    """A kind of quotation: the mark that opens it, and in which ways it may go on, to be tried in turn."""

    opens: re.Pattern[str]
    goes_on: tuple[re.Pattern[str], ...]


def _kind(opens: str, closes: str, *, instead: str = "", ends: str = _PARAGRAPH) -> _Kind:
    """Make a kind that closes, opens anew or is given up; without its closing mark another may stand `instead`."""
    ways = (f"(?P<closes>{one})|{opens}|{ends}" for one in (closes, instead) if one)
    return _Kind(re.compile(opens), tuple(map(re.compile, ways)))


_STRAIGHT = _Kind(
    re.compile(r"(?<!\d)[\"＂]"),  # after a number it stands for inches
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
    """List what stands between quotation marks, outermost ones only.

    Apostrophes inside words are no marks, nor are inches. No quotation crosses the end of a paragraph, and one in
    straight marks not that of a line.
    """
    found: list[str] = []
    place = 0
    while opening := _OPENING.search(text, place):
        place = opening.end()
        kind = _KINDS[(opening.lastindex or 1) - 1]
        closing = next((one for way in kind.goes_on if (one := way.search(text, place)) and one["closes"]), None)
        if closing is not None:
            found.append(text[place : closing.start()].strip())
            place = closing.end()
    return tuple(one for one in found if one)


def plain(text: str, *, casefold: bool = True) -> str:
    """Write a text without quotation marks, in one width, with single blanks; none beside Chinese characters."""
    text = normalize("NFKC", _MARKS.sub("", text))
    text = _BLANK_IN_CHINESE.sub("", " ".join(text.split()))
    return text.casefold() if casefold else text


def stands_in(quotation: str, source: str, *, casefold: bool = True) -> bool:
    """Tell whether a quotation stands in a text that `plain` wrote; parts around `...` in their order."""
    begin = 0
    for part in _OMISSION.split(plain(quotation, casefold=casefold)):
        wanted = part.strip(_ENDS)
        place = source.find(wanted, begin)
        if place < 0:
            return False
        begin = place + len(wanted)
    return True
