"""The demo of the middleware: tools run again after a refused answer, and nothing of it stays."""

from __future__ import annotations

import pytest

from demos.agent import main
from tests import forks
from tests.snippets import ROOT

REFUSED_FIRST, ACCEPTED_AT_ONCE = 1, 9
"""Seeds whose first temperature is impossible, and is possible."""


def test_the_agent_measures_again(capsys: pytest.CaptureFixture[str]) -> None:
    """What is impossible by the tool of the grader is refused, and the weather tool is called again."""
    assert main(["--seed", str(REFUSED_FIRST)]) == 0
    shown = capsys.readouterr().out
    assert "-125 °C is impossible: from -89.2 to 56.7 °C" in shown
    assert shown.index("weather(city='Paris') → 15 °C") > shown.index("attempt 2")
    assert "accepted answer" in shown
    assert "0 of 3 rejected drafts" in shown


def test_a_good_answer_is_accepted_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Then there is one attempt, and nothing was rejected."""
    assert main(["--seed", str(ACCEPTED_AT_ONCE)]) == 0
    shown = capsys.readouterr().out
    assert "attempt 2" not in shown
    assert "0 of 0 rejected drafts" in shown


def test_what_is_never_accepted_ends_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code says whether an answer was accepted; a wrong setting is one line."""
    assert main(["--seed", str(REFUSED_FIRST), "--max-attempts", "2"]) == 1
    assert "not accepted (max_attempts)" in capsys.readouterr().out
    assert main(["--max-attempts", "0"]) == 2
    assert "max_attempts" in capsys.readouterr().err


def test_it_runs_as_a_module() -> None:
    """`python -m demos.agent` needs no key."""
    ran = forks.run("demos.agent", "--seed", ACCEPTED_AT_ONCE, folder=ROOT)
    assert ran.returncode == 0, ran.stderr
    assert "accepted" in ran.stdout
