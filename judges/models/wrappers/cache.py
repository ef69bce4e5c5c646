"""Asking the same only once: replies kept in a SQLite file, for any number of threads and processes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from dataclasses import replace
from functools import cache, cached_property, lru_cache
from pathlib import Path

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from judges.model import JudgeModel, ModelRequest, ModelResponse, repetition
from judges.models.identity import identity_of
from judges.models.parse import Unreadable
from judges.models.resolve import as_model
from judges.models.wrappers.cache_store import Cache
from judges.models.wrappers.wrapped import Wrapped, dialect_of
from judges.verdict import Usage

_KEY = 1
"""Version of what a key is made of; a new one forgets all that was kept under the old."""


def cached(model: object, cache: Cache | str | Path, *, temperature: float | None = 0.0) -> JudgeModel:
    """Give a model that is asked the same question only once.

    A question is the same if model, endpoint and settings, every word of the prompt and the schema of the reply
    are the same; the runs of a `Repeat` are told apart. Only replies that can be read are kept, so what was cut,
    filtered or failed is asked again. A verdict's `usage.cached` counts the replies that came from the cache;
    they cost nothing and no budget of calls is charged for them.

    Put the cache outermost, `cached(limited(model, limiter), cache)`, so that a reply from it waits for nobody.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`. One of your own class should
            have an attribute `identity` that names its endpoint and settings, or models of one class and name
            share their replies.
        cache: A `Cache`, to be shared by models and closed by you, or the path of one.
        temperature: Asked of a model that leaves it open; None asks for nothing.

    Raises:
        ConfigurationError: If this is no model, or the file is no cache.
    """
    given = as_model(model, temperature=temperature)
    return Wrapped(given, _Cached(given, cache if isinstance(cache, Cache) else Cache(cache)))


class _Cached:
    """The way to a model past what it has said already."""

    def __init__(self, model: JudgeModel, cache: Cache) -> None:
        self._model = model
        self._cache = cache

    @cached_property
    def _identity(self) -> str:
        return identity_of(self._model)

    def send(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        key = key_of(self._identity, request)
        if (kept := self._kept(key, request)) is not None:
            return kept
        reply = model.send(request)
        if (record := self._record(reply, request)) is not None:
            self._cache.put(key, record)
        return reply

    async def asend(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        key = key_of(self._identity, request)
        if (kept := self._kept(key, request)) is not None:  # read in 10 us; a thread costs 150
            return kept
        reply = await model.asend(request)
        if (record := self._record(reply, request)) is not None:
            await asyncio.to_thread(self._cache.put, key, record)  # may have to wait for another process
        return reply

    def _kept(self, key: bytes, request: ModelRequest) -> ModelResponse | None:
        """Read what was kept; a record that is not what we would have written counts as none."""
        record = self._cache.get(key)
        try:
            reply = None if record is None else _replies().validate_json(record, strict=True)
        except ValidationError:
            return None
        if reply is None or not self._readable(reply, request):
            return None
        return replace(reply, usage=Usage(cached=1))

    def _record(self, reply: ModelResponse, request: ModelRequest) -> str | None:
        """Write a reply down as JSON, without the number of the fence, which is another each time."""
        if not self._readable(reply, request):
            return None
        try:
            record = _replies().dump_json(reply).decode()
        except PydanticSerializationError:  # half a surrogate pair
            return None
        return re.sub(request.nonce, "", record, flags=re.IGNORECASE) if request.nonce else record

    def _readable(self, reply: ModelResponse, request: ModelRequest) -> bool:
        try:
            dialect_of(self._model).read(reply, request.schema)
        except Unreadable:
            return False
        return True


def key_of(identity: str, request: ModelRequest) -> bytes:
    """Digest what a reply depends on."""
    parts = {
        "version": _KEY,
        "model": identity,
        "messages": [
            (role, text.split(request.nonce) if request.nonce else text) for role, text in request.messages
        ],
        "schema": _schema(request.schema),
        "text": request.text,
        "repetition": repetition.get(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()


@lru_cache(maxsize=256)
def _schema(schema: type[BaseModel]) -> str:
    return json.dumps(schema.model_json_schema(), sort_keys=True)


@cache
def _replies() -> TypeAdapter[ModelResponse]:
    return TypeAdapter(ModelResponse)
