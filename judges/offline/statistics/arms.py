"""Several ways of answering the same questions: what each mends and breaks, and how it differs from a baseline."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from judges.offline.statistics.benefit import LoopBenefit, judged_together, loop_benefit

Good = Sequence[bool | None]
"""Whether each answer is good; None where that is unknown."""


@dataclass(frozen=True, kw_only=True)
class ArmEffect:
    """What became of the first answers in one arm, and how its answers differ from those of the baseline.

    Args:
        own: What it mended and broke of the answers that all arms began with.
        beside: The same where the answers of the baseline stand in place of the first ones: how many of its bad
            ones are good here, and the reverse. Its p-value and its effect are adjusted by Holm's method for all
            arms that are compared. None for the baseline.
        p: The p-value of that comparison alone.
    """

    own: LoopBenefit
    beside: LoopBenefit | None = None
    p: float | None = None


def arm_effects(
    first: Good, arms: Mapping[str, Good], *, baseline: str, clusters: Sequence[Hashable] | None = None
) -> dict[str, ArmEffect]:
    """Return the effect of each arm, over the rows of which enough is known.

    Args:
        first: Of each row, whether the answer that all arms began with is good.
        arms: By arm, whether the answer it came to is good, row by row.
        baseline: The arm that the others are compared with.
        clusters: The question of each row, whose draws are no independent observations; None: each its own.

    Raises:
        ValueError: If there is no such baseline, or an arm has another number of rows.
    """
    if baseline not in arms:
        raise ValueError(f"the baseline {baseline!r} is none of the arms {', '.join(arms)}")
    beside = {name: _between(arms[baseline], good, clusters) for name, good in arms.items() if name != baseline}
    together = dict(zip(beside, judged_together(list(beside.values())), strict=True))
    return {
        name: ArmEffect(
            own=_between(first, good, clusters),
            beside=together.get(name),
            p=beside[name].p if name in beside else None,
        )
        for name, good in arms.items()
    }


def _between(before: Good, after: Good, clusters: Sequence[Hashable] | None) -> LoopBenefit:
    if len(before) != len(after):
        raise ValueError(f"an arm has {len(after)} rows, and another one {len(before)}; give one a row")
    known = [
        (a, b, row if clusters is None else clusters[row])
        for row, (a, b) in enumerate(zip(before, after, strict=True))
        if a is not None and b is not None
    ]
    return loop_benefit([a for a, _, _ in known], [b for _, b, _ in known], clusters=[key for _, _, key in known])
