"""No way round the judge: every known one, for every API, whole and as events, failing open and closed."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from typing import Any, Literal, get_args

import pytest

from tests.guarding import QUESTION, Guarded, guarding
from tests.model_server import Asked, ModelServer, Reply, Wire, answered, serving
from tests.server.apis import reply_in
from tests.server.evasions import EVASIONS, HIDDEN, MARK, PATHS, Dialect, Evasion, Json

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
BAD_CALL = {**CALL, "function": {"name": "look", "arguments": "{"}}
SOUND = {"id": "a1", "data": "AAAA", "transcript": MARK}
ENDINGS = {"cut": "length", "filtered": "content_filter", "calls": "tool_calls", "calls badly": "tool_calls"}
ANTHROPIC_ENDINGS = {"cut": "max_tokens", "filtered": "refusal", "refuses": "refusal", "calls": "tool_use"}


def leak(asked: Asked) -> Wire:
    """Answer any path with a marked text, in the way that the name of the model says."""
    model = asked.get("model", "m")
    if model == "redirects" and "elsewhere" not in asked["path"]:
        return answered(MARK.encode(), status=307, headers={"location": f"/elsewhere{asked['path']}"})
    if model.startswith("fails"):
        return _failure(model, asked)
    kind = "says" if model == "names" or model.startswith("says, ") else model
    if asked["path"].startswith("/v1/messages"):
        reply = _message(kind)
    elif asked["path"].startswith("/v1/responses"):
        reply = _response(kind)
    else:
        reply = _completion(kind, asked)
    if model == "names" or model.startswith("says, "):
        reply = _hide_in_call(json.loads(json.dumps(reply).replace(MARK, "This is good.")), model)
    if model == "long":
        reply = json.loads(json.dumps(reply).replace(MARK, f"{'good ' * 15_000}{MARK}{' good' * 15_000}"))
    if model.startswith("hides "):
        reply = json.loads(json.dumps(reply).replace(MARK, "This is good."))
        place, fields = HIDDEN[model.removeprefix("hides ")]
        _hiding_place(reply, place).update(fields)
    if model == "told":
        reply = json.loads(json.dumps(reply).replace(MARK, "This is good."))
        reply |= {"prompt_logprobs": [{"1": {"decoded_token": MARK}}], "prompt": MARK, "input_messages": [MARK]}
        reply |= {"output_messages": [MARK], "output_text": MARK, "raw_output": MARK}
    if model == "heads":
        said = {"x-said": f"I say {MARK}", "x-parted": f"I\tsay\t{MARK}", "x-joined": f"I\xa0say\xa0{MARK}"}
        return answered(json.loads(json.dumps(reply).replace(MARK, "This is good.")), headers=said)
    wire = answered(reply)
    return Wire(wire.parts, pause_s=0.05) if model == "late" else wire


def _hiding_place(reply: Json, place: str) -> Json:
    """Return an object of a reply: the envelope, a choice, the answer or a part of it, or what is nearest."""
    if place == "envelope":
        return reply
    if "choices" in reply:
        choice: Json = reply["choices"][0]
        return choice if place == "choice" else choice["message"]
    answer: Json = next(one for one in reply.get("output") or reply["content"] if "text" in json.dumps(one))
    return answer["content"][0] if place == "part" and "content" in answer else answer


def _hide_in_call(reply: Json, model: str) -> Json:
    """Return a reply with a text in its call, or another one after it, where its arguments do not say it."""
    where = model.removeprefix("says, ")
    if model == "names":
        return json.loads(json.dumps(reply).replace('"say"', f'"{MARK}"'))  # type: ignore[no-any-return]
    calls = reply["choices"][0]["message"]["tool_calls"] if "choices" in reply else reply.get("output")
    calls = calls or reply["content"]
    call = calls[0].get("function", calls[0])
    arguments = "input" if "input" in call else "arguments"
    if where == "twice":
        call[arguments] = f'{{"text": "{MARK}", "text": "This is good."}}'
    elif where == "in a list":
        calls.append({**calls[0], **({"function": {**call, arguments: [MARK]}} if call is not calls[0] else {})})
        calls[-1] |= {} if call is not calls[0] else {arguments: [MARK]}
    elif where == "in a patch" and call.get("type") == "function_call":
        calls[0] = {"type": "apply_patch_call", "call_id": "c1", "operation": {"diff": MARK}}
    else:
        call["note" if arguments == "input" else "input"] = {"text": MARK}
    return reply


def _failure(model: str, asked: Json) -> Wire:
    """Fail as some providers do, whose errors quote what the model wrote."""
    if model == "fails plainly":
        return answered(MARK.encode(), status=400, kind="text/plain")
    error: Json = {"message": "Failed to call a function.", "code": f"wrote {MARK}", "failed_generation": MARK}
    document: Json = {"error": error, "request_id": f"I say {MARK}"}
    if model == "fails at length":
        document = {"error": {"message": f"Failed to parse: {'words ' * 60}{MARK}", "type": "server_error"}}
    if model == "fails in a list":
        document = {"error": [{"message": MARK}]}
    if model == "fails without blanks":
        document = {"error": {"message": "No.", "type": f"他说{MARK}", "code": f"他说{MARK}"}}
    if model == "fails, quoting a call":
        document = {"error": {"message": f"error parsing tool call: raw='{MARK}'", "code": "invalid_call"}}
    if model == "fails with an answer":
        document |= _completion("m", asked) | {"content": MARK, "output": MARK}
    if model == "fails with 200":
        error["code"] = 400
    return answered(document, status=200 if model == "fails with 200" else 400)


def _completion(model: str, asked: Json) -> Json:
    message: Json = {"role": "assistant", "content": MARK}
    if model == "odd":
        parts = ({"type": kind, "text": MARK} for kind in ("input_text", "output_text", "note"))
        message["content"] = [{"type": "text", "text": "This is good."}, *parts]
    if model == "says freely":
        freely = {"id": "c1", "type": "custom", "custom": {"name": "say", "input": MARK}}
        message |= {"content": None, "tool_calls": [freely]}
    if model == "thinks":
        message |= {"content": "", "reasoning_content": MARK}
    if model.startswith("calls"):
        message["tool_calls"] = [CALL if model == "calls" else BAD_CALL]
    if model == "says":
        function = {"name": "say", "arguments": json.dumps({"text": MARK})}
        message |= {"content": None, "tool_calls": [{**CALL, "function": function}]}
    if model == "refuses":
        message["refusal"] = "No."
    if model == "speaks":
        message |= {"content": "This is good.", "audio": SOUND}
    choices = [{"index": 0, "message": message, "finish_reason": ENDINGS.get(model, "stop")}]
    if model == "two":
        choices = [{**choices[0], "message": {"role": "assistant", "content": "good"}}, {**choices[0], "index": 1}]
    wanted = asked.get("n", 1)
    choices *= wanted if type(wanted) is int and wanted < 9 else 1
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    return {"id": "r1", "object": "chat.completion", "model": model, "choices": choices, "usage": usage}


def _response(model: str) -> Json:
    text: Json = {"type": "output_text", "text": MARK, "annotations": []}
    parts = [text, {"type": "refusal", "refusal": "No."}] if model == "refuses" else [text]
    output: list[Json] = [{"type": "message", "id": "m1", "role": "assistant", "content": parts}]
    if model.startswith("calls"):
        arguments = "{}" if model == "calls" else "{"
        output.append({"type": "function_call", "call_id": "c1", "name": "look", "arguments": arguments})
    if model == "says":
        arguments = json.dumps({"text": MARK})
        output = [{"type": "function_call", "call_id": "c1", "name": "say", "arguments": arguments}]
    if model == "speaks":
        text["text"] = "This is good."
        output.append({"type": "image_generation_call", "id": "i1", "result": MARK})
    if model == "says freely":
        output = [{"type": "custom_tool_call", "call_id": "c1", "name": "say", "input": MARK}]
    if model == "thinks":
        output = [{"type": "reasoning", "id": "t1", "summary": [{"type": "summary_text", "text": MARK}]}]
    if model == "odd":
        text["text"] = "This is good."
        parts += [{"type": "note", "note": MARK}, {"type": "x", "content": MARK}]
        output.append({"type": "note", "content": [{"type": "output_text", "text": MARK}]})
    if model == "two":
        output.append({"type": "message", "id": "m2", "role": "assistant", "content": [{**text, "type": "text"}]})
        text["text"] = "This is good."
    ended = {"cut": "max_output_tokens", "filtered": "content_filter"}.get(model)
    status = (
        {"status": "incomplete", "incomplete_details": {"reason": ended}} if ended else {"status": "completed"}
    )
    return {"id": "r1", "object": "response", "model": model, "output": output, **status}


def _message(model: str) -> Json:
    content: list[Json] = [{"type": "text", "text": MARK}]
    if model.startswith("calls"):
        content.append({"type": "tool_use", "id": "c1", "name": "look", "input": {}})
    if model.startswith("says"):
        content = [{"type": "tool_use", "id": "c1", "name": "say", "input": {"text": MARK}}]
    if model == "thinks":
        content = [{"type": "thinking", "thinking": MARK, "signature": "s"}]
    if model == "odd":
        odd = [{"type": "note", "text": MARK}, {"type": "x", "x": MARK}]
        content = [{"type": "text", "text": "This is good."}, *odd]
    if model == "speaks":
        content = [{"type": "text", "text": "This is good."}, {"type": "image", "source": {"data": MARK}}]
    if model == "two":
        content.insert(0, {"type": "text", "text": "This is good."})
    ending = ANTHROPIC_ENDINGS.get(model, "end_turn")
    return {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": ending,
    }


def rate(asked: Asked) -> Reply:
    """Judge as a model does: what is marked is a 1."""
    is_bad = MARK in asked["raw"].decode()
    verdict = {"rationale": "Because.", "rating": 1 if is_bad else 4, "feedback": "Do not."}
    return Reply(json.dumps(verdict))


UPSTREAM = leak


@pytest.fixture(scope="module")
def judge() -> Iterator[ModelServer]:
    """Start the judge's model."""
    with serving(rate) as server:
        yield server


