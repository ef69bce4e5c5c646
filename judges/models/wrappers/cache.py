"""Caching replies in a SQLite file, for any number of threads and processes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import re
import sqlite3
import threading
import time
import weakref
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from judges.errors import ConfigurationError
from judges.model import JudgeModel, ModelRequest, ModelResponse
from judges.models.identity import identity_of, unread_settings
from judges.models.prompt_and_reply import Unreadable, dialect_of
from judges.models.resolve import as_model
from judges.models.wrappers.wrapped import Wrapped
from judges.runtime.faults import logging_safely, outcome_label
from judges.runtime.observation import current
from judges.runtime.validation import SharedByCopies
from judges.verdict import Usage

_FORMAT = 1
"""Version of the file format; a file of another version is refused."""

_APPLICATION = 0x6A647265
"""Written into the file's header, so that no other program's database is ever written to."""
_BUSY_TIMEOUT_S = 30.0
"""Seconds a process waits for another one that is writing."""
_creation_lock = threading.Lock()
_log = logging.getLogger("judges")


class Cache(SharedByCopies):
    """A file that keeps models' replies, for `cached`.

    It holds replies as JSON, and of the requests only a digest. Whoever can write to the file can decide verdicts;
    a new file is readable and writable only by its owner. It needs a local disk, since a write-ahead log does not
    work over a network, and it grows until it is cleared.

    Args:
        path: The file; it is created if missing.

    Raises:
        ConfigurationError: If the file cannot be opened, is no cache, or is damaged. Each method raises it too,
            if the damage shows later, or the cache was closed.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        self._writer = _Connection(self.path)
        self._reader = _Connection(self.path)
        self._end = weakref.finalize(self, _close, self._writer, self._reader)

    def __reduce__(self) -> tuple[Any, ...]:
        return Cache, (self.path,)  # another process opens the same file

    def get(self, key: bytes) -> str | None:
        """Return a record, or None; no reader waits for a writer."""
        try:
            rows = self._reader.run("SELECT reply FROM replies WHERE key = ?", key)
        except sqlite3.OperationalError as error:
            with logging_safely():
                _log.warning("the cache %s could not be read: %s%s", self.path, error, outcome_label())
            return None
        return rows[0][0] if rows and isinstance(rows[0][0], str) else None

    def put(self, key: bytes, record: str) -> None:
        """Store a record; a failure, for instance on a full disk, is logged and costs no verdict."""
        try:
            self._writer.run("INSERT OR REPLACE INTO replies VALUES (?, ?)", key, record)
        except sqlite3.OperationalError as error:
            with logging_safely():
                _log.warning("the cache %s could not be written: %s%s", self.path, error, outcome_label())

    def clear(self) -> None:
        """Delete all records."""
        self._writer.run("DELETE FROM replies")

    def close(self) -> None:
        """Close the file; the cache cannot be used any more."""
        self._end()

    def __len__(self) -> int:
        return int(self._reader.run("SELECT count(*) FROM replies")[0][0])

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Connection:
    """One connection for all threads of a process; a forked process opens its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._closed = False
        self._opened: dict[int, tuple[threading.Lock, sqlite3.Connection]] = {}
        self._current()

    def run(self, statement: str, *values: bytes | str) -> list[Any]:
        if self._closed:
            raise ConfigurationError(f"the cache {str(self._path)!r} was closed")
        lock, database = self._current()
        try:
            with lock:
                return database.execute(statement, values).fetchall()
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            raise _refusal(self._path, error) from error

    def close(self) -> None:
        self._closed = True
        entry = self._opened.get(os.getpid())
        if entry is not None:
            with entry[0]:
                entry[1].close()

    def _current(self) -> tuple[threading.Lock, sqlite3.Connection]:
        process = os.getpid()
        if process not in self._opened:
            database = _open(self._path)
            if self._opened.setdefault(process, (threading.Lock(), database))[1] is not database:
                database.close()
        return self._opened[process]


def _close(*connections: _Connection) -> None:
    for connection in connections:
        connection.close()


def _open(path: Path) -> sqlite3.Connection:
    try:
        # The lock: closing a file ends every lock that this process has on it, those of SQLite included.
        with _creation_lock:
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            database = sqlite3.connect(
                path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
    except (OSError, sqlite3.Error) as error:
        raise ConfigurationError(f"the cache {str(path)!r} cannot be opened: {error}") from error
    try:
        _prepare(database, path)
    except BaseException as error:
        database.close()
        if isinstance(error, sqlite3.Error):
            raise _refusal(path, error) from error
        raise
    return database


def _prepare(database: sqlite3.Connection, path: Path) -> None:
    """Check that the file is a cache, or empty, before anything is written to it."""
    database.execute("BEGIN")  # one snapshot, in case another process creates the file just now
    is_new = _is_new(database, path)
    database.execute("COMMIT")
    _log_ahead(database)
    database.execute("PRAGMA synchronous = NORMAL")
    if is_new:
        database.execute("BEGIN IMMEDIATE")
        if _is_new(database, path):  # nobody was faster
            database.execute("CREATE TABLE replies (key BLOB PRIMARY KEY, reply TEXT NOT NULL)")
            database.execute(f"PRAGMA application_id = {_APPLICATION}")
            database.execute(f"PRAGMA user_version = {_FORMAT}")
        database.execute("COMMIT")


def _is_new(database: sqlite3.Connection, path: Path) -> bool:
    marks = tuple(
        database.execute(query).fetchone()[0]
        for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    )
    if marks == (0, 0, 0):
        return True
    if marks[0] != _APPLICATION:
        raise ConfigurationError(f"{str(path)!r} is a database, but no cache of replies; give another path")
    if marks[1] != _FORMAT:
        raise ConfigurationError(
            f"the cache {str(path)!r} was written by another version of selfrefine (format {marks[1]}, this one "
            f"knows {_FORMAT}); give another path, or delete the file"
        )
    return False


def _log_ahead(database: sqlite3.Connection) -> None:
    """Switch to the write-ahead log; SQLite does not wait by itself while another process does the same."""
    until = time.monotonic() + _BUSY_TIMEOUT_S
    while database.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            database.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def _refusal(path: Path, error: sqlite3.Error) -> ConfigurationError:
    return ConfigurationError(
        f"{str(path)!r} is no cache of replies, or it is damaged: {error}; give another path, or delete the file"
    )


_KEY = 1
"""Version of the key's parts; a new one invalidates all earlier records."""


