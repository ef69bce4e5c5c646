"""Nothing of a rejected draft reaches a client by the ways around the streams of the graph itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.callbacks import (
    AsyncCallbackHandler,
    BaseCallbackHandler,
    CallbackManager,
    StreamingStdOutCallbackHandler,
)
from langchain_core.messages import BaseMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import tool
from langchain_core.tracers import context as tracing_context
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.context import register_configure_hook
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.ui import push_ui_message

from graphs import Policy, langchain_private, self_refine
from graphs.langchain_private import without_tokens
from judges.messages import ToolCall
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine
from tests.graphs.test_streams import (
    ASKED,
    GENERATORS,
    GOOD,
    MARK,
    MODES,
    Graph,
    drafts,
    graph,
    pushing,
    strict,
    think,
    thinking,
)

THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}


class Tokens(BaseCallbackHandler):
    """A handler of the user's own that passes tokens on, and notes the other events by name."""

    def __init__(self) -> None:
        self.tokens: list[Any] = []
        self.events: list[str] = []

    def on_llm_new_token(self, token: Any, **_: Any) -> None:
        """Pass a token on."""
        self.tokens.append(token)

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        """Note the start."""
        self.events.append("start")

    def on_llm_end(self, *_: Any, **__: Any) -> None:
        """Note the end."""
        self.events.append("end")

    def on_llm_error(self, *_: Any, **__: Any) -> None:
        """Note an error."""
        self.events.append("error")


class AsyncTokens(AsyncCallbackHandler):
    """The same, async."""

    def __init__(self) -> None:
        self.tokens: list[Any] = []
        self.events: list[str] = []

    async def on_llm_new_token(self, token: Any, **_: Any) -> None:
        """Pass a token on."""
        self.tokens.append(token)

    async def on_llm_end(self, *_: Any, **__: Any) -> None:
        """Note the end."""
        self.events.append("end")


class TokenTracer(BaseTracer):
    """A tracer that passes tokens on."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens: list[Any] = []
        self.events: list[str] = []

    def on_llm_new_token(self, token: Any, **_: Any) -> Any:
        """Pass a token on."""
        self.tokens.append(token)

    def _persist_run(self, run: Any) -> None:
        self.events.append("end")


HOOKED: ContextVar[Any] = ContextVar("hooked", default=None)


@contextmanager
def hook(value: Any, *settings: Any) -> Iterator[None]:
    """Let LangChain add a handler to every run in the block."""
    hooks = [*tracing_context._configure_hooks]
    register_configure_hook(HOOKED, *settings or (True,))
    token = HOOKED.set(value)
    try:
        yield
    finally:
        HOOKED.reset(token)
        tracing_context._configure_hooks[:] = hooks


@pytest.mark.parametrize("kind", GENERATORS)
@pytest.mark.parametrize("handler", [Tokens, AsyncTokens, TokenTracer])
async def test_a_users_handler_hears_no_tokens_of_drafts(handler: Any, kind: str) -> None:
    """It hears every call begin and end, but no token that could not be taken back."""
    for hooked in (False, True):
        heard = handler()
        config: RunnableConfig = {"callbacks": [] if hooked else [heard]}
        with hook(heard if hooked else None):
            refiner = SelfRefine(GENERATORS[kind](), strict(), max_attempts=9)
            assert GOOD in repr(graph(kind).invoke(ASKED, config))
            assert GOOD in repr(await graph(kind).ainvoke(ASKED, config))
            assert GOOD in repr(await refiner.ainvoke("?", config))
        assert heard.tokens == []
        if kind == "chat model":
            assert "end" in heard.events


def test_a_muted_handler_is_still_itself() -> None:
    """It is of its class, keeps its attributes, is equal to itself, and is muted only once."""
    heard = Tokens()
    muted = without_tokens(heard)
    assert isinstance(muted, Tokens)
    assert muted == heard
    assert len({muted, without_tokens(muted), without_tokens(heard)}) == 1
    muted.raise_error = True
    assert heard.raise_error
    assert not langchain_private.feeds_stream(muted)


@pytest.mark.parametrize("inherited", [True, False])
@pytest.mark.parametrize("named", [False, True])
def test_a_streaming_handler_added_by_langchain_itself_prints_no_draft(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    named: bool,  # noqa: FBT001 - a parameter
    inherited: bool,  # noqa: FBT001 - a parameter
) -> None:
    """A handler that a context variable or an environment variable adds to each run is muted like any other."""
    monkeypatch.setenv("PRINTS", "true")
    settings = (inherited, StreamingStdOutCallbackHandler, "PRINTS") if named else (inherited,)
    with hook(None if named else StreamingStdOutCallbackHandler(), *settings):
        for kind in GENERATORS:
            graph(kind).invoke(ASKED)
            SelfRefine(GENERATORS[kind](), strict(), max_attempts=9).invoke("what?")
            SelfRefine(GENERATORS[kind](), strict(), max_attempts=9, checkpointer=InMemorySaver()).invoke(
                "what?", THREAD
            )
        assert MARK not in capsys.readouterr().out
        "".join(chunk.text for chunk in ScriptedModel([MARK]).stream("what?"))
        assert MARK in capsys.readouterr().out


class Streaming(ScriptedModel):
    """A chat model with a setting to stream whenever it is called."""

    streaming: bool = False


def attached(handler: BaseCallbackHandler, position: str) -> Runnable[Any, Any]:
    """Attach a handler to a chat model, to one in a binding, to a config, or to one in a chain."""
    model = Streaming(drafts())  # type: ignore[call-arg, arg-type]  # pydantic's plugin sees no constructor
    model.streaming = True
    if position == "config":
        return model.with_config(callbacks=[handler])
    model.callbacks = CallbackManager([handler]) if position == "manager" else [handler]
    chain = ChatPromptTemplate([MessagesPlaceholder("messages")]) | model
    positions: dict[str, Runnable[Any, Any]] = {"binding": model.bind(stop=["x"]), "chain": chain}
    return positions.get(position, model)


@pytest.mark.parametrize("position", ["model", "manager", "binding", "config", "chain"])
async def test_a_handler_of_the_model_itself_shows_no_draft(
    position: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A handler attached to the generator is muted as one of the config is; outside of the loop it is not."""
    for handler in (Tokens(), StreamingStdOutCallbackHandler()):
        assert SelfRefine(attached(handler, position), strict(), max_attempts=9).invoke("what?").text == GOOD
        await SelfRefine(attached(handler, position), strict(), max_attempts=9).ainvoke("what?")
        assert MARK not in capsys.readouterr().out
        if isinstance(handler, Tokens):
            assert handler.tokens == []
            assert "end" in handler.events
    heard = Tokens()
    model = attached(heard, position)
    model.invoke({"messages": []} if position == "chain" else "what?")
    assert heard.tokens


