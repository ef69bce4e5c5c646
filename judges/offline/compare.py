"""Comparing two systems over a dataset: how often one wins, and how biased the judge is."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO, overload

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from judges.catalogue.general.pairwise import CHOICES, Pairwise
from judges.catalogue.names import one_judge
from judges.errors import BadSample, ConfigurationError, shortened
from judges.judge import Judge
from judges.offline.dataset.reading import RowInput
from judges.offline.results import Evaluation, Row
from judges.offline.run.evaluate import aevaluate, evaluate
from judges.offline.statistics import (
    Figure,
    LengthAdjusted,
    bootstrap,
    holm,
    length_adjusted,
    mcnemar,
    n_pairs,
    sign_flip,
    win_rate,
)
from judges.offline.statistics.intervals import spearman, wilson
from judges.runtime.validation import are_texts
from judges.sample import Sample, canonical_field
from judges.verdict import Usage, Verdict

_POINTS = {"win": 1.0, "tie": 0.5, "loss": 0.0}


class Comparison(BaseModel):
    """How the answers of one system, `a`, compare with those of another, `b`; `str()` gives a readable report.

    Args:
        a: Name of the one system.
        b: Name of the other.
        n: Pairs with a verdict; all the figures but `unscored` and `usage` are over these.
        wins: Pairs that `a` won, in both orders.
        ties: Pairs that nobody won: a tie in both orders, or orders that disagree.
        losses: Pairs that `b` won, in both orders.
        unscored: How many pairs have no verdict, by reason.
        win_rate: (wins + ties / 2) / n, 0 to 1; None without pairs.
        interval: The 95 % interval of the win rate by Wilson's score method (JASA 22, 1927) with a tie as half a
            win. A tie varies less than a coin toss, so with ties the interval is too wide rather than too narrow.
        flip_rate: Share of the double judgements whose two orders disagree, 0 to 1: near 0 for a reliable
            judge.
        position_bias: Share of the single judgements that preferred the answer shown first, a tie counting half,
            less 1/2: 0.5 for a judge that always takes the first, -0.5 for the second. Every answer is shown in
            both places, so it is 0 for a judge that looks at the answers alone. `first_lean` is its
            older name.
        length_correlation: Spearman's rank correlation, -1 to 1, between how much longer (in characters) the
            answer of `a` is and its result; None for fewer than 3 pairs, or where one of the two never varies.
            A high value does not prove a bias: longer answers may be better.
        usage: Usage of the judge in total.
        rows: The judged pairs; empty if they were not kept.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True)

    a: str
    b: str
    n: int = Field(ge=0)
    wins: int = Field(ge=0)
    ties: int = Field(ge=0)
    losses: int = Field(ge=0)
    unscored: Mapping[str, int] = Field(default_factory=dict)
    win_rate: float | None = None
    interval: tuple[float, float] | None = None
    flip_rate: float | None = None
    position_bias: float | None = Field(default=None, validation_alias=AliasChoices("position_bias", "first_lean"))
    length_correlation: float | None = None
    usage: Usage = Usage()
    rows: tuple[Row, ...] = ()

    @property
    def first_lean(self) -> float | None:
        """The older name of `position_bias`."""
        return self.position_bias

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        counts = f"{self.wins} wins, {self.ties} ties, {self.losses} losses"
        yield f"{self.a} against {self.b}: {counts} in {self.n} pairs"
        if self.win_rate is not None and self.interval is not None:
            low, high = self.interval
            yield f"  win rate            {self.win_rate:.3f} (95 %: {low:.3f} to {high:.3f})"
        figures = {
            "flip rate": _formatted(self.flip_rate, ".3f"),
            "position bias": _formatted(self.position_bias, "+.3f"),
            "length correlation": _formatted(self.length_correlation, "+.3f"),
            "unscored": ", ".join(f"{reason} {times}" for reason, times in self.unscored.items()),
        }
        yield from (f"  {name:<19} {figure}" for name, figure in figures.items() if figure)


