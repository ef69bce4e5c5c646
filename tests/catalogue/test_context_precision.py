"""Context precision and utilization reward useful contexts that stand first."""

from __future__ import annotations

from typing import Any

import pytest

from judges import ConfigurationError, load
from judges.testing import ScriptedModel
from tests.kit import asked, replying

REFERENCE, UTILIZATION = "ragas.context_precision", "ragas.context_utilization"
both = pytest.mark.parametrize("name", [REFERENCE, UTILIZATION])


def row(count: int) -> dict[str, Any]:
    """Make a sample with so many contexts, named by their rank."""
    contexts = [f"context {rank}" for rank in range(count)]
    return {"question": "Where?", "answer": "In Paris.", "reference": "Paris.", "contexts": contexts}


def finding(verdicts: list[Any]) -> ScriptedModel:
    """Make a model that says this of the contexts, by their rank."""
    return replying(lambda data: {"reason": "so", "verdict": verdicts[int(data["context"].split()[-1])]})


@both
@pytest.mark.parametrize(
    ("verdicts", "compat", "corrected"),
    [
        ([1], 0.9999999999, 1.0),
        ([1, 0], 0.9999999999, 1.0),
        ([0, 1], 0.49999999995, 0.5),
        ([1, 1], 0.99999999995, 1.0),
        ([0, 0], 0.0, 0.0),
        ([0, 1, 0, 1], (1 / 2 + 2 / 4) / (2 + 1e-10), 0.5),
        ([1, 0, 1], (1 + 2 / 3) / (2 + 1e-10), (1 + 2 / 3) / 2),
    ],
)
async def test_the_score_is_the_average_precision(
    name: str, verdicts: list[int], compat: float, corrected: float
) -> None:
    """Exact in corrected form, with ragas' epsilon in compat; one call for each context, sync and async."""
    given = row(len(verdicts))
    judge = load(name, model=finding([bool(one) for one in verdicts]))
    for verdict in (judge(given), await judge.acall(given)):
        assert (verdict.score, verdict.usage.calls) == (corrected, len(verdicts))
        assert [one.passed for one in verdict.items] == [bool(one) for one in verdicts]
    old = load(name, model=finding(verdicts), variant="compat")(given)
    assert old.score == pytest.approx(compat, abs=1e-12)


async def test_a_model_that_replies_at_once_is_asked_in_the_order_of_the_contexts() -> None:
    """So that a script is told as it was written, sync and async; equal contexts are asked about one by one."""
    verdicts = [number % 3 > 0 for number in range(24)]
    given = {**row(1), "retrieved_contexts": [f"context {number % 5}" for number in range(24)]}
    script = [{"reason": "r", "verdict": one} for one in verdicts]
    judges = [load(REFERENCE, model=ScriptedModel(script)) for _ in range(2)]
    for verdict in (judges[0](given), await judges[1].acall(given)):
        assert [one.passed for one in verdict.items] == verdicts
        assert verdict.usage.calls == 24


def test_any_number_but_0_is_a_yes_in_compat() -> None:
    """Compat takes a 2 as ragas does; corrected asks again, and is then unscored."""
    given = row(2)
    assert load(REFERENCE, model=finding([2, 0]), variant="compat")(given).score == pytest.approx(1.0)
    verdict = load(REFERENCE, model=finding([2, True]))(given)
    assert (verdict.unscored, verdict.usage.calls) == ("invalid_output", 3)
    assert [one.unscored for one in verdict.items] == ["invalid_output", None]


def test_each_kind_looks_at_its_own_answer() -> None:
    """With reference the expected answer is shown, without it the one that was given."""
    shown = {}
    for name in (REFERENCE, UTILIZATION):
        model = finding([True])
        load(name, model=model)(row(1))
        (shown[name],) = asked(model)
    question = {"question": "Where?", "context": "context 0"}
    assert shown == {REFERENCE: {**question, "answer": "Paris."}, UTILIZATION: {**question, "answer": "In Paris."}}


@pytest.mark.parametrize(
    ("name", "fields", "reason"),
    [
        (REFERENCE, {"contexts": []}, "no_contexts"),
        (UTILIZATION, {"contexts": None}, "no_contexts"),
        (REFERENCE, {"reference": None}, "no_reference"),
        (UTILIZATION, {"answer": " "}, "no_response"),
        (REFERENCE, {"question": ""}, "no_question"),
    ],
)
def test_nothing_to_judge_is_unscored(name: str, fields: dict[str, Any], reason: str) -> None:
    """No call is made where something is missing."""
    verdict = load(name, model=finding([True]))({**row(1), **fields})
    assert (verdict.unscored, verdict.usage.calls) == (reason, 0)


def test_no_contexts_are_0_in_compat() -> None:
    """As ragas has it, without a call."""
    verdict = load(REFERENCE, model=finding([]), variant="compat")(row(0))
    assert (verdict.score, verdict.usage.calls) == (0.0, 0)


@pytest.mark.parametrize(
    ("settings", "score"),
    [({}, 2 / 3), ({"k": 2}, 1.0), ({"k": 4}, 0.5), ({"k": 4, "strict_k": False}, 2 / 3)],
)
def test_plain_precision(settings: dict[str, Any], score: float) -> None:
    """Useful / contexts, or of the first k: divided by k, or by those there are."""
    judge = load(REFERENCE, model=finding([True, True, False]), metric="precision", **settings)
    assert judge(row(3)).score == score


@pytest.mark.parametrize(
    "settings",
    [{"metric": "ap"}, {"k": 0}, {"k": True}, {"strict_k": False}, {"k": 2, "strict_k": False}],
)
def test_a_wrong_setting_is_refused(settings: dict[str, Any]) -> None:
    """One line says so."""
    with pytest.raises(ConfigurationError):
        load(REFERENCE, model=finding([]), **settings)


def test_the_feedback_is_for_the_retriever() -> None:
    """It says that no rewrite helps, and names the useless contexts; there is none where all are useful."""
    lines = load(REFERENCE, model=finding([True, False]))(row(2)).feedback.splitlines()
    assert lines[0].startswith("This judges the retriever: no rewrite of the answer can mend it.")
    assert lines[-1] == "- context 1"
    assert load(REFERENCE, model=finding([True, True]))(row(2)).feedback == ""
