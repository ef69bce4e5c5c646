"""The demos on models behind an OpenAI-compatible server, a real one on loopback."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demos.chat import main as chat
from demos.local import REQUESTS, main
from demos.weather.app import main as weather
from judges import Verdict
from tests.laws import for_every
from tests.model_server import ModelServer, Reply, serving, tools_of
from tests.tiny_llama import write_model


def _reply(asked: dict[str, Any]) -> Reply:
    """Play the agent and the judge; the model `locked` is nobody's to use.

    As the agent: call the tool and report its result; without tools, say that it is at your service. As the judge:
    refuse a negative temperature.
    """
    last = asked["messages"][-1]
    if asked["model"] == "locked":
        return Reply("no such key", status=401)
    if "Assessment" in tools_of(asked):
        assert asked["tool_choice"]["function"]["name"] == "Assessment"
        bad = re.search(r'"answer": "It is -', last["content"])
        return _assessed("It cannot be so cold.", 1, "Measure again.") if bad else _assessed("Well said.", 4, "")
    if "weather" in tools_of(asked):
        if last["role"] == "tool":
            return Reply(f"It is {last['content']}.")
        return Reply(calls=(("weather", {"city": "Oslo"}),))
    return Reply("At your service.")


def _assessed(rationale: str, rating: int, feedback: str) -> Reply:
    return Reply(calls=(("Assessment", {"rationale": rationale, "rating": rating, "feedback": feedback}),))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """Start a model server; no key is set."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with serving(_reply) as one:
        yield one


def test_real_models_answer_and_judge(server: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Agent and judge run on the server: the impossible is refused with feedback, and measured again."""
    code = weather(
        ["--json", "--seed=1", "--base-url", server.url, "--generator", "small", "--judge", "openai:big"]
    )

    record = json.loads(capsys.readouterr().out)
    assert code == 0
    assert record["answer"] == "It is 15 °C."
    assert [one["rating"] for one in record["attempts"]] == [1] * (len(record["attempts"]) - 1) + [4]
    assert record["attempts"][0]["feedback"] == "Measure again."
    answers = [one["answer"] for one in record["attempts"]]
    assert record["usage"]["calls"] == 2 * len(answers) + len(set(answers))  # an answer that repeats isn't judged
    assert {one["model"] for one in server.requests} == {"small", "big"}


def test_a_real_judge_sees_what_the_tool_returned(server: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    """The tool's result is among the evidence, for a scripted agent too."""
    weather(["--json", "--seed=1", "--base-url", server.url, "--judge", "big"])

    first = json.loads(capsys.readouterr().out)["attempts"][0]
    shown = server.requests[0]["messages"][-1]["content"]
    assert '"role": "tool"' in shown
    assert first["tools"][0]["result"] in shown


def test_a_real_judge_is_shown_live(server: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    """The screen names the models, and has the judge's own words."""
    code = weather(["--seed=1", "--base-url", server.url, "--generator", "small", "--judge", "big"])

    shown = capsys.readouterr().out
    assert code == 0
    assert "small answers, big judges." in shown
    assert "no key" not in shown
    assert re.search(
        r"rating +●○○○  1 of 4, refused\s+why +It cannot be so cold.\s+feedback +Measure again.", shown
    )


@for_every("option, message", [("--generator", "generator"), ("--judge", "judge")])
def test_a_model_that_cannot_be_asked_is_reported_in_one_line(
    server: ModelServer, capsys: pytest.CaptureFixture[str], option: str, message: str
) -> None:
    """A server that refuses the request ends the demo with 2 and one line, not with a low rating."""
    code = weather(["--json", "--seed=1", "--base-url", server.url, option, "locked"])

    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert (code, captured.out) == (2, "")
    assert f"the {message} could not be asked" in line
    assert "AuthenticationError" in line


@pytest.mark.filterwarnings("default::graphs.SelfJudgingWarning")
def test_a_chat_runs_on_real_models(
    server: ModelServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that judges itself is warned of in one line, and each question without an answer is one."""
    asked = ["--base-url", server.url, "--generator"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("Hello\n"))
    code = chat([*asked, "small", "--judge", "small"])
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert code == 0
    assert "At your service." in captured.out
    assert line.startswith("demos.chat: 'helpfulness' asks the very model that generates")
    monkeypatch.setattr(sys, "stdin", io.StringIO("Hello\nHello?\n"))
    assert chat([*asked, "locked"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_every_attempt_is_shown_with_its_speed_and_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of random weights hardly keeps a rule; what it wrote and what it was told stand there."""
    pytest.importorskip("xllamacpp", reason="llama.cpp has no wheel for this platform")
    pytest.importorskip("gguf", reason="needed to write the model")
    monkeypatch.setenv("LLAMA_ARG_THREADS", "1")
    monkeypatch.setenv("COLUMNS", "100")
    write_model(tmp_path / "tiny.gguf")

    assert main(["--model", f"local:{tmp_path / 'tiny.gguf'}", "--max-attempts", "2"]) == 0

    out = capsys.readouterr().out
    drafts = re.findall(r"^  draft \d .*?tokens? in [\d.]+ s, \d+ a second", out, re.MULTILINE | re.DOTALL)
    assert len(drafts) == len(re.findall(r"^  (?:refused|accepted) ", out, re.MULTILINE)) >= len(REQUESTS)
    assert "Write at most 25 words" in out or "accepted" in out
    assert re.search(rf"\d of {len(REQUESTS)} kept their rule at the first attempt, \d in the end", out)


def test_no_model_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not there is named, and nothing else is said."""
    assert main(["--model", "local:none.gguf"]) == 2
    assert re.fullmatch(r"demos.local: .*none.gguf.*cannot be read.*\n", capsys.readouterr().err)


@for_every(
    "answer, rating",
    [
        ('{"title": "Moby Dick", "author": "Melville"}', 4),
        ('{"title": "Moby Dick"}', 1),
        ("[1]", 1),
        ("7", 1),
        ("x", 1),
    ],
)
def test_the_rule_for_json_tells_the_keys(answer: str, rating: int) -> None:
    """Both keys and no others, in one object with nothing around it."""
    verdict = REQUESTS[-1].judge(response=answer)
    assert isinstance(verdict, Verdict)
    assert verdict.rating == rating
