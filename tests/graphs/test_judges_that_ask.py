"""A judge may stop to ask a human, which is no fault of it."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from graphs import NotAccepted, self_refine
from judges import ConfigurationError, Judge, Length, Panel, Verdict, as_judge
from judges.compose.cascade import Cascade
from judges.errors import CannotJudge
from judges.requests import Deliberation
from judges.sample import Sample
from judges.testing import ScriptedModel
from refine import SelfRefine

ASKED: Any = {"messages": [("user", "what?")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}
OTHER: Any = {"configurable": {"thread_id": "2"}}


def human(response: str) -> int:
    """Ask a human about an answer."""
    rating: int = interrupt({"judge this": response})
    return rating


async def ahuman(response: str) -> int:
    """Ask a human without blocking."""
    rating: int = interrupt({"judge this": response})
    return rating


class Human(Judge):
    """A judge of its own class that asks a human."""

    name = "human"

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask."""
        if not sample.response:
            raise CannotJudge("no_response", "nothing to judge")
        yield ()
        return Verdict.rated(interrupt({"judge this": sample.response}))


JUDGES: dict[str, Any] = {
    "function": human,
    "async function": ahuman,
    "class": Human(),
    "panel": Panel([Length(at_least=1), human]),
    "cascade": Cascade([Length(at_least=1), human]),
}


@pytest.mark.parametrize("kind", JUDGES)
async def test_a_human_who_is_asked_by_a_judge_decides(kind: str) -> None:
    """The question reaches whoever runs the graph, the rating resumes it, and the generator is not asked again."""
    drafts: list[str] = []

    def write(_: Any) -> str:
        drafts.append("draft")
        return f"draft {len(drafts)}"

    graph = self_refine(write, JUDGES[kind], checkpointer=InMemorySaver())
    (question,) = graph.invoke(ASKED, THREAD)["__interrupt__"]
    assert question.value == {"judge this": "draft 1"}
    (question,) = graph.invoke(Command(resume=1), THREAD)["__interrupt__"]
    assert question.value == {"judge this": "draft 2"}
    answer = (await graph.ainvoke(Command(resume=4), THREAD))["messages"][-1]
    assert (answer.text, answer.response_metadata["refine"]["rating"]) == ("draft 2", 4)
    assert len(drafts) == 2


@pytest.mark.parametrize("kind", JUDGES)
async def test_a_refiner_with_a_checkpointer_waits_for_the_human(kind: str) -> None:
    """Its outcome is interrupted, the question stands in its state, and a command resumes it."""
    refiner = SelfRefine(lambda _: "draft", JUDGES[kind], checkpointer=InMemorySaver())
    assert refiner.refine("what?", THREAD).stop_reason == "interrupted"
    assert [one.value for one in refiner.graph.get_state(THREAD).interrupts] == [{"judge this": "draft"}]
    assert refiner.invoke(Command(resume=4), THREAD).text == "draft"
    assert (await refiner.arefine("what?", OTHER)).stop_reason == "interrupted"
    assert (await refiner.ainvoke(Command(resume=4), OTHER)).text == "draft"


@pytest.mark.parametrize(("durability", "generated"), [("sync", 1), ("exit", 2)])
def test_only_where_nothing_is_stored_on_the_way_is_the_attempt_made_again(
    durability: Any, generated: int
) -> None:
    """While a human is asked, every step is stored, but under `"exit"`, as its description says."""
    model = ScriptedModel(["draft"], cycle=True)
    refiner = SelfRefine(model, human, checkpointer=InMemorySaver(), durability=durability)
    assert refiner.refine("what?", THREAD).stop_reason == "interrupted"
    assert refiner.invoke(Command(resume=4), THREAD).text == "draft"
    assert len(model.prompts) == generated


