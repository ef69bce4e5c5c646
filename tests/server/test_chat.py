"""Chat completions through the guard: what the upstream gets, and what the client does."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.guarding import QUESTION, Guarded, events_of, guarding
from tests.model_server import Asked, ModelServer, Reply, Wire, answered, in_turn

EVERYTHING: dict[str, Any] = {
    "model": "gpt-x",
    "messages": [
        {"role": "developer", "content": "Be kind."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": "x"}}],
        },
    ],
    "temperature": 0.25,
    "seed": 12345678901234567890,
    "response_format": {"type": "json_object"},
    "tools": [{"type": "function", "function": {"name": "t", "parameters": {}}}],
    "vendor_field": {"deep": [None, True, "\ud800 half", "漢字"]},
    "metadata": {"a": "b"},
    "logit_bias": {"50256": -100},
}


@pytest.fixture(scope="module")
def guard(upstream: ModelServer) -> Iterator[Guarded]:
    """Start a guard that sends a comment every 0.2 s and accepts a 4."""
    with guarding(upstream.url, success_rating=4, keep_alive_s=0.2) as running:
        yield running


def script(upstream: ModelServer, *replies: Reply | Wire) -> list[Asked]:
    """Give the upstream its replies, and return the list in which requests appear from now on."""
    upstream.reply = in_turn(*replies)
    upstream.requests = []
    return upstream.requests


def completion(message: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Make a completion of one message."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": None, **message}}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": usage,
        **fields,
    }


def sent(asked: Asked) -> dict[str, Any]:
    """Return the body of a request as the upstream got it."""
    body: dict[str, Any] = json.loads(asked["raw"])
    return body


def test_a_request_arrives_as_it_was_sent(upstream: ModelServer, guard: Guarded) -> None:
    """All fields arrive unchanged but `refine`, `stream` and `stream_options`, which are left out."""
    requests = script(upstream, Reply("good"))
    body = {**EVERYTHING, "refine": {"evidence": {"reference": "x"}}, "stream": True, "stream_options": {"x": 1}}
    raw = json.dumps(body).encode()
    response = httpx2.post(f"{guard.url}/chat/completions", content=raw, headers={"authorization": "Bearer sk-1"})
    assert response.status_code == 200
    assert sent(requests[0]) == EVERYTHING
    assert requests[0]["authorization"] == "Bearer sk-1"


def test_a_retry_adds_the_feedback(upstream: ModelServer, guard: Guarded) -> None:
    """The feedback follows the messages as they came, without the draft, and nothing else changes."""
    requests = script(upstream, Reply("a bad draft"), Reply("good"))
    response = guard.post("/v1/chat/completions", EVERYTHING)
    first, second = map(sent, requests)
    assert response.json()["choices"][0]["message"]["content"] == "good"
    *before, note = second["messages"]
    assert {**second, "messages": before} == first == json.loads(json.dumps(EVERYTHING))
    assert note["role"] == "user"
    assert "SECRET-FEEDBACK" in note["content"]
    assert "a bad draft" not in json.dumps(second)


def test_a_retry_adds_the_draft_and_its_feedback(upstream: ModelServer) -> None:
    """Where asked, a rejected draft and the feedback follow the messages, and nothing else changes."""
    requests = script(upstream, Reply("bad"), Reply("good"))
    with guarding(upstream.url, success_rating=4, policy={"augment": "last_draft"}) as showing:
        response = showing.post("/v1/chat/completions", EVERYTHING)
    first, second = map(sent, requests)
    assert response.json()["choices"][0]["message"]["content"] == "good"
    *before, draft, note = second["messages"]
    assert {**second, "messages": before} == first == json.loads(json.dumps(EVERYTHING))
    assert draft == {"role": "assistant", "content": "bad"}
    assert note["role"] == "user"
    assert "SECRET-FEEDBACK" in note["content"]


def test_the_reply_is_the_upstreams_own(upstream: ModelServer, guard: Guarded) -> None:
    """Unknown fields, logprobs and usage come back; the loop's figures stand in `refine` and in headers."""
    message = {"content": "good", "annotations": [{"x": 1}], "reasoning_content": "hm", "vendor": [1.5]}
    own = completion(message, system_fingerprint="fp", vendor_top={"a": None})
    script(
        upstream, answered(own, headers={"x-ratelimit-remaining": "9", "set-cookie": "a=b", "x-request-id": "up"})
    )
    response = guard.chat(headers={"x-request-id": "mine-1"})
    body = response.json()
    refine = body.pop("refine")
    assert body == own
    assert {name: refine[name] for name in ("passed", "rating", "stop_reason", "guard")} == {
        "passed": True,
        "rating": 4,
        "stop_reason": "accepted",
        "guard": "default",
    }
    others = {"id", "detail", "attempts", "usage", "latency_s"}
    assert refine.keys() == {"passed", "rating", "stop_reason", "guard", *others}
    assert [attempt["rating"] for attempt in refine["attempts"]] == [4]
    assert refine["usage"]["input_tokens"] == 7
    headers = {name: value for name, value in response.headers.items() if name.startswith("x-refine")}
    assert headers == {
        "x-refine-passed": "true",
        "x-refine-rating": "4",
        "x-refine-attempts": "1",
        "x-refine-stop-reason": "accepted",
        "x-refine-id": refine["id"],
        "x-refine-guard": "default",
        "x-refine-upstream-request-id": "up",
    }
    assert response.headers["x-request-id"] == "mine-1"
    assert response.headers["x-ratelimit-remaining"] == "9"
    assert "set-cookie" not in response.headers


