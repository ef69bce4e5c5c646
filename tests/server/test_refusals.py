"""What the server refuses: in words, in the form of the API that was asked, and without a line in the log."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from judges import ConfigurationError
from refine.server.access import digest_of
from refine.server.config import load_settings
from tests.guarding import QUESTION, Guarded, guarding
from tests.model_server import Asked, ModelServer, Reply, Wire, answered

BODY = json.dumps({"model": "m", "messages": QUESTION}).encode()
POST = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
OFFER = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQ\r\n"
STRANGERS = [
    "evil.example",
    "evil.example:8000",
    "127.0.0.1.nip.io",
    "localhost.evil.example",
    "evil.example.",
    "127.0.0.1@evil.example",
    "x/v1/models?",
    "a b",
    "[::1]evil.example",
    "0x7f.1",
]
OWN = [
    "localhost",
    "LOCALHOST:8000",
    "localhost.",
    "app.localhost",
    "127.0.0.1:1",
    "[::1]:8000",
    "10.1.2.3",
    "refine",
]
JUDGED = ["/v1/chat/completions", "/v1/responses", "/v1/messages"]


def reply_to(asked: Asked) -> Reply | Wire:
    """Answer chat completions well, and say of any other path that it was reached."""
    if asked["path"].endswith("/chat/completions"):
        return Reply("good")
    return answered({"reached": asked["path"]})


UPSTREAM = reply_to


@pytest.fixture(scope="module")
def guard(upstream: ModelServer) -> Iterator[Guarded]:
    """Start a guard without keys."""
    with guarding(upstream.url, allowed_hosts=["*.corp.example"], header_timeout_s=0.4) as running:
        yield running


def kind_of(body: Any) -> tuple[str, str]:
    """Return the API in whose form an error is, and its code."""
    if body.get("type") == "error":
        assert set(body) == {"type", "error"}
        assert set(body["error"]) == {"type", "message", "code"}
        return "anthropic", body["error"]["code"]
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    return "openai", body["error"]["code"]


def test_a_name_that_a_stranger_gave_to_this_machine(guard: Guarded, upstream: ModelServer) -> None:
    """Without keys no path answers to a name of the public DNS, in one clear error; its own names do."""
    for host in STRANGERS:
        for path in (*JUDGED, "/v1/models", "/v1/judge", "/beta/litellm_basic_guardrail_api"):
            response = guard.post(path, {"model": "m", "messages": QUESTION}, headers={"host": host})
            assert (response.status_code, kind_of(response.json())[1]) == (403, "host_not_allowed"), (host, path)
            assert "allowed_hosts" in response.text
    assert upstream.requests == []
    for host in (*OWN, "a.corp.example", "A.Corp.Example:8000"):
        assert guard.chat(headers={"host": host}).status_code == 200, host
    assert b"200 OK" in guard.exchange(b"GET /v1/models HTTP/1.0\r\n\r\n")


def test_the_host_of_an_address_counts_not_the_header(guard: Guarded) -> None:
    """A target that is a whole address has the host, whatever `Host` says; what is no target is refused."""
    cases = {
        "GET http://evil.example/v1/models": "host_not_allowed",
        "GET HTTPS://evil.example:80?/v1/models": "unknown_path",
        "GET http://LocalHost:80/v1/models?a": "reached",
        "GET http://[::1]/v1/models": "reached",
        "GET http://localhost": "unknown_path",
        "GET http://localhost@evil.example/v1/models": "invalid_target",
        "GET http://@localhost/v1/models": "invalid_target",
        "GET ftp://localhost/v1/models": "invalid_target",
        "GET /v1/models#": "invalid_target",
        "GET *": "invalid_target",
        "OPTIONS *": "unknown_path",
        "GET localhost:80": "invalid_http",
        "CONNECT localhost:80": "no_upgrade",
        "GET //localhost/v1/models": "unknown_path",
    }
    for target, code in cases.items():
        for hosts in ("host: x\r\n", "host: evil.example\r\n") if "//" in target else ("host: x\r\n",):
            reply = guard.exchange(f"{target} HTTP/1.1\r\n{hosts}connection: close\r\n\r\n".encode())
            assert f'"{code}"' in reply.decode(), (target, hosts)
    bare = guard.exchange(b"GET http://evil.example/v1/models HTTP/1.0\r\n\r\n")
    twice = guard.exchange(b"GET http://x/v1/models HTTP/1.1\r\nhost: x\r\nhost: x\r\nconnection: close\r\n\r\n")
    assert (b"host_not_allowed" in bare, b"repeated_header" in twice) == (True, True)


def test_names_with_keys_and_at_another_address(upstream: ModelServer) -> None:
    """A key is no browser's to send, so any name will do; the name that is listened at is the server's own."""
    keys = [{"name": "first", "sha256": digest_of("rf-one")}]
    with guarding(upstream.url, keys=keys) as guard:
        headers = {"host": "evil.example", "authorization": "Bearer rf-one"}
        assert guard.chat(headers=headers).status_code == 200
    with guarding(upstream.url, allowed_hosts=["*"]) as guard:
        assert guard.chat(headers={"host": "evil.example"}).status_code == 200
    with pytest.raises(
        ConfigurationError, match=r"allowed_hosts\.0 = 'https://a\.b': write a name without scheme"
    ):
        load_settings(None, {"allowed_hosts": ["https://a.b"]})


def test_every_error_is_in_the_form_of_its_api(upstream: ModelServer, guard: Guarded) -> None:
    """Paths of Anthropic's API, and its clients at any path, read errors of its form; all others OpenAI's."""
    anthropic_client = {"anthropic-version": "2023-06-01"}
    cases: list[tuple[str, str, dict[str, str], int, str, str]] = [
        ("GET", "/v1/messages", {}, 405, "anthropic", "method_not_allowed"),
        ("GET", "/v1/responses", {}, 405, "openai", "method_not_allowed"),
        ("OPTIONS", "/v1/judge", {}, 405, "openai", "method_not_allowed"),
        ("PROPFIND", "/v1/messages/batches", {}, 405, "anthropic", "method_not_allowed"),
        ("POST", "/v1//messages", {}, 404, "openai", "unknown_path"),
        ("POST", "/v1/messages/../x", {}, 404, "anthropic", "unknown_path"),
        ("POST", "/v1/files", {}, 404, "openai", "unknown_path"),
        ("POST", "/v1/files", anthropic_client, 404, "anthropic", "unknown_path"),
        ("POST", "/v1/messages/batches", {}, 404, "anthropic", "unknown_path"),
        ("GET", "/nowhere", {}, 404, "openai", "unknown_path"),
        ("POST", "/chat/completions", {}, 404, "openai", "unknown_path"),
        ("POST", "/healthz", {}, 405, "openai", "method_not_allowed"),
        ("POST", "/v1/messages", {"origin": "https://a.b"}, 403, "anthropic", "forbidden"),
        ("POST", "/v1/messages/count_tokens", {"host": "a.b"}, 403, "anthropic", "host_not_allowed"),
        ("POST", "/v1/messages/count_tokens", {"x-refine-guard": "none"}, 404, "anthropic", "unknown_guard"),
    ]
    with guarding(upstream.url, pass_through=["messages/count_tokens"]) as strict:
        for method, path, headers, status, form, code in cases:
            target = httpx2.URL(f"{strict.root}{path}".replace("/../", "/%2e%2e/"))
            response = strict.client.request(method, target, headers=headers)
            assert (response.status_code, *kind_of(response.json())) == (status, form, code), (method, path)
            assert ("allow" in response.headers) == (status == 405), (method, path)
            assert "x-request-id" in response.headers
    for method in ("GET", "DELETE"):
        assert guard.client.request(method, f"{guard.url}/messages").headers["allow"] == "POST"


def test_limits_in_the_form_of_the_api(upstream: ModelServer) -> None:
    """Keys, sizes and deadlines: Anthropic's client reads each refusal as an error of its own."""
    import anthropic  # noqa: PLC0415 - it loads for a second, in each process that runs tests

    keys = [{"name": "first", "sha256": digest_of("rf-one")}]
    settings: dict[str, Any] = {
        "keys": keys,
        "max_body_bytes": 1_000,
        "max_passed_bytes": 1_000,
        "header_timeout_s": 0.3,
        "body_timeout_s": 0.3,
        "pass_through": ["messages/count_tokens"],
    }
    with guarding(upstream.url, max_header_bytes=2_000, **settings) as guard:
        head = b"POST /v1/messages/count_tokens HTTP/1.1\r\nhost: x\r\nx-api-key: rf-one\r\n"
        for sent, status in (
            (head + b"content-length: 9\r\n\r\n{", 408),
            (head, 408),
            (head + b"big: " + b"x" * 3_000 + b"\r\n\r\n", 431),
        ):
            reply = guard.exchange(sent, end=b"}}")
            assert reply.startswith(b"HTTP/1.1 %d " % status)
            assert b'"type":"error"' in reply.replace(b" ", b"")
        client = anthropic.Anthropic(base_url=guard.root, api_key="rf-wrong", max_retries=0)
        with client, pytest.raises(anthropic.AuthenticationError, match="a key of its own"):
            client.messages.count_tokens(model="m", messages=[{"role": "user", "content": "x"}])
        client = anthropic.Anthropic(base_url=guard.root, api_key="rf-one", max_retries=0)
        with client:
            with pytest.raises(anthropic.RequestTooLargeError, match="larger than 1,000 bytes"):
                client.messages.count_tokens(model="m", messages=[{"role": "user", "content": "x" * 1_500}])
            with pytest.raises(anthropic.RequestTooLargeError, match="larger than 1,000 bytes"):
                client.messages.create(
                    model="m", max_tokens=9, messages=[{"role": "user", "content": "x" * 1_500}]
                )


