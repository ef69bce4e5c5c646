"""Caching replies in a SQLite file, for any number of threads and processes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from dataclasses import replace
from functools import cache, cached_property, lru_cache
from pathlib import Path

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from judges.model import JudgeModel, ModelRequest, ModelResponse, repetition
from judges.models.dialects.general import dialect_of
from judges.models.identity import identity_of, unread_settings
from judges.models.parse import Unreadable
from judges.models.resolve import as_model
from judges.models.wrappers.cache_store import Cache
from judges.models.wrappers.wrapped import Wrapped
from judges.verdict import Usage

_log = logging.getLogger("judges")

_KEY = 1
"""Version of the key's parts; a new one invalidates all earlier records."""


def cached(model: object, cache: Cache | str | Path, *, temperature: float | None = 0.0) -> JudgeModel:
    """Return a model that is asked the same question only once.

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
            dialect_of(self._model).read(response, request.schema)
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
        "repetition": repetition.get(),
    }
    if request.attached:
        attached = [part if isinstance(part, str) else part.model_dump() for part in request.attached]
        parts["attached"] = attached
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()


@lru_cache(maxsize=256)
def _schema(schema: type[BaseModel]) -> str:
    return json.dumps(schema.model_json_schema(), sort_keys=True)


@cache
def _response_adapter() -> TypeAdapter[ModelResponse]:
    return TypeAdapter(ModelResponse)
