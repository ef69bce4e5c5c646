"""An outcome as rows of the tables `outcome` and `attempt`: figures always, texts where the operator says so."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage

from graphs import Attempt, Outcome, Policy
from graphs.answers import AnswerKind
from graphs.certified_loop import settings_of, subject_of
from judges import ConfigurationError, Judge, Sample, Verdict
from judges.certificate import Subject
from judges.errors import shortened
from judges.fingerprint import fingerprint
from judges.messages import WITHOUT_MEDIA
from judges.runtime import faults
from judges.verdict import Usage
from refine.record.seals import Row, RowSeals, seal_key_of

Redact = Callable[[str], str]
"""Returns a text without what must not be stored."""

TABLES: Mapping[str, Mapping[str, str]] = tomllib.loads(
    Path(__file__).with_name("tables.toml").read_text(encoding="utf-8")
)
"""The tables in a database, each with its columns: type, marks and meaning."""


def marked(mark: str, *tables: str) -> tuple[str, ...]:
    """Return the columns of tables that have a mark."""
    columns = ((name, text) for table in tables for name, text in TABLES[table].items())
    return tuple(name for name, text in columns if mark in text.partition(":")[0].split())


_NAMES = frozenset(marked("name", "outcome", "attempt"))
"""Columns of ids, names and codes."""
CALLER = ("key", "user", "session", "thread")
"""Columns that say who asked."""
_LONGEST_NAME = 200
"""Characters of an id, a name or a code; more would not fit into an index."""
_LONGEST_TEXT = 1_000_000
"""Characters of one text."""
_DEEPEST = 100
_MOST_PARTS = 10_000
_LARGEST = 2**63 - 1
_CUT = " [...]"


_SHORT = 10_000
"""Characters of JSON that hold no text and no list that would have to be cut."""


def text_of(value: object, longest: int = _LONGEST_TEXT) -> str:
    """Return a text that can be stored; what is longer than `longest` is cut, and says so."""
    text = value if type(value) is str else str(value)
    if len(text) > longest:
        text = text[: longest - len(_CUT)] + _CUT
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def name_of(value: object) -> str | None:
    """Return an id or a name that can be stored; None stays None."""
    return None if value is None else text_of(value, _LONGEST_NAME)


def _storable(row: Row) -> Row:
    """Return a row of texts and numbers as a database can hold it: names short, numbers finite and of 64 bits."""
    for column, value in row.items():
        if value is None or isinstance(value, bool):
            continue
        is_name = column in _NAMES
        if is_name or isinstance(value, str):
            longest = _LONGEST_NAME if is_name else _LONGEST_TEXT
            if not (type(value) is str and value.isascii() and len(value) <= longest and "\x00" not in value):
                row[column] = text_of(value, longest)
        elif isinstance(value, float):
            row[column] = float(value) if math.isfinite(value) else None
        else:
            row[column] = min(value, _LARGEST)
    return row


def _json_of(value: object, redact: Sequence[Redact] = ()) -> str:
    """Return data as JSON that can be stored and read back; NaN and infinity, no JSON, become null.

    Most data needs no cleaning, which its JSON shows at once: short, plain and not deep.
    """
    if not redact:
        with suppress(TypeError, ValueError, RecursionError):
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
            is_flat = text.count("{") + text.count("[") < _DEEPEST
            if is_flat and text.isascii() and len(text) <= _SHORT and "\\u0000" not in text:
                return text
    return json.dumps(_clean(value, redact), ensure_ascii=False, allow_nan=False)


def _clean(value: object, redact: Sequence[Redact], depth: int = _DEEPEST) -> object:
    """Return JSON-like data with every text and number in it as it can be stored; texts are redacted."""
    match value:
        case str():
            return text_of(_redact(text_of(value), redact))
        case bool() | None:
            return value
        case float():
            return float(value) if math.isfinite(value) else None
        case int():
            return value
        case _ if depth == 0:
            return _CUT.strip()
        case Mapping():
            parts = islice(value.items(), _MOST_PARTS)
            return {text_of(name): _clean(part, redact, depth - 1) for name, part in parts}
        case list() | tuple():
            return [_clean(part, redact, depth - 1) for part in value[:_MOST_PARTS]]
        case _:
            return text_of(_redact(text_of(value), redact))


def _redact(text: str, redact: Sequence[Redact]) -> str:
    for function in redact:
        text = function(text)
        if not isinstance(text, str):
            raise TypeError(f"redact returns the text to store, not a {type(text).__name__}")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What an outcome does not say of itself, and a replay of the loop under another policy needs to know.

    Args:
        refiner: Name of the refiner, or of the guard.
        judge: Name of the judge.
        judge_digest: Fingerprint of the judge, which changes with its models, prompts and settings.
        policy_digest: Fingerprint of the policy.
        success_rating: The policy's own; as are the next four.
        max_attempts: See `Policy`.
        patience: See `Policy`.
        shadow: See `Policy`.
        model: The generator's model as configured, where its answers do not name one.
        request_id: Id of the HTTP request.
        trace_id: Id of the trace that it was answered in.
        continuation_probability: How probable it was that the loop goes on after a pass, to learn what it would
            have come to; None where it never does.
        key: Name of the caller's key.
        user: Who asked, as the caller says; as are the next two.
        session: Id of the session.
        thread: Id of the conversation.
        subject: What a certificate made of this record is about.
    """

    refiner: str = ""
    judge: str = ""
    judge_digest: str = ""
    policy_digest: str = ""
    success_rating: int | None = None
    success_score: float | None = None
    max_attempts: int | None = None
    patience: int | None = None
    shadow: bool = False
    model: str | None = None
    request_id: str | None = None
    trace_id: str | None = None
    continuation_probability: float | None = None
    key: str | None = None
    user: str | None = None
    session: str | None = None
    thread: str | None = None
    subject: Subject | None = None

    @classmethod
    def of(
        cls, refiner: str, judge: Judge, policy: Policy, *, generator: object = None, model: str | None = None
    ) -> Self:
        """Return the origin of everything that one refiner answers; a request's id is added by `replace`."""
        subject = subject_of(judge, policy, generator)
        origin = cls(
            refiner=refiner, judge=judge.name, judge_digest=subject.judge_digest, model=model, subject=subject
        )
        return origin.under(policy)

    def under(self, policy: Policy) -> Self:
        """Return the same under another policy, for instance one that a request overrides in part."""
        subject = self.subject and self.subject.model_copy(update={"policy": settings_of(policy)})
        return replace(
            self,
            policy_digest=_digest(policy),
            success_rating=policy.success_rating,
            success_score=policy.success_score,
            max_attempts=policy.max_attempts,
            patience=policy.patience,
            shadow=policy.shadow,
            subject=subject,
        )


