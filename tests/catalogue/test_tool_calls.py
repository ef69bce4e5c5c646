"""Tool calls are compared with those that were wanted: aligned in order, matched without, argument by argument."""

from __future__ import annotations

import itertools
import random
import time
from typing import Any

import pytest

from judges import ConfigurationError, Verdict, load
from judges.catalogue.parts.calls import CallComparison, render_call, same_value
from judges.catalogue.parts.tables import matching, ordered_matching
from judges.messages import ToolCall
from judges.testing import ScriptedJudge

Call = dict[str, Any]


def call(name: str, **args: Any) -> Call:
    """Write a call as a dataset has it."""
    return {"name": name, "args": args}


def run(wanted: list[Call] | None, *turns: list[Call], **fields: Any) -> Call:
    """Write a sample of an agent that makes some calls in each of its turns, then answers."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "How warm is it in Paris?"}]
    for calls in turns:
        messages += [{"role": "assistant", "content": "", "tool_calls": calls}, {"role": "tool", "content": "ok"}]
    messages.append({"role": "assistant", "content": "It is 75 degrees."})
    return {"user_input": messages, "reference_tool_calls": wanted, **fields}


def standings(verdict: Verdict) -> list[tuple[str, object]]:
    """List the calls with where they stand."""
    return [(one.subject, one.value) for one in verdict.items]


PARIS, CONVERT = call("weather", location="Paris"), call("convert", f=75)
A, B, C, D = (call("do", what=one) for one in "abcd")
VECTORS: dict[str, tuple[list[Call], list[Call]]] = {
    "perfect": ([PARIS, CONVERT], [PARIS, CONVERT]),
    "swapped": ([PARIS, CONVERT], [CONVERT, PARIS]),
    "missing": ([PARIS, CONVERT], [PARIS]),
    "extra": ([PARIS], [PARIS, CONVERT]),
    "text": ([CONVERT], [call("convert", f="75")]),
    "float": ([CONVERT], [call("convert", f=75.0)]),
    "argument": ([call("weather", location="Paris", unit="C")], [PARIS]),
    "bare": ([call("ping")], [call("ping", loud=True)]),
    "twice": ([PARIS], [PARIS, PARIS]),
    "empty": ([], []),
    "nothing made": ([PARIS], []),
    "nothing wanted": ([], [PARIS]),
    "paired wrongly": ([A, B], [B, C]),
    "true": ([call("set", on=1)], [call("set", on=True)]),
}


def vectors(**scores: tuple[float, float, float]) -> pytest.MarkDecorator:
    """Parametrise by the vectors, with the scores strict, flexible and F1."""
    return pytest.mark.parametrize(
        ("name", "scores"), [(name.replace("_", " "), three) for name, three in scores.items()]
    )


def scores_of(name: str, **settings: Any) -> tuple[float | None, ...]:
    """Give the scores of a vector: strict, flexible and F1."""
    wanted, made = VECTORS[name]
    judges = (
        load("ragas.tool_call_accuracy", **settings),
        load("ragas.tool_call_accuracy", strict_order=False, **settings),
        load("ragas.tool_call_f1", **settings),
    )
    return tuple(judge(run(wanted, *([one] for one in made))).score for judge in judges)


@vectors(
    perfect=(1, 1, 1),
    swapped=(0, 1, 1),
    missing=(0, 0, 0.6667),
    extra=(0, 0, 0.6667),
    text=(1, 1, 0),
    float=(0, 0, 1),
    argument=(0.5, 0.5, 0),
    bare=(0, 0, 0),
    twice=(0, 0, 1),
    empty=(1, 1, 0),
    nothing_made=(0, 0, 0),
    nothing_wanted=(0, 0, 0),
    paired_wrongly=(0, 0, 0.5),
    true=(0, 0, 1),
)
def test_compat_gives_the_numbers_of_the_reference(name: str, scores: tuple[float, float, float]) -> None:
    """As ragas 0.4.3 does when run."""
    assert scores_of(name, variant="compat") == pytest.approx(scores, abs=1e-12)


@vectors(
    perfect=(1, 1, 1),
    swapped=(0.5, 1, 1),
    missing=(0.5, 0.5, 2 / 3),
    extra=(0.5, 0.5, 2 / 3),
    text=(0, 0, 0),
    float=(1, 1, 1),
    argument=(0.5, 0.5, 0),
    bare=(1, 1, 0),
    twice=(0.5, 0.5, 2 / 3),
    empty=(1, 1, 1),
    nothing_made=(0, 0, 0),
    nothing_wanted=(0, 0, 0),
    paired_wrongly=(0.5, 0.5, 0.5),
    true=(0, 0, 0),
)
def test_corrected_scores_give_partial_credit(name: str, scores: tuple[float, float, float]) -> None:
    """Aligned argument scores / the more of the calls wanted and made; F1 of multisets, exactly."""
    assert scores_of(name) == pytest.approx(scores, abs=1e-12)


async def test_no_model_is_asked() -> None:
    """Sync and async say the same, without a call."""
    for name in ("ToolCallAccuracy", "tool_call_f1"):
        judge = load(name)
        for verdict in (judge(run([PARIS, CONVERT], [PARIS])), await judge.acall(run([PARIS, CONVERT], [PARIS]))):
            assert (verdict.usage.calls, len(verdict.items)) == (0, 2)
        assert (judge.explain().calls, judge.models) == ("0", ())


@pytest.mark.parametrize("variant", ["corrected", "compat"])
@pytest.mark.parametrize("name", ["tool_call_accuracy", "tool_call_f1"])
def test_without_a_reference_there_is_no_score(name: str, variant: str) -> None:
    """None says nothing about the calls, whereas an empty list says that none is wanted."""
    assert load(name, variant=variant)(run(None, [PARIS])).unscored == "no_reference"


def test_an_agent_that_did_nothing_is_not_judged() -> None:
    """Without any message of the assistant there is nothing to compare, not even where no calls are wanted."""
    silent = {"user_input": "Hi!", "reference_tool_calls": []}
    assert load("tool_call_accuracy")(silent).unscored == "no_response"
    assert load("tool_call_f1")(silent).unscored == "no_response"
    assert load("tool_call_accuracy", variant="compat")(silent).score == 1


def test_calls_of_all_turns_count() -> None:
    """Earlier turns, parallel calls, the last turn and the trajectory are one list."""
    sample: Any = {
        "user_input": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "", "tool_calls": [A, B]},
            {"role": "tool", "content": "ok"},
            {"role": "assistant", "content": "Done. More?"},
            {"role": "user", "content": "Yes"},
            {"role": "assistant", "content": "", "tool_calls": [C]},
            {"role": "tool", "content": "ok"},
        ],
        "trajectory": [{"role": "assistant", "content": "", "tool_calls": [D]}],
        "response": "Done.",
        "reference_tool_calls": [A, B, C, D],
    }
    assert load("tool_call_accuracy")(sample).score == 1
    assert load("tool_call_f1", variant="compat")(sample).score == 1


def test_missing_surplus_and_misordered_calls_are_named() -> None:
    """Each kind of fault is told apart, in words to act on."""
    wanted = [PARIS, CONVERT, call("log", level=1), call("mail", to="x")]
    made = [CONVERT, PARIS, call("log", level=2), call("delete")]
    verdict = load("tool_call_accuracy", reveal_reference=True)(run(wanted, *([one] for one in made)))
    assert verdict.score == 0.25
    assert verdict.feedback.splitlines() == [
        "These tool calls are missing; make them:",
        '- mail(to="x")',
        "These tool calls were not wanted, or were made too often; leave them out:",
        "- delete()",
        "These tool calls were made in the wrong order; make them in their place:",
        '- weather(location="Paris") - made as call 2, wanted as call 1',
        "These tool calls had wrong arguments; correct them:",
        "- log(level=2) - `level` should be 1",
    ]
    assert standings(verdict) == [
        ('weather(location="Paris")', "misordered"),
        ("convert(f=75)", "matched"),
        ("log(level=2)", "wrong_arguments"),
        ('mail(to="x")', "missing"),
        ("delete()", "surplus"),
    ]
    assert [one.passed for one in verdict.items] == [False, True, False, False, False]


def test_calls_of_one_message_have_no_order() -> None:
    """Parallel calls are a set; the order of messages counts."""
    judge = load("tool_call_accuracy")
    assert judge(run([A, B, C], [B, A], [C])).score == 1
    assert judge(run([A, B, C], [C, B, A])).score == 1
    assert judge(run([A, B, C], [B], [A, C])).score == pytest.approx(2 / 3)
    assert judge(run([A, B, A], [A, B], [A])).score == 1
    assert judge(run([A, A, B], [A, B], [A])).score == pytest.approx(2 / 3)


def test_the_expected_calls_are_not_handed_to_the_generator() -> None:
    """The feedback tells no expected value; the rationale, which the generator does not read, does."""
    wanted = [call("weather", city="Xanadu"), call("mail", to="Kublai"), call("log", level=7)]
    made = [[call("log", level=1)], [call("weather")], [call("delete")]]
    for name in ("tool_call_accuracy", "tool_call_f1"):
        for question in ("How warm?", "多少度？", "Сколько градусов?"):
            row = run(wanted, *made)
            row["user_input"][0]["content"] = question
            verdict = load(name)(row)
            assert not any(secret in verdict.feedback for secret in ("Xanadu", "Kublai", "7", "mail"))
            assert "delete()" in verdict.feedback
            assert "Kublai" in verdict.rationale
            assert "Kublai" in load(name, reveal_reference=True)(row).feedback


def test_what_is_wrong_with_arguments_is_said() -> None:
    """A wrong value, one left out and one too many."""
    judge = load("tool_call_accuracy", extra_arguments="strict")
    verdict = judge(run([call("f", a=1, b=2, c=[3])], [call("f", a=1, b="2", d=4)]))
    assert verdict.score == 0.25
    assert (
        verdict.items[0].detail == "`b` should be 2; `c` was left out; it should be [3]; `d` should not be given"
    )


@pytest.mark.parametrize(
    ("question", "said"),
    [("巴黎现在多少度？", "缺少以下工具调用"), ("Сколько градусов в Париже?", "Не хватает этих вызовов")],
)
def test_the_feedback_is_in_the_language_of_the_question(question: str, said: str) -> None:
    """Chinese and Russian, and a name in their scripts stays readable."""
    verdict = load("tool_call_accuracy", reveal_reference=True)(
        user_input=question, response="?", reference_tool_calls=[call("weather", city="北京 Москва")]
    )
    assert said in verdict.feedback
    assert '- weather(city="北京 Москва")' in verdict.feedback


def test_a_perfect_run_has_no_feedback() -> None:
    """Nothing to change, nothing said."""
    verdict = load("tool_call_accuracy")(run([PARIS, CONVERT], [PARIS], [CONVERT]))
    assert (verdict.feedback, verdict.rationale, verdict.passed) == ("", "", True)


@pytest.mark.parametrize(
    ("one", "other", "strictly", "leniently"),
    [
        (75, 75.0, True, True),
        (75, "75", False, True),
        (75.0, " 75 ", False, True),
        ("75.0", "75", False, True),
        (1, True, False, False),
        (0, False, False, False),
        (True, "True", False, True),
        (None, "null", False, True),
        (None, False, False, False),
        ("", None, False, False),
        ("a", "A", False, False),
        ("nan", "NaN", False, False),
        ([1, 2], [1.0, 2.0], True, True),
        ([1, 2], [2, 1], False, False),
        ([True], [1], False, False),
        ({"a": [{"b": 1}], "c": 2}, {"c": 2.0, "a": [{"b": 1.0}]}, True, True),
        ({"a": "1"}, {"a": 1}, False, True),
        ({}, [], False, False),
        ([["a", 1]], {"a": 1}, False, False),
        (10**400, 10**400, True, True),
        ("北京", "北京", True, True),
    ],
)
def test_values_are_equal_as_json(one: Any, other: Any, strictly: bool, leniently: bool) -> None:  # noqa: FBT001
    """Numbers by value, true and false apart from numbers, texts as texts unless told to be lenient."""
    assert (same_value(one, other), same_value(other, one)) == (strictly, strictly)
    assert (same_value(one, other, lenient=True), same_value(other, one, lenient=True)) == (leniently, leniently)


def test_lenient_judges_take_the_text_that_spells_a_number() -> None:
    """In both judges, nested values too."""
    wanted, made = [call("f", a={"b": [75]})], [call("f", a={"b": ["75.0"]})]
    for name in ("tool_call_accuracy", "tool_call_f1"):
        assert load(name)(run(wanted, made)).score == 0
        assert load(name, lenient=True)(run(wanted, made)).score == 1


def test_the_longest_common_subsequence_is_aligned() -> None:
    """One call too many at the beginning moves nothing else out of place."""
    verdict = load("tool_call_accuracy")(run([A, B, C], [D, A, B, C]))
    assert (verdict.score, standings(verdict)[-1]) == (0.75, ('do(what="d")', "surplus"))


def test_calls_with_wrong_arguments_keep_their_place() -> None:
    """A shifted list is told as one missing and one surplus call, not as all arguments wrong."""
    verdict = load("tool_call_accuracy")(run([A, B, C], [B, C, D]))
    assert verdict.score == pytest.approx(2 / 3)
    assert standings(verdict) == [
        ('do(what="a")', "missing"),
        ('do(what="b")', "matched"),
        ('do(what="c")', "matched"),
        ('do(what="d")', "surplus"),
    ]


def test_without_order_identical_calls_are_paired_first() -> None:
    """Whatever the order, as many calls as can be are right."""
    judge = load("tool_call_accuracy", strict_order=False)
    wanted = [call("f", a=1, b=1), call("f", a=1, b=2), call("f", a=2, b=2)]
    for made in itertools.permutations([call("f", a=2, b=2), call("f", a=1, b=3), call("f", a=2, b=1)]):
        assert judge(run(wanted, list(made))).score == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("match", "scores"),
    [
        ("strict", (0.5, 0.5, 0.5)),
        ("unordered", (1, 0.5, 0.5)),
        ("subset", (1, 1, 0.5)),
        ("superset", (1, 0.5, 1)),
    ],
)
def test_ways_of_matching(match: str, scores: tuple[float, ...]) -> None:
    """For calls swapped, one missing, one surplus: what a way of matching does not mind costs nothing."""
    judge = load("tool_call_accuracy", match=match)
    cases = [([A, B], [B, A]), ([A, B], [A]), ([A], [A, B])]
    verdicts = [judge(run(wanted, *([one] for one in made))) for wanted, made in cases]
    assert tuple(one.score for one in verdicts) == scores
    assert [bool(one.feedback) for one in verdicts] == [score < 1 for score in scores]


def close(wanted: Any, given: Any) -> float:
    """Give full marks for the same text in other letters."""
    return 1.0 if str(wanted).casefold() == str(given).casefold() else 0.25


@pytest.mark.parametrize(
    ("metric", "score"),
    [
        (None, 0.0),
        (close, 0.625),
        ({"city": close}, 0.5),
        ({"weather": close}, 0.625),
        ({"weather": {"unit": close}}, 0.125),
        ({"other": close}, 0.0),
        ({}, 0.0),
    ],
)
@pytest.mark.parametrize("variant", ["corrected", "compat"])
def test_arguments_may_be_compared_otherwise(metric: Any, score: float, variant: str) -> None:
    """By one function, or by functions for a tool, for a tool's argument, or for an argument of any tool."""
    judge = load("tool_call_accuracy", arg_comparison_metric=metric, variant=variant)
    wanted, made = [call("weather", city="PARIS", unit=1)], [call("weather", city="Paris", unit=2)]
    assert judge(run(wanted, made)).score == score


