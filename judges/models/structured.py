"""Structured output from a model: send, retry the transport, parse strictly, repair once.

What happens next is decided in `_exchange`, without I/O; `complete` and `acomplete` carry it out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple, get_args

from pydantic import BaseModel

from judges.errors import AskFailed, ConfigurationError, unfit
from judges.model import Distribution, JudgeModel, ModelRequest, ModelResponse
from judges.models import prompt_and_reply, retry
from judges.models.providers.http_errors import error_in
from judges.requests import Ask, Completion
from judges.runtime import flow
from judges.runtime.budget import EARLY_S, Allowance
from judges.runtime.observation import Observation, observing
from judges.runtime.prices import with_cost
from judges.verdict import Usage

_LONGEST_RAW = 4_000
"""Most characters of an unreadable reply that are kept, and sent back with the fault."""

_SHORTEST_COPY = 20
"""Characters from which two equal rationales are no coincidence."""

_NOTHING = Usage()
_UNKNOWN = Distribution(reason="the model's client, or its own format, gives no logprobs")
REPAIRS = 1
"""How often a model is told what was wrong with its reply before the verdict is `invalid_output`."""


class _Send(NamedTuple):
    """Send a request: once, or, after it failed, as often as its transport may still be retried."""

    request: ModelRequest
    failure: Exception | None = None


class _RetryBudget:
    """Retries of the transport that are left, over a question and its repair together."""

    def __init__(self, waiting_count: int) -> None:
        self.left = waiting_count

    def claim(self) -> None:
        self.left -= 1


def complete(ask: Ask, here: Observation) -> Completion:
    """Ask a model and return a reply that fits the schema.

    Args:
        ask: The question.
        here: What bounds the call, and who watches it.

    Raises:
        AskFailed: If the model cannot be reached, or does not reply in the shape asked for.
        ConfigurationError: If the model is set up wrongly, or `no_model_requests` forbids the call.
    """
    model, watcher, retries = ask.model, here.call_watcher, _RetryBudget(ask.model.retries)
    send_once = model.send if watcher is None else partial(watcher.send, model, shared=ask.shared)

    def send(effect: _Send) -> ModelResponse:
        if effect.failure is None:
            return send_once(effect.request)
        return retry.persist(partial(send_once, effect.request), effect.failure, retries.left, retries.claim)

    with observing(is_counted=True):
        return flow.run(_exchange(ask, here), send)


async def acomplete(ask: Ask, here: Observation) -> Completion:
    """Ask a model without blocking; otherwise as `complete`."""
    model, watcher, retries = ask.model, here.call_watcher, _RetryBudget(ask.model.retries)
    send_once = model.asend if watcher is None else partial(watcher.asend, model, shared=ask.shared)

    async def send(effect: _Send) -> ModelResponse:
        if effect.failure is None:
            return await send_once(effect.request)
        asend = partial(send_once, effect.request)
        return await retry.apersist(asend, effect.failure, retries.left, retries.claim)

    with observing(is_counted=True):
        return await flow.arun(_exchange(ask, here), send)


def _exchange(ask: Ask, here: Observation) -> Generator[_Send, ModelResponse, Completion]:
    allowance, begun = here.allowance, here.begun
    nonce = prompt_and_reply.fresh_nonce() if begun is None else begun.nonce
    ask = ask if begun is None else prompt_and_reply.in_pieces(ask, begun)
    dialect = prompt_and_reply.dialect_of(ask.model, is_digit=ask.rated == "digit")
    request = _composed(dialect, ask, nonce)
    usage = _NOTHING
    repairs = REPAIRS
    while True:
        try:
            response = yield from _send_within_budget(ask.model, request, allowance)
        except AskFailed as failure:
            raw = _without(nonce, failure.raw)
            raise AskFailed(failure.reason, failure.detail, usage=usage + failure.usage, raw=raw) from failure
        usage = response.usage if usage is _NOTHING else usage + response.usage
        try:
            value = _checked(dialect.read(prompt_and_reply.without_quotes(response, ask), ask.schema), ask)
        except prompt_and_reply.Unreadable as unreadable:
            fault, raw = _without(nonce, str(unreadable)), _without(nonce, _raw_text(response))
            if not unreadable.mendable or repairs == 0:
                raise AskFailed("invalid_output", fault, usage=usage, raw=raw) from None
            repairs -= 1
            request = prompt_and_reply.repair_request(request, raw, fault)
        else:
            if _copies_example(value, ask):
                if repairs == 0:
                    raw = _without(nonce, _raw_text(response))
                    raise AskFailed("copied_example", _COPIED, usage=usage, raw=raw)
                repairs -= 1
                request = _composed(dialect, replace(ask, examples=()), nonce)  # with nothing to copy
                continue
            reply = _without(nonce, value)
            answer = (reply, response.ratings or _UNKNOWN) if ask.rated else reply
            return Completion(answer, usage=usage, model=response.model)


_COPIED = "the rationale is that of a worked example of the prompt, word for word"


def _composed(dialect: prompt_and_reply.Dialect, ask: Ask, nonce: str) -> ModelRequest:
    request = dialect.compose(ask, nonce)
    return replace(request, is_rated=True) if ask.rated == "likelihood" and not request.text else request


def _send_within_budget(
    model: JudgeModel, request: ModelRequest, allowance: Allowance | None
) -> Generator[_Send, ModelResponse, ModelResponse]:
    """Send a request, again where its transport fails, and count what it consumed."""
    if allowance is not None:
        allowance.take()
    try:
        try:
            response = yield _Send(request)
        except AskFailed:
            if allowance is not None:
                allowance.add(Usage(), None)  # nothing was sent, so nothing is spent
            raise
        except Exception as failure:  # noqa: BLE001 - raised again unless it may pass
            response = yield from _repeated(request, failure, allowance)
    except (ConfigurationError, AskFailed):
        raise
    except Exception as error:
        raise _ask_failed(error, model, allowance) from error
    usage = response.usage
    if allowance is not None:
        usage = allowance.add(usage, response.model, requested=model.name)
    elif usage.cost is not None:
        usage = with_cost(usage, None, {})
    return response if usage is response.usage else replace(response, usage=usage)


def _repeated(
    request: ModelRequest, failure: Exception, allowance: Allowance | None
) -> Generator[_Send, ModelResponse, ModelResponse]:
    """Send a request again that failed, and count it as failed if it does to the end."""
    try:
        return (yield _Send(request, failure))
    except Exception:
        if allowance is not None:
            allowance.fail()
        raise


def _checked(value: Any, ask: Ask) -> BaseModel:
    fault = None if ask.check is None else ask.check(value)
    if fault:
        raise prompt_and_reply.Unreadable(fault)
    assert isinstance(value, BaseModel)  # noqa: S101 - what a dialect reads
    return value


def _copies_example(value: BaseModel, ask: Ask) -> bool:
    """Check whether the rationale of a reply is that of a worked example about something else.

    A small model repeats the example that it was shown, rating included, whatever it was given to judge.
    """
    rationale = " ".join(str(getattr(value, "rationale", "")).split()).casefold()
    if len(rationale) < _SHORTEST_COPY:
        return False
    copied = [example for example in ask.examples if rationale == _rationale_of(example.reply)]
    if not copied:
        return False
    judged = [json.dumps(part, ensure_ascii=False) for part in ask.data.values() if isinstance(part, str) and part]
    return not judged or any(not all(part in example.body for part in judged) for example in copied)


@lru_cache(maxsize=512)
def _rationale_of(reply: str) -> str | None:
    """Return the rationale in a worked example's reply; None where it has none."""
    try:
        fields = json.loads(reply)
    except ValueError:
        return None
    rationale = fields.get("rationale") if isinstance(fields, dict) else None
    return " ".join(rationale.split()).casefold() if isinstance(rationale, str) else None


