"""Which headers go on to the upstream, and which of its own come back."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping

RawHeaders = list[tuple[bytes, bytes]]
"""Headers as ASGI has them: names in lower case."""

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_NOT_SENT = _HOP_BY_HOP | {
    "accept-encoding",
    "api-key",
    "authorization",
    "content-length",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "x-api-key",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-request-id",
    "x-rewrite-url",
}
"""Credentials, what belongs to one connection, and what would make another request of it."""
_NOT_RETURNED = _HOP_BY_HOP | {
    "access-control-allow-origin",
    "alt-svc",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "server",
    "set-cookie",
    "strict-transport-security",
    "x-request-id",
}
_OURS = "x-refine-"
_FORWARDED = "x-forwarded-"
_REQUEST_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)


def request_headers(scope_headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return a request's headers by name; of a header that came twice, the last."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope_headers}


def request_id(headers: Mapping[str, str]) -> str:
    """Return the client's `x-request-id` if it is one to be repeated in logs, or else a new one."""
    sent = headers.get("x-request-id", "")
    return sent if _REQUEST_ID.fullmatch(sent) else secrets.token_hex(16)


def to_upstream(headers: Mapping[str, str], identifier: str) -> dict[str, str]:
    """Return the headers to send on, without any credential, which each upstream's setting decides."""
    named = {name.strip().lower() for name in headers.get("connection", "").split(",")}
    sent = {
        name: value
        for name, value in headers.items()
        if name not in _NOT_SENT and name not in named and not name.startswith((_OURS, _FORWARDED))
    }
    return {**sent, "accept-encoding": "identity", "x-request-id": identifier}


def to_client(headers: Iterable[tuple[str, str]]) -> RawHeaders:
    """Return an upstream's headers to pass on; its request id is kept beside the guard's own."""
    returned: RawHeaders = []
    for name, value in headers:
        lower = name.lower()
        if lower == "x-request-id":
            lower = "x-refine-upstream-request-id"
        elif lower in _NOT_RETURNED or lower.startswith(_OURS):
            continue
        returned.append((lower.encode("latin-1"), value.encode("latin-1", "replace")))
    return returned
