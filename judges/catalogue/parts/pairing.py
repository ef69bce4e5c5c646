"""Pairing the items of two lists by weight: in their order, or in any order."""

from __future__ import annotations

from collections.abc import Sequence

Weights = Sequence[Sequence[float | None]]
"""How well each row fits each column; None where the two cannot be paired."""

_PAIR_BONUS = 1e-9
"""Bonus for each pair, so that of two pairings of equal weight the one with more pairs wins."""

Matching = list[tuple[int, int]]


def ordered_matching(weights: Weights) -> Matching:
    """Pair rows and columns without crossing, for the greatest sum of weights: O(rows * columns).

    With weights of 1 this is the longest common subsequence.
    """
    if not weights:
        return []
    best = [[0.0] * (len(weights[0]) + 1) for _ in range(len(weights) + 1)]
    for row in reversed(range(len(weights))):
        below, here = best[row + 1], best[row]
        for column in reversed(range(len(weights[0]))):
            most = max(below[column], here[column + 1])
            weight = weights[row][column]
            if weight is not None:
                most = max(most, _with_pair(weight, below[column + 1]))
            here[column] = most
    return _traceback(weights, best)


def _with_pair(weight: float, rest: float) -> float:
    return rest + weight + _PAIR_BONUS


def _traceback(weights: Weights, best: Sequence[Sequence[float]]) -> Matching:
    """Follow the best sums from the beginning, pairing as early as possible."""
    row = column = 0
    pairs: Matching = []
    while row < len(weights) and column < len(weights[0]):
        weight, most = weights[row][column], best[row][column]
        if weight is not None and _with_pair(weight, best[row + 1][column + 1]) == most:
            pairs.append((row, column))
            row, column = row + 1, column + 1
        elif best[row + 1][column] == most:
            row += 1
        else:
            column += 1
    return pairs


def matching(weights: Sequence[Sequence[float]]) -> Matching:
    """Pair as many rows and columns as possible, for the greatest sum of weights.

    The Hungarian method with potentials: O(k^2 * l) for k of the shorter and l of the longer side.
    """
    if not weights or not weights[0]:
        return []
    if len(weights) <= len(weights[0]):
        return sorted((row, column) for column, row in _assignment(weights).items())
    transposed = list(zip(*weights, strict=True))
    return sorted(_assignment(transposed).items())


def _assignment(weights: Sequence[Sequence[float]]) -> dict[int, int]:
    """Assign every row a column, row by row along the shortest augmenting path; return rows by column."""
    rows, columns = len(weights), len(weights[0])
    of_row, of_column = [0.0] * rows, [0.0] * (columns + 1)
    assigned = [-1] * (columns + 1)  # the last column is where each path begins
    for row in range(rows):
        assigned[columns] = row
        column = columns
        least, before = [float("inf")] * columns, [columns] * columns
        free, passed = list(range(columns)), [columns]
        while assigned[column] >= 0:
            here = assigned[column]
            line, base = weights[here], of_row[here]
            for other in free:
                slack = -line[other] - base - of_column[other]
                if slack < least[other]:
                    least[other], before[other] = slack, column
            step = min(least[other] for other in free)
            nearest = [other for other in free if least[other] == step]
            column = next((other for other in nearest if assigned[other] < 0), nearest[0])
            for other in passed:
                of_row[assigned[other]] += step
                of_column[other] -= step
            for other in free:
                least[other] -= step
            free.remove(column)
            passed.append(column)
        while column != columns:
            assigned[column] = assigned[before[column]]
            column = before[column]
    return {column: row for column, row in enumerate(assigned[:columns]) if row >= 0}
