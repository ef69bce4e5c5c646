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


def test_a_run_holds_results_and_summary(rows: Path, tmp_path: Path) -> None:
    """Every row is a line of the results, in order, and each judge has its totals in the summary."""
    run = tmp_path / "runs" / "1"

    result = refine("evaluate", rows, "--judge", "length:at_most=1,unit=words", "--judge", "json", "--out", run)

    assert result.exit_code == 0
    judged = [Row.model_validate_json(line) for line in (run / "results.jsonl").read_text().splitlines()]
    assert [row.index for row in judged] == [0, 1, 2, 3]
    assert [row.verdicts["length"].passed for row in judged] == [True, False, False, True]
    summary = json.loads((run / "summary.json").read_text())
    assert summary["rows"] == 4
    assert summary["judges"]["length"]["ratings"] == {"1": 2, "2": 0, "3": 0, "4": 2}
    assert summary["judges"]["json"]["mean"] == 0.0


def test_the_table_sums_up(rows: Path, tmp_path: Path) -> None:
    """The table gives mean, ratings and share passed of each judge within 100 columns, and where the run is."""
    run = tmp_path / "run"

    output = refine("evaluate", rows, "--judge", "length:at_most=1,unit=words", "--out", run).stdout

    line = next(one for one in output.splitlines() if "length" in one)
    *figures, _seconds = re.findall(r"[\d.]+%?", line)
    assert figures == ["0.500", "2", "0", "0", "2", "50.0%", "0"]
    assert re.search(rf"4 rows in \d+\.\d s, written to {run}\n", output)
    assert max(len(one) for one in output.splitlines()[:4]) <= 100


def test_json_is_all_there_is_on_stdout(rows: Path, tmp_path: Path) -> None:
    """With --json stdout is the summary as it stands in the run."""
    run = tmp_path / "run"

    result = refine("evaluate", rows, "--judge", "length:at_most=99", "--out", run, "--json")

    assert json.loads(result.stdout) == json.loads((run / "summary.json").read_text())


def test_limit_takes_the_first_rows(rows: Path, tmp_path: Path) -> None:
    """With --limit only that many rows are looked at, broken ones further down included."""
    with rows.open("a") as file:
        file.write("broken\n")

    result = refine(
        "evaluate", rows, "--judge", "length:at_most=99", "--out", tmp_path / "run", "--limit", 3, "--json"
    )

    assert json.loads(result.stdout)["rows"] == 3


def test_an_existing_run_is_not_overwritten(rows: Path, tmp_path: Path) -> None:
    """A folder that holds a run is refused with the remedy, and left as it is."""
    run = tmp_path / "run"
    refine("evaluate", rows, "--judge", "length:at_most=99", "--out", run)
    before = (run / "results.jsonl").read_bytes()

    line = refused(refine("evaluate", rows, "--judge", "json", "--out", run))

    assert line == f"refine: {run} already holds a run; choose another --out, or delete it first"
    assert (run / "results.jsonl").read_bytes() == before


def test_an_unreadable_row_stops_before_anything_is_judged(rows: Path, tmp_path: Path) -> None:
    """The error names file, line, field and remedy; no run is left behind."""
    with rows.open("a") as file:
        file.write('{"question": "?", "answer": 3}\n')

    line = refused(refine("evaluate", rows, "--judge", "length:at_most=99", "--out", tmp_path / "run"))

    assert f"{rows}, line 5: field 'answer'" in line
    assert "--keep-unreadable" in line
    assert not (tmp_path / "run").exists()


def test_unreadable_rows_can_be_kept(rows: Path, tmp_path: Path) -> None:
    """Kept, they are unscored rows in their place, and the table says what is wrong with them."""
    with rows.open("a") as file:
        file.write('broken\n{"answer": "last"}\n')
    run = tmp_path / "run"

    result = refine("evaluate", rows, "--judge", "length:at_most=99", "--out", run, "--keep-unreadable")

    assert result.exit_code == 0
    judged = [Row.model_validate_json(line) for line in (run / "results.jsonl").read_text().splitlines()]
    assert [bool(row.error) for row in judged] == [False] * 4 + [True, False]
    assert f"1 x unreadable, first at index 4: {rows}, line 5: not valid JSON" in result.stdout


