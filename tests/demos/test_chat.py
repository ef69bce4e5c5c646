"""The chat demo: it remembers, shows accepted answers only, and ends cleanly."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest

from demos.chat import main
from tests import forks
from tests.snippets import ROOT

BRIEF = ("Noted.", "Yes.", "No.", "Hello.", "Right.")
"""All that the script says when it is too brief."""

Chat = Callable[..., tuple[int, str]]


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Chat:
    """Chat in this process: lines in, exit code and screen out."""

    def run(*lines: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        code = main([])
        return code, capsys.readouterr().out

    return run


def test_a_chat_remembers_what_was_said(chat: Chat) -> None:
    """Turns ago, in this chat and in no other; neither drafts nor feedback, which are not shown either."""
    code, shown = chat("Hello", "My name is Ada", "How are you?", "What is my name?")
    assert code == 0
    assert "Your name is Ada, as you told me." in shown
    assert "Ada" not in chat("What is my name?")[1]
    _, shown = chat("Hello", "My name is Ada", "Hello", "What is my name?", "Hm", "Hm")
    assert shown.count("draft 1 refused, rated 1 of 4") == 3
    assert not [line for line in shown.splitlines() if line.strip().removeprefix("assistant ").strip() in BRIEF]
    assert "Before this you said “Hello” and “Hm”." in chat("Hello", "Hm", "What did I say?")[1]


def test_quit_ends_the_chat_and_a_blank_line_does_not(chat: Chat) -> None:
    """Nothing after `/quit` is answered, nor is an empty line."""
    code, shown = chat("/quit", "Hello")
    assert code == 0
    assert "Hello" not in shown
    assert chat("", "  ", "Hello")[1].count("assistant") == 1


def test_ctrl_c_ends_the_chat(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C while the chat waits for input is a way to leave it."""

    class Interrupted:
        def isatty(self) -> bool:
            return False

        def readline(self) -> str:
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", Interrupted())

    assert main([]) == 0
    assert capsys.readouterr().err == ""


def test_it_runs_as_a_module() -> None:
    """`python -m demos.chat` reads piped lines, and exits with 0 at their end."""
    ran = forks.run("demos.chat", folder=ROOT, typed="My name is Ada\nWho am I?\n")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "Your name is Ada, as you told me." in ran.stdout
