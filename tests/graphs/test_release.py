"""Release in pieces: what goes out, in which order, and that everything ends, under any schedule."""

from __future__ import annotations

import asyncio
import random
import re
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from contextvars import ContextVar
from itertools import pairwise
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.runnables import RunnableLambda

from graphs import Outcome, Unanswered, self_refine
from graphs.structure import is_structured
from judges import ConfigurationError, Helpfulness, OpenAICompatible, Quick, Verdict, as_judge
from judges.judge import Judge
from judges.requests import Apply, Deliberation
from judges.sample import Sample
from judges.testing import Likely, ScriptedModel
from refine import SelfRefine

_GOOD = "Sentence {0} of it is good."
_BAD = "Sentence {0} of it is BAD."


class _Schedule:
    """What happens in one run: what is written and when, how long judges take, and what is still going on.

    Args:
        seed: Decides all of it.
    """

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        kinds = (_GOOD, _BAD, "Sentence {0} is ODD.")
        weights = (16, self.pick.choice((0, 2, 6)), self.pick.choice((0, 0, 2)))
        self.answers = [
            " ".join(
                kind.format(f"{attempt}{chr(97 + place)}")
                for place, kind in enumerate(self.pick.choices(kinds, weights, k=self.pick.randint(1, 8)))
            )
            for attempt in range(4)
        ]
        self.slowest = self.pick.choice((2, 30))
        self.written = self.open = self.judging = 0

    async def rest(self, most: int) -> None:
        """Let others go on for some turns of the event loop."""
        for _ in range(self.pick.randint(0, most)):
            await asyncio.sleep(0)

    async def write(self) -> AsyncGenerator[AIMessageChunk]:
        """Write the next answer in chunks of any size."""
        text = self.answers[min(self.written, 3)]
        self.written += 1
        self.open += 1
        try:
            while text:
                await self.rest(3)
                size = self.pick.randint(1, 12)
                yield AIMessageChunk(content=text[:size])
                text = text[size:]
        finally:
            self.open -= 1


_schedule: ContextVar[_Schedule] = ContextVar("schedule")


async def _write(messages: list[BaseMessage]) -> AsyncIterator[AIMessageChunk]:
    del messages
    async with aclosing(_schedule.get().write()) as chunks:
        async for chunk in chunks:
            yield chunk


class _Judge(Judge):
    """Refuses what is bad, and fails on what is odd."""

    name = "schedule"

    def deliberate(self, sample: Sample) -> Deliberation:
        """Wait as the schedule says, and look for the words."""

        async def wait(given: Sample) -> None:
            schedule = _schedule.get()
            schedule.judging += 1
            try:
                await schedule.rest(schedule.slowest)
            finally:
                schedule.judging -= 1

        yield Apply(id, sample, wait)
        answer = sample.answer or ""
        if "ODD" in answer and "BAD" not in answer:
            raise RuntimeError("the judge is down")
        return Verdict.checked("BAD" not in answer, feedback="SECRET-FEEDBACK")


def _refiner_of(seed: int, outcomes: list[Outcome]) -> SelfRefine:
    pick, judge = random.Random(seed), _Judge()
    on_exhausted: Any = pick.choice(("best", "fallback", "raise"))
    return SelfRefine(
        RunnableLambda(_write),
        judge,
        piece_judge=judge,
        release="pieces",
        piece_chars=pick.choice((1, 60)),
        pieces_in_flight=pick.randint(1, 5),
        max_attempts=pick.randint(1, 4),
        on_exhausted=on_exhausted,
        fallback="Ask a person." if on_exhausted == "fallback" else None,
        on_judge_error=pick.choice(("accept", "reject", "raise")),
        on_outcome=outcomes.append,
    )


async def _run(seed: int, refiner: SelfRefine, outcomes: list[Outcome]) -> None:
    """Run one schedule, and check what the client saw."""
    schedule = _Schedule(seed)
    _schedule.set(schedule)
    outcomes.clear()
    leaves_after = schedule.pick.choice((None, None, None, 0, 1, 3))
    chunks: list[Any] = []
    stream: Any = refiner.astream("Why?")
    with suppress(Unanswered):  # where the policy says so
        async for chunk in stream:
            chunks.append(chunk)
            if leaves_after is not None and len(chunks) > leaves_after:
                break
    await stream.aclose()
    text = "".join(str(chunk.text) for chunk in chunks)
    assert "BAD" not in text
    assert "SECRET" not in text
    assert len({chunk.id for chunk in chunks}) <= 1
    assert (schedule.open, schedule.judging, len(asyncio.all_tasks())) == (0, 0, 1)
    if leaves_after is None:
        _check_record(outcomes[0], text)


