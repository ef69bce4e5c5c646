"""Nothing of a rejected draft leaves the graph, whichever way it is called or streamed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, get_args

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core._api import LangChainBetaWarning, LangChainDeprecationWarning
from langchain_core.callbacks import StreamingStdOutCallbackHandler
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.func import task
from langgraph.graph.message import push_message
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StreamMode

from graphs import Policy, self_refine
from judges import Sample, Verdict
from judges.messages import ToolCall
from judges.testing import ScriptedJudge, ScriptedModel
from tests.laws import for_every

Graph = CompiledStateGraph[Any, Any, Any, Any]
Seen = list[Any]
"""Everything that a client got to see through one door."""

MARK = "Xq7Zdraft"
GOOD = "a good answer"
REFUSALS = 2
MODES: tuple[Any, ...] = (*get_args(StreamMode), "tools")
"""Every mode of LangGraph; `tools` is not among the declared ones."""

ASKED: dict[str, Any] = {"messages": [("user", "what is it?")]}


@tool
def lookup(subject: str) -> str:
    """Look a subject up."""
    return f"about {subject}"


def drafts() -> list[str]:
    """Give the drafts of one run: refused ones, each with the mark, then a good one."""
    return [*(f"wrong {MARK} {number}" for number in range(1, REFUSALS + 1)), GOOD]


def chat_model() -> ScriptedModel:
    """Make a chat model that can stream."""
    return ScriptedModel(drafts())


def chain() -> Runnable[Any, Any]:
    """Make a chain of a prompt and a chat model."""
    prompt = ChatPromptTemplate([("system", "Answer."), MessagesPlaceholder("messages")])
    return prompt | ScriptedModel(drafts())


def function(model: ScriptedModel | None = None) -> Callable[[list[BaseMessage]], str]:
    """Make a plain function of the messages that streams a model inside."""
    model = model or ScriptedModel(drafts())

    def answer(messages: list[BaseMessage]) -> str:
        return "".join(str(chunk.text) for chunk in model.stream(messages))

    return answer


def agent(texts: Sequence[str] | None = None, *, cycle: bool = False) -> Graph:
    """Make an agent whose tool calls, tool results and answers all carry the mark until it is good."""
    script: list[object] = []
    for draft in texts or drafts():
        subject = MARK if MARK in draft else "it"
        script += [ToolCall(name="lookup", args={"subject": subject}), draft]
    made: Graph = create_agent(ScriptedModel(script, cycle=cycle), tools=[lookup])
    return made


def pushing() -> Callable[[list[BaseMessage]], str]:
    """Make a function that pushes each draft into the graph's messages."""
    left = iter(drafts())

    def generate(_: list[BaseMessage]) -> str:
        draft = next(left)
        push_message(AIMessage(draft, id=f"id {draft}"))
        return draft

    return generate


@task
def think(text: str) -> str:
    """Think."""
    return text


def thinking() -> Callable[[list[BaseMessage]], str]:
    """Make a function that calls tasks of LangGraph's functional API."""
    left = iter(drafts())

    def generate(_: list[BaseMessage]) -> str:
        return str(think(next(left)).result())

    return generate


def reasoning() -> ScriptedModel:
    """Make a thinking model: its reasoning speaks of what was refused, also in the good answer."""
    thought = f"The reviewer did not accept {MARK}."
    blocks: list[Any] = [{"type": "thinking", "thinking": thought, "signature": "s"}]
    return ScriptedModel(
        [
            AIMessage([*blocks, {"type": "text", "text": draft}], additional_kwargs={"reasoning_content": thought})
            for draft in drafts()
        ]
    )


@tool
def tell(subject: str, runtime: ToolRuntime) -> str:
    """Look a subject up, and stream it meanwhile."""
    runtime.emit_output_delta(subject)
    runtime.stream_writer(subject)
    return subject


def telling() -> Graph:
    """Make an agent whose tool streams its output."""
    script: list[object] = []
    for draft in drafts():
        script += [ToolCall(name="tell", args={"subject": draft}), draft]
    made: Graph = create_agent(ScriptedModel(script), tools=[tell])
    return made