def test_texts_of_a_verdict_stay_inside(upstream: ModelServer, guard: Guarded) -> None:
    """Neither rejected drafts, nor rationale or feedback, reach a client unless the operator says so."""
    script(upstream, Reply("bad DRAFT"), Reply("good"))
    shown = guard.chat()
    assert not [word for word in ("DRAFT", "SECRET") if word in shown.text + str(shown.headers)]
    with guarding(upstream.url, success_rating=4, reveal=["rationale", "feedback"]) as open_guard:
        script(upstream, Reply("bad DRAFT"), Reply("good"))
        refine = open_guard.chat().json()["refine"]
    assert refine["rationale"] == "SECRET-RATIONALE"
    assert [attempt["feedback"] for attempt in refine["attempts"]] == ["Be good, SECRET-FEEDBACK."] * 2


def test_reasoning_about_a_rejected_draft_is_left_out(upstream: ModelServer, guard: Guarded) -> None:
    """What a model thought on a retry may quote the draft and the feedback, so the reply comes without it."""
    thought = completion({"content": "good", "reasoning_content": "they disliked DRAFT"})
    script(upstream, answered(thought))
    assert "reasoning_content" in guard.chat().json()["choices"][0]["message"]
    script(upstream, Reply("bad"), answered(thought))
    assert "reasoning_content" not in guard.chat().json()["choices"][0]["message"]


@pytest.mark.parametrize(
    ("reply", "detail"),
    [
        (Reply(calls=(("look", {"q": 1}),)), "tool_call"),
        (Reply("I look.", calls=(("look", {"q": 1}),)), "tool_call: the turn calls a tool; the text in it"),
        (Reply(calls=(("look", "{broken"),)), "tool_call"),
        (Reply(refusal="No."), "refusal"),
        (Reply("some of it", finish_reason="content_filter"), "filtered"),
    ],
    ids=["tool call", "text beside", "broken tool call", "refusal", "filter"],
)
def test_what_is_not_judged_says_so(upstream: ModelServer, guard: Guarded, reply: Reply, detail: str) -> None:
    """Tool calls and refusals come back unjudged after one call, and without unjudged text; the reply says why."""
    requests = script(upstream, reply)
    response = guard.chat(functions=[{"name": "look"}])
    assert response.json()["choices"][0]["message"]["content"] is None
    refine = response.json()["refine"]
    assert (refine["passed"], refine["stop_reason"], refine["rating"]) == (False, "skipped", None)
    assert detail in refine["detail"]
    assert response.headers["x-refine-stop-reason"] == "skipped"
    assert len(requests) == 1


