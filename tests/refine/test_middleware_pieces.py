"""An agent whose answers go out in pieces: what its readers see, and what they never do."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Literal

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    LLMToolSelectorMiddleware,
    ModelRetryMiddleware,
    wrap_model_call,
)
from langchain.agents.structured_output import ProviderStrategy
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from graphs import Outcome, Unanswered
from judges import ConfigurationError, Verdict, as_judge
from judges.judge import Judge
from judges.requests import Apply, Deliberation
from judges.sample import Sample
from judges.testing import ScriptedModel
from refine.middleware import SelfRefineMiddleware
from tests.refine.agent_models import Report

ASKED: Any = {"messages": [("user", "Count.")]}


@tool
def look(subject: str = "it") -> str:
    """Look a subject up."""
    return f"about {subject}"


def calling(text: str, number: int = 1) -> AIMessage:
    """Make a reply that calls the tool, with text beside it."""
    call = {"name": "look", "args": {"subject": "it"}, "id": f"call_{number}", "type": "tool_call"}
    return AIMessage(text, tool_calls=[call])


@as_judge
def accepts(answer: str) -> bool:
    """Accept whatever says something."""
    return bool(answer)


@as_judge
def refuses(answer: str) -> tuple[bool, str]:
    """Refuse what is bad."""
    return "BAD" not in answer, "SECRET-FEEDBACK"


def refining(**settings: Any) -> SelfRefineMiddleware:
    """Make the middleware."""
    common = {"piece_judge": refuses, "release": "pieces", "piece_chars": 1}
    return SelfRefineMiddleware(accepts, **{**common, **settings})


def agent_of(script: Any, *inside: Any, middleware: Any = None, **settings: Any) -> Any:
    """Make an agent with the middleware around others."""
    model = ScriptedModel(script) if isinstance(script, list) else script
    return create_agent(model, [look], middleware=[middleware or refining(), *inside], **settings)


def is_polite(question: str) -> bool:
    """Judge a question."""
    return bool(question)


class Reader:
    """Reads the streams of an agent, and puts chunks together as clients do: by their ids."""

    def __init__(self) -> None:
        self.chunks: list[Any] = []
        self.events: list[Any] = []
        self.state: list[Any] = []

    def take(self, mode: str, part: Any) -> None:
        """Take what a mode yields."""
        if mode == "messages" and part[0].type != "tool":
            self.chunks.append(part[0])
        elif mode == "custom":
            self.events.append(part)
        elif mode == "values" and "messages" in part:
            self.state = part["messages"]

    @property
    def messages(self) -> dict[str, Any]:
        """The messages that the chunks add up to, by id."""
        added: dict[str, Any] = {}
        for chunk in self.chunks:
            added[chunk.id] = added[chunk.id] + chunk if chunk.id in added else chunk
        return added

    def check(self) -> None:
        """Check that what was read is what the agent's state has, and nothing of what was refused."""
        kept = {message.id: message for message in self.state if message.type == "ai"}
        assert list(self.messages) == list(kept)
        for known, message in self.messages.items():
            assert str(message.text) == str(kept[known].text)
            assert [call["name"] for call in message.tool_calls] == [
                call["name"] for call in kept[known].tool_calls
            ]
            assert message.response_metadata["refine"] == kept[known].response_metadata["refine"]
            assert message.usage_metadata == kept[known].usage_metadata
        assert "BAD" not in (seen := repr((self.chunks, self.events, self.state)))
        assert "SECRET" not in seen


MODES = ["messages", "custom", "values"]


async def read(agent: Any, how: str, asked: Any = ASKED, config: Any = None) -> Reader:
    """Read all streams of an agent, sync or async."""
    reader = Reader()
    if how == "sync":
        for mode, part in await asyncio.to_thread(lambda: list(agent.stream(asked, config, stream_mode=MODES))):
            reader.take(mode, part)
    else:
        async for mode, part in agent.astream(asked, config, stream_mode=MODES):
            reader.take(mode, part)
    return reader


FIRST = "One is good. Two is BAD. Three is never seen."


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_an_answer_comes_piece_by_piece_and_goes_on_after_a_refused_one(how: str) -> None:
    """Its chunks share the id of the message in the state; the last has usage and summary."""
    refiner = refining()
    reader = await read(agent_of([FIRST, "Two is better. And three."], middleware=refiner), how)
    assert [chunk.content for chunk in reader.chunks] == ["One is good.", " Two is better.", " And three.", ""]
    assert reader.chunks[-1].chunk_position == "last"
    reader.check()
    outcome = refiner.outcome({"messages": reader.state})
    assert (outcome.passed, outcome.text) == (True, "One is good. Two is better. And three.")
    assert [piece.released for piece in outcome.attempts[0].pieces][:2] == [True, False]
    written = [event["released"] for event in reader.events if event["event"] == "attempt"]
    assert written == [1, 2]


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_call_of_a_tool_ends_the_message_whose_text_is_out(how: str) -> None:
    """The call itself is held back until the text beside it is judged; the answer after it is another message."""
    script = [FIRST, calling("Let me look. One moment."), "It is so. It is BAD.", "It is fine."]
    reader = await read(agent_of(script), how)
    first, second = reader.messages.values()
    assert (str(first.text), len(first.tool_calls)) == ("One is good. Let me look. One moment.", 1)
    assert str(second.text) == "It is so. It is fine."
    assert first.response_metadata["refine"]["stop_reason"] == "skipped"
    reader.check()


