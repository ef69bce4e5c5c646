"""Judging a run in several processes of this machine, each with its part of the rows and of the limits."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import pickle
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

from judges.errors import BadSample, ConfigurationError
from judges.judge import Judge
from judges.offline.run import outputs
from judges.offline.run.calls import RunStopped
from judges.offline.run.cells import RunWork, judge_missing, warn_of_unreadable
from judges.offline.run.journal import NAME as JOURNAL
from judges.offline.run.journal import Journal, check_unlocked, locked, make_folder, replacing
from judges.offline.run.manifest import Manifest
from judges.offline.run.settings import OnProgress, Progress, RunSettings
from judges.offline.run.source import SPOOL, RunRows, read_again, row_json
from judges.runtime.validation import ban, check_picklable, no_model_requests
from judges.sample import Sample

_FOLDER = "parts"
_NAME = re.compile(r"(\d+)-of-(\d+)")
_ENDING_S = 10.0
"""How long the processes of a run that was killed may take to notice that, and to end."""


def _dealt_rows(folder: Path) -> Iterator[tuple[int, Sample | BadSample]]:
    """Yield the rows of a part."""
    with (folder / SPOOL).open("rb") as file:
        for line in file:
            record = json.loads(line)
            yield record["row"], read_again(record["sample"])


def _deal(rows: RunRows, folder: Path, number: int, *, retry_failed: bool) -> list[tuple[Path, int]]:
    """Write the rows of a run to the folders of its parts, each with what the journal has of them; return these.

    Args:
        rows: The rows.
        folder: Folder of the run; there are no parts in it.
        number: How many parts there will be.
        retry_failed: Whether cells whose judging failed are left out.

    Returns:
        The folder of each part, with how many rows it has.
    """
    folders = [folder / _FOLDER / f"{part}-of-{number}" for part in range(number)]
    for part in (folder / _FOLDER, *folders):
        make_folder(part)
    sizes = [0] * number
    with ExitStack() as files:
        spools = [files.enter_context(replacing(part / SPOOL)) for part in folders]
        for row, sample in rows:
            turn = row // rows.step % number
            spools[turn].write(b'{"row":%d,"sample":%s}\n' % (row, row_json(sample)))
            sizes[turn] += 1
    with closing(Journal(folder)) as journal, ExitStack() as files:
        copies = [files.enter_context(replacing(part / JOURNAL)) for part in folders]
        for row, line in journal.lines(Manifest.read(folder).by_name, without_failed=retry_failed):
            copies[row // rows.step % number].write(line)
    return list(zip(folders, sizes, strict=True))


def gather(folder: Path, step: int) -> None:
    """Write what the parts of a run have judged to its journal, and remove them; without parts do nothing.

    Raises:
        ConfigurationError: If a process still works on a part.
    """
    if not (folder / _FOLDER).is_dir():
        return
    parts = sorted((folder / _FOLDER).iterdir())
    _wait_until_unlocked(parts)
    with ExitStack() as held:
        journals = {
            (int(name[1]), int(name[2])): held.enter_context(closing(Journal(part)))
            for part in parts
            if (name := _NAME.fullmatch(part.name)) and (part / JOURNAL).exists()
        }
        whole = held.enter_context(closing(Journal(folder)))
        file = held.enter_context(replacing(folder / JOURNAL))
        for row, line in whole.lines(Manifest.read(folder).by_name, without_failed=False):
            if not any(row // step % number == part for part, number in journals):
                file.write(line)
        for journal in journals.values():
            file.writelines(line for _, line in journal.lines(Manifest.read(folder).by_name, without_failed=False))
    _remove(parts)
    (folder / _FOLDER).rmdir()


def _remove(parts: Iterable[Path]) -> None:
    for part in parts:
        for path in part.iterdir():
            path.unlink()
        part.rmdir()


def _wait_until_unlocked(parts: Iterable[Path]) -> None:
    """Wait for processes that outlive their run by a moment."""
    until = time.monotonic() + _ENDING_S
    for part in parts:
        while True:
            try:
                check_unlocked(part)
                break
            except ConfigurationError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)


@dataclass(frozen=True, kw_only=True)
class _RunPart:
    """What one process judges.

    Args:
        folder: Folder with its rows and its journal.
        size: How many rows there are.
        load: Makes the judges.
        work: Its share of the limits; without judges.
        forbids_requests: Whether requests to real models are forbidden.
    """

    folder: Path
    size: int
    load: Callable[[], Mapping[str, Judge]]
    work: RunWork
    forbids_requests: bool


@dataclass(frozen=True)
class _Ended:
    """The last message of a worker.

    Args:
        error: Why it did not judge all; None if it did.
    """

    error: Exception | None = None


def _work(part: _RunPart, connection: Connection) -> None:
    """Judge a part; sends `Progress` and in the end `_Ended`.

    The process ends with the one that started it, however that ends, so that nobody pays for calls of a run that
    is over.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal interrupts the starter, too, which ends this process
    threading.Thread(target=_end_with_starter, args=(connection,), daemon=True).start()
    try:
        with no_model_requests() if part.forbids_requests else nullcontext(), locked(part.folder):
            _judge_part(part, connection.send)
        ending = _Ended()
    except Exception as error:  # noqa: BLE001 - reported by the process that started this one
        ending = _Ended(_portable(error))
    with suppress(OSError):
        connection.send(ending)