def send(url: str, evasion: Evasion, dialect: Dialect, *, streamed: bool) -> tuple[int, bytes]:
    """Send a request byte for byte, and return the status and all bytes of the response."""
    host, _, port = url.removeprefix("http://").partition(":")
    body = json.dumps(evasion.body_of(dialect, streamed=streamed)).encode() if evasion.method != "GET" else b""
    headers = {"host": "localhost", "connection": "close", "content-type": "application/json", **evasion.headers}
    if evasion.trailers:
        headers["transfer-encoding"] = "chunked"
        trailers = "".join(f"{name}: {value}\r\n" for name, value in evasion.trailers.items())
        body = b"%x\r\n%s\r\n0\r\n%s\r\n" % (len(body), body, trailers.encode())
    else:
        headers["content-length"] = str(len(body))
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"{evasion.method} {evasion.path_of(dialect)} HTTP/1.1\r\n{lines}\r\n"
    received = b""
    with closing(socket.create_connection((host, int(port)), timeout=10)) as connection:
        connection.sendall(head.encode() + body)
        while not _is_whole(received) and (data := connection.recv(65_536)):
            received += data
    return int(received.split(b" ", 2)[1]), received


def _is_whole(received: bytes) -> bool:
    head, end, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    return bool(end) and length is not None and len(body) >= int(length[1])