def _raw_text(response: ModelResponse) -> str:
    parts = [response.text, response.refusal, *(f"{name}({arguments})" for name, arguments in response.calls)]
    text = " ".join(part for part in parts if part)
    text = text if len(text) <= _LONGEST_RAW else f"{text[:_LONGEST_RAW]} [cut]"
    return f"{text} [finish reason: {response.finish_reason}]" if response.finish_reason else text


def _without(nonce: str, value: Any) -> Any:
    """Return what a model wrote without the fence's number, so that nobody can learn it."""
    if type(value) is str:
        return re.sub(nonce, "", value, flags=re.IGNORECASE) if nonce in value.lower() else value
    if isinstance(value, BaseModel):
        fields = vars(value).items()
        changes = {name: clean for name, field in fields if (clean := _without(nonce, field)) != field}
        return value.model_copy(update=changes) if changes else value
    if isinstance(value, list | tuple):
        return type(value)(_without(nonce, item) for item in value)
    if isinstance(value, dict):
        return {_without(nonce, name): _without(nonce, item) for name, item in value.items()}
    return value


def _ask_failed(error: Exception, model: JudgeModel, allowance: Allowance | None) -> AskFailed:
    """Map a provider's error; one raised by its own parser means that the model did reply."""
    seconds_left = None if allowance is None else allowance.seconds_left
    if seconds_left is not None and seconds_left <= EARLY_S:
        return AskFailed("deadline", f"the deadline passed while {model.name} was asked", usage=Usage(calls=1))
    lengths = _overflow(error)
    if lengths is not None:
        fault = f"the prompt does not fit the context of {model.name}{lengths}"
        detail = f"{fault}: {retry.kind_of(error)}; {_SHORTER}"
        return AskFailed("judge_failed", detail, usage=Usage(calls=1))
    return AskFailed(
        "invalid_output" if retry.means(error, "unreadable") else "judge_failed",
        f"{retry.kind_of(error)} from {model.name}{retry.place_of(error)}",
        usage=Usage(calls=1),
        raw=str(getattr(error, "llm_output", None) or ""),
    )


