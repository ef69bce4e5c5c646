"""What a dialect is: pure functions between the JSON of one API and the loop's messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from langchain_core.messages import AIMessage, AnyMessage

from judges.verdict import Usage
from refine.server.errors import ApiError

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
        unjudged: Why the answer is not to be judged; empty where it is.
    """

    payload: Json
    model: str
    streamed: bool
    refine: Mapping[str, Any]
    unjudged: str = ""


class Dialect(Protocol):
    """The functions of a dialect; each dialect is a module."""

    PATH: str
    """Path below the base URL, of client and upstream alike."""

    KEY_HEADER: str
    """The header in which the upstream's key goes: `authorization` or `x-api-key`."""

    KEEP_ALIVE: bytes
    """What is sent to a streaming client while it waits."""

    def read_request(self, body: Json) -> JudgedRequest:
        """Read a request; the body is not changed."""
        ...

    def conversation(self, payload: Json) -> list[AnyMessage]:
        """Return the messages for the judge, ending with the question or a tool's result."""
        ...

    def with_feedback(self, payload: Json, added: Sequence[AnyMessage]) -> Json:
        """Return the request of a further attempt: the same, with the messages added by the loop at its end."""
        ...

    def read_answer(self, reply: Json) -> AIMessage:
        """Return the answer in an upstream's reply, with tool calls, refusal and the reason why it ended."""
        ...

    def without_reasoning(self, reply: Json) -> Json:
        """Return a reply without the reasoning in it, which may speak of a rejected draft."""
        ...

    def usage(self, reply: Json) -> Usage:
        """Return the tokens that the upstream reports."""
        ...

    def written(self, text: str, model: str) -> Json:
        """Return a reply of the guard's own: the fallback text."""
        ...

    def events(self, reply: Json) -> list[bytes]:
        """Return a whole reply, with its `refine` object, as the events of a stream."""
        ...

    def error_body(self, error: ApiError) -> Json:
        """Return the body of an error of the guard's own."""
        ...

    def error_events(self, body: Json) -> list[bytes]:
        """Return an error in the midst of a stream as events, the last of the stream included."""
        ...
