"""The direct client for models behind any OpenAI-compatible endpoint, without a provider's package."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Generator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from types import EllipsisType
from typing import Any, Self

from pydantic import BaseModel, JsonValue

from judges.model import ModelRequest, ModelResponse
from judges.models import retry
from judges.models.methods import Method, Plan, checked_methods, forced_tool, response_format
from judges.models.providers import llm_runs
from judges.models.providers.endpoint import Connected, Endpoint, EndpointResponse
from judges.models.providers.endpoint_errors import EndpointStatusError, error_in
from judges.models.providers.openai_fields import (
    GENERATING,
    SETTINGS,
    checked_bound,
    checked_extra,
    checked_name,
    encoded,
    tool_fields,
)
from judges.models.providers.openai_replies import (
    OK,
    model_in,
    parse_completion,
    read_completion,
    texts_in,
    usage_in,
)
from judges.runtime import budget, flow
from judges.runtime.no_requests import check_allowed

RETRIES = 2
"""How often a call whose transport failed is repeated."""

_METHODS: tuple[Method, ...] = ("json_schema", "tools", "text")
_PATH = "/chat/completions"
_OPENAI_CLASSES = {"BaseChatOpenAI", "ChatOpenAI"}
_JSON = json.JSONEncoder(ensure_ascii=False)


class OpenAICompatible(Connected):
    """Ask a model behind an OpenAI-compatible endpoint: OpenAI, Azure, vLLM, Ollama, llama.cpp, LM Studio, ...

    It judges, as the model of a judge, and generates, as the generator of `refine.SelfRefine`; `chat` and `achat`
    send a request of your own. `bind` and `bind_tools` add fields to each request for an answer.

    A judge's reply is requested by the strongest method that the endpoint supports: a JSON schema that it enforces, else
    one forced tool call, else text. If it refuses or ignores a method, the next one is used from then on; likewise
    a temperature that it refuses is left out.

    Connections stay open between calls, and one object serves any number of threads and event loops. They are
    closed with the event loop, by `close` and `aclose`, or by using the object in a `with` or `async with` block.
    Keys and headers appear in no `repr`, no error and no pickle. Redirects are not followed, and
    proxy variables of the environment are not read.

    Args:
        base_url: Address of the API, without `/chat/completions`, for instance `"http://localhost:11434/v1"`. A
            query in it is sent along, for instance Azure's `?api-version=...`.
        model: Name of the model at the endpoint.
        api_key: The key; None takes the environment variable `OPENAI_API_KEY` if there is one, unless `headers`
            authenticate; an empty text sends none.
        method: `"json_schema"`, `"tools"` or `"text"`, without fallback; None uses the strongest that works. A
            model with a reply format of its own is asked with `"text"`.
        temperature: Sampling temperature; None uses the endpoint's default. If it is left out, judging uses 0 and
            generating the endpoint's default.
        max_tokens: Longest reply in tokens; None uses the endpoint's default. A cut reply is never accepted.
        timeout_s: Seconds until a reply must be complete.
        retries: How often a call whose transport failed is repeated.
        headers: Further headers to send, for instance Azure's `api-key`.
        endings: Further words with which the endpoint ends a whole reply, beside "stop", "completed" and the like:
            a reply with any other `finish_reason` is not accepted.
        extra: Further fields of each request, for instance `{"seed": 7, "reasoning_effort": "low"}`.
        stream: Whether answers are requested as a stream, for endpoints that cut long requests off. They are
            returned when they are complete, as ever.

    Raises:
        ConfigurationError: If a setting cannot be used; the message says which.
    """

    def __init__(
        self,
        base_url: str,
        *,
        model: str,
        api_key: str | None = None,
        method: Method | None = None,
        temperature: float | EllipsisType | None = ...,
        max_tokens: int | None = None,
        timeout_s: float = 60.0,
        retries: int = RETRIES,
        headers: Mapping[str, str] | None = None,
        endings: Collection[str] = (),
        extra: Mapping[str, JsonValue] | None = None,
        stream: bool = False,
    ) -> None:
        self.name = checked_name(model)
        self.retries = retries
        self._extra = checked_extra(extra or {})
        self._generating: dict[str, JsonValue] = {}
        self._max_tokens = max_tokens
        self._stream = stream
        self._endings = frozenset((endings,) if isinstance(endings, str) else endings)
        self._endpoint = Endpoint(base_url, api_key=api_key, headers=headers, timeout_s=timeout_s)
        self._plan = Plan(
            _METHODS if method is None else checked_methods(method),
            0.0 if isinstance(temperature, EllipsisType) else temperature,
            None if max_tokens is None else "max_tokens",
        )
        self._temperature = None if isinstance(temperature, EllipsisType) else temperature
        self._identity = self._compute_identity(base_url)
        self._heads: dict[tuple[type[BaseModel], Plan], str] = {}

    def __repr__(self) -> str:
        return f"OpenAICompatible({self._endpoint.origin!r}, model={self.name!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_heads": {}}  # rebuilt by the copy; not all schemas can be pickled

    @property
    def base_url(self) -> str:
        """Address of the endpoint, without its query."""
        return self._endpoint.base_url

    @property
    def method(self) -> Method:
        """The method in use now."""
        return self._plan.method

    @property
    def identity(self) -> str:
        """Name, address, and a digest of all settings that change the model's replies to a judge."""
        return self._identity

    def _compute_identity(self, address: str) -> str:
        settings = [address, self._plan.methods, self._plan.temperature, self._max_tokens, self._extra]
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
        return f"{type(self).__name__}:{self.name}:{self.base_url}:{digest}"

    def send(self, request: ModelRequest) -> ModelResponse:
        """Send a request and wait for the reply.

        Raises:
            judges.models.providers.endpoint_errors.EndpointError: If the request fails.
            ConfigurationError: If requests are forbidden here, or urllib3 is missing.
        """
        call = partial(flow.run, self._exchange(request), partial(self._endpoint.post, _PATH))
        return llm_runs.observed(self._judging(request), call) if llm_runs.is_observed() else call()

    async def asend(self, request: ModelRequest) -> ModelResponse:
        """Send a request without blocking; otherwise as `send`, with aiohttp."""
        call = partial(flow.arun, self._exchange(request), partial(self._endpoint.apost, _PATH))
        return await (llm_runs.aobserved(self._judging(request), call) if llm_runs.is_observed() else call())

    def chat(self, request: Mapping[str, Any], *, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Send a chat-completions request, and return the completion as the endpoint sent it.

        The call is claimed from the budget of the loop around it, if there is one, and repeated where its
        transport fails; LangChain's callback handlers see it.

        Args:
            request: The request's fields, `messages` among them; they go before those of this client.
            headers: Headers of this request alone; they go before those of this client.

        Raises:
            judges.models.providers.endpoint_errors.EndpointError: If the request fails;
                `EndpointStatusError.upstream` is the endpoint's own response.
            judges.runtime.budget.Refused: If the budget is spent.
            ConfigurationError: If the request cannot be sent.
        """

        def deliver(fields: dict[str, Any]) -> dict[str, Any]:
            call = partial(self._deliver, fields, headers)
            run = self._generating_run(fields)
            return call() if run is None else llm_runs.observed(run, call)

        return flow.run(self._claimed(request), deliver)

    async def achat(
        self, request: Mapping[str, Any], *, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Send a chat-completions request without blocking; otherwise as `chat`."""

        async def deliver(fields: dict[str, Any]) -> dict[str, Any]:
            call = partial(self._adeliver, fields, headers)
            run = self._generating_run(fields)
            return await (call() if run is None else llm_runs.aobserved(run, call))

        return await flow.arun(self._claimed(request), deliver)

    def bind(self, **fields: Any) -> Self:
        """Return the same client with further fields in each request, and the same connections.

        Args:
            fields: Fields of chat completions, or of the endpoint's own. `tools`, `tool_choice` and
                `response_format` are sent with requests for an answer only, not with a judge's.

        Raises:
            ConfigurationError: If a field cannot be bound.
        """
        bound = checked_bound(fields)
        twin = copy(self)
        twin.name = checked_name(bound.get("model", self.name))
        twin._stream = bool(bound.get("stream", self._stream))
        if "temperature" in bound:
            twin._temperature = bound["temperature"]
            twin._plan = replace(twin._plan, temperature=bound["temperature"])
        if "max_tokens" in bound:
            twin._max_tokens = bound["max_tokens"]
            twin._plan = replace(twin._plan, limit=None if bound["max_tokens"] is None else "max_tokens")
        generating = {name: value for name, value in bound.items() if name in GENERATING}
        extra = {name: value for name, value in bound.items() if name not in GENERATING | SETTINGS}
        twin._generating, twin._extra = {**self._generating, **generating}, {**self._extra, **extra}
        twin._identity = twin._compute_identity(self._identity)
        return twin

    def bind_tools(
        self,
        tools: Sequence[Any],
        *,
        tool_choice: Any = None,
        strict: bool | None = None,
        **fields: Any,
    ) -> Self:
        """Return the same client with tools, which its answers may call.

        Args:
            tools: LangChain tools, functions, pydantic classes, or tools in the form of chat completions.
            tool_choice: `"auto"`, `"none"`, `"required"`, or a tool's name; None leaves it to the model.
            strict: Whether arguments must fit the schema exactly; None leaves it to the endpoint.
            fields: Further fields, for instance `parallel_tool_calls=False`.

        Raises:
            ConfigurationError: If a tool cannot be offered, or a field cannot be bound.
        """
        return self.bind(**tool_fields(tools, tool_choice, strict=strict), **fields)

    def is_model(self, other: object) -> bool:
        """Check whether `other` uses this model: at this address, or through LangChain under the same name."""
        if isinstance(other, OpenAICompatible):
            return (other.base_url, other.name) == (self.base_url, self.name)
        while (bound := getattr(other, "bound", None)) is not None:
            other = bound
        other_name = getattr(other, "model_name", None)
        return other_name == self.name and any(kind.__name__ in _OPENAI_CLASSES for kind in type(other).__mro__)

    def _exchange(self, request: ModelRequest) -> Generator[bytes, EndpointResponse, ModelResponse]:
        """Yield bodies to post until a response can be read, each without what the endpoint refused before."""
        check_allowed(self.name, self)
        plan = self._plan.as_text() if request.text else self._plan
        while True:
            http = yield self._body(request, plan)
            if http.status == OK:
                response = self._with_known_ending(parse_completion(http.body))
                self._plan = plan.settings_on(self._plan) if request.text else plan.after_response(response)
                return response
            lesser = plan.after_error(http.status, error_in(http.body))
            if lesser is None:
                raise self._endpoint.status_error(http, (text for _, text in request.messages))
            plan = lesser

    def _judging(self, request: ModelRequest) -> llm_runs.LlmRun[ModelResponse]:
        return llm_runs.run_of_judging(self.name, request)

    def _generating_run(self, fields: dict[str, Any]) -> llm_runs.LlmRun[dict[str, Any]] | None:
        return llm_runs.run_of_chat(self.name, fields) if llm_runs.is_observed() else None

    def _claimed(self, request: Mapping[str, Any]) -> Generator[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Yield requests to deliver until there is a completion; claim it from the budget, and charge it."""
        check_allowed(self.name, self)
        is_counted = budget.is_counted()
        if not is_counted:
            budget.take()
        try:
            completion = yield from self._delivered(request)
        except Exception:
            if not is_counted:
                budget.fail()
            raise
        if not is_counted:
            budget.add(usage_in(completion), model_in(completion) or self.name)
        return completion

    def _delivered(self, request: Mapping[str, Any]) -> Generator[dict[str, Any], dict[str, Any], dict[str, Any]]:
        try:
            return (yield self._fields(request))
        except EndpointStatusError as error:
            lesser = self._plan.after_limit(
                error.status_code, error_in(error.upstream.body if error.upstream else b"")
            )
            if lesser is None or lesser.limit in request:
                raise
            self._plan = lesser
        return (yield self._fields(request))

    def _fields(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return a whole request: this client's fields, and before them those of the request."""
        fields: dict[str, Any] = {"model": self.name, **self._extra, **self._generating}
        if self._temperature is not None:
            fields["temperature"] = self._temperature
        if self._plan.limit is not None:
            fields[self._plan.limit] = self._max_tokens
        if self._stream:
            fields |= {"stream": True, "stream_options": {"include_usage": True}}
        return fields | request  # type: ignore[operator]  # a mapping

    def _deliver(self, fields: Mapping[str, Any], headers: Mapping[str, str] | None) -> dict[str, Any]:
        body = encoded(fields)

        def post() -> dict[str, Any]:
            return self._read(self._endpoint.post(_PATH, body, headers), fields, headers)

        try:
            return post()
        except Exception as first:  # noqa: BLE001 - raised again unless transient
            return retry.persist(post, first, self.retries)

    async def _adeliver(self, fields: Mapping[str, Any], headers: Mapping[str, str] | None) -> dict[str, Any]:
        body = encoded(fields)

        async def post() -> dict[str, Any]:
            return self._read(await self._endpoint.apost(_PATH, body, headers), fields, headers)

        try:
            return await post()
        except Exception as first:  # noqa: BLE001 - raised again unless transient
            return await retry.apersist(post, first, self.retries)

    def _read(
        self, response: EndpointResponse, fields: Mapping[str, Any], headers: Mapping[str, str] | None
    ) -> dict[str, Any]:
        hidden = texts_in([fields.get("messages"), *(headers or {}).values()])
        return read_completion(self._endpoint, response, hidden)

    def _with_known_ending(self, response: ModelResponse) -> ModelResponse:
        known = response.finish_reason in self._endings
        return replace(response, finish_reason="stop") if known else response

    def _body(self, request: ModelRequest, plan: Plan) -> bytes:
        key = (request.schema, plan)
        head = self._heads.get(key)
        if head is None:
            head = self._heads[key] = self._head(request.schema, plan)
        messages = (f'{{"role": "{role}", "content": {_JSON.encode(text)}}}' for role, text in request.messages)
        return f"{head}[{', '.join(messages)}]}}".encode("utf-8", "replace")

    def _head(self, schema: type[BaseModel], plan: Plan) -> str:
        """Return the start of the body, up to the messages, which is the same in all requests for a schema."""
        fields: dict[str, Any] = {"model": self.name, **self._extra}
        if plan.temperature is not None:
            fields["temperature"] = plan.temperature
        if plan.limit is not None:
            fields[plan.limit] = self._max_tokens
        if plan.method == "json_schema":
            fields["response_format"] = response_format(schema)
        elif plan.method == "tools":
            fields |= forced_tool(schema)
        return f'{_JSON.encode(fields)[:-1]}, "messages": '
