"""Tokens of a text in any script, and what two texts have in common."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Literal, get_args
from unicodedata import normalize

from judges.errors import CannotJudge, ConfigurationError
from judges.runtime.validation import one_of

Tokenizer = Literal["auto", "13a", "zh", "char", "word"]
"""How a text becomes tokens.

`"auto"` takes scripts without blanks (Chinese, Japanese, Thai) by the character and everything else by the word;
`"13a"` is that of the machine-translation workshops, marks apart from words; `"zh"` is `"13a"` with Chinese by the
character; `"char"` takes every character but blanks; `"word"` the runs of letters and digits.
"""

Normalization = Literal["nfkc", "trim", "casefold"]
"""What is made alike before texts are compared: character forms, outer and repeated blanks, capital letters."""

_UNSPACED = (
    r"\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    r"\u3001-\u303f\u3040-\u30ff\u31f0-\u31ff"  # marks, Kana
    r"\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"  # full-width marks
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
)
_MARKS = (
    r"\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
    r"\u0900-\u0963\u0966-\u0dff"  # Indian scripts, where vowels are marks
)
_CHARACTER = re.compile(f"([{_UNSPACED}])")
_WORD = re.compile(rf"(?:[^\W_]|[{_MARKS}])+")
_WORD_OR_CHARACTER = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W_]|[{_MARKS}])+")
_APART = (
    (re.compile(r"([{-~\[-` -&(-+:-@/])"), r" \1 "),
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)
_ENTITIES = (
    ("<skipped>", ""),
    ("-\n", ""),
    ("\n", " "),
    ("&quot;", '"'),
    ("&amp;", "&"),
    ("&lt;", "<"),
    ("&gt;", ">"),
)
_FENCE = re.compile(r"\A\s*```[\w-]*[ \t]*\n(.*?)\n?```\s*\Z", re.DOTALL)
_CELLS = 4e10
"""Cells of a table of two texts that are still compared: a few seconds, the cells being bits."""


def known_tokenizer(name: Tokenizer) -> Tokenizer:
    """Give the name of a tokenizer back; raises `ConfigurationError` if there is none of this name."""
    return one_of(Tokenizer, name, setting="tokenizer")


def known_normalization(names: Collection[Normalization]) -> frozenset[Normalization]:
    """Give the names of normalisations as a set; raises `ConfigurationError` for an unknown one."""
    known = get_args(Normalization)
    if isinstance(names, str) or not set(names) <= set(known):
        raise ConfigurationError(f"normalize is a list of any of {', '.join(known)}, not {names!r}")
    return frozenset(names)


def normalized(text: str, by: Collection[Normalization]) -> str:
    """Make a text alike to others that mean the same."""
    if "nfkc" in by:
        text = normalize("NFKC", text)
    if "trim" in by:
        text = " ".join(text.split())
    return text.casefold() if "casefold" in by else text


def unfenced(text: str) -> str:
    """Take a text out of the code fence that a model may put around it."""
    found = _FENCE.match(text)
    return found[1] if found else text


def tokens(text: str, tokenizer: Tokenizer = "auto") -> list[str]:
    """Break a text into tokens; only `"auto"` and `"word"` drop marks and fold capital letters."""
    match tokenizer:
        case "13a":
            return _thirteen_a(text)
        case "zh":
            return _thirteen_a(_CHARACTER.sub(r" \1 ", text))
        case "char":
            return list("".join(text.split()))
        case "word":
            return _folded(_WORD.findall(text))
        case "auto":
            return _folded(_WORD_OR_CHARACTER.findall(text))


def characters(text: str) -> int:
    """Count the letters of scripts without blanks; their marks are none."""
    return sum(one.isalnum() for one in _CHARACTER.findall(text))


def words(text: str) -> int:
    """Count what stands between blanks and has a letter or digit of a script with blanks."""
    return sum(bool(_WORD.search(one)) for one in _CHARACTER.sub(" ", text).split())


def common_ends(one: Sequence[str], other: Sequence[str]) -> tuple[int, int]:
    """Count what two sequences have in common at the beginning, and of the rest at the end."""
    most = min(len(one), len(other))
    head = next((place for place in range(most) if one[place] != other[place]), most)
    most -= head
    tail = next((place for place in range(most) if one[-1 - place] != other[-1 - place]), most)
    return head, tail


def check_length(one: Sequence[str], other: Sequence[str]) -> None:
    """Check that comparing two texts cell by cell takes no more than a few seconds.

    Raises:
        CannotJudge: `undefined`, if it would.
    """
    if len(one) * len(other) > _CELLS:
        raise CannotJudge("undefined", f"texts of {len(one)} and {len(other)} are too long to be compared")


def common_subsequence(one: Sequence[str], other: Sequence[str], *, block: int = 8192) -> int:
    """Give the length of the longest common subsequence, exactly.

    Bit-parallel after Hyyrö (2004), a block of `one` at a time: O(n * m / 64), in little memory.

    Raises:
        CannotJudge: `undefined`, if what is left after the common ends is too long for a few seconds.
    """
    head, tail = common_ends(one, other)
    shared = set(one) & set(other)
    left, right = ([x for x in text[head : len(text) - tail] if x in shared] for text in (one, other))
    check_length(left, right)
    carries = bytearray(len(right))
    found = sum(_common_in(left[begun : begun + block], right, carries) for begun in range(0, len(left), block))
    return head + found + tail


def _common_in(block: Sequence[str], other: Sequence[str], carries: bytearray) -> int:
    """Add what one block has in common with the other text; carries pass from block to block."""
    places: dict[str, int] = {}
    for place, token in enumerate(block):
        places[token] = places.get(token, 0) | 1 << place
    full = (1 << len(block)) - 1
    rows = full
    for place, token in enumerate(other):
        where = places.get(token, 0)
        carry = carries[place]
        if where or carry:
            hits = rows & where
            total = rows + hits + carry
            carries[place] = total > full
            rows = (total | (rows - hits)) & full
    return len(block) - rows.bit_count()


def missing_and_surplus(given: Sequence[str], wanted: Sequence[str]) -> tuple[int, int]:
    """Count the tokens wanted that are not given, and those given that are not wanted."""
    has, wants = Counter(given), Counter(wanted)
    return (wants - has).total(), (has - wants).total()


def _folded(found: list[str]) -> list[str]:
    return [one.casefold() if one.isascii() else normalize("NFKC", one).casefold() for one in found]


def _thirteen_a(text: str) -> list[str]:
    """Tokenise like mteval-v13a, as sacrebleu does."""
    text = text.rstrip()
    for entity, meaning in _ENTITIES:
        text = text.replace(entity, meaning)
    text = f" {text} "
    for pattern, apart in _APART:
        text = pattern.sub(apart, text)
    return text.split()
