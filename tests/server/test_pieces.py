"""The guard releases answers in pieces: streams that the official clients read, in all three protocols."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, product
from pathlib import Path
from typing import Any

import openai
import pytest

from judges import Verdict
from tests.guarding import QUESTION, Guarded, events_of, guarding, wait_until
from tests.model_server import Asked, ModelServer, Reply, Wire, answered, serving
from tests.server.apis import DIALECTS, body_in, reply_in
from tests.server.evasions import PATHS

FIRST = "One is good. Two is BAD. Three is never seen."
SECOND = "Two is better. And three."
WHOLE = "One is good. Two is better. And three."


def refuses(answer: str) -> Verdict:
    """Refuse what is bad; the judge of pieces."""
    return Verdict.checked("BAD" not in answer, feedback="SECRET-FEEDBACK")


def _events(asked: Asked, text: str) -> Wire:
    """Say a text in the API that was asked, as a stream a word an event."""
    if not asked.get("stream"):
        return reply_in(asked, text)
    words = text.replace(" ", " |").split("|")
    path = asked["path"]
    if path.startswith(PATHS["messages"]):
        start = {
            "id": "r1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "usage": {"input_tokens": 9, "output_tokens": 1},
        }
        deltas = [
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
            for word in words
        ]
        events: list[Any] = [
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "ping"},
            *deltas,
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
            {"type": "message_stop"},
        ]
    else:
        whole = json.loads(reply_in(asked, text).sent.partition(b"\r\n\r\n")[2])
        deltas = [{"type": "response.output_text.delta", "delta": word} for word in words]
        events = [{"type": "response.created"}, *deltas, {"type": "response.completed", "response": whole}]
    lines = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return answered(lines.encode(), kind="text/event-stream")


def _script(*texts: str) -> Any:
    left = list(texts)

    def reply(asked: Asked) -> Reply | Wire:
        text = left.pop(0) if len(left) > 1 else left[0]
        return Reply(text) if asked["path"].startswith(PATHS["chat"]) else _events(asked, text)

    return reply


@contextmanager
def _guarding(*texts: str, reply: Any = None, **settings: Any) -> Iterator[tuple[Guarded, ModelServer]]:
    """Run a guard of pieces before an upstream that says these texts in turn, or what `reply` returns."""
    policy = {"piece_chars": 1, **settings.pop("policy", {})}
    common = {"judge": "tests.guarding:accepts", "piece_judge": "tests.server.test_pieces:refuses"}
    with (
        serving(reply or _script(*texts)) as upstream,
        guarding(upstream.url, **{**common, "release": "pieces", "policy": policy, **settings}) as guard,
    ):
        yield guard, upstream


def test_a_stream_that_comes_compressed_unasked_is_read() -> None:
    """Compressed events are judged piece by piece all the same, and so is a reply that is no stream."""

    def compressed(asked: Asked) -> Wire:
        plain = reply_in(asked, FIRST) if len(upstream.requests) > 1 else _events(asked, FIRST)
        body = gzip.compress(plain.sent.partition(b"\r\n\r\n")[2])
        return answered(body, kind="text/event-stream", headers={"content-encoding": "gzip"})

    with _guarding(reply=compressed, policy={"max_attempts": 1}) as (guard, upstream):
        for _ in range(2):
            body = guard.post(PATHS["messages"], body_in("messages", "Count.")).json()
            assert [part["text"] for part in body["content"]] == ["One is good."], body


def test_clients_read_pieces() -> None:
    """Each official client assembles exactly the accepted pieces, and has the figures at the end."""
    import anthropic  # noqa: PLC0415 - it loads for a second, in each process that runs tests

    with _guarding(FIRST, SECOND, FIRST, SECOND, FIRST, SECOND) as (guard, _):
        with openai.OpenAI(base_url=guard.url, api_key="k", max_retries=0) as client:
            question: Any = QUESTION
            chunks: list[Any] = list(client.chat.completions.create(model="m", messages=question, stream=True))
            deltas = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
            assert [delta for delta in deltas if delta] == ["One is good.", " Two is better.", " And three."]
            assert chunks[-1].refine["passed"] is True
            assert {chunk.id for chunk in chunks} == {chunks[0].id}
            with client.responses.stream(model="m", input="Count.") as stream:
                seen = [event.delta for event in stream if event.type == "response.output_text.delta"]
                final = stream.get_final_response()
            assert ("".join(seen), final.output_text) == (WHOLE, WHOLE)
        with anthropic.Anthropic(base_url=guard.root, api_key="k", max_retries=0) as other:
            asked: Any = {"model": "m", "max_tokens": 99, "messages": QUESTION}
            with other.messages.stream(**asked) as texts:
                assert "".join(texts.text_stream) == WHOLE
                assert texts.get_final_message().content[0].text == WHOLE  # type: ignore[union-attr]


_NODE = Path(os.environ.get("REFINE_TEST_NODE", "")) / "node_modules"
_CLIENTS = [_NODE / "openai", _NODE / "@anthropic-ai" / "sdk"]


@pytest.mark.skipif(
    shutil.which("node") is None or not all(client.is_dir() for client in _CLIENTS),
    reason="REFINE_TEST_NODE does not name a folder with the clients of OpenAI and Anthropic for Node",
)
@pytest.mark.parametrize("second", [SECOND, "Two is BAD again."])
def test_node_reads_pieces(second: str, tmp_path: Path) -> None:
    """Node's official clients assemble exactly the accepted pieces, and see how the answer ended."""
    script = tmp_path / "pieces.mjs"
    script.write_text(Path(__file__).with_name("node_pieces.mjs").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "node_modules").symlink_to(_NODE)
    with _guarding(*[FIRST, second] * 4, policy={"max_attempts": 2}) as (guard, _):
        command = ["node", str(script), guard.root]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "BAD" not in done.stdout
    results = json.loads(done.stdout)
    is_good = second == SECOND
    pieces = ["One is good.", " Two is better.", " And three."] if is_good else ["One is good."]
    ends = ["stop", "stop", "completed", "end_turn"] if is_good else [*["content_filter"] * 3, "refusal"]
    assert [one["end"] for one in results] == [[end] for end in ends]
    assert ["".join(one["pieces"]) for one in results] == ["".join(pieces)] * 4
    assert [one["pieces"] for one in results[:1] + results[2:]] == [pieces] * 3
    assert {one["whole"] for one in results[2:]} == {"".join(pieces)}
    assert (results[0]["ids"], results[0]["passed"]) == (1, is_good)


