"""What a row of a dataset says of its attempt besides the texts: the same from a file and from a database."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from judges import Sample
from refine.record.rows import Entry, Row, attempt_row, outcome_row

_OUTCOME = (
    "question_id",
    "refiner",
    "request_id",
    "success_rating",
    "max_attempts",
    "patience",
    "continuation_probability",
    "policy_digest",
    "judge_digest",
    "certificate",
)
_ATTEMPT = (
    "released",
    "rating",
    "score",
    "passed",
    "rated_natively",
    "unscored",
    "judge_model",
    "finish_reason",
    "generate_s",
    "judge_s",
    "rationale",
    "feedback",
    "verdict_detail",
)
_USAGE = ("calls", "input_tokens", "output_tokens", "cost")


def metadata_of(outcome: Mapping[str, Any], attempt: Mapping[str, Any]) -> Row:
    """Return what is known of an attempt, from the rows of the tables `outcome` and `attempt`.

    `shadow` marks an attempt that was made after the answer had been released; the stop reason is that of the
    loop, and stands on its last attempt before those.
    """
    number, last = attempt["number"], outcome["attempts"]
    row: Row = {
        "outcome_id": outcome["id"],
        "at": None if outcome["at"] is None else iso_time(outcome["at"]),
        "attempt": number,
        **{name: outcome[name] for name in _OUTCOME},
        **{name: attempt.get(name) for name in _ATTEMPT},
        "shadow": True if number > last else None,
        "observed_only": outcome["shadow"] or None,
        "stop_reason": outcome["stop_reason"] if number == last else None,
        "model": attempt["model"] or outcome["model"],
        "judge": attempt.get("judge") or outcome["judge"],
        "subject": None if outcome["subject"] is None else json.loads(outcome["subject"]),
        "usage": _present({name: attempt.get(name) for name in _USAGE}),
        "judge_usage": _present({name: attempt.get(f"judge_{name}") for name in _USAGE}),
    }
    return _present({name: value for name, value in row.items() if value not in ("", {})})


def recorded_samples(entry: Entry) -> Iterator[Sample]:
    """Yield the samples of an outcome, each with all that is known of its attempt in the metadata."""
    outcome = outcome_row(entry, texts=False)
    samples = iter(entry.outcome.samples())
    for attempt in entry.outcome.attempts:
        for draft in attempt.drafts:
            released = draft is attempt and attempt.number == entry.outcome.released
            row = attempt_row(outcome["id"], draft, released=released, texts=False)
            if draft.verdict is not None:
                row |= {name: getattr(draft.verdict, name) for name in ("rationale", "feedback")}
            sample = next(samples)
            metadata = {**sample.metadata, **metadata_of(outcome, row)}
            if draft is not attempt or attempt.number > outcome["attempts"]:
                metadata.pop("stop_reason", None)
            yield sample.model_copy(update={"metadata": metadata})


def iso_time(at_ms: int) -> str:
    """Return milliseconds since the epoch as a time in ISO 8601, in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _present(row: Row) -> Row:
    return {name: value for name, value in row.items() if value is not None}