_OVERFLOW = re.compile(r"context.?(?:length|size|window)|prompt is too long|too many tokens")
_SHORTER = "judge less text at once, or ask a model with a longer context"


def _overflow(error: Exception) -> str | None:
    """Return the two lengths that a provider's error names, if it says that a prompt was too long, else None.

    The provider's own message is read, as the one in the error masks words that the prompt has, too.
    """
    if retry.status_of(error) not in _TOO_LONG:
        return None
    response = getattr(error, "upstream", None)
    message = str(error) if response is None else error_in(response.body)
    if not _OVERFLOW.search(message.lower()):
        return None
    counts = sorted(int(digits.replace(",", "")) for digits in _TOKENS.findall(message))
    return f" ({counts[-1]} tokens, where {counts[0]} fit)" if len(counts) > 1 else ""


Method = Literal["json_schema", "tools", "text"]
"""`json_schema`: the endpoint enforces the schema. `tools`: one forced call of one tool. `text`: only the prompt
asks for one JSON object. Replies of all three are read by the same strict rules."""

_BAD_REQUEST = {400, 422}
_TOO_LONG = {400, 413, 422}
_TOKENS = re.compile(r"\b(\d[\d,]*) tokens")
_REFUSALS = {400, 404, 405, 422, 500, 501}
_NOT_ABOUT_METHODS = re.compile(
    r"context.?length|context.?size|context.?window|content.?(?:filter|management|policy)"
)
_ABOUT = {
    "json_schema": re.compile(
        r"response.?format|json.?schema|structured.?output|schema|grammar|guided|output.?config"
    ),
    "tools": re.compile(r"\btool|function|schema"),
}


