"""The promise of a certificate while it is in force: what audits of released answers say of it, label by label.

Two things end it. Evidence against "at most alpha of the answers that pass are bad" is an e-process for each
certified threshold: a mixture over the audit at which things may have got worse (Shin, Ramdas and Rinaldo,
"E-detectors", 2023, with weights that sum to 1), and over how much worse. It reaches 1 / delta with probability
delta at most while the promise holds, however often one looks (Ville's inequality). And evidence for the promise
that was there, over the audits, or over the labels of the certificate and the audits, may be used up: then labels
no longer show that it holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from judges.certificate import IssuedCertificate
from judges.errors import ConfigurationError, shortened
from judges.verdict import HIGHEST

OnAlarm = Literal["stricter", "closed", "log"]
"""What follows where a promise is broken: the next stricter certified threshold, no answer, or a warning."""

_WORSE = (1.5, 2.0, 3.0, 5.0)
"""How many times the tolerated share of bad answers the evidence against a promise looks for."""
_MOST_WORSE = 0.95
"""The largest share of bad answers that it looks for."""

_BETTER = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Which parts of the tolerated share the evidence for a promise looks for."""

_SPENDABLE = 1.0
"""Logarithm of the evidence that audits may use up of a certificate that is only just one, and has less."""

_CLEARLY = 0.75
"""Part of the tolerated share that is bad at most, of late, where a loop moves to a stricter threshold."""

_SPREAD = 50
"""Audits over which the first half of the weights of starting points lies."""

_LARGEST = 1e300


