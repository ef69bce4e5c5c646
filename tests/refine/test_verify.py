"""Seals of a record: whatever is changed, dropped or put elsewhere is found, and nothing else is."""

# ruff: noqa: S608

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, select, update

from graphs import Outcome
from judges import ConfigurationError
from judges.testing import ScriptedJudge
from refine import SelfRefine
from refine.record import DatabaseRecord
from refine.record.database import _read_url
from refine.record.schema import ANCHOR, ATTEMPT, OUTCOME, SEAL, SERIES, SUMS, TALLY
from tests.guarding import wait_until
from tests.refine.records import command, older, run_sql

TAMPERS = int(os.environ.get("REFINE_TAMPERS", "100"))
"""Tampers that are tried; the figure of the documentation is 1,000."""


def answered(count: int, *, of: str = "o") -> list[Outcome]:
    """Return outcomes of two attempts each, with texts that are hard to keep as they are."""
    judge = ScriptedJudge([(2, "Say Ωmore \U0001f600\r\n"), 4], cycle=True)
    asked = SelfRefine(lambda _: 'a "draft",\n\twith \\ and null', judge)
    first = asked.refine([("system", "be brief"), ("user", "what is -0.0?")], evidence={"reference": "x"})
    return [first.model_copy(update={"id": f"{of}{number}", "latency_s": number / 7}) for number in range(count)]


def fill(url: str, count: int = 20, *, writers: int = 2, **settings: Any) -> None:
    """Record outcomes from several writers, in turns."""
    for writer in range(writers):
        with DatabaseRecord(url, texts=True, **settings) as record:
            for one in answered(count, of=f"w{writer}-"):
                record.add(one)
            assert record.flush(60)


def faults(url: str, heads: Any = None) -> list[str]:
    """Return what is not as it was written."""
    with DatabaseRecord(url) as record:
        return record.verify(heads).faults


def test_an_untouched_record_is_as_it_was_written(url: str) -> None:
    """Texts, floats and JSON come back as they were sealed, from two writers, and labels break nothing."""
    fill(url)
    with DatabaseRecord(url) as record:
        record.label("w0-3", 2, by="ann", rating=1)
        found = record.verify()
    assert (found.faults, found.sealed, found.unsealed, found.chains) == ([], 40, 0, 2)


def test_every_random_tamper_is_found(tmp_path: Path) -> None:
    """Any value of any table of the chains changed, a row dropped, doubled or swapped: none passes unseen."""
    whole = tmp_path / "whole.db"
    fill(f"sqlite:///{whole}", 12)
    with sqlite3.connect(whole) as connection:  # so that one file is all of it
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    chance = random.Random(20)
    unseen = []
    for number in range(TAMPERS):
        copy = tmp_path / "copy.db"
        for left in tmp_path.glob("copy.db*"):
            left.unlink()
        shutil.copy(whole, copy)
        what = tamper(copy, chance)
        if not faults(f"sqlite:///{copy}"):
            unseen.append((number, what))
    assert unseen == []


def tamper(file: Path, chance: random.Random) -> str:
    """Change something in a record, and say what."""
    with sqlite3.connect(file) as connection:
        table = chance.choice(["outcome"] * 4 + ["attempt"] * 4 + ["record_anchor"])
        rows = [row for (row,) in connection.execute(f"SELECT rowid FROM {table} ORDER BY rowid")]
        row, other = chance.sample(rows, 2)
        columns = [column for _, column, *_ in connection.execute(f"PRAGMA table_info({table})")]
        names = [name for name in columns if name != "rowid"]
        way = chance.choice(["change"] * 4 + ["drop", "swap", "double"])
        if way == "drop":
            connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (row,))
        elif way == "swap":
            name = chance.choice([name for name in ("draft", "question", "latency_s", "hash") if name in names])
            one, two = (value_of(connection, table, name, which) for which in (row, other))
            changed = [(one, other), (two, row)] if one != two else [("swapped", row), (two, other)]
            connection.executemany(f"UPDATE {table} SET {name} = ? WHERE rowid = ?", changed)
        elif way == "double" and table != "record_anchor":
            key = "id" if table == "outcome" else "number"
            copied = ", ".join(f"{name} || '9'" if name == key else name for name in names)
            connection.execute(f"INSERT INTO {table} SELECT {copied} FROM {table} WHERE rowid = ?", (row,))
        else:
            name = chance.choice(names)
            before = value_of(connection, table, name, row)
            after = before + 1 if isinstance(before, int | float) else f"{before or ''}x"
            if name in {"passed", "shadow", "released", "rated_natively", "keyed"}:
                after = 1 - int(before or 0)
                after = chance.choice([after, 2 if before else after])
            elif before is None and name in {"score", "cost", "rating", "judge_cost", "patience"}:
                after = 1
            elif before is None and name in {"continuation_probability", "judge_s", "generate_s", "latency_s"}:
                after = 0.5
            connection.execute(f"UPDATE OR REPLACE {table} SET {name} = ? WHERE rowid = ?", (after, row))
            way = f"{way} of {name} from {before!r} to {after!r}"
    connection.close()
    return f"{way} in {table}, row {row}"


