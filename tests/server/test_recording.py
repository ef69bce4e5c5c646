"""The guard's record, its page, its traces and its log."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from judges import ConfigurationError
from refine.record import DatabaseRecord
from refine.server.config import load_settings
from refine.server.record import open_guard_record
from tests.guarding import QUESTION, guarding, wait_until
from tests.model_server import ModelServer, Reply, in_turn, serving

KEY = "a-page-key"


@pytest.fixture
def upstream() -> Iterator[ModelServer]:
    """Start an upstream whose first answer is bad."""
    with serving(in_turn(Reply("bad"), Reply("good"))) as server:
        yield server


def test_every_outcome_is_recorded(upstream: ModelServer, tmp_path: Path) -> None:
    """An accepted answer, a settled error and an unjudged one are recorded with the request's id and the guard."""
    file = tmp_path / "record.db"
    with guarding(upstream.url, record=str(file), success_rating=4, record_texts=True) as guard:
        guard.chat(headers={"x-request-id": "first"})
        upstream.reply = lambda _: Reply(calls=(("look", {}),))
        guard.chat(functions=[{"name": "look"}])
        upstream.reply = lambda _: Reply("down", status=500)
        guard.chat()
        guard.post("/v1/judge", {"question": "?", "answer": "good"})
        wait_until(lambda: "refine_record_queue 0.0" in guard.get("/metrics").text)
    record = DatabaseRecord(f"sqlite:///{file}")
    rows = {row["stop_reason"]: row for row in record.outcomes()}
    record.close()
    assert set(rows) == {"accepted", "skipped", "generator_failed"}
    accepted = rows["accepted"]
    assert (accepted["request_id"], accepted["refiner"], accepted["attempts"]) == ("first", "default", 2)


def test_a_file_of_json_lines(upstream: ModelServer, tmp_path: Path) -> None:
    """Without a database each attempt is a row of a dataset."""
    file = tmp_path / "attempts.jsonl"
    with guarding(upstream.url, record=str(file), success_rating=4) as guard:
        guard.chat()
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [row["response"] for row in rows] == ["bad", "good"]


def test_the_page_is_there_with_its_own_key(upstream: ModelServer, tmp_path: Path) -> None:
    """The page shows guard and record under its own key; its try box asks the upstream; a flag turns it off."""
    settings: dict[str, Any] = {"record": str(tmp_path / "record.db"), "success_rating": 4}
    with guarding(upstream.url, page_key=KEY, upstream_key="sk-operator", **settings) as guard:
        assert "<title>" in guard.get("/").text
        assert guard.get("/page/api/status").status_code == 401
        headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
        status = guard.get("/page/api/status", headers=headers).json()
        assert status["guards"][0]["judge"] == "rates"
        assert status["can_try"] is True
        asked = {"question": "What?", "model": "m"}
        events = guard.post("/page/api/try", asked, headers=headers).text
        assert '"rating":4' in events.replace(" ", "")
        assert upstream.requests[0]["authorization"] == "Bearer sk-operator"
        unknown = guard.post("/page/api/try", {**asked, "guard": "none"}, headers=headers)
        assert (unknown.status_code, "no guard" in unknown.json()["error"]) == (400, True)
    with guarding(upstream.url, page=False, **settings) as guard:
        assert guard.get("/").status_code == 404


def test_traces_go_on(upstream: ModelServer) -> None:
    """A caller's `traceparent` reaches the upstream as it came where nothing traces here."""
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with guarding(upstream.url, max_attempts=1) as guard:
        guard.chat(headers={"traceparent": parent})
    assert upstream.requests[0]["headers"]["traceparent"] == parent
    assert json.loads(upstream.requests[0]["raw"])["messages"] == QUESTION


def test_a_record_of_another_version_or_program(upstream: ModelServer, tmp_path: Path) -> None:
    """A record of this version goes on; one of a later version or another program stops the start."""
    file = tmp_path / "record.db"
    for _ in range(2):
        with guarding(upstream.url, record=str(file)) as guard:
            guard.chat()
    with DatabaseRecord(f"sqlite:///{file}") as record:
        assert len(record.outcomes()) == 2
    later, foreign, broken = (tmp_path / name for name in ("later.db", "foreign.db", "broken.db"))
    later.write_bytes(file.read_bytes())
    broken.write_bytes(b"no database" * 100)
    for path, sql in ((later, "UPDATE meta SET version = 99"), (foreign, "CREATE TABLE outcome (x)")):
        with sqlite3.connect(path) as connection:
            connection.execute(sql)
        connection.close()
    for path, part in ((later, "newer version"), (foreign, "another program"), (broken, "not a database")):
        with pytest.raises(ConfigurationError, match=f"^record: .*{part}") as raised:
            open_guard_record(load_settings(None, {"record": str(path)}))
        assert "\n" not in str(raised.value)


TEXTS = {"record": "r.db", "record_texts": True}


def masks(text: str) -> str:
    """Mask what must not be stored."""
    return text.replace("France", "[country]")


def breaks(text: str) -> str:
    """Mask nothing, and say what could not be masked."""
    raise ValueError(text)


def test_texts_are_redacted_as_the_operator_says(upstream: ModelServer, tmp_path: Path) -> None:
    """Functions of the operator's own go over every recorded text; where one fails, no text is stored."""
    for name, stored in (("masks", "What is the capital of [country]?"), ("breaks", None)):
        file = tmp_path / f"{name}.db"
        settings: dict[str, Any] = {"record": str(file), "record_texts": True}
        with guarding(upstream.url, **settings, record_redact=[f"{__name__}:{name}"]) as guard:
            assert guard.chat().status_code == 200
        with DatabaseRecord(f"sqlite:///{file}") as record:
            assert [row["question"] for row in record.outcomes()] == [stored]
        assert b"France" not in b"".join(path.read_bytes() for path in tmp_path.glob(f"{name}.db*"))


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        ({"record": "r.db", "record_redact": [f"{__name__}:masks"]}, "set record_texts = true too"),
        (
            {**TEXTS, "record_redact": ["masks"]},
            "name a function as module:function",
        ),
        ({**TEXTS, "record_redact": [f"{__name__}:none"]}, "cannot be imported"),
        (
            {"record": "r.db", "record_texts": True, "record_redact": [f"{__name__}:KEY"]},
            "^record_redact = .*text$",
        ),
        ({"record_texts": True}, "set record too"),
        ({"record": "attempts.jsonl", "record_texts": True}, "are for a database"),
        ({"record": "mysql://x/y"}, "record: "),
    ],
)
def test_a_record_that_cannot_be_used(flags: dict[str, Any], part: str) -> None:
    """A wrong record is one line that names the setting."""
    with pytest.raises(ConfigurationError, match=part):
        open_guard_record(load_settings(None, flags))
