"""Who asks, and what they may still consume today: headers, ids, keys, budgets."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import logging
import math
import os
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

from starlette.types import Scope

from judges.errors import ConfigurationError, shortened
from judges.verdict import Usage
from refine.page.access import HANDED_ON, GuessLimit
from refine.server.config import ServerKey
from refine.server.dialects.protocol import RawHeaders
from refine.server.errors import ApiError

if TYPE_CHECKING:
    from refine.record import DatabaseRecord

_DAY_S = 86_400
_DAY_MS = _DAY_S * 1_000
_log = logging.getLogger("refine.server")


_PARTS = {"requests": 1, "tokens": 1, "dollars": 10**9}
"""What has a budget of the day, and in how many parts of one it is counted."""
_LONGEST_WAIT_S, _SHORTEST_WAIT_S = 10.0, 0.25
"""Seconds that a request waits to be told what is left of a budget; the second where the record failed before."""
_AGAIN_S = 1.0
"""Seconds until the record is asked again, where nothing was left, or it could not be read."""


@dataclass(slots=True)
class _Account:
    """What a key may consume of one thing today.

    Args:
        limit: Its budget.
        allowed: What this process may have consumed before it asks what others left.
        spent: What this process has consumed.
        others: What others have consumed, or may.
        low: From which rest on it asks for more before anybody waits for it; 0 where little is left.
        asked_at: When it asked last.
    """

    limit: int
    allowed: int
    spent: int = 0
    others: int = 0
    low: int = 0
    asked_at: float = -math.inf

    @property
    def is_open(self) -> bool:
        """True if this process has used up what it may, and the record may say that there is more."""
        is_over = self.others + self.spent >= self.limit and time.monotonic() < self.asked_at + _AGAIN_S
        return self.spent >= self.allowed and not is_over


def _limits_of(key: ServerKey) -> dict[str, int]:
    limits = {what: getattr(key, f"{what}_per_day") for what in _PARTS}
    return {what: round(limit * _PARTS[what]) for what, limit in limits.items() if limit is not None}


class Budgets:
    """Counts what each key consumes, and refuses what would go beyond its budget of the day.

    A request that is let in is answered to its end, so that a budget may be exceeded by what is in flight.
    Processes that share a record each take a small share of what is left, and the next one when that is
    consumed: together they let in no more than one would.

    Args:
        keys: The keys with their budgets.
        clock: Seconds since the epoch, for tests.
    """

    def __init__(self, keys: Iterable[ServerKey], *, clock: Callable[[], float] = time.time) -> None:
        self._limits = {key.name: limits for key in keys if (limits := _limits_of(key))}
        self._clock = clock
        self._day = 0
        self._accounts: dict[str, dict[str, _Account]] = {}
        self._record: DatabaseRecord | None = None
        self._process = os.urandom(16).hex()
        self._is_closed = False
        self._failed_at: float | None = None
        self._wanted: set[str] = set()
        self._asking: asyncio.Task[None] | None = None

    def share(self, record: DatabaseRecord, *, is_closed: bool) -> None:
        """Share the budgets with other processes, and go on from what was consumed today already.

        Args:
            record: What those processes share.
            is_closed: Whether requests are refused where it cannot be read; else this process counts alone.
        """
        if self._limits:
            self._record, self._is_closed = record, is_closed
            try:
                record.begin_budgets(int(self._clock() // _DAY_S) * _DAY_MS)
            except Exception as error:  # noqa: BLE001 - whatever it is, the guard starts
                self._fail(error)

    def close(self) -> None:
        """Leave to others what this process has not consumed."""
        record, self._record = self._record, None
        nothing_more = {place: (0, spent, spent) for place, (_, spent, _) in _asked(self._accounts).items()}
        if record is not None and nothing_more and self._failed_at is None:
            with suppress(Exception):  # others then have a little less
                record.share_budgets(self._day * _DAY_MS, self._process, nothing_more)

    async def make_room(self, name: str) -> None:
        """Wait until it is known what others left of a key's budgets, where that decides."""
        if self._record is None or name not in self._limits:
            return
        accounts = self._of_today(name)
        try:
            async with asyncio.timeout(_LONGEST_WAIT_S if self._failed_at is None else _SHORTEST_WAIT_S):
                while not self._has_just_failed and any(account.is_open for account in accounts.values()):
                    self._ask(name)
                    if self._asking is not None:
                        await asyncio.shield(self._asking)
        except TimeoutError as error:
            self._fail(error)

    def enter(self, name: str) -> None:
        """Count a request of a key.

        Raises:
            ApiError: If its budget of the day is spent (429), where it says when the next day begins; or if nobody
                can say what is left (503), on a guard that is closed then.
        """
        if name not in self._limits:
            return
        accounts = self._of_today(name)
        for what, account in accounts.items():
            if account.spent >= account.allowed:
                self._look(what, account)
        if "requests" in accounts:
            accounts["requests"].spent += 1
        self._ask_early(name, accounts)

    def _look(self, what: str, account: _Account) -> None:
        """Refuse a request where what is known of a budget leaves no room for it."""
        used, limit = (number / _PARTS[what] for number in (account.others + account.spent, account.limit))
        if used >= limit:
            text = f"this key has used {used:g} of its {limit:g} {what} of the day, which ends at midnight UTC"
            left_s = _DAY_S - self._clock() % _DAY_S
            raise ApiError(429, text, code="budget_spent", retry_after_s=left_s)
        if self._is_closed:
            text = "the record, which has the budget of this key, cannot be read; try again"
            raise ApiError(503, text, code="budget_unknown", retry_after_s=_AGAIN_S)

    def give_back(self, name: str) -> None:
        """Count one request of a key less: it came in, but there was no room for what it sent."""
        if name in self._limits and (account := self._of_today(name).get("requests")) is not None:
            account.spent = max(0, account.spent - 1)

    def add(self, name: str, usage: Usage) -> None:
        """Count what a request of a key consumed."""
        if name in self._limits:
            accounts = self._of_today(name)
            for what, amount in (("tokens", usage.tokens), ("dollars", usage.cost or 0.0)):
                if what in accounts:
                    accounts[what].spent += round(amount * _PARTS[what])
            self._ask_early(name, accounts)

    def _of_today(self, name: str) -> dict[str, _Account]:
        day = int(self._clock() // _DAY_S)
        if day != self._day:
            self._day, self._accounts = day, {}
        accounts = self._accounts.get(name)
        if accounts is None:
            own = self._record is None
            accounts = {what: _Account(limit, limit if own else 0) for what, limit in self._limits[name].items()}
            self._accounts[name] = accounts
        return accounts

    def _ask_early(self, name: str, accounts: Mapping[str, _Account]) -> None:
        """Ask for more while nobody waits for it, and tell others at once what was consumed beyond a share."""
        if self._record is not None and any(one.spent + one.low > one.allowed for one in accounts.values()):
            self._ask(name)

    @property
    def _has_just_failed(self) -> bool:
        return self._failed_at is not None and time.monotonic() < self._failed_at + _AGAIN_S

    def _ask(self, name: str) -> None:
        """Have the next share of a key's budgets taken, unless the record failed a moment ago."""
        self._wanted.add(name)
        if not self._has_just_failed and (self._asking is None or self._asking.done()):
            self._asking = asyncio.get_running_loop().create_task(self._ask_record())

    async def _ask_record(self) -> None:
        if (record := self._record) is None:
            return
        accounts, self._wanted = {name: self._of_today(name) for name in self._wanted}, set()
        try:
            day = self._day * _DAY_MS
            shares = await asyncio.to_thread(record.share_budgets, day, self._process, _asked(accounts))
        except Exception as error:  # noqa: BLE001 - whatever it is, requests go on
            self._fail(error)
            return
        for (name, what), (allowed, others) in shares.items():
            account = accounts[name][what]
            account.allowed, account.others, account.asked_at = allowed, others, time.monotonic()
            account.low = (allowed - account.spent) // 2
        self._failed_at = None
        if self._wanted:
            self._asking = asyncio.get_running_loop().create_task(self._ask_record())

    def _fail(self, error: Exception) -> None:
        """Say once that nobody knows what others consume."""
        if self._failed_at is None:
            what = "refuses requests once its share is consumed" if self._is_closed else "goes by its own count"
            kind = str(error) if isinstance(error, ConfigurationError) else type(error).__name__
            _log.warning("the record cannot be read (%s): for budgets of keys this process %s", kind, what)
        self._failed_at = time.monotonic()


def _asked(accounts: Mapping[str, Mapping[str, _Account]]) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Return budgets, what was consumed of them and what may be until there is an answer, by key and thing."""
    return {
        (name, what): (account.limit, account.spent, max(account.spent, account.allowed))
        for name, of_key in accounts.items()
        for what, account in of_key.items()
    }


_REQUEST_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)


def request_headers(scope_headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return a request's headers by name; of a header that came twice, the last."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope_headers}


def request_id(headers: Mapping[str, str]) -> str:
    """Return the client's `x-request-id` if it is one to be repeated in logs, or else a new one."""
    sent = headers.get("x-request-id", "")
    return sent if _REQUEST_ID.fullmatch(sent) else os.urandom(16).hex()


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
        repeated: A header that came twice, and says who asks or what answers; empty where there is none.
        peer: The address that it came from.
    """

    headers: dict[str, str] = field(repr=False)
    id: str
    repeated: str = ""
    peer: str = ""

    @classmethod
    def of(cls, scope: Scope) -> Incoming:
        """Read the headers of a request."""
        sent = scope["headers"]
        headers = request_headers(sent)
        repeated = _repeated(name.decode("latin-1") for name, _ in sent) if len(headers) < len(sent) else ""
        return cls(headers, request_id(headers), repeated, (scope.get("client") or ("",))[0])

    @property
    def is_local(self) -> bool:
        """True if it comes from this machine, and not through a proxy that says so."""
        return _is_loopback(self.peer) and HANDED_ON.isdisjoint(self.headers)

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


_SINGLE = frozenset({"host", _KEY_HEADER, GUARD_HEADER, *_AUTHENTICATING})
"""Headers that say who asks and what answers: of two that differ, a proxy in front may have checked the other."""


def _repeated(names: Iterable[str]) -> str:
    """Return a header that is there twice and must be there once; empty where none is."""
    return next((name for name, times in Counter(names).items() if times > 1 and name in _SINGLE), "")


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


def _is_loopback(address: str) -> bool:
    return _is_address(address) and ipaddress.ip_address(address).is_loopback


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


@dataclass(slots=True)
class Caller:
    """Who asks.

    Args:
        name: Name of the key; empty where no key is wanted.
        guards: Names of the guards the key is for; None for all.
        credentials: Headers with the caller's own key for the upstream.
        may_label: Whether the key may label answers.
    """

    name: str
    guards: Collection[str] | None
    credentials: Mapping[str, str] = field(repr=False)
    may_label: bool = False


_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_LONGEST_ID = 200


@dataclass(slots=True, frozen=True, kw_only=True)
class Requester:
    """Who asks, and in which conversation: the key as the server knows it, the rest as the caller says.

    Args:
        key: Name of the caller's key; empty where no key is wanted.
        user: Whom the caller asks for.
        session: Id of the session.
        thread: Id of the conversation.
    """

    key: str = ""
    user: str = ""
    session: str = ""
    thread: str = ""

    @classmethod
    def of(cls, caller: Caller, headers: Mapping[str, str], body: Mapping[str, Any]) -> Self:
        """Read who asks, from where clients of the APIs and of gateways say so."""
        metadata = body.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        users = body.get("safety_identifier"), body.get("user"), metadata.get("user_id"), headers.get("x-user-id")
        sessions = headers.get("x-session-id"), metadata.get("session_id")
        threads = headers.get("x-thread-id"), metadata.get("thread_id"), metadata.get("conversation_id")
        return cls(key=caller.name, user=_first_id(users), session=_first_id(sessions), thread=_first_id(threads))


def _first_id(candidates: Iterable[object]) -> str:
    """Return the first id, on one line and not long; empty where there is none."""
    for one in candidates:
        if isinstance(one, str) and one.strip():
            return _UNPRINTABLE.sub("", one)[:_LONGEST_ID].strip()
    return ""


class Keys:
    """The keys that are let in; without any, everybody is.

    Args:
        keys: The keys.
        allowed_hosts: Patterns of further names under which a server without keys answers; see `_check_host`.
    """

    def __init__(self, keys: Sequence[ServerKey], *, allowed_hosts: Sequence[str]) -> None:
        self._keys = tuple((key, key.sha256.encode()) for key in keys)
        self._allowed_hosts = tuple(allowed_hosts)
        self._guesses = GuessLimit()

    def __bool__(self) -> bool:
        return bool(self._keys)

    def caller(self, incoming: Incoming) -> Caller:
        """Return who asks: by the header `x-refine-key`, or else by the API key sent.

        Raises:
            ApiError: If a key is wanted and none of the known ones came; or if none is wanted, and a page of
                another site asks, in the browser of somebody who reaches this server; or if a header says two
                things.
        """
        if incoming.repeated:
            text = f"the header {incoming.repeated} is there twice; send it once"
            raise ApiError(400, text, code="repeated_header")
        if not self._keys:
            _check_host(incoming.headers.get("host"), self._allowed_hosts)
            _refuse_other_sites(incoming)
            return Caller(_ANYONE, None, incoming.credentials)
        own = incoming.headers.get(_KEY_HEADER)
        keys = incoming.keys if own is None else [own]
        wait_s = max((self._guesses.wait_s(incoming.peer, text) for text in keys), default=0.0)
        if wait_s:
            text = "too many wrong keys came from your address; wait a while"
            raise ApiError(429, text, code="too_many_guesses", retry_after_s=wait_s)
        key = next((known for known in map(self._known, keys) if known is not None), None)
        for text in keys:
            self._guesses.settle(incoming.peer, text, is_right=key is not None)
        if key is None:
            remedy = f"send it as `Authorization: Bearer ...` or as `{_KEY_HEADER}`"
            raise ApiError(401, f"this server wants a key of its own; {remedy}", code="invalid_api_key")
        return Caller(key.name, key.guards, {} if own is None else incoming.credentials, may_label=key.labels)

    def _known(self, text: str) -> ServerKey | None:
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


def describe_new_key(name: str) -> tuple[str, str]:
    """Return a new key in a line for a person, and the lines of TOML that let it in.

    Raises:
        ConfigurationError: If the name cannot be used.
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"a key's name is 1 to 64 letters, digits, '.', '_' or '-', not {shortened(name)}"
        )
    key = f"{_PREFIX}{secrets.token_urlsafe(_BYTES)}"
    table = f'[[keys]]\nname = "{name}"\nsha256 = "{digest_of(key)}"'
    return f"{key}\nKeep it: it is shown this once. Add to the configuration:", table


def digest_of(key: str) -> str:
    """Return the hash of a key as the configuration holds it."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
