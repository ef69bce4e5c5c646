"""`align`: how far a judge's verdicts can be believed, by labels of people."""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from judges.certificate import IssuedCertificate
from judges.errors import ConfigurationError, shortened
from judges.offline.statistics import (
    Agreement,
    BiasReport,
    RankMetrics,
    agreement,
    bias_report,
    rank_metrics,
    wilson,
)
from judges.offline.statistics.certificates import ALPHA, DELTA
from judges.offline.statistics.judge_agreement import rating_figures
from judges.offline.trust.benefit_report import BenefitReport, loops_among, report_benefit
from judges.offline.trust.certify import GOOD, CertifySettings, certify_rows
from judges.offline.trust.label import NextLabel, to_estimate, write_queue
from judges.offline.trust.loops import LabelledRows, read_labelled
from judges.offline.trust.report_text import (
    Item,
    PassRate,
    PeopleAgreement,
    Sampling,
    SideBySide,
    agreement_lines,
    bias_lines,
    full_lines,
    pass_rate,
    pass_rate_lines,
    people_of,
    side_by_side_lines,
)
from judges.offline.trust.rows import (
    JudgedAnswer,
    RowSource,
    judge_among,
    label_digests,
    lower_median,
    majority,
    refuse_reused,
    usable,
)
from judges.offline.trust.spending import LabelUses, LedgerSource

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
    return Reliability(bins=tuple(_bin(held) for held in bins if held), scores=scores)


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


def _bin(held: Sequence[tuple[float, bool]]) -> _ReliabilityBin:
    n, goods = len(held), sum(is_good for _, is_good in held)
    low, high = wilson(goods, n)
    return _ReliabilityBin(n=n, said=sum(share for share, _ in held) / n, good=goods / n, low=low, high=high)


def _actively_drawn(rows: Sequence[JudgedAnswer]) -> tuple[list[JudgedAnswer], list[str]]:
    """Return rows with the weights of an active sample, and what to say where not all that was drawn is labelled.

    Where people labelled only some of the rows drawn, in random order as `refine label` shows them, each was
    labelled with that much less probability.

    Raises:
        ConfigurationError: If no labelled row says with which probability it was drawn.
    """
    labelled = [row for row in rows if row.opinions and row.probability is not None]
    if not labelled:
        raise ConfigurationError(
            "no labelled row has a probability, so that they are no active sample; draw one with --drawn active "
            "--next FILE, label that file, and give it as --labels"
        )
    drawn = max((row.drawn or 0 for row in labelled), default=0)
    share = min(1.0, len(labelled) / drawn) if drawn else 1.0
    notes = []
    if share < 1:
        notes.append(
            f"{len(labelled)} of {drawn} drawn rows are labelled: right if people took them in random order"
        )
    return [_weighed(row, share) for row in rows], notes


def _weighed(row: JudgedAnswer, share: float) -> JudgedAnswer:
    if not row.opinions or row.probability is None:
        return row
    probability = row.probability * share
    return replace(row, probability=probability, weight=row.weight / probability)


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


