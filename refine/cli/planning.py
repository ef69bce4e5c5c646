"""The command `refine plan`: how many questions a comparison needs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import stdev

from judges import ConfigurationError
from judges.offline import Evaluation, load_run
from judges.offline.run_comparison import paired_rows
from judges.offline.statistics import n_pairs

_LEAST_ROWS = 10
"""Fewest scored rows of a pilot from which a spread is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """The options of `refine plan`.

    Args:
        runs: Pilots: none, one, or two over the same questions.
        points: The change to be found, in points of 100.
        discordance: Share of questions on which the verdicts of the two systems differ, 0 to 1.
        sd: Standard deviation of the difference of scores on a question.
        power: Probability of finding the change.
        alpha: Two-sided level of the test.
        as_json: Whether to print JSON.
    """

    runs: tuple[Path, ...] = ()
    points: float = 3.0
    discordance: float | None = None
    sd: float | None = None
    power: float = 0.8
    alpha: float = 0.05
    as_json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
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
        sys.stdout.write(f"{json.dumps([asdict(plan) for plan in plans], ensure_ascii=False, indent=2)}\n")
        return 0
    sys.stdout.write(
        f"Questions that show a change of {options.points:g} points in {options.power:.0%} of all comparisons, "
        f"at a level of {options.alpha:.0%}:\n"
    )
    for plan in plans:
        questions = "no number" if plan.questions is None else f"{plan.questions:,}"
        sys.stdout.write(f"  {plan.judge + ': ' if plan.judge else ''}{questions} ({plan.basis})\n")
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


def _plans(options: PlanOptions) -> Iterator[Plan]:
    if options.discordance is not None:
        yield Plan(judge="", questions=_needed(options), basis=f"verdicts differ on {options.discordance:.1%}")
    elif options.sd is not None:
        yield Plan(judge="", questions=_needed(options), basis=f"scores differ by a deviation of {options.sd:g}")
    else:
        pilots = [load_run(run) for run in options.runs]
        for name in pilots[0].summary:
            yield _from_pilots(name, pilots, options)


def _from_pilots(name: str, pilots: list[Evaluation], options: PlanOptions) -> Plan:
    if any(name not in pilot.summary for pilot in pilots):
        return Plan(judge=name, questions=None, basis="one of the runs does not have it")
    if len(pilots) == 1:
        scores = [score for score in pilots[0].scores[name] if score is not None]
        factor, how = math.sqrt(2), "if the two systems agree no more than by chance; fewer with a run of both"
    else:
        pairs = [[row.verdicts[name].score for row in pair] for pair in paired_rows(*pilots)]
        scores = [after - before for before, after in pairs if before is not None and after is not None]
        factor, how = 1.0, "of the two runs"
    if len(scores) < _LEAST_ROWS:
        return Plan(judge=name, questions=None, basis=f"{len(scores)} rows are too few to tell how scores differ")
    sd = stdev(scores) * factor
    if sd == 0:
        return Plan(judge=name, questions=None, basis="its scores never differ")
    questions = math.ceil(n_pairs(options.points / 100, sd=sd, alpha=options.alpha, power=options.power))
    return Plan(judge=name, questions=questions, basis=f"scores differ by {sd:.3f} on {len(scores):,} rows, {how}")


def _needed(options: PlanOptions) -> int:
    try:
        return math.ceil(
            n_pairs(
                options.points / 100,
                discordance=options.discordance,
                sd=options.sd,
                alpha=options.alpha,
                power=options.power,
            )
        )
    except ValueError as error:
        raise ConfigurationError(f"--discordance: {error}") from None