def test_a_whole_answer_is_the_same() -> None:
    """Without a stream the client gets the text that a stream would have held; nothing refused is in either."""
    with _guarding(*[FIRST, SECOND] * 6) as (guard, _):
        for dialect in DIALECTS:
            whole = guard.post(PATHS[dialect], body_in(dialect))
            streamed = guard.post(PATHS[dialect], body_in(dialect, stream=True))
            assert whole.status_code == 200
            assert json.dumps(WHOLE)[1:-1] in whole.text
            for text in (whole.text, streamed.text):
                assert "BAD" not in text
                assert "SECRET" not in text


def test_exhausted() -> None:
    """What was released stays, and its end says that it was filtered, in the words of the protocol."""
    ending = {"chat": '"content_filter"', "responses": '"content_filter"', "messages": '"refusal"'}
    with _guarding(*[FIRST, "Two is BAD again."] * 3, policy={"max_attempts": 2}) as (guard, _):
        for dialect in DIALECTS:
            text = guard.post(PATHS[dialect], body_in(dialect, stream=True)).text
            assert ending[dialect] in text
            assert '"passed":false' in text
            assert "BAD" not in text


def test_an_answer_of_no_piece_has_no_part() -> None:
    """Where all was refused, the reply holds no text, nor a part that is empty."""
    with _guarding("All is BAD.", policy={"max_attempts": 1}) as (guard, _):
        replies = [guard.post(PATHS[dialect], body_in(dialect)).json() for dialect in DIALECTS]
    assert [reply["refine"]["passed"] for reply in replies] == [False] * 3
    chat, responses, messages = replies
    assert (chat["choices"][0]["message"]["content"], responses["output"], messages["content"]) == ("", [], [])


_TEXT_IN: dict[str, Callable[[Any], Any]] = {
    "chat": lambda event: event["choices"][0]["delta"].get("content"),
    "responses": lambda event: event.get("delta"),
    "messages": lambda event: event["delta"].get("text") if "delta" in event else None,
}


