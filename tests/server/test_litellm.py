"""LiteLLM's generic guardrail, as its proxy calls it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.guarding import Guarded, guarding
from tests.model_server import Asked, ModelServer, Reply, Wire, answered, in_turn, serving

PATH = "/beta/litellm_basic_guardrail_api"
PROXY = "REFINE_TEST_LITELLM"
"""Names the command `litellm` of an installation of its own, for the tests with the real proxy."""

MASTER_KEY = f"sk-{os.urandom(32).hex()}"


@pytest.fixture(scope="module")
def guard(upstream: ModelServer) -> Iterator[Guarded]:
    """Start a guard with an upstream, and beside it guards with other judges."""
    guards: dict[str, Any] = {
        "default": {"success_rating": 4},
        "helpful": {"judge": "helpfulness", "judge_base_url": upstream.url, "judge_model": "m"},
        "broken": {"judge": "tests.guarding:breaks", "fail": "closed"},
        "open": {"judge": "tests.guarding:breaks", "fail": "open"},
    }
    with guarding(upstream.url, guards=guards) as running:
        yield running


def ask(guard: Guarded, *texts: str, kind: str = "response", **fields: Any) -> dict[str, Any]:
    """Send what LiteLLM sends, and return the reply."""
    body = {"input_type": kind, "texts": texts, "request_data": {}, "litellm_call_id": "1", "model": "m", **fields}
    response = guard.post(PATH, body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def test_the_three_actions(guard: Guarded, upstream: ModelServer) -> None:
    """Good texts pass, others come back refined, and what stays bad is blocked with a reason without texts."""
    upstream.reply = in_turn(Reply("good"))
    assert ask(guard, "good") == {"action": "NONE"}
    assert ask(guard, "good", "bad") == {"action": "GUARDRAIL_INTERVENED", "texts": ["good", "good"]}
    assert b'"content":"bad"' in upstream.requests[-1]["raw"]  # of an unknown question it is all that there is
    upstream.reply = in_turn(Reply("bad DRAFT"))
    blocked = ask(guard, "bad")
    assert blocked["action"] == "BLOCKED"
    assert "rated 1 of 4" in blocked["blocked_reason"]
    assert "DRAFT" not in json.dumps(blocked)


def test_what_holds_no_answer_is_let_through(guard: Guarded) -> None:
    """A request, an empty response and one of tool calls alone have nothing to judge."""
    assert ask(guard, "bad", kind="request") == {"action": "NONE"}
    assert ask(guard) == {"action": "NONE"}
    assert ask(guard, "") == {"action": "NONE"}
    for wrong in (
        {"texts": ["x"]},
        {"input_type": "response", "texts": "x"},
        {"input_type": "response", "texts": [1]},
        {"input_type": "response", "texts": ["good"] * 101},
    ):
        assert guard.post(PATH, wrong).status_code == 400


def test_a_judge_of_conversations_is_refused_with_the_remedy(guard: Guarded) -> None:
    """LiteLLM's response hook has no conversation: a judge that needs one says where the guard belongs."""
    params = {"additional_provider_specific_params": {"guard": "helpful"}}
    response = guard.post(PATH, {"input_type": "response", "texts": ["x"], **params})
    assert response.status_code == 422
    assert "behind LiteLLM as a model" in response.json()["error"]["message"]


def test_a_judge_without_a_verdict(guard: Guarded) -> None:
    """Open lets the text through, closed blocks it."""
    assert ask(guard, "x", additional_provider_specific_params={"guard": "open"}) == {"action": "NONE"}
    blocked = ask(guard, "x", additional_provider_specific_params={"guard": "broken"})
    assert (blocked["action"], "judge_failed" in blocked["blocked_reason"]) == ("BLOCKED", True)


def test_without_an_upstream_nothing_is_mended() -> None:
    """A guard that only judges blocks what it does not accept."""
    with serving(in_turn(Reply("good"))) as upstream:
        guards = {"main": {}, "alone": {"upstream": None}}
        with guarding(upstream.url, guards=guards) as guard:
            blocked = ask(guard, "bad", additional_provider_specific_params={"guard": "alone"})
            assert blocked["action"] == "BLOCKED"
            assert upstream.requests == []


@pytest.mark.skipif(PROXY not in os.environ, reason=f"{PROXY} does not name the command of LiteLLM's proxy")
def test_the_real_proxy(tmp_path: Path) -> None:
    """LiteLLM's proxy in front: the guard as a model behind it, and as its guardrail."""

    def reply_to(asked: Asked) -> Reply | Wire:
        if asked["method"] == "GET":  # the proxy looks for models as it starts
            return answered({"object": "list", "data": []})
        return Reply("good" if "SECRET-FEEDBACK" in asked["raw"].decode() else "bad DRAFT")

    with serving(reply_to) as upstream, guarding(upstream.url) as guard:
        config = tmp_path / "litellm.yaml"
        config.write_text(
            f"""
model_list:
  - model_name: guarded
    litellm_params: {{model: openai/m, api_base: "{guard.url}", api_key: sk-1}}
  - model_name: plain
    litellm_params: {{model: openai/m, api_base: "{upstream.url}", api_key: sk-1}}
guardrails:
  - guardrail_name: refine
    litellm_params: {{guardrail: generic_guardrail_api, mode: post_call, api_base: "{guard.root}"}}
""",
            encoding="utf-8",
        )
        with _proxy(config) as url:
            behind = _ask_proxy(url, "guarded")
            in_front = _ask_proxy(url, "plain", guardrails=["refine"])
            plain = _ask_proxy(url, "plain")
    assert (behind, in_front, plain) == ("good", "good", "bad DRAFT")


def _ask_proxy(url: str, model: str, **fields: Any) -> str:
    body = {"model": model, "messages": [{"role": "user", "content": "What?"}], **fields}
    headers = {"authorization": f"Bearer {MASTER_KEY}"}
    response = httpx2.post(f"{url}/v1/chat/completions", json=body, headers=headers, timeout=60)
    assert response.status_code == 200, response.text
    text: str = response.json()["choices"][0]["message"]["content"]
    return text


class _proxy:  # noqa: N801 - used like a function
    """Run the proxy while a block runs."""

    def __init__(self, config: Path) -> None:
        self._config = config

    def __enter__(self) -> str:
        port = 20_000 + os.getpid() % 20_000
        command = [os.environ[PROXY], "--config", str(self._config), "--host", "127.0.0.1", "--port", str(port)]
        environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": MASTER_KEY}
        self._process = subprocess.Popen(command, env=environment, stdout=sys.stderr, stderr=sys.stderr)
        until = time.monotonic() + 90
        while time.monotonic() < until:
            try:
                httpx2.get(f"http://127.0.0.1:{port}/health/liveliness", timeout=2)
            except httpx2.HTTPError:
                time.sleep(0.5)
            else:
                return f"http://127.0.0.1:{port}"
        raise AssertionError("the proxy did not start")

    def __exit__(self, *raised: object) -> None:
        self._process.terminate()
        self._process.wait(20)
