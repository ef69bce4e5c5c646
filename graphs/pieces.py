"""Pieces of an answer: stretches that are judged and released as one, split as it is written; and their judges.

Blocks of Markdown come first: a fenced code block, a table, a display formula, a list item and a heading stay
whole; only the text of paragraphs is split, into sentences. A piece ends where the next one begins, so that "3."
may still become "3.5"; the white space between two pieces belongs to the second. Pieces joined are the answer,
character for character, and they are the same however the answer was cut into chunks: each end of a piece depends
on the text before it, and on the word after it, alone. They are judged in `piece_loop`, by what `piece_release`
decides.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, TypedDict

from graphs.overrides import Bounds
from graphs.policy import Policy
from judges.compose.panel import Panel
from judges.errors import ConfigurationError
from judges.judge import Judge

_Kind = Literal["paragraph", "item", "heading", "table", "fence", "formula"]

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_DECIDED = 12
"""Characters of a line, without its indentation, that tell which block it begins."""

_FENCE = re.compile(r"(`{3,}|~{3,})")
_ITEM = re.compile(r"(?:[-*+•]|\d{1,9}[.)])(?:\s|$)")
_HEADING = re.compile(r"#{1,6}(?:\s|$)")
_FORMULA = {"$$": "$$", "\\[": "\\]", "\\begin{": "\\end{"}

_UNSPACED = "。！？｡"
"""Marks after which no white space has to follow."""

_END = re.compile(r"[.!?…‽։؟۔।॥。！？｡]+[\"'”’»›」』）】》)\]}*_`]*")
"""Where a sentence may end: marks, and what closes after them."""

_BLANK = re.compile(r"\s")
_DECIDING = re.compile(rf"[\s{_UNSPACED}]")
"""What a chunk has that ends a word; nothing is decided within one, unless it is very long."""

_WORD = 24
"""Characters of the word after an end that are waited for, at most."""

_OPENING = "([{“«「『（【《"
_CLOSING = ")]}”»」』）】》"
_INITIAL = re.compile(r"(?:^|[\s(«“\"'.])[^\W\d_]\.$")
_SCRIPTS = (
    ("ar", "\u0600", "\u06ff"),
    ("ru", "\u0400", "\u04ff"),
    ("zh", "\u4e00", "\u9fff"),
    ("hi", "\u0900", "\u097f"),
)
_LONG_SENTENCE = 400
"""Characters after which a bracket or a quotation mark that is still open holds a sentence no longer."""

_JOINER = "\u200d"


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of Markdown, as far as it was read.

    Args:
        kind: Its kind.
        closing: What closes a fence or a formula.
        is_inside: Whether the line that opens such a block is over.
    """

    kind: _Kind
    closing: str = ""
    is_inside: bool = False


_PARAGRAPH = _Block("paragraph")


class _Undecided(Exception):  # noqa: N818 - what the text is so far
    """Whether a piece ends at a place depends on text that is still to come."""


