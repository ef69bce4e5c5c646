"""Reviews by a human: what may be decided, what becomes of it, and what the state says meanwhile."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from graphs import ConcurrentTurn, InputError, Policy, Rejected, ReviewPending, Unanswered, self_refine
from judges import ConfigurationError
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine

Saver = BaseCheckpointSaver[Any]

THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}
ASKED: dict[str, Any] = {"messages": [("user", "first question")]}
AGAIN: dict[str, Any] = {"messages": [("user", "second question")]}
MARK = "Xq7Zdraft"
DRAFTS = [f"{MARK} {number}" for number in range(1, 9)]


def texts(messages: Sequence[BaseMessage]) -> list[str]:
    """List the texts of messages."""
    return [message.text for message in messages]


class Reviewed:
    """A graph whose drafts come to a reviewer, and what its model was asked."""

    def __init__(self, ratings: Sequence[Any], saver: Saver | None = None, **settings: Any) -> None:
        policy = Policy(on_exhausted="interrupt", **{"max_attempts": 1, **settings.pop("policy", {})})
        self.model = ScriptedModel(DRAFTS)
        self.judge = ScriptedJudge(list(ratings))
        self.graph = self_refine(
            self.model, self.judge, policy=policy, checkpointer=saver or InMemorySaver(), **settings
        )

    def ask(self, question: Any = None, **settings: Any) -> dict[str, Any]:
        """Take a turn."""
        state: dict[str, Any] = self.graph.invoke(question or ASKED, THREAD, **settings)
        return state

    def decide(self, decision: Any, **settings: Any) -> dict[str, Any]:
        """Resume with a decision."""
        return self.ask(Command(resume=decision), **settings)

    @property
    def status(self) -> str:
        """The status that operators see."""
        return str(self.graph.get_state(THREAD).values["status"])

    @property
    def review(self) -> dict[str, Any]:
        """What the reviewer is shown."""
        (review,) = self.graph.get_state(THREAD).interrupts
        return dict(review.value)


# Feedback


def test_feedback_is_for_the_generator() -> None:
    """Sent back, the draft under review and the reviewer's words go to the generator, for one more attempt."""
    reviewed = Reviewed(
        [(2, "of the judge"), (1, "of the judge"), 4], policy={"max_attempts": 2, "augment": "last_draft"}
    )
    reviewed.ask()
    assert (reviewed.review["answer"], reviewed.status) == (DRAFTS[0], "waiting")
    ended = reviewed.decide({"feedback": "in verse, please"})
    question, draft, note = reviewed.model.prompts[-1]
    assert (question.text, draft.text) == ("first question", DRAFTS[0])
    assert "- in verse, please" in note.text.splitlines()
    assert "of the judge" not in note.text
    assert texts(ended["messages"]) == ["first question", DRAFTS[2]]
    assert (ended["refine"]["passed"], len(ended["refine"]["attempts"]), reviewed.status) == (True, 3, "done")
    assert "in verse" not in repr(ended)


def test_a_draft_that_was_sent_back_is_not_reviewed_again() -> None:
    """The reviewer gets the new draft although the judge liked the old one better."""
    reviewed = Reviewed([3, 1, 2], policy={"success_rating": 4})
    reviewed.ask()
    reviewed.decide({"feedback": "again"})
    assert (reviewed.review["answer"], reviewed.review["rating"], reviewed.review["attempts"]) == (DRAFTS[1], 1, 2)
    reviewed.decide({"feedback": "once more"})
    ended = reviewed.decide("accept")
    assert texts(ended["messages"]) == ["first question", DRAFTS[2]]
    assert ended["refine"]["detail"] == "released by a reviewer"