def test_a_stream_is_one_chunk_with_everything(upstream: ModelServer, guard: Guarded) -> None:
    """The message is the delta, tool calls have an index, usage and `refine` go with it, `[DONE]` is last."""
    call = {"id": "1", "type": "function", "function": {"name": "t", "arguments": "{}"}}
    own = completion({"content": "x", "tool_calls": [call], "reasoning_content": "hm"})
    script(upstream, answered(own))
    response = guard.chat(stream=True, functions=[{"name": "t"}])
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["x-refine-stop-reason"] == "skipped"
    chunk, done = events_of(response.text)
    body = json.loads(chunk)
    assert done == "[DONE]"
    assert body["object"] == "chat.completion.chunk"
    assert body["choices"][0]["delta"] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"index": 0, **call}],
        "reasoning_content": "hm",
    }
    assert body["usage"] == own["usage"]
    assert body["refine"]["stop_reason"] == "skipped"
    assert response.text.endswith("data: [DONE]\n\n")


def test_a_waiting_stream_is_kept_alive_by_comments(upstream: ModelServer, guard: Guarded) -> None:
    """Nothing is sent before the first interval; then comments, and never a byte of a rejected draft."""
    script(upstream, Reply("bad DRAFT", delay_s=0.25), Reply("good", delay_s=0.25))
    first, lines = 0.0, []
    started = time.monotonic()
    body = {"model": "m", "messages": QUESTION, "stream": True}
    with httpx2.stream("POST", f"{guard.url}/chat/completions", json=body) as response:
        for line in response.iter_lines():
            first = first or time.monotonic() - started
            lines.append(line)
    assert first >= 0.19
    assert lines.count(": keep-alive") >= 2
    assert "DRAFT" not in "".join(lines)
    assert [line for line in lines if line.startswith("data")][-1] == "data: [DONE]"


@pytest.mark.parametrize("streamed", [False, True])
def test_a_fast_error_keeps_its_status(upstream: ModelServer, guard: Guarded, *, streamed: bool) -> None:
    """An upstream's error keeps status, body and Retry-After, for streaming clients too, after one call."""
    requests = script(
        upstream, Reply("slow down", status=429, headers={"retry-after": "7", "x-should-retry": "true"})
    )
    response = guard.chat(stream=streamed)
    assert response.status_code == 429
    assert response.json() == {"error": {"message": "slow down", "type": "invalid_request_error"}}
    assert (response.headers["retry-after"], response.headers["x-should-retry"]) == ("7", "true")
    assert len(requests) == 1


def test_a_late_error_is_an_error_chunk(upstream: ModelServer, guard: Guarded) -> None:
    """After the first comment an error comes as a chunk, and the stream ends in order."""
    script(upstream, Reply("overloaded", status=503, delay_s=0.5))
    response = guard.chat(stream=True)
    error, done = events_of(response.text)
    assert response.status_code == 200
    assert json.loads(error)["error"]["message"] == "overloaded"
    assert done == "[DONE]"


