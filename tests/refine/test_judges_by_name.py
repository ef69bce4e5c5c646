"""Judges by name, by reference and from a file on the command line and in the guard's settings."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from judges import ConfigurationError, Judge, Panel
from judges.offline.run.manifest import Manifest
from refine.cli.app import app
from refine.server.assembly import _make_guards
from refine.server.config import load_settings
from tests.laws import for_every
from tests.model_server import ModelServer, Reply, serving

OWN = """
from judges import Length

class Own(Length):
    def __init__(self, most):
        super().__init__(at_most=most)
"""
FILE = """
[judges.short]
use = "length"
at_most = 2
unit = "words"

[judges.own]
use = "own_judges:Own"
most = 99
"""


def _rated(asked: dict[str, Any]) -> Reply:
    del asked
    return Reply(calls=(("Assessment", {"rationale": "It says so.", "rating": 3, "feedback": "Say more."}),))


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """Start a model server."""
    with serving(_rated) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with rows, a module and a file of judges."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text('{"question": "?", "answer": "three words here"}\n' * 2)
    (tmp_path / "own_judges.py").write_text(OWN)
    (tmp_path / "judges.toml").write_text(FILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def refine(line: str, *more: object) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(app, [*line.split(), *map(str, more)])


def specs_of(run: str) -> dict[str, str | None]:
    """Return the judges of a run, as its manifest names them."""
    return {record.name: record.spec for record in Manifest.read(Path(run)).judges}


@pytest.mark.usefixtures("folder")
def test_a_run_takes_a_file_of_judges() -> None:
    """Its judges run under the names of their tables, beside others; the run goes on without the file."""
    result = refine("evaluate rows.jsonl --judge judges.toml --judge json --judge own_judges:Own:most=3 --out run")
    assert result.exit_code == 0, result.output
    assert specs_of("run") == {
        "short": 'length:at_most=2,unit="words",name="short"',
        "own": "own_judges:Own:most=99",
        "json": "json",
        "length": "own_judges:Own:most=3",
    }
    Path("judges.toml").unlink()
    assert refine("resume run").exit_code == 0
    assert refine("rescore run --judge exact_match").exit_code in (0, 1)
    assert "exact_match" in "".join(specs_of("run"))


@pytest.mark.usefixtures("folder")
def test_one_judge_of_a_file() -> None:
    """It is named behind the path, for a run, an estimate and a gate."""
    result = refine("evaluate rows.jsonl --judge judges.toml:own --out run --fail-under own=0.5")
    assert result.exit_code == 0, result.output
    assert list(specs_of("run")) == ["own"]
    estimate = refine("estimate rows.jsonl --judge judges.toml --json")
    assert [part["judge"] for part in json.loads(estimate.stdout)["judges"]] == ["short", "own"]


def test_a_file_names_the_model(folder: Path, server: ModelServer) -> None:
    """For its judges; --model wins over it, a table's own over both, and the run remembers each."""
    os.environ.pop("OPENAI_API_KEY", None)
    at = f"openai-compatible:MODEL@{server.url}"
    (folder / "judges.toml").write_text(
        f'model = "{at.replace("MODEL", "of-file")}"\n[judges.helpfulness]\n'
        f'[judges.other]\nuse = "helpfulness"\nmodel = "{at.replace("MODEL", "of-table")}"\n'
    )
    for option, expected in {
        "": {"of-file", "of-table"},
        at.replace("MODEL", "of-option"): {"of-option", "of-table"},
    }.items():
        run = f"run-{len(option)}"
        model = ["--model", option] if option else []
        assert refine(f"evaluate rows.jsonl --judge judges.toml --out {run}", *model).exit_code == 0
        assert {asked["model"] for asked in server.requests} == expected
        server.requests.clear()
        assert refine(f"resume {run}").exit_code == 0
        assert not server.requests