def test_reviews_are_bounded() -> None:
    """After `max_revisions`, or where a budget is spent, feedback is refused and the rest is not."""
    cases: list[tuple[dict[str, int], int, str]] = [
        ({"max_revisions": 2}, 2, "it was sent back 2 times"),
        ({"max_revisions": 0}, 0, "it was sent back 0 times"),
        ({"max_calls": 2}, 1, "2 of 2 model calls made"),
    ]
    for policy, sent_back, reason in cases:
        reviewed = Reviewed([1] * 8, policy=policy)
        reviewed.ask()
        for _ in range(sent_back):
            reviewed.decide({"feedback": "again"})
        with pytest.raises(
            InputError, match=f"no further attempt is allowed: {reason}; the review is then 'accept'"
        ):
            reviewed.decide({"feedback": "again"})
        with pytest.raises(
            InputError, match=r"the review cannot be read; a review is 'accept', 'reject' or \{'answer'"
        ):
            reviewed.decide("feedback")
        assert reviewed.status == "waiting"
        assert reviewed.decide("accept")["messages"][-1].text.startswith(MARK)


def test_other_forms_of_feedback_are_refused() -> None:
    """First guesses are told the forms there are, and the review stays open."""
    reviewed = Reviewed([1])
    reviewed.ask()
    for decision in ({"reject": "too long"}, {"feedback": " "}, {"feedback": 7}, {"feedback": "a", "answer": "b"}):
        with pytest.raises(InputError, match=r"or \{'feedback': 'what to change'\} for another attempt"):
            reviewed.decide(decision)
    assert reviewed.decide({"answer": "mine"})["messages"][-1].text == "mine"


def test_a_generator_that_fails_after_feedback_leaves_the_review_open() -> None:
    """The reviewed draft is still there to accept; nothing is lost."""
    lines: list[Any] = ["first draft", OSError("down")]

    def generate(_: object) -> str:
        line = lines.pop(0)
        if isinstance(line, str):
            return line
        raise line

    refiner = SelfRefine(
        generate, lambda response: False, max_attempts=1, on_exhausted="interrupt", checkpointer=InMemorySaver()
    )
    refiner.refine("what?", THREAD)
    waiting = refiner.refine(Command(resume={"feedback": "again"}), THREAD)
    assert (waiting.stop_reason, waiting.detail) == ("interrupted", "generator_failed")
    assert refiner.invoke(Command(resume="accept"), THREAD).text == "first draft"


@pytest.mark.parametrize("durability", ["sync", "exit"])
async def test_feedback_in_every_way_to_run(durability: Any, tmp_path: Path) -> None:
    """With a refiner, async, in one node; the record of the outcome holds what the reviewer asked for."""
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as saver:
        refiner = SelfRefine(
            ScriptedModel(DRAFTS),
            ScriptedJudge([1, 1, 4]),
            max_attempts=1,
            on_exhausted="interrupt",
            checkpointer=saver,
            durability=durability,
        )
        assert (await refiner.arefine("what?", THREAD)).stop_reason == "interrupted"
        assert (await refiner.arefine(Command(resume={"feedback": "a"}), THREAD)).stop_reason == "interrupted"
        with pytest.raises(Unanswered, match="awaits a review"):
            await refiner.ainvoke(None, THREAD)
        outcome = await refiner.arefine(Command(resume={"feedback": "b"}), THREAD)
    assert (outcome.passed, [attempt.review for attempt in outcome.attempts]) == (True, ["a", "b", ""])
    assert [attempt.feedback for attempt in outcome.attempts][:2] == ["a", "b"]


# Decisions are stored


def test_after_a_rejection_the_thread_waits_no_more() -> None:
    """The decision is stored: the turn is done, says so, and the next question is a turn without it."""
    reviewed = Reviewed([1, 4])
    reviewed.ask()
    with pytest.raises(Rejected, match=r"max_attempts after 1 attempts \(refused by a reviewer\)") as raised:
        reviewed.decide("reject")
    state = reviewed.graph.get_state(THREAD)
    assert (state.next, state.interrupts, reviewed.status) == ((), (), "done")
    assert (state.values["refine"]["passed"], state.values["refine"]["detail"]) == (False, "refused by a reviewer")
    assert texts(state.values["messages"]) == ["first question"]
    assert MARK not in repr(state)
    assert len(raised.value.outcome.attempts) == 1
    for decision in ("accept", "reject"):
        with pytest.raises(InputError, match="no decision is awaited"):
            reviewed.decide(decision)
    assert texts(reviewed.ask(AGAIN)["messages"]) == ["second question", DRAFTS[1]]
    assert texts(reviewed.model.prompts[-1]) == ["second question"]


