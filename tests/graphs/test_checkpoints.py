"""The loop under a checkpointer: turns kept apart, crashes resumed, humans asked, plain data stored."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from langchain_core.load import dumps
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Interrupt

from graphs import GeneratorFailed, InputError, Policy, self_refine
from judges import ConfigurationError, Sample
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine

Graph = CompiledStateGraph[Any, Any, Any, Any]
Saver = BaseCheckpointSaver[Any]

MARK = "Xq7Zdraft"
ROOT = Path(__file__).parents[2]
ASKED: dict[str, Any] = {"messages": [("user", "first question")]}
AGAIN: dict[str, Any] = {"messages": [("user", "second question")]}
THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}


class Killed(BaseException):
    """Stands for the end of the process."""


class Script:
    """A generator that says its lines in order, remembers its prompts, and dies where a line says so."""

    def __init__(self, lines: Iterable[str | type[BaseException] | BaseException]) -> None:
        self._lines = iter(lines)
        self.prompts: list[list[BaseMessage]] = []

    def __call__(self, messages: list[BaseMessage]) -> str:
        """Say the next line."""
        self.prompts.append(messages)
        line = next(self._lines)
        if isinstance(line, str):
            return line
        raise line


@pytest.fixture(params=["memory", "sqlite", "async sqlite"])
async def saver(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Saver]:
    """Give each checkpointer, on a file of its own."""
    path = str(tmp_path / "checkpoints.sqlite")
    if request.param == "memory":
        yield InMemorySaver()
    elif request.param == "sqlite":
        with SqliteSaver.from_conn_string(path) as made:
            yield made
    else:
        async with AsyncSqliteSaver.from_conn_string(path) as amade:
            yield amade


async def ask(graph: Graph, given: Any, **settings: Any) -> dict[str, Any]:
    """Invoke a graph as its checkpointer allows: sync, or async for the async one."""
    settings = {"durability": "sync", **settings}
    if isinstance(graph.checkpointer, AsyncSqliteSaver):
        made: dict[str, Any] = await graph.ainvoke(given, THREAD, **settings)
    else:
        made = graph.invoke(given, THREAD, **settings)
    return made


def texts(messages: Iterable[BaseMessage]) -> list[str]:
    """List the texts of messages."""
    return [str(one.text) for one in messages]


def attempts(state: Mapping[str, Any]) -> list[int | None]:
    """List the ratings of the attempts of the last turn."""
    return [one["rating"] for one in state["refine"]["attempts"]]


async def test_a_second_turn_sees_the_conversation_without_drafts(saver: Saver) -> None:
    """Generator and judge of the second are shown the first question and its answer, no draft and no feedback."""
    model = ScriptedModel([f"wrong {MARK}", "first answer", f"bad {MARK}", "second answer"])
    judge = ScriptedJudge([(1, f"not {MARK}"), 4, (1, "the second feedback"), 4])
    graph = self_refine(model, judge, checkpointer=saver)
    await ask(graph, ASKED)
    ended = await ask(graph, AGAIN)
    conversation = ["first question", "first answer", "second question"]
    assert texts(model.prompts[2]) == conversation
    assert texts(model.prompts[3])[:3] == conversation
    assert f"not {MARK}" not in "".join(texts(model.prompts[3]))
    assert texts(ended["messages"]) == [*conversation, "second answer"]
    assert attempts(ended) == [1, 4]
    for sample, response in zip(judge.samples[2:], (f"bad {MARK}", "second answer"), strict=True):
        assert [one.content for one in sample.conversation] == conversation
        assert (sample.question, sample.response) == ("second question", response)


async def test_evidence_does_not_reach_the_next_turn(saver: Saver) -> None:
    """Evidence given with one question is not shown with the next."""
    judge = ScriptedJudge([4, 4])
    graph = self_refine(ScriptedModel(["one", "two"]), judge, checkpointer=saver)
    await ask(graph, {**ASKED, "evidence": {"reference": "the truth", "retrieved_contexts": ["a text"]}})
    ended = await ask(graph, AGAIN)
    assert (judge.samples[0].reference, judge.samples[0].retrieved_contexts) == ("the truth", ("a text",))
    assert (judge.samples[1].reference, judge.samples[1].retrieved_contexts) == (None, None)
    assert "the truth" not in repr(ended)


async def test_two_threads_are_apart(saver: Saver) -> None:
    """Another thread knows nothing of the first."""
    model = ScriptedModel(["one", "two"])
    graph = self_refine(model, ScriptedJudge([4, 4]), checkpointer=saver)
    await ask(graph, ASKED)
    other: RunnableConfig = {"configurable": {"thread_id": "2"}}
    if isinstance(saver, AsyncSqliteSaver):
        await graph.ainvoke(AGAIN, other)
    else:
        graph.invoke(AGAIN, other)
    assert texts(model.prompts[-1]) == ["second question"]


async def test_a_crash_in_the_generator_is_resumed(saver: Saver) -> None:
    """A turn that died while generating goes on there: what was generated and judged before is kept."""
    model = Script(["bad draft", Killed, "good"])
    judge = ScriptedJudge([(1, "again"), 4])
    graph = self_refine(model, judge, checkpointer=saver)
    with pytest.raises(Killed):
        await ask(graph, ASKED)
    ended = await ask(graph, None)
    assert attempts(ended) == [1, 4]
    assert (len(model.prompts), len(judge.samples)) == (3, 2)
    assert texts(model.prompts[1]) == texts(model.prompts[2])


async def test_a_crash_in_the_judge_is_resumed(saver: Saver) -> None:
    """A turn that died while judging goes on there: the draft is kept, the judge alone is asked again."""
    model = ScriptedModel(["draft"])
    judge = ScriptedJudge([ConfigurationError("no key"), 4])
    graph = self_refine(model, judge, checkpointer=saver)
    with pytest.raises(ConfigurationError):
        await ask(graph, ASKED)
    ended = await ask(graph, None)
    assert texts(ended["messages"]) == ["first question", "draft"]
    assert (len(model.prompts), len(judge.samples)) == (1, 2)


def test_a_thread_without_a_question_has_nothing_to_go_on_with() -> None:
    """Whoever resumes another thread than was meant is told so in words, through each door."""
    refiner = SelfRefine(ScriptedModel(["x"]), ScriptedJudge([4]), checkpointer=InMemorySaver())
    for resume in (refiner.invoke, refiner.refine, refiner.graph.invoke):
        with pytest.raises(InputError, match="no question was asked on this thread"):
            resume(None, {"configurable": {"thread_id": "another"}})


@pytest.mark.parametrize("end", [Killed, ConfigurationError("no key")], ids=["killed", "set up wrongly"])
async def test_a_new_message_after_a_crash_begins_afresh(saver: Saver, end: Any) -> None:
    """A new message after a crash is a new turn: no attempt, draft or feedback of the broken one is left."""
    model = Script([f"wrong {MARK}", end, "second answer"])
    judge = ScriptedJudge([(1, f"not {MARK}"), 4])
    graph = self_refine(model, judge, checkpointer=saver)
    with pytest.raises((Killed, ConfigurationError)):
        await ask(graph, ASKED)
    ended = await ask(graph, AGAIN)
    assert attempts(ended) == [4]
    assert texts(model.prompts[-1]) == ["first question", "second question"]
    assert texts(ended["messages"]) == ["first question", "second question", "second answer"]


async def test_a_new_message_after_a_crash_of_the_judge_begins_afresh(saver: Saver) -> None:
    """A draft that waited for its verdict when the turn died is not judged in the next one."""
    judge = ScriptedJudge([ConfigurationError("no key"), 4])
    graph = self_refine(ScriptedModel([f"wrong {MARK}", "second answer"]), judge, checkpointer=saver)
    with pytest.raises(ConfigurationError):
        await ask(graph, ASKED)
    assert attempts(await ask(graph, AGAIN)) == [4]
    assert [one.response for one in judge.samples] == [f"wrong {MARK}", "second answer"]


async def test_a_failed_turn_leaves_no_summary(saver: Saver) -> None:
    """After a second turn died, the summary of the first is not taken for its own."""
    graph = self_refine(Script(["one", Killed]), ScriptedJudge([4]), checkpointer=saver)
    await ask(graph, ASKED)
    with pytest.raises(Killed):
        await ask(graph, AGAIN)
    state = await graph.aget_state(THREAD) if isinstance(saver, AsyncSqliteSaver) else graph.get_state(THREAD)
    assert state.values["refine"] is None
    assert texts(state.values["messages"]) == ["first question", "one", "second question"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_every_durability_gives_the_same_answer(saver: Saver, durability: str) -> None:
    """Two turns give the same under each durability."""
    judge = ScriptedJudge([(1, "again"), 4, (1, "again"), 3])
    graph = self_refine(ScriptedModel(["a", "b", "c", "d"]), judge, checkpointer=saver)
    first = await ask(graph, ASKED, durability=durability)
    second = await ask(graph, AGAIN, durability=durability)
    assert (attempts(first), attempts(second)) == ([1, 4], [1, 3])
    assert texts(second["messages"]) == ["first question", "b", "second question", "d"]


async def test_durability_exit_resumes_where_an_error_left(saver: Saver) -> None:
    """With `durability="exit"` an error that Python survives still writes a state to go on from."""
    model = Script(["bad draft", ConfigurationError("no key"), "good"])
    graph = self_refine(model, ScriptedJudge([(1, "again"), 4]), checkpointer=saver)
    with pytest.raises(ConfigurationError):
        await ask(graph, ASKED, durability="exit")
    assert attempts(await ask(graph, None, durability="exit")) == [1, 4]
    assert len(model.prompts) == 3


def reviewed(saver: Saver, model: ScriptedModel | None = None) -> Graph:
    """Make a graph that asks a human after two attempts, of which the first is the better one."""
    policy = Policy(max_attempts=2, on_exhausted="interrupt")
    model = model or ScriptedModel(["the better draft", f"worse {MARK}"])
    return self_refine(model, ScriptedJudge([(2, "hm"), (1, "no")]), policy=policy, checkpointer=saver)


@pytest.mark.parametrize(
    ("decision", "answer", "detail"),
    [
        ("accept", "the better draft", "released by a reviewer"),
        ({"answer": "by hand"}, "by hand", "written by a reviewer"),
    ],
)
async def test_a_human_decides(saver: Saver, decision: Any, answer: str, detail: str) -> None:
    """A reviewer is shown the best draft alone, and releases it or writes the answer; nothing is called again."""
    graph = reviewed(saver, model := ScriptedModel(["the better draft", f"worse {MARK}"]))
    (asked,) = (await ask(graph, ASKED))["__interrupt__"]
    assert asked.value == {
        "stop_reason": "max_attempts",
        "attempts": 2,
        "answer": "the better draft",
        "rating": 2,
        "feedback": "hm",
    }
    ended = await ask(graph, Command(resume=decision))
    assert texts(ended["messages"]) == ["first question", answer]
    assert (ended["refine"]["passed"], ended["refine"]["detail"]) == (False, detail)
    assert MARK not in repr(ended)
    assert len(model.prompts) == 2


NONSENSE: list[Any] = [
    *(7, 1, 0, 1.0, True, False, [], ["accept"], "", "Accept", "accept ", "aprove", b"accept", {}),
    *({"text": "by hand"}, {"answer": 7}, {"answer": " "}, {"answer": None}, {1: "accept"}),
    *(
        {"answer": "by hand", "rating": 4},
        {"answer": {"answer": "by hand"}},
        {"0" * 32: "accept"},
        {"accept": True},
    ),
]


async def test_nonsense_of_a_human_is_refused(saver: Saver) -> None:
    """A decision that is not exactly one of the four is refused, and can be given anew as often as need be."""
    graph = reviewed(saver)
    await ask(graph, ASKED)
    for decision in NONSENSE:
        with pytest.raises(InputError):
            await ask(graph, Command(resume=decision))
    with pytest.raises(InputError, match=r"a review is 'accept', 'reject' or \{'answer'"):
        await ask(graph, Command(resume=True))
    with pytest.raises(InputError, match="holds no decision"):
        await ask(graph, Command(resume=None))
    ended = await ask(graph, Command(resume="accept"))
    assert texts(ended["messages"]) == ["first question", "the better draft"]


DURABILITIES = pytest.mark.parametrize("durability", ["sync", "exit"])


def undecided(saver: Saver, durability: Any) -> SelfRefine:
    """Make a refiner that asks a human after one attempt."""
    policy = Policy(max_attempts=1, on_exhausted="interrupt")
    judge = ScriptedJudge([2])
    return SelfRefine(ScriptedModel(["draft"]), judge, policy=policy, checkpointer=saver, durability=durability)


@DURABILITIES
def test_selfrefine_waits_for_a_human(tmp_path: Path, durability: str) -> None:
    """`refine` of an exhausted run gives an interrupted outcome without an answer; a `Command` resumes it."""
    with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as saver:
        refiner = undecided(saver, durability)
        waiting = refiner.refine("first question", THREAD)
        ended = refiner.refine(Command(resume={"answer": "by hand"}), THREAD)
    assert (waiting.answer, waiting.stop_reason, waiting.detail) == (None, "interrupted", "max_attempts")
    assert ended.answer is not None
    assert (ended.answer.text, ended.stop_reason, ended.passed) == ("by hand", "max_attempts", False)
    assert (ended.released, len(ended.attempts)) == (None, 1)


@DURABILITIES
async def test_selfrefine_waits_for_a_human_async(tmp_path: Path, durability: str) -> None:
    """The same without blocking, with the draft."""
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as saver:
        refiner = undecided(saver, durability)
        waiting = await refiner.arefine("first question", THREAD)
        ended = await refiner.arefine(Command(resume="accept"), THREAD)
    assert waiting.stop_reason == "interrupted"
    assert (ended.text, ended.released, len(ended.attempts)) == ("draft", 1, 1)


@DURABILITIES
def test_a_selfrefine_remembers_the_conversation(durability: Any) -> None:
    """With a checkpointer a second question is asked with the first and its answer before it."""
    model = ScriptedModel([f"wrong {MARK}", "one", "two"])
    judge = ScriptedJudge([(1, f"not {MARK}"), 4, 4])
    refiner = SelfRefine(model, judge, checkpointer=InMemorySaver(), durability=durability)
    refiner.invoke("first question", THREAD)
    outcome = refiner.refine("second question", THREAD)
    assert texts(model.prompts[-1]) == ["first question", "one", "second question"]
    assert len(outcome.attempts) == 1
    assert texts(outcome.conversation) == ["first question", "one", "second question"]


@DURABILITIES
def test_a_crashed_selfrefine_begins_afresh(durability: Any) -> None:
    """A new question after a crash is a new turn, without any attempt of the broken one."""
    model = Script([f"wrong {MARK}", Killed, "good"])
    judge = ScriptedJudge([(1, f"not {MARK}"), 4])
    refiner = SelfRefine(model, judge, checkpointer=InMemorySaver(), durability=durability)
    with pytest.raises(Killed):
        refiner.invoke("first question", THREAD)
    outcome = refiner.refine("second question", THREAD)
    assert [one.rating for one in outcome.attempts] == [4]
    assert MARK not in repr(model.prompts[-1])


def stored(path: Path) -> list[tuple[str, bytes]]:
    """Read every value of a checkpoint file, with the kind of its encoding."""
    with sqlite3.connect(path) as connection:
        rows = [
            *connection.execute("SELECT type, checkpoint FROM checkpoints"),
            *connection.execute("SELECT type, value FROM writes"),
        ]
    connection.close()
    return rows


def crowded(path: Path) -> None:
    """Fill a checkpoint file: attempts with tool steps and evidence, an interrupt, a decision, an error."""
    policy = Policy(max_attempts=2, on_exhausted="interrupt", prices={"scripted": {"input": 1.0, "output": 1.0}})
    answers: list[Any] = [{"answer": "one", "context": ["a text"]}, {"answer": AIMessage("two"), "context": []}]
    left = iter(answers)

    def generate(_: object) -> Any:
        return next(left)

    def judge(sample: Sample) -> dict[str, Any]:
        return {"rating": 2, "rationale": "so so", "feedback": "more"}

    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = self_refine(generate, [judge, judge], policy=policy, checkpointer=saver)
        graph.invoke({**ASKED, "evidence": {"reference": "truth"}}, THREAD, durability="sync")
        graph.invoke(Command(resume="accept"), THREAD, durability="sync")
        with pytest.raises(GeneratorFailed):
            graph.invoke(AGAIN, THREAD, durability="sync")


def kinds(value: object) -> set[type]:
    """List the types of a value and of all that is in it, except within messages."""
    inner: Iterable[object] = ()
    if isinstance(value, Mapping):
        inner = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set):
        inner = value
    elif isinstance(value, Interrupt):
        inner = [value.value]
    return {type(value)}.union(*map(kinds, inner))


def test_only_plain_data_and_messages_are_stored(tmp_path: Path) -> None:
    """A checkpoint file holds plain data and messages, as msgpack, never pickle, and names no module of ours."""
    crowded(path := tmp_path / "checkpoints.sqlite")
    rows = stored(path)
    assert {kind for kind, _ in rows} <= {"msgpack", "null", "empty"}
    ours = (b"graphs.", b"judges.", b"refine.", b"judges", b"pydantic")
    assert [name for name in ours for _, row in rows if name in row] == []
    serializer = JsonPlusSerializer()
    found = set().union(*(kinds(serializer.loads_typed(row)) for row in rows if row[0] != "null"))
    plain = {dict, list, tuple, str, int, float, bool, type(None), bytes}
    assert {one.__module__.partition(".")[0] for one in found - plain} <= {"langchain_core", "langgraph"}


def broken_off(path: Path) -> None:
    """Write a turn that dies on its third attempt into a checkpoint file."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        judge = ScriptedJudge([(1, "again"), (2, "more")])
        graph = self_refine(Script(["a", "b", Killed]), judge, policy=Policy(max_attempts=4), checkpointer=saver)
        with pytest.raises(Killed):
            graph.invoke({**ASKED, "evidence": {"reference": "truth"}}, THREAD, durability="sync")


