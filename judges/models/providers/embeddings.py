"""Texts as vectors: clients of embedding models, LangChain's or behind an `/embeddings` endpoint."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import SecretStr

from judges.errors import ConfigurationError
from judges.model import EmbeddingResponse
from judges.models import retry
from judges.models.providers.http import Connected, Endpoint
from judges.models.providers.http_errors import EndpointReplyError, EndpointResponse
from judges.models.providers.openai import RETRIES
from judges.models.providers.openai_replies import usage_in
from judges.models.providers.openai_settings import checked_name
from judges.runtime.validation import SharedByCopies, check_allowed, check_picklable, whole_number
from judges.verdict import Usage

_PATH = "/embeddings"
_FAKES = "langchain_core.embeddings.fake"
_UNREPORTED = Usage(calls=1, cost=None, tokens_known=False)


class LangChainEmbeddings(SharedByCopies):
    """Embed with a LangChain `Embeddings` object, whose own client batches and retries, and reports no usage.

    Args:
        embeddings: The object.
    """

    def __init__(self, embeddings: Any) -> None:
        self.embeddings = embeddings
        model = getattr(embeddings, "model", None)
        self.name = model if isinstance(model, str) and model else type(embeddings).__name__

    def __reduce__(self) -> tuple[Any, ...]:
        check_picklable(self.embeddings, f"the embedding model {self.name!r}", "make it in each process")
        return LangChainEmbeddings, (self.embeddings,)

    def embed(self, texts: Sequence[str]) -> EmbeddingResponse:
        """Embed texts, in their order."""
        if not texts:
            return EmbeddingResponse([])
        self._check()
        return self._response(self.embeddings.embed_documents(list(texts)), len(texts))

    async def aembed(self, texts: Sequence[str]) -> EmbeddingResponse:
        """Embed texts without blocking."""
        if not texts:
            return EmbeddingResponse([])
        self._check()
        return self._response(await self.embeddings.aembed_documents(list(texts)), len(texts))

    def _check(self) -> None:
        if type(self.embeddings).__module__ != _FAKES:
            check_allowed(self.name, self.embeddings)

    def _response(self, vectors: Sequence[Sequence[float]], count: int) -> EmbeddingResponse:
        numbers = [[float(number) for number in vector] for vector in vectors]
        return EmbeddingResponse(_checked_vectors(numbers, count, self.name), _UNREPORTED, self.name)


class OpenAICompatibleEmbeddings(Connected):
    """Embed with a model behind an OpenAI-compatible endpoint, without a provider's package.

    Connections, keys and errors are those of `judges.OpenAICompatible`. Only the failed request is repeated, so
    that a batch that succeeded is never paid twice.

    Args:
        base_url: Address of the API, without `/embeddings`.
        model: Name of the model at the endpoint.
        api_key: The key; None takes the environment variable `OPENAI_API_KEY`, unless `headers` authenticate; an
            empty text sends none.
        dimensions: Length of the vectors, for models that offer several; None uses the endpoint's default.
        batch_size: Most texts per request.
        timeout_s: Seconds until a reply must be complete.
        retries: How often a request whose transport failed is repeated.
        headers: Further headers to send.

    Raises:
        ConfigurationError: If a setting cannot be used; the message says which.
    """

    def __init__(
        self,
        base_url: str,
        *,
        model: str,
        api_key: str | SecretStr | None = None,
        dimensions: int | None = None,
        batch_size: int = 256,
        timeout_s: float = 60.0,
        retries: int = RETRIES,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        whole_number(batch_size, setting="batch_size")
        if dimensions is not None:
            whole_number(dimensions, setting="dimensions")
        self.name = checked_name(model)
        self.retries = whole_number(retries, setting="retries", least=0)
        self._batch_size = batch_size
        self._fields = {"model": model} | ({} if dimensions is None else {"dimensions": dimensions})
        self._endpoint = Endpoint(base_url, api_key=api_key, headers=headers, timeout_s=timeout_s)

    def __repr__(self) -> str:
        return f"OpenAICompatibleEmbeddings({self._endpoint.origin!r}, model={self.name!r})"

    @property
    def base_url(self) -> str:
        """Address of the endpoint, without its query."""
        return self._endpoint.base_url

    def embed(self, texts: Sequence[str]) -> EmbeddingResponse:
        """Embed texts, in their order, one request for each batch.

        Raises:
            judges.models.providers.http_errors.EndpointError: If a request fails.
            ConfigurationError: If requests are forbidden here, or urllib3 is missing.
        """
        check_allowed(self.name, self)
        calls = [partial(self._send, batch) for batch in self._batches(texts)]
        return _join([retry.carry_out(call, self.retries) for call in calls])

    async def aembed(self, texts: Sequence[str]) -> EmbeddingResponse:
        """Embed texts without blocking; otherwise as `embed`, with aiohttp."""
        check_allowed(self.name, self)
        calls = [partial(self._asend, batch) for batch in self._batches(texts)]
        return _join([await retry.acarry_out(call, self.retries) for call in calls])

    def _batches(self, texts: Sequence[str]) -> Iterator[Sequence[str]]:
        if isinstance(texts, str):
            raise ConfigurationError("texts to embed are given as a list, also where there is one")
        return (texts[start : start + self._batch_size] for start in range(0, len(texts), self._batch_size))

    def _send(self, batch: Sequence[str]) -> EmbeddingResponse:
        return self._parse(self._endpoint.post(_PATH, self._body(batch)), batch)

    async def _asend(self, batch: Sequence[str]) -> EmbeddingResponse:
        return self._parse(await self._endpoint.apost(_PATH, self._body(batch)), batch)

    def _body(self, batch: Sequence[str]) -> bytes:
        return json.dumps({**self._fields, "input": list(batch)}, ensure_ascii=False).encode("utf-8", "replace")

    def _parse(self, response: EndpointResponse, batch: Sequence[str]) -> EmbeddingResponse:
        if response.status != 200:  # noqa: PLR2004 - HTTP's own number
            raise self._endpoint.status_error(response, batch)
        try:
            payload = json.loads(response.body)
        except (ValueError, RecursionError):
            raise EndpointReplyError("the endpoint's reply is not JSON") from None
        model = payload.get("model") if isinstance(payload, dict) else None
        vectors = _checked_vectors(_in_order(payload), len(batch), self.name)
        return EmbeddingResponse(
            vectors, usage_in(payload, without_reply=0), model if isinstance(model, str) else None
        )


def _in_order(payload: Any) -> list[Any]:
    """Return the vectors in the order of their texts, by the numbers that the endpoint gives them."""
    data = payload.get("data") if isinstance(payload, dict) else None
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        raise EndpointReplyError("the endpoint's reply holds no embeddings")
    by_number = {item.get("index"): item.get("embedding") for item in data if type(item.get("index")) is int}
    if by_number.keys() != set(range(len(data))):
        raise EndpointReplyError("the endpoint's embeddings are not numbered from 0 on")
    return [by_number[number] for number in range(len(data))]


def _checked_vectors(vectors: list[Any], count: int, name: str) -> list[list[float]]:
    if len(vectors) != count:
        raise EndpointReplyError(f"{name} gave {len(vectors)} vectors for {count} texts")
    if not all(
        isinstance(vector, list) and vector and set(map(type, vector)) <= {float, int} for vector in vectors
    ):
        raise EndpointReplyError(f"{name} gave something else than vectors of numbers")
    if len({len(vector) for vector in vectors}) > 1 or not all(
        all(map(math.isfinite, vector)) for vector in vectors
    ):
        raise EndpointReplyError(f"{name} gave vectors of different lengths, or a number that is not finite")
    return vectors


def _join(parts: list[EmbeddingResponse]) -> EmbeddingResponse:
    vectors = [vector for part in parts for vector in part.vectors]
    if len({len(vector) for vector in vectors}) > 1:
        raise EndpointReplyError("the endpoint's vectors are of different lengths")
    usage = sum((part.usage for part in parts), Usage())
    return EmbeddingResponse(vectors, usage, parts[0].model if parts else None)
