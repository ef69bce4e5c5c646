"""One request to the guard: its headers, its id, and the key it came with."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, NoReturn

import orjson
from starlette.types import Scope

from judges.errors import ConfigurationError, shortened
from refine.server.errors import ApiError

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


_KEY_HEADER = "x-refine-key"
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


_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_LONG = 19
"""From so many digits on a number may not fit into 64 bits."""

_DIGIT, _LONG_NUMBER = re.compile(rb"[0-9]"), re.compile(rb"[0-9]{%d}" % _LONG)


def write(document: object) -> bytes:
    """Return a document as JSON; what UTF-8 cannot hold, such as half a character, is escaped as it came."""
    try:
        return orjson.dumps(document)
    except TypeError:  # a number above 64 bits, half a character, or deeper than orjson goes
        return _ENCODER.encode(document).encode()


def read(body: bytes) -> object:
    """Return what JSON says.

    Raises:
        ValueError: If it is none, or has a number that JSON has not, such as NaN, and could not be written.
        RecursionError: If it is nested too deeply.
    """
    if not _has_long_number(body):
        try:
            return orjson.loads(body)
        except ValueError:
            """Half a character, another encoding, or no JSON: the standard library tells."""
    return json.loads(body, parse_constant=_refuse, parse_float=_finite)


def read_object(body: bytes) -> dict[str, Any]:
    """Return the object that the body of a request holds.

    Raises:
        ApiError: If it is not JSON, or no object.
    """
    try:
        document = read(body)
    except (ValueError, RecursionError):
        raise ApiError(400, "the body is not valid JSON; send one JSON object", code="invalid_json") from None
    if not isinstance(document, dict):
        raise ApiError(400, "the body is not a JSON object; send one JSON object", code="invalid_json")
    return document


def _has_long_number(body: bytes) -> bool:
    """Whether there is one; it covers one of every 19 places, so only what is around a digit there is read."""
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


_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[\w.-]+)(?::\d{1,5})?", re.ASCII)
_LOCAL = ("localhost", "*.localhost")


def _check_host(header: str | None, allowed: tuple[str, ...]) -> None:
    """Check the name by which a request asks for this server; one without any comes from no browser.

    Args:
        header: The header `Host`.
        allowed: Patterns of further names, for instance `*.internal`.

    Raises:
        ApiError: If a stranger may have given the name to this machine.
    """
    if header and not _is_own(header, allowed):
        raise ApiError(
            403,
            f"this server has no keys, so it answers to addresses, names without a dot and `allowed_hosts`, not "
            f"to {shortened(header)}; add the name there, or give the server keys",
            code="host_not_allowed",
        )


@lru_cache(maxsize=256)
def _is_own(header: str, allowed: tuple[str, ...]) -> bool:
    match = _HOST.fullmatch(header.strip().lower())
    if match is None:
        return False
    name = match[1].removesuffix(".").strip("[]")
    return (
        _is_address(name)
        or not {".", ":"} & set(name)
        or any(fnmatchcase(name, pattern.lower()) for pattern in (*_LOCAL, *allowed))
    )


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


_PREFIX = "rf-"
_BYTES = 32
_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)
_ANYONE = ""
"""Name of the caller where no key is wanted."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key as the configuration holds it.

    Args:
        name: What it is called in limits and logs.
        sha256: Hash of the key, 64 hexadecimal digits. A random key of 32 bytes needs no slower hash.
        guards: Names of the guards it is for; None for all.
    """

    name: str
    sha256: str
    guards: frozenset[str] | None = None


@dataclass(slots=True)
class Caller:
    """Who asks.

    Args:
        name: Name of the key; empty where no key is wanted.
        guards: Names of the guards the key is for; None for all.
        credentials: Headers with the caller's own key for the upstream.
    """

    name: str
    guards: frozenset[str] | None
    credentials: Mapping[str, str] = field(repr=False)


class Keys:
    """The keys that are let in; without any, everybody is.

    Args:
        keys: The keys.
        allowed_hosts: Patterns of further names under which a server without keys answers; see `_check_host`.
    """

    def __init__(self, keys: Sequence[Key] = (), *, allowed_hosts: Sequence[str] = ()) -> None:
        self._keys = tuple((key, key.sha256.encode()) for key in keys)
        self._allowed_hosts = tuple(allowed_hosts)

    def __bool__(self) -> bool:
        return bool(self._keys)

    def caller(self, incoming: Incoming) -> Caller:
        """Return who asks: by the header `x-refine-key`, or else by the API key sent.

        Raises:
            ApiError: If a key is wanted and none of the known ones came; or if none is wanted, and a page of
                another site asks, in the browser of somebody who reaches this server.
        """
        if not self._keys:
            _check_host(incoming.headers.get("host"), self._allowed_hosts)
            _refuse_other_sites(incoming)
            return Caller(_ANYONE, None, incoming.credentials)
        own = incoming.headers.get(_KEY_HEADER)
        keys = incoming.keys if own is None else [own]
        key = next((known for known in map(self._known, keys) if known is not None), None)
        if key is None:
            remedy = f"send it as `Authorization: Bearer ...` or as `{_KEY_HEADER}`"
            raise ApiError(401, f"this server wants a key of its own; {remedy}", code="invalid_api_key")
        return Caller(key.name, key.guards, {} if own is None else incoming.credentials)

    def _known(self, text: str) -> Key | None:
        """Compare with every key, so that the time does not tell which one is near."""
        digest = digest_of(text).encode()
        matching = [key for key, known in self._keys if hmac.compare_digest(digest, known)]
        return matching[0] if matching else None


def _refuse_other_sites(incoming: Incoming) -> None:
    """Refuse what a browser sends for a page of another site; programs send none of these headers."""
    origin, host = incoming.headers.get("origin"), incoming.headers.get("host", "")
    is_foreign = origin is not None and origin.partition("://")[2].lower() != host.lower()
    if is_foreign or incoming.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        raise ApiError(
            403, "this server has no keys, so it answers no pages of other sites; give it keys", code="forbidden"
        )


def _new_key() -> str:
    """Return a new random key."""
    return f"{_PREFIX}{secrets.token_urlsafe(_BYTES)}"


def described_key(name: str) -> tuple[str, str]:
    """Return a new key in a line for a person, and the lines of TOML that let it in.

    Raises:
        ConfigurationError: If the name cannot be used.
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"a key's name is 1 to 64 letters, digits, '.', '_' or '-', not {shortened(name)}"
        )
    key = _new_key()
    table = f'[[keys]]\nname = "{name}"\nsha256 = "{digest_of(key)}"'
    return f"{key}\nKeep it: it is shown this once. Add to the configuration:", table


def digest_of(key: str) -> str:
    """Return the hash of a key as the configuration holds it."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