def _check_record(outcome: Outcome, text: str) -> None:
    """Check that a client saw what the record says, and that no aborted call is free."""
    pieces = [piece for attempt in outcome.attempts for piece in attempt.pieces]
    released = "".join(piece.text for piece in pieces if piece.released)
    assert text in (released, f"{released}\n\nAsk a person.", "Ask a person.")
    assert text.startswith(released)
    assert outcome.answer is None or outcome.text == text
    assert not any("BAD" in piece.text for piece in pieces if piece.released)
    assert all(attempt.usage.output_tokens > 0 for attempt in outcome.attempts if attempt.is_estimated)


async def test_random_schedules() -> None:
    """The client has exactly the accepted pieces in order, no refused letter; calls and tasks have ended."""
    offenders = []
    for settings in range(25):
        outcomes: list[Outcome] = []
        refiner = _refiner_of(settings, outcomes)
        for seed in range(settings * 20, settings * 20 + 20):
            try:
                await _run(seed, refiner, outcomes)
            except AssertionError as error:
                offenders.append((seed, str(error).splitlines()[0]))
    assert offenders == []


def _refuses(answer: str) -> tuple[bool, str]:
    return "BAD" not in answer, "Say nothing bad."


def _accepts(answer: str) -> bool:
    return bool(answer)


def _refiner(*answers: object, **settings: Any) -> tuple[SelfRefine, ScriptedModel]:
    model = ScriptedModel(answers)
    parts = {"piece_judge": as_judge(_refuses), "release": "pieces", "piece_chars": 1}
    return SelfRefine(model, as_judge(_accepts), **{**parts, **settings}), model


_FIRST = "One is good. Two is BAD. Three is never seen."


def test_a_refused_piece_is_written_anew() -> None:
    """The answer goes on after what was released; stream and invoke give the same."""
    refiner, model = _refiner(_FIRST, "Two is better. And three.", _FIRST, "Two is better. And three.")
    chunks = list(refiner.stream("Count."))
    assert [str(chunk.text) for chunk in chunks] == ["One is good.", " Two is better.", " And three.", ""]
    assert chunks[-1].response_metadata["refine"]["passed"] is True
    assert refiner.invoke("Count.").text == "One is good. Two is better. And three."
    asked = model.prompts[1][-1].text
    assert "One is good." in asked
    assert "BAD" not in asked
    assert "Say nothing bad." in asked


@pytest.mark.parametrize(
    "second",
    [
        "Two is better.",
        " Two is better.",
        "One is good. Two is better.",
        "one is  GOOD. Two is better.",
        "is good. Two is better.",
        "\nOne is good.\nTwo is better.",
        "<think>What was BAD?</think>\n\nTwo is better.",
    ],
)
def test_what_a_continuation_repeats_is_cut(second: str) -> None:
    """However a continuation begins anew, the answer has each sentence once, and white space between."""
    refiner, _ = _refiner(_FIRST, second)
    assert " ".join(refiner.invoke("Count.").text.split()) == "One is good. Two is better."


def test_a_continuation_that_repeats_a_long_answer_takes_no_noticeable_time() -> None:
    """What it repeats is compared as it comes, not all of it anew with each word."""
    said = " ".join(f"The town number {number} is a large one." for number in range(450))
    refiner, _ = _refiner(f"{said} It is BAD.", f"{said} It is good.", piece_chars=400)
    started = time.process_time()
    assert refiner.invoke("Count.").text == f"{said} It is good."
    assert time.process_time() - started < 2


def test_a_fence_goes_on() -> None:
    """A continuation in the midst of a code block is still in it."""
    first = "```python\nx = 1. Y\ny = 2. Z\nBAD = 3\n```"
    refiner, _ = _refiner(first, "z = 3. A\n```\nThat is it.", piece_chars_most=24)
    outcome = refiner.refine("Code.")
    assert outcome.text == "```python\nx = 1. Y\nz = 3. A\n```\nThat is it."
    assert [piece.text for piece in outcome.attempts[1].pieces] == ["\nz = 3. A\n```", "\nThat is it."]


