"""The promise of a certificate while it is in force: what audits of released answers say of it, label by label.

The evidence against "at most alpha of the answers that pass are bad" is an e-process for each certified threshold:
a mixture over the audit at which things may have got worse, and over how much worse. It reaches 1 / delta with
probability delta at most while the promise holds, however often one looks (Ville's inequality), and soon after it
was broken. A mixture over starting points is that of Shin, Ramdas and Rinaldo, "E-detectors", 2023, with weights
that sum to 1, so that false alarms are bounded over all time instead of one in so many audits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from judges.certificate import IssuedCertificate
from judges.errors import ConfigurationError, shortened

OnAlarm = Literal["stricter", "closed", "log"]
"""What follows where a promise is broken: the next stricter certified threshold, no answer, or a warning."""

_WORSE = (1.5, 2.0, 3.0, 5.0)
"""How many times the tolerated share of bad answers the mixture looks for."""

_MOST_WORSE = 0.95
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdEvidence:
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
    """

    certificate: str
    threshold: float | None
    alpha: float
    alarm_at: float
    audits: int = 0
    bad: int = 0
    thresholds: tuple[ThresholdEvidence, ...] = ()
    moves: tuple[tuple[int, float | None], ...] = ()

    @property
    def is_withdrawn(self) -> bool:
        """Whether nothing is promised any more."""
        return self.threshold is None

    @property
    def evidence(self) -> float:
        """Evidence against the promise at the threshold in force, or at the last one."""
        own = [one for one in self.thresholds if one.threshold == self.threshold] or self.thresholds[-1:]
        return own[0].evidence if own else 1.0

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
            return f"{about} is withdrawn: {counts}"
        now = f", accepting from {self.threshold:g} now" if self.moves else ""
        return f"{about} holds{now}: {counts}, evidence against it {self.evidence:.3g} of {self.alarm_at:g}"


class _Evidence:
    """The e-process of one threshold."""

    def __init__(self, alpha: float) -> None:
        self.audits = self.bad = 0
        self.highest = self.value = 1.0
        worse = sorted({(1 + alpha) / 2} | {times * alpha for times in _WORSE if times * alpha < _MOST_WORSE})
        self._steps = [(rate / alpha, (1 - rate) / (1 - alpha)) for rate in worse]
        self._sums = [0.0] * len(self._steps)

    def add(self, *, bad: bool) -> None:
        """Take one audit: bets that began before it, and the one that begins with it, win or lose."""
        before = _SPREAD / (self.audits + _SPREAD)
        self.audits += 1
        self.bad += bad
        left = _SPREAD / (self.audits + _SPREAD)
        self._sums = [
            min(_LARGEST, (total + before - left) * (won if bad else lost))
            for total, (won, lost) in zip(self._sums, self._steps, strict=True)
        ]
        self.value = left + sum(self._sums) / len(self._sums)
        self.highest = max(self.highest, self.value)


def follow(certificate: IssuedCertificate, audits: Iterable[Audit], on_alarm: OnAlarm = "stricter") -> Standing:
    """Return where the promise of a certificate stands after audits, in their order, looked at after each.

    Under `"stricter"` an alarm moves the threshold to the next stricter certified one that nothing speaks against;
    where there is none, and under the others at once, the certificate is withdrawn. It never moves back.

    Args:
        certificate: The certificate.
        audits: Released answers that people looked at: a random sample of those that the certificate covers.
        on_alarm: See above.

    Raises:
        ConfigurationError: If its promise is not about the share of bad answers among those that pass.
    """
    grid = certified_grid(certificate)
    alpha, alarm_at = certificate.alpha, 1 / certificate.delta_in_all
    processes = {threshold: _Evidence(alpha) for threshold in grid}
    current: float | None = grid[0]
    moves: list[tuple[int, float | None]] = []
    audited = bad = 0
    for audit in audits:
        audited, bad = audited + 1, bad + audit.bad
        for threshold, process in processes.items():
            if audit.mark >= threshold:
                process.add(bad=audit.bad)
        if current is not None and processes[current].highest >= alarm_at:
            current = _next(current, processes) if on_alarm == "stricter" else None
            moves.append((audited, current))
    return Standing(
        certificate=certificate.id,
        threshold=current,
        alpha=alpha,
        alarm_at=alarm_at,
        audits=audited,
        bad=bad,
        moves=tuple(moves),
        thresholds=tuple(
            ThresholdEvidence(
                threshold=threshold, audits=one.audits, bad=one.bad, evidence=one.value, highest=one.highest
            )
            for threshold, one in processes.items()
        ),
    )


def _next(current: float, processes: dict[float, _Evidence]) -> float | None:
    """Return the next stricter threshold that nothing speaks against; None where there is none."""
    return next(
        (threshold for threshold, process in processes.items() if threshold > current and process.value <= 1), None
    )


def promises_share(certificate: IssuedCertificate) -> bool:
    """Return whether the promise is about a share of bad answers among those that pass, which audits can watch."""
    return not certificate.harm and certificate.risk == "released"


def certified_grid(certificate: IssuedCertificate) -> Sequence[float]:
    """Return the thresholds to which a loop may move: the one that was taken, and the stricter certified ones.

    Raises:
        ConfigurationError: If its promise is not about the share of bad answers among those that pass.
    """
    _, taken = certificate.acceptance
    if not promises_share(certificate):
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


__all__ = ["Audit", "OnAlarm", "Standing", "ThresholdEvidence", "certified_grid", "follow", "promises_share"]