def value_of(connection: sqlite3.Connection, table: str, name: str, row: int) -> Any:
    """Return one value of a table."""
    return connection.execute(f"SELECT {name} FROM {table} WHERE rowid = ?", (row,)).fetchone()[0]


def test_what_is_dropped_changed_or_cut_off_is_named(url: str) -> None:
    """The middle, the end and all of a chain; an outcome, an attempt, an anchor."""
    fill(url, 6, writers=3)
    with DatabaseRecord(url) as record:
        chains = [record.outcome(f"w{writer}-0") for writer in range(3)]
    names = [chain["chain"] for chain in chains if chain]
    cases = {
        "UPDATE attempt SET draft = 'mine' WHERE outcome = 'w0-1' AND number = 1": "w0-1 was changed",
        "DELETE FROM outcome WHERE id = 'w0-2'": "outcomes 3 to 3",
        "DELETE FROM attempt WHERE outcome = 'w0-4' AND number = 2": "w0-4 was changed",
        "DELETE FROM outcome WHERE id = 'w0-5'": "its end, are missing",
        f"DELETE FROM record_anchor WHERE chain = '{names[1]}'": "chain number 2 is missing",
        "INSERT INTO outcome (id, at, passed, stop_reason, attempts) VALUES ('x', 1, true, '', 0)": "have no seal",
        "UPDATE record_anchor SET number = 2147483647 WHERE number = 3": "chain number 3 is missing",
        f"DELETE FROM record_anchor WHERE chain = '{names[2]}'": f"the anchor of chain {names[2][:8]} is missing",
    }
    for statement, fault in cases.items():
        run_sql(url, statement)
        assert any(fault in one for one in faults(url)), (statement, faults(url))


def test_sums_that_are_not_those_of_the_outcomes_are_named(url: str) -> None:
    """A sum, a tally or a series that is changed, dropped or added, at any width of time, is found."""
    fill(url, 6)
    hour = "SELECT min(start) FROM record_sums WHERE width = -3600000"
    cases = {
        "UPDATE record_sums SET outcomes = outcomes + 1 WHERE width = -60000": "00 UTC are not those",
        "UPDATE record_sums SET cost = cost - 1 WHERE width = -3600000": "00 UTC are not those",
        "DELETE FROM record_sums WHERE width = -86400000": "are not those",
        "UPDATE record_tally SET value = value + 1 WHERE judge <> ''": "are not those",
        f"DELETE FROM record_tally WHERE judge = '' AND start = ({hour})": "00 UTC are not those",
        "INSERT INTO record_tally VALUES (86400000, 86400000, 1, '', 1, 1)": "the sums of 1970-01-02 are not",
        "UPDATE record_series SET stop_reason = 'mine'": "a series of the sums was changed",
        "DELETE FROM record_series": "a series of the sums of",
    }
    engine = create_engine(_read_url(url))
    for statement, fault in cases.items():
        assert faults(url) == []
        with engine.connect() as connection:
            kept = {table: connection.execute(select(table)).mappings().all() for table in (SUMS, TALLY, SERIES)}
        run_sql(url, statement)
        assert any(fault in one for one in faults(url)), (statement, faults(url))
        with engine.begin() as connection:
            for table, rows in kept.items():
                connection.execute(table.delete())
                connection.execute(table.insert(), list(map(dict, rows)))
    engine.dispose()


