"""The loop's vectors: what Spring AI's self-refine advisor does, and where we mean to differ.

The advisor counts repeats after the first answer, `max_attempts` counts all answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import BaseMessage

from graphs import Policy, self_refine
from judges import Helpfulness, Judge, Sample, Verdict
from judges.messages import ToolCall
from judges.offline import evaluate
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine
from tests.laws import for_every

ASKED = "How warm is it in Oslo?"


@dataclass(frozen=True)
class Came:
    """What came back through an entrance: the text, and why it stopped."""

    text: str
    stop_reason: str


def came(message: BaseMessage) -> Came:
    """Read an answer."""
    result = message.response_metadata["refine"]
    assert result["passed"] == (result["stop_reason"] == "accepted")
    return Came(str(message.text), result["stop_reason"])


async def by_invoke(generator: Any, judge: Any, policy: Policy) -> Came:
    """Through `SelfRefine.invoke`."""
    return came(SelfRefine(generator, judge, policy=policy).invoke(ASKED))


async def by_ainvoke(generator: Any, judge: Any, policy: Policy) -> Came:
    """Through `SelfRefine.ainvoke`."""
    return came(await SelfRefine(generator, judge, policy=policy).ainvoke(ASKED))


async def by_graph(generator: Any, judge: Any, policy: Policy) -> Came:
    """Through the graph."""
    graph = self_refine(generator, judge, policy=policy)
    return came(graph.invoke({"messages": [("user", ASKED)]})["messages"][-1])


async def by_graph_async(generator: Any, judge: Any, policy: Policy) -> Came:
    """Through the graph, without blocking."""
    graph = self_refine(generator, judge, policy=policy)
    return came((await graph.ainvoke({"messages": [("user", ASKED)]}))["messages"][-1])


Entrance = Callable[[object, object, Policy], Awaitable[Came]]
ENTRANCES: list[Entrance] = [by_invoke, by_ainvoke, by_graph, by_graph_async]
everywhere = for_every("entrance", ENTRANCES)


def vector(success_rating: Literal[1, 3, 4], repeats: int, **settings: Any) -> Policy:
    """Give the policy of a vector, written as the advisor's settings."""
    return Policy(success_rating=success_rating, max_attempts=repeats + 1, **settings)


@everywhere
@for_every(
    "policy, ratings, answer, reason",
    [
        (vector(3, 3), [3], 1, "accepted"),
        (vector(3, 3), [2, 4], 2, "accepted"),
        (vector(4, 15), [1, 4], 2, "accepted"),
        (vector(3, 1), [1, 2], 2, "max_attempts"),
        (vector(4, 15), [1] * 15 + [4], 16, "accepted"),
        (vector(4, 15), [1] * 16, 16, "max_attempts"),
        (vector(3, 0), [1], 1, "max_attempts"),
        (vector(1, 3), [1], 1, "accepted"),
    ],
)
async def test_the_vectors(
    entrance: Entrance, policy: Policy, ratings: list[int], answer: int, reason: str
) -> None:
    """Ratings decide which draft is the answer, after as many generations as judge calls."""
    model = ScriptedModel([f"draft {number}" for number in range(1, 20)])
    judge = ScriptedJudge(ratings)
    result = await entrance(model, judge, policy)
    assert result == Came(f"draft {answer}", reason)
    assert (len(model.prompts), len(judge.samples)) == (len(ratings), len(ratings))


@everywhere
async def test_the_sources_demo(entrance: Entrance) -> None:
    """The weather at -255 degrees is refused, the one at 15 accepted."""
    model = ScriptedModel(["It is -255 C in Oslo.", "It is 15 C in Oslo."])
    judge = ScriptedJudge(lambda sample: (1, "impossible") if "-255" in str(sample.response) else 4)
    result = await entrance(model, judge, vector(4, 15))
    assert result == Came("It is 15 C in Oslo.", "accepted")
    assert (len(model.prompts), len(judge.samples)) == (2, 2)


@everywhere
@for_every("policy", [vector(3, 3), vector(4, 15), vector(1, 0)])
async def test_a_turn_that_calls_a_tool_is_not_judged(entrance: Entrance, policy: Policy) -> None:
    """A tool call is handed on after one generation and no judging."""
    model, judge = ScriptedModel([ToolCall(name="weather", args={"city": "Oslo"})]), ScriptedJudge([])
    result = await entrance(model, judge, policy)
    assert result == Came("", "skipped")
    assert (len(model.prompts), len(judge.samples)) == (1, 0)


@everywhere
@for_every("ratings, answer", [([2, 1], 1), ([2, 2], 2), ([1, 2, 1], 2), ([2, 1, 2], 3)])
async def test_the_best_is_returned_and_not_the_last(entrance: Entrance, ratings: list[int], answer: int) -> None:
    """Corrected: an exhausted loop returns the best answer, the latest on a tie."""
    model = ScriptedModel([f"draft {number}" for number in range(1, 4)])
    result = await entrance(model, ScriptedJudge(ratings), vector(3, len(ratings) - 1))
    assert result == Came(f"draft {answer}", "max_attempts")


@everywhere
async def test_the_last_is_returned_where_asked(entrance: Entrance) -> None:
    """As the advisor does it, for those who want that."""
    result = await entrance(ScriptedModel(["a", "b"]), ScriptedJudge([2, 1]), vector(3, 1, on_exhausted="last"))
    assert result.text == "b"