def test_a_rejection_inside_another_graph_ends_its_node() -> None:
    """The graph around goes on without an answer; a function that needs one gets the error."""

    def graph(node: Any) -> Any:
        class State(MessagesState):
            refine: dict[str, Any]

        builder = StateGraph(State)
        builder.add_node("inner", node)
        builder.add_edge(START, "inner")
        return builder.compile(checkpointer=InMemorySaver())

    def refiner() -> SelfRefine:
        judge = ScriptedJudge([1], cycle=True)
        settings: dict[str, Any] = {"max_attempts": 1, "on_exhausted": "interrupt", "checkpointer": "inherit"}
        return SelfRefine(ScriptedModel(DRAFTS), judge, **settings)

    policy = Policy(max_attempts=1, on_exhausted="interrupt")
    loop = self_refine(ScriptedModel(DRAFTS), ScriptedJudge([1]), policy=policy, checkpointer="inherit")
    for outer in (graph(loop), graph(refiner())):
        outer.invoke(ASKED, THREAD)
        ended = outer.invoke(Command(resume="reject"), THREAD)
        assert (texts(ended["messages"]), ended["refine"]["passed"]) == (["first question"], False)
        assert (outer.get_state(THREAD).next, outer.get_state(THREAD).interrupts) == ((), ())
    inner = refiner()
    outer = graph(lambda state: {"messages": inner.invoke(state["messages"])})
    outer.invoke(ASKED, THREAD)
    with pytest.raises(Rejected):
        outer.invoke(Command(resume="reject"), THREAD)


def test_a_decision_on_one_draft_is_none_on_the_next() -> None:
    """A reviewer who was overtaken by feedback does not release a draft that they have not seen."""
    started, release = threading.Event(), threading.Event()

    def generate(messages: Sequence[BaseMessage]) -> str:
        if len(messages) > 1:
            started.set()
            assert release.wait(10)
        return f"draft {len(messages)}"

    policy = Policy(max_attempts=1, on_exhausted="interrupt")
    graph = self_refine(generate, lambda response: False, policy=policy, checkpointer=InMemorySaver())
    graph.invoke(ASKED, THREAD)
    first = threading.Thread(target=graph.invoke, args=(Command(resume={"feedback": "again"}), THREAD))
    first.start()
    assert started.wait(10)
    late: list[Exception] = []

    def accept() -> None:
        try:
            graph.invoke(Command(resume="accept"), THREAD)
        except InputError as error:
            late.append(error)

    second = threading.Thread(target=accept)
    second.start()
    release.set()
    first.join()
    second.join()
    assert "no decision is awaited" in str(late)
    (review,) = graph.get_state(THREAD).interrupts
    assert review.value["answer"] == "draft 2"
    assert graph.invoke(Command(resume={review.id: "accept"}), THREAD)["messages"][-1].text == "draft 2"


# New questions


@pytest.fixture(params=["memory", "async sqlite"])
async def saver(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Saver]:
    """Give each checkpointer, one of them for async alone."""
    if request.param == "memory":
        yield InMemorySaver()
    else:
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as sqlite:
            yield sqlite


async def test_a_new_question_is_refused_while_a_review_waits(saver: Saver) -> None:
    """Nothing is spent, nothing is changed, and the review can still be decided."""
    reviewed = Reviewed([1, 4], saver)
    await reviewed.graph.ainvoke(ASKED, THREAD)
    with pytest.raises(ReviewPending, match=r"Command\(resume=\.\.\.\) first, or .* on_new_question='supersede'"):
        await reviewed.graph.ainvoke(AGAIN, THREAD)
    assert len(reviewed.model.prompts) == 1
    ended = await reviewed.graph.ainvoke(Command(resume="accept"), THREAD)
    assert texts(ended["messages"]) == ["first question", DRAFTS[0]]
    ended = await reviewed.graph.ainvoke(AGAIN, THREAD)
    assert texts(ended["messages"]) == ["first question", DRAFTS[0], "second question", DRAFTS[1]]
    assert issubclass(ReviewPending, ConcurrentTurn)