def _plain(value: object) -> Any:
    """Return a result, with everything in it, as dictionaries, lists, texts and numbers."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(part) for part in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


_BUDGET = 80


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """What labels say of a judge; `str()` gives the short report, `report(full=True)` all of it.

    Args:
        judge: The judge.
        benefit: Whether the loop that the rows are attempts of helps; None where they are of no loop.
        rows: Rows that were judged.
        labelled: Rows with a label.
        questions: Different questions among the labelled rows.
        ties: Labelled rows on which as many people say good as bad; they are left out of every figure about good
            and bad.
        ratings: Whether all labels are ratings; figures of ratings are left out otherwise.
        agreement: Agreement of judge and people; intervals are over questions.
        people: Agreement among people; None where no row has two labels.
        calibration: Of scores: Brier score, and calibration error with what chance explains; None without scores.
        reliability: Whether `p_pass` is what it says; None where no verdict has one.
        beside: Other judges of the same rows, such as a `Quick` one and the judge itself.
        pass_rate: The pass rate of all rows, corrected for the judge's errors.
        certificate: What the labels certify; None where they cannot, and a note says why.
        bias: The report on bias; None where the rows hold no data for one.
        next_labels: Rows worth labelling next.
        notes: What a reader must know besides.
        seed: Seed of every resample.
    """

    judge: str
    benefit: BenefitReport | None
    rows: int
    labelled: int
    questions: int
    ties: int
    ratings: bool
    agreement: Agreement
    people: PeopleAgreement | None
    calibration: RankMetrics | None
    reliability: Reliability | None
    beside: tuple[SideBySide, ...]
    pass_rate: PassRate | None
    certificate: IssuedCertificate | None
    bias: BiasReport | None
    next_labels: tuple[NextLabel, ...]
    notes: tuple[str, ...]
    seed: int

    def __str__(self) -> str:
        return self.report()

    def report(self, *, full: bool = False) -> str:
        """Return the report as text; `full` adds every figure there is."""
        agreed = agreement_lines(
            self.agreement,
            self.people,
            judge=self.judge,
            labelled=self.labelled,
            questions=self.questions,
            ties=self.ties,
            ratings=self.ratings,
        )
        count = len(self.next_labels)
        following = (
            f"next: labels of {count} rows, chosen by rating, would sharpen the pass rate most (--next FILE)"
        )
        sections = [
            [] if self.benefit is None else [str(self.benefit)],
            agreed,
            [] if not self.beside else side_by_side_lines(self.judge, self.agreement, self.beside),
            [] if self.reliability is None else self.reliability.lines(),
            pass_rate_lines(self.pass_rate),
            [] if self.certificate is None else str(self.certificate).splitlines(),
            [] if self.bias is None else bias_lines(self.bias),
            [following] if count else [],
            self.notes,
            full_lines(self.agreement, self.people, self.calibration, seed=self.seed) if full else [],
        ]
        return "\n\n".join(filter(None, map("\n".join, sections)))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data for JSON; of rows to be labelled, their places and ids."""
        data: dict[str, Any] = _plain(replace(self, next_labels=(), certificate=None))
        data["certificate"] = None if self.certificate is None else self.certificate.to_dict()
        data["next_labels"] = [
            {"index": label.row.index, "outcome_id": label.row.outcome_id, "attempt": label.row.attempt}
            for label in self.next_labels
        ]
        return data


def _refuse_tuned(read: LabelledRows, split: str | None, ledger: LedgerSource | None) -> None:
    """Refuse labels of which a ledger says that they tuned a judge."""
    uses = LabelUses.of(ledger, read.files)
    if uses is not None:
        digests = frozenset(label_digests(read.rows, split))
        uses.refuse_tuned(digests, "they cannot say how good it is", split="report")


