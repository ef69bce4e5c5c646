"""Nothing of a rejected draft leaves `SelfRefine`, alone, in a chain or in an outer graph."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import product
from operator import itemgetter
from typing import Any, get_args

import pytest
from langchain_core._api import LangChainDeprecationWarning
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda, RunnableParallel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import StreamMode

from judges import Sample, Verdict
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine
from tests.graphs.test_streams import GOOD, MARK, agent, function
from tests.laws import for_every

Seen = list[Any]
"""Everything that a client got to see through one door."""

REFUSALS = 3
MODES: tuple[Any, ...] = get_args(StreamMode)
THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}


def drafts() -> list[str]:
    """Give the drafts of one run: refused ones, each with the mark, then a good one."""
    return [*(f"wrong {MARK} {number}" for number in range(1, REFUSALS + 1)), GOOD]


def chain() -> Runnable[Any, Any]:
    """Make a chain of a prompt, a chat model and a parser."""
    prompt = ChatPromptTemplate([("system", "Answer."), MessagesPlaceholder("messages")])
    return prompt | ScriptedModel(drafts(), cycle=True) | StrOutputParser()


GENERATORS: dict[str, Callable[[], Any]] = {
    "chat model": lambda: ScriptedModel(drafts(), cycle=True),
    "chain": chain,
    "function": lambda: function(ScriptedModel(drafts(), cycle=True)),
    "agent": lambda: agent(drafts(), cycle=True),
}


def refiner(kind: str, **settings: Any) -> SelfRefine:
    """Make a refiner around a fresh generator of a kind, with a judge that quotes what it refuses."""

    def say(sample: Sample) -> Verdict:
        bad = MARK in (sample.response or "")
        said = f"you said: {sample.response}"
        return Verdict.rated(1 if bad else 4, rationale=said, feedback=said if bad else "")

    return SelfRefine(GENERATORS[kind](), ScriptedJudge(say), max_attempts=REFUSALS + 1, **settings)


def outer_chain(inner: SelfRefine) -> Runnable[Any, Any]:
    """Put a refiner between a prompt and a parser."""
    return ChatPromptTemplate([("user", "{question}")]) | inner | StrOutputParser()


def outer_graph(inner: SelfRefine, checkpointer: Any = None) -> Any:
    """Put a refiner into a node function of a graph over messages."""

    def node(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        return {"messages": [inner.invoke(state["messages"], config)]}

    async def anode(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        return {"messages": [await inner.ainvoke(state["messages"], config)]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", RunnableLambda(node, anode))
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph.compile(checkpointer=checkpointer)


async def collected(stream: AsyncIterator[Any]) -> Seen:
    """Read an async stream to its end."""
    return [one async for one in stream]


ASKED: dict[str, Any] = {"messages": [("user", "what is it?")]}
FILLED = {"question": "what is it?"}


async def abatched(inner: SelfRefine) -> Seen:
    """Open the door `abatch`."""
    return await inner.abatch(["what is it?"] * 2, {"max_concurrency": 1})


async def acompleted(inner: SelfRefine) -> Seen:
    """Open the door `abatch_as_completed`."""
    return [one async for one in inner.abatch_as_completed(["what is it?"])]


DOORS: dict[str, Callable[[SelfRefine], Iterator[Any] | Awaitable[Any]]] = {
    "invoke": lambda inner: iter([inner.invoke("what is it?")]),
    "ainvoke": lambda inner: inner.ainvoke("what is it?"),
    "stream": lambda inner: inner.stream("what is it?"),
    "astream": lambda inner: collected(inner.astream("what is it?")),
    "astream_events v1": lambda inner: collected(inner.astream_events("what is it?", version="v1")),
    "astream_events v2": lambda inner: collected(inner.astream_events("what is it?", version="v2")),
    "astream_log": lambda inner: collected(inner.astream_log("what is it?")),
    "batch": lambda inner: iter(inner.batch(["what is it?"] * 2, {"max_concurrency": 1})),
    "batch_as_completed": lambda inner: inner.batch_as_completed(["what is it?"]),
    "abatch": abatched,
    "abatch_as_completed": acompleted,
    "transform": lambda inner: inner.transform(iter(["what is it?"])),
    "chain invoke": lambda inner: iter([outer_chain(inner).invoke(FILLED)]),
    "chain stream": lambda inner: outer_chain(inner).stream(FILLED),
    "chain astream": lambda inner: collected(outer_chain(inner).astream(FILLED)),
    "chain astream_events v1": lambda inner: collected(outer_chain(inner).astream_events(FILLED, version="v1")),
    "chain astream_events v2": lambda inner: collected(outer_chain(inner).astream_events(FILLED, version="v2")),
    "chain astream_log": lambda inner: collected(outer_chain(inner).astream_log(FILLED)),
    "chain batch": lambda inner: iter(outer_chain(inner).batch([FILLED])),
    "parallel astream_events": lambda inner: collected(
        RunnableParallel(one=itemgetter("question") | inner).astream_events(FILLED, version="v2")
    ),
    "graph stream": lambda inner: outer_graph(inner).stream(ASKED, stream_mode=list(MODES), subgraphs=True),
    "graph stream v2": lambda inner: outer_graph(inner).stream(
        ASKED, stream_mode=list(MODES), subgraphs=True, version="v2"
    ),
    "graph astream": lambda inner: collected(
        outer_graph(inner).astream(ASKED, stream_mode=list(MODES), subgraphs=True)
    ),
    "graph astream_events": lambda inner: collected(outer_graph(inner).astream_events(ASKED, version="v2")),
    "kept graph stream": lambda inner: outer_graph(inner, InMemorySaver()).stream(
        ASKED, THREAD, stream_mode=list(MODES), subgraphs=True
    ),
    "kept graph astream": lambda inner: collected(
        outer_graph(inner, InMemorySaver()).astream(ASKED, THREAD, stream_mode=list(MODES), subgraphs=True)
    ),
    "kept graph astream_events": lambda inner: collected(
        outer_graph(inner, InMemorySaver()).astream_events(ASKED, THREAD, version="v2")
    ),
    "with_config": lambda inner: inner.with_config(tags=["x"]).stream("what is it?"),
    "with_retry": lambda inner: inner.with_retry().stream("what is it?"),
    "with_fallbacks": lambda inner: inner.with_fallbacks([refiner("function")]).stream("what is it?"),
}

older = pytest.mark.filterwarnings(
    f"ignore::{LangChainDeprecationWarning.__module__}.{LangChainDeprecationWarning.__name__}"
)


async def opened(door: str, inner: SelfRefine) -> str:
    """Go through a door, sync or async, and write down all that is seen."""
    seen = DOORS[door](inner)
    return repr(list(seen) if isinstance(seen, Iterator) else await seen)


@older
@pytest.mark.parametrize("kind", GENERATORS)
@for_every("door", DOORS)
async def test_nothing_of_a_rejected_draft_is_seen(door: str, kind: str) -> None:
    """A client sees the accepted answer and nothing of the drafts, tool calls and feedback before it."""
    seen = await opened(door, refiner(kind))
    assert GOOD in seen
    assert MARK not in seen


@older
@pytest.mark.parametrize("kind", GENERATORS)
@for_every(
    "durability, door",
    product(["sync", "exit"], ["invoke", "astream", "astream_events v2", "astream_log"]),
)
async def test_nothing_is_seen_under_a_checkpointer(durability: Any, door: str, kind: str) -> None:
    """The same where the refiner has a checkpointer of its own."""
    inner = refiner(kind, checkpointer=InMemorySaver(), durability=durability)
    kept: Any = inner.with_config(THREAD)
    seen = await opened(door, kept)
    assert GOOD in seen
    assert MARK not in seen
    assert MARK not in repr((inner.graph.get_state(THREAD), list(inner.graph.get_state_history(THREAD))))


async def test_a_stream_is_the_answer_in_one_chunk() -> None:
    """It is accepted and whole, with its metadata, whoever streams; nothing is left open after it."""
    stream = refiner("chat model").stream("what is it?")
    chunk: AIMessage = next(stream)
    assert next(stream, None) is None
    (other,) = [one async for one in refiner("agent").astream("what is it?")]
    for one in (chunk, other):
        assert isinstance(one, AIMessageChunk)
        assert (one.text, one.chunk_position) == (GOOD, "last")
        assert one.response_metadata["refine"]["passed"] is True
    assert "".join(outer_chain(refiner("chat model")).stream(FILLED)) == GOOD


def test_a_streamed_answer_is_the_invoked_one() -> None:
    """The chunk holds what the message holds: tool calls, usage and content blocks."""
    answer = AIMessage(
        [{"type": "text", "text": "see"}],
        tool_calls=[{"name": "lookup", "args": {"subject": "x"}, "id": "1"}],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        additional_kwargs={"mine": 1},
        name="bot",
    )
    (chunk,) = SelfRefine(lambda _: answer, ScriptedJudge([4])).stream("what?")
    for field in ("content", "tool_calls", "usage_metadata", "additional_kwargs", "name"):
        assert getattr(chunk, field) == getattr(answer, field)


@pytest.mark.parametrize("checkpointer", [None, InMemorySaver()], ids=["plain", "kept"])
def test_an_outer_messages_stream_has_the_answer_once(checkpointer: Any) -> None:
    """A graph around a refiner streams one message, the one that is kept in its state."""
    made = outer_graph(refiner("agent"), checkpointer)
    seen = list(made.stream(ASKED, THREAD, stream_mode=["messages", "values"], subgraphs=True))
    values = [payload[0] for _, mode, payload in seen if mode == "messages"]
    kept = [payload for place, mode, payload in seen if mode == "values" and place == ()][-1]["messages"][-1]
    assert [(one.text, one.id) for one in values] == [(GOOD, kept.id)]


def summarised(events: list[Any]) -> list[tuple[str, int | None]]:
    """List the custom events by name and attempt."""
    custom = [one for one in events if one["event"] == "on_custom_event"]
    return [(one["name"], one["data"].get("attempt")) for one in custom]


ORDER = [(name, attempt) for attempt in (1, 2) for name in ("start", "attempt", "verdict")]


def twice(**settings: Any) -> SelfRefine:
    """Make a refiner whose second draft is accepted."""
    return SelfRefine(ScriptedModel(["one", "two"]), ScriptedJudge([1, 4]), **settings)


def kept(durability: Any) -> Callable[[], AsyncIterator[Any]]:
    """Ask one with a checkpointer of its own."""
    inner = twice(checkpointer=InMemorySaver(), durability=durability)
    return lambda: inner.astream_events("what?", THREAD, version="v2")


TOLD: dict[str, Callable[[], AsyncIterator[Any]]] = {
    "alone": lambda: twice().astream_events("what?", version="v2"),
    "kept, sync": kept("sync"),
    "kept, exit": kept("exit"),
    "in a chain": lambda: outer_chain(twice()).astream_events(FILLED, version="v2"),
    "in a graph": lambda: outer_graph(twice()).astream_events(ASKED, THREAD, version="v2"),
    "in a kept graph": lambda: outer_graph(twice(), InMemorySaver()).astream_events(ASKED, THREAD, version="v2"),
}


@for_every("place", TOLD)
async def test_progress_goes_out_once_as_custom_events(place: str) -> None:
    """`astream_events` tells each attempt, each verdict and the end, in order, wherever the refiner stands."""
    told = summarised(await collected(TOLD[place]()))
    assert told == [*((f"refine.{name}", attempt) for name, attempt in ORDER), ("refine.finish", None)]


@for_every("saver", [None, InMemorySaver()])
def test_progress_reaches_an_outer_custom_stream_once(saver: Any) -> None:
    """The custom stream of a graph around a refiner holds the progress once."""
    graph = outer_graph(twice(), saver)
    events = [event for _, event in graph.stream(ASKED, THREAD, stream_mode="custom", subgraphs=True)]
    assert [(one["event"], one.get("attempt")) for one in events] == [*ORDER, ("finish", None)]


async def test_shown_drafts_go_out_as_events_and_are_discarded() -> None:
    """With `show_drafts` each draft is an event, a refused one is discarded; the stream is the answer alone."""
    model, judge = ScriptedModel([f"wrong {MARK}", GOOD], cycle=True), ScriptedJudge([1, 4], cycle=True)
    inner = SelfRefine(model, judge, show_drafts=True)
    events = await collected(inner.astream_events("what?", version="v2"))
    assert summarised(events) == [
        ("refine.start", 1),
        ("refine.attempt", 1),
        ("refine.draft", 1),
        ("refine.verdict", 1),
        ("refine.discard", 1),
        ("refine.start", 2),
        ("refine.attempt", 2),
        ("refine.draft", 2),
        ("refine.verdict", 2),
        ("refine.finish", None),
    ]
    assert MARK not in repr([one for one in events if one["name"] != "refine.draft"])
    assert [one.text for one in inner.stream("what?")] == [GOOD]


def test_an_error_quotes_no_draft() -> None:
    """The error of an exhausted run quotes neither drafts nor feedback; the record is on the exception alone."""
    judge = ScriptedJudge([(1, f"not {MARK}")], cycle=True)
    refused = SelfRefine(ScriptedModel([f"wrong {MARK}"], cycle=True), judge, on_exhausted="raise")
    with pytest.raises(Exception, match="no answer may be released") as raised:
        refused.invoke("what?")
    assert MARK not in f"{raised.value} {raised.value!r}"
