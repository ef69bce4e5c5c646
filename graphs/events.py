"""What is published of a refinement as it goes on: figures, and texts for those who may see them."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import (
    get_callback_manager_for_config,
    patch_config,
    var_child_runnable_config,
)

from graphs import langchain_private
from graphs.answers import Attempt
from graphs.outcome import answering_model, is_calibrated
from graphs.redaction import withhold
from graphs.refinement import Refinement, evolve
from judges.entry import Explanation
from judges.judge import Judge
from judges.runtime.observation import Observer, current
from judges.sample import Sample, canonical_field
from judges.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the loop.

    Args:
        name: `start`, `attempt`, `draft`, `verdict`, `failed`, `discard`, `handover`, `replace` or `finish`; of a
            warning, what happened.
        figures: Numbers and codes, without any judged text.
        texts: Judged text, sent only on request.
        streamed: Whether the event goes to the client's stream.
        logged: Whether the event goes to the log.
        show: Whether the texts go to the stream too.
        level: Level of the line in the log.
    """

    name: str
    figures: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, Any] = field(default_factory=dict)
    streamed: bool = True
    logged: bool = True
    show: bool = False
    level: int = logging.INFO

    def payload(self, labels: Mapping[str, Any]) -> dict[str, Any]:
        """Return the event as sent to the stream, with the labels of its run."""
        texts = self.texts if self.show else {}
        return {"type": "refine", "event": self.name, **self.figures, **texts, **labels}


def stopped_events(refinement: Refinement) -> tuple[Event, ...]:
    """Return what to publish where trying stopped: that the draft shown last is not the answer."""
    last = refinement.attempts[-1] if refinement.attempts else None
    if last is None or last.verdict is not None or not refinement.policy.show_drafts:
        return ()
    return () if _released(refinement, last) else (_discard(last),)


def started_events(refinement: Refinement, candidates: int | None = None) -> tuple[Event, ...]:
    """Return what to publish where an attempt starts, or starts again after an interrupt.

    Args:
        refinement: The record.
        candidates: How many drafts are made side by side, if several.
    """
    figures = {"attempt": refinement.number, "max_attempts": refinement.max_attempts_now}
    return (Event("start", figures if candidates is None else {**figures, "candidates": candidates}),)


def drafted_events(refinement: Refinement) -> tuple[Event, ...]:
    """Return what to publish of the last draft."""
    attempt = refinement.attempts[-1]
    figures = {
        **_number(attempt),
        "kind": attempt.kind,
        "calls": attempt.usage.calls,
        "tokens": attempt.usage.tokens,
        "latency_s": round(attempt.latency_s, 6),
    }
    if attempt.pieces:
        figures |= {"pieces": len(attempt.pieces), "released": sum(piece.released for piece in attempt.pieces)}
    drafted = Event("attempt", figures, {"text": attempt.text})
    if not refinement.policy.show_drafts:
        return (drafted,)
    texts = {"text": attempt.text, "tools": attempt.tools}
    return drafted, Event("draft", _number(attempt), texts, logged=False, show=True)


def judged_events(refinement: Refinement) -> tuple[Event, ...]:
    """Return what to publish of the last verdict."""
    attempt = refinement.attempts[-1]
    judged = _verdict_event(refinement)
    discarded = refinement.policy.show_drafts and not _released(refinement, attempt)
    return (judged, _discard(attempt)) if discarded else (judged,)


def mended_events(refinement: Refinement) -> tuple[Event, ...]:
    """Return what to publish of a draft that was refused and mended: its verdict, and the mended draft."""
    before = evolve(refinement, attempts=refinement.attempts[:-1])
    return (*judged_events(before), *drafted_events(refinement))


def candidate_events(refinement: Refinement) -> tuple[Event, ...]:
    """Return what to publish of a candidate: its draft, and its verdict if there is one."""
    judged = () if refinement.attempts[-1].verdict is None else (_verdict_event(refinement),)
    return (*drafted_events(refinement), *judged)


def candidates_events(refinement: Refinement, failed: Mapping[int, str]) -> tuple[Event, ...]:
    """Return what to publish at the end of an attempt with several candidates.

    Args:
        refinement: The record.
        failed: Why each candidate that came to no draft did not, by its number.
    """
    attempt = refinement.attempts[-1]
    fates = [
        Event("failed", {"attempt": attempt.number, "candidate": number, "reason": reason})
        for number, reason in sorted(failed.items())
    ]
    if not refinement.policy.show_drafts:
        return tuple(fates)
    discarded = attempt.unchosen if _released(refinement, attempt) else attempt.drafts
    return (*fates, *map(_discard, discarded))