def gone_on(path: Path) -> None:
    """Resume that turn."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = self_refine(Script(["c"]), ScriptedJudge([4]), policy=Policy(max_attempts=4), checkpointer=saver)
        graph.invoke(None, THREAD, durability="sync")


def read(path: Path) -> str:
    """Read the state of a checkpoint file."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        found = saver.get_tuple(THREAD)
    assert found is not None
    return dumps(found.checkpoint["channel_values"])


CHILD = """
import logging, pathlib, sys, warnings
warnings.simplefilter("error")
logging.basicConfig(level=logging.WARNING)
import test_checkpoints
path = pathlib.Path(sys.argv[1])
getattr(test_checkpoints, sys.argv[2])(path)
print(test_checkpoints.read(path))
"""


def in_strict_mode(step: Callable[[Path], None], path: Path) -> str:
    """Take a step in a process of its own, in strict mode, and give the state as it is read there."""
    settings = {"LANGGRAPH_STRICT_MSGPACK": "true", "PYTHONPATH": f"{ROOT}{os.pathsep}{Path(__file__).parent}"}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), step.__name__],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_what_is_written_in_strict_mode_goes_on_in_default_mode(tmp_path: Path, caplog: Any) -> None:
    """A broken-off turn written in strict mode reads the same in default mode, and is resumed there."""
    path = tmp_path / "checkpoints.sqlite"
    assert in_strict_mode(broken_off, path) == read(path)
    gone_on(path)
    assert '"stop_reason": "accepted"' in read(path)
    assert [record.message for record in caplog.records] == []


def test_what_is_written_in_default_mode_goes_on_in_strict_mode(tmp_path: Path, caplog: Any) -> None:
    """A broken-off turn written in default mode is resumed in strict mode, and reads the same in both."""
    path = tmp_path / "checkpoints.sqlite"
    broken_off(path)
    assert in_strict_mode(gone_on, path) == read(path)
    assert '"stop_reason": "accepted"' in read(path)
    assert [record.message for record in caplog.records] == []
