"""One request to the guard: its headers, its id, and the key it came with."""

from __future__ import annotations

from dataclasses import dataclass, field

from starlette.types import Scope

from refine.server.headers import RawHeaders, request_headers, request_id

KEY_HEADER = "x-refine-key"
GUARD_HEADER = "x-refine-guard"
_BEARER = "authorization"
_AUTHENTICATING = (_BEARER, "x-api-key", "api-key")


@dataclass(slots=True)
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

    @property
    def credentials(self) -> dict[str, str]:
        """The headers that authenticate, wherever a client of any API puts its key."""
        return {name: self.headers[name] for name in _AUTHENTICATING if self.headers.get(name)}

    @property
    def keys(self) -> list[str]:
        """The keys in these headers."""
        return [text.strip() for name, text in self.credentials.items() if name != _BEARER] + self._bearer

    @property
    def _bearer(self) -> list[str]:
        scheme, _, token = self.credentials.get(_BEARER, "").partition(" ")
        return [token.strip()] if scheme.lower() == "bearer" and token.strip() else []

    @property
    def id_headers(self) -> RawHeaders:
        """The headers of every response."""
        return [(b"x-request-id", self.id.encode())]