Fail = Literal["open", "closed"]


def evading(upstream: ModelServer, judge: ModelServer, fail: Fail, **settings: Any) -> Any:
    """Run a guard that lets no bad answer out, and beside it one that lets everything out."""
    guards: dict[str, Json] = {
        "strict": {"judge": "helpfulness", "judge_base_url": judge.url, "judge_model": "m", "fail": fail},
        "lax": {"judge": "tests.guarding:accepts"},
    }
    common = {"policy": {"on_exhausted": "raise"}, "max_attempts": 1}
    return guarding(upstream.url, guards=guards, **{**common, **settings})


def offenders(guard: Guarded, evasions: list[Evasion], upstream: ModelServer) -> Iterator[str]:
    """Yield each way round that is open, or that is refused in another way than it should be."""
    for evasion, dialect, streamed in product(evasions, get_args(Dialect), (False, True)):
        upstream.requests.clear()
        status, received = send(guard.root, evasion, dialect, streamed=streamed)
        where = f"{evasion.name} / {dialect} / {'events' if streamed else 'whole'}: {status}"
        if MARK.encode() in received:
            yield f"{where}, and the answer came out"
        elif status not in evasion.status:
            yield f"{where}, not one of {evasion.status}: {received[-200:]!r}"


@pytest.mark.parametrize("fail", get_args(Fail))
def test_no_way_round_the_judge(upstream: ModelServer, judge: ModelServer, fail: Fail) -> None:
    """No known request gets at an answer that no judge has accepted; each is refused as it should be."""
    with evading(upstream, judge, fail) as guard:
        found = list(offenders(guard, list(EVASIONS), upstream))
    with evading(upstream, judge, fail, pass_through=True) as guard:
        spelt = [evasion for evasion in EVASIONS if evasion.is_spelling]
        found += [f"all paths pass: {one}" for one in offenders(guard, spelt, upstream)]
    assert found == []


