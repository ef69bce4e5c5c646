"""The sections on trust: what people say beside what judges say, what is certified, and what attempts gain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from judges.offline.statistics.intervals import Figure
from refine.report import wording
from refine.report.document import (
    UNKNOWN,
    Block,
    Cell,
    Paragraph,
    Range,
    Section,
    Table,
    Tone,
    filled_table,
    scale_end,
    share_cell,
)
from refine.report.view import Trust

if TYPE_CHECKING:
    from judges.certificate import CertifiedRow, IssuedCertificate, Kind
    from judges.offline.statistics import BiasTest
    from judges.offline.trust.align import Alignment
    from judges.offline.trust.curves import AttemptGain, CurvePoint
    from judges.offline.trust.replay import LoopReplay, ReplayedPolicy


def _attempts_section(replay: LoopReplay) -> Section:
    """Return the section on recorded attempts."""
    return Section("attempts", "What another attempt brings", tuple(_blocks(replay)))


def _blocks(replay: LoopReplay) -> Iterator[Block]:
    if replay.reason is not None:
        yield Paragraph(f"Not identified: {replay.detail}.", "unsure")
        return
    yield Paragraph(f"{wording.plural(replay.loops, 'recorded loop')} under {replay.policy}.", "soft")
    if replay.left_out:
        left_out = ", ".join(f"{n:,} {reason}" for reason, n in replay.left_out.items())
        yield Paragraph(f"Left out: {left_out}.", "unsure")
    if replay.curve:
        yield Table(
            ("Attempt", "Reached", "Passed there", "Passed by then"),
            tuple(map(_point, replay.curve)),
            frozenset({1, 2}),
            "Share of questions that have passed by each attempt, with its 95 % interval",
        )
    if replay.curve_note:
        yield Paragraph(replay.curve_note, "soft")
    if replay.gains:
        yield filled_table(
            ("After attempt", "Loops", "Raw change", "Fell", "Gain, judged again"),
            tuple(map(_gain, replay.gains)),
            frozenset({1, 2, 3}),
            f"Change of the rating: {replay.gain_title}",
        )
    if replay.policies:
        end = scale_end([bound for policy in replay.policies for bound in _bad_bounds(policy)])
        labels = f", bad ones drawn up to {end:.0%}" if any(policy.bad_rate for policy in replay.policies) else ""
        yield filled_table(
            ("Policy", "Questions answered", "Bad among released", "Attempts each", "Dollars each", "How sure"),
            tuple(_policy(policy, end) for policy in replay.policies),
            frozenset({3, 4}),
            f"What other policies would have done{labels}; a range where the record ends before the policy would "
            f"have",
        )
        yield Paragraph(replay.assumption, "soft")
    for note in replay.notes:
        yield Paragraph(note, "soft")


def _point(point: CurvePoint) -> tuple[Cell, ...]:
    more = wording.span_percent(point.low, point.high)
    bound = point.if_patience_passed
    if bound is not None:
        more += f"; {wording.percent(bound)} if all that patience stopped had passed"
    mark = Range(value=point.cumulative, low=point.low, high=point.high, reference=bound)
    return (
        Cell(str(point.attempt)),
        Cell(wording.count(point.at_risk)),
        Cell(wording.count(point.passed)),
        Cell(wording.percent(point.cumulative), more, mark),
    )


def _gain(gain: AttemptGain) -> tuple[Cell, ...]:
    clean = UNKNOWN
    if gain.gain is not None:
        interval = wording.span(gain.gain_low, gain.gain_high, "+.2f")
        clean = Cell(
            f"{gain.gain:+.2f}", ", ".join(filter(None, [interval, wording.plural(gain.rejudged, "loop")]))
        )
    return (
        Cell(str(gain.attempt)),
        Cell(wording.count(gain.n)),
        Cell(f"{gain.raw_change:+.2f}"),
        Cell(wording.count(gain.regressions)),
        clean,
    )


def _bad_bounds(policy: ReplayedPolicy) -> tuple[float, ...]:
    return (*(policy.bad_rate or ()), *(policy.bad_interval or ()))


def _policy(policy: ReplayedPolicy, end: float) -> tuple[Cell, ...]:
    patience = "" if policy.patience is None else f", patience {policy.patience}"
    name = f"rating {policy.success_rating}, {wording.plural(policy.max_attempts, 'attempt')}{patience}"
    low, high = policy.mean_attempts
    attempts = f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}"
    return (
        Cell(name, "in force" if policy.in_force else ""),
        _bounded(policy.release_rate, policy.release_interval),
        UNKNOWN if policy.bad_rate is None else _bounded(policy.bad_rate, policy.bad_interval, end),
        Cell(attempts),
        UNKNOWN if policy.mean_cost is None else Cell(wording.dollars(policy.mean_cost)),
        Cell(policy.status, tone="plain" if policy.status == "exact" else "unsure"),
    )


def _bounded(bounds: tuple[float, float], interval: tuple[float, float] | None, end: float = 1.0) -> Cell:
    """Return a cell for a share that is known, or known to lie between two bounds."""
    low, high = bounds
    if low != high:
        mark = Range(value=None, low=low, high=high, most=end)
        return Cell(f"{wording.percent(low)} to {wording.percent(high)}", "bounds", mark)
    ends = interval or (None, None)
    mark = Range(value=low, low=ends[0], high=ends[1], most=end)
    return Cell(wording.percent(low), wording.span_percent(*ends), mark)


_RATINGS = (1, 2, 3, 4)
_FINDINGS: dict[str, Tone] = {
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
_WITHOUT_TEST = {"too_few": "fewer than 20 cases differ", "not_identified": "the data cannot tell"}
_STATUSES: dict[str, Tone] = {"certified": "good", "refused": "bad", "too_few": "unsure", "not_tested": "soft"}
_SCALES: dict[Kind, str] = {"rating": "rating ", "score": "score ", "escalation": ""}
_NO_CHANGE, _TINY = 0.0, 0.001


def trust_sections(trust: Trust) -> Iterator[Section]:
    """Yield the sections for which there are data."""
    if trust.alignments:
        yield Section(
            "agreement", "Do people agree with the judge?", tuple(_agreement(trust.alignments, trust.notes))
        )
        rates = [one for one in trust.alignments if one.pass_rate is not None]
        if rates:
            yield Section("corrected", "Pass rates, corrected by labels", (_corrected(rates),))
        biased = [one for one in trust.alignments if one.bias is not None and one.bias.tests]
        if biased:
            yield Section("bias", "Biases", tuple(_biases(biased)))
    if trust.certificate is not None:
        blocks = _certificate(trust.certificate, is_issued=trust.is_issued)
        yield Section("certificate", "What is certified", tuple(blocks))
    if trust.replay is not None:
        yield _attempts_section(trust.replay)
    if trust.notes and not trust.alignments:
        yield Section("notes", "Not told", tuple(Paragraph(note, "unsure") for note in trust.notes))


def _agreement(alignments: Sequence[Alignment], notes: Sequence[str]) -> Iterator[Block]:
    yield Table(
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
    yield Table(
        ("Judge", *(f"Rated {rating}" for rating in _RATINGS)),
        tuple((_name(one), *_reliability(one)) for one in alignments),
        caption="Share of the answers of each rating that people call good: it should rise from left to right",
    )
    remarks = dict.fromkeys(remark for one in alignments for remark in _remarks(one))
    yield from remarks
    for note in notes:
        yield Paragraph(note, "unsure")


def _name(one: Alignment) -> Cell:
    return Cell(one.judge)


def _agreement_row(one: Alignment) -> tuple[Cell, ...]:
    figures = one.agreement.figures
    coverage = one.agreement.coverage
    scored = "" if coverage is None else "all scored" if coverage == 1 else f"{wording.percent(coverage)} scored"
    names = ("base_rate", "agreement", "tpr", "tnr", "bad_among_passes")
    good, same, passed, refused, bad = (_figure(figures, name) for name in names)
    return (
        _name(one),
        Cell(wording.count(one.labelled), scored),
        share_cell(good),
        share_cell(same),
        _number(_figure(figures, "pass_kappa")),
        share_cell(passed),
        share_cell(refused),
        share_cell(bad),
    )


def _figure(figures: Mapping[str, Figure], name: str) -> Figure:
    return figures.get(name) or Figure.undefined("too_few", 0)


def _number(figure: Figure, form: str = ".2f") -> Cell:
    if figure.value is None:
        return Cell(wording.why(figure), tone="soft")
    return Cell(format(figure.value, form), wording.span(figure.low, figure.high, form))


def _ratings(alignments: Sequence[Alignment]) -> Table:
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
            _name(one),
            *(
                _number(_figure(one.agreement.figures, name), "+.2f" if name == "mean_difference" else ".2f")
                for name in shown
            ),
            _people(one),
        )
        for one in alignments
    ]
    caption = "Ratings beside those of people; above 0 the judge is more lenient"
    return Table(
        ("Judge", *(names[name] for name in shown), "People among themselves"), tuple(rows), caption=caption
    )


def _people(one: Alignment) -> Cell:
    if one.people is None:
        return Cell("one label a row", tone="soft")
    ceiling, alpha = wording.number(one.people.ceiling, ".2f"), wording.number(one.people.alpha, ".2f")
    return Cell(f"kappa {ceiling}", f"alpha {alpha}, {wording.plural(one.people.rows, 'row')}")


def _reliability(one: Alignment) -> Iterator[Cell]:
    for rating in _RATINGS:
        figure = one.agreement.reliability.get(rating)
        cell = Cell(wording.DASH, tone="soft") if figure is None else share_cell(figure)
        n = "" if figure is None else f", n = {figure.n:,}"
        yield Cell(cell.text, f"{cell.more}{n}" if cell.more else "", cell.mark, cell.tone)


def _remarks(one: Alignment) -> Iterator[Paragraph]:
    if one.questions < 30:  # noqa: PLR2004 - below it, intervals are rough
        questions = wording.plural(one.questions, "labelled question")
        yield Paragraph(f"With {questions} all of this is only indicative.", "unsure")
    if one.agreement.monotone is False:
        yield Paragraph(f"{one.judge}: a higher rating is not always better in the eyes of people.", "bad")
    if one.agreement.kappa_paradox:
        ac1 = wording.number(one.agreement.figures["ac1"].value, ".2f")
        yield Paragraph(
            f"{one.judge}: nearly all answers are good, so kappa is low by itself; AC1 is {ac1}.", "unsure"
        )
    if one.ties:
        rows = f"{wording.plural(one.ties, 'row')} on which people are divided"
        yield Paragraph(f"Left out of what is good and bad: {rows}.", "soft")


def _corrected(alignments: Sequence[Alignment]) -> Table:
    rows = []
    for one in alignments:
        rate = one.pass_rate
        if rate is None:
            continue
        low, high = rate.bounds or (None, None)
        note = f" ({rate.corrected.note})" if rate.corrected.note else ""
        corrected = share_cell(rate.corrected)
        rows.append(
            (
                _name(one),
                share_cell(rate.uncorrected),
                Cell(corrected.text, f"{corrected.more}{note}", corrected.mark, corrected.tone),
                UNKNOWN if rate.human is None else share_cell(rate.human),
                Cell(wording.span_percent(low, high)) if rate.bounds else UNKNOWN,
                Cell(rate.corrected.method or wording.DASH, tone="soft"),
            )
        )
    head = ("Judge", "By the judge alone", "Corrected", "By labels alone", "With unscored rows", "Method")
    caption = "Share of good answers, with 95 % intervals"
    if any(one.pass_rate is not None and one.pass_rate.bounds for one in alignments):
        caption += "; with unscored rows: from all of them refused to all of them passed"
    return filled_table(head, tuple(rows), frozenset(), caption)


def _biases(alignments: Sequence[Alignment]) -> Iterator[Block]:
    yield filled_table(
        ("Bias", "Judge", "Finding", "Effect", "p (Holm)", "n"),
        tuple(_bias_row(one.judge, test) for one in alignments for test in (one.bias.tests if one.bias else ())),
        frozenset({4, 5}),
        "The tests of a judge are one family: it is flagged wrongly in at most 5 % of reports. Small: the 90 % "
        "interval lies within the least effect that matters; the line is no effect",
    )
    assumptions = {test.assumption for one in alignments for test in (one.bias.tests if one.bias else ())}
    for assumption in sorted(filter(None, assumptions)):
        yield Paragraph(f"To be read with care: {assumption}.", "soft")


def _bias_row(judge: str, test: BiasTest) -> tuple[Cell, ...]:
    low, high = test.interval or (None, None)
    effect = UNKNOWN
    if test.effect is not None:
        reach = max(abs(end) for end in (test.effect, low or 0.0, high or 0.0, test.least))
        mark = Range(value=test.effect, low=low, high=high, least=-reach, most=reach, reference=_NO_CHANGE)
        effect = Cell(
            f"{test.effect:+.3f}", f"{wording.span(low, high, '+.3f')}; matters from {test.least:g}", mark
        )
    return (
        Cell(test.bias, _MEANINGS.get(test.bias, "")),
        Cell(judge),
        Cell(test.finding, _WITHOUT_TEST.get(test.reason or "", ""), tone=_FINDINGS[test.finding]),
        effect,
        UNKNOWN if test.adjusted_p is None else Cell(wording.p_value(test.adjusted_p)),
        Cell(wording.count(test.n)),
    )


def _certificate(certificate: IssuedCertificate, *, is_issued: bool) -> Iterator[Block]:
    if certificate.certified:
        promise = certificate.promise
        yield Paragraph(f"Certified: {certificate.policy_name}. {promise[0].upper()}{promise[1:]}.", "good")
        yield Paragraph(
            "It holds for questions like these, this judge, these prompts and models, and this loop; it says "
            "nothing about a single answer.",
            "soft",
        )
    else:
        asked = f"at most {certificate.alpha:.1%} bad with confidence {1 - certificate.delta:.1%}"
        yield Paragraph(f"Nothing is certified: no threshold keeps what was asked for, {asked}.", "bad")
        yield Paragraph(_needed(certificate), "unsure")
    uppers = [row.upper for row in certificate.rows if row.upper is not None]
    end = scale_end([certificate.alpha, *uppers])
    yield filled_table(
        ("Accepts from", "Released", "Bad", "Share of bad ones", "Finding", "Questions answered", "Attempts each"),
        tuple(_certified_row(row, certificate, place, end) for place, row in enumerate(certificate.rows)),
        frozenset({1, 2, 6}),
        f"By threshold, strictest first, over {wording.plural(certificate.runs, 'question')}: the share of bad "
        f"answers among those released, with its upper bound; drawn up to {end:.0%}, the line is what is "
        f"tolerated, {certificate.alpha:.1%}",
    )
    for note in certificate.notes:
        yield Paragraph(f"{note[0].upper()}{note[1:]}{'' if note.endswith('.') else '.'}", "soft")
    source = f"Certificate {certificate.id[:8]}, issued {wording.moment(certificate.issued_at)}."
    yield Paragraph(
        source if is_issued else "Calculated for this report; the command refine certify issues a certificate.",
        "soft",
    )


def _needed(certificate: IssuedCertificate) -> str:
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


def _certified_row(row: CertifiedRow, certificate: IssuedCertificate, place: int, end: float) -> tuple[Cell, ...]:
    chosen = certificate.threshold in ({float(place)} if certificate.kind == "escalation" else {row.policy})
    low, high = row.release_interval or (None, None)
    share = UNKNOWN
    if row.rate is not None:
        mark = Range(value=row.rate, low=row.rate, high=row.upper, most=end, reference=certificate.alpha)
        share = Cell(wording.percent(row.rate), f"at most {wording.percent(row.upper)}", mark)
    return (
        Cell(f"{_SCALES[certificate.kind]}{row.policy_text}", "chosen" if chosen else ""),
        Cell(wording.count(row.released)),
        Cell(wording.count(row.bad)),
        share,
        Cell(
            wording.reason(row.status),
            "" if row.p is None else f"p {'' if row.p < _TINY else '= '}{wording.p_value(row.p)}",
            tone=_STATUSES[row.status],
        ),
        UNKNOWN
        if row.release_rate is None
        else Cell(wording.percent(row.release_rate), wording.span_percent(low, high)),
        UNKNOWN if row.mean_attempts is None else Cell(f"{row.mean_attempts:.2f}"),
    )
