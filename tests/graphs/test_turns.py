"""Turns and reviews that happen at once on one thread: none is lost, and whoever loses is refused."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from graphs import ConcurrentTurn, InputError, NotAccepted, Policy, self_refine, turns
from judges import ConfigurationError
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine

Saver = BaseCheckpointSaver[Any]

ROOT = Path(__file__).parents[2]
THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}
COUNT = 8


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Saver]:
    """Give each checkpointer, on a file of its own."""
    if request.param == "memory":
        yield InMemorySaver()
    else:
        with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as sqlite:
            yield sqlite


class Echo:
    """A generator that takes a moment, answers with the question, and notes how many of it run at once."""

    def __init__(self, seconds: float = 0.01) -> None:
        self._seconds = seconds
        self._running = 0
        self.most = 0

    def __call__(self, messages: list[BaseMessage]) -> str:
        """Answer."""
        self._running += 1
        self.most = max(self.most, self._running)
        time.sleep(self._seconds)
        self._running -= 1
        return f"answer to {messages[-1].text}"


def refiner(saver: Saver, **settings: Any) -> SelfRefine:
    """Make a refiner that accepts everything."""
    generator = settings.pop("generator", None) or Echo()
    return SelfRefine(generator, lambda response: 4, checkpointer=saver, **settings)


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Make calls in threads that start together, and return what they return or raise."""
    barrier = threading.Barrier(len(calls))

    def make(call: Callable[[], Any]) -> Any:
        barrier.wait()
        try:
            return call()
        except Exception as error:  # noqa: BLE001 - returned, to be looked at
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(make, calls))


def conversation(graph: Any, config: RunnableConfig = THREAD) -> list[str]:
    """Return the texts of a thread's messages."""
    return [message.text for message in graph.get_state(config).values["messages"]]


def assert_whole(texts: list[str], count: int) -> None:
    """Check that a conversation holds so many questions, each followed by its answer."""
    assert len(texts) == 2 * count
    assert [f"answer to {question}" for question in texts[::2]] == texts[1::2]
    assert len(set(texts)) == 2 * count


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_turns_at_once_are_queued(saver: Saver, durability: Any) -> None:
    """Of turns at once on one thread, by refiners of their own, every one is in the conversation."""
    echo = Echo()
    asked = [refiner(saver, generator=echo, durability=durability) for _ in range(COUNT)]
    answers = at_once(*(lambda n=n: asked[n].invoke(f"question {n}", THREAD) for n in range(COUNT)))
    assert [answer.text for answer in answers] == [f"answer to question {n}" for n in range(COUNT)]
    assert echo.most == 1
    assert_whole(conversation(asked[0].graph), COUNT)


async def test_turns_at_once_are_queued_async(tmp_path: Path) -> None:
    """The same in tasks of one event loop, with the graph and the refiner, streamed and not."""
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as saver:
        asked = refiner(saver)
        graph = self_refine(Echo(), lambda response: 4, checkpointer=saver)
        question: Any = {"messages": [("user", "question g")]}
        await asyncio.gather(
            *(asked.ainvoke(f"question {n}", THREAD) for n in range(4)),
            *(asked.abatch(["question 4", "question 5"], THREAD) for _ in range(1)),
            graph.ainvoke(question, THREAD),
        )
        state = await asked.graph.aget_state(THREAD)
    assert_whole([message.text for message in state.values["messages"]], 7)


async def test_threads_and_tasks_queue_together() -> None:
    """A thread waits for a task, and a task for a thread."""
    asked = refiner(InMemorySaver())
    await asyncio.gather(
        *(asked.ainvoke(f"question {n}", THREAD) for n in range(4)),
        *(asyncio.to_thread(asked.invoke, f"question {n}", THREAD) for n in range(4, 8)),
    )
    assert_whole(conversation(asked.graph), 8)


