"""Systems and runs compared: who wins, how sure that is, and how they are ranked."""

from __future__ import annotations

import asyncio
import io
import math
import pickle
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import mean, pvariance
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from judges import BadSample, ConfigurationError, Helpfulness, Judge, Length, Panel, Repeat, Sample
from judges.catalogue.general.pairwise import Pairwise, Winner
from judges.offline import Evaluation, Row, compare, compare_runs, evaluate
from judges.offline.compare import (
    Comparison,
    Game,
    SystemRanking,
    _binomial,
    _resample,
    _strengths,
    acompare,
    rank,
)
from judges.offline.results import paired
from judges.offline.statistics.intervals import spearman, wilson
from judges.testing import ScriptedModel
from tests.kit import Shown, asked, replying

Compare = Callable[..., Comparison]
"""Either of the two ways to compare."""


def in_tasks(rows: Any, judge: Any, **settings: Any) -> Comparison:
    """Compare in an event loop of its own."""
    return asyncio.run(acompare(rows, judge, **settings))


either = pytest.mark.parametrize("run", [compare, in_tasks], ids=["threads", "tasks"])


def choosing(choose: Callable[[str, str], str]) -> Pairwise:
    """Make a judge that chooses by the two texts in the order it is shown them."""

    def reply(data: Shown) -> Mapping[str, Any] | Exception:
        verdict = choose(data["first"], data["second"])
        return {"rationale": "", "verdict": verdict, "feedback": ""} if verdict else ValueError("down")

    return Pairwise(replying(reply))


def good(first: str, second: str) -> str:
    """Prefer the text that says it is better, wherever it stands."""
    return "tie" if first == second else "first" if first > second else "second"


def long(first: str, second: str) -> str:
    """Prefer the longer text."""
    return "tie" if len(first) == len(second) else "first" if len(first) > len(second) else "second"


