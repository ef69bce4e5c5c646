"""What tests of the record share: refiners that record, SQL as anybody else would run it, and older tables."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text
from typer.testing import CliRunner, Result

from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine
from refine.cli.app import app
from refine.record.database import _read_url


def refiner(record: object, *ratings: object, draft: str = "a draft", **settings: Any) -> SelfRefine:
    """Make a refiner that records; each rating is that of another draft, and without a draft the model fails."""
    drafts = [draft, *(f"{draft} {number}" for number in range(2, len(ratings) + 1))]
    model = ScriptedModel(drafts if draft else [OSError()], cycle=True)
    return SelfRefine(model, ScriptedJudge(ratings or [4], cycle=True), record=record, **settings)  # type: ignore[arg-type]


def run_sql(url: str, *statements: str) -> list[Any]:
    """Run SQL as somebody with a database shell would, and return the rows of the last statement."""
    engine, rows = create_engine(_read_url(url)), list[Any]()
    with engine.begin() as connection:
        for statement in statements:
            result = connection.execute(text(statement))
            rows = list(result) if result.returns_rows else []
    engine.dispose()
    return rows


def command(*words: object) -> Result:
    """Run `refine` in this process."""
    return CliRunner().invoke(app, list(map(str, words)))


def older(file: Path) -> None:
    """Make the tables those of version 2."""
    with sqlite3.connect(file) as connection:
        connection.execute("DROP INDEX outcome_chain")
        for column in ("chain", "position", "previous", "hash"):
            connection.execute(f"ALTER TABLE outcome DROP COLUMN {column}")
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in tables:
            if name.startswith("record_"):
                connection.execute(f"DROP TABLE {name}")
        connection.execute("UPDATE meta SET version = 2")
    connection.close()