def test_a_fallback_ends_what_was_released() -> None:
    """Where no attempt may go on from the pieces that are out, the fallback text is the last of them."""
    policy = {"max_attempts": 1, "on_exhausted": "fallback", "fallback": "Sorry."}
    with _guarding(FIRST, policy=policy) as (guard, _):
        for dialect in DIALECTS:
            sent = events_of(guard.post(PATHS[dialect], body_in(dialect, stream=True)).text)
            texts = [_TEXT_IN[dialect](json.loads(event)) for event in sent if event != "[DONE]"]
            assert [text for text in texts if text] == ["One is good.", "\n\nSorry."]


def wants_three(answer: str) -> Verdict:
    """Accept what says three; the judge of the whole."""
    return Verdict.checked("hree" in answer, feedback="SECRET-FEEDBACK")


def test_a_client_that_asks_gets_a_replacement() -> None:
    """The end of the stream has the answer that takes the place; a client that did not ask has it flagged."""
    late, whole = "One is good. Two, too.", "Three it is."
    settings: Any = {"judge": "tests.server.test_pieces:wants_three", "policy": {"on_late_refusal": "replace"}}
    longer = f"{late} Three at last."
    texts = [late, whole, late, late, "Three is BAD.", whole] * 3 + [late, longer] * 3
    with _guarding(*texts, **settings) as (guard, _):
        for dialect in DIALECTS:
            asked = body_in(dialect, stream=True) | {"refine": {"on_late_refusal": "replace"}}
            replaced = guard.post(PATHS[dialect], asked).text
            plain = guard.post(PATHS[dialect], body_in(dialect, stream=True)).text
            not_streamed = guard.post(PATHS[dialect], body_in(dialect)).text
            assert replaced.count(f'"replacement":"{whole}"') == 1
            assert replaced.count(whole) == 1
            assert '"passed":true' in replaced
            assert "replacement" not in plain
            assert ('"stop_reason":"late_refusal"' in plain, '"passed":true' in plain) == (True, False)
            assert whole in not_streamed
            assert "One is good" not in not_streamed
            for text in (replaced, plain, not_streamed):
                assert "BAD" not in text
                assert "SECRET" not in text
        for dialect in DIALECTS:
            asked = body_in(dialect, stream=True) | {"refine": {"on_late_refusal": "replace"}}
            text = guard.post(PATHS[dialect], asked).text
            assert (text.count("Three at last."), f'"replacement":"{longer}"' in text) == (1, True)


def test_a_request_asks_for_what_the_policy_has() -> None:
    """Where the policy flags late refusals, a request cannot ask for a replacement."""
    with _guarding("One. Two.") as (guard, _):
        refused = guard.chat(stream=True, refine={"on_late_refusal": "replace"})
    assert refused.status_code == 400
    assert "on_late_refusal to 'flag'" in refused.text


def _chunks_of(*deltas: dict[str, Any], **ending: Any) -> Wire:
    """Say chunks of a chat completion as a stream, the last with its ending."""
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop", **ending})
    usage = {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16}
    head: dict[str, Any] = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    events: list[dict[str, Any]] = [{**head, "choices": [choice]} for choice in choices]
    events.append({**head, "choices": [], "usage": usage})
    text = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    headers = {"x-ratelimit-left": "9"}
    return answered(f"{text}data: [DONE]\n\n".encode(), kind="text/event-stream", headers=headers)


_CALL = {"index": 0, "id": "1", "type": "function", "function": {"name": "look", "arguments": '{"q": "BAD"}'}}
_SAID = {"role": "assistant", "content": "One is good. Two is BAD."}
_BESIDE: dict[str, Wire] = {
    "single tokens": _chunks_of(_SAID, logprobs={"content": [{"token": "BAD", "logprob": 0.0}]}),
    "a refusal": _chunks_of(_SAID, {"refusal": "BAD"}),
    "a call": _chunks_of(_SAID, {"tool_calls": [_CALL]}, finish_reason="tool_calls"),
    "a call alone": _chunks_of({"content": "One is good."}, {"tool_calls": [_CALL]}, finish_reason="tool_calls"),
    "half a character": _chunks_of({"content": "One is good. \ud83d Two is BAD."}),
    "a filter": _chunks_of(_SAID, {"content": " BAD"}, finish_reason="content_filter"),
    "annotations": _chunks_of(_SAID, {"annotations": [{"type": "url_citation", "title": "BAD"}]}),
    "a cut": _chunks_of(_SAID, {"content": " BA"}, finish_reason="length"),
}