def test_every_way_round_would_lead_to_the_answer(upstream: ModelServer) -> None:
    """Without a guard, each of them but a trick of HTTP's gets at the marked answer: the suite can fail."""
    for evasion, dialect in product(EVASIONS, get_args(Dialect)):
        if not evasion.trailers:
            received = send(upstream.url.removesuffix("/v1"), evasion, dialect, streamed=False)[1]
            assert MARK.encode() in received, evasion


def test_nothing_is_stored_that_was_not_accepted(upstream: ModelServer, judge: ModelServer) -> None:
    """What is stored unless a request says no is told not to be; chat completions are stored on request alone."""
    with evading(upstream, judge, "open", max_attempts=2) as guard:
        for dialect in get_args(Dialect):
            upstream.requests.clear()
            send(guard.root, EVASIONS[0], dialect, streamed=False)
            assert len(upstream.requests) == 2
            told = {json.loads(asked["raw"]).get("store") for asked in upstream.requests}
            assert told == ({False} if dialect == "responses" else {None})


def test_what_passes_by_name_says_so(upstream: ModelServer) -> None:
    """An operator may let through what cannot be judged: each such answer says that it is none that passed."""
    with guarding(upstream.url, unjudged="pass") as guard:
        for body in (
            {"messages": [*QUESTION, {"role": "assistant", "content": "It"}]},
            {"messages": QUESTION, "modalities": ["text", "audio"]},
            {"messages": QUESTION, "store": True},
            {"messages": QUESTION, "model": "calls", "functions": [{"name": "look"}]},
        ):
            reply = guard.post(PATHS["chat"], {"model": "m", **body}).json()
            assert (reply["refine"]["passed"], reply["refine"]["stop_reason"]) == (False, "skipped")
            assert reply["choices"][0]["message"]["content"] == MARK


def test_what_was_cut_off(upstream: ModelServer) -> None:
    """Cut as the client asked, an answer is judged, and not asked for again; by another limit it is."""
    cut = Reply("good so far", finish_reason="length", usage=(9, 10))
    upstream.reply = lambda asked: cut
    with guarding(upstream.url) as guard:
        for fields, attempts in (
            ({"max_tokens": 10}, 1),
            ({"max_completion_tokens": 10}, 1),
            ({}, 3),
            ({"max_tokens": 99}, 3),
        ):
            refine = guard.chat(**fields).json()["refine"]
            assert (refine["passed"], refine["rating"], len(refine["attempts"])) == (False, 4, attempts), fields
            assert refine["stop_reason"] == "max_attempts"
            assert "cut off" in refine["detail"]


def test_several_answers_are_judged_one_by_one(upstream: ModelServer) -> None:
    """Each choice is asked for by itself, refined by itself, and accepted by itself; the reply has them all."""
    texts = iter(["bad", "good one", "good two"])
    upstream.reply = lambda asked: Reply(next(texts))
    with guarding(upstream.url, success_rating=4) as guard:
        reply = guard.chat(n=2, seed=7, headers={"idempotency-key": "k"}).json()
    assert sorted(one["message"]["content"] for one in reply["choices"]) == ["good one", "good two"]
    assert [one["index"] for one in reply["choices"]] == [0, 1]
    sent = [json.loads(asked["raw"]) for asked in upstream.requests]
    assert {("n" in body, body["seed"]) for body in sent} == {(False, 7), (False, 8)}
    assert len({asked["headers"]["idempotency-key"] for asked in upstream.requests}) == 3
    refine = reply["refine"]
    assert (refine["passed"], len(refine["attempts"]), len(refine["choices"])) == (True, 3, 2)
    assert (reply["usage"]["total_tokens"], refine["usage"]["input_tokens"]) == (220, 300)


