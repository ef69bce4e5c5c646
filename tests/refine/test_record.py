"""The record in a database: what is written, what may be lost, and that no answer waits for it."""

from __future__ import annotations

import json
import logging
import os
import pickle
import re
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage

from graphs import Outcome, Policy
from judges import ConfigurationError, Helpfulness, Judge, Verdict
from judges.offline import read_rows
from judges.testing import ScriptedJudge, ScriptedModel
from judges.verdict import Usage
from refine import losses
from refine.middleware import SelfRefineMiddleware
from refine.record import DatabaseRecord, Origin, OutcomeFilter, open_record
from refine.record.rows import Record
from tests.guarding import wait_until
from tests.postgres import Cluster
from tests.refine.records import command, refiner, run_sql
from tests.snippets import ROOT

OUTAGE_S = float(os.environ.get("REFINE_OUTAGE_S", "1.5"))
"""Seconds that the database is stopped under load; the figure of the documentation is 30."""


def balanced(record: DatabaseRecord) -> bool:
    """Whether every outcome is accounted for."""
    stats = record.stats()
    return stats.offered == stats.written + stats.queued + stats.lost


def test_everything_of_an_outcome_is_there(url: str) -> None:
    """Figures, policy, origin and texts of an outcome and its attempts come back as they were."""
    evidence = {"retrieved_contexts": ["a context"], "metadata": {"question_id": "q7"}}
    with DatabaseRecord(url, texts=True) as record:
        asked = refiner(record, (1, "say more"), 4, max_attempts=4, patience=3, name="helpdesk")
        outcome = asked.refine([("system", "be brief"), ("user", "what is git?")], evidence=evidence)
        assert record.flush()
        row = record.outcome(outcome.id)
        assert row is not None
        assert record.outcome("no such id") is None
        assert {**record.outcomes()[0], "labels": 0}["question"] == "what is git?"
    expected = {
        "refiner": "helpdesk",
        "question_id": "q7",
        "judge": "scripted",
        "success_rating": 3,
        "max_attempts": 4,
        "patience": 3,
        "shadow": False,
        "passed": True,
        "stop_reason": "accepted",
        "rating": 4,
        "released": 2,
        "question": "what is git?",
        "latency_s": outcome.latency_s,
        "calls": outcome.usage.calls,
        "evidence": outcome.evidence,
    }
    assert {name: row[name] for name in expected} == expected
    assert [message["role"] for message in row["conversation"]] == ["system", "user"]
    assert len(row["policy_digest"]) == len(row["judge_digest"]) == 32
    assert [(one["number"], one["released"], one["rating"], one["draft"]) for one in row["attempts"]] == [
        (1, False, 1, "a draft"),
        (2, True, 4, "a draft 2"),
    ]
    assert [one["feedback"] for one in row["attempts"]] == ["say more", ""]
    assert row["attempts"][0]["generate_s"] == outcome.attempts[0].latency_s


def test_without_leave_no_text_is_stored(url: str) -> None:
    """A URL alone records figures; not one word of question, draft, feedback or evidence is in the database."""
    asked = refiner(url, (1, "SECRET feedback"), 4, draft="SECRET draft")
    outcome = asked.refine("SECRET question?", evidence={"reference": "SECRET reference"})
    with DatabaseRecord(url) as record:
        record.check()
        for _ in range(100):
            if record.outcome(outcome.id):
                break
            time.sleep(0.02)
        assert "SECRET" not in json.dumps(record.outcome(outcome.id))
        assert record.outcomes()[0]["rating"] == 4
        with pytest.raises(ConfigurationError, match="recorded without texts"):
            list(record.rows())


