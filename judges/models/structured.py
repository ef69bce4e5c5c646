"""Structured output from a model: send, retry the transport, parse strictly, repair once.

What happens next is decided in `_exchange`, without I/O; `complete` and `acomplete` carry it out.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from pydantic import BaseModel

from judges.errors import AskFailed, ConfigurationError
from judges.model import JudgeModel, ModelRequest, ModelResponse
from judges.models import retry
from judges.models.dialects.general import dialect_of
from judges.models.parse import Unreadable
from judges.models.render import fresh_nonce, repair_request
from judges.requests import Ask, Completion
from judges.runtime import budget, calls, flow
from judges.verdict import Usage

_LONGEST_RAW = 4_000
"""Most characters of an unreadable reply that are kept, and sent back with the fault."""

_NOTHING = Usage()
REPAIRS = 1
"""How often a model is told what was wrong with its reply before the verdict is `invalid_output`."""

_UNREADABLE_NAMES = {
    "ContentFilterFinishReasonError",
    "LengthFinishReasonError",
    "OutputParserException",
    "ValidationError",
}


class _Send(NamedTuple):
    """Send a request: once, or, after it failed, as often as its transport may still be retried."""

    request: ModelRequest
    failure: Exception | None = None


class _RetryBudget:
    """Retries of the transport that are left, over a question and its repair together."""

    def __init__(self, left: int) -> None:
        self.left = left

    def claim(self) -> None:
        self.left -= 1


def complete(ask: Ask) -> Completion:
    """Ask a model and return a reply that fits the schema.

    Raises:
        AskFailed: If the model cannot be reached, or does not reply in the shape asked for.
        ConfigurationError: If the model is set up wrongly, or `no_model_requests` forbids the call.
    """
    send_once, retries = calls.sender(ask.model, shared=ask.shared), _RetryBudget(ask.model.retries)

    def send(effect: _Send) -> ModelResponse:
        with budget.counted():
            if effect.failure is None:
                return send_once(effect.request)
            return retry.persist(partial(send_once, effect.request), effect.failure, retries.left, retries.claim)

    return flow.run(_exchange(ask), send)


async def acomplete(ask: Ask) -> Completion:
    """Ask a model without blocking; otherwise as `complete`."""
    send_once, retries = calls.asender(ask.model, shared=ask.shared), _RetryBudget(ask.model.retries)

    async def send(effect: _Send) -> ModelResponse:
        with budget.counted():
            if effect.failure is None:
                return await send_once(effect.request)
            asend = partial(send_once, effect.request)
            return await retry.apersist(asend, effect.failure, retries.left, retries.claim)

    return await flow.arun(_exchange(ask), send)


def _exchange(ask: Ask) -> Generator[_Send, ModelResponse, Completion]:
    nonce = fresh_nonce()
    dialect = dialect_of(ask.model)
    request = dialect.compose(ask, nonce)
    usage = _NOTHING
    repairs = REPAIRS
    while True:
        try:
            response = yield from _send_within_budget(ask.model, request)
        except AskFailed as failure:
            raw = _without(nonce, failure.raw)
            raise AskFailed(failure.reason, failure.detail, usage=usage + failure.usage, raw=raw) from failure
        usage = response.usage if usage is _NOTHING else usage + response.usage
        try:
            value = _checked(dialect.read(response, ask.schema), ask)
        except Unreadable as unreadable:
            fault, raw = _without(nonce, str(unreadable)), _without(nonce, _raw_text(response))
            if not unreadable.mendable or repairs == 0:
                raise AskFailed("invalid_output", fault, usage=usage, raw=raw) from None
            repairs -= 1
            request = repair_request(request, raw, fault)
        else:
            return Completion(_without(nonce, value), usage=usage, model=response.model)


def _send_within_budget(
    model: JudgeModel, request: ModelRequest
) -> Generator[_Send, ModelResponse, ModelResponse]:
    """Send a request, again where its transport fails, and count what it consumed."""
    budget.take()
    try:
        try:
            response = yield _Send(request)
        except AskFailed:
            budget.add(Usage(), None)  # nothing was sent, so nothing is spent
            raise
        except Exception as failure:  # noqa: BLE001 - raised again unless it may pass
            response = yield from _repeated(request, failure)
    except (ConfigurationError, AskFailed):
        raise
    except Exception as error:
        raise _ask_failed(error, model) from error
    usage = budget.add(response.usage, response.model or model.name)
    return response if usage is response.usage else replace(response, usage=usage)


def _repeated(request: ModelRequest, failure: Exception) -> Generator[_Send, ModelResponse, ModelResponse]:
    """Send a request again that failed, and count it as failed if it does to the end."""
    try:
        return (yield _Send(request, failure))
    except Exception:
        budget.fail()
        raise


def _checked(value: Any, ask: Ask) -> BaseModel:
    fault = None if ask.check is None else ask.check(value)
    if fault:
        raise Unreadable(fault)
    assert isinstance(value, BaseModel)  # noqa: S101 - what a dialect reads
    return value


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


def _ask_failed(error: Exception, model: JudgeModel) -> AskFailed:
    """Map a provider's error; one raised by its own parser means that the model did reply."""
    left = budget.seconds_left()
    if left is not None and left <= 0:
        return AskFailed("deadline", f"the deadline passed while {model.name} was asked", usage=Usage(calls=1))
    unreadable = any(kind.__name__ in _UNREADABLE_NAMES for kind in type(error).__mro__)
    return AskFailed(
        "invalid_output" if unreadable else "judge_failed",
        f"{retry.kind_of(error)} from {model.name}",
        usage=Usage(calls=1),
        raw=str(getattr(error, "llm_output", None) or ""),
    )