@pytest.mark.parametrize("said", ["<think>SECRET plan.</think>\n\n", " \r\n\r\n", "It is BAD. Rest of it."])
def test_a_first_piece_that_is_refused_is_a_plain_retry(said: str) -> None:
    """Nothing was released, so the question is asked again; thoughts alone, and blanks, are no answer."""
    refiner, model = _refiner(said, "All is good.")
    assert "".join(str(chunk.text) for chunk in refiner.stream("Count.")) == "All is good."
    assert "<begun>" not in model.prompts[1][-1].text


@pytest.mark.parametrize(
    ("on_exhausted", "text"), [("best", "One is good."), ("fallback", "One is good.\n\nAsk a person.")]
)
def test_exhausted(on_exhausted: Any, text: str) -> None:
    """What was released stays, flagged, and the refused piece is never sent."""
    fallback = "Ask a person." if on_exhausted == "fallback" else None
    refiner, _ = _refiner(
        _FIRST, "Two is BAD again.", max_attempts=2, on_exhausted=on_exhausted, fallback=fallback
    )
    chunks = list(refiner.stream("Count."))
    assert "".join(str(chunk.text) for chunk in chunks) == text
    metadata = chunks[-1].response_metadata
    assert (metadata["refine"]["passed"], metadata["finish_reason"]) == (False, "content_filter")


@pytest.mark.parametrize(
    ("on_late_refusal", "text"), [("flag", "One. Two."), ("append", "One. Two.\n\nThree is short.")]
)
def test_late_refusals(on_late_refusal: Any, text: str) -> None:
    """The judge of the whole refuses what is out: it is flagged, or an amendment follows."""
    closing = as_judge(lambda answer: ("Three" in answer, "Three is missing."), name="closing")
    model = ScriptedModel(["One. Two.", "Three is short."])
    refiner = SelfRefine(
        model,
        closing,
        piece_judge=as_judge(_refuses),
        release="pieces",
        piece_chars=1,
        on_late_refusal=on_late_refusal,
    )
    outcome = refiner.refine("Count.")
    assert (outcome.text, outcome.passed) == (text, on_late_refusal == "append")
    assert outcome.stop_reason == ("accepted" if on_late_refusal == "append" else "late_refusal")


def _replacing(*answers: object, generator: Any = None, **settings: Any) -> SelfRefine:
    """Return a loop whose judge of the whole wants a word about three."""
    closing = as_judge(lambda answer: ("hree" in answer, "Three is missing."), name="closing")
    return SelfRefine(
        generator or ScriptedModel(answers),
        closing,
        **{
            "piece_judge": as_judge(_refuses),
            "release": "pieces",
            "piece_chars": 1,
            "on_late_refusal": "replace",
            **settings,
        },
    )


async def test_a_late_refusal_is_replaced() -> None:
    """Another answer takes the place of the one that is out: a message of its own, marked, in every stream."""
    from langgraph.graph import END, START, MessagesState, StateGraph  # noqa: PLC0415 - of this test alone

    answers = ("One. Two.", "One. BAD three.", "Three it is.")
    outcome = _replacing(*answers).refine("Count.")
    assert (outcome.text, outcome.passed, outcome.released) == ("Three it is.", True, 3)
    assert [bool(attempt.pieces) for attempt in outcome.attempts] == [True, False, False]
    streamed: list[list[Any]] = [list(_replacing(*answers).stream("Count."))]
    streamed.append([chunk async for chunk in _replacing(*answers).astream("Count.")])
    builder = StateGraph(MessagesState)
    builder.add_node("answer", _replacing(*answers))
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    graph: Any = builder.compile()
    modes, events = ["messages", "custom"], list[Any]()
    streamed.append([])
    async for mode, part in graph.astream({"messages": [("user", "Count.")]}, stream_mode=modes):
        if mode == "custom":
            events.append(part)
        elif part[0].type != "human" and part[0].text:
            streamed[-1].append(part[0])
    for parts in streamed:
        assert [str(part.text) for part in parts] == ["One.", " Two.", "Three it is."]
        replaced, replacement = parts[0].id, parts[-1]
        assert {part.id for part in parts[:-1]} == {replaced}
        assert replacement.id != replaced
        summary = replacement.response_metadata["refine"]
        assert (summary["replaces"], summary["held_back"], summary["passed"]) == (replaced, "late_refusal", True)
    assert [event["text"] for event in events if event["event"] == "replace"] == ["Three it is."]
    assert "BAD" not in repr(events)


