"""Systems are ranked by their games: strengths, intervals, and what must not change them."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from itertools import combinations
from statistics import mean, pvariance
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from judges import ConfigurationError
from judges.catalogue.general.pairwise import Winner
from judges.offline.compare import Comparison, Game, SystemRanking, _binomial, rank, resample, strengths

OTHER: dict[Winner, Winner] = {"a": "b", "b": "a", "tie": "tie"}
TRUE = {"one": 1200.0, "two": 1100.0, "three": 1000.0, "four": 900.0, "five": 800.0}
"""Ratings that games are drawn from."""


def duel(wins: int, ties: int = 0, losses: int = 0) -> list[Game]:
    """Make games of x against y."""
    winners: list[tuple[Winner, int]] = [("a", wins), ("tie", ties), ("b", losses)]
    return [("x", "y", winner) for winner, times in winners for _ in range(times)]


def drawn(each: int, seed: int, ratings: dict[str, float] = TRUE) -> list[Game]:
    """Draw games of everybody against everybody."""
    chance = random.Random(seed)
    return [
        (a, b, "a" if chance.random() < 1 / (1 + 10 ** ((ratings[b] - ratings[a]) / 400)) else "b")
        for a, b in combinations(ratings, 2)
        for _ in range(each)
    ]


def ratings_of(ranking: SystemRanking) -> dict[str, float]:
    """Give the ratings by name."""
    return {one.name: one.rating for one in ranking.systems}


@pytest.mark.parametrize(
    ("games", "prior", "odds"),
    [
        (duel(30, losses=10), 1e-9, 3.0),
        (duel(20, ties=20), 1e-9, 3.0),
        (duel(30, losses=10), 0.5, 30.25 / 10.25),
        (duel(5, ties=90, losses=5), 0.5, 1.0),
        (duel(10), 0.5, 10.25 / 0.25),
        (duel(1), 2, 2.0),
    ],
)
def test_two_systems_by_hand(games: list[Game], prior: float, odds: float) -> None:
    """The ratings lie 400 * log10(points won / points lost) apart, evenly around 1000."""
    found = ratings_of(rank(games, prior=prior, bootstrap=2))
    apart = 400 * math.log10(odds)
    assert found == {"x": pytest.approx(1000 + apart / 2), "y": pytest.approx(1000 - apart / 2)}


def test_four_hundred_points_are_ten_times_the_odds() -> None:
    """The scale is that of Elo."""
    one, other = rank(duel(1000, losses=100), prior=1e-9).systems
    assert one.rating - other.rating == pytest.approx(400)


def by_mm(systems: int, points: dict[tuple[int, int], tuple[float, float]]) -> list[float]:
    """Find strengths by the MM algorithm as Hunter (2004) writes it."""
    found = [1.0] * systems
    for _ in range(20_000):
        new = []
        for one in range(systems):
            won = sum(p[pair.index(one)] for pair, p in points.items() if one in pair)
            met = sum(sum(p) / (found[pair[0]] + found[pair[1]]) for pair, p in points.items() if one in pair)
            new.append(won / met)
        middle = math.exp(mean(map(math.log, new)))
        found = [one / middle for one in new]
    return found


def test_strengths_are_those_of_the_mm_algorithm() -> None:
    """The faster step ends where Hunter's ends."""
    points = {(0, 1): (7.5, 2.5), (0, 2): (4.0, 6.0), (1, 2): (1.0, 3.0), (2, 3): (5.0, 1.0)}
    found = strengths(4, [(*pair, *won) for pair, won in points.items()])
    assert found == pytest.approx(by_mm(4, points), rel=1e-9)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 50), st.floats(0.1, 50)), min_size=6, max_size=6))
def test_expected_points_equal_points_won(points: list[tuple[float, float]]) -> None:
    """At the highest likelihood every system has won as much as its strength lets expect."""
    pairs = [(i, j, *won) for (i, j), won in zip(combinations(range(4), 2), points, strict=True)]
    found = strengths(4, pairs)
    for one in range(4):
        won = sum(mine if i == one else theirs for i, j, mine, theirs in pairs if one in (i, j))
        expected = sum(
            (mine + theirs) * found[one] / (found[i] + found[j]) for i, j, mine, theirs in pairs if one in (i, j)
        )
        assert won == pytest.approx(expected, rel=1e-6)
    assert math.prod(found) == pytest.approx(1)