def test_what_is_no_http(guard: Guarded, upstream: ModelServer, caplog: pytest.LogCaptureFixture) -> None:
    """Noise, other protocols and WebSockets get one typed refusal, no answer of an upstream, and no log line."""
    caplog.set_level(logging.INFO)
    websocket = (
        b"connection: keep-alive, Upgrade\r\nupgrade: WebSocket\r\nsec-websocket-version: 13\r\n\r\n\x81\x82"
    )
    for sent, form, code in (
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "openai", "invalid_http"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "openai", "invalid_http"),
        (b"GET /v1/\xff\xfe HTTP/1.1\r\nhost: x\r\n\r\n", "openai", "invalid_http"),
        (
            b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            "anthropic",
            "invalid_http",
        ),
        (POST + b"transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n", "openai", "invalid_http"),
        (POST + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "openai", "unknown_coding"),
        (b"POST /v1/messages HTTP/1.1\r\n\r\n", "anthropic", "no_host"),
        (b"GET /v1/models HTTP/2.0\r\nhost: x\r\n\r\n", "openai", "unknown_version"),
        (b"CONNECT a.b:443 HTTP/1.1\r\nhost: a.b\r\n\r\n", "openai", "no_upgrade"),
        (b"GET /v1/realtime?model=m HTTP/1.1\r\nhost: x\r\n" + websocket, "openai", "no_upgrade"),
        (b"GET /v1/messages/x HTTP/1.1\r\nhost: x\r\n" + websocket, "anthropic", "no_upgrade"),
    ):
        head, _, body = guard.exchange(sent).partition(b"\r\n\r\n")
        status = {"unknown_coding": 501, "unknown_version": 505}.get(code, 400)
        assert head.startswith(b"HTTP/1.1 %d " % status), sent
        assert kind_of(json.loads(body)) == (form, code), sent
    assert upstream.requests == []
    assert [record for record in caplog.records if record.name.startswith(("uvicorn", "refine.server"))] == []


