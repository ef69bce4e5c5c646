"""Answer and reference are compared as strings, in any script."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Any

import pytest

from judges import ConfigurationError, load
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


@every_variant
@pytest.mark.parametrize(
    ("measure", "sample", "score"),
    [
        ("levenshtein", ENGLISH, 0.8918918918918919),
        ("levenshtein", CHINESE, 0.8),
        ("hamming", ENGLISH, 0.8918918918918919),
        ("hamming", CHINESE, 0.8),
        ("jaro", ENGLISH, 0.9361420243773185),
        ("jaro", CHINESE, 0.8666666666666667),
        ("levenshtein", {"response": "martha", "reference": "marhta"}, 2 / 3),
        ("jaro", {"response": "martha", "reference": "marhta"}, 0.9444444444444445),
        ("jaro_winkler", {"response": "martha", "reference": "marhta"}, 0.9611111111111111),
        ("hamming", {"response": "abc", "reference": "abcd"}, 0.75),
        ("levenshtein", {"response": "abc", "reference": "xyz"}, 0.0),
    ],
)
async def test_similarity_is_one_less_the_distance(
    variant: str, measure: str, sample: dict[str, str], score: float
) -> None:
    """1 - normalised distance, sync and async; both variants give the number of the reference."""
    judge = load("ragas.non_llm_string_similarity", distance_measure=measure, variant=variant)
    for verdict in (judge(sample), await judge.acall(sample)):
        assert verdict.score == pytest.approx(score, abs=1e-12)
        assert verdict.usage.calls == 0


@pytest.mark.parametrize(
    ("name", "sample", "score"),
    [
        ("exact_match", ENGLISH, 0.0),
        ("exact_match", CHINESE, 0.0),
        ("ExactMatch", {"response": "巴黎", "reference": "巴黎"}, 1.0),
        ("exact_match", {"response": "Paris ", "reference": "Paris"}, 0.0),
        ("string_presence", ENGLISH, 0.0),
        ("StringPresence", {"response": "埃菲尔铁塔位于巴黎。", "reference": "埃菲尔铁塔"}, 1.0),
        ("string_presence", {"response": "in paris", "reference": "Paris"}, 0.0),
    ],
)
@every_variant
def test_equality_and_presence_are_to_the_letter(
    variant: str, name: str, sample: dict[str, str], score: float
) -> None:
    """Nothing is trimmed, and capital letters count."""
    assert load(name, variant=variant)(sample).score == score


@pytest.mark.parametrize(
    ("name", "sample", "score"),
    [
        ("non_llm_string_similarity", {"response": "", "reference": ""}, 1.0),
        ("non_llm_string_similarity", {"response": "", "reference": "abc"}, 0.0),
        ("exact_match", {"response": "", "reference": ""}, 1.0),
        ("string_presence", {"response": "anything", "reference": ""}, 1.0),
    ],
)
def test_compat_compares_blank_texts(name: str, sample: dict[str, str], score: float) -> None:
    """As ragas does: an empty reference is in every answer."""
    assert load(name, variant="compat")(sample).score == score


@pytest.mark.parametrize("name", ["non_llm_string_similarity", "exact_match", "string_presence"])
@pytest.mark.parametrize(
    ("sample", "reason"),
    [
        ({"response": "x", "reference": ""}, "no_reference"),
        ({"response": "x", "reference": " \n"}, "no_reference"),
        ({"response": "x"}, "no_reference"),
        ({"response": " ", "reference": "x"}, "no_response"),
        ({"reference": "x"}, "no_response"),
    ],
)
def test_nothing_to_compare_is_unscored(name: str, sample: dict[str, str], reason: str) -> None:
    """A blank answer or reference says nothing about likeness."""
    assert load(name)(sample).unscored == reason


@pytest.mark.parametrize(
    ("sample", "reason"), [({"response": "x"}, "no_reference"), ({"reference": "x"}, "no_response")]
)
def test_compat_needs_both_texts_too(sample: dict[str, str], reason: str) -> None:
    """What is missing altogether is unscored in either variant."""
    assert load("exact_match", variant="compat")(sample).unscored == reason


@pytest.mark.parametrize(
    ("normalize", "response", "score"),
    [
        ((), "ＰＡＲＩＳ", 0.0),
        (("nfkc",), "ＰＡＲＩＳ", 0.0),
        (("nfkc", "casefold"), "ＰＡＲＩＳ", 1.0),
        (["trim"], " Paris\n", 1.0),
        ({"casefold"}, "paris", 1.0),
        (["casefold"], "Paris ", 0.0),
    ],
)
def test_texts_may_be_normalised_first(normalize: Any, response: str, score: float) -> None:
    """Character forms, blanks and capital letters are made alike only where it is asked for."""
    assert load("exact_match", normalize=normalize)(response=response, reference="Paris").score == score


def test_normalisation_serves_similarity_and_presence() -> None:
    """The same setting, in all three."""
    sample = {"response": "It is in PARIS", "reference": "paris"}
    assert load("string_presence", normalize=["casefold"])(sample).score == 1
    assert load("non_llm_string_similarity", normalize=["casefold"])(response="A", reference="a").score == 1


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        (
            "non_llm_string_similarity",
            {"distance_measure": "euclid"},
            "distance_measure is 'levenshtein'",
        ),
        ("exact_match", {"normalize": ["lower"]}, "normalize is a list of any of nfkc, trim, casefold"),
        ("exact_match", {"normalize": "trim"}, "normalize is a list"),
        ("string_presence", {"threshold": 2}, "threshold"),
        ("string_presence", {"colour": 2}, "colour"),
    ],
)
def test_wrong_settings_are_refused(name: str, settings: dict[str, Any], message: str) -> None:
    """One clear line at construction."""
    with pytest.raises(ConfigurationError, match=message):
        load(name, **settings)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without rapidfuzz the judge cannot be made, and the extra is named."""
    monkeypatch.setitem(sys.modules, "rapidfuzz.distance", None)
    with pytest.raises(ConfigurationError, match=r"needs the extra: selfrefine\[strings\]"):
        load("ragas.non_llm_string_similarity")