@pytest.mark.parametrize(
    ("answers", "settings"),
    [
        (("One. Two.", "Still two.", "Two again."), {"max_attempts": 3}),
        (("One. Two.", "BAD three."), {"max_attempts": 2}),
        (("One. Two.", "Three it is."), {"max_attempts": 1}),
        (("One. Two.", "Three it is."), {"max_calls": 1}),
        (("One. Two.", "One. Two.", "One. Two."), {"patience": 1}),
        (("One. Two.", RuntimeError("gone")), {}),
        (("One. Two.", AIMessage("Three.", tool_calls=[{"name": "look", "args": {}, "id": "1"}])), {}),
        (("One. Two.", "Three it is. FAIL"), {"max_attempts": 2}),
    ],
)
def test_without_a_replacement_what_is_out_is_flagged(answers: Any, settings: Any) -> None:
    """Within every limit: what was not accepted as a whole is never shown, and the answer is as under "flag"."""
    refiner = _replacing(*answers, **settings, piece_judge=as_judge(_fails), on_judge_error="accept")
    chunks = list(refiner.stream("Count."))
    assert [str(chunk.text) for chunk in chunks if chunk.text] == ["One.", " Two."]
    assert len({chunk.id for chunk in chunks}) == 1
    summary = chunks[-1].response_metadata["refine"]
    assert (summary["passed"], summary["stop_reason"]) == (False, "late_refusal")
    assert not {"replaces", "held_back"} & summary.keys()


@pytest.mark.parametrize("hangs", ["generator", "judge"])
async def test_a_replacement_that_comes_too_late_is_none(hangs: str) -> None:
    """The deadline passes while it is written, or judged: what is out stays, flagged, and everything has ended."""
    calls = closed = 0

    async def write(messages: list[BaseMessage]) -> AsyncIterator[AIMessageChunk]:
        nonlocal calls, closed
        del messages
        calls += 1
        try:
            if calls > 1 and hangs == "generator":
                await asyncio.Event().wait()
            yield AIMessageChunk(content="One. Two." if calls == 1 else "Three it is.")
        finally:
            closed += 1

    async def wants_three(answer: str) -> tuple[bool, str]:
        if "hree" in answer:
            await asyncio.Event().wait()
        return False, "Three is missing."

    refiner = _replacing(generator=RunnableLambda(write), deadline_s=1)
    if hangs == "judge":
        refiner = refiner.around(judge=as_judge(wants_three))
    chunks = [chunk async for chunk in refiner.astream("Count.")]
    assert [str(chunk.text) for chunk in chunks if chunk.text] == ["One.", " Two."]
    summary = chunks[-1].response_metadata["refine"]
    assert (summary["passed"], summary["stop_reason"]) == (False, "late_refusal")
    assert "no other was accepted: deadline" in summary["detail"]
    assert "replaces" not in summary
    assert (calls, closed, len(asyncio.all_tasks())) == (2, 2, 1)


def _fails(answer: str) -> bool:
    if "FAIL" in answer:
        raise ValueError
    return "BAD" not in answer


@pytest.mark.parametrize("answer", ["All of it FAIL.", "One. Two FAIL. Three."])
@pytest.mark.parametrize("has_closing_judge", [True, False])
def test_an_answer_of_which_a_piece_was_not_judged_has_not_passed(
    answer: str, caplog: pytest.LogCaptureFixture, *, has_closing_judge: bool
) -> None:
    """It goes out where the policy accepts that, whatever other judges say, and the log warns of it."""
    piece_judge = as_judge(_fails)
    judge = as_judge(_accepts) if has_closing_judge else piece_judge
    refiner, _ = _refiner(answer, piece_judge=piece_judge)
    outcome = refiner.around(judge=judge).refine("Count.")
    assert (outcome.text, outcome.passed, outcome.stop_reason) == (answer, False, "judge_failed")
    assert "answer released although a judgement gave no verdict" in caplog.text


def test_an_answer_has_not_passed_by_a_continuation_of_an_unjudged_piece() -> None:
    """What went out of an earlier attempt is part of the answer, however good the rest of it is."""
    refiner, _ = _refiner("One FAIL. Two is BAD.", "Two is better.", piece_judge=as_judge(_fails))
    outcome = refiner.refine("Count.")
    assert (outcome.text, outcome.passed) == ("One FAIL. Two is better.", False)
    assert (outcome.stop_reason, len(outcome.attempts)) == ("judge_failed", 2)