@pytest.mark.parametrize(
    ("wire", "status", "code"),
    [
        (answered(b"<html>", kind="text/html"), 502, "upstream_reply"),
        (answered({"choices": []}), 502, "upstream_reply"),
        (answered([1]), 502, "upstream_reply"),
        (
            answered(b'{"choices": [{"message": {"content": "good"}, "logprob": -Infinity}]}'),
            502,
            "upstream_reply",
        ),
        (Wire((b"HTTP/1.1 999 Odd\r\ncontent-length: 2\r\n\r\n{}",)), 502, "upstream_reply"),
        (Wire((b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",)), 502, "upstream_reply"),
        (Wire((), then="close"), 502, "upstream_broken"),
        (Wire((b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{",), then="reset"), 502, "upstream_broken"),
    ],
)
def test_an_upstream_without_a_usable_reply(
    upstream: ModelServer, guard: Guarded, wire: Wire, status: int, code: str
) -> None:
    """A broken connection or no completion is an error of OpenAI's form with a code, after one call."""
    requests = script(upstream, wire)
    response = guard.chat()
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert len(requests) == 1


@pytest.mark.parametrize("end", ["error", "abort", "network_error", "insufficient_system_resource"])
def test_half_an_answer_that_ends_with_an_error_is_no_answer(
    upstream: ModelServer, guard: Guarded, end: str
) -> None:
    """GLM and DeepSeek say in the reason alone that they failed: the half is not judged, and does not go out."""
    script(upstream, Reply("good, but half", finish_reason=end))
    response = guard.chat()
    assert (response.status_code, response.json()["error"]["code"]) == (502, "upstream_broken")
    assert "half" not in response.text


@pytest.mark.parametrize("place", ["in its choice", "beside its choices"])
def test_half_an_answer_beside_an_error_is_no_answer(upstream: ModelServer, guard: Guarded, place: str) -> None:
    """Gateways report a failure beside what was written so far, whatever the reason says."""
    choice: dict[str, Any] = {"message": {"content": "good, but half"}, "finish_reason": "stop"}
    reply: dict[str, Any] = {"choices": [choice]}
    (choice if place == "in its choice" else reply)["error"] = {"code": 502, "message": "x"}
    script(upstream, answered(reply))
    response = guard.chat()
    assert (response.status_code, response.json()["error"]["code"]) == (502, "upstream_broken")
    assert "half" not in response.text


def test_errors_sent_with_status_200_and_other_forms(upstream: ModelServer, guard: Guarded) -> None:
    """An error inside a 200 gets the status it names; one that is no JSON gets the form of the API."""
    script(upstream, answered({"error": {"code": 429, "message": "x"}}))
    assert guard.chat().status_code == 429
    script(upstream, answered(b"Bad Gateway", status=502, kind="text/plain"))
    response = guard.chat()
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (502, "upstream_error")
    assert "Bad Gateway" not in response.text


def test_compressed_bodies(upstream: ModelServer, guard: Guarded) -> None:
    """A reply that comes compressed unasked is read, an error too; a compressed request is refused with a 415."""
    zipped = {"content-encoding": "gzip"}
    own = completion({"content": "good"})
    script(upstream, answered(gzip.compress(json.dumps(own).encode()), headers=zipped))
    body = guard.chat().json()
    del body["refine"]
    assert body == own
    script(upstream, answered(gzip.compress(b'{"error": {"message": "no"}}'), status=400, headers=zipped))
    refused = guard.chat()
    assert (refused.status_code, refused.json()) == (400, {"error": {"message": "no"}})
    script(upstream, answered(gzip.compress(b"{}" * 99)[:-9], headers=zipped))
    assert guard.chat().json()["error"]["code"] == "upstream_reply"
    requests = script(upstream, Reply("good"))
    compressed = gzip.compress(json.dumps({"model": "m", "messages": QUESTION}).encode())
    url = f"{guard.url}/chat/completions"
    response = httpx2.post(url, content=compressed, headers={"content-encoding": "gzip"})
    assert (response.status_code, response.json()["error"]["code"], requests) == (415, "compressed_body", [])


def test_an_error_after_a_draft_releases_the_best_so_far(upstream: ModelServer, guard: Guarded) -> None:
    """What the loop has is released when the upstream fails on a retry, and the stop reason says so."""
    script(upstream, Reply("fair"), Reply("gone", status=500))
    response = guard.chat()
    assert response.json()["choices"][0]["message"]["content"] == "fair"
    assert response.headers["x-refine-stop-reason"] == "generator_failed"
    assert response.headers["x-refine-passed"] == "false"


def test_evidence_and_settings_of_a_request(upstream: ModelServer, guard: Guarded) -> None:
    """A request may be stricter than the operator, never laxer; an unknown setting is an error, and asks none."""
    requests = script(upstream, Reply("bad"))
    assert guard.chat(refine={"max_attempts": 1}).headers["x-refine-attempts"] == "1"
    assert len(requests) == 1
    for wrong in ({"max_attempts": 9}, {"success_rating": 1}, {"max_atempts": 1}, {"evidence": 3}, 7):
        response = guard.chat(refine=wrong)
        assert (response.status_code, response.json()["error"]["type"]) == (400, "invalid_request_error")
    assert len(requests) == 1


def test_evidence_of_a_request_has_the_bound_that_it_is_given(upstream: ModelServer) -> None:
    """What is longer is an error, and asks none."""
    requests = script(upstream, Reply("good"), Reply("good"))
    with guarding(upstream.url, bounds={"max_evidence_chars": 5}) as bounded:
        assert bounded.chat(refine={"evidence": {"reference": "short"}}).status_code == 200
        response = bounded.chat(refine={"evidence": {"reference": "longer"}})
        assert response.status_code == 400
        assert "at most 5 characters of evidence" in response.json()["error"]["message"]
    assert len(requests) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[1]",
        b"{",
        b'{"messages": [], "model": "m"}',
        b'{"messages": [3]}',
        b'{"messages": [{"role": "critic", "content": "x"}]}',
        b'{"messages": [{"role": "user", "content": 3}]}',
        b'{"messages": [{"role": "user", "content": "x"}], "temperature": NaN}',
        b'{"messages": [{"role": "user", "content": "x"}], "temperature": 1e999}',
        b'{"a":' * 100_000,
        b"\xff\xfe",
    ],
)
def test_what_cannot_be_read_is_a_400(upstream: ModelServer, guard: Guarded, body: bytes) -> None:
    """A body that cannot be judged is refused in OpenAI's form, and the upstream is not asked."""
    requests = script(upstream, Reply("good"))
    response = httpx2.post(f"{guard.url}/chat/completions", content=body)
    assert (response.status_code, response.json()["error"]["type"]) == (400, "invalid_request_error")
    assert requests == []


def test_a_retry_is_not_a_repetition(upstream: ModelServer, guard: Guarded) -> None:
    """An idempotency key gets a suffix on a retry, or the upstream would send the rejected draft again."""
    requests = script(upstream, Reply("bad"), Reply("good"))
    guard.chat(
        headers={"idempotency-key": "k", "cookie": "a=b", "x-forwarded-for": "1.2.3.4", "x-request-id": "r 1"}
    )
    first, second = (asked["headers"] for asked in requests)
    assert (first["idempotency-key"], second["idempotency-key"]) == ("k", "k-2")
    assert not {"cookie", "x-forwarded-for"} & first.keys()
    assert first["x-request-id"] == second["x-request-id"] != "r 1"
    assert first["accept-encoding"] == "identity"


async def test_requests_do_not_meet(upstream: ModelServer, guard: Guarded) -> None:
    """Of 300 questions at once, each with a mark of its own, every retry and every answer has that mark alone."""

    def echo(asked: Asked) -> Reply:
        (mark,) = set(re.findall(r"mark-[0-9]+", asked["raw"].decode()))
        return Reply(f"good {mark}" if len(asked["messages"]) > 1 else f"bad {mark}")

    upstream.reply = echo
    client = httpx2.AsyncClient(timeout=20, limits=httpx2.Limits(max_connections=300))

    async def ask(number: int) -> str:
        question = [{"role": "user", "content": f"mark-{number}"}]
        body = {"model": "m", "messages": question, "stream": number % 2 == 0}
        return (await client.post(f"{guard.url}/chat/completions", json=body)).text

    async with client:
        texts = await asyncio.gather(*(ask(number) for number in range(300)))
    assert [set(re.findall(r"mark-[0-9]+", text)) for text in texts] == [
        {f"mark-{number}"} for number in range(300)
    ]