def _judge_part(part: _RunPart, send: Callable[[Progress], None]) -> None:
    with closing(Journal(part.folder)) as journal:
        warn_of_unreadable(journal)
        work = replace(part.work, judges=part.load()).evolve(on_progress=send)
        asyncio.run(judge_missing(_dealt_rows(part.folder), work, journal, size=part.size))


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


async def judge_in_processes(
    source: RunRows, work: RunWork, folder: Path, load: Callable[[], Mapping[str, Judge]] | None
) -> None:
    """Judge what is missing in a run's journal.

    Args:
        source: The rows of the run.
        work: How they are judged; its limits are divided between the processes.
        folder: The folder of the run, whose lock is held.
        load: Makes the judges in each process; None sends them there.

    Raises:
        ConfigurationError: If judges or limits cannot be divided, or a process failed.
        RunStopped: If processes reached a limit.
    """
    number = work.settings.processes
    if load is None:
        for name, judge in work.judges.items():
            check_picklable(judge, f"the judge {name!r}", "leave processes=... out, or define it in a module")
        load = partial(dict, work.judges)
    shares = [replace(work.part(part, number), judges={}) for part in range(number)]
    outputs.remove_results(folder)
    try:
        dealt = _deal(source, folder, number, retry_failed=work.settings.retry_failed)
        parts = [
            _RunPart(folder=part, size=size, load=load, work=share, forbids_requests=ban.depth > 0)
            for (part, size), share in zip(dealt, shares, strict=True)
            if size
        ]
        await _judge(parts, work.settings)
    finally:
        gather(folder, source.step)


async def _judge(parts: Sequence[_RunPart], settings: RunSettings) -> None:
    workers: list[_Worker] = []
    try:
        workers += [_Worker.started(part, f"{number} of {len(parts)}") for number, part in enumerate(parts, 1)]
        await asyncio.to_thread(_watch, workers, settings.on_progress)
    finally:
        for worker in workers:
            worker.process.kill()  # what was judged is in its journal
        for worker in workers:
            worker.process.join()
            worker.connection.close()
    if any(isinstance(worker.error, RunStopped) for worker in workers):
        total = _sum([worker.progress for worker in workers])
        limits = {"--max-calls": settings.max_calls, "--max-cost": settings.max_cost}
        names = " and ".join(f"{name} {limit:g}" for name, limit in limits.items() if limit is not None)
        raise RunStopped(
            f"stopped after {total.calls} calls: a process used up its part of {names}, which is divided by "
            f"{len(parts)}"
        )


@dataclass
class _Worker:
    """A process, and what it has sent."""

    label: str
    process: SpawnProcess
    connection: Connection
    progress: Progress = Progress()
    error: Exception | None = None
    has_ended: bool = False

    @classmethod
    def started(cls, part: _RunPart, label: str) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(part, theirs), name=f"judges-{label}", daemon=True)
        process.start()
        theirs.close()
        return cls(label, process, ours)

    def receive(self) -> None:
        """Take the next message, or note that the process has ended without one."""
        try:
            message = self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            self.error, self.has_ended = self._death(), True
            return
        if isinstance(message, _Ended):
            self.error, self.has_ended = message.error, True
        else:
            self.progress = message

    def _death(self) -> ConfigurationError:
        code = self.process.exitcode or 0
        by = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        hint = "" if code < 0 else "; a script calls evaluate under `if __name__ == '__main__':`, in a file"
        return ConfigurationError(f"process {self.label} of the run was {by}{hint}")


def _watch(workers: Sequence[_Worker], on_progress: OnProgress | None) -> None:
    """Wait until all have ended, or one has failed; a limit that one has reached does not end the others."""
    while working := [worker for worker in workers if not worker.has_ended]:
        by_connection = {worker.connection: worker for worker in working}
        for connection in wait(list(by_connection)):
            worker = by_connection[connection]  # type: ignore[index]  # only connections are waited for
            worker.receive()
            if worker.error is not None and not isinstance(worker.error, RunStopped):
                raise worker.error
        if on_progress is not None:
            on_progress(_sum([worker.progress for worker in workers]))


def _sum(parts: Iterable[Progress]) -> Progress:
    """Return the progress of all parts together."""
    parts = list(parts)
    totals = [part.total for part in parts if part.total is not None]
    costs = [part.cost for part in parts if part.cost is not None]
    seconds_left = [part.seconds_left for part in parts if part.seconds_left is not None]
    return Progress(
        done=sum(part.done for part in parts),
        total=sum(totals) if len(totals) == len(parts) else None,
        unscored=sum(part.unscored for part in parts),
        in_flight=sum(part.in_flight for part in parts),
        calls=sum(part.calls for part in parts),
        cost=sum(costs) if len(costs) == len(parts) else None,
        seconds=max((part.seconds for part in parts), default=0.0),
        seconds_left=max(seconds_left) if len(seconds_left) == len(parts) else None,
    )
