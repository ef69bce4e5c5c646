"""Figures from sums that are kept while outcomes are written: they are those of counting every row."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from graphs import Outcome
from judges import Verdict
from judges.testing import ScriptedJudge
from judges.verdict import Usage
from refine import SelfRefine
from refine.record import DatabaseRecord, Origin, OutcomeFilter
from refine.record.schema import SERIES
from refine.record.sums import _DIMENSIONS, Sums
from tests.guarding import wait_until
from tests.refine.records import older

BEGIN = 1_790_000_000_000
DAY = 86_400_000
INEXACT = {"latency_p50", "latency_p95", "series"}


def outcomes(number: int) -> Iterator[tuple[Outcome, Origin]]:
    """Yield outcomes of all kinds."""
    chance = random.Random(number)
    first = SelfRefine(lambda _: "yes", ScriptedJudge([4])).refine("is it?")
    attempt = first.attempts[0]
    for one in range(number):
        used = Usage(
            calls=2, input_tokens=chance.randrange(900), cost=chance.choice([None, 0.0, chance.random() / 99])
        )
        rated = Verdict.rated(chance.choice([1, 2, 3, 4]), judge=chance.choice(["a", "b"]), usage=used)
        judged = attempt.model_copy(update={"verdict": rated, "latency_s": chance.random(), "usage": used})
        attempts = tuple(
            judged.model_copy(update={"number": place}) for place in range(1, chance.choice([2, 3, 4]))
        )
        reason = chance.choice(["accepted", "accepted", "max_attempts", "judge_failed", "broken_off"])
        update = {"id": f"{number}-{one}", "attempts": attempts, "usage": used, "latency_s": chance.random() * 9}
        update |= {"stop_reason": reason, "passed": reason == "accepted", "released": len(attempts)}
        yield (
            first.model_copy(update=update),
            Origin(
                refiner=chance.choice(["x", "y"]),
                judge="a",
                model="m",
                user="ann",
                key=chance.choice(["", "j", "k"]),
            ),
        )


def write(url: str, *numbers: int) -> None:
    """Record outcomes, a writer for each number."""
    for number in numbers:
        with DatabaseRecord(url) as record:
            for outcome, origin in outcomes(number):
                record.add(outcome, origin)
            assert record.flush(120)


@pytest.fixture(autouse=True)
def _days(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spread what is recorded over days, some of it within a minute."""
    chance, ticks = random.Random(1), count()
    monkeypatch.setattr(
        "refine.record.writer.now_ms",
        lambda: BEGIN + next(ticks) * 7_000_001 % (9 * DAY) + chance.randrange(90_000),
    )


FILTERS: list[dict[str, Any]] = [
    {},
    {"refiner": "x"},
    {"key": "k"},
    {"key": "j", "refiner": "x", "since": BEGIN + 2 * DAY + 12_345},
    {"passed": False, "model": "m"},
    {"rating": 2, "judge": "a"},
    {"stop_reason": "broken_off"},
    {"since": BEGIN + DAY + 12_345},
    {"since": BEGIN + 3 * DAY + 1, "until": BEGIN + 6 * DAY + 45_678, "refiner": "y"},
    {"since": BEGIN + 1_000, "until": BEGIN + 2 * 3_600_000},
    {"until": BEGIN},
]


def assert_sums_agree(url: str, patch: pytest.MonkeyPatch, *, every: bool = False) -> None:
    """Compare sums with counting, for every filter, or every other one."""
    with DatabaseRecord(url) as record:
        for settings in FILTERS[:: 1 if every else 2]:
            where = OutcomeFilter(**settings)
            both = []
            for few in (-1, 10**9):
                patch.setattr("refine.record.queries._FEW", few)
                tables = [row for by in ("refiner", "key") for row in record.table(by, where)]
                both.append((record.figures(where), tables))
            (quick, table), (slow, counted) = both
            for name in slow.keys() - INEXACT:
                expected = pytest.approx(slow[name], abs=1e-7) if name == "cost" else slow[name]
                assert quick[name] == expected, (name, settings)
            for name in ("latency_p50", "latency_p95"):
                assert quick[name] == (None if slow[name] is None else pytest.approx(slow[name], rel=0.02))
            assert 2 * quick["outcomes"] == sum(row["outcomes"] for row in table)
            assert [{**row, "cost": None} for row in table] == [{**row, "cost": None} for row in counted]


