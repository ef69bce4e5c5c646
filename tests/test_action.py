"""The GitHub Action, its steps run as a runner runs them, and the hook for pre-commit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # comes without types
from typer.testing import CliRunner

from refine.cli.app import app
from tests.snippets import ROOT

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
PYTHON = f"""#!/bin/sh
if [ "$2" = pip ]; then echo "$@" >> "$RUNNER_TEMP/pip.txt"; else exec {sys.executable} "$@"; fi
"""
GH = """#!/bin/sh
case "$*" in
  *--paginate*) cat "$RUNNER_TEMP/comments.txt" ;;
  *) echo "$@" >> "$RUNNER_TEMP/gh.txt" ;;
esac
"""


class Runner:
    """A runner of composite actions: expressions are filled in, steps run by bash until one fails."""

    def __init__(self, folder: Path, pull_request: str = "") -> None:
        self.folder = folder
        self.known = {"github.event.pull_request.comments_url": pull_request, "github.token": "token"}
        for name, text in (("python", PYTHON), ("gh", GH)):
            program = folder / "bin" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text(text)
            program.chmod(0o700)

    def run(self, **inputs: str) -> int:
        """Run all steps, and return the exit code of the last that ran."""
        for name, setting in ACTION["inputs"].items():
            default = self.fill(str(setting.get("default", "")))
            self.known[f"inputs.{name}"] = inputs.get(name.replace("-", "_"), default)
        return next((code for code in map(self.run_step, ACTION["runs"]["steps"]) if code), 0)

    def run_step(self, step: dict[str, Any]) -> int:
        """Run a step, and keep its outputs."""
        output = self.folder / "output.txt"
        output.write_text("")
        environment = {
            **os.environ,
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "RUNNER_TEMP": str(self.folder),
            "GITHUB_ACTION_PATH": "/action",
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
            **{name: self.fill(value) for name, value in step.get("env", {}).items()},
        }
        assert "${{" not in step["run"], "an input inside a script would be run as a part of it"
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        code = subprocess.run(shell, cwd=self.folder, env=environment, check=False).returncode
        for line in output.read_text().splitlines():
            name, _, value = line.partition("=")
            self.known[f"steps.{step['id']}.outputs.{name}"] = value
        return code

    def fill(self, text: str) -> str:
        """Return a text with its expressions filled in; unknown ones are errors."""
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda expression: self.known[expression[1]], text)

    def text(self, name: str) -> str:
        """Return what was written into a file, or nothing."""
        file = self.folder / name
        return file.read_text(encoding="utf-8") if file.exists() else ""


def test_the_action_judges_compares_comments_and_fails(tmp_path: Path) -> None:
    """A good run passes and becomes the baseline; a worse one is compared, commented, reported and fails."""
    (tmp_path / "-good rows.csv").write_text("question,answer\n" + "Why?,Because it is so.\n" * 3)
    (tmp_path / "bad.csv").write_text("question,answer\n" + "Why?,No.\n" * 3)
    (tmp_path / "comments.txt").write_text("")
    runner = Runner(tmp_path, pull_request="https://example.org/comments")
    judge = "length:at_least=5 \r\n  pattern:name=plain,forbidden=$(touch hacked)"
    gate = {"judge": judge, "fail_under": "length=0.9"}

    assert runner.run(rows="-good rows.csv", out="before", baseline="nowhere", comment="false", **gate) == 0
    assert "### Answers: good enough" in runner.text("summary.md")
    assert runner.text("gh.txt") == ""
    assert runner.text("pip.txt") == "-m pip install --quiet /action[cli,openai]\n"

    assert runner.run(rows="bad.csv", out="after", baseline="before", options="--max-calls=5", **gate) == 1
    assert {runner.fill(output["value"]) for output in ACTION["outputs"].values()} == {
        "1",
        "after",
        str(tmp_path / "report.html"),
    }
    comment = runner.text("comment.md")
    assert comment.startswith("<!-- selfrefine: bad.csv -->\n### Answers: not good enough")
    assert "gate failed" in comment
    assert "in before" in comment
    assert runner.text("gh.txt").startswith("api --method POST https://example.org/comments --silent -F body=@")
    (tmp_path / "comments.txt").write_text(
        "https://example.org/1\tanother bot's\nhttps://example.org/2\t<!-- selfrefine: bad.csv -->\\n### Answers\n"
    )
    runner.run(rows="bad.csv", out="again", **gate)
    assert "api --method PATCH https://example.org/2 --silent" in runner.text("gh.txt")
    assert "<html" in runner.text("report.html")
    assert not (tmp_path / "hacked").exists()


def test_the_action_says_what_is_wrong(tmp_path: Path) -> None:
    """Rows that are not there are wrong usage, with the line that says so in the summary."""
    runner = Runner(tmp_path)
    assert runner.run(rows="rows.csv", judge="length:at_least=5") == 2
    assert "### Answers: could not be judged" in runner.text("summary.md")
    assert "rows.csv" in runner.text("summary.md")


def test_every_input_of_the_action_is_read() -> None:
    """An input that no step reads would be ignored without a word."""
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    assert [name for name in ACTION["inputs"] if f"inputs.{name} " not in text] == []


def test_the_hook_of_pre_commit_lints_judge_files(tmp_path: Path) -> None:
    """It installs what the command needs, takes files of judges, and fails on one with a fault in it."""
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert sorted(hook["additional_dependencies"]) == sorted(project["optional-dependencies"]["cli"])
    assert all(re.search(hook["files"], name) for name in ("judges.toml", "eval/judges-de.toml"))
    assert not re.search(hook["files"], "pyproject.toml")
    good, bad = tmp_path / "judges.toml", tmp_path / "judges-bad.toml"
    good.write_text('[judges.short]\nuse = "length"\nat_most = 80\n')
    bad.write_text('[judges.short]\nuse = "lenght"\n')
    name, *command = hook["entry"].split()
    assert name == "refine"
    assert [CliRunner().invoke(app, [*command, str(file)]).exit_code for file in (good, bad)] == [0, 1]
