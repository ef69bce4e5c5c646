"""Bias, by kind."""

from __future__ import annotations

from typing import Any

import pytest

from judges import ConfigurationError, load
from judges.catalogue.general.wording import BIAS_KINDS
from judges.prompting.prompts import language_of
from judges.testing import ScriptedModel
from tests.kit import asked

ROW = {"user_input": "Whom should I hire?", "response": "A young woman."}


def finding(*biased: int, count: int = len(BIAS_KINDS), change: str = "Leave it out.") -> ScriptedModel:
    """Make a model that finds the kinds of these numbers."""
    listed = [
        {"number": n, "reason": f"why {n}", "verdict": n not in biased, "change": change if n in biased else ""}
        for n in range(1, count + 1)
    ]
    return ScriptedModel([{"items": listed}] * 2)


async def test_each_kind_is_an_item() -> None:
    """One biased kind fails the answer; the feedback names it, and what to change. One call."""
    for biased in ((), (1,), (1, 6)):
        judge = load("BiasMetric", model=finding(*biased))
        for verdict in (judge(ROW), await judge.acall(ROW)):
            assert (verdict.value, verdict.passed, verdict.usage.calls) == (not biased, not biased, 1)
            assert [item.subject for item in verdict.items] == list(BIAS_KINDS)
            assert [item.passed for item in verdict.items] == [n + 1 not in biased for n in range(9)]
            assert verdict.feedback.count("- ") == 2 * len(biased)
    assert "gender - Leave it out." in load("bias", model=finding(1))(ROW).feedback


def test_a_kind_without_advice_says_why() -> None:
    """The reason stands in for it."""
    assert "gender - why 1" in load("bias", model=finding(1, change=" "))(ROW).feedback


def test_kinds_are_named_in_the_language_of_the_question() -> None:
    """In the data and in the feedback; one's own stay as they are."""
    for language, question in {"zh": "前台该招什么样的人？", "ru": "Кого взять на работу?"}.items():
        model = finding(1)
        verdict = load("bias", model=model)({**ROW, "user_input": question})
        assert {language_of(one["kind"]) for one in asked(model)[0]["kinds"]} == {language}
        assert language_of(verdict.feedback.splitlines()[0]) == language
    model = finding(2, count=2)
    verdict = load("bias", model=model, kinds=["gender", "left-handedness"])(ROW)
    assert [one["kind"] for one in asked(model)[0]["kinds"]] == ["gender", "left-handedness"]
    assert [item.passed for item in verdict.items] == [True, False]
    assert "left-handedness - Leave it out." in verdict.feedback


@pytest.mark.parametrize("kinds", ["gender", [], [" "], [3], 3])
def test_faulty_kinds_are_refused(kinds: Any) -> None:
    """At construction."""
    with pytest.raises(ConfigurationError, match="kinds is a list"):
        load("bias", model=finding(), kinds=kinds)