def test_nothing_beside_a_refused_piece_goes_out() -> None:
    """Whatever an upstream says of it in other fields stays here, streamed and whole; what it counted goes out."""
    with _guarding("", policy={"max_attempts": 2}) as (guard, upstream):
        for name, wire in _BESIDE.items():
            upstream.reply = lambda _, wire=wire: wire  # type: ignore[misc]
            streamed, whole = guard.chat(stream=True), guard.chat()
            assert whole.headers["x-ratelimit-left"] == "9"
            for reply in (streamed.text, whole.text):
                assert "One is good." in reply, name
                assert "BAD" not in reply, name
                assert "content_filter" in reply, name
                assert '"total_tokens":16}' in reply, name


_SENT = _chunks_of({"content": "One is good."}, {"content": " Two is better."}).sent.partition(b"\r\n\r\n")[2]
_SPELT = {
    "CR": _SENT.replace(b"\n", b"\r"),
    "CRLF": b": \n\n" + _SENT.replace(b"\n", b"\r\n"),
    "BOM": b"\xef\xbb\xbf" + _SENT,
    "data of several lines": _SENT.replace(b'"choices":', b'\ndata:"choices":'),
    "no last line": _SENT.removesuffix(b"\n\ndata: [DONE]\n\n"),
}


def test_a_stream_is_read_however_it_is_spelt() -> None:
    """Any end of a line, a mark of the encoding, and events of several lines; what breaks at once is an error."""
    calls = _SENT.replace(b'"content":', b'"tool_calls": "none", "content":')
    broken = {"broken": _SENT[: _SENT.index(b"data", 9)], "broken: calls that are a text": calls}
    with _guarding("") as (guard, upstream):
        for name, sent in {**_SPELT, **broken}.items():
            wire = answered(sent, kind="text/event-stream")
            upstream.reply = lambda _, wire=wire: wire  # type: ignore[misc]
            reply = guard.chat()
            if name in broken:
                assert (reply.status_code, reply.json()["error"]["code"]) == (502, "upstream_broken")
            else:
                assert reply.json()["choices"][0]["message"]["content"] == "One is good. Two is better.", name


_TEXT = "One is good. Two is BAD. Three is BAD, too."
_USAGE = {"input_tokens": 9, "output_tokens": 7, "note": "BAD", "output_tokens_details": {"note": "BAD"}}
_LOGPROBS = [{"token": "BAD", "logprob": 0.0, "top_logprobs": [{"token": "BAD", "logprob": 0.0}]}]
_CITED = [{"type": "url_citation", "title": "BAD", "url": "http://BAD", "start_index": 0, "end_index": 9}]