def test_known_ratings_are_found_again() -> None:
    """Games drawn from known ratings give them back, in their order and within the intervals."""
    ranking = rank(drawn(400, seed=2))
    assert [one.name for one in ranking.systems] == list(TRUE)
    for one in ranking.systems:
        assert one.interval[0] < TRUE[one.name] < one.interval[1]
        assert one.rating == pytest.approx(TRUE[one.name], abs=40)
        assert 10 < one.interval[1] - one.interval[0] < 80


def test_the_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    """Of 200 intervals at 95 %, 90 to 99 % hold the true rating."""
    held = [
        one.interval[0] < TRUE[one.name] < one.interval[1]
        for seed in range(40)
        for one in rank(drawn(60, seed=seed), bootstrap=200).systems
    ]
    assert 0.90 <= mean(held) <= 0.99


def test_more_games_make_surer() -> None:
    """Four times the games halve the interval, or nearly."""
    few, many = (rank(duel(wins, losses=wins)).systems[0].interval for wins in (50, 200))
    assert (few[1] - few[0]) / (many[1] - many[0]) == pytest.approx(2, rel=0.15)


LINKS: list[Game] = [("a", "b", "tie"), ("b", "c", "tie"), ("c", "d", "tie")]
names = st.sampled_from("abcd")
winners: st.SearchStrategy[Winner] = st.sampled_from(["a", "b", "tie"])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(names, names, winners), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_neither_order_nor_side_matters(drawn_games: list[Game], chance: random.Random) -> None:
    """The same games, shuffled and some told the other way round, give the very same ranking and intervals."""
    games = [*LINKS, *drawn_games]
    assume(all(a != b for a, b, _ in games))
    shuffled = [(b, a, OTHER[winner]) if chance.random() < 0.5 else (a, b, winner) for a, b, winner in games]
    chance.shuffle(shuffled)
    assert rank(shuffled, bootstrap=5) == rank(games, bootstrap=5)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(names, names, winners), min_size=1, max_size=30))
def test_a_mirrored_world_has_mirrored_ratings(drawn_games: list[Game]) -> None:
    """If every winner had lost, the ratings would lie on the other side of 1000."""
    games = [*LINKS, *drawn_games]
    assume(all(a != b for a, b, _ in games))
    found = ratings_of(rank(games, bootstrap=2))
    mirrored = ratings_of(rank([(a, b, OTHER[winner]) for a, b, winner in games], bootstrap=2))
    assert mirrored == {name: pytest.approx(2000 - rating, abs=1e-4) for name, rating in found.items()}
    assert mean(found.values()) == pytest.approx(1000)


def test_the_seed_decides_on_the_intervals_alone() -> None:
    """The same seed gives the same intervals; another one the same ratings."""
    games = drawn(20, seed=3)
    assert rank(games, seed=1) == rank(games, seed=1)
    assert rank(games, seed=1) != rank(games, seed=2)
    assert ratings_of(rank(games, seed=1)) == ratings_of(rank(games, seed=2))


def test_comparisons_are_games() -> None:
    """What was compared over a dataset is ranked like the single games, together with others."""
    compared = Comparison(a="y", b="x", n=12, wins=3, ties=2, losses=7)
    assert rank([compared]) == rank(duel(7, 2, 3))
    assert rank([compared, *duel(1)]) == rank(duel(8, 2, 3))


def test_a_comparison_that_came_to_nothing_adds_no_system() -> None:
    """A system without a game has no rating."""
    nothing = Comparison(a="x", b="z", n=0, wins=0, ties=0, losses=0)
    assert list(ratings_of(rank([*duel(2), nothing]))) == ["x", "y"]


def test_a_system_that_always_wins_has_a_finite_rating() -> None:
    """The longer it always wins, the higher it stands."""
    ratings = [rank(duel(wins), bootstrap=2).systems[0].rating for wins in (1, 10, 100)]
    assert ratings == sorted(set(ratings))
    assert math.isfinite(ratings[-1])