KEYWORDS = ("prefixItems", "minItems", "maxLength")
"""What a schema may say beyond its form: the number of each item, how many there are, how long texts are."""

_WORDS = {
    "prefixItems": ("prefixitems", "const"),
    "minItems": ("minitems", "maxitems"),
    "maxLength": ("maxlength",),
}
"""Words by which an endpoint's error names a keyword, in lower case."""

_ABOUT_LENGTH = re.compile(r"max_(?:completion_|output_)?tokens")
_LEAST = re.compile(r"(?:>=|at least|greater than or equal to|minimum (?:value )?(?:is|of))\s*(\d+)")
"""Says in an error how long a reply may be at least."""

_NO_SCHEMA = re.compile(
    r"(?<!features )not support|unsupported|unknown|unrecognized|no such|not found|not available|extra inputs"
)
"""Says of an error that the endpoint knows no schemas at all, so that fewer keywords would not help.

vLLM says of a keyword that it does not know: "The JSON schema contains features not supported by xgrammar."
"""


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """Method and settings with which a model is asked.

    Args:
        methods: The method in use, and those to try after it.
        keywords: Which of `KEYWORDS` schemas have: those that the endpoint has not refused.
        temperature: Sampling temperature to request; None sends none.
        limit: Name of the request field that limits the length of the reply; None sends none.
        proven: Whether the method has worked: then a reply that ignores it is a bad reply, not a missing feature.
        logprobs: How many alternatives of each token are requested; 0 requests none.
        digits: The digits one of which is the whole reply; none for a reply that is an object.
        most: Longest reply of one digit, in tokens; 0 sets no limit.
    """

    methods: tuple[Method, ...]
    temperature: float | None = None
    limit: Literal["max_tokens", "max_completion_tokens"] | None = None
    proven: bool = False
    keywords: tuple[str, ...] = ()
    logprobs: int = 0
    digits: tuple[str, ...] = ()
    most: int = 1

    @property
    def method(self) -> Method:
        """The method in use."""
        return self.methods[0]

    def after_error(self, status: int | None, message: str) -> RequestPlan | None:
        """Return a plan without what the provider refused; None if the error has another cause.

        Args:
            status: HTTP status of the error.
            message: The provider's error message.
        """
        message = message.lower()
        if status not in _REFUSALS or _NOT_ABOUT_METHODS.search(message):
            return None
        if self.temperature is not None and status in _BAD_REQUEST and "temperature" in message:
            return replace(self, temperature=None)
        if self.limit == "max_tokens" and "max_completion_tokens" in message:
            return replace(self, limit="max_completion_tokens")
        if self.logprobs and "logprob" in message:
            return replace(self, logprobs=0)
        if self.digits and self.most and self.limit is not None and _ABOUT_LENGTH.search(message):
            least = _LEAST.search(message)
            return replace(self, most=int(least[1]) if least and int(least[1]) > self.most else 0)
        pattern = _ABOUT.get(self.method)
        lesser = None
        if pattern is not None and pattern.search(message):
            lesser = self._fewer_keywords(message) or self._next_method()
        return replace(self, logprobs=0) if lesser is None and self.logprobs else lesser

    def for_digit(self, *, is_enforced: bool = True) -> RequestPlan:
        """Return the plan for replies of one digit, enforced by a schema, or else asked for by the prompt."""
        by_schema = is_enforced and "json_schema" in self.methods
        methods: tuple[Method, ...] = ("json_schema", "text") if by_schema else ("text",)
        return RequestPlan(methods, self.temperature, "max_tokens")

    def after_response(self, response: ModelResponse) -> RequestPlan:
        """Return the plan after a reply: proven if the method worked, or the next one if it did not.

        It did not work if the model ignored it, or if the arguments of a tool call were lost on the way.
        """
        if self.proven or response.refusal or prompt_and_reply.ending_of(response.finish_reason) != "finished":
            return self
        lost = not response.broken_calls and any(arguments is None for _, arguments in response.calls)
        if not lost and (response.calls or response.text.lstrip().startswith("{")):
            return replace(self, proven=True)
        return self._next_method() or self if lost or response.text.strip() else self

    def as_text(self) -> RequestPlan:
        """Return this plan with the method `text`."""
        return replace(self, methods=("text",), proven=False)

    def settings_on(self, other: RequestPlan) -> RequestPlan:
        """Return `other` with the temperature and limit of this plan."""
        return replace(other, temperature=self.temperature, limit=self.limit)

    def _fewer_keywords(self, message: str) -> RequestPlan | None:
        """Return a plan without the keywords that an error names, or without any if it may mean one of them."""
        keywords_left = tuple(
            keyword for keyword in self.keywords if not any(word in message for word in _WORDS[keyword])
        )
        if len(keywords_left) < len(self.keywords):
            return replace(self, keywords=keywords_left)
        return replace(self, keywords=()) if self.keywords and not _NO_SCHEMA.search(message) else None

    def _next_method(self) -> RequestPlan | None:
        return replace(self, methods=self.methods[1:], proven=False) if len(self.methods) > 1 else None