def rows(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    """Make rows of two answers each."""
    return [{"question": "?", "answer": a, "rival": b} for a, b in pairs]


def games(wins: int, ties: int, losses: int) -> list[dict[str, str]]:
    """Make rows that a good judge decides so."""
    return rows(*[("b", "a")] * wins, *[("a", "a")] * ties, *[("a", "b")] * losses)


@either
def test_wins_ties_and_losses_are_counted(run: Compare) -> None:
    """The win rate counts a tie as half a win; a judge that looks at the answers alone neither flips nor leans."""
    result = run(games(5, 2, 3), choosing(good))
    assert (result.a, result.b, result.n) == ("response", "rival", 10)
    assert (result.wins, result.ties, result.losses, result.win_rate) == (5, 2, 3, 0.6)
    assert (result.flip_rate, result.position_bias, result.unscored) == (0, 0, {})
    assert result.usage.calls == 20
    assert [row.verdicts["pairwise"].value for row in result.rows] == ["win"] * 5 + ["tie"] * 2 + ["loss"] * 3


@pytest.mark.parametrize(
    ("pairs", "choose", "flips", "lean"),
    [
        (games(6, 0, 2), lambda first, second: "first", 1, 0.5),
        (games(6, 0, 2), lambda first, second: "second", 1, -0.5),
        (games(2, 2, 0), lambda first, second: "first" if first >= second else "second", 0.5, 0.25),
    ],
)
def test_a_judge_that_goes_by_the_place_decides_nothing(
    pairs: list[dict[str, str]], choose: Callable[[str, str], str], flips: float, lean: float
) -> None:
    """Pairs that flip are ties; the lean is the greatest where all do, and as large as their share else."""
    result = compare(pairs, choosing(choose))
    ties = round(flips * len(pairs))
    assert (result.ties, result.wins, result.losses) == (ties, len(pairs) - ties, 0)
    assert result.win_rate == 1 - flips / 2
    assert (result.flip_rate, result.position_bias) == (flips, lean)


def test_a_love_of_length_shows() -> None:
    """The correlation is high for a judge that loves length, 0 for one that ignores it, and may be unknown."""
    lengths = [(5, 1), (9, 3), (2, 8), (4, 4), (7, 2), (1, 6), (3, 3), (2, 3), (8, 1), (1, 9)]
    pairs = rows(*(("x" * a, "x" * b) for a, b in lengths))
    loving = compare(pairs, choosing(long)).length_correlation
    assert loving is not None
    assert loving > 0.9
    result = compare(rows(("bx", "a"), ("b", "ax"), ("ax", "b"), ("a", "bx")), choosing(good))
    assert result.length_correlation == 0
    for few_or_alike in (games(2, 0, 0), games(9, 0, 0)):
        assert compare(few_or_alike, choosing(good)).length_correlation is None


@either
def test_what_cannot_be_compared_is_counted_apart(run: Compare) -> None:
    """An unscored pair is neither a tie nor a loss; every reason is counted."""
    judge = choosing(lambda first, second: "" if "down" in (first, second) else good(first, second))
    given = [
        *rows(("b", "a"), ("a", "down"), ("down", "a"), (" ", "a")),
        {"question": "?", "answer": "a"},
        {"question": 5, "answer": "a"},
        BadSample("line 7 is no JSON"),
    ]
    result = run(given, judge)
    assert (result.n, result.wins, result.win_rate) == (1, 1, 1)
    assert result.unscored == {"invalid_sample": 3, "judge_failed": 2, "no_response": 1}
    assert result.rows[4].error == "there is no text in the column 'rival'"


def test_nothing_compared_has_no_figures() -> None:
    """Without a pair there is no rate, rather than a 0."""
    result = compare([], choosing(good))
    assert (result.n, result.win_rate, result.interval) == (0, None, None)
    assert (result.flip_rate, result.position_bias) == (None, None)
    assert str(result) == "response against rival: 0 wins, 0 ties, 0 losses in 0 pairs"


@pytest.mark.parametrize(
    ("a", "b", "shown"),
    [
        ("gpt", "qwen", ["from gpt", "from qwen"]),
        ("response", "qwen", ["from nobody", "from qwen"]),
        ("answer", "qwen", ["from nobody", "from qwen"]),
        ("qwen", "reference", ["from a person", "from qwen"]),
        ("ground_truth", "gpt", ["from a person", "from gpt"]),
    ],
)
def test_the_answers_stand_in_any_two_columns(a: str, b: str, shown: list[str]) -> None:
    """Fields of a sample or columns of one's own; a reference that is compared is not shown as one."""
    row = {
        "question": "?",
        "answer": "from nobody",
        "gpt": "from gpt",
        "qwen": "from qwen",
        "ground_truth": "from a person",
    }
    model = replying(lambda data: {"rationale": "", "verdict": "tie", "feedback": ""})
    result = compare([row], Pairwise(model), a=a, b=b)
    assert (result.a, result.b) == (a, b)
    assert all(sorted([data["first"], data["second"]]) == shown for data in asked(model))
    assert ("reference" in asked(model)[0]) == ("from a person" not in shown)


def test_two_columns_that_name_one_field_are_distinguished() -> None:
    """One of them is the answer of the sample, the other stays under its own name."""
    result = compare([{"question": "?", "answer": "b", "output": "a"}], choosing(good), a="answer", b="output")
    assert result.wins == 1


async def test_rows_may_come_one_by_one() -> None:
    """An async iterable is taken, too."""

    async def stream() -> AsyncIterator[dict[str, str]]:
        for row in games(2, 0, 1):
            yield row

    assert (await acompare(stream(), choosing(good))).wins == 2


@either
def test_rows_are_written_and_told_as_they_come(run: Compare) -> None:
    """As in an evaluation; kept or not, the figures are the same."""
    out, counts = io.StringIO(), list[int]()
    comparison = run(
        games(2, 1, 1), choosing(good), out=out, on_result=lambda row: counts.append(row.index), keep_rows=False
    )
    assert (comparison.rows, counts) == ((), [0, 1, 2, 3])
    read = [Row.model_validate_json(line) for line in out.getvalue().splitlines()]
    assert [one.value for one in read[0].verdicts["pairwise"].items] == ["first", "second"]
    assert (comparison.wins, comparison.flip_rate) == (2, 0)


def test_a_judge_may_ask_a_pairwise_several_times() -> None:
    """Its verdict counts, and what each order said each time."""
    result = compare(games(2, 0, 1), Repeat(choosing(good), 3))
    assert (result.wins, result.losses, result.flip_rate, result.position_bias) == (2, 1, 0.0, 0.0)
    biased = compare(games(1, 0, 0), Repeat(choosing(lambda *_: "first"), 3))
    assert (biased.ties, biased.flip_rate, biased.position_bias) == (1, 1.0, 0.5)


def test_a_verdict_that_is_no_win_tie_or_loss_is_refused() -> None:
    """A panel rates, which would round a tie up to a win."""
    with pytest.raises(ConfigurationError, match="gives 3, not win, tie or loss; compare by a Pairwise"):
        compare(games(0, 1, 0), Panel([choosing(lambda *_: "first")]))


@pytest.mark.parametrize(
    ("given", "judge", "named", "message"),
    [
        ("rows.jsonl", choosing(good), {}, "rows are several samples or mappings, not a str"),
        (Path("rows.jsonl"), choosing(good), {}, "not a PosixPath; a file's are read_rows"),
        ({"question": "?"}, choosing(good), {}, "rows are several"),
        (Sample(user_input="?"), choosing(good), {}, "rows are several"),
        ([], ScriptedModel([]), {}, "two answers are compared by a Pairwise"),
        ([], Pairwise(ScriptedModel([]), against="reference"), {}, "give b='reference', and a Pairwise without"),
        ([], choosing(good), {"a": "x", "b": "x"}, "must differ; both are 'x'"),
        ([], choosing(good), {"names": ("x", "x")}, "must differ; both are 'x'"),
        ([], choosing(good), {"max_concurrency": 0}, "max_concurrency is a whole number from 1"),
    ],
)
@either
def test_what_is_set_up_wrongly_is_refused(
    run: Compare, given: object, judge: object, named: dict[str, Any], message: str
) -> None:
    """At once, and in one line."""
    with pytest.raises(ConfigurationError, match=message):
        run(given, judge, **named)


def test_it_can_be_read() -> None:
    """All figures, one a line, under the names that were given."""
    judge = choosing(lambda first, second: "" if first == "down" else good(first, second))
    result = compare([*games(8, 0, 2), *rows(("down", "a"))], judge, names=("new", "old"))
    assert str(result).splitlines() == [
        "new against old: 8 wins, 0 ties, 2 losses in 10 pairs",
        "  win rate            0.800 (95 %: 0.490 to 0.943)",
        "  flip rate           0.000",
        "  position bias       +0.000",
        "  unscored            judge_failed 1",
    ]


def test_it_comes_back_from_json() -> None:
    """A comparison can be stored, also as it was when the position bias was called `first_lean`."""
    result = compare(games(2, 1, 1), choosing(lambda first, second: "first"))
    assert Comparison.model_validate_json(result.model_dump_json()) == result
    assert result.first_lean == result.position_bias == 0.5
    stored = result.model_dump_json().replace("position_bias", "first_lean")
    assert Comparison.model_validate_json(stored) == result


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=3, max_size=12))
def test_swapping_the_systems_swaps_the_figures(pairs: list[tuple[str, str]]) -> None:
    """What one wins the other loses, whoever is called a."""
    result = compare(rows(*pairs), choosing(good))
    swapped = compare(rows(*pairs), choosing(good), a="rival", b="response")
    assert (result.wins, result.ties, result.losses) == (swapped.losses, swapped.ties, swapped.wins)
    assert result.win_rate is not None
    assert swapped.win_rate == pytest.approx(1 - result.win_rate)
    assert (result.flip_rate, result.position_bias) == (swapped.flip_rate, swapped.position_bias)


