"""The section on attempts: how many pass by each, what another brings, and what other policies would have done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from refine.report import wording
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
        yield Table(
            ("After attempt", "Loops", "Raw change", "Fell", "Gain, judged again"),
            tuple(map(_gain, replay.gains)),
            frozenset({1, 2, 3}),
            f"Change of the rating: {replay.gain_title}",
        )
    if replay.policies:
        yield Table(
            ("Policy", "Releases", "Bad among released", "Attempts", "Dollars", "How sure"),
            tuple(map(_policy, replay.policies)),
            frozenset({3, 4}),
            "What other policies would have done; a range where the record ends before the policy would have",
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
    clean = Cell("nothing was judged again", tone="soft")
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


def _policy(policy: ReplayedPolicy) -> tuple[Cell, ...]:
    patience = "" if policy.patience is None else f", patience {policy.patience}"
    name = f"rating {policy.success_rating}, {wording.plural(policy.max_attempts, 'attempt')}{patience}"
    low, high = policy.mean_attempts
    attempts = f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}"
    return (
        Cell(name, "in force" if policy.in_force else ""),
        _bounded(policy.release_rate, policy.release_interval),
        Cell("no labels", tone="soft")
        if policy.bad_rate is None
        else _bounded(policy.bad_rate, policy.bad_interval),
        Cell(attempts),
        Cell(wording.DASH if policy.mean_cost is None else wording.dollars(policy.mean_cost)),
        Cell(policy.status, tone="plain" if policy.status == "exact" else "unsure"),
    )


def _bounded(bounds: tuple[float, float], interval: tuple[float, float] | None) -> Cell:
    """Return a cell for a share that is known, or known to lie between two bounds."""
    low, high = bounds
    if low != high:
        return Cell(
            f"{wording.percent(low)} to {wording.percent(high)}", "bounds", Range(value=None, low=low, high=high)
        )
    ends = interval or (None, None)
    return Cell(wording.percent(low), wording.span_percent(*ends), Range(value=low, low=ends[0], high=ends[1]))
