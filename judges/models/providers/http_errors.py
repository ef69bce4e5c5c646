"""Responses of an endpoint, and the errors of requests to it.

EndpointError               a request to an endpoint failed
├── EndpointStatusError     it was refused; carries the status
├── EndpointConnectionError no connection, or it broke: the same request may succeed later
├── EndpointTimeoutError    no complete reply in time: likewise
└── EndpointReplyError      the reply is not what such an endpoint sends
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from judges.errors import JudgesError

_KEPT_HEADERS = ("retry-after", "x-ratelimit-", "x-request-id", "x-should-retry")


class EndpointError(JudgesError):
    """A request to an endpoint failed. The message holds no key, no header and no part of the prompt."""


class EndpointConnectionError(EndpointError, ConnectionError):
    """There is no connection, or it broke before the reply was complete."""


class EndpointTimeoutError(EndpointError, TimeoutError):
    """The reply did not arrive in time."""


class EndpointReplyError(EndpointError):
    """The reply is too large, or not what an OpenAI-compatible endpoint sends."""


@dataclass(frozen=True, slots=True)
class EndpointResponse:
    """One HTTP response; its repr shows only the status, since a body may quote the key or the prompt."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class _ResponseHead:
    """Status of a response, and those of its headers that concern waiting and limits."""

    status_code: int
    headers: dict[str, str]


class EndpointStatusError(EndpointError):
    """The endpoint answered with a status other than 200.

    Args:
        message: What happened.
        status_code: The status.
        headers: Headers of the response; those about waiting and limits are kept, in lower case.

    Attributes:
        upstream: The whole response, for those who hand it on: status, all headers, and the body as it was sent;
            None where there was none. Its repr shows only the status, and pickles leave it out, since it may quote
            the key or the prompt.
    """

    upstream: EndpointResponse | None

    def __init__(self, message: str, *, status_code: int, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.upstream = None
        lowered = {name.lower(): text for name, text in (headers or {}).items()}
        kept_headers = {name: text for name, text in lowered.items() if name.startswith(_KEPT_HEADERS)}
        self.response = _ResponseHead(status_code, kept_headers)

    def __reduce__(self) -> tuple[Any, ...]:
        *rebuilding, state = super().__reduce__()
        return (*rebuilding, {**state, "upstream": None})

    def of(self, upstream: EndpointResponse | None) -> Self:
        """Take a response along, and return this."""
        self.upstream = upstream
        return self


def error_in(body: bytes) -> str:
    """Return the error message in a body of OpenAI's, FastAPI's or Ollama's form; empty if there is none.

    Google puts the object into a list; OpenRouter says beside its own message what the provider behind it said.
    """
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    payload = next(iter(payload), None) if isinstance(payload, list) else payload
    error = payload.get("error", payload.get("detail", payload)) if isinstance(payload, dict) else None
    if isinstance(error, list):
        error = next(iter(error), None)
    if isinstance(error, str):
        return error
    if not isinstance(error, dict):
        return ""
    place, beside = error.get("loc"), error.get("metadata")
    parts = [error.get(name) for name in ("message", "msg", "code", "param")]
    parts += place if isinstance(place, list) else []
    parts += [beside.get("raw")] if isinstance(beside, dict) else []
    return " ".join(part for part in parts if isinstance(part, str))
