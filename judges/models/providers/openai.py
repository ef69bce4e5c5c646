"""The direct client: a judge's model behind any OpenAI-compatible endpoint, asked without a provider's package."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Mapping
from typing import Any

from pydantic import BaseModel, JsonValue

from judges.errors import ConfigurationError
from judges.model import ModelRequest, ModelResponse
from judges.models.methods import Method, Plan, forced_tool, only, response_format
from judges.models.providers.endpoint import Connected, Endpoint, EndpointResponse
from judges.models.providers.endpoint_errors import EndpointReplyError, EndpointStatusError, error_in
from judges.runtime.no_requests import check_allowed
from judges.verdict import Usage

RETRIES = 2
"""How often the driver repeats a call whose transport failed."""

_METHODS: tuple[Method, ...] = ("json_schema", "tools", "text")
_PATH = "/chat/completions"
_OURS = {
    "max_tokens",
    "messages",
    "model",
    "n",
    "response_format",
    "stream",
    "temperature",
    "tool_choice",
    "tools",
}
_OPENAI_CLASSES = {"BaseChatOpenAI", "ChatOpenAI"}
_JSON = json.JSONEncoder(ensure_ascii=False)


class OpenAICompatible(Connected):
    """Ask a model behind an OpenAI-compatible endpoint: OpenAI, Azure, vLLM, Ollama, llama.cpp, LM Studio, ...

    The reply is asked for in the strongest way the endpoint knows: by a JSON schema that it enforces, else by one
    forced tool call, else as text. Where it says that it does not know a way, or ignores it, the next is taken and
    remembered; likewise where it refuses a temperature.

    Connections stay open between calls, and one object serves any number of threads and event loops. They are
    closed with the event loop, by `close` and `aclose`, or by using the object in a `with` or `async with` block.
    Keys and headers appear in no `repr` and no error; they are not pickled either. Redirects are not followed, and
    proxy variables of the environment are not read.

    Args:
        base_url: Address under which `/chat/completions` lies, for instance `"http://localhost:11434/v1"`. A query
            in it is sent along, for instance Azure's `?api-version=...`.
        model: Name of the model at the endpoint.
        api_key: The key; None takes the environment variable `OPENAI_API_KEY` if there is one, unless `headers`
            admit us; an empty text sends none.
        method: `"json_schema"`, `"tools"` or `"text"`, and never another; None takes the strongest there is. A
            model with a reply format of its own is asked with `"text"`.
        temperature: Sampling temperature; None leaves it to the endpoint.
        max_tokens: Longest reply in tokens; None leaves it to the endpoint. A reply that is cut is never accepted.
        timeout_s: Seconds until a reply must be there.
        retries: How often the driver repeats a call whose transport failed.
        headers: Headers to send besides, for instance Azure's `api-key`.
        extra: Further fields of each request, for instance `{"seed": 7, "reasoning_effort": "low"}`.

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
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        timeout_s: float = 60.0,
        retries: int = RETRIES,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, JsonValue] | None = None,
    ) -> None:
        self.name = checked_name(model)
        self.retries = retries
        self._extra = _checked_extra(extra or {})
        self._max_tokens = max_tokens
        self._endpoint = Endpoint(base_url, api_key=api_key, headers=headers, timeout_s=timeout_s)
        self._plan = Plan(
            _METHODS if method is None else only(method), temperature, None if max_tokens is None else "max_tokens"
        )
        self._identity = self._told(base_url)
        self._heads: dict[tuple[type[BaseModel], Plan], str] = {}

    def __repr__(self) -> str:
        return f"OpenAICompatible({self._endpoint.origin!r}, model={self.name!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_heads": {}}  # made again where the copy is; schemas cannot all be pickled

    @property
    def base_url(self) -> str:
        """Address of the endpoint, without its query."""
        return self._endpoint.base_url

    @property
    def method(self) -> Method:
        """The way in which the model is asked now."""
        return self._plan.method

    @property
    def identity(self) -> str:
        """What tells the model from every other: name, address, and a digest of all that changes its replies."""
        return self._identity

    def _told(self, base_url: str) -> str:
        said = [base_url, self._plan.methods, self._plan.temperature, self._max_tokens, self._extra]
        digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
        return f"{type(self).__name__}:{self.name}:{self.base_url}:{digest}"

    def send(self, request: ModelRequest) -> ModelResponse:
        """Send a request and wait for the reply.

        Raises:
            judges.models.providers.endpoint_errors.EndpointError: If there is none.
            ConfigurationError: If requests are forbidden here, or urllib3 is missing.
        """
        conversation = self._conversation(request)
        body = next(conversation)
        while True:
            try:
                body = conversation.send(self._endpoint.post(_PATH, body))
            except StopIteration as end:
                return _reply(end.value)

    async def asend(self, request: ModelRequest) -> ModelResponse:
        """Send a request without blocking; otherwise as `send`, with aiohttp."""
        conversation = self._conversation(request)
        body = next(conversation)
        while True:
            answer = await self._endpoint.apost(_PATH, body)
            try:
                body = conversation.send(answer)
            except StopIteration as end:
                return _reply(end.value)

    def is_model(self, other: object) -> bool:
        """Tell whether `other` asks this model: at this address, or through LangChain under the same name."""
        if isinstance(other, OpenAICompatible):
            return (other.base_url, other.name) == (self.base_url, self.name)
        while (bound := getattr(other, "bound", None)) is not None:
            other = bound
        told = getattr(other, "model_name", None)
        return told == self.name and any(kind.__name__ in _OPENAI_CLASSES for kind in type(other).__mro__)

    def _conversation(self, request: ModelRequest) -> Generator[bytes, EndpointResponse, ModelResponse]:
        """Yield bodies to post until an answer can be read, asking for less where the endpoint knows less."""
        check_allowed(self.name, self)
        plan = self._plan.as_text() if request.text else self._plan
        while True:
            answer = yield self._body(request, plan)
            if answer.status == 200:  # noqa: PLR2004 - HTTP's own number
                reply = read_completion(answer.body)
                self._plan = plan.back_to(self._plan) if request.text else plan.learning(reply)
                return reply
            lesser = plan.conceding(answer.status, error_in(answer.body))
            if lesser is None:
                raise self._endpoint.refused(answer, (text for _, text in request.messages))
            plan = lesser

    def _body(self, request: ModelRequest, plan: Plan) -> bytes:
        key = (request.schema, plan)
        head = self._heads.get(key)
        if head is None:
            head = self._heads[key] = self._head(request.schema, plan)
        told = (f'{{"role": "{role}", "content": {_JSON.encode(text)}}}' for role, text in request.messages)
        return f"{head}[{', '.join(told)}]}}".encode("utf-8", "replace")

    def _head(self, schema: type[BaseModel], plan: Plan) -> str:
        """Write what is the same in all requests for a schema, up to the messages."""
        told: dict[str, Any] = {"model": self.name, **self._extra}
        if plan.temperature is not None:
            told["temperature"] = plan.temperature
        if plan.limit is not None:
            told[plan.limit] = self._max_tokens
        if plan.method == "json_schema":
            told["response_format"] = response_format(schema)
        elif plan.method == "tools":
            told |= forced_tool(schema)
        return f'{_JSON.encode(told)[:-1]}, "messages": '