def test_other_threads_do_not_wait() -> None:
    """Threads of the checkpointer are apart, and so is the same name under another checkpointer."""
    barrier = threading.Barrier(3, timeout=10)

    def together(_: list[BaseMessage]) -> str:
        barrier.wait()
        return "yes"

    saver = InMemorySaver()
    configs: list[RunnableConfig] = [THREAD, {"configurable": {"thread_id": "2"}}]
    others = [(refiner(saver, generator=together), config) for config in configs]
    others.append((refiner(InMemorySaver(), generator=together), THREAD))
    replies = at_once(*(lambda a=asked, c=config: a.invoke("what?", c).text for asked, config in others))
    assert replies == ["yes"] * 3


def test_a_second_turn_can_be_refused(saver: Saver) -> None:
    """With `"refuse"` all but one are refused at once, and what was answered is what the thread holds."""
    asked = refiner(saver, generator=Echo(0.3), concurrent_turns="refuse")
    replies = at_once(*(lambda n=n: asked.invoke(f"question {n}", THREAD) for n in range(COUNT)))
    refused = [answer for answer in replies if isinstance(answer, Exception)]
    assert {type(error) for error in refused} == {ConcurrentTurn}
    assert len(refused) == COUNT - 1
    assert_whole(conversation(asked.graph), 1)
    assert asked.invoke("again", THREAD).text == "answer to again"


def test_a_turn_waits_no_longer_than_its_deadline() -> None:
    """A queued turn whose deadline passes is refused; the one it waited for goes on."""
    saver = InMemorySaver()
    slow, hurried = refiner(saver, generator=Echo(0.5)), refiner(saver, deadline_s=0.1)
    begun = threading.Thread(target=slow.invoke, args=("slow", THREAD))
    begun.start()
    time.sleep(0.1)
    with pytest.raises(ConcurrentTurn, match=r"another turn is running on this thread, and still after 0\.1 s"):
        hurried.invoke("hurried", THREAD)
    begun.join()
    assert conversation(slow.graph) == ["slow", "answer to slow"]


def test_a_turn_inside_a_turn_does_not_wait_for_itself() -> None:
    """A generator that asks on its own thread again is refused instead of waiting for ever."""
    saver = InMemorySaver()
    inner = refiner(saver)
    outer = refiner(saver, generator=lambda messages: inner.invoke("inner", {**THREAD}).text)
    result = outer.refine("outer", THREAD)
    assert result.stop_reason == "generator_failed"
    assert "ConcurrentTurn" in result.detail


async def test_a_blocking_turn_in_an_event_loop_is_refused() -> None:
    """Waiting would block the loop that runs the other turn, so a blocking call there is refused."""
    asked = refiner(InMemorySaver(), generator=Echo(0.2))
    first = asyncio.create_task(asked.ainvoke("first", THREAD))
    await asyncio.sleep(0.1)
    with pytest.raises(ConcurrentTurn):
        asked.invoke("second", THREAD)
    assert (await first).text == "answer to first"


async def test_a_turn_that_ends_otherwise_gives_its_place_back() -> None:
    """A cancelled, failed, abandoned or interrupted turn blocks no other, and nothing is left behind."""

    async def hangs(_: list[BaseMessage]) -> str:
        await asyncio.sleep(60)
        return ""

    saver = InMemorySaver()
    hanging, asked = refiner(saver, generator=hangs), refiner(saver)
    tasks = [asyncio.create_task(hanging.ainvoke("never", THREAD)) for _ in range(3)]
    await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    del task, tasks  # whose tracebacks hold all that they saw
    with pytest.raises(InputError):
        await asked.ainvoke("", {"configurable": {"thread_id": "empty"}})
    question: Any = {"messages": [("user", "abandoned")]}
    async for _ in asked.graph.astream(question, THREAD, stream_mode="values"):
        break
    assert (await asyncio.wait_for(asked.ainvoke("at once", THREAD), 5)).text == "answer to at once"
    next(asked.graph.stream(question, THREAD, stream_mode="values"))
    gc.collect()
    await asyncio.sleep(0)
    assert (await asyncio.wait_for(asked.ainvoke("next", THREAD), 5)).text == "answer to next"
    gc.collect()
    assert len(turns._queues) == 0


