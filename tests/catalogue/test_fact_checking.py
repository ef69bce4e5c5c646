"""Spring AI's fact checking asks whether a document bears out what an answer says."""

from __future__ import annotations

from typing import Any

import pytest

from judges import load
from judges.models.wrappers.wrapped import speaking
from judges.testing import ScriptedModel
from tests.kit import items, replying

EARTH: dict[str, Any] = {
    "response": "Earth is the fourth planet from the Sun.",
    "retrieved_contexts": ["Earth is the third planet from the Sun, and the only one known to harbour life.", " "],
}
THREE = {**EARTH, "response": "Earth is the fourth planet. It harbours life. It has one moon."}


def checking(*verdicts: object) -> ScriptedModel:
    """Make a model that gives these verdicts on the sentences."""
    return replying(lambda _: items(*verdicts))


def minicheck(*unsupported: str) -> ScriptedModel:
    """Make a Bespoke-MiniCheck that says no to claims with these words."""
    return ScriptedModel(
        lambda messages: "No" if any(f"{one}." in messages[-1].text for one in unsupported) else "Yes"
    )


async def test_minicheck_checks_a_sentence_at_a_time() -> None:
    """One call for each, so that a model trained on single claims can be used; sync and async."""
    model = minicheck("fourth planet")
    judge = load("spring.fact_checking", model=speaking(model, "minicheck"), prompt="minicheck")
    for verdict in (judge(THREE), await judge.acall(THREE)):
        assert (verdict.score, verdict.passed, verdict.usage.calls) == (2 / 3, False, 3)
        assert [one.value for one in verdict.items] == ["absent", "supported", "supported"]
        assert verdict.feedback.splitlines()[1:] == ["- Earth is the fourth planet."]
    assert judge.explain().calls == "s"


@pytest.mark.parametrize(("unsupported", "passed"), [(["one moon"], False), ([], True)])
def test_minicheck_in_compat_checks_the_answer_as_a_whole(
    unsupported: list[str],
    passed: bool,  # noqa: FBT001 - a case
) -> None:
    """One call, and the score stays 0."""
    model = speaking(minicheck(*unsupported), "minicheck")
    judge = load("spring.fact_checking", model=model, prompt="minicheck", variant="compat")
    verdict = judge(THREE)
    assert (verdict.passed, verdict.score, verdict.usage.calls) == (passed, 0.0, 1)
    assert judge.explain().calls == "1"


def test_a_sentence_that_is_not_checked_leaves_the_answer_unscored() -> None:
    """It might be the one that is not supported."""
    model = ScriptedModel(
        lambda messages: "Perhaps" if any("one moon." in one.text for one in messages) else "Yes"
    )
    judge = load("spring.fact_checking", model=speaking(model, "minicheck"), prompt="minicheck")
    assert (judge(THREE).score, judge(THREE).unscored) == (None, "invalid_output")
