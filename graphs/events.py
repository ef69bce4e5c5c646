"""What is published of a refinement as it goes on: figures, and texts for those who may see them."""

from __future__ import annotations

from collections.abc import Mapping

from graphs.attempt import Attempt
from graphs.progress import Event
from graphs.refinement import Refinement
from graphs.secrets import withhold
from judges.verdict import Verdict


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
    figures = {"attempt": refinement.number, "max_attempts": refinement.most_attempts}
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
    verdict = attempt.verdict or Verdict.without_score("judge_failed")
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
    usage = refinement.usage
    figures = {
        "stop_reason": refinement.stop_reason,
        "passed": refinement.passed,
        "attempts": len(refinement.attempts),
        "calls": usage.calls,
        "tokens": usage.tokens,
        "detail": refinement.detail,
    }
    return (Event("finish", figures),)
