"""Comparing two systems over a dataset: how often one wins, and how biased the judge is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, overload

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from judges.catalogue.general.pairwise import CHOICES, Pairwise
from judges.catalogue.names import one_judge
from judges.errors import BadSample, ConfigurationError, shortened
from judges.judge import Judge
from judges.offline.dataset.reading import RowInput
from judges.offline.results import Evaluation, Row
from judges.offline.run.evaluate import aevaluate, evaluate
from judges.offline.statistics.intervals import spearman, wilson
from judges.runtime.validation import are_texts, naming_settings
from judges.sample import Sample, canonical_field
from judges.verdict import Usage, Verdict

if TYPE_CHECKING:
    from judges.offline.run_comparison import RunComparison

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


@naming_settings("compare(rows, judge), each row with a 'rival', or compare(evaluation, evaluation)")
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
        from judges.offline.run_comparison import compare_runs  # noqa: PLC0415 - needs numpy and scipy

        return compare_runs(rows, judge, names=names)
    if isinstance(rows, str | Path) and isinstance(judge, str | Path):
        raise ConfigurationError(
            "compare takes rows and a judge of pairs, or two evaluations; of finished runs it is "
            "judges.offline.compare_runs('runs/a', 'runs/b')"
        )
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