_CALL = [{"name": "look", "args": {}, "id": "1", "type": "tool_call"}]
_WITHOUT_TEXT = {
    "refusal": AIMessage("", additional_kwargs={"refusal": "No."}),
    "tool_call": AIMessage("", tool_calls=_CALL),
    "filtered": AIMessage("", response_metadata={"finish_reason": "content_filter"}),
}


@pytest.mark.parametrize("kind", _WITHOUT_TEXT)
def test_what_is_out_stays_the_answer_where_its_continuation_is_no_text(kind: str) -> None:
    """A stream, an answer and a conversation have the same text, under one id, and what came in its place."""
    from langgraph.checkpoint.memory import InMemorySaver  # noqa: PLC0415 - as below

    refiner, _ = _refiner(*[_FIRST, _WITHOUT_TEXT[kind]] * 2, checkpointer=InMemorySaver())
    chunks = list(refiner.stream("Count.", {"configurable": {"thread_id": "1"}}))
    assert [chunk.content for chunk in chunks] == ["One is good.", ""]
    (saved,) = refiner.graph.get_state({"configurable": {"thread_id": "1"}}).values["messages"][1:]
    assert {chunk.id for chunk in chunks} == {saved.id}
    outcome = refiner.refine("Count.", {"configurable": {"thread_id": "2"}})
    assert (outcome.stop_reason, outcome.attempts[-1].kind) == ("skipped", kind)
    for answer in (saved, cast("AIMessage", outcome.answer)):
        assert (answer.text, len(answer.tool_calls)) == ("One is good.", kind == "tool_call")
        assert answer.additional_kwargs.get("refusal") == ("No." if kind == "refusal" else None)


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_continuation_that_adds_nothing_leaves_what_is_out_to_the_judge_of_the_whole(
    *, is_complete: bool
) -> None:
    """Nothing may be left to say: whether that is so is for it to tell, of the text and not of an empty one."""
    closing = as_judge(lambda answer: is_complete and answer == "One is good.")
    refiner, _ = _refiner(_FIRST, "")
    outcome = refiner.around(judge=closing).refine("Count.")
    assert (outcome.text, outcome.passed) == ("One is good.", is_complete)
    assert outcome.stop_reason == ("accepted" if is_complete else "late_refusal")


@pytest.mark.parametrize("rating", [4, 1])
@pytest.mark.parametrize("max_calls", range(1, 10))
@pytest.mark.parametrize("is_async", [False, True])
async def test_calls_are_never_more_than_their_budget(rating: int, max_calls: int, *, is_async: bool) -> None:
    """Those count that judge the whole after its pieces, and those that nobody waits for after a refused piece."""
    calls = 0

    def rate(_: object) -> dict[str, Any]:
        nonlocal calls
        calls += 1
        return {"rationale": "r", "feedback": "f", "rating": rating}

    judging = ScriptedModel(rate, delay_s=0.002)
    answers, settings = ["One. Two. Three. Four. Five."] * 3, {"max_calls": max_calls}
    refiner, model = _refiner(*answers, piece_judge=Helpfulness(judging), **settings)
    refiner = refiner.around(judge=Helpfulness(judging))
    outcome = await refiner.arefine("Count.") if is_async else refiner.refine("Count.")
    for thread in threading.enumerate():
        if thread.name == "refine-piece":
            thread.join()
    assert calls + len(model.prompts) <= outcome.usage.calls <= max_calls
    assert outcome.passed == (rating == 4 and max_calls >= 7)


