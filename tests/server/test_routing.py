"""Which upstream a request goes to, with whose key, and bodies that go through as they come."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.guarding import QUESTION, Guarded, guarding, wait_until
from tests.model_server import Asked, ModelServer, Reply, Wire, answered, serving

CLAUDE_KEY = {"x-api-key": "sk-ant-1", "anthropic-version": "2023-06-01"}
MEGABYTE = 1 << 20


def provider(name: str) -> Any:
    """Make an upstream that tells its name, lists two models, and answers chat completions well."""

    def reply(asked: Asked) -> Reply | Wire:
        if asked["path"].partition("?")[0] == "/v1/models":
            return answered({"object": "list", "data": [{"id": f"{name}-1"}, {"id": "both"}]})
        if asked["path"].endswith("/chat/completions"):
            return Reply("good")
        return answered({"by": name, "digest": hashlib.sha256(asked["raw"]).hexdigest()})

    return reply


@pytest.fixture(scope="module")
def providers() -> Iterator[tuple[ModelServer, ModelServer]]:
    """Start two upstreams."""
    with serving(provider("gpt")) as first, serving(provider("claude")) as second:
        yield first, second


@pytest.fixture(scope="module")
def guard(providers: tuple[ModelServer, ModelServer]) -> Iterator[Guarded]:
    """Start a server with a guard for each of them."""
    first, second = providers
    guards: dict[str, Any] = {
        "gpt": {"upstream": first.url, "models": ["gpt-*", "whisper-*"]},
        "claude": {"upstream": second.url, "models": ["claude-*"]},
    }
    passed = ["embeddings", "audio/*", "messages/count_tokens"]
    with guarding(None, guards=guards, pass_through=passed, max_body_bytes=MEGABYTE) as running:
        yield running


def test_requests_go_to_the_upstream_of_their_model_and_api(guard: Guarded) -> None:
    """A body's model chooses the upstream, in whatever case, and else the API asked for; so does a path's."""
    count = "/v1/messages/count_tokens"
    for path, body, headers, by in (
        (count, {"model": "claude-9"}, CLAUDE_KEY, "claude"),
        (count, {"model": "unheard-of"}, CLAUDE_KEY, "claude"),
        (count, {"model": "GPT-5"}, {}, "gpt"),
        ("/v1/embeddings", {"model": "unheard-of"}, {}, "gpt"),
        ("/v1/embeddings", {"model": "Claude-embed"}, {}, "claude"),
        ("/v1/embeddings", {"model": "gpt-5"}, {"x-refine-guard": "claude"}, "claude"),
        ("/v1/embeddings", ["no object"], {}, "gpt"),
    ):
        assert guard.post(path, body, headers=headers).json()["by"] == by, (path, body)
    heard = guard.client.post(
        f"{guard.url}/audio/transcriptions", files={"file": ("a.wav", b"RIFF")}, data={"model": "claude-ears"}
    )
    assert heard.json()["by"] == "claude"
    assert guard.get("/v1/models/claude-9").json()["by"] == "claude"


def test_a_key_goes_to_no_other_provider(guard: Guarded, providers: tuple[ModelServer, ModelServer]) -> None:
    """A caller's Anthropic key reaches no other upstream, judged or not; the refusal says what to do."""
    for server in providers:
        server.requests.clear()
    for headers in (CLAUDE_KEY, {"authorization": "Bearer sk-ant-1"}):
        for path, body in (
            ("/v1/embeddings", {"model": "gpt-5"}),
            ("/v1/chat/completions", {"model": "gpt-5", "messages": QUESTION}),
        ):
            response = guard.post(path, body, headers=headers)
            assert (response.status_code, response.json()["error"]["code"]) == (400, "foreign_key")
            assert "x-refine-guard" in response.text
    assert providers[0].requests == []
    guard.get("/v1/models", headers=CLAUDE_KEY)
    assert (len(providers[0].requests), len(providers[1].requests)) == (0, 1)


def test_the_list_of_models_is_that_of_all(guard: Guarded, providers: tuple[ModelServer, ModelServer]) -> None:
    """Each model is listed once; an upstream that does not answer is named, and costs the others nothing."""
    with openai.OpenAI(base_url=guard.url, api_key="k", max_retries=0) as client:
        assert sorted(model.id for model in client.models.list()) == ["both", "claude-1", "gpt-1"]
    providers[1].reply, kept = (lambda _: Reply("down", status=503)), providers[1].reply
    try:
        response = guard.get("/v1/models")
        assert [model["id"] for model in response.json()["data"]] == ["gpt-1", "both"]
        assert response.headers["x-refine-unlisted"] == "claude"
    finally:
        providers[1].reply = kept


def test_large_bodies_pass_part_by_part(guard: Guarded) -> None:
    """A body far above the limit of those that are read goes through whole, with its length or in chunks."""
    sound = bytes(range(256)) * (MEGABYTE // 16)
    response = guard.client.post(f"{guard.url}/audio/x", content=sound, headers={"content-type": "audio/wav"})
    assert response.json()["digest"] == hashlib.sha256(sound).hexdigest()
    assert guard.client.post(f"{guard.url}/embeddings", content=sound).status_code == 413


def test_a_client_that_leaves_amid_a_body(guard: Guarded, providers: tuple[ModelServer, ModelServer]) -> None:
    """What was begun ends with the client, holds no place, and counts for no failure of the upstream."""
    head = b"POST /v1/audio/x HTTP/1.1\r\nhost: x\r\ncontent-type: audio/wav\r\ncontent-length: 900000\r\n\r\n"
    with guard.connect() as connection:
        connection.sendall(head + b"x" * 400_000)
        wait_until(lambda: guard.service.admission.in_flight == 1)
    wait_until(lambda: guard.service.admission.in_flight == 0)
    assert guard.post("/v1/embeddings", {"model": "gpt-5"}).status_code == 200


def test_bytes_and_messages_have_limits(providers: tuple[ModelServer, ModelServer]) -> None:
    """All bodies together hold no more than they may, and a conversation has no more messages than that."""
    with guarding(providers[0].url, max_bytes_in_flight=10_000, max_messages=5) as guard:
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 9999\r\n\r\n"
        with guard.connect() as connection:
            connection.sendall(head + b"x" * 9_900)
            wait_until(lambda: guard.service.bytes_held.left == 100)
            response = guard.chat(vendor="x" * 200)
            assert (response.status_code, response.json()["error"]["code"]) == (503, "server_busy")
            assert response.headers["retry-after"] == "1"
        wait_until(lambda: guard.service.bytes_held.left == 10_000)
        for path, name in (("/v1/chat/completions", "messages"), ("/v1/responses", "input")):
            response = guard.post(path, {"model": "m", name: QUESTION * 6})
            assert (response.status_code, response.json()["error"]["code"]) == (400, "too_many_messages")
            response = guard.post(path, {"model": "m", name: QUESTION * 100})
            assert (response.status_code, response.json()["error"]["code"]) == (400, "too_many_messages")
            assert "about 100 messages" in response.text  # refused unread
        assert guard.chat(messages=QUESTION * 5).status_code == 200
