"""Warnings in the default log: an answer that went out without a verdict, a judge that lacks its evidence.

They are written whatever the policy, but not for every question: a judge that is down for an hour is one line a
minute. They hold figures and codes; what an unscored verdict says of its cause is quoted without the words that
also stand in the conversation, the drafts or the evidence, unless texts may be logged.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence

from langchain_core.messages import BaseMessage

from graphs.attempt import Attempt
from graphs.certified import answering_model, certificate_of
from graphs.progress import Event
from graphs.refinement import Refinement
from judges.entry import Explanation
from judges.excerpt import is_long
from judges.judge import Judge
from judges.sample import Sample, canonical_field
from judges.verdict import NOTHING_TO_JUDGE, Verdict

UNJUDGED = "answer released although a judgement gave no verdict"
PARTLY_JUDGED = "answer released although a part of its judge gave no verdict"
GENERATOR_FAILED = "answer released that was not accepted, since the generator failed"
CANDIDATE_FAILED = "candidate failed, and the attempt went on with the others"
EXCERPT = "judge was shown a part of a very long draft, or of long evidence; max_conversation_chars bounds it"
UNCERTIFIED = "answer released by a model that the certificate is not about: certify again"
UNMET = "judge needs evidence that neither the question nor the generator brought"

Needs = tuple[tuple[str, tuple[str, ...]], ...]
"""Names of judges, each with fields of a sample; one may offer a choice, "expected_facts or reference"."""

_LONGEST_DETAIL = 200
_QUOTED = re.compile(r"\w{4,}|[^\x00-\x7f]+")
"""What of a detail may quote a text: its longer words, and whatever is not ASCII."""


class Ration:
    """Lets the first warning of a kind through, and later ones of that kind at most once in a while.

    Args:
        every_s: Seconds between two warnings of one kind.
        clock: Monotonic clock in seconds, for tests.
    """

    def __init__(self, every_s: float = 60.0, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._every_s = every_s
        self._clock = clock
        self._last: dict[tuple[object, ...], float] = {}

    def allows(self, kind: tuple[object, ...], *, once: bool = False) -> bool:
        """Check whether to warn now, and if so count it; `once` means never again."""
        now = self._clock()
        last = self._last.get(kind)
        if last is not None and (once or 0 <= now - last < self._every_s):
            return False
        self._last[kind] = now
        return True


def release_alarms(refinement: Refinement, messages: Sequence[BaseMessage], ration: Ration) -> tuple[Event, ...]:
    """Return the warnings about a question that is answered: that a judgement, or a part of one, failed."""
    alarms = []
    for name, judge, reason in _failures(refinement):
        if ration.allows((name, refinement.stop_reason, judge, reason)):
            figures = {
                "stop_reason": refinement.stop_reason,
                "released": refinement.released,
                "attempts": len(refinement.attempts),
                "judge": judge,
                "unscored": reason,
                "detail": _without_quotes(refinement.detail, refinement, messages),
            }
            texts = {"detail": refinement.detail}
            alarms.append(Event(name, figures, texts, streamed=False, level=logging.WARNING))
    return (*alarms, *_uncertified(refinement, ration))


def _uncertified(refinement: Refinement, ration: Ration) -> Iterator[Event]:
    """Yield the warning that another model answered than those that were calibrated."""
    certificate = refinement.policy.certificate
    if certificate is None or certificate_of(refinement) is not None:
        return
    model = answering_model(refinement)
    if ration.allows((UNCERTIFIED, model)):
        figures = {"certificate": certificate.id, "model": model, "calibrated": list(certificate.answer_models)}
        yield Event(UNCERTIFIED, figures, streamed=False, level=logging.WARNING)


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
        released = _released(refinement)
        for part in _failed_parts(released.verdict) if released and released.verdict else ():
            yield PARTLY_JUDGED, part.judge, part.unscored


def _released(refinement: Refinement) -> Attempt | None:
    return next((attempt for attempt in refinement.attempts if attempt.number == refinement.released), None)


def _failed_parts(verdict: Verdict) -> Iterator[Verdict]:
    """Yield the verdicts inside a scored one whose judges failed; to have had nothing to judge is no failure."""
    for part in verdict.items:
        if part.unscored is None:
            yield from _failed_parts(part)
        elif part.unscored not in NOTHING_TO_JUDGE:
            yield part


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


def unmet_alarms(needs: Needs, sample: Sample, ration: Ration) -> tuple[Event, ...]:
    """Return the warnings, one for a judge, that a sample lacks what judges need."""
    alarms = []
    for judge, fields in needs:
        missing = [need for need in fields if not any(_has(sample, name) for name in need.split(" or "))]
        if missing and ration.allows((UNMET, judge, *missing), once=True):
            remedy = f"evidence={{{missing[0].split(' or ')[0]!r}: ...}} with the question hands it over"
            figures = {"judge": judge, "missing": missing, "remedy": remedy}
            alarms.append(Event(UNMET, figures, streamed=False, level=logging.WARNING))
    return tuple(alarms)


def excerpt_alarms(judge: Judge, sample: Sample, limit: int, ration: Ration) -> tuple[Event, ...]:
    """Return the warning that a judge's model saw only a part of what was to be judged."""
    if not is_long(sample, limit) or not judge.models or not ration.allows((EXCERPT,)):
        return ()
    figures = {
        "judge": judge.name,
        "draft_characters": len(sample.response or ""),
        "context_characters": sum(map(len, sample.retrieved_contexts or ())),
        "limit": limit,
    }
    return (Event(EXCERPT, figures, streamed=False, level=logging.WARNING),)


def _has(sample: Sample, name: str) -> bool:
    field = canonical_field(name)
    return bool(getattr(sample, field) if field else sample.metadata.get(name))
