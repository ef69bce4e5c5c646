"""What a row of the record says of its attempt, from a file and from a database alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from sqlalchemy import create_engine, inspect, text

from graphs import Overrides
from judges import Verdict, as_judge
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine
from refine.middleware import SelfRefineMiddleware
from refine.record import DatabaseRecord

POLICY: dict[str, Any] = {"success_rating": 3, "max_attempts": 4, "patience": 2}


def lines(path: Path) -> list[dict[str, object]]:
    """Return the metadata of the rows of a file."""
    return [json.loads(line)["metadata"] for line in path.read_text("utf-8").splitlines()]


def test_a_row_tells_all_of_its_attempt(tmp_path: Path) -> None:
    """Ids, time, policy, judge, verdict, usage and stop reason are in the file, the same as in the database."""
    file, url = tmp_path / "attempts.jsonl", f"sqlite:///{tmp_path / 'record.db'}"
    judge = ScriptedJudge([(1, "say more"), 4])
    SelfRefine(ScriptedModel(["a", "b"]), judge, record=file, **POLICY).invoke("what?")
    with DatabaseRecord(url, texts=True) as record:
        judge = ScriptedJudge([(1, "say more"), 4])
        SelfRefine(ScriptedModel(["a", "b"]), judge, record=record, **POLICY).invoke("what?")
        assert record.flush()
        exported = [row["metadata"] for row in record.rows()]
        without_texts = list(record.attempts())
    first, second = written = lines(file)
    assert first["outcome_id"] == second["outcome_id"]
    assert str(first["at"]).startswith("20")
    assert str(first["at"]).endswith("+00:00")
    expected = {**POLICY, "attempt": 1, "released": False, "rating": 1, "score": 0.0, "passed": False}
    assert (
        first.items() >= {**expected, "rated_natively": True, "judge": "scripted", "feedback": "say more"}.items()
    )
    assert second.items() >= {"attempt": 2, "released": True, "rating": 4, "stop_reason": "accepted"}.items()
    assert "stop_reason" not in first
    assert {len(str(row[name])) for row in written for name in ("policy_digest", "judge_digest")} == {32}
    assert {"calls", "input_tokens", "output_tokens"} <= set(first["usage"])  # type: ignore[call-overload]  # a mapping
    own = {"outcome_id", "at", "generate_s", "judge_s", "seal"}
    for a, b, c in zip(written, exported, without_texts, strict=True):
        assert {k: v for k, v in a.items() if k not in own} == {
            k: v for k, v in b.items() if k not in own and v != ""
        }
        assert b == c


def test_an_image_is_named_and_not_kept(tmp_path: Path) -> None:
    """What a question shows beside its words stays out of the record, in a file and in a database."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    question = [HumanMessage([{"type": "text", "text": "What is it?"}, image])]
    file, url = tmp_path / "attempts.jsonl", f"sqlite:///{tmp_path / 'record.db'}"
    SelfRefine(ScriptedModel(["a"]), ScriptedJudge([4]), record=file).invoke(question)
    with DatabaseRecord(url, texts=True) as record:
        SelfRefine(ScriptedModel(["a"]), ScriptedJudge([4]), record=record).invoke(question)
        assert record.flush()
        (row,) = record.rows()
    for text_kept in (file.read_text("utf-8"), json.dumps(row)):
        assert "What is it?" in text_kept
        assert "iVBOR" not in text_kept


