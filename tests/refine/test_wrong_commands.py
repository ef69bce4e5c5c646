"""Whatever is wrong with a command is said in one line that says what to do, with exit code 2."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from refine.cli.app import app
from tests import forks
from tests.laws import for_every

ROOT = Path(__file__).parents[2]
GOOD = '{"question": "q", "answer": "a"}\n'
FILES = {
    "ok.jsonl": GOOD.encode(),
    "rows.txt": GOOD.encode(),
    "empty.jsonl": b"",
    "empty.csv": b"",
    "blank.jsonl": b"\n\n",
    "header.csv": b"question,answer\n",
    "binary.jsonl": b"\x89PNG\r\n\xff\xfe",
    "binary.csv": b"\x89PNG\r\n\xff\xfe",
    "utf16.jsonl": GOOD.encode("utf-16"),
    "array.jsonl": b'[\n{"question": "q"}\n]\n',
    "unknown.csv": b"a,b\n1,2\n",
    "many.csv": ",".join(f"column{number}" for number in range(500)).encode() + b"\n" + b"1," * 499 + b"1\n",
    "quote.csv": b'question,answer\n"q\nr",a\nx,"y\n',
    "field.jsonl": GOOD.encode() + b'{"question": "?", "answer": 3}\n',
    "run/results.jsonl": b"{}\n",
    "file": b"",
}
JUDGED = "--judge length:at_most=9 --out out"
MODEL = "--model openai:m --out out"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run in a folder of files, most of them wrong."""
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return tmp_path


@for_every(
    "command, line",
    [
        (f"none.jsonl {JUDGED}", "there is no file 'none.jsonl'; give the path of"),
        ("ok.jsonl --out out --judge '{\"judge\": 1}'", "`use` names the kind of judge, such as length"),
        ("ok.jsonl --out out --judge '{'", "'{' is not valid JSON"),
        (f"run {JUDGED}", "'run' is no file; give the path of"),
        (f"'' {JUDGED}", "'.' is no file"),
        (f"rows.txt {JUDGED}", "not from 'rows.txt'"),
        *(
            (f"{name} {JUDGED}", f"{name} holds no rows; write one")
            for name in FILES
            if not FILES[name].strip() and "." in name
        ),
        (f"header.csv {JUDGED}", "header.csv holds no rows"),
        (
            f"binary.jsonl {JUDGED}",
            "binary.jsonl, line 1: the line is not UTF-8 at column 1; save the file as UTF-8",
        ),
        (f"binary.csv {JUDGED}", "binary.csv, line 1: not UTF-8 at column 1; save"),
        (f"utf16.jsonl {JUDGED}", "save the file as UTF-8"),
        (
            f"array.jsonl {JUDGED}",
            "line 1: not valid JSON: expecting value at column 2; a row is one whole JSON object",
        ),
        (f"unknown.csv {JUDGED}", "no column is known, only 'a', 'b'; a sample has"),
        (f"many.csv {JUDGED}", "no column is known, only 'column0', 'column1'"),
        (f"quote.csv {JUDGED}", "quote.csv, line 4: a quotation mark is opened here and never closed"),
        ("ok.jsonl --out out", "Missing option '--judge' (see refine evaluate --help)"),
        (f"ok.jsonl ok.jsonl {JUDGED}", "unexpected extra argument"),
        (f"ok.jsonl {JUDGED} --limit 0", "Invalid value for '--limit'"),
        (f"ok.jsonl {JUDGED} --limit many", "Invalid value for '--limit'"),
        (f"ok.jsonl {JUDGED} --max-concurrency -1", "Invalid value for '--max-concurrency'"),
        (f"ok.jsonl {JUDGED} --max-concurency 3", "--max-concurrency"),
        (f"field.jsonl {JUDGED}", "field.jsonl, line 2: field 'answer'"),
        (f"field.jsonl {JUDGED}", "--keep-unreadable"),
        ("ok.jsonl --judge json --out run", "run already holds a run; choose another --out, or delete it first"),
        ("ok.jsonl --judge json --out file", "file is a file; choose another --out"),
        (
            "ok.jsonl --judge json --out file/run",
            "file/run cannot be written (Not a directory); choose another --out",
        ),
        ("ok.jsonl --judge json --out ''", "'--out': it is empty; name a folder"),
        ("ok.jsonl --judge xyzzy --out out", "there is no judge 'xyzzy'; `refine judges` lists the"),
        ("ok.jsonl --judge '' --out out", "there is no judge ''; `refine judges` lists"),
        (f"ok.jsonl --judge {'x' * 900} --out out", "`refine judges` lists"),
        ("ok.jsonl --judge Lenght --out out", "did you mean length"),
        ("ok.jsonl --judge none.toml --out out", "give the path of a TOML file, or a judge's name"),
        ("ok.jsonl --judge length --out out", "any length would pass; give at_least"),
        ("ok.jsonl --judge length: --out out", "any length would pass"),
        ("ok.jsonl --judge length:at_mst=3 --out out", "'at_mst'; did you mean 'at_most'?"),
        (
            "ok.jsonl --judge length:at_most=-1 --out out",
            "--judge 'length:at_most=-1': at_most is a whole number from 0",
        ),
        (
            "ok.jsonl --judge exact_match:model=x --out out",
            "'exact_match:model=x': the judge 'ragas.exact_match' got an unexpected keyword argument 'model'",
        ),
        (
            "ok.jsonl --judge tool_call_accuracy:strict_order=no --out out",
            "strict_order is True or False, not 'no'",
        ),
        ("ok.jsonl --judge length:3 --out out", "'3' is no setting; write length:key=value"),
        (
            "ok.jsonl --judge helpfulness:success_rating=5 --out out --model a:b",
            "--judge 'helpfulness:success_rating=5': success_rating is a whole number from 1 to 4",
        ),
        ("ok.jsonl --judge length:at_most=3,at_most=4 --out out", "at_most is set twice; leave one out"),
        ("ok.jsonl --judge length:at_most=3,name= --out out", "a judge's name is a text such as 'tone', not ''"),
        ("ok.jsonl --judge length:at_most=3,name=7 --out out", "name is a text, not 7"),
        ("ok.jsonl --judge pattern:required=5 --out out", "a pattern is a regular expression, or a list"),
        ("ok.jsonl --judge numeric_range:at_least=low --out out", "at_least is a finite number, not 'low'"),
        ("ok.jsonl --judge json:schema=5 --out out", "a JSON schema is a mapping, not 5"),
        (
            f"ok.jsonl --judge rubric {MODEL}",
            "needs more settings; give criteria=... (what to judge by) and levels=...",
        ),
        ("ok.jsonl --judge helpfulness --out out", "'helpfulness' asks a model; add one, e.g. --model"),
        ("ok.jsonl --judge helpfulness --out out --model ''", "--model is empty; write PROVIDER:NAME"),
        ("ok.jsonl --judge helpfulness --out out --model openai:", "a model is named by provider and model"),
        ("ok.jsonl --judge helpfulness --out out --model nobody:m", "a model is named by provider and model"),
        (f"ok.jsonl --judge helpfulness {MODEL}", "the model 'openai:m' cannot be set up"),
        (
            f"ok.jsonl --judge helpfulness {MODEL} --base-url http://localhost:9 --language xx",
            "no xx/helpfulness.toml; known are en",
        ),
        (
            f"ok.jsonl --judge json {MODEL} --base-url localhost:8000",
            "http://localhost:8000/v1, not 'localhost:8000'",
        ),
        (f"ok.jsonl --judge json {MODEL} --base-url ''", "--base-url is an http address such as"),
        (f"ok.jsonl --judge json {MODEL} --base-url ftp://host", "--base-url is an http address such as"),
    ],
)
def test_a_wrong_evaluation_is_one_line(folder: Path, command: str, line: str) -> None:
    """Files, judges, settings, models and options: nothing is judged, and no folder is left behind."""
    _assert_one_line(f"evaluate {command}", line)
    assert not (folder / "out").exists()
    assert (folder / "run" / "results.jsonl").read_bytes() == FILES["run/results.jsonl"]