def showing() -> Graph:
    """Make a loop that shows its own drafts."""
    return self_refine(
        ScriptedModel(drafts()), strict(), policy=Policy(max_attempts=REFUSALS + 1, show_drafts=True)
    )


GENERATORS: dict[str, Callable[[], Any]] = {
    "chat model": chat_model,
    "chain": chain,
    "function": function,
    "agent": agent,
    "pushing function": pushing,
    "function of tasks": thinking,
    "thinking model": reasoning,
    "agent with streaming tool": telling,
    "loop that shows drafts": showing,
}


def strict() -> ScriptedJudge:
    """Make a judge that refuses what carries the mark, and quotes it."""

    def say(sample: Sample) -> Verdict:
        said = f"you said: {sample.response}"
        bad = MARK in (sample.response or "")
        return Verdict.rated(1 if bad else 4, rationale=said if bad else "right", feedback=said if bad else "")

    return ScriptedJudge(say)


def graph(kind: str, **settings: Any) -> Graph:
    """Make the graph around a fresh generator of a kind."""
    policy = Policy(max_attempts=REFUSALS + 1, **settings.pop("policy", {}))
    return self_refine(GENERATORS[kind](), strict(), policy=policy, **settings)


def streamed(**settings: Any) -> Callable[[Graph], Seen]:
    """Make the door `stream` with settings."""
    return lambda made: list(made.stream(ASKED, **settings))


def astreamed(**settings: Any) -> Callable[[Graph], Awaitable[Seen]]:
    """Make the door `astream` with settings."""

    async def door(made: Graph) -> Seen:
        return [one async for one in made.astream(ASKED, **settings)]

    return door


def events_v3(made: Graph) -> Seen:
    """Open the door `stream_events`, version 3, and look at its events and its output."""
    run = made.stream_events(ASKED, version="v3")
    return [*run, run.output]


def messages_v3(made: Graph) -> Seen:
    """Open the door `stream_events`, version 3, and look at its messages."""
    run = made.stream_events(ASKED, version="v3")
    return [(message, str(message.text)) for message in run.messages]


async def aevents_v3(made: Graph) -> Seen:
    """Open the door `astream_events`, version 3."""
    run = await made.astream_events(ASKED, version="v3")
    return [*[one async for one in run], await run.output()]


def aevents(version: Any) -> Callable[[Graph], Awaitable[Seen]]:
    """Make the door `astream_events` of an older version."""

    async def door(made: Graph) -> Seen:
        return [one async for one in made.astream_events(ASKED, version=version)]

    return door


async def alog(made: Graph) -> Seen:
    """Open the door `astream_log`."""
    return [one async for one in made.astream_log(ASKED)]


async def ainvoked(made: Graph) -> Seen:
    """Open the door `ainvoke`."""
    return [await made.ainvoke(ASKED)]


async def abatched(made: Graph) -> Seen:
    """Open the door `abatch`."""
    return await made.abatch([ASKED])


DOORS: dict[str, Callable[[Graph], Seen] | Callable[[Graph], Awaitable[Seen]]] = {
    **{f"stream {mode}": streamed(stream_mode=mode, subgraphs=True) for mode in MODES},
    **{f"astream {mode}": astreamed(stream_mode=mode) for mode in MODES},
    "stream all": streamed(stream_mode=list(MODES), subgraphs=True),
    "stream all v2": streamed(stream_mode=list(MODES), subgraphs=True, version="v2"),
    "astream all": astreamed(stream_mode=list(MODES), subgraphs=True),
    "astream all v2": astreamed(stream_mode=list(MODES), subgraphs=True, version="v2"),
    "stream_events v3": events_v3,
    "stream_events v3 messages": messages_v3,
    "astream_events v1": aevents("v1"),
    "astream_events v2": aevents("v2"),
    "astream_events v3": aevents_v3,
    "astream_log": alog,
    "invoke": lambda made: [made.invoke(ASKED)],
    "ainvoke": ainvoked,
    "batch": lambda made: made.batch([ASKED]),
    "abatch": abatched,
}


