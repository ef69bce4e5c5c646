"""The direct client for models behind any OpenAI-compatible endpoint, without a provider's package."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache, partial
from types import EllipsisType
from typing import Any, Self

from pydantic import BaseModel, JsonValue, SecretStr

from judges.errors import ConfigurationError, unfit
from judges.messages import Content, openai_content
from judges.model import Distribution, LlmRun, ModelRequest, ModelResponse, PromptRole
from judges.models import retry
from judges.models.likelihood import ALTERNATIVES
from judges.models.prompt_and_reply import texts_in
from judges.models.providers import llm_runs, openai_settings
from judges.models.providers.http import Connected, Endpoint
from judges.models.providers.http_errors import (
    EndpointResponse,
    EndpointStatusError,
    EndpointTimeoutError,
    error_in,
)
from judges.models.providers.llama import TIMEOUT_S, LlamaEndpoint, LocalModel
from judges.models.providers.openai_replies import (
    OK,
    ChunkReader,
    model_in,
    parse_completion,
    read_completion,
    usage_in,
)
from judges.models.providers.openai_settings import ChatSettings, Limit
from judges.models.structured import (
    KEYWORDS,
    Method,
    RequestPlan,
    Sizes,
    checked_methods,
    digit_format,
    forced_tool,
    response_format,
)
from judges.runtime import budget, flow
from judges.runtime.observation import current
from judges.runtime.validation import ban, check_allowed, naming_settings, whole_number

PATH = "/chat/completions"
"""Where chat completions are, below the address of an endpoint."""

_BAD_REQUEST = (400, 422)

Fields = dict[str, Any]
"""The fields of a request, or of its reply."""

OnChunk = Callable[[Fields], None]
"""Takes a chunk of a reply."""

_Sending = Generator[Fields, Fields, Fields]
"""Yields requests to send until there is a completion, and returns that."""


class _ChatCalls:
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
        limit: Limit,
        headers: Mapping[str, str] | None,
        on_chunk: OnChunk | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._settings = settings if on_chunk is None else replace(settings, stream=True)
        self._on_chunk = on_chunk
        self._retries = retries
        self._headers = headers
        self.limit: Limit = limit

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
        body, reader = _encode_request(fields), self._reader()

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
        body, reader = _encode_request(fields), self._reader()

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


RETRIES = 2
"""How often a call whose transport failed is repeated."""

_TIMEOUT_S = 60.0
_METHODS: tuple[Method, ...] = ("json_schema", "tools", "text")
_OPENAI_CLASSES = {"BaseChatOpenAI", "ChatOpenAI"}
_JSON = json.JSONEncoder(ensure_ascii=False)
_STRICT_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


class OpenAICompatible(Connected):
    """Ask a model behind an OpenAI-compatible endpoint: OpenAI, Azure, vLLM, Ollama, llama.cpp, LM Studio, ...

    It judges, as the model of a judge, and generates, as the generator of `refine.SelfRefine`; `chat` and `achat`
    send a request of your own. `bind` and `bind_tools` add fields to each request for an answer.

    A judge's reply is requested by the strongest method that the endpoint supports: a JSON schema that it
    enforces, else one forced tool call, else text. If it refuses or ignores a method, the next one is used from
    then on; likewise a temperature that it refuses is left out.

    Connections stay open between calls, and one object serves any number of threads and event loops. They are
    closed with the event loop, by `close` and `aclose`, or by using the object in a `with` or `async with` block.
    Keys and headers appear in no `repr`, no error and no pickle. Redirects are not followed, and
    proxy variables of the environment are not read.

    Args:
        base_url: Address of the API, without `/chat/completions`, for instance `"http://localhost:11434/v1"`. A
            query in it is sent along, for instance Azure's `?api-version=...`. `"local:smollm2"` and
            `"local:PATH.gguf"` are models on this machine, which llama.cpp serves.
        model: Name of the model at the endpoint.
        api_key: The key; None takes the environment variable `OPENAI_API_KEY` if there is one, unless `headers`
            authenticate; an empty text sends none.
        method: `"json_schema"`, `"tools"` or `"text"`, without fallback; None uses the strongest that works. A
            model with a reply format of its own is asked with `"text"`.
        temperature: Sampling temperature; None uses the endpoint's default. If it is left out, judging uses 0 and
            generating the endpoint's default.
        max_tokens: Longest reply in tokens; None uses the endpoint's default. A cut reply is never accepted.
        timeout_s: Seconds until a reply must be complete; None waits 60, and 600 for a model on this machine.
        retries: How often a call whose transport failed is repeated.
        headers: Further headers to send, for instance Azure's `api-key`.
        endings: Further words with which the endpoint ends a whole reply, beside "stop", "completed" and the like:
            a reply with any other `finish_reason` is not accepted.
        extra: Further fields of each request, for instance `{"seed": 7, "reasoning_effort": "low"}`.
        stream: Whether answers are requested as a stream, for endpoints that cut long requests off. They are
            returned when they are complete, as ever.

    Raises:
        ConfigurationError: If a setting cannot be used; the message says which.

    Attributes:
        has_slots: Whether the endpoint has replied as llama.cpp does, which keeps each prompt that it has read in
            a slot of its own: prompts with one beginning are then better sent one after the other.
    """

    @naming_settings(
        "OpenAICompatible('http://localhost:8000/v1', model='qwen')",
        url="base_url",
        api_base="base_url",
        model_name="model",
        key="api_key",
        api_key_env="api_key",
        timeout="timeout_s",
        max_retries="retries",
        extra_body="extra",
        max_completion_tokens="max_tokens",
        default_headers="headers",
    )
    def __init__(
        self,
        base_url: str,
        *,
        model: str,
        api_key: str | SecretStr | None = None,
        method: Method | None = None,
        temperature: float | EllipsisType | None = ...,
        max_tokens: int | None = None,
        timeout_s: float | None = None,
        retries: int = RETRIES,
        headers: Mapping[str, str] | None = None,
        endings: Collection[str] = (),
        extra: Mapping[str, JsonValue] | None = None,
        stream: bool = False,
    ) -> None:
        temperature, judging_at = (None, 0.0) if isinstance(temperature, EllipsisType) else (temperature,) * 2
        self._chat = ChatSettings.of(
            model, temperature=temperature, max_tokens=max_tokens, stream=stream, extra=extra
        )
        self.retries = whole_number(retries, setting="retries", least=0)
        self._endings = _checked_endings(endings)
        is_local = openai_settings.local_name(base_url) is not None
        timeout_s = (TIMEOUT_S if is_local else _TIMEOUT_S) if timeout_s is None else timeout_s
        self._endpoint = (
            LlamaEndpoint(LocalModel.named(base_url), timeout_s)
            if is_local
            else Endpoint(base_url, api_key=api_key, headers=headers, timeout_s=timeout_s)
        )
        self._plan = RequestPlan(
            _METHODS if method is None else checked_methods(method),
            judging_at,
            None if max_tokens is None else "max_tokens",
            keywords=KEYWORDS,
        )
        self._digit_plan = self._plan.for_digit()
        self.has_slots = False
        self._alternatives = ALTERNATIVES
        self._identity = self._compute_identity(
            self._endpoint.identity if isinstance(self._endpoint, LlamaEndpoint) else base_url
        )
        self._heads: dict[tuple[type[BaseModel], Sizes, int | None, RequestPlan], bytes] = {}

    @classmethod
    def named(cls, name: str, **settings: Any) -> Self:
        """Return the client that a name means: `"openai-compatible:MODEL@BASE_URL"`, or one on this machine.

        Without the address the environment's `OPENAI_BASE_URL` is used. The key is the environment's
        `OPENAI_API_KEY`, if there is one. Wherever a model or a generator is named, such a name may stand.

        Args:
            name: The name, for instance `"openai-compatible:qwen3:8b@http://localhost:11434/v1"`, or
                `"local:smollm2"` or `"local:PATH.gguf"` for a model that llama.cpp serves on this machine.
            settings: Settings of this class, for instance `temperature=0.7`.

        Raises:
            ConfigurationError: If the name has another form, or there is no address.
        """
        if openai_settings.local_name(name) is not None:
            return cls(name, **{"model": name.strip(), **settings})
        parts = openai_settings.parsed_name(name)
        if parts is None or not parts[0]:
            raise unfit("a model behind an endpoint is named 'openai-compatible:MODEL@BASE_URL'", name)
        model, address = parts
        return cls(openai_settings.address_for(name, address), **{"model": model, **settings})

    def __repr__(self) -> str:
        return f"OpenAICompatible({self._endpoint.origin!r}, model={self.name!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_heads": {}}  # rebuilt by the copy; not all schemas can be pickled

    @property
    def name(self) -> str:
        """Name of the model at the endpoint."""
        return self._chat.model

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
        chat = self._chat
        settings: list[Any] = [address, self._plan.methods, self._plan.temperature, chat.max_tokens, chat.extra]
        settings += [chat.generating] if chat.generating else []
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
        return f"{type(self).__name__}:{self.name}:{self.base_url}:{digest}"

    def send(self, request: ModelRequest) -> ModelResponse:
        """Send a request and wait for the reply.

        Raises:
            judges.models.providers.http_errors.EndpointError: If the request fails.
            ConfigurationError: If requests are forbidden here, or urllib3 is missing.
        """
        call = partial(self._exchange, request)
        return llm_runs.observed(self._judging(request), call) if llm_runs.is_observed() else call()

    async def asend(self, request: ModelRequest) -> ModelResponse:
        """Send a request without blocking; otherwise as `send`, with aiohttp."""
        call = partial(self._aexchange, request)
        return await (llm_runs.aobserved(self._judging(request), call) if llm_runs.is_observed() else call())

    def chat(
        self,
        request: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        on_chunk: OnChunk | None = None,
    ) -> Fields:
        """Send a chat-completions request, and return the completion as the endpoint sent it.

        The call is claimed from the budget of the loop around it, if there is one, and repeated where its
        transport fails; LangChain's callback handlers see it.

        Args:
            request: The request's fields, `messages` among them; they go before those of this client.
            headers: Headers of this request alone; they go before those of this client.
            on_chunk: Called with each chunk of the reply as it comes, which is then requested as a stream; what
                it raises breaks the reply off.

        Raises:
            judges.models.providers.http_errors.EndpointError: If the request fails;
                `EndpointStatusError.upstream` is the endpoint's own response.
            judges.runtime.budget.Refused: If the budget is spent.
            ConfigurationError: If the request cannot be sent.
        """
        calls = self._calls(headers, on_chunk)
        try:
            return calls.send(request)
        finally:
            self._remember_limit(calls)

    async def achat(
        self,
        request: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        on_chunk: OnChunk | None = None,
    ) -> Fields:
        """Send a chat-completions request without blocking; otherwise as `chat`."""
        calls = self._calls(headers, on_chunk)
        try:
            return await calls.asend(request)
        finally:
            self._remember_limit(calls)

    @property
    def is_structured(self) -> bool:
        """True if its answers are bound to be JSON."""
        return "response_format" in self._chat.generating

    def bind(self, **fields: Any) -> Self:
        """Return the same client with further fields in each request, and the same connections.

        Args:
            fields: Fields of chat completions, or of the endpoint's own. `tools`, `tool_choice` and
                `response_format` are sent with requests for an answer only, not with a judge's.

        Raises:
            ConfigurationError: If a field cannot be bound.
        """
        return copy(self)._with(self._chat.bound(fields), fields)  # noqa: SLF001 - of its own class

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: Any = None, strict: bool | None = None, **fields: Any
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
        return self.bind(**_tool_fields(tools, tool_choice, strict=strict), **fields)

    def is_model(self, other: object) -> bool:
        """Check whether `other` uses this model: at this address, or through LangChain under the same name."""
        if openai_settings.names_direct_client(other):
            other = OpenAICompatible.named(other)
        if isinstance(other, OpenAICompatible):
            return (other.base_url, other.name) == (self.base_url, self.name)
        while (bound := getattr(other, "bound", None)) is not None:
            other = bound
        other_name = getattr(other, "model_name", None)
        return other_name == self.name and any(kind.__name__ in _OPENAI_CLASSES for kind in type(other).__mro__)

    def _exchange(self, request: ModelRequest) -> ModelResponse:
        """Post a request until a response can be read, each time without what the endpoint refused before."""
        plan = self._first_plan(request)
        while (http := self._endpoint.post(PATH, self._body(request, plan))).status != OK:
            plan = self._lesser_plan(plan, request, http)
        return self._read(http, request, plan)

    async def _aexchange(self, request: ModelRequest) -> ModelResponse:
        plan = self._first_plan(request)
        while (http := await self._endpoint.apost(PATH, self._body(request, plan))).status != OK:
            plan = self._lesser_plan(plan, request, http)
        return self._read(http, request, plan)

    def _first_plan(self, request: ModelRequest) -> RequestPlan:
        if ban.depth:
            check_allowed(self.name, self)
        if request.digits:
            plan = replace(self._digit_plan, digits=request.digits)
        else:
            plan = self._plan.as_text() if request.text else self._plan
        is_rated = request.is_rated or request.digits
        return replace(plan, logprobs=self._alternatives) if is_rated and self._alternatives else plan

    def _lesser_plan(self, plan: RequestPlan, request: ModelRequest, http: EndpointResponse) -> RequestPlan:
        lesser = plan.after_error(http.status, error_in(http.body))
        if lesser is None:
            raise self._endpoint.status_error(http, (text for _, text in request.messages))
        return lesser

    def _read(self, http: EndpointResponse, request: ModelRequest, plan: RequestPlan) -> ModelResponse:
        self.has_slots = self.has_slots or _TIMINGS in http.body
        if request.is_rated or request.digits:
            return self._read_rated(http, request, plan)
        response = self._with_known_ending(parse_completion(http.body))
        self._plan = plan.settings_on(self._plan) if request.text else plan.after_response(response)
        return response

    def _read_rated(self, http: EndpointResponse, request: ModelRequest, plan: RequestPlan) -> ModelResponse:
        """Read a response with how likely its ratings are, and remember what the endpoint refused."""
        parsed = parse_completion(http.body, request, refused=not plan.logprobs)
        response = self._with_known_ending(parsed)
        self._alternatives = plan.logprobs
        plan = replace(plan, logprobs=0, digits=())
        if request.digits:
            self._digit_plan = plan
        else:
            self._plan = plan.after_response(response)
        return response

    @property
    def endpoint(self) -> Endpoint:
        """The address, its credentials and the connections to it."""
        return self._endpoint

    def request_body(self, request: ModelRequest) -> bytes:
        """Return what would be posted for a request now, for those who send it otherwise.

        Raises:
            ConfigurationError: If requests are forbidden here.
        """
        return self._body(request, self._first_plan(request))

    def read_completion(self, body: bytes) -> ModelResponse:
        """Return the model's response in a completion that was not sent by this object.

        Raises:
            judges.models.providers.http_errors.EndpointReplyError: If it is none.
        """
        response = self._with_known_ending(parse_completion(body))
        return replace(response, ratings=Distribution(reason=_IN_A_BATCH))

    def do_without(self, status: int, body: bytes) -> bool:
        """Leave out from now on what the endpoint refused in an error; False if the error has another cause."""
        lesser = self._plan.after_error(status, error_in(body))
        self._plan = lesser or self._plan
        return lesser is not None

    def _with(self, chat: ChatSettings, fields: Mapping[str, Any]) -> Self:
        """Take settings in which `fields` are new; of a fresh copy alone."""
        self._chat = chat
        if "temperature" in fields:
            self._plan = replace(self._plan, temperature=chat.temperature)
            self._digit_plan = replace(self._digit_plan, temperature=chat.temperature)
        if "max_tokens" in fields:
            self._plan = replace(self._plan, limit=None if chat.max_tokens is None else "max_tokens")
        self._identity = self._compute_identity(self._identity)
        return self

    def _judging(self, request: ModelRequest) -> LlmRun[ModelResponse]:
        return llm_runs.run_of_judging(self.name, request)

    def _calls(self, headers: Mapping[str, str] | None, on_chunk: OnChunk | None = None) -> _ChatCalls:
        check_allowed(self.name, self)
        limit = self._plan.limit or "max_tokens"
        return _ChatCalls(
            self._endpoint, self._chat, retries=self.retries, limit=limit, headers=headers, on_chunk=on_chunk
        )

    def _remember_limit(self, calls: _ChatCalls) -> None:
        if self._plan.limit not in (None, calls.limit):
            self._plan = replace(self._plan, limit=calls.limit)

    def _with_known_ending(self, response: ModelResponse) -> ModelResponse:
        return replace(response, finish_reason="stop") if response.finish_reason in self._endings else response

    def _body(self, request: ModelRequest, plan: RequestPlan) -> bytes:
        key = (request.schema, request.sizes, request.most_items, plan)
        head = self._heads.get(key)
        if head is None:
            head = self._heads[key] = self._head(*key)
        beginning = request.messages[: request.beginning]
        messages = [_encoded_once(beginning)] if beginning else []
        others = request.contents(request.beginning) if request.attached else request.messages[request.beginning :]
        messages += [_encoded(message) for message in others]
        return b"%b[%b]}" % (head, b", ".join(messages))

    def _head(self, schema: type[BaseModel], sizes: Sizes, most_items: int | None, plan: RequestPlan) -> bytes:
        """Return the start of the body, up to the messages, which is the same in all requests for a schema."""
        fields: dict[str, Any] = {"model": self.name, **self._chat.extra}
        if plan.temperature is not None:
            fields["temperature"] = plan.temperature
        longest = plan.most if plan.digits else self._chat.max_tokens
        if plan.limit is not None and longest:
            fields[plan.limit] = longest
        if plan.logprobs:
            fields |= {"logprobs": True, "top_logprobs": plan.logprobs}
        if plan.digits:
            fields |= {"response_format": digit_format(plan.digits)} if plan.method == "json_schema" else {}
        elif plan.method == "json_schema":
            fields["response_format"] = response_format(schema, sizes, plan.keywords, most_items)
        elif plan.method == "tools":
            fields |= forced_tool(schema, sizes, plan.keywords, most_items)
        return f'{_JSON.encode(fields)[:-1]}, "messages": '.encode("utf-8", "replace")


_IN_A_BATCH = "a batch's replies are read without their requests, and so without logprobs"

_TIMINGS = b'"timings":'
"""A field that llama.cpp adds to its replies; within a text its quotes would be escaped."""


def _encoded(message: tuple[PromptRole, Content]) -> bytes:
    role, content = message
    parts = content if isinstance(content, str) else openai_content(content)
    return f'{{"role": "{role}", "content": {_JSON.encode(parts)}}}'.encode("utf-8", "replace")


@lru_cache(maxsize=256)
def _encoded_once(messages: tuple[tuple[PromptRole, str], ...]) -> bytes:
    """Return the messages as JSON that are the same in all requests of a judge: its task and worked examples."""
    return b", ".join(map(_encoded, messages))


def _encode_request(fields: Mapping[str, Any]) -> bytes:
    """Return a request as it is posted.

    Raises:
        ConfigurationError: If it cannot be written as JSON.
    """
    try:
        return _STRICT_JSON.encode(fields).encode("utf-8", "replace")
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"the request cannot be written as JSON: {error}") from None


def _checked_endings(endings: object) -> frozenset[str]:
    """Return the words with which an endpoint ends a whole reply, checked; one alone may be a text."""
    words = (endings,) if isinstance(endings, str) else endings
    if not isinstance(words, Collection) or not all(isinstance(word, str) for word in words):
        raise unfit("endings is a list of texts such as ['complete']", endings)
    return frozenset(words)


def _tool_fields(tools: Sequence[Any], tool_choice: object, *, strict: bool | None) -> dict[str, Any]:
    """Return the request fields that offer tools.

    Args:
        tools: LangChain tools, functions, pydantic classes, or tools in the form of chat completions.
        tool_choice: None leaves it to the model; `"auto"`, `"none"`, `"required"` (or `"any"`, or True), a tool's
            name, or the field itself.
        strict: Whether arguments must fit the schema exactly; None leaves it to the endpoint.
    """
    from langchain_core.utils.function_calling import convert_to_openai_tool  # noqa: PLC0415 - on demand

    try:
        converted = [convert_to_openai_tool(tool, strict=strict) for tool in tools]
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"a tool cannot be offered: {str(error).splitlines()[0]}") from error
    fields: dict[str, Any] = {"tools": converted}
    if tool_choice is None or tool_choice is False:
        return fields
    names = [tool["function"]["name"] for tool in converted if isinstance(tool.get("function"), Mapping)]
    return {**fields, "tool_choice": _checked_choice(tool_choice, names)}


def _checked_choice(choice: object, names: Sequence[str]) -> object:
    if isinstance(choice, Mapping) or choice in ("auto", "none", "required"):
        return choice
    if choice is True or choice == "any":
        return "required"
    if choice in names:
        return {"type": "function", "function": {"name": choice}}
    raise ConfigurationError(
        f"tool_choice is 'auto', 'none', 'required' or the name of a tool ({', '.join(names)}), not {choice!r}"
    )