def _in_every_field_of_responses() -> tuple[list[Any], dict[str, Any]]:
    """Return the events of an answer, and the answer, in which each field names what is refused."""
    part = {"type": "output_text", "text": _TEXT, "annotations": _CITED, "logprobs": _LOGPROBS}
    item = {"id": "m1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    thought = {
        "id": "r1",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "BAD"}],
        "content": [],
    }
    search = {"id": "s1", "type": "web_search_call", "status": "completed", "action": {"query": "BAD"}}
    whole = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "output": [thought, search, item],
        "output_text": _TEXT,
        "metadata": {"note": "BAD"},
        "reasoning": {"summary": "BAD"},
        "usage": _USAGE,
    }
    place = {"item_id": "m1", "output_index": 2, "content_index": 0}
    events: list[Any] = [
        {"type": "response.created", "response": {**whole, "output": [], "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": thought},
        {"type": "response.reasoning_summary_text.delta", "item_id": "r1", "output_index": 0, "delta": "BAD"},
        {"type": "response.reasoning_summary_part.done", "item_id": "r1", "part": {"text": "BAD"}},
        {"type": "response.output_item.done", "output_index": 1, "item": search},
        {"type": "response.output_item.added", "output_index": 2, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        *(
            {"type": "response.output_text.delta", **place, "delta": word, "logprobs": _LOGPROBS}
            for word in _TEXT.replace(" ", " |").split("|")
        ),
        {"type": "response.output_text.annotation.added", **place, "annotation": _CITED[0]},
        {"type": "response.output_text.done", **place, "text": _TEXT, "logprobs": _LOGPROBS},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 2, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return events, whole


def _in_every_field_of_messages() -> tuple[list[Any], dict[str, Any]]:
    """Return the events of an answer, and the answer, as above."""
    thought = {"type": "thinking", "thinking": "BAD", "signature": "BAD"}
    cited = {"type": "char_location", "cited_text": "BAD", "document_index": 0, "document_title": "BAD"}
    block = {"type": "text", "text": _TEXT, "citations": [cited]}
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "BAD"}}
    head = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "usage": _USAGE}
    whole = {**head, "content": [thought, search, block], "stop_reason": "end_turn", "stop_sequence": "BAD"}
    whole["container"] = {"id": "BAD"}
    events: list[Any] = [
        {"type": "message_start", "message": {**head, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": thought},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "BAD"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": search},
        {"type": "content_block_stop", "index": 1},
        {"type": "content_block_start", "index": 2, "content_block": {**block, "text": ""}},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "citations_delta", "citation": cited}},
        *(
            {"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": word}}
            for word in _TEXT.replace(" ", " |").split("|")
        ),
        {"type": "content_block_stop", "index": 2},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": "BAD"}, "usage": _USAGE},
        {"type": "message_stop"},
    ]
    return events, whole


_EVERY_FIELD: dict[Any, Any] = {"responses": _in_every_field_of_responses, "messages": _in_every_field_of_messages}


def _at_first(events: list[Any], whole: Any, second: str) -> Any:
    """Say an answer, as a stream where it is asked for, and on a retry another, if there is one."""
    sent = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    streamed, at_once, numbers = answered(sent.encode(), kind="text/event-stream"), answered(whole), count()

    def reply(asked: Asked) -> Wire:
        if next(numbers) % 2 and second:
            return _events(asked, second)
        return streamed if asked.get("stream") else at_once

    return reply


def test_no_field_beside_a_refused_piece_goes_out() -> None:
    """Annotations, single tokens, summaries, figures and the events that hold the whole text: none of it."""
    with _guarding("", policy={"max_attempts": 2}) as (guard, upstream):
        for dialect, second in product(_EVERY_FIELD, ["Two is better.", ""]):
            events, whole = _EVERY_FIELD[dialect]()
            upstream.reply = _at_first(events, whole, second)
            for stream in (True, False):
                text = guard.post(PATHS[dialect], body_in(dialect, stream=stream)).text
                assert "One is good." in text
                assert (second or "content_filter", "BAD" in text) == (second or "content_filter", False), text
                assert (second in text) if second else '"passed":false' in text.replace(": ", ":")


_ENDING = {
    "responses": [
        *("created", "in_progress", "output_item.added 0", "content_part.added 0"),
        *("output_text.delta 0", "output_text.delta 0", "output_text.delta 0"),
        *("output_text.done 0", "content_part.done 0", "output_item.done 0"),
        *("output_item.added 1", "output_item.done 1", "completed"),
    ],
    "messages": [
        *("message_start", "content_block_start 0"),
        *("content_block_delta 0", "content_block_delta 0", "content_block_delta 0", "content_block_stop 0"),
        *("content_block_start 1", "content_block_delta 1", "content_block_stop 1"),
        *("message_delta", "message_stop"),
    ],
}


def _named(event: dict[str, Any]) -> str:
    """Return the name of an event, and the place in the answer that it speaks of."""
    place = event.get("output_index", event.get("index", ""))
    return f"{event['type'].removeprefix('response.')} {place}".strip()