async def opened(door: str, made: Graph) -> Seen:
    """Go through a door, sync or async."""
    seen = DOORS[door](made)
    return seen if isinstance(seen, list) else await seen


def messages_of(seen: Iterable[Any]) -> list[BaseMessage]:
    """Pick the messages of a stream in mode `messages` without namespaces."""
    return [one[0] for one in seen]


older = pytest.mark.filterwarnings(
    f"ignore::{LangChainBetaWarning.__module__}.{LangChainBetaWarning.__name__}",
    f"ignore::{LangChainDeprecationWarning.__module__}.{LangChainDeprecationWarning.__name__}",
)


@older
@pytest.mark.parametrize("kind", GENERATORS)
@for_every("door", DOORS)
async def test_nothing_of_a_rejected_draft_is_seen(door: str, kind: str) -> None:
    """A client sees the accepted answer and nothing of the drafts, tool calls and feedback before it."""
    seen = repr(await opened(door, graph(kind)))
    assert MARK not in seen
    assert GOOD in seen or door.endswith(("checkpoints", "custom", "tools"))


@pytest.mark.parametrize("kind", GENERATORS)
@pytest.mark.parametrize("durability", ["sync", "exit"])
async def test_nothing_is_seen_under_a_checkpointer(durability: Any, kind: str) -> None:
    """A checkpointer stores the drafts, but neither streams nor states show them."""
    made = graph(kind, checkpointer=InMemorySaver())
    config: RunnableConfig = {"configurable": {"thread_id": "1"}}
    settings: dict[str, Any] = {"stream_mode": list(MODES), "subgraphs": True, "durability": durability}
    seen = [*made.stream(ASKED, config, **settings)]
    state = made.get_state(config, subgraphs=True)
    assert GOOD in repr(seen)
    assert GOOD in repr(state)
    assert MARK not in repr((seen, state, list(made.get_state_history(config))))


@pytest.mark.parametrize("kind", GENERATORS)
async def test_messages_mode_emits_one_whole_answer(kind: str) -> None:
    """The stream of messages is the accepted answer, once and in one piece; the state has it and a summary."""
    blocking = messages_of(graph(kind).stream(ASKED, stream_mode="messages"))
    waiting = messages_of([one async for one in graph(kind).astream(ASKED, stream_mode="messages")])
    assert [one.text for one in blocking] == [GOOD]
    assert [one.text for one in waiting] == [GOOD]
    made = graph(kind).invoke(ASKED)
    assert set(made) == {"messages", "refine"}
    assert [one.type for one in made["messages"]] == ["human", "ai"]


def test_the_streamed_and_the_kept_answer_are_one() -> None:
    """The message of the stream has an id that is not the draft's, which a trace may show, and is the one kept."""
    generate = lambda _: AIMessageChunk(content=GOOD, id="of the draft")  # noqa: E731 - a generator
    made = self_refine(generate, ScriptedJudge([4]), checkpointer=InMemorySaver())
    config: RunnableConfig = {"configurable": {"thread_id": "1"}}
    (message,) = messages_of(made.stream(ASKED, config, stream_mode="messages"))
    assert message.id not in (None, "of the draft")
    assert type(message) is AIMessage
    assert made.get_state(config).values["messages"][-1].id == message.id


def test_the_summary_quotes_no_refused_draft() -> None:
    """Ratings of all attempts stand in the metadata; a rationale only where it speaks of the answer itself."""
    summary = graph("chat model").invoke(ASKED)["messages"][-1].response_metadata["refine"]
    assert [one["rating"] for one in summary["attempts"]] == [1] * REFUSALS + [4]
    assert summary["rationale"] == "right"


