"""Whether recorded loops help, by people's labels of first and final answers: one value, and its one wording."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import NormalDist, fmean
from typing import Literal

from judges.offline import statistics
from judges.offline.statistics.intervals import Figure, p_text
from judges.offline.statistics.replay import AttemptPoint, curve_intervals
from judges.offline.trust.loops import LoopAttempt, LoopPolicy, RecordedLoop, is_score
from judges.offline.trust.rows import GOOD, JudgedAnswer, Opinion, is_tuned, majority

_TINY = 0.001


@dataclass(frozen=True, kw_only=True)
class LabelledLoop:
    """One recorded loop, with what judge and people say of each answer.

    Args:
        question_id: The same for the same question.
        ratings: The judge's rating of each attempt, as a gate counts it, or its score; None is unscored.
        good: Whether people call each attempt's answer good; None without a label, or where they are divided.
        shown: Number of the attempt that was shown, from 1; None where none was.
        success_rating: Lowest rating, or score, that the judge accepts.
        judge: What the judge is called.
        slices: By column the value of the loop.
    """

    question_id: str
    ratings: tuple[float | None, ...]
    good: tuple[bool | None, ...]
    shown: int | None
    success_rating: float
    judge: str = ""
    slices: Mapping[str, str] = field(default_factory=dict)

    @property
    def final(self) -> int:
        """Place of the final answer: the one shown, else the best one, from 0."""
        return self.answer_within(len(self.ratings)) if self.shown is None else self.shown - 1

    def answer_within(self, attempts: int) -> int:
        """Return the place of the answer of a loop with so many attempts: the first accepted, else the best."""
        ratings = self.ratings[:attempts]
        accepted = (place for place in range(len(ratings)) if self.accepts(place))
        best = max(range(len(ratings)), key=lambda place: (ratings[place] or 0, place))
        return next(accepted, best)

    def accepts(self, place: int) -> bool:
        """Return whether the judge accepts the answer of an attempt, counted from 0."""
        rating = self.ratings[place]
        return rating is not None and rating >= self.success_rating


def good_by_people(opinions: Iterable[Opinion], good: float = GOOD) -> bool | None:
    """Return whether people call an answer good, by the labels that did not tune the judge; None if undecided."""
    return majority([one for one in opinions if not is_tuned(one.split)], good)


def loops_among(rows: Sequence[JudgedAnswer], judge: str, *, good: float) -> list[LabelledLoop]:
    """Return the loops that judged rows are attempts of; those of which attempts are missing are left out.

    Args:
        rows: The rows; those that are no attempts are passed over.
        judge: The judge whose ratings count.
        good: Least human rating that is good.
    """
    groups: dict[str, list[JudgedAnswer]] = {}
    for row in rows:
        if row.attempt is not None and row.outcome_id is not None and not row.metadata.get("shadow"):
            groups.setdefault(row.outcome_id, []).append(row)
    return [_loop_of(group, judge, good) for group in groups.values() if _is_whole(group)]


def _is_whole(group: Sequence[JudgedAnswer]) -> bool:
    return sorted(row.attempt or 0 for row in group) == list(range(1, len(group) + 1))


def _loop_of(group: Sequence[JudgedAnswer], judge: str, good: float) -> LabelledLoop:
    rows = sorted(group, key=lambda row: row.attempt or 0)
    marks = [row.marks.get(judge) for row in rows]
    metadata = rows[0].metadata
    rating, score = metadata.get("success_rating"), metadata.get("success_score")
    threshold: float = rating if isinstance(rating, int) else GOOD
    if isinstance(score, float):
        threshold = score
    values = [None if mark is None else mark.score if is_score(threshold) else mark.effective for mark in marks]
    return LabelledLoop(
        question_id=rows[0].question_id,
        ratings=tuple(values),
        good=tuple(good_by_people(row.opinions, good) for row in rows),
        shown=next((row.attempt for row in rows if row.metadata.get("released") is True), None),
        success_rating=threshold,
        judge=judge,
    )


@dataclass(frozen=True, kw_only=True)
class _BenefitPart:
    """The benefit of some of the loops, or of one more attempt.

    Args:
        kind: What it is a part by.
        name: Which part.
        benefit: Its benefit; the p-values of parts of one kind are adjusted together (Holm).
    """

    kind: Literal["attempt", "judge", "slice"]
    name: str
    benefit: statistics.LoopBenefit


@dataclass(frozen=True, kw_only=True)
class BenefitReport:
    """Whether loops help, harm, or that it cannot be told.

    Args:
        benefit: Of all loops with labels of their first and final answers.
        loops: Loops there are.
        retried: Loops with more than one attempt.
        unlabelled: Loops without a label of the first or the final answer, or on one of which people are divided.
        unshown: Loops that showed none of their answers; their best one counts as the final one.
        steps: By attempt from 2 on, what letting the loop go on to it makes of the answer until then.
        parts: By judge and by slice, where there are several.
        gap: How much more the judge sees answers rise than people do.
    """

    benefit: statistics.LoopBenefit
    loops: int
    retried: int
    unlabelled: int
    unshown: int
    steps: tuple[_BenefitPart, ...] = ()
    parts: tuple[_BenefitPart, ...] = ()
    gap: statistics.RiseGap | None = None

    @property
    def is_known(self) -> bool:
        """True if people's labels say anything of it."""
        return self.benefit.n > 0

    @property
    def headline(self) -> str:
        """The finding as one sentence, its first words in capitals."""
        benefit = self.benefit
        if not self.is_known:
            return (
                "No loop has labels of its first and its final answer: all this is the judge's own opinion, and "
                "whether the loop helps people is not known."
            )
        if benefit.effect == "cannot be told":
            return f"CANNOT BE TOLD whether the loop helps: {benefit.mended:,} mended, {benefit.broken:,} broken."
        word = "HELPS" if benefit.effect == "helps" else "HARMS"
        return (
            f"The loop {word}: people call {benefit.good_before:.1%} of first answers good, "
            f"{benefit.good_after:.1%} of final ones."
        )

    def entries(self) -> Iterator[tuple[str, str]]:
        """Yield what stands behind the finding, as labels and texts; nothing without labels."""
        if not self.is_known:
            return
        benefit = self.benefit
        yield (
            "mended",
            f"{benefit.mended:,} of {benefit.first_bad:,} bad first answers{_share('ECR', benefit.ecr)}",
        )
        yield (
            "broken",
            f"{benefit.broken:,} of {benefit.first_good:,} good first answers{_share('EIR', benefit.eir)}",
        )
        yield "net", f"{_points(benefit.net)}, {p_text(benefit.p)}, {_loops(benefit)}"
        if benefit.ratio is not None and benefit.least_ratio is not None:
            pays = benefit.mended > benefit.broken
            ratio = "infinite" if not benefit.broken else f"{benefit.ratio:.2g}"
            side, so = ("above", "pays") if pays else ("not above", "does not pay")
            so += ", unless that is chance" if benefit.effect == "cannot be told" else ""
            yield "rule", f"ECR/EIR, {ratio}, is {side} Acc/(1-Acc), {benefit.least_ratio:.2g}: iterating {so}"
        if benefit.effect == "cannot be told":
            yield "to tell", self._labels_to_tell()
        if self.steps:
            yield "attempts", self._attempts()
        if self.gap is not None:
            yield "judge", _describe_gap(self.gap)
        if self.unlabelled:
            yield "left out", f"{self.unlabelled:,} of {self.loops:,} loops: no label of the first or final answer"
        if self.unshown:
            yield "not shown", f"{self.unshown:,} loops showed no answer of theirs; their best one is counted"

    def _labels_to_tell(self) -> str:
        benefit = self.benefit
        if benefit.labels_needed is not None:
            return f"about {benefit.labels_needed:,} labelled loops, if it goes on like this; now {benefit.n:,}"
        if not benefit.mended and not benefit.broken:
            return "no answer changed between good and bad: label more loops with several attempts"
        return "as much is mended as broken, or nearly: no number of labels will do"

    def _attempts(self) -> str:
        """Say where another attempt stops helping."""
        effects = [one.benefit.effect for one in self.steps]
        figures = "; ".join(
            f"{', '.join(str(place) for place, one in enumerate(effects, 2) if one == effect)} {effect}"
            for effect in dict.fromkeys(effects)
        )
        if "harms" in effects:
            return f"{figures}: set max_attempts={effects.index('harms') + 1}"
        if "helps" not in effects:
            return f"{figures}: no further attempt is shown to help"
        last = max(place for place, effect in enumerate(effects, 2) if effect == "helps")
        return f"{figures}: max_attempts={last} is what these labels support"

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return the head and the rows of the table by attempt, judge and slice; no rows where it adds nothing."""
        head = ("by", "loops", "mended", "broken", "net, points", "p", "the loop")
        rows: list[tuple[str, ...]] = []
        for part in (*self.steps, *self.parts) if self.is_known else ():
            benefit = part.benefit
            rows.append(
                (
                    part.name,
                    f"{benefit.n:,}",
                    f"{benefit.mended:,} of {benefit.first_bad:,}",
                    f"{benefit.broken:,} of {benefit.first_good:,}",
                    "-" if benefit.net.value is None else _points(benefit.net, unit="", form="+.0f"),
                    "<0.001" if benefit.p < _TINY else f"{benefit.p:.3f}",
                    benefit.effect,
                )
            )
        return head, rows

    def __str__(self) -> str:
        return "\n".join([self.headline, *(f"  {label:<10}{text}" for label, text in self.entries())])


def _describe_gap(gap: statistics.RiseGap) -> str:
    rises = f"sees a rise of {_signed(gap.judge)} points, people one of {_signed(gap.people)}"
    if not gap.is_apart:
        return f"{rises}: not more, {p_text(gap.p)}"
    return f"{rises}: {_signed(gap.gap.value)} is luck or a loop that pleases its judge, {p_text(gap.p)}"


def _share(name: str, figure: Figure) -> str:
    if figure.value is None or figure.low is None or figure.high is None:
        return ""
    return f" ({name} {figure.value:.1%}, {figure.low:.1%} to {figure.high:.1%})"


def _points(figure: Figure, *, unit: str = " points", form: str = "+.1f") -> str:
    value, low, high = (_signed(one, form) for one in (figure.value, figure.low, figure.high))
    return f"{value}{unit}" if figure.low is None else f"{value}{unit} ({low} to {high})"


def _signed(value: float | None, form: str = "+.1f") -> str:
    return "-" if value is None else format(100 * value, form)


def _loops(benefit: statistics.LoopBenefit) -> str:
    questions = "" if benefit.questions == benefit.n else f" of {benefit.questions:,} questions"
    return f"{benefit.n:,} loop{'' if benefit.n == 1 else 's'}{questions}"


def report_benefit(loops: Sequence[LabelledLoop], others: Sequence[LabelledLoop] = ()) -> BenefitReport:
    """Return whether loops help, by people's labels.

    Args:
        loops: The loops, of one policy.
        others: Loops of other judges or policies, for the table by judge alone.
    """
    labelled_loops = [loop for loop in loops if _is_labelled(loop, 0, loop.final)]
    return BenefitReport(
        benefit=_between(labelled_loops, [(0, loop.final) for loop in labelled_loops]),
        loops=len(loops),
        retried=sum(len(loop.ratings) > 1 for loop in loops),
        unlabelled=len(loops) - len(labelled_loops),
        unshown=sum(loop.shown is None for loop in loops),
        steps=_together(_steps(loops)),
        parts=(*_together(_by_judge([*loops, *others])), *_together(_by_slice(labelled_loops))),
        gap=_gap(labelled_loops),
    )


def _is_labelled(loop: LabelledLoop, *places: int) -> bool:
    return all(loop.good[place] is not None for place in places)


def _between(loops: Sequence[LabelledLoop], places: Sequence[tuple[int, int]]) -> statistics.LoopBenefit:
    pairs = [
        (bool(loop.good[before]), bool(loop.good[after]))
        for loop, (before, after) in zip(loops, places, strict=True)
    ]
    return statistics.loop_benefit(
        [before for before, _ in pairs],
        [after for _, after in pairs],
        clusters=[loop.question_id for loop in loops],
    )


def _steps(loops: Sequence[LabelledLoop]) -> Iterator[_BenefitPart]:
    """Yield what each further attempt makes of the answer that a loop had until then."""
    most = max((len(loop.ratings) for loop in loops), default=0)
    for shorter, longer in pairwise(range(1, most + 1)):
        places = [(loop.answer_within(shorter), loop.answer_within(longer)) for loop in loops]
        labelled_steps = [
            (loop, both) for loop, both in zip(loops, places, strict=True) if _is_labelled(loop, *both)
        ]
        benefit = _between([loop for loop, _ in labelled_steps], [both for _, both in labelled_steps])
        yield _BenefitPart(kind="attempt", name=f"attempt {longer}", benefit=benefit)


def _by_judge(loops: Sequence[LabelledLoop]) -> Iterator[_BenefitPart]:
    groups: dict[str, list[LabelledLoop]] = {}
    for loop in loops:
        if _is_labelled(loop, 0, loop.final):
            groups.setdefault(loop.judge, []).append(loop)
    if len(groups) > 1:
        for name, group in groups.items():
            yield _part("judge", name or "unknown", group)


def _by_slice(labelled_loops: Sequence[LabelledLoop]) -> Iterator[_BenefitPart]:
    groups: dict[tuple[str, str], list[LabelledLoop]] = {}
    for loop in labelled_loops:
        for key in loop.slices.items():
            groups.setdefault(key, []).append(loop)
    for (column, value), group in groups.items():
        yield _part("slice", f"{column}={value}", group)


def _part(kind: Literal["judge", "slice"], name: str, group: Sequence[LabelledLoop]) -> _BenefitPart:
    return _BenefitPart(kind=kind, name=name, benefit=_between(group, [(0, loop.final) for loop in group]))


def _together(parts: Iterable[_BenefitPart]) -> tuple[_BenefitPart, ...]:
    """Return parts of one kind with p-values adjusted together."""
    listed = list(parts)
    adjusted = statistics.judged_together([part.benefit for part in listed])
    return tuple(
        _BenefitPart(kind=part.kind, name=part.name, benefit=benefit)
        for part, benefit in zip(listed, adjusted, strict=True)
    )


def _gap(labelled_loops: Sequence[LabelledLoop]) -> statistics.RiseGap | None:
    return statistics.rise_gap(
        [(loop.accepts(0), loop.accepts(loop.final)) for loop in labelled_loops],
        [(bool(loop.good[0]), bool(loop.good[loop.final])) for loop in labelled_loops],
        clusters=[loop.question_id for loop in labelled_loops],
    )


_Z = NormalDist().inv_cdf(0.975)
_UNDER_PATIENCE = (
    "under this patience, a loop that it stopped never passes; the last column lets such a loop pass at its next "
    "attempt"
)


@dataclass(frozen=True, kw_only=True)
class CurvePoint(AttemptPoint):
    """One attempt of the pass-at-attempt curve, with its interval.

    Args:
        low: Lower end of its 95 % interval.
        high: Upper end.
        method: How the interval was made.
        if_patience_passed: The same if every loop that patience stopped had passed at its next attempt; None where
            patience stopped none.
    """

    low: float
    high: float
    method: str
    if_patience_passed: float | None = None


@dataclass(frozen=True, kw_only=True)
class AttemptGain:
    """How the rating changes after a refused attempt.

    Args:
        attempt: The refused attempt; the change is to the next one.
        n: Loops that have a rating of both.
        raw_change: Mean change, which is above 0 without any improvement: regression to the mean.
        regressions: Loops whose rating fell.
        gain: Mean change from an independent second judgement of the refused attempt; None without any.
        gain_low: Lower end of its 95 % interval.
        gain_high: Upper end.
        rejudged: Loops behind `gain`.
    """

    attempt: int
    n: int
    raw_change: float
    regressions: int
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    rejudged: int = 0


@dataclass(frozen=True, kw_only=True)
class BestVersusLast:
    """How the best attempt of a loop compares with its last one.

    Args:
        n: Loops with a rating.
        mean_difference: Mean of the best rating less the last.
        share: Share of the loops whose best rating is above the last.
        best_rating: Mean rating of the best attempts that were judged again, as it was: optimistic, being the
            highest of several.
        rejudged_rating: Their mean rating by the second judgement: the one to quote. None without any.
        rejudged: Loops behind it.
    """

    n: int
    mean_difference: float | None
    share: float | None
    best_rating: float | None = None
    rejudged_rating: float | None = None
    rejudged: int = 0


def curve(loops: Sequence[RecordedLoop], policy: LoopPolicy, *, seed: int) -> tuple[tuple[CurvePoint, ...], str]:
    """Return the pass-at-attempt curve under the policy in force, and how to read it."""
    waited = any(loop.stop_reason == "no_progress" for loop in loops)
    never = [_ratings(loop, policy, then=None) for loop in loops]
    upper = [_ratings(loop, policy, then=policy.threshold) for loop in loops] if waited else []
    uppers = [point.cumulative for point in statistics.pass_at_attempt(upper, policy.threshold)]
    points = statistics.pass_at_attempt(never, policy.threshold)
    intervals = _intervals(points, never, policy.threshold, [loop.question_id for loop in loops], seed)
    curve_points = [
        CurvePoint(
            **vars(point),
            low=low,
            high=high,
            method=method,
            if_patience_passed=uppers[min(point.attempt, len(uppers)) - 1] if uppers else None,
        )
        for point, (low, high, method) in zip(points, intervals, strict=True)
    ]
    return tuple(curve_points), _UNDER_PATIENCE if waited else ""


def _ratings(loop: RecordedLoop, policy: LoopPolicy, *, then: float | None) -> list[float | None]:
    """Return what decided; a loop that patience stopped goes on with `then`, and without a pass."""
    ratings = loop.compared(policy.threshold)
    if loop.stop_reason == "no_progress":
        rest = policy.max_attempts - len(ratings)
        ratings += [then if place == 0 else None for place in range(rest)]
    return ratings


def _intervals(
    points: Sequence[AttemptPoint],
    runs: Sequence[Sequence[float | None]],
    threshold: float,
    questions: Sequence[str],
    seed: int,
) -> list[tuple[float, float, str]]:
    """Return the interval at each attempt: over questions where some were asked twice, or else Greenwood's."""
    judged = [(run, question) for run, question in zip(runs, questions, strict=True) if run]
    if len(set(questions)) == len(questions):
        return [_greenwood(point, len(judged)) for point in points]
    ends = [statistics.replay_run(run, threshold, len(run)) for run, _ in judged]
    intervals = curve_intervals(
        [end.attempts for end in ends],
        [end.end == "pass" for end in ends],
        clusters=[question for _, question in judged],
        seed=seed,
    )
    return [
        (low, high, f"bootstrap over questions, seed {seed}") if low < high else _greenwood(point, len(judged))
        for point, (low, high) in zip(points, intervals, strict=True)
    ]