def align(
    rows: RowSource,
    labels: RowSource | None = None,
    *,
    judge: str | None = None,
    good: float = GOOD,
    sampling: Sampling = "random",
    split: str | None = None,
    alpha: float = ALPHA,
    delta: float = DELTA,
    thresholds: Sequence[float] | None = None,
    max_attempts: int | None = None,
    certificate: str | os.PathLike[str] | None = None,
    next_labels: str | os.PathLike[str] | None = None,
    budget: int = _BUDGET,
    ledger: LedgerSource | None = None,
    resamples: int = 2000,
    seed: int = 0,
) -> Alignment:
    """Compare a judge's verdicts with labels of people, and say what follows: thresholds, rates, biases.

    Args:
        rows: Judged rows, some or all with labels: a file, the folder of a run, recorded attempts, or rows.
        labels: Labels, where they are not in the rows; see `certify`.
        judge: The judge, where rows have verdicts of several.
        good: Least rating that is good, for people and judge.
        sampling: How the labelled rows were drawn: `"random"` from all, `"by_rating"` some of each rating, as
            `next_labels` draws them, `"active"` by `labels_to_estimate(..., sampling="active")`, or `"elsewhere"`,
            from other data than the rows without a label.
        split: Use the labels of this split alone.
        alpha: Largest tolerated share of bad answers among those released.
        delta: Probability that a certificate does not hold.
        thresholds: Success ratings to choose from.
        max_attempts: Most attempts of the loop that recorded the rows, where they do not say.
        certificate: File to which the certificate is written.
        next_labels: File to which the rows worth labelling next are written.
        budget: Labels that can be given next.
        ledger: See `certify`.
        resamples: Resamples of the bootstrap over questions.
        seed: Seed of every resample.

    Raises:
        ConfigurationError: If rows or labels cannot be used; in one line.
    """
    if sampling not in get_args(Sampling):
        raise ConfigurationError(
            f"sampling is 'random', 'by_rating', 'active' or 'elsewhere', not {shortened(sampling)}"
        )
    read = read_labelled(rows, labels)
    refuse_reused([(_answer_of(row), opinion) for row in read.rows for opinion in row.opinions], split)
    _refuse_tuned(read, split, ledger)
    everything = [replace(row, opinions=usable(row.opinions, split)) for row in read.rows]
    notes = [*read.notes]
    if sampling == "active":
        everything, share_notes = _actively_drawn(everything)
        notes += share_notes
    if read.strangers:
        notes.append(f"{read.strangers} labels belong to no row and were left out")
    compared = _ComparedRows.of(everything, judge_among(everything, judge), good, seed)
    issued = _certificate(
        read,
        notes,
        sampling,
        alpha=alpha,
        delta=delta,
        thresholds=thresholds,
        max_attempts=max_attempts,
        judges=(compared.judge,),
        good=good,
        split=split,
        uses=ledger,
    )
    if issued is not None and certificate is not None:
        issued.write(Path(certificate))
    chosen = _next_labels(compared.judged, compared.judge, sampling, budget=budget, good=good, seed=seed)
    if next_labels is not None:
        write_queue(chosen, Path(next_labels))
    return Alignment(
        **compared.figures(sampling, resamples),
        certificate=issued,
        next_labels=tuple(chosen),
        notes=tuple(notes),
    )


@dataclass(frozen=True)
class _ComparedRows:
    """The rows, of which those that probe the judge say nothing of its agreement with people."""

    everything: Sequence[JudgedAnswer]
    judged: Sequence[JudgedAnswer]
    labelled: Sequence[JudgedAnswer]
    judge: str
    good: float
    seed: int

    @classmethod
    def of(cls, rows: Sequence[JudgedAnswer], judge: str, good: float, seed: int) -> _ComparedRows:
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
            "pass_rate": pass_rate(_items(self.judged, judge, good), sampling=sampling),
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


def _answer_of(row: JudgedAnswer) -> Hashable:
    return row.key if row.outcome_id is None else (row.outcome_id, row.attempt or 1)


def _next_labels(
    rows: Sequence[JudgedAnswer], judge: str, sampling: Sampling, *, budget: int, good: float, seed: int
) -> list[NextLabel]:
    """Return the rows to label next; none after an active sample, which is drawn once."""
    if sampling == "active":
        return []
    return to_estimate(rows, judge, budget=budget, good=good, seed=seed)


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


def _items(rows: Sequence[JudgedAnswer], judge: str, good: float) -> list[Item]:
    """Return what the pass rate is over: all rows but those on which as many people say good as bad."""
    items = []
    for row in rows:
        if row.opinions and majority(row.opinions, good) is None:
            continue
        mark = row.marks.get(judge)
        rating = None if mark is None else mark.as_rating
        items.append(
            Item(
                question_id=row.question_id,
                rating=rating,
                passes=None if rating is None else rating >= good,
                good=majority(row.opinions, good),
                weight=row.weight,
                probability=row.probability,
            )
        )
    return items


def _certificate(
    read: LabelledRows, notes: list[str], sampling: Sampling, **settings: Any
) -> IssuedCertificate | None:
    """Return what the labels certify, or note why they cannot."""
    if sampling != "random":
        notes.append("no threshold is certified: that needs a simple random sample of runs")
        return None
    try:
        return certify_rows(read, CertifySettings(left_out=True, **settings))
    except ConfigurationError as error:
        notes.append(f"no threshold is certified: {error}")
        return None
