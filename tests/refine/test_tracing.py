"""Whoever traces sees the loop, the attempts and each judge as named runs, properly nested."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler, UsageMetadataCallbackHandler, get_usage_metadata_callback
from langchain_core.messages import BaseMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from graphs import self_refine
from judges import Cascade, ConfigurationError, Helpfulness, Judge, Panel, Repeat, Sample
from judges.messages import ToolCall
from judges.runtime.observation import current
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine
from tests.laws import for_every

Tree = tuple[str, str, list["Tree"]]
"""A run: its name, its kind, and the runs in it."""


class Recorder(BaseTracer):
    """Keeps the runs that end at the top."""

    def __init__(self) -> None:
        super().__init__()
        self.roots: list[Run] = []

    def _persist_run(self, run: Run) -> None:
        self.roots.append(run)

    @property
    def trees(self) -> list[Tree]:
        """The runs as names and kinds."""
        return [tree(run) for run in self.roots]


def tree(run: Run) -> Tree:
    """Give a run as names and kinds."""
    return run.name, run.run_type, [tree(one) for one in run.child_runs]


def runs(run: Run, name: str) -> list[Run]:
    """Find the runs of a name, at any depth."""
    found = [run] if run.name == name else []
    return [*found, *(each for one in run.child_runs for each in runs(one, name))]


def model_judge(*ratings: int) -> Helpfulness:
    """Make a judge that asks a scripted model called `critic`."""
    replies = [{"rationale": "because", "rating": rating, "feedback": "more"} for rating in ratings]
    return Helpfulness(ScriptedModel(replies, cycle=True, name="critic"))


def rule(response: str) -> bool:
    """Accept anything."""
    return bool(response)


def judges() -> Panel:
    """Make a panel of a model judge that refuses once, and a rule."""
    return Panel([model_judge(1, 4), rule])


def judged(name: str = "panel") -> Tree:
    """Give the runs of the panel."""
    return (
        name,
        "chain",
        [("helpfulness", "chain", [("ScriptedModel", "llm", [])]), ("rule", "chain", [])],
    )


def writer() -> ScriptedModel:
    """Make a chat model of two drafts."""
    return ScriptedModel(["one", "two"], cycle=True)


TWICE: list[Tree] = [("attempt 1", "llm", []), judged(), ("attempt 2", "llm", []), judged()]
IN_THE_GRAPH: list[Tree] = [
    ("__start__", "chain", []),
    ("generate", "chain", [("attempt 1", "llm", [])]),
    ("judge", "chain", [judged()]),
    ("generate", "chain", [("attempt 2", "llm", [])]),
    ("judge", "chain", [judged()]),
    ("finish", "chain", []),
]


async def stream(inner: SelfRefine, config: RunnableConfig) -> None:
    """Read the async stream to its end."""
    assert [one async for one in inner.astream("what?", config)]


CALLS: dict[str, Callable[[SelfRefine, RunnableConfig], object]] = {
    "invoke": lambda inner, config: inner.invoke("what?", config),
    "ainvoke": lambda inner, config: inner.ainvoke("what?", config),
    "refine": lambda inner, config: inner.refine("what?", config),
    "arefine": lambda inner, config: inner.arefine("what?", config),
    "stream": lambda inner, config: list(inner.stream("what?", config)),
    "astream": stream,
    "batch": lambda inner, config: inner.batch(["what?"], config),
}


async def traced(call: str, inner: SelfRefine, **config: Any) -> Recorder:
    """Make a call with a recorder."""
    recorder = Recorder()
    given: Any = {"callbacks": [recorder], **config}
    made = CALLS[call](inner, given)
    if isinstance(made, Awaitable):
        await made
    return recorder


@for_every("call", CALLS)
async def test_attempts_and_judges_are_named_runs(call: str) -> None:
    """The loop is a run; in it each attempt and each judge, members and model calls below, and each is ended."""
    recorder = await traced(call, SelfRefine(writer(), judges()))
    assert recorder.trees == [("SelfRefine", "chain", TWICE)]
    assert recorder.run_map == {}
    assert all(
        one.end_time for one in [*runs(recorder.roots[0], "panel"), *runs(recorder.roots[0], "helpfulness")]
    )


@for_every("call", ["invoke", "ainvoke", "refine", "arefine"])
async def test_the_steps_of_the_graph_are_runs_too(call: str) -> None:
    """Under a checkpointer the graph's steps stand between."""
    inner = SelfRefine(writer(), judges(), checkpointer=InMemorySaver())
    recorder = await traced(call, inner, configurable={"thread_id": "1"})
    assert recorder.trees == [("SelfRefine", "chain", [("SelfRefine loop", "chain", IN_THE_GRAPH)])]