def test_a_replacement_outlives_a_crash() -> None:
    """A checkpoint of the loop says that an answer is to be replaced: the step after it writes no pieces."""
    from langgraph.checkpoint.memory import InMemorySaver  # noqa: PLC0415 - of this test alone

    fallen = [KeyboardInterrupt(), "Three it is."]

    def write(messages: list[BaseMessage]) -> str:
        if len(messages) == 1:
            return "One. Two."
        said: Any = fallen.pop(0)
        if isinstance(said, BaseException):
            raise said
        return str(said)

    refiner = _replacing(generator=write, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    with pytest.raises(KeyboardInterrupt):
        refiner.invoke("Count.", config)
    chunks = list(refiner.stream(None, config))
    assert [str(chunk.text) for chunk in chunks] == ["Three it is."]
    assert chunks[-1].response_metadata["refine"]["replaces"]


def test_judges_of_parts_judge_pieces() -> None:
    """Members of a panel that hold for a part judge pieces, the others the whole; without any it is refused."""
    model = ScriptedModel(["My number is 4111 1111 1111 1111. Bye.", "I gave none. Bye."], cycle=True)
    refiner = SelfRefine(
        model, ["pattern:forbidden=[0-9]{4}", "length:at_most=500"], release="pieces", piece_chars=1
    )
    outcome = refiner.refine("Card?")
    assert outcome.text == "I gave none. Bye."
    assert {verdict.judge for verdict in (outcome.attempts[1].verdict,) if verdict} == {"length"}
    with pytest.raises(ConfigurationError, match="piece_judge"):
        SelfRefine(model, "length:at_most=500", release="pieces")


def test_tool_calls_are_handed_on() -> None:
    """A turn that calls a tool is not judged, and says why it came whole."""
    from judges.messages import ToolCall  # noqa: PLC0415 - of this test alone

    refiner, _ = _refiner(ToolCall(name="look", args={}))
    outcome = refiner.refine("Look.")
    assert outcome.answer is not None
    assert outcome.answer.tool_calls[0]["name"] == "look"
    assert outcome.held_back == "tool_call"


async def test_messages_of_a_graph_are_pieces() -> None:
    """Inside a graph `stream_mode="messages"` shows the pieces as they are released, and once."""
    from langgraph.graph import END, START, MessagesState, StateGraph  # noqa: PLC0415 - of this test alone

    refiner, _ = _refiner(_FIRST, "Two is better.")
    builder = StateGraph(MessagesState)
    builder.add_node("answer", refiner)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    graph: Any = builder.compile()
    parts = [part async for part, _ in graph.astream({"messages": [("user", "Count.")]}, stream_mode="messages")]
    shown = [str(part.text) for part in parts if part.type != "human"]
    assert [text for text in shown if text] == ["One is good.", " Two is better."]
    assert len({part.id for part in parts if part.type != "human"}) == 1


@pytest.mark.parametrize(("shares", "calls"), [({3: 0.9, 4: 0.1}, 1), ({2: 0.48, 3: 0.52}, 2)])
def test_quick_judges_pieces(shares: dict[int, float], calls: int) -> None:
    """One token that is sure decides alone; where it is unsure, the judge itself decides."""
    judging = ScriptedModel([Likely(shares, {"rationale": "Fine.", "rating": 4, "feedback": ""})], cycle=True)
    refiner, _ = _refiner("One is good.", piece_judge=Quick(Helpfulness(judging)))
    outcome = refiner.refine("Count.")
    verdict = outcome.attempts[0].pieces[0].verdict
    assert verdict is not None
    assert (outcome.passed, verdict.rationale) == (True, "Fine." if calls > 1 else "")
    assert ["tools" in asked for asked in judging.settings] == [False, True][:calls]


async def test_quick_refuses_a_piece_by_one_token() -> None:
    """A clear refusal ends the stream; the judge itself is then asked for feedback, which the model is shown."""
    prompts: list[str] = []
    closed: list[bool] = []
    closed_when_asked: list[bool] = []

    async def write(messages: list[BaseMessage]) -> AsyncIterator[AIMessageChunk]:
        prompts.append(str(messages[-1].text))
        if len(prompts) > 1:
            yield AIMessageChunk(content="Two is better.")
            return
        try:
            yield AIMessageChunk(content="One is good. Two is POOR. Three is it. Four")
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    def line(messages: list[BaseMessage]) -> Likely:
        if "tools" in judging.settings[-1]:
            closed_when_asked.append(bool(closed))
        if "POOR" not in str(messages[-1].text):
            return Likely({1: 0.02, 2: 0.03, 3: 0.15, 4: 0.8})
        reply = {"rationale": "", "rating": 1, "feedback": "Say it well."}
        return Likely({1: 0.9, 2: 0.08, 3: 0.01, 4: 0.01}, reply)

    judging = ScriptedModel(line)
    refiner = SelfRefine(
        RunnableLambda(write),
        as_judge(_accepts),
        piece_judge=Quick(Helpfulness(judging)),
        release="pieces",
        piece_chars=1,
    )
    async with asyncio.timeout(60):
        answer = await refiner.ainvoke("Count.")
    assert answer.text == "One is good. Two is better."
    assert closed_when_asked == [True]
    assert "Say it well." in prompts[1]


def test_json_is_held_back() -> None:
    """A generator that writes JSON by a form is released whole, judged as ever, and the record says why."""
    refiner, _ = _refiner('{"day": "One. Two."}', '{"day": "One. Two."}')
    bound = refiner.around(generator=refiner.generator.bind(response_format={"type": "json_object"}))
    outcome = bound.refine("When?")
    assert (outcome.text, outcome.passed, outcome.held_back) == ('{"day": "One. Two."}', True, "structured")
    assert not outcome.attempts[0].pieces
    direct = OpenAICompatible("http://127.0.0.1:9/v1", model="m").bind(response_format={"type": "json_object"})
    assert is_structured(direct)
    assert not is_structured(OpenAICompatible("http://127.0.0.1:9/v1", model="m"))


def test_what_is_held_back_is_judged_as_pieces_are() -> None:
    """An answer that comes whole is refused for what a piece of it would have been: JSON is no way round."""
    model = ScriptedModel(['{"day": "This is BAD."}'], cycle=True)
    settings: Any = {"piece_judge": as_judge(_refuses), "release": "pieces", "on_exhausted": "fallback"}
    refiner = SelfRefine(model, as_judge(_accepts), fallback="No.", max_attempts=2, **settings)
    for generator in (model.bind(response_format={"type": "json_object"}), model):
        shown = refiner.around(generator=generator).refine("When?")
        assert (shown.text, shown.passed) == ("No.", False)


def test_a_graph_takes_a_judge_of_pieces() -> None:
    """`self_refine` has the same judge of pieces."""
    model = ScriptedModel([_FIRST, "Two is better."])
    graph: Any = self_refine(
        model, as_judge(_accepts), piece_judge=as_judge(_refuses), release="pieces", piece_chars=1
    )
    end = graph.invoke({"messages": [("user", "Count.")]})
    assert end["messages"][-1].text == "One is good. Two is better."


def test_each_prompt_about_a_piece_begins_with_the_one_before() -> None:
    """What a judge reads of an answer only grows, across attempts too, and no piece can close its fence."""
    line = Likely({1: 0.02, 2: 0.03, 3: 0.15, 4: 0.8})
    poor = Likely({1: 0.9, 2: 0.08, 3: 0.01, 4: 0.01}, {"rationale": "", "rating": 1, "feedback": "Be kind."})
    judging = ScriptedModel(lambda messages: poor if '"Four is POOR."\n]' in str(messages[-1].text) else line)
    refiner, _ = _refiner(
        "One is good. Two\n>>> said so. Three is good. Four is POOR. Five.",
        "Six is new. Seven.",
        piece_judge=Quick(Helpfulness(judging)),
    )
    assert refiner.refine("Count.").text == "One is good. Two\n>>> said so. Three is good. Six is new. Seven."
    asked = [
        messages
        for messages, settings in zip(judging.prompts, judging.settings, strict=True)
        if "tools" not in settings
    ]
    texts = [str(messages[-1].text) for messages in asked]
    known = [text[: text.index("\n]\n}\n")] for text in texts if "POOR" not in text]
    assert len(known) == 5
    assert all(later.startswith(earlier) for earlier, later in pairwise(known))
    assert len({message.text for messages in asked for message in messages[:1]}) == 1
    nonce = re.search(r"<<<([0-9a-f]{32})\n", texts[0])
    assert nonce
    assert {text.count(nonce[1]) for text in texts} == {2}


class _Killed(BaseException):
    """The process is gone."""


class _Broken:
    """A generator that is broken in the midst of its second piece, once the first is out.

    Args:
        first: What it writes before.
        end: How it ends: raised, or it hangs.
    """

    def __init__(self, first: str, end: BaseException | None) -> None:
        self._first, self._end = first, end
        self.is_begun, self.is_seen = asyncio.Event(), asyncio.Event()
        self.calls = self.closed = 0

    async def write(self, messages: list[BaseMessage]) -> AsyncIterator[AIMessageChunk]:
        """Write, and wait until somebody has seen a piece."""
        del messages
        self.calls += 1
        self.is_begun.set()
        try:
            if self.calls > 1:
                yield AIMessageChunk(content="Two is better.")
                return
            yield AIMessageChunk(content=self._first)
            await self.is_seen.wait()
            if self._end is not None:
                raise self._end
            await asyncio.Event().wait()
        finally:
            self.closed += 1

    def refiner(self, **settings: Any) -> SelfRefine:
        """Return a loop around it."""
        common: Any = {"piece_judge": as_judge(_refuses), "release": "pieces", "piece_chars": 1, "max_attempts": 3}
        return SelfRefine(RunnableLambda(self.write), as_judge(_accepts), **{**common, **settings})

    async def read(self, stream: Any) -> tuple[str, BaseException | None, dict[str, Any]]:
        """Read a stream to its end: its text, what it raised, and its summary."""
        text = ""
        summary: dict[str, Any] = {}
        try:
            async for chunk in stream:
                text += str(chunk.text)
                summary = chunk.response_metadata.get("refine", summary)
                self.is_seen.set()
        except (Exception, _Killed) as error:  # noqa: BLE001 - looked at
            return text, error, summary
        return text, None, summary


@pytest.mark.parametrize("on_exhausted", ["best", "raise"])
async def test_an_upstream_that_dies_leaves_what_went_out(on_exhausted: Any) -> None:
    """The half piece that it wrote is not released, and its error says nothing of the text."""
    broken = _Broken("One is good. Half a", ConnectionError("SECRET"))
    text, error, summary = await broken.read(broken.refiner(on_exhausted=on_exhausted).astream("Count."))
    assert text == "One is good."
    assert (isinstance(error, Unanswered), "SECRET" in str(error)) == (on_exhausted == "raise", False)
    said = str(error) if error else f"{summary['stop_reason']}: {summary['detail']}"
    assert "generator_failed" in said
    assert "attempt 1" in said
    assert (broken.calls, broken.closed) == (1, 1)


async def test_a_deadline_ends_an_attempt_in_its_midst() -> None:
    """What went out until then stays; nothing is left running."""
    broken = _Broken("One is good. Two is BAD. Half a", None)
    text, error, summary = await broken.read(broken.refiner(deadline_s=0.3, max_attempts=1).astream("Count."))
    assert text in ("", "One is good.")
    assert error is None or isinstance(error, Unanswered)
    assert not summary.get("passed")
    assert (broken.calls, broken.closed, len(asyncio.all_tasks())) == (1, 1, 1)


@pytest.mark.parametrize("is_written", [True, False])
async def test_a_deadline_names_what_was_waited_for(*, is_written: bool) -> None:
    """Where all is written it is the judge of the pieces that took too long, and not the model."""

    async def write(_: list[BaseMessage]) -> AsyncIterator[AIMessageChunk]:
        yield AIMessageChunk(content="One. Two.")
        if not is_written:
            await asyncio.Event().wait()

    async def hang(answer: str) -> bool:
        return bool(answer) and await asyncio.Event().wait()

    settings: Any = {"release": "pieces", "piece_chars": 1, "deadline_s": 0.2}
    outcome = await SelfRefine(RunnableLambda(write), hang, piece_judge=hang, **settings).arefine("Count.")
    late = "judge" if is_written else "generator"
    assert (outcome.stop_reason, outcome.detail) == ("deadline", f"the {late} took too long")


async def test_a_killed_attempt_is_made_again() -> None:
    """Of an attempt in whose midst the process died nothing is stored: resumed, it is written and judged anew."""
    from langgraph.checkpoint.memory import InMemorySaver  # noqa: PLC0415 - of this test alone

    broken = _Broken("One is good. Half a", _Killed())
    saver = InMemorySaver()
    thread: Any = {"configurable": {"thread_id": "1"}}
    text, error, _ = await broken.read(broken.refiner(checkpointer=saver).astream("Count.", thread))
    assert (text, type(error)) == ("One is good.", _Killed)
    again, resumed = broken.refiner(checkpointer=saver), cast("Any", None)
    assert (await broken.read(again.astream(resumed, thread)))[0] == "Two is better."
    assert [type(message).__name__ for message in again.graph.get_state(thread).values["messages"]] == [
        "HumanMessage",
        "AIMessage",
    ]
    assert broken.calls == broken.closed == 2


async def test_a_reader_that_is_cancelled_ends_the_writer() -> None:
    """A task that reads a stream, or waits for the answer, is cancelled: the upstream's call is closed at once."""
    for is_streamed in (True, False):
        broken = _Broken("One is good. Two is it. Half a", None)
        outcomes: list[Outcome] = []
        refiner = broken.refiner(on_outcome=outcomes.append)
        reading: Any = broken.read(refiner.astream("Count.")) if is_streamed else refiner.ainvoke("Count.")
        task = asyncio.ensure_future(reading)
        async with asyncio.timeout(60):
            await (broken.is_seen if is_streamed else broken.is_begun).wait()
        task.cancel()
        assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError)
        assert (broken.calls, broken.closed, len(asyncio.all_tasks())) == (1, 1, 1)
        assert not is_streamed or [outcome.stop_reason for outcome in outcomes] == ["broken_off"]