def test_texts_are_redacted_before_they_are_stored(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Every text passes the hooks in order; where one fails, figures alone are stored, and it is said once."""
    hide = [lambda text: text.replace("ann@x.org", "<mail>"), str.upper]
    conversation = [("user", "I am ann@x.org"), ("ai", "Hello ann@x.org"), ("user", "mail me: ann@x.org")]
    with DatabaseRecord(url, texts=True, redact=hide) as record:
        asked = refiner(record, (1, "tell ann@x.org"), 4, draft="sent to ann@x.org")
        outcome = asked.refine(conversation, evidence={"retrieved_contexts": ["ann@x.org"]})
        assert record.flush()
        stored = json.dumps(record.outcome(outcome.id))
    assert "ann@" not in stored.lower()
    assert stored.count("<MAIL>") >= 7
    broken: list[Callable[[str], Any]] = [lambda text: text / 2, lambda text: None]  # type: ignore[operator]
    for number, redact in enumerate(broken, 2):
        with DatabaseRecord(url, texts=True, redact=redact) as record:
            for _ in range(3):
                refiner(record).invoke("SECRET")
            assert record.flush()
            assert record.stats().without_texts == 3
            assert len(record.outcomes()) == 1 + 3 * (number - 1)
            assert "SECRET" not in json.dumps(record.outcomes())
    assert caplog.text.count("without texts") == 2
    assert "SECRET" not in caplog.text


POISON = {
    "nul": {"draft": "a\x00b"},
    "surrogate": {"draft": "a\ud83db"},
    "long": {"draft": "x" * 3_000_000},
    "nan": {"usage": Usage.model_construct(cost=float("nan"), calls=1, input_tokens=0, output_tokens=0)},
    "number": {"usage": Usage(calls=10**30, input_tokens=10**30)},
    "name": {"model": "m" * 100_000},
    "evidence": {"evidence": {"metadata": {"x": float("inf"), "\ud83d": ["\x00"], "when": date(2026, 1, 2)}}},
    "deep": {"evidence": {"metadata": json.loads("[" * 120 + "]" * 120)}},
}


def poisoned(
    good: Outcome, *, draft: str = "ok", usage: Usage | None = None, model: str = "m", **outcome: Any
) -> Outcome:
    """Make an outcome with something in it that databases refuse."""
    first = good.attempts[0]
    answer = first.answer.model_copy(update={"content": draft, "response_metadata": {"model_name": model}})
    verdict = Verdict.rated(2, judge=model, rationale=draft, usage=usage or Usage())
    attempt = first.model_copy(update={"answer": answer, "verdict": verdict, "usage": usage or Usage()})
    update = {"attempts": (attempt,), "usage": usage or Usage(), "detail": draft, **outcome}
    return good.model_copy(update=update)


def test_poison_is_cleaned_at_the_door(url: str) -> None:
    """NUL, half a surrogate, NaN, huge numbers and long names are written, cleaned, beside what was fine."""
    good = refiner(None).refine("what?")
    with DatabaseRecord(url, texts=True) as record:
        for name, poison in POISON.items():
            record.add(poisoned(good, **poison).model_copy(update={"id": name}), Origin(refiner="r\x00"))  # type: ignore[arg-type]
            record.add(good.model_copy(update={"id": f"beside {name}"}))
        record.add(good.model_copy(update={"id": "i" * 100_000}))
        assert record.flush()
        assert record.stats().written == 2 * len(POISON) + 1
        assert balanced(record)
        first = {name: (record.outcome(name) or {})["attempts"][0] for name in POISON}
        assert first["nul"]["draft"] == first["surrogate"]["draft"] == "a\ufffdb"
        assert first["long"]["draft"] == f"{'x' * 999_994} [...]"
        assert first["name"]["model"] == f"{'m' * 194} [...]"
        assert (first["number"]["calls"], first["nan"]["cost"]) == (2**63 - 1, None)
        cleaned, deep = (record.outcome(name) or {} for name in ("evidence", "deep"))
        assert cleaned["evidence"]["metadata"] == {"x": None, "\ufffd": ["\ufffd"], "when": "2026-01-02"}
        assert json.dumps(deep["evidence"]).count("[") == 100


def test_a_row_that_the_database_refuses_goes_alone(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Of a batch in which some rows break a rule of the database's owner, exactly those are lost, and counted."""
    good = refiner(None).refine("what?")
    with DatabaseRecord(url) as record:
        record.check()
        if url.startswith("sqlite"):
            run_sql(
                url,
                "CREATE TRIGGER no BEFORE INSERT ON outcome WHEN NEW.id LIKE 'bad%' "
                "BEGIN SELECT RAISE(ABORT, 'no'); END",
            )
        else:
            run_sql(url, "ALTER TABLE outcome ADD CONSTRAINT no CHECK (id NOT LIKE 'bad%')")
        before = losses()["outcomes"]
        for number in range(300):
            bad = number in {0, 17, 18, 299}
            record.add(good.model_copy(update={"id": f"{'bad' if bad else 'good'} {number}"}))
        assert record.flush(10)
        stats = record.stats()
        assert (stats.offered, stats.written, stats.lost, stats.lost_refused) == (300, 296, 4, 4)
    assert losses()["outcomes"] - before == 4
    assert run_sql(url, "SELECT count(*) FROM outcome") == [(296,)]
    assert run_sql(url, "SELECT count(*) FROM attempt") == [(296,)]
    assert "outcomes so far could not be written" in caplog.text


def test_an_outcome_is_written_once(url: str) -> None:
    """Handed over twice, in one batch or in two records, it is there once; a reviewed turn replaces its draft."""
    good = refiner(None, 1, 4).refine("what?")
    waiting = good.model_copy(
        update={"stop_reason": "interrupted", "passed": False, "id": "reviewed", "released": None}
    )
    with DatabaseRecord(url) as record, DatabaseRecord(url) as other:
        for target in (record, other):
            for _ in range(3):
                target.add(good)
                target.add(waiting)
            assert target.flush()
        record.add(good.model_copy(update={"id": "reviewed"}))
        assert record.flush()
        other.add(waiting)  # handed over again, too late
        assert other.flush()
        assert {row["id"]: row["passed"] for row in record.outcomes()} == {good.id: True, "reviewed": True}
    assert run_sql(url, "SELECT count(*) FROM attempt") == [(4,)]


async def test_every_entrance_records(url: str) -> None:
    """Sync and async, invoke and refine, answers and errors: one outcome each, within 0.05 s of the event loop."""
    with DatabaseRecord(url) as record:
        asked = refiner(record)
        failing = refiner(record, draft="")
        asked.invoke("?")
        await asked.ainvoke("?")
        await asked.arefine("?")
        asked.batch(["?"] * 5)
        assert list(asked.stream("?"))
        for _ in range(2):
            assert failing.refine("?").stop_reason == "generator_failed"
        assert record.flush()
        assert record.figures()["stop_reasons"] == {"accepted": 9, "generator_failed": 2}


def test_the_database_stops_under_load(postgres: Cluster) -> None:
    """While it is stopped answers go on; what the queue holds is written later, the rest is counted exactly."""
    name = postgres.make_database("outage")
    good = refiner(None).refine("what?")
    slowest = 0.0
    with DatabaseRecord(name, max_queue=300) as record:
        record.check()

        def load(seconds: float) -> None:
            nonlocal slowest
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                number = record.stats().offered
                started = time.thread_time()
                record.add(good.model_copy(update={"id": f"{number:06}"}))
                slowest = max(slowest, time.thread_time() - started)
                time.sleep(0.001)

        load(0.3)
        postgres.stop()
        load(OUTAGE_S)
        for _ in range(50):  # a busy machine offers fewer than the queue holds
            if not record.stats().lost_full:
                load(0.2)
        during = record.stats()
        assert during.failing
        assert balanced(record)
        postgres.start()
        load(0.3)
        assert record.flush(20)
        wait_until(lambda: not record.stats().failing)  # old outcomes are deleted after the last batch is written
        stats = record.stats()
    assert stats.queued == 0
    assert stats.lost == stats.lost_full > 0
    assert stats.offered == stats.written + stats.lost
    assert run_sql(name, "SELECT count(*) FROM outcome") == [(stats.written,)]
    assert slowest < 0.02


def test_a_database_that_never_answers_costs_nothing_but_rows(caplog: pytest.LogCaptureFixture) -> None:
    """Answers go out, closing takes no longer than it says, all is counted, and the log shows no password."""
    before = losses()["outcomes"]
    with DatabaseRecord("postgresql://me:hunter2@127.0.0.1:1/x") as record:
        asked = refiner(record)
        assert [answer.text for answer in asked.batch(["?"] * 20)] == ["a draft"] * 20
        with pytest.raises(ConfigurationError, match="cannot be used"):
            record.check()
        record.close(0.3)
        asked.invoke("?")
        stats = record.stats()
    assert (stats.offered, stats.lost_closed, stats.queued) == (21, 21, 0)
    assert losses()["outcomes"] - before == 21
    assert re.search(r"the database fails \(.*refused", caplog.text)
    assert "could not be written: the record was closed" in caplog.text
    assert "hunter2" not in caplog.text + repr(record)


def test_a_full_disk_and_a_locked_file_only_delay(tmp_path: Path) -> None:
    """While another program holds the file outcomes wait, and are written as soon as it lets go."""
    url = f"sqlite:///{tmp_path}/record.db"
    with DatabaseRecord(url) as record:
        record.check()
        other = sqlite3.connect(tmp_path / "record.db", isolation_level=None)
        other.execute("PRAGMA max_page_count = 1")
        other.execute("BEGIN EXCLUSIVE")
        refiner(record).batch(["?"] * 5)
        assert not record.flush(0.3)
        other.execute("ROLLBACK")
        other.close()
        assert record.flush(10)
        assert record.stats().written == 5


def test_the_end_of_the_process_writes_what_is_queued(tmp_path: Path) -> None:
    """A script that just ends leaves all its outcomes, as do its children, forked while it writes."""
    script = f"""
import os
from judges.testing import ScriptedJudge
from refine import SelfRefine
from refine.record import DatabaseRecord
record = DatabaseRecord("sqlite:///{tmp_path}/record.db")
asked = SelfRefine(lambda _: "draft", ScriptedJudge([4], cycle=True), record=record)
children = []
for _ in range(5):
    asked.batch(["?"] * 20)
    child = os.fork()
    if not child:
        asked.invoke("?")
        break
    children.append(child)
else:
    for child in children:
        os.waitpid(child, 0)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, cwd=ROOT, timeout=60)
    assert run_sql(f"sqlite:///{tmp_path}/record.db", "SELECT count(*) FROM outcome") == [(105,)]


def test_a_record_that_nobody_holds_leaves_no_thread(tmp_path: Path) -> None:
    """A refiner made for one question ends its thread when it is dropped, with everything written."""
    for number in range(3):
        refiner(f"sqlite:///{tmp_path}/record.db").invoke(str(number))
    deadline = time.monotonic() + 10
    while any(thread.name == "refine-record" for thread in threading.enumerate()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [thread for thread in threading.enumerate() if thread.name == "refine-record"]
    with DatabaseRecord(f"sqlite:///{tmp_path}/record.db") as record:
        assert record.figures()["outcomes"] == 3


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    """Database and journals are private, whatever the umask says."""
    before = os.umask(0)
    try:
        with DatabaseRecord(f"sqlite:///{tmp_path}/record.db") as record:
            record.check()
            other = sqlite3.connect(tmp_path / "record.db")  # while it is open, the journals stay
            other.execute("SELECT * FROM outcome").fetchall()
            refiner(record).invoke("?")
            assert record.flush()
            assert len(list(tmp_path.iterdir())) == 3
            assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}
            other.close()
    finally:
        os.umask(before)


def test_old_outcomes_are_deleted(url: str) -> None:
    """Outcomes, attempts and labels older than `keep_days` go, 1,000 at a time; younger ones stay."""
    good = refiner(None).refine("what?")
    with DatabaseRecord(url) as record:
        for number in range(2_100):
            record.add(good.model_copy(update={"id": str(number)}))
        assert record.flush(20)
        record.label("7", 1, by="me", rating=2)
        run_sql(url, "UPDATE outcome SET at = at - 9 * 86400000 WHERE id NOT LIKE '1%9'")
        left = run_sql(url, "SELECT count(*) FROM outcome WHERE id LIKE '1%9'")
    with DatabaseRecord(url, keep_days=8.5) as record:
        record.check()
        deadline = time.monotonic() + 10
        while run_sql(url, "SELECT count(*) FROM outcome") != left and time.monotonic() < deadline:
            time.sleep(0.02)
    assert run_sql(url, "SELECT count(*) FROM outcome") == run_sql(url, "SELECT count(*) FROM attempt") == left
    assert run_sql(url, "SELECT count(*) FROM label") == [(0,)]


def test_rows_are_a_dataset(url: str, tmp_path: Path) -> None:
    """What is exported reads back as the attempts' own samples, with ids and labels in the metadata."""
    out = tmp_path / "rows.jsonl"
    with DatabaseRecord(url, texts=True) as record:
        evidence = {"reference": "truth", "retrieved_contexts": ["c"], "metadata": {"topic": "git"}}
        outcome = refiner(record, (1, "more"), 4).refine(
            [("user", "a"), ("ai", "b"), ("user", "c?")], evidence=evidence
        )
        refiner(record).invoke("later?")
        assert record.flush()
        record.label(outcome.id, 2, by="ann", rating=1, note="no")
        rows = list(record.rows(OutcomeFilter(text="C?")))
        assert len(list(record.rows(OutcomeFilter(text="DRAFT 2")))) == 2
        assert len(list(record.rows())) == 3
    out.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    samples = list(read_rows(out))
    bare = [one.model_copy(update={"metadata": {}}) for one in samples]
    assert bare == [one.model_copy(update={"metadata": {}}) for one in outcome.samples()]
    assert [one.metadata["rating"] for one in samples] == [1, 4]
    assert samples[1].metadata["labels"] == [{"by": "ann", "rating": 1, "note": "no"}]
    assert (samples[0].metadata["outcome_id"], samples[0].metadata["topic"]) == (outcome.id, "git")


def test_labels(url: str) -> None:
    """One opinion a person and attempt; the filter finds what is unlabelled, and where people and judge differ."""
    with DatabaseRecord(url) as record:
        first, second, third = (refiner(record, rating, max_attempts=1).refine("?").id for rating in (4, 1, 3))
        assert record.flush()
        record.label(first, 1, by="ann", rating=2)
        record.label(first, 1, by=" ann ", rating=4, up=True)
        record.label(first, 1, by="bob", note="fine")
        record.label(second, 1, by="bob", up=True)
        row = record.outcome(first)
        assert row is not None
        assert [(one["by"], one["rating"], one["up"]) for one in row["labels"]] == [
            ("ann", 4, True),
            ("bob", None, None),
        ]
        found = {
            which: {one["id"] for one in record.outcomes(OutcomeFilter(labelled=which))}
            for which in ("no", "yes", "disagree")
        }
        assert found == {"no": {third}, "yes": {first, second}, "disagree": {second}}
        record.label(second, 1, by="bob")
        assert record.outcomes(OutcomeFilter(labelled="disagree")) == []
        by_score = refiner(record, 3, max_attempts=1, success_score=0.9).refine("?").id
        assert record.flush()
        for up, differing in ((True, [by_score]), (False, [])):
            record.label(by_score, 1, by="ann", up=up)
            assert [one["id"] for one in record.outcomes(OutcomeFilter(labelled="disagree"))] == differing
        shadowed = refiner(None, 4).refine("?")
        shadow = shadowed.attempts[0].model_copy(
            update={"number": 2, "verdict": Verdict.scored(0.9, threshold=0.5)}
        )
        record.add(shadowed.model_copy(update={"attempts": (*shadowed.attempts, shadow)}))
        assert record.flush()
        for up, differing in ((False, [shadowed.id]), (True, [])):
            record.label(shadowed.id, 2, by="ann", up=up)
            assert [one["id"] for one in record.outcomes(OutcomeFilter(labelled="disagree"))] == differing
        wrong: dict[str, Any]
        for wrong, fault in (
            ({"rating": 5}, "1, 2, 3 or 4, not 5"),
            ({"rating": True}, "1, 2, 3 or 4, not True"),
            ({"up": 1}, "true or false, not 1"),
            ({"split": "dev"}, "tune, certify or report, not 'dev'"),
            ({"number": 2}, "no attempt 2 of outcome"),
            ({"by": " "}, "by whom it is, not ' '"),
            ({"outcome": "none"}, "of outcome 'none'"),
        ):
            with pytest.raises(ConfigurationError, match=fault):
                record.label(**{"outcome": first, "number": 1, "by": "ann", "rating": 1, **wrong})  # type: ignore[arg-type]


def test_figures_and_filters(url: str) -> None:
    """Sums, pass-at-attempt, ratings by judge and the series agree with what was asked."""
    with DatabaseRecord(url) as record:
        for ratings in ((4,), (1, 4), (2, 2, 2), (OSError(),)):
            refiner(record, *ratings, name=f"n{len(ratings)}").invoke("?")
        assert record.flush()
        figures = record.figures()
        assert (figures["outcomes"], figures["passed"]) == (4, 2)
        assert figures["passed_at"] == {"1": 1, "2": 1}
        assert figures["ratings"] == {"scripted": {"1": 1, "2": 3, "4": 2, "unscored": 1}}
        assert sum(bucket["outcomes"] for bucket in figures["series"]["buckets"]) == 4
        assert figures["latency_p50"] <= figures["latency_p95"]
        week = [record.figures(OutcomeFilter(since=1, passed=passed))["series"] for passed in (True, False)]
        assert [(series["width"], len(series["buckets"]) <= 48) for series in week] == [(10_000, True)] * 2
        assert record.choices()["stop_reason"] == ["accepted", "judge_failed", "max_attempts"]

        def count(**where: Any) -> int:
            return len(record.outcomes(OutcomeFilter(**where)))

        assert [count(passed=True), count(passed=False), count(rating=2), count(stop_reason="judge_failed")] == [
            2,
            2,
            1,
            1,
        ]
        assert [count(refiner="n1"), count(since=0), count(until=1), count(judge="none")] == [2, 4, 0, 0]
        page = record.outcomes(limit=3)
        rest = record.outcomes(limit=3, before=(page[-1]["at"], page[-1]["id"]))
        assert len({row["id"] for row in (*page, *rest)}) == 4
        empty = record.figures(OutcomeFilter(refiner="nobody"))
        assert (empty["outcomes"], empty["latency_p95"], empty["series"]) == (
            0,
            None,
            {"width": None, "buckets": []},
        )
    assert OutcomeFilter.read({"passed": "false", "rating": "3", "text": ""}) == OutcomeFilter(
        passed=False, rating=3
    )
    for wrong, remedy in (
        ({"rating": "5"}, "rating"),
        ({"pased": "1"}, "there are id, passed"),
        ({"since": "x"}, "since"),
    ):
        with pytest.raises(ConfigurationError, match=remedy):
            OutcomeFilter.read(wrong)


def test_tables_of_others_are_left_alone(url: str, tmp_path: Path) -> None:
    """Another program's tables, those of a later version and what is no database are refused; answers go out."""
    run_sql(url, "CREATE TABLE label (colour TEXT)")
    with DatabaseRecord(url) as record:
        with pytest.raises(ConfigurationError, match="another program"):
            record.check()
        assert refiner(record).invoke("?").text == "a draft"
        record.close(0.2)
        assert record.stats().lost == 1
    run_sql(url, "DROP TABLE label")
    with DatabaseRecord(url) as record:
        record.check()
    run_sql(url, "UPDATE meta SET version = 99")
    with pytest.raises(ConfigurationError, match="newer version"), DatabaseRecord(url) as record:
        record.check()
    file = tmp_path / "notes.db"
    file.write_text("my notes, " * 1_000)
    with pytest.raises(ConfigurationError, match="not a database"), DatabaseRecord(f"sqlite:///{file}") as record:
        record.check()
    assert file.read_text().startswith("my notes")


def test_where_a_record_may_be(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Paths, URLs in several spellings and objects are understood; anything else is one line with the remedy."""
    for name in (
        "a.db",
        "a.sqlite3",
        f"sqlite:///{tmp_path}/b.db",
        "postgres://h/d",
        "postgresql+psycopg://u@h/d",
    ):
        place = name if "://" in name else str(tmp_path / name)
        assert isinstance(open_record(place), DatabaseRecord)
    assert type(open_record(tmp_path / "a.jsonl")).__name__ == "Record"
    for wrong, told in (
        ("mysql://u:hunter2@h/d", "a record in 'mysql' is not supported"),
        ("sqlite://", "a file in a folder that exists, .* not ':memory:'"),
        (f"sqlite:///{tmp_path}", "a file in a folder that exists"),
        ("sqlite:////no/such/r.db", "a file in a folder that exists"),
        ("://", "record is no URL that can be read"),
        (7, "not 7"),
        (object(), "record is a path, a URL such as"),
    ):
        with pytest.raises(ConfigurationError, match=told) as refusal:
            open_record(wrong)
        assert "hunter2" not in str(refusal.value)
        assert "\n" not in str(refusal.value)
    with pytest.raises(ConfigurationError, match="keep_days"):
        DatabaseRecord("sqlite:///a.db", keep_days=0)
    with pytest.raises(ConfigurationError, match="is the path of a file, not 7"):
        Record(7)  # type: ignore[arg-type]

    class Faulty:
        def add(self, outcome: Outcome, origin: Origin) -> None:
            raise OSError("SECRET")

    before = losses()["outcomes"]
    assert refiner(Faulty()).invoke("?").text == "a draft"
    assert losses()["outcomes"] - before == 1
    assert "could not be written to the record Faulty: OSError" in caplog.text
    assert "SECRET" not in caplog.text


def test_records_travel(tmp_path: Path) -> None:
    """A record is pickled as its settings, with a refiner too; one with a password is not."""
    record = pickle.loads(pickle.dumps(DatabaseRecord(f"sqlite:///{tmp_path}/r.db", texts=True, keep_days=3)))  # noqa: S301 - our own
    assert record.texts
    with pytest.raises(ConfigurationError, match="password"):
        pickle.dumps(DatabaseRecord("postgresql://u:p@h/d"))


def test_the_queue_is_bounded_in_characters(tmp_path: Path) -> None:
    """A few huge outcomes fill the queue, so that an outage cannot fill the memory."""
    with DatabaseRecord("postgresql://me@127.0.0.1:1/x", max_queue_characters=100_000) as record:
        asked = refiner(record, draft="x" * 40_000)
        for _ in range(9):
            asked.invoke("?")
        assert record.stats().lost_full >= 5
        assert balanced(record)
        record.close(0)


def test_judges_and_policies_have_digests() -> None:
    """A digest changes with a setting of the policy or the judge's model, and with nothing else."""

    def digests(judge: Judge, **settings: Any) -> tuple[str, str]:
        origin = Origin.of("name", judge, Policy(**settings))
        return origin.judge_digest, origin.policy_digest

    model, other = ScriptedModel(["x"]), ScriptedModel(["x"], name="another")
    assert digests(Helpfulness(model)) == digests(Helpfulness(model))
    judge, policy = digests(Helpfulness(other), success_rating=4)
    assert judge != digests(Helpfulness(model))[0]
    assert policy != digests(Helpfulness(model))[1]


@pytest.fixture(autouse=True)
def _warnings(caplog: pytest.LogCaptureFixture) -> None:
    """Collect what the log shows."""
    caplog.set_level(logging.WARNING, logger="refine")


def test_the_command_exports_rows_that_evaluate_reads(tmp_path: Path) -> None:
    """`refine export` writes a private dataset, `refine evaluate` judges it; mistakes are one line."""
    url, rows = f"sqlite:///{tmp_path}/record.db", tmp_path / "rows.jsonl"
    with DatabaseRecord(url, texts=True) as record:
        refiner(record, 1, 4).invoke("what?")
        refiner(record, 2, max_attempts=1).invoke("why?")

    def refine(*words: object) -> tuple[int, str]:
        result = command(*words)
        return result.exit_code, result.stderr.strip()

    assert refine("export", url, "--out", rows, "--where", "since=1h") == (0, f"3 rows in {rows}")
    assert stat.S_IMODE(rows.stat().st_mode) == 0o600
    assert refine("evaluate", rows, "--judge", "length:at_most=80", "--out", tmp_path / "run")[0] == 0
    assert "already" in refine("export", url, "--out", rows)[1]
    assert refine("export", url, "--where", "passed=false")[0] == 0
    assert refine("export", url, "--where", "until=9d", "--out", tmp_path / "none.jsonl") == (
        1,
        f"0 rows in {tmp_path}/none.jsonl",
    )
    assert not (tmp_path / "none.jsonl").exists()
    for wrong in (
        ["--where", "passed"],
        ["--where", "passd=1"],
        ["--where", "since=soon"],
        ["--where", "rating=9"],
    ):
        code, line = refine("export", url, *wrong)
        assert code == 2
        assert "\n" not in line
    assert refine("export", rows)[0] == 2
    assert "there is no record" in refine("export", tmp_path / "typo.db")[1]
    assert not (tmp_path / "typo.db").exists()


def test_an_export_in_every_form_is_read_back_alike(tmp_path: Path) -> None:
    """Conversations and metadata stand as JSON in the cells of a table, and are data again for every command."""
    url = f"sqlite:///{tmp_path}/record.db"
    with DatabaseRecord(url, texts=True) as record:
        refiner(record, 1, 4).invoke([("human", "hi"), ("ai", "hello"), ("human", "what?")])
    exported = {}
    for suffix in (".jsonl", ".csv", ".parquet"):
        file = tmp_path / f"rows{suffix}"
        assert command("export", url, "--out", file).exit_code == 0
        exported[suffix] = [row.model_dump(exclude={"metadata": {"seal"}}) for row in read_rows(file)]
    assert exported[".jsonl"][0]["user_input"][1]["content"] == "hello"
    assert exported[".jsonl"] == exported[".csv"] == exported[".parquet"]


async def test_an_agent_with_the_middleware_records(tmp_path: Path) -> None:
    """Each turn of an agent is an outcome, sync and async, named after the middleware."""
    url = f"sqlite:///{tmp_path}/record.db"
    with DatabaseRecord(url) as record:
        judge = ScriptedJudge([1, 4], cycle=True)
        agent = create_agent(
            ScriptedModel(["a", "b"], cycle=True),
            middleware=[SelfRefineMiddleware(judge, record=record, name="mw")],
        )
        question = HumanMessage("?")
        agent.invoke({"messages": [question]})
        await agent.ainvoke({"messages": [question]})
        assert record.flush()
        assert [(row["refiner"], row["attempts"], row["passed"]) for row in record.outcomes()] == [
            ("mw", 2, True)
        ] * 2
