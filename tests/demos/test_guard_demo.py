"""The demo of the guard: a scripted chatbot, the real server, the real client."""

from __future__ import annotations

import re

import pytest

from demos.guard import main


def test_every_answer_is_refined(capsys: pytest.CaptureFixture[str]) -> None:
    """Each question takes two attempts, the second is accepted, and the page's address is printed."""
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert shown.count("attempt 1") == shown.count("attempt 2") == 3
    assert shown.count("because") == 3
    assert "usual way" not in shown
    assert re.search(r"followed once:\s+http://127\.0\.0\.1:\d+/#link=\S+", shown)


def test_a_wrong_option_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A port that cannot be is refused in one line."""
    assert main(["--port", "99999"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "port = 99999" in line
