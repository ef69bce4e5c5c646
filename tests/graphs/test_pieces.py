"""Pieces of an answer: blocks whole, sentences in paragraphs, the same whatever the chunks."""

from __future__ import annotations

import random
import unicodedata

import pytest

from graphs.pieces import PieceSplitter, split

_SENTENCES = {
    "en": (
        "Dr. Smith paid $3.50 for 2.5 kg, i.e. a lot.",
        "Why not?",
        'He said "Go. Now." and left.',
        "Yes.",
        "See U.S. law (Sec. 3. Here).",
    ),
    "zh": ("他来了。", "真的吗？", "“好的。我知道。”她说。", "版本 3.5 已发布！"),
    "ru": ("Т. е. это так.", "«Где ты?» — спросила она.", "А. С. Пушкин жил здесь.", "Да!"),
    "ar": ("كيف حالك؟", "أنا بخير، شكرا لك.", "وصل الدكتور أحمد."),
    "emoji": ("Well done 👩🏽‍🚀! 🇩🇪🇫🇷 won.", "Cafe\u0301 is open. 👍🏿", "❤️ it."),
}
_BLOCKS = (
    "```python\nif a. B:\n    x = 1\n\nprint('Done. Bye')\n```",
    "~~~\n``` Not. The end\n~~~",
    "| a | b |\n|---|---|\n| 1. | Yes. No. |\n| 2 | 三。四 |",
    "$$\na = b. C\n$$",
    "\\[ x. Y \\]",
    "\\begin{align}\na &= 1. B\n\\end{align}",
    "# A heading. Of two",
    "1. First. Item here\n2. Second item\n   goes on. Here\n- another",
    "Inline `code. Here` and ```more. Code``` too.",
    "> A quotation. Of two.",
    "x" * 90,
)


def _answer(seed: int) -> str:
    """Make a random answer of paragraphs and blocks, with any line ends between them."""
    pick = random.Random(seed)
    parts = []
    for _ in range(pick.randint(1, 4)):
        language = pick.choice(tuple(_SENTENCES))
        joint = "" if language == "zh" else pick.choice((" ", "  ", "\n"))
        paragraph = joint.join(pick.choices(_SENTENCES[language], k=pick.randint(1, 6)))
        parts.append(pick.choice((paragraph, paragraph, pick.choice(_BLOCKS))))
    text = pick.choice(("\n\n", "\n", "\r\n\r\n")).join(parts)
    return pick.choice(("", "", "\n", "  ")) + text + pick.choice(("", "", "\n", " \n"))


def _chunked(text: str, seed: int, *, least: int, most: int) -> list[str]:
    """Split a text that comes in random chunks, empty ones among them."""
    pick, splitter, pieces, place = random.Random(seed), PieceSplitter(least=least, most=most), [], 0
    longest = pick.choice((1, 3, 10, 60))
    while place < len(text):
        size = pick.randint(0, longest)
        pieces += splitter.feed(text[place : place + size])
        place += size
    return [*pieces, *splitter.close()]


def _joins(start: str) -> bool:
    """Tell whether a piece begins in the midst of a character."""
    return start == "\u200d" or (start != "" and unicodedata.category(start).startswith("M"))


def test_thousand_answers_in_random_chunks() -> None:
    """Pieces joined are the answer, the same whatever the chunks, none without text, no character is cut."""
    offenders = []
    for seed in range(1_000):
        text = _answer(seed)
        least, most = random.Random(seed).choice(((80, 2_000), (80, 200), (1, 2_000), (1, 20)))
        pieces = split(text, least=least, most=most)
        whole = [piece.strip() for piece in pieces]
        starts = [piece.lstrip()[:1] for piece in pieces[1:]]
        cuts_character = any(map(_joins, starts))
        is_same = _chunked(text, seed, least=least, most=most) == pieces
        if "".join(pieces) != text or not all(whole) or cuts_character or not is_same:
            offenders.append(seed)
    assert offenders == []


def test_long_pieces_are_cut() -> None:
    """No piece is longer than the most, and none but the last shorter than the least."""
    for seed in range(100):
        pieces = split(_answer(seed), least=40, most=120)
        assert all(len(piece.strip()) <= 120 for piece in pieces)
        sizes = [len(piece.strip()) for piece in pieces]
        assert all(size >= 40 for size, after in zip(sizes, pieces[1:], strict=False) if len(after) < 120 - size)


@pytest.mark.parametrize("block", _BLOCKS)
def test_blocks_stay_whole(block: str) -> None:
    """A block is one piece, list items one each, whatever stands in it."""
    text = f"One sentence.\n\n{block}\n\nAnother one."
    pieces = split(text, least=1, most=2_000)
    inner = [piece.strip("\n") for piece in pieces[1:-1]]
    items = block.split("\n2. ") if block.startswith("1.") else None
    assert pieces[0] == "One sentence."
    assert pieces[-1] == "\n\nAnother one."
    if items is not None:
        assert inner == ["1. First. Item here", "2. Second item\n   goes on. Here", "- another"]
    elif block.startswith(("Inline", ">")):
        assert "".join(inner) == block
    else:
        assert inner == [block]


@pytest.mark.parametrize("sentence", [one for name in ("en", "zh", "ru", "ar") for one in _SENTENCES[name]])
def test_sentences_stay_whole(sentence: str) -> None:
    """Numbers, abbreviations, initials and quotations end no sentence."""
    spaced = "" if "\u4e00" <= sentence[0] <= "\u9fff" or sentence[0] == "“" else " "
    assert split(f"{sentence}{spaced}{sentence}", least=1, most=2_000) == [sentence, f"{spaced}{sentence}"]


def test_pieces_end_where_the_next_begins() -> None:
    """A number may go on, so nothing is complete before the next word is."""
    splitter = PieceSplitter(least=1, most=2_000)
    assert splitter.feed("It costs 3.") == []
    assert splitter.feed("50 now. ") == []
    assert splitter.feed("Next") == []
    assert splitter.feed(" one") == ["It costs 3.50 now."]
    assert splitter.close() == [" Next one"]


def test_short_sentences_go_together() -> None:
    """Sentences are gathered up to the least."""
    assert split("Yes. No. Maybe so. I do not know at all.", least=12, most=100) == [
        "Yes. No. Maybe so.",
        " I do not know at all.",
    ]
