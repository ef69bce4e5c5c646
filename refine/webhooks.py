"""Signed webhooks: what somebody should hear of is posted to an address of theirs, and never holds up an answer.

Signed as Standard Webhooks says, so that any of its libraries verifies them: the headers `webhook-id`,
`webhook-timestamp` and `webhook-signature`, with HMAC-SHA256 over id, time and body. One thread sends, in order;
what does not fit into its queue, or cannot be delivered, is dropped, and said in the log and in `counts`.
"""

from __future__ import annotations

import atexit
import base64
import binascii
import hashlib
import hmac
import json
import logging
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Any, Literal
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener
from uuid import uuid4

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, stop_when_event_set
from tenacity import wait_exponential_jitter as jittered
from tenacity.nap import sleep_using_event

from graphs import Outcome
from judges.errors import ConfigurationError
from judges.runtime.faults import logging_safely
from judges.runtime.validation import naming_settings
from refine.record import Recorder, open_record
from refine.record.rows import Origin

Result = Literal["delivered", "failed", "dropped"]
"""What became of an event: dropped before it was sent, or failed when its last try did."""

_log = logging.getLogger("refine")
_PREFIX = "whsec_"
_SHORTEST = 24
"""Fewest bytes of a secret."""
_LONGEST = 64
"""Most bytes of a secret."""
_RETRIED = (408, 425, 429)
_SERVER_ERROR = 500
_CLOSING_S = 5.0


