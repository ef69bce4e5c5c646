"""Attempts are written down as rows of a dataset."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from graphs import GeneratorFailed, JudgeFailed, NotAccepted, Outcome, Unanswered
from judges import ConfigurationError, Sample
from judges.messages import ToolCall
from judges.offline import evaluate
from judges.offline.dataset.reading import read_rows
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine
from refine.recording import Record

LONE = "half a pair \ud83d, and the other \ude00"


def rows(path: Path) -> list[Sample]:
    """Read a record as the offline side does."""
    return list(read_rows(path))


def refiner(path: Path, *ratings: object, draft: str = "draft", **settings: Any) -> SelfRefine:
    """Make a refiner that records."""
    return SelfRefine(lambda _: draft, ScriptedJudge(ratings or [4], cycle=True), record=path, **settings)


def test_every_attempt_is_a_row(tmp_path: Path) -> None:
    """Each line is a sample that reads back as the outcome's own."""
    path = tmp_path / "attempts.jsonl"
    outcome = refiner(path, (1, "more"), 4).refine("what?", evidence={"reference": "truth"})
    assert rows(path) == outcome.samples()
    assert len(path.read_text("utf-8").splitlines()) == 2


def test_a_record_is_judged_again(tmp_path: Path) -> None:
    """A record is a dataset as it is."""
    path = tmp_path / "attempts.jsonl"
    refiner(path, 1, 4).invoke("what?")
    again = evaluate(read_rows(path), ScriptedJudge(lambda sample: sample.metadata["rating"]))
    assert [next(iter(one.verdicts.values())).rating for one in again.rows] == [1, 4]


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    """The file holds what people asked, so nobody else may read it."""
    path = tmp_path / "attempts.jsonl"
    refiner(path).invoke("what?")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_there_is_continued(tmp_path: Path) -> None:
    """Rows are appended to those of an earlier run."""
    path = tmp_path / "attempts.jsonl"
    for question in ("first?", "second?"):
        refiner(path).invoke(question)
    assert [one.question for one in rows(path)] == ["first?", "second?"]


def test_threads_do_not_interleave(tmp_path: Path) -> None:
    """Attempts of one question stand together, whoever else writes at the same time, and no line is torn."""
    path = tmp_path / "attempts.jsonl"
    text = "long " * 5_000
    barrier = threading.Barrier(8)

    def ask(number: int) -> None:
        inner = SelfRefine(lambda _: f"{number} {text}", ScriptedJudge([1, 1, 4], cycle=True), record=path)
        barrier.wait()
        inner.batch([f"{number}?"] * 4)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))
    attempts = [(str(one.response).split()[0], one.metadata["attempt"]) for one in rows(path)]
    assert len(attempts) == 8 * 4 * 3
    for first in range(0, len(attempts), 3):
        assert len({number for number, _ in attempts[first : first + 3]}) == 1
        assert [attempt for _, attempt in attempts[first : first + 3]] == [1, 2, 3]


async def test_errors_are_recorded(tmp_path: Path) -> None:
    """Runs that end in an error leave their attempts, with the reason, at every entrance."""
    path = tmp_path / "attempts.jsonl"
    strict = refiner(path, 1, max_attempts=1, on_exhausted="raise")
    with pytest.raises(NotAccepted):
        strict.invoke("invoke?")
    with pytest.raises(NotAccepted):
        await strict.ainvoke("ainvoke?")
    with pytest.raises(JudgeFailed):
        refiner(path, OSError(), on_judge_error="raise").refine("judge?")
    with pytest.raises(Unanswered):
        refiner(path, OSError(), on_judge_error="reject").invoke("reject?")
    assert [(one.question, one.metadata["stop_reason"]) for one in rows(path)] == [
        ("invoke?", "max_attempts"),
        ("ainvoke?", "max_attempts"),
        ("judge?", "judge_failed"),
        ("reject?", "judge_failed"),
    ]


def test_without_an_attempt_there_is_no_row(tmp_path: Path) -> None:
    """A generator that failed at once leaves nothing to write."""
    path = tmp_path / "attempts.jsonl"
    with pytest.raises(GeneratorFailed):
        SelfRefine(ScriptedModel([OSError()]), ScriptedJudge([4]), record=path).invoke("what?")
    assert not path.exists()


def test_a_skipped_turn_is_recorded(tmp_path: Path) -> None:
    """A turn that calls a tool is a row without a rating."""
    path = tmp_path / "attempts.jsonl"
    model = ScriptedModel([ToolCall(name="t")])
    SelfRefine(model, ScriptedJudge([]), record=path).invoke("what?")
    assert [one.metadata for one in rows(path)] == [{"attempt": 1, "stop_reason": "skipped"}]


def test_half_a_surrogate_pair_costs_no_answer(tmp_path: Path) -> None:
    """Text that is no UTF-8 is written as JSON escapes, and reads back as it was."""
    path = tmp_path / "attempts.jsonl"
    answer = refiner(path, (1, LONE), 4, draft=LONE).invoke(f"what is {LONE}?", evidence={"reference": LONE})
    assert answer.text == LONE
    assert [(one.question, one.response, one.reference) for one in rows(path)] == [
        (f"what is {LONE}?", LONE, LONE)
    ] * 2


def test_text_stays_readable(tmp_path: Path) -> None:
    """Other scripts are written as they are, and a line end in a text ends no row."""
    path = tmp_path / "attempts.jsonl"
    refiner(path, draft="巴黎\nПариж\u2028\\ud83d 😀").invoke("где?")
    line = path.read_text("utf-8")
    assert "巴黎" in line
    assert line.count("\n") == 1
    assert json.loads(line)["response"] == "巴黎\nПариж\u2028\\ud83d 😀"


@pytest.mark.parametrize("place", [".", "missing/attempts.jsonl"])
def test_a_place_that_cannot_be_written_is_refused_when_made(tmp_path: Path, place: str) -> None:
    """A folder that is missing is told before any answer is paid for."""
    with pytest.raises(ConfigurationError, match="record is a file in a folder that exists, not"):
        refiner(tmp_path / place)


def test_a_record_alone_takes_outcomes(tmp_path: Path) -> None:
    """A record can be used without a refiner."""
    outcome: Outcome = SelfRefine(lambda _: "yes", lambda response: 4).refine("what?")
    record = Record(str(tmp_path / "attempts.jsonl"))
    record.add(outcome)
    record.add(outcome)
    assert len(rows(tmp_path / "attempts.jsonl")) == 2