@overload
def compare(rows: Evaluation, judge: Evaluation, *, names: tuple[str, str] | None = None) -> RunComparison: ...


@overload
def compare(
    rows: Iterable[RowInput],
    judge: Judge | str,
    *,
    a: str = "response",
    b: str = "rival",
    names: tuple[str, str] | None = None,
    max_concurrency: int = 8,
    out: str | Path | TextIO | None = None,
    on_result: Callable[[Row], object] | None = None,
    keep_rows: bool = True,
    model: object = None,
) -> Comparison: ...


def compare(
    rows: Iterable[RowInput] | Evaluation,
    judge: Judge | str | Evaluation,
    *,
    a: str = "response",
    b: str = "rival",
    names: tuple[str, str] | None = None,
    max_concurrency: int = 8,
    out: str | Path | TextIO | None = None,
    on_result: Callable[[Row], object] | None = None,
    keep_rows: bool = True,
    model: object = None,
) -> Comparison | RunComparison:
    """Compare two answers in every row of a dataset, in threads; otherwise as `evaluate`.

    With two evaluations instead of rows and a judge, compare their scores as `compare_runs` does.

    A row is unscored if its judgement fails in one order, or if it lacks an answer.

    Args:
        rows: Samples, or mappings that are read as samples; for the answers of two runs, see
            `judges.offline.paired`.
        judge: A `Pairwise`, or a `Repeat` or `Cascade` of one, or the name of such a judge, `"pairwise"`.
        a: The column of the one system's answers.
        b: The column of the other's.
        names: What the two systems are called; None takes the names of the columns.
        max_concurrency: How many rows are judged at once, at least 1.
        out: A path, which is overwritten, or an open text file; each row becomes one line of JSON there.
        on_result: Called with each `Row` once it has been written, in order and never twice at a time.
        keep_rows: Whether the comparison holds the rows.
        model: The model of a judge that is given by its name.

    Raises:
        ConfigurationError: If the judge, its model or an argument is set up wrongly.
    """
    if isinstance(rows, Evaluation) and isinstance(judge, Evaluation):
        return compare_runs(rows, judge, names=names or ("A", "B"))
    counter = _PairCounter(rows, _loaded(judge, model), (a, b), names, on_result)
    evaluation = evaluate(
        map(counter.pair, rows),  # type: ignore[arg-type]  # the counter refuses an Evaluation
        {counter.name: counter.judge},
        max_concurrency=max_concurrency,
        out=out,
        on_result=counter.count,
        keep_rows=keep_rows,
    )
    return counter.comparison(evaluation)


async def acompare(
    rows: Iterable[RowInput] | AsyncIterable[RowInput],
    judge: Judge | str,
    *,
    a: str = "response",
    b: str = "rival",
    names: tuple[str, str] | None = None,
    max_concurrency: int = 8,
    out: str | Path | TextIO | None = None,
    on_result: Callable[[Row], object] | None = None,
    keep_rows: bool = True,
    model: object = None,
) -> Comparison:
    """Compare two answers in every row of a dataset, in tasks; otherwise as `compare`.

    `rows` may be an async iterable.
    """
    counter = _PairCounter(rows, _loaded(judge, model), (a, b), names, on_result)
    evaluation = await aevaluate(
        _each(rows, counter.pair) if isinstance(rows, AsyncIterable) else map(counter.pair, rows),
        {counter.name: counter.judge},
        max_concurrency=max_concurrency,
        out=out,
        on_result=counter.count,
        keep_rows=keep_rows,
    )
    return counter.comparison(evaluation)


def _loaded(judge: object, model: object) -> object:
    """Return a judge that was given by its name; anything else as it is."""
    if not isinstance(judge, str):
        return judge
    return one_judge(judge, model=model, remedy=f"give model=..., or Pairwise(model) in the place of {judge!r}")


