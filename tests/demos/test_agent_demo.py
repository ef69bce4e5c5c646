"""The demos of middleware, guard and streams: nothing of a refused answer stays, goes out, or is seen."""

from __future__ import annotations

import re

import pytest

from demos import agent, guard, streaming
from tests import forks
from tests.snippets import ROOT

REFUSED_FIRST, ACCEPTED_AT_ONCE = 1, 9
"""Seeds whose first temperature is impossible, and is possible."""


def test_the_agent_measures_again(capsys: pytest.CaptureFixture[str]) -> None:
    """What is impossible by the tool of the grader is refused, and the weather tool is called again."""
    assert agent.main(["--seed", str(REFUSED_FIRST)]) == 0
    shown = capsys.readouterr().out
    assert "-125 °C is impossible: from -89.2 to 56.7 °C" in shown
    assert shown.index("weather(city='Paris') → 15 °C") > shown.index("attempt 2")
    assert "accepted answer" in shown
    assert "0 of 3 rejected drafts" in shown


def test_an_answer_is_accepted_at_once_or_never(capsys: pytest.CaptureFixture[str]) -> None:
    """One attempt, and nothing was rejected; else the exit code says so. A wrong setting is one line."""
    assert agent.main(["--seed", str(ACCEPTED_AT_ONCE)]) == 0
    shown = capsys.readouterr().out
    assert "attempt 2" not in shown
    assert "0 of 0 rejected drafts" in shown
    assert agent.main(["--seed", str(REFUSED_FIRST), "--max-attempts", "2"]) == 1
    assert "not accepted (max_attempts)" in capsys.readouterr().out
    assert agent.main(["--max-attempts", "0"]) == 2
    assert "max_attempts" in capsys.readouterr().err


def test_it_runs_as_a_module() -> None:
    """`python -m demos.agent` needs no key."""
    ran = forks.run("demos.agent", "--seed", ACCEPTED_AT_ONCE, folder=ROOT)
    assert ran.returncode == 0, ran.stderr
    assert "accepted" in ran.stdout


def test_every_answer_is_refined(capsys: pytest.CaptureFixture[str]) -> None:
    """The second attempt of each is accepted, and the page's address is printed; a wrong port is one line."""
    assert guard.main([]) == 0
    shown = capsys.readouterr().out
    assert shown.count("attempt 1") == shown.count("attempt 2") == 3
    assert shown.count("because") == 3
    assert "usual way" not in shown
    assert re.search(r"followed once:\s+http://127\.0\.0\.1:\d+/#link=\S+", shown)
    assert guard.main(["--port", "99999"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "port = 99999" in line


def test_streaming_demo(capsys: pytest.CaptureFixture[str]) -> None:
    """Written to a file it shows what each viewer read, and when."""
    assert streaming.main(["--speed", "200"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert shown.count("or you have your money back.") == 2
    assert "loses every" not in shown
    assert "judged in pieces" in shown
    assert streaming.main(["--speed", "0"]) == 2