def test_compat_compares_arguments_as_texts() -> None:
    """The function sees what ragas shows it: the values as Python writes them."""
    seen = []

    def compare(wanted: Any, given: Any) -> bool:
        seen.append((wanted, given))
        return True

    judge = load("tool_call_accuracy", arg_comparison_metric=compare, variant="compat")
    assert judge(run([call("f", a=None)], [call("f", a=[1.0])])).score == 1
    assert set(seen) == {("None", "[1.0]")}


@pytest.mark.parametrize("given", [1.5, -0.1, float("nan"), "yes", None])
def test_a_comparison_out_of_range_is_no_verdict(given: Any) -> None:
    """What is no number from 0 to 1 scores nothing."""
    judge = load("tool_call_accuracy", arg_comparison_metric=lambda wanted, made: given)
    assert judge(run([PARIS], [call("weather", location="Rome")])).unscored == "judge_failed"


@pytest.mark.parametrize(
    "settings",
    [
        {"match": "loose"},
        {"match": "strict", "strict_order": False},
        {"extra_arguments": "some"},
        {"arg_comparison_metric": 3},
        {"arg_comparison_metric": {"f": {"a": "exact"}}},
        {"arg_comparison_metric": ScriptedJudge([1])},
        {"variant": "compat", "match": "subset"},
        {"variant": "compat", "lenient": True},
        {"variant": "compat", "extra_arguments": "strict"},
        {"model": "openai:gpt-5-mini"},
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any]) -> None:
    """At construction, in one line."""
    with pytest.raises(ConfigurationError) as error:
        load("tool_call_accuracy", **settings)
    assert "\n" not in str(error.value)


