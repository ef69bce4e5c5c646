"""The guard's own keys: random, shown once, kept as a hash, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from judges.errors import ConfigurationError, shortened
from refine.server.errors import ApiError
from refine.server.hosts import check_host
from refine.server.incoming import KEY_HEADER, Incoming

_PREFIX = "rf-"
_BYTES = 32
_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)
ANYONE = ""
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
        allowed_hosts: Patterns of further names under which a server without keys answers; see `check_host`.
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
            check_host(incoming.headers.get("host"), self._allowed_hosts)
            _refuse_other_sites(incoming)
            return Caller(ANYONE, None, incoming.credentials)
        own = incoming.headers.get(KEY_HEADER)
        keys = incoming.keys if own is None else [own]
        key = next((known for known in map(self._known, keys) if known is not None), None)
        if key is None:
            remedy = f"send it as `Authorization: Bearer ...` or as `{KEY_HEADER}`"
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


def new_key() -> str:
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
    key = new_key()
    table = f'[[keys]]\nname = "{name}"\nsha256 = "{digest_of(key)}"'
    return f"{key}\nKeep it: it is shown this once. Add to the configuration:", table


def digest_of(key: str) -> str:
    """Return the hash of a key as the configuration holds it."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
