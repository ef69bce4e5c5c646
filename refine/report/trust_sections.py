"""The sections on trust: what people say beside what judges say, what is certified, and what attempts gain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from judges.offline.statistics.figure import Figure
from refine.report import wording
from refine.report.attempt_sections import attempts_section
from refine.report.cells import UNKNOWN, filled_table, scale_end, share_cell
from refine.report.document import Block, Cell, Paragraph, Range, Section, Table, Tone
from refine.report.trust import Trust

if TYPE_CHECKING:
    from judges.certificate import CertifiedRow, IssuedCertificate
    from judges.certificate.issued import Kind
    from judges.offline.statistics import BiasTest
    from judges.offline.trust.alignment import Alignment

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
        yield attempts_section(trust.replay)
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
