"""The report of `align` as text for a person."""

from __future__ import annotations

from collections.abc import Iterator

from judges.offline.statistics import Agreement, BiasReport, BiasTest, CorrectedRate, Figure, RankMetrics
from judges.offline.trust.correcting import PassRate
from judges.offline.trust.raters import People

_INDICATIVE_BELOW = 30


def agreement_lines(
    found: Agreement, people: People | None, *, judge: str, labelled: int, questions: int, ties: int, ratings: bool
) -> Iterator[str]:
    """Yield the short report of agreement, in at most eight lines."""
    figures = found.figures
    coverage = "" if found.coverage is None else f", {found.coverage:.0%} of them scored"
    tied = f", {ties} {'tie' if ties == 1 else 'ties'} left out" if ties else ""
    few = ", indicative: few questions" if questions < _INDICATIVE_BELOW else ""
    yield f"{judge}: {labelled} labelled rows{coverage}{tied}{few}"
    if found.n == 0:
        yield "no labelled row is scored: nothing can be compared"
        return
    yield from _pass_lines(found)
    if ratings:
        difference = figures["mean_difference"].value or 0.0
        lenient = "higher" if difference > 0 else "lower"
        yield (
            f"ratings            quadratic kappa {_number(figures['kappa_quadratic'])}, within one "
            f"{figures['within_one'].value:.0%}, {abs(difference):.2f} {lenient} than people"
        )
    parts = [
        f"{rating}: {figure.value:.0%}" for rating, figure in found.reliability.items() if figure.value is not None
    ]
    broken = "" if found.monotone is not False else ", NOT rising: a higher rating is not better"
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
    return f"{figure.value:.1%} of {figure.n}, at most {figure.high:.1%} (95 %)"


def _people(people: People) -> str:
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
    p = "" if test.adjusted_p is None else f", p {test.adjusted_p:.3f} after Holm"
    finding = test.finding.upper() if test.finding == "flagged" else test.finding
    return f"{test.bias:<16} {finding}: {effect}{bounds}{p}, n {test.n}"


def full_lines(found: Agreement, people: People | None, scores: RankMetrics | None, *, seed: int) -> Iterator[str]:
    """Yield every figure there is."""
    yield "all figures"
    for name, figure in found.figures.items():
        note = f", {figure.note}" if figure.note else ""
        yield f"  {name.replace('_', ' '):<18} {figure}   {figure.method}{note}"
    for rating, figure in found.reliability.items():
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
