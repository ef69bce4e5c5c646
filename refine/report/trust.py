"""How far verdicts can be believed: agreement with people, what is certified, and what another attempt gains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from judges import ConfigurationError
from judges.errors import plural
from judges.offline import Evaluation
from judges.offline.statistics.intervals import Figure
from refine.report import document as doc

if TYPE_CHECKING:
    from judges.certificate import CertifiedRow, IssuedCertificate, Kind
    from judges.offline.statistics import BiasTest
    from judges.offline.trust.agreement import Reliability
    from judges.offline.trust.align import Alignment
    from judges.offline.trust.benefit_report import AttemptGain, BenefitReport, CurvePoint
    from judges.offline.trust.replay import LoopReplay, ReplayedPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustSources:
    """Where labels, attempts and a certificate are.

    Args:
        labels: File of labels, or rows with labels.
        attempts: File of recorded attempts.
        certificate: File that `refine certify` wrote.
    """

    labels: Path | None = None
    attempts: Path | None = None
    certificate: Path | None = None

    def __bool__(self) -> bool:
        return any((self.labels, self.attempts, self.certificate))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trust:
    """What is known of how far verdicts can be believed.

    Args:
        alignments: By judge, how it agrees with people.
        replay: What recorded attempts tell.
        certificate: What was promised about a loop, or that nothing could be.
        is_issued: Whether the certificate is that of a file, and not only calculated for the report.
        labels: By index of a row, whether people call its answer good.
        notes: What could not be told, and why.
    """

    alignments: tuple[Alignment, ...] = ()
    replay: LoopReplay | None = None
    certificate: IssuedCertificate | None = None
    is_issued: bool = False
    labels: Mapping[int, bool] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def trust_of(evaluation: Evaluation, sources: TrustSources, *, seed: int = 0) -> _Trust | None:
    """Return how far the verdicts of a run can be believed; None where nothing was given to tell it from.

    Args:
        evaluation: The run, with its rows. Labels in the rows count as well as those of the sources.
        sources: What there is besides.
        seed: Seed of the resamples.

    Raises:
        ConfigurationError: If a file cannot be read, or labels belong to no row of the run.
    """
    samples = [row.sample for row in evaluation.rows if row.sample is not None]
    has_labels = sources.labels is not None or any(one.metadata.get("labels") for one in samples)
    if not (sources or has_labels):
        return None
    notes: list[str] = []
    alignments = _alignments(evaluation, sources.labels, notes, seed) if has_labels else ()
    certificate = _certificate_of(sources, alignments, notes)
    return _Trust(
        alignments=alignments,
        replay=_replay(sources, seed),
        certificate=certificate,
        is_issued=sources.certificate is not None,
        labels=_labels_by_index(evaluation, sources.labels) if alignments else {},
        notes=tuple(dict.fromkeys(notes)),
    )


def _alignments(evaluation: Evaluation, labels: Path | None, notes: list[str], seed: int) -> tuple[Alignment, ...]:
    """Compare each judge with people; one that scored no labelled row has its reason in a note."""
    from judges.offline import align  # noqa: PLC0415 - needs numpy and scipy

    alignments = []
    for judge, summary in evaluation.summary.items():
        if summary.scored == 0:
            notes.append(f"{judge} is not compared with people: it scored no row.")
            continue
        alignment = align(evaluation, labels, judge=judge, seed=seed)
        alignments.append(alignment)
        notes += [f"{judge}: {note}." for note in alignment.notes if not note.startswith("no threshold")]
    return tuple(alignments)


def _certificate_of(
    sources: TrustSources, alignments: tuple[Alignment, ...], notes: list[str]
) -> IssuedCertificate | None:
    """Return the certificate of a file, or what one from the same labels would say."""
    if sources.certificate is not None:
        from judges.certificate import IssuedCertificate  # noqa: PLC0415 - only here

        return IssuedCertificate.read(sources.certificate)
    if sources.attempts is None:
        return next((one.certificate for one in alignments if one.certificate is not None), None)
    from judges.offline import certify  # noqa: PLC0415 - needs numpy and scipy

    try:
        return certify(sources.attempts, _labels_of_attempts(sources), unlabelled="left_out")
    except ConfigurationError as error:
        notes.append(f"No threshold is certified: {error}.")
        return None


def _replay(sources: TrustSources, seed: int) -> LoopReplay | None:
    if sources.attempts is None:
        return None
    from judges.offline import replay  # noqa: PLC0415 - needs numpy and scipy

    return replay(sources.attempts, _labels_of_attempts(sources), seed=seed)


def _labels_of_attempts(sources: TrustSources) -> Path | None:
    """Return the labels that were named, where any of them is about a recorded attempt."""
    from judges.offline.trust.loops import LabelsBeside  # noqa: PLC0415 - needs numpy and scipy
    from judges.offline.trust.rows import read_judged  # noqa: PLC0415 - likewise

    if sources.labels is None or sources.attempts is None:
        return None
    of_attempts = LabelsBeside(sources.labels).of_rows(read_judged(sources.attempts))
    return sources.labels if any(of_attempts) else None


def _labels_by_index(evaluation: Evaluation, labels: Path | None) -> dict[int, bool]:
    from judges.offline.trust.loops import with_labels  # noqa: PLC0415 - needs numpy and scipy
    from judges.offline.trust.rows import (  # noqa: PLC0415 - likewise
        GOOD,
        labels_for,
        majority,
        read_judged,
        usable,
    )

    rows, _ = with_labels(read_judged(evaluation), labels_for(None, labels)[0])
    verdicts = {row.index: majority(usable(row.opinions, None), GOOD) for row in rows}
    return {index: verdict for index, verdict in verdicts.items() if verdict is not None}


_EFFECTS: dict[str, doc.Tone] = {"helps": "good", "harms": "bad", "cannot be told": "unsure"}


def _benefit_section(trust: _Trust) -> doc.Section | None:
    """Return the section on whether the loop helps: that of recorded attempts, else that of labelled rows."""
    reports = [] if trust.replay is None else [trust.replay.benefit]
    reports += [one.benefit for one in trust.alignments]
    present_reports = [one for one in reports if one is not None]
    if not present_reports:
        return None
    report = next((one for one in present_reports if one.is_known), present_reports[0])
    return doc.Section("benefit", "Does the loop help?", tuple(_benefit_blocks(report)))


def _benefit_blocks(report: BenefitReport) -> Iterator[doc.Block]:
    yield doc.Paragraph(report.headline, _EFFECTS[report.benefit.effect])
    entries = tuple((doc.TableCell(label), doc.TableCell(text)) for label, text in report.entries())
    if entries:
        yield doc.ReportTable(("By people", "First answers beside final ones"), entries)
    head, rows = report.table()
    if rows:
        cells = tuple(tuple(map(doc.TableCell, row)) for row in rows)
        caption = "By further attempt, by judge and by group; p adjusted within each (Holm)"
        yield doc.ReportTable(head, cells, frozenset(range(1, len(head) - 1)), caption)


def _blocks(replay: LoopReplay) -> Iterator[doc.Block]:
    if replay.reason is not None:
        yield doc.Paragraph(f"Not identified: {replay.detail}.", "unsure")
        return
    yield doc.Paragraph(f"{plural(replay.loops, 'recorded loop')} under {replay.policy}.", "soft")
    if replay.left_out:
        left_out = ", ".join(f"{n:,} {reason}" for reason, n in replay.left_out.items())
        yield doc.Paragraph(f"Left out: {left_out}.", "unsure")
    if replay.curve:
        yield doc.ReportTable(
            ("Attempt", "Reached", "Passed there", "Passed by then"),
            tuple(map(_curve_row, replay.curve)),
            frozenset({1, 2}),
            "Share of questions that have passed by each attempt, with its 95 % interval",
        )
    if replay.curve_note:
        yield doc.Paragraph(replay.curve_note, "soft")
    if replay.gains:
        yield doc.filled_table(
            ("After attempt", "Loops", "Raw change", "Fell", "Gain, judged again"),
            tuple(map(_gain_row, replay.gains)),
            frozenset({1, 2, 3}),
            f"Change of the rating: {replay.gain_title}",
        )
    if replay.policies:
        end = doc.scale_end([bound for policy in replay.policies for bound in _bad_bounds(policy)])
        labels = f", bad ones drawn up to {end:.0%}" if any(policy.bad_rate for policy in replay.policies) else ""
        yield doc.filled_table(
            ("Policy", "Questions answered", "Bad among released", "Attempts each", "Dollars each", "Known from"),
            tuple(_policy_row(policy, end) for policy in replay.policies),
            frozenset({3, 4}),
            f"What other policies would have done{labels}; a range where the record ends before the policy would "
            f"have",
        )
        yield doc.Paragraph(replay.assumption, "soft")
    for note in replay.notes:
        yield doc.Paragraph(note, "soft")


def _curve_row(point: CurvePoint) -> tuple[doc.TableCell, ...]:
    more = doc.span_percent(point.low, point.high)
    bound = point.if_patience_passed
    if bound is not None:
        more += f"; {doc.percent(bound)} if all that patience stopped had passed"
    mark = doc.Scale(value=point.cumulative, low=point.low, high=point.high, reference=bound)
    return (
        doc.TableCell(str(point.attempt)),
        doc.TableCell(doc.count(point.at_risk)),
        doc.TableCell(doc.count(point.passed)),
        doc.TableCell(doc.percent(point.cumulative), more, mark),
    )


def _gain_row(gain: AttemptGain) -> tuple[doc.TableCell, ...]:
    clean = doc.UNKNOWN
    if gain.gain is not None:
        interval = doc.span(gain.gain_low, gain.gain_high, "+.2f")
        clean = doc.TableCell(
            f"{gain.gain:+.2f}", ", ".join(filter(None, [interval, plural(gain.rejudged, "loop")]))
        )
    return (
        doc.TableCell(str(gain.attempt)),
        doc.TableCell(doc.count(gain.n)),
        doc.TableCell(f"{gain.raw_change:+.2f}"),
        doc.TableCell(doc.count(gain.regressions)),
        clean,
    )


def _bad_bounds(policy: ReplayedPolicy) -> tuple[float, ...]:
    return (*(policy.bad_rate or ()), *(policy.bad_interval or ()))


def _policy_row(policy: ReplayedPolicy, end: float) -> tuple[doc.TableCell, ...]:
    patience = "" if policy.patience is None else f", patience {policy.patience}"
    name = f"{policy.acceptance}, {plural(policy.max_attempts, 'attempt')}{patience}"
    low, high = policy.mean_attempts
    attempts = f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}"
    return (
        doc.TableCell(name, "in force" if policy.in_force else ""),
        _bounds_cell(policy.release_rate, policy.release_interval),
        doc.UNKNOWN if policy.bad_rate is None else _bounds_cell(policy.bad_rate, policy.bad_interval, end),
        doc.TableCell(attempts),
        doc.UNKNOWN if policy.mean_cost is None else doc.TableCell(doc.dollars(policy.mean_cost)),
        doc.TableCell(
            _KNOWN.get(policy.status, policy.status), tone="plain" if policy.status == "exact" else "unsure"
        ),
    )


_KNOWN = {
    "exact": "seen in every loop (sampling error in brackets)",
    "bounds": "a range: some loops ended before",
}


def _bounds_cell(
    bounds: tuple[float, float], interval: tuple[float, float] | None, end: float = 1.0
) -> doc.TableCell:
    """Return a cell for a share that is known, or known to lie between two bounds."""
    low, high = bounds
    if low != high:
        mark = doc.Scale(value=None, low=low, high=high, most=end)
        return doc.TableCell(f"{doc.percent(low)} to {doc.percent(high)}", "bounds", mark)
    ends = interval or (None, None)
    mark = doc.Scale(value=low, low=ends[0], high=ends[1], most=end)
    return doc.TableCell(doc.percent(low), doc.span_percent(*ends), mark)


_RATINGS = (1, 2, 3, 4)
_FINDINGS: dict[str, doc.Tone] = {
    "flagged": "bad",
    "small": "good",
    "not enough data": "unsure",
    "association": "soft",
}
_MEANINGS = {
    "position": "prefers the place, not the answer",
    "verbosity": "rates padded copies higher",
    "self-preference": "prefers answers of its own kind",
    "leniency": "rates higher than people do",
    "length": "rates longer answers higher",
}
_STATUSES: dict[str, doc.Tone] = {"certified": "good", "refused": "bad", "too_few": "unsure", "not_tested": "soft"}
_SCALES: dict[Kind, str] = {"rating": "rating ", "score": "score ", "escalation": ""}
_NO_CHANGE = 0.0
_TINY = 0.001


def trust_sections(trust: _Trust) -> Iterator[doc.Section]:
    """Yield the sections for which there are data, the first on whether the loop helps."""
    benefit = _benefit_section(trust)
    if benefit is not None:
        yield benefit
    if trust.alignments:
        yield doc.Section(
            "agreement", "Do people agree with the judge?", tuple(_agreement(trust.alignments, trust.notes))
        )
        rates = [one for one in trust.alignments if one.pass_rate is not None]
        if rates:
            yield doc.Section("corrected", "Pass rates, corrected by labels", (_corrected_rates(rates),))
        biased = [one for one in trust.alignments if one.bias is not None and one.bias.tests]
        if biased:
            yield doc.Section("bias", "Biases", tuple(_biases(biased)))
    if trust.certificate is not None:
        blocks = _certificate(trust.certificate, is_issued=trust.is_issued)
        yield doc.Section("certificate", "What is certified", tuple(blocks))
    if trust.replay is not None:
        yield doc.Section("attempts", "What another attempt brings", tuple(_blocks(trust.replay)))
    if trust.notes and not trust.alignments:
        yield doc.Section("notes", "Not told", tuple(doc.Paragraph(note, "unsure") for note in trust.notes))


def _agreement(alignments: Sequence[Alignment], notes: Sequence[str]) -> Iterator[doc.Block]:
    yield doc.ReportTable(
        (
            "Judge",
            "Labelled rows",
            "People say good",
            "Same verdict",
            "Kappa",
            "Good ones passed",
            "Bad ones refused",
            "Bad among passes",
        ),
        tuple(_agreement_row(one) for one in alignments),
        frozenset({1}),
        "Verdicts beside those of people, with 95 % intervals; of bad among passes the upper end is one-sided",
    )
    rated = [one for one in alignments if one.ratings]
    if rated:
        yield _ratings(rated)
    yield doc.ReportTable(
        ("Judge", *(f"Rated {rating}" for rating in _RATINGS)),
        tuple((_judge_cell(one), *_reliability(one)) for one in alignments),
        caption="Share of the answers of each rating that people call good: it should rise from left to right",
    )
    curves = [_reliability_chart(one.judge, one.reliability) for one in alignments if one.reliability is not None]
    if curves:
        yield doc.Charts(tuple(curves))
    remarks = dict.fromkeys(remark for one in alignments for remark in _remarks(one))
    yield from remarks
    for note in notes:
        yield doc.Paragraph(note, "unsure")


def _reliability_chart(judge: str, reliability: Reliability) -> doc.Chart:
    """Return the curve of a judge's `p_pass`: on the diagonal it is as likely as it says."""
    points = tuple(doc.DiagramPoint(one.said, one.good, one.low, one.high, one.n) for one in reliability.bins)
    text = ", ".join(f"said {one.said:.2f}, good {one.good:.2f} of {one.n}" for one in reliability.bins)
    return doc.Chart(
        f"p_pass of {judge}, and the share that people call good: {reliability.verdict}",
        doc.ReliabilityDiagram(points),
        text,
    )