async def test_a_call_beside_refused_text_is_not_made() -> None:
    """The attempt is refused, and so is its call; no tool runs."""
    refiner = refining()
    reader = await read(agent_of([calling("This is BAD."), "It is fine."], middleware=refiner), "async")
    assert [message.type for message in reader.state] == ["human", "ai"]
    reader.check()
    assert [attempt.kind for attempt in refiner.outcome({"messages": reader.state}).attempts] == ["text", "text"]


@pytest.mark.parametrize(
    ("on_exhausted", "text"),
    [("best", "One is good."), ("fallback", "One is good.\n\nAsk a person."), ("raise", "One is good.")],
)
async def test_what_is_out_stays_where_no_attempt_is_left(on_exhausted: Any, text: str) -> None:
    """It ends as the policy says, and the reader has all of the message in the state."""
    fallback = "Ask a person." if on_exhausted == "fallback" else None
    settings = {"max_attempts": 2, "on_exhausted": on_exhausted, "fallback": fallback}
    reader = Reader()
    try:
        async for mode, part in agent_of([FIRST, "Two is BAD again."], middleware=refining(**settings)).astream(
            ASKED, stream_mode=MODES
        ):
            reader.take(mode, part)
    except Unanswered as error:
        assert (on_exhausted, "BAD" in str(error)) == ("raise", False)  # noqa: PT017 - the stream is read, too
    else:
        reader.check()
    assert "".join(chunk.content for chunk in reader.chunks) == text


async def test_structured_answers_are_held_back() -> None:
    """They come whole, judged by both judges, and the record says why."""
    refiner = refining()
    script = ['{"text": "It is BAD."}', '{"text": "It is fine."}']
    reader = await read(agent_of(script, middleware=refiner, response_format=ProviderStrategy(Report)), "async")
    assert [chunk.content for chunk in reader.chunks] == ['{"text": "It is fine."}']
    assert refiner.outcome({"messages": reader.state}).held_back == "structured"


class Failing(ScriptedModel):
    """Breaks in the midst of its first answers, after so many chunks."""

    def __init__(self, script: Sequence[object], *, after: Sequence[int | None]) -> None:
        super().__init__(script)
        self._after = list(after)

    def _stream(self, *arguments: Any, **settings: Any) -> Iterator[ChatGenerationChunk]:
        after = self._after.pop(0) if self._after else None
        for number, chunk in enumerate(super()._stream(*arguments, **settings)):
            if number == after:
                raise ConnectionError("gone")
            yield chunk

    async def _astream(self, *arguments: Any, **settings: Any) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._stream(*arguments, **settings):
            await asyncio.sleep(0)
            yield chunk


RETRIES = ModelRetryMiddleware(max_retries=2, initial_delay=0, jitter=False, on_failure="error")


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_model_that_fails_before_anything_is_out_is_asked_again(how: str) -> None:
    """A retry inside begins the answer anew, and nothing of the first one is seen."""
    refiner = refining()
    model = Failing(["Nothing of it", "All is good. Yes."], after=[2])
    reader = await read(agent_of(model, RETRIES, middleware=refiner), how)
    assert "".join(chunk.content for chunk in reader.chunks) == "All is good. Yes."
    reader.check()
    assert len(refiner.outcome({"messages": reader.state}).attempts) == 1


async def test_an_answer_that_is_out_is_not_begun_anew() -> None:
    """Where a retry inside gives another answer, what was released stays, flagged, as where a stream breaks."""
    refiner = refining()
    model = Failing(["One is good. Two is it. Three is", "Quite another answer."], after=[7])
    reader = await read(agent_of(model, RETRIES, middleware=refiner), "async")
    outcome = refiner.outcome({"messages": reader.state})
    assert outcome.text == "".join(chunk.content for chunk in reader.chunks)
    assert outcome.text.startswith("One is good.")
    assert "another" not in outcome.text
    assert (outcome.passed, outcome.stop_reason) == (False, "generator_failed")
    assert "AnswerChanged" in outcome.detail