@pytest.mark.parametrize(
    ("wins", "n", "low", "high"),
    [
        (8, 10, 0.4902, 0.9433),
        (5, 10, 0.2366, 0.7634),
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilsons_interval(wins: int, n: int, low: float, high: float) -> None:
    """Against tables; the last four are those of Newcombe (Statistics in Medicine 17, 1998), method 3."""
    assert tuple(round(bound, 4) for bound in wilson(wins, n)) == (low, high)


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_wilsons_interval_holds_the_share(n: int, share: float) -> None:
    """It lies from 0 to 1, and its bounds are the shares from which the one found is 1.96 deviations away."""
    low, high = wilson(share * n, n)
    assert 0 <= low <= share + 1e-12
    assert share - 1e-12 <= high <= 1
    for bound in (low, high):
        assert (share - bound) ** 2 * n == pytest.approx(1.959964**2 * bound * (1 - bound), rel=1e-5, abs=1e-9)


@pytest.mark.parametrize(
    ("xs", "ys", "rho"),
    [
        ([1, 2, 3], [10, 20, 90], 1.0),
        ([1, 2, 3], [3, 2, 1], -1.0),
        ([1, 2, 2, 4], [1, 3, 2, 4], 4.5 / math.sqrt(22.5)),
        ([106, 100, 86, 101, 99, 103, 97, 113, 112, 110], [7, 27, 2, 50, 28, 29, 20, 12, 6, 17], -29 / 165),
        ([1, 1, 1], [1, 2, 3], None),
        ([1, 2], [1, 2], None),
    ],
)
def test_spearmans_correlation(xs: list[float], ys: list[float], rho: float | None) -> None:
    """Equal values share their mean rank; where nothing varies it is undefined."""
    assert spearman(xs, ys) == (None if rho is None else pytest.approx(rho, abs=1e-12))


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=3, max_size=30))
def test_a_correlation_lies_from_minus_1_to_1(pairs: list[tuple[int, int]]) -> None:
    """It is symmetric, and turns with its sign."""
    xs, ys = [x for x, _ in pairs], [y for _, y in pairs]
    rho = spearman(xs, ys)
    assert rho is None or -1 <= rho <= 1
    assert spearman(ys, xs) == (None if rho is None else pytest.approx(rho, abs=1e-9))
    assert spearman([-x for x in xs], ys) == (None if rho is None else pytest.approx(-rho, abs=1e-9))