def _judge_cell(one: Alignment) -> doc.TableCell:
    return doc.TableCell(one.judge)


def _agreement_row(one: Alignment) -> tuple[doc.TableCell, ...]:
    figures = one.agreement.figures
    coverage = one.agreement.coverage
    scored = "" if coverage is None else "all scored" if coverage == 1 else f"{doc.percent(coverage)} scored"
    names = ("base_rate", "agreement", "tpr", "tnr", "bad_among_passes")
    good, same, passed, refused, bad = (_figure(figures, name) for name in names)
    return (
        _judge_cell(one),
        doc.TableCell(doc.count(one.labelled), scored),
        doc.share_cell(good),
        doc.share_cell(same),
        _number_cell(_figure(figures, "pass_kappa")),
        doc.share_cell(passed),
        doc.share_cell(refused),
        doc.share_cell(bad),
    )


def _figure(figures: Mapping[str, Figure], name: str) -> Figure:
    return figures.get(name) or Figure.undefined("too_few", 0)


def _number_cell(figure: Figure, form: str = ".2f") -> doc.TableCell:
    if figure.value is None:
        return doc.TableCell(doc.why(figure), tone="soft")
    return doc.TableCell(format(figure.value, form), doc.span(figure.low, figure.high, form))


def _ratings(alignments: Sequence[Alignment]) -> doc.ReportTable:
    names = {
        "kappa_quadratic": "Kappa of ratings, quadratic",
        "within_one": "Within one",
        "mean_difference": "Mean difference",
        "auc": "AUC of scores",
        "brier": "Brier score",
    }
    shown = [name for name in names if any(name in one.agreement.figures for one in alignments)]
    rows = [
        (
            _judge_cell(one),
            *(
                _number_cell(_figure(one.agreement.figures, name), "+.2f" if name == "mean_difference" else ".2f")
                for name in shown
            ),
            _people(one),
        )
        for one in alignments
    ]
    caption = "Ratings beside those of people; above 0 the judge is more lenient"
    return doc.ReportTable(
        ("Judge", *(names[name] for name in shown), "People among themselves"), tuple(rows), caption=caption
    )


