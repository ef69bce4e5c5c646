"""Processes killed at every call and write: one call is repeated at most, no answer lost, no message doubled."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver

from graphs import Policy, self_refine
from tests.graphs.kill_stage import THREAD
from tests.postgres import throw_away_cluster

ROOT = Path(__file__).resolve().parents[2]
RATINGS = {"draft after 0": 1, "draft after 1": 2, "draft after 2": 4, "revised": 4}
UNACCEPTED = {**RATINGS, "draft after 2": 2}
CALLS = ["generate", "judge"] * 3
DECISIONS: list[tuple[Any, list[str]]] = [
    ("accept", ["draft after 2"]),
    ("reject", []),
    ({"feedback": "reviewed"}, ["revised"]),
]
"""What a reviewer decides, and the answer that comes of it."""

EVERY_KIND = ["call", "before put", "after put", "before put_writes", "after put_writes", "end"]
FULL = os.environ.get("TEST_KILLS") == "all"
"""Whether to kill at every point on every checkpointer, which takes a minute or two."""

MOST_POINTS = 40
"""Bound on the calls, or the writes, of one turn."""


class Processes:
    """Takes turns in processes of their own, and knows what became of the thread."""

    def __init__(self, stage: subprocess.Popen[str], saver: str, place: str, folder: Path) -> None:
        self._stage = stage
        self._numbers = itertools.count()
        self._folder = folder
        self.saver = saver
        self.place = place
        self.renew()

    def renew(self) -> None:
        """Begin with an empty thread and no calls."""
        number = next(self._numbers)
        self.calls = self._folder / f"calls {number}"
        self.calls.touch()
        if self.saver == "postgres":
            with self.open() as saver:
                saver.delete_thread("1")
        else:
            self.place = str(self._folder / f"{number}.sqlite")

    @contextmanager
    def open(self) -> Iterator[Any]:
        """Open the checkpointer in this process."""
        kind: Any = PostgresSaver if self.saver == "postgres" else SqliteSaver
        with kind.from_conn_string(self.place) as saver:
            saver.setup()
            yield saver

    def take(
        self, resume: Any, *, kill: tuple[str, int] | None = None, reviews: bool = False, agent: bool = False
    ) -> int:
        """Take a turn in a process, and return its exit status."""
        ratings = UNACCEPTED if reviews else RATINGS
        turn = {"saver": self.saver, "place": self.place, "calls": str(self.calls), "ratings": ratings}
        assert self._stage.stdin is not None
        assert self._stage.stdout is not None
        self._stage.stdin.write(
            json.dumps({**turn, "resume": resume, "kill": kill, "reviews": reviews, "agent": agent}) + "\n"
        )
        self._stage.stdin.flush()
        return int(self._stage.stdout.readline())

    def kinds(self, *on_sqlite: str) -> Sequence[str]:
        """Return the kinds of points to kill at: in calls on each checkpointer, and some in writes on SQLite."""
        if self.saver == "async sqlite":  # its writes are those of the sync one
            return ["call"]
        return EVERY_KIND if FULL else on_sqlite if self.saver == "sqlite" else ["call"]

    def state(self) -> Any:
        """Read the state of the thread."""
        policy = Policy(on_exhausted="interrupt")
        with self.open() as saver:
            return self_refine(lambda _: "", lambda response: 4, policy=policy, checkpointer=saver).get_state(
                THREAD
            )

    def called(self) -> list[str]:
        """List the calls of all processes."""
        return self.calls.read_text(encoding="utf-8").split()

    def go_on(self, **settings: Any) -> None:
        """Resume the thread, or ask again where nothing was stored of it."""
        assert self.take("nothing" if self.state().values else "question", **settings) == 0


@pytest.fixture(scope="module", params=["sqlite", "postgres", "async sqlite"])
def processes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """Start the stage on each checkpointer."""
    with ExitStack() as stack:
        place = stack.enter_context(throw_away_cluster()) if request.param == "postgres" else ""
        command = [sys.executable, "-m", "tests.graphs.kill_stage"]
        pipe = subprocess.PIPE
        stage = stack.enter_context(subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True))
        yield Processes(stage, request.param, place, tmp_path_factory.mktemp("kills"))
        assert stage.stdin is not None
        stage.stdin.close()


def killed_turns(processes: Processes, kinds: Iterable[str], resume: Any, **settings: Any) -> Iterator[Any]:
    """Kill a turn at each point of some kinds, and yield the point; a kind ends where it is reached no more."""
    for kind in kinds:
        for number in range(MOST_POINTS):
            processes.renew()
            if resume != "question":
                assert processes.take("question", **settings) == 0
            status = processes.take(resume, kill=(kind, number), **settings)
            assert status in (0, -9)
            if status == 0:
                break
            yield kind, number


def test_a_turn_goes_on_wherever_it_was_killed(processes: Processes) -> None:
    """Killed at any call or write and resumed by another process, it repeats one call at most and answers once."""
    count = 0
    for kind, number in killed_turns(processes, processes.kinds("call", "after put"), "question"):
        count += kind == "call"
        processes.go_on()
        state, called = processes.state(), processes.called()
        assert [message.text for message in state.values["messages"]] == ["what?", "draft after 2"]
        assert (state.values["status"], state.next, len(state.values["refine"]["attempts"])) == ("done", (), 3)
        repeated = Counter(called) - Counter(CALLS)
        assert repeated == Counter([CALLS[number]]) if kind == "call" else repeated.total() <= 1, (kind, number)
        assert not Counter(CALLS) - Counter(called), (kind, number)
    assert count == len(CALLS)


def test_an_agent_inside_repeats_one_of_its_steps_at_most(processes: Processes) -> None:
    """The steps of a graph that generates are saved as soon as the loop's own."""
    if processes.saver != "sqlite" and not FULL:
        return
    calls = ["plan", *CALLS[:2], "plan", *CALLS[2:4], "plan", *CALLS[4:]]
    count = 0
    for _, number in killed_turns(processes, ["call"], "question", agent=True):
        count += 1
        processes.go_on(agent=True)
        assert [message.text for message in processes.state().values["messages"]] == ["what?", "draft after 2"]
        assert sorted(processes.called()) == sorted([*calls, calls[number]]), number
    assert count == len(calls)


def test_a_review_goes_on_wherever_its_decision_was_killed(processes: Processes) -> None:
    """A review waits over a restart; a decision that was killed is carried out, or can be made again, once."""
    for decision, answer in DECISIONS:
        for kind, number in killed_turns(processes, processes.kinds("before put"), decision, reviews=True):
            case = (decision, kind, number)
            waits = bool(processes.state().interrupts)
            status = processes.take(decision if waits else "nothing", reviews=True)
            if status == 1:  # the decision was made before, and is now carried out
                status = processes.take("nothing", reviews=True)
            state = processes.state()
            texts = [message.text for message in state.values["messages"]]
            assert (status, texts) == (0, ["what?", *answer]), case
            assert (state.values["status"], state.next, state.interrupts) == ("done", (), ()), case
            most = len(CALLS) + 3 if "feedback" in decision else len(CALLS)  # two more, of which one is repeated
            assert len(processes.called()) <= most, case