def test_an_accepted_stream_ends_with_the_calls_and_without_the_thoughts() -> None:
    """What a tool was asked follows the text in a place of its own; what was thought before it has none."""
    with _guarding("", policy={"keep_reasoning": True}) as (guard, upstream):
        for dialect, make in _EVERY_FIELD.items():
            written, whole = json.loads(json.dumps(make()).replace("BAD", "fine"))
            upstream.reply = _at_first(written, whole, "")
            text = guard.post(PATHS[dialect], body_in(dialect, stream=True)).text
            events = [json.loads(event) for event in events_of(text)]
            assert [_named(event) for event in events] == _ENDING[dialect]
            assert "fine" not in json.dumps(events[:2])
            if dialect == "responses":
                first, last = events[0]["response"], events[-1]["response"]
                assert (first["output"], first["status"], first["usage"]) == ([], "in_progress", None)
                assert (events[2]["item"]["content"], last["id"]) == ([], first["id"])
                assert [item["type"] for item in last["output"]] == ["message", "web_search_call"]
            else:
                assert (events[0]["message"]["content"], events[0]["message"]["stop_reason"]) == ([], None)
        call = {**_CALL, "function": {"name": "look", "arguments": "{}"}}
        said, called = {"role": "assistant", "content": "One. Two."}, {"tool_calls": [call]}
        upstream.reply = lambda _: _chunks_of(said, called, finish_reason="tool_calls")
        offered = {"type": "function", "function": {"name": "look"}}
        *chunks, _ = events_of(guard.chat(stream=True, tools=[offered]).text)
        first, *others = [json.loads(chunk) for chunk in chunks]
        assert first["id"] == f"chatcmpl-{others[-1]['refine']['id']}"
        for name in ("id", "object", "created", "model"):
            assert {chunk[name] for chunk in others} == {first[name]}
        deltas = [choice["delta"] for chunk in (first, *others) for choice in chunk["choices"]]
        assert [{name for name, value in delta.items() if value} for delta in deltas] == [
            {"role", "content"},
            {"content"},
            {"tool_calls"},
        ]
        assert "content" not in deltas[-1]
        (choice,) = first["choices"]
        assert (choice.keys() - {"delta"}, choice["index"]) == ({"index", "logprobs", "finish_reason"}, 0)


def test_a_call_that_was_not_offered_goes_out_once_as_the_text_that_was_judged() -> None:
    """A client gets it as text alone, streamed and whole, however the upstream sent it; the answer ends as one."""
    ends = {"chat": '"finish_reason":"stop"', "responses": '"completed"', "messages": '"stop_reason":"end_turn"'}
    with _guarding("", reply=lambda asked: reply_in(asked, "", call={"q": "fine"})) as (guard, upstream):
        for dialect, stream in product(DIALECTS, (False, True)):
            reply = guard.post(PATHS[dialect], body_in(dialect, stream=stream)).text
            assert r"{\"look\":{\"q\":\"fine\"}}" in reply
            assert ends[dialect] in reply
            assert all(form not in reply for form in ('"tool_calls"', '"function_call"', '"tool_use"')), reply
        upstream.reply = lambda _: Reply("Let me look.", calls=(("look", {"q": "fine"}),))
        (choice,) = guard.chat().json()["choices"]
        assert choice["message"]["content"] == 'Let me look.\n{"look":{"q":"fine"}}'
        assert (choice["finish_reason"], "tool_calls" in choice["message"]) == ("stop", False)


def test_the_text_beside_a_call_that_went_out_in_pieces_is_judged_and_stays() -> None:
    """Streamed and whole have it, also where an unjudged text would be left out; so of what a refusal follows."""
    offered = {"type": "function", "function": {"name": "look"}}
    call, refusal = Reply(" Two is better.", calls=(("look", {}),)), Reply(refusal="No.")
    for second, text in ((call, "One is good. Two is better."), (refusal, "One is good.")):
        replies = [Reply(FIRST), second] * 2
        with _guarding("", reply=lambda _, left=replies: left.pop(0)) as (guard, _):
            (choice,) = guard.chat(tools=[offered]).json()["choices"]
            assert choice["message"]["content"] == text
            *chunks, _ = events_of(guard.chat(tools=[offered], stream=True).text)
        deltas = [choice["delta"] for chunk in chunks for choice in json.loads(chunk)["choices"]]
        assert "".join(delta.get("content") or "" for delta in deltas) == text
        assert deltas[-1].keys() == {"tool_calls"} if second is call else {"refusal"}