def _people(one: Alignment) -> doc.TableCell:
    if one.people is None:
        return doc.TableCell("one label a row", tone="soft")
    ceiling, alpha = doc.number(one.people.ceiling, ".2f"), doc.number(one.people.alpha, ".2f")
    return doc.TableCell(f"kappa {ceiling}", f"alpha {alpha}, {plural(one.people.rows, 'row')}")


def _reliability(one: Alignment) -> Iterator[doc.TableCell]:
    for rating in _RATINGS:
        figure = one.agreement.reliability.get(rating)
        cell = doc.TableCell(doc.DASH, tone="soft") if figure is None else doc.share_cell(figure)
        n = "" if figure is None else f", n = {figure.n:,}"
        yield doc.TableCell(cell.text, f"{cell.more}{n}" if cell.more else "", cell.mark, cell.tone)


def _remarks(one: Alignment) -> Iterator[doc.Paragraph]:
    if one.questions < 30:  # noqa: PLR2004 - below it, intervals are rough
        questions = plural(one.questions, "labelled question")
        yield doc.Paragraph(f"With {questions} all of this is only indicative.", "unsure")
    if one.agreement.monotone is False:
        yield doc.Paragraph(f"{one.judge}: a higher rating is not always better in the eyes of people.", "bad")
    if one.agreement.kappa_paradox:
        ac1 = doc.number(one.agreement.figures["ac1"].value, ".2f")
        yield doc.Paragraph(
            f"{one.judge}: nearly all answers are good, so kappa is low by itself; AC1 is {ac1}.", "unsure"
        )
    if one.ties:
        rows = f"{plural(one.ties, 'row')} on which people are divided"
        yield doc.Paragraph(f"Left out of what is good and bad: {rows}.", "soft")


