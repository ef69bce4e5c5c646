"""A process that judges one part of a run, and tells the process that started it how far it is."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from judges.errors import ConfigurationError
from judges.judge import Judge
from judges.offline.run.cells import JournalOnly
from judges.offline.run.journal import Journal
from judges.offline.run.judging import judge_missing, warn_of_unreadable
from judges.offline.run.lock import locked
from judges.offline.run.parts import DealtRows
from judges.offline.run.progress import Progress
from judges.offline.run.settings import RunSettings
from judges.runtime.no_requests import no_model_requests


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one process judges.

    Args:
        rows: Its rows.
        load: Makes the judges.
        settings: Its share of the limits; the folder is that of the part.
        max_concurrency: Its model calls at once.
        log_texts: Whether the log of a judge's own errors holds what they say.
        forbids_requests: Whether requests to real models are forbidden.
    """

    rows: DealtRows
    load: Callable[[], Mapping[str, Judge]]
    settings: RunSettings
    max_concurrency: int
    log_texts: bool
    forbids_requests: bool


@dataclass(frozen=True)
class Ended:
    """The last message of a worker.

    Args:
        error: Why it did not judge all; None if it did.
    """

    error: Exception | None = None


def work(part: Part, connection: Connection) -> None:
    """Judge a part; sends `Progress` and in the end `Ended`.

    The process ends with the one that started it, however that ends, so that nobody pays for calls of a run that
    is over.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal interrupts the starter, too, which ends this process
    threading.Thread(target=_end_with_starter, args=(connection,), daemon=True).start()
    try:
        with no_model_requests() if part.forbids_requests else nullcontext(), locked(Path(part.settings.folder)):
            _judge(part, connection.send)
        ending = Ended()
    except Exception as error:  # noqa: BLE001 - reported by the process that started this one
        ending = Ended(_portable(error))
    with suppress(OSError):
        connection.send(ending)


def _judge(part: Part, send: Callable[[Progress], None]) -> None:
    journal = Journal(Path(part.settings.folder))
    try:
        warn_of_unreadable(journal)
        judging = judge_missing(
            part.rows,
            part.load(),
            part.settings.watched(send),
            JournalOnly(journal),
            max_concurrency=part.max_concurrency,
            log_texts=part.log_texts,
        )
        asyncio.run(judging)
    finally:
        journal.close()


def _end_with_starter(connection: Connection) -> None:
    with suppress(EOFError, OSError):
        connection.recv()
    os._exit(1)


def _portable(error: Exception) -> Exception:
    """Return an error that can be sent to another process."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own, just made
    except Exception:  # noqa: BLE001 - any error of a user's code
        return ConfigurationError(f"a process of the run failed with {type(error).__name__}")
    return error
