"""What a dialect is: pure functions between the JSON of one API and the loop's messages, and JSON itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

import orjson
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from graphs.generators import Delta
from judges.errors import shortened
from judges.verdict import Usage
from refine.server.errors import ApiError, openai_error

RawHeaders = list[tuple[bytes, bytes]]
"""Headers as ASGI has them: names in lower case."""


Json = dict[str, Any]
"""A JSON object as the API defines it; fields that are not known here are kept."""


@dataclass(slots=True, kw_only=True)
class JudgedRequest:
    """A request of a client, read.

    Args:
        payload: What is sent to the upstream: the client's own JSON without `refine`, `stream`, `stream_options`.
        model: Name of the model asked for; empty where there is none.
        streamed: Whether the client wants events.
        refine: The client's `refine` object.
        skip_reason: Why its answer cannot be judged; empty where it can.
        choices: How many answers are wanted, each of which is asked for and judged by itself.
        most_tokens: Most tokens of an answer, where the client says so.
        forces_call: Whether the answer is to be the call of one tool, so that its arguments are the answer.
    """

    payload: Json
    model: str
    streamed: bool
    refine: Mapping[str, Any]
    skip_reason: str = ""
    choices: int = 1
    most_tokens: int | None = None
    forces_call: bool = False


_JSON = b"application/json"


@dataclass(slots=True)
class GuardReply:
    """What the work came to.

    Args:
        status: HTTP status.
        document: The JSON to send.
        headers: Further headers.
        body: The bytes to send instead of the document, as an upstream sent them.
        kind: Their content type.
    """

    status: int
    document: dict[str, Any] = field(repr=False)
    headers: RawHeaders = field(default_factory=list, repr=False)
    body: bytes | None = field(default=None, repr=False)
    kind: bytes = _JSON


def failure(error: ApiError, form: ApiDialect) -> GuardReply:
    """Return the reply for an error of the guard's own."""
    return GuardReply(error.status, form.error_body(error), error.headers)


class PieceEvents(Protocol):
    """Writes the events of one answer that goes out in pieces.

    Attributes:
        sent: The text that went out.
    """

    sent: str

    def piece(self, text: str) -> bytes:
        """Return the events of a piece."""

    def end(self, reply: Json) -> bytes:
        """Return the events of what did not go out yet, and of the end."""

    def fail(self, body: Json) -> bytes:
        """Return the events of an error that ends the answer."""


def unsent(text: str, sent: str) -> str:
    """Return what of a text did not go out yet; nothing where something else did."""
    return text[len(sent) :] if text.startswith(sent) else ""


class ApiDialect(Protocol):
    """The functions of a dialect; what is given here is as OpenAI has it."""

    PATH: str
    """Path below the base URL, of client and upstream alike."""

    API: str = "openai"
    """Whose API it belongs to: `openai` or `anthropic`."""

    KEY_HEADER: str = "authorization"
    """The header in which the upstream's key goes: `authorization` or `x-api-key`."""

    KEEP_ALIVE: bytes = b": keep-alive\n\n"
    """What is sent to a streaming client while it waits."""

    def read_request(self, body: Json) -> JudgedRequest:
        """Read a request; the body is not changed."""

    def conversation(self, payload: Json) -> list[AnyMessage]:
        """Return the messages for the judge, ending with the question or a tool's result."""

    def with_feedback(self, payload: Json, added: Sequence[AnyMessage]) -> Json:
        """Return the request of a further attempt: the same, with the messages added by the loop at its end."""

    def read_answer(self, reply: Json) -> tuple[AIMessage, Usage]:
        """Return the answer in an upstream's reply, with tool calls, refusal and why it ended, and its tokens."""

    def without_reasoning(self, reply: Json) -> Json:
        """Return a reply without the reasoning in it, which may speak of a rejected draft."""

    def without_text(self, reply: Json) -> Json:
        """Return a reply without its texts, such as what is said beside a call of a tool."""

    def with_text(self, reply: Json, text: str) -> Json:
        """Return a reply whose answer is this text alone; what else may repeat the text it had is left out."""

    def with_usage(self, reply: Json, usage: Usage) -> Json:
        """Return a reply whose own `usage` is another, without the details of the one it had."""

    def read_part(self, reply: Json, read: ReadTexts) -> Json:
        """Return a reply without the texts in it that are no part of what was read."""

    def write_reply(self, text: str, model: str) -> Json:
        """Return a reply of the guard's own: the fallback text."""

    def events(self, reply: Json) -> list[bytes]:
        """Return a whole reply, with its `refine` object, as the events of a stream."""

    def asks_for_form(self, payload: Json) -> bool:
        """Check whether the answer is to have a form, such as JSON, that a part of it has not."""

    def as_stream(self, payload: Json) -> Json:
        """Return a request whose reply comes as a stream."""
        return {**payload, "stream": True}

    def going_on(self, payload: Json) -> Json:
        """Return a request whose last message the endpoint is to go on with, where there is a way to say it."""
        return payload

    def delta_in(self, event: Json) -> Delta:
        """Return what an event of the upstream's stream adds to the answer."""

    def assembled(self, body: bytes) -> Json:
        """Return the reply whose stream this is."""

    def with_released_text(self, reply: Json, text: str, *, is_filtered: bool) -> Json:
        """Return a reply with another text; `is_filtered` says that it was stopped."""

    def piece_writer(self, identifier: str, model: str) -> PieceEvents:
        """Return what writes the events of one answer, by what its id ends in and the name of the model."""

    def error_body(self, error: ApiError) -> Json:
        """Return the body of an error of the guard's own."""
        return openai_error(error)

    def error_events(self, body: Json) -> list[bytes]:
        """Return an error in the midst of a stream as events, the last of the stream included."""