@everywhere
@for_every("rating", [0, 5, "3", True, None])
async def test_a_rating_off_the_scale_costs_no_generation(entrance: Entrance, rating: object) -> None:
    """Corrected: the judge is asked again, and the generator is not."""
    fine = {"rationale": "r", "rating": 4, "feedback": ""}
    spoken = ScriptedModel([{**fine, "rating": rating}, fine], name="judge")
    model = ScriptedModel(["draft"])
    result = await entrance(model, Helpfulness(spoken), vector(3, 3))
    assert result == Came("draft", "accepted")
    assert (len(model.prompts), len(spoken.prompts)) == (1, 2)


@everywhere
async def test_a_judge_that_fails_costs_no_generation(entrance: Entrance) -> None:
    """Corrected: a broken judge neither aborts the call nor burns attempts; the answer is flagged."""
    model, judge = ScriptedModel(["draft"]), ScriptedJudge([RuntimeError()])
    result = await entrance(model, judge, vector(3, 3))
    assert result == Came("draft", "judge_failed")
    assert len(model.prompts) == 1


@everywhere
async def test_the_generator_sees_its_draft_and_the_feedback(entrance: Entrance) -> None:
    """Corrected: where asked, a retry is the question, the refused draft and the fault, never the gate."""
    model = ScriptedModel(["It is -255 C.", "It is 15 C."])
    settings = vector(4, 15, augment="last_draft")
    await entrance(model, ScriptedJudge([(1, "Colder than possible."), 4]), settings)
    first, second = model.prompts
    assert [str(one.text) for one in first] == [ASKED]
    assert [one.type for one in second] == ["human", "ai", "human"]
    assert [str(one.text) for one in second[:2]] == [ASKED, "It is -255 C."]
    assert "Colder than possible." in str(second[2].text)
    assert not any(word in str(second[2].text) for word in ("rating", "4", "evaluation", "until"))


@everywhere
async def test_the_generator_sees_the_feedback_and_the_question(entrance: Entrance) -> None:
    """By default a retry is the fault and the question once more, without the refused draft and the gate."""
    model = ScriptedModel(["It is -255 C.", "It is 15 C."])
    await entrance(model, ScriptedJudge([(1, "Colder than possible."), 4]), vector(4, 15))
    second = model.prompts[1]
    assert [one.type for one in second] == ["human", "human"]
    assert str(second[0].text) == ASKED
    note = str(second[1].text)
    assert note == f"{ASKED}\n\nColder than possible."
    assert not any(word in note for word in ("-255", "rating", "4", "evaluation", "until"))


@everywhere
async def test_only_the_feedback_where_asked(entrance: Entrance) -> None:
    """As the advisor does it: the question and the feedback, the latest first, without any draft."""
    model = ScriptedModel(["a", "b", "c"])
    judge = ScriptedJudge([(1, "fault one"), (1, "fault two"), 4])
    await entrance(model, judge, vector(4, 3, augment="feedback_only"))
    last = [str(one.text) for one in model.prompts[-1]]
    assert last == [ASKED, f"{ASKED}\n\nfault two\nfault one"]


@everywhere
async def test_the_judge_sees_the_question_and_not_the_retries(entrance: Entrance) -> None:
    """Every attempt is judged as an answer to the original question."""
    judge = ScriptedJudge([1, 1, 4])
    await entrance(ScriptedModel(["a", "b", "c"]), judge, vector(4, 3))
    assert [(one.user_input, one.response) for one in judge.samples] == [(ASKED, text) for text in "abc"]


def helpfulness() -> Judge:
    """Make a judge on a model that reads the answer it is shown."""

    def reply(messages: list[BaseMessage]) -> dict[str, object]:
        bad = '"answer": "bad' in str(messages[-1].text)
        return {"rationale": "r", "rating": 2 if bad else 4, "feedback": "be good" if bad else ""}

    return Helpfulness(ScriptedModel(reply, name="judge"))


async def test_the_same_verdicts_through_every_entrance() -> None:
    """A plain call, the graph, `SelfRefine`, sync and async, and `evaluate` come to the same verdicts."""

    def summarised(verdicts: list[Verdict | None]) -> list[tuple[int | None, bool | None, str]]:
        return [(one.rating, one.passed, one.feedback) for one in verdicts if one is not None]

    def replies() -> ScriptedModel:
        return ScriptedModel(["bad one", "bad two", "good"])

    judge = helpfulness()
    samples = [Sample(user_input=ASKED, response=text) for text in ("bad one", "bad two", "good")]
    expected = [(2, False, "be good"), (2, False, "be good"), (4, True, "")]

    outcome = SelfRefine(replies(), judge).refine(ASKED)
    aoutcome = await SelfRefine(replies(), judge).arefine(ASKED)
    rows = evaluate(outcome.samples(), judge).rows
    seen: list[Verdict | None] = []

    def listening(sample: Sample) -> Verdict:
        seen.append(judge(sample))
        assert seen[-1] is not None
        return seen[-1]

    async def alistening(sample: Sample) -> Verdict:
        seen.append(await judge.acall(sample))
        assert seen[-1] is not None
        return seen[-1]

    asked: Any = {"messages": [("user", ASKED)]}
    state = self_refine(replies(), listening).invoke(asked)
    by_graph, seen = seen, []
    astate = await self_refine(replies(), alistening).ainvoke(asked)

    assert summarised([judge(one) for one in samples]) == expected
    assert summarised([await judge.acall(one) for one in samples]) == expected
    assert summarised([one.verdict for one in outcome.attempts]) == expected
    assert summarised([one.verdict for one in aoutcome.attempts]) == expected
    assert summarised(list(by_graph)) == summarised(seen) == expected
    assert summarised([next(iter(one.verdicts.values())) for one in rows]) == expected
    for one in (state, astate):
        summary = one["messages"][-1].response_metadata["refine"]
        assert [attempt["rating"] for attempt in summary["attempts"]] == [2, 2, 4]
