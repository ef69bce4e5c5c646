"""A threshold with a guarantee where no exact test applies: weights, several runs a question, graded harm."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from judges.offline.statistics.certificates import (
    ALPHA,
    DELTA,
    Certificate,
    PolicyRow,
    Status,
    hoeffding_bentkus,
    weighted_risk,
)

_MOST_QUESTIONS = 3000
_HALVINGS = 40


class Release(NamedTuple):
    """A released answer.

    Args:
        loss: Harm it does, 0 to 1; 1 is bad.
        weight: Its design weight, 1 / probability with which its run was drawn.
        question: What tells its question from others.
    """

    loss: float
    weight: float
    question: Hashable


def certify_weighted(
    chain: Mapping[float, Sequence[Release]] | Sequence[Sequence[Release]],
    alpha: float = ALPHA,
    delta: float = DELTA,
    *,
    largest: float | None = None,
) -> Certificate:
    """Choose the most lenient policy whose weighted mean loss is at most alpha, with confidence 1 - delta.

    The sequence of `certify`, with the Hoeffding-Bentkus bound of `weighted_risk` over questions in place of the
    exact test. It is much weaker: take it for weights, several runs a question, or harm between 0 and 1.

    Args:
        chain: What each policy releases in the calibration runs, strictest first; a mapping is from success
            ratings, in any order.
        alpha: Largest tolerated mean loss.
        delta: Probability that the promise does not hold.
        largest: At least the largest sum of weights of a question, fixed before labels are seen; None takes that
            of the answers released.

    Raises:
        ValueError: If a level, a loss or a weight is out of range, or a question outweighs `largest`.
    """
    if not (0 < alpha < 1 and 0 < delta < 1):
        raise ValueError(f"alpha and delta lie between 0 and 1, not {alpha!r} and {delta!r}")
    pairs = sorted(chain.items(), reverse=True) if isinstance(chain, Mapping) else list(enumerate(chain))
    released = [(float(policy), [_checked(Release(*one)) for one in releases]) for policy, releases in pairs]
    scale = largest or max((_heaviest(releases) for _, releases in released), default=1.0) or 1.0
    least = math.ceil(round(math.log(delta) / math.log(1 - alpha), 9))
    rows: list[PolicyRow] = []
    for policy, releases in released:
        rows.append(_row(policy, releases, alpha, delta, scale, status=_status(rows, releases, least)))
    certified = [row.policy for row in rows if row.status == "certified"]
    uppers = [row.upper for row in rows if row.upper is not None]
    return Certificate(
        alpha=alpha,
        delta=delta,
        method="weighted",
        certified=certified[-1] if certified else None,
        rows=tuple(rows),
        least=least,
        reachable_alpha=min(uppers) if uppers and not certified else None,
    )


def _checked(release: Release) -> Release:
    if not (0 <= release.loss <= 1 and 0 < release.weight < math.inf):
        raise ValueError(f"a loss is 0 to 1 and a weight above 0, not {release.loss!r} and {release.weight!r}")
    return release


def _status(earlier: Sequence[PolicyRow], releases: Sequence[Release], least: int) -> Status | None:
    """Return the status of a policy that is not tested; None for one that is."""
    statuses = {row.status for row in earlier}
    if "refused" in statuses:
        return "not_tested"
    few = len({release.question for release in releases}) < least
    return "too_few" if few and "certified" not in statuses else None


def _row(
    policy: float, releases: Sequence[Release], alpha: float, delta: float, scale: float, *, status: Status | None
) -> PolicyRow:
    p = _p_value(releases, alpha, scale) if status is None else None
    total = math.fsum(release.weight for release in releases)
    return PolicyRow(
        policy=policy,
        released=len(releases),
        bad=sum(release.loss > 0 for release in releases),
        rate=math.fsum(release.loss * release.weight for release in releases) / total if releases else None,
        upper=_upper(releases, delta, scale) if releases else None,
        p=p,
        e=None,
        status=status or ("certified" if p is not None and p <= delta else "refused"),
    )


def _p_value(releases: Sequence[Release], alpha: float, scale: float) -> float:
    return weighted_risk(
        [release.loss for release in releases],
        alpha,
        weights=[release.weight for release in releases],
        clusters=[release.question for release in releases],
        largest=scale,
    )


def _upper(releases: Sequence[Release], delta: float, scale: float) -> float:
    """Return the smallest mean loss that the test would have confirmed, to nine digits."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _p_value(releases, middle, scale) <= delta:
            high = middle
        else:
            low = middle
    return high


def _heaviest(releases: Sequence[Release]) -> float:
    """Return the largest sum of weights of a question."""
    sums: dict[Hashable, float] = {}
    for release in releases:
        sums[release.question] = sums.get(release.question, 0.0) + release.weight
    return max(sums.values(), default=0.0)


def questions_needed(alpha: float, delta: float, mean: float) -> int | None:
    """Return how many questions certify alpha if their mean loss stays as it is; None if 3,000 do not suffice."""
    enough = (n for n in range(1, _MOST_QUESTIONS) if hoeffding_bentkus(mean, n, alpha) <= delta)
    return next(enough, None)