def _reply(value: Any) -> ModelResponse:
    assert isinstance(value, ModelResponse)  # noqa: S101 - what a conversation returns
    return value


def read_completion(body: bytes) -> ModelResponse:
    """Read a chat completion; what the model wrote in it is not believed yet.

    Raises:
        EndpointReplyError: If it is none, or has not exactly one choice.
        EndpointStatusError: If it is an error sent with status 200, as some gateways do.
    """
    try:
        told = json.loads(body.decode())
    except (ValueError, RecursionError):
        raise EndpointReplyError("the endpoint's reply is not JSON") from None
    choices = told.get("choices") if isinstance(told, dict) else None
    if isinstance(told, dict) and not choices and isinstance(told.get("error"), dict):
        raise _error_inside(told["error"])
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise EndpointReplyError("the endpoint's reply is no chat completion with exactly one choice")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise EndpointReplyError("the endpoint's reply has no message")
    calls, broken = _calls(message.get("tool_calls"))
    return ModelResponse(
        text=_text(message.get("content")),
        calls=calls,
        broken_calls=broken,
        finish_reason=_word(choices[0].get("finish_reason")),
        refusal=_word(message.get("refusal")),
        usage=usage_in(told),
        model=_word(told.get("model")) or None,
    )


def usage_in(told: Mapping[str, Any]) -> Usage:
    """Read what a request consumed, as the endpoint counted it."""
    usage = told.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return Usage(
        calls=1,
        input_tokens=_count(usage.get("prompt_tokens")),
        output_tokens=_count(usage.get("completion_tokens")),
        cost=None,
    )


def _error_inside(error: Mapping[str, Any]) -> Exception:
    code = error.get("code")
    if type(code) is int and 400 <= code < 600:  # noqa: PLR2004 - HTTP's errors
        return EndpointStatusError(f"the endpoint told of an error {code} in a reply", status_code=code)
    return EndpointReplyError("the endpoint told of an error in place of a reply")


def _calls(given: object) -> tuple[tuple[tuple[str, str | dict[str, Any]], ...], int]:
    """Read the tool calls, arguments as they stand: only their raw text shows duplicate keys."""
    if not given:
        return (), 0
    listed = given if isinstance(given, list) else [given]
    functions = [one.get("function") if isinstance(one, dict) else None for one in listed]
    calls = tuple(
        (one["name"], one["arguments"])
        for one in functions
        if isinstance(one, dict)
        and isinstance(one.get("name"), str)
        and isinstance(one.get("arguments"), str | dict)
    )
    return calls, len(listed) - len(calls)


def _text(content: object) -> str:
    """Read the text of a message, given whole or in parts."""
    if isinstance(content, list):
        return "".join(_word(one.get("text")) for one in content if isinstance(one, dict))
    return _word(content)


def _word(given: object) -> str:
    return given if isinstance(given, str) else ""


def _count(given: object) -> int:
    return given if type(given) is int and given >= 0 else 0


def checked_name(model: object) -> str:
    """Check the name of a model at an endpoint."""
    if not isinstance(model, str) or not model.strip():
        raise ConfigurationError(f"model is the model's name at the endpoint, not {model!r}")
    return model


def _checked_extra(extra: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    taken = sorted(_OURS & extra.keys())
    if taken:
        raise ConfigurationError(
            f"extra holds no {', '.join(taken)}: these have a setting, or are the judge's own"
        )
    try:
        _JSON.encode(dict(extra))
    except (TypeError, ValueError) as error:
        raise ConfigurationError("extra holds only what can be written as JSON") from error
    return dict(extra)