@pytest.mark.parametrize("mode", ["beside", "before"])
@pytest.mark.parametrize("ending", [{}, {"on_exhausted": "fallback", "fallback": "No."}])
@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_a_refused_question_is_not_answered_with_the_next_one(
    saver: Saver, mode: Any, ending: dict[str, Any], durability: Any
) -> None:
    """It leaves the conversation, past which the input judge lets no other way to it; what was answered stays."""
    model = ScriptedModel(lambda messages: f"To {messages[-1].text}.")
    settings = {**ending, "checkpointer": saver, "input_mode": mode, "durability": durability}
    refiner = SelfRefine(model, ScriptedJudge([4], cycle=True), input_judge=_without_bad, **settings)
    assert refiner.invoke("one", THREAD).text == "To one."
    for question in ("BAD", "BAD, again"):
        assert refiner.refine(question, THREAD).stop_reason == "question_refused"
    assert refiner.invoke("two", THREAD).text == "To two."
    messages = refiner.graph.get_state(THREAD).values["messages"]
    assert [message.text for message in messages] == ["one", "To one.", "two", "To two."]
    assert [message.text for message in model.prompts[-1]] == ["one", "To one.", "two"]


def _without_bad(user_input: Any) -> bool:
    """Refuse a conversation, all of which it reads, for one message of it."""
    return "BAD" not in str(user_input)


def test_an_unknown_setting_is_refused() -> None:
    """A misspelt setting is reported when the refiner is made."""
    with pytest.raises(ConfigurationError, match="concurrent_turns is 'queue' or 'refuse', not 'wait'"):
        refiner(InMemorySaver(), concurrent_turns="wait")


def undecided(saver: Saver, **settings: Any) -> SelfRefine:
    """Make a refiner that asks a reviewer after one attempt."""
    policy = Policy(max_attempts=1, on_exhausted="interrupt")
    judge = ScriptedJudge([2], cycle=True)
    return SelfRefine(lambda _: "draft", judge, policy=policy, checkpointer=saver, **settings)


def waiting(saver: Saver, **settings: Any) -> SelfRefine:
    """Make a refiner whose first turn waits for a reviewer."""
    asked = undecided(saver, **settings)
    assert asked.refine("what?", THREAD).stop_reason == "interrupted"
    return asked


@pytest.mark.parametrize("setting", ["queue", "refuse"])
@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_of_two_reviewers_one_wins(saver: Saver, setting: Any, durability: Any) -> None:
    """One decision is carried out, and every other reviewer is told that there is nothing left to decide."""
    asked = waiting(saver, concurrent_turns=setting, durability=durability)
    decisions = ["accept", "reject", *({"answer": f"by hand {n}"} for n in range(4))]
    replies = at_once(*(lambda d=d: asked.invoke(Command(resume=d), THREAD).text for d in decisions))
    (won,) = [n for n, result in enumerate(replies) if not isinstance(result, (InputError, ConcurrentTurn))]
    expected = ["draft", None, *(f"by hand {n}" for n in range(4))][won]
    if expected is None:
        assert isinstance(replies[won], NotAccepted)
    else:
        assert replies[won] == expected
        assert conversation(asked.graph) == ["what?", expected]