def _digest(part: object) -> str:
    """Return the fingerprint of a judge or a policy; empty for one of the user's that has none."""
    try:
        return fingerprint(part)
    except Exception:  # noqa: BLE001 - what only describes it must not stop it
        return ""


_FINISH_REASONS = ("finish_reason", "stop_reason", "done_reason")
_MODELS = ("model_name", "model")


def check_outcome(value: object) -> None:
    """Check that what a person adds to a record is an outcome.

    Raises:
        TypeError: If it is not.
    """
    if not isinstance(value, Outcome):
        raise TypeError(
            f"a record takes an Outcome, record.add(refiner.refine(question)), not {type(value).__name__}; "
            f"SelfRefine(..., record=...) adds each by itself"
        )


@dataclass(frozen=True, slots=True)
class PendingOutcome:
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
class OutcomeRows:
    """The rows of one outcome."""

    outcome: Row
    attempts: tuple[Row, ...]


def now_ms() -> int:
    """Return the time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def rows_of(pending: PendingOutcome, *, texts: bool, redact: Sequence[Redact] = ()) -> OutcomeRows:
    """Return the rows of an outcome.

    Args:
        pending: The outcome.
        texts: Whether to store what was asked, answered and said about it.
        redact: Applied to each of these texts, in order.
    """
    outcome = pending.outcome
    question = _question(outcome.conversation)
    row = _outcome_row(pending, question)
    kinds = [attempt.kind for attempt in outcome.attempts]
    attempts = [
        _attempt_row(row["id"], attempt, kind, released=attempt.number == outcome.released)
        for attempt, kind in zip(outcome.attempts, kinds, strict=True)
    ]
    if texts:
        row |= _outcome_texts(outcome, question, redact)
        drafts = [attempt.text for attempt in outcome.attempts]
        for attempt_row, attempt, draft in zip(attempts, outcome.attempts, drafts, strict=True):
            attempt_row.update(_attempt_texts(attempt, draft, redact))
    return OutcomeRows(row, tuple(attempts))


def _outcome_row(pending: PendingOutcome, question: str) -> Row:
    """Return the row of an outcome without texts; attempts after an accepted one, its shadows, are not counted."""
    outcome, origin = pending.outcome, pending.origin
    final = {attempt.number: attempt for attempt in outcome.attempts}.get(outcome.released or 0)
    last = final or (outcome.attempts[-1] if outcome.attempts else None)
    verdict = last.verdict if last else None
    row = _storable(
        {
            "id": outcome.id or uuid4().hex,
            "at": pending.at,
            "refiner": origin.refiner,
            "request_id": origin.request_id,
            "trace_id": origin.trace_id,
            "question_id": _question_id(outcome, question),
            **{name: getattr(origin, name) or None for name in CALLER},
            "policy_digest": origin.policy_digest,
            "success_rating": origin.success_rating,
            "success_score": origin.success_score,
            "max_attempts": origin.max_attempts,
            "patience": origin.patience,
            "shadow": origin.shadow,
            "continuation_probability": origin.continuation_probability,
            "judge": origin.judge,
            "judge_digest": origin.judge_digest,
            "certificate": outcome.certificate,
            "model": (last and _metadata(last.answer, _MODELS)) or origin.model,
            "finish_reason": last and _metadata(last.answer, _FINISH_REASONS),
            "passed": outcome.passed,
            "stop_reason": outcome.stop_reason,
            "detail": outcome.detail,
            "rating": None if verdict is None else verdict.rating,
            "score": None if verdict is None else verdict.score,
            "attempts": final.number if final and outcome.stop_reason == "accepted" else len(outcome.attempts),
            "released": outcome.released,
            "latency_s": outcome.latency_s,
            **_usage(outcome.usage),
            **_question_marks(outcome.question_verdict),
        }
    )
    subject = origin.subject
    row["subject"] = subject and _json_of(subject.model_dump(mode="json", exclude_defaults=True))
    return row


def _question_marks(verdict: Verdict | None) -> Row:
    """Return what the input judge said, without its texts."""
    if verdict is None:
        return {}
    return {
        "input_judge": verdict.judge,
        "input_rating": verdict.rating,
        "input_unscored": verdict.unscored,
        "input_s": verdict.latency_s,
        "input_calls": verdict.usage.calls,
        "input_tokens_in": verdict.usage.input_tokens,
        "input_tokens_out": verdict.usage.output_tokens,
    }


def _attempt_row(outcome: str, attempt: Attempt, kind: AnswerKind, *, released: bool) -> Row:
    """Return the row of one attempt of the outcome with this id, without texts."""
    verdict = attempt.verdict
    return _storable(
        {
            "outcome": outcome,
            "number": attempt.number,
            "released": released,
            "kind": None if kind == "text" else kind,
            "model": _metadata(attempt.answer, _MODELS),
            "finish_reason": _metadata(attempt.answer, _FINISH_REASONS),
            "generate_s": attempt.latency_s,
            **_usage(attempt.usage),
            **(_verdict_marks(verdict) if verdict is not None else {}),
        }
    )


def _verdict_marks(verdict: Verdict) -> Row:
    return {
        "rating": verdict.rating,
        "score": verdict.score,
        "passed": verdict.passed,
        "p_pass": verdict.p_pass,
        "probabilities": None if verdict.probabilities is None else _json_of(verdict.probabilities),
        "rated_natively": None if verdict.rating is None else verdict.rated_natively,
        "unscored": verdict.unscored,
        "judge": verdict.judge,
        "judge_model": verdict.model,
        "judge_s": verdict.latency_s,
        **_usage(verdict.usage, "judge_"),
    }


def _usage(usage: Usage, role: str = "") -> Row:
    return {
        f"{role}calls": usage.calls,
        f"{role}input_tokens": usage.input_tokens,
        f"{role}output_tokens": usage.output_tokens,
        f"{role}cost": usage.cost,
    }


def _metadata(answer: AIMessage, names: Sequence[str]) -> object:
    """Return what a provider said under the first of several names."""
    for name in names:
        if value := answer.response_metadata.get(name):
            return value
    return None


def _question_id(outcome: Outcome, question: str) -> str | None:
    """Return the id that the evidence gives the question, or a digest of its text: equal questions are one."""
    metadata = outcome.evidence.get("metadata")
    recorded_id = metadata.get("question_id") if isinstance(metadata, Mapping) else None
    if recorded_id is not None:
        return str(recorded_id)
    return (
        hashlib.blake2b(question.encode(errors="surrogatepass"), digest_size=8).hexdigest() if question else None
    )


def _question(conversation: Sequence[AnyMessage]) -> str:
    for message in reversed(conversation):
        if message.type == "human":
            return str(message.text)
    return ""


def _outcome_texts(outcome: Outcome, question: str, redact: Sequence[Redact]) -> Row:
    """Return the texts of the question; the conversation only if it is more than that."""
    first = outcome.conversation[0] if outcome.conversation else None
    single = len(outcome.conversation) == 1 and first and first.type == "human" and isinstance(first.content, str)
    conversation = None if single or not first else Sample.read(user_input=list(outcome.conversation)).user_input
    texts = {"question": _redact(question, redact)}
    if outcome.question_verdict is not None:
        texts["input_rationale"] = _redact(outcome.question_verdict.rationale, redact)
    if outcome.answer is not None and outcome.released is None:
        texts["answer"] = _redact(str(outcome.answer.text), redact)
    row = _storable(texts)
    if conversation is not None:
        row["conversation"] = _json_of(_dump(conversation), redact)
    if outcome.evidence:
        row["evidence"] = _json_of(outcome.evidence, redact)
    return row


def _attempt_texts(attempt: Attempt, draft: str, redact: Sequence[Redact]) -> Row:
    verdict = attempt.verdict
    texts = {"draft": _redact(draft, redact)}
    if verdict is not None:
        texts |= {
            "rationale": _redact(verdict.rationale, redact),
            "feedback": _redact(verdict.feedback, redact),
            "verdict_detail": _redact(verdict.detail, redact),
        }
    row = _storable(texts)
    if attempt.steps:
        row["steps"] = _json_of(_dump(Sample.read(trajectory=attempt.steps).trajectory), redact)
    if attempt.evidence:
        row["evidence"] = _json_of(attempt.evidence, redact)
    parts = () if verdict is None else verdict.items
    items: list[Row] = [item.model_dump(mode="json", exclude_defaults=True) for item in parts]
    if attempt.pieces:  # what is redacted may lie across two pieces, which then have no text
        has_secrets = bool(redact) and _redact(draft, redact) != draft
        items = [*_pieces(attempt, texts=not has_secrets), *items]
    if items:
        row["items"] = _json_of(items, redact)
    return row


def _pieces(attempt: Attempt, *, texts: bool) -> list[Row]:
    """Return the pieces of an attempt, each with whether it was released, and when, and its verdict in short."""
    rows = []
    for piece in attempt.pieces:
        verdict = piece.verdict
        row: Row = {"text": piece.text if texts else None, "released": piece.released, "at_s": piece.at_s}
        if verdict is not None:
            row |= {"judge": verdict.judge, "passed": verdict.passed, "rating": verdict.rating}
            row |= {"unscored": verdict.unscored, "rationale": verdict.rationale or None}
        rows.append(_present(row))
    return rows


def _dump(conversation: Any) -> list[Row]:
    return [message.model_dump(mode="json", exclude_defaults=True, exclude={"media"}) for message in conversation]


_OUTCOME = marked("told", "outcome")
_ATTEMPT = marked("told", "attempt")
_USAGE = ("calls", "input_tokens", "output_tokens", "cost")


def metadata_of(outcome: Mapping[str, Any], attempt: Mapping[str, Any]) -> Row:
    """Return what is known of an attempt, from the rows of the tables `outcome` and `attempt`.

    `shadow` marks an attempt that was made after the answer had been released; the stop reason is that of the
    loop, and stands on its last attempt before those.
    """
    number, last = attempt["number"], outcome["attempts"]
    row: Row = {
        "outcome_id": outcome["id"],
        "at": iso_time(outcome["at"]),
        "attempt": number,
        **{name: outcome[name] for name in _OUTCOME},
        **{name: attempt.get(name) for name in _ATTEMPT},
        "probabilities": json.loads(attempt.get("probabilities") or "null"),
        "pieces": _recorded_pieces(attempt.get("items")),
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


def _recorded_pieces(items: str | None) -> list[Row] | None:
    """Return the pieces among the verdicts on parts that a row has; None where there are none."""
    if not items or '"released"' not in items:
        return None
    return [item for item in json.loads(items) if "released" in item] or None


def _recorded_samples(pending: PendingOutcome) -> Iterator[Sample]:
    """Yield the samples of an outcome, each with all that is known of its attempt in the metadata."""
    recorded = pending.outcome
    outcome = _outcome_row(pending, _question(recorded.conversation))
    samples = iter(recorded.samples())
    for attempt in recorded.attempts:
        for draft in attempt.drafts:
            released = draft is attempt and attempt.number == recorded.released
            row = _attempt_row(outcome["id"], draft, draft.kind, released=released)
            if draft.verdict is not None:
                row |= {name: getattr(draft.verdict, name) for name in ("rationale", "feedback")}
            if draft.pieces:
                row["items"] = json.dumps(_pieces(draft, texts=True))
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


_log = logging.getLogger("refine")
_NO_ORIGIN = Origin()


class Record:
    """A file of JSON lines to which every attempt is appended, one sample a line.

    A new file is readable by its owner only, since it holds users' questions. Each outcome is written in one
    piece, so that threads, and processes on one machine, can share a file. The file is opened for each outcome,
    so it can be rotated; after a torn line the next row begins on a line of its own.

    Args:
        path: The file; its folder must exist.

    Raises:
        ConfigurationError: If nothing can be written there.
    """

    def __init__(self, path: str | Path) -> None:
        if not isinstance(path, str | os.PathLike):
            raise ConfigurationError(f"record is the path of a file, not {shortened(path)}")
        self._path = Path(path)
        if self._path.is_dir() or not self._path.parent.is_dir():
            raise ConfigurationError(f"record is a file in a folder that exists, not {shortened(str(path))}")
        self._lock = threading.Lock()
        self._key = seal_key_of()
        self._seals: dict[int, RowSeals] = {}

    def add(self, outcome: Outcome, origin: Origin | None = None) -> None:
        """Append the outcome's attempts, with what their `origin` says of policy and judge in the metadata.

        Nothing is raised for an outcome, since an answer is worth more than its record: rows that cannot be
        written, on a full disk or in a deleted folder, are a WARNING of the logger `refine`, and are counted in
        `refine.losses()`.

        Raises:
            TypeError: If it is no outcome.
        """
        check_outcome(outcome)
        written = bytearray()
        try:
            pending = PendingOutcome(outcome, origin or _NO_ORIGIN, now_ms())
            rows = list(map(_fields, _recorded_samples(pending)))
            if rows:
                self._append(rows, written)
        except Exception as error:  # noqa: BLE001 - whatever raised, the answer must go out
            drafts = sum(len(attempt.drafts) for attempt in outcome.attempts)
            self._count_dropped(drafts - written.lstrip(b"\n").count(b"\n"), error)

    def _append(self, rows: Sequence[Row], written: bytearray) -> None:
        """Write rows with their seals, and add to `written` what is in the file."""
        with self._lock:
            seals = self._seals.setdefault(os.getpid(), RowSeals(self._key))
            lines = b"".join(_line(seals.seal(row)) for row in rows)
            try:
                self._write(lines, written)
            finally:
                seals.take_back(len(rows) - written.lstrip(b"\n").count(b"\n"))

    def _write(self, lines: bytes, written: bytearray) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(file, "ab", buffering=0) as out:
            rest = memoryview(b"\n" + lines if _is_torn(self._path) else lines)
            while rest:
                length = out.write(rest)
                written += rest[:length]
                rest = rest[length:]

    def _count_dropped(self, rows: int, error: Exception) -> None:
        faults.count("rows", rows)
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        with faults.logging_safely():
            _log.warning("%d rows could not be written to the record %s: %s", rows, self._path, reason)


def _is_torn(path: Path) -> bool:
    """Check whether a file ends within a line, as a full disk or a killed process leaves it."""
    try:
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:  # the file is empty, a pipe, or not for reading
        return False


def _fields(sample: Sample) -> Row:
    """Return a sample as JSON-like data; NaN and infinity, no JSON, become null."""
    fields: Row = sample.model_dump(mode="json", exclude_defaults=True, exclude=WITHOUT_MEDIA)
    try:
        json.dumps(fields, allow_nan=False)
    except ValueError:
        fields = json.loads(json.dumps(fields), parse_constant=lambda _: None)
    return fields


def _line(row: Row) -> bytes:
    """Return a row as a line of JSON; half a surrogate pair, invalid in UTF-8, becomes its JSON escape."""
    return f"{json.dumps(row, ensure_ascii=False)}\n".encode(errors="backslashreplace")
