"""A repeated judge returns its most frequent verdict."""

from __future__ import annotations

from typing import Any

import pytest

from judges import ConfigurationError, Helpfulness, Repeat, Verdict
from judges.testing import ScriptedJudge, ScriptedModel

ROW = {"question": "Why?", "answer": "Because."}
UNKNOWN = Verdict.without_score("invalid_output")


@pytest.mark.parametrize(
    ("lines", "rating", "detail"),
    [
        ((3, 3, 2), 3, "agreement 0.67"),
        ((1, 4, 4), 4, "agreement 0.67"),
        ((3, 3, 3, 3), 3, "agreement 1.00"),
        ((4, 3, 2), 2, "agreement 0.33; tied: the stricter side counts"),
        ((4, 4, 2, 2, 3), 2, "agreement 0.40; tied: the stricter side counts"),
        ((3, 3, UNKNOWN), 3, "agreement 1.00; skipped 1: scripted (invalid_output)"),
        ((2,), 2, "agreement 1.00"),
    ],
)
def test_the_most_frequent_verdict_counts(lines: tuple[object, ...], rating: int, detail: str) -> None:
    """The mode wins, a tie goes to the stricter side, and the detail has the agreement of those that rated."""
    verdict = Repeat(ScriptedJudge(lines), len(lines))(ROW)
    assert (verdict.rating, verdict.detail) == (rating, detail)
    assert len(verdict.items) == len(lines)


def test_a_failing_score_is_stricter_than_a_passing_one() -> None:
    """Of two verdicts with one rating, the one that missed its pass mark is the stricter."""
    lines = [Verdict.scored(0.8, threshold=0.9), Verdict.scored(0.7, threshold=0.6)]
    assert Repeat(ScriptedJudge(lines), 2)(ROW).score == 0.8


def test_the_verdict_is_one_of_those_given() -> None:
    """Feedback comes from a run of the majority, not from one that was outvoted."""
    verdict = Repeat(ScriptedJudge([(3, "a"), (2, "b"), (2, "b")]), 3)(ROW)
    assert (verdict.rating, verdict.feedback) == (2, "b")


@pytest.mark.parametrize(("quorum", "unscored"), [(None, "too_few_votes"), (2, "too_few_votes"), (1, None)])
def test_a_quorum_must_have_rated(quorum: int | None, unscored: str | None) -> None:
    """With too few ratings the verdict is unscored; more than half are needed by default."""
    verdict = Repeat(ScriptedJudge([4, UNKNOWN, UNKNOWN]), 3, quorum=quorum)(ROW)
    assert verdict.unscored == unscored


@pytest.mark.parametrize(
    ("lines", "passes", "unscored"),
    [
        ((4, 4, 3, UNKNOWN), True, None),
        ((4, 3, UNKNOWN), False, "too_few_votes"),
        ((3, 4, 2, 2, UNKNOWN), False, None),
    ],
)
def test_what_failed_runs_could_have_refused_is_unscored(
    lines: tuple[object, ...], unscored: str | None, *, passes: bool
) -> None:
    """A refusal stays one, and a quorum that is asked for by name lets the others decide."""
    verdict = Repeat(ScriptedJudge(lines), len(lines))(ROW)
    assert (bool(verdict.passed), verdict.unscored) == (passes, unscored)
    assert Repeat(ScriptedJudge(lines), len(lines), quorum=2)(ROW).unscored is None


async def test_the_model_is_asked_n_times() -> None:
    """Each run asks the model, sync and async, and all of them count in the usage."""
    reply = {"rationale": "r", "rating": 4, "feedback": ""}
    model = ScriptedModel([reply], cycle=True)
    judge = Repeat(Helpfulness(model, temperature=0.7), 3)
    verdicts = [judge(ROW), await judge.acall(ROW)]
    assert [verdict.usage.calls for verdict in verdicts] == [3, 3]
    assert len(model.prompts) == 6
    assert judge.models[0].is_model(model)


def test_it_keeps_the_judges_name_or_takes_one() -> None:
    """The name is the repeated judge's unless it is set; a function is accepted."""
    assert Repeat(ScriptedJudge([4], name="kind"), 1)(ROW).judge == "kind"
    assert Repeat(lambda sample: 4, 1, name="often")(ROW).judge == "often"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": 0}, "n is how often the judge is asked, a whole number from 1, not 0"),
        ({"n": -1}, "not -1"),
        ({"n": 2.0}, r"not 2\.0"),
        ({"n": True}, "not True"),
        ({"n": 3, "quorum": 4}, "quorum is a whole number from 1 to 3, not 4"),
    ],
)
def test_a_repeat_set_up_wrongly_is_refused(settings: dict[str, Any], message: str) -> None:
    """A count that cannot work is an error at once."""
    with pytest.raises(ConfigurationError, match=message):
        Repeat(ScriptedJudge([4]), **settings)
