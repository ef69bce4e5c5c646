"""A cascade asks its judges one after another and stops at the first that does not pass."""

from __future__ import annotations

from typing import Any

import pytest

from judges import Cascade, ConfigurationError, Helpfulness, Length, Usage, Verdict
from judges.testing import ScriptedJudge, ScriptedModel

ROW = {"question": "Why?", "answer": "Because."}


def levels(*lines: object) -> dict[str, ScriptedJudge]:
    """Return judges named a, b, c, ..., each with a single verdict."""
    return {chr(ord("a") + index): ScriptedJudge([line]) for index, line in enumerate(lines)}


def asked_names(judges: dict[str, ScriptedJudge]) -> str:
    """Return the names of the judges that were asked."""
    return "".join(name for name, judge in judges.items() if judge.samples)


@pytest.mark.parametrize(
    ("lines", "rating", "who"),
    [
        ((4, 4, 3), 3, "abc"),
        ((4, (2, "x"), 4), 2, "ab"),
        ((False, 4, 4), 1, "a"),
        ((3, 1), 1, "ab"),
        ((4,), 4, "a"),
    ],
)
def test_the_first_failure_decides(lines: tuple[object, ...], rating: int, who: str) -> None:
    """Levels are asked in order; those after a failure are not asked; the last decides if all pass."""
    judges = levels(*lines)
    verdict = Cascade(judges)(ROW)
    assert (verdict.rating, asked_names(judges)) == (rating, who)
    assert verdict.detail == f"level {len(who)} of {len(lines)} decided: {who[-1]}"
    assert [item.judge for item in verdict.items] == list(who)


async def test_sync_and_async_stop_at_the_same_level() -> None:
    """The cascade stops asking in the event loop too."""
    judges = levels(4, 2, 4)
    assert (await Cascade(judges).acall(ROW)).rating == 2
    assert asked_names(judges) == "ab"


def test_an_unscored_level_decides() -> None:
    """The level's result is unknown, so the cascade is unscored and more expensive levels are not asked."""
    judges = levels(4, Verdict.without_score("no_contexts", "nothing retrieved"), 4)
    verdict = Cascade(judges)(ROW)
    assert (verdict.unscored, verdict.rating, verdict.passed) == ("no_contexts", None, None)
    assert verdict.detail == "level 2 of 3 decided: b; nothing retrieved"
    assert asked_names(judges) == "ab"


def test_the_verdict_is_the_deciding_levels_own() -> None:
    """Feedback, value and reasons are those of the level that decided, under the cascade's name."""
    reply = {"rating": 2, "rationale": "Vague.", "feedback": "Name the year."}
    verdict = Cascade(levels(4, reply), name="gate")(ROW)
    assert (verdict.judge, verdict.rationale, verdict.feedback) == ("gate", "Vague.", "Name the year.")
    assert verdict.rated_natively


@pytest.mark.parametrize(("success_rating", "who"), [(2, "abc"), (3, "ab"), (4, "a")])
def test_the_gate_can_be_moved(success_rating: int, who: str) -> None:
    """A level passes from `success_rating`; the verdict has passed only if it does."""
    judges = levels(3, 2, 1)
    verdict = Cascade(judges, success_rating=success_rating)(ROW)
    assert (asked_names(judges), verdict.passed) == (who, False)


def test_a_level_must_reach_its_own_pass_mark() -> None:
    """A score that rounds to 3 stops the cascade if it misses the level's own threshold."""
    judges = levels(Verdict.scored(0.6, threshold=0.7), 4)
    verdict = Cascade(judges)(ROW)
    assert (asked_names(judges), verdict.passed, verdict.score) == ("a", False, 0.6)


def test_a_level_that_passes_by_itself_but_not_here_has_not_passed() -> None:
    """A lenient level's own pass mark does not pass a gate that requires more."""
    assert Cascade(levels(Verdict.scored(0.4, threshold=0.3)))(ROW).passed is False


def test_a_cheap_failure_costs_no_model_call() -> None:
    """If a preceding check fails, the model is not asked."""
    model = ScriptedModel([])
    cascade = Cascade([Length(at_most=3), Helpfulness(model)])
    verdict = cascade(ROW)
    assert (verdict.rating, model.prompts, verdict.usage) == (1, [], Usage())
    assert len(cascade.models) == 1


def test_the_levels_asked_are_paid_for() -> None:
    """Usage is that of all levels asked, not of the last alone."""
    reply = {"rationale": "r", "rating": 4, "feedback": ""}
    cascade = Cascade(
        [Helpfulness(ScriptedModel([reply])), Helpfulness(ScriptedModel([reply])), Length(at_most=99)]
    )
    assert cascade(ROW).usage.calls == 2


@pytest.mark.parametrize(
    ("judges", "settings", "message"),
    [
        ([], {}, "at least one judge"),
        (Length(at_most=99), {}, "give a list of judges"),
        ([Length(at_most=99)], {"success_rating": 7}, "success_rating is a whole number from 1 to 4, not 7"),
    ],
)
def test_a_cascade_set_up_wrongly_is_refused(judges: Any, settings: dict[str, Any], message: str) -> None:
    """A setting that cannot work is an error at once."""
    with pytest.raises(ConfigurationError, match=message):
        Cascade(judges, **settings)
