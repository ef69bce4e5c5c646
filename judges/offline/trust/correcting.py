"""Pass rates corrected for the judge's errors: from a random sample of labels, from strata, or from other data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from judges.offline.statistics import (
    Figure,
    active_mean,
    ppi_mean,
    ppi_rate,
    rogan_gladen,
    stratified_rate,
    wilson,
)
from judges.offline.statistics.correction import labels_alone
from judges.verdict import HIGHEST, LOWEST

FigureT = TypeVar("FigureT", bound=Figure)
Sampling = Literal["random", "by_rating", "active", "elsewhere"]


@dataclass(frozen=True, kw_only=True)
class Item:
    """One judged row: its question, the judge's rating, and whether people call it good, where they said.

    Args:
        question_id: The question.
        rating: The judge's rating; None where it is unscored.
        passes: Whether the judge passes it; None where it is unscored.
        good: Whether people call it good; None without a label.
        weight: Design weight.
        probability: With which it was drawn to be labelled, of an active sample.
    """

    question_id: str
    rating: int | None
    passes: bool | None
    good: bool | None
    weight: float = 1.0
    probability: float | None = None


@dataclass(frozen=True, kw_only=True)
class PassRate:
    """How many answers people would call good.

    Args:
        corrected: The estimate; it has no value where labels are too few or the judge carries no information.
        uncorrected: Share that the judge passes, of those it scored; over questions where some rows ask the same.
        human: What the labels alone say.
        bounds: Share that the judge passes with every unscored row refused, and with every one passed; None where
            all are scored.
        sampling: How the labels were drawn, as was said.
    """

    corrected: Figure
    uncorrected: Figure
    human: Figure | None
    bounds: tuple[float, float] | None
    sampling: Sampling


def pass_rate(items: Sequence[Item], *, sampling: Sampling) -> PassRate | None:
    """Return the corrected pass rate of all judged rows; None where no row is judged.

    Args:
        items: All rows, those without a label included.
        sampling: `"random"`: the labelled rows are a random sample of all. `"by_rating"`: of each rating some were
            drawn at random. `"active"`: each was drawn with the probability that it holds. `"elsewhere"`: the
            labels are of other data, and only error rates are taken from them.
    """
    scored = [item for item in items if item.passes is not None]
    if not scored:
        return None
    labelled = [item for item in scored if item.good is not None]
    rest = [item for item in scored if item.good is None]
    population = rest if sampling == "elsewhere" else scored
    missing = len(items) - len(scored)
    passes = sum(bool(item.passes) for item in scored)
    return PassRate(
        corrected=_corrected(labelled, rest, scored, sampling),
        uncorrected=_passing(population)
        if sampling in {"random", "active"}
        else _share(sum(map(_passes, population)), len(population)),
        human=None if sampling != "random" or not labelled else _human(labelled),
        bounds=(passes / len(items), (passes + missing) / len(items)) if missing else None,
        sampling=sampling,
    )


def _corrected(
    labelled: Sequence[Item], rest: Sequence[Item], scored: Sequence[Item], sampling: Sampling
) -> Figure:
    if not rest and labelled:
        return _human(labelled)
    if sampling == "elsewhere":
        return _by_error_rates(labelled, rest)
    if sampling == "by_rating":
        return _by_stratum(labelled, scored)
    if sampling == "active":
        return _by_probability(scored)
    good, passes = [float(bool(item.good)) for item in labelled], [float(bool(item.passes)) for item in labelled]
    others = [float(bool(item.passes)) for item in rest]
    if any(item.weight != 1 for item in labelled):
        weights = [item.weight for item in labelled]
        return ppi_mean(good, passes, others, variant="reference", weights=weights)
    if _is_clustered(scored):
        questions = {item.question_id for item in labelled}
        apart = [item for item in rest if item.question_id not in questions]
        if not apart:
            return _human(labelled)
        labelled_questions = [item.question_id for item in labelled]
        return _within(ppi_mean(good, passes, _means(apart, _passes), clusters=labelled_questions))
    return ppi_rate([bool(one) for one in good], [bool(one) for one in passes], [bool(one) for one in others])


def _passes(item: Item) -> bool:
    return bool(item.passes)


def _is_good(item: Item) -> bool:
    return bool(item.good)


def _is_clustered(items: Sequence[Item]) -> bool:
    """Check whether some rows ask the same, so that a question is the unit and not a row."""
    return len({item.question_id for item in items}) < len(items)


def _means(items: Sequence[Item], holds: Callable[[Item], bool]) -> list[float]:
    """Return for each question the share of its rows of which something holds."""
    by_question: dict[str, list[bool]] = {}
    for item in items:
        by_question.setdefault(item.question_id, []).append(holds(item))
    return [sum(values) / len(values) for values in by_question.values()]


def _by_error_rates(labelled: Sequence[Item], rest: Sequence[Item]) -> Figure:
    good = [item for item in labelled if item.good]
    bad = [item for item in labelled if not item.good]
    if not good or not bad:
        return Figure.undefined("one_class", len(rest), method="Rogan-Gladen")
    return rogan_gladen(
        sum(bool(item.passes) for item in rest),
        len(rest),
        sum(not item.passes for item in bad),
        len(bad),
        sum(bool(item.passes) for item in good),
        len(good),
    )


def _by_probability(scored: Sequence[Item]) -> Figure:
    """Return the rate from an active sample; a label without a probability is of a row that was known before."""
    return _within(
        active_mean(
            [float(_passes(item)) for item in scored],
            [None if item.good is None else float(item.good) for item in scored],
            [1.0 if item.probability is None else item.probability for item in scored],
            clusters=[item.question_id for item in scored],
        )
    )


def _by_stratum(labelled: Sequence[Item], scored: Sequence[Item]) -> Figure:
    ratings = [rating for rating in range(LOWEST, HIGHEST + 1) if any(item.rating == rating for item in scored)]
    drawn = {rating: [item for item in labelled if item.rating == rating] for rating in ratings}
    if not ratings or not all(drawn.values()):
        return Figure.undefined("too_few", len(labelled), method="stratified")
    shares = [sum(item.rating == rating for item in scored) / len(scored) for rating in ratings]
    return stratified_rate(
        shares,
        len(scored),
        [len(drawn[rating]) for rating in ratings],
        [sum(bool(item.good) for item in drawn[rating]) for rating in ratings],
    )


def _human(labelled: Sequence[Item]) -> Figure:
    if _is_clustered(labelled):
        return _within(replace(labels_alone(_means(labelled, _is_good)), method="labels alone, over questions"))
    return _share(sum(map(_is_good, labelled)), len(labelled), method="Wilson, labels alone")


def _passing(items: Sequence[Item]) -> Figure:
    if _is_clustered(items):
        return _within(replace(labels_alone(_means(items, _passes)), method="over questions"))
    return _share(sum(map(_passes, items)), len(items))


def _within(rate: FigureT) -> FigureT:
    """Return a rate with its interval cut off at 0 and 1."""
    low, high = (None if end is None else min(1.0, max(0.0, end)) for end in (rate.low, rate.high))
    return replace(rate, low=low, high=high)


def _share(wins: int, n: int, *, method: str = "Wilson") -> Figure:
    if not n:
        return Figure.undefined("too_few", 0, method=method)
    low, high = wilson(wins, n)
    return Figure(value=wins / n, n=n, low=low, high=high, method=method)