async def test_a_run_has_the_given_name() -> None:
    """The graph's own, sync and async; the refiner's, or what the caller says."""
    recorder = Recorder()
    asked: Any = {"messages": [("user", "what?")]}
    self_refine(writer(), judges()).invoke(asked, {"callbacks": [recorder]})
    await self_refine(writer(), judges(), name="mine").ainvoke(asked, {"callbacks": [recorder]})
    assert recorder.trees == [("self_refine", "chain", IN_THE_GRAPH), ("mine", "chain", IN_THE_GRAPH)]
    inner = SelfRefine(writer(), ScriptedJudge([4, 4]), name="mine")
    inner.invoke("what?", {"callbacks": [recorder]})
    inner.invoke("what?", {"callbacks": [recorder], "run_name": "theirs"})
    assert [one.name for one in recorder.roots[2:]] == ["mine", "theirs"]


def test_in_a_chain_or_a_node_it_is_a_step() -> None:
    """The loop is a run below the chain's; in a node, called without a config, below that node's."""
    recorder = Recorder()
    inner = SelfRefine(writer(), ScriptedJudge([4], cycle=True))
    chain = ChatPromptTemplate([("user", "{q}")]) | inner
    chain.invoke({"q": "what?"}, {"callbacks": [recorder]})

    def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [inner.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", node)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    asked: Any = {"messages": [("user", "what?")]}
    graph.compile().invoke(asked, {"callbacks": [recorder]})
    first, second = recorder.roots
    assert [name for name, _, _ in tree(first)[2]] == ["ChatPromptTemplate", "SelfRefine"]
    assert tree(runs(second, "answer")[0])[2] == [
        ("SelfRefine", "chain", [("attempt 1", "llm", []), ("scripted", "chain", [])])
    ]


@tool
def lookup(subject: str) -> str:
    """Look a subject up."""
    return f"about {subject}"


def in_chain() -> Runnable[Any, Any]:
    """Make a chain."""
    return ChatPromptTemplate([MessagesPlaceholder("messages")]) | writer()


def in_agent() -> object:
    """Make an agent that calls a tool."""
    return create_agent(ScriptedModel([ToolCall(name="lookup", args={"subject": "x"}), "one"]), tools=[lookup])


def in_function() -> Callable[[list[BaseMessage]], str]:
    """Make a function that asks a model."""
    model = writer()
    return lambda messages: str(model.invoke(messages).text)


KINDS: dict[str, tuple[Callable[[], Any], str, set[str]]] = {
    "chat model": (writer, "llm", set()),
    "chain": (in_chain, "chain", {"ChatPromptTemplate", "ScriptedModel"}),
    "agent": (in_agent, "chain", {"model", "tools", "ScriptedModel", "lookup"}),
    "function": (in_function, "chain", {"ScriptedModel"}),
    "runnable": (lambda: RunnableLambda(in_function()), "chain", {"ScriptedModel"}),
}


@pytest.mark.parametrize("call", ["invoke", "ainvoke"])
@for_every("kind", KINDS)
async def test_an_attempt_of_each_kind_is_a_run(kind: str, call: str) -> None:
    """An attempt of any generator is a run named after it, with what it does below."""
    make, run_type, inside = KINDS[kind]
    recorder = await traced(call, SelfRefine(make(), ScriptedJudge([4])))
    (attempt,) = runs(recorder.roots[0], "attempt 1")
    assert attempt.run_type == run_type
    assert {name for name in inside if runs(attempt, name)} == inside
    assert not [
        one for one in runs(recorder.roots[0], "ScriptedModel") if one not in runs(attempt, "ScriptedModel")
    ]


BY_MODEL: Tree = ("helpfulness", "chain", [("ScriptedModel", "llm", [])])
BY_RULE: Tree = ("rule", "chain", [])
THEIRS: Tree = ("their evaluator", "chain", [])


@pytest.mark.parametrize("call", ["invoke", "ainvoke"])
@for_every(
    "judge, expected",
    [
        (lambda: ScriptedJudge([4]), ("scripted", "chain", [])),
        (lambda: rule, BY_RULE),
        (lambda: model_judge(4), BY_MODEL),
        (lambda: Cascade([rule, model_judge(4)]), ("cascade", "chain", [BY_RULE, BY_MODEL])),
        (lambda: Repeat(model_judge(4), 2), ("helpfulness", "chain", [BY_MODEL] * 2)),
        (
            lambda: Panel([Panel([rule], name="inner")], name="outer"),
            ("outer", "chain", [("inner", "chain", [BY_RULE])]),
        ),
        (
            lambda: RunnableLambda(lambda sample: {"rating": 4}, name="their evaluator"),
            ("their evaluator", "chain", [THEIRS]),
        ),
    ],
)
async def test_a_judge_of_each_kind_is_a_run(judge: Callable[[], Any], expected: Tree, call: str) -> None:
    """A judge of any kind is a run under its name, with its members and model calls below."""
    recorder = await traced(call, SelfRefine(writer(), judge()))
    assert recorder.trees == [("SelfRefine", "chain", [("attempt 1", "llm", []), expected])]


def test_a_judges_run_tells_what_was_judged_and_what_came_of_it() -> None:
    """Sample and verdict, or why there is none; what is raised ends every run above it with an error."""

    def run_of(judge: ScriptedJudge) -> tuple[Run, Run]:
        recorder = Recorder()
        with suppress(ConfigurationError):
            SelfRefine(writer(), judge).invoke("what?", {"callbacks": [recorder]})
        return recorder.roots[0], runs(recorder.roots[0], "scripted")[0]

    _, first = run_of(ScriptedJudge([(1, "be kind"), 4]))
    assert (first.inputs["user_input"], first.inputs["response"]) == ("what?", "one")
    assert first.outputs is not None
    assert (first.outputs["rating"], first.outputs["feedback"]) == (1, "be kind")
    _, failed = run_of(ScriptedJudge([RuntimeError("down")]))
    assert failed.outputs is not None
    assert failed.outputs["unscored"] == "judge_failed"
    assert [bool(one.error) for one in run_of(ScriptedJudge([ConfigurationError("no key")]))] == [True, True]


def test_tags_and_metadata_are_inherited() -> None:
    """A caller's tags and metadata are on the runs of attempts and judges."""
    recorder = Recorder()
    config: RunnableConfig = {"callbacks": [recorder], "tags": ["mine"], "metadata": {"user": "Ann"}}
    SelfRefine(writer(), ScriptedJudge([4])).invoke("what?", config)
    for name in ("attempt 1", "scripted"):
        (run,) = runs(recorder.roots[0], name)
        assert "mine" in (run.tags or [])
        assert run.metadata["user"] == "Ann"


async def test_usage_of_generator_and_judge_is_counted() -> None:
    """LangChain's handler and its block count the tokens of both, and agree with the outcome, kept or not."""
    for saver in (None, InMemorySaver()):
        usage = UsageMetadataCallbackHandler()
        config: RunnableConfig = {"callbacks": [usage], "configurable": {"thread_id": "1"}}
        outcome = await SelfRefine(writer(), judges(), checkpointer=saver).arefine("what?", config)
        assert set(usage.usage_metadata) == {"scripted", "critic"}
        assert sum(one["total_tokens"] for one in usage.usage_metadata.values()) == outcome.usage.tokens
    with get_usage_metadata_callback() as counted:
        SelfRefine(writer(), judges()).invoke("what?")
    assert set(counted.usage_metadata) == {"scripted", "critic"}


def test_a_judges_calls_are_not_in_the_messages_stream() -> None:
    """Neither the generator's nor the judge's model calls are streamed as messages: only the answer is."""
    graph = self_refine(writer(), judges())
    asked: Any = {"messages": [("user", "what?")]}
    for subgraphs in (False, True):
        seen: list[Any] = list(graph.stream(asked, stream_mode="messages", subgraphs=subgraphs))
        assert [(one[1] if subgraphs else one)[0].text for one in seen] == ["two"]


async def test_traced_and_streamed_at_once() -> None:
    """A tracer sees the drafts while a stream of events, in the same call, tells of no attempt and no call."""
    recorder = Recorder()
    config: RunnableConfig = {"callbacks": [recorder]}
    inner = SelfRefine(writer(), judges())
    events = [one async for one in inner.astream_events("what?", config, version="v2")]
    assert recorder.trees == [("SelfRefine", "chain", TWICE)]
    assert not [one for one in events if "chat_model" in one["event"] or one["name"].startswith("attempt")]
    assert "because" not in repr([one for one in events if one["name"] != "SelfRefine"])


def test_nothing_is_set_up_without_callbacks() -> None:
    """Where nobody listens, no judge is watched."""
    watchers: list[object] = []

    def judge(sample: Sample) -> int:
        watchers.append(current.get().observer)
        return 4

    inner = SelfRefine(writer(), judge)
    inner.invoke("what?")
    inner.invoke("what?", {"callbacks": [Recorder()]})
    assert watchers[0] is None
    assert watchers[1] is not None
    assert current.get().observer is None


def test_progress_reaches_a_callback_handler() -> None:
    """A handler of custom events hears the progress, with the run it belongs to."""

    class Listener(BaseCallbackHandler):
        def __init__(self) -> None:
            self.heard: list[str] = []

        def on_custom_event(self, name: str, data: Any, **options: Any) -> None:
            self.heard.append(name)

    listener = Listener()
    SelfRefine(writer(), ScriptedJudge([1, 4])).invoke("what?", {"callbacks": [listener]})
    attempt = ["refine.start", "refine.attempt", "refine.verdict"]
    assert listener.heard == [*attempt, *attempt, "refine.finish"]


def test_concurrent_members_keep_their_own_runs() -> None:
    """Members of a panel that speak at once each have their model call below their own run."""
    members: dict[str, Judge] = {f"judge {number}": model_judge(4) for number in range(8)}
    recorder = Recorder()
    SelfRefine(writer(), Panel(members)).invoke("what?", {"callbacks": [recorder]})
    (panel,) = runs(recorder.roots[0], "panel")
    assert [one[2] for one in tree(panel)[2]] == [[("ScriptedModel", "llm", [])]] * 8