@dataclass(frozen=True, slots=True)
class Audit:
    """A released answer that people looked at.

    Args:
        mark: The rating, or the score, at which it was released.
        bad: Whether it counts as bad; a tie does.
    """

    mark: float
    bad: bool

    @classmethod
    def of(cls, certificate: IssuedCertificate, rating: float | None, score: float | None, *, bad: bool) -> Audit:
        """Return an audit by what a certificate's thresholds are compared with; a 4 has its score added."""
        rating, score = rating or 0.0, score or 0.0
        mark = score if certificate.kind == "score" else rating + score * (rating == HIGHEST)
        return cls(mark, bad)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ThresholdEvidence:
    """What the audits say of the promise at one threshold.

    Args:
        threshold: The least rating, or score, that is accepted.
        audits: Audited answers that reach it.
        bad: Bad ones among them.
        evidence: Evidence now that more than alpha are bad.
        highest: The highest it was; from 1 / delta on the promise is broken, and stays so.
    """

    threshold: float
    audits: int
    bad: int
    evidence: float
    highest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where the promise of a certificate stands.

    Args:
        certificate: Its id.
        threshold: The threshold in force; None once the certificate is withdrawn.
        alpha: Share of bad answers that is tolerated.
        alarm_at: Evidence from which on the promise is broken: 1 / delta.
        audits: Audited answers.
        bad: Bad ones among them.
        thresholds: What the audits say of each certified threshold, the one that was taken first.
        moves: After how many audits the threshold changed, and to which; None for withdrawn.
        on_alarm: What follows from an alarm.
    """

    certificate: str
    threshold: float | None
    alpha: float
    alarm_at: float
    audits: int = 0
    bad: int = 0
    thresholds: tuple[_ThresholdEvidence, ...] = ()
    moves: tuple[tuple[int, float | None], ...] = ()
    on_alarm: OnAlarm = "log"

    @property
    def is_uncovered(self) -> bool:
        """True if answers go on, and nothing is promised of them."""
        return self.is_withdrawn and self.on_alarm != "closed"

    @property
    def is_withdrawn(self) -> bool:
        """True if nothing is promised any more."""
        return self.threshold is None

    @property
    def evidence(self) -> float:
        """Evidence against the promise at the threshold in force, or at the last one."""
        watched = [one for one in self.thresholds if one.threshold == self.threshold] or self.thresholds[-1:]
        return watched[0].evidence if watched else 1.0

    @property
    def state(self) -> Literal["holds", "stricter", "withdrawn"]:
        """Where it stands, in a word."""
        return "withdrawn" if self.is_withdrawn else "stricter" if self.moves else "holds"

    def after(self, moved_to: float | None) -> Standing:
        """Return it after an earlier alarm, which stays though labels that led to it may be gone."""
        if self.threshold is None or (moved_to is not None and moved_to <= self.threshold):
            return self
        return replace(self, threshold=moved_to, moves=(*self.moves, (self.audits, moved_to)))

    def __str__(self) -> str:
        about = f"certificate {self.certificate[:8]}"
        counts = f"{self.bad} of {self.audits} audited answers bad, {self.alpha:.1%} tolerated"
        if self.threshold is None:
            then = "answers go on, and nothing covers them" if self.is_uncovered else "no answer goes out any more"
            none = "no stricter rating holds either; " if self.on_alarm == "stricter" else ""
            return f"{about} is withdrawn: {counts}; {none}{then}"
        now = f", accepting from {self.threshold:g} now" if self.moves else ""
        return f"{about} holds{now}: {counts}, evidence against it {self.evidence:.3g} of {self.alarm_at:g}"


class _Evidence:
    """What the audits of one threshold say: bets against the promise, and support for it."""

    def __init__(self, alpha: float, delta: float, calibration: tuple[int, int]) -> None:
        self._limit, self._tolerated = 1 / delta, _CLEARLY * alpha
        self.audits = self.bad = 0
        self.highest = self.against = 1.0
        self.is_broken = False
        worse = sorted({(1 + alpha) / 2} | {times * alpha for times in _WORSE if times * alpha < _MOST_WORSE})
        self._bets = [(rate / alpha, (1 - rate) / (1 - alpha)) for rate in worse]
        self._sums = [0.0] * len(self._bets)
        self._supports = _PromiseSupport(alpha, (0, 0)), _PromiseSupport(alpha, calibration)
        self._walk = self._lowest = 0.0
        self._recent = (0, 0)

    def add(self, *, bad: bool) -> None:
        """Take one audit."""
        before = _SPREAD / (self.audits + _SPREAD)
        self.audits, self.bad = self.audits + 1, self.bad + bad
        prior_weight = _SPREAD / (self.audits + _SPREAD)
        self._sums = [
            min(_LARGEST, (total + before - prior_weight) * (won if bad else lost))
            for total, (won, lost) in zip(self._sums, self._bets, strict=True)
        ]
        self.against = prior_weight + sum(self._sums) / len(self._sums)
        self.highest = max(self.highest, self.against)
        self._count_recent(bad=bad)
        is_unsupported = [support.is_lost(bad=bad, limit=self._limit) for support in self._supports]
        self.is_broken = self.is_broken or self.highest >= self._limit or any(is_unsupported)

    def _count_recent(self, *, bad: bool) -> None:
        """Count the audits since the walk of the first bet was lowest, when things may have got worse."""
        won, lost = self._bets[0]
        self._walk += math.log(won if bad else lost)
        if self._walk <= self._lowest:
            self._lowest, self._recent = self._walk, (0, 0)
        else:
            self._recent = self._recent[0] + 1, self._recent[1] + bad

    @property
    def is_clear(self) -> bool:
        """True if nothing speaks against it, not even the audits since things may have got worse."""
        audits, bad = self._recent
        return not self.is_broken and self.against <= 1 and bad <= self._tolerated * audits


class _PromiseSupport:
    """Evidence that the mean share of bad answers is at most alpha: a likelihood ratio of smaller shares to alpha.

    It holds for the mean of shares that change from answer to answer, since the logarithm is concave: where that
    mean is above alpha, it reaches 1 / delta with probability delta at most. The labels of a certificate count as
    having reached it, since they passed the certificate's own test, which may be sharper.
    """

    def __init__(self, alpha: float, bad_and_good: tuple[int, int]) -> None:
        rates = [share * alpha for share in _BETTER]
        self._steps = [(math.log(rate / alpha), math.log((1 - rate) / (1 - alpha))) for rate in rates]
        released, bad = bad_and_good
        self._logs = [bad * wrong + (released - bad) * right for wrong, right in self._steps]
        self._was_shown = released > 0
        self._used_up = min(0.0, self._log_evidence - _SPENDABLE) if released else 0.0

    def is_lost(self, *, bad: bool, limit: float) -> bool:
        """Take one audit, and return whether evidence that reached the limit once is used up."""
        self._logs = [
            log + (wrong if bad else right) for log, (wrong, right) in zip(self._logs, self._steps, strict=True)
        ]
        evidence = self._log_evidence
        self._was_shown = self._was_shown or evidence >= math.log(limit)
        return self._was_shown and evidence < self._used_up

    @property
    def _log_evidence(self) -> float:
        highest = max(self._logs)
        return highest + math.log(sum(math.exp(log - highest) for log in self._logs) / len(self._logs))


class AuditedPromise:
    """The promise of a certificate under audits that come one by one, each of them a look.

    Under `"stricter"` an alarm moves the threshold to the next stricter certified one that nothing speaks against;
    where there is none, and under the others at once, the certificate is withdrawn. It never moves back.

    Args:
        certificate: The certificate.
        on_alarm: See above.

    Attributes:
        threshold: The threshold in force; None once the certificate is withdrawn.

    Raises:
        ConfigurationError: If its promise is not about the share of bad answers among those that pass.
    """

    def __init__(self, certificate: IssuedCertificate, on_alarm: OnAlarm = "stricter") -> None:
        self._certificate, self._on_alarm = certificate, on_alarm
        alpha, delta = certificate.alpha, certificate.delta_in_all
        counts = {row.policy: (row.released, row.bad) for row in certificate.rows}
        self._processes = {
            one: _Evidence(alpha, delta, counts.get(one, (0, 0))) for one in certified_grid(certificate)
        }
        self.threshold: float | None = min(self._processes)
        self._moves: list[tuple[int, float | None]] = []
        self._audits = self._bad = 0

    def add(self, audit: Audit) -> None:
        """Take an audit: a released answer of a random sample of those that the certificate covers."""
        self._audits, self._bad = self._audits + 1, self._bad + audit.bad
        for threshold, process in self._processes.items():
            if audit.mark >= threshold:
                process.add(bad=audit.bad)
        if self.threshold is not None and self._processes[self.threshold].is_broken:
            self.threshold = self._next(self.threshold) if self._on_alarm == "stricter" else None
            self._moves.append((self._audits, self.threshold))

    def _next(self, current: float) -> float | None:
        """Return the next stricter threshold that nothing speaks against; None where there is none."""
        above = ((one, process) for one, process in self._processes.items() if one > current)
        return next((one for one, process in above if process.is_clear), None)

    @property
    def standing(self) -> Standing:
        """Where it stands."""
        return Standing(
            certificate=self._certificate.id,
            threshold=self.threshold,
            alpha=self._certificate.alpha,
            alarm_at=1 / self._certificate.delta_in_all,
            audits=self._audits,
            bad=self._bad,
            moves=tuple(self._moves),
            on_alarm=self._on_alarm,
            thresholds=tuple(
                _ThresholdEvidence(
                    threshold=threshold, audits=one.audits, bad=one.bad, evidence=one.against, highest=one.highest
                )
                for threshold, one in self._processes.items()
            ),
        )


def follow(certificate: IssuedCertificate, audits: Iterable[Audit], on_alarm: OnAlarm = "stricter") -> Standing:
    """Return where a promise stands after audits, looked at after each in their order; see `AuditedPromise`."""
    promise = AuditedPromise(certificate, on_alarm)
    for audit in audits:
        promise.add(audit)
    return promise.standing


def certified_grid(certificate: IssuedCertificate) -> Sequence[float]:
    """Return the thresholds to which a loop may move: the one that was taken, and the stricter certified ones.

    Raises:
        ConfigurationError: If its promise is not about the share of bad answers among those that pass.
    """
    _, taken = certificate.acceptance
    if not certificate.promises_share:
        raise ConfigurationError(
            f"certificate {certificate.id[:8]} promises {shortened(certificate.promise)}, and audits watch the "
            f"share of bad answers among those that pass alone: leave on_alarm out, and use `refine monitor`"
        )
    stricter = {
        float(row.policy)
        for row in certificate.rows
        if row.status == "certified" and isinstance(row.policy, float | int) and row.policy > taken
    }
    return sorted({float(taken), *stricter})
