"""The demos on models behind an OpenAI-compatible server, a real one on loopback."""

from __future__ import annotations

import io
import json
import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from demos.chat import main as chat
from demos.weather.app import main as weather


class _ChatCompletions(BaseHTTPRequestHandler):
    """Plays the agent and the judge.

    As the agent it calls the tool and reports its result; without tools it says that it is at your service. As
    the judge it is asked for an `Assessment`, and refuses a negative temperature.
    """

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert isinstance(self.server, ModelServer)
        self.server.requests.append(asked)
        if asked["model"] in self.server.refused:
            self._send(401, {"error": {"message": "no such key", "type": "invalid_request_error"}})
            return
        message = _reply(asked)
        ended = "tool_calls" if message.get("tool_calls") else "stop"
        reply = {
            "id": "r1",
            "object": "chat.completion",
            "created": 0,
            "model": asked["model"],
            "choices": [{"index": 0, "finish_reason": ended, "message": {"role": "assistant", **message}}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        }
        self._send(200, reply)

    def _send(self, status: int, reply: dict[str, Any]) -> None:
        body = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is http.server's
        """Keep quiet."""


def _reply(asked: dict[str, Any]) -> dict[str, Any]:
    tools = {tool["function"]["name"] for tool in asked.get("tools", ())}
    last = asked["messages"][-1]
    if "Assessment" in tools:
        assert asked["tool_choice"]["function"]["name"] == "Assessment"
        bad = re.search(r'"answer": "It is -', last["content"])
        return _calling(
            "Assessment",
            rationale="It cannot be so cold." if bad else "Well said.",
            rating=1 if bad else 4,
            feedback="Measure again." if bad else "",
        )
    if "weather" in tools:
        return (
            {"content": f"It is {last['content']}."}
            if last["role"] == "tool"
            else _calling("weather", city="Oslo")
        )
    return {"content": "At your service."}


def _calling(name: str, **arguments: object) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return {"content": None, "tool_calls": [call]}


class ModelServer(ThreadingHTTPServer):
    """Serves chat completions on loopback, and remembers what was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _ChatCompletions)
        self.requests: list[dict[str, Any]] = []
        self.refused: set[str] = set()

    @property
    def url(self) -> str:
        """Base URL for clients."""
        return f"http://127.0.0.1:{self.server_port}/v1"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """Start a model server; no key is set."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ModelServer() as one:
        thread = threading.Thread(target=one.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield one
        one.shutdown()
        thread.join()


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
    assert record["usage"]["calls"] == 3 * len(record["attempts"])
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


@pytest.mark.parametrize(("option", "told"), [("--generator", "generator"), ("--judge", "judge")])
def test_a_model_that_cannot_be_asked_is_told_in_one_line(
    server: ModelServer, capsys: pytest.CaptureFixture[str], option: str, told: str
) -> None:
    """A server that refuses the request ends the demo with 2 and one line, not with a low rating."""
    server.refused = {"locked"}

    code = weather(["--json", "--seed=1", "--base-url", server.url, option, "locked"])

    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert (code, captured.out) == (2, "")
    assert f"the {told} could not be asked" in line
    assert "AuthenticationError" in line


@pytest.mark.filterwarnings("default::graphs.SelfJudgingWarning")
def test_a_chat_runs_on_real_models(
    server: ModelServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chat answers from the server; a model that judges itself is warned of in one line."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("Hello\n"))

    code = chat(["--base-url", server.url, "--generator", "small", "--judge", "small"])

    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert code == 0
    assert "At your service." in captured.out
    assert line.startswith("demos.chat: 'helpfulness' asks the very model that generates")


def test_a_chat_without_any_answer_exits_2(
    server: ModelServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no question could be answered, each says so on stderr, and the exit code is 2."""
    server.refused = {"locked"}
    monkeypatch.setattr(sys, "stdin", io.StringIO("Hello\nHello?\n"))

    assert chat(["--base-url", server.url, "--generator", "locked"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2