def outer_agent(refiner: SelfRefine) -> Graph:
    """Make an agent with a tool that asks a refiner."""

    @tool
    def ask(question: str, runtime: ToolRuntime) -> str:
        """Ask."""
        runtime.emit_output_delta("asking")
        return str(refiner.invoke(question, THREAD).text)

    made: Graph = create_agent(ScriptedModel([ToolCall(name="ask", args={"question": "?"}), GOOD]), tools=[ask])
    return made


@pytest.mark.parametrize("checkpointed", [False, True])
async def test_an_inner_tool_writes_nothing_into_the_outer_tools_output(*, checkpointed: bool) -> None:
    """A tool's own output is streamed; what tools of rejected attempts inside it emit is not."""

    @tool
    def look(subject: str, runtime: ToolRuntime) -> str:
        """Look a subject up."""
        runtime.emit_output_delta(subject)
        runtime.stream_writer(subject)
        return subject

    def refiner() -> SelfRefine:
        script = [ToolCall(name="look", args={"subject": MARK}), f"wrong {MARK}", GOOD]
        inner = create_agent(ScriptedModel(script), tools=[look])
        return SelfRefine(inner, strict(), checkpointer=InMemorySaver() if checkpointed else None)

    for make in (refiner, lambda: SelfRefine(lambda _: refiner().invoke("?", THREAD).text, ScriptedJudge([4]))):
        settings: dict[str, Any] = {"stream_mode": ["tools", "custom"], "subgraphs": True}
        seen = repr(list(outer_agent(make()).stream(ASKED, THREAD, **settings)))
        seen += repr([part async for part in outer_agent(make()).astream(ASKED, THREAD, **settings)])
        assert MARK not in seen
        assert seen.count("asking") == 2


@task
async def athink(text: str) -> str:
    """Think without blocking."""
    await asyncio.sleep(0)
    return text


def athinking() -> Any:
    """Make an async function that awaits sync and async tasks."""
    left = iter(drafts())

    async def generate(_: list[BaseMessage]) -> str:
        draft = next(left)
        first, second = await asyncio.gather(think(draft), athink(draft))
        return first if first == second else MARK

    return generate