def test_nothing_scored_ends_with_one(tmp_path: Path) -> None:
    """Where no cell got a score the exit code is 1, and the reason is reported."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "?"}\n' * 3)

    result = refine("evaluate", rows, "--judge", "length:at_most=99", "--out", tmp_path / "run")

    assert result.exit_code == 1
    assert "3 x length no_response, first at index 0: there is no answer to judge" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--judge", "lenght"], "there is no judge 'lenght'; did you mean length"),
        (["--judge", "length:at_most=-1"], "--judge 'length:at_most=-1': at_most is a whole number from 0"),
        (["--judge", "length:at_most=abc"], "at_most is a whole number from 0, not 'abc'"),
        (
            ["--judge", "exact_match:model=x"],
            "'exact_match:model=x': the judge 'ragas.exact_match' got an unexpected keyword argument 'model'",
        ),
        (["--judge", "tool_call_accuracy:strict_order=no"], "strict_order is True or False, not 'no'"),
        (["--judge", "length:longest=3"], "unexpected keyword argument 'longest'"),
        (["--judge", "length:3"], "'3' is no setting; write length:key=value"),
        (["--judge", "length:at_most=99", "--judge", "length:at_most=99"], "several judges are called 'length'"),
        (["--judge", "helpfulness"], "the judge 'helpfulness' asks a model; add one, e.g. --model"),
        (
            ["--judge", "helpfulness:success_rating=5", "--model", "a:b"],
            "--judge 'helpfulness:success_rating=5': success_rating is a whole number from 1 to 4",
        ),
        (["--judge", "helpfulness", "--model", "gpt"], "the model 'gpt' cannot be set up"),
        (["--judge", "length:at_most=99", "--base-url", "http://x"], "--base-url http://x needs --model"),
    ],
)
def test_bad_options_are_refused(rows: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    """A wrong judge, setting or model is one line that names it, and leaves no run behind."""
    assert message in refused(refine("evaluate", rows, *arguments, "--out", tmp_path / "run"))
    assert not (tmp_path / "run").exists()


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


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("none.jsonl", None, "there is no file"),
        ("rows.txt", "x", "a .jsonl or a .csv file"),
        ("rows.jsonl", "", "holds no rows"),
    ],
)
def test_files_without_rows_are_refused(tmp_path: Path, name: str, text: str | None, message: str) -> None:
    """No file, a file of another kind and an empty one are one line."""
    if text is not None:
        (tmp_path / name).write_text(text)

    assert message in refused(
        refine("evaluate", tmp_path / name, "--judge", "length:at_most=99", "--out", tmp_path / "run")
    )


def test_two_judges_of_one_kind_have_names(rows: Path, tmp_path: Path) -> None:
    """Settings may hold commas, quotation marks and a name of one's own."""
    judges = ['pattern:name=a,required="one, two"', "pattern:name=b,forbidden=words"]

    result = refine(
        "evaluate",
        rows,
        *[part for one in judges for part in ("--judge", one)],
        "--out",
        tmp_path / "run",
        "--json",
    )

    assert [one["passed"] for one in json.loads(result.stdout)["judges"].values()] == [0.0, 0.5]


