"""What a single request changes: within the bounds it holds, beyond them and misspelt it is an error."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import get_runtime
from langgraph.types import Command

from graphs import Bounds, InputError, Overrides, Policy, self_refine
from judges import ConfigurationError, Price, Sample, ToolCall
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine, SelfRefineMiddleware

THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}
ASKED: dict[str, Any] = {"messages": [("user", "what?")]}
DRAFTS = [f"draft {number}" for number in range(1, 30)]


def parts() -> tuple[ScriptedModel, ScriptedJudge]:
    """Return a model and a judge that is never content."""
    return ScriptedModel(DRAFTS), ScriptedJudge([2], cycle=True)


def graph(**settings: Any) -> Any:
    """Make the graph."""
    return self_refine(*parts(), **{"policy": Policy(max_attempts=3), **settings})


def attempts(state: dict[str, Any]) -> int:
    """Count the attempts of a turn."""
    return len(state["refine"]["attempts"])


async def test_a_request_may_ask_for_less() -> None:
    """Fewer attempts, as a mapping and as `Overrides`, by a graph and by a refiner, with and without memory."""
    for context in ({"max_attempts": 1}, Overrides(max_attempts=1)):
        for checkpointer in (None, InMemorySaver()):
            made = graph(checkpointer=checkpointer)
            assert attempts(made.invoke(ASKED, THREAD, context=context)) == 1
            assert attempts(await made.ainvoke(ASKED, THREAD, context=context)) == 1
            assert attempts(made.invoke(ASKED, THREAD)) == 3
            refiner = SelfRefine(*parts(), checkpointer=checkpointer)
            assert len(refiner.refine("what?", THREAD, context=context).attempts) == 1
            assert len((await refiner.arefine("what?", THREAD, context=context)).attempts) == 1
            answers = [
                refiner.invoke("what?", THREAD, context=context),
                await refiner.ainvoke("what?", THREAD, context=context),
                *refiner.stream("what?", THREAD, context=context),
                *[chunk async for chunk in refiner.astream("what?", THREAD, context=context)],
                *refiner.batch(["what?"], THREAD, context=context),
            ]
            assert [len(answer.response_metadata["refine"]["attempts"]) for answer in answers] == [1] * 5
            assert len(refiner.refine("what?", THREAD).attempts) == 3


WRONG: list[tuple[Any, str]] = [
    ({"max_atempts": 1}, "there is no overrides setting 'max_atempts'.*did you mean 'max_attempts'"),
    ({"on_exhausted": "raise"}, "there is no overrides setting 'on_exhausted'"),
    ({"max_attempts": 0}, "overrides setting max_attempts: .* greater than or equal to 1"),
    ({"max_attempts": "1"}, "overrides setting max_attempts: .* valid integer"),
    ({"max_attempts": 4}, "a request may set max_attempts to 3 at most, not to 4"),
    ({"success_rating": 2}, "a request may set success_rating to 3 at least, not to 2"),
    ({"max_tokens": 101}, "a request may set max_tokens to 100 at most, not to 101"),
    ({"deadline_s": 60.5}, "a request may set deadline_s to 60.0 at most, not to 60.5"),
    ({"max_cost": 1.0}, "a request cannot set max_cost=1.0 here: no prices are known"),
    ({"guidelines": "Be kind."}, r"a request may bring no guidelines \(given 8 characters\)"),
    ({1: 2}, "a context is Overrides"),
    ("max_attempts", "a context is Overrides"),
    (5, "a context is Overrides"),
    ([("max_attempts", 1)], "a context is Overrides"),
]


async def test_what_is_unknown_or_goes_too_far_is_an_error() -> None:
    """In one line, before anything is spent or stored, in every way to run."""
    policy = Policy(max_tokens=100, deadline_s=60)
    model, judge = parts()
    for context, message in WRONG:
        saver = InMemorySaver()
        made = self_refine(model, judge, policy=policy, checkpointer=saver)
        refiner = SelfRefine(model, judge, policy=policy)
        with pytest.raises(InputError, match=message):
            made.invoke(ASKED, THREAD, context=context)
        with pytest.raises(InputError, match=message) as raised:
            await made.ainvoke(ASKED, THREAD, context=context)
        assert "\n" not in str(raised.value)
        with pytest.raises(InputError, match=message):
            refiner.invoke("what?", context=context)
        with pytest.raises(InputError, match=message):
            await refiner.arefine("what?", context=context)
        assert list(saver.list(THREAD)) == []
    assert model.prompts == []
    with pytest.raises(InputError, match="a context is Overrides"):
        self_refine(model, judge).invoke(ASKED, context=Context("1", 5))  # type: ignore[arg-type]  # the mistake


def test_bounds_say_how_far_a_request_may_go() -> None:
    """Beyond the policy and no further; a limit that neither has may be anything."""
    prices = {"scripted": Price(input=1, output=1)}
    bounds = Bounds(success_rating=2, max_attempts=5, max_cost=0.5, patience=4)
    made = graph(bounds=bounds, policy=Policy(max_attempts=3, prices=prices))
    assert attempts(made.invoke(ASKED, context={"max_attempts": 5})) == 5
    assert made.invoke(ASKED, context={"success_rating": 2})["refine"]["passed"]
    assert made.invoke(ASKED, context={"max_calls": 2})["refine"]["stop_reason"] == "budget"
    assert made.invoke(ASKED, context={"patience": 1})["refine"]["stop_reason"] == "no_progress"
    assert made.invoke(ASKED, context={"max_cost": 1e-9})["refine"]["stop_reason"] == "budget"
    too_far: list[dict[str, Any]] = [
        {"max_attempts": 6},
        {"success_rating": 1},
        {"max_cost": 0.6},
        {"patience": 5},
    ]
    for context in too_far:
        with pytest.raises(InputError, match="a request may set"):
            made.invoke(ASKED, context=context)
    with pytest.raises(ConfigurationError, match="bounds setting 'max_atempts'"):
        Bounds(max_atempts=1)  # type: ignore[call-arg]  # the mistake


def judging(seen: list[Sample]) -> Any:
    """Make a judge that reads guidelines and keeps what it read."""

    def judge(response: str, guidelines: Any) -> int:
        seen.append(guidelines)
        return 4

    return judge


def test_a_request_may_bring_criteria() -> None:
    """Guidelines reach a judge that reads them, added to those of the question; any other judge is an error."""
    seen: list[Any] = []
    refiner = SelfRefine(lambda _: "a", judging(seen), bounds=Bounds(max_criteria_chars=20))
    refiner.invoke("what?", evidence={"guidelines": ["Be brief."]}, context={"guidelines": "Be kind."})
    refiner.invoke("what?", evidence={"guidelines": {"a": ["Be brief."]}}, context={"guidelines": "Be kind."})
    refiner.invoke("what?", context={"guidelines": {"b": "Be kind."}})
    assert [value if isinstance(value, dict) else list(value) for value in seen] == [
        ["Be brief.", "Be kind."],
        {"a": ("Be brief.",), "request": ("Be kind.",)},
        {"b": ("Be kind.",)},
    ]
    with pytest.raises(InputError, match=r"at most 20 characters of guidelines \(given 21 characters\)"):
        refiner.invoke("what?", context={"guidelines": "x" * 21})
    with pytest.raises(InputError, match=r"reads no rubrics of a request"):
        refiner.invoke("what?", context={"rubrics": {"1": "bad"}})
    unread = SelfRefine(lambda _: "a", lambda response: 4, bounds=Bounds(max_criteria_chars=20))
    with pytest.raises(InputError, match=r"the judge '.*' reads no guidelines of a request"):
        unread.invoke("what?", context={"guidelines": "Be kind."})


def test_overrides_hold_for_the_whole_turn_and_no_longer() -> None:
    """A turn that broke off or was reviewed goes on with them, in a new process too, or with new ones."""
    saver, bounds = InMemorySaver(), Bounds(max_attempts=4)
    policy = Policy(max_attempts=2, on_exhausted="interrupt", max_revisions=1)
    model = ScriptedModel(DRAFTS)

    def made(judge: Any) -> Any:
        return self_refine(model, judge, policy=policy, checkpointer=saver, bounds=bounds)

    with pytest.raises(ConfigurationError):
        made(ScriptedJudge([1, ConfigurationError("down")])).invoke(ASKED, THREAD, context={"max_attempts": 4})
    state = made(ScriptedJudge([1, 1, 1])).invoke(None, THREAD)
    assert state["__interrupt__"][0].value["attempts"] == 4
    ended = made(ScriptedJudge([2])).invoke(
        Command(resume={"feedback": "again"}), THREAD, context=Overrides(success_rating=4, max_attempts=4)
    )
    assert ended["__interrupt__"][0].value["rating"] == 2
    with pytest.raises(InputError, match="max_attempts to 4 at most"):
        made(ScriptedJudge([2])).invoke(Command(resume="accept"), THREAD, context={"max_attempts": 5})
    made(ScriptedJudge([2])).invoke(Command(resume="accept"), THREAD)
    state = made(ScriptedJudge([1, 1])).invoke(ASKED, THREAD)
    assert state["__interrupt__"][0].value["attempts"] == 2


@dataclass
class Context:
    """A context of the graph around, with settings of its own."""

    user_id: str
    refine: dict[str, Any] = field(default_factory=dict)


@pytest.mark.parametrize("node", ["graph", "refiner", "function"])
def test_a_graph_around_hands_them_on(node: str) -> None:
    """As its context, or under `refine` in a context of its own, which the generator inside still gets."""
    users: list[Any] = []

    def generate(_: object) -> str:
        users.append(get_runtime().context)
        return "a"

    judge = ScriptedJudge([1], cycle=True)
    refiner = SelfRefine(generate, judge)
    nodes: dict[str, Any] = {
        "graph": self_refine(generate, judge),
        "refiner": refiner,
        "function": lambda state: {"messages": refiner.invoke(state["messages"])},
    }

    def asked(schema: Any, context: Any) -> int:
        builder: Any = StateGraph(MessagesState, context_schema=schema)
        builder.add_node("inner", nodes[node])
        builder.add_edge(START, "inner")
        users.clear()
        answer = builder.compile().invoke(ASKED, context=context)["messages"][-1]
        return len(answer.response_metadata["refine"]["attempts"])

    assert asked(Overrides, {"max_attempts": 1}) == 1
    assert asked(None, {"user_id": "1", "refine": {"max_attempts": 2}}) == 2
    assert asked(Context, Context("1", {"max_attempts": 2})) == 2
    if node == "graph":  # any other generator of a refiner is called outside of the graph around
        assert [context.user_id for context in users] == ["1", "1"]
    for context in ({"user_id": "1"}, {}, {"user_id": "1", "max_attempts": 1, "refine": None}):
        assert asked(None, context) == 3
    assert asked(None, {"max_attempts": 1, "success_rating": 4}) == 1
    wrong: list[tuple[Any, str]] = [
        ({"refine": {"max_attempts": 9}}, "at most"),
        ({"refine": {"max_atempts": 1}}, "did you mean"),
        ({"max_attempts": 9}, "at most"),
        ({"max_atempts": 1}, "did you mean 'max_attempts'"),
        ({"user_id": "1", "max_attempts": 1}, "max_attempts beside other things: give settings under 'refine'"),
    ]
    for context, message in wrong:
        with pytest.raises(InputError, match=message):
            asked(None, context)


def test_a_context_of_another_class_is_for_the_agent_inside() -> None:
    """It reaches the generator as it is, and what it has under `refine` is for the loop."""
    seen: list[Any] = []

    def generate(_: object) -> str:
        seen.append(get_runtime().context)
        return "a"

    made = self_refine(generate, ScriptedJudge([1], cycle=True))
    context = Context("1", {"max_attempts": 2})
    assert attempts(made.invoke(ASKED, context=context)) == 2
    assert seen == [context, context]
    saver = InMemorySaver()
    remembering = self_refine(generate, ScriptedJudge([1]), checkpointer=saver)
    with pytest.raises(InputError, match="max_attempts to 3 at most"):
        remembering.invoke(ASKED, THREAD, context=Context("1", {"max_attempts": 4}))
    assert list(saver.list(THREAD)) == []


def test_criteria_are_within_the_bounds_by_whichever_door_they_come() -> None:
    """The evidence of a question is a door as well, and both together are no longer than allowed."""
    seen: list[Any] = []
    asked = {**ASKED, "evidence": {"guidelines": ["Any answer is fine."]}}
    closed = SelfRefine(lambda _: "a", judging(seen))
    refused: list[Any] = [
        lambda: graph().invoke(asked),
        lambda: closed.invoke("what?", evidence=asked["evidence"]),
        lambda: closed.invoke(asked),
        lambda: closed.refine("what?", evidence={"rubrics": {"4": "anything"}}),
    ]
    for call in refused:
        with pytest.raises(InputError, match=r"a request may bring no .* max_criteria_chars of the bounds"):
            call()
    opened = SelfRefine(lambda _: "a", judging(seen), bounds=Bounds(max_criteria_chars=30, max_evidence_chars=4))
    opened.invoke(asked)
    with pytest.raises(InputError, match="at most 30 characters of guidelines"):
        opened.invoke(asked, context={"guidelines": "This one, too."})
    with pytest.raises(InputError, match="at most 4 characters of evidence"):
        opened.invoke("what?", evidence={"reference": "Paris"})
    assert len(seen) == 1


def test_the_evidence_of_the_question_goes_before_that_of_the_generator(tmp_path: Path, caplog: Any) -> None:
    """An answer is not judged by contexts that its generator put in the place of the caller's; the log says so."""
    seen: list[Any] = []

    def judge(response: str, retrieved_contexts: Any) -> int:
        seen.append(list(retrieved_contexts))
        return 4

    def generate(_: object) -> dict[str, Any]:
        return {"answer": "It is 2 EUR.", "context": ["It is 2 EUR."]}

    refiner = SelfRefine(generate, judge, record=tmp_path / "attempts.jsonl")
    outcome = refiner.refine("what?", evidence={"contexts": ["It is 3 EUR."]})
    refiner.refine("what?")
    assert seen == [["It is 3 EUR."], ["It is 2 EUR."]]
    assert [list(sample.retrieved_contexts or ()) for sample in outcome.samples()] == [["It is 3 EUR."]]
    rows = [json.loads(line) for line in (tmp_path / "attempts.jsonl").read_text().splitlines()]
    assert [row["retrieved_contexts"] for row in rows] == seen
    assert ["generator returned evidence" in line for line in caplog.messages] == [True]


