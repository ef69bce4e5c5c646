"""The direct client for models behind any OpenAI-compatible endpoint, without a provider's package."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache, partial
from types import EllipsisType
from typing import Any, Self

from pydantic import BaseModel, JsonValue, SecretStr

from judges.errors import unfit
from judges.messages import Content, openai_content
from judges.model import Distribution, LlmRun, ModelRequest, ModelResponse, PromptRole
from judges.models.likelihood import ALTERNATIVES
from judges.models.providers import llm_runs
from judges.models.providers.http import Connected, Endpoint
from judges.models.providers.http_errors import EndpointResponse, error_in
from judges.models.providers.llama import TIMEOUT_S, LlamaEndpoint, LocalModel
from judges.models.providers.openai_chat import PATH, ChatCalls, ChatSettings, Fields, OnChunk
from judges.models.providers.openai_fields import (
    address_for,
    checked_endings,
    checked_extra,
    checked_name,
    checked_temperature,
    local_name,
    names_direct_client,
    parsed_name,
    tool_fields,
)
from judges.models.providers.openai_replies import OK, parse_completion
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
from judges.runtime.validation import ban, check_allowed, naming_settings, whole_number

RETRIES = 2
"""How often a call whose transport failed is repeated."""

_TIMEOUT_S = 60.0
_METHODS: tuple[Method, ...] = ("json_schema", "tools", "text")
_OPENAI_CLASSES = {"BaseChatOpenAI", "ChatOpenAI"}
_JSON = json.JSONEncoder(ensure_ascii=False)


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
        self._chat = ChatSettings(
            model=checked_name(model),
            temperature=checked_temperature(temperature),
            max_tokens=None if max_tokens is None else whole_number(max_tokens, setting="max_tokens"),
            stream=stream,
            extra=checked_extra({} if extra is None else extra),
        )
        self.retries = whole_number(retries, setting="retries", least=0)
        self._endings = checked_endings(endings)
        is_local = local_name(base_url) is not None
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
        if local_name(name) is not None:
            return cls(name, **{"model": name.strip(), **settings})
        parts = parsed_name(name)
        if parts is None or not parts[0]:
            raise unfit("a model behind an endpoint is named 'openai-compatible:MODEL@BASE_URL'", name)
        model, address = parts
        return cls(address_for(name, address), **{"model": model, **settings})

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
        return self.bind(**tool_fields(tools, tool_choice, strict=strict), **fields)

    def is_model(self, other: object) -> bool:
        """Check whether `other` uses this model: at this address, or through LangChain under the same name."""
        if names_direct_client(other):
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

    def _calls(self, headers: Mapping[str, str] | None, on_chunk: OnChunk | None = None) -> ChatCalls:
        check_allowed(self.name, self)
        limit = self._plan.limit or "max_tokens"
        return ChatCalls(
            self._endpoint, self._chat, retries=self.retries, limit=limit, headers=headers, on_chunk=on_chunk
        )

    def _remember_limit(self, calls: ChatCalls) -> None:
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
