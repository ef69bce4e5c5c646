"""The section on attempts: how many pass by each, what another brings, and what other policies would have done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from refine.report import wording
from refine.report.cells import UNKNOWN, filled_table, scale_end
from refine.report.document import Block, Cell, Paragraph, Range, Section, Table

if TYPE_CHECKING:
    from judges.offline.trust.curves import AttemptGain, CurvePoint
    from judges.offline.trust.loop_replay import LoopReplay
    from judges.offline.trust.policies import ReplayedPolicy


def attempts_section(replay: LoopReplay) -> Section:
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
