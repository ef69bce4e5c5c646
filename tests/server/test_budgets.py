"""What a key may consume in a day, what a request may ask for, and that what is consumed is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from refine.server.access import Budgets, digest_of
from refine.server.config import ServerKey
from refine.server.errors import ApiError
from tests.guarding import QUESTION, guarding
from tests.model_server import ModelServer, Reply, in_turn, serving

PATHS = {"/v1/chat/completions": "messages", "/v1/responses": "input", "/v1/messages": "messages"}
ROW = {"question": "?", "answer": "good"}


def test_budgets_of_a_day(upstream: ModelServer) -> None:
    """Beyond its requests or tokens of the day a key gets a 429 with the time of the next day; others go on."""
    keys: list[dict[str, Any]] = [
        {"name": "two", "sha256": digest_of("rf-two"), "requests_per_day": 2},
        {"name": "some", "sha256": digest_of("rf-some"), "tokens_per_day": 200},
        {"name": "any", "sha256": digest_of("rf-any")},
    ]
    with guarding(upstream.url, keys=keys) as guard:

        def statuses(key: str) -> list[int]:
            headers = {"authorization": f"Bearer {key}"}
            return [guard.chat(headers=headers).status_code for _ in range(3)]

        assert [statuses(key) for key in ("rf-two", "rf-some", "rf-any")] == [
            [200, 200, 429],
            [200, 200, 429],
            [200, 200, 200],
        ]
        refused = guard.post("/v1/embeddings", {}, headers={"authorization": "Bearer rf-two"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "budget_spent")
        assert 0 < int(refused.headers["retry-after"]) <= 86_400


def test_budgets_survive_a_restart(upstream: ModelServer, tmp_path: Path) -> None:
    """A guard with a record in a database goes on where the budget of a key stood, without what it refused."""
    keys: list[dict[str, Any]] = [
        {"name": "two", "sha256": digest_of("rf-two"), "requests_per_day": 3},
        {"name": "some", "sha256": digest_of("rf-some"), "tokens_per_day": 300},
    ]
    seen: dict[str, list[int]] = {"rf-two": [], "rf-some": []}
    for _ in range(4):
        with guarding(upstream.url, keys=keys, record=f"sqlite:///{tmp_path}/record.db") as guard:
            for key, statuses in seen.items():
                statuses.append(guard.chat(headers={"authorization": f"Bearer {key}"}).status_code)
    assert list(seen.values()) == [[200, 200, 200, 429]] * 2


def test_a_new_day_has_a_new_budget() -> None:
    """What was used counts until midnight UTC, and no longer."""
    now = [86_400.0 * 5 - 10]
    key = ServerKey(name="a", sha256="0" * 64, requests_per_day=1)
    budgets = Budgets([key], clock=lambda: now[0])
    budgets.enter("a")
    with pytest.raises(ApiError, match="used 1 of its 1 requests") as raised:
        budgets.enter("a")
    assert raised.value.retry_after_s == 10
    now[0] += 10
    budgets.enter("a")


def test_what_is_consumed_beside_answers_is_counted(upstream: ModelServer) -> None:
    """A verdict on a given exchange, and LiteLLM's texts with what was written anew, are in the metrics."""
    with guarding(upstream.url, success_rating=4) as guard:
        guard.post("/v1/judge", ROW)
        texts = {"input_type": "response", "texts": ["bad"], "model": "m"}
        assert guard.post("/beta/litellm_basic_guardrail_api", texts).json()["action"] == "GUARDRAIL_INTERVENED"
        figures = guard.get("/metrics").text
        assert 'refine_ratings_total{judge="rates",rating="4"} 2.0' in figures
        assert 'refine_ratings_total{judge="rates",rating="1"} 1.0' in figures
        assert 'refine_tokens_total{guard="default",kind="input",role="generator"} 100.0' in figures
        many = {"input_type": "response", "texts": ["good"] * 21}
        assert guard.post("/beta/litellm_basic_guardrail_api", many).status_code == 400


def test_bounds_of_an_answer_and_its_usage() -> None:
    """More tokens than allowed are refused; `usage` may be that of all attempts, for gateways that count by it."""
    settings: dict[str, Any] = {"success_rating": 4, "max_answer_tokens": 50, "usage": "all"}
    with serving(in_turn(Reply("bad"), Reply("good"))) as upstream, guarding(upstream.url, **settings) as guard:
        usage = guard.chat(max_tokens=50).json()["usage"]
        assert usage == {"prompt_tokens": 200, "completion_tokens": 20, "total_tokens": 220}
        asked = {"max_tokens": 51, "max_output_tokens": 51}
        for fields in (asked, {**asked, "max_completion_tokens": 1}, {"max_tokens": "51"}, {"max_tokens": 51.0}):
            for path, name in PATHS.items():
                response = guard.post(path, {"model": "m", name: QUESTION, **fields})
                assert (response.status_code, "50 tokens at most" in response.text) == (400, True), path