def test_an_offer_of_http_2_is_answered_in_http_1(guard: Guarded, upstream: ModelServer) -> None:
    """Clients such as Java's offer HTTP/2 with each request: it is answered all the same, its body included."""
    chunked = b"transfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    plain = b"content-length: %d\r\n\r\n%s" % (len(BODY), BODY)
    offering = POST.replace(b"connection: close\r\n", OFFER)
    for body in (plain, chunked):
        reply = guard.exchange(offering + body + b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert (reply.count(b"HTTP/1.1 200 OK"), b'"passed":true' in reply, b'{"status":"ok"}' in reply) == (
            2,
            True,
            True,
        )
    received = upstream.requests[-1]["headers"]
    assert received.keys().isdisjoint({"upgrade", "http2-settings"})


def test_noise_after_a_request_costs_it_no_answer(guard: Guarded) -> None:
    """What follows a whole request and is none is dropped; the request is answered, and the connection closed."""
    sent = POST.replace(b"connection: close\r\n", b"") + b"content-length: %d\r\n\r\n" % len(BODY) + BODY
    for rest in (b"no HTTP at all\r\n\r\n", b"GET /heal"):
        reply = guard.exchange(sent + rest)
        assert reply.startswith(b"HTTP/1.1 200 OK"), rest
        assert b'"passed":true' in reply


@pytest.mark.parametrize(
    ("path", "field", "values"),
    [
        (JUDGED[0], "n", ["2", "1", True, False, 0, -1, 1.5, [1], {}]),
        (JUDGED[0], "stream", ["true", "false", 1, 0, [], {}]),
        (JUDGED[1], "stream", ["true", 1, 0.0]),
        (JUDGED[1], "background", ["true", 1, [True]]),
        (JUDGED[2], "stream", ["true", 1]),
        (JUDGED[0], "refine", ["x", 1, True, [], {"evidence": []}, {"evidence": "x"}, {"deadline_s": True}]),
        (JUDGED[0], "refine", [{"deadline_s": "2"}, {"max_attempts": True}, {"max_attempts": 2.0}]),
    ],
)
def test_flags_and_numbers_are_taken_as_such_only(
    guard: Guarded, upstream: ModelServer, path: str, field: str, values: list[object]
) -> None:
    """What one server reads as one thing and another as another is refused, so that no judging is evaded by it."""
    for value in values:
        body = {"model": "m", "messages": QUESTION, "input": "x", "max_tokens": 9, field: value}
        response = guard.post(path, body)
        assert response.status_code == 400, value
        assert response.json()["error"]["type"] == "invalid_request_error"
    assert upstream.requests == []


def test_nothing_said_is_nothing_meant(guard: Guarded) -> None:
    """A null stands for a field that was left out, and a whole number may be written as 1.0."""
    for fields in ({"n": None, "stream": None, "refine": None}, {"n": 1.0, "refine": {"evidence": None}}):
        assert guard.chat(**fields).json()["refine"]["stop_reason"] == "accepted"
    assert len(guard.chat(n=2.0).json()["choices"]) == 2