def inner_agent(answers: list[Any], name: str) -> Any:
    """Make an agent with a loop of its own, which notes how many attempts it had and what it was judged by."""

    def judge(sample: Sample) -> int:
        answers.append((name, sample.reference))
        return 1

    middleware = SelfRefineMiddleware(judge, max_attempts=1, name=name)
    return create_agent(ScriptedModel(["no"], cycle=True), middleware=[middleware])


def as_tool(agent: Any) -> Callable[[str], str]:
    """Make a tool that asks an agent."""

    def ask(question: str) -> str:
        """Ask the other agent."""
        return str(agent.invoke({"messages": [("user", question)]})["messages"][-1].text)

    return ask


@pytest.mark.parametrize("way", ["middleware", "graph", "refiner", "node"])
async def test_a_context_reaches_no_loop_inside_of_a_loop(way: str) -> None:
    """What a generator or a tool asks is another question: neither reference nor limits are meant for it."""
    judged: list[Any] = []
    inner = inner_agent(judged, "inner")
    bounds = Bounds(max_attempts=5)
    context: Any = {"refine": {"max_attempts": 5, "evidence": {"reference": "42"}}}

    def judge(sample: Sample) -> int:
        judged.append(("outer", sample.reference))
        return 4

    if way == "middleware":
        calls = ScriptedModel([ToolCall(name="ask", args={"question": "why?"}), "42"], cycle=True)
        middleware = [SelfRefineMiddleware(judge, bounds=bounds)]
        runs: Any = create_agent(calls, [as_tool(inner)], middleware=middleware)
    elif way == "graph":
        runs, context = self_refine(inner, judge, bounds=bounds), context["refine"]
    else:
        around = StateGraph(MessagesState)
        refiner = SelfRefine(inner if way == "refiner" else as_node(inner), judge, bounds=bounds)
        around.add_node("chat", refiner)
        around.add_edge(START, "chat")
        runs = around.compile()
    for _ in range(2):
        runs.invoke(ASKED, context=context)
        await runs.ainvoke(ASKED, context=context)
    assert judged == [("inner", None), ("outer", "42")] * 4


def as_node(agent: Any) -> Any:
    """Make a generator that asks an agent by itself."""
    return lambda messages: agent.invoke({"messages": messages})["messages"][-1].text


def test_a_call_inside_may_bring_a_context_of_its_own() -> None:
    """It is that call's, and holds for the loop that it calls."""
    judged: list[Any] = []
    inner = inner_agent(judged, "inner")

    def generate(messages: Any) -> str:
        own = {"refine": {"evidence": {"reference": "own"}}}
        return str(inner.invoke({"messages": messages}, context=own)["messages"][-1].text)

    self_refine(generate, lambda response: 4).invoke(ASKED, context={"evidence": {"reference": "42"}})
    assert judged == [("inner", "own")]