def test_compat_f1_is_not_lenient() -> None:
    """The reference knows no such setting."""
    with pytest.raises(ConfigurationError, match="not lenient"):
        load("tool_call_f1", variant="compat", lenient=True)


def test_pairing_finds_the_heaviest() -> None:
    """Against all permutations, on many small tables; every row or every column is paired."""
    random_ = random.Random(5)
    for _ in range(300):
        rows, columns = random_.randint(1, 5), random_.randint(1, 5)
        weights = [[random_.choice([0, 1 / 3, 0.5, 1]) for _ in range(columns)] for _ in range(rows)]
        found = matching(weights)
        wide = weights if rows <= columns else [list(one) for one in zip(*weights, strict=True)]
        best = max(
            sum(line[place] for line, place in zip(wide, places, strict=False))
            for places in itertools.permutations(range(max(rows, columns)), min(rows, columns))
        )
        assert len(found) == min(rows, columns)
        assert sum(weights[row][column] for row, column in found) == pytest.approx(best)


def test_a_common_subsequence_never_crosses() -> None:
    """Rows and columns rise together, and nothing that cannot be paired is."""
    random_ = random.Random(6)
    for _ in range(300):
        weights = [[random_.choice([None, 0, 0.5, 1]) for _ in range(6)] for _ in range(5)]
        found = ordered_matching(weights)
        assert all(one[0] < other[0] and one[1] < other[1] for one, other in itertools.pairwise(found))
        assert all(weights[row][column] is not None for row, column in found)
    assert ordered_matching([]) == matching([]) == matching([[]]) == []


