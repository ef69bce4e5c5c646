"""Who may open the page: whoever has its key or link, else this machine alone; wrong keys are limited."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import math
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from judges import ConfigurationError

MOST_PLACES = 10_000
_MOST_KNOWN = 10_000


class GuessLimit:
    """Counts the wrong keys of each place; keys that were right before are never held up by them.

    Args:
        most: How many wrong keys of a place are taken within the time.
        within_s: The time in seconds.
        clock: Monotonic clock in seconds, for tests.
    """

    def __init__(
        self, most: int = 100, *, within_s: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._within_s = within_s
        self._clock = clock
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def wait_s(self, place: str, key: str) -> float:
        """Return the seconds until a key of this place is looked at; 0 if it is now.

        Args:
            place: Where the key comes from, for instance an address.
            key: The key.
        """
        wrong = self._wrong.get(place)
        if wrong is None or len(wrong) < self._most or _digest(key) in self._known:
            return 0.0
        return max(0.0, wrong[0] + self._within_s - self._clock())

    def settle(self, place: str, key: str, *, is_right: bool) -> None:
        """Record whether a key was right."""
        if is_right:
            put_bounded(self._known, _digest(key), None, _MOST_KNOWN)
            return
        wrong = self._wrong.get(place) or deque(maxlen=self._most)
        wrong.append(self._clock())
        put_bounded(self._wrong, place, wrong, MOST_PLACES)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def put_bounded(entries: OrderedDict[Any, Any], name: object, value: object, most: int) -> None:
    """Keep an entry, and the latest ones alone."""
    entries[name] = value
    entries.move_to_end(name)
    if len(entries) > most:
        entries.popitem(last=False)


class OneTimeLink:
    """Lets in whoever comes with it first, by a key that is given in exchange."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)
        self._is_used = False

    def redeem(self, token: str) -> bool:
        """Return whether the link may be followed, and let nobody else follow it."""
        is_right = secrets.compare_digest(token.encode("utf-8", "surrogatepass"), self.token.encode())
        is_first, self._is_used = not self._is_used, self._is_used or is_right
        return is_right and is_first


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

_LARGEST_BODY = 1_000_000
_SHORTEST_KEY = 8
_MOST_GUESSES = 20
HANDED_ON = frozenset({"forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"})
"""Headers that a proxy adds, which may be on this machine while whoever asks is not."""
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


class PageAccess:
    """Decides who may use the page.

    Args:
        key: The page's own key, at least 8 characters; None lets in only those who ask from this machine.
        link: A link that is followed in place of a key; then only whoever has followed it is let in.

    Raises:
        ConfigurationError: If the key is too short.
    """

    def __init__(self, key: str | None, link: OneTimeLink | None) -> None:
        if key is not None and len(key) < _SHORTEST_KEY:
            raise ConfigurationError(f"the page's key has {len(key)} characters; give {_SHORTEST_KEY} at least")
        self._link = link
        own_key = secrets.token_urlsafe(32) if key is None and link is not None else key
        self._key = None if own_key is None else own_key.encode()
        self._guesses = GuessLimit(_MOST_GUESSES)

    async def follow_link(self, request: Request) -> Response:
        """Answer whoever follows the link with the page's key."""
        token = (await read_body(request)).get("link")
        place = request.client.host if request.client else ""
        if isinstance(token, str) and (refusal := self._too_many(place, token)):
            return refusal
        is_right = self._link is not None and isinstance(token, str) and self._link.redeem(token)
        self._guesses.settle(place, "", is_right=is_right)
        if not is_right or self._key is None:
            return JSONResponse({"error": "the link was followed before, or is none; start the server anew"}, 401)
        return JSONResponse({"key": self._key.decode()})

    def _too_many(self, place: str, key: str) -> Response | None:
        wait_s = self._guesses.wait_s(place, key)
        if not wait_s:
            return None
        headers = {"retry-after": str(math.ceil(wait_s))}
        return JSONResponse({"error": "too many wrong keys; wait a while"}, 429, headers)

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
        scheme, _, sent = request.headers.get("authorization", "").partition(" ")
        key, place = sent.strip(), request.client.host if request.client else ""
        refusal = self._too_many(place, key)
        if refusal is not None or not key:
            return refusal or JSONResponse({"error": "the page's key is wanted"}, 401)
        is_right = scheme.lower() == "bearer" and hmac.compare_digest(key.encode(), self._key)
        self._guesses.settle(place, key, is_right=is_right)
        return None if is_right else JSONResponse({"error": "the page's key is wanted"}, 401)


def _is_local(request: Request) -> bool:
    """Check that a request comes from this machine and, against a foreign name that leads here, asks for it.

    One that a proxy on this machine hands on may come from anywhere.
    """
    if not HANDED_ON.isdisjoint(request.headers):
        return False
    name = request.headers.get("host", "").lower()
    host = name.rpartition(":")[0] if name.rpartition(":")[2].isdigit() else name
    try:
        address = ipaddress.ip_address(request.client.host if request.client else "")
    except ValueError:
        return False
    return address.is_loopback and host in _LOCAL_NAMES


async def read_body(request: Request) -> dict[str, Any]:
    """Read a JSON object of bounded size; a form, which other sites can send too, is refused."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "the body is JSON (content-type: application/json)")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _LARGEST_BODY:
            raise HTTPException(413, f"the body is longer than {_LARGEST_BODY} bytes")
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPException(400, "the body is no JSON") from None
    if not isinstance(fields, dict):
        raise HTTPException(400, "the body is a JSON object")
    return fields
