"""Requests for answers, and their sending: claimed from the budget, seen by handlers, repeated if need be."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Self

from judges.errors import ConfigurationError
from judges.model import LlmRun
from judges.models import retry
from judges.models.prompt_and_reply import texts_in
from judges.models.providers import llm_runs
from judges.models.providers.http import Endpoint
from judges.models.providers.http_errors import (
    EndpointResponse,
    EndpointStatusError,
    EndpointTimeoutError,
    error_in,
)
from judges.models.providers.openai_fields import GENERATING, SETTINGS, checked_bound, checked_name, encoded
from judges.models.providers.openai_replies import ChunkReader, model_in, read_completion, usage_in
from judges.runtime import budget, flow
from judges.runtime.observation import current

PATH = "/chat/completions"
"""Where chat completions are, below the address of an endpoint."""

_BAD_REQUEST = (400, 422)

_Limit = Literal["max_tokens", "max_completion_tokens"]
"""The two names of the field that limits the length of a reply."""

Fields = dict[str, Any]
"""The fields of a request, or of its reply."""

OnChunk = Callable[[Fields], None]
"""Takes a chunk of a reply."""

_Sending = Generator[Fields, Fields, Fields]
"""Yields requests to send until there is a completion, and returns that."""


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """Fields that a client adds to each request.

    Args:
        model: Name of the model.
        temperature: Sampling temperature, or None.
        max_tokens: Longest reply in tokens, or None.
        stream: Whether the reply is sent as a stream.
        extra: Further fields of every request, a judge's too.
        generating: Fields of requests for an answer only.
    """

    model: str
    temperature: float | None = None
    max_tokens: int | None = None
    stream: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)
    generating: Mapping[str, Any] = field(default_factory=dict)

    def bound(self, fields: Mapping[str, Any]) -> Self:
        """Return these settings with further fields, which replace those of the same name."""
        checked = checked_bound(fields)
        others = {name: value for name, value in checked.items() if name not in SETTINGS}
        generating = {name: value for name, value in others.items() if name in GENERATING}
        extra = {name: value for name, value in others.items() if name not in GENERATING}
        return replace(
            self,
            model=checked_name(checked.get("model", self.model)),
            temperature=_number(checked, "temperature", self.temperature),
            max_tokens=_number(checked, "max_tokens", self.max_tokens),
            stream=bool(checked.get("stream", self.stream)),
            extra={**self.extra, **extra},
            generating={**self.generating, **generating},
        )

    def fields(self, request: Mapping[str, Any], limit: _Limit) -> Fields:
        """Return a whole request: these fields, and before them those of the request."""
        fields: Fields = {"model": self.model, **self.extra, **self.generating}
        if self.temperature is not None:
            fields["temperature"] = self.temperature
        if self.max_tokens is not None:
            fields[limit] = self.max_tokens
        if self.stream:
            fields |= {"stream": True, "stream_options": {"include_usage": True}}
        fields.update(request)
        return fields


def _number(fields: Mapping[str, Any], name: str, default: Any) -> Any:
    value = fields.get(name, default)
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise ConfigurationError(f"{name} is a number, not {value!r}")


class ChatCalls:
    """Sends requests for answers to one endpoint.

    Args:
        endpoint: The endpoint.
        settings: Fields of each request.
        retries: How often a request whose transport failed is repeated.
        limit: Name of the field that limits the length of a reply.
        headers: Headers of these requests alone.
        on_chunk: Called with each chunk of a reply, which then comes as a stream; raises to break it off.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        settings: ChatSettings,
        *,
        retries: int,
        limit: _Limit,
        headers: Mapping[str, str] | None,
        on_chunk: OnChunk | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._settings = settings if on_chunk is None else replace(settings, stream=True)
        self._on_chunk = on_chunk
        self._retries = retries
        self._headers = headers
        self.limit: _Limit = limit

    def send(self, request: Mapping[str, Any]) -> Fields:
        """Send a request, and return the completion as the endpoint sent it."""

        def deliver(fields: Fields) -> Fields:
            call, run = partial(self._deliver, fields), self._run(fields)
            return call() if run is None else llm_runs.observed(run, call)

        return flow.run(self._claimed(request), deliver)

    async def asend(self, request: Mapping[str, Any]) -> Fields:
        """Send a request without blocking."""

        async def deliver(fields: Fields) -> Fields:
            call, run = partial(self._adeliver, fields), self._run(fields)
            return await (call() if run is None else llm_runs.aobserved(run, call))

        return await flow.arun(self._claimed(request), deliver)

    def _run(self, fields: Fields) -> LlmRun[Fields] | None:
        return llm_runs.run_of_chat(self._settings.model, fields) if llm_runs.is_observed() else None

    def _claimed(self, request: Mapping[str, Any]) -> _Sending:
        """Claim a call from the budget, unless somebody else counts it, and charge what it consumed."""
        if current.get().is_counted:
            return (yield from self._sending(request))
        allowance = current.get().allowance
        if allowance is None:
            return (yield from self._sending(request))
        allowance.take()
        try:
            completion = yield from self._sending(request)
        except Exception as error:
            allowance.fail()
            seconds_left = allowance.seconds_left
            if (
                isinstance(error, EndpointTimeoutError)
                and seconds_left is not None
                and seconds_left <= budget.EARLY_S
            ):
                detail = f"the deadline passed while {self._settings.model} was asked"
                raise budget.Refused("deadline", detail) from error
            raise
        allowance.add(usage_in(completion), model_in(completion), requested=self._settings.model)
        return completion

    def _sending(self, request: Mapping[str, Any]) -> _Sending:
        try:
            return (yield self._settings.fields(request, self.limit))
        except EndpointStatusError as error:
            if not self._limit_was_refused(error, request):
                raise
        self.limit = "max_completion_tokens"
        return (yield self._settings.fields(request, self.limit))

    def _limit_was_refused(self, error: EndpointStatusError, request: Mapping[str, Any]) -> bool:
        """Check whether the endpoint wants the other name of the limit that these settings have."""
        is_ours = self._settings.max_tokens is not None and self.limit not in request
        body = b"" if error.upstream is None else error.upstream.body
        is_refused = error.status_code in _BAD_REQUEST and "max_completion_tokens" in error_in(body)
        return is_ours and is_refused and self.limit == "max_tokens"

    def _deliver(self, fields: Fields) -> Fields:
        body, reader = encoded(fields), self._reader()

        def post() -> Fields:
            on_part = None if reader is None else reader.feed
            return self._read(self._endpoint.post(PATH, body, self._headers, on_part), fields)

        try:
            return post()
        except Exception as first:
            if reader is not None and reader.has_begun:  # what was read is not read twice
                raise
            return retry.persist(post, first, self._retries)

    async def _adeliver(self, fields: Fields) -> Fields:
        body, reader = encoded(fields), self._reader()

        async def post() -> Fields:
            on_part = None if reader is None else reader.feed
            return self._read(await self._endpoint.apost(PATH, body, self._headers, on_part), fields)

        try:
            return await post()
        except Exception as first:
            if reader is not None and reader.has_begun:  # as above
                raise
            return await retry.apersist(post, first, self._retries)

    def _reader(self) -> ChunkReader | None:
        return None if self._on_chunk is None else ChunkReader(self._on_chunk)

    def _read(self, response: EndpointResponse, fields: Fields) -> Fields:
        hidden = texts_in([fields.get("messages"), *(self._headers or {}).values()])
        return read_completion(self._endpoint, response, hidden)