def _corrected_rates(alignments: Sequence[Alignment]) -> doc.ReportTable:
    rows = []
    for one in alignments:
        rate = one.pass_rate
        if rate is None:
            continue
        low, high = rate.bounds or (None, None)
        note = f" ({rate.corrected.note})" if rate.corrected.note else ""
        corrected = doc.share_cell(rate.corrected)
        rows.append(
            (
                _judge_cell(one),
                doc.share_cell(rate.uncorrected),
                doc.TableCell(corrected.text, f"{corrected.more}{note}", corrected.mark, corrected.tone),
                doc.UNKNOWN if rate.human is None else doc.share_cell(rate.human),
                doc.TableCell(doc.span_percent(low, high)) if rate.bounds else doc.UNKNOWN,
                doc.TableCell(rate.corrected.method or doc.DASH, tone="soft"),
            )
        )
    head = ("Judge", "By the judge alone", "Corrected", "By labels alone", "With unscored rows", "Method")
    caption = "Share of good answers, with 95 % intervals"
    if any(one.pass_rate is not None and one.pass_rate.bounds for one in alignments):
        caption += "; with unscored rows: from all of them refused to all of them passed"
    return doc.filled_table(head, tuple(rows), frozenset(), caption)


def _biases(alignments: Sequence[Alignment]) -> Iterator[doc.Block]:
    yield doc.filled_table(
        ("Bias", "Judge", "Finding", "Effect", "p (Holm)", "n"),
        tuple(_bias_row(one.judge, test) for one in alignments for test in (one.bias.tests if one.bias else ())),
        frozenset({4, 5}),
        "The tests of a judge are one family: it is flagged wrongly in at most 5 % of reports. Small: the 90 % "
        "interval lies within the least effect that matters; the line is no effect",
    )
    assumptions = {test.assumption for one in alignments for test in (one.bias.tests if one.bias else ())}
    for assumption in sorted(filter(None, assumptions)):
        yield doc.Paragraph(f"To be read with care: {assumption}.", "soft")