class _PairCounter:
    """Reads rows as pairs, and counts the verdicts on them, one at a time; `name` is the judge's name."""

    def __init__(
        self,
        rows: object,
        judge: object,
        columns: tuple[str, str],
        names: tuple[str, str] | None,
        on_result: Callable[[Row], object] | None,
    ) -> None:
        if isinstance(rows, Evaluation):
            raise ConfigurationError("rows are several samples, not an Evaluation; give paired(one, other)")
        if isinstance(rows, str | Path | Sample | Mapping):
            raise ConfigurationError(f"rows are several samples or mappings, not a {type(rows).__name__}")
        if not isinstance(judge, Judge):
            raise ConfigurationError(f"two answers are compared by a Pairwise, not by {shortened(judge)}")
        if isinstance(judge, Pairwise) and judge.against != "rival":
            raise ConfigurationError(
                f"compare finds both answers itself: give b={shortened(judge.against)}, and a Pairwise "
                f"without against=..."
            )
        self._columns, self._names = columns, names or columns
        for setting, pair in {"a and b name columns": columns, "names names two systems": self._names}.items():
            if not are_texts(pair, count=2):
                raise ConfigurationError(f"{setting}, two texts; not {shortened(pair)}")
        for first, second in (self._columns, self._names):
            if first == second:
                raise ConfigurationError(f"two columns and two names must differ; both are {shortened(first)}")
        self.judge, self.name, self._on_result = judge, judge.name, on_result
        self._points: list[float] = []
        self._length_gaps: list[int] = []
        self._unscored: Counter[str] = Counter()
        self._orders = self._flips = self._first_surplus = 0

    def pair(self, row: RowInput) -> RowInput:
        """Return the row as a sample whose answer and rival are the texts of the two columns."""
        if isinstance(row, BadSample):
            return row
        try:
            sample = Sample.read(row)
            answer, rival = (_text(sample, column) for column in self._columns)
        except BadSample as error:
            return error
        changed: dict[str, object] = {"response": answer, "metadata": {**sample.metadata, "rival": rival}}
        if "reference" in map(canonical_field, self._columns):
            changed["reference"] = None
        return sample.model_copy(update=changed)

    def count(self, row: Row) -> None:
        """Count a judged row, and pass it on to `on_result`."""
        verdict = row.verdicts[self.name]
        if verdict.score is None or row.sample is None:
            self._unscored[str(verdict.unscored)] += 1
        else:
            self._points.append(self._points_for(verdict))
            self._length_gaps.append(len(row.sample.answer or "") - len(str(row.sample.metadata["rival"])))
            self._count_orders(verdict)
        if self._on_result is not None:
            self._on_result(row)

    def _points_for(self, verdict: Verdict) -> float:
        points = _POINTS.get(verdict.value) if isinstance(verdict.value, str) else None
        if points is None:
            raise ConfigurationError(
                f"{self.name!r} gives {shortened(verdict.value)}, not win, tie or loss; compare by a Pairwise, "
                f"or by a Repeat or Cascade of one"
            )
        return points

    def _count_orders(self, verdict: Verdict) -> None:
        """Count the two orders of a pairwise verdict, or of the verdicts it was made from."""
        items = verdict.items
        choices = [item.value for item in items]
        if len(choices) == 2 and set(choices) <= set(CHOICES):  # noqa: PLR2004 - two orders
            self._orders += 1
            self._flips += items[0].score != items[1].score
            self._first_surplus += choices.count("first") - choices.count("second")
        else:
            for item in items:
                self._count_orders(item)

    def comparison(self, evaluation: Evaluation) -> Comparison:
        """Return the comparison of the pairs counted."""
        n, points = len(self._points), math.fsum(self._points)
        wins, losses = self._points.count(1.0), self._points.count(0.0)
        return Comparison(
            a=self._names[0],
            b=self._names[1],
            n=n,
            wins=wins,
            ties=n - wins - losses,
            losses=losses,
            unscored=dict(sorted(self._unscored.items())),
            win_rate=points / n if n else None,
            interval=wilson(points, n) if n else None,
            flip_rate=self._flips / self._orders if self._orders else None,
            position_bias=self._first_surplus / (4 * self._orders) if self._orders else None,
            length_correlation=spearman(self._length_gaps, self._points),
            usage=evaluation.summary[self.name].usage,
            rows=evaluation.rows,
        )