def test_a_rubric_fits_on_a_command_line(server: ModelServer, tmp_path: Path) -> None:
    """Levels are given as JSON; a name with colons is the model's name on the server."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "?", "answer": "rate me 2"}\n')
    judge = 'rubric:criteria=kindness,levels={"1": "rude", "2": "kind"}'

    result = refine(
        *["evaluate", rows, "--judge", judge, "--out", tmp_path / "run", "--json"],
        *["--model", "vendor/small:7b", "--base-url", server.url],
    )

    assert json.loads(result.stdout)["judges"]["rubric"]["mean"] == 1.0
    assert server.requests[0]["model"] == "vendor/small:7b"


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
            "--judge",
            "helpfulness",
            "--judge",
            "length:at_most=99",
            "--out",
            run,
        ],
        *["--model", "openai:tiny", "--base-url", server.url, "--language", "ru", "--max-concurrency", 2],
    )

    assert (result.returncode, result.stderr) == (0, "")
    assert "1 x helpfulness invalid_output, first at index 2: rating: " in result.stdout
    judged = [Row.model_validate_json(line) for line in (run / "results.jsonl").read_text().splitlines()]
    assert [row.verdicts["helpfulness"].rating for row in judged] == [4, 2, None, 3]
    summary = json.loads((run / "summary.json").read_text())["judges"]
    assert summary["helpfulness"]["usage"]["calls"] == len(server.requests) == 5
    assert summary["helpfulness"]["usage"]["input_tokens"] == 500
    assert summary["length"]["usage"]["calls"] == 0
    first = server.requests[0]
    assert (first["path"], first["model"], first["temperature"]) == ("/v1/chat/completions", "tiny", 0.0)
    assert re.search("[а-я]", first["messages"][0]["content"])


def test_a_direct_client_judges_by_its_name(server: ModelServer, tmp_path: Path) -> None:
    """`--model openai-compatible:MODEL@BASE_URL` needs no provider's package."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "how?", "answer": "rate me 4"}\n')
    options = ["evaluate", rows, "--judge", "helpfulness", "--out", tmp_path / "run", "--json"]

    result = refine(*options, "--model", f"openai-compatible:vendor/small:7b@{server.url}")

    assert json.loads(result.stdout)["judges"]["helpfulness"]["mean"] == 1.0
    assert (server.requests[0]["model"], server.requests[0]["response_format"]["type"]) == (
        "vendor/small:7b",
        "json_schema",
    )


def test_help_loads_no_framework() -> None:
    """Loading the command line imports neither LangChain nor pydantic, rich or the judges."""
    code = (
        "import sys; import refine.cli.app; "
        "print({'langchain', 'langchain_core', 'langgraph', 'openai', 'pydantic', 'rich'} & set(sys.modules))"
    )

    assert shell("-c", code).stdout == "set()\n"


def test_help_shows_how_to_give_settings() -> None:
    """The help of evaluate shows a command with settings, ready to copy."""
    output = refine("evaluate", "--help").stdout

    assert "refine evaluate rows.jsonl --judge length:at_most=80,unit=words --judge json --out runs/2\n" in output


def test_commands_are_listed_in_groups_a_line_each() -> None:
    """Every command is in one of the groups, and no sentence is cut short in eighty columns."""
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


def test_version() -> None:
    """The version is told and nothing else."""
    result = shell("-m", "refine", "--version")

    assert (result.returncode, result.stderr) == (0, "")
    assert re.fullmatch(r"refine \S.*\n", result.stdout)


def test_without_the_extra_one_line_names_it() -> None:
    """Where typer is not installed, the command says which extra is missing."""
    result = shell("-c", "import sys; sys.modules['typer'] = None; from refine.cli import main; main()")

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "refine: typer missing; install the extra: selfrefine[cli]\n"


def test_the_judges_are_listed() -> None:
    """Each judge has a row that says what it asks; the list can be narrowed."""
    result = refine("judges")
    assert result.exit_code == 0
    assert "ragas.faithfulness" in result.stdout
    assert "How helpful is the answer to the person who asked?" in " ".join(result.stdout.split())
    narrowed = refine("judges", "--find", "JSON")
    names = {*narrowed.stdout.split()}
    assert {"json", "json_match"} <= names
    assert "helpfulness" not in names


def test_one_judge_is_announced() -> None:
    """An alias finds it; its needs, its price and its source are reported."""
    output = " ".join(refine("judges", "faithfulness").stdout.split())
    assert "judge ragas.faithfulness also called faithfulness" in output
    assert "needs response, retrieved_contexts model calls 2" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["poetry"], "there is no judge 'poetry'"), (["--find", "poetry"], "no judge has 'poetry' in its names")],
)
def test_an_unknown_judge_is_refused(arguments: list[str], message: str) -> None:
    """One line says so."""
    assert message in refused(refine("judges", *arguments))