async def test_a_new_question_takes_the_place_of_one_under_review(saver: Saver) -> None:
    """It is answered alone: no two user messages stand in a row, and the review is no more."""
    reviewed = Reviewed([4, 1, 4], saver, on_new_question="supersede")
    await reviewed.graph.ainvoke({"messages": [SystemMessage("Be brief."), ("user", "before")]}, THREAD)
    await reviewed.graph.ainvoke(ASKED, THREAD)
    ended = await reviewed.graph.ainvoke({"messages": ("user", "second question")}, THREAD)
    assert texts(ended["messages"]) == ["Be brief.", "before", DRAFTS[0], "second question", DRAFTS[2]]
    assert len(ended["refine"]["attempts"]) == 1
    with pytest.raises(InputError, match="no decision is awaited"):
        await reviewed.graph.ainvoke(Command(resume="accept"), THREAD)


def test_the_same_holds_for_a_question_of_an_agent_inside() -> None:
    """A generator that asks a human waits too: its status says so, and a new question is refused."""
    graph = self_refine(lambda _: str(interrupt("may I?")), lambda response: 4, checkpointer=InMemorySaver())
    graph.invoke(ASKED, THREAD)
    assert graph.get_state(THREAD).values["status"] == "waiting"
    with pytest.raises(ReviewPending):
        graph.invoke(AGAIN, THREAD)
    assert graph.invoke(Command(resume="yes"), THREAD)["messages"][-1].text == "yes"
    assert graph.get_state(THREAD).values["status"] == "done"


def test_the_setting_is_checked_and_a_refiner_has_it() -> None:
    """A setting that there is not is refused at construction."""
    settings: dict[str, Any] = {"max_attempts": 1, "on_exhausted": "interrupt", "checkpointer": InMemorySaver()}
    judge = ScriptedJudge([1, 4])
    with pytest.raises(ConfigurationError, match="on_new_question is 'refuse' or 'supersede', not 'drop'"):
        SelfRefine(ScriptedModel(DRAFTS), judge, on_new_question="drop", **settings)  # type: ignore[arg-type]  # the mistake
    refiner = SelfRefine(ScriptedModel(DRAFTS), judge, on_new_question="supersede", **settings)
    refiner.refine("first question", THREAD)
    assert refiner.invoke("second question", THREAD).text == DRAFTS[1]


# Status


def test_the_status_tells_where_a_turn_stands() -> None:
    """Running while it runs, and where it broke off; done with an answer, a fallback, or an error by policy."""
    seen: list[str] = []
    saver = InMemorySaver()

    def ended(judge: Callable[..., Any], **policy: Any) -> str:
        graph = self_refine(lambda _: "draft", judge, policy=Policy(max_attempts=1, **policy), checkpointer=saver)
        config: RunnableConfig = {"configurable": {"thread_id": str(policy)}}

        def noting(response: str) -> Any:
            seen.append(noted.get_state(config).values["status"])
            return judge(response)

        noted = self_refine(lambda _: "draft", noting, policy=Policy(max_attempts=1, **policy), checkpointer=saver)
        with suppress(Unanswered):
            noted.invoke(ASKED, config)
        return str(graph.get_state(config).values["status"])

    def raising(_: str) -> int:
        raise ConfigurationError("no key")

    assert ended(lambda _: 4) == "done"
    assert ended(lambda _: False, on_exhausted="fallback", fallback="sorry") == "done"
    assert ended(lambda _: False, on_exhausted="raise") == "done"
    assert seen == ["running"] * 3
    with pytest.raises(ConfigurationError):
        ended(raising, patience=1)
    config: RunnableConfig = {"configurable": {"thread_id": str({"patience": 1})}}
    graph = self_refine(lambda _: "draft", lambda _: 4, checkpointer=saver)
    assert graph.get_state(config).values["status"] == "running"
    graph.invoke(None, config)
    assert graph.get_state(config).values["status"] == "done"