def _verdict_event(refinement: Refinement) -> Event:
    attempt = refinement.attempts[-1]
    verdict = attempt.verdict if attempt.verdict is not None else Verdict.without_score("judge_failed")
    figures = {
        **_number(attempt),
        "judge": verdict.judge,
        "rating": verdict.rating,
        "score": verdict.score,
        "accepted": refinement.passed,
        "unscored": verdict.unscored,
        "tokens": verdict.usage.tokens,
        "latency_s": round(verdict.latency_s, 6),
    }
    policy = refinement.policy
    words = {"rationale": verdict.rationale, "feedback": verdict.feedback}
    read = words if policy.show_drafts or policy.log_texts else {}
    texts = {name: withhold(text, refinement.evidence) for name, text in read.items()}
    return Event("verdict", figures, texts, show=policy.show_drafts)


def _released(refinement: Refinement, attempt: Attempt) -> bool:
    return refinement.done and refinement.ending == "answer" and refinement.chosen is attempt


def _discard(attempt: Attempt) -> Event:
    return Event("discard", _number(attempt), logged=False)


def _number(attempt: Attempt) -> dict[str, int]:
    """Return what tells a draft from every other one of its question."""
    number = {"attempt": attempt.number}
    return number if attempt.candidate is None else {**number, "candidate": attempt.candidate}


def finished_events(refinement: Refinement) -> tuple[Event, ...]:
    """Return what to publish at the end."""
    usage, shown = refinement.usage, _is_released(refinement) or refinement.best
    ended_at = refinement.ended_at or refinement.updated_at or refinement.started_at
    figures = {
        "stop_reason": refinement.stop_reason,
        "passed": refinement.passed,
        "attempts": len(refinement.attempts),
        "rating": None if shown is None else shown.rating,
        "calls": usage.calls,
        "tokens": usage.tokens,
        "cost": usage.cost,
        "seconds": round(max(0.0, ended_at - refinement.started_at), 6),
        "models": list(dict.fromkeys(_models_of(refinement))),
        "detail": refinement.detail,
    }
    return (Event("finish", figures),)


def _models_of(refinement: Refinement) -> Iterator[str]:
    """Yield the models that drafted and judged, as their providers name them."""
    for draft in (draft for attempt in refinement.attempts for draft in attempt.drafts):
        name = draft.answer.response_metadata.get("model_name")
        if isinstance(name, str) and name:
            yield name
        if draft.verdict is not None and draft.verdict.model:
            yield draft.verdict.model


UNJUDGED = "answer released although a judgement gave no verdict"
PARTLY_JUDGED = "answer released although a part of its judge gave no verdict"
GENERATOR_FAILED = "answer released that was not accepted, since the generator failed"
_FALLEN_BACK = {
    UNJUDGED: "fallback text released, since a judgement gave no verdict",
    GENERATOR_FAILED: "fallback text released, since the generator failed",
}
CANDIDATE_FAILED = "candidate failed, and the attempt went on with the others"
_EXCERPT = "judge was shown a part of a very long draft, or of long evidence; max_conversation_chars bounds it"
_UNCERTIFIED = "answer released by a model that the certificate is not about: certify again"
_SET_ASIDE = "generator returned evidence that the question brought, too: the judge sees that of the question"
_REPEAT = (
    "augment='fresh' asked the same again, and the generator gave the same answer, as it does at temperature 0"
)
MISSING_EVIDENCE = "judge needs evidence that neither the question nor the generator brought"

Needs = tuple[tuple[str, tuple[str, ...]], ...]
"""Names of judges, each with fields of a sample; one may offer a choice, "expected_facts or reference"."""

_LONGEST_DETAIL = 200
_QUOTED = re.compile(r"\w{4,}|[^\x00-\x7f]+")
"""What of a detail may quote a text: its longer words, and whatever is not ASCII."""