def test_a_row_has_its_pieces(tmp_path: Path) -> None:
    """Each piece with its verdict and its time; where something of the draft is redacted, without text."""
    file, script = tmp_path / "attempts.jsonl", ["One is good. Two is BAD. Three.", "Two is better."]
    settings: dict[str, Any] = {"release": "pieces", "piece_chars": 1}
    settings["piece_judge"] = as_judge(lambda answer: "BAD" not in answer, name="decent")
    SelfRefine(ScriptedModel(script), "length:at_most=99", record=file, **settings).invoke("what?")
    first, second = (row["pieces"] for row in lines(file))
    assert [(piece["text"], piece["released"], piece.get("passed")) for piece in [*first, *second]] == [  # type: ignore[misc]
        ("One is good.", True, True),
        (" Two is BAD.", False, False),
        (" Three.", False, None),
        (" Two is better.", True, True),
    ]
    assert first[0]["at_s"] > 0  # type: ignore[index]
    redact = [lambda text: text.replace("good. Two", "[hidden]")]
    with DatabaseRecord(f"sqlite:///{tmp_path / 'record.db'}", texts=True, redact=redact) as record:
        SelfRefine(ScriptedModel(script), "length:at_most=99", record=record, **settings).invoke("what?")
        assert record.flush()
        stored = [row["metadata"]["pieces"] for row in record.rows()]
    assert [[piece["released"] for piece in pieces] for pieces in stored] == [[True, False, False], [True]]
    assert not any("text" in piece for pieces in stored for piece in pieces)


def test_the_policy_is_the_one_in_force(tmp_path: Path) -> None:
    """What a request overrides is what its rows say."""
    file = tmp_path / "attempts.jsonl"
    assistant = SelfRefine(lambda _: "draft", ScriptedJudge([3], cycle=True), record=file, max_attempts=2)
    assistant.invoke("what?")
    assistant.invoke("what?", context=Overrides(success_rating=4))
    ratings = [(row["success_rating"], row["attempt"]) for row in lines(file)]
    assert ratings == [(3, 1), (4, 1), (4, 2)]
    assert len({row["policy_digest"] for row in lines(file)}) == 2


def test_an_agent_records_the_policy_in_force(tmp_path: Path) -> None:
    """The same holds for the turns of an agent."""
    file = tmp_path / "attempts.jsonl"
    middleware = SelfRefineMiddleware(ScriptedJudge([3], cycle=True), record=file, max_attempts=2)
    agent = create_agent(ScriptedModel(["draft"] * 9), middleware=[middleware], context_schema=Overrides)
    question: Any = {"messages": [("user", "what?")]}
    agent.invoke(question)
    agent.invoke(question, context=Overrides(success_rating=4))
    assert [(row["success_rating"], row["attempt"]) for row in lines(file)] == [(3, 1), (4, 1), (4, 2)]


@pytest.mark.parametrize("verdict", [Verdict.scored(0.9, threshold=0.95), Verdict.rated(4)])
def test_whose_pass_mark_counts(tmp_path: Path, verdict: Verdict) -> None:
    """Whether the judge rated natively is reported, since only then a threshold on the rating is all there is."""
    file = tmp_path / "attempts.jsonl"
    SelfRefine(lambda _: "draft", ScriptedJudge([verdict]), record=file, max_attempts=1).invoke("what?")
    (row,) = lines(file)
    assert (row["rating"], row["rated_natively"]) == (4, verdict.rated_natively)


def test_a_database_of_the_version_before_is_read(tmp_path: Path) -> None:
    """Tables without the newer columns get them; what stood there stays."""
    url = f"sqlite:///{tmp_path / 'record.db'}"
    with DatabaseRecord(url) as record:
        SelfRefine(lambda _: "draft", ScriptedJudge([4]), record=record).invoke("what?")
        assert record.flush()
    engine = create_engine(url)
    newer = (("outcome", "continuation_probability"), ("attempt", "rated_natively"), ("label", "split"))
    with engine.begin() as connection:
        for table, column in newer:
            connection.execute(text(f'ALTER TABLE "{table}" DROP COLUMN "{column}"'))
        for table in set(inspect(connection).get_table_names()) - {"outcome", "attempt", "label", "meta"}:
            connection.execute(text(f'DROP TABLE "{table}"'))
        connection.execute(text("UPDATE meta SET version = 1"))
    engine.dispose()
    with DatabaseRecord(url) as record:
        (row,) = record.attempts()
        assert row["rating"] == 4
        record.label(str(row["outcome_id"]), 1, by="ann", up=True, split="report")
        (labelled,) = record.attempts()
        assert [label["split"] for label in labelled["labels"]] == ["report"]
