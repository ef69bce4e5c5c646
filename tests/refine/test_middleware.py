"""The middleware judges an agent's answers, and the refinement goes on over the model calls of a turn."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from graphs import Bounds, GeneratorFailed, JudgeFailed, NotAccepted, Outcome, Overrides, Unanswered
from graphs.outcome import InputError
from judges import ConfigurationError, Sample, Verdict
from judges.testing import ScriptedJudge, ScriptedModel
from refine.middleware import SelfRefineMiddleware
from tests.laws import for_every
from tests.refine.agent_models import QUESTION, THREAD, agent_of, both, calling, lookup, wait


@both
def test_tools_run_again_between_attempts(ask: Callable[..., Any]) -> None:
    """A rejected draft and its feedback stand before the next tool call; the history has the calls, no draft."""
    model = ScriptedModel([calling(1), "wrong 1", calling(2), "wrong 2", "right"])
    judge = ScriptedJudge([(1, "look again"), (2, "read it"), 4])
    refining = SelfRefineMiddleware(judge, augment="last_draft")
    result = ask(agent_of(model, refining))
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool", "ai", "tool", "ai"]
    assert [[message.type for message in prompt] for prompt in model.prompts] == [
        ["human"],
        ["human", "ai", "tool"],
        ["human", "ai", "tool", "ai", "human"],
        ["human", "ai", "tool", "ai", "human", "ai", "tool"],
        ["human", "ai", "tool", "ai", "tool", "ai", "human"],
    ]
    assert "look again" in str(model.prompts[3][4].text)
    assert [len(sample.trajectory) for sample in judge.samples] == [2, 4, 4]
    assert {sample.question for sample in judge.samples} == {"what is it?"}
    outcome = refining.outcome(result)
    assert (outcome.stop_reason, outcome.passed, outcome.usage.calls) == ("accepted", True, 5)
    assert [attempt.text for attempt in outcome.attempts] == ["wrong 1", "wrong 2", "right"]


@both
def test_attempts_count_over_the_turn(ask: Callable[..., Any]) -> None:
    """A model that goes on drafting and calling tools for ever makes no more drafts than are allowed."""
    cases: list[tuple[dict[str, Any], int, int]] = [
        ({"max_attempts": 3}, 3, 5),
        ({"max_attempts": 50}, 50, 99),
        ({"max_attempts": 50, "max_calls": 9}, 5, 9),
    ]
    for limits, drafts, calls in cases:
        model = ScriptedModel([line for number in range(60) for line in ("wrong", calling(number))])
        refining = SelfRefineMiddleware(ScriptedJudge(lambda _: Verdict.rated(1)), **limits)
        outcome = refining.outcome(ask(agent_of(model, refining)))
        assert (len(outcome.attempts), len(model.prompts)) == (drafts, calls)
        assert outcome.stop_reason == ("budget" if "max_calls" in limits else "max_attempts")


def test_a_new_question_starts_anew() -> None:
    """On a thread with memory each turn has its own attempts, and the judge sees the conversation before."""
    model = ScriptedModel(["wrong", "right", "wrong", "right"])
    judge = ScriptedJudge([1, 4, 1, 4])
    refining = SelfRefineMiddleware(judge, max_attempts=2)
    agent = agent_of(model, refining, checkpointer=InMemorySaver())
    agent.invoke(QUESTION, THREAD)
    result = agent.invoke({"messages": [("user", "and this?")]}, THREAD)
    assert [message.text for message in result["messages"]] == ["what is it?", "right", "and this?", "right"]
    assert len(refining.outcome(result).attempts) == 2
    assert len(judge.samples[-1].conversation) == 3


def test_users_with_the_same_message_ids_do_not_meet() -> None:
    """Sixteen turns at once, all with the same ids of messages, each see their own drafts only."""

    def reply(messages: list[Any]) -> object:
        user = str(messages[0].text)
        last = messages[-1]
        if last.type == "human" and last.text == user:
            return AIMessage(f"draft of {user}", id="fixed")
        return calling(1) if last.type == "human" else AIMessage(f"answer to {user}", id="fixed")

    def rate(sample: Sample) -> Verdict:
        return Verdict.rated(
            1 if (sample.response or "").startswith("draft") else 4, feedback=f"for {sample.question}"
        )

    model = ScriptedModel(reply, delay_s=0.002)
    refining = SelfRefineMiddleware(ScriptedJudge(rate))
    agent = agent_of(model, refining)
    users = [f"user{number:02}" for number in range(16)]

    def run(user: str) -> Outcome:
        return refining.outcome(agent.invoke({"messages": [HumanMessage(user, id="question")]}))

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(run, users))
    for user, outcome in zip(users, outcomes, strict=True):
        assert [attempt.text for attempt in outcome.attempts] == [f"draft of {user}", f"answer to {user}"]
    for prompt in model.prompts:
        others = set(users) - {str(prompt[0].text)}
        assert not any(other in repr(prompt) for other in others)


@both
def test_the_released_message_is_the_models_own(ask: Callable[..., Any]) -> None:
    """It keeps its usage and metadata, has a fresh id, and the summary of all attempts."""
    usage: Any = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    answer = AIMessage("right", id="of the draft", usage_metadata=usage, response_metadata={"logprobs": [1]})
    released = ask(agent_of(ScriptedModel(["wrong", answer]), SelfRefineMiddleware(ScriptedJudge([1, 4]))))[
        "messages"
    ][-1]
    assert released.usage_metadata == usage
    assert released.response_metadata["logprobs"] == [1]
    assert released.id not in (None, "of the draft")
    assert [each["rating"] for each in released.response_metadata["refine"]["attempts"]] == [1, 4]


def test_reasoning_after_a_rejection_is_for_the_model_alone() -> None:
    """The history has the tool call without it; the model, whose provider may insist on it, sees it again."""
    thought: Any = {"type": "thinking", "thinking": "They did not like it.", "signature": "s"}
    call = {"name": "lookup", "args": {"subject": "it"}, "id": "1", "type": "tool_call"}
    model = ScriptedModel(["wrong", AIMessage([thought], tool_calls=[call]), "right"])
    result = agent_of(model, SelfRefineMiddleware(ScriptedJudge([1, 4]))).invoke(QUESTION)
    assert "did not like" not in repr(result)
    assert [thought] in [message.content for message in model.prompts[-1]]


def test_what_is_counted_where() -> None:
    """Handlers and the outcome count every call, the history only the calls whose messages it holds."""
    counter = UsageMetadataCallbackHandler()
    model = ScriptedModel([calling(1), "wrong wrong", calling(2), "wrong again", "right"])
    refining = SelfRefineMiddleware(ScriptedJudge([1, 1, 4]))
    result = agent_of(model, refining).invoke(QUESTION, {"callbacks": [counter]})
    in_history = sum(
        message.usage_metadata["total_tokens"] for message in result["messages"] if message.type == "ai"
    )
    counted = counter.usage_metadata["scripted"]["total_tokens"]
    assert refining.outcome(result).usage.tokens == counted > in_history


@both
def test_the_best_draft_is_released_where_none_passes(ask: Callable[..., Any]) -> None:
    """`on_exhausted` decides: the best, the last, a text of one's own, or an error with the record."""

    def run(**settings: Any) -> str:
        refining = SelfRefineMiddleware(ScriptedJudge([2, 1]), max_attempts=2, **settings)
        return str(ask(agent_of(ScriptedModel(["first", "second"]), refining))["messages"][-1].text)

    assert run() == "first"
    assert run(on_exhausted="last") == "second"
    assert run(on_exhausted="fallback", fallback="sorry") == "sorry"
    with pytest.raises(NotAccepted) as caught:
        run(on_exhausted="raise")
    assert [attempt.text for attempt in caught.value.outcome.attempts] == ["first", "second"]