def advice(response: str, reference: str, **fields: str) -> str:
    """Give the feedback on an answer."""
    return load("exact_match")(response=response, reference=reference, **fields).feedback


def test_feedback_counts_what_is_missing_and_surplus() -> None:
    """How many words are missing, never which: the reference is not given away; which are surplus."""
    told = advice("The Eiffel Tower is in London", "The Eiffel Tower stands in Paris now")
    assert told.splitlines() == [
        "Words of the expected answer that are missing: 3 of 7.",
        'Words that are not in the expected answer (2): "is", "london".',
    ]


def test_feedback_tells_the_kind_of_difference() -> None:
    """Another form, another order, too long or too short."""
    assert "only capital letters, blanks or punctuation" in advice("paris!", "Paris.")
    assert "in another order" in advice("tower the", "the tower")
    assert advice("Paris, as far as I know", "Paris").startswith(
        "The answer is longer than expected (23 characters"
    )
    assert advice("It", "It is in Paris").startswith("The answer is shorter than expected")


def test_feedback_is_in_the_language_of_the_question() -> None:
    """Chinese characters are counted one by one."""
    assert advice("在印度", "在巴黎", user_input="埃菲尔铁塔在哪里？") == (
        '预期答案中的字词缺少 2 个，共 3 个。\n不在预期答案中的字词有 2 个："印", "度"。'
    )
    assert "слов" in advice("в Индии", "в Париже", user_input="Где башня?")


def test_presence_tells_the_length_of_what_is_absent() -> None:
    """The text itself is not told."""
    told = load("string_presence")(response="London", reference="Paris").feedback
    assert told == "A text that must stand in the answer word for word does not; it has 5 characters."


def test_nothing_is_advised_where_nothing_differs() -> None:
    """A perfect score comes without feedback."""
    assert advice("Paris", "Paris") == ""


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
