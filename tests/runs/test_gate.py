"""The command line around runs: the gate for integration, figures by group, and what one sees who waits."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from typer.testing import Result

from judges import Length
from judges.offline import Progress, evaluate
from judges.offline.run.gate import Gate
from refine.cli.runs import show_progress
from tests.model_server import Asked, Reply, serving
from tests.refine.test_wrong_commands import ROOT
from tests.runs.commands import line_of, refine


def rows_with(path: Path, words: list[int]) -> Path:
    """Write rows whose answers have some numbers of words."""
    answers = [" ".join(["word"] * number) for number in words]
    path.write_text("".join(json.dumps({"question": f"q {i}", "answer": a}) + "\n" for i, a in enumerate(answers)))
    return path


def test_a_gate_passes_or_fails_by_its_exit_code(tmp_path: Path) -> None:
    """0 at the least score or above it, 1 below; stderr and JUnit say the figures; wrong gates cost no call."""
    rows = rows_with(tmp_path / "rows.jsonl", [1] * 8 + [9] * 2)
    judged = ["evaluate", rows, "--judge", "length:at_most=3,unit=words", "--judge", "json", "--out"]
    result = refine(*judged, tmp_path / "1", "--fail-under", "length=0.8")
    assert result.exit_code == 0
    assert "gate passed: length has a mean score of at least 0.8; it is 0.800" in result.stderr
    report = tmp_path / "reports" / "gate.xml"
    gate = ["--fail-under", "length=0.81", "--fail-under", "json=0", "--junit", report]
    assert refine(*judged, tmp_path / "2", *gate).exit_code == 1
    suites = ET.fromstring(report.read_bytes())  # noqa: S314 - our own file
    figures = (suites.tag, suites.get("tests"), suites.get("failures"), suites.get("errors"))
    assert figures == ("testsuites", "2", "1", "0")
    assert suites[0].get("name") == f"refine {tmp_path / '2'}"
    failure = suites.find(".//testcase[@classname='length']/failure")
    assert failure is not None
    assert "it is 0.800" in str(failure.get("message"))
    assert "it is 0.800" in str(failure.text)
    assert float(str(suites.get("time"))) > 0
    assert refine("resume", tmp_path / "2", "--fail-under", "length=0.5").exit_code == 0
    for wrong, text in (
        (["--fail-under", "lenght=0.8"], "no judge of this run is called 'lenght'; its judges are length, json"),
        (["--fail-under", "length"], "helpfulness=0.8, not 'length'"),
        (["--fail-under", "length=8"], "from 0 to 1"),
        (["--fail-under", "length=nan"], "from 0 to 1"),
        (["--baseline", tmp_path / "none"], "holds no run"),
        (["--junit", report], "--junit reports a gate; set one"),
    ):
        assert text in line_of(refine(*judged, tmp_path / "3", *wrong))
    assert not (tmp_path / "3").exists()


def test_rows_of_one_question_are_counted_apart(tmp_path: Path) -> None:
    """A figure over several answers to each question says how many questions there are."""
    rows = ({"question": f"q {i % 3}", "answer": "a" * i} for i in range(1, 7))
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    gate = ("--fail-under", "length=0.5", "--out", tmp_path / "run")
    result = refine("evaluate", path, "--judge", "length:at_most=4", *gate)
    assert "it is 0.667" in result.stderr
    assert "over 6 rows to 3 questions" in result.stderr


def test_too_many_unscored_is_a_code_of_its_own(tmp_path: Path) -> None:
    """Where judging failed too often, the figure says nothing, however good the rest is."""
    rows = rows_with(tmp_path / "rows.jsonl", [1] * 10)
    rated = json.dumps({"rationale": "r", "rating": 4, "feedback": "f"})
    with serving(lambda asked: Reply(text="?" if "q 3" in str(asked["messages"]) else rated)) as server:
        judged = ["evaluate", rows, "--judge", "helpfulness", "--model", "m", "--base-url", server.url, "--out"]
        gate = ["--fail-under", "helpfulness=0.5", "--max-unscored", 0.05, "--junit", tmp_path / "gate.xml"]
        result = refine(*judged, tmp_path / "1", *gate)
        assert result.exit_code == 3
        suites = ET.parse(tmp_path / "gate.xml").getroot()  # noqa: S314 - our own file
        assert (suites.get("failures"), suites.get("errors")) == ("0", "1")
        assert "1 of 10 rows could not be judged (10%), at most 5% may be: 1 invalid_output" in result.stderr
        assert refine("resume", tmp_path / "1", "--fail-under", "helpfulness=0.5").exit_code == 0
        server.reply = lambda _: Reply(text="?")
        nothing = refine(*judged, tmp_path / "2", "--baseline", tmp_path / "1")
        assert (nothing.exit_code, "no row is scored in both runs" in nothing.stderr) == (3, True)


def test_a_gate_over_no_rows_passes_nothing() -> None:
    """Where no row was judged there is no figure."""
    (check,) = Gate(fail_under={"length": 0.5}).result(evaluate([], Length(at_most=3))).checks
    assert (check.result, "0 of 0 rows could not be judged (0%)" in check.detail) == ("unscored", True)


def test_a_fall_since_the_baseline_fails(tmp_path: Path) -> None:
    """A fall that is no chance fails and names its rows; the comparison lists them, also as JSON."""
    judge = ["--judge", "length:at_most=3,unit=words", "--out"]
    good = rows_with(tmp_path / "good.jsonl", [1] * 30)
    bad = rows_with(tmp_path / "bad.jsonl", [1] * 15 + [9] * 15)
    assert refine("evaluate", good, *judge, tmp_path / "a").exit_code == 0
    result = refine("evaluate", bad, *judge, tmp_path / "b", "--baseline", tmp_path / "a")
    assert result.exit_code == 1
    assert "the mean score changed by -0.500, p < 0.001; the largest falls are rows 15, 16, 17" in result.stderr
    assert refine("evaluate", good, *judge, tmp_path / "c", "--baseline", tmp_path / "a").exit_code == 0
    chance = rows_with(tmp_path / "chance.jsonl", [1] * 29 + [9])
    result = refine("evaluate", chance, *judge, tmp_path / "d", "--baseline", tmp_path / "a")
    assert (result.exit_code, "largest falls" in result.stderr) == (0, False)
    assert "the mean score changed by -0.033" in result.stderr
    result = refine("compare", tmp_path / "a", tmp_path / "b")
    assert "length: 1.000 to 0.500, -0.500" in result.stdout
    assert "  row 15: 1.000 to 0.000  'q 15'\n" in result.stdout
    change = json.loads(refine("compare", tmp_path / "a", tmp_path / "b", "--json").stdout)["changes"]["length"]
    assert change["regressions"] == list(range(15, 30))
    assert "holds no run" in line_of(refine("compare", tmp_path / "a", tmp_path / "none"))


def test_the_fixture_fails_a_test(tmp_path: Path) -> None:
    """A test whose answers are not good enough fails with the figures, and one whose answers are passes."""
    (tmp_path / "test_answers.py").write_text(
        "from judges import Length\n"
        "from judges.testing import ScriptedModel\n"
        "ROWS = [{'question': 'q', 'answer': 'x' * n} for n in (1, 1, 9)]\n"
        "def test_good(judged):\n"
        "    assert len(judged(ROWS, Length(at_most=3), fail_under={'length': 0.6})) == 3\n"
        "def test_named(judged):\n"
        "    model = ScriptedModel([{'rationale': '', 'rating': 4, 'feedback': ''}] * 3)\n"
        "    names = ['length:at_most=3', 'helpfulness']\n"
        "    judged(ROWS, names, model=model, fail_under={'length': 0.6, 'helpfulness': 1.0})\n"
        "def test_bad(judged):\n"
        "    judged(ROWS, 'length:at_most=3', fail_under={'length': 0.7})\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "refine.pytest_plugin", "."]
    result = subprocess.run(
        command,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 1
    assert "1 failed, 2 passed" in result.stdout
    assert "failed: length has a mean score of at least 0.7; it is 0.667" in result.stdout


def test_a_gate_of_one_row_has_no_interval(tmp_path: Path) -> None:
    """The mean of a single row is told as it is, without how far it may be off."""
    (tmp_path / "rows.jsonl").write_text(json.dumps({"question": "q", "answer": "a"}))
    words = ("evaluate", tmp_path / "rows.jsonl", "--judge", "length:at_most=3", "--out", tmp_path / "run")
    result = refine(*words, "--fail-under", "length=0.8")
    assert result.exit_code == 0
    assert "it is 1.000 over 1 row" in result.stderr


@pytest.mark.parametrize("command", ["evaluate", "rescore", "merge", "estimate", "compare", "show"])
def test_each_command_has_help(command: str) -> None:
    """A command alone shows its help, with an example to copy."""
    result = refine(command)
    assert f"refine {command} " in result.output


def test_what_is_missing_is_one_line(tmp_path: Path) -> None:
    """A resume without a run, and prices that are not there: one line and an exit code, not a page, and not 0."""
    assert "RUN" in line_of(refine("resume"))
    rows = rows_with(tmp_path / "rows.jsonl", [1])
    wrong = refine("estimate", rows, "--judge", "length:at_most=3", "--prices", tmp_path / "nosuch.json")
    assert "--prices" in line_of(wrong)


def test_runs_of_two_judges_are_not_taken_for_one(tmp_path: Path) -> None:
    """Another setting, model or language is refused by a gate before a call, and told first elsewhere.

    The temperature is one of them, and reaches a model behind an address.
    """
    rows = rows_with(tmp_path / "rows.jsonl", [1, 2, 3, 9])
    rated = json.dumps({"rationale": "r", "rating": 4, "feedback": "f"})
    with serving(lambda asked: Reply(text=rated)) as server:

        def judged(run: str, words: int, model: str, *more: object, spec: str = "helpfulness") -> Result:
            judges = ["--judge", f"length:at_most={words},unit=words", "--judge", spec]
            asks = ["--model", model, "--base-url", server.url]
            return refine("evaluate", rows, *judges, *asks, "--out", tmp_path / run, *more)

        assert judged("a", 3, "small").exit_code == 0
        against, asked = ("--baseline", tmp_path / "a"), len(server.requests)
        line = line_of(judged("b", 2, "small", *against))
        assert "length is length:at_most=2,unit=words instead of length:at_most=3,unit=words" in line
        assert "helpfulness asks big instead of small" in line_of(judged("b", 3, "big", *against))
        assert "helpfulness is told to write ru instead of" in line_of(
            judged("b", 3, "small", "--language", "ru", *against)
        )
        warm = "helpfulness:temperature=0.7"
        assert "temperature=0.7 instead of" in line_of(judged("b", 3, "small", *against, spec=warm))
        assert "temperature" in line_of(judged("b", 3, "small", spec="helpfulness:temperature=[1]"))
        assert (len(server.requests), (tmp_path / "b").exists()) == (asked, False)
        assert judged("c", 3, "small", spec=warm).exit_code == 0
        assert [request["temperature"] for request in server.requests] == [0.0] * asked + [0.7] * asked
        assert judged("b", 2, "big", *against, "--allow-other-judge").exit_code == 0
        first = refine("compare", tmp_path / "a", tmp_path / "b").stdout.splitlines()[0]
        assert first.startswith("NOT THE SAME JUDGE: length is length:at_most=2")
        page = refine("report", tmp_path / "a", tmp_path / "b", "--out", "-", "--format", "md").stdout
        assert "Not the same judge" in page
        assert refine("rescore", tmp_path / "a", "--like", tmp_path / "b").exit_code == 0
        assert "NOT THE SAME" not in refine("compare", tmp_path / "a", tmp_path / "b").stdout
        assert "one of the two" in line_of(refine("rescore", tmp_path / "a"))


def test_a_baseline_of_another_dataset_is_refused_and_told_first_elsewhere(tmp_path: Path) -> None:
    """Rows that are new, missing or expect another answer are counted before a call; answers may differ."""

    def rows(name: str, *references: str) -> Path:
        pairs = ({"question": f"q {i}", "answer": name, "reference": one} for i, one in enumerate(references))
        file = tmp_path / f"{name}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in pairs))
        return file

    def judged(file: Path, *more: object) -> Result:
        return refine("evaluate", file, "--judge", "exact_match", "--out", tmp_path / file.stem, *more)

    assert judged(rows("a", "a", "b")).exit_code == 0
    against = ("--baseline", tmp_path / "a")
    others = {
        "more": (("a", "b", "c", "d"), "2 rows are new;"),
        "fewer": (("a",), "1 row is missing;"),
        "changed": (("c", "d"), "2 rows expect another answer;"),
    }
    for name, (references, change) in others.items():
        line = line_of(judged(rows(name, *references), *against))
        assert change in line
        assert "--allow-other-judge" in line
        assert not (tmp_path / name).exists()
        assert judged(rows(name, *references), *against, "--allow-other-judge").exit_code == 0
        told = refine("compare", tmp_path / "a", tmp_path / name).stdout.splitlines()[0]
        assert told == f"NOT THE SAME DATASET: {change[:-1]}"
        page = refine("report", tmp_path / "a", tmp_path / name, "--out", "-", "--format", "md").stdout
        assert "Not the same dataset" in page
    assert judged(rows("answers", "a", "b"), *against).exit_code == 0
    assert "NOT THE SAME" not in refine("compare", tmp_path / "a", tmp_path / "answers").stdout


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


def test_a_narrow_terminal_shows_all_of_the_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is cut off at 80 columns, least of all the time that is left."""
    master, slave = os.openpty()
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(slave, "w") as terminal, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", terminal)
        with show_progress() as on_progress:
            on_progress(Progress(done=9, total=40, calls=12, cost=0.018, seconds=60, seconds_left=240))
        terminal.flush()
        text = _shown(master, until="0:04:00 left")
    os.close(master)
    for part in ("9 of 40 cells", "0 unscored", "0 in flight", "12 calls", "$0.0180", "0:04:00 left"):
        assert part in text


def _shown(master: int, *, until: str) -> str:
    """What the terminal was sent up to these words; a terminal hands its bytes out in pieces."""
    text = ""
    while until not in text and select.select([master], [], [], 5.0)[0]:
        text += os.read(master, 1 << 16).decode(errors="replace")
    return text