async def test_what_a_middleware_inside_makes_of_an_answer_holds() -> None:
    """An answer that it returns in place of the model's goes out, unless something else is out already."""

    @wrap_model_call
    async def shouting(request: Any, handler: Any) -> Any:
        response = await handler(request)
        response.result[-1].content = response.result[-1].content.upper()
        return response

    reader = await read(agent_of(["one is good"], shouting), "async")
    assert [chunk.content for chunk in reader.chunks if chunk.content] == ["ONE IS GOOD"]
    reader.check()
    refiner = refining()
    later = await read(agent_of(["One is good. Two is it."], shouting, middleware=refiner), "async")
    assert "".join(chunk.content for chunk in later.chunks) in ("One is good.", "ONE IS GOOD. TWO IS IT.")
    later.check()


async def test_a_choice_of_tools_is_no_answer() -> None:
    """A middleware inside that asks the agent's own model for a form is not heard."""

    @tool
    def other(subject: str) -> str:
        """Look elsewhere."""
        return subject

    script: list[object] = [{"tools": ["look"]}, "One is good. Two is it."]
    agent: Any = create_agent(
        ScriptedModel(script), [look, other], middleware=[refining(), LLMToolSelectorMiddleware(max_tools=1)]
    )
    reader = await read(agent, "async")
    assert [chunk.content for chunk in reader.chunks] == ["One is good.", " Two is it.", ""]


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_an_agent_that_waits_for_a_human_goes_on_in_pieces(how: str) -> None:
    """Text beside a call goes out before the human is asked; the answer follows once the turn is resumed."""
    approving = HumanInTheLoopMiddleware(interrupt_on={"look": True})
    agent = agent_of(
        [calling("Let me look. One moment."), "It is so. It is BAD.", "It is fine."],
        approving,
        checkpointer=InMemorySaver(),
    )
    config = {"configurable": {"thread_id": "1"}}
    waiting = await read(agent, how, config=config)
    waiting.check()
    assert [str(message.text) for message in waiting.messages.values()] == ["Let me look. One moment."]
    approved: Any = Command(resume={"decisions": [{"type": "approve"}]})
    resumed = await read(agent, how, approved, config)
    assert [str(message.text) for message in resumed.messages.values()] == ["It is so. It is fine."]
    assert resumed.state[-1].text == "It is so. It is fine."
    assert {chunk.id for chunk in resumed.chunks}.isdisjoint(waiting.messages)


@as_judge
def asks_about_two(answer: str) -> bool:
    """Ask a human about a piece."""
    return "Two" not in answer or bool(interrupt("May it go out?"))


@wrap_model_call
def asks_about_drafts(request: Any, handler: Any) -> Any:
    """Ask a human when the draft is written."""
    response = handler(request)
    interrupt("May it go out?")
    return response