@for_every(
    "options, line",
    [
        (
            "--judge faulty.toml",
            "--judge 'faulty.toml': faulty.toml: judges.short: the judge 'length' got an unexpected",
        ),
        ("--judge nowhere.toml", "--judge 'nowhere.toml': the judges file nowhere.toml cannot be read"),
        ("--judge judges.toml:shrt", "judges.toml has no judge 'shrt'; did you mean 'short'?"),
        ("--judge judges.toml --judge judges.toml:own", "several judges are called 'own'"),
        ("--judge nowhere:x", "--judge 'nowhere:x': nowhere:x cannot be imported: No module named 'nowhere'"),
        ("--judge own_judges:Own", "own_judges:Own cannot be made of its settings"),
        ("--judge helpfulness", "the judge 'helpfulness' asks a model; add one, e.g. --model"),
        ("--judge judges.toml --base-url http://localhost:1/v1", "--base-url http://localhost:1/v1 needs --model"),
        ("--judge helpfulness:model=gpt", "--judge 'helpfulness:model=gpt': the model 'gpt' cannot be set up"),
    ],
)
def test_what_cannot_be_loaded_is_one_line(folder: Path, options: str, line: str) -> None:
    """It names the option, and the table of a file, and leaves no run behind."""
    (folder / "faulty.toml").write_text("[judges.short]\nuse = 'length'\nlongest = 3\n")
    result = refine(f"evaluate rows.jsonl {options} --out run")
    assert result.exit_code == 2
    assert line in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not Path("run").exists()


def judge_in(folder: Path, text: str, flags: Mapping[str, Any] | None = None) -> Judge:
    """Return the judge of a guard that a file sets."""
    path = folder / "refine.toml"
    path.write_text(text)
    (guard,) = _make_guards(load_settings(path, flags or {}))
    return guard.judge


def test_a_guard_takes_names(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With settings behind them or in a table, by reference, from a file, as a list, from the environment."""
    for text in (
        'judge = "length:at_most=9"',
        'judge = "length"\njudge_settings = { at_most = 9 }',
        'judge = "own_judges:Own:most=9"',
        'judge = "own_judges:Own"\njudge_settings = { most = 9 }',
    ):
        assert judge_in(folder, text).name == "length"
    for text in ('judge = "judges.toml"', 'judge = ["judges.toml:short", "own_judges:Own:most=9"]'):
        panel = judge_in(folder, text)
        assert isinstance(panel, Panel)
        assert next(iter(panel.judges)) == "short"
    monkeypatch.setenv("REFINE_JUDGE", '["length:at_most=3", "json"]')
    assert isinstance(judge_in(folder, ""), Panel)
    monkeypatch.setenv("REFINE_JUDGE", "length:at_most=3")
    assert judge_in(folder, "").name == "length"
    assert judge_in(folder, "", {"judge": "judges.toml:short"}).name == "short"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")  # a guard makes the clients of its models at once
    asked = judge_in(folder, 'judge = ["helpfulness", "json"]\njudge_model = "openai:m"', {"judge": "helpfulness"})
    assert [model.name for model in asked.models] == ["openai:m"]


@for_every(
    "text, line",
    [
        ('judge = "lenght"', "judge = 'lenght': there is no judge 'lenght'; did you mean length"),
        ('judge = "length"', "judge = 'length': the judge 'length': any length would pass"),
        ('judge = "helpfulness"', "the judge 'helpfulness' asks a model; add --judge-model NAME"),
        ('judge = ["json", "helpfulness"]', "the judge 'helpfulness' asks a model; add --judge-model NAME"),
        ('judge = ["json"]\njudge_settings = { name = "x" }', "judge_settings are for one judge"),
        ('judge = "judges.toml"\njudge_settings = { name = "x" }', "judge_settings are for one judge"),
        ('judge = "judges.toml:shrt"', "judges.toml has no judge 'shrt'"),
        ('judge = "nowhere:x"', "judge = 'nowhere:x': the judge 'nowhere:x': nowhere:x cannot be imported"),
        ("judge = []", "there is no judge; name one"),
        ("judge = [3]", "judge = [3]: input should be a valid string"),
    ],
)
def test_what_a_guard_cannot_load_is_one_line(folder: Path, text: str, line: str) -> None:
    """It names the setting, what is wrong, and the remedy."""
    with pytest.raises(ConfigurationError) as raised:
        judge_in(folder, text)
    assert line in str(raised.value)