def test_a_draft_released_as_best_says_nothing_of_the_others() -> None:
    """When nothing passes, the best draft is released, and nothing of the worse ones with it."""
    drafts = iter(["first secret1", "second kept2", "third secret3"])
    judge = ScriptedJudge([(1, "not secret1"), (2, "rather than secret1"), (1, "no secret3")])
    seen = repr(list(self_refine(lambda _: next(drafts), judge).stream(ASKED, stream_mode=list(MODES))))
    assert "second kept2" in seen
    assert "secret" not in seen


def test_a_tool_cannot_write_a_draft_into_the_custom_stream() -> None:
    """What a tool of a rejected attempt writes to LangGraph's stream writer does not reach the client."""

    @tool
    def lookup(subject: str) -> str:
        """Look a subject up, and tell the client about it."""
        get_stream_writer()({"looking up": subject})
        return subject

    calls = [ToolCall(name="lookup", args={"subject": MARK}), f"wrong {MARK}"]
    model = ScriptedModel([*calls, GOOD])
    made = self_refine(create_agent(model, tools=[lookup]), strict())
    assert MARK not in repr(list(made.stream(ASKED, stream_mode=["custom", "debug"], subgraphs=True)))


def test_a_function_cannot_write_a_draft_into_the_custom_stream() -> None:
    """What a generator itself writes to LangGraph's stream writer does not reach the client."""
    left = iter(drafts())

    def generate(_: object) -> str:
        draft = next(left)
        get_stream_writer()({"token": draft})
        return draft

    made = self_refine(generate, strict(), policy=Policy(max_attempts=REFUSALS + 1))
    assert MARK not in repr(list(made.stream(ASKED, stream_mode="custom")))


def test_a_handler_that_prints_tokens_prints_no_draft(capsys: pytest.CaptureFixture[str]) -> None:
    """A handler that shows what it receives as it comes is muted like a stream, though LangChain calls it none."""
    graph("function").invoke(ASKED, {"callbacks": [StreamingStdOutCallbackHandler()]})
    assert MARK not in capsys.readouterr().out
    RunnableLambda(function()).invoke([HumanMessage("q")], {"callbacks": [StreamingStdOutCallbackHandler()]})
    assert MARK in capsys.readouterr().out


def custom(made: Graph) -> list[dict[str, Any]]:
    """List the events of the custom stream."""
    return [one for one in made.stream(ASKED, stream_mode="custom") if isinstance(one, dict)]


def named(events: Iterable[dict[str, Any]]) -> list[tuple[str, int | None]]:
    """List the events by name and attempt."""
    return [(one["event"], one.get("attempt")) for one in events]


def twice() -> tuple[ScriptedModel, ScriptedJudge]:
    """Make a generator and a judge that need two attempts."""
    return ScriptedModel([f"wrong {MARK}", GOOD]), strict()


async def test_progress_is_reported_in_order() -> None:
    """Each attempt as it starts and when it is there, its verdict, and the end once, with figures and no text."""
    order = [(name, attempt) for attempt in (1, 2) for name in ("start", "attempt", "verdict")]
    events = custom(self_refine(*twice()))
    aevents = [one async for one in self_refine(*twice()).astream(ASKED, stream_mode="custom")]
    assert named(events) == named(aevents) == [*order, ("finish", None)]
    _, attempt, verdict, *_, end = events
    labels = {"outcome_id", "refiner", "thread_id"}
    assert set(attempt) == {"type", "event", "attempt", "kind", "calls", "tokens", "latency_s", *labels}
    assert (attempt["type"], attempt["calls"], attempt["tokens"]) == ("refine", 1, 5)
    assert {key: verdict[key] for key in ("judge", "rating", "score", "accepted", "unscored")} == {
        "judge": "scripted",
        "rating": 1,
        "score": 0.0,
        "accepted": False,
        "unscored": None,
    }
    assert not {"rationale", "feedback"} & set(verdict)
    assert (end["stop_reason"], end["passed"], end["attempts"], end["calls"]) == ("accepted", True, 2, 2)


