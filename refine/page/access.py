"""Who may use the page, and the headers that keep it to itself."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from judges import ConfigurationError

Endpoint = Callable[[Request], Awaitable[Response]]

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
"""Sent with everything of the page: it runs its own scripts alone, and nothing in it becomes markup."""

_SHORTEST_KEY = 8
_HANDED_ON = frozenset({"forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"})
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Access:
    """Decides who may use the page.

    Args:
        key: The page's own key, at least 8 characters; None lets in only those who ask from this machine.

    Raises:
        ConfigurationError: If the key is too short.
    """

    def __init__(self, key: str | None) -> None:
        if key is not None and len(key) < _SHORTEST_KEY:
            raise ConfigurationError(f"the page's key has {len(key)} characters; give {_SHORTEST_KEY} at least")
        self._key = None if key is None else key.encode()

    @property
    def needs_key(self) -> bool:
        """Whether there is a key."""
        return self._key is not None

    def guarded(self, endpoint: Endpoint) -> Endpoint:
        """Return an endpoint that answers only those who may use the page, and nothing that can be stored."""

        async def answer(request: Request) -> Response:
            response = self._refusal(request) or await endpoint(request)
            response.headers.update({**HEADERS, "cache-control": "no-store"})
            return response

        return answer

    def _refusal(self, request: Request) -> Response | None:
        if self._key is None:
            if _is_local(request):
                return None
            reason = "without a key the page answers to this machine alone; give the page a key"
            return JSONResponse({"error": reason}, 403)
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(key.strip().encode(), self._key):
            return None
        return JSONResponse({"error": "the page's key is wanted"}, 401)


def _is_local(request: Request) -> bool:
    """Check that a request comes from this machine and, against a foreign name that leads here, asks for it.

    One that a proxy on this machine hands on may come from anywhere.
    """
    if not _HANDED_ON.isdisjoint(request.headers):
        return False
    name = request.headers.get("host", "").lower()
    host = name.rpartition(":")[0] if name.rpartition(":")[2].isdigit() else name
    try:
        address = ipaddress.ip_address(request.client.host if request.client else "")
    except ValueError:
        return False
    return address.is_loopback and host in _LOCAL_NAMES
