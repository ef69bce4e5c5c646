"""`align`: how far a judge's verdicts can be believed, by labels of people."""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

from judges.certificate import IssuedCertificate, aligned_lines
from judges.errors import ConfigurationError, shortened
from judges.offline.statistics import Agreement, BiasReport, BiasTest, CorrectedRate, Figure, RankMetrics
from judges.offline.statistics.certificates import ALPHA, DELTA
from judges.offline.statistics.intervals import EXACT, p_text
from judges.offline.trust.agreement import (
    ComparedRows,
    PassRate,
    PeopleAgreement,
    Reliability,
    Sampling,
    SideBySide,
)
from judges.offline.trust.benefit_report import BenefitReport
from judges.offline.trust.certify import CertifySettings, certify_rows
from judges.offline.trust.drawing import NextLabel, to_estimate, write_queue
from judges.offline.trust.loops import LabelledRows, read_labelled
from judges.offline.trust.rows import (
    GOOD,
    JudgedAnswer,
    RowSource,
    judge_among,
    label_digests,
    refuse_reused,
    usable,
)
from judges.offline.trust.spending import LabelUses, LedgerSource


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
        agreed = _agreement_lines(
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
            [] if not self.beside else _side_by_side_lines(self.judge, self.agreement, self.beside),
            [] if self.reliability is None else self.reliability.lines(),
            _pass_rate_lines(self.pass_rate),
            [] if self.certificate is None else str(self.certificate).splitlines(),
            [] if self.bias is None else _bias_lines(self.bias),
            [following] if count else [],
            self.notes,
            _full_lines(self.agreement, self.people, self.calibration, seed=self.seed) if full else [],
        ]
        return "\n\n".join(filter(None, map("\n".join, sections)))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data for JSON; of rows to be labelled, their places and ids."""
        bare = asdict(replace(self, next_labels=(), certificate=None))
        data: dict[str, Any] = json.loads(json.dumps(bare, default=str))
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
    compared = ComparedRows.of(everything, judge_among(everything, judge), good, seed)
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


def _answer_of(row: JudgedAnswer) -> Hashable:
    return row.key if row.outcome_id is None else (row.outcome_id, row.attempt or 1)


def _next_labels(
    rows: Sequence[JudgedAnswer], judge: str, sampling: Sampling, *, budget: int, good: float, seed: int
) -> list[NextLabel]:
    """Return the rows to label next; none after an active sample, which is drawn once."""
    if sampling == "active":
        return []
    return to_estimate(rows, judge, budget=budget, good=good, seed=seed)


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


_INDICATIVE_BELOW = 30


def _agreement_lines(
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


def _pass_rate_lines(rate: PassRate | None) -> Iterator[str]:
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


def _bias_lines(report: BiasReport) -> Iterator[str]:
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


_BESIDE = {"agreement": "same verdict", "tpr": "good passed", "tnr": "bad refused", "auc": "AUC", "brier": "Brier"}


def _side_by_side_lines(judge: str, agreement: Agreement, others: Sequence[SideBySide]) -> Iterator[str]:
    """Yield a table of judges of the same rows, the one that the report is about first."""
    judges = [SideBySide(judge=judge, agreement=agreement), *others]
    table = [["on the same labels", "scored", *_BESIDE.values()]]
    for one in judges:
        figures = [one.agreement.figures.get(name) for name in _BESIDE]
        cells = ["-" if each is None or each.value is None else f"{each.value:.3f}" for each in figures]
        table.append([one.judge, str(one.agreement.n), *cells])
    yield from aligned_lines(table)


def _full_lines(
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