def test_failures_are_those_of_the_loop() -> None:
    """A model that fails at once, and a judge without a verdict, end as the policy says."""
    with pytest.raises(GeneratorFailed) as caught:
        agent_of(ScriptedModel([RuntimeError("boom")]), SelfRefineMiddleware(ScriptedJudge([]))).invoke(QUESTION)
    assert isinstance(caught.value.__cause__, RuntimeError)
    refining = SelfRefineMiddleware(ScriptedJudge([2]))
    result = agent_of(ScriptedModel(["first", RuntimeError("boom")]), refining).invoke(QUESTION)
    assert result["messages"][-1].text == "first"
    assert refining.outcome(result).stop_reason == "generator_failed"
    unable = ScriptedJudge([Verdict.without_score("judge_failed", "no reply")], cycle=True)
    with pytest.raises(JudgeFailed):
        agent_of(ScriptedModel(["first"]), SelfRefineMiddleware(unable, on_judge_error="raise")).invoke(QUESTION)
    result = agent_of(ScriptedModel(["first"]), SelfRefineMiddleware(unable)).invoke(QUESTION)
    assert result["messages"][-1].response_metadata["refine"]["stop_reason"] == "judge_failed"


@both
def test_outcomes_are_handed_over(
    ask: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`on_outcome` and the record get every turn, also without an answer; a callback that raises is a warning."""
    outcomes: list[Outcome] = []
    path = tmp_path / "attempts.jsonl"

    async def note(outcome: Outcome) -> None:
        outcomes.append(outcome)

    def fail(outcome: Outcome) -> None:
        raise ValueError("secret text")

    for callback in (outcomes.append, note):
        ask(
            agent_of(
                ScriptedModel(["x"]), SelfRefineMiddleware(ScriptedJudge([4]), on_outcome=callback, record=path)
            )
        )
    refining = SelfRefineMiddleware(ScriptedJudge([1]), on_outcome=note, max_attempts=1, on_exhausted="raise")
    with pytest.raises(NotAccepted):
        ask(agent_of(ScriptedModel(["x"]), refining))
    assert [outcome.passed for outcome in outcomes] == [True, True, False]
    assert [json.loads(line)["response"] for line in path.read_text().splitlines()] == ["x", "x"]
    with caplog.at_level(logging.WARNING, logger="refine"):
        result = ask(agent_of(ScriptedModel(["x"]), SelfRefineMiddleware(ScriptedJudge([4]), on_outcome=fail)))
    assert result["messages"][-1].text == "x"
    assert "on_outcome raised ValueError" in caplog.text
    assert "secret text" not in caplog.text


@both
def test_what_is_not_judged_says_so(ask: Callable[..., Any]) -> None:
    """Tool calls carry a note; the result of a tool that ends the turn is an outcome of its own kind."""
    refining = SelfRefineMiddleware(ScriptedJudge([]))
    result = ask(agent_of(ScriptedModel([calling(1, "hand_over")]), refining))
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool"]
    note = result["messages"][1].response_metadata["refine"]
    assert (note["stop_reason"], note["detail"].partition(":")[0]) == ("skipped", "return_direct")
    outcome = refining.outcome(result)
    assert (outcome.stop_reason, outcome.passed, outcome.answer) == ("skipped", False, None)
    assert outcome.detail.startswith("return_direct")
    result = ask(agent_of(ScriptedModel([calling(1), "right"]), SelfRefineMiddleware(ScriptedJudge([4]))))
    assert result["messages"][1].response_metadata["refine"]["detail"].startswith("tool_call")


def test_an_outcome_that_is_not_held_is_an_error() -> None:
    """Of the last results the record is at hand, of older ones and of others' the message says where to get it."""
    refining = SelfRefineMiddleware(ScriptedJudge([4], cycle=True), max_outcomes=1)
    agent = agent_of(ScriptedModel(["x"], cycle=True), refining)
    first, second = agent.invoke(QUESTION), agent.invoke(QUESTION)
    assert refining.outcome(second).passed
    with pytest.raises(InputError, match="on_outcome"):
        refining.outcome(first)
    assert refining.outcome(agent.invoke(QUESTION, version="v2")).passed
    wrong: list[Any] = [{}, [], None, {"structured_response": "x"}]
    for result in wrong:
        with pytest.raises(InputError, match="outcome takes what the agent returned, a mapping with messages"):
            refining.outcome(result)


def test_a_forgotten_turn_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Where more turns wait than are held, the oldest loses its drafts, which a warning says."""
    refining = SelfRefineMiddleware(ScriptedJudge([1], cycle=True), max_turns=1)
    model = ScriptedModel(["wrong", calling(1, "wait")], cycle=True)
    agent = agent_of(model, refining, wait, checkpointer=InMemorySaver())
    agent.invoke(QUESTION, THREAD)
    assert not caplog.records
    agent.invoke(QUESTION, {"configurable": {"thread_id": "2"}})
    assert "max_turns=1" in caplog.text


def test_turns_that_a_tool_ended_displace_none_that_waits(caplog: pytest.LogCaptureFixture) -> None:
    """A tool whose result is the answer leaves the turn without a further call; it is forgotten first, unsaid."""

    @tool(return_direct=True)
    def measure(subject: str) -> str:
        """Measure it."""
        return f"15 {subject}"

    model = ScriptedModel(["wrong", calling(1, "wait"), *["wrong", calling(1, "measure")] * 3, "right"])
    refining = SelfRefineMiddleware(ScriptedJudge([*[1] * 4, 4]), max_turns=2)
    agent = agent_of(model, refining, wait, measure, checkpointer=InMemorySaver())
    agent.invoke(QUESTION, THREAD)
    for thread in ("2", "3", "4"):
        assert agent.invoke(QUESTION, {"configurable": {"thread_id": thread}})["messages"][-1].text == "15 it 1"
    outcome = refining.outcome(agent.invoke(Command(resume="yes"), THREAD))
    assert [attempt.text for attempt in outcome.attempts] == ["wrong", "right"]
    assert not caplog.records


@both
def test_a_turn_goes_on_after_a_human(ask: Callable[..., Any]) -> None:
    """Here it knows its drafts; in another process, which has no drafts, the counts of the turn go on."""

    def agent_with(script: list[object], saver: InMemorySaver) -> tuple[Any, SelfRefineMiddleware, ScriptedModel]:
        refining = SelfRefineMiddleware(ScriptedJudge([1], cycle=True), max_attempts=3)
        model = ScriptedModel(script)
        return agent_of(model, refining, wait, checkpointer=saver), refining, model

    before: list[object] = ["first", "second", calling(1, "wait")]
    agent, refining, model = agent_with([*before, "third"], InMemorySaver())
    ask(agent, QUESTION, THREAD)
    outcome = refining.outcome(ask(agent, Command(resume="go on"), THREAD))
    assert [attempt.text for attempt in outcome.attempts] == ["first", "second", "third"]
    assert len(model.prompts) == 4
    saver = InMemorySaver()
    agent, refining, model = agent_with(before, saver)
    ask(agent, QUESTION, THREAD)
    agent, refining, model = agent_with(["third", "fourth"], saver)
    outcome = refining.outcome(ask(agent, Command(resume="go on"), THREAD))
    assert [attempt.text for attempt in outcome.attempts] == ["third"]
    assert (outcome.stop_reason, outcome.usage.calls) == ("max_attempts", 4)


def test_a_judge_may_ask_a_human() -> None:
    """On resuming the judge gets the decision, and the draft that it is about is not written again."""

    def rate(sample: Sample) -> Verdict:
        return Verdict.rated(int(interrupt(f"rate {sample.response}")))

    model = ScriptedModel(["first", "second"])
    refining = SelfRefineMiddleware(rate)
    agent = agent_of(model, refining, checkpointer=InMemorySaver())
    waiting = agent.invoke(QUESTION, THREAD)
    assert waiting["__interrupt__"][0].value == "rate first"
    with pytest.raises(InputError, match="not ended"):
        refining.outcome(waiting)
    result = agent.invoke(Command(resume=4), THREAD)
    assert result["messages"][-1].text == "first"
    assert len(model.prompts) == 1


def test_the_deadline_counts_the_time_of_tools() -> None:
    """A tool that takes longer than the deadline leaves no time for another attempt."""

    @tool
    def slow(subject: str) -> str:
        """Take a while."""
        time.sleep(0.3)
        return subject

    refining = SelfRefineMiddleware(ScriptedJudge([2, 4]), deadline_s=0.25)
    result = agent_of(ScriptedModel(["first", calling(1, "slow"), "second"]), refining, slow).invoke(QUESTION)
    assert result["messages"][-1].text == "first"
    assert refining.outcome(result).stop_reason == "deadline"


def test_later_attempts_may_use_other_settings() -> None:
    """From an attempt on another model, with the agent's tools, and another temperature."""
    first, second = ScriptedModel(["one"]), ScriptedModel([calling(1), "two"])
    refining = SelfRefineMiddleware(ScriptedJudge([1, 4]), overrides={2: {"model": second, "temperature": 0.9}})
    assert agent_of(first, refining).invoke(QUESTION)["messages"][-1].text == "two"
    assert [settings.get("temperature") for settings in (*first.settings, *second.settings)] == [None, 0.9, 0.9]
    assert second.settings[0]["tools"] == first.settings[0]["tools"]


@for_every(
    "settings, message",
    [
        ({"on_exhausted": "interrupt"}, r"SelfRefine\(agent, judge, on_exhausted='interrupt', checkpointer"),
        ({"candidates": 2}, r"SelfRefine\(agent, judge, candidates=2\)"),
        ({"checkpointer": InMemorySaver()}, "the agent has checkpointer"),
        ({"max_attempt": 2}, "did you mean 'max_attempts'"),
        ({"max_turns": 0}, "max_turns is a whole number from 1"),
        ({"bounds": {"max_attempts": 5}}, r"bounds is a graphs.Bounds, for instance Bounds\(max_attempts=5\)"),
        ({"on_outcome": "print"}, "on_outcome is a function of one argument, or None"),
        ({"overrides": {2: {"model": str.upper}}}, "chat model or its 'provider:model' name"),
    ],
)
def test_a_wrong_setting_is_refused(settings: dict[str, Any], message: str) -> None:
    """The error says what to do instead."""
    with pytest.raises(ConfigurationError, match=message):
        SelfRefineMiddleware(ScriptedJudge([4]), **settings)


@dataclass
class Context:
    """The context of an application, with what this call changes of the refinement."""

    user: str
    refine: Overrides | dict[str, Any] | None = None


CONTEXTS: dict[str, tuple[type | None, Callable[..., Any]]] = {
    "without a schema": (None, dict),
    "under refine without a schema": (None, lambda **settings: {"user": "me", "refine": settings}),
    "overrides": (Overrides, Overrides),
    "settings": (Overrides, dict),
    "part of a context": (Context, lambda **settings: Context("me", Overrides(**settings))),
    "settings in a context": (Context, lambda **settings: Context("me", settings)),
}


@both
@for_every("kind", CONTEXTS)
def test_a_call_may_change_its_policy_within_bounds(ask: Callable[..., Any], kind: str) -> None:
    """Stricter and cheaper is always allowed; what goes further is an error before anything is asked."""
    schema, context_of = CONTEXTS[kind]

    def asked(bounds: Bounds | None = None, **settings: Any) -> tuple[int, str]:
        read: list[str] = []

        def rate(response: str, guidelines: Any) -> int:
            read.append(str(guidelines))
            return 2

        model = ScriptedModel(["x"], cycle=True)
        refining = SelfRefineMiddleware(rate, bounds=bounds, success_rating=3)
        agent = agent_of(model, refining, context_schema=schema)
        ask(agent, context=context_of(**settings) if settings else None)
        return len(model.prompts), read[0]

    assert asked()[0] == 3
    assert asked(max_attempts=1)[0] == 1
    assert asked(Bounds(max_attempts=5), max_attempts=4)[0] == 4
    assert asked(Bounds(success_rating=2), success_rating=2)[0] == 1
    assert "Be brief." in asked(Bounds(max_criteria_chars=50), guidelines=["Be brief."])[1]
    beyond: tuple[dict[str, Any], ...] = ({"max_attempts": 4}, {"success_rating": 2}, {"guidelines": ["x"]})
    for settings in beyond:
        with pytest.raises(InputError, match="a request may"):
            asked(**settings)
    with pytest.raises(InputError, match="did you mean 'max_attempts'"):
        asked(max_atempts=1)


def test_two_of_them_wrap_each_other() -> None:
    """Under two names the outer one judges what the inner one released, each with its own record."""
    model = ScriptedModel(["a", "ab", "b", "ba!"])
    inner = SelfRefineMiddleware(ScriptedJudge([1, 4, 1, 4]), name="inner")
    outer = SelfRefineMiddleware(ScriptedJudge([1, 4]), name="outer")
    agent = create_agent(model, middleware=[outer, inner])
    result = agent.invoke(QUESTION)
    assert [message.text for message in result["messages"]] == ["what is it?", "ba!"]
    assert [attempt.text for attempt in outer.outcome(result).attempts] == ["ab", "ba!"]
    assert [attempt.text for attempt in inner.outcome(result).attempts] == ["b", "ba!"]
    summary = result["messages"][-1].response_metadata["refine"]
    ids = [refining.outcome(result).id for refining in (outer, inner)]
    assert [summary["outcome_id"], summary["inner"]["outcome_id"]] == ids


@both
def test_each_of_several_finds_its_own_outcome(ask: Callable[..., Any]) -> None:
    """Three of them, tools between attempts, and the outer one releasing an earlier answer than the last."""
    call, script = calling(1), ["first", "second"]
    middleware = [
        SelfRefineMiddleware(ScriptedJudge([3, 1]), name="outer", success_rating=4, max_attempts=2),
        SelfRefineMiddleware(ScriptedJudge([4], cycle=True), name="middle"),
        SelfRefineMiddleware(ScriptedJudge([4], cycle=True), name="inner"),
    ]
    result = ask(create_agent(ScriptedModel([call, *script]), [lookup], middleware=middleware))
    outcomes = [refining.outcome(result) for refining in middleware]
    assert [[attempt.text for attempt in outcome.attempts] for outcome in outcomes] == [
        script,
        ["first"],
        ["first"],
    ]
    assert len({outcome.id for outcome in outcomes}) == 3
    with pytest.raises(InputError, match="not held"):
        SelfRefineMiddleware(ScriptedJudge([]), name="other").outcome(result)


@both
def test_a_failed_turn_leaves_nothing(ask: Callable[..., Any]) -> None:
    """Turns that ended, with an answer or an error, are not held any more."""
    refining = SelfRefineMiddleware(ScriptedJudge([1, 4, 1], cycle=True), max_attempts=1, on_exhausted="raise")
    agent = agent_of(ScriptedModel([calling(1), "x"], cycle=True), refining)
    for _ in range(3):
        try:
            ask(agent)
        except Unanswered:
            continue
    assert len(refining._turns) == 0


async def test_a_cancelled_turn_ends() -> None:
    """Nothing goes on in the background, and nothing of it is held."""
    refining = SelfRefineMiddleware(ScriptedJudge([1], cycle=True), max_attempts=100)
    model = ScriptedModel(["x"], cycle=True, delay_s=0.02)
    running = asyncio.ensure_future(create_agent(model, middleware=[refining]).ainvoke(QUESTION))
    await asyncio.sleep(0.1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    calls = len(model.prompts)
    await asyncio.sleep(0.1)
    assert len(model.prompts) == calls
    assert len(refining._turns) == 0
