"""`python -m MODULE ...` in a process forked from one that has loaded the libraries already: it starts at once.

Where what is loaded, or how the interpreter is started, is what is tested, `subprocess` is used instead.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryFile
from typing import IO, Any, Literal

PATIENCE_S = 60.0
"""When a process that should have ended is given up."""

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "refine.cli.app",
        "refine.mcp_server",
        "refine.record",
        "refine.selfrefine",
        "refine.server.service",
        "judges.catalogue.registry",
        "judges.offline.trust.rows",
        "judges.testing",
        "numpy",
        "uvicorn",
    ]
)


def start(
    module: str, *words: object, streams: tuple[int, int, int], folder: Path, **environment: str | None
) -> ForkServerProcess:
    """Run a module as a program, and return its process.

    Args:
        module: Its name.
        words: The arguments.
        streams: Files that it reads from, and writes output and errors to.
        folder: Where it runs.
        environment: What it finds in its environment beside what is in ours; None takes a variable away.
    """
    changed = {**os.environ, **environment}
    kept = {name: value for name, value in changed.items() if value is not None}
    given = [Connection(os.dup(one)) for one in streams]
    process = _FORKS.Process(target=_become, args=(module, list(map(str, words)), given, folder, kept))
    process.start()
    for one in given:
        one.close()
    return process


def run(
    module: str, *words: object, folder: Path, typed: str = "", **environment: str | None
) -> CompletedProcess[str]:
    """Run a module as a program to its end, and return what it wrote."""
    with TemporaryFile() as read, TemporaryFile() as out, TemporaryFile() as err:
        read.write(typed.encode())
        files = (read, out, err)
        for file in files:
            file.seek(0)
        streams: Any = tuple(file.fileno() for file in files)
        process = start(module, *words, streams=streams, folder=folder, **environment)
        code = end_of(process)
        texts = [(file.seek(0), file.read().decode())[1] for file in files[1:]]
    return CompletedProcess([module, *map(str, words)], code, *texts)


@contextmanager
def listening(
    stream: Literal["stdout", "stderr"], module: str, *words: object, folder: Path, **environment: str | None
) -> Iterator[tuple[ForkServerProcess, IO[str]]]:
    """Run a module as a program while the block runs; yield its process, and what it writes to a stream."""
    ours, theirs = os.pipe()
    with Path(os.devnull).open("r+b") as nothing, os.fdopen(ours, encoding="utf-8") as written:
        silent = nothing.fileno()
        streams = (silent, theirs, silent) if stream == "stdout" else (silent, silent, theirs)
        process = start(module, *words, streams=streams, folder=folder, **environment)
        os.close(theirs)
        try:
            yield process, written
        finally:
            process.kill()
            process.join()


def tell(process: ForkServerProcess, number: signal.Signals) -> None:
    """Send a signal."""
    assert process.pid is not None
    os.kill(process.pid, number)


def end_of(process: ForkServerProcess) -> int:
    """Wait until a process has ended, and return its exit code."""
    process.join(PATIENCE_S)
    if process.exitcode is None:
        process.kill()
    assert process.exitcode is not None, "it did not end"
    return process.exitcode


def _become(
    module: str, words: list[str], streams: list[Connection], folder: Path, environment: Mapping[str, str]
) -> None:
    """Be the program, from its arguments to what it does at its end."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has tests in the background ignore it
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False, buffering=1 if os.isatty(1) else -1)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = [module, *words]
    sys.path[:0] = [str(folder), *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()
