"""What passes through unjudged, what judges alone, and what operators read."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx2
import pytest

from tests.guarding import Guarded, guarding, wait_until
from tests.model_server import Asked, ModelServer, Reply, Wire, answered, serving

BAIT = ["http://169.254.169.254/", "//evil.example/x", "/v1/../admin", "/v1/%2e%2e/admin", "/v1/a%252f..%252fb"]
JUDGED_OTHERWISE = [
    "/v1/Chat/Completions",
    "/v1/chat/completions;x",
    "/v1/chat%252Fcompletions",
    "/v1//chat/completions",
    "/v1/chat;x/completions",
    "/v1/chat/completions%20",
    "/v1/chat/completions%3Fx",
    "/v1/chat/completions%23x",
    "/v1/chat%25252Fcompletions",
    "/v1/x/..;/chat/completions",
]


def echo(asked: Asked) -> Wire:
    """Answer with what was asked; an answer to chat completions is told to be good."""
    if asked["path"].endswith("/chat/completions"):
        return Reply("good").wire(asked)
    fields = {"method": asked["method"], "path": asked["path"], "raw": asked["raw"].decode("latin-1")}
    return answered(
        fields, status=404 if "missing" in asked["path"] else 200, headers={"x-vendor": "1", "set-cookie": "a"}
    )


UPSTREAM = echo


@pytest.fixture(scope="module")
def guard(upstream: ModelServer) -> Iterator[Guarded]:
    """Start a guard."""
    with guarding(
        upstream.url, success_rating=4, pass_through=["embeddings", "audio/*", "files*", "missing"]
    ) as running:
        yield running


def test_other_paths_pass_through_and_say_so(guard: Guarded, upstream: ModelServer) -> None:
    """Method, path, query and body go on as they are; status and headers come back, marked as unjudged."""
    sent = b'{"input": "x"}\xff\x00'
    for method, path, body in [
        ("GET", "/v1/models", b""),
        ("POST", "/v1/embeddings?a=b%20c&d", sent),
        ("DELETE", "/v1/files/f%2F1", b""),
        ("PUT", "/v1/audio/x", sent),
        ("POST", "/v1/missing", b""),
    ]:
        response = httpx2.request(
            method, f"{guard.root}{path}", content=body or None, headers={"content-type": "x/y"}
        )
        assert response.json() == {"method": method, "path": path, "raw": body.decode("latin-1")}
        assert response.status_code == (404 if "missing" in path else 200)
        headers = response.headers
        assert (headers["x-refine-passed"], headers["x-refine-stop-reason"]) == ("false", "skipped")
        assert (headers["x-refine-attempts"], headers["x-vendor"]) == ("0", "1")
        assert "set-cookie" not in headers
        assert headers["x-request-id"] == upstream.requests[-1]["headers"]["x-request-id"]


def test_nothing_in_a_request_chooses_the_host(guard: Guarded, upstream: ModelServer) -> None:
    """Paths that climb, doubled slashes and addresses in fields and headers reach nothing but the upstream."""
    for path in [*BAIT, *JUDGED_OTHERWISE]:
        host, port = guard.root.removeprefix("http://").split(":")
        with closing(http.client.HTTPConnection(host, int(port), timeout=10)) as connection:
            connection.putrequest("POST", path, skip_host=path.startswith("/"))
            connection.putheader("content-length", "2")
            connection.endheaders(b"{}")
            assert connection.getresponse().status in (400, 404), path
    assert upstream.requests == []
    fields = {"base_url": BAIT[0], "api_base": BAIT[0]}
    response = guard.chat(**fields, headers={"x-upstream": BAIT[0], "x-forwarded-host": "evil", "host": "evil"})
    assert response.status_code == 200


def test_without_keys_pages_of_other_sites_are_refused(guard: Guarded, upstream: ModelServer) -> None:
    """A page in a browser cannot spend the operator's money; programs and the guard's own page can ask."""
    own = guard.root
    foreign: list[dict[str, str]] = [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "origin": own},
    ]
    for headers in foreign:
        assert guard.chat(headers=headers).status_code == 403
        assert guard.post("/v1/embeddings", {}, headers=headers).status_code == 403
    assert upstream.requests == []
    for headers in ({}, {"origin": own, "sec-fetch-site": "same-origin"}):
        assert guard.chat(headers=headers).status_code == 200


def test_what_would_make_another_request_of_it_stays_behind(guard: Guarded, upstream: ModelServer) -> None:
    """Headers that name another path or method do not pass, and methods that send headers back are refused."""
    headers = {"x-original-url": "/v1/chat/completions", "x-http-method-override": "DELETE", "x-vendor": "1"}
    assert guard.post("/v1/embeddings", {}, headers=headers).status_code == 200
    received = upstream.requests[-1]["headers"]
    assert received["x-vendor"] == "1"
    assert received.keys().isdisjoint({"x-original-url", "x-http-method-override"})
    upstream.requests.clear()
    for method in ("TRACE", "PROPFIND"):
        assert httpx2.request(method, f"{guard.url}/embeddings").status_code == 405
    assert upstream.requests == []


def test_a_redirect_is_neither_followed_nor_handed_back(guard: Guarded, upstream: ModelServer) -> None:
    """A client that follows a redirect is judged no more: the error names the address to configure."""
    place = "http://user:secret@127.0.0.1:9/v2/chat/completions?key=secret"
    upstream.reply = lambda _: answered({}, status=307, headers={"location": place})
    for response in (guard.chat(), guard.chat(stream=True), guard.get("/v1/models")):
        assert (response.status_code, response.json()["error"]["code"]) == (502, "upstream_redirect")
        assert "upstream = 'http://127.0.0.1:9/v2'" in response.text
        assert "location" not in response.headers
        assert "secret" not in response.text
    upstream.reply = lambda _: answered(b"", status=304)
    assert guard.get("/v1/models").status_code == 304


def test_pass_through_has_a_list_and_can_be_off(upstream: ModelServer) -> None:
    """Only listed paths pass, by default those that generate no text; the models do even with the setting off."""
    with guarding(upstream.url) as guard:
        paths = [
            "embeddings",
            "audio/speech",
            "files/f1/content",
            "moderations",
            "models",
            "batches",
            "completions",
        ]
        assert [guard.get(f"/v1/{path}").status_code for path in paths] == [200] * 5 + [404] * 2
    with guarding(upstream.url, pass_through=["audio/*"]) as guard:
        paths = ["/v1/models", "/v1/models/x", "/v1/audio/speech", "/v1/embeddings", "/v1/modelsx"]
        assert [guard.get(path).status_code for path in paths] == [200, 200, 200, 404, 404]
    with guarding(upstream.url, pass_through=False) as guard:
        assert guard.get("/v1/embeddings").json()["error"]["code"] == "unknown_path"
        assert guard.get("/v1/models").status_code == 200
        assert guard.chat().status_code == 200


def test_judging_a_given_exchange(guard: Guarded, upstream: ModelServer) -> None:
    """The body is a row of a dataset in any dialect; the verdict has no texts, and nothing is generated."""
    rows: list[dict[str, Any]] = [
        {"question": "?", "answer": "good"},
        {"user_input": "?", "response": "good", "retrieved_contexts": ["a"]},
        {"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "good"}]},
    ]
    for row in rows:
        verdict = guard.post("/v1/judge", row).json()
        assert (verdict["rating"], verdict["score"], verdict["accepted"], verdict["guard"]) == (
            4,
            1.0,
            True,
            "default",
        )
        assert "SECRET" not in json.dumps(verdict)
    assert guard.post("/v1/judge", {"question": "?", "answer": "fair"}).json()["accepted"] is False
    for wrong in ({"question": "?"}, {}, {"foo": 1}, [1], {"question": 3, "answer": "x"}):
        response = guard.post("/v1/judge", wrong)
        assert (response.status_code, response.json()["error"]["type"]) == (400, "invalid_request_error")
    assert upstream.requests == []
    with guarding(upstream.url, reveal=["feedback"]) as open_guard:
        verdict = open_guard.post("/v1/judge", rows[0]).json()
    assert ("feedback" in verdict, "rationale" in verdict) == (True, False)


def test_a_judge_that_fails_open_and_closed(upstream: ModelServer) -> None:
    """Open releases the answer and says so; closed is a 503 of its own code; a verdict alone is unscored."""
    broken = "tests.guarding:breaks"
    with guarding(upstream.url, judge=broken, fail="open") as guard:
        response = guard.chat()
        refine = response.json()["refine"]
        assert (response.status_code, refine["passed"], refine["stop_reason"]) == (200, False, "judge_failed")
        assert guard.post("/v1/judge", {"question": "?", "answer": "x"}).json()["unscored"] == "judge_failed"
    with guarding(upstream.url, judge=broken, fail="closed") as guard:
        response = guard.chat()
        assert (response.status_code, response.json()["error"]["code"]) == (503, "judge_failed")
        assert "retry-after" in response.headers
        assert "good" not in response.text


def test_judging_alone_ends_by_the_deadline() -> None:
    """A judge whose model hangs has no longer than the policy lets an answer take; that is a verdict, too."""
    with serving(lambda _: Wire(then="hang")) as model:
        asks = {"judge": "helpfulness", "judge_base_url": model.url, "judge_model": "m"}
        with guarding(None, **asks, policy={"deadline_s": 0.3}) as guard:
            verdict = guard.post("/v1/judge", {"question": "?", "answer": "x"}, timeout=5).json()
    assert (verdict["unscored"], verdict["accepted"], verdict["rating"]) == ("deadline", False, None)


ENDINGS: dict[str, tuple[dict[str, Any], int, str]] = {
    "raise": ({"on_exhausted": "raise"}, 422, ""),
    "fallback": ({"on_exhausted": "fallback", "fallback": "Sorry."}, 200, "Sorry."),
    "best": ({"on_exhausted": "best"}, 200, "bad"),
    "shadow": ({"shadow": True}, 200, "bad"),
    "deadline": ({"deadline_s": 0.1}, 504, ""),
}


def test_endings_of_the_policy() -> None:
    """Not accepted is a 422, a fallback text a reply of its own, a deadline without an answer a 504."""
    guards = {name: {"policy": policy} for name, (policy, _, _) in ENDINGS.items()}
    with (
        serving(lambda asked: Reply("bad", delay_s=0.5 if asked["model"] == "deadline" else 0.0)) as upstream,
        guarding(upstream.url, guards=guards, max_attempts=2) as guard,
    ):
        for name, (_, status, content) in ENDINGS.items():
            asked: dict[str, Any] = {"model": name, "headers": {"x-refine-guard": name}}
            response = guard.chat(**asked)
            assert response.status_code == status, name
            if content:
                assert response.json()["choices"][0]["message"]["content"] == content
                assert content in guard.chat(**asked, stream=True).text


def test_operators_read_health_and_metrics(guard: Guarded) -> None:
    """Health, readiness and the metrics by name; an unknown path is a 404."""
    assert guard.get("/healthz").json() == {"status": "ok"}
    assert guard.get("/readyz").json() == {"status": "ready"}
    guard.service.draining = True
    assert guard.get("/readyz").status_code == 503
    guard.service.draining = False
    guard.chat(model="an-unknown-model-name")
    wait_until(lambda: guard.service.admission.in_flight == 0)
    text = guard.get("/metrics").text
    for line in (
        'refine_requests_total{guard="default",outcome="accepted"}',
        'refine_attempts_total{guard="default",result="released"}',
        'refine_request_duration_seconds_count{guard="default"}',
        'refine_generate_duration_seconds_count{guard="default"}',
        'refine_first_text_seconds_count{guard="default"}',
        'refine_judge_duration_seconds_count{judge="rates"}',
        'refine_ratings_total{judge="rates",rating="4"}',
        'refine_tokens_total{guard="default",kind="input",role="generator"}',
        "refine_in_flight 0.0",
        "refine_record_lost_total 0.0",
        "refine_record_queue 0.0",
    ):
        assert line in text, line
    assert "an-unknown-model-name" not in text
    assert guard.get("/nowhere").status_code == 404


def test_guards_by_model_and_header() -> None:
    """A model's name or a header chooses the guard, each with its own judge, policy and upstream."""
    guards = {
        "strict": {"models": ["gpt-*"], "success_rating": 4, "max_attempts": 2},
        "lax": {
            "models": ["small", "tiny-?"],
            "policy": {"overrides": {"2": {"model": "big", "temperature": 0.5}}},
        },
    }
    with (
        serving(lambda _: Reply("fair")) as upstream,
        guarding(upstream.url, guards=guards, default_guard="lax", judge_settings={}) as guard,
    ):
        chosen = [guard.chat(model=name).headers["x-refine-guard"] for name in ("gpt-5", "tiny-1", "other")]
        assert chosen == ["strict", "lax", "lax"]
        assert guard.chat(headers={"x-refine-guard": "strict"}).headers["x-refine-attempts"] == "2"
        upstream.reply = lambda _: Reply("bad")
        upstream.requests.clear()
        guard.chat(model="small")
        data = [json.loads(asked["raw"]) for asked in upstream.requests]
        assert [(one["model"], one.get("temperature")) for one in data] == [
            ("small", None),
            ("big", 0.5),
            ("big", 0.5),
        ]
