"""What is published of a refinement as it goes on: figures, and texts for those who may see them."""

from __future__ import annotations

from graphs.progress import Event
from graphs.refinement import Attempt, Refinement
from graphs.secrets import withhold
from judges.verdict import Verdict


def stopped_events(refinement: Refinement) -> tuple[Event, ...]:
    """Return what to publish where trying stopped: that the draft shown last is not the answer."""
    last = refinement.attempts[-1] if refinement.attempts else None
    if last is None or last.verdict is not None or not refinement.policy.show_drafts:
        return ()
    return () if _released(refinement, last) else (_discard(last),)


def started_events(refinement: Refinement) -> tuple[Event, ...]:
    """Return what to publish where an attempt starts, or starts again after an interrupt."""
    return (Event("start", {"attempt": refinement.number, "max_attempts": refinement.policy.max_attempts}),)


def drafted_events(refinement: Refinement) -> tuple[Event, ...]:
    """Return what to publish of the last draft."""
    attempt = refinement.attempts[-1]
    figures = {
        "attempt": attempt.number,
        "kind": attempt.kind,
        "calls": attempt.usage.calls,
        "tokens": attempt.usage.tokens,
        "latency_s": round(attempt.latency_s, 6),
    }
    drafted = Event("attempt", figures, {"text": attempt.text})
    if not refinement.policy.show_drafts:
        return (drafted,)
    texts = {"text": attempt.text, "tools": attempt.tools}
    return drafted, Event("draft", {"attempt": attempt.number}, texts, logged=False, show=True)


def judged_events(refinement: Refinement) -> tuple[Event, ...]:
    """Return what to publish of the last verdict."""
    attempt = refinement.attempts[-1]
    verdict = attempt.verdict or Verdict.without_score("judge_failed")
    figures = {
        "attempt": attempt.number,
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
    judged = Event("verdict", figures, texts, show=policy.show_drafts)
    discarded = policy.show_drafts and not _released(refinement, attempt)
    return (judged, _discard(attempt)) if discarded else (judged,)


def _released(refinement: Refinement, attempt: Attempt) -> bool:
    return refinement.done and refinement.ending == "answer" and refinement.chosen is attempt


def _discard(attempt: Attempt) -> Event:
    return Event("discard", {"attempt": attempt.number}, logged=False)


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