class PieceSplitter:
    """Splits one answer, chunk by chunk.

    Args:
        least: Characters below which a piece takes the next sentence or block with it.
        most: Characters above which a piece is cut, at the end of a line or of a word.
        block: The block in which the text goes on; None where it begins one.
    """

    def __init__(self, *, least: int, most: int, block: _Block | None = None) -> None:
        self._least = max(1, least)
        self._most = max(self._least, most)
        self._text = ""
        self._open: _Block | None = block

    def feed(self, chunk: str) -> list[str]:
        """Return the pieces that are whole now."""
        self._text += chunk
        if len(self._text) <= self._least or not (_DECIDING.search(chunk) or len(self._text) > self._most):
            return []
        return list(self._pieces(is_final=False))

    def close(self) -> list[str]:
        """Return the pieces that are left at the end of the answer."""
        pieces = list(self._pieces(is_final=True))
        rest, self._text = self._text, ""
        return [*pieces, rest] if rest else pieces

    def _pieces(self, *, is_final: bool) -> Iterator[str]:
        while True:
            try:
                cut = self._first_cut(is_final=is_final)
            except _Undecided:
                return
            if cut is None:
                return
            end, self._open = cut
            piece, self._text = self._text[:end], self._text[end:]
            yield piece

    def _first_cut(self, *, is_final: bool) -> tuple[int, _Block | None] | None:
        """Return where the first piece ends, and the block that is open there; None where it goes on."""
        text, block = self._text, self._open
        for line in _LINE.finditer(text):
            start, content = line.start(), line[0]
            if start > self._most:
                break
            if block is not None and block.kind in ("fence", "formula"):
                cut = self._cut_before(start, block)
            elif not content.strip():
                block = None if content.endswith("\n") else block
                continue
            else:
                begun = block if block is not None and not start else _block_of(content, block, is_final=is_final)
                if begun is not block and self._suffices(start):
                    return len(text[:start].rstrip()), None
                block = begun
                cut = self._cut_in_line(start, line.end(), block, is_final=is_final)
            if cut is not None:
                return cut
            block = _after_line(content, block)
        return self._cut_anywhere(block)

    def _suffices(self, end: int) -> bool:
        return len(self._text[:end].strip()) >= self._least

    def _cut_in_line(self, start: int, end: int, block: _Block, *, is_final: bool) -> tuple[int, _Block] | None:
        """Return the end of the first sentence in a line that makes a piece; None where there is none."""
        if block.kind == "paragraph":
            for place in _END.finditer(self._text, start, end):
                cut = place.end()
                if cut > self._most:
                    break
                if self._suffices(cut) and self._ends_sentence(place, is_final=is_final):
                    return cut, block
        return self._cut_before(start, block)

    def _cut_before(self, start: int, block: _Block) -> tuple[int, _Block] | None:
        """Return the end of the lines before `start`, if with the next line the piece would be too long."""
        text = self._text
        ended, end = text.find("\n", start), len(text[:start].rstrip())
        is_long = (len(text) if ended < 0 else ended) > self._most
        return (end, block) if is_long and end and text[end:].strip() else None

    def _cut_anywhere(self, block: _Block | None) -> tuple[int, _Block | None] | None:
        """Return the end of a word, or else of a character, in a text that is too long and has no other end."""
        text, most = self._text, self._most
        if len(text) <= most or not text[:most].strip():
            return None
        blank = max((place.start() for place in _BLANK.finditer(text, 0, most)), default=0)
        end = len(text[:blank].rstrip()) or most
        while end > 1 and (_joins(text[end]) or text[end - 1] == _JOINER):
            end -= 1
        return (end, block) if text[end:].strip() else None

    def _ends_sentence(self, place: re.Match[str], *, is_final: bool) -> bool:
        """Check whether a sentence ends there, by the word that follows.

        Raises:
            _Undecided: If that word is still to come.
        """
        text, cut = self._text, place.end()
        after = cut + len(text[cut:]) - len(text[cut:].lstrip())
        if after == len(text):
            if is_final:
                return False
            raise _Undecided
        is_unspaced = any(mark in _UNSPACED for mark in place[0])
        if after == cut and (not is_unspaced or place[0][-1] in _CLOSING):  # “好。”她说。 goes on
            return False
        blank = _BLANK.search(text, after, after + _WORD)
        if blank is None and len(text) < after + _WORD and not is_final:
            raise _Undecided
        return _is_end(text[:cut], text[cut:after], text[after : blank.start() if blank else after + _WORD])


def _split(text: str, *, least: int, most: int) -> list[str]:
    """Return the pieces of a whole answer."""
    splitter = PieceSplitter(least=least, most=most)
    return [*splitter.feed(text), *splitter.close()]


def open_block(text: str) -> _Block | None:
    """Return the fence or the formula that is still open at the end of a text; None where none is."""
    block: _Block | None = None
    for line in _LINE.finditer(text):
        is_open = block is not None and block.kind in ("fence", "formula")
        if not is_open:
            block = _block_of(line[0], block, is_final=True) if line[0].strip() else None
        block = _after_line(line[0], block)
    return block if block is not None and block.kind in ("fence", "formula") else None


def _block_of(line: str, before: _Block | None, *, is_final: bool) -> _Block:
    """Return the block of a line; `before` itself where the line goes on with that.

    Raises:
        _Undecided: If the line is still too short to tell.
    """
    content = line.strip()
    if len(line.lstrip()) < _DECIDED and not line.endswith("\n") and not is_final:
        raise _Undecided
    beginning = content[:_DECIDED]
    if fence := _FENCE.match(beginning):
        return _Block("fence", fence[1])
    for opening, closing in _FORMULA.items():
        if beginning.startswith(opening):
            return _Block("formula", closing)
    if beginning.startswith("|"):
        return before if before is not None and before.kind == "table" else _Block("table")
    if _ITEM.match(beginning):
        return _Block("item")
    if _HEADING.match(beginning):
        return _Block("heading")
    return before if before is not None and before.kind in ("paragraph", "item") else _Block("paragraph")


def _after_line(line: str, block: _Block | None) -> _Block | None:
    """Return the block that is open after a line; None where the next line begins one."""
    if block is None or not line.endswith("\n"):
        return block
    content = line.strip()
    match block.kind:
        case "heading":
            return None
        case "fence" if block.is_inside:
            closes = set(content) == {block.closing[0]} and len(content) >= len(block.closing)
            return None if closes else block
        case "fence":  # a backtick after the first ones makes it code in a line, which opens no block
            is_inline = block.closing[0] == "`" and "`" in content.lstrip("`")
            return _PARAGRAPH if is_inline else replace(block, is_inside=True)
        case "formula":
            closes = content.find(block.closing, 0 if block.is_inside else len(block.closing)) >= 0
            return None if closes else replace(block, is_inside=True)
        case _:
            return block


