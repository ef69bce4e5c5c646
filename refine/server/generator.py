"""The generator of one request: the client's own JSON goes to the upstream, on a retry with the feedback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import NoReturn

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig

from graphs.drafts import Draft
from graphs.errors import RefineError
from judges.errors import ConfigurationError
from judges.verdict import Usage
from refine.server import json_text
from refine.server.compression import uncompressed
from refine.server.dialects.protocol import Dialect, Json, JudgedRequest
from refine.server.errors import UpstreamFailed
from refine.server.headers import RawHeaders
from refine.server.upstream import Upstream, UpstreamReply

_OK = range(200, 300)
_IDEMPOTENCY = "idempotency-key"


class UpstreamRefused(RefineError):  # noqa: N818 - what the upstream did
    """The upstream answered with an error; `reply` is to be passed on as it is."""

    def __init__(self, reply: UpstreamReply) -> None:
        super().__init__(f"the upstream answered with status {reply.status}")
        self.status_code = reply.status
        self.reply = reply


@dataclass(slots=True)
class RawAnswer:
    """An upstream's reply: its JSON, and the headers to pass on."""

    document: Json = field(repr=False)
    headers: RawHeaders = field(repr=False)


class UpstreamGenerator:
    """Generates the drafts of one request, and keeps each reply as it came.

    Args:
        upstream: Where to send it.
        dialect: The protocol of client and upstream.
        request: The request.
        length: How many messages the conversation has; those after it in a prompt were added by the loop.
        headers: Headers of every attempt.
        models: Another model's name from an attempt number on.
    """

    may_interrupt = False

    def __init__(
        self,
        upstream: Upstream,
        dialect: Dialect,
        request: JudgedRequest,
        *,
        length: int,
        headers: Mapping[str, str],
        models: Mapping[int, str],
    ) -> None:
        self._upstream = upstream
        self._dialect = dialect
        self._request = request
        self._length = length
        self._headers = headers
        self._models = models
        self._numbers = count(1)
        self.answers: dict[str, RawAnswer] = {}

    def draft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> NoReturn:
        """Refuse: the server never blocks."""
        del prompt, config, temperature
        raise ConfigurationError("the guard's generator has no blocking form; use adraft")

    async def adraft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        """Return the upstream's answer; its raw reply is in `answers` by the id of the message.

        Raises:
            UpstreamRefused: If the upstream answers with an error.
            UpstreamFailed: If it gives no reply that can be used.
        """
        del config
        number = next(self._numbers)
        payload = self._payload(prompt, number, temperature)
        reply = await self._upstream.post(self._dialect.PATH, json_text.write(payload), self._headers_of(number))
        reply = uncompressed(reply)
        document = _document(reply)
        answer, usage = self._read(document)
        answer.id = f"attempt-{number}"
        self.answers[answer.id] = RawAnswer(document, reply.headers)
        name = answer.response_metadata.get("model_name") or self._request.model or None
        return Draft(answer=answer, calls=((name, usage),))

    def _read(self, document: Json) -> tuple[AIMessage, Usage]:
        try:
            return self._dialect.read_answer(document), self._dialect.usage(document)
        except (AttributeError, KeyError, TypeError, ValueError):
            text = "the upstream's reply has fields of no known form"
            raise UpstreamFailed(502, text, code="upstream_reply") from None

    def _payload(self, prompt: list[BaseMessage], number: int, temperature: float | None) -> Json:
        payload, added = self._request.payload, prompt[self._length :]
        if added:
            payload = self._dialect.with_feedback(payload, added)  # type: ignore[arg-type]  # made by the loop
        if temperature is not None:
            payload = {**payload, "temperature": temperature}
        in_force = [first for first in self._models if first <= number]
        return {**payload, "model": self._models[max(in_force)]} if in_force else payload

    def _headers_of(self, number: int) -> Mapping[str, str]:
        """Return the headers of an attempt: a further one is not a repetition of the first."""
        key = self._headers.get(_IDEMPOTENCY)
        if number == 1 or key is None:
            return self._headers
        return {**self._headers, _IDEMPOTENCY: f"{key}-{number}"}


def _document(reply: UpstreamReply) -> Json:
    if reply.status not in _OK:
        raise UpstreamRefused(reply)
    try:
        document = json_text.read(reply.body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise UpstreamFailed(502, "the upstream's reply is not a JSON object", code="upstream_reply")
    if isinstance(document.get("error"), dict) and not document.get("choices") and not document.get("output"):
        raise UpstreamRefused(UpstreamReply(_status_in(document["error"]), reply.kind, reply.headers, reply.body))
    return document


def _status_in(error: Json) -> int:
    """Return the status that an error names which came with status 200, as some gateways send it."""
    code = error.get("code")
    return code if type(code) is int and 400 <= code < 600 else 502  # noqa: PLR2004 - HTTP's errors