_LEFT_OUT = frozenset({"refine", "stream", "stream_options"})
"""Fields of a request that the upstream does not see."""


NO_QUESTION = "an answer to no message of the user is not judged"
GOES_ON = "an answer that goes on from the client's own words is not judged"
STORED = "an answer that is stored (store, conversation) is not judged, since rejected drafts would be stored too"
CHAINED = (
    "an answer to what is stored (previous_response_id, item_reference) is not judged, since what that holds is "
    "not in the request; send the conversation as input"
)
ASKING = ("user", "tool", "function")
"""Roles of messages that ask for an answer."""


_ROLES = ("user", "assistant", "system", "developer", "tool", "function")


def judged_request(body: Json, skip_reason: str, limits: Sequence[str]) -> JudgedRequest:
    """Return a request from a body whose conversation was checked; the body is not changed.

    Args:
        body: The body.
        skip_reason: Why the answer cannot be judged; empty where it can.
        limits: The fields that may hold the most tokens of an answer.

    Raises:
        ApiError: If a field cannot be read.
    """
    model = body.get("model")
    most = [value for name in limits if type(value := body.get(name)) is int]
    return JudgedRequest(
        payload={name: value for name, value in body.items() if name not in _LEFT_OUT},
        model=model if isinstance(model, str) else "",
        streamed=read_flag(body, "stream"),
        refine=_read_refine(body),
        skip_reason=skip_reason,
        most_tokens=min(most, default=None),
        forces_call=_forces_call(body),
    )


def _forces_call(body: Mapping[str, Any]) -> bool:
    """Check whether a request leaves a model no choice but to call one tool, by its name or as the only one.

    What is no known word is taken for a name: some server may read it as one.
    """
    chosen = [choice for name in ("tool_choice", "function_call") if (choice := body.get(name)) is not None]
    return any(
        _forces(choice, [*objects(body.get("tools")), *objects(body.get("functions"))]) for choice in chosen
    )


def _forces(choice: object, tools: Sequence[Json]) -> bool:
    if isinstance(choice, dict):
        inner = choice.get("allowed_tools")
        allowed = inner if isinstance(inner, dict) else choice
        if isinstance(allowed.get("tools"), list):
            return _forces(allowed.get("mode", "auto"), objects(allowed["tools"]))
        if _tool_name(choice):
            return True
        choice = choice.get("type")
    word = string(choice).strip().lower()
    if word in ("auto", "none", "validated"):
        return False
    names = {_tool_name(tool) or write_json(tool).decode() for tool in tools}
    return word not in ("any", "required") or len(names) < 2  # noqa: PLR2004 - two are a choice


def _tool_name(tool: Json) -> str:
    """Return the name of a tool, where an API has it; empty for one of the provider's own, which has none."""
    inner: Json = next((tool[kind] for kind in ("function", "custom") if isinstance(tool.get(kind), dict)), {})
    return string(tool.get("name")) or string(inner.get("name"))


def offers(payload: Json, names: Iterable[str]) -> bool:
    """Check whether tools of these names were offered, or may have been by what holds tools that are not seen.

    The call of another one is an answer in another form, and judged as one.
    """
    tools = [*objects(payload.get("tools")), *objects(payload.get("functions"))]
    offered = {"" if "tools" in tool else _tool_name(tool) for tool in tools}
    return "" in offered or offered.issuperset(names) or bool(payload.get("mcp_servers") or payload.get("prompt"))


