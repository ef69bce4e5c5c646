"""One request to the guard: its headers, its id, and the key it came with."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from starlette.types import Scope

from refine.server.headers import RawHeaders, request_headers, request_id

KEY_HEADER = "x-refine-key"
GUARD_HEADER = "x-refine-guard"


@dataclass(frozen=True)
class Incoming:
    """A request, without its body.

    Args:
        headers: The headers, by name in lower case.
        id: The client's request id if it is one, or else a new one.
    """

    headers: dict[str, str] = field(repr=False)
    id: str

    @classmethod
    def of(cls, scope: Scope) -> Incoming:
        """Read the headers of a request."""
        headers = request_headers(scope["headers"])
        return cls(headers, request_id(headers))

    @cached_property
    def api_key(self) -> str:
        """The key in `Authorization: Bearer`, or in `x-api-key` or `api-key`; empty where there is none."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            return token.strip()
        return self.headers.get("x-api-key") or self.headers.get("api-key") or ""

    @property
    def id_headers(self) -> RawHeaders:
        """The headers of every response."""
        return [(b"x-request-id", self.id.encode())]
