"""The command `refine replay`: tables that a person reads, and JSON, from every place where loops are recorded."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from judges.offline.dataset.reading import read_rows
from judges.offline.run.evaluate import evaluate
from judges.testing import ScriptedJudge
from refine import SelfRefine
from refine.cli.app import app
from refine.record import DatabaseRecord
from tests.loops.recorded import V_B, write_loops


def refine(*arguments: object) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_the_tables(tmp_path: Path) -> None:
    """Everything is on the screen in 100 columns, people's labels first, with what it rests on."""
    result = refine("replay", write_loops(tmp_path / "attempts.jsonl", V_B))
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "The loop HELPS: people call 40.0% of first answers good, 80.0% of final ones."
    assert "15 loops, recorded with success rating 4, 4 attempts" in lines
    assert max(map(len, lines)) <= 100
    for part in (
        "part of that is luck: --rejudge removes it",
        "rating 4, 4 attempts (in force)",
        "80.0-86.7%",
        "93.3% (70-99%)",
        "15.4-23.1%",
        "the attempts of a",
        "1 of the loops ended early",
    ):
        assert part in result.stdout
    again = refine("replay", tmp_path / "attempts.jsonl", "--rejudge", "length:at_most=3,unit=words")
    assert "Gain per attempt (the earlier attempt judged again, independently)" in again.stdout
    assert "judged again" in again.stdout


def test_chosen_policies_as_json(tmp_path: Path) -> None:
    """Thresholds, attempts and patience are combined; the JSON holds what the tables show."""
    path = write_loops(tmp_path / "attempts.jsonl", V_B)
    chosen = ("--threshold", 3, "--max-attempts", 2, "--max-attempts", 4, "--patience", 1)
    report = json.loads(refine("replay", path, *chosen, "--json").stdout)
    assert [(row["success_rating"], row["max_attempts"], row["patience"]) for row in report["policies"]] == [
        (4, 4, None),
        (3, 2, 1),
        (3, 4, 1),
    ]
    assert report["curve"][0]["at_risk"] == 15


def test_every_place_where_loops_are_recorded(tmp_path: Path) -> None:
    """A file, its export, the folder of a run over it, and a database without texts say the same."""
    url, file = f"sqlite:///{tmp_path / 'record.db'}", tmp_path / "attempts.jsonl"
    for record in (DatabaseRecord(url, texts=True), file):
        judge = ScriptedJudge([1, 4, 2, 2, 2, 4, 3, 4], cycle=True)
        assistant = SelfRefine(lambda _: "draft", judge, record=record, success_rating=4)
        for number in range(8):
            assistant.invoke(f"{number}?")
        if isinstance(record, DatabaseRecord):
            record.close()
    assert refine("export", url, "--out", tmp_path / "rows.jsonl").exit_code == 0
    evaluate(read_rows(file), ScriptedJudge([1], cycle=True), run=tmp_path / "run")
    reports = [
        json.loads(refine("replay", source, "--json").stdout)
        for source in (url, tmp_path / "record.db", file, tmp_path / "rows.jsonl", tmp_path / "run")
    ]
    same = [{name: report[name] for name in ("loops", "curve", "gains", "policies")} for report in reports]
    assert same == [same[0]] * 5
    assert same[0]["loops"] == 8


def test_wrong_input_is_one_line(tmp_path: Path) -> None:
    """A remedy on stderr; what is not identified is reported, with exit code 1."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "q", "answer": "a"}\n')
    old = tmp_path / "old.jsonl"
    old.write_text('{"question": "q", "answer": "a", "metadata": {"attempt": 1, "rating": 4}}\n')
    for arguments, remedy in (
        ((rows,), "record loops with SelfRefine"),
        ((tmp_path / "nothing.jsonl",), "there is no file"),
        ((f"sqlite:///{tmp_path / 'nothing.db'}",), "there is no record"),
        ((old, "--threshold", "7"), "rating from 1 to 4"),
        ((old, "--rejudge", "helpfulness"), "asks a model"),
    ):
        result = refine("replay", *arguments)
        assert (result.exit_code, result.stdout) == (2, ""), result.output
        assert remedy in result.stderr
        assert len(result.stderr.splitlines()) == 1
    result = refine("replay", old)
    assert result.exit_code == 1
    assert "not_identified" in result.stdout
    assert "left out: 1 no policy" in result.stdout
