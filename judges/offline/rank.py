"""Ranking several systems by games between pairs of them: strengths by the model of Bradley and Terry."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random
from statistics import quantiles
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from judges.catalogue.general.pairwise import Winner
from judges.errors import ConfigurationError, shortened
from judges.offline.compare import Comparison
from judges.runtime.validation import are_texts

Game = tuple[str, str, Winner]
"""Two systems, and which of them won: `"a"` the first, `"b"` the second, or `"tie"`."""

_SCALE = 400 / math.log(10)
_CENTRE = 1000
_CLOSE = 1e-6
"""Relative change at which resampled strengths count as converged, far below what an interval shows."""


class RankedSystem(BaseModel):
    """A system's rating among those it was compared with.

    Args:
        name: Name of the system.
        rating: Its strength; the mean over all systems is 1000, and 400 more means ten times the odds of winning.
        interval: 95 % interval of the rating.
        games: Number of games it played.
        win_rate: (wins + ties / 2) / games, 0 to 1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    rating: float
    interval: tuple[float, float]
    games: int = Field(ge=1)
    win_rate: float = Field(ge=0, le=1)


class SystemRanking(BaseModel):
    """Systems by strength; `str()` gives a readable table.

    Args:
        systems: The systems, strongest first, equals by name.
        games: Number of games counted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    each. The strengths are those of highest likelihood; see `strengths`.
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
    if type(bootstrap) is not int or bootstrap < 2:  # noqa: PLR2004 - one makes no interval
        raise ConfigurationError(f"bootstrap is a whole number from 2, not {shortened(bootstrap)}")
    if type(prior) not in (int, float) or not 0 < prior < math.inf:
        raise ConfigurationError(f"prior is a number of tied games, above 0, not {shortened(prior)}")
    table = _PointsTable.of(outcomes)
    table.check_linked()
    best = table.strengths(table.counts, prior)
    draws = resample(table.counts, bootstrap, Random(seed))  # noqa: S311 - statistics, no secret
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

    def points(self, counts: Sequence[int], prior: float) -> Iterator[Points]:
        """Yield the points of each pair: wins, half the ties, half the prior."""
        for place, (i, j) in enumerate(self.pairs):
            won, tied, lost = counts[3 * place : 3 * place + 3]
            shared = (tied + prior) / 2
            yield i, j, won + shared, lost + shared

    def strengths(self, counts: Sequence[int], prior: float, **settings: Any) -> list[float]:
        """Return the strengths of highest likelihood for these games."""
        return strengths(len(self.names), self.points(counts, prior), **settings)


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


Points = tuple[int, int, float, float]
"""Two systems by their numbers, and the points each won against the other."""

_MOST_ROUNDS = 100_000


def strengths(
    systems: int, points: Iterable[Points], *, start: Sequence[float] | None = None, exact: float = 1e-12
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


def resample(counts: Sequence[int], times: int, random: Random) -> Iterator[list[int]]:
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
