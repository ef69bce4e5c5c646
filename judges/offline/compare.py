"""Systems side by side over a dataset: how often one wins, how biased the judge is, and their ranking."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import TYPE_CHECKING, Any, TextIO, overload

from pydantic import AliasChoices, BaseModel, Field

from judges.catalogue.general.pairwise import CHOICES, Pairwise, Winner
from judges.catalogue.names import one_judge
from judges.errors import BadSample, ConfigurationError, shortened
from judges.judge import Judge
from judges.offline.dataset.reading import RowInput
from judges.offline.results import Evaluation, Row, question_key, question_means
from judges.offline.run.evaluate import aevaluate, evaluate
from judges.offline.run.source import each
from judges.offline.statistics.intervals import bounded_interval, spearman
from judges.runtime.validation import are_texts, naming_settings, whole_number
from judges.sample import Sample, canonical_field
from judges.verdict import Usage, Verdict

if TYPE_CHECKING:
    from judges.offline.run_comparison import RunComparison

_POINTS = {"win": 1.0, "tie": 0.5, "loss": 0.0}


class Comparison(BaseModel, frozen=True, extra="forbid", validate_by_name=True):
    """How the answers of one system, `a`, compare with those of another, `b`; `str()` gives a readable report.

    Args:
        a: Name of the one system.
        b: Name of the other.
        n: Pairs with a verdict; all the figures but `unscored` and `usage` are over these.
        wins: Pairs that `a` won, in both orders.
        ties: Pairs that nobody won: a tie in both orders, or orders that disagree.
        losses: Pairs that `b` won, in both orders.
        unscored: How many pairs have no verdict, by reason.
        win_rate: Share of pairs won, a tie counting half; the pairs of a question count as one. None without any.
        interval: Its 95 % interval, over questions.
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
        (counter.pair(row) async for row in each(rows)),
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
            raise ConfigurationError(
                f"rows are several samples or mappings, not a {type(rows).__name__}; a file's are read_rows(path)"
            )
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
        self._points, self._questions = list[float](), list[int]()
        self._length_gaps: list[int] = []
        self._unscored: Counter[str] = Counter()
        self._orders = self._flips = self._first_surplus = 0

    def pair(self, row: RowInput) -> RowInput:
        """Return the row as a sample whose answer and rival are the texts of the two columns."""
        if isinstance(row, BadSample):
            return row
        try:
            named, readable = self._named_answers(row)
            sample = Sample.read(readable)
            answer, rival = (named.get(column) or _text(sample, column) for column in self._columns)
        except BadSample as error:
            return error
        changed: dict[str, object] = {"response": answer, "metadata": {**sample.metadata, "rival": rival}}
        if "reference" in map(canonical_field, self._columns):
            changed["reference"] = None
        return sample.model_copy(update=changed)

    def _named_answers(self, row: Sample | Mapping[str, object]) -> tuple[dict[str, str], object]:
        """Return the answers in columns named for it that are others' names of one field, and the row to read."""
        answers = [name for name in self._columns if canonical_field(name) == "response"]
        if not isinstance(row, Mapping):
            return {}, row
        named = {name: text for name in answers if isinstance(text := row.get(name), str)}
        if answers and not named:
            return {}, row
        kept = next(iter(named), None)
        columns = [name for name in row if name == kept or canonical_field(name) != "response"]
        return named, {name: row[name] for name in columns}

    def count(self, row: Row) -> None:
        """Count a judged row, and pass it on to `on_result`."""
        verdict = row.verdicts[self.name]
        if verdict.score is None or row.sample is None:
            self._unscored[str(verdict.unscored)] += 1
        else:
            self._points.append(self._points_for(verdict))
            self._questions.append(question_key(row.sample, row.index))
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
        n, means = len(self._points), question_means(self._points, self._questions)
        wins, losses = self._points.count(1.0), self._points.count(0.0)
        return Comparison(
            a=self._names[0],
            b=self._names[1],
            n=n,
            wins=wins,
            ties=n - wins - losses,
            losses=losses,
            unscored=dict(sorted(self._unscored.items())),
            win_rate=math.fsum(means) / len(means) if means else None,
            interval=bounded_interval(means) if means else None,
            flip_rate=self._flips / self._orders if self._orders else None,
            position_bias=self._first_surplus / (4 * self._orders) if self._orders else None,
            length_correlation=spearman(self._length_gaps, self._points),
            usage=evaluation.summary[self.name].usage,
            rows=evaluation.rows,
        )


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


Game = tuple[str, str, Winner]
"""Two systems, and which of them won: `"a"` the first, `"b"` the second, or `"tie"`."""

_SCALE = 400 / math.log(10)
_CENTRE = 1000
_CLOSE = 1e-6
"""Relative change at which resampled strengths count as converged, far below what an interval shows."""


class RankedSystem(BaseModel, frozen=True, extra="forbid"):
    """A system's rating among those it was compared with.

    Args:
        name: Name of the system.
        rating: Its strength; the mean over all systems is 1000, and 400 more means ten times the odds of winning.
        interval: 95 % interval of the rating.
        games: Number of games it played.
        win_rate: (wins + ties / 2) / games, 0 to 1.
    """

    name: str
    rating: float
    interval: tuple[float, float]
    games: int = Field(ge=1)
    win_rate: float = Field(ge=0, le=1)


