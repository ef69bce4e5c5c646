"""What a single request changes: within the bounds it holds, beyond them and misspelt it is an error."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import get_runtime
from langgraph.types import Command

from graphs import Bounds, InputError, Overrides, Policy, self_refine
from judges import ConfigurationError, Price, Sample
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine

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

    def made(judge: Any) -> Any:
        return self_refine(ScriptedModel(DRAFTS), judge, policy=policy, checkpointer=saver, bounds=bounds)

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
