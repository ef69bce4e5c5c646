"""The commands `refine compare`, which sets two runs side by side, and `plan`: how many rows that needs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import stdev

from judges import ConfigurationError
from judges.errors import plural, shortened
from judges.offline import Evaluation, Row, RunComparison, compare, compare_runs, load_run, paired
from judges.offline.run_comparison import paired_rows
from judges.offline.statistics import LengthAdjusted, length_adjusted, n_pairs
from refine.cli.judge_specs import load_judge
from refine.cli.options import CompareOptions, PlanOptions
from refine.cli.tables import print_json, print_result, print_text

_MOST_REGRESSIONS = 10
_LONGEST_QUESTION = 50


def run_compare(options: CompareOptions) -> int:
    """Print how the later run compares with the earlier one, and return the exit code.

    Raises:
        ConfigurationError: If a run has not finished, they have nothing in common, or the judge compares nothing.
    """
    if options.judge is not None:
        return _compare_answers(options, options.judge)
    if any((options.asks.model, options.asks.base_url, options.asks.language)):
        raise ConfigurationError("--model, --base-url and --language are of a judge: add --judge pairwise")
    before, after = load_run(options.before), load_run(options.after)
    names = (str(options.before), str(options.after))
    comparison = compare_runs(before, after, names=names, seed=options.seed)
    text = f"{comparison}\n{_regressions(comparison, before, after)}".rstrip("\n")
    print_result(text, asdict(comparison), as_json=options.as_json)
    return 0


def _compare_answers(options: CompareOptions, spec: str) -> int:
    """Have a judge compare the answers of two runs, each pair in both orders, and return the exit code."""
    judge = load_judge(spec, options.asks)
    before, after = load_run(options.before), load_run(options.after)
    names = (str(options.after), str(options.before))
    result = compare(paired(after, before), judge, names=names, max_concurrency=options.max_concurrency)
    adjusted = _at_equal_length(result.rows, judge.name, options.seed)
    document = {**result.model_dump(mode="json", exclude={"rows"}), "length_adjusted": asdict(adjusted)}
    print_result(f"{result}\n  at equal length     {adjusted}", document, as_json=options.as_json)
    return 0 if result.n else 1


def _at_equal_length(rows: Sequence[Row], judge: str, seed: int) -> LengthAdjusted:
    """Return how often the first answer would win if both were as long."""
    scored = [(row.sample, row.verdicts[judge].score) for row in rows]
    pairs = [(sample, score) for sample, score in scored if sample is not None and score is not None]
    return length_adjusted(
        [score for _, score in pairs],
        [len(str(sample.metadata["rival"])) for sample, _ in pairs],
        [len(sample.answer or "") for sample, _ in pairs],
        clusters=[sample.question for sample, _ in pairs],
        seed=seed,
    )


def _regressions(comparison: RunComparison, before: Evaluation, after: Evaluation) -> str:
    """Return the rows that fell the most, judge by judge, with what was asked."""
    pairs = {new.index: (old, new) for old, new in paired_rows(before, after)}
    lines: list[str] = []
    for judge, change in comparison.changes.items():
        if not change.regressions:
            continue
        lines.append(f"\n{judge}: {plural(len(change.regressions), 'row')} fell, the largest fall first")
        for index in change.regressions[:_MOST_REGRESSIONS]:
            scores = [row.verdicts[judge].score or 0.0 for row in pairs[index]]
            sample = pairs[index][1].sample
            question = shortened("" if sample is None else sample.question, longest=_LONGEST_QUESTION)
            lines.append(f"  row {index}: {scores[0]:.3f} to {scores[1]:.3f}  {question}")
        if len(change.regressions) > _MOST_REGRESSIONS:
            lines.append(f"  and {len(change.regressions) - _MOST_REGRESSIONS} more; all of them with --json")
    return "".join(f"{line}\n" for line in lines)


_LEAST_ROWS = 10
"""Fewest scored rows of a pilot from which a spread is read."""


@dataclass(frozen=True, slots=True)
class _Sizing:
    """How many questions a comparison needs.

    Args:
        judge: The judge whose scores were looked at; empty where the spread was named.
        questions: Questions that both systems answer; None where nothing can be said.
        basis: What that rests on.
    """

    judge: str
    questions: int | None
    basis: str


def run_plan(options: PlanOptions) -> int:
    """Print how many questions show a change, and return the exit code.

    Raises:
        ConfigurationError: If an option is wrong, or a run has not finished.
    """
    _check(options)
    plans = list(_plans(options))
    if options.as_json:
        print_json([asdict(plan) for plan in plans])
        return 0
    print_text(
        f"Questions that show a change of {options.points:g} points in {options.power:.0%} of all comparisons, "
        f"at a level of {options.alpha:.0%}:"
    )
    for plan in plans:
        questions = "no number" if plan.questions is None else f"{plan.questions:,}"
        print_text(f"  {plan.judge + ': ' if plan.judge else ''}{questions} ({plan.basis})")
    return 0


def _check(options: PlanOptions) -> None:
    named = [value for value in (options.discordance, options.sd) if value is not None]
    if len(named) + bool(options.runs) != 1:
        raise ConfigurationError(
            "a plan needs to know how much scores differ: give one or two runs, or --discordance SHARE (verdicts "
            "that pass or fail), or --sd NUMBER (scores)"
        )
    if len(options.runs) > 2:  # noqa: PLR2004 - a pair
        raise ConfigurationError(f"a plan reads one run or two, not {len(options.runs)}")
    if not 0 < options.points < 100:  # noqa: PLR2004 - points of 100
        raise ConfigurationError(f"--points is above 0 and below 100, not {options.points:g}")
    if options.sd == 0:
        raise ConfigurationError("--sd is above 0; scores that never differ need no plan")
    for name, share in (("--power", options.power), ("--alpha", options.alpha)):
        if not 0 < share < 1:
            raise ConfigurationError(f"{name} lies between 0 and 1, not {share:g}")


def _plans(options: PlanOptions) -> Iterator[_Sizing]:
    if options.discordance is not None:
        yield _Sizing("", _count_questions(options), f"verdicts differ on {options.discordance:.1%}")
    elif options.sd is not None:
        yield _Sizing("", _count_questions(options), f"scores differ by a deviation of {options.sd:g}")
    else:
        pilots = [load_run(run) for run in options.runs]
        for name in pilots[0].summary:
            yield _from_pilots(name, pilots, options)


def _from_pilots(name: str, pilots: list[Evaluation], options: PlanOptions) -> _Sizing:
    if any(name not in pilot.summary for pilot in pilots):
        return _Sizing(name, None, "one of the runs does not have it")
    if len(pilots) == 1:
        scores = [score for score in pilots[0].scores[name] if score is not None]
        factor, how = math.sqrt(2), "if the two systems agree no more than by chance; fewer with a run of both"
    else:
        pairs = [[row.verdicts[name].score for row in pair] for pair in paired_rows(*pilots)]
        scores = [after - before for before, after in pairs if before is not None and after is not None]
        factor, how = 1.0, "of the two runs"
    if len(scores) < _LEAST_ROWS:
        return _Sizing(name, None, f"{len(scores)} rows are too few to tell how scores differ")
    sd = stdev(scores) * factor
    if sd == 0:
        return _Sizing(name, None, "its scores never differ")
    basis = f"scores differ by {sd:.3f} on {plural(len(scores), 'row')}, {how}"
    return _Sizing(name, _count_questions(options, sd), basis)


def _count_questions(options: PlanOptions, sd: float | None = None) -> int:
    """Return how many questions show the change; `sd` is the deviation that pilots have."""
    spread = {"discordance": options.discordance, "sd": options.sd if sd is None else sd}
    try:
        return math.ceil(n_pairs(options.points / 100, alpha=options.alpha, power=options.power, **spread))
    except ValueError as error:
        raise ConfigurationError(f"--discordance: {error}") from None