def test_a_record_that_says_it_was_sealed_later(url: str) -> None:
    """What has no seal is found, also where the note of since when the record is sealed was changed or dropped."""
    fill(url, 2)
    bare = "INSERT INTO outcome (id, at, passed, stop_reason, attempts) VALUES ('x', 2000000000000, true, '', 0)"
    run_sql(url, bare, "UPDATE record_state SET id = '', at = 3000000000000 WHERE name = 'sealed'")
    assert any("1 outcomes have no seal" in one for one in faults(url))
    for state in ("id = 'firstly' WHERE name = 'sealed'", "id = 'x' WHERE name = 'summed'"):
        run_sql(url, f"UPDATE record_state SET {state}")
        assert [one for one in faults(url) if "what it never wrote" in one], state
        run_sql(url, "UPDATE record_state SET id = '' WHERE name IN ('sealed', 'summed')")
    early = "INSERT INTO outcome (id, at, passed, stop_reason, attempts) VALUES ('y', 1, true, '', 0)"
    run_sql(url, "DELETE FROM outcome WHERE id = 'x'", early)
    assert any("1 outcomes have no seal" in one for one in faults(url))
    assert [one for one in faults(url) if "not sealed from the first outcome on" in one]
    run_sql(url, "DELETE FROM outcome WHERE id = 'y'", "DELETE FROM record_state")
    assert [one for one in faults(url) if "does not say any more" in one]


def test_retention_leaves_a_sealed_gap(url: str) -> None:
    """What is too old goes, and a gap is no fault; one that somebody widens, or makes, is."""
    fill(url, 8, writers=2)
    run_sql(url, "UPDATE outcome SET at = at")  # touched, not changed
    with DatabaseRecord(url) as record:
        record.label("w0-1", 1, by="ann", rating=1)
    with DatabaseRecord(url, keep_days=1e-9) as record:  # it looks at once
        record.check()
        wait_until(lambda: not record.outcomes(), seconds=60)
        gone = record.verify()
    assert (gone.faults, gone.removed) == ([], 16)
    fill(url, 2, writers=1)
    assert faults(url) == []
    run_sql(url, "DELETE FROM outcome WHERE id = 'w0-0'", "UPDATE record_gap SET last = last + 1")
    assert any("gap was changed" in one for one in faults(url))


def test_a_reviewed_turn_takes_the_place_of_the_one_that_waited(url: str) -> None:
    """The outcome that waited for a person is replaced, which the chain knows of."""
    first, *others = answered(4)
    with DatabaseRecord(url, texts=True) as record:
        for one in (first.model_copy(update={"stop_reason": "interrupted"}), *others):
            record.add(one)
            assert record.flush(30)
        record.add(first)
        assert record.flush(30)
        found = record.verify()
    assert (found.faults, found.sealed, found.removed) == ([], 4, 1)


def test_with_a_key_nobody_else_can_seal_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seals under a key need it; with another one, or none, there is an error and no verdict."""
    url = f"sqlite:///{tmp_path}/record.db"
    monkeypatch.setenv("REFINE_RECORD_SEAL_KEY", "a key of thirty-two characters!!")
    fill(url, 3)
    assert faults(url) == []
    for key in ("", "another key of those characters!"):
        monkeypatch.setenv("REFINE_RECORD_SEAL_KEY", key)
        with pytest.raises(ConfigurationError, match="REFINE_RECORD_SEAL_KEY"):
            faults(url)
    monkeypatch.setenv("REFINE_RECORD_SEAL_KEY", "short")
    assert "16 to 64" in command("verify", url).output


def test_a_key_may_come_later_and_does_not_go_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was sealed before there was a key is told apart, and is no fault; without the key after it, it is."""
    url, out = f"sqlite:///{tmp_path}/record.db", tmp_path / "rows.jsonl"
    fill(url, 2, writers=1)
    assert command("export", url, "--out", out).exit_code == 0
    monkeypatch.setenv("REFINE_RECORD_SEAL_KEY", "a key of thirty-two characters!!")
    with pytest.raises(ConfigurationError, match="unset REFINE_RECORD_SEAL_KEY"):
        faults(url)
    assert "6 rows are sealed without the key" in command("verify", out).output
    for number in range(2):
        with DatabaseRecord(url) as record:
            record.add(answered(1, of=f"later{number}")[0])
            assert record.flush(30)
            found = record.verify()
        assert (found.faults, found.sealed, found.unkeyed) == ([], 3 + number, 2)
    assert "2 of them are sealed without it" in command("verify", url).output
    run_sql(url, "UPDATE record_state SET at = 9 WHERE name = 'keyed'")
    assert any("sealed without the key" in one for one in faults(url))


