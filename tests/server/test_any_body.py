"""Whatever a client sends, the guard reads it or says what is wrong, and never fails itself."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.guarding import Guarded, guarding
from tests.model_server import Asked, ModelServer, Wire, answered
from tests.server.apis import reply_in

PATHS = (
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/judge",
    "/beta/litellm_basic_guardrail_api",
)
FIELDS = (
    "answer",
    "arguments",
    "audio",
    "background",
    "call_id",
    "content",
    "evidence",
    "function",
    "id",
    "input",
    "input_type",
    "instructions",
    "max_attempts",
    "messages",
    "metadata",
    "modalities",
    "model",
    "n",
    "name",
    "output",
    "question",
    "reference",
    "refine",
    "role",
    "stream",
    "structured_messages",
    "success_rating",
    "system",
    "text",
    "texts",
    "tool_call_id",
    "tool_calls",
    "tool_use_id",
    "type",
)


def reply_well(asked: Asked) -> Wire:
    """Answer well, in the API that was asked."""
    return reply_in(asked, "good")


UPSTREAM = reply_well
ROLES = ("user", "assistant", "tool", "system", "x", None)
TYPES = (
    "function_call",
    "function_call_output",
    "image_url",
    "message",
    "reasoning",
    "text",
    "tool_result",
    "tool_use",
)


def value(rng: random.Random, depth: int = 0) -> Any:
    """Make any JSON value, often one that looks like a message or a part of one."""
    if depth > 3 or rng.random() < 0.4:
        return rng.choice([None, True, 0, -1.5, "text", "\ud800é", "漢字", [], {}])
    fields = {rng.choice(FIELDS): value(rng, depth + 1) for _ in range(rng.randrange(4))}
    match rng.randrange(4):
        case 0:
            return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
        case 1:
            return fields
        case 2:
            return {"role": rng.choice(ROLES), "content": value(rng, depth + 1), **fields}
        case _:
            return {"type": rng.choice(TYPES), "text": value(rng, depth + 1), **fields}


def body(rng: random.Random) -> dict[str, Any]:
    """Make a body; many of them nearly right."""
    made = {rng.choice(FIELDS): value(rng) for _ in range(rng.randrange(5))}
    message = {"role": rng.choice(ROLES[:4]), "content": rng.choice(["x", None, value(rng)])}
    if rng.random() < 0.7:
        made["messages"] = [
            *([value(rng)] if rng.random() < 0.3 else []),
            {**message, rng.choice(FIELDS): value(rng)},
        ]
    if rng.random() < 0.5:
        made["input"] = rng.choice(["x", [{"role": "user", "content": "x"}, value(rng)]])
    if rng.random() < 0.5:
        made |= {"input_type": "response", "texts": rng.choice([["x"], ["good"], value(rng)])}
    return made


@pytest.fixture(scope="module")
def guard(upstream: ModelServer) -> Iterator[Guarded]:
    """Start a guard."""
    with guarding(upstream.url) as running:
        yield running


def test_no_body_makes_the_guard_fail(guard: Guarded) -> None:
    """Of 1,200 bodies each is answered or refused with a 4xx; none is a 5xx, and both happen often."""
    for seed in range(3):
        rng = random.Random(seed)
        statuses: Counter[int] = Counter()
        for _ in range(400):
            path, made = rng.choice(PATHS), body(rng)
            response = guard.post(path, made)
            statuses[response.status_code] += 1
            assert response.status_code < 500, (path, json.dumps(made))
        assert statuses[200] > 40
        assert statuses[400] > 40


def test_ids_and_types_of_any_kind_are_read(guard: Guarded, upstream: ModelServer) -> None:
    """A type that is an object and ids that are numbers go on as they came, and the answer is judged."""
    parts = [{"type": {}}, {"type": 5}, {"type": "text", "text": "x"}]
    calls = [{"type": "function_call", "call_id": 7, "name": None, "arguments": 5}]
    results = [{"type": "function_call_output", "call_id": 7, "output": "x"}]
    used = {"role": "assistant", "content": [{"type": "tool_use", "id": 5, "input": "x"}]}
    bodies = {
        "/v1/chat/completions": {"messages": [{"role": "user", "content": parts}]},
        "/v1/responses": {"input": [*calls, *results]},
        "/v1/messages": {"messages": [used, {"role": "user", "content": "x"}]},
    }
    for path, made in bodies.items():
        response = guard.post(path, made)
        assert (response.status_code, response.headers.get("x-refine-passed")) == (200, "true"), path
        got = json.loads(upstream.requests[-1]["raw"])
        assert got.pop("store", None) == (False if path == "/v1/responses" else None)
        assert got == made


def test_what_is_nested_deeply_is_refused(guard: Guarded, upstream: ModelServer) -> None:
    """A reply of 400 levels is the upstream's fault, a request of as many the client's."""
    deep = "[" * 400 + "]" * 400
    whole = f'{{"choices": [{{"message": {{"role": "assistant", "content": "good"}}}}], "vendor": {deep}}}'
    upstream.reply = lambda _: answered(whole.encode())
    response = guard.chat()
    assert (response.status_code, response.json()["error"]["code"]) == (502, "upstream_reply")
    response = guard.client.post(f"{guard.url}/chat/completions", content=f'{{"vendor": {deep}}}')
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_json")


def test_numbers_of_any_length_go_on_as_they_came(guard: Guarded, upstream: ModelServer) -> None:
    """Numbers beyond 64 bits, and those a float just holds, reach the upstream and the client unchanged."""
    numbers = [2**63, -(2**63) - 1, 2**64, 10**40, 9_007_199_254_740_993, 0.1 + 0.2, 5e-324, 1e300, -0.0, 12.5]
    fields = {"object": "chat.completion", "choices": [{"message": {"role": "assistant", "content": "good"}}]}
    upstream.reply = lambda asked: answered({**fields, "vendor": asked["vendor"]})
    for number in numbers:
        response = guard.chat(vendor=[number, "half \ud800"])
        assert repr(json.loads(upstream.requests[-1]["raw"])["vendor"][0]) == repr(number)
        assert repr(response.json()["vendor"]) == repr([number, "half \ud800"])
    anywhere = [["x" * shift, 2**64 + shift] for shift in range(20)]
    assert guard.chat(vendor=anywhere).json()["vendor"] == anywhere
    for broken in ("1e400", "NaN", "-Infinity", "[" * 2_000 + "]" * 2_000 + "}"):
        response = guard.client.post(f"{guard.url}/chat/completions", content='{"vendor": ' + broken + "}")
        assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_json")