def _read_refine(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the client's `refine` object; empty where there is none."""
    refine = body.get("refine")
    if refine is None:
        return {}
    if not isinstance(refine, dict):
        raise ApiError(
            400,
            'refine is an object, for instance {"evidence": {"reference": "..."}}',
            code="invalid",
            param="refine",
        )
    evidence = refine.get("evidence")
    if evidence is not None and not isinstance(evidence, dict):
        raise ApiError(
            400, f"evidence is an object, not {shortened(evidence)}", code="invalid", param="refine.evidence"
        )
    return refine


def reason_in_messages(body: Json) -> str:
    """Return why an answer to the messages of a request cannot be judged; empty where it can.

    Raises:
        ApiError: If there are none.
    """
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(one, dict) for one in messages):
        raise ApiError(400, "messages is a list of messages, at least one", code="invalid", param="messages")
    if messages[-1].get("role") == "assistant":
        return GOES_ON
    return "" if any(one.get("role") in ASKING for one in messages) else NO_QUESTION


def read_flag(body: Mapping[str, Any], name: str) -> bool:
    """Return a field that is true or false; false where there is none.

    Raises:
        ApiError: If it is anything else, which one server reads as true and another does not.
    """
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise ApiError(400, f"{name} is true or false, not {shortened(value)}", code="invalid", param=name)
    return value is True


_TOLD = frozenset({"prompt_logprobs", "prompt_token_ids", "token_ids"})
"""Fields in which servers repeat as numbers what was read and written, rejected drafts and reasoning included."""
_WORD = re.compile(r"[a-z0-9_.]{0,60}|[A-Z_]{0,60}")
_NAME = re.compile(r"[\w.:/+@=-]{0,200}", re.ASCII)  # or a sentence of Chinese, which has no blanks, would be one
_ADDRESS = re.compile(r"https?://[!-;=?-~]{1,2000}")
_NAMES: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("citations", "uri", "url"), _ADDRESS),
    **dict.fromkeys(("call_id", "container_id", "expires_at", "file_id", "id", "item_id", "mime_type"), _NAME),
    **dict.fromkeys(("model", "previous_response_id", "provider", "system_fingerprint"), _NAME),
    **dict.fromkeys(("tool_call_id", "tool_use_id"), _NAME),
    **dict.fromkeys(("code", "effort", "finish_reason", "generate_summary", "native_finish_reason"), _WORD),
    **dict.fromkeys(("object", "phase", "prompt_cache_retention", "reason", "role", "service_tier"), _WORD),
    **dict.fromkeys(("severity", "speed", "status", "stop_reason", "syntax", "tool_choice", "truncation"), _WORD),
    **dict.fromkeys(("type", "verbosity"), _WORD),
}
"""Fields whose texts are ids, words of an API and addresses, and never a model's words, with their form."""
_CITING = frozenset({"annotations", "citations", "search_results"})
_ANYTHING = re.compile(r".*", re.DOTALL)
_CITED = {
    **_NAMES,
    **dict.fromkeys(("citations", "uri", "url"), re.compile(r"https?://[^\s<>]{1,2000}")),
    **dict.fromkeys(("cited_text", "date", "document_title", "filename", "last_updated"), _ANYTHING),
    **dict.fromkeys(("quote", "snippet", "source", "title"), _ANYTHING),
}
"""Fields with words of what is cited, beside those."""
_TOKENS = {**_NAMES, **dict.fromkeys(("token", "tokens"), re.compile(r".{0,40}", re.DOTALL))}
"""Fields of what is said about tokens, the likely others included, which are a word or less."""
_CALLED = {**_NAMES, **dict.fromkeys(("name", "server_label", "server_name"), _NAME)}
"""Fields of the call of a tool."""
_SEALED = frozenset({"encrypted_content", "encrypted_index", "signature", "thought_signature"})
"""Texts that nobody but the provider can read, and that have to come back to it."""
_NO_WORD = re.compile(r"[▁Ġ\ufffd]|(?:bytes:)?(?:\\x[0-9a-fA-F]{2})+|<[!-=?-~]{1,20}>")
"""What a token holds that is no part of the text: a mark of a blank, bytes of a character, the end."""
_UNREAD = object()
_HOLDS_TEXT = (str, dict, list)
"""What may hold a text; most values in a reply are numbers, which go out unread."""


