"""A human's decision counts for the draft that was shown, and for no other, at every door."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.runnables import Runnable
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from graphs import self_refine
from judges import ConfigurationError
from judges.testing import ScriptedModel
from refine import SelfRefine
from refine.middleware import SelfRefineMiddleware
from tests.laws import for_every

ASKED: Any = {"messages": [("user", "what?")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}

Shown = list[str]


def drafts() -> Iterator[str]:
    """Yield drafts of which none is like another."""
    return (f"draft {number}" for number in itertools.count(1))


def asking(shown: Shown) -> Callable[[str], object]:
    """Return a judge that puts each draft to a human, and notes what was decided on, not what is asked again."""

    def human(response: str) -> object:
        decision = interrupt({"judge this": response})
        shown.append(f"{response}: {decision}")
        return bool(decision)

    return human


def agent_with(saver: InMemorySaver, texts: Iterator[str], shown: Shown, *inside: Any, **settings: Any) -> Any:
    """Return an agent, as a process makes it anew."""
    model = ScriptedModel(lambda _: next(texts))
    refining = SelfRefineMiddleware(asking(shown), **settings)
    return create_agent(model, [], middleware=[refining, *inside], checkpointer=saver)


def question_of(state: Any) -> object:
    """Return what a human is asked now."""
    (question,) = state["__interrupt__"]
    return question.value


DOORS: dict[str, Callable[[InMemorySaver, Iterator[str], Shown], Any]] = {
    "middleware": agent_with,
    "graph": lambda saver, texts, shown: self_refine(lambda _: next(texts), asking(shown), checkpointer=saver),
    "graph of a model": lambda saver, texts, shown: self_refine(
        ScriptedModel(lambda _: next(texts)), asking(shown), checkpointer=saver
    ),
}


@pytest.mark.parametrize("door", DOORS)
async def test_each_draft_is_decided_on_by_itself(door: str) -> None:
    """After two refusals the third draft is shown, and only that one is released by a yes."""
    shown: Shown = []
    graph: Runnable[Any, Any] = DOORS[door](InMemorySaver(), drafts(), shown)
    assert question_of(graph.invoke(ASKED, THREAD)) == {"judge this": "draft 1"}
    for number in (2, 3):
        state = await graph.ainvoke(Command(resume=False), THREAD)
        assert question_of(state) == {"judge this": f"draft {number}"}
    answer = (await graph.ainvoke(Command(resume=True), THREAD))["messages"][-1]
    assert (answer.text, answer.response_metadata["refine"]["passed"]) == ("draft 3", True)
    assert [line for line in shown if line.endswith("True")] == ["draft 3: True"]


@pytest.mark.parametrize("by_id", [False, True], ids=["by order", "by id"])
@pytest.mark.parametrize("refused", [0, 1])
def test_a_yes_from_before_does_not_release_a_draft_made_in_another_process(refused: int, *, by_id: bool) -> None:
    """An agent resumed in another process writes anew, and the human is asked about what it wrote."""
    saver, texts, shown = InMemorySaver(), drafts(), list[str]()

    def decision(state: Any, value: bool) -> Command[Any]:  # noqa: FBT001 - a human's
        (question,) = state["__interrupt__"]
        return Command(resume={question.id: value} if by_id else value)

    first = agent_with(saver, texts, shown)
    state = first.invoke(ASKED, THREAD)
    for _ in range(refused):
        state = first.invoke(decision(state, False), THREAD)  # noqa: FBT003 - a human's
    other = agent_with(saver, texts, shown)
    state = other.invoke(decision(state, True), THREAD)  # noqa: FBT003 - a human's
    assert question_of(state) == {"judge this": f"draft {refused + 2}"}
    answer = other.invoke(decision(state, True), THREAD)["messages"][-1]  # noqa: FBT003 - a human's
    assert answer.text == f"draft {refused + 2}"
    assert [line for line in shown if line.endswith("True")] == [f"draft {refused + 2}: True"]


def test_the_same_draft_made_in_another_process_needs_no_second_decision() -> None:
    """What the human was shown is what is released, whoever wrote it."""
    saver, shown = InMemorySaver(), list[str]()
    agent_with(saver, itertools.repeat("Refund: 10 EUR"), shown).invoke(ASKED, THREAD)
    other = agent_with(saver, itertools.repeat("Refund: 10 EUR"), shown)
    answer = other.invoke(Command(resume=True), THREAD)["messages"][-1]
    assert (answer.text, answer.response_metadata["refine"]["passed"]) == ("Refund: 10 EUR", True)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("kind", ["function", "model"])
def test_attempts_made_again_are_asked_about_again(
    kind: str, durability: Literal["sync", "async", "exit"]
) -> None:
    """However a refiner is stored, what goes out is the very draft that the last yes was about."""
    texts, shown = drafts(), list[str]()
    generator: Any = (lambda _: next(texts)) if kind == "function" else ScriptedModel(lambda _: next(texts))
    refiner = SelfRefine(generator, asking(shown), checkpointer=InMemorySaver(), durability=durability)
    outcome = refiner.refine(ASKED, THREAD)
    decisions = iter([False, True, True, True, True])
    asked: list[object] = []
    while outcome.stop_reason == "interrupted":
        (question,) = refiner.graph.get_state(THREAD).interrupts
        asked.append(question.value["judge this"])
        if len(asked) > 4:  # attempts are made again each time, and never the same
            break
        outcome = refiner.refine(Command(resume=next(decisions)), THREAD)
    if outcome.answer is not None:
        assert f"{outcome.answer.text}: True" in shown
        assert outcome.answer.text == asked[-1]
    assert len(set(asked)) == len(asked)


class AsksBeforeEachCall(AgentMiddleware[Any, Any, Any]):
    """Asks a human before each model call."""

    def __init__(self, made: list[str]) -> None:
        super().__init__()
        self.made = made

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model once a human allowed this very call."""
        number = 1 + sum(message.type == "ai" for message in request.messages)
        decision = interrupt(f"call {number}?")
        if decision != f"yes to call {number}":
            raise PermissionError(decision)
        self.made.append(decision)
        return handler(request)