def _bias_row(judge: str, test: BiasTest) -> tuple[doc.TableCell, ...]:
    low, high = test.interval or (None, None)
    effect = doc.UNKNOWN
    if test.effect is not None:
        reach = max(abs(end) for end in (test.effect, low or 0.0, high or 0.0, test.least))
        mark = doc.Scale(value=test.effect, low=low, high=high, least=-reach, most=reach, reference=_NO_CHANGE)
        effect = doc.TableCell(
            f"{test.effect:+.3f}", f"{doc.span(low, high, '+.3f')}; matters from {test.least:g}", mark
        )
    return (
        doc.TableCell(test.bias, _MEANINGS.get(test.bias, "")),
        doc.TableCell(judge),
        doc.TableCell(test.finding_text, tone=_FINDINGS[test.finding]),
        effect,
        doc.UNKNOWN if test.adjusted_p is None else doc.TableCell(doc.p_value(test.adjusted_p)),
        doc.TableCell(doc.count(test.n)),
    )


def _certificate(certificate: IssuedCertificate, *, is_issued: bool) -> Iterator[doc.Block]:
    if certificate.certified:
        promise = certificate.promise
        yield doc.Paragraph(f"Certified: {certificate.policy_name}. {promise[0].upper()}{promise[1:]}.", "good")
        yield doc.Paragraph(
            "It holds for questions like these, this judge, these prompts and models, and this loop; it says "
            "nothing about a single answer.",
            "soft",
        )
    else:
        terms = f"at most {certificate.alpha:.1%} bad with confidence {1 - certificate.delta_in_all:.1%}"
        yield doc.Paragraph(f"Nothing is certified: no threshold keeps what was asked for, {terms}.", "bad")
        yield doc.Paragraph(_describe_labels_needed(certificate), "unsure")
    uppers = [row.upper for row in certificate.rows if row.upper is not None]
    end = doc.scale_end([certificate.alpha, *uppers])
    yield doc.filled_table(
        ("Accepts from", "Released", "Bad", "Share of bad ones", "Finding", "Questions answered", "Attempts each"),
        tuple(_certified_row(row, certificate, place, end) for place, row in enumerate(certificate.rows)),
        frozenset({1, 2, 6}),
        f"By threshold, strictest first, over {plural(certificate.runs, 'run')}: the share of bad "
        f"answers among those released, with its upper bound; drawn up to {end:.0%}, the line is what is "
        f"tolerated, {certificate.alpha:.1%}",
    )
    for row in certificate.rows:
        if row.breaks_text:
            yield doc.Paragraph(f"Accepting from {row.policy_text}: {row.breaks_text}.")
    if certificate.withheld_at_least is not None and not certificate.certified:
        withheld = f"at least {certificate.withheld_at_least:.1%} must be withheld, whatever the judge"
        yield doc.Paragraph(
            f"Of the final answers {doc.percent(certificate.final_bad)} are bad: {withheld}.", "unsure"
        )
    for note in certificate.notes:
        yield doc.Paragraph(f"{note[0].upper()}{note[1:]}{'' if note.endswith('.') else '.'}", "soft")
    source = f"Certificate {certificate.id[:8]}, issued {doc.moment(certificate.issued_at)}."
    yield doc.Paragraph(
        source if is_issued else "Calculated for this report; the command refine certify issues a certificate.",
        "soft",
    )