@pytest.mark.parametrize("inside", [False, True])
def test_nobody_is_asked_when_text_is_out(inside: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """On resuming the answer would be written anew, below the text that is out, as the same message."""
    middleware = refining() if inside else refining(piece_judge=asks_about_two)
    others = [asks_about_drafts] if inside else []
    agent = agent_of(["One is good. Two is it."], *others, middleware=middleware, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    with pytest.raises(
        ConfigurationError, match="ask before the model is called" if inside else "give another piece_judge"
    ):
        list(agent.stream(ASKED, config, stream_mode="messages"))
    assert agent.get_state(config).interrupts == ()


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_subagent_streams_its_pieces_as_its_own(how: str) -> None:
    """Readers of subgraphs get them under the subagent's place; others get the outer agent's alone."""
    inner = agent_of(["In one. In BAD.", "In two."])

    @tool
    async def ask_inner(subject: str = "it") -> str:
        """Ask the other agent."""
        return str((await inner.ainvoke(ASKED))["messages"][-1].text)

    @tool
    def ask_inner_now(subject: str = "it") -> str:
        """Ask the other agent."""
        return str(inner.invoke(ASKED)["messages"][-1].text)

    asking = ask_inner_now if how == "sync" else ask_inner
    call = {"name": asking.name, "args": {}, "id": "1", "type": "tool_call"}
    outer: Any = create_agent(
        ScriptedModel([AIMessage("", tool_calls=[call]), "Out one. Out BAD.", "Out two."]),
        [asking],
        middleware=[refining()],
    )
    if how == "sync":
        parts = await asyncio.to_thread(lambda: list(outer.stream(ASKED, stream_mode="messages", subgraphs=True)))
    else:
        parts = [part async for part in outer.astream(ASKED, stream_mode="messages", subgraphs=True)]
    assert "BAD" not in repr(parts)
    shown = [
        (bool(place), message.text) for place, (message, _) in parts if message.type != "tool" and message.text
    ]
    assert [text for is_inner, text in shown if is_inner] == ["In one.", " In two."]
    assert [text for is_inner, text in shown if not is_inner] == ["Out one.", " Out two."]


def test_what_cannot_stand_beside_pieces_is_refused_in_a_line() -> None:
    """A judge of questions, and judges of which none holds for a part."""
    with pytest.raises(ConfigurationError, match="judge of the question"):
        refining(input_judge=is_polite)
    with pytest.raises(ConfigurationError, match="piece_judge"):
        SelfRefineMiddleware("length:at_most=500", release="pieces")
    with pytest.raises(ConfigurationError, match="piece_judge is for"):
        SelfRefineMiddleware("length:at_most=500", piece_judge=refuses)


class SlowJudge(Judge):
    """Refuses what is bad, fails on what is odd, and takes its time.

    Args:
        pick: Decides how long.
    """

    name = "slow"

    def __init__(self, pick: random.Random) -> None:
        self._pick = pick

    def deliberate(self, sample: Sample) -> Deliberation:
        """Wait, and look for the words."""

        async def wait(given: Sample) -> None:
            for _ in range(self._pick.randint(0, 12)):
                await asyncio.sleep(0)

        yield Apply(id, sample, wait)
        answer = sample.answer or ""
        if "ODD" in answer and "BAD" not in answer:
            raise RuntimeError("the judge is down")
        return Verdict.checked("BAD" not in answer, feedback="SECRET-FEEDBACK")


def _script_of(pick: random.Random) -> Callable[[list[BaseMessage]], object]:
    """Return what a model says: sentences, good, bad and odd ones, and now and then a call of the tool."""
    bad = pick.choice((0, 2, 6))
    numbers = iter(range(1, 99))

    def line(messages: list[BaseMessage]) -> object:
        del messages
        number = next(numbers)
        kinds = pick.choices(
            ("is good.", "is BAD.", "is ODD."), (16, bad, pick.choice((0, 1))), k=pick.randint(1, 6)
        )
        text = " ".join(f"Sentence {number}{chr(97 + place)} {kind}" for place, kind in enumerate(kinds))
        return calling(pick.choice(("", text)), number) if pick.random() < 0.3 else text

    return line


async def _run(seed: int) -> None:
    pick, outcomes = random.Random(seed), list[Outcome]()
    on_exhausted: Literal["best", "fallback", "raise"] = pick.choice(("best", "fallback", "raise"))
    judge = SlowJudge(pick)
    refiner = SelfRefineMiddleware(
        judge,
        piece_judge=judge,
        release="pieces",
        piece_chars=pick.choice((1, 60)),
        pieces_in_flight=pick.randint(1, 4),
        max_attempts=pick.randint(1, 4),
        on_exhausted=on_exhausted,
        fallback="Ask a person." if on_exhausted == "fallback" else None,
        on_judge_error=pick.choice(("accept", "reject", "raise")),
        on_outcome=outcomes.append,
    )
    model = Failing(_script_of(pick), after=[pick.choice((None, None, 1, 5)) for _ in range(4)])  # type: ignore[arg-type]  # a function is a script, too
    agent = agent_of(model, RETRIES, middleware=refiner)
    reader, leaves_after = Reader(), pick.choice((None, None, None, 1, 4))
    stream = agent.astream(ASKED, {"recursion_limit": 60}, stream_mode=MODES)
    try:
        async for mode, part in stream:
            reader.take(mode, part)
            if leaves_after is not None and len(reader.chunks) > leaves_after:
                break
        else:
            reader.check()
    except Unanswered:
        pass
    await stream.aclose()
    assert "BAD" not in repr((reader.chunks, reader.events, reader.state))
    assert "SECRET" not in repr((reader.chunks, reader.events, reader.state))
    assert len(asyncio.all_tasks()) == 1
    for outcome in outcomes:
        released = [piece for attempt in outcome.attempts for piece in attempt.pieces if piece.released]
        assert not any("BAD" in piece.text for piece in released)


async def test_random_schedules_of_an_agent() -> None:
    """Calls of tools, refusals, failing judges and models, readers that leave: state and stream agree."""
    offenders = []
    for seed in range(60):
        try:
            await _run(seed)
        except Exception as error:  # noqa: BLE001 - listed
            offenders.append((seed, f"{type(error).__name__}: {error}".splitlines()[0]))
    assert offenders == []


def test_chunks_are_of_langchain() -> None:
    """Blocking readers get chunks of messages, which callbacks of tokens hear, too."""
    shown = [part for part, _ in agent_of([FIRST, "Two is better."]).stream(ASKED, stream_mode="messages")]
    assert {type(part) for part in shown} == {AIMessageChunk}
