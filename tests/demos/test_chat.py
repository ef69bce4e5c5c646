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


def test_a_name_is_remembered_across_turns(chat: Chat) -> None:
    """What was said turns ago is still known."""
    code, shown = chat("Hello", "My name is Ada", "How are you?", "What is my name?")

    assert code == 0
    assert "Your name is Ada, as you told me." in shown


def test_chats_do_not_share_a_memory(chat: Chat) -> None:
    """A new chat knows nothing of the one before."""
    chat("My name is Ada")

    assert "Ada" not in chat("What is my name?")[1]


def test_a_refused_draft_is_never_shown(chat: Chat) -> None:
    """Drafts that are too brief are refused: a line tells so, and none of their words are printed."""
    _, shown = chat("Hello", "My name is Ada", "Hello", "What is my name?", "Hm", "Hm")

    assert shown.count("draft 1 refused, rated 1 of 4") == 3
    assert not [line for line in shown.splitlines() if line.strip().removeprefix("assistant ").strip() in BRIEF]


def test_a_refused_draft_is_not_remembered(chat: Chat) -> None:
    """The conversation holds what the user said, and neither drafts nor feedback."""
    _, shown = chat("Hello", "Hm", "What did I say?")

    assert "Before this you said “Hello” and “Hm”." in shown


def test_quit_ends_the_chat(chat: Chat) -> None:
    """Nothing after `/quit` is answered."""
    code, shown = chat("/quit", "Hello")

    assert code == 0
    assert "Hello" not in shown


def test_blank_lines_are_not_questions(chat: Chat) -> None:
    """An empty line gets no answer, and does not end the chat."""
    _, shown = chat("", "  ", "Hello")

    assert shown.count("assistant") == 1


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
