"""Putting one question to a model: send, retry the transport, read strictly, repair once.

What happens next is decided in `_inquire`, without I/O; `complete` and `acomplete` carry it out.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pydantic import BaseModel

from judges.errors import AskFailed, ConfigurationError
from judges.model import JudgeModel, ModelRequest, ModelResponse
from judges.models import retry
from judges.models.dialects.general import JSON_OBJECT
from judges.models.dialects.protocol import Dialect
from judges.models.parse import Unreadable
from judges.models.render import fresh_nonce, repair_request
from judges.requests import Ask
from judges.runtime import budget
from judges.verdict import Usage

_MOST_SHOWN = 4_000
"""Most characters of an unreadable reply that are kept, and sent back with the fault."""

REPAIRS = 1
"""How often a model is told what was wrong with its reply before the verdict is `invalid_output`."""

_UNREADABLE_NAMES = {
    "ContentFilterFinishReasonError",
    "LengthFinishReasonError",
    "OutputParserException",
    "ValidationError",
}


@dataclass(frozen=True, slots=True)
class Completion:
    """A reply that fits the schema, and what it cost."""

    value: BaseModel
    usage: Usage
    model: str | None


def complete(ask: Ask) -> Completion:
    """Put a question to its model.

    Raises:
        AskFailed: If the model cannot be reached, or does not reply in the shape asked for.
        ConfigurationError: If the model is set up wrongly, or `no_model_requests` forbids the call.
    """
    inquiry, tries = _inquire(ask), _RetryBudget(ask.model.retries)
    request = next(inquiry)
    while True:
        try:
            reply: ModelResponse | AskFailed = _send(ask.model, request, tries)
        except AskFailed as failure:
            reply = failure
        try:
            request = inquiry.send(reply)
        except StopIteration as end:
            return _reply(end.value)


async def acomplete(ask: Ask) -> Completion:
    """Put a question to its model without blocking; otherwise as `complete`."""
    inquiry, tries = _inquire(ask), _RetryBudget(ask.model.retries)
    request = next(inquiry)
    while True:
        try:
            reply: ModelResponse | AskFailed = await _asend(ask.model, request, tries)
        except AskFailed as failure:
            reply = failure
        try:
            request = inquiry.send(reply)
        except StopIteration as end:
            return _reply(end.value)


def _reply(value: Any) -> Completion:
    assert isinstance(value, Completion)  # noqa: S101 - what `_inquire` returns
    return value


def _inquire(ask: Ask) -> Generator[ModelRequest, ModelResponse | AskFailed, Completion]:
    nonce = fresh_nonce()
    dialect: Dialect = getattr(ask.model, "dialect", JSON_OBJECT)
    request = dialect.compose(ask, nonce)
    usage = Usage()
    repairs = REPAIRS
    while True:
        raw = yield request
        if isinstance(raw, AskFailed):
            raise AskFailed(raw.reason, raw.detail, usage=usage + raw.usage, raw=_without(nonce, raw.raw)) from raw
        usage += raw.usage
        try:
            value = _checked(dialect.read(raw, ask.schema), ask)
        except Unreadable as unreadable:
            fault, shown = _without(nonce, str(unreadable)), _without(nonce, _shown(raw))
            if not unreadable.mendable or repairs == 0:
                raise AskFailed("invalid_output", fault, usage=usage, raw=shown) from None
            repairs -= 1
            request = repair_request(request, shown, fault)
        else:
            return Completion(_without(nonce, value), usage, raw.model)


def _checked(value: Any, ask: Ask) -> BaseModel:
    fault = None if ask.check is None else ask.check(value)
    if fault:
        raise Unreadable(fault)
    assert isinstance(value, BaseModel)  # noqa: S101 - what a dialect reads
    return value


def _shown(raw: ModelResponse) -> str:
    parts = [raw.text, raw.refusal, *(f"{name}({arguments})" for name, arguments in raw.calls)]
    shown = " ".join(part for part in parts if part)
    shown = shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]} [cut]"
    return f"{shown} [finish reason: {raw.finish_reason}]" if raw.finish_reason else shown


def _without(nonce: str, value: Any) -> Any:
    """Keep the fence's number out of whatever a model says, so that nobody can learn it."""
    if type(value) is str:
        return re.sub(nonce, "", value, flags=re.IGNORECASE) if nonce in value.lower() else value
    if isinstance(value, BaseModel):
        found = {name: kept for name, one in value if (kept := _without(nonce, one)) != one}
        return value.model_copy(update=found) if found else value
    if isinstance(value, list | tuple):
        return type(value)(_without(nonce, one) for one in value)
    if isinstance(value, dict):
        return {_without(nonce, name): _without(nonce, one) for name, one in value.items()}
    return value


class _RetryBudget:
    """How often the transport may still be tried again, over a question and its repair together."""

    def __init__(self, left: int) -> None:
        self.left = left

    def claim(self) -> None:
        self.left -= 1


def _send(model: JudgeModel, request: ModelRequest, tries: _RetryBudget) -> ModelResponse:
    budget.take()
    try:
        try:
            reply = model.send(request)
        except AskFailed:
            budget.add(Usage(), None)  # nothing was sent, so nothing is spent
            raise
        except Exception as first:  # noqa: BLE001 - raised again unless it may pass
            reply = retry.persist(partial(model.send, request), first, tries.left, tries.claim)
    except (ConfigurationError, AskFailed):
        raise
    except Exception as error:
        raise _failure(error, model) from error
    return replace(reply, usage=budget.add(reply.usage, reply.model or model.name))


async def _asend(model: JudgeModel, request: ModelRequest, tries: _RetryBudget) -> ModelResponse:
    budget.take()
    try:
        try:
            reply = await model.asend(request)
        except AskFailed:
            budget.add(Usage(), None)  # nothing was sent, so nothing is spent
            raise
        except Exception as first:  # noqa: BLE001 - raised again unless it may pass
            reply = await retry.apersist(partial(model.asend, request), first, tries.left, tries.claim)
    except (ConfigurationError, AskFailed):
        raise
    except Exception as error:
        raise _failure(error, model) from error
    return replace(reply, usage=budget.add(reply.usage, reply.model or model.name))


def _failure(error: Exception, model: JudgeModel) -> AskFailed:
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
