"""Finding quotations in a text, in the quotation marks of many scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator

_PAIRS = ("“”", "„“”", "«»", "‹›", "「」", "『』", "《》", "〝〞", "﹁﹂")
_KINDS = (
    *((re.compile(f"[{pair[0]}]"), re.compile(f"[{pair[1:]}]")) for pair in _PAIRS),
    (re.compile('["＂]'), re.compile('["＂]')),
    (re.compile(r"(?<![^\W_])[‘'](?=\S)"), re.compile(r"(?<=\S)[’'](?![^\W_])")),  # no apostrophe inside a word
)
_MARKS = re.compile("[“”„«»‹›「」『』《》〝〞﹁﹂＂\"‘’']")
_OMISSION = re.compile(r" ?[\[(（]? ?(?:\.{3,}|…+) ?[\])）]? ?")
_ENDS = " .,;:!?。，；：！？、"
_HAN = r"\u3001-\u303f\u3040-\u30ff\u3400-\u9fff\uff01-\uff65"
_BLANK_IN_CHINESE = re.compile(rf"(?<=[{_HAN}]) | (?=[{_HAN}])")


def quotations(text: str) -> tuple[str, ...]:
    """List what stands between quotation marks, outermost ones only.

    Apostrophes inside words are no marks, and no quotation crosses the end of a line.
    """
    spans = [span for kind in _KINDS for span in _between(text, *kind)]
    found = sorted(spans, key=lambda span: (span[0], -span[1]))
    outermost: list[str] = []
    reached = -1
    for begin, end in found:
        if begin > reached:
            outermost.append(text[begin:end].strip())
            reached = end
    return tuple(one for one in outermost if one)


def _between(text: str, opens: re.Pattern[str], closes: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Give where each quotation of one kind begins and ends; a mark that opens again begins anew."""
    begun = -1
    for mark in re.finditer(f"{opens.pattern}|{closes.pattern}|\n", text):
        if begun >= 0 and closes.match(text, mark.start()):
            yield begun, mark.start()
            begun = -1
        elif mark.group() == "\n":
            begun = -1
        elif opens.match(text, mark.start()):
            begun = mark.end()


def plain(text: str, *, casefold: bool = True) -> str:
    """Write a text without quotation marks, with single blanks, and none beside Chinese characters."""
    text = _BLANK_IN_CHINESE.sub("", " ".join(_MARKS.sub("", text).split()))
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