def _describe_labels_needed(certificate: IssuedCertificate) -> str:
    reach = certificate.reachable_alpha
    reached = "" if reach is None else f"The best one would have passed at {reach:.1%}, which is no certificate. "
    if certificate.labels_needed is None:
        return (
            f"{reached}No number of labels will do while as many answers are bad: mend the judge or the generator."
        )
    more = max(certificate.labels_needed - certificate.released, 1)
    return (
        f"{reached}About {certificate.labels_needed:,} released and labelled answers are needed, {more:,} more "
        f"than now, if the share of bad ones stays as it is."
    )


def _certified_row(
    row: CertifiedRow, certificate: IssuedCertificate, place: int, end: float
) -> tuple[doc.TableCell, ...]:
    chosen = certificate.threshold in ({float(place)} if certificate.kind == "escalation" else {row.policy})
    low, high = row.release_interval or (None, None)
    share = doc.UNKNOWN
    if row.rate is not None:
        mark = doc.Scale(value=row.rate, low=row.rate, high=row.upper, most=end, reference=certificate.alpha)
        share = doc.TableCell(doc.percent(row.rate), f"at most {doc.percent(row.upper)}", mark)
    return (
        doc.TableCell(f"{_SCALES[certificate.kind]}{row.policy_text}", "chosen" if chosen else ""),
        doc.TableCell(doc.count(row.released)),
        doc.TableCell(doc.count(row.bad)),
        share,
        doc.TableCell(
            doc.reason(row.status),
            "" if row.p is None else f"p {'' if row.p < _TINY else '= '}{doc.p_value(row.p)}",
            tone=_STATUSES[row.status],
        ),
        doc.UNKNOWN
        if row.release_rate is None
        else doc.TableCell(doc.percent(row.release_rate), doc.span_percent(low, high)),
        doc.UNKNOWN if row.mean_attempts is None else doc.TableCell(f"{row.mean_attempts:.2f}"),
    )
