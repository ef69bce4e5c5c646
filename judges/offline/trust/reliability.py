"""The reliability curve of `p_pass`: of answers that pass with some probability, how many are good."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from judges.offline.statistics import RankMetrics, rank_metrics, wilson
from judges.offline.trust.rows import JudgedAnswer, majority

_BINS = 10
_WIDTH = 40
_RESAMPLES = 500


@dataclass(frozen=True, kw_only=True)
class ReliabilityBin:
    """Answers of about the same `p_pass`.

    Args:
        n: How many there are.
        said: Mean `p_pass`.
        good: Share that people call good.
        low: Lower end of its 95 % interval (Wilson).
        high: Upper end.
    """

    n: int
    said: float
    good: float
    low: float
    high: float

    @property
    def is_off(self) -> bool:
        """Whether the interval does not reach what was said."""
        return not self.low <= self.said <= self.high


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """What labels say of a judge's `p_pass`; `str()` draws it.

    Args:
        bins: Tenths of `p_pass` that hold labelled answers, from the lowest.
        scores: Brier score and calibration error of `p_pass`, with what chance explains.
    """

    bins: tuple[ReliabilityBin, ...]
    scores: RankMetrics

    def __str__(self) -> str:
        return "\n".join(self.lines())

    @property
    def verdict(self) -> str:
        """Whether `p_pass` can be read as a probability, in words."""
        ece, null, brier = self.scores.ece, self.scores.ece_null, self.scores.brier
        if ece is None or brier is None:
            return "too few labels to say whether p_pass is calibrated"
        off = ""
        if null is not None:
            off = ": miscalibrated" if ece > null else ": no more than chance explains"
            off = f", chance alone stays below {null:.3f}{off}"
        return f"Brier score {brier:.3f}, calibration error {ece:.3f}{off}"

    def lines(self) -> Iterator[str]:
        """Yield the curve as text: `o` is what people say, `-` its interval, `|` where it ought to lie."""
        yield "p_pass: of answers said to pass with p, people call so many good (| said, o people, - 95 %)"
        yield f"   said   good      n   0{'0.5':^{_WIDTH - 2}}1"
        for one in self.bins:
            note = "  off" if one.is_off else ""
            yield f"  {one.said:5.2f}  {one.good:5.2f}  {one.n:>5}   {_drawn(one)}{note}"
        yield f"  {self.verdict}"


def _drawn(one: ReliabilityBin) -> str:
    def place(share: float) -> int:
        return round(share * (_WIDTH - 1))

    cells = [" "] * _WIDTH
    cells[place(one.low) : place(one.high) + 1] = "-" * (place(one.high) - place(one.low) + 1)
    cells[place(one.said)] = "|"
    cells[place(one.good)] = "o" if place(one.good) != place(one.said) else "@"
    return "".join(cells).rstrip()


def reliability_of(rows: Sequence[JudgedAnswer], judge: str, *, good: float, seed: int) -> Reliability | None:
    """Return the curve over the labelled rows whose verdict has a `p_pass`; None where none has.

    Args:
        rows: The rows; one on which as many people say good as bad is left out.
        judge: The judge.
        good: Least human rating that is good.
        seed: Seed of the resamples.
    """
    pairs = [
        (mark.p_pass, verdict, row.weight)
        for row in rows
        if (verdict := majority(row.opinions, good)) is not None
        and (mark := row.marks.get(judge)) is not None
        and mark.p_pass is not None
    ]
    if not pairs:
        return None
    said, goods, weights = zip(*pairs, strict=True)
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(_BINS)]
    for share, is_good, _ in pairs:
        bins[min(int(share * _BINS), _BINS - 1)].append((share, is_good))
    scores = rank_metrics(goods, said, weights=weights, resamples=_RESAMPLES, seed=seed)
    return Reliability(bins=tuple(_bin(held) for held in bins if held), scores=scores)


def _bin(held: Sequence[tuple[float, bool]]) -> ReliabilityBin:
    n, goods = len(held), sum(is_good for _, is_good in held)
    low, high = wilson(goods, n)
    return ReliabilityBin(n=n, said=sum(share for share, _ in held) / n, good=goods / n, low=low, high=high)