def _key_of(secret: str) -> bytes:
    """Return the key in a secret of Standard Webhooks: `whsec_` and 24 to 64 bytes in base64.

    Raises:
        ConfigurationError: If it is none; nothing of it is quoted.
    """
    try:
        key = base64.b64decode(str(secret).removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not _SHORTEST <= len(key) <= _LONGEST:
        raise ConfigurationError(
            f"the secret of a webhook is {_PREFIX} and {_SHORTEST} to {_LONGEST} bytes in base64, for instance "
            f"{_PREFIX}$(openssl rand -base64 32)"
        )
    return key


def _host_of(url: str) -> tuple[str, bool]:
    """Return the host of an address, and whether what is sent there is encrypted.

    Raises:
        ConfigurationError: If it is none; nothing of it is quoted.
    """
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and parts.port != 0 and not set(" @") & set(parts.netloc)
    except ValueError:  # brackets without an end, or a port that is none
        is_address = False
    if not is_address or not parts.hostname:
        raise ConfigurationError(
            "the url of a webhook begins with https://, or http:// in a network of one's own, and has a host "
            "without user and password, and a number as its port if any"
        )
    return parts.hostname, parts.scheme == "https"


def _sign(key: bytes, identifier: str, timestamp: int, body: bytes) -> str:
    """Return the signature of an event, as it stands in the header `webhook-signature`."""
    digest = hmac.digest(key, b"%s.%d.%s" % (identifier.encode(), timestamp, body), hashlib.sha256)
    return f"v1,{base64.b64encode(digest).decode()}"


@dataclass(frozen=True, slots=True)
class _Event:
    kind: str
    data: Mapping[str, Any] = field(repr=False)
    id: str = field(default_factory=lambda: f"msg_{uuid4().hex}")
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def body(self) -> bytes:
        timestamp = self.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return json.dumps({"type": self.kind, "timestamp": timestamp, "data": self.data}).encode()


class _NoRedirect(HTTPRedirectHandler):
    """Follows no redirect, behind which another would read what is sent."""

    def redirect_request(self, *_: Any) -> None:
        """Return nothing, so that the redirect is the answer."""


class Webhook:
    """An address to which events are posted; also a record that sends one for each turn that waits for a person.

    Args:
        url: The address.
        secret: The secret that sender and receiver share, `whsec_...`.
        record: Where outcomes given to `add` are recorded, too, as for `SelfRefine`; None keeps none.
        most_waiting: Most events that wait to be sent; what comes beyond them is dropped.
        tries: How often an event is sent at most, with growing pauses of up to a minute.
        timeout_s: Seconds until the address has answered.
        pause_s: Seconds before the first repeat.

    Raises:
        ConfigurationError: If the address or the secret is none.
    """

    blocks = False
    _waiting: deque[_Event]
    _change: threading.Condition
    _thread: threading.Thread | None

    @naming_settings("refine.Webhook(url, secret), for instance Webhook('https://hooks.example/x', 'whsec_...')")
    def __init__(
        self,
        url: str,
        secret: str,
        *,
        record: object = None,
        most_waiting: int = 1_000,
        tries: int = 6,
        timeout_s: float = 10.0,
        pause_s: float = 1.0,
    ) -> None:
        self.host, self.is_encrypted = _host_of(str(url))
        self.counts: Counter[tuple[str, Result]] = Counter()
        self._url, self._key, self._timeout_s, self._most = url, _key_of(secret), timeout_s, most_waiting
        self._record: Recorder | None = None if record is None else open_record(record)
        self._opener = build_opener(_NoRedirect)
        self._closing, self._stopped = False, threading.Event()
        self._start_queue()
        self._retrying = Retrying(
            stop=stop_after_attempt(tries) | stop_when_event_set(self._stopped),
            wait=jittered(multiplier=pause_s, max=60.0),
            retry=retry_if_exception(_is_worth_a_repeat),
            sleep=sleep_using_event(self._stopped),
            before_sleep=self._say_repeat,
            reraise=True,
        )

    def send(self, kind: str, data: Mapping[str, Any]) -> bool:
        """Queue an event, and return whether there was room; never waits, and never raises.

        Args:
            kind: What happened, as in `answer.withheld`.
            data: What is known of it: plain data, without judged text.
        """
        self._leave_to_parent()
        with self._change:
            has_room = len(self._waiting) < self._most and not self._closing
            if has_room:
                self._waiting.append(_Event(kind, data))
                self._change.notify()
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="refine webhook", daemon=True)
                    self._thread.start()
                    atexit.register(self.close)
        if not has_room:
            self._count(kind, "dropped", f"{self._most:,} events wait already")
        return has_room

    def add(self, outcome: Outcome, origin: Origin = Origin(), /) -> None:  # noqa: B008 - immutable
        """Send an event where the outcome waits for a person, and record it where there is a record."""
        if outcome.stop_reason == "interrupted":
            self.send("review.waiting", outcome_data(outcome, origin.refiner or "", thread=origin.thread))
        if self._record is not None:
            self._record.add(outcome, origin)

    def close(self, wait_s: float = _CLOSING_S) -> None:
        """Send what waits, for so many seconds at most; the rest is dropped."""
        atexit.unregister(self.close)
        self._leave_to_parent()
        with self._change:
            self._closing = True
            self._change.notify()
        if self._thread is not None:
            self._thread.join(wait_s)
        self._stopped.set()
        with self._change:
            left, self._waiting = list(self._waiting), deque()
        for event in left:
            self._count(event.kind, "dropped", "the process ended")

    def post(self, kind: str, data: Mapping[str, Any]) -> None:
        """Send an event now, once.

        Raises:
            ConfigurationError: If it was not taken.
        """
        try:
            self._post(_Event(kind, data))
        except (OSError, HTTPException) as error:
            raise ConfigurationError(f"{self.host} does not take it: {_reason(error)}") from None

    def _start_queue(self) -> None:
        self._waiting, self._change, self._thread = deque(), threading.Condition(), None
        self._process = os.getpid()

    def _leave_to_parent(self) -> None:
        """Begin a queue of one's own after a fork: what waited is the parent's to send, and so is its thread."""
        if self._process != os.getpid():
            self._start_queue()

    def _run(self) -> None:
        while (event := self._next()) is not None:
            try:
                self._retrying(self._post, event)
            except Exception as error:  # noqa: BLE001 - the next event is sent all the same
                self._count(event.kind, "failed", _reason(error))
            else:
                self._count(event.kind, "delivered")

    def _next(self) -> _Event | None:
        with self._change:
            self._change.wait_for(lambda: self._waiting or self._closing)
            return self._waiting.popleft() if self._waiting and not self._stopped.is_set() else None

    def _post(self, event: _Event) -> None:
        body, timestamp = event.body(), int(time.time())
        headers = {
            "content-type": "application/json",
            "user-agent": "selfrefine",
            "webhook-id": event.id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": _sign(self._key, event.id, timestamp, body),
        }
        request = Request(self._url, body, headers, method="POST")  # noqa: S310 - the scheme was checked
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                response.read(1)
        except HTTPError as error:
            error.close()
            raise

    def _say_repeat(self, state: RetryCallState) -> None:
        if state.attempt_number == 1 and state.outcome is not None:
            with logging_safely():
                reason = _reason(state.outcome.exception())
                _log.warning("a webhook to %s failed (%s); it is sent again", self.host, reason)

    def _count(self, kind: str, result: Result, reason: str = "") -> None:
        with self._change:
            self.counts[kind, result] += 1
        if result != "delivered":
            with logging_safely():
                _log.error("a webhook to %s was lost: %s %s (%s)", self.host, kind, result, reason)


def _is_worth_a_repeat(error: BaseException) -> bool:
    """Check whether the same event may be taken later: not where the receiver said what is wrong with it."""
    if isinstance(error, HTTPError):
        return error.code in _RETRIED or error.code >= _SERVER_ERROR
    return isinstance(error, OSError | HTTPException)


def _reason(error: BaseException | None) -> str:
    """Return why an event was not taken, without the address, whose path may be a secret."""
    return f"status {error.code}" if isinstance(error, HTTPError) else type(error).__name__


def outcome_data(outcome: Outcome, guard: str, **fields: object) -> dict[str, Any]:
    """Return what an event says of an outcome: its id and figures, no text; empty fields are left out."""
    data = {
        "guard": guard,
        "outcome_id": outcome.id,
        "stop_reason": outcome.stop_reason,
        "rating": None if outcome.best is None else outcome.best.rating,
        "attempts": len(outcome.attempts),
        **fields,
    }
    return {name: value for name, value in data.items() if value not in (None, "")}
