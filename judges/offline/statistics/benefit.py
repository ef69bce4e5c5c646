"""Whether a loop helps: bad first answers that it mends, good ones that it breaks, and a test of both."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from judges.offline.statistics.intervals import EXACT, Figure, LazyModule, clopper_pearson, holm, normal_quantile
from judges.offline.statistics.resampling import cluster_rows, cluster_se

np, special = LazyModule("numpy"), LazyModule("scipy.special")

Effect = Literal["helps", "harms", "cannot be told"]

_LEVEL = 0.95
_ALPHA = 0.05
_POWER = 0.8
_HOLDS_FOR = 15
_MOST_LABELS = 100_000
_MOST_EXACT = 1_000


@dataclass(frozen=True, kw_only=True)
class LoopBenefit:
    """What loops make of their first answers, by the labels of people on the first and on the final answer.

    "Iterate only while ECR / EIR > Acc / (1 - Acc)" says no more than that more is mended than broken; the test
    says whether that is more than chance.

    Args:
        n: Loops of which both answers are labelled.
        questions: Different questions among them, the unit of every interval and test.
        first_good: Loops whose first answer is good.
        first_bad: Loops whose first answer is bad.
        mended: Of the bad ones, those whose final answer is good.
        broken: Of the good ones, those whose final answer is bad.
        ecr: Share of the bad ones that were mended (error correction rate), with an exact interval: Clopper and
            Pearson's; where questions repeat, on the effective number of loops (Korn and Graubard, Survey
            Methodology 24, 1998).
        eir: Share of the good ones that were broken (error introduction rate), the same.
        net: Change of the share of good answers, with an interval (Agresti and Min, Statistics in Medicine 24,
            2005; at least as wide as that over questions).
        p: Exact two-sided p-value of "as much is mended as broken": McNemar's; where questions repeat, by flipping
            the sign of each question's sum.
        effect: What follows at 5 %, and after `judged_together` in the whole family.
        labels_needed: Labelled loops, these included, that would tell in four of five cases if it goes on like
            this; None where it is told, or where no number up to 100,000 would do.
    """

    n: int
    questions: int
    first_good: int
    first_bad: int
    mended: int
    broken: int
    ecr: Figure
    eir: Figure
    net: Figure
    p: float
    effect: Effect
    labels_needed: int | None = None

    @property
    def good_before(self) -> float | None:
        """Share of good first answers, the Acc of the rule; None without loops."""
        return self.first_good / self.n if self.n else None

    @property
    def good_after(self) -> float | None:
        """Share of good final answers; None without loops."""
        return (self.first_good - self.broken + self.mended) / self.n if self.n else None

    @property
    def ratio(self) -> float | None:
        """ECR / EIR, infinite where nothing was broken; None where neither happened or one has no value."""
        if self.ecr.value is None or self.eir.value is None or not (self.mended or self.broken):
            return None
        return self.ecr.value / self.eir.value if self.broken else math.inf

    @property
    def least_ratio(self) -> float | None:
        """Acc / (1 - Acc), above which iterating pays; None without a bad first answer."""
        return self.first_good / self.first_bad if self.first_bad else None


def loop_benefit(
    first: Sequence[bool], last: Sequence[bool], *, clusters: Sequence[Hashable] | None = None
) -> LoopBenefit:
    """Return what loops make of their first answers.

    Args:
        first: Whether people call the first answer of each loop good.
        last: The same of its final answer, in the same order.
        clusters: The question of each loop; None: each its own.

    Raises:
        ValueError: If the lists differ in length.
    """
    if len(first) != len(last) or (clusters is not None and len(clusters) != len(first)):
        raise ValueError("first, last and clusters say something of the same loops, so they have one length")
    pairs = [(bool(before), bool(after)) for before, after in zip(first, last, strict=True)]
    counts = Counter(pairs)
    mended, broken = counts[False, True], counts[True, False]
    first_good = broken + counts[True, True]
    n, first_bad = len(pairs), len(pairs) - first_good
    keys = None if clusters is None or len(set(clusters)) == n else list(clusters)
    changes = [int(after) - int(before) for before, after in pairs]
    questions = n if keys is None else len(set(keys))
    p = _sign_p(_sums(changes, keys))
    effect: Effect = "cannot be told" if p > _ALPHA else "helps" if mended > broken else "harms"
    wider = 1.0 if keys is None else max(1.0, _design_effect(changes, keys))
    return LoopBenefit(
        n=n,
        questions=questions,
        first_good=first_good,
        first_bad=first_bad,
        mended=mended,
        broken=broken,
        ecr=_share_changed(pairs, keys, before=False),
        eir=_share_changed(pairs, keys, before=True),
        net=_net(n, mended, broken, wider, questions),
        p=p,
        effect=effect,
        labels_needed=_labels_needed(n, mended, broken, wider) if effect == "cannot be told" else None,
    )


def judged_together(benefits: Sequence[LoopBenefit]) -> list[LoopBenefit]:
    """Return several benefits with p-values adjusted by Holm's method, and effects that follow from these."""
    adjusted = []
    for benefit, p in zip(benefits, holm([one.p for one in benefits]), strict=True):
        effect = benefit.effect if p <= _ALPHA else "cannot be told"
        needed = benefit.labels_needed
        if effect != benefit.effect:
            wider, level = benefit.n / benefit.questions, _ALPHA / len(benefits)
            needed = _labels_needed(benefit.n, benefit.mended, benefit.broken, wider, level=level)
        adjusted.append(replace(benefit, p=p, effect=effect, labels_needed=needed))
    return adjusted