def test_heads_kept_elsewhere_show_a_cut_that_the_anchor_follows(tmp_path: Path) -> None:
    """Whoever cuts the end off and winds the anchor back is seen by what was noted before."""
    file, heads = tmp_path / "record.db", tmp_path / "heads.json"
    with DatabaseRecord(f"sqlite:///{file}", texts=True) as record:
        for one in answered(3):
            record.add(one)
            assert record.flush(30)
        record.close()
        shutil.copy(file, tmp_path / "earlier.db")
    with DatabaseRecord(f"sqlite:///{file}", texts=True) as record:
        record.add(answered(1, of="more")[0])
    saved = command("verify", file, "--save-heads", heads)
    assert saved.exit_code == 0, saved.output
    shutil.copy(tmp_path / "earlier.db", file)
    for left in tmp_path.glob("record.db-*"):
        left.unlink()
    assert command("verify", file).exit_code == 0
    cut = command("verify", file, "--heads", heads)
    assert (cut.exit_code, "is missing" in cut.output) == (1, True), cut.output


def test_a_record_of_an_older_version_is_told_apart(tmp_path: Path) -> None:
    """What was written before there were seals is counted, and is no fault; an unsealed outcome later on is."""
    file = tmp_path / "record.db"
    url = f"sqlite:///{file}"
    fill(url, 3, writers=1)
    older(file)
    with DatabaseRecord(url, texts=True) as record:
        record.add(answered(1, of="new")[0])
        assert record.flush(30)
        found = record.verify()
    assert (found.faults, found.unsealed, found.sealed) == ([], 3, 1)
    assert "3 outcomes have no seal" in command("verify", url).output
    day = 3 * 24 * 60 * 60 * 1_000
    run_sql(url, f"UPDATE outcome SET at = at + {day}, chain = NULL, position = NULL WHERE id = 'new0'")
    assert any("younger than the record's seals" in one for one in faults(url))


def lines_of(file: Path) -> list[Any]:
    """Read a file as records that can be put into another order: of JSON, of cells, or of columns."""
    if file.suffix == ".jsonl":
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]
    if file.suffix == ".csv":
        with file.open(encoding="utf-8", newline="") as cells:
            return list(csv.DictReader(cells))
    from pyarrow import parquet  # noqa: PLC0415 - as a user would

    return parquet.read_table(file).to_pylist()  # type: ignore[no-any-return]


def write(file: Path, rows: list[Any]) -> None:
    """Write records of a file."""
    if file.suffix == ".jsonl":
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    elif file.suffix == ".csv":
        with file.open("w", encoding="utf-8", newline="") as cells:
            writer = csv.DictWriter(cells, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        import pyarrow as pa  # noqa: PLC0415 - as a user would
        from pyarrow import parquet  # noqa: PLC0415 - likewise

        parquet.write_table(pa.Table.from_pylist(rows), file)


def changed(rows: list[Any]) -> list[Any]:
    """Return rows with one text changed."""
    return [rows[0], {**rows[1], "response": "mine"}, *rows[2:]]


WAYS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "changed": changed,
    "dropped": lambda rows: [*rows[:2], *rows[3:]],
    "first dropped": lambda rows: rows[1:],
    "cut off": lambda rows: rows[:-1],
    "swapped": lambda rows: [rows[1], rows[0], *rows[2:]],
    "doubled": lambda rows: [*rows[:2], *rows[1:]],
}


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_an_export_shows_what_was_done_to_it(tmp_path: Path, suffix: str) -> None:
    """A row changed, dropped, cut off, doubled or swapped, in every form; rewritten as it is, it is as it was."""
    url, file = f"sqlite:///{tmp_path}/record.db", tmp_path / f"rows{suffix}"
    fill(url, 4)
    assert command("export", url, "--out", file).exit_code == 0
    rows = lines_of(file)
    assert len(rows) == 24
    write(file, rows)
    same = command("verify", file)
    assert (same.exit_code, "24 rows sealed" in same.output) == (0, True), same.output
    for name, way in WAYS.items():
        write(file, way(rows))
        found = command("verify", file)
        assert (name, found.exit_code) == (name, 1), found.output