class AsksAfterEachCall(AgentMiddleware[Any, Any, Any]):
    """Asks a human about each reply of the model, signed by another, and replaces what is refused."""

    def __init__(self, signs: ScriptedModel | None = None) -> None:
        super().__init__()
        self.signs = signs

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Return the reply that a human agreed to."""
        reply = handler(request)
        if self.signs is not None:
            reply.result[-1].content = f"{reply.result[-1].text}, {self.signs.invoke('sign it').text}"
        return reply if interrupt({"judge this": reply.result[-1].text}) else ModelResponse([AIMessage("no")])


ALTERNATELY: list[tuple[object, object]] = [
    ("call 1?", "yes to call 1"),
    ({"judge this": "draft 1"}, False),
    ("call 2?", "yes to call 2"),
    ({"judge this": "draft 2"}, True),
]
ONCE: list[tuple[object, object]] = [
    ("call 1?", "yes to call 1"),
    ({"judge this": "draft 1"}, False),
    ({"judge this": "draft 2"}, False),
    ({"judge this": "draft 3"}, True),
]


@for_every("inside, steps, calls", [(True, ALTERNATELY, 2), (False, ONCE, 1)])
def test_a_middleware_that_asks_gets_the_decision_on_its_own_question(
    inside: bool,  # noqa: FBT001 - a case
    steps: list[tuple[object, object]],
    calls: int,
) -> None:
    """Inside, its questions and a judge's take turns; outside, what was decided stands for all drafts."""
    made, texts = list[str](), drafts()
    refining = SelfRefineMiddleware(asking([]), augment="last_draft")
    both: list[Any] = [refining, AsksBeforeEachCall(made)]
    middleware = both if inside else both[::-1]
    model = ScriptedModel(lambda _: next(texts))
    agent = create_agent(model, [], middleware=middleware, checkpointer=InMemorySaver())
    state: Any = agent.invoke(ASKED, THREAD)
    for question, decision in steps:
        assert question_of(state) == question
        state = agent.invoke(Command(resume=decision), THREAD)
    assert {"judge this": state["messages"][-1].text} == steps[-1][0]
    assert set(made) == {f"yes to call {number}" for number in range(1, calls + 1)}