def test_an_unscored_verdict_tells_its_reason() -> None:
    """A judge that failed is reported as such, never as a rating."""
    event = custom(self_refine(lambda _: "answer", ScriptedJudge([RuntimeError("down")])))[2]
    assert (event["event"], event["rating"], event["unscored"]) == ("verdict", None, "judge_failed")


def test_a_skipped_turn_tells_no_verdict() -> None:
    """A turn that calls a tool is not judged, so no verdict is reported."""
    made = self_refine(ScriptedModel([ToolCall(name="lookup", args={})]), strict())
    assert named(custom(made)) == [("start", 1), ("attempt", 1), ("finish", None)]


def shown(generator: Any, judge: Any, **settings: Any) -> Graph:
    """Make a graph that shows its drafts."""
    return self_refine(generator, judge, policy=Policy(show_drafts=True, **settings))


def test_shown_drafts_are_each_ended_by_a_discard() -> None:
    """With `show_drafts` drafts and verdicts' words are told, and that one that is not released is discarded."""
    events = custom(shown(*twice()))
    assert named(events) == [
        ("start", 1),
        ("attempt", 1),
        ("draft", 1),
        ("verdict", 1),
        ("discard", 1),
        ("start", 2),
        ("attempt", 2),
        ("draft", 2),
        ("verdict", 2),
        ("finish", None),
    ]
    assert [one["text"] for one in events if one["event"] == "draft"] == [f"wrong {MARK}", GOOD]
    verdict = next(one for one in events if one["event"] == "verdict")
    assert (verdict["rationale"], verdict["feedback"]) == (f"you said: wrong {MARK}",) * 2


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "custom"])
def test_shown_drafts_are_in_the_custom_stream_alone(mode: Any) -> None:
    """With `show_drafts` the other modes still show nothing."""
    assert MARK not in repr(list(shown(*twice()).stream(ASKED, stream_mode=mode, subgraphs=True)))


def test_tool_calls_are_shown_with_drafts() -> None:
    """With `show_drafts` the draft's event names the tools that were called."""
    draft = next(one for one in custom(shown(agent(), strict(), max_attempts=1)) if one["event"] == "draft")
    assert MARK in repr(draft["tools"])


def test_the_best_of_the_exhausted_comes_again_as_the_answer() -> None:
    """A draft is discarded as soon as it is refused; the best one is then released as the answer."""
    made = shown(ScriptedModel(["better", "worse"]), ScriptedJudge([2, 1]), max_attempts=2)
    seen: list[Any] = list(made.stream(ASKED, stream_mode=["custom", "messages"]))
    assert [one["attempt"] for _, one in seen if isinstance(one, dict) and one["event"] == "discard"] == [1, 2]
    assert [one[0].text for mode, one in seen if mode == "messages"] == ["better"]


def test_the_last_of_the_exhausted_is_not_discarded() -> None:
    """A refused draft that is released because it is the best so far and the last is not discarded."""
    made = shown(ScriptedModel(["worse", "better"]), ScriptedJudge([1, 2]), max_attempts=2)
    assert [one["attempt"] for one in custom(made) if one["event"] == "discard"] == [1]


@pytest.mark.parametrize(
    ("settings", "judge"),
    [
        ({"on_exhausted": "fallback", "fallback": "sorry", "max_attempts": 1}, [1]),
        ({"max_calls": 1, "on_exhausted": "fallback", "fallback": "sorry"}, [1]),
        ({"on_judge_error": "reject", "on_exhausted": "fallback", "fallback": "sorry"}, [RuntimeError()]),
    ],
    ids=["attempts", "budget", "judge"],
)
def test_a_draft_replaced_by_the_fallback_is_discarded(settings: dict[str, Any], judge: list[object]) -> None:
    """However the loop ends, a shown draft that is not released is followed by one discard."""
    events = custom(shown(ScriptedModel(["bad"]), ScriptedJudge(judge), **settings))
    assert [event for event in named(events) if event[0] in ("draft", "discard")] == [("draft", 1), ("discard", 1)]