def _sums(changes: Sequence[int], keys: Sequence[Hashable] | None) -> list[int]:
    """Return the sum of the changes of each question."""
    if keys is None:
        return list(changes)
    sums: Counter[Hashable] = Counter()
    for change, key in zip(changes, keys, strict=True):
        sums[key] += change
    return list(sums.values())


def _sign_p(sums: Sequence[int]) -> float:
    """Return the exact share of sign patterns whose sum is as far from 0 as that of these whole numbers."""
    sizes = [abs(one) for one in sums if one]
    observed = abs(sum(sums))
    if not sizes or not observed:
        return 1.0
    if max(sizes) == 1:
        return min(1.0, 2 * float(special.bdtr((len(sizes) - observed) // 2, len(sizes), 0.5)))
    total = sum(sizes)
    chances = np.zeros(2 * total + 1)  # of each sum, from -total to total
    chances[total] = 1.0
    reach = 0
    for size in sizes:
        middle = chances[total - reach : total + reach + 1] / 2
        reach += size
        chances[total - reach : total + reach + 1] = 0
        chances[total - reach : total + reach + 1 - 2 * size] += middle
        chances[total - reach + 2 * size : total + reach + 1] += middle
    return min(1.0, float(chances[: total - observed + 1].sum() + chances[total + observed :].sum()))


def _share_changed(pairs: Sequence[tuple[bool, bool]], keys: Sequence[Hashable] | None, *, before: bool) -> Figure:
    """Return the share of answers, good or bad before, that are the other after."""
    places = [place for place, (first, _) in enumerate(pairs) if first is before]
    if not places:
        return Figure.undefined("one_class" if pairs else "too_few", 0)
    changed = [float(pairs[place][1] is not before) for place in places]
    n, wins = len(changed), int(sum(changed))
    if keys is None or len(questions := {keys[place] for place in places}) == n:
        return Figure.of_share(wins, n, method=EXACT)
    effective = _effective(changed, [keys[place] for place in places], len(questions))
    low, high = clopper_pearson(wins / n * effective, effective)
    return Figure(value=wins / n, n=n, low=low, high=high, method="Korn-Graubard, over questions")


def _effective(values: Sequence[float], keys: Sequence[Hashable], questions: int) -> float:
    """Return the number of independent values that would be as uncertain; of values all alike, of questions."""
    rate = sum(values) / len(values)
    se = cluster_se(values, keys)
    if not se or not 0 < rate < 1:
        return float(questions)
    student = special.stdtrit(len(values) - 1, 0.975) / special.stdtrit(questions - 1, 0.975)
    return float(max(1.0, min(len(values), rate * (1 - rate) / se**2 * student**2)))


def _net(n: int, mended: int, broken: int, wider: float, questions: int) -> Figure:
    if not n:
        return Figure.undefined("too_few", 0)
    value, size = (mended - broken) / n, n + 2
    centre = (mended - broken) / size
    half = normal_quantile(_LEVEL) * math.sqrt((mended + broken + 1) / size - centre**2) / math.sqrt(size)
    method = "Agresti-Min"
    if questions < n:
        half *= math.sqrt(wider) * float(special.stdtrit(max(1, questions - 1), 0.975)) / normal_quantile(_LEVEL)
        method = "Agresti-Min, over questions"
    low, high = max(-1.0, centre - half), min(1.0, centre + half)
    return Figure(value=value, n=n, low=min(low, value), high=max(high, value), method=method)


def _design_effect(changes: Sequence[int], keys: Sequence[Hashable]) -> float:
    """Return by how much repeated questions widen the variance of the mean; of changes all alike, by repeats."""
    own, over_questions = cluster_se(changes), cluster_se(changes, keys)
    if not own or not over_questions:
        return len(changes) / max(1, len(set(keys)))
    return (over_questions / own) ** 2


def _labels_needed(n: int, mended: int, broken: int, wider: float, *, level: float = _ALPHA) -> int | None:
    """Return how many loops tell in four of five cases if as many change as now, in the same proportion."""
    if mended == broken:
        return None
    changed = mended + broken
    rare = min(mended, broken) / changed
    z_level, z_power = normal_quantile(1 - level), normal_quantile(2 * _POWER - 1)
    about = ((z_level + 2 * z_power * math.sqrt(rare * (1 - rare))) / (1 - 2 * rare)) ** 2
    if about * n / changed * wider > _MOST_LABELS:
        return None
    if about > _MOST_EXACT:
        return max(n + 1, math.ceil(about * n / changed * wider))
    sizes = np.arange(max(1, int(0.8 * about) - 10), int(1.2 * about) + 60)
    most_rare = np.floor(special.bdtrik(level / 2, sizes, 0.5) + 1e-9)  # of the rarer change, to be significant
    can_tell = (most_rare >= 0) & (special.bdtr(np.maximum(most_rare, 0), sizes, 0.5) <= level / 2)
    power = np.where(can_tell, special.bdtr(np.maximum(most_rare, 0), sizes, rare), 0.0)
    holds = np.convolve(power >= _POWER, np.ones(_HOLDS_FOR), mode="valid") == _HOLDS_FOR
    enough = float(sizes[int(holds.argmax())]) if holds.any() else 1.2 * about
    needed = max(n + 1, math.ceil(enough * n / changed * wider))
    return needed if needed <= _MOST_LABELS else None


@dataclass(frozen=True, kw_only=True)
class RiseGap:
    """How much more the judge sees an answer rise than people do, from the first to the final one.

    A loop stops where its judge is content, so that some of the judge's rise is luck; a loop that games its judge
    has a gap, too.

    Args:
        n: Loops that judge and people say both answers of.
        judge: Change of the share that the judge accepts.
        people: Change of the share that people call good.
        gap: The first less the second, with its interval over questions.
        p: Exact two-sided p-value of "both rise alike", by flipping the sign of each question's sum.
    """

    n: int
    judge: float
    people: float
    gap: Figure
    p: float

    @property
    def is_apart(self) -> bool:
        """True if the judge sees more of a rise than people do, by more than chance."""
        return self.gap.value is not None and self.gap.value > 0 and self.p <= _ALPHA


def rise_gap(
    judged: Sequence[tuple[bool, bool]],
    people: Sequence[tuple[bool, bool]],
    *,
    clusters: Sequence[Hashable] | None = None,
) -> RiseGap | None:
    """Return how much more the judge sees answers rise than people do; None without loops.

    Args:
        judged: Whether the judge accepts the first and the final answer of each loop.
        people: Whether people call them good.
        clusters: The question of each loop; None: each its own.

    Raises:
        ValueError: If the lists differ in length.
    """
    if len(judged) != len(people) or (clusters is not None and len(clusters) != len(people)):
        raise ValueError("judged, people and clusters say something of the same loops, so they have one length")
    if not judged:
        return None
    n = len(judged)
    rises = [int(after) - int(before) for before, after in judged]
    own = [int(after) - int(before) for before, after in people]
    gaps = [rise - rise_of_people for rise, rise_of_people in zip(rises, own, strict=True)]
    keys = None if clusters is None or len(set(clusters)) == n else list(clusters)
    value, se = sum(gaps) / n, cluster_se(gaps, keys)
    figure = Figure(value=value, n=n)
    if se:
        half = float(special.stdtrit(len(cluster_rows(n, keys)) - 1, 0.975)) * se
        figure = figure.between(max(-2.0, value - half), min(2.0, value + half), "t over questions")
    return RiseGap(n=n, judge=sum(rises) / n, people=sum(own) / n, gap=figure, p=_sign_p(_sums(gaps, keys)))