@pytest.mark.parametrize("ordered", [True, False])
def test_two_hundred_calls_are_compared_at_once(ordered: bool) -> None:  # noqa: FBT001
    """Even where every call is of the same tool and no two are the same."""
    random_ = random.Random(7)
    calls = [ToolCall(name="f", args={one: random_.randrange(9) for one in "abcdef"}) for _ in range(400)]
    began = time.process_time()
    CallComparison().align(calls[:200], calls[200:], ordered=ordered)
    assert time.process_time() - began < 2


def test_thousands_of_calls_made_as_wanted_are_no_trouble() -> None:
    """What is the same at both ends is not searched through."""
    calls = [call("f", number=number) for number in range(3000)]
    verdict = load("tool_call_accuracy")(run(calls, [*calls[:1500], PARIS, *calls[1500:]]))
    assert (verdict.score, verdict.items[-1].value) == (3000 / 3001, "surplus")


@pytest.mark.parametrize("strict_order", [True, False])
def test_too_many_calls_are_unscored(strict_order: bool) -> None:  # noqa: FBT001
    """Rather than compared for minutes."""
    wanted, made = ([call("f", a=place + number) for number in range(2000)] for place in (0, 5000))
    assert load("tool_call_accuracy", strict_order=strict_order)(run(wanted, made)).unscored == "undefined"


def test_long_arguments_are_cut_where_they_are_shown() -> None:
    """A megabyte in an argument, with blanks or without, leaves the feedback readable."""
    for text in ("слово " * 200_000, "字" * 1_000_000):
        verdict = load("tool_call_accuracy", reveal_reference=True)(run([call("f", text=text, more="x")], []))
        assert len(verdict.feedback) < 300
        assert 'more="x"' in verdict.feedback


def test_a_call_is_written_as_code() -> None:
    """Values are JSON; braces and emoji stay as they are, and a line stays a line."""
    shown = render_call(ToolCall(name="f", args={"a": {"b": [None, True]}, "c": "{x}\n🙂", "d": 1.0}))
    assert shown == 'f(a={"b": [null, true]}, c="{x}\\n🙂", d=1.0)'