def test_two_runs_are_paired() -> None:
    """Evaluations of two systems over the same questions, row by row; they must have kept their rows."""
    new = evaluate([{"question": q, "answer": "b"} for q in "123"], lambda _: True)
    old = evaluate([{"question": q, "answer": "a"} for q in "123"], lambda _: True)
    result = compare(paired(new, old), choosing(good), names=("new", "old"))
    assert (result.wins, result.n) == (3, 3)
    without = evaluate([{"question": "1", "answer": "b"}], lambda _: True, keep_rows=False)
    with pytest.raises(ConfigurationError, match="keep_rows=True"):
        list(paired(new, without))


def test_runs_that_do_not_fit_are_reported_row_by_row() -> None:
    """Another question, a row that cannot be read, a missing answer and a row too many cost no other row."""
    new: list[Any] = [
        {"question": "1", "answer": "b"},
        {"question": "2", "answer": "b"},
        BadSample("broken"),
        {"question": "4"},
        {"question": "5", "answer": "b"},
        {"question": "6", "answer": "b"},
    ]
    old = [
        {"question": "1", "answer": "a"},
        {"question": "!", "answer": "a"},
        {"question": "3", "answer": "a"},
        {"question": "4", "answer": "a"},
        {"question": "5"},
    ]
    result = compare(paired(new, old), choosing(good))
    assert (result.wins, result.unscored) == (1, {"invalid_sample": 4, "no_response": 1})
    assert [row.error for row in result.rows] == [
        "",
        "the two runs do not ask the same at index 1",
        "broken",
        "there is no text in the column 'response'",
        "",
        "the row at index 5 is in one run only",
    ]
    assert str(list(paired(old, new))[-1]) == "the row at index 5 is in one run only"


def test_evidence_of_one_run_alone_is_not_shown() -> None:
    """Contexts and steps that differ are left out, those that are the same stay."""
    messages = [{"role": "user", "content": "?"}]
    steps = [{"role": "assistant", "tool_calls": [{"name": "look", "args": {}}]}, {"role": "tool", "content": "5"}]
    one = Sample.read(user_input=[*messages, *steps], response="b", contexts=["x"], reference="r")
    other = Sample.read(user_input=messages, response="a", contexts=["y"])
    assert list(paired([one], [other])) == [
        Sample.read(user_input=messages, response="b", reference="r", metadata={"rival": "a"})
    ]
    assert list(paired([one], [one])) == [one.model_copy(update={"metadata": {"rival": "b"}})]


@either
def test_pairs_of_one_question_count_as_one(run: Compare) -> None:
    """A question that is asked nine times has no more weight in the win rate than another, nor in its interval."""
    rows = [{"question": "often", "a": "2", "b": "1"}] * 9 + [{"question": "once", "a": "1", "b": "2"}]
    found = run(rows, choosing(good), a="a", b="b")
    assert (found.wins, found.losses, found.win_rate) == (9, 1, 0.5)
    assert found.interval == pytest.approx(wilson(1, 2))


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
        (duel(1000, losses=100), 1e-9, 10.0),
        (duel(30, losses=10), 0.5, 30.25 / 10.25),
        (duel(5, ties=90, losses=5), 0.5, 1.0),
        (duel(10), 0.5, 10.25 / 0.25),
        (duel(100), 0.5, 100.25 / 0.25),
        (duel(1), 2, 2.0),
    ],
)
def test_two_systems_by_hand(games: list[Game], prior: float, odds: float) -> None:
    """The ratings lie 400 * log10(points won / points lost) apart, evenly around 1000: the scale of Elo."""
    found = ratings_of(rank(games, prior=prior, bootstrap=2))
    apart = 400 * math.log10(odds)
    assert found == {"x": pytest.approx(1000 + apart / 2), "y": pytest.approx(1000 - apart / 2)}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 50), st.floats(0.1, 50)), min_size=6, max_size=6))
