"""chrF of an answer, in any script."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import sacrebleu

from judges import ConfigurationError, load
from tests.catalogue.test_strings import CHINESE, ENGLISH, every_variant


@every_variant
@pytest.mark.parametrize(
    ("settings", "sample", "score"),
    [
        ({}, ENGLISH, 0.8048420145750512),
        ({}, CHINESE, 0.5938492063492063),
        ({"word_order": 2}, ENGLISH, 0.8022922252170026),
        ({}, {"response": "abc", "reference": "xyz"}, 0.0),
        ({}, {"response": "Башня", "reference": "Башня"}, 1.0),
        ({"lowercase": True}, {"response": "ABC", "reference": "abc"}, 1.0),
    ],
)
async def test_runs_of_characters_are_compared(
    variant: str, settings: dict[str, Any], sample: dict[str, str], score: float
) -> None:
    """Both variants give sacrebleu's number, sync and async."""
    judge = load("chrf", variant=variant, **settings)
    for verdict in (judge(sample), await judge.acall(sample)):
        assert verdict.score == pytest.approx(score, abs=1e-12)
        assert verdict.usage.calls == 0


def test_a_blank_text_is_0_in_compat_and_else_unscored() -> None:
    """An empty answer has 0 in ragas."""
    for sample in ({"response": "", "reference": "a"}, {"response": "a", "reference": " "}):
        assert load("ChrfScore", variant="compat")(sample).score == 0
        assert load("CHRFScore")(sample).unscored in ("no_response", "no_reference")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"word_order": -1}, "word_order is a whole number from 0, not -1"),
        ({"char_order": 0}, "char_order is a whole number from 1, not 0"),
        ({"beta": 1.5}, "beta is a whole number from 1"),
        ({"word_order": True}, "word_order"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    """One clear line at construction."""
    with pytest.raises(ConfigurationError, match=message):
        load("chrf_score", **settings)


def test_further_settings_of_sacrebleu() -> None:
    """By the name ragas gives them."""
    sample = {"response": "a b c", "reference": "ab c d"}
    for kwargs in ({"remove_whitespace": False}, {"word_order": 2}, {"eps_smoothing": True}):
        expected = sacrebleu.corpus_chrf([sample["response"]], [[sample["reference"]]], **kwargs).score / 100
        assert load("chrf_score", kwargs=kwargs)(sample).score == pytest.approx(expected)
    with pytest.raises(ConfigurationError, match="kwargs: corpus_chrf takes no"):
        load("chrf_score", kwargs={"order": 1})


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without sacrebleu the judge cannot be made."""
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ConfigurationError, match=r"selfrefine\[sacrebleu\]"):
        load("chrf_score")