def _greenwood(point: AttemptPoint, loops: int) -> tuple[float, float, str]:
    """Return Greenwood's interval; Wilson's at the first attempt, a plain share, and where it has no width."""
    if point.attempt > 1 and point.se:
        low, high = point.cumulative - _Z * point.se, point.cumulative + _Z * point.se
        return max(0.0, low), min(1.0, high), "Greenwood"
    n = loops if point.attempt == 1 or point.cumulative > 0 else point.at_risk
    return *statistics.wilson(point.cumulative * n, n), "Wilson"


def gains_of(loops: Sequence[RecordedLoop]) -> tuple[AttemptGain, ...]:
    """Return the change of the rating after each refused attempt; intervals by the standard error CR1."""
    runs = [_until_released(loop) for loop in loops]
    ratings = [[attempt.rating for attempt in run] for run in runs]
    rejudged = [[attempt.rejudged for attempt in run] for run in runs]
    points = []
    for point in statistics.gains(ratings, rejudged):
        place = point.attempt - 1
        changes, questions = [], []
        for loop, run in zip(loops, runs, strict=True):
            after = run[place + 1].rating if len(run) > place + 1 else None
            again = run[place].rejudged if len(run) > place + 1 and run[place].rating is not None else None
            if after is not None and again is not None:
                changes.append(float(after - again))
                questions.append(loop.question_id)
        se = statistics.cluster_se(changes, questions) if changes else None
        half = None if se is None else _Z * se
        points.append(
            AttemptGain(
                attempt=point.attempt,
                n=point.n,
                raw_change=point.mean,
                regressions=point.regressions,
                gain=point.unbiased,
                gain_low=None if half is None or point.unbiased is None else point.unbiased - half,
                gain_high=None if half is None or point.unbiased is None else point.unbiased + half,
                rejudged=point.rejudged,
            )
        )
    return tuple(points)


def best_versus_last(loops: Sequence[RecordedLoop]) -> BestVersusLast:
    """Return what keeping the best attempt in place of the last one is worth."""
    runs = [_until_released(loop) for loop in loops]
    difference, share = statistics.best_and_last([[attempt.rating for attempt in run] for run in runs])
    pairs = [(attempt.rating, attempt.rejudged_as_best) for loop in loops if (attempt := loop.best) is not None]
    again = [(first, second) for first, second in pairs if first is not None and second is not None]
    return BestVersusLast(
        n=difference.n,
        mean_difference=difference.value,
        share=share.value,
        best_rating=fmean(first for first, _ in again) if again else None,
        rejudged_rating=fmean(second for _, second in again) if again else None,
        rejudged=len(again),
    )


def _until_released(loop: RecordedLoop) -> list[LoopAttempt]:
    return [attempt for attempt in loop.attempts if not attempt.shadow]
