"""Two systems compared over a dataset: who wins, how sure that is, and how far the judge's leanings decide."""

from __future__ import annotations

import asyncio
import io
import math
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges import BadSample, ConfigurationError, Panel, Repeat, Sample
from judges.catalogue.general.pairwise import Pairwise
from judges.offline import Row, evaluate
from judges.offline.compare import Comparison, acompare, compare
from judges.offline.results import paired
from judges.offline.statistics.intervals import spearman, wilson
from judges.testing import ScriptedModel
from tests.kit import Shown, asked, replying


class Compare(Protocol):
    """Either of the two ways to compare."""

    def __call__(self, rows: Any, judge: Any, **settings: Any) -> Comparison:
        """Compare."""
        ...


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


@pytest.mark.parametrize(("place", "lean"), [("first", 0.5), ("second", -0.5)])
def test_a_judge_that_goes_by_the_place_decides_nothing(place: str, lean: float) -> None:
    """All pairs flip and are ties, and the lean is the greatest there is."""
    result = compare(games(6, 0, 2), choosing(lambda first, second: place))
    assert (result.wins, result.ties, result.losses, result.win_rate) == (0, 8, 0, 0.5)
    assert (result.flip_rate, result.position_bias) == (1, lean)


def test_a_slight_lean_shows() -> None:
    """A judge that takes the first of two equals flips on those, and leans by as much."""
    result = compare(games(2, 2, 0), choosing(lambda first, second: "first" if first >= second else "second"))
    assert (result.flip_rate, result.position_bias) == (0.5, 0.25)


def test_a_love_of_length_shows() -> None:
    """The correlation with length is high for a judge that loves it, and about 0 for one that ignores it."""
    lengths = [(5, 1), (9, 3), (2, 8), (4, 4), (7, 2), (1, 6), (3, 3), (2, 3), (8, 1), (1, 9)]
    pairs = rows(*(("x" * a, "x" * b) for a, b in lengths))
    loving = compare(pairs, choosing(long)).length_correlation
    assert loving is not None
    assert loving > 0.9
    result = compare(rows(("bx", "a"), ("b", "ax"), ("ax", "b"), ("a", "bx")), choosing(good))
    assert result.length_correlation == 0


@pytest.mark.parametrize("pairs", [games(2, 0, 0), games(9, 0, 0)])
def test_no_correlation_where_there_is_none_to_find(pairs: list[dict[str, str]]) -> None:
    """Fewer than three pairs, or pairs that do not vary, tell nothing."""
    assert compare(pairs, choosing(good)).length_correlation is None


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


def test_the_systems_may_be_named() -> None:
    """Names are checked, and shown."""
    result = compare(games(1, 0, 0), choosing(good), names=("new", "old"))
    assert str(result).startswith("new against old: 1 wins")


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
    """All figures, one a line."""
    judge = choosing(lambda first, second: "" if first == "down" else good(first, second))
    result = compare([*games(8, 0, 2), *rows(("down", "a"))], judge)
    assert str(result).splitlines() == [
        "response against rival: 8 wins, 0 ties, 2 losses in 10 pairs",
        "  win rate            0.800 (95 %: 0.490 to 0.943)",
        "  flip rate           0.000",
        "  position bias       +0.000",
        "  unscored            judge_failed 1",
    ]


def test_it_comes_back_from_json() -> None:
    """A comparison can be stored."""
    result = compare(games(2, 1, 1), choosing(good))
    assert Comparison.model_validate_json(result.model_dump_json()) == result


def test_the_older_name_of_the_position_bias_still_reads() -> None:
    """`first_lean` gives the same value, and is understood in comparisons that were stored under it."""
    result = compare(games(2, 1, 1), choosing(lambda first, second: "first"))
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
    """Evaluations of two systems over the same questions, row by row."""
    new = evaluate([{"question": q, "answer": "b"} for q in "123"], lambda _: True)
    old = evaluate([{"question": q, "answer": "a"} for q in "123"], lambda _: True)
    result = compare(paired(new, old), choosing(good), names=("new", "old"))
    assert (result.wins, result.n) == (3, 3)


def test_runs_that_do_not_fit_are_reported_row_by_row() -> None:
    """Another question, a row that cannot be read and a row too many cost no other row."""
    new: list[Any] = [
        {"question": "1", "answer": "b"},
        {"question": "2", "answer": "b"},
        BadSample("broken"),
        {"question": "4", "answer": "b"},
    ]
    old = [
        {"question": "1", "answer": "a"},
        {"question": "!", "answer": "a"},
        {"question": "3", "answer": "a"},
    ]
    result = compare(paired(new, old), choosing(good))
    assert (result.wins, result.unscored) == (1, {"invalid_sample": 3})
    assert [row.error for row in result.rows] == [
        "",
        "the two runs do not ask the same at index 1",
        "broken",
        "the row at index 3 is in one run only",
    ]


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


def test_an_answer_that_is_missing_in_one_run_is_unscored() -> None:
    """Whichever run it is missing in."""
    with_answer, without = {"question": "?", "answer": "a"}, {"question": "?"}
    result = compare(paired([with_answer, without], [without, with_answer]), choosing(good))
    assert (result.n, sum(result.unscored.values())) == (0, 2)


def test_an_evaluation_without_rows_cannot_be_paired() -> None:
    """It must have kept them."""
    run = evaluate([{"question": "1", "answer": "b"}], lambda _: True, keep_rows=False)
    with pytest.raises(ConfigurationError, match="keep_rows=True"):
        list(paired(run, run))


@either
def test_pairs_of_one_question_count_as_one(run: Compare) -> None:
    """A question that is asked nine times has no more weight in the win rate than another, nor in its interval."""
    rows = [{"question": "often", "a": "2", "b": "1"}] * 9 + [{"question": "once", "a": "1", "b": "2"}]
    found = run(rows, choosing(good), a="a", b="b")
    assert (found.wins, found.losses, found.win_rate) == (9, 1, 0.5)
    assert found.interval == pytest.approx(wilson(1, 2))
