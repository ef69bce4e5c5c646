"""What a key may consume in a day, what a request may ask for, and that what is consumed is counted."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from refine.record import DatabaseRecord
from refine.server.access import Budgets, digest_of
from refine.server.config import ServerKey
from refine.server.errors import ApiError
from tests.guarding import QUESTION, guarding
from tests.model_server import ModelServer, Reply, in_turn, serving
from tests.postgres import cluster

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


def share(upstream: str, record: str) -> dict[str, list[int]]:
    """Ask two guards with one record in turn, and return how that ended by key."""
    keys: list[dict[str, Any]] = [
        {"name": "few", "sha256": digest_of("rf-few"), "requests_per_day": 7},
        {"name": "many", "sha256": digest_of("rf-many"), "requests_per_day": 500},
        {"name": "some", "sha256": digest_of("rf-some"), "tokens_per_day": 700, "dollars_per_day": 9},
    ]
    ends: dict[str, list[int]] = {"rf-few": [], "rf-some": []}
    with guarding(upstream, keys=keys, record=record) as one:
        with guarding(upstream, keys=keys, record=record) as other:
            assert other.chat(headers={"authorization": "Bearer rf-many"}).status_code == 200
            for number in range(11):
                for key, statuses in ends.items():
                    headers = {"authorization": f"Bearer {key}"}
                    statuses.append((one, other)[number % 2].chat(headers=headers).status_code)
        with DatabaseRecord(record) as shared:
            day = int(time.time()) // 86_400 * 86_400_000
            left = shared.share_budgets(day, "another", {("many", "requests"): (500, 0, 0)})
            assert left == {("many", "requests"): (5, 1)}  # what the guard that ended did not use came back
            left = shared.share_budgets(day, "another", {("many", "requests"): (7, 2, 5)})
            assert left == {("many", "requests"): (5, 1)}  # it may consume that before it gets the answer
    return ends


def test_guards_that_share_a_record_share_budgets(upstream: ModelServer, tmp_path: Path) -> None:
    """What one let in counts for the other: to the last request, and but for one that just ends in tokens."""
    with cluster() as server:
        for record in (f"sqlite:///{tmp_path}/record.db", server.make_database("budgets")):
            ends = share(upstream.url, record)
            assert ends["rf-few"] == [200] * 7 + [429] * 4
            assert ends["rf-some"].count(200) in {7, 8}
            assert ends["rf-some"][-1] == 429


@pytest.mark.parametrize(("fail", "ends"), [("open", [200, 200, 429]), ("closed", [503, 503, 503])])
def test_budgets_while_their_record_is_away(upstream: ModelServer, fail: str, ends: list[int]) -> None:
    """A guard then goes by its own count, or, where it is closed, answers nobody who has a budget."""
    keys: list[dict[str, Any]] = [
        {"name": "two", "sha256": digest_of("rf-two"), "requests_per_day": 2},
        {"name": "any", "sha256": digest_of("rf-any")},
    ]
    away = "postgresql://nobody@127.0.0.1:9/nothing"
    with guarding(upstream.url, keys=keys, record=away, fail=fail) as guard:
        headers = {"authorization": "Bearer rf-two"}
        replies = [guard.chat(headers=headers) for _ in range(3)]
        assert [reply.status_code for reply in replies] == ends
        assert replies[-1].json()["error"]["code"] == ("budget_spent" if fail == "open" else "budget_unknown")
        assert guard.chat(headers={"authorization": "Bearer rf-any"}).status_code == 200


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