@for_every(
    "command, line",
    [
        ("evalute ok.jsonl", "No such command 'evalute'. Did you mean 'evaluate'?"),
        ("list", "No such command 'list'. Did you mean 'judges'? (see refine --help)"),
        ("guard --port 8080", "No such command 'guard'. Did you mean 'serve'?"),
        ("version", "No such command 'version'. Did you mean '--version'?"),
        ("view run", "No such command 'view'. Did you mean 'show'?"),
        ("refine ok.jsonl", "No such command 'refine'. Did you mean 'trial'?"),
        ("replay none.db", "give the database that a loop writes by record='sqlite:///FILE'"),
        ("bogus", "No such command 'bogus' (see refine --help)"),
        ("--verison", "--version"),
        ("judges xyzzy", "there is no judge 'xyzzy'; `refine judges` lists the"),
        ("judges faithfullness", "did you mean faithfulness"),
        (
            "judges --find xyzzy",
            "no judge has 'xyzzy' in its names, its question, its needs or its tags; `refine judges`",
        ),
        ("judges --find", "Option '--find' requires an argument"),
        ("judges json length", "unexpected extra argument"),
    ],
)
def test_a_wrong_command_is_one_line(command: str, line: str) -> None:
    """A misspelt command, option or name is told the right one, or where to find it."""
    _assert_one_line(command, line)


def test_a_command_alone_shows_its_help() -> None:
    """Nothing was wrong yet, so there is help and no error."""
    for command in ("", "evaluate"):
        result = CliRunner().invoke(app, shlex.split(command), prog_name="refine")
        assert "Usage: refine" in result.output
        assert "refine:" not in result.output


def test_a_broken_package_costs_one_line_where_judges_are_listed_and_none_elsewhere(folder: Path) -> None:
    """A listing names it on stderr; a judge of ours is judged and shown without a word of it."""
    info = folder / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[selfrefine.judges]\nmine = broken_judges:Mine\n")
    (folder / "broken_judges.py").write_text("import no_such_module\n")
    listed, judged, shown = (
        forks.run("refine", *shlex.split(command), folder=folder)
        for command in ("judges --find exact", f"evaluate ok.jsonl {JUDGED}", "judges exact_match")
    )
    (line,) = listed.stderr.splitlines()
    assert line.startswith("refine: the judge broken_judges:Mine of an installed package cannot be loaded: Module")
    assert "ragas.exact_match" in listed.stdout
    assert (judged.stderr, shown.stderr) == ("", "")


def test_whoever_has_read_enough_is_told_nothing(folder: Path, tmp_path: Path) -> None:
    """A pipe that `head` closes is no fault of the command."""
    ours, theirs = os.pipe()
    os.close(ours)
    errors = tmp_path / "errors"
    with errors.open("wb") as file:
        streams = (file.fileno(), theirs, file.fileno())
        process = forks.start("refine", "judges", "--json", streams=streams, folder=folder)
        os.close(theirs)
        assert forks.end_of(process) == 1
    assert errors.read_text() == ""


def _assert_one_line(command: str, line: str) -> None:
    result = CliRunner().invoke(app, shlex.split(command), prog_name="refine")
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    (text,) = result.stderr.splitlines()
    assert text.startswith("refine: ")
    assert line in text
    assert len(text) < 450
