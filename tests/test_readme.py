"""The README: every snippet runs, prints what it says, and every command exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from judges import Length
from judges.offline import evaluate
from refine import write_report
from tests.model_server import Reply, serving, tools_of
from tests.pictures import FOLDER, NAMES, WIDTH, photograph
from tests.snippets import ROOT, blocks, expected_output, missing_in_commands, run

README = (ROOT / "README.md").read_text(encoding="utf-8")
SNIPPETS = blocks(README, "python")


def _helpful(asked: dict[str, Any]) -> Reply:
    if "Assessment" in tools_of(asked):
        return Reply(calls=(("Assessment", {"rationale": "Complete.", "rating": 4, "feedback": ""}),))
    return Reply("git reset --soft HEAD~1")


def _run(snippet: str) -> list[str]:
    return run(snippet, {"__name__": "readme"}, "README.md")


@pytest.mark.parametrize("snippet", SNIPPETS[1:], ids=lambda text: text.split("\n")[0])
def test_a_snippet_runs_and_prints_what_its_comments_say(
    snippet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each python block runs as it stands; each print has its output in a comment behind it."""
    monkeypatch.chdir(tmp_path)
    expected = expected_output(snippet)
    assert expected
    assert _run(snippet) == expected


def test_the_first_example_runs_on_a_real_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example with models by name runs through the OpenAI client, here against a server on loopback."""
    with serving(_helpful) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_API_BASE", server.url)
        assert _run(SNIPPETS[0]) == ["git reset --soft HEAD~1", "4"]
    assert [asked["model"] for asked in server.requests] == ["gpt-5-mini", "gpt-5"]


def test_the_first_example_is_short() -> None:
    """The first screen holds an example of at most 15 lines."""
    assert len(SNIPPETS[0].strip().splitlines()) <= 15


def test_the_page_is_short() -> None:
    """Whoever comes reads it to its end."""
    assert len(README.splitlines()) <= 130


def test_the_pictures_are_small_and_shown() -> None:
    """The README, which the site begins with, shows page and report with a text for those who cannot see them."""
    files = [FOLDER / name for name in NAMES]
    for file, page in zip(files, ("record", "report"), strict=True):
        assert _width_of(file) <= WIDTH
        assert re.search(rf"^!\[[^]]{{20,}}\]\(docs/pictures/{file.name}\)$", README, re.MULTILINE)
        assert f"](pictures/{file.name})" in (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert sorted(FOLDER.iterdir()) == sorted(files)
    assert sum(file.stat().st_size for file in files) <= 150_000


def test_the_pictures_can_be_taken_again(browser: Browser, tmp_path: Path) -> None:
    """The script that took them opens the guard's page and a report, and writes two pictures as wide."""
    evaluate([{"question": "Why?", "answer": "So."}], Length(at_most=3), run=tmp_path / "run")
    photograph(browser, tmp_path / "pictures", write_report(tmp_path / "run"))
    assert [_width_of(tmp_path / "pictures" / name) for name in NAMES] == [WIDTH, WIDTH]


def _width_of(picture: Path) -> int:
    """Return the width that the head of an extended WebP tells, less one, in 24 bits."""
    head = picture.read_bytes()[:30]
    assert (head[:4], head[8:16]) == (b"RIFF", b"WEBPVP8X")
    return int.from_bytes(head[24:27], "little") + 1


def test_the_two_commands_come_first() -> None:
    """The demo and the tests each take one command, within the first screen."""
    first_screen = "\n".join(README.splitlines()[:35])
    assert "pip install uv && uv run python -m demos.weather" in first_screen
    assert "pip install uv && uv run --group dev pytest" in first_screen


def test_the_demo_installs_no_tests() -> None:
    """`uv run` alone installs what the first command needs: the agent and the terminal, no browser, no numbers."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["uv"]["default-groups"] == ["demo"]
    assert project["dependency-groups"]["demo"] == ["selfrefine[agents,cli]"]


def test_the_package_is_installed_from_its_source() -> None:
    """No index has it, so the line names the folder, with extras that there are."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    (named,) = re.findall(r'`pip install "(.*?)"`', README)
    assert named == ".[openai,cli]"
    assert {"openai", "cli"} <= extras.keys()


def test_the_commands_of_the_readme_exist() -> None:
    """Every `python -m` module can be found, and `refine evaluate` knows every option shown."""
    modules = set(re.findall(r"python -m ([\w.]+)", README))
    assert {"demos.weather", "demos.chat", "demos.offline", "tests.bench"} <= modules
    assert any(line.startswith("refine evaluate") for block in blocks(README, "sh") for line in block.splitlines())
    assert missing_in_commands(README) == []