@pytest.mark.parametrize("make", [pushing, thinking, athinking])
@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("checkpointed", [False, True])
async def test_what_a_function_pushes_into_the_graph_is_dropped(
    make: Any, *, traced: bool, checkpointed: bool
) -> None:
    """Messages pushed and tasks called by a function appear in no stream and no state, traced or not."""
    config: RunnableConfig = {**THREAD, "callbacks": [TokenTracer()] if traced else []}

    def made() -> Graph:
        saver = InMemorySaver() if checkpointed else None
        return self_refine(make(), strict(), policy=Policy(max_attempts=9), checkpointer=saver)

    loop = made()
    seen = [part async for part in loop.astream(ASKED, config, stream_mode=list(MODES), subgraphs=True)]
    assert MARK not in repr(seen)
    assert GOOD in repr(seen)
    state = await made().ainvoke(ASKED, config)
    assert [message.text for message in state["messages"]] == ["what is it?", GOOD]
    assert SelfRefine(make(), strict(), max_attempts=9).invoke("what?", config).text == GOOD
    if checkpointed:
        assert MARK not in repr(list(loop.get_state_history(config)))


def test_a_refiner_in_a_node_pushes_nothing_into_the_outer_graph() -> None:
    """The same for a refiner that a node of another graph calls."""
    outer = StateGraph(MessagesState)
    outer.add_node(
        "ask",
        lambda state: {"messages": [SelfRefine(pushing(), strict(), max_attempts=9).invoke(state["messages"])]},
    )
    outer.add_edge(START, "ask")
    made: Graph = outer.compile()
    seen = list(made.stream(ASKED, {"callbacks": [TokenTracer()]}, stream_mode=list(MODES)))
    assert MARK not in repr(seen)
    assert GOOD in repr(seen)


def test_a_function_shows_no_draft_in_the_user_interface() -> None:
    """What a function pushes to LangGraph's user interface is dropped, too."""
    left = iter(drafts())

    def generate(_: list[BaseMessage]) -> str:
        draft = next(left)
        push_ui_message("draft", {"text": draft})
        return draft

    made = self_refine(generate, strict(), policy=Policy(max_attempts=9))
    assert MARK not in repr(list(made.stream(ASKED, stream_mode=list(MODES))))


def nested(*, checkpointed: bool, shown: bool = False) -> SelfRefine:
    """Make a refiner whose generator is a refiner that shows its drafts."""
    inner = SelfRefine(ScriptedModel([f"wrong {MARK}", GOOD]), strict(), show_drafts=True, name="inner")
    saver = InMemorySaver() if checkpointed else None
    return SelfRefine(inner, ScriptedJudge([4]), show_drafts=shown, checkpointer=saver)


@pytest.mark.parametrize("checkpointed", [False, True])
async def test_a_nested_refiner_shows_drafts_only_where_the_outer_one_does(*, checkpointed: bool) -> None:
    """`show_drafts` of a refiner inside one that hides its drafts shows nothing."""

    def within(refiner: SelfRefine) -> Graph:
        graph = StateGraph(MessagesState)
        graph.add_node("ask", lambda state: {"messages": [refiner.invoke(state["messages"], THREAD)]})
        graph.add_edge(START, "ask")
        made: Graph = graph.compile()
        return made

    for outer in (within(nested(checkpointed=checkpointed)), nested(checkpointed=checkpointed).graph):
        seen = [part async for part in outer.astream(ASKED, THREAD, stream_mode=list(MODES), subgraphs=True)]
        assert MARK not in repr(seen)
    events = [event async for event in nested(checkpointed=checkpointed).astream_events("?", THREAD, version="v2")]
    assert MARK not in repr(events)
    assert GOOD in repr(events)


class Events(BaseCallbackHandler):
    """A handler that passes progress on, as a web page's would."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def on_custom_event(self, name: str, data: Any, **_: Any) -> None:
        """Pass an event on."""
        self.events.append((name, data))


@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("shown", [False, True])
async def test_handlers_of_progress_hear_no_hidden_draft(*, shown: bool, checkpointed: bool) -> None:
    """A handler of events hears a nested refiner go on, and its drafts only where the outer one shows its own."""
    for call in ("invoke", "ainvoke"):
        heard = Events()
        outer = nested(checkpointed=checkpointed, shown=shown)
        config: RunnableConfig = {**THREAD, "callbacks": [heard]}
        _ = outer.invoke("?", config) if call == "invoke" else await outer.ainvoke("?", config)
        assert (MARK in repr(heard.events)) is shown
        assert [name for name, _ in heard.events].count("refine.verdict") == 3