def test_a_file_without_its_seals_or_rows_is_not_as_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has no key may strip the seals of an export, or empty it; what is no file of rows is named."""
    url, file = f"sqlite:///{tmp_path}/record.db", tmp_path / "rows.jsonl"
    monkeypatch.setenv("REFINE_RECORD_SEAL_KEY", "a key of thirty-two characters!!")
    fill(url, 2)
    assert command("export", url, "--out", file).exit_code == 0
    rows = lines_of(file)
    for row in rows:
        del row["metadata"]["seal"]
    write(file, rows)
    stripped = command("verify", file)
    assert (stripped.exit_code, "anybody could have written them" in stripped.output) == (1, True), stripped.output
    monkeypatch.delenv("REFINE_RECORD_SEAL_KEY")
    assert command("verify", file).exit_code == 0, "rows of before there were seals"
    write(file, [])
    assert command("verify", file).exit_code == 1
    assert "rows are verified in .jsonl, .csv and .parquet" in command("verify", tmp_path).output


def test_a_record_of_json_lines_is_sealed(tmp_path: Path) -> None:
    """Two writers share a file; each row's place is known, but not that of rows that may still come."""
    file = tmp_path / "attempts.jsonl"
    judge = ScriptedJudge([(2, "more"), 4], cycle=True)
    for _ in range(2):
        asked = SelfRefine(lambda _: "a \ud83d draft", judge, record=file)
        for _ in range(3):
            asked.invoke("what?")
    rows = lines_of(file)
    whole = command("verify", file)
    assert (whole.exit_code, "12 rows sealed" in whole.output) == (0, True), whole.output
    for name, way in WAYS.items():
        if name != "cut off":
            write(file, way(rows))
            assert (name, command("verify", file).exit_code) == (name, 1)


def test_seals_of_earlier_versions_are_still_read(tmp_path: Path) -> None:
    """Outcomes sealed by names, as before 0.10, verify beside newer ones, are counted, and a change is found."""
    url = f"sqlite:///{tmp_path / 'record.db'}"
    fill(url, 3)
    engine = create_engine(_read_url(url))
    with engine.begin() as connection:
        chain = connection.execute(select(ANCHOR)).mappings().first()
        assert chain is not None
        previous = ""
        for row in connection.execute(
            select(OUTCOME).filter_by(chain=chain["chain"]).order_by(OUTCOME.c.position)
        ):
            own = row._asdict()
            attempts = connection.execute(select(ATTEMPT).filter_by(outcome=own["id"]).order_by(ATTEMPT.c.number))
            seen = [_named(one._asdict()) for one in attempts]
            previous, before = _digest(chain["chain"], own["position"], previous, _named(own), seen), previous
            moved = update(OUTCOME).filter_by(id=own["id"]).values(previous=before, hash=previous)
            connection.execute(moved)
        place = [chain[name] for name in ("chain", "number", "begun", "position")]
        seal = _digest("anchor", *place, previous, chain["keyed"])
        connection.execute(update(ANCHOR).filter_by(chain=chain["chain"]).values(hash=previous, seal=seal))
    engine.dispose()
    result = command("verify", url)
    assert result.exit_code == 0, result.output
    assert f"{chain['position']} of them have seals in the form of versions before 0.10" in result.output
    run_sql(url, f"UPDATE outcome SET cost = 5 WHERE chain = '{chain['chain']}' AND position = 1")
    assert len(faults(url)) == 1


def _named(row: dict[str, Any]) -> dict[str, Any]:
    names = sorted(name for name, value in row.items() if value is not None and name not in SEAL)
    return {name: row[name] for name in names}


def _digest(*parts: object) -> str:
    return blake2b(json.dumps(parts).encode(), digest_size=20).hexdigest()
