"""What stands in a certificate: from the runs and the outcome of the tests to its fields."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from typing import Any

from judges.certificate import CertifiedRow, Subject
from judges.certificate.issued import Kind
from judges.offline.statistics import labels_needed, wilson
from judges.offline.statistics.certificates import Certificate, PolicyRow
from judges.offline.statistics.weighted import questions_needed
from judges.offline.trust.calibration import CalibrationRun
from judges.offline.trust.chains import Tally
from judges.offline.trust.labels import label_digest, usable
from judges.offline.trust.rows import JudgedRow


def table_of(
    runs: int, result: Certificate, tallies: Sequence[Tally], counts: Sequence[tuple[int, int]]
) -> dict[str, Any]:
    """Return the threshold, the counts behind it and the table."""
    best = min(
        range(len(tallies)), key=lambda place: (result.rows[place].upper is None, result.rows[place].upper or 1.0)
    )
    place = best if result.certified is None else int(result.certified)
    policy = tallies[place].policy
    threshold = None
    if result.certified is not None:
        threshold = float(place) if isinstance(policy, tuple) else policy
    return {
        "threshold": threshold,
        "runs": runs,
        "released": counts[place][0],
        "bad": counts[place][1],
        "rows": tuple(_row(row, tally, runs) for row, tally in zip(result.rows, tallies, strict=True)),
        "reachable_alpha": result.reachable_alpha,
    }


def _row(row: PolicyRow, tally: Tally, runs: int) -> CertifiedRow:
    return CertifiedRow(
        policy=tally.policy,
        released=row.released,
        bad=row.bad,
        rate=row.rate,
        upper=row.upper,
        p=row.p,
        e=row.e,
        status=row.status,
        release_rate=tally.released / runs,
        release_interval=wilson(tally.released, runs),
        mean_attempts=tally.attempts / runs,
        shares=tuple(count / runs for count in tally.decided),
        cost=None if tally.cost is None else tally.cost / runs,
    )


def labels_missing(result: Certificate, alpha: float, delta: float) -> int | None:
    """Return how many labelled answers would probably certify, if the best policy is as good as it looks."""
    rates = [row.rate for row in result.rows if row.rate is not None]
    if result.certified is not None:
        return None
    best = min(rates) if rates else 0.0
    if best >= alpha:
        return None
    if result.method == "weighted":
        return questions_needed(alpha, delta, best)
    return labels_needed(alpha, delta, best or None)


def answer_models(runs: Sequence[CalibrationRun]) -> tuple[str, ...]:
    """Return the models that answered in the runs; empty where an answer names none."""
    named = {row.metadata.get("model") for run in runs for row in run.rows}
    return () if None in named else tuple(sorted(str(name) for name in named))


def least_note(result: Certificate) -> list[str]:
    """Say how many answers are the least, where a policy released too few."""
    few = any(row.status == "too_few" for row in result.rows)
    return (
        [f"too few: {result.least} released answers, none of them bad, are the least that certify"] if few else []
    )


def remarks(tallies: Sequence[Tally], tested: float, alpha: float) -> list[str]:
    """Say what is odd about the labels, and what single answers were tested at."""
    notes = []
    missing = max((tally.unlabelled for tally in tallies), default=0)
    if missing:
        notes.append(f"{missing} released answers have no label, and count as bad: label them")
    if tested != alpha:
        notes.append(f"single answers were tested at {tested:.3%}, so that loops of them stay within {alpha:.1%}")
    shares = [tally.bad / tally.released for tally in tallies if tally.released]
    if any(laxer < stricter for stricter, laxer in pairwise(shares)):
        notes.append("bad answers are not rarer where more is demanded: consider --method fallback")
    return notes


def certified_subject(subject: Subject, max_attempts: int, patience: int | None, kind: Kind) -> Subject:
    """Return the loop that is certified: the one recorded, with the attempts and the patience chosen."""
    if kind == "escalation":
        return subject
    return subject.model_copy(
        update={"policy": {**subject.policy, "max_attempts": max_attempts, "patience": patience}}
    )


def labels_used(runs: Sequence[CalibrationRun], split: str | None) -> set[str]:
    """Return the digests of the labels of the runs."""
    return {
        label_digest(row.key, opinion)
        for run in runs
        for row in run.rows
        for opinion in usable(row.opinions, split)
    }


def digest_of(parts: object) -> str:
    """Return a digest of JSON data."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def dates_of(rows: Sequence[JudgedRow]) -> dict[str, str | None]:
    """Return when the runs were recorded, where known, and the time now."""
    times = sorted(str(row.metadata["at"]) for row in rows if row.metadata.get("at"))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "recorded_from": times[0] if times else None,
        "recorded_until": times[-1] if times else None,
        "issued_at": now,
    }


def library_version() -> str:
    """Return the version of this library."""
    try:
        return version("selfrefine")
    except PackageNotFoundError:
        return "unknown"