def test_all_models_inside_an_attempt_say_again_what_a_human_decided_on() -> None:
    """Another model than the agent's, which says something else each time, has nobody asked anew; nor its text."""
    signs = ScriptedModel(["signed 0", "signed 1"])
    middleware: list[Any] = [SelfRefineMiddleware("length:at_most=80"), AsksAfterEachCall(signs)]
    agent = create_agent(ScriptedModel(["draft"]), [], middleware=middleware, checkpointer=InMemorySaver())
    assert question_of(agent.invoke(ASKED, THREAD)) == {"judge this": "draft, signed 0"}
    assert agent.invoke(Command(resume=True), THREAD)["messages"][-1].text == "draft, signed 0"


def test_a_reply_that_is_given_again_is_as_the_model_gave_it() -> None:
    """It is the model's one reply, with what it consumed, which LangChain would call free of cost."""
    model = ScriptedModel(["the only draft"])
    middleware: list[Any] = [SelfRefineMiddleware("length:at_most=80"), AsksAfterEachCall()]
    agent = create_agent(model, [], middleware=middleware, checkpointer=InMemorySaver())
    agent.invoke(ASKED, THREAD)
    answer = agent.invoke(Command(resume=True), THREAD)["messages"][-1]
    assert (answer.text, len(model.prompts)) == ("the only draft", 1)
    assert answer.usage_metadata.keys() == {"input_tokens", "output_tokens", "total_tokens"}
    assert answer.response_metadata["refine"]["usage"]["calls"] == 1


def test_of_two_middlewares_each_gets_the_decision_on_its_own_question() -> None:
    """A draft goes out once the judges of both let it, and a yes to one is none to the other."""
    texts, middleware = drafts(), list[Any]()
    for name in ("outer", "inner"):

        def human(response: str, name: str = name) -> bool:
            return bool(interrupt((name, response)))

        middleware.append(SelfRefineMiddleware(human, name=name))
    model = ScriptedModel(lambda _: next(texts))
    agent = create_agent(model, [], middleware=middleware, checkpointer=InMemorySaver())
    state: Any = agent.invoke(ASKED, THREAD)
    for name, number, decision in [
        ("inner", 1, False),
        ("inner", 2, False),
        ("inner", 3, True),
        ("outer", 3, False),
        ("inner", 4, True),
        ("outer", 4, True),
    ]:
        assert question_of(state) == (name, f"draft {number}")
        state = agent.invoke(Command(resume=decision), THREAD)
    assert state["messages"][-1].text == "draft 4"


REVIEWED: dict[str, Any] = {"judge": lambda response: False, "max_attempts": 2, "on_exhausted": "interrupt"}


def caller(helper: Callable[[str], str], saver: InMemorySaver) -> Any:
    """Return an agent one of whose tools is another agent, or a loop."""

    def say(messages: list[Any]) -> Any:
        last = messages[-1]
        call = {"name": "task", "args": {"description": "what?"}, "id": "1"}
        return last.text if last.type == "tool" else AIMessage("", tool_calls=[call])

    @tool
    def task(description: str) -> str:
        """Hand a task on."""
        return helper(description)

    return create_agent(ScriptedModel(say), [task], checkpointer=saver)


def in_a_node(part: Any, saver: InMemorySaver) -> Any:
    """Return a graph of one node."""
    graph = StateGraph(MessagesState)
    graph.add_node("node", part)
    graph.add_edge(START, "node")
    return graph.compile(checkpointer=saver)


def answer_of(part: Any, question: str) -> str:
    """Return what an agent answers."""
    return str(part.invoke({"messages": [("user", question)]})["messages"][-1].text)


Door = Callable[[InMemorySaver, Iterator[str], Any], Any]


def refiner_in(saver: Any, texts: Iterator[str], durability: Any = None) -> SelfRefine:
    """Return a loop whose answers a human reviews."""
    return SelfRefine(lambda _: next(texts), **REVIEWED, checkpointer=saver, durability=durability)


def subagent(texts: Iterator[str], *inside: Any) -> Any:
    """Return an agent whose judge asks a human, without a checkpointer of its own."""
    model = ScriptedModel(lambda _: next(texts))
    return create_agent(model, [], middleware=[SelfRefineMiddleware(asking([])), *inside])


