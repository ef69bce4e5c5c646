"""Figures by group, plans of comparisons, and answers against answers, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.model_server import Asked, Reply, serving
from tests.runs.commands import refine


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with two runs: half of the questions are longer in the second."""
    monkeypatch.chdir(tmp_path)
    for name in ("1", "2"):
        words = [2 if name == "2" and n % 2 else 1 for n in range(20)]
        rows = [
            {"question": f"q {n}", "answer": "word " * many, "topic": "ab"[n % 2]} for n, many in enumerate(words)
        ]
        Path(f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        judged = ["evaluate", f"{name}.jsonl", "--judge", "length:at_most=1,unit=words", "--slice", "topic"]
        result = refine(*judged, "--out", f"runs/{name}")
        assert result.exit_code == 0
        assert "topic" in result.stdout
    return tmp_path


def test_groups_are_shown_as_a_table_and_as_json(folder: Path) -> None:
    """`--slice` adds a table by the values of a column; with `--json` the same figures under `slices`."""
    shown = refine("show", "runs/2", "--slice", "topic")
    assert [line.split()[:5] for line in shown.stdout.splitlines() if line.strip()[:2] in {"a ", "b "}] == [
        ["a", "length", "10", "10", "1.000"],
        ["b", "length", "10", "10", "0.000"],
    ]
    summary = json.loads(refine("show", "runs/2", "--slice", "topic", "--json").stdout)
    assert summary["judges"]["length"]["n"] == 20
    assert {value: judges["length"]["mean"] for value, judges in summary["slices"]["topic"].items()} == {
        "a": 1,
        "b": 0,
    }


def test_a_plan_says_how_many_questions_show_a_change(folder: Path) -> None:
    """From two runs, from one, or from a spread that is known: Connor's formula, and that of the paired z-test."""
    planned = refine("plan", "--discordance", 0.2)
    assert "change of 3 points in 80%" in planned.stdout
    assert "  1,742 (verdicts differ on 20.0%)" in planned.stdout
    (plan,) = json.loads(refine("plan", "runs/1", "runs/2", "--json").stdout)
    assert (plan["judge"], plan["questions"]) == ("length", 2295)
    one = refine("plan", "runs/2", "--points", 10)
    assert "length: 414 (" in one.stdout
    assert "its scores never differ" in refine("plan", "runs/1").stdout


def test_answers_are_compared_in_both_orders_and_at_equal_length(folder: Path) -> None:
    """A judge that takes the first answer finds nobody better; one that likes it long, the second run."""

    def longer(asked: Asked) -> Reply:
        content = str(asked["messages"][-1]["content"])
        texts = json.loads(content[content.index("{") : content.rindex("}") + 1])
        first, second = (len(texts[name]) for name in ("first", "second"))
        verdict = "tie" if first == second else "first" if first > second else "second"
        return Reply(text=json.dumps({"rationale": "", "verdict": verdict, "feedback": ""}))

    first = json.dumps({"rationale": "", "verdict": "first", "feedback": ""})
    pairwise = ["compare", "runs/1", "runs/2", "--judge", "pairwise", "--model", "m", "--base-url"]
    with serving(lambda _: Reply(text=first)) as server:
        text = refine(*pairwise, server.url).stdout
        assert "runs/2 against runs/1: 0 wins, 20 ties, 0 losses" in text
        assert "position bias       +0.500" in text
    with serving(longer) as server:
        found = json.loads(refine(*pairwise, server.url, "--json").stdout)
    assert (found["wins"], found["ties"], found["win_rate"]) == (10, 10, 0.75)
    assert found["length_adjusted"]["reason"] == "no_overlap"