@dataclass(slots=True)
class ReadTexts:
    """Tells what of a reply may go out: what a judge has read, what the client itself sent, ids and names.

    Args:
        text: The text that was judged; empty where none was.
        request: What the client sent.
        is_strict: Whether words of sources, and what a provider's own tools returned, are held back, too.
    """

    text: str
    request: Json
    is_strict: bool
    _sent: set[str] | None = None

    def part(self, fields: Json, *whole: str) -> Json:
        """Return an object without texts that nobody read; fields that are to be `whole` stay as they are."""
        return self._object(fields, frozenset(whole), _NAMES)

    def call(self, fields: Json, *inputs: str) -> Json:
        """Return the call of a tool with the first of the fields that hold its input, and names.

        Where it was judged as a text, that is what was read of it: JSON may say a name twice, with another text.
        """
        name = next((one for one in inputs if one in fields), "")
        value = fields.get(name) if name else None
        if self.text and isinstance(value, str):
            fields = {**fields, name: _read_once(value)}
        return self._object(fields, frozenset([name] if isinstance(value, str | dict) else ()), _CALLED)

    def _object(self, fields: Json, whole: frozenset[str], names: Mapping[str, re.Pattern[str]]) -> Json:
        kept: Json = {}
        for name, value in fields.items():
            if name in names or _NAME.fullmatch(name) or name in self._words_sent():
                form = names.get(name) if type(value) is str else None
                is_plain = name in whole or (not isinstance(value, _HOLDS_TEXT) and name not in _TOLD)
                is_word = form is not None and form.fullmatch(value) is not None
                read = value if is_plain or is_word else self._field(name, value, names)
                if read is not _UNREAD:
                    kept[name] = read
        return kept

    def _field(self, name: str, value: Any, names: Mapping[str, re.Pattern[str]]) -> Any:
        if isinstance(value, str):
            form = names.get(name)
            is_read = form is not None and (form is _ANYTHING or form.fullmatch(value))
            is_read = (
                is_read
                or value in self.text
                or (name in _SEALED and is_word(value))
                or value in self._words_sent()
            )
            return value if is_read else _UNREAD
        if name in _TOLD or (name == "logprobs" and not self._has_read_tokens(value)):
            return _UNREAD
        if name in _CITING or name == "logprobs":
            names = _TOKENS if name == "logprobs" else names if self.is_strict else _CITED
        if isinstance(value, dict):
            return self._object(value, frozenset(), names)
        fields = (self._field(name, one, names) if isinstance(one, _HOLDS_TEXT) else one for one in value)
        return [one for one in fields if one is not _UNREAD]

    def _has_read_tokens(self, logprobs: Any) -> bool:
        """Check that the tokens whose probabilities are told are those of the text."""
        rows = logprobs if isinstance(logprobs, list) else [*logprobs.values()]
        if rows is not logprobs and any(isinstance(row, str | dict) for row in rows):
            return False
        listed = [one for row in rows if isinstance(row, list) for one in row] if rows is not logprobs else rows
        tokens = [string(one.get("token")) if isinstance(one, dict) else string(one) for one in listed]
        return all(token in self.text or _NO_WORD.sub("", token) in self.text for token in tokens)

    def _words_sent(self) -> set[str]:
        if self._sent is None:
            self._sent = set(_texts_in(self.request))
        return self._sent


def _read_once(text: str) -> str:
    """Return JSON as it was read, with the last of two fields of one name alone; what is none stays."""
    try:
        return compact(json.loads(text, strict=False))
    except (ValueError, RecursionError):
        return text