class WarningThrottle:
    """Lets the first warning of a kind through, and later ones of that kind at most once in a while.

    Args:
        every_s: Seconds between two warnings of one kind.
        clock: Monotonic clock in seconds, for tests.
    """

    def __init__(self, every_s: float = 60.0, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._every_s = every_s
        self._clock = clock
        self._last: dict[tuple[object, ...], float] = {}

    def should_warn(self, kind: tuple[object, ...], *, once: bool = False) -> bool:
        """Check whether to warn now, and if so count it; `once` means never again."""
        now = self._clock()
        last = self._last.get(kind)
        if last is not None and (once or 0 <= now - last < self._every_s):
            return False
        self._last[kind] = now
        return True


def repeat_warnings(refinement: Refinement, throttle: WarningThrottle) -> tuple[Event, ...]:
    """Return the warning, once, that asking the same again brought the same answer: it may always do so."""
    is_fresh = refinement.policy.augment == "fresh" and refinement.attempts[-1].copied == "repeat"
    if not is_fresh or not throttle.should_warn((_REPEAT,), once=True):
        return ()
    remedy = "overrides={2: {'temperature': 0.8}} samples anew; the other forms say what is wrong"
    figures = {"attempt": refinement.attempts[-1].number, "remedy": remedy}
    return (Event(_REPEAT, figures, streamed=False, level=logging.WARNING),)


def release_warnings(
    refinement: Refinement, messages: Sequence[BaseMessage], throttle: WarningThrottle
) -> tuple[Event, ...]:
    """Return the warnings about a question that is answered: that a judgement, or a part of one, failed."""
    warnings = []
    for failure, judge, reason in _failures(refinement):
        name = _FALLEN_BACK.get(failure, failure) if refinement.ending == "fallback" else failure
        if throttle.should_warn((name, refinement.stop_reason, judge, reason)):
            figures = {
                "stop_reason": refinement.stop_reason,
                "released": refinement.released,
                "attempts": len(refinement.attempts),
                "judge": judge,
                "unscored": reason,
                "detail": _without_quotes(refinement.detail, refinement, messages),
            }
            texts = {"detail": refinement.detail}
            warnings.append(Event(name, figures, texts, streamed=False, level=logging.WARNING))
    return (*warnings, *_uncertified(refinement, throttle))


def _uncertified(refinement: Refinement, throttle: WarningThrottle) -> Iterator[Event]:
    """Yield the warning that another model answered than those that were calibrated."""
    certificate = refinement.policy.certificate
    if certificate is None or is_calibrated(certificate, refinement):
        return
    model = answering_model(refinement)
    if throttle.should_warn((_UNCERTIFIED, model)):
        figures = {"certificate": certificate.id, "model": model, "calibrated": list(certificate.answer_models)}
        yield Event(_UNCERTIFIED, figures, streamed=False, level=logging.WARNING)


def _failures(refinement: Refinement) -> Iterator[tuple[str, str, str | None]]:
    """Yield what failed: the kind of warning, the judge, and why it gave no verdict."""
    last = refinement.attempts[-1] if refinement.attempts else None
    if refinement.stop_reason == "generator_failed":
        yield GENERATOR_FAILED, "", None
    elif refinement.stop_reason == "skipped" or last is None:
        return
    elif last.verdict is None or last.verdict.unscored is not None:
        yield (
            (UNJUDGED, "", None) if last.verdict is None else (UNJUDGED, last.verdict.judge, last.verdict.unscored)
        )
    else:
        released = _is_released(refinement)
        for part in (
            released.verdict.failed_parts() if released is not None and released.verdict is not None else ()
        ):
            yield PARTLY_JUDGED, part.judge, part.unscored


def _is_released(refinement: Refinement) -> Attempt | None:
    return next((attempt for attempt in refinement.attempts if attempt.number == refinement.released), None)


def _without_quotes(detail: str, refinement: Refinement, messages: Sequence[BaseMessage]) -> str:
    """Return one short line without the words that a judge may have quoted from what it was shown."""
    judged_text = "\n".join(_texts_of(refinement, messages)).lower()

    def mask(match: re.Match[str]) -> str:
        word = match.group().lower()
        quoted = word in judged_text if word.isascii() else any(character in judged_text for character in word)
        return "..." if quoted else match.group()

    return _QUOTED.sub(mask, " ".join(detail.split()))[:_LONGEST_DETAIL]


def _texts_of(refinement: Refinement, messages: Sequence[BaseMessage]) -> Iterator[str]:
    yield from (str(message.text) for message in messages)
    yield repr(list(refinement.evidence.values()))
    for draft in (draft for attempt in refinement.attempts for draft in attempt.drafts):
        yield from (draft.text, repr(list(draft.evidence.values())))
        yield from (f"{tool['args']!r} {tool['result']}" for tool in draft.tools)
        if draft.verdict is not None:
            yield from (draft.verdict.rationale, draft.verdict.feedback, draft.verdict.raw)


def needs_of(explanation: Explanation) -> Needs:
    """Return the fields that a judge, and every judge inside it, needs besides question and answer."""
    if explanation.parts:
        return tuple(pair for part in explanation.parts for pair in needs_of(part))
    fields = tuple(need for need in explanation.needs if canonical_field(need) not in ("user_input", "response"))
    return ((explanation.judge, fields),) if fields else ()


def missing_evidence_warnings(
    needs: Needs, sample: Sample, verdict: Verdict, throttle: WarningThrottle
) -> tuple[Event, ...]:
    """Return the warnings, one for a judge, that a sample lacks what judges need; who rated, lacked nothing."""
    warnings, rated = [], {one.judge for one in (verdict, *verdict.items) if one.rating is not None}
    for judge, fields in needs:
        if judge in rated:
            continue
        missing = [need for need in fields if not any(_has(sample, name) for name in need.split(" or "))]
        if missing and throttle.should_warn((MISSING_EVIDENCE, judge, *missing), once=True):
            remedy = f"evidence={{{missing[0].split(' or ')[0]!r}: ...}} with the question hands it over"
            figures = {"judge": judge, "missing": missing, "remedy": remedy}
            warnings.append(Event(MISSING_EVIDENCE, figures, streamed=False, level=logging.WARNING))
    return tuple(warnings)


def set_aside_warnings(refinement: Refinement, throttle: WarningThrottle) -> tuple[Event, ...]:
    """Return the warning that evidence of the generator is not judged by, since the question brought its own."""
    fields = sorted(refinement.attempts[-1].evidence.keys() & refinement.evidence.keys())
    if not fields or not throttle.should_warn((_SET_ASIDE, *fields), once=True):
        return ()
    return (Event(_SET_ASIDE, {"fields": fields}, streamed=False, level=logging.WARNING),)


def excerpt_warnings(judge: str, sample: Sample, limit: int, throttle: WarningThrottle) -> tuple[Event, ...]:
    """Return the warning that a judge's model saw only a part of what was to be judged."""
    if not throttle.should_warn((_EXCERPT,)):
        return ()
    figures = {
        "judge": judge,
        "draft_characters": len(sample.response or ""),
        "context_characters": sum(map(len, sample.retrieved_contexts or ())),
        "limit": limit,
    }
    return (Event(_EXCERPT, figures, streamed=False, level=logging.WARNING),)


def _has(sample: Sample, name: str) -> bool:
    field = canonical_field(name)
    return bool(getattr(sample, field) if field else sample.metadata.get(name))


def observer_under(config: RunnableConfig) -> Observer | None:
    """Return who observes judges, members of a panel included: each is a run of its own under `config`.

    Without callbacks it is whoever observes them already.
    """
    outer = current.get().observer
    if not langchain_private.listeners(config):
        return outer
    if outer is None:
        return lambda judge, sample: _run_of(judge, sample, config)
    return lambda judge, sample: _observed_twice(outer, judge, sample, config)


@contextmanager
def _observed_twice(
    outer: Observer, judge: Judge, sample: Sample, config: RunnableConfig
) -> Iterator[Callable[[Verdict], None]]:
    with outer(judge, sample) as to_outer, _run_of(judge, sample, config) as to_run:

        def on_verdict(verdict: Verdict) -> None:
            to_run(verdict)
            to_outer(verdict)

        yield on_verdict


@contextmanager
def _run_of(judge: Judge, sample: Sample, config: RunnableConfig) -> Iterator[Callable[[Verdict], None]]:
    parent = var_child_runnable_config.get() or config
    run = get_callback_manager_for_config(parent).on_chain_start(
        None, sample.model_dump(mode="json", exclude_defaults=True), name=judge.name
    )
    verdicts: list[Verdict] = []
    try:
        with langchain_private.use_config(patch_config(parent, callbacks=run.get_child())):
            yield verdicts.append
    except BaseException as error:
        run.on_chain_error(error)
        raise
    run.on_chain_end({} if not verdicts else verdicts[-1].model_dump(mode="json", exclude_defaults=True))