async def _each(rows: AsyncIterable[RowInput], read: Callable[[RowInput], RowInput]) -> AsyncIterator[RowInput]:
    async for row in rows:
        yield read(row)


def _text(sample: Sample, column: str) -> str:
    """Return the text of a column: from the metadata, which holds unknown columns, or from the field it names."""
    text = sample.metadata.get(column)
    field = canonical_field(column)
    if text is None and field is not None:
        text = sample.answer if field == "response" else getattr(sample, field)
    if not isinstance(text, str):
        raise BadSample(f"there is no text in the column {shortened(column)}")
    return text


def _formatted(figure: float | None, form: str) -> str:
    return "" if figure is None else format(figure, form)


def pair_rows(before: Iterable[Row], after: Iterable[Row]) -> list[tuple[Row, Row]]:
    """Return the rows of two runs that ask the same, in the order of the first.

    A row is paired with the one at the same place if that asks the same, else with the next one that does and has
    no partner yet, so that runs over other parts or another order of a dataset are compared, too. Rows without a
    question have their place alone.

    Args:
        before: Rows of the one run.
        after: Rows of the other.
    """
    first, second = ({row.index: row for row in rows} for rows in (before, after))
    in_place = {i for i, row in first.items() if i in second and question_of(row) == question_of(second[i])}
    moved: defaultdict[Hashable, deque[Row]] = defaultdict(deque)
    for i, row in second.items():
        if i not in in_place and question_of(row):
            moved[question_of(row)].append(row)
    pairs = []
    for i, row in first.items():
        if i in in_place:
            pairs.append((row, second[i]))
        elif moved.get(question_of(row)):
            pairs.append((row, moved[question_of(row)].popleft()))
    return pairs


def question_of(row: Row) -> tuple[str, ...]:
    """Return what the user said in a row."""
    if row.sample is None:
        return ()
    return tuple(message.content for message in row.sample.conversation if message.role == "user")


