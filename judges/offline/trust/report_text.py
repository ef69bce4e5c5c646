"""What `align` and `certify` found, as text for a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal, TypeVar

from judges.certificate import Kind, aligned_lines
from judges.errors import plural
from judges.offline.statistics import (
    Agreement,
    AltTest,
    BiasReport,
    BiasTest,
    CorrectedRate,
    Figure,
    RankMetrics,
    active_mean,
    alt_test,
    cohen_kappa,
    gwet_ac,
    human_likeness,
    krippendorff_alpha,
    ppi_mean,
    ppi_rate,
    rogan_gladen,
    stratified_rate,
)
from judges.offline.statistics.certificates import DELTA, Certificate, evidence_needed
from judges.offline.statistics.correction import labels_alone
from judges.offline.statistics.intervals import EXACT, clopper_pearson, p_text
from judges.offline.trust.calibration import PolicyTally
from judges.offline.trust.rows import JudgedAnswer, lower_median, majority, usable
from judges.verdict import HIGHEST, LOWEST

_FigureT = TypeVar("_FigureT", bound=Figure)
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
        uncorrected=_rate(population, _passes)
        if sampling in {"random", "active"}
        else Figure.of_share(sum(map(_passes, population)), len(population)),
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
    figure = _rate(labelled, _is_good)
    return replace(figure, method=f"{figure.method}, labels alone")


def _rate(items: Sequence[Item], holds: Callable[[Item], bool]) -> Figure:
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


_INDICATIVE_BELOW = 30


def agreement_lines(
    agreement: Agreement,
    people: PeopleAgreement | None,
    *,
    judge: str,
    labelled: int,
    questions: int,
    ties: int,
    ratings: bool,
) -> Iterator[str]:
    """Yield the short report of agreement, in at most eight lines."""
    figures = agreement.figures
    coverage = "" if agreement.coverage is None else f", {agreement.coverage:.0%} of them scored"
    tied = f", {ties} {'tie' if ties == 1 else 'ties'} left out" if ties else ""
    few = ", indicative: few questions" if questions < _INDICATIVE_BELOW else ""
    yield f"{judge}: {labelled} labelled rows{coverage}{tied}{few}"
    if agreement.n == 0:
        yield "no labelled row is scored: nothing can be compared"
        return
    yield from _pass_lines(agreement)
    if ratings:
        difference = figures["mean_difference"].value or 0.0
        lenient = "higher" if difference > 0 else "lower"
        yield (
            f"ratings            quadratic kappa {_number(figures['kappa_quadratic'])}, within one "
            f"{figures['within_one'].value:.0%}, {abs(difference):.2f} {lenient} than people"
        )
    parts = [
        f"{rating}: {figure.value:.0%}"
        for rating, figure in agreement.reliability.items()
        if figure.value is not None
    ]
    broken = "" if agreement.monotone is not False else ", NOT rising: a higher rating is not better"
    scores = f"; AUC {_number(figures['auc'])}, Brier {_number(figures['brier'])}" if "auc" in figures else ""
    if parts:
        yield f"good by rating     {', '.join(parts)}{broken}{scores}"
    if people is not None:
        yield f"people             {_people(people)}"


def _pass_lines(agreement: Agreement) -> Iterator[str]:
    figures = agreement.figures
    if not figures["base_rate"].n:
        yield "good or bad        undefined (too_few): of every row as many people say good as bad"
        return
    yield f"people say good    {_share(figures['base_rate'])}"
    kappa = figures["pass_kappa"]
    paradox = "; kappa paradox, see AC1" if agreement.kappa_paradox else ""
    one_class = f"; one class only, AC1 {_number(figures['ac1'])}" if kappa.value is None else ""
    yield f"same verdict       {_share(figures['agreement'])}, kappa {_number(kappa)}{paradox}{one_class}"
    passed, refused = _share(figures["tpr"]), _share(figures["tnr"])
    yield f"errors             passes {passed} of the good, refuses {refused} of the bad"
    yield f"bad among passes   {_bad_among_passes(figures['bad_among_passes'])}"


def _share(figure: Figure) -> str:
    if figure.value is None:
        return f"undefined ({figure.reason})"
    bounds = "" if figure.low is None or figure.high is None else f" ({figure.low:.0%} to {figure.high:.0%})"
    return f"{figure.value:.0%}{bounds}"


def _number(figure: Figure) -> str:
    if figure.value is None:
        return f"undefined ({figure.reason})"
    bounds = "" if figure.low is None or figure.high is None else f" ({figure.low:.2f} to {figure.high:.2f})"
    return f"{figure.value:.2f}{bounds}"


def _bad_among_passes(figure: Figure) -> str:
    if figure.value is None or figure.high is None:
        return _share(figure)
    share = f"{100 * figure.value:.1f} %, at most {100 * figure.high:.1f} %"
    if not figure.method.startswith(EXACT):  # n are questions, and no answers can be counted
        return f"of the answers that pass {share} (at 95 %, over {figure.n} questions)"
    bad = round(figure.value * figure.n)
    verb = "is" if bad == 1 else "are"
    return f"{bad} of {figure.n} passing answers {verb} bad: {share} (at 95 %)"


def _people(people: PeopleAgreement) -> str:
    ceiling = "undefined" if people.ceiling is None else f"{people.ceiling:.2f}"
    alpha = "undefined" if people.alpha is None else f"{people.alpha:.2f}"
    line = f"kappa of one with the others {ceiling} (the ceiling), alpha {alpha}"
    test = people.alt_test
    if test is None:
        return line
    if test.winning_rate is None or test.advantage is None:
        return f"{line}; too few rows to test whether the judge may stand in for one"
    may = "may" if test.passed else "may not"
    return f"{line}; the judge {may} stand in for one (omega {test.winning_rate:.2f})"


def pass_rate_lines(rate: PassRate | None) -> Iterator[str]:
    """Yield the pass rates, corrected and not."""
    if rate is None:
        return
    corrected = rate.corrected
    yield f"pass rate, corrected   {_share(corrected)}{_indicative(corrected)}   [{corrected.method or '-'}]"
    yield f"pass rate, uncorrected {_share(rate.uncorrected)}   the judge alone, {_unit(rate.uncorrected)}"
    if rate.human is not None and rate.human is not corrected and rate.human != corrected:
        yield f"labels alone           {_share(rate.human)}   {_unit(rate.human)}{_gain(corrected)}"
    if rate.bounds is not None:
        yield f"with unscored rows     {rate.bounds[0]:.0%} if all are refused, {rate.bounds[1]:.0%} if all pass"


def _unit(figure: Figure) -> str:
    return f"{figure.n} {'questions' if 'over questions' in figure.method else 'rows'}"


def _indicative(figure: Figure) -> str:
    return f", {figure.note}" if figure.note else ""


def _gain(figure: Figure) -> str:
    if not isinstance(figure, CorrectedRate) or figure.effective is None or figure.correlation is None:
        return ""
    return f"; with the judge as exact as {figure.effective:.0f} labels (rho {figure.correlation:.2f})"


def bias_lines(report: BiasReport) -> Iterator[str]:
    """Yield the report on bias, a line for each test."""
    yield "bias               one family of tests: a false flag in at most 5 % of reports"
    for test in report.tests:
        yield f"  {_bias_line(test)}"


def _bias_line(test: BiasTest) -> str:
    effect = "-" if test.effect is None else f"{test.effect:+.2f}"
    bounds = "" if test.interval is None else f" ({test.interval[0]:+.2f} to {test.interval[1]:+.2f})"
    if test.p is None and test.finding == "not enough data":
        return f"{test.bias + ':':<16} {test.finding_text}"
    p = "" if test.adjusted_p is None else f", {p_text(test.adjusted_p)} after Holm"
    finding = test.finding.upper() if test.finding == "flagged" else test.finding_text
    return f"{test.bias:<16} {finding}: {effect}{bounds}{p}, n {test.n}"


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


_BESIDE = {"agreement": "same verdict", "tpr": "good passed", "tnr": "bad refused", "auc": "AUC", "brier": "Brier"}


def side_by_side_lines(judge: str, agreement: Agreement, others: Sequence[SideBySide]) -> Iterator[str]:
    """Yield a table of judges of the same rows, the one that the report is about first."""
    judges = [SideBySide(judge=judge, agreement=agreement), *others]
    table = [["on the same labels", "scored", *_BESIDE.values()]]
    for one in judges:
        figures = [one.agreement.figures.get(name) for name in _BESIDE]
        cells = ["-" if each is None or each.value is None else f"{each.value:.3f}" for each in figures]
        table.append([one.judge, str(one.agreement.n), *cells])
    yield from aligned_lines(table)


def full_lines(
    agreement: Agreement, people: PeopleAgreement | None, scores: RankMetrics | None, *, seed: int
) -> Iterator[str]:
    """Yield every figure there is."""
    yield "all figures"
    for name, figure in agreement.figures.items():
        note = f", {figure.note}" if figure.note else ""
        yield f"  {name.replace('_', ' '):<18} {figure}   {figure.method}{note}"
    for rating, figure in agreement.reliability.items():
        yield f"  good when rated {rating}  {figure}   {figure.method}"
    if scores is not None and scores.ece is not None and scores.ece_null is not None:
        verdict = "miscalibrated" if scores.ece > scores.ece_null else "no more than chance explains"
        yield f"  calibration error  {scores.ece:.3f}, chance alone stays below {scores.ece_null:.3f}: {verdict}"
    if people is not None:
        for name, value in (("Gwet's AC", people.ac), ("ceiling, ratings", people.ceiling_ratings)):
            yield f"  {name:<18} {'undefined' if value is None else f'{value:.3f}'}"
        if people.likeness is not None:
            yield f"  human-likeness z   {people.likeness:+.2f} (noise for few people)"
        if people.skipped:
            yield f"  not tested, too few rows: {', '.join(people.skipped)}"
    yield f"  seed {seed}"


def laxer_threshold_notes(
    result: Certificate, tallies: Sequence[PolicyTally], taken: int | None, *, kind: Kind
) -> Iterator[str]:
    """Yield what each threshold that passes adds to the next stricter one that does, where marks tell."""
    passing = [place for place, row in enumerate(result.rows) if row.status == "certified"]
    if taken is None and passing:
        before, strictest = tallies[passing[0] - 1], tallies[passing[0]]
        count = len(strictest.below(before.least))
        yield (
            f"accepting from {strictest.policy:g} passes the test, but what it would let through is hardly seen: "
            f"of {strictest.released} answers {count} below {before.policy:g}, and {result.least} are asked for"
        )
    for stricter, laxer in pairwise(passing):
        if taken is None or not tallies[laxer].passing:
            continue
        added = tallies[laxer].below(tallies[stricter].least)
        also = " is certified, too, and" if laxer > taken else ""
        name = f"accepting from {tallies[laxer].policy:g}{also}"
        if not added:
            yield f"{name} adds no answer: nobody has seen what it would let through"
            continue
        upper = clopper_pearson(sum(added), len(added), level=1 - 2 * DELTA)[1]
        share = f"{sum(added) / len(added):.1%}, at most {upper:.1%}"
        yield f"{name} adds {len(added)} answers of lower {kind}s, {sum(added)} of them bad: {share}"


def label_notes(result: Certificate, tallies: Sequence[PolicyTally], tested: float, alpha: float) -> list[str]:
    """Say what is odd about the labels, and what single answers were tested at."""
    notes = []
    if any(row.status == "too_few" for row in result.rows):
        notes.append(f"too few: {result.least} released answers, none of them bad, are the least that certify")
    if result.rows[0].status == "too_few" and result.method in ("anytime", "assisted"):
        least = evidence_needed(result.delta, len(result.rows), is_begun_laxer=True)
        notes.append(f"the strictest has too few to begin with, so that the others need an E of {least:.0f}")
    missing = max((tally.unlabelled for tally in tallies), default=0)
    if missing:
        what = "has no label, and counts" if missing == 1 else "have no label, and count"
        notes.append(
            f"{plural(missing, 'released answer')} {what} as bad: label {'it' if missing == 1 else 'them'}"
        )
    if tested != alpha:
        notes.append(f"single answers were tested at {tested:.3%}, so that loops of them stay within {alpha:.1%}")
    shares = [tally.bad / tally.released for tally in tallies if tally.released]
    if any(laxer < stricter for stricter, laxer in pairwise(shares)):
        notes.append("bad answers are not rarer where more is demanded: consider --method fallback")
    return notes


_MOST_NAMED = 5


def label_authors(rows: Iterable[JudgedAnswer], split: str | None, good: float) -> str:
    """Say whose labels of a split count, of how many answers each, and what became of those that differ."""
    opinions = [usable(row.opinions, split) for row in rows]
    people = Counter(opinion.by for of_answer in opinions for opinion in of_answer)
    named = [f"{by} ({count})" for by, count in people.most_common(_MOST_NAMED)]
    others = len(people) - len(named)
    who = f"labels of {', '.join([*named, *([f'{others} others'] if others else [])])}"
    disputed = [majority(one, good) for one in opinions if len({opinion.is_good(good) for opinion in one}) > 1]
    if not disputed:
        return who
    ties = disputed.count(None)
    decided = f"most decided {len(disputed) - ties}, and {ties} with as many on each side count as bad"
    return f"{who}; they differ on {plural(len(disputed), 'answer')}: {decided}"
