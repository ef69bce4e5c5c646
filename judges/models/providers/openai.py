"""The direct client for models behind any OpenAI-compatible endpoint, without a provider's package."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Generator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic import BaseModel, JsonValue

from judges.errors import ConfigurationError, shortened
from judges.model import ModelRequest, ModelResponse
from judges.models.endings import reason_in
from judges.models.methods import Method, Plan, checked_methods, forced_tool, response_format
from judges.models.providers.endpoint import Connected, Endpoint, EndpointResponse
from judges.models.providers.endpoint_errors import EndpointReplyError, EndpointStatusError, error_in
from judges.runtime import flow
from judges.runtime.no_requests import check_allowed
from judges.verdict import Usage

RETRIES = 2
"""How often the driver repeats a call whose transport failed."""

_METHODS: tuple[Method, ...] = ("json_schema", "tools", "text")
_PATH = "/chat/completions"
_RESERVED = {
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

    The reply is requested by the strongest method that the endpoint supports: a JSON schema that it enforces, else
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
        temperature: Sampling temperature; None uses the endpoint's default.
        max_tokens: Longest reply in tokens; None uses the endpoint's default. A cut reply is never accepted.
        timeout_s: Seconds until a reply must be complete.
        retries: How often the driver repeats a call whose transport failed.
        headers: Further headers to send, for instance Azure's `api-key`.
        endings: Further words with which the endpoint ends a whole reply, beside "stop", "completed" and the like:
            a reply with any other `finish_reason` is not accepted.
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
        endings: Collection[str] = (),
        extra: Mapping[str, JsonValue] | None = None,
    ) -> None:
        self.name = checked_name(model)
        self.retries = retries
        self._extra = _checked_extra(extra or {})
        self._max_tokens = max_tokens
        self._endings = frozenset((endings,) if isinstance(endings, str) else endings)
        self._endpoint = Endpoint(base_url, api_key=api_key, headers=headers, timeout_s=timeout_s)
        self._plan = Plan(
            _METHODS if method is None else checked_methods(method),
            temperature,
            None if max_tokens is None else "max_tokens",
        )
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
        """Name, address, and a digest of all settings that change the model's replies."""
        return self._identity

    def _compute_identity(self, base_url: str) -> str:
        settings = [base_url, self._plan.methods, self._plan.temperature, self._max_tokens, self._extra]
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
        return f"{type(self).__name__}:{self.name}:{self.base_url}:{digest}"

    def send(self, request: ModelRequest) -> ModelResponse:
        """Send a request and wait for the reply.

        Raises:
            judges.models.providers.endpoint_errors.EndpointError: If the request fails.
            ConfigurationError: If requests are forbidden here, or urllib3 is missing.
        """
        return flow.run(self._exchange(request), partial(self._endpoint.post, _PATH))

    async def asend(self, request: ModelRequest) -> ModelResponse:
        """Send a request without blocking; otherwise as `send`, with aiohttp."""
        return await flow.arun(self._exchange(request), partial(self._endpoint.apost, _PATH))

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
            if http.status == 200:  # noqa: PLR2004 - HTTP's own number
                response = self._with_known_ending(parse_completion(http.body))
                self._plan = plan.settings_on(self._plan) if request.text else plan.after_response(response)
                return response
            lesser = plan.after_error(http.status, error_in(http.body))
            if lesser is None:
                raise self._endpoint.status_error(http, (text for _, text in request.messages))
            plan = lesser

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


def parse_completion(body: bytes) -> ModelResponse:
    """Parse a chat completion; the model's reply in it is not validated yet.

    Raises:
        EndpointReplyError: If it is not a chat completion with exactly one choice.
        EndpointStatusError: If it is an error sent with status 200, as some gateways do.
    """
    try:
        payload = json.loads(body.decode())
    except (ValueError, RecursionError):
        raise EndpointReplyError("the endpoint's reply is not JSON") from None
    choices = payload.get("choices") if isinstance(payload, dict) else None
    if isinstance(payload, dict) and not choices and isinstance(payload.get("error"), dict):
        raise _error_inside(payload["error"])
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
        finish_reason=reason_in(choices[0].get("finish_reason")),
        refusal=_string(message.get("refusal")),
        usage=usage_in(payload),
        model=_string(payload.get("model")) or None,
    )


def usage_in(payload: Mapping[str, Any], *, without_reply: int | None = None) -> Usage:
    """Return what a request consumed, as the endpoint counted it.

    Args:
        payload: The response.
        without_reply: Reply tokens where the endpoint reports none: 0 for a request without a reply.
    """
    usage = payload.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return Usage.of_call(usage.get("prompt_tokens"), usage.get("completion_tokens", without_reply))


def _error_inside(error: Mapping[str, Any]) -> Exception:
    code = error.get("code")
    if type(code) is int and 400 <= code < 600:  # noqa: PLR2004 - HTTP's errors
        return EndpointStatusError(f"the endpoint told of an error {code} in a reply", status_code=code)
    return EndpointReplyError("the endpoint told of an error in place of a reply")


def _calls(tool_calls: object) -> tuple[tuple[tuple[str, str | dict[str, Any]], ...], int]:
    """Return the tool calls, arguments unparsed as only raw text shows duplicate keys, and how many are broken."""
    if not tool_calls:
        return (), 0
    listed = tool_calls if isinstance(tool_calls, list) else [tool_calls]
    functions = [call.get("function") if isinstance(call, dict) else None for call in listed]
    calls = tuple(
        (function["name"], function["arguments"])
        for function in functions
        if isinstance(function, dict)
        and isinstance(function.get("name"), str)
        and isinstance(function.get("arguments"), str | dict)
    )
    return calls, len(listed) - len(calls)


def _text(content: object) -> str:
    """Return the text of a message, whose content may be a text or a list of parts."""
    if isinstance(content, list):
        return "".join(_string(part.get("text")) for part in content if isinstance(part, dict))
    return _string(content)


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def checked_name(model: object) -> str:
    """Return the name of a model at an endpoint, checked."""
    if not isinstance(model, str) or not model.strip():
        raise ConfigurationError(f"model is the model's name at the endpoint, not {shortened(model)}")
    return model


def _checked_extra(extra: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    taken = sorted(_RESERVED & extra.keys())
    if taken:
        raise ConfigurationError(
            f"extra holds no {', '.join(taken)}: these have a setting, or are the judge's own"
        )
    try:
        _JSON.encode(dict(extra))
    except (TypeError, ValueError) as error:
        raise ConfigurationError("extra holds only what can be written as JSON") from error
    return dict(extra)