def ask_after(model: ScriptedModel, messages: list[Any]) -> str:
    """Return a model's reply that a human agreed to."""
    text = str(model.invoke(messages).text)
    return text if interrupt({"judge this": text}) else "no"


class AsksInANode(AgentMiddleware[Any, Any, Any]):
    """Asks a human about each reply of the model in a node of its own, as `HumanInTheLoopMiddleware` does."""

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Replace what is refused."""
        del runtime
        reply = state["messages"][-1]
        return None if interrupt({"judge this": reply.text}) else {"messages": [AIMessage("no", id=reply.id)]}


def is_not_no(response: str) -> bool:
    """Judge by whether anything is said but no."""
    return response != "no"


def loop_of_agent(
    asks: AgentMiddleware[Any, Any, Any],
    is_nested: bool,  # noqa: FBT001 - by partial
    saver: InMemorySaver,
    texts: Iterator[str],
    durability: Any,
    **settings: Any,
) -> Any:
    """Return a loop around an agent whose own middleware asks a human about each reply."""
    agent: Any = create_agent(ScriptedModel(lambda _: next(texts)), [], middleware=[asks], **settings)
    inside = SelfRefine(agent, is_not_no, checkpointer="inherit") if is_nested else agent
    return SelfRefine(inside, is_not_no, checkpointer=saver, durability=durability).graph


def write_and_ask(texts: Iterator[str], _: list[Any]) -> str:
    """Return a text, made by no model that is heard, that a human agreed to."""
    text = next(texts)
    return text if interrupt({"judge this": text}) else "no"


EVERY_DOOR: dict[str, Door] = {
    "a judge asks: middleware": lambda saver, texts, _: agent_with(saver, texts, []),
    "a judge asks: refiner": lambda saver, texts, durability: (
        SelfRefine(lambda _: next(texts), asking([]), checkpointer=saver, durability=durability).graph
    ),
    "a judge asks: node": lambda saver, texts, _: in_a_node(SelfRefine(lambda _: next(texts), asking([])), saver),
    "a judge asks: not saved": lambda saver, texts, _: in_a_node(
        SelfRefine(lambda _: next(texts), asking([]), checkpointer=False), saver
    ),
    "a judge asks: subagent": lambda saver, texts, _: caller(partial(answer_of, subagent(texts)), saver),
    "a judge asks: loop of an agent with a subagent": lambda saver, texts, durability: (
        SelfRefine(
            caller(partial(answer_of, subagent(texts)), None),  # type: ignore[arg-type]  # the loop's is used
            lambda response: True,
            checkpointer=saver,
            durability=durability,
        ).graph
    ),
    "a review: refiner": lambda saver, texts, durability: refiner_in(saver, texts, durability).graph,
    "a review: graph": lambda saver, texts, _: self_refine(lambda _: next(texts), **REVIEWED, checkpointer=saver),
    "a review: node": lambda saver, texts, _: in_a_node(refiner_in("inherit", texts), saver),
    "a review: tool": lambda saver, texts, _: caller(
        lambda question: str(refiner_in("inherit", texts).invoke(question).text), saver
    ),
    "a review: loop in a loop": lambda saver, texts, durability: (
        SelfRefine(
            refiner_in("inherit", texts), lambda response: True, checkpointer=saver, durability=durability
        ).graph
    ),
    "a call: middleware inside": lambda saver, texts, _: create_agent(
        ScriptedModel(lambda _: next(texts)),
        [],
        middleware=[SelfRefineMiddleware(lambda response: True), AsksBeforeEachCall([])],
        checkpointer=saver,
    ),
    "a reply: middleware inside": lambda saver, texts, _: create_agent(
        ScriptedModel(lambda _: next(texts)),
        [],
        middleware=[SelfRefineMiddleware(lambda response: response != "no"), AsksAfterEachCall()],
        checkpointer=saver,
    ),
    "a reply: function, not saved": lambda saver, texts, durability: (
        SelfRefine(
            partial(ask_after, ScriptedModel(lambda _: next(texts))),
            lambda response: response != "no",
            checkpointer=saver,
            durability=durability,
        ).graph
    ),
    "a reply, kept: middleware of an agent": partial(loop_of_agent, AsksAfterEachCall(), False),  # noqa: FBT003
    "a reply, kept: middleware of an agent in two loops": partial(loop_of_agent, AsksAfterEachCall(), True),  # noqa: FBT003
    "a reply, kept: node of an agent": partial(loop_of_agent, AsksInANode(), False),  # noqa: FBT003
    "a reply: function without a model, not saved": lambda saver, texts, durability: (
        SelfRefine(partial(write_and_ask, texts), is_not_no, checkpointer=saver, durability=durability).graph
    ),
    "a call: middleware inside a subagent": lambda saver, texts, _: caller(
        partial(answer_of, subagent(texts, AsksBeforeEachCall([]))), saver
    ),
}


def decision_on(question: Any, *, agrees: bool) -> tuple[Any, str | None]:
    """Return what a human says to a question, and the draft that this is about, if it is."""
    if isinstance(question, str):
        return f"yes to {question.rstrip('?')}", None
    draft = question.get("judge this") or question["answer"]
    if "judge this" in question:
        return agrees, draft
    return ("accept" if agrees else {"feedback": "again"}), draft


def play(door: Door, durability: Any, *, elsewhere: bool, refusals: int) -> tuple[list[str], str]:
    """Return the drafts that a human accepted, and what came out in the end; empty where nothing did."""
    saver, texts, accepted = InMemorySaver(), drafts(), list[str]()
    graph = door(saver, texts, durability)
    state: Any = graph.invoke(ASKED, THREAD, durability=durability)
    for _ in range(6):
        waiting = graph.get_state(THREAD).interrupts
        if not waiting:
            return accepted, str(state["messages"][-1].text)
        decision, draft = decision_on(waiting[0].value, agrees=refusals == 0)
        if draft is not None and refusals == 0:
            accepted.append(draft)
        refusals = max(0, refusals - (draft is not None))
        graph = door(saver, texts, durability) if elsewhere else graph
        state = graph.invoke(Command(resume=decision), THREAD, durability=durability)
    return accepted, ""


def test_at_every_door_what_goes_out_is_what_a_human_said_yes_to() -> None:
    """Subagents too, however it is stored, here and in another process: no other draft, and no call, goes by."""
    wrong = []
    for name, door in EVERY_DOOR.items():
        for durability, elsewhere, refusals in itertools.product(["sync", "async", "exit"], [False, True], [0, 1]):
            accepted, text = play(door, durability, elsewhere=elsewhere, refusals=refusals)
            keeps = name.startswith("a reply, kept")
            made_again = not keeps and (elsewhere or durability == "exit" or name.endswith("not saved"))
            waits = (
                made_again and text == "" and len(set(accepted)) == len(accepted) > 1
            )  # each time another draft
            if not waits and text not in accepted and name != "a call: middleware inside":
                wrong.append(
                    f"{name}, {durability}, elsewhere {elsewhere}, {refusals} refused: {accepted} {text!r}"
                )
    assert wrong == []


def two_humans(texts: Iterator[str], **settings: Any) -> SelfRefine:
    """Return a loop whose drafts two humans are asked about."""
    judges: list[Any] = [asking_as(name) for name in ("first", "second")]
    return SelfRefine(lambda _: next(texts), judges, **settings)


def asking_as(name: str) -> Callable[[str], bool]:
    """Return a judge that asks one of several humans."""

    def human(response: str) -> bool:
        return bool(interrupt(f"{name}: {response}"))

    human.__name__ = name
    return human


@pytest.mark.parametrize("door", ["node", "loop in a loop", "middleware"])
def test_a_decision_counts_for_one_question_however_the_turn_goes_on(door: str) -> None:
    """LangGraph hands a value to the next question, too, where a run is resumed by id, or with None."""
    texts, saver = drafts(), InMemorySaver()
    graph: Any
    if door == "middleware":
        refining = SelfRefineMiddleware([asking_as("first"), asking_as("second")])
        model = ScriptedModel(lambda _: next(texts))
        graph = create_agent(model, [], middleware=[refining], checkpointer=saver)
    elif door == "node":
        graph = in_a_node(two_humans(texts), saver)
    else:
        graph = SelfRefine(two_humans(texts, checkpointer="inherit"), is_not_no, checkpointer=saver).graph
    state = graph.invoke(ASKED, THREAD)
    for question, decision, by_id in [
        ("first: draft 1", True, False),
        ("second: draft 1", False, True),
        ("first: draft 2", True, True),
        ("second: draft 2", False, False),
        ("first: draft 3", True, False),
        ("second: draft 3", True, False),
    ]:
        assert question_of(state) == question
        state = graph.invoke(None, THREAD)
        (asked,) = state["__interrupt__"]
        assert asked.value == question
        state = graph.invoke(Command(resume={asked.id: decision} if by_id else decision), THREAD)
    assert state["messages"][-1].text == "draft 3"


class AsksOtherwise(AsksAfterEachCall):
    """Tells the model something else each time, or reads its reply as it comes."""

    def __init__(self, *, streams: bool) -> None:
        super().__init__()
        self.streams, self.number = streams, itertools.count()

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Return the reply that a human agreed to."""
        if self.streams:
            text = "".join(str(chunk.text) for chunk in request.model.stream(request.messages))
            return super().wrap_model_call(request, lambda _: ModelResponse([AIMessage(text)]))
        prompt = SystemMessage(f"This is call {next(self.number)}.")
        return super().wrap_model_call(request.override(system_message=prompt), handler)


