"""What the offline demo shows of the library's figures: rows of tables, and labelled lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from judges.offline import Alignment, IssuedCertificate, LoopReplay
    from judges.offline.statistics import Figure

AGREEMENT = (
    "In brackets: where the true share lies, with 95 % confidence. Kappa is the agreement beyond chance: 0 is "
    "chance, 1 is always."
)
CERTIFICATE = ("shown from", "loops", "shown", "bad", "share bad", "at most (95 %)", "finding")
CURVE = ("attempt", "judged", "passed", "passed by now", "95 % interval")
POLICIES = ("rating", "attempts", "shown", "bad among them", "attempts made", "known")

_GOOD = 3
_FINDINGS = {
    "certified": "keeps it",
    "refused": "does not",
    "too_few": "too few",
    "not_tested": "not tested",
}


def doubled(labels: Path) -> tuple[int, int]:
    """Return how many answers two people labelled, and on how many they agree whether it is good."""
    people: dict[object, list[bool]] = {}
    for line in labels.read_text(encoding="utf-8").splitlines():
        label = json.loads(line)
        people.setdefault((label["outcome_id"], label["attempt"]), []).append(label["rating"] >= _GOOD)
    twice = [opinions for opinions in people.values() if len(opinions) > 1]
    return len(twice), sum(len(set(opinions)) == 1 for opinions in twice)


def agreement_entries(alignment: Alignment) -> Iterator[tuple[str, str]]:
    """Yield the short report of agreement, as labels and texts."""
    figures = alignment.agreement.figures
    yield "labelled", f"{alignment.labelled} answers to {alignment.questions} questions"
    kappa = figures["pass_kappa"]
    if kappa.value is not None:
        yield "agreement", f"{_share(figures['agreement'])} same verdict, kappa {kappa.value:.2f}"
    yield "good ones", f"{_share(figures['tpr'])} pass"
    yield "bad ones", f"{_share(figures['tnr'])} are refused"
    by_rating = alignment.agreement.reliability.items()
    parts = [f"{rating}: {figure.value:.0%}" for rating, figure in by_rating if figure.value is not None]
    yield "by rating", f"people call good, of those rated {', '.join(parts)}"
    if alignment.people is not None and alignment.people.ceiling is not None:
        yield (
            "people",
            f"agree among themselves with kappa {alignment.people.ceiling:.2f}, the ceiling for any judge",
        )
    for note in alignment.notes:
        yield "", note


def certificate_rows(certificate: IssuedCertificate) -> list[tuple[str, ...]]:
    """Return the table of a certificate, strictest threshold first."""
    return [
        (
            f"rating {row.policy_text}",
            str(certificate.runs),
            str(row.released),
            str(row.bad),
            _percent(row.rate),
            _percent(row.upper),
            _FINDINGS[row.status],
        )
        for row in certificate.rows
    ]


def curve_rows(replay: LoopReplay) -> list[tuple[str, ...]]:
    """Return how many loops have passed by each attempt."""
    return [
        (
            str(point.attempt),
            str(point.at_risk),
            str(point.passed),
            f"{point.cumulative:.0%}",
            f"{point.low:.0%} to {point.high:.0%}",
        )
        for point in replay.curve
    ]


def policy_rows(replay: LoopReplay) -> list[tuple[str, ...]]:
    """Return what each policy would have done, the one in force first; of those without patience."""
    return [
        (
            f"{policy.success_rating}{' (now)' if policy.in_force else ''}",
            str(policy.max_attempts),
            _range(policy.release_rate, ".0%"),
            _range(policy.bad_rate, ".1%"),
            _range(policy.mean_attempts, ".2f"),
            policy.status,
        )
        for policy in replay.policies
        if policy.patience is None
    ]


def _range(bounds: tuple[float, float] | None, form: str) -> str:
    if bounds is None:
        return "-"
    low, high = (format(bound, form) for bound in bounds)
    return low if low == high else f"{low} to {high}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _share(figure: Figure) -> str:
    if figure.value is None:
        return f"undefined ({figure.reason})"
    bounds = "" if figure.low is None or figure.high is None else f" ({figure.low:.0%} to {figure.high:.0%})"
    return f"{figure.value:.0%}{bounds}"
