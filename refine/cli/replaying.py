"""The command `refine replay`: what recorded loops tell, as tables or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from judges.offline.trust.curves import AttemptGain, CurvePoint
from judges.offline.trust.loop_replay import LoopReplay, replay
from judges.offline.trust.policies import ReplayedPolicy
from refine.cli.judge_specs import load_judge
from refine.cli.loop_source import console, loop_source

_BAR = 20
"""Columns of a bar for 100 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """The options of the command, as they were written."""

    source: str
    labels: Path | None
    thresholds: Sequence[int]
    max_attempts: Sequence[int]
    patience: Sequence[int]
    policy: str | None
    rejudge: str | None
    rejudge_fraction: float
    model: str | None
    base_url: str | None
    language: str | None
    max_concurrency: int
    seed: int
    as_json: bool


def run_replay(options: ReplayOptions) -> int:
    """Print what the loops tell, and return the exit code: 0, or 1 where nothing is identified.

    Raises:
        ConfigurationError: If the source cannot be read, or an option is wrong.
    """
    judge = None
    if options.rejudge is not None:
        judge = load_judge(
            options.rejudge, model=options.model, base_url=options.base_url, language=options.language
        )
    with loop_source(options.source, texts=judge is not None) as source:
        result = replay(
            source.rows,
            options.labels,
            thresholds=options.thresholds or None,
            max_attempts=options.max_attempts or None,
            patience=options.patience or None,
            policy=options.policy,
            judge=judge,
            rejudge_fraction=options.rejudge_fraction,
            max_concurrency=options.max_concurrency,
            seed=options.seed,
        )
    if options.as_json:
        sys.stdout.write(f"{json.dumps(result.to_dict(), ensure_ascii=False, indent=2)}\n")
    else:
        show_replay(console(), result)
    return 0 if result.reason is None else 1


def show_replay(out: Console, result: LoopReplay) -> None:
    """Print a replay."""
    if result.reason is not None:
        out.print(Text(f"{result.reason}: {result.detail}", style="yellow"), soft_wrap=True)
        _print_left_out(out, result)
        return
    questions = "" if result.questions == result.loops else f" to {result.questions:,} questions"
    out.print(Text(f"{_count(result.loops, 'loop')}{questions}, recorded with {result.policy}", style="bold"))
    _print_left_out(out, result)
    out.print(_curve(out, result.curve))
    if result.curve_note:
        _note(out, result.curve_note)
    if result.gains:
        out.print(_gains(out, result.gains, result.gain_title))
    _print_best(out, result)
    out.print(_policies(out, result.policies))
    for note in (result.assumption, *_reading(result), *result.notes):
        _note(out, note)


def _print_left_out(out: Console, result: LoopReplay) -> None:
    parts = [f"{count} {reason}" for reason, count in result.left_out.items()]
    parts += [f"{count} of policy {digest[:8] or 'unknown'}" for digest, count in result.other_policies.items()]
    if parts:
        hint = "; choose one with --policy" if result.other_policies else ""
        out.print(Text(f"left out: {', '.join(parts)}{hint}", style="yellow"), soft_wrap=True)


def _note(out: Console, text: str) -> None:
    out.print(Text(text, style="dim"))


def _table(out: Console, title: str) -> Table:
    out.print(Text(f"\n{title}", style="bold"))
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")