def cached(model: object, cache: Cache | str | Path, *, temperature: float | None = 0.0) -> JudgeModel:
    """Return a model that is asked the same question only once, unless it is asked again before there is a reply.

    A question is the same if model, endpoint and settings, every word of the prompt and the schema of the reply
    are the same; the runs of a `Repeat` are distinct. Only replies that can be read are stored, so a reply that
    was cut, filtered or failed is requested again. A verdict's `usage.cached` counts the replies that came from
    the cache; they cost nothing and no budget of calls is charged for them.

    Put the cache outermost, `cached(limited(model, limiter), cache)`, so that a cached reply waits for no limit.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`. One of your own class is
            known by what its constructor was given, where that can be read, or by an attribute `identity` that
            names its endpoint and settings. Where neither tells all, its replies are not cached, and a WARNING
            says so.
        cache: A `Cache`, which models may share and the caller closes, or the path of one.
        temperature: Sampling temperature for models that set none; None keeps the provider's default.

    Raises:
        ConfigurationError: If `model` is not a model, or the file is no cache.
    """
    inner = as_model(model, temperature=temperature)
    store = cache if isinstance(cache, Cache) else Cache(cache)
    unread = unread_settings(inner)
    if unread:
        _log.warning(
            "replies of %s are not cached, as its %s cannot be read; give its class an attribute identity, a text "
            "that names endpoint and settings",
            type(inner).__qualname__,
            ", ".join(unread),
        )
        return inner
    return Wrapped(inner, _CacheMiddleware(inner, store))


class _CacheMiddleware:
    """Answer requests from a cache, and store new replies in it."""

    def __init__(self, model: JudgeModel, cache: Cache) -> None:
        self._model = model
        self._cache = cache

    @cached_property
    def _identity(self) -> str:
        return identity_of(self._model)

    def send(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        key = key_of(self._identity, request)
        if (stored := self._lookup(key, request)) is not None:
            return stored
        response = model.send(request)
        if (record := self._record(response, request)) is not None:
            self._cache.put(key, record)
        return response

    async def asend(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        key = key_of(self._identity, request)
        if (stored := self._lookup(key, request)) is not None:  # takes 10 us; a thread costs 150
            return stored
        response = await model.asend(request)
        if (record := self._record(response, request)) is not None:
            await asyncio.to_thread(self._cache.put, key, record)  # may have to wait for another process
        return response

    def _lookup(self, key: bytes, request: ModelRequest) -> ModelResponse | None:
        """Return the stored response; a record that `_record` would not have written counts as none."""
        record = self._cache.get(key)
        try:
            response = None if record is None else _response_adapter().validate_json(record, strict=True)
        except ValidationError:
            return None
        if response is None or not self._readable(response, request):
            return None
        return replace(response, usage=Usage(cached=1))

    def _record(self, response: ModelResponse, request: ModelRequest) -> str | None:
        """Return a response as JSON without the nonce of its request, or None if it cannot be read."""
        if not self._readable(response, request):
            return None
        try:
            record = _response_adapter().dump_json(response).decode()
        except PydanticSerializationError:  # half a surrogate pair
            return None
        return re.sub(request.nonce, "", record, flags=re.IGNORECASE) if request.nonce else record

    def _readable(self, response: ModelResponse, request: ModelRequest) -> bool:
        try:
            dialect_of(self._model, is_digit=bool(request.digits)).read(response, request.schema)
        except Unreadable:
            return False
        return True


def key_of(identity: str, request: ModelRequest) -> bytes:
    """Return a digest of everything a reply depends on."""
    parts = {
        "version": _KEY,
        "model": identity,
        "messages": [
            (role, text.split(request.nonce) if request.nonce else text) for role, text in request.messages
        ],
        "schema": _schema(request.schema),
        "text": request.text,
        "repetition": current.get().repetition,
    }
    if request.attached:
        attached = [part if isinstance(part, str) else part.model_dump() for part in request.attached]
        parts["attached"] = attached
    if request.is_rated or request.digits:
        parts["rated"] = request.digits or True
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()


@lru_cache(maxsize=256)
def _schema(schema: type[BaseModel]) -> str:
    return json.dumps(schema.model_json_schema(), sort_keys=True)


@cache
def _response_adapter() -> TypeAdapter[ModelResponse]:
    return TypeAdapter(ModelResponse)