def _texts_in(value: object) -> Iterator[str]:
    """Yield all texts in a JSON value, names of fields included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        yield from _texts_in([*value.values()])
    elif isinstance(value, list):
        for one in value:
            yield from _texts_in(one)


def is_word(value: object) -> bool:
    """Check for a text of an API, which is ASCII and has no blanks; many languages write sentences without any."""
    return isinstance(value, str) and value.isascii() and len(value.split()) <= 1


def string(value: object) -> str:
    """Return a text, or an empty one in place of anything else."""
    return value if isinstance(value, str) else ""


def objects(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list; empty where there is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def arguments(text: object) -> dict[str, Any]:
    """Return the arguments of a tool call; what is no JSON object is kept under `arguments`."""
    if isinstance(text, dict):
        return text
    try:
        read = json.loads(text) if isinstance(text, str) and text else {}
    except (ValueError, RecursionError):
        read = None
    return read if isinstance(read, dict) else {"arguments": text}


def check_message(role: object, content: object, where: str) -> None:
    """Check what every message has.

    Raises:
        ApiError: If the role is unknown, or the content is neither text nor a list of parts.
    """
    if role not in _ROLES:
        raise ApiError(400, f"{where}.role is none of {', '.join(_ROLES)}", code="invalid", param=f"{where}.role")
    if content is None or isinstance(content, str):
        return
    if not isinstance(content, list) or not all(isinstance(part, str | dict) for part in content):
        raise ApiError(400, f"{where}.content is neither text nor a list of parts", code="invalid", param=where)


def message(
    role: object, content: Any, *, where: str, calls: list[Any] | None = None, call_id: str = ""
) -> AnyMessage:
    """Return a message for the judge; see `check_message`."""
    check_message(role, content, where)
    content = "" if content is None else content
    match role:
        case "user":
            return HumanMessage(content)
        case "assistant":
            return AIMessage(content, tool_calls=calls or [])
        case "system" | "developer":
            return SystemMessage(content)
        case _:
            return ToolMessage(content, tool_call_id=call_id)


def up_to_question(messages: list[AnyMessage]) -> list[AnyMessage]:
    """Return the messages without answers at their end, which the model is to go on with; never an empty list."""
    end = len(messages)
    while end and messages[end - 1].type == "ai":
        end -= 1
    return messages[:end] or [SystemMessage("")]


def compact(document: object) -> str:
    """Return a document as JSON for a text; what JSON has not, such as NaN, stays as it came."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_LONG = 19
"""From so many digits on a number may not fit into 64 bits."""


_DEEPEST = 100
"""Levels of what is read; functions that look into it call themselves at every one."""


_DIGIT = re.compile(rb"[0-9]")
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % _LONG)


def write_json(document: object) -> bytes:
    """Return a document as JSON; what UTF-8 cannot hold, such as half a character, is escaped as it came."""
    try:
        return orjson.dumps(document)
    except TypeError:  # a number above 64 bits, half a character, or deeper than orjson goes
        return _ENCODER.encode(document).encode()


def read_json(body: bytes) -> object:
    """Return what JSON says.

    Raises:
        ValueError: If it is none, or has a number that JSON has not, such as NaN, and could not be written.
        RecursionError: If it is nested too deeply.
    """
    document: object = _UNREAD
    if not _has_long_number(body):
        try:
            document = orjson.loads(body)
        except ValueError:
            """Half a character, another encoding, or no JSON: the standard library tells."""
    if document is _UNREAD:
        document = json.loads(body, parse_constant=_refuse, parse_float=_finite)
    if body.count(b"[") + body.count(b"{") > _DEEPEST:
        check_depth(document)
    return document


def check_depth(document: object) -> None:
    """Refuse what is nested too deeply.

    Raises:
        RecursionError: If it is.
    """
    level = [document]
    for _ in range(_DEEPEST):
        holders = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [inner for holder in holders for inner in holder]
        if not level:
            return
    raise RecursionError(f"nested deeper than {_DEEPEST} levels")


def read_object(body: bytes, max_messages: int) -> Json:
    """Return the object that the body of a request holds.

    Raises:
        ApiError: If it is not JSON, or no object, or holds a conversation of more messages.
    """
    if (roles := body.count(b'"role"')) > _UNREAD_FROM * max_messages:
        text = f"the body has about {roles:,} messages; send {max_messages:,} at most"
        raise ApiError(400, text, code="too_many_messages")
    try:
        document = read_json(body)
    except (ValueError, RecursionError):
        raise ApiError(400, "the body is not valid JSON; send one JSON object", code="invalid_json") from None
    if not isinstance(document, dict):
        raise ApiError(400, "the body is not a JSON object; send one JSON object", code="invalid_json")
    for name in ("messages", "input"):
        turns = document.get(name)
        if isinstance(turns, list) and len(turns) > max_messages:
            text = f"{name} has {len(turns):,} messages; send {max_messages:,} at most"
            raise ApiError(400, text, code="too_many_messages", param=name)
    return document


_UNREAD_FROM = 4
"""Times the allowed messages from which a body is refused unread: to read it would hold up all other requests."""


def _has_long_number(body: bytes) -> bool:
    """Check for one; it covers one of every 19 places, so only what is around a digit there is read."""
    for digit in _DIGIT.finditer(body[::_LONG]):
        place = digit.start() * _LONG
        if _LONG_NUMBER.search(body, max(0, place - _LONG), place + _LONG):
            return True
    return False


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(text)
    return number