def _curve(out: Console, points: Sequence[CurvePoint]) -> Table:
    table = _table(out, "Passed by attempt")
    for name in ("attempt", "judged", "passed", "by now", "95 % interval"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    has_patience = any(point.if_patience_passed is not None for point in points)
    if has_patience:
        table.add_column("at most", justify="right", no_wrap=True)
    for point in points:
        bar = "" if out.options.ascii_only else "█" * round(_BAR * point.cumulative)
        cells = [str(point.attempt), f"{point.at_risk:,}", f"{point.passed:,}", _share(point.cumulative)]
        most = [_share(point.if_patience_passed)] if has_patience else []
        table.add_row(*cells, _between(point.low, point.high), Text(bar, style="green"), *most)
    return table


def _gains(out: Console, gains: Sequence[AttemptGain], title: str) -> Table:
    table = _table(out, f"{title[0].upper()}{title[1:]}")
    table.add_column("from", justify="right", no_wrap=True)
    clean = any(gain.gain is not None for gain in gains)
    names = ("loops", "raw change", "fell", *(("gain", "95 % interval", "judged again") if clean else ()))
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for gain in gains:
        cells = [f"{gain.attempt} to {gain.attempt + 1}", f"{gain.n:,}", f"{gain.raw_change:+.2f}"]
        cells.append(_share(gain.regressions / gain.n))
        if clean:
            known = gain.gain_low is not None and gain.gain_high is not None
            cells.append("-" if gain.gain is None else f"{gain.gain:+.2f}")
            cells.append(f"{gain.gain_low:+.2f} to {gain.gain_high:+.2f}" if known else "-")
            cells.append(f"{gain.rejudged:,}")
        table.add_row(*cells)
    return table


def _print_best(out: Console, result: LoopReplay) -> None:
    best = result.best
    if best is None or best.mean_difference is None:
        return
    if not best.share:
        out.print(Text("The last attempt of a loop is nowhere worse than its best."))
        return
    share = _share(best.share)
    line = f"The best attempt beats the last in {share} of the loops, by {best.mean_difference:.2f} over all"
    if best.rejudged_rating is None:
        line += ", which flatters it: it is the highest of several ratings"
    else:
        line += (
            f"; its mean rating is {best.best_rating:.2f}, and {best.rejudged_rating:.2f} when judged again "
            f"({best.rejudged:,} of them): quote the second"
        )
    out.print(Text(line))


def _policies(out: Console, policies: Sequence[ReplayedPolicy]) -> Table:
    table = _table(out, "Other policies")
    table.add_column("policy", no_wrap=True)
    has_cost = any(policy.mean_cost is not None for policy in policies)
    has_labels = any(policy.bad_rate is not None for policy in policies)
    more = [*(["$ a loop"] if has_cost else []), *(["bad among them"] if has_labels else [])]
    for name in ("releases", "attempts", *more):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for policy in policies:
        cells = ["-" if policy.mean_cost is None else f"{policy.mean_cost:.4g}"] if has_cost else []
        cells += [_range(policy.bad_rate)] if has_labels else []
        releases, attempts = _releases(policy), _range(policy.mean_attempts, form=".2f")
        style = "bold" if policy.in_force else ""
        table.add_row(_name(policy), releases, attempts, *cells, _status(policy), style=style)
    return table


def _name(policy: ReplayedPolicy) -> str:
    attempts = "1 attempt" if policy.max_attempts == 1 else f"{policy.max_attempts} attempts"
    patience = "" if policy.patience is None else f", patience {policy.patience}"
    in_force = " (in force)" if policy.in_force else ""
    return f"rating {policy.success_rating}, {attempts}{patience}{in_force}"


def _releases(policy: ReplayedPolicy) -> str:
    if policy.release_interval is None:
        return _range(policy.release_rate)
    low, high = policy.release_interval
    return f"{_share(policy.release_rate[0])} ({100 * low:.0f}-{high:.0%})"


def _status(policy: ReplayedPolicy) -> str:
    return policy.status if policy.hajek is None else f"estimate {_share(policy.hajek)}"


def _reading(result: LoopReplay) -> list[str]:
    """Return what a reader of the table of policies must know."""
    notes = []
    if any(policy.status == "bounds" for policy in result.policies):
        notes.append(
            "A range stands where loops ended before the policy would have ended them: it is all that the record "
            "says, and no interval. In parentheses: 95 % intervals."
        )
    labelled = result.policies[0].labelled
    if labelled:
        notes.append(
            f"Bad answers are counted over the {labelled:,} loops with labels; a released answer without a label "
            f"counts as bad. A policy that is chosen here needs fresh labels to be certified."
        )
    return notes


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _between(low: float, high: float) -> str:
    return f"{low:.1%} to {high:.1%}"


def _range(value: tuple[float, float] | None, *, form: str = ".1%") -> str:
    if value is None:
        return "-"
    low, high = (format(end, form) for end in value)
    return low if low == high else f"{low.removesuffix('%')}-{high}"
