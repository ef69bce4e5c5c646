"""Labelling in the terminal: blind, safe, in random order, and gone on with."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from judges import ConfigurationError, Sample
from judges.offline import certify, monitor, replay
from judges.offline.trust.drawing import choose_rows
from judges.offline.trust.label import LabelFile, Labelling, items_of, labels_in
from judges.offline.trust.rows import read_judged
from judges.testing import ScriptedJudge
from refine import SelfRefine
from refine.cli.label import _LabelScreen, _lines_of, _RecordStore, _wrap
from refine.record import DatabaseRecord
from tests import forks
from tests.laws import for_every
from tests.loops.recorded import rows_of, write_loops
from tests.runs.commands import refine

ESCAPE = re.compile(rb"\x1b(?:\[[0-9;?]*[a-zA-Z]|\][^\x07]*\x07|[=>78]|\([B0])")
PATIENCE_S = 30.0


class Terminal:
    """A real terminal with a command in it."""

    def __init__(self, file: int, process: ForkServerProcess) -> None:
        self._file, self.process = file, process
        self._seen = b""
        self._shows_a_screen = False

    def until(self, text: str) -> str:
        """Read until a text is on the screen, and return all that was written since the last time.

        Only what changed is written to a screen, so that it is asked for the whole, as after a change of its size.
        """
        deadline = time.monotonic() + PATIENCE_S
        while text not in (plain := ESCAPE.sub(b"", self._seen).decode(errors="replace")):
            assert time.monotonic() < deadline, f"no {text!r} in {plain!r}"
            if select.select([self._file], [], [], 0.3)[0]:
                with suppress(OSError):  # the command has ended
                    self._seen += os.read(self._file, 65_536)
            elif self._shows_a_screen:
                forks.tell(self.process, signal.SIGWINCH)
            self._shows_a_screen = self._shows_a_screen or b"\x1b[?1049h" in self._seen
        self._seen = b""
        return plain

    def keys(self, keys: str) -> None:
        """Press keys."""
        os.write(self._file, keys.encode())

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the window, as a person does who drags its corner."""
        fcntl.ioctl(self._file, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        forks.tell(self.process, signal.SIGWINCH)


@contextmanager
def terminal(*arguments: object, rows: int = 24, columns: int = 100) -> Iterator[Terminal]:
    """Run `refine` in a terminal of its own."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    settings = {"TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"}
    process = forks.start("refine", *arguments, streams=(theirs, theirs, theirs), folder=Path.cwd(), **settings)
    os.close(theirs)
    try:
        yield Terminal(ours, process)
    finally:
        process.kill()
        os.close(ours)


def written(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file of labels."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


FOREIGN = [
    ("labels.csv", "question,answer,by,rating\nq,a,bob,4\nq2,a,bob,3"),
    ("labels.json", '[\n{"question": "q", "answer": "a", "by": "bob", "up": true}\n]'),
    ("notes", "mine\nmine, too"),
    ("pretty.jsonl", '{"question": "q",\n "answer": "a"}'),
]


def test_a_person_labels_in_a_terminal(tmp_path: Path) -> None:
    """Keys label, note, skip, undo and quit; the verdict is hidden; the window may be resized."""
    source = write_loops(tmp_path / "attempts.jsonl", ["14", "3"], rationale="HIDDEN rationale", feedback="HIDDEN")
    file = tmp_path / "attempts.labels.jsonl"
    with terminal("label", source, "--by", "ann", "--split", "certify") as screen:
        first = screen.until("z undo")
        assert "0 of 3" in first
        assert "HIDDEN" not in first
        screen.keys("nwhy \u4e2d\r")
        screen.until("note: why")
        screen.keys("2")
        screen.until("saved: 2")
        assert [(one["rating"], one["note"], one["by"], one["split"]) for one in written(file)] == [
            (2, "why \u4e2d", "ann", "certify")
        ]
        screen.keys("z")
        screen.until("taken back: 2")
        assert written(file) == []
        screen.resize(12, 44)
        screen.until("1-4 g b")
        screen.keys("g")
        screen.until("saved: good")
        screen.keys("s")
        screen.until("skipped")
        screen.keys("14")
        assert "3 labels by ann" in screen.until("all are labelled")
        assert forks.end_of(screen.process) == 0
    assert [one.get("rating") for one in written(file)] == [None, 1, 4]
    assert file.stat().st_mode & 0o777 == 0o600


def test_whoever_quits_is_told_what_goes_on(tmp_path: Path) -> None:
    """Not a command that leaves out whose labels they are, and in which file."""
    source = write_loops(tmp_path / "attempts.jsonl", ["14"])
    with terminal("label", source, "--by", "ann", "--labels", tmp_path / "of-ann.jsonl") as screen:
        screen.until("z undo")
        screen.keys("4q")
        said = screen.until("goes on")
        assert "1 label by ann in " in said
        assert "of-ann.jsonl; 1 left: the same command goes on" in said


def test_keys_without_a_real_terminal(tmp_path: Path) -> None:
    """A note is dropped by skipping; quitting keeps what was said; a full disk is reported."""
    store = LabelFile(tmp_path / "labels.jsonl")
    rows = [{"question": f"q{number}", "answer": "a\n" * 99} for number in range(9)]
    labelling = Labelling(items_of(read_judged(rows)), store, by="ann")
    with create_pipe_input() as keys:
        screen = _LabelScreen(labelling, source="x", terminal_input=keys, terminal_output=DummyOutput())
        keys.send_text("nfor nobody\x1b[A\rsnfor this\r2jj  kb+-zuq4")
        screen.run()
    assert [(one.get("rating"), one.get("up"), one.get("note")) for one in written(tmp_path / "labels.jsonl")] == [
        (2, None, "for this"),
        (None, False, None),
        (None, True, None),
        (None, True, None),
    ]
    assert labelling.labelled_now == 4
    lost = Labelling(items_of(read_judged(rows)), LabelFile(tmp_path / "nowhere" / "labels.jsonl"), by="ann")
    with create_pipe_input() as keys:
        keys.send_text("1gzq")
        _LabelScreen(lost, source="x", terminal_input=keys, terminal_output=DummyOutput()).run()
    assert lost.labelled_now == 0


def test_without_a_terminal_it_says_what_to_do(tmp_path: Path) -> None:
    """A pipe gets one line with the remedy."""
    result = refine("label", write_loops(tmp_path / "a.jsonl", ["4"]))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "ssh -t HOST refine label" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_labels_are_what_the_other_commands_read(tmp_path: Path) -> None:
    """A certificate, a replay and a monitor take the file as it is."""
    source = write_loops(tmp_path / "attempts.jsonl", ["4"] * 40)
    file = tmp_path / "attempts.labels.jsonl"
    labelling = Labelling(items_of(read_judged(source)), LabelFile(file), by="ann")
    while labelling.current is not None:
        labelling.label(rating=4 if labelling.labelled else 1)
    certificate = certify(source, file)
    assert (certificate.threshold, certificate.released, certificate.bad) == (2, 40, 1) or certificate.bad == 1
    assert replay(source, file).policies[0].bad_rate == (1 / 40, 1 / 40)
    assert monitor(source, file, alpha=0.1).audits.audits == 40
    with pytest.raises(ConfigurationError, match="no label belongs"):
        replay(rows_of(99, "4"), file)


def test_who_labels_what(tmp_path: Path) -> None:
    """The order is random and each person's own; one in ten is for two people; what is done is not shown again."""
    rows = read_judged(write_loops(tmp_path / "attempts.jsonl", ["4"] * 150))
    file = LabelFile(tmp_path / "labels.jsonl")
    ann = Labelling(items_of(rows), file, by="ann")
    assert ann.total == 150
    order = [item.key for item in ann._queue]
    assert order != [item.key for item in items_of(rows)]
    assert order == [item.key for item in Labelling(items_of(rows), file, by="ann")._queue]
    assert order != [item.key for item in Labelling(items_of(rows), file, by="bob")._queue]
    while ann.current is not None:
        ann.label(up=True)
    assert 3 < ann.waiting < 35
    bob = Labelling(items_of(rows, labels_in(tmp_path / "labels.jsonl")), file, by="bob")
    assert bob.total == ann.waiting
    again = Labelling(items_of(rows, labels_in(tmp_path / "labels.jsonl")), file, by="ann")
    assert (again.current, again.labelled) == (None, 150)
    queued = [{"question": "q", "answer": "a", "raters": 2, "labels": []}]
    assert items_of(read_judged(queued))[0].people == 2
    with pytest.raises(ConfigurationError, match="by whom"):
        Labelling([], file, by=" ")
    with pytest.raises(ConfigurationError, match="split"):
        Labelling([], file, by="ann", split="dev")


def test_skipping_and_taking_back(tmp_path: Path) -> None:
    """What is skipped comes again at the end; labels are taken back one by one, also between those of others."""
    file = LabelFile(tmp_path / "labels.jsonl")
    rows = [{"question": f"q{number}", "answer": "a"} for number in range(3)]
    labelling = Labelling(items_of(read_judged(rows)), file, by="ann")
    first = labelling.current
    labelling.skip()
    assert labelling.current is not first
    labelling.label(rating=1)
    labelling.label(rating=2)
    assert labelling.current is first
    assert labelling.only_skipped
    assert first is not None
    file.add(first, {"by": "bob", "rating": 4})
    assert [labelling.undo() is not None for _ in range(3)] == [True, True, False]
    assert [one["by"] for one in written(tmp_path / "labels.jsonl")] == ["bob"]
    assert labelling.labelled == 0


def test_a_torn_line_costs_nothing(tmp_path: Path) -> None:
    """A label that was never written whole is taken out; whole ones stay."""
    path = tmp_path / "labels.jsonl"
    (item,) = items_of(read_judged([{"question": "q", "answer": "a\ud83d"}]))
    LabelFile(path).add(item, {"by": "ann", "rating": 1})
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"by": "ann", "rat')
    LabelFile(path).repair()
    assert path.read_bytes() == whole
    path.write_bytes(whole.rstrip())
    LabelFile(path).repair()
    LabelFile(path).add(item, {"by": "bob", "rating": 2})
    assert [one["by"] for one in written(path)] == ["ann", "bob"]
    with pytest.raises(ConfigurationError, match="cannot be written"):
        LabelFile(tmp_path / "nowhere" / "labels.jsonl").add(item, {"by": "ann", "rating": 1})


@for_every("name, content", FOREIGN)
def test_no_foreign_file_loses_a_line_to_labelling(tmp_path: Path, name: str, content: str) -> None:
    """A table, a list or notes named by --labels stay as they are, with a line that says what to give instead."""
    source = tmp_path / "rows.jsonl"
    source.write_text('{"question": "q", "answer": "a"}\n')
    file = tmp_path / name
    file.write_text(content)
    with terminal("label", source, "--by", "ann", "--labels", file) as screen:
        said = screen.until("refine: ")
        assert forks.end_of(screen.process) == 2, said
    assert file.read_text() == content


def test_labels_go_into_a_record(tmp_path: Path) -> None:
    """Of a database the labels are in the database, with their split."""
    url = f"sqlite:///{tmp_path / 'record.db'}"
    with DatabaseRecord(url, texts=True) as record:
        SelfRefine(lambda _: "draft", ScriptedJudge([4]), record=record).invoke("what?")
        assert record.flush()
    with DatabaseRecord(url) as record:
        items = items_of(read_judged(list(record.rows())))
        labelling = Labelling(items, _RecordStore(record), by="ann", split="report")
        labelling.label(rating=1)
        labelling.undo()
        assert not any("labels" in row for row in record.attempts())
        labelling.label(rating=3, note="fine")
    with DatabaseRecord(url) as record:
        ((label,),) = [row["labels"] for row in record.attempts()]
    assert (label["by"], label["rating"], label["note"], label["split"]) == ("ann", 3, "fine", "report")


def test_which_answers_are_worth_most(tmp_path: Path) -> None:
    """Of loops every answer that a rating of 4, 3 or 2 releases; of other rows some of each rating."""
    loops = read_judged(write_loops(tmp_path / "attempts.jsonl", ["1234", "1111", "24"] * 10))
    chosen = choose_rows(loops, budget=20)
    marks = [(row.outcome_id, row.attempt) for row in chosen]
    assert 15 < len(marks) <= 20
    assert all(row.attempt != 1 or row.marks["judge"].rating == 2 for row in chosen)
    by_loop = {loop: {attempt for other, attempt in marks if other == loop} for loop, _ in marks}
    assert all(attempts in ({2, 3, 4}, {1, 2}) for attempts in by_loop.values())
    rows = [{"question": f"q{n}", "answer": "a", "metadata": {"rating": 1 + n % 4}} for n in range(200)]
    ratings = [row.marks["judge"].rating for row in choose_rows(read_judged(rows), budget=40)]
    assert {ratings.count(rating) for rating in (1, 2, 3, 4)} == {10}


def test_what_is_shown() -> None:
    """Everything a person needs is there, in columns that fit, and no answer can write on the screen by itself."""
    sample = Sample.read(
        user_input=[("user", "hello"), ("assistant", "hi"), ("user", "the question")],
        response="\x1b[31mred\x1b[0m\tand \u4e2d\u6587" + "\u4e2d" * 60,
        retrieved_contexts=["one", "two"],
        reference="the reference",
    )
    lines = [text for _, text in _lines_of(sample, 40)]
    assert [line for line in lines if line.isupper() or line.startswith("CONTEXT")] == [
        "CONVERSATION",
        "QUESTION",
        "CONTEXT 1",
        "CONTEXT 2",
        "REFERENCE",
        "ANSWER",
    ]
    assert not any("\x1b" in line or "\t" in line for line in lines)
    assert "assistant: hi" in "\n".join(lines)
    assert _wrap("a bb ccc " + "x" * 25, 12) == ["a bb ccc", "x" * 12, "x" * 12, "x"]
    assert _wrap("\u4e2d" * 10, 10) == ["\u4e2d" * 5] * 2
    assert _wrap("one\n\ntwo", 10) == ["one", "", "two"]
    assert _wrap("def f():\n    return 1", 20) == ["def f():", "    return 1"]
