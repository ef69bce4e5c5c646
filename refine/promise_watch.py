"""The promise of a certificate in a running loop: labels in the record decide under which policy it goes on."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from graphs import Loop
from judges import ConfigurationError
from judges.promise import Standing
from judges.runtime.faults import logging_safely

if TYPE_CHECKING:
    from refine.record import DatabaseRecord

_EVERY_S = 10.0
"""Seconds after which labels that came in elsewhere are seen at the latest."""

_log = logging.getLogger("refine")


class PromiseWatch:
    """Lets a loop go on under the policy that follows from where the promise of its certificate stands.

    A thread of its own looks into the record, so that no question waits for the database. The thread ends with the
    watch; a process that was forked starts its own.

    Args:
        record: The record in which labels arrive.
        loop: The loop.
        every_s: Seconds between two looks.
    """

    def __init__(self, record: DatabaseRecord, loop: Loop, *, every_s: float = _EVERY_S) -> None:
        self._record, self._loop, self._every_s = record, loop, every_s
        self._policy = loop.policy
        self._ended = threading.Event()
        self._process: int | None = None
        self._looking = threading.Lock()
        self._is_lost = False
        self.standing: Standing | None = None
        weakref.finalize(self, self._ended.set)

    def start(self) -> None:
        """Begin to look, if this process does not do so yet."""
        if self._process == os.getpid():
            return
        self._process, self._looking = os.getpid(), threading.Lock()  # a fork may have come in the midst of a look
        arguments = (weakref.WeakMethod(self.look), self._ended, self._every_s)
        threading.Thread(target=_look_again, args=arguments, name="refine promise", daemon=True).start()

    def look(self) -> Standing | None:
        """Look into the record now, and let the loop follow; return None where the record cannot be read."""
        with self._looking:
            try:
                standing = self.read()
            except Exception as error:  # noqa: BLE001 - a database may fail in any way; the loop stays as it is
                self._report_lost(error)
                return None
            self._is_lost = False
            return standing

    def read(self) -> Standing:
        """Read the record, and let the loop follow.

        Raises:
            ConfigurationError: If the database cannot be used.
        """
        assert self._policy.certificate is not None  # noqa: S101 - nothing else is watched
        before = self.standing
        standing = self.standing = self._record.standing(self._policy.certificate, self._policy.on_alarm)
        self._loop.follow(standing)
        if standing.moves and (before is None or before.threshold != standing.threshold):
            with logging_safely():
                _log.warning("%s: %s (on_alarm=%s)", self._loop.name, standing, self._policy.on_alarm)
        return standing

    def close(self) -> None:
        """Look no more."""
        self._ended.set()

    def _report_lost(self, error: Exception) -> None:
        if not self._is_lost:
            self._is_lost = True
            with logging_safely():
                _log.warning(
                    "labels of released answers cannot be read now (%s); the promise stands as it was",
                    type(error).__name__,
                )


def _look_again(look: weakref.WeakMethod[Callable[[], object]], ended: threading.Event, every_s: float) -> None:
    while not ended.is_set():
        method = look()
        if method is None:
            return
        method()
        del method
        ended.wait(every_s)


def watch_promise(record: object, loop: Loop) -> PromiseWatch | None:
    """Return a watch over the promise of a loop's certificate; None where nothing can break it, or be labelled.

    Where something is to follow from an alarm, the record is read at once: what another process saw holds here
    from the first question on.

    Raises:
        ConfigurationError: If something is to follow from an alarm, and no database is there for labels.
    """
    policy = loop.policy
    if policy.certificate is None:
        return None
    if not hasattr(record, "standing"):
        if policy.on_alarm != "log":
            raise ConfigurationError(
                f"on_alarm={policy.on_alarm!r} needs a record in a database, in which labels arrive, for instance "
                f"record='sqlite:///record.db'"
            )
        return None
    if not policy.certificate.promises_share:
        return None
    watch = PromiseWatch(cast("DatabaseRecord", record), loop)
    if policy.on_alarm != "log":
        watch.read()
    watch.start()
    return watch