def _is_end(before: str, blank: str, word: str) -> bool:
    """Check whether a sentence ends between two texts.

    Args:
        before: The text of the piece up to there.
        blank: The white space between.
        word: The first word after it.
    """
    if _joins(word[0]) or word[0].islower() or word[0] in "—–":
        return False
    if _INITIAL.search(before[-3:]):
        return False
    is_open = sum(map(before.count, _OPENING)) > sum(map(before.count, _CLOSING)) or before.count('"') % 2
    if is_open and len(before) < _LONG_SENTENCE:
        return False
    context = f"{before[-_LONG_SENTENCE:]}{blank}"
    place, opened = 0, word.lstrip(f"{_OPENING}\"'") or word  # an open quotation would hold what is before it
    whole = f"{context}{opened}".encode(errors="replace").decode()  # half a character ends the segmenter
    for part in _segmenter()(_language_of(context), whole):
        place += len(part)
        if len(context) - len(blank) <= place <= len(context):
            return True
    return False


def _language_of(text: str) -> str:
    """Return the language whose abbreviations count, by the script."""
    for language, first, last in _SCRIPTS:
        if any(first <= character <= last for character in text):
            return language
    return "en"


def _joins(character: str) -> bool:
    """Check whether a character is part of what stands before it: an accent, a skin tone, a joined emoji."""
    is_tone = "\U0001f3fb" <= character <= "\U0001f3ff" or "\U0001f1e6" <= character <= "\U0001f1ff"
    return is_tone or character == _JOINER or unicodedata.category(character).startswith("M")


@cache
def _segmenter() -> Callable[[str, str], Any]:
    try:
        from sentencex import segment  # noqa: PLC0415 - an extra, opened with the first piece
    except ImportError as error:
        raise ConfigurationError(
            "release='pieces' splits answers into sentences: install selfrefine[pieces]"
        ) from error
    split_sentences: Callable[[str, str], Any] = segment
    return split_sentences


def _check_installed() -> None:
    """Check that sentences can be split here.

    Raises:
        ConfigurationError: If the extra is missing.
    """
    _segmenter()


def may_release_pieces(
    policy: Policy, bounds: Bounds | None, piece_judge: object = None, questions: object = None
) -> bool:
    """Check whether a loop, or a request to it, releases pieces.

    Raises:
        ConfigurationError: If it does not, and there is a judge of pieces; or if questions are judged, too.
    """
    may = "pieces" in (policy.release, None if bounds is None else bounds.release)
    if may and questions is not None:
        raise ConfigurationError(
            "release='pieces' lets pieces out before a judge of the question is heard; judge questions before the "
            "loop, or leave one of the two out"
        )
    if piece_judge is not None and not may:
        raise ConfigurationError("piece_judge is for release='pieces'; set that too, or leave it out")
    return may


def judges_of_pieces(judge: Judge, piece_judge: Judge | None = None) -> _PieceJudges:
    """Return the judge of pieces, and the one that closes.

    Args:
        judge: The whole judge. Of a panel that is as strict as its strictest member, the members that hold for a
            part judge pieces, and the others close.
        piece_judge: What judges pieces, outright; the whole judge then closes, unless it is the same.

    Raises:
        ConfigurationError: If none of them judges parts.
    """
    _check_installed()
    if piece_judge is not None:
        return _PieceJudges(piece_judge=piece_judge, closing_judge=None if piece_judge is judge else judge)
    if judge.judges_parts:
        return _PieceJudges(piece_judge=judge, closing_judge=None)
    members = judge.judges if isinstance(judge, Panel) and judge.is_strict else {}
    parts = {name: one for name, one in members.items() if one.judges_parts}
    others = {name: one for name, one in members.items() if name not in parts}
    if not parts:
        raise ConfigurationError(
            f"release='pieces' needs a judge that holds for a part of an answer, and {judge.name!r} is none; give "
            f"one beside it, a list such as [{judge.name!r}, 'safety'], or name a piece_judge"
        )
    return _PieceJudges(piece_judge=_panel(parts, judge), closing_judge=_panel(others, judge) if others else None)


def _panel(members: Mapping[str, Judge], around: Judge) -> Judge:
    return next(iter(members.values())) if len(members) == 1 else Panel(members, name=around.name)


class _PieceJudges(TypedDict):
    """The judges of a loop that releases pieces.

    Attributes:
        piece_judge: Judges pieces.
        closing_judge: Judges the whole; None where nothing is left to judge.
    """

    piece_judge: Judge
    closing_judge: Judge | None
