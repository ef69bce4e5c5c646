"""Loops that go on after their answer was accepted, to record what a stricter policy would have come to."""

from __future__ import annotations

import json
import logging
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from judges import ConfigurationError
from judges.offline import replay
from judges.testing import ScriptedJudge
from refine import SelfRefine
from refine.record import DatabaseRecord


def assistant(ratings: list[Any], record: Any, **settings: Any) -> SelfRefine:
    """Make a refiner whose drafts are numbered and that always goes on."""
    drafts = (f"draft {number}" for number in count(1))
    defaults: dict[str, Any] = {"explore": 1.0, "max_attempts": 4, **settings}
    return SelfRefine(lambda _: next(drafts), ScriptedJudge(ratings, cycle=True), record=record, **defaults)


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the metadata of the rows of a file."""
    return [json.loads(line)["metadata"] for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("how", ["invoke", "ainvoke"])
async def test_the_answer_stays_the_accepted_one(tmp_path: Path, how: str) -> None:
    """Shadows are recorded after it, and marked; the loop ends where the policy has it end."""
    path = tmp_path / "attempts.jsonl"
    refiner = assistant([2, 3, 1, 4], path)
    answer = refiner.invoke("what?") if how == "invoke" else await refiner.ainvoke("what?")
    assert answer.text == "draft 2"
    rows = lines(path)
    assert [(row["attempt"], row["rating"], row["released"], row.get("shadow")) for row in rows] == [
        (1, 2, False, None),
        (2, 3, True, None),
        (3, 1, False, True),
        (4, 4, False, True),
    ]
    assert [row.get("stop_reason") for row in rows] == [None, "accepted", None, None]
    assert {row["continuation_probability"] for row in rows} == {1.0}
    stricter = replay(path, thresholds=[4], least_effective=0).policies[1]
    assert (stricter.release_rate, stricter.ends) == ((1.0, 1.0), {"pass": 1})


def test_some_loops_are_explored(tmp_path: Path) -> None:
    """The probability is kept, each acceptance is decided for itself, and estimates come close to the truth."""
    path = tmp_path / "attempts.jsonl"
    refiner = assistant([3, 2, 4], path, explore=0.5, max_attempts=3)
    for number in range(100):
        refiner.invoke(f"{number}?")
    rows = lines(path)
    loops = sum(row["attempt"] == 1 for row in rows)
    shadows = sum(row["attempt"] == 2 and row.get("shadow", False) for row in rows)
    assert loops == 100
    assert shadows > 4
    assert replay(path).policies[0].status == "exact"
    assert replay(path).policies[0].loops == 100


def test_a_record_in_a_database_counts_no_shadows(tmp_path: Path) -> None:
    """An outcome has the attempts of its loop; those after it are rows of their own."""
    url = f"sqlite:///{tmp_path / 'record.db'}"
    with DatabaseRecord(url) as record:
        outcome = assistant([3, 4, 1, 2], record).refine("what?")
        assert record.flush()
        row = record.outcome(outcome.id)
        assert row is not None
        assert (record.outcomes()[0]["attempts"], row["released"], len(row["attempts"])) == (1, 1, 4)
        figures = [(one["attempt"], one.get("shadow", False)) for one in record.attempts()]
    assert [len(outcome.attempts), outcome.stop_reason] == [1, "accepted"]
    assert figures == [(1, False), (2, True), (3, True), (4, True)]


def test_what_fails_costs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A generator that fails in a shadow costs neither answer nor record; that is a warning."""

    def once(messages: list[Any]) -> str:
        if len(messages) > 1:
            raise OSError("gone")
        return "draft"

    path = tmp_path / "attempts.jsonl"
    with caplog.at_level(logging.WARNING, "refine"):
        refiner = SelfRefine(once, ScriptedJudge([3]), record=path, explore=1.0)
        assert refiner.invoke("what?").text == "draft"
    (row,) = lines(path)
    assert row["released"]
    assert "continuation_probability" not in row
    assert "could not be explored" in caplog.text


def test_where_it_cannot_be(tmp_path: Path) -> None:
    """Out of range, without a record, with a checkpointer or candidates: one line with the remedy."""
    path = tmp_path / "attempts.jsonl"
    wrongs: tuple[tuple[dict[str, Any], str], ...] = (
        ({"explore": 0}, "above 0"),
        ({"explore": 2.0}, "at most 1"),
        ({"record": None}, "give record="),
        ({"checkpointer": InMemorySaver()}, "checkpointer"),
        ({"candidates": 2}, "one candidate"),
        ({"shadow": True}, "shadow"),
    )
    for wrong, remedy in wrongs:
        with pytest.raises(ConfigurationError, match=remedy):
            SelfRefine(lambda _: "draft", ScriptedJudge([4]), **{"record": path, "explore": 0.5, **wrong})