def test_sums_are_those_of_counting(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several writers, for every filter and any time; after labels, a review's end and retention, too."""
    write(url, 160, 90)
    assert_sums_agree(url, monkeypatch, every=True)
    with DatabaseRecord(url) as record:
        record.label("90-1", 1, by="ann", rating=1)
        (first, origin), *_ = outcomes(3)
        record.add(first.model_copy(update={"stop_reason": "interrupted", "passed": False}), origin)
        assert record.flush(60)
        record.add(first, origin)
        assert record.flush(60)
    assert_sums_agree(url, monkeypatch)
    monkeypatch.setattr("refine.record.writer.now_ms", lambda: BEGIN + 6 * DAY)
    with DatabaseRecord(url, keep_days=3) as record:
        record.check()
        old = OutcomeFilter(until=BEGIN + 3 * DAY)
        for _ in range(3_000):
            if not record.outcomes(old):
                break
            record.flush(0.02)
        assert not record.outcomes(old)
        assert record.outcomes()
        assert record.verify().faults == []
    assert_sums_agree(url, monkeypatch)


def test_of_what_no_sums_know_the_newest_count(url: str) -> None:
    """Those of a user, labelled ones, and those that are searched; what sums answer is counted in full."""
    write(url, 30)
    with DatabaseRecord(url) as record:
        for one in record.outcomes(limit=9, skip=9):
            record.label(one["id"], 1, by="ann", rating=1)
        ids = [one["id"] for one in record.outcomes()]
        chosen: list[tuple[dict[str, Any], list[str]]]
        chosen = [({"user": "ann"}, ids[:4]), ({"text": "no such words"}, []), ({"labelled": "yes"}, ids[9:13])]
        for settings, wanted in chosen:
            where = OutcomeFilter(**settings)
            narrowed = record.newest(where, most=4)
            assert record.newest(where) == where
            assert narrowed.since is not None
            assert [one["id"] for one in record.outcomes(narrowed)] == wanted
        every = OutcomeFilter(refiner="x")
        assert record.newest(every, most=4) == every
        assert record.newest(every, by="user", most=4) != every


def test_an_older_record_is_summed_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then every row is counted; afterwards the sums are those of all, with what came meanwhile.

    What a process of the older version still writes is in none, and nothing is taken away from them when it goes.
    """
    file = tmp_path / "record.db"
    url = f"sqlite:///{file}"
    write(url, 60)
    older(file)
    with DatabaseRecord(url) as record:
        assert record.figures()["outcomes"] == 60
        assert not record.is_summed()
    write(url, 30)
    with DatabaseRecord(url) as record:
        record.check()
        wait_until(record.is_summed, seconds=30)
        record.sum_up()
        assert record.is_summed()
    assert_sums_agree(url, monkeypatch)
    copied = "CREATE TEMP TABLE late AS SELECT * FROM outcome WHERE id = '30-1'"
    late = "UPDATE late SET id = 'late', chain = NULL, at = (SELECT at FROM record_state WHERE name = 'sealed')"
    kept = "SELECT sum(outcomes) FROM record_sums WHERE width = -60000"
    monkeypatch.setattr("refine.record.writer.now_ms", lambda: 2 * BEGIN)
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        for statement in (copied, late, "INSERT INTO outcome SELECT * FROM late"):
            connection.execute(statement)
        assert connection.execute(kept).fetchone() == (90,)
        with DatabaseRecord(url, keep_days=1) as record:
            record.check()
            wait_until(lambda: record.flush(0.02) and not record.outcomes(), seconds=9)
        assert connection.execute(kept).fetchone() == (None,)


def test_sums_of_an_older_process_are_adopted(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without sums of all keys may write, and delete, beside newer ones: the sums agree again soon."""
    write(url, 40)
    with monkeypatch.context() as patch:
        of_both = Sums._places_of

        def only_its_own(self: Sums, values: tuple[Any, ...]) -> set[int]:
            of_both(self, values)
            own_id = ~self._series_of(values)
            self.series = {one: known for one, known in self.series.items() if one >= 0}
            self.series[own_id] = dict(zip(_DIMENSIONS, values, strict=True))
            return {own_id}

        patch.setattr(Sums, "_places_of", only_its_own)
        patch.setattr("refine.record.sums._widths_of", lambda _: (DAY, 3_600_000, 60_000))
        patch.setattr("refine.record.writer.adopt_older", lambda _: None)
        write(url, 30)
        patch.setattr("refine.record.writer.now_ms", lambda: BEGIN + 6 * DAY)
        with DatabaseRecord(url, keep_days=3) as record:
            record.check()
            wait_until(lambda: record.flush(0.02) and not record.outcomes(OutcomeFilter(until=BEGIN + 3 * DAY)))
    older = select(func.count()).where(SERIES.c.id >= 0)
    with monkeypatch.context() as patch, DatabaseRecord(url) as record:
        patch.setattr("refine.record.writer.adopt_older", lambda _: None)
        assert record._read(lambda asked: asked.connection.execute(older).scalar_one()) > 0
        assert record.verify().faults == []
    with DatabaseRecord(url) as record:
        assert record.verify().faults == []
        assert record._read(lambda asked: asked.connection.execute(older).scalar_one()) == 0
    assert_sums_agree(url, monkeypatch)


WHOLE_MINUTE = BEGIN - BEGIN % 60_000
ENDS: list[tuple[int, str, str, list[int | None], float, float | None]] = [
    (0, "x", "accepted", [4], 1.0, 0.25),
    (0, "x", "accepted", [2, 3], 3.0, 0.5),
    (1, "y", "max_attempts", [1], 2.0, None),
    (1, "y", "judge_failed", [None], 4.0, 0.0),
    (2, "y", "generator_failed", [], 0.5, 0.0),
    (2, "y", "broken_off", [2], 5.0, 0.0),
    (3, "y", "left", [], 9.0, 0.0),
    (4, "y", "passed_through", [], 9.0, 0.0),
    (5, "y", "error_502", [], 9.0, 0.0),
]
"""Minute, guard, stop reason, ratings of the attempts, seconds and dollars of each outcome."""


def write_ends(url: str, patch: pytest.MonkeyPatch) -> None:
    """Record an outcome for each end; each attempt takes half a second and an eighth of a dollar."""
    first = SelfRefine(lambda _: "yes", ScriptedJudge([4])).refine("is it?")
    with DatabaseRecord(url) as record:
        for number, (minute, guard, reason, ratings, seconds, cost) in enumerate(ENDS):
            moment = WHOLE_MINUTE + minute * 60_000 + 59_999
            patch.setattr("refine.record.writer.now_ms", lambda moment=moment: moment)
            verdicts = [
                Verdict.without_score("judge_failed", "no reply", judge="a")
                if rating is None
                else Verdict.rated(rating, judge="a", usage=Usage(calls=1, cost=0.0625), latency_s=0.25)
                for rating in ratings
            ]
            attempts = tuple(
                first.attempts[0].model_copy(
                    update={"number": place, "verdict": verdict, "latency_s": 0.5, "usage": Usage(cost=0.125)}
                )
                for place, verdict in enumerate(verdicts, 1)
            )
            update = {"id": f"o{number}", "attempts": attempts, "stop_reason": reason, "latency_s": seconds}
            update |= {"passed": reason == "accepted", "released": len(attempts) or None}
            update["usage"] = Usage(calls=3, input_tokens=10, output_tokens=2, cost=cost)
            origin = Origin(refiner=guard, judge="a", model="m")
            record.add(first.model_copy(update=update), origin)
        assert record.flush(60)


FIGURES: dict[str, Any] = {
    "requests": {"error_502": 1, "left": 1, "passed_through": 1},
    "outcomes": 6,
    "passed": 2,
    "mean_attempts": 1.0,
    "mean_rating": 2.5,
    "calls": 18,
    "input_tokens": 60,
    "output_tokens": 12,
    "cost": 0.75,
    "cost_unknown": 1,
    "latency_p50": 2.0,
    "latency_p95": 5.0,
    "stop_reasons": {"accepted": 2, "broken_off": 1, "generator_failed": 1, "judge_failed": 1, "max_attempts": 1},
    "passed_at": {"1": 1, "2": 1},
    "ratings": {"a": {"unscored": 1, "1": 1, "2": 2, "3": 1, "4": 1}},
}


@pytest.mark.parametrize("few", [-1, 10**9])
def test_figures_are_what_was_written(url: str, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    """Each figure, bucket and row of the table, counted by hand; by sums, and one by one."""
    write_ends(url, monkeypatch)
    monkeypatch.setattr("refine.record.queries._FEW", few)
    with DatabaseRecord(url) as record:
        where = OutcomeFilter(since=WHOLE_MINUTE, until=WHOLE_MINUTE + 6 * 60_000)
        figures = record.figures(where, buckets=6)
        assert record.figures(OutcomeFilter(stop_reason="left"))["outcomes"] == 1
        rows = record.table("refiner", where)
        assert [row["outcomes"] for row in record.table("user", where)] == [6]
        first, *_ = record.attempts()
        assert record.outcomes(OutcomeFilter(since=WHOLE_MINUTE + 59_999, until=WHOLE_MINUTE + 60_000))
        assert not record.outcomes(OutcomeFilter(since=WHOLE_MINUTE, until=WHOLE_MINUTE + 59_999))
    series = figures.pop("series")
    assert figures == {
        **FIGURES,
        **{name: pytest.approx(FIGURES[name], rel=0.02) for name in ("latency_p50", "latency_p95")},
    }
    assert series["width"] == 60_000
    assert [(one["at"] - WHOLE_MINUTE) // 60_000 for one in series["buckets"]] == list(range(7))
    assert [(one["outcomes"], one["passed_at"]) for one in series["buckets"]] == [
        (2, {"1": 1, "2": 1}),
        (2, {}),
        (2, {}),
        *[(0, {})] * 4,
    ]
    names = ("generate_s", "judge_s", "generate_cost", "judge_cost")
    assert [[one.get(name) for name in names] for one in series["buckets"]] == [
        [1.5, 0.75, 0.375, 0.1875],
        [1.0, 0.25, 0.25, 0.0625],
        [0.5, 0.25, 0.125, 0.0625],
        *[[None] * 4] * 4,
    ]
    assert [{name: value for name, value in row.items() if "latency" not in name} for row in rows] == [
        {
            "name": "y",
            "outcomes": 4,
            "passed": 0,
            "unjudged": 1,
            "left": 2,
            "errors": 2,
            "passed_through": 1,
            "mean_attempts": 0.75,
            "cost": 0.0,
        },
        {
            "name": "x",
            "outcomes": 2,
            "passed": 2,
            "unjudged": 0,
            "left": 0,
            "errors": 0,
            "passed_through": 0,
            "mean_attempts": 1.5,
            "cost": 0.75,
        },
    ]
    times = [[row[f"latency_p{share}"] for share in (50, 95)] for row in rows]
    assert times == [pytest.approx([2.0, 5.0], rel=0.02), pytest.approx([1.0, 3.0], rel=0.02)]
    assert first["at"] == "2026-09-21T14:13:59.999+00:00"
