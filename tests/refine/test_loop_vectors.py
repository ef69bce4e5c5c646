"""The loop vectors of Spring AI's self-refine advisor, and one script through every door.

The advisor counts repeats, `max_attempts` counts all generations: `maxRepeatAttempts=3` is `max_attempts=4`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from graphs import Policy, self_refine
from judges import Helpfulness, ToolCall, Verdict
from judges.offline import evaluate
from judges.testing import ScriptedJudge, ScriptedModel
from refine import Outcome, SelfRefine

DOORS: dict[str, Callable[[SelfRefine], Outcome]] = {
    "sync": lambda refiner: refiner.refine("What is the weather in Paris?"),
    "async": lambda refiner: asyncio.run(refiner.arefine("What is the weather in Paris?")),
}

VECTORS = [
    pytest.param(3, 4, [3], 1, True, "accepted", id="passes at once"),
    pytest.param(3, 4, [2, 4], 2, True, "accepted", id="passes on the second"),
    pytest.param(4, 16, [1, 4], 2, True, "accepted", id="the weather demo"),
    pytest.param(3, 2, [1, 2], 2, False, "max_attempts", id="exhausted, the last is the best"),
    pytest.param(3, 3, [2, 1, 1], 1, False, "max_attempts", id="exhausted, the first is the best"),
    pytest.param(3, 3, [2, 2, 1], 2, False, "max_attempts", id="the latest on a tie"),
    pytest.param(4, 1, [3], 1, False, "max_attempts", id="judged once, never retried"),
]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("success", "most", "ratings", "released", "passed", "reason"), VECTORS)
def test_a_vector(
    door: str, success: int, most: int, ratings: Sequence[int], released: int, *, passed: bool, reason: str
) -> None:
    """The ratings lead to this end, with as many generations as judgements, and the best draft is returned."""
    model = ScriptedModel([f"draft {number}" for number in range(1, len(ratings) + 1)])
    judge = ScriptedJudge(list(ratings))
    outcome = DOORS[door](SelfRefine(model, judge, success_rating=success, max_attempts=most))
    assert (outcome.passed, outcome.stop_reason) == (passed, reason)
    assert outcome.answer is not None
    assert (outcome.answer.text, outcome.released) == (f"draft {released}", released)
    assert [one.rating for one in outcome.attempts] == list(ratings)
    assert (len(model.prompts), len(judge.samples)) == (len(ratings), len(ratings))


@pytest.mark.parametrize("door", DOORS)
def test_a_tool_call_is_returned_unjudged(door: str) -> None:
    """A turn that calls a tool costs one generation and no judgement."""
    model = ScriptedModel([ToolCall(name="weather", args={"city": "Paris"})])
    judge = ScriptedJudge([])
    outcome = DOORS[door](SelfRefine(model, judge))
    assert (outcome.stop_reason, outcome.passed, len(model.prompts), judge.samples) == ("skipped", False, 1, [])
    assert outcome.answer is not None
    assert [call["name"] for call in outcome.answer.tool_calls] == ["weather"]


DRAFTS = ["It is -255 degrees.", "It is 15 degrees."]
REPLIES = [
    {"rationale": "Impossible.", "rating": 1, "feedback": "No place is that cold: measure again."},
    {"rationale": "Plausible.", "rating": 4, "feedback": ""},
]


def _said(verdict: Verdict | None) -> tuple[object, ...]:
    assert verdict is not None
    return verdict.rating, verdict.score, verdict.passed, verdict.rationale, verdict.feedback, verdict.unscored


def test_the_same_replies_make_the_same_verdicts_through_every_door() -> None:
    """A plain call, the graph, `SelfRefine` sync and async, and `evaluate` over its attempts all say the same."""

    def judge() -> Helpfulness:
        return Helpfulness(ScriptedModel(REPLIES, name="judge"))

    def refiner() -> SelfRefine:
        return SelfRefine(ScriptedModel(DRAFTS), judge(), success_rating=4)

    question = "What is the weather in Paris?"
    called = judge()
    plain = [_said(called(question=question, answer=draft)) for draft in DRAFTS]
    sync = refiner().refine(question)
    asynchronous = asyncio.run(refiner().arefine(question))
    offline = evaluate(sync.samples(), judge(), max_concurrency=1)

    def through_the_graph(*, wait: bool) -> list[Any]:
        spoken = judge()
        graph = self_refine(ScriptedModel(DRAFTS), spoken, policy=Policy(success_rating=4))
        asked: Any = {"messages": [("user", question)]}
        state = graph.invoke(asked) if wait else asyncio.run(graph.ainvoke(asked))
        return [one["rating"] for one in state["refine"]["attempts"]]

    assert [_said(one.verdict) for one in sync.attempts] == plain
    assert [_said(one.verdict) for one in asynchronous.attempts] == plain
    assert [_said(row.verdicts["helpfulness"]) for row in offline.rows] == plain
    assert through_the_graph(wait=True) == through_the_graph(wait=False) == [said[0] for said in plain] == [1, 4]