def test_systems_that_never_met_are_ranked_by_those_between() -> None:
    """If x beats y and y beats z, x stands above z."""
    games = [*duel(8, losses=2), *[("y", "z", winner) for _, _, winner in duel(8, losses=2)]]
    ranking = rank(games)
    assert [one.name for one in ranking.systems] == ["x", "y", "z"]
    x, y, z = (one.rating for one in ranking.systems)
    assert x - y == pytest.approx(y - z)


def test_each_system_tells_its_games() -> None:
    """How many it played, and what share it won, ties counting half."""
    games = [*duel(3, 2, 1), ("z", "y", "a")]
    fields = {one.name: (one.games, one.win_rate) for one in rank(games).systems}
    assert fields == {"x": (6, pytest.approx(4 / 6)), "y": (7, pytest.approx(2 / 7)), "z": (1, 1)}
    assert rank(games).games == 7


@pytest.mark.parametrize(
    ("games", "named", "message"),
    [
        ([], {}, "there is no game to rank by"),
        ([("x", "x", "a")], {}, "'x' plays against itself"),
        ([("x", "y", "x")], {}, "a game is won by 'a' or 'b', or is a 'tie'; not 'x'"),
        ([("x", "y", None)], {}, "a game is won by"),
        ([*duel(1), ("z", "w", "a")], {}, "no chain of games links 'w' with 'x'"),
        (duel(1), {"bootstrap": 1}, "bootstrap is a whole number from 2, not 1"),
        (duel(1), {"bootstrap": 2.0}, "bootstrap is a whole number"),
        (duel(1), {"prior": 0}, "prior is a number of tied games, above 0, not 0"),
        (duel(1), {"prior": math.nan}, "prior is a number"),
        (duel(1), {"prior": math.inf}, "prior is a number"),
    ],
)
def test_what_cannot_be_ranked_is_refused(games: Any, named: dict[str, Any], message: str) -> None:
    """In one clear line."""
    with pytest.raises(ConfigurationError, match=message):
        rank(games, **named)


def test_it_can_be_read() -> None:
    """A table, the strongest first."""
    comparisons = [
        Comparison(a="new", b="old model", n=40, wins=30, ties=0, losses=10),
        Comparison(a="new", b="oldest", n=10, wins=5, ties=2, losses=3),
    ]
    head, *lines = str(rank(comparisons)).splitlines()
    assert head == "system     rating       95 %       games  win rate"
    assert [line.split()[0] for line in lines] == ["new", "oldest", "old"]
    assert {len(line) for line in lines} == {len(head)}


def test_ten_thousand_games_take_no_time() -> None:
    """Counts are resampled, not lists: far below the seconds that a thousand shuffles of the games would take."""
    games = drawn(1000, seed=4)
    started = time.process_time()
    rank(games)
    assert time.process_time() - started < 5


@pytest.mark.parametrize(("n", "p"), [(1, 0.3), (7, 0.5), (40, 0.1), (1000, 0.999), (5, 1.0), (5, 0.0)])
def test_successes_are_drawn_binomially(n: int, p: float) -> None:
    """Mean and variance are n p and n p (1 - p)."""
    chance = random.Random(5)
    successes = [_binomial(n, p, chance) for _ in range(20_000)]
    assert mean(successes) == pytest.approx(n * p, abs=4 * math.sqrt(n * p * (1 - p) / 20_000))
    assert pvariance(successes) == pytest.approx(n * p * (1 - p), rel=0.05)


def test_few_trials_are_distributed_as_they_should_be() -> None:
    """Each number of successes comes up as often as the formula says."""
    chance = random.Random(6)
    seen = Counter(_binomial(4, 0.3, chance) for _ in range(50_000))
    for successes in range(5):
        share = math.comb(4, successes) * 0.3**successes * 0.7 ** (4 - successes)
        assert seen[successes] / 50_000 == pytest.approx(share, abs=0.01)


def test_resampling_keeps_the_number_of_games() -> None:
    """Cells share as many games as there were, by their own shares; an empty cell stays empty."""
    draws = list(resample([50, 0, 30, 20, 0], 2000, random.Random(7)))
    assert {sum(one) for one in draws} == {100}
    assert [mean(cell) for cell in zip(*draws, strict=True)] == pytest.approx([50, 0, 30, 20, 0], abs=0.6)
    assert list(resample([0, 0], 2, random.Random(7))) == [[0, 0], [0, 0]]
