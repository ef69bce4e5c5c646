"""An outcome as rows of the tables `outcome` and `attempt`: figures always, texts where the operator says so."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage

from graphs import Attempt, Outcome
from judges import Sample, Verdict
from judges.verdict import Usage
from refine.record.cleaning import clean, count_of, json_of, name_of, number_of, text_of
from refine.record.origin import Origin

Redact = Callable[[str], str]
"""Returns a text without what must not be stored."""

Row = dict[str, Any]
"""A row of a table, by column."""

_FINISH_REASONS = ("finish_reason", "stop_reason", "done_reason")
_MODELS = ("model_name", "model")


@dataclass(frozen=True, slots=True)
class Entry:
    """An outcome on its way into the record.

    Args:
        outcome: The outcome.
        origin: Where it comes from.
        at: When it ended, in milliseconds since the epoch.
    """

    outcome: Outcome
    origin: Origin
    at: int


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one outcome."""

    outcome: Row
    attempts: tuple[Row, ...]


def now_ms() -> int:
    """Return the time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def rows_of(entry: Entry, *, texts: bool, redact: Sequence[Redact] = ()) -> Rows:
    """Return the rows of an outcome.

    Args:
        entry: The outcome.
        texts: Whether to store what was asked, answered and said about it.
        redact: Applied to each of these texts, in order.
    """
    outcome = entry.outcome
    row = outcome_row(entry, texts=texts, redact=redact)
    attempts = [
        attempt_row(row["id"], attempt, released=attempt.number == outcome.released, texts=texts, redact=redact)
        for attempt in outcome.attempts
    ]
    return Rows(row, tuple(attempts))


def outcome_row(entry: Entry, *, texts: bool, redact: Sequence[Redact] = ()) -> Row:
    """Return the row of an outcome; attempts after an accepted one, its shadows, are not counted in it."""
    outcome, origin = entry.outcome, entry.origin
    final = next((attempt for attempt in outcome.attempts if attempt.number == outcome.released), None)
    last = final or (outcome.attempts[-1] if outcome.attempts else None)
    has_shadows = final is not None and outcome.stop_reason == "accepted"
    return {
        "id": name_of(outcome.id) or uuid4().hex,
        "at": entry.at,
        "refiner": name_of(origin.refiner),
        "request_id": name_of(origin.request_id),
        "question_id": _question_id(outcome),
        "policy_digest": origin.policy_digest,
        "success_rating": origin.success_rating,
        "max_attempts": origin.max_attempts,
        "patience": origin.patience,
        "shadow": origin.shadow,
        "continuation_probability": number_of(origin.continuation_probability),
        "judge": name_of(origin.judge),
        "judge_digest": origin.judge_digest,
        "subject": origin.subject and json_of(origin.subject.model_dump(mode="json", exclude_defaults=True)),
        "certificate": name_of(outcome.certificate),
        "model": name_of((last and _metadata(last.answer, _MODELS)) or origin.model),
        "finish_reason": last and name_of(_metadata(last.answer, _FINISH_REASONS)),
        "passed": outcome.passed,
        "stop_reason": outcome.stop_reason,
        "detail": text_of(outcome.detail),
        "rating": last and last.rating,
        "score": number_of(last.verdict.score) if last and last.verdict else None,
        "attempts": final.number if has_shadows and final else len(outcome.attempts),
        "released": outcome.released,
        "latency_s": number_of(outcome.latency_s),
        **_usage(outcome.usage),
        **(_outcome_texts(outcome, redact) if texts else {}),
    }


def attempt_row(
    outcome: str, attempt: Attempt, *, released: bool, texts: bool, redact: Sequence[Redact] = ()
) -> Row:
    """Return the row of one attempt of the outcome with this id."""
    verdict = attempt.verdict
    return {
        "outcome": outcome,
        "number": attempt.number,
        "released": released,
        "model": name_of(_metadata(attempt.answer, _MODELS)),
        "finish_reason": name_of(_metadata(attempt.answer, _FINISH_REASONS)),
        "generate_s": number_of(attempt.latency_s),
        **_usage(attempt.usage),
        **(_verdict_figures(verdict) if verdict is not None else {}),
        **(_attempt_texts(attempt, redact) if texts else {}),
    }


def _verdict_figures(verdict: Verdict) -> Row:
    usage = {f"judge_{name}": value for name, value in _usage(verdict.usage).items()}
    return {
        "rating": verdict.rating,
        "score": number_of(verdict.score),
        "passed": verdict.passed,
        "rated_natively": None if verdict.rating is None else verdict.rated_natively,
        "unscored": verdict.unscored,
        "judge": name_of(verdict.judge),
        "judge_model": name_of(verdict.model),
        "judge_s": number_of(verdict.latency_s),
        **usage,
    }


def _usage(usage: Usage) -> Row:
    return {
        "calls": count_of(usage.calls),
        "input_tokens": count_of(usage.input_tokens),
        "output_tokens": count_of(usage.output_tokens),
        "cost": number_of(usage.cost),
    }


def _metadata(answer: AIMessage, names: Sequence[str]) -> object:
    """Return what a provider said under the first of several names."""
    return next((value for name in names if (value := answer.response_metadata.get(name))), None)


def _question_id(outcome: Outcome) -> str | None:
    """Return the id that the evidence gives the question, or a digest of its text: equal questions are one."""
    metadata = outcome.evidence.get("metadata")
    own = metadata.get("question_id") if isinstance(metadata, Mapping) else None
    if own is not None:
        return name_of(own)
    question = _question(outcome.conversation)
    return (
        hashlib.blake2b(question.encode(errors="surrogatepass"), digest_size=8).hexdigest() if question else None
    )


def _question(conversation: Sequence[AnyMessage]) -> str:
    return next((str(message.text) for message in reversed(conversation) if message.type == "human"), "")


def _outcome_texts(outcome: Outcome, redact: Sequence[Redact]) -> Row:
    """Return the texts of the question; the conversation only if it is more than that."""
    question = _question(outcome.conversation)
    first = outcome.conversation[0] if outcome.conversation else None
    single = len(outcome.conversation) == 1 and first and first.type == "human" and isinstance(first.content, str)
    conversation = None if single or not first else Sample.read(user_input=list(outcome.conversation)).user_input
    written = outcome.answer is not None and outcome.released is None
    return {
        "question": _redacted_text(question, redact),
        "conversation": None if conversation is None else _redacted_json(_dumped(conversation), redact),
        "evidence": _redacted_json(outcome.evidence, redact) if outcome.evidence else None,
        "answer": _redacted_text(str(outcome.answer.text), redact) if written and outcome.answer else None,
    }


def _attempt_texts(attempt: Attempt, redact: Sequence[Redact]) -> Row:
    steps = Sample.read(trajectory=attempt.steps).trajectory if attempt.steps else ()
    texts: Row = {
        "draft": _redacted_text(attempt.text, redact),
        "steps": _redacted_json(_dumped(steps), redact) if steps else None,
        "evidence": _redacted_json(attempt.evidence, redact) if attempt.evidence else None,
    }
    if attempt.verdict is not None:
        verdict = attempt.verdict
        items = [item.model_dump(mode="json", exclude_defaults=True) for item in verdict.items]
        texts |= {
            "rationale": _redacted_text(verdict.rationale, redact),
            "feedback": _redacted_text(verdict.feedback, redact),
            "verdict_detail": _redacted_text(verdict.detail, redact),
            "items": _redacted_json(items, redact) if items else None,
        }
    return texts


def _dumped(conversation: Any) -> list[Row]:
    return [message.model_dump(mode="json", exclude_defaults=True, exclude={"media"}) for message in conversation]


def _redacted_text(text: str, redact: Sequence[Redact]) -> str:
    for function in redact:
        text = function(text)
        if not isinstance(text, str):
            raise TypeError(f"redact returns the text to store, not a {type(text).__name__}")
    return text_of(text)


def _redacted_json(value: object, redact: Sequence[Redact]) -> str:
    return json_of(_redacted(clean(value), redact) if redact else value)


def _redacted(value: object, redact: Sequence[Redact]) -> object:
    """Redact every text in JSON-like data, the names of fields excepted."""
    match value:
        case str():
            return _redacted_text(value, redact)
        case dict():
            return {name: _redacted(part, redact) for name, part in value.items()}
        case list():
            return [_redacted(part, redact) for part in value]
        case _:
            return value