@pytest.mark.parametrize("kind", JUDGES)
def test_in_a_node_the_graph_around_asks(kind: str) -> None:
    """An interrupt of a judge inside a node is one of the graph around."""
    graph = StateGraph(MessagesState)
    graph.add_node("chat", SelfRefine(lambda _: "draft", JUDGES[kind]))
    graph.add_edge(START, "chat")
    compiled = graph.compile(checkpointer=InMemorySaver())
    (question,) = compiled.invoke(ASKED, THREAD)["__interrupt__"]
    assert question.value == {"judge this": "draft"}
    resumed: Any = compiled.invoke(Command(resume=4), THREAD)
    assert resumed["messages"][-1].text == "draft"


@pytest.mark.parametrize("kind", JUDGES)
async def test_a_judge_that_can_ask_nobody_is_an_error(kind: str) -> None:
    """Without a graph nothing can be resumed: an error says so, instead of an answer that nobody judged."""
    refiner = SelfRefine(lambda _: "draft", JUDGES[kind])
    with pytest.raises(ConfigurationError, match="give a checkpointer to the loop"):
        refiner.invoke("what?")
    with pytest.raises(ConfigurationError, match="give a checkpointer to the loop"):
        await refiner.ainvoke("what?")


def test_a_judge_called_in_a_node_asks_as_well() -> None:
    """A judge that a node calls by itself interrupts the node's graph."""
    judge = as_judge(human)
    graph = StateGraph(MessagesState)
    graph.add_node("judge", lambda _: {"messages": [("ai", str(judge(response="draft").rating))]})
    graph.add_edge(START, "judge")
    compiled = graph.compile(checkpointer=InMemorySaver())
    assert compiled.invoke(ASKED, THREAD)["__interrupt__"]
    resumed: Any = compiled.invoke(Command(resume=3), THREAD)
    assert resumed["messages"][-1].text == "3"


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_of_judges_side_by_side_each_gets_the_decision_on_its_own_question(way: str) -> None:
    """Whichever of them comes first: a yes to one is none to the other, also where one stands deeper."""
    safety_asked = threading.Event()

    def helpful(response: str) -> int:
        safety_asked.wait(5)
        safety_asked.clear()
        return human(f"helpful? {response}")

    def safe(response: str) -> int:
        safety_asked.set()
        return human(f"safe? {response}")

    inner = Panel({"helpful": as_judge(helpful), "length": Length(at_least=1)})
    both = Panel({"quality": inner, "safety": as_judge(safe)})
    graph = self_refine(
        lambda _: "draft", both, checkpointer=InMemorySaver(), max_attempts=1, on_exhausted="raise"
    )
    asked = []
    state = graph.invoke(ASKED, THREAD) if way == "sync" else await graph.ainvoke(ASKED, THREAD)
    for rating in (4, 1):
        asked += [one.value["judge this"] for one in state["__interrupt__"]]
        resume: Command[Any] = Command(resume=rating)
        if rating == 4:
            state = graph.invoke(resume, THREAD) if way == "sync" else await graph.ainvoke(resume, THREAD)
    assert asked == ["helpful? draft", "safe? draft"]
    with pytest.raises(NotAccepted) as refused:
        graph.invoke(resume, THREAD) if way == "sync" else await graph.ainvoke(resume, THREAD)
    verdict = refused.value.outcome.attempts[0].verdict
    assert verdict is not None
    quality, safety = verdict.items
    assert (quality.passed, safety.passed) == (True, False)


def test_a_turn_begun_by_updating_the_state_goes_on() -> None:
    """What is stored is plain data then, too, so that it goes on from there, and asks."""
    saver = InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=None))
    graph = self_refine(lambda _: "draft", human, checkpointer=saver)
    graph.invoke(ASKED, THREAD)
    forked = graph.update_state(THREAD, {"messages": [("user", "and what else?")]}, as_node=START)
    (question,) = graph.invoke(None, forked)["__interrupt__"]
    assert question.value == {"judge this": "draft"}
    assert graph.invoke(Command(resume=4), THREAD)["messages"][-1].text == "draft"
