"""Beginning with a guard: `refine serve init`, and what `--check` has doubts about."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from refine.cli.app import app

UPSTREAM = 'upstream = "http://127.0.0.1:9/v1"\njudge = "length:at_least=1"\n'
DOUBTS = {
    'upstream_key = "caler"\n': "upstream_key looks like 'caller' misspelt",
    'upstream_key = "OPENAI_API_KEY"\n': "upstream_key looks like the name of an environment variable",
    'upstream_key = "Env:OPENAI"\n': "upstream_key looks like 'env' misspelt",
    'upstream_key = "envOPENAI_API_KEY"\n': "upstream_key looks like the name of an environment variable",
    'upstream_key = "Bearer sk-of-some-length"\n': "upstream_key begins with 'Bearer'",
    'record = "postgresql://me:hunter2@127.0.0.1:1/x"\n': "cannot be used",
    "drain_s = 5\npolicy = { deadline_s = 60 }\n": "only 5 s when the server stops (drain_s)",
    "max_attempts = 1000000\n": "max_attempts = 1,000,000 may cost that many calls",
    '[guards.a]\nmodels = ["gpt-*"]\n[guards.b]\nmodels = ["gpt-5"]\n': "guards a and b are both for the model",
}


def check(file: Path, text: str) -> str:
    """Return what `refine serve --check` says of a configuration, which can be used."""
    record = "" if "record =" in text else "record = false\n"
    file.write_text(f"{record}{UPSTREAM}{text}", encoding="utf-8")
    result = CliRunner().invoke(app, ["serve", "--config", str(file), "--check"])
    assert result.exit_code == 0, result.output
    return result.output


def test_what_is_hardly_meant_is_a_warning(tmp_path: Path) -> None:
    """Each doubt is a line, without a secret in it; what is fine has none."""
    file = tmp_path / "refine.toml"
    missing = {text: said for text, doubt in DOUBTS.items() if doubt not in (said := check(file, text))}
    assert missing == {}
    fine = '[guards.a]\nmodels = ["gpt-*"]\nupstream_key = "sk-0123456789abcdef"\n[guards.b]\nmodels = ["o3"]\n'
    assert "warning" not in check(file, fine)
    assert "hunter2" not in check(file, 'record = "postgresql://me:hunter2@127.0.0.1:1/x"\n')


@pytest.mark.parametrize("asked", [True, False])
def test_init_writes_a_configuration_that_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, asked: bool
) -> None:
    """Three questions, or none; the file can be used as it is, and another one is never overwritten."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    answers = "http://127.0.0.1:9/v1\nlength:at_most=80\n\n" if asked else None
    begun = CliRunner().invoke(app, ["serve", "init", *([] if asked else ["--yes"])], input=answers)
    assert begun.exit_code == 0, begun.output
    assert "does not start" not in begun.output
    settings = tomllib.loads((tmp_path / "refine.toml").read_text(encoding="utf-8"))
    assert settings["judge"] == ("length:at_most=80" if asked else "length:at_least=1")
    checked = CliRunner().invoke(app, ["serve", "--config", "refine.toml", "--check"])
    assert (checked.exit_code, "warning" in checked.output) == (0, False), checked.output
    again = CliRunner().invoke(app, ["serve", "init", "--yes"])
    assert (again.exit_code, "there already" in again.output) == (2, True)
