"""Several people's labels of the same rows: how well they agree, and how the judge stands among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from judges.offline.statistics import AltTest, alt_test, cohen_kappa, gwet_ac, human_likeness, krippendorff_alpha
from judges.offline.trust.labels import lower_median, majority
from judges.offline.trust.rows import JudgedRow

_LEAST_FOR_TEST, _LEAST_FOR_LIKENESS = 3, 4
_BOTH = (0, 1)


@dataclass(frozen=True, kw_only=True)
class People:
    """Agreement among people, the ceiling for a judge.

    Args:
        names: Who labelled.
        rows: Rows with at least two labels.
        ceiling: Mean over people of Cohen's kappa of each with the majority of the others, of good and bad.
        ceiling_ratings: The same of ratings, with quadratic weights; None where people only said good or bad.
        alpha: Krippendorff's alpha, ordinal for ratings, else nominal.
        ac: Gwet's AC2 with quadratic weights for ratings, else AC1.
        alt_test: Whether the judge may stand in for a person; None for fewer than three.
        likeness: How many standard deviations the judge's kappas lie from those among people; for four or more.
        skipped: People with too few rows for the test.
    """

    names: tuple[str, ...]
    rows: int
    ceiling: float | None = None
    ceiling_ratings: float | None = None
    alpha: float | None = None
    ac: float | None = None
    alt_test: AltTest | None = None
    likeness: float | None = None
    skipped: tuple[str, ...] = field(default=())


def people_of(
    rows: Sequence[JudgedRow], judged: Sequence[int | None], *, good: float, ratings: bool
) -> People | None:
    """Return how people agree; None where no row has two labels.

    Args:
        rows: Labelled rows, in order.
        judged: The judge's rating of each.
        good: Least rating that is good.
        ratings: Whether all labels are ratings.
    """
    several = [row for row in rows if len(row.opinions) > 1]
    if not several:
        return None
    names = sorted({opinion.by for row in rows for opinion in row.opinions})
    table = [{opinion.by: opinion.rating for opinion in row.opinions} for row in rows]
    units = [[labels.get(name) for labels in table] for name in names]
    goodness = [[None if label is None else float(label >= good) for label in unit] for unit in units]
    passes = [None if rating is None else float(rating >= good) for rating in judged]
    chosen = units if ratings else goodness
    test = None
    if len(names) >= _LEAST_FOR_TEST:
        judge = [None if rating is None else float(rating) for rating in judged] if ratings else passes
        test = alt_test(chosen, judge, scoring="rmse" if ratings else "accuracy")
    by_row = list(zip(*chosen, strict=True))
    return People(
        names=tuple(names),
        rows=len(several),
        ceiling=_ceiling(rows, names, good=good, ratings=False),
        ceiling_ratings=_ceiling(rows, names, good=good, ratings=True) if ratings else None,
        alpha=krippendorff_alpha(by_row, metric="ordinal" if ratings else "nominal"),
        ac=gwet_ac(by_row, weighting="quadratic") if ratings else gwet_ac(by_row, levels=_BOTH),
        alt_test=test,
        likeness=human_likeness(units, list(judged)) if ratings and len(names) >= _LEAST_FOR_LIKENESS else None,
        skipped=() if test is None else tuple(names[number] for number in test.skipped),
    )


def _ceiling(rows: Sequence[JudgedRow], names: Sequence[str], *, good: float, ratings: bool) -> float | None:
    """Return the mean over people of the kappa of each with the others together."""
    kappas = []
    for name in names:
        own, rest = [], []
        for row in rows:
            mine = [opinion for opinion in row.opinions if opinion.by == name]
            others = [opinion for opinion in row.opinions if opinion.by != name]
            together = lower_median(others) if ratings else majority(others, good)
            if mine and others and together is not None:
                own.append(mine[-1].rating if ratings else float(mine[-1].is_good(good)))
                rest.append(float(together))
        kappa = cohen_kappa(rest, own, weighting="quadratic") if ratings else cohen_kappa(rest, own, levels=_BOTH)
        if own and kappa is not None:
            kappas.append(kappa)
    return sum(kappas) / len(kappas) if kappas else None
