"""Several tests at once: adjusted p-values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Holm's step-down method (Scandinavian Journal of Statistics 6, 1979).

    They keep the share of families with any false finding at the level they are compared with.

    Args:
        p_values: The raw p-values, in any order; the adjusted ones are in the same order.
    """
    order, m = _order(p_values), len(p_values)
    raised = accumulate(((m - rank) * p_values[i] for rank, i in enumerate(order)), max)
    return _placed(order, raised)


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Benjamini and Hochberg (JRSS B 57, 1995): bounds the share of false findings."""
    order, m = _order(p_values)[::-1], len(p_values)
    lowered = accumulate((p_values[i] * m / (m - step) for step, i in enumerate(order)), min)
    return _placed(order, lowered)


def benjamini_yekutieli(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Benjamini and Yekutieli (Annals of Statistics 29, 2001), for dependent tests."""
    harmonic = sum(1 / i for i in range(1, len(p_values) + 1))
    order, m = _order(p_values)[::-1], len(p_values)
    lowered = accumulate((p_values[i] * m * harmonic / (m - step) for step, i in enumerate(order)), min)
    return _placed(order, lowered)


def _order(p_values: Sequence[float]) -> list[int]:
    for p in p_values:
        if not 0 <= p <= 1:
            raise ValueError(f"a p-value is a number from 0 to 1, not {p!r}")
    return sorted(range(len(p_values)), key=p_values.__getitem__)


def _placed(order: Sequence[int], adjusted: accumulate[float]) -> list[float]:
    placed = [0.0] * len(order)
    for i, p in zip(order, adjusted, strict=True):
        placed[i] = min(1.0, p)
    return placed