class SystemRanking(BaseModel, frozen=True, extra="forbid"):
    """Systems by strength; `str()` gives a readable table.

    Args:
        systems: The systems, strongest first, equals by name.
        games: Number of games counted.
    """

    systems: tuple[RankedSystem, ...]
    games: int

    def __str__(self) -> str:
        width = max(len("system"), *(len(system.name) for system in self.systems))
        return "\n".join(self._lines(width))

    def _lines(self, width: int) -> Iterator[str]:
        yield f"{'system':<{width}}  rating  {'95 %':^14}  games  win rate"
        for system in self.systems:
            low, high = system.interval
            interval = f"{low:>5.0f} to {high:>5.0f}"
            rating = f"{system.rating:>6.0f}"
            yield f"{system.name:<{width}}  {rating}  {interval}  {system.games:>5}  {system.win_rate:>8.3f}"


def rank(
    outcomes: Iterable[Game | Comparison], *, bootstrap: int = 1000, seed: int = 0, prior: float = 0.5
) -> SystemRanking:
    """Rank systems by the games between them, by the model of Bradley and Terry (Biometrika 39, 1952).

    A system of strength p beats one of strength q with probability p / (p + q); a tie counts as half a win for
    each. The strengths are those of highest likelihood.
    Rating = 1000 + 400 * log10(strength), with the geometric mean of the strengths at 1, so of two systems rated
    d apart, the better wins 1 / (1 + 10 ** (-d / 400)) of the games, ties shared.

    The intervals are percentiles over resampled games, each assumed independent of the others. They show how
    certain the order is for these systems and questions, and nothing about the judge's bias. If all games end
    alike, so do all resampled ones: an interval of zero width calls for more questions.

    Args:
        outcomes: Games as `(system, system, winner)`, or comparisons from `compare`, with the names set there.
        bootstrap: How often the games are resampled for the intervals, at least 2.
        seed: Seed of the resampling; neither the order of the games nor that of the two systems in a game matters.
        prior: Tied games added between every two systems that met, above 0: without them, a system that always
            wins would have no finite strength.

    Raises:
        ConfigurationError: If there is no game, a system plays itself, systems are not linked by any chain of
            games, or a setting is out of its range.
    """
    whole_number(bootstrap, setting="bootstrap", least=2)
    if type(prior) not in (int, float) or not 0 < prior < math.inf:
        raise ConfigurationError(f"prior is a number of tied games, above 0, not {shortened(prior)}")
    table = _PointsTable.of(outcomes)
    table.check_linked()
    best = table.strengths(table.counts, prior)
    draws = _resample(table.counts, bootstrap, Random(seed))  # noqa: S311 - statistics, no secret
    ratings = [_ratings(table.strengths(counts, prior, start=best, exact=_CLOSE)) for counts in draws]
    systems = [
        _system(table, place, rating, [draw[place] for draw in ratings])
        for place, rating in enumerate(_ratings(best))
    ]
    ordered = sorted(systems, key=lambda system: (-system.rating, system.name))
    return SystemRanking(systems=tuple(ordered), games=sum(table.counts))


@dataclass(frozen=True)
class _PointsTable:
    """Game results by pair of systems, in any order of the games.

    Args:
        names: The systems, sorted.
        pairs: The pairs that met, as positions in `names`, the lower one first; sorted.
        counts: For each pair the games won by its first, tied, and won by its second, in one row.
    """

    names: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, outcomes: Iterable[Game | Comparison]) -> _PointsTable:
        """Count the games."""
        cells: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
        for outcome in outcomes:
            a, b, results = _results(outcome)
            cell = cells[min(a, b), max(a, b)]
            for place, times in enumerate(results if a < b else reversed(results)):
                cell[place] += times
        played = {pair: cell for pair, cell in sorted(cells.items()) if any(cell)}
        if not played:
            raise ConfigurationError("there is no game to rank by")
        names = tuple(sorted({*chain.from_iterable(played)}))
        places = {name: place for place, name in enumerate(names)}
        return cls(
            names, tuple((places[a], places[b]) for a, b in played), tuple(chain.from_iterable(played.values()))
        )

    def check_linked(self) -> None:
        """Refuse systems that no chain of games links, since they cannot be compared."""
        group = list(range(len(self.names)))
        for i, j in self.pairs:
            old, new = group[j], group[i]
            group = [new if label == old else label for label in group]
        apart = next((place for place, label in enumerate(group) if label != group[0]), None)
        if apart is not None:
            raise ConfigurationError(
                f"no chain of games links {self.names[0]!r} with {self.names[apart]!r}; rank them apart, or let "
                f"them meet"
            )

    def points(self, counts: Sequence[int], prior: float) -> Iterator[_Points]:
        """Yield the points of each pair: wins, half the ties, half the prior."""
        for place, (i, j) in enumerate(self.pairs):
            won, tied, lost = counts[3 * place : 3 * place + 3]
            shared = (tied + prior) / 2
            yield i, j, won + shared, lost + shared

    def strengths(self, counts: Sequence[int], prior: float, **settings: Any) -> list[float]:
        """Return the strengths of highest likelihood for these games."""
        return _strengths(len(self.names), self.points(counts, prior), **settings)