def test_expected_points_equal_points_won(points: list[tuple[float, float]]) -> None:
    """At the highest likelihood, and there alone, every system has won as much as its strength lets expect."""
    pairs = [(i, j, *won) for (i, j), won in zip(combinations(range(4), 2), points, strict=True)]
    found = _strengths(4, pairs)
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
    first, again, other = (rank(games, seed=seed, bootstrap=100) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert ratings_of(first) == ratings_of(other)


def test_comparisons_are_games() -> None:
    """What was compared over a dataset is ranked like the single games; nothing compared adds no system."""
    compared = Comparison(a="y", b="x", n=12, wins=3, ties=2, losses=7)
    assert rank([compared]) == rank(duel(7, 2, 3))
    nothing = Comparison(a="x", b="z", n=0, wins=0, ties=0, losses=0)
    assert rank([compared, *duel(1), nothing]) == rank(duel(8, 2, 3))


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


def test_a_ranking_can_be_read() -> None:
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


def test_resampling_keeps_the_number_of_games() -> None:
    """Cells share as many games as there were, by their own shares; an empty cell stays empty."""
    draws = list(_resample([50, 0, 30, 20, 0], 2000, random.Random(7)))
    assert {sum(one) for one in draws} == {100}
    assert [mean(cell) for cell in zip(*draws, strict=True)] == pytest.approx([50, 0, 30, 20, 0], abs=0.6)
    assert list(_resample([0, 0], 2, random.Random(7))) == [[0, 0], [0, 0]]


def run(scores: Sequence[float | None], *, question: str = "question", judge: str = "good") -> Evaluation:
    """Make an evaluation whose rows have these scores."""
    rows = [{"question": f"{question} {i}", "answer": "x" * (i % 7 + 1)} for i in range(len(scores))]
    left = iter(scores)
    return evaluate(rows, {judge: lambda sample: next(left)}, max_concurrency=1)


def test_a_real_change_is_told_from_chance() -> None:
    """Twelve questions more pass and one fewer: significant; of three more, one fewer: it may be chance."""
    before, after = [0.0] * 12 + [1.0] * 28, [1.0] * 12 + [1.0] * 27 + [0.0]
    change = compare_runs(run(before), run(after))["good"]
    assert change.test == "McNemar, exact"
    assert change.p == pytest.approx(0.00341796875)
    assert change.is_real
    assert (change.wins, change.losses, change.ties) == (12, 1, 27)
    assert change.regressions == (39,)
    assert change.difference.value == pytest.approx(11 / 40)
    assert change.questions_needed is not None
    small = compare_runs(run([0.0] * 3 + [1.0] * 10), run([1.0] * 12 + [0.0]))["good"]
    assert not small.is_real
    assert "may be chance" in str(compare_runs(run([0.0] * 3 + [1.0] * 10), run([1.0] * 12 + [0.0])))


def test_graded_scores_are_compared_by_sign_flips() -> None:
    """Scores between 0 and 1 take the sign-flip test and the bootstrap interval; unscored rows are excluded."""
    before = [0.1, 0.5, None, 0.3, 0.2, 0.4, 0.9, 0.3]
    after = [0.4, 0.6, 0.9, None, 0.5, 0.4, 0.8, 0.9]
    comparison = compare(run(before), run(after))
    change = comparison["good"]
    assert change.test.startswith("sign flips")
    assert change.excluded == 2
    assert "2 scored in one run alone" in str(comparison)
    assert (change.wins, change.losses, change.ties) == (4, 1, 1)
    assert change.difference.low is not None
    assert change.p is not None
    assert 0.05 < change.p < 0.5


def test_several_judges_are_one_family() -> None:
    """p-values are raised by Holm over all judges, and judges of one run alone are named."""

    def both(first: float, second: float) -> Evaluation:
        rows = [{"question": str(i), "answer": "a"} for i in range(10)]
        judges: dict[str, Any] = {"x": lambda sample: first, "y": lambda sample: second}
        return evaluate(rows, judges)

    comparison = compare_runs(both(0.2, 0.5), both(0.4, 0.5), names=("old", "new"))
    assert comparison["x"].p == pytest.approx(2 / 1024)
    assert comparison["x"].adjusted_p == pytest.approx(4 / 1024)
    assert comparison["y"].p == 1
    same = comparison["y"].difference
    assert same.low is not None
    assert same.low < -0.2  # ten equal questions are not all there are
    assert "+0.000 (95 %: -0.278 to +0.278)" in str(comparison)
    assert "new against old" in str(comparison)
    other = compare_runs(both(0.2, 0.5), evaluate([{"question": "0", "answer": "a"}], {"x": lambda s: 1.0}))
    assert (other.only_a, other.other_rows) == (("y",), ("9 rows are missing",))


def test_runs_that_cannot_be_compared_are_refused() -> None:
    """Other questions, other judges, or rows that were not kept are refused in one line."""
    with pytest.raises(ConfigurationError, match="no question in common"):
        compare_runs(run([1.0]), run([1.0], question="other"))
    with pytest.raises(ConfigurationError, match="no judge in common"):
        compare_runs(run([1.0]), run([1.0], judge="bad"))
    rows = [{"question": "q", "answer": "a"}]
    with pytest.raises(ConfigurationError, match="keep_rows=True"):
        compare_runs(evaluate(rows, {"good": lambda s: 1.0}, keep_rows=False), run([1.0]))


def _asking(name: str = "small", **settings: Any) -> Helpfulness:
    rated = {"rationale": "r", "rating": 3, "feedback": "f"}
    return Helpfulness(ScriptedModel([rated], cycle=True, name=name), **settings)


@pytest.mark.parametrize(
    ("judge", "difference"),
    [
        (_asking("big"), "helpfulness asks big instead of small"),
        (_asking(language="ru"), "helpfulness is told to write ru instead of what the row says"),
        (_asking(success_rating=4), "helpfulness has success_rating=4 instead of its default"),
        (
            _asking(instructions="Rate.\n$levels"),
            r"helpfulness has instructions=Rate.\n$levels instead of its default",
        ),
        (Length(at_most=3, name="helpfulness"), "helpfulness asks no model instead of small and has class="),
        (Panel([_asking(gate=False)], name="helpfulness"), "has judges=helpfulness instead of its default"),
        (_asking(), ""),
    ],
)
def test_evaluations_of_two_judges_are_not_taken_for_one(tmp_path: Path, judge: Judge, difference: str) -> None:
    """In memory, saved or pickled, the first line says what is another judge, and nothing where none is."""
    rows = [{"question": "q", "answer": "a b"}]
    one, other = evaluate(rows, _asking()), evaluate(rows, judge)
    one.save(tmp_path / "one.jsonl")
    for before in (one, pickle.loads(pickle.dumps(one)), Evaluation.load(tmp_path / "one.jsonl")):  # noqa: S301 - ours
        assert before == one
        first = str(compare(before, other)).splitlines()[0]
        assert difference in first
        assert first.startswith("NOT THE SAME JUDGE: ") == bool(difference)


def test_another_expected_trajectory_is_another_dataset() -> None:
    """What is expected of an agent stands in the metadata, and counts as what is expected of an answer."""

    def expecting(tool: str) -> Evaluation:
        call = {"role": "assistant", "tool_calls": [{"name": tool, "args": {}, "id": "1"}]}
        row = {"question": "q", "answer": "a", "reference_trajectory": [call]}
        return evaluate([row], {"good": lambda sample: 1.0})

    assert compare(expecting("search"), expecting("search")).other_rows == ()
    assert compare(expecting("search"), expecting("send")).other_rows == ("1 row expects another answer",)


def test_rows_are_paired_by_what_they_ask() -> None:
    """A missing row or another order costs no pair; rows without a question have their place alone."""
    rows = [{"question": f"q {i % 7}", "answer": "a" * (i % 5)} for i in range(14)]
    judge = {"long": lambda sample: len(sample.answer) / 4}
    whole = evaluate(rows, judge)
    for other, changes in ((rows[:3] + rows[4:], ("1 row is missing",)), (rows[::-1], ())):
        comparison = compare_runs(whole, evaluate(other, judge))
        assert comparison.other_rows == changes
        assert comparison["long"].difference.n == 7
    moved = compare_runs(whole, evaluate([*rows[:13], {"question": "q 6", "answer": ""}, rows[0]][1:], judge))
    assert 12 in moved["long"].regressions
    assert moved.other_rows == ()
    alone = [{"answer": "a" * (i % 5)} for i in range(10)]
    change = compare_runs(evaluate(alone, judge), evaluate(alone[::-1], judge))["long"]
    assert change.difference.n == 10
    assert change.difference.low is not None
