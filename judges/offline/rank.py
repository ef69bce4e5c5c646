"""Ranking several systems by games between two of them each: Bradley and Terry's model."""

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
from judges.errors import ConfigurationError
from judges.offline.compare import Comparison
from judges.offline.statistics.bradley_terry import Points, resampled, strengths

Game = tuple[str, str, Winner]
"""Two systems, and which of them won: `"a"` the first, `"b"` the second, or `"tie"`."""

_SCALE = 400 / math.log(10)
_CENTRE = 1000
_CLOSE = 1e-6
"""Relative change of a strength at which a resampled one counts as found: far below what an interval shows."""


class RankedSystem(BaseModel):
    """A system's place among those it was compared with.

    Args:
        name: The system.
        rating: Its strength; the mean over all systems is 1000, and 400 more means ten times the odds of winning.
        interval: 95 % interval of the rating.
        games: Games it played.
        win_rate: (wins + ties / 2) / games, 0 to 1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    rating: float
    interval: tuple[float, float]
    games: int = Field(ge=1)
    win_rate: float = Field(ge=0, le=1)


class Ranking(BaseModel):
    """Systems by strength; `str()` of it is for people.

    Args:
        systems: The strongest first; of equals, by name.
        games: Games that were counted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    systems: tuple[RankedSystem, ...]
    games: int

    def __str__(self) -> str:
        width = max(len("system"), *(len(one.name) for one in self.systems))
        return "\n".join(self._lines(width))

    def _lines(self, width: int) -> Iterator[str]:
        yield f"{'system':<{width}}  rating  {'95 %':^14}  games  win rate"
        for one in self.systems:
            low, high = one.interval
            interval = f"{low:>5.0f} to {high:>5.0f}"
            yield f"{one.name:<{width}}  {one.rating:>6.0f}  {interval}  {one.games:>5}  {one.win_rate:>8.3f}"


def rank(
    outcomes: Iterable[Game | Comparison], *, bootstrap: int = 1000, seed: int = 0, prior: float = 0.5
) -> Ranking:
    """Rank systems by the games between them, by the model of Bradley and Terry (Biometrika 39, 1952).

    A system of strength p beats one of strength q with probability p / (p + q); a tie counts as half a win for
    each. The strengths are those of highest likelihood; see `judges.offline.statistics.bradley_terry`.
    Rating = 1000 + 400 * log10(strength), with the geometric mean of the strengths at 1, so of two systems rated
    d apart, the better wins 1 / (1 + 10 ** (-d / 400)) of the games, ties shared.

    The intervals are percentiles over resampled games, each taken for independent of the others. They tell how
    sure the order is among these systems and these questions, and nothing of the judge's own leanings. Where all
    games end alike, so do all that are resampled: an interval without width calls for more questions.

    Args:
        outcomes: Games as `(system, system, winner)`, or what `compare` gave, with the names told there.
        bootstrap: How often the games are resampled for the intervals, at least 2.
        seed: Of the resampling: the same games in any order, told either way round, give the same ranking.
        prior: Tied games added between every two systems that met, above 0: without them, a system that always
            wins would have no finite strength.

    Raises:
        ConfigurationError: If there is no game, a system plays itself, systems are not linked by any chain of
            games, or a setting is out of its range.
    """
    if type(bootstrap) is not int or bootstrap < 2:  # noqa: PLR2004 - one makes no interval
        raise ConfigurationError(f"bootstrap is a whole number from 2, not {bootstrap!r}")
    if type(prior) not in (int, float) or not 0 < prior < math.inf:
        raise ConfigurationError(f"prior is a number of tied games, above 0, not {prior!r}")
    table = _PointsTable.of(outcomes)
    table.check_linked()
    found = table.strengths(table.counts, prior)
    draws = resampled(table.counts, bootstrap, Random(seed))  # noqa: S311 - statistics, no secret
    ratings = [_ratings(table.strengths(counts, prior, start=found, exact=_CLOSE)) for counts in draws]
    systems = [
        _system(table, place, rating, [one[place] for one in ratings])
        for place, rating in enumerate(_ratings(found))
    ]
    ordered = sorted(systems, key=lambda one: (-one.rating, one.name))
    return Ranking(systems=tuple(ordered), games=sum(table.counts))


@dataclass(frozen=True)
class _PointsTable:
    """Games by who met whom, whatever their order.

    Args:
        names: The systems, sorted.
        pairs: Who met whom, by their places among the names, the lower one first; sorted.
        counts: For each pair the games won by its first, tied, and won by its second, in one row.
    """

    names: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, outcomes: Iterable[Game | Comparison]) -> _PointsTable:
        """Count the games."""
        cells: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
        for one in outcomes:
            a, b, told = _told(one)
            cell = cells[min(a, b), max(a, b)]
            for place, times in enumerate(told if a < b else reversed(told)):
                cell[place] += times
        met = {pair: cell for pair, cell in sorted(cells.items()) if any(cell)}
        if not met:
            raise ConfigurationError("there is no game to rank by")
        names = tuple(sorted({*chain.from_iterable(met)}))
        places = {name: place for place, name in enumerate(names)}
        return cls(names, tuple((places[a], places[b]) for a, b in met), tuple(chain.from_iterable(met.values())))

    def check_linked(self) -> None:
        """Refuse systems that no chain of games links: nothing tells how they compare."""
        group = list(range(len(self.names)))
        for i, j in self.pairs:
            old, new = group[j], group[i]
            group = [new if one == old else one for one in group]
        apart = next((place for place, one in enumerate(group) if one != group[0]), None)
        if apart is not None:
            raise ConfigurationError(
                f"no chain of games links {self.names[0]!r} with {self.names[apart]!r}; rank them apart, or let "
                f"them meet"
            )

    def points(self, counts: Sequence[int], prior: float) -> Iterator[Points]:
        """Give what each of a pair won from the other: wins, half the ties, half the prior."""
        for place, (i, j) in enumerate(self.pairs):
            won, tied, lost = counts[3 * place : 3 * place + 3]
            shared = (tied + prior) / 2
            yield i, j, won + shared, lost + shared

    def strengths(self, counts: Sequence[int], prior: float, **settings: Any) -> list[float]:
        """Find the strengths under which these games are likeliest."""
        return strengths(len(self.names), self.points(counts, prior), **settings)


def _told(outcome: Game | Comparison) -> tuple[str, str, tuple[int, int, int]]:
    """Read a game, or a comparison of many, as games won, tied and lost."""
    if isinstance(outcome, Comparison):
        return outcome.a, outcome.b, (outcome.wins, outcome.ties, outcome.losses)
    a, b, winner = outcome
    if winner not in ("a", "b", "tie"):
        raise ConfigurationError(f"a game is won by 'a' or 'b', or is a 'tie'; not {winner!r}")
    if a == b:
        raise ConfigurationError(f"{a!r} plays against itself")
    return a, b, (int(winner == "a"), int(winner == "tie"), int(winner == "b"))


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


def _ratings(found: Iterable[float]) -> list[float]:
    return [_CENTRE + _SCALE * math.log(one) for one in found]