def checked_methods(method: object) -> tuple[Method, ...]:
    """Return the one method that the user chose, as a tuple.

    Raises:
        ConfigurationError: If there is no such method.
    """
    for known_method in get_args(Method):
        if method == known_method:
            return (known_method,)
    raise unfit(f"method is one of {', '.join(get_args(Method))} or None", method)


Sizes = tuple[tuple[str, int], ...]
"""How many items the lists of a reply have, as (field, number)."""


@lru_cache(maxsize=256)
def response_format(
    schema: type[BaseModel], sizes: Sizes = (), keywords: tuple[str, ...] = (), most_items: int | None = None
) -> dict[str, Any]:
    """Return a schema as OpenAI's `response_format`: strict wherever each object's keys are known.

    Args:
        schema: The class of the reply.
        sizes: As for `_narrowed_schema`.
        keywords: As for `_narrowed_schema`; none leaves the schema as wide as the class is.
        most_items: As for `_narrowed_schema`.
    """
    json_schema = _narrowed_schema(schema, sizes, keywords, most_items)
    name = re.sub(r"[^\w-]", "_", schema.__name__, flags=re.ASCII)[:64]
    value = {"name": name, "schema": json_schema, "strict": _is_closed(json_schema)}
    return {"type": "json_schema", "json_schema": value}


@lru_cache(maxsize=256)
def digit_format(digits: tuple[str, ...]) -> dict[str, Any]:
    """Return the `response_format` of a reply that is one of some digits; llama.cpp and vLLM enforce it."""
    schema = {"type": "integer", "enum": [int(digit) for digit in digits]}
    return {"type": "json_schema", "json_schema": {"name": "rating", "schema": schema, "strict": True}}


@lru_cache(maxsize=256)
def forced_tool(
    schema: type[BaseModel], sizes: Sizes = (), keywords: tuple[str, ...] = (), most_items: int | None = None
) -> dict[str, Any]:
    """Return the request settings that offer a schema as one tool that must be called; see `response_format`."""
    function = {
        "name": schema.__name__,
        "description": (schema.__doc__ or schema.__name__).strip(),
        "parameters": _narrowed_schema(schema, sizes, keywords, most_items),
    }
    return {
        "tools": [{"type": "function", "function": function}],
        "tool_choice": {"type": "function", "function": {"name": schema.__name__}},
    }