@pytest.mark.parametrize("by_id", [False, True], ids=["by order", "by id"])
def test_a_decision_on_a_reply_that_cannot_be_given_again_is_refused_in_a_line(*, by_id: bool) -> None:
    """The prompt is another one, the reply was read as it came, or nothing of the agent was saved."""
    cases: list[tuple[AgentMiddleware[Any, Any, Any], dict[str, Any], str]] = [
        (AsksOtherwise(streams=False), {}, "a node of its own"),
        (AsksOtherwise(streams=True), {}, "a node of its own"),
        (AsksInANode(), {"checkpointer": False}, "checkpointer=False"),
    ]
    for asks, settings, remedy in cases:
        graph = loop_of_agent(asks, False, InMemorySaver(), drafts(), None, **settings)  # noqa: FBT003 - by partial
        (question,) = graph.invoke(ASKED, THREAD)["__interrupt__"]
        decision: Command[Any] = Command(resume={question.id: True} if by_id else True)
        if by_id and settings:  # LangGraph finds nobody who asked that
            assert question_of(graph.invoke(decision, THREAD)) == {"judge this": "draft 2"}
            continue
        with pytest.raises(ConfigurationError, match=remedy):
            graph.invoke(decision, THREAD)


def two_in_a_tool(durability: Any, *, judged: bool, by_id: bool) -> tuple[list[str], list[str]]:
    """Return the drafts that a human accepts, of two loops in one tool, and what the tool returns in the end."""
    saver, texts, accepted = InMemorySaver(), drafts(), list[str]()
    settings: dict[str, Any] = {"judge": asking([])} if judged else REVIEWED

    def ask_both(_: str) -> str:
        loops = [SelfRefine(lambda _: next(texts), **settings, checkpointer="inherit") for _ in range(2)]
        return " and ".join(str(loop.invoke("what?").text) for loop in loops)

    graph = caller(ask_both, saver)
    state: Any = graph.invoke(ASKED, THREAD, durability=durability)
    for _ in range(4):
        waiting = graph.get_state(THREAD).interrupts
        if not waiting:
            break
        decision, draft = decision_on(waiting[0].value, agrees=True)
        accepted.append(str(draft))
        resume = {waiting[0].id: decision} if by_id else decision
        state = graph.invoke(Command(resume=resume), THREAD, durability=durability)
    return accepted, [message.text for message in state["messages"] if message.type == "tool"]


def test_two_loops_in_one_tool_are_decided_on_one_after_the_other() -> None:
    """However the graph around is stored, and decisions are handed over: each once, and the turn ends."""
    wrong = []
    for durability, judged, by_id in itertools.product(["sync", "async", "exit"], [False, True], [False, True]):
        accepted, said = two_in_a_tool(durability, judged=judged, by_id=by_id)
        if len(accepted) != 2 or said != [" and ".join(accepted)]:
            wrong.append((durability, judged, by_id, accepted, said))
    assert wrong == []
