"""Putting one question to a model: send, retry the transport, read strictly, repair once.

What happens next is decided in `_inquire`, without I/O; `put` and `aput` carry it out.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel
from tenacity import AsyncRetrying, Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential
from tenacity.stop import stop_base

from judges import allowance
from judges.errors import AskFailed, ConfigurationError
from judges.models.model import JudgeModel, Letter, RawReply
from judges.models.reading import Unreadable, read
from judges.models.writing import compose, fresh_nonce, repaired
from judges.requests import Ask
from judges.verdict import Usage

REPAIRS = 1
"""How often a model is told what was wrong with its reply before the verdict is `invalid_output`."""

_TRANSIENT_STATUS = {408, 409, 425, 429, 500, 502, 503, 504, 529}
_TRANSIENT_NAMES = {"APIConnectionError", "TransportError", "ConnectionError", "TimeoutError"}


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply that fits the schema, and what it cost."""

    value: BaseModel
    usage: Usage
    model: str | None


def put(ask: Ask) -> Reply:
    """Put a question to its model.

    Raises:
        AskFailed: If the model cannot be reached, or does not reply in the shape asked for.
        ConfigurationError: If the model is set up wrongly, or `no_model_requests` forbids the call.
    """
    inquiry = _inquire(ask)
    letter = next(inquiry)
    while True:
        try:
            reply: RawReply | AskFailed = _send(ask.model, letter)
        except AskFailed as failure:
            reply = failure
        try:
            letter = inquiry.send(reply)
        except StopIteration as end:
            return _reply(end.value)


async def aput(ask: Ask) -> Reply:
    """Put a question to its model without blocking; otherwise as `put`."""
    inquiry = _inquire(ask)
    letter = next(inquiry)
    while True:
        try:
            reply: RawReply | AskFailed = await _asend(ask.model, letter)
        except AskFailed as failure:
            reply = failure
        try:
            letter = inquiry.send(reply)
        except StopIteration as end:
            return _reply(end.value)


def _reply(value: Any) -> Reply:
    assert isinstance(value, Reply)  # noqa: S101 - what `_inquire` returns
    return value


def _inquire(ask: Ask) -> Generator[Letter, RawReply | AskFailed, Reply]:
    nonce = fresh_nonce()
    letter = compose(ask, nonce)
    usage = Usage()
    repairs = REPAIRS
    while True:
        raw = yield letter
        if isinstance(raw, AskFailed):
            raise AskFailed(raw.reason, raw.detail, usage=usage + raw.usage) from raw
        usage += raw.usage
        try:
            value = _without(nonce, read(raw, ask.schema))
        except Unreadable as fault:
            if not fault.mendable or repairs == 0:
                raise AskFailed("invalid_output", str(fault), usage=usage, raw=_shown(raw)) from None
            repairs -= 1
            letter = repaired(letter, _shown(raw), str(fault))
        else:
            return Reply(value, usage, raw.model)


def _shown(raw: RawReply) -> str:
    parts = [raw.text, raw.refusal, *(f"{name}({arguments})" for name, arguments in raw.calls)]
    shown = " ".join(part for part in parts if part)
    return f"{shown} [finish reason: {raw.finish_reason}]" if raw.finish_reason else shown


def _without(nonce: str, value: BaseModel) -> BaseModel:
    """Keep the fence's number out of rationale and feedback, so that nobody can learn it."""
    told = {
        name: text.replace(nonce, "")
        for name, text in value.__dict__.items()
        if isinstance(text, str) and nonce in text
    }
    return value.model_copy(update=told) if told else value


def _send(model: JudgeModel, letter: Letter) -> RawReply:
    allowance.take()
    try:
        reply = Retrying(**_retry_policy(model))(model.send, letter) if model.retries else model.send(letter)
    except Exception as error:
        raise _as_failure(error, model) from error
    return replace(reply, usage=allowance.add(reply.usage, reply.model or model.name))


async def _asend(model: JudgeModel, letter: Letter) -> RawReply:
    allowance.take()
    try:
        if model.retries == 0:
            reply = await model.asend(letter)
        else:
            reply = await AsyncRetrying(**_retry_policy(model))(model.asend, letter)
    except Exception as error:
        raise _as_failure(error, model) from error
    return replace(reply, usage=allowance.add(reply.usage, reply.model or model.name))


def _retry_policy(model: JudgeModel) -> dict[str, Any]:
    stop: stop_base = stop_after_attempt(model.retries + 1)
    return {
        "retry": retry_if_exception(_is_transient),
        "stop": allowance.stop_at_deadline(stop),
        "wait": wait_random_exponential(multiplier=0.5, max=8),
        "reraise": True,
    }


def _is_transient(error: BaseException) -> bool:
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status in _TRANSIENT_STATUS
    return any(kind.__name__ in _TRANSIENT_NAMES for kind in type(error).__mro__)


def _as_failure(error: Exception, model: JudgeModel) -> Exception:
    if isinstance(error, ConfigurationError | AskFailed):
        return error
    status = getattr(error, "status_code", None)
    told = f"{type(error).__name__} (status {status})" if isinstance(status, int) else type(error).__name__
    return AskFailed("judge_failed", f"{told} from {model.name}", usage=Usage(calls=1))