def test_a_header_that_says_two_things(upstream: ModelServer) -> None:
    """A proxy in front may have checked the other one of two keys, guards or hosts, so that neither counts."""
    with guarding(upstream.url) as guard:
        for name in ("host", "x-refine-guard", "x-refine-key", "authorization"):
            doubled = Evasion(name, headers={f"{name}": "localhost\r\n" + f"{name}: localhost"})
            status, received = send(guard.root, doubled, "chat", streamed=False)
            assert status == 400, received


def test_an_error_that_quotes_a_call(upstream: ModelServer, judge: ModelServer) -> None:
    """A guard that fails closed says an upstream's error by status and code; an open one by its message, too."""
    cases: list[tuple[Fail, bool]] = [("closed", False), ("open", True)]
    quoting = Evasion("quoting", model="fails, quoting a call")
    for fail, is_out in cases:
        with evading(upstream, judge, fail) as guard:
            for dialect, streamed in product(get_args(Dialect), (False, True)):
                status, received = send(guard.root, quoting, dialect, streamed=streamed)
                assert (status, MARK.encode() in received) == (400, is_out), received
                assert b"invalid_call" in received


def test_thoughts_that_nobody_judged(upstream: ModelServer, judge: ModelServer) -> None:
    """A guard that fails closed keeps reasoning back unless its policy says otherwise; an open one does not."""
    keeps: Json = {"keep_reasoning": True}
    cases: list[tuple[Fail, Json, bool]] = [("closed", {}, False), ("closed", keeps, True), ("open", {}, True)]
    upstream.reply = lambda asked: reply_in(asked, "This is good.", thought=MARK)
    for fail, policy, is_out in cases:
        with evading(upstream, judge, fail, policy={"on_exhausted": "raise", **policy}) as guard:
            for dialect, streamed in product(get_args(Dialect), (False, True)):
                status, received = send(guard.root, EVASIONS[0], dialect, streamed=streamed)
                assert (status, MARK.encode() in received) == (200, is_out), (fail, dialect, received)
                assert b"31415926" not in received


def test_what_is_known_stays(upstream: ModelServer) -> None:
    """Ids, sources, numbers, and whatever the client said itself come back beside an answer that was judged."""
    call = {
        "url_citation": {"url": "https://x.example/a", "title": "A title", "start_index": 0},
        "type": "url_citation",
    }
    message = {
        "role": "assistant",
        "content": "This is good.",
        "annotations": [call],
        "vendor": {"n": [1.5, None]},
    }
    choice = {"index": 0, "message": message, "finish_reason": "stop", "native_finish_reason": "STOP"}
    tokens = [
        {"token": one, "logprob": 0.0, "bytes": [1], "top_logprobs": [{"token": "bad"}]} for one in ("This", " is")
    ]
    own: Json = {"id": "gen-1:x", "object": "chat.completion", "model": "vendor/m-1.5", "provider": "Azure"}
    own |= {
        "choices": [{**choice, "logprobs": {"content": tokens, "refusal": None}}],
        "echo": "sent by the client",
    }
    own |= {
        "citations": ["https://x.example/a?b=c"],
        "search_results": [{"title": "Its title", "url": "https://x.example"}],
    }
    heads = {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT", "x-ratelimit-limit-requests": "10, 10;w=60"}
    heads |= {"x-ms-region": "East US", "server-timing": "a;dur=1, b;dur=2", "request-id": "req_1"}
    upstream.reply = lambda asked: answered(own, headers=heads)
    with guarding(upstream.url) as guard:
        response = guard.chat(metadata={"said": "sent by the client"})
    assert {name: response.headers.get(name) for name in heads} == heads
    body = response.json()
    assert body.pop("refine")["passed"]
    assert body == own