def _results(outcome: Game | Comparison) -> tuple[str, str, tuple[int, int, int]]:
    """Return two systems, and the games won, tied and lost by the first, of a game or a comparison."""
    if isinstance(outcome, Comparison):
        return outcome.a, outcome.b, (outcome.wins, outcome.ties, outcome.losses)
    if not _names_two_systems(outcome):
        raise ConfigurationError(
            f"a game is a tuple (system, system, 'a' or 'b' or 'tie'), or a Comparison; not {shortened(outcome)}"
        )
    a, b, winner = outcome
    if winner not in ("a", "b", "tie"):
        raise ConfigurationError(f"a game is won by 'a' or 'b', or is a 'tie'; not {shortened(winner)}")
    if a == b:
        raise ConfigurationError(f"{shortened(a)} plays against itself")
    return a, b, (int(winner == "a"), int(winner == "tie"), int(winner == "b"))


def _names_two_systems(outcome: object) -> bool:
    """Return whether an outcome is the names of two systems, and a third thing."""
    return isinstance(outcome, list | tuple) and len(outcome) == 3 and are_texts(outcome[:2], count=2)  # noqa: PLR2004


def _system(table: _PointsTable, place: int, rating: float, others: Sequence[float]) -> RankedSystem:
    points = [
        (mine, theirs) if i == place else (theirs, mine)
        for i, j, mine, theirs in table.points(table.counts, 0)
        if place in (i, j)
    ]
    games = round(math.fsum(chain.from_iterable(points)))
    cuts = quantiles(others, n=40, method="inclusive")
    return RankedSystem(
        name=table.names[place],
        rating=rating,
        interval=(cuts[0], cuts[-1]),
        games=games,
        win_rate=math.fsum(mine for mine, _ in points) / games,
    )


def _ratings(values: Iterable[float]) -> list[float]:
    return [_CENTRE + _SCALE * math.log(strength) for strength in values]


_Points = tuple[int, int, float, float]
"""Two systems by their numbers, and the points each won against the other."""

_MOST_ROUNDS = 100_000


def _strengths(
    systems: int, points: Iterable[_Points], *, start: Sequence[float] | None = None, exact: float = 1e-12
) -> list[float]:
    """Return the strengths of highest likelihood for these points, scaled to a geometric mean of 1.

    They exist if every system has points against every other, if only through a chain of other systems
    (Hunter, "MM algorithms for generalized Bradley-Terry models", Annals of Statistics 32, 2004). The step, which
    needs far fewer rounds than Hunter's, is that of Newman, "Efficient computation of rankings from pairwise
    comparisons" (arXiv 2207.00076).

    Args:
        systems: Number of systems; they are numbered from 0.
        points: The points of every pair that met, each pair once.
        start: Strengths to start from; None starts from equal ones.
        exact: Largest relative change in a round at which the strengths count as converged.
    """
    opponents: list[list[tuple[int, float, float]]] = [[] for _ in range(systems)]
    for i, j, mine, theirs in points:
        opponents[i].append((j, mine, theirs))
        opponents[j].append((i, theirs, mine))
    estimates = list(start or [1.0] * systems)
    for _ in range(_MOST_ROUNDS):
        if _round(estimates, opponents) < exact:
            break
    return estimates


def _round(estimates: list[float], opponents: Sequence[Sequence[tuple[int, float, float]]]) -> float:
    """Improve each strength in turn, and return the largest relative change."""
    change = 0.0
    for system, games in enumerate(opponents):
        old, above, below = estimates[system], 0.0, 0.0
        for other, mine, theirs in games:
            both = old + estimates[other]
            above += mine * estimates[other] / both
            below += theirs / both
        estimates[system] = above / below
        change = max(change, abs(estimates[system] / old - 1))
    mean = math.exp(math.fsum(map(math.log, estimates)) / len(estimates))
    estimates[:] = [strength / mean for strength in estimates]
    return change


def _resample(counts: Sequence[int], times: int, random: Random) -> Iterator[list[int]]:
    """Yield `times` bootstrap samples of games, drawn with replacement, each as counts per cell of the table."""
    for _ in range(times):
        left = rest = sum(counts)
        sample = []
        for count in counts:
            drawn = _binomial(left, count / rest, random) if rest else 0
            sample.append(drawn)
            left -= drawn
            rest -= count
        yield sample


def _binomial(n: int, p: float, random: Random) -> int:
    """Count the successes of n trials of probability p, all trials at once.

    A trial succeeds if a random number from 0 to 1 is below p. Their binary digits are compared one by one: after
    each, only the trials whose digit equals that of p are still open, so half of them.
    """
    successes = 0
    while n and p:
        p *= 2
        ones = random.getrandbits(n).bit_count()
        if p >= 1:
            p -= 1
            successes += n - ones
            n = ones
        else:
            n -= ones
    return successes
