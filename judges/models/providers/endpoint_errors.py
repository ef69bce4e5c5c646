"""What can go wrong between us and an endpoint.

EndpointError               a request to an endpoint came to nothing
├── EndpointStatusError     it was refused; carries the status
├── EndpointConnectionError no connection, or it broke: the same request may succeed later
├── EndpointTimeoutError    no whole reply in time: likewise
└── EndpointReplyError      the reply is not what such an endpoint sends
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from judges.errors import JudgesError

_KEPT_HEADERS = ("retry-after", "x-ratelimit-", "x-request-id", "x-should-retry")


class EndpointError(JudgesError):
    """A request to an endpoint came to nothing. The message holds no key, no header and nothing of the prompt."""


class EndpointConnectionError(EndpointError, ConnectionError):
    """There is no connection, or it broke before the reply was whole."""


class EndpointTimeoutError(EndpointError, TimeoutError):
    """The reply was not there in time."""


class EndpointReplyError(EndpointError):
    """The reply is too large, or not what an OpenAI-compatible endpoint sends."""


@dataclass(frozen=True, slots=True)
class Told:
    """What an endpoint told beside its body: the status, and those headers that say when to come back."""

    status_code: int
    headers: dict[str, str]


class EndpointStatusError(EndpointError):
    """The endpoint answered with another status than 200.

    Args:
        message: What happened.
        status_code: The status.
        headers: Headers of the answer; those about waiting and limits are kept, in lower case.
    """

    def __init__(self, message: str, *, status_code: int, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status_code = status_code
        kept = {name.lower(): text for name, text in (headers or {}).items()}
        self.response = Told(status_code, {k: text for k, text in kept.items() if k.startswith(_KEPT_HEADERS)})


def error_in(body: bytes) -> str:
    """Read what an endpoint says is wrong, in OpenAI's, FastAPI's or Ollama's form; empty where it is silent."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    error = told.get("error", told.get("detail", told)) if isinstance(told, dict) else None
    if isinstance(error, list):
        error = next(iter(error), None)
    if isinstance(error, str):
        return error
    if not isinstance(error, dict):
        return ""
    place = error.get("loc")
    parts = [error.get(name) for name in ("message", "msg", "code", "param")]
    parts += place if isinstance(place, list) else []
    return " ".join(part for part in parts if isinstance(part, str))


def without_words(text: str, hidden: Iterable[str]) -> str:
    """Take out each word that stands in a hidden text too: endpoints quote keys and prompts in their errors."""
    quoted = "\n".join(hidden)
    return re.sub(r"\w{4,}", lambda word: "..." if word.group() in quoted else word.group(), text)