def test_an_answer_of_two_attempts_has_no_single_tokens_of_the_last_one() -> None:
    """Log-probabilities of a part are none of the whole; those of an answer of one attempt are its own."""
    tokens = {"content": [{"token": "One", "logprob": 0.0}]}
    replies = [_chunks_of({"content": text}, logprobs=tokens) for text in (FIRST, SECOND, SECOND)]
    with _guarding("", reply=lambda _: replies.pop(0), unjudged="pass") as (guard, _):
        mended, at_once = ([reply["message"]["content"], reply["logprobs"]] for reply in _choices(guard, 2))
    assert mended == [WHOLE, None]
    assert at_once == [SECOND, tokens]


def _choices(guard: Guarded, times: int) -> list[Any]:
    return [guard.chat().json()["choices"][0] for _ in range(times)]


def test_an_answer_that_is_too_long_for_the_judge_is_judged_in_its_pieces() -> None:
    """Of what the judge of the whole is shown a part alone, pieces go out that were judged, and no whole does."""
    accepted, statuses = Reply(json.dumps({"rationale": "r", "rating": 4, "feedback": ""})), []
    with serving(lambda _: accepted) as model:
        settings = {"judge": "helpfulness", "judge_model": f"{model.url}#m"}
        for release in ({}, {"release": "answer", "piece_judge": None}):
            policy = {"max_conversation_chars": 1_000, "piece_chars": 400}
            with _guarding("One is good. " * 100, policy=policy, **settings, **release) as (guard, _):
                statuses.append(guard.chat().status_code)
    assert statuses == [200, 422]


def test_what_has_no_pieces_is_held_back() -> None:
    """JSON, several answers, unjudged ones and requests that ask for it come whole, and the record says why."""
    going_on = [*QUESTION, {"role": "assistant", "content": "One"}]
    asked: list[dict[str, Any]] = [{"response_format": {"type": "json_object"}}, {"n": 2}, {"messages": going_on}]
    with _guarding("One is good. Two is good.", unjudged="pass") as (guard, _):
        held = [
            json.loads(events_of(guard.chat(stream=True, **fields).text)[-2])
            for fields in (*asked, {"refine": {"release": "answer"}})
        ]
    assert [one["refine"].get("held_back") for one in held] == ["structured", "choices", "unjudged", None]
    assert [one["choices"][0]["delta"]["content"] for one in held] == ["One is good. Two is good."] * 4


def test_metrics_have_the_first_text() -> None:
    """The time to the first text is counted for each answer, streamed in pieces or sent whole; not for errors."""
    with _guarding(FIRST, SECOND, FIRST, SECOND) as (guard, _):
        guard.chat(stream=True)
        guard.chat()
        guard.chat(n="many")
        wait_until(lambda: not guard.service.running and guard.service.admission.in_flight == 0)
        metrics = guard.get("/metrics").text
    assert 'refine_first_text_seconds_count{guard="default"} 2.0' in metrics


def test_requests_ask_within_bounds() -> None:
    """A request may have its answer in pieces only where the bounds say so."""
    asked: Any = {"stream": True, "refine": {"release": "pieces"}}
    with _guarding("One. Two.", release="answer", bounds={"release": "pieces"}) as (guard, _):
        assert len(events_of(guard.chat(**asked).text)) == 4
        assert len(events_of(guard.chat(stream=True).text)) == 2
    with serving(_script("One. Two.")) as upstream, guarding(upstream.url) as plain:
        assert plain.chat(**asked).status_code == 400


def test_a_client_that_leaves_ends_everything() -> None:
    """The upstream's connection is closed when the client is gone in the midst of its stream."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    delta = {"choices": [{"index": 0, "delta": {"content": "One is good. Two is good. Three"}}]}
    hanging = Wire((head + f"data: {json.dumps(delta)}\n\n".encode(),), then="hang")
    with _guarding(reply=lambda _: hanging) as (guard, upstream):
        body = {"model": "m", "messages": QUESTION, "stream": True}
        with guard.client.stream("POST", f"{guard.url}/chat/completions", json=body) as response:
            first = next(response.iter_text())
        assert "One is good." in first
        wait_until(lambda: upstream.open_connections == 0, seconds=30)
        wait_until(lambda: not guard.service.running, seconds=30)
