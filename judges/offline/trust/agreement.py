"""What labels of people say of a judge: agreement, pass rates, reliability and biases, as figures."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from judges.errors import ConfigurationError
from judges.offline.statistics import (
    Agreement,
    AltTest,
    BiasReport,
    Figure,
    RankMetrics,
    active_mean,
    agreement,
    alt_test,
    bias_report,
    cohen_kappa,
    gwet_ac,
    human_likeness,
    krippendorff_alpha,
    ppi_mean,
    ppi_rate,
    rank_metrics,
    rogan_gladen,
    stratified_rate,
    wilson,
)
from judges.offline.statistics.correction import labels_alone
from judges.offline.statistics.judge_agreement import rating_figures
from judges.offline.trust.benefit_report import BenefitReport, loops_among, report_benefit
from judges.offline.trust.rows import JudgedAnswer, lower_median, majority
from judges.verdict import HIGHEST, LOWEST

_FigureT = TypeVar("_FigureT", bound=Figure)
Sampling = Literal["random", "by_rating", "active", "elsewhere"]


@dataclass(frozen=True, kw_only=True)
class _RatedRow:
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


def _pass_rate(items: Sequence[_RatedRow], *, sampling: Sampling) -> PassRate | None:
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
        uncorrected=_rate(population, _passes)
        if sampling in {"random", "active"}
        else Figure.of_share(sum(map(_passes, population)), len(population)),
        human=None if sampling != "random" or not labelled else _human(labelled),
        bounds=(passes / len(items), (passes + missing) / len(items)) if missing else None,
        sampling=sampling,
    )


def _corrected(
    labelled: Sequence[_RatedRow], rest: Sequence[_RatedRow], scored: Sequence[_RatedRow], sampling: Sampling
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


def _passes(item: _RatedRow) -> bool:
    return bool(item.passes)


def _is_good(item: _RatedRow) -> bool:
    return bool(item.good)


def _is_clustered(items: Sequence[_RatedRow]) -> bool:
    """Check whether some rows ask the same, so that a question is the unit and not a row."""
    return len({item.question_id for item in items}) < len(items)


def _means(items: Sequence[_RatedRow], holds: Callable[[_RatedRow], bool]) -> list[float]:
    """Return for each question the share of its rows of which something holds."""
    by_question: dict[str, list[bool]] = {}
    for item in items:
        by_question.setdefault(item.question_id, []).append(holds(item))
    return [sum(values) / len(values) for values in by_question.values()]


def _by_error_rates(labelled: Sequence[_RatedRow], rest: Sequence[_RatedRow]) -> Figure:
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


def _by_probability(scored: Sequence[_RatedRow]) -> Figure:
    """Return the rate from an active sample; a label without a probability is of a row that was known before."""
    return _within(
        active_mean(
            [float(_passes(item)) for item in scored],
            [None if item.good is None else float(item.good) for item in scored],
            [1.0 if item.probability is None else item.probability for item in scored],
            clusters=[item.question_id for item in scored],
        )
    )


def _by_stratum(labelled: Sequence[_RatedRow], scored: Sequence[_RatedRow]) -> Figure:
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


def _human(labelled: Sequence[_RatedRow]) -> Figure:
    figure = _rate(labelled, _is_good)
    return replace(figure, method=f"{figure.method}, labels alone")


def _rate(items: Sequence[_RatedRow], holds: Callable[[_RatedRow], bool]) -> Figure:
    if _is_clustered(items):
        return _within(replace(labels_alone(_means(items, holds)), method="over questions"))
    return Figure.of_share(sum(map(holds, items)), len(items))


def _within(rate: _FigureT) -> _FigureT:
    """Return a rate with its interval cut off at 0 and 1."""
    low, high = (None if end is None else min(1.0, max(0.0, end)) for end in (rate.low, rate.high))
    return replace(rate, low=low, high=high)


_LEAST_FOR_TEST = 3
"""Annotators from which on a judge may be tested against them."""
_LEAST_FOR_LIKENESS = 4
"""Annotators from which on its likeness to them is told."""
_BOTH = (0, 1)


@dataclass(frozen=True, kw_only=True)
class PeopleAgreement:
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
        skipped: PeopleAgreement with too few rows for the test.
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
    rows: Sequence[JudgedAnswer], judged: Sequence[int | None], *, good: float, ratings: bool
) -> PeopleAgreement | None:
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
    return PeopleAgreement(
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


def _ceiling(rows: Sequence[JudgedAnswer], names: Sequence[str], *, good: float, ratings: bool) -> float | None:
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


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """Another judge of the same rows.

    Args:
        judge: Its name.
        agreement: How it agrees with people.
        cost: Mean cost of its verdicts in US dollars; None where unknown.
    """

    judge: str
    agreement: Agreement
    cost: float | None = None


_BINS = 10

_WIDTH = 40

_RESAMPLES = 500


@dataclass(frozen=True, kw_only=True)
class _ReliabilityBin:
    """Answers of about the same `p_pass`.

    Args:
        n: How many there are.
        said: Mean `p_pass`.
        good: Share that people call good.
        low: Lower end of its 95 % interval (Wilson).
        high: Upper end.
    """

    n: int
    said: float
    good: float
    low: float
    high: float

    @property
    def is_off(self) -> bool:
        """True if the interval does not reach what was said."""
        return not self.low <= self.said <= self.high


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """What labels say of a judge's `p_pass`; `str()` draws it.

    Args:
        bins: Tenths of `p_pass` that hold labelled answers, from the lowest.
        scores: Brier score and calibration error of `p_pass`, with what chance explains.
    """

    bins: tuple[_ReliabilityBin, ...]
    scores: RankMetrics

    def __str__(self) -> str:
        return "\n".join(self.lines())

    @property
    def verdict(self) -> str:
        """True if `p_pass` can be read as a probability, in words."""
        ece, null, brier = self.scores.ece, self.scores.ece_null, self.scores.brier
        if ece is None or brier is None:
            return "too few labels to say whether p_pass is calibrated"
        off = ""
        if null is not None:
            off = ": miscalibrated" if ece > null else ": no more than chance explains"
            off = f", chance alone stays below {null:.3f}{off}"
        return f"Brier score {brier:.3f}, calibration error {ece:.3f}{off}"

    def lines(self) -> Iterator[str]:
        """Yield the curve as text: `o` is what people say, `-` its interval, `|` where it ought to lie."""
        yield "p_pass: of answers said to pass with p, people call so many good (| said, o people, - 95 %)"
        yield f"   said   good      n   0{'0.5':^{_WIDTH - 2}}1"
        for one in self.bins:
            note = "  off" if one.is_off else ""
            yield f"  {one.said:5.2f}  {one.good:5.2f}  {one.n:>5}   {_drawn(one)}{note}"
        yield f"  {self.verdict}"


def _drawn(one: _ReliabilityBin) -> str:
    def place(share: float) -> int:
        return round(share * (_WIDTH - 1))

    cells = [" "] * _WIDTH
    cells[place(one.low) : place(one.high) + 1] = "-" * (place(one.high) - place(one.low) + 1)
    cells[place(one.said)] = "|"
    cells[place(one.good)] = "o" if place(one.good) != place(one.said) else "@"
    return "".join(cells).rstrip()


def _reliability_of(rows: Sequence[JudgedAnswer], judge: str, *, good: float, seed: int) -> Reliability | None:
    """Return the curve over the labelled rows whose verdict has a `p_pass`; None where none has.

    Args:
        rows: The rows; one on which as many people say good as bad is left out.
        judge: The judge.
        good: Least human rating that is good.
        seed: Seed of the resamples.
    """
    pairs = _said_and_good(rows, judge, "p_pass", good)
    if not pairs:
        return None
    probabilities, goods, weights = zip(*pairs, strict=True)
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(_BINS)]
    for share, is_good, _ in pairs:
        bins[min(int(share * _BINS), _BINS - 1)].append((share, is_good))
    scores = rank_metrics(goods, probabilities, weights=weights, resamples=_RESAMPLES, seed=seed)
    return Reliability(bins=tuple(_bin(answers) for answers in bins if answers), scores=scores)


def _said_and_good(
    rows: Sequence[JudgedAnswer], judge: str, name: Literal["score", "p_pass"], good: float
) -> list[tuple[float, bool, float]]:
    """Return what the judge said, whether people call it good, and the weight, of the rows that have all of it."""
    pairs = []
    for row in rows:
        mark, verdict = row.marks.get(judge), majority(row.opinions, good)
        number = None if mark is None else mark.score if name == "score" else mark.p_pass
        if number is not None and verdict is not None:
            pairs.append((number, verdict, row.weight))
    return pairs


def _bin(answers: Sequence[tuple[float, bool]]) -> _ReliabilityBin:
    n, goods = len(answers), sum(is_good for _, is_good in answers)
    low, high = wilson(goods, n)
    return _ReliabilityBin(n=n, said=sum(share for share, _ in answers) / n, good=goods / n, low=low, high=high)


_ORDERS = 2

_FAMILY = 2

_LEAST_RATERS = 2


def _bias_of(rows: Sequence[JudgedAnswer], judge: str, *, ratings: bool, seed: int) -> BiasReport | None:
    """Return the report on bias for which the rows hold data; None where they hold none.

    A probe is a row with `probe`, its kind, for instance `"verbosity"` or `"authority"`, and `probe_of`, the `id`
    of the row it is made from. `repeat_of` marks a plain second one. `places` is which place, F, S or T, won a
    pair in each of the two orders, for instance `"FS"`. `family` (`"own"` or `"other"`) and `control_rating` serve
    the test of self-preference.

    Args:
        rows: All rows.
        judge: The judge.
        ratings: Whether labels are ratings, and there are any.
        seed: Seed of sign flips and resamples.
    """
    rated = [(row, mark.as_rating) for row in rows if (mark := row.marks.get(judge)) is not None]
    scored = [(row, rating) for row, rating in rated if rating is not None]
    probes, triples = _probes(scored)
    labelled = [(row, rating) for row, rating in scored if row.opinions and not row.metadata.get("probe")]
    places = [str(row.metadata["places"]) for row in rows if len(str(row.metadata.get("places") or "")) == _ORDERS]
    families = _families(scored)
    verbosity = probes.pop("verbosity", None)
    data = {
        "position": places or None,
        "verbosity": verbosity,
        "cues": probes or None,
        "robustness": triples or None,
        "self_preference": families or None,
    }
    report = bias_report(
        **data,  # type: ignore[arg-type]  # each is what the argument of its name takes
        leniency=[(lower_median(row.opinions) or 0.0, float(rating)) for row, rating in labelled]
        if ratings
        else None,
        length=_lengths(labelled) if ratings else None,
        clusters=[row.question_id for row, _ in labelled] if ratings else None,
        seed=seed,
    )
    return report if report.tests else None


def _probes(
    scored: Sequence[tuple[JudgedAnswer, int]],
) -> tuple[dict[str, list[tuple[float, float]]], dict[str, list[tuple[int, int, int]]]]:
    """Return by kind the rating without and with the probe, and where there is one of a second one."""
    named = [(str(row.metadata["id"]), rating) for row, rating in scored if row.metadata.get("id") is not None]
    plain, rows_of = dict(named), Counter(name for name, _ in named)
    again = {
        str(row.metadata["repeat_of"]): rating
        for row, rating in scored
        if row.metadata.get("repeat_of") is not None
    }
    pairs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    triples: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for row, rating in scored:
        kind, origin = row.metadata.get("probe"), str(row.metadata.get("probe_of"))
        if kind and rows_of[origin] > 1:
            raise ConfigurationError(
                f"row {row.index}: probe_of={origin!r} is the id of {rows_of[origin]} rows; give each its own id"
            )
        if kind and origin in plain:
            pairs[str(kind)].append((float(plain[origin]), float(rating)))
            if origin in again:
                triples[str(kind)].append((plain[origin], rating, again[origin]))
    return dict(pairs), dict(triples)


def _families(scored: Sequence[tuple[JudgedAnswer, int]]) -> list[tuple[float, float, float, float]]:
    by_question: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
    for row, rating in scored:
        family, control = row.metadata.get("family"), row.metadata.get("control_rating")
        if family in {"own", "other"} and isinstance(control, int | float):
            by_question[row.question_id][str(family)] = (float(rating), float(control))
    return [(*both["own"], *both["other"]) for both in by_question.values() if len(both) == _FAMILY]


def _lengths(
    labelled: Sequence[tuple[JudgedAnswer, int]],
) -> tuple[list[float], list[float], list[float] | None, list[float]] | None:
    """Return ratings of judge and people with the logarithm of the lengths; with one person alone, no second."""
    chosen = [(row, rating) for row, rating in labelled if row.length]
    if not chosen or len(chosen) < len(labelled):
        return None
    several = all(len(row.opinions) >= _LEAST_RATERS for row, _ in chosen)
    return (
        [float(rating) for _, rating in chosen],
        [row.opinions[0].rating for row, _ in chosen],
        [row.opinions[1].rating for row, _ in chosen] if several else None,
        [math.log(row.length) for row, _ in chosen],
    )


@dataclass(frozen=True)
class ComparedRows:
    """The rows, of which those that probe the judge say nothing of its agreement with people."""

    everything: Sequence[JudgedAnswer]
    judged: Sequence[JudgedAnswer]
    labelled: Sequence[JudgedAnswer]
    judge: str
    good: float
    seed: int

    @classmethod
    def of(cls, rows: Sequence[JudgedAnswer], judge: str, good: float, seed: int) -> ComparedRows:
        """Return the rows that are compared.

        Raises:
            ConfigurationError: If none has a label.
        """
        judged = [row for row in rows if row.metadata.keys().isdisjoint({"probe", "repeat_of"})]
        labelled = [row for row in judged if row.opinions]
        if not labelled:
            raise ConfigurationError(
                "no row has a label; add labels to the rows, labels: [{'by': 'ann', 'rating': 4}], or give a file "
                "of them (--labels)"
            )
        return cls(rows, judged, labelled, judge, good, seed)

    def figures(self, sampling: Sampling, resamples: int) -> dict[str, Any]:
        """Return what an `Alignment` says of judge and people."""
        judge, good, seed = self.judge, self.good, self.seed
        ratings = all(opinion.is_rating for row in self.labelled for opinion in row.opinions)
        marks = [row.marks.get(judge) for row in self.labelled]
        as_ratings = [None if mark is None else mark.as_rating for mark in marks]
        return {
            "judge": judge,
            "benefit": self._benefit(),
            "rows": len(self.judged),
            "labelled": len(self.labelled),
            "questions": len({row.question_id for row in self.labelled}),
            "ties": sum(majority(row.opinions, good) is None for row in self.labelled),
            "ratings": ratings,
            "agreement": _agreement(
                self.labelled, as_ratings, judge, ratings=ratings, good=good, resamples=resamples, seed=seed
            ),
            "people": people_of(self.labelled, as_ratings, good=good, ratings=ratings),
            "calibration": _calibration(self.labelled, judge, good=good, seed=seed),
            "reliability": _reliability_of(self.labelled, judge, good=good, seed=seed),
            "beside": tuple(self._beside(ratings=ratings)),
            "pass_rate": _pass_rate(_items(self.judged, judge, good), sampling=sampling),
            "bias": _bias_of(self.everything, judge, ratings=ratings, seed=seed),
            "seed": seed,
        }

    def _beside(self, *, ratings: bool) -> Iterator[SideBySide]:
        """Yield how the other judges of these rows agree with people."""
        for name in sorted({name for row in self.labelled for name in row.marks} - {self.judge}):
            marks = [row.marks.get(name) for row in self.labelled]
            judged = [None if mark is None else mark.as_rating for mark in marks]
            agreement = _agreement(
                self.labelled,
                judged,
                name,
                ratings=ratings,
                good=self.good,
                resamples=_RESAMPLES,
                seed=self.seed,
            )
            costs = [mark.cost for mark in marks if mark is not None and mark.cost is not None]
            yield SideBySide(judge=name, agreement=agreement, cost=sum(costs) / len(costs) if costs else None)

    def _benefit(self) -> BenefitReport | None:
        """Return whether the loop helps; None where no row is an attempt of one that could try again."""
        loops = loops_among(self.judged, self.judge, good=self.good)
        return report_benefit(loops) if any(len(loop.ratings) > 1 for loop in loops) else None


def _agreement(
    rows: Sequence[JudgedAnswer],
    judged: Sequence[int | None],
    judge: str,
    *,
    ratings: bool,
    good: float,
    resamples: int,
    seed: int,
) -> Agreement:
    """Return the agreement; of good and bad over rows without a tie, of ratings over all."""
    scores = [None if (mark := row.marks.get(judge)) is None else mark.score for row in rows]
    scored = [place for place, rating in enumerate(judged) if rating is not None]
    use_scores = bool(scored) and all(scores[place] is not None for place in scored)
    common: dict[str, Any] = {
        "weights": [row.weight for row in rows],
        "clusters": _clusters(rows),
        "good": good,
        "resamples": resamples,
        "seed": seed,
        "scores": scores if use_scores else None,
    }
    verdicts = [majority(row.opinions, good) for row in rows]
    if not ratings:
        return agreement(verdicts, judged, **common)
    medians = [lower_median(row.opinions) for row in rows]
    untied = [None if verdict is None else median for verdict, median in zip(verdicts, medians, strict=True)]
    of_verdicts = agreement(untied, judged, **common)
    if None not in verdicts or not scored:
        return of_verdicts
    figures_of_judge = rating_figures(
        [medians[place] or 0.0 for place in scored],
        [judged[place] or 0.0 for place in scored],
        weights=[rows[place].weight for place in scored],
        clusters=_clusters([rows[place] for place in scored]),
        resamples=resamples,
        seed=seed,
    )
    return replace(
        of_verdicts, n=len(scored), labelled=len(rows), figures={**of_verdicts.figures, **figures_of_judge}
    )


def _clusters(rows: Sequence[JudgedAnswer]) -> list[str] | None:
    """Return the question of each row; None where every row has its own, for which exact intervals are known."""
    questions = [row.question_id for row in rows]
    return questions if len(set(questions)) < len(questions) else None


def _calibration(rows: Sequence[JudgedAnswer], judge: str, *, good: float, seed: int) -> RankMetrics | None:
    pairs = _said_and_good(rows, judge, "score", good)
    if not pairs:
        return None
    scores, goods, weights = zip(*pairs, strict=True)
    return rank_metrics(goods, scores, weights=weights, resamples=_RESAMPLES, seed=seed)


def _items(rows: Sequence[JudgedAnswer], judge: str, good: float) -> list[_RatedRow]:
    """Return what the pass rate is over: all rows but those on which as many people say good as bad."""
    items = []
    for row in rows:
        if row.opinions and majority(row.opinions, good) is None:
            continue
        mark = row.marks.get(judge)
        rating = None if mark is None else mark.as_rating
        items.append(
            _RatedRow(
                question_id=row.question_id,
                rating=rating,
                passes=None if rating is None else rating >= good,
                good=majority(row.opinions, good),
                weight=row.weight,
                probability=row.probability,
            )
        )
    return items
