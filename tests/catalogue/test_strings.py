"""Answer and reference are compared as strings, in any script."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest

from judges import load
from judges.catalogue.parts.text import (
    common_ends,
    common_subsequence,
    count_characters,
    count_words,
    normalize_text,
    strip_fence,
    tokens,
)

ENGLISH = {
    "response": "The Eiffel Tower is located in India.",
    "reference": "The Eiffel Tower is located in Paris.",
}
CHINESE = {"response": "埃菲尔铁塔位于印度。", "reference": "埃菲尔铁塔位于巴黎。"}
VARIANTS = ("corrected", "compat")
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def test_texts_too_long_to_compare_are_unscored() -> None:
    """Two megabytes would take a minute; the same text twice takes none."""
    one, other = "ab" * 500_000, "ba" * 500_000
    judge = load("non_llm_string_similarity")
    assert judge(response=one, reference=other + "x" * 9).score is None
    assert judge(response=one, reference=other + "x" * 9).unscored == "undefined"
    assert judge(response=one, reference=one).score == 1
    assert judge(response=one + "x", reference=one + "y").score == pytest.approx(1, abs=1e-5)
    assert load("non_llm_string_similarity", distance_measure="hamming")(response=one, reference=other).score == 0


def test_the_measures_of_ragas_are_known_by_its_enumeration() -> None:
    """Each member has the name as its value."""
    measure = Enum("measure", {"HAMMING": "hamming"})
    judge = load("non_llm_string_similarity", distance_measure=measure.HAMMING)
    assert judge(response="abc", reference="abd").score == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("text", "tokenizer", "found"),
    [
        ("Don't stop: 3.14!", "auto", ["don", "t", "stop", "3", "14"]),
        ("埃菲尔 in 巴黎。", "auto", ["埃", "菲", "尔", "in", "巴", "黎", "。"]),
        ("GPT模型４", "auto", ["gpt", "模", "型", "4"]),
        ("हिन्दी भाषा", "auto", ["हिन्दी", "भाषा"]),
        ("Ёлка, ÉTÉ", "auto", ["ёлка", "été"]),
        ("שלום עולם", "auto", ["שלום", "עולם"]),
        ("Don't pay $5, ok.", "13a", ["Don't", "pay", "$", "5", ",", "ok", "."]),
        ("价格 5.", "zh", ["价", "格", "5", "."]),
        ("a 你", "char", ["a", "你"]),
        ("a_b 你好", "word", ["a", "b", "你好"]),
        ("🗼 {x}", "auto", ["x"]),
        ("", "auto", []),
    ],
)
def test_texts_become_tokens(text: str, tokenizer: Any, found: list[str]) -> None:
    """Scripts without blanks by the character, all others by the word."""
    assert tokens(text, tokenizer) == found


def test_words_and_characters_are_counted_apart() -> None:
    """Words are what stands between blanks; marks are no characters."""
    assert (count_words("a bc — d'e 你好"), count_characters("你好，world。")) == (3, 2)


@pytest.mark.parametrize(
    ("one", "other", "length"),
    [("", "abc", 0), ("abc", "abc", 3), ("abcbdab", "bdcaba", 4), ("axbxc", "abc", 3), ("abc", "xyz", 0)],
)
def test_the_longest_common_subsequence(one: str, other: str, length: int) -> None:
    """Exact, whatever the size of the blocks it is computed in."""
    for block in (1, 2, 3, 8192):
        assert common_subsequence(list(one), list(other), block=block) == length


def test_common_ends_do_not_overlap() -> None:
    """What is common at the beginning is not counted again at the end."""
    assert common_ends("aaa", "aa") == (2, 0)
    assert common_ends("abxc", "abyc") == (2, 1)


def test_a_code_fence_is_taken_off() -> None:
    """Only where it is around the whole text."""
    assert strip_fence("```sql\nSELECT 1\n```") == "SELECT 1"
    assert strip_fence("see ```x```") == "see ```x```"
    assert normalize_text(" a  b ", ["trim"]) == "a b"


def test_texts_may_be_normalised_by_a_set() -> None:
    """The order of what is made alike does not matter, so that a set, or a tuple, will do."""
    for normalize in ({"casefold"}, ("nfkc", "casefold")):
        assert load("exact_match", normalize=normalize)(response="paris", reference="Paris").score == 1
