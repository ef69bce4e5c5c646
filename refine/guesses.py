"""Guesses of keys: how many wrong ones are taken from one place before it has to wait."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

_MOST_PLACES = 10_000
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
            _put(self._known, _digest(key), None, _MOST_KNOWN)
            return
        wrong = self._wrong.get(place) or deque(maxlen=self._most)
        wrong.append(self._clock())
        _put(self._wrong, place, wrong, _MOST_PLACES)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _put(entries: OrderedDict[Any, Any], name: object, value: object, most: int) -> None:
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