def _narrowed_schema(
    schema: type[BaseModel], sizes: Sizes, keywords: tuple[str, ...], most_items: int | None = None
) -> dict[str, Any]:
    """Return the closed JSON schema of a class, with what is known of this one reply.

    Args:
        schema: The class; its `text_limits`, if it has them, say how long texts are at most.
        sizes: How many items its lists have.
        keywords: Which of `KEYWORDS` may be used.
        most_items: Most items of its other lists, where its texts have limits, too.
    """
    closed = closed_schema(schema)
    definitions = closed.get("$defs", {})
    for name, count in sizes:
        if name in closed["properties"]:
            closed["properties"][name] = _sized(closed["properties"][name], count, definitions, keywords)
    limits = getattr(schema, "text_limits", None)
    if limits is not None and most_items is not None and "minItems" in keywords:
        for name, part in closed["properties"].items():
            if part.get("type") == "array" and not part.keys() & {"maxItems", "prefixItems"}:
                closed["properties"][name] = {**part, "maxItems": most_items}
    if limits is not None and "maxLength" in keywords:
        _limit_texts({key: part for key, part in closed.items() if key != "$defs"}, limits[0], limits[1])
        _limit_texts(definitions, limits[1], limits[1])
    return closed


def _sized(array: dict[str, Any], count: int, definitions: dict[str, Any], keywords: tuple[str, ...]) -> Any:
    """Return the schema of a list with so many items, which are numbered from 1 where they have a number."""
    if "minItems" in keywords:
        array = {**array, "minItems": count, "maxItems": count}
    item = array.get("items", {})
    item = definitions.get(item.get("$ref", "").rpartition("/")[2], item)
    if "prefixItems" not in keywords or not count or "number" not in item.get("properties", {}):
        return array
    number = item["properties"]["number"]
    numbered = [
        {**item, "properties": {**item["properties"], "number": {**number, "const": place}}}
        for place in range(1, count + 1)
    ]
    return {**{key: part for key, part in array.items() if key != "items"}, "prefixItems": numbered}


def _limit_texts(node: Any, longest: int, listed: int) -> None:
    """Write the most characters of each free text into a schema."""
    if isinstance(node, list):
        for part in node:
            _limit_texts(part, longest, listed)
    if not isinstance(node, dict):
        return
    if node.get("type") == "string" and not node.keys() & {"enum", "const", "pattern", "format", "maxLength"}:
        node["maxLength"] = longest
    for key, part in node.items():
        _limit_texts(part, listed if key in ("items", "prefixItems") else longest, listed)


def closed_schema(schema: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a class, closed: no field may be left out or added.

    Fields keep their order, so that reasons come before a rating. What OpenAI's strict mode refuses is
    replaced: defaults are removed, `oneOf` becomes `anyOf`, a reference with a description beside it is inlined.
    """
    open_schema = schema.model_json_schema()
    closed: dict[str, Any] = _close(open_schema, open_schema.get("$defs", {}), frozenset())
    return closed


def _close(node: Any, definitions: dict[str, Any], inside: frozenset[str]) -> Any:
    if isinstance(node, list):
        return [_close(item, definitions, inside) for item in node]
    if not isinstance(node, dict):
        return node
    name = str(node.get("$ref", "")).rpartition("/")[2]
    if name and name in inside:
        return {"$ref": node["$ref"]}
    if name in definitions and len(node) > 1:
        node = {**definitions[name], **{key: value for key, value in node.items() if key != "$ref"}}
        inside |= {name}
    result: dict[str, Any] = {}
    for key, value in node.items():
        if key in ("properties", "$defs"):
            result[key] = {field: _close(part, definitions, inside) for field, part in value.items()}
        elif key not in ("default", "discriminator"):
            result["anyOf" if key == "oneOf" else key] = _close(value, definitions, inside)
    if isinstance(node.get("properties"), dict):
        result |= {"additionalProperties": False, "required": list(node["properties"])}
    return result


def _is_closed(node: Any) -> bool:
    """Check whether each object in a schema has a fixed set of keys."""
    if isinstance(node, list):
        return all(map(_is_closed, node))
    if not isinstance(node, dict):
        return True
    if node.get("type") == "object" and node.get("additionalProperties") is not False:
        return False
    return all(map(_is_closed, node.values()))
