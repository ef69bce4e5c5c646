"""The command line: what it writes, what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from judges.offline import Row
from judges.offline.dataset import reading
from refine.cli.app import app
from tests import forks
from tests.model_server import ModelServer, Reply, serving

ROOT = Path(__file__).parents[2]


def _rated(asked: dict[str, Any]) -> Reply:
    """Rate an answer by the digit in it; one that has none gets a rating outside of the scale."""
    found = re.search(r'"answer": "rate me (\d)"', asked["messages"][-1]["content"])
    rating = int(found.group(1)) if found else 9
    return Reply(calls=(("Assessment", {"rationale": "It says so.", "rating": rating, "feedback": "Say more."}),))


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """Start a model server."""
    with serving(_rated) as one:
        yield one


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Write four rows, two of them with answers of more than one word."""
    path = tmp_path / "rows.jsonl"
    answers = ["one", "two words", "three words here", "four"]
    path.write_text("".join(json.dumps({"question": "?", "answer": one}) + "\n" for one in answers))
    return path


def refine(*arguments: object) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(app, [str(one) for one in arguments])


def refused(result: Result) -> str:
    """Give the one line on stderr of a command that refused its input."""
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("refine: ")
    return line


def shell(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, *(str(one) for one in arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=ROOT,
        env={**os.environ, "OPENAI_API_KEY": "", "PYTHONPATH": str(ROOT), **environment},
    )


def judged_rows(run: Path) -> list[Row]:
    """Read the results of a run."""
    return [Row.model_validate_json(line) for line in (run / "results.jsonl").read_text().splitlines()]


def test_a_run_holds_results_and_summary(rows: Path, tmp_path: Path) -> None:
    """Every row is a line, in order, and each judge has its totals; the table gives them in 100 columns."""
    run = tmp_path / "runs" / "1"

    result = refine("evaluate", rows, "--judge", "length:at_most=1,unit=words", "--judge", "json", "--out", run)

    assert result.exit_code == 0
    judged = judged_rows(run)
    assert [row.index for row in judged] == [0, 1, 2, 3]
    assert [row.verdicts["length"].passed for row in judged] == [True, False, False, True]
    summary = json.loads((run / "summary.json").read_text())
    assert summary["rows"] == 4
    assert summary["judges"]["length"]["ratings"] == {"1": 2, "2": 0, "3": 0, "4": 2}
    assert summary["judges"]["json"]["mean"] == 0.0
    line = next(one for one in result.stdout.splitlines() if "length" in one)
    *figures, _seconds = re.findall(r"[\d.]+%?", line)
    assert figures == ["0.500", "2", "0", "0", "2", "50.0%", "0"]
    assert re.search(rf"4 rows in \d+\.\d s, written to {run}\n", result.stdout)
    assert max(len(one) for one in result.stdout.splitlines()[:4]) <= 100


def test_json_is_all_there_is_on_stdout(rows: Path, tmp_path: Path) -> None:
    """It is the summary of the run; --limit takes the first rows, and broken ones further down are no matter.

    Settings may hold commas, quotation marks and a name of one's own, so that two judges are of one kind.
    """
    with rows.open("a") as file:
        file.write("broken\n")
    run = tmp_path / "run"
    judges = ("--judge", 'pattern:name=a,required="one, two"', "--judge", "pattern:name=b,forbidden=words")

    result = refine("evaluate", rows, *judges, "--out", run, "--json", "--limit", 4)

    summary = json.loads(result.stdout)
    assert summary == json.loads((run / "summary.json").read_text())
    assert summary["rows"] == 4
    assert [one["passed"] for one in summary["judges"].values()] == [0.0, 0.5]


def test_unreadable_rows_can_be_kept(rows: Path, tmp_path: Path) -> None:
    """Kept, they are unscored rows in their place, and the table says what is wrong with them."""
    with rows.open("a") as file:
        file.write('broken\n{"answer": "last"}\n')
    run = tmp_path / "run"

    result = refine("evaluate", rows, "--judge", "length:at_most=99", "--out", run, "--keep-unreadable")

    assert result.exit_code == 0
    assert [bool(row.error) for row in judged_rows(run)] == [False] * 4 + [True, False]
    assert f"1 x unreadable, first at index 4: {rows}, line 5: not valid JSON" in result.stdout


def test_nothing_scored_ends_with_one(tmp_path: Path) -> None:
    """Where no cell got a score the exit code is 1, and the reason is reported."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "?"}\n' * 3)

    result = refine("evaluate", rows, "--judge", "length:at_most=99", "--out", tmp_path / "run")

    assert result.exit_code == 1
    assert "3 x length no_response, first at index 0: there is no answer to judge" in result.stdout


def test_columns_and_encoding_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A latin-1 file whose columns have other names is judged; what is not read is named; resume knows both."""
    reading._named.clear()
    path, run = tmp_path / "rows.csv", tmp_path / "run"
    path.write_text("q;out;lang\nOù?;là;fr\nQui?;moi;fr\n", encoding="latin-1")
    options = ("--map", "question=q", "--map", "answer=out", "--encoding", "latin-1")
    done = refine("evaluate", path, "--judge", "length:at_most=99", "--out", run, *options)
    assert done.exit_code == 0, done.output
    assert "judges that read them: 'lang'" in caplog.text
    assert [
        json.loads(line)["sample"]["response"] for line in (run / "results.jsonl").read_text().splitlines()
    ] == ["là", "moi"]
    assert refine("resume", run).exit_code == 0
    for wrong, message in (("answer", "--map is FIELD=COLUMN"), ("anwser=out", "did you mean 'answer'?")):
        assert message in refused(
            refine("evaluate", path, "--judge", "json", "--out", tmp_path / "new", "--map", wrong)
        )


def test_a_model_is_named_on_a_command_line(server: ModelServer, tmp_path: Path) -> None:
    """A name with colons is the model's on the server, at an address or by its own; levels are given as JSON."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "?", "answer": "rate me 2"}\n')
    judge = 'rubric:criteria=kindness,levels={"1": "rude", "2": "kind"}'
    options = ["evaluate", rows, "--judge", judge, "--json"]

    at = refine(*options, "--out", tmp_path / "at", "--model", "vendor/small:7b", "--base-url", server.url)
    by = refine(
        *options, "--out", tmp_path / "by", "--model", f"openai-compatible:vendor/small:7b@{server.url}"
    )  # which needs no provider's package

    assert [json.loads(one.stdout)["judges"]["rubric"]["mean"] for one in (at, by)] == [1.0, 1.0]
    assert [asked["model"] for asked in server.requests] == ["vendor/small:7b"] * 2
    assert server.requests[1]["response_format"]["type"] == "json_schema"


def test_a_model_judges_over_http(server: ModelServer, tmp_path: Path) -> None:
    """A judge asks an OpenAI-compatible server without a key, a check does not; what it refuses is unscored."""
    rows = tmp_path / "rows.jsonl"
    answers = ["rate me 4", "rate me 2", "broken", "rate me 3"]
    rows.write_text("".join(json.dumps({"question": "how?", "answer": one}) + "\n" for one in answers))
    run = tmp_path / "run"

    result = shell(
        *[
            "-m",
            "refine",
            "evaluate",
            rows,
            "--out",
            run,
            "--judge",
            "helpfulness",
            "--judge",
            "length:at_most=99",
        ],
        *["--model", "openai:tiny", "--base-url", server.url, "--language", "ru", "--max-concurrency", 2],
    )

    assert (result.returncode, result.stderr) == (0, "")
    assert "1 x helpfulness invalid_output, first at index 2: rating: " in result.stdout
    assert [row.verdicts["helpfulness"].rating for row in judged_rows(run)] == [4, 2, None, 3]
    summary = json.loads((run / "summary.json").read_text())["judges"]
    assert summary["helpfulness"]["usage"]["calls"] == len(server.requests) == 5
    assert summary["helpfulness"]["usage"]["input_tokens"] == 500
    assert summary["length"]["usage"]["calls"] == 0
    first = server.requests[0]
    assert (first["path"], first["model"], first["temperature"]) == ("/v1/chat/completions", "tiny", 0.0)
    assert re.search("[а-я]", first["messages"][0]["content"])


def test_help_loads_no_framework() -> None:
    """Loading the command line imports neither LangChain nor pydantic, rich or the judges."""
    code = (
        "import sys; import refine.cli.app; "
        "print({'langchain', 'langchain_core', 'langgraph', 'openai', 'pydantic', 'rich'} & set(sys.modules))"
    )

    assert shell("-c", code).stdout == "set()\n"


def test_commands_are_listed_in_groups_a_line_each() -> None:
    """No sentence is cut short in eighty columns; the help of one shows how settings are given, ready to copy."""
    shown = CliRunner().invoke(app, ["--help"], terminal_width=80).stdout
    groups = re.findall(r"^(\S.*):\n((?:  .*\n)+)", shown.partition("Options:")[2], re.MULTILINE)

    assert [name for name, _ in groups] == [
        "Judge a dataset",
        "Read and compare runs",
        "Loops, labels and certificates",
        "Guard a chatbot",
    ]
    lines = [line for _, text in groups for line in text.splitlines()]
    assert len(lines) == len(app.registered_commands)
    assert [line for line in lines if line.endswith("...") or len(line) > 80] == []
    copied = "refine evaluate rows.jsonl --judge length:at_most=80,unit=words --judge json --out runs/2\n"
    assert copied in refine("evaluate", "--help").stdout


def test_version() -> None:
    """The version is told and nothing else."""
    result = forks.run("refine", "--version", folder=ROOT)

    assert (result.returncode, result.stderr) == (0, "")
    assert re.fullmatch(r"refine \S.*\n", result.stdout)


def test_without_the_extra_one_line_names_it() -> None:
    """Where typer is not installed, the command says which extra is missing."""
    result = shell("-c", "import sys; sys.modules['typer'] = None; from refine.cli import main; main()")

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "refine: typer missing; install the extra: selfrefine[cli]\n"


def test_commands_that_calculate_nothing_need_no_numpy(tmp_path: Path) -> None:
    """With the extra `cli` alone judges are found and begun, and runs read; the rest says what to add."""
    without = "import sys; sys.modules |= {'numpy': None, 'scipy': None}; from refine.cli import main; main()"
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "q", "answer": "abc"}\n', encoding="utf-8")
    for command, code, said in (
        (["judges", "--find", "json"], 0, "judges; refine judges NAME tells more of one"),
        (["new-judge", "brevity", "--out", tmp_path / "brevity"], 0, "refine evaluate rows.jsonl --judge brevity"),
        (["evaluate", rows, "--judge", "length:at_most=3", "--out", tmp_path / "run"], 0, "1 row in"),
        (["report", tmp_path / "run"], 0, "report.html"),
        (["verify", rows], 0, "nothing is sealed"),
        (
            ["compare", tmp_path / "run", tmp_path / "run"],
            2,
            "is not installed; install the extra: selfrefine[trust]",
        ),
    ):
        result = shell("-c", without, *map(str, command))
        assert (result.returncode, "Traceback" in result.stderr) == (code, False), result.stderr
        assert said in result.stdout + result.stderr


def test_the_judges_are_listed() -> None:
    """Each with what it asks; the list can be narrowed, and one is told all about, found by an alias."""
    result = refine("judges")
    assert result.exit_code == 0
    assert "ragas.faithfulness" in result.stdout
    assert "How helpful is the answer to the person who asked?" in " ".join(result.stdout.split())
    narrowed = refine("judges", "--find", "JSON")
    names = {*narrowed.stdout.split()}
    assert {"json", "json_match"} <= names
    assert "helpfulness" not in names

    output = " ".join(refine("judges", "faithfulness").stdout.split())
    assert "judge ragas.faithfulness also called faithfulness" in output
    assert "needs response, retrieved_contexts model calls 2" in output