_LEVEL = 0.05
_PLANNED = 0.03
"""The change of a score or a pass rate that a plan is made for: 3 points of 100."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """How the score of one judge changed from run A to run B.

    Args:
        judge: The judge.
        mean_a: Mean score in run A, over the rows that both runs scored.
        mean_b: Mean score in run B, over the same rows.
        difference: B less A, with the BCa bootstrap interval over questions.
        p: Two-sided p-value of "nothing changed": McNemar's exact test where all scores are 0 or 1 and no question
            has several rows, else by sign flips of questions. None without rows.
        adjusted_p: The same after Holm's method over all judges compared.
        test: Which test it is.
        wins: Rows that B won, that is scored higher.
        ties: Rows with equal scores.
        losses: Rows that B lost.
        win_rate: Share of the rows that B won, a tie counting half, with its 95 % interval over questions.
        regressions: Indexes, in run B, of the rows that B lost, the largest fall first.
        excluded: Rows that only one of the two runs scored.
        length_adjusted: How often B would win if both wrote answers of the same length; see
            `judges.offline.statistics.length_adjusted`.
        questions_needed: Questions that would show a change of 3 points in 80 of 100 cases; None where the scores
            never differ.
    """

    judge: str
    mean_a: float | None
    mean_b: float | None
    difference: Figure
    p: float | None
    adjusted_p: float | None = None
    test: str
    wins: int
    ties: int
    losses: int
    win_rate: Figure
    regressions: tuple[int, ...]
    excluded: int
    length_adjusted: LengthAdjusted
    questions_needed: int | None

    @property
    def is_real(self) -> bool:
        """Whether the change is significant at 5 % over all judges compared."""
        return self.adjusted_p is not None and self.adjusted_p <= _LEVEL


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """How run B compares with run A, judge by judge; `str()` gives a readable report.

    Args:
        a: Name of the one run.
        b: Name of the other.
        changes: The change by judge, of the judges that both runs have.
        only_a: Judges of run A alone.
        only_b: Judges of run B alone.
        unmatched: Rows whose question the other run does not have.
    """

    a: str
    b: str
    changes: Mapping[str, Change]
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    unmatched: int = 0
    seed: int = field(default=0)

    def __getitem__(self, judge: str) -> Change:
        return self.changes[judge]

    def __str__(self) -> str:
        lines = [f"{self.b} against {self.a}"]
        for change in self.changes.values():
            lines += [_line(change), *_second_line(change)]
        if len(self.changes) > 1:
            lines.append(f"p-values by Holm over {len(self.changes)} judges")
        for name, judges in ((self.a, self.only_a), (self.b, self.only_b)):
            if judges:
                lines.append(f"not compared, {name} alone has them: {', '.join(judges)}")
        if self.unmatched:
            lines.append(f"{self.unmatched} rows have a question that the other run does not have")
        return "\n".join(lines)


def _line(change: Change) -> str:
    figure = change.difference
    if figure.value is None or change.adjusted_p is None:
        return f"  {change.judge}: no row is scored in both runs"
    interval = "" if figure.low is None else f" (95 %: {figure.low:+.3f} to {figure.high:+.3f})"
    verdict = "" if change.is_real else ", may be chance"
    counts = f"{change.wins} up, {change.losses} down, {change.ties} equal"
    counts += f", {change.excluded} scored in one run alone" if change.excluded else ""
    return (
        f"  {change.judge}: {change.mean_a:.3f} to {change.mean_b:.3f}, {figure.value:+.3f}{interval}, "
        f"p = {change.adjusted_p:.3f}{verdict}; {counts}"
    )


def _second_line(change: Change) -> list[str]:
    rate = change.win_rate
    if rate.value is None:
        return []
    interval = "" if rate.low is None or rate.high is None else f" (95 %: {rate.low:.3f} to {rate.high:.3f})"
    same_length = change.length_adjusted.value
    adjusted = "" if same_length is None else f", {same_length:.3f} at equal length"
    needed = "" if change.questions_needed is None else f"; {change.questions_needed:,} questions show 3 points"
    return [f"    win rate {rate.value:.3f}{interval}{adjusted}{needed}"]


def compare_runs(
    a: Evaluation, b: Evaluation, *, names: tuple[str, str] = ("A", "B"), resamples: int = 2000, seed: int = 0
) -> RunComparison:
    """Compare two evaluations of the same questions, row by row.

    Rows are paired that ask the same, those at the same place first, so that both runs are over the same dataset,
    or parts of it, with other answers, or with the same answers and other judges of the same name.

    Args:
        a: The one evaluation, with its rows.
        b: The other.
        names: What the two are called.
        resamples: Resamples of the bootstrap.
        seed: Seed of resamples and sign flips.

    Raises:
        ConfigurationError: If rows were not kept, or the two have no question or no judge in common.
    """
    pairs = paired_rows(a, b)
    judges = [name for name in a.summary if name in b.summary]
    if not judges:
        raise ConfigurationError(
            f"the two runs have no judge in common: {sorted(a.summary)} and {sorted(b.summary)}"
        )
    changes = [_change(name, pairs, resamples, seed) for name in judges]
    tested = [change.judge for change in changes if change.p is not None]
    adjusted = dict(zip(tested, holm([change.p for change in changes if change.p is not None]), strict=True))
    return RunComparison(
        a=names[0],
        b=names[1],
        changes={
            change.judge: Change(**{**vars(change), "adjusted_p": adjusted.get(change.judge)})
            for change in changes
        },
        only_a=tuple(name for name in a.summary if name not in b.summary),
        only_b=tuple(name for name in b.summary if name not in a.summary),
        unmatched=len(a.rows) + len(b.rows) - 2 * len(pairs),
        seed=seed,
    )


def paired_rows(a: Evaluation, b: Evaluation) -> list[tuple[Row, Row]]:
    """Return the rows of two evaluations that ask the same; see `pair_rows`.

    Raises:
        ConfigurationError: If rows were not kept, or there are none.
    """
    pairs = pair_rows(a.kept_rows(), b.kept_rows())
    if not pairs:
        raise ConfigurationError("the two runs have no question in common; compare runs over the same dataset")
    return pairs


def _change(judge: str, pairs: Sequence[tuple[Row, Row]], resamples: int, seed: int) -> Change:
    scored = [
        (one, other) for one, other in pairs if _score(one, judge) is not None and _score(other, judge) is not None
    ]
    excluded = sum((_score(one, judge) is None) != (_score(other, judge) is None) for one, other in pairs)
    firsts = [_score(one, judge) or 0.0 for one, _ in scored]
    seconds = [_score(other, judge) or 0.0 for _, other in scored]
    differences = [after - before for before, after in zip(firsts, seconds, strict=True)]
    clusters = [_question_id(one) for one, _ in scored]
    p, test = _test(firsts, seconds, differences, clusters, seed)
    falls = sorted((gap, other.index) for gap, (_, other) in zip(differences, scored, strict=True) if gap < 0)
    return Change(
        judge=judge,
        mean_a=sum(firsts) / len(firsts) if firsts else None,
        mean_b=sum(seconds) / len(seconds) if seconds else None,
        difference=bootstrap(differences, clusters=clusters, resamples=resamples, seed=seed),
        p=p,
        test=test,
        wins=sum(gap > 0 for gap in differences),
        ties=sum(gap == 0 for gap in differences),
        losses=len(falls),
        win_rate=_win_rate(differences, clusters, seed),
        regressions=tuple(index for _, index in falls),
        excluded=excluded,
        length_adjusted=length_adjusted(
            [_points(gap) for gap in differences],
            [_length(one) for one, _ in scored],
            [_length(other) for _, other in scored],
            clusters=clusters,
            resamples=min(resamples, 500),
            seed=seed,
        ),
        questions_needed=_needed(differences),
    )


def _win_rate(differences: Sequence[float], clusters: Sequence[Hashable], seed: int) -> Figure:
    points = [(_points(gap), None) for gap in differences]
    rate = win_rate(points, clusters=clusters, seed=seed)
    method = "share of rows that score higher, a tie counting half, normal interval over questions"
    return Figure(value=rate.value, n=rate.n, low=rate.low, high=rate.high, method=method, reason=rate.reason)


def _points(gap: float) -> float:
    return (gap > 0) + (gap == 0) / 2


def _test(
    firsts: Sequence[float],
    seconds: Sequence[float],
    differences: Sequence[float],
    clusters: Sequence[Hashable],
    seed: int,
) -> tuple[float | None, str]:
    binary = {*firsts, *seconds} <= {0.0, 1.0}
    if binary and firsts and len(set(clusters)) == len(clusters):
        return mcnemar([int(score) for score in firsts], [int(score) for score in seconds]), "McNemar, exact"
    return sign_flip(differences, clusters=clusters, seed=seed), f"sign flips by question, seed {seed}"


def _needed(differences: Sequence[float]) -> int | None:
    """Return the questions that show a change of 3 points, given how much the scores differ here."""
    n = len(differences)
    if n < 2 or not any(differences):  # noqa: PLR2004 - one difference has no spread
        return None
    mean = sum(differences) / n
    sd = (sum((gap - mean) ** 2 for gap in differences) / (n - 1)) ** 0.5
    return None if sd == 0 else round(n_pairs(_PLANNED, sd=sd) + 0.5)


def _score(row: Row, judge: str) -> float | None:
    return row.verdicts[judge].score if judge in row.verdicts else None


def _length(row: Row) -> int:
    return len(row.sample.answer or "") if row.sample is not None else 0


def _question_id(row: Row) -> Hashable:
    """Return the question a row belongs to: its `question_id`, or its question, or else itself."""
    number = None if row.sample is None else row.sample.metadata.get("question_id")
    return question_of(row) or row.index if number is None else str(number)