async def test_a_decision_made_twice_is_reported(tmp_path: Path) -> None:
    """A decision after the answer went out, or where none was asked for, is an `InputError`, sync and async."""
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as saver:
        policy = Policy(max_attempts=1, on_exhausted="interrupt")
        graph = self_refine(lambda _: "draft", lambda response: 2, policy=policy, checkpointer=saver)
        question: Any = {"messages": [("user", "what?")]}
        with pytest.raises(InputError, match="no decision is awaited"):
            await graph.ainvoke(Command(resume="accept"), THREAD)
        (asked,) = (await graph.ainvoke(question, THREAD))["__interrupt__"]
        assert (await graph.ainvoke(Command(resume={asked.id: "accept"}), THREAD))["messages"][-1].text == "draft"
        for decision in ("accept", "reject", {"answer": "by hand"}, {asked.id: "accept"}):
            with pytest.raises(InputError, match="no decision is awaited"):
                await graph.ainvoke(Command(resume=decision), THREAD)
        with pytest.raises(InputError, match="no decision is awaited"):
            async for _ in graph.astream(Command(resume="accept"), THREAD):
                pass
    refused = waiting(InMemorySaver())
    with pytest.raises(NotAccepted):
        refused.invoke(Command(resume="reject"), THREAD)
    for decision in ("accept", "reject"):
        with pytest.raises(InputError, match="no decision is awaited"):
            refused.invoke(Command(resume=decision), THREAD)
    nothing: Any = None
    with pytest.raises(NotAccepted):
        refused.invoke(nothing, THREAD)
    sync = waiting(InMemorySaver())
    sync.invoke(Command(resume="accept"), THREAD)
    with pytest.raises(InputError, match="no decision is awaited"):
        sync.refine(Command(resume="accept"), THREAD)


def test_of_two_reviewers_with_checkpointers_of_their_own_one_wins(tmp_path: Path) -> None:
    """The same where reviewers share the stored thread only, as two processes do."""
    for number in range(10):
        path = str(tmp_path / f"{number}.sqlite")
        with SqliteSaver.from_conn_string(path) as first, SqliteSaver.from_conn_string(path) as second:
            one, other = waiting(first), undecided(second)
            text = at_once(
                partial(one.invoke, Command(resume="accept"), THREAD),
                partial(other.invoke, Command(resume={"answer": "by hand"}), THREAD),
            )
            (won,) = [answer.text for answer in text if isinstance(answer, AIMessage)]
            (lost,) = [error for error in text if isinstance(error, Exception)]
            assert isinstance(lost, InputError | ConcurrentTurn)
            assert conversation(one.graph) == ["what?", won]


def in_a_process(path: Path, number: int, seconds: float) -> subprocess.Popen[str]:
    """Ask in a process of its own, which begins at the time it reads, and prints whether it got an answer."""
    script = f"""
import sys, time
sys.path.insert(0, {str(ROOT)!r})
from langgraph.checkpoint.sqlite import SqliteSaver
from graphs import ConcurrentTurn
from tests.graphs.test_turns import Echo, THREAD, refiner
with SqliteSaver.from_conn_string({str(path)!r}) as saver:
    asked = refiner(saver, generator=Echo({seconds}))
    saver.setup()
    print("ready", flush=True)
    time.sleep(max(0.0, float(sys.stdin.readline()) - time.time()))
    try:
        print(asked.invoke("question {number}", THREAD).text)
    except ConcurrentTurn:
        print("told")
"""
    return subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )


def test_between_processes_the_one_that_lost_is_refused(tmp_path: Path) -> None:
    """Of turns in several processes one is answered, is in the conversation, and the others are refused."""
    path = tmp_path / "checkpoints.sqlite"
    processes = [in_a_process(path, number, 0.2 + 0.1 * number) for number in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    start = time.time() + 0.2
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(f"{start}\n")
        process.stdin.flush()
    outputs = [process.communicate()[0].strip() for process in processes]
    answered = [text for text in outputs if text != "told"]
    assert len(answered) == 1, outputs
    with SqliteSaver.from_conn_string(str(path)) as saver:
        assert conversation(refiner(saver).graph)[-1] == answered[0]


def test_two_checkpointers_of_one_file_are_as_two_processes(tmp_path: Path) -> None:
    """A slow turn notices that a quick one, through a checkpointer of its own, has continued its thread."""
    path = str(tmp_path / "checkpoints.sqlite")
    with SqliteSaver.from_conn_string(path) as first, SqliteSaver.from_conn_string(path) as second:
        quick = refiner(second)

        def overtaken(_: list[BaseMessage]) -> str:
            quick.invoke("quick", {**THREAD})
            return "slow"

        with pytest.raises(ConcurrentTurn, match="another process has continued this thread"):
            refiner(first, generator=overtaken).invoke("slow", THREAD)
        assert conversation(quick.graph)[-2:] == ["quick", "answer to quick"]
