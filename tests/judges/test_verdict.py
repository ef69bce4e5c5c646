"""A verdict keeps rating, score and pass mark consistent; grounded answers, and how likely each rating was."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_openai import ChatOpenAI
from pydantic import SecretStr, ValidationError

import judges
from judges import (
    Cache,
    ConfigurationError,
    Helpfulness,
    Judge,
    OpenAICompatible,
    Rubric,
    Unscored,
    Usage,
    Verdict,
    cached,
    load,
    speaking,
)
from judges.testing import ScriptedModel
from refine import SelfRefine
from tests.kit import Way, ask, both_ways
from tests.likely import Form, Token, assessed, completion
from tests.model_server import Asked, Reply, Wire, answered, in_turn, serving


@pytest.mark.parametrize(("rating", "score"), [(1, 0), (2, 1 / 3), (3, 2 / 3), (4, 1)])
def test_a_native_rating_gives_the_score(rating: int, score: float) -> None:
    """A rating r means the score (r - 1) / 3 and passes from 3."""
    verdict = Verdict.rated(rating)
    assert (verdict.value, verdict.rating, verdict.score) == (rating, rating, score)
    assert verdict.passed is (rating >= 3)
    assert verdict.rated_natively


@pytest.mark.parametrize(
    ("score", "rating"),
    [(0, 1), (0.16, 1), (0.17, 2), (1 / 3, 2), (0.49, 2), (0.5, 3), (2 / 3, 3), (0.83, 3), (0.84, 4), (1, 4)],
)
def test_a_score_gives_the_rating(score: float, rating: int) -> None:
    """A score s means the rating 1 + round(3 s)."""
    verdict = Verdict.scored(score)
    assert (verdict.score, verdict.rating) == (score, rating)
    assert not verdict.rated_natively


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_score_passes_at_its_threshold(score: float, threshold: float) -> None:
    """The pass mark is reached, not exceeded; the rating is the rounded score."""
    verdict = Verdict.scored(score, threshold=threshold)
    assert verdict.passed is (score >= threshold)
    assert verdict.rating == 1 + round(3 * score)


@pytest.mark.parametrize(("passed", "rating"), [(True, 4), (False, 1)])
def test_a_check_gives_the_best_or_the_worst(passed: bool, rating: int) -> None:  # noqa: FBT001
    """Yes is 4 and 1.0, no is 1 and 0.0."""
    verdict = Verdict.checked(passed)
    assert (verdict.value, verdict.passed, verdict.rating, verdict.score) == (passed, passed, rating, passed)


@pytest.mark.parametrize(
    ("make", "wrong", "message"),
    [
        (Verdict.rated, [0, 5, -1, True, 4.0, "4", None], "rating"),
        (Verdict.scored, [-0.1, 1.1, float("nan"), float("inf")], "a score lies from 0 to 1, not"),
    ],
)
def test_what_is_no_rating_or_score_is_refused(
    make: Callable[[Any], Verdict], wrong: list[Any], message: str
) -> None:
    """A rating is an integer from 1 to 4, and lookalikes are rejected; a score outside 0 to 1 is never clamped."""
    for mark in wrong:
        with pytest.raises(ValueError, match=message):
            make(mark)


@pytest.mark.parametrize("reason", get_args(Unscored))
def test_unscored_is_no_score(reason: Unscored) -> None:
    """An unscored verdict has its reason and neither score, rating nor passed."""
    verdict = Verdict.without_score(reason, "why")
    assert (verdict.unscored, verdict.detail) == (reason, "why")
    assert (verdict.score, verdict.rating, verdict.passed, verdict.value) == (None, None, None, None)


@pytest.mark.parametrize(
    ("verdict", "passed", "rating", "gates"),
    [
        (Verdict.rated(3, success_rating=4), False, 3, {1, 2, 3}),
        (Verdict.scored(0.8, threshold=0.9), False, 3, set()),
        (Verdict.scored(0.8, threshold=0.7), True, 3, {1, 2, 3}),
        (Verdict.scored(0.4, threshold=0.3), True, 2, {1, 2}),
        (Verdict.scored(0.5, threshold=0.75, value=3), False, 3, set()),
        (Verdict.without_score("judge_failed"), None, None, set()),
    ],
)
def test_a_native_rating_opens_a_gate_and_a_score_must_have_passed(
    verdict: Verdict, *, passed: bool | None, rating: int | None, gates: set[int]
) -> None:
    """A native rating is compared as it is; a score, and a level of another scale, must reach its own pass mark.

    So a threshold fitted offline holds online. An unscored verdict passes no gate, not even the lowest, and
    `if judge(...)` asks for the judge's own pass mark, which it did not reach.
    """
    assert (verdict.passed, verdict.rating, bool(verdict)) == (passed, rating, passed is True)
    assert {gate for gate in (1, 2, 3, 4) if verdict.reaches(gate)} == gates


VERDICTS = st.one_of(
    st.builds(Verdict.rated, st.sampled_from([1, 2, 3, 4]), feedback=st.text()),
    st.builds(Verdict.scored, st.floats(0, 1), subject=st.text(), usage=st.builds(Usage, cost=st.none())),
    st.builds(Verdict.checked, st.booleans(), model=st.none() | st.text(), latency_s=st.floats(0, 9)),
    st.builds(Verdict.without_score, st.sampled_from(get_args(Unscored)), raw=st.text()),
)


@given(VERDICTS, st.lists(VERDICTS, max_size=2))
def test_a_verdict_survives_json(verdict: Verdict, items: list[Verdict]) -> None:
    """A JSON round trip returns the same verdict, with the same types and the same result at every gate."""
    original = verdict.model_copy(update={"items": tuple(items)})
    restored = Verdict.model_validate_json(original.model_dump_json())
    assert restored == original
    assert type(restored.value) is type(original.value)
    assert [restored.reaches(mark) for mark in (1, 2, 3, 4)] == [original.reaches(mark) for mark in (1, 2, 3, 4)]


def test_a_verdict_is_frozen_and_takes_no_strange_field() -> None:
    """A verdict cannot be changed, and a misspelt field is an error."""
    with pytest.raises(ValidationError, match="frozen"):
        Verdict.checked(passed=True).feedback = "x"
    with pytest.raises(ValueError, match="a verdict has no 'reason'; it is rationale"):
        Verdict.checked(passed=True, reason="x")


def test_usages_add_up() -> None:
    """Calls, tokens and cost are summed, and `sum` works with a start; a sum with an unknown part is unknown."""
    usage = Usage(calls=1, input_tokens=10, output_tokens=5, cost=0.25)
    total = sum([usage, usage], Usage())
    assert total == Usage(calls=2, input_tokens=20, output_tokens=10, cost=0.5)
    assert total.tokens == 30
    for one, other in ((None, 0.5), (0.5, None), (None, None)):
        assert (Usage(calls=1, cost=one) + Usage(calls=1, cost=other)).cost is None


@given(st.builds(Usage, calls=st.integers(0, 9), input_tokens=st.integers(0, 9), cost=st.none() | st.floats(0, 9)))
def test_nothing_adds_nothing(usage: Usage) -> None:
    """Adding what consumed nothing changes nothing, on either side; `bool` is whether anything was consumed."""
    assert usage + Usage() == usage
    assert not Usage()
    assert Usage() + usage == (usage or Usage())


@pytest.mark.parametrize("report", [None, -1, 10**12, float("nan"), float("inf"), "7", True, [7]])
def test_a_report_that_cannot_be_is_unknown(report: object) -> None:
    """Tokens that are missing, negative, absurd or no number are not taken, and never an error."""
    for usage in (Usage.of_call(report, 3), Usage.of_call(3, report)):
        assert (usage.calls, usage.tokens, usage.tokens_known, usage.cost) == (1, 3, False, None)
        assert not (usage + Usage.of_call(1, 2.0)).tokens_known
    assert Usage.of_call(1, 2.0) == Usage(calls=1, input_tokens=1, output_tokens=2, cost=None)


@pytest.mark.parametrize("field", ["calls", "input_tokens", "output_tokens", "cost"])
def test_nothing_is_used_less_than_not_at_all(field: str) -> None:
    """Negative counts are refused."""
    with pytest.raises(ValidationError, match=field):
        Usage.model_validate({field: -1})


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ({"rating": 2}, Verdict.rated(2)),
        ({"rating": 3, "feedback": "More."}, Verdict.rated(3, feedback="More.")),
        ({"score": 0.7}, Verdict.scored(0.7)),
        ({"passed": False}, Verdict.checked(False)),  # noqa: FBT003 - the result of the check
        ({"score": 1.0, "passed": True}, Verdict.scored(1.0)),
        ({"score": 0.8, "passed": False}, Verdict.scored(0.8, threshold=0.9)),
        ({"score": 0.2, "passed": True, "value": "low"}, Verdict.scored(0.2, threshold=0.1, value="low")),
        ({"rating": 3, "passed": False}, Verdict.rated(3, success_rating=4)),
        ({"rating": 4, "passed": True}, Verdict.rated(4)),
        ({"rating": 1, "passed": True}, Verdict.rated(1, success_rating=1)),
    ],
    ids=str,
)
def test_one_mark_implies_the_others(marks: dict[str, Any], expected: Verdict) -> None:
    """A verdict made from one mark, or from one and a pass mark, equals that of the constructor method."""
    assert Verdict(**marks) == expected


@pytest.mark.parametrize(
    "marks",
    [
        *({"rating": 5}, {"rating": True}, {"score": 1.5}, {"rating": 3, "score": 0.7}),
        *({"score": 1.5, "passed": True}, {"rating": 0, "passed": False}, {"rating": 4, "passed": False}),
        {"unscored": "undefined", "score": 1.0, "passed": True},
        *({}, {"score": 1.0, "rating": 4}, {"unscored": "no_idea"}),
        *({"unscored": "no_claims", "score": 0.0}, {"unscored": "no_claims", "passed": False}),
    ],
    ids=str,
)
def test_a_mark_out_of_range_or_half_given_is_refused(marks: dict[str, Any]) -> None:
    """Marks that cannot be completed are rejected, two lead to no guess at the third, and none has a reason."""
    with pytest.raises(ValueError, match=r"Verdict\.checked\(True\) make one$"):
        Verdict(**marks)


ROW = {"question": "?", "answer": "One is. Two is.", "retrieved_contexts": ["One is."]}


def judge_of(name: str, standings: tuple[str, ...], **settings: Any) -> Judge:
    """Load a judge whose model finds each part of the answer supported, contradicted or absent."""
    claims = {"claims": [f"claim {number}" for number, _ in enumerate(standings, 1)]}
    items = [
        {"number": number, "reason": "Because.", "verdict": standing}
        for number, standing in enumerate(standings, 1)
    ]
    script = [{"items": items}] if name == "databricks.groundedness" else [claims, {"items": items}]
    return judges.load(name, ScriptedModel(script, cycle=True), **settings)


@pytest.mark.parametrize("name", ["ragas.faithfulness", "hallucination", "databricks.groundedness"])
@pytest.mark.parametrize(
    ("standings", "threshold", "passed"),
    [
        (("supported", "supported"), 0.5, True),
        (("supported", "absent"), 0.5, True),
        (("supported", "absent"), 0.4, True),
        (("absent", "absent"), 0.5, False),
        (("supported", "absent"), 1.0, False),
        (("supported", "contradicted"), 0.5, False),
        (("supported", "contradicted"), 0.0, False),
    ],
)
async def test_one_contradicted_part_refuses_and_the_rating_follows_the_threshold(
    name: str, standings: tuple[str, ...], threshold: float, *, passed: bool
) -> None:
    """The score stays the share; what passes is rated 3 or 4, and what does not 1 or 2."""
    judge = judge_of(name, standings, threshold=threshold)
    for verdict in (judge(ROW), await judge.acall(ROW)):
        assert verdict.score == standings.count("supported") / 2
        assert (verdict.passed, (verdict.rating or 0) >= 3, verdict.reaches(3)) == (passed, passed, passed)


def test_a_loop_releases_no_contradicted_answer() -> None:
    """It is refused although half of it is supported."""
    judge = judge_of("ragas.faithfulness", ("supported", "contradicted"))
    refiner = SelfRefine(lambda messages: "One is. Two is.", judge, max_attempts=2)
    outcome = refiner.refine("?", evidence={"retrieved_contexts": ["One is."]})
    assert (outcome.passed, len(outcome.attempts)) == (False, 2)


SHARES = {"1": 0.02, "2": 0.13, "3": 0.25, "4": 0.4}
TOTAL = math.fsum(SHARES.values())
EXPECTED = math.fsum((int(one) - 1) / 3 * share for one, share in SHARES.items()) / TOTAL
QUESTION = {"question": "Why is it wet?", "answer": "Because it has rained."}
NAIVE = 'Na\u00efve, \u5854, \U0001f600: "rating": 1, \\ and 3 of 4.'

every_form = pytest.mark.parametrize("form", get_args(Form))


async def assess(way: Way, script: Callable[[Asked], Reply | Wire], times: int = 1) -> tuple[Verdict, list[Asked]]:
    """Give what a judge says that asks for probabilities, and what the endpoint was asked."""
    with serving(script) as server:
        async with OpenAICompatible(server.url, model="m", api_key="") as model:
            judge = Helpfulness(model, probabilities=True)
            verdicts = [await ask(judge, way, **QUESTION) for _ in range(times)]
    return verdicts[-1], server.requests


@both_ways
@every_form
async def test_the_score_is_the_expectation(form: Form, way: Way) -> None:
    """Renormalised over the four ratings, whatever else the endpoint lists and however it writes it."""
    shares = {**SHARES, "5": 0.05, "33": 0.05, "null": 0.04, "": 0.01}
    tokens = assessed(4, shares, before=": ", rationale=NAIVE)
    verdict, requests = await assess(way, lambda _: completion(tokens, form))

    assert (requests[0]["logprobs"], requests[0]["top_logprobs"]) == (True, 20)
    assert verdict.score == pytest.approx(EXPECTED, abs=1e-9)
    assert verdict.probabilities == pytest.approx([share / TOTAL for share in SHARES.values()], abs=1e-9)
    assert verdict.p_pass == pytest.approx((SHARES["3"] + SHARES["4"]) / TOTAL, abs=1e-9)
    assert (verdict.rating, verdict.value, verdict.passed, verdict.rated_natively) == (4, 4, True, True)
    assert (verdict.rationale, verdict.no_probabilities) == (NAIVE, "")


@pytest.mark.parametrize("form", ["openai", "vllm", "llama.cpp"])
@pytest.mark.parametrize(
    ("before", "behind"), [("", ""), (" ", ""), (": ", ""), ('": ', ""), ("", ","), (" ", ', "'), ('ng": ', ", ")]
)
async def test_the_token_is_found_by_its_place(before: str, behind: str, form: Form) -> None:
    """It may hold the quote, the colon, the blank before the digit, and what is behind it."""
    tokens = assessed(3, SHARES, before=before, behind=behind, rationale=NAIVE)
    verdict, _ = await assess("async", lambda _: completion(tokens, form))

    assert verdict.score == pytest.approx(EXPECTED, abs=1e-9)


async def test_letters_in_pieces_do_not_move_it() -> None:
    """A letter that several tokens make up is lost in vLLM's texts, before the rating or behind it."""
    halves: list[Token] = [("\u5854".encode()[:1], {}), ("\u5854".encode()[1:], {})]
    whole = assessed(3, SHARES, before=" ", rationale="x")
    place = next(number for number, (text, _) in enumerate(whole) if text == "x")
    before = [*whole[:place], *halves, *whole[place + 1 :]]
    behind = [*whole[:-1], (', "feedback": "', {}), *halves, ('"}', {}), ("<|im_end|>", {})]
    for tokens in (before, behind):
        wire = spoken(tokens, "vllm")
        verdict, _ = await assess("async", in_turn(wire))
        assert verdict.score == pytest.approx(EXPECTED, abs=1e-9)


def spoken(tokens: list[Token], form: Form) -> Wire:
    """Answer with a text without the end of the turn, which is a token all the same."""
    from tests.likely import as_bytes, logprobs_of  # noqa: PLC0415 - used here alone

    text = b"".join(as_bytes(one) for one, _ in tokens).decode().removesuffix("<|im_end|>")
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return answered({"model": "m", "choices": [{**choice, **logprobs_of(tokens, form)}]})


def reasoned(**message: Any) -> Wire:
    """Answer as a model that reasons."""
    text = '{"rationale": "Fine.", "rating": 4, "feedback": ""}'
    whole = {"role": "assistant", "content": text, **message}
    return answered({"model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": whole}]})


SPLIT: list[Token] = [(one, {}) for one in '{"rationale": "", "rating": ']
WITHOUT: Mapping[str, tuple[Callable[[Asked], Reply | Wire], str]] = {
    "gave no logprobs": (lambda _: Reply('{"rationale": "", "rating": 4, "feedback": ""}'), "gave no logprobs"),
    "reasons": (lambda _: reasoned(reasoning_content="Hm."), "reasons before"),
    "not the tokens": (lambda _: foreign(), "not those of the reply"),
}


def foreign() -> Wire:
    """Answer with the tokens of another text."""
    from tests.likely import logprobs_of  # noqa: PLC0415 - used here alone

    message = {"role": "assistant", "content": '{"rationale": "", "rating": 4, "feedback": ""}'}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    fields = logprobs_of(assessed(3, SHARES, rationale="Other."), "openai")
    return answered({"model": "m", "choices": [{**choice, **fields}]})


@both_ways
@pytest.mark.parametrize("case", ["gave no logprobs", "reasons", "not the tokens"])
async def test_what_the_tokens_do_not_tell_has_a_reason(case: str, way: Way) -> None:
    """There is no error: the verdict is that of a judge which does not ask, and says why it knows no more."""
    script, reason = WITHOUT[case]
    verdict, _ = await assess(way, script)

    assert (verdict.rating, verdict.score, verdict.probabilities, verdict.p_pass) == (4, 1.0, None, None)
    assert reason in verdict.no_probabilities


async def test_a_rating_over_several_tokens_is_not_guessed() -> None:
    """Levels of two digits, of which some models make two tokens, and others one."""
    levels = dict.fromkeys(range(1, 11), "so")
    tails: Mapping[str, list[Token]] = {
        "is split": [("1", {"1": 0.5, "9": 0.5}), ("0", {}), (', "feedback": ""}', {})],
        "may be split": [("9", {"1": 0.5, "9": 0.5}), (', "feedback": ""}', {})],
        "": [("10", {"10": 0.5, "9": 0.5}), (', "feedback": ""}', {})],
    }
    for reason, tail in tails.items():
        with serving(in_turn(completion([*SPLIT, *tail]))) as server:
            async with OpenAICompatible(server.url, model="m", api_key="") as model:
                judge = Rubric(model, criteria="x", levels=levels, probabilities=True)
                verdict = await judge.acall(**QUESTION)
        assert reason in verdict.no_probabilities
        assert (verdict.probabilities is None) is bool(reason)
        if not reason:
            assert verdict.score == pytest.approx((1 + 8 / 9) / 2, abs=1e-9)


@both_ways
async def test_a_refused_parameter_is_left_out_from_then_on(way: Way) -> None:
    """The endpoint is asked once without it, and never with it again."""

    def refusing(asked: Asked) -> Reply:
        if "logprobs" in asked:
            return Reply("Unsupported parameter: 'logprobs'", status=400)
        return Reply('{"rationale": "", "rating": 2, "feedback": "x"}')

    verdict, requests = await assess(way, refusing, times=2)

    assert ["top_logprobs" in asked for asked in requests] == [True, False, False]
    assert all(asked["response_format"]["type"] == "json_schema" for asked in requests)
    assert (verdict.rating, verdict.no_probabilities) == (2, "the endpoint refused logprobs")


@both_ways
async def test_labels_and_yes_or_no_have_probabilities_too(way: Way) -> None:
    """True and false are tokens as digits are, and so may be a label; the worst comes first."""
    head: list[Token] = [(one, {}) for one in '{"rationale": "", "verdict":']
    tail: Token = (', "feedback": ""}', {})
    scripts: Mapping[str, list[Token]] = {
        "fluency": [*head, (' "good', {' "good': 0.6, ' "poor': 0.2}), ('"', {}), tail],
    }
    with serving(lambda _: completion(scripts["fluency"])) as server:
        async with OpenAICompatible(server.url, model="m", api_key="") as model:
            verdict = await ask(load("fluency", model, probabilities=True), way, **QUESTION)
    assert verdict.probabilities == pytest.approx((0, 0.25, 0, 0.75), abs=1e-9)
    assert verdict.value == "good"

    with serving(lambda _: completion([*head, (" true", {" true": 0.3, " false": 0.1}), tail])) as server:
        async with OpenAICompatible(server.url, model="m", api_key="") as model:
            critic = load("ragas.aspect_critic", model, aspect="conciseness", probabilities=True)
            verdict = await ask(critic, way, **QUESTION)
    assert verdict.probabilities == pytest.approx((0.25, 0.75))
    assert verdict.score == pytest.approx(0.75)


def test_a_judge_of_several_ratings_has_none_to_weigh() -> None:
    """It says so when it is made; so does one that the source's own number of any size is asked of."""
    model = OpenAICompatible("http://127.0.0.1:1/v1", model="m", api_key="")
    for name, settings in (("completeness", {}), ("ragas.rubrics_score", {"variant": "compat"})):
        with pytest.raises(ConfigurationError, match="probabilities=True"):
            load(name, model, probabilities=True, **settings)


@both_ways
async def test_langchain_gives_them_where_the_model_can(way: Way) -> None:
    """A schema asks for the object, as no provider has the probabilities of a tool's arguments."""
    with serving(lambda _: completion(assessed(4, SHARES, before=" "))) as server:
        chat = ChatOpenAI(model="m", base_url=server.url, api_key=SecretStr("k"), max_retries=0)
        verdict = await ask(Helpfulness(chat, probabilities=True), way, **QUESTION)

    asked = server.requests[0]
    assert (asked["logprobs"], asked["top_logprobs"], asked["response_format"]["type"]) == (
        True,
        20,
        "json_schema",
    )
    assert verdict.score == pytest.approx(EXPECTED, abs=1e-9)


def test_a_cache_keeps_them(tmp_path: Any) -> None:
    """A reply from the cache is as finely scored, and one without probabilities is another question."""
    with serving(lambda _: completion(assessed(4, SHARES))) as server, Cache(tmp_path / "cache.db") as cache:
        model = cached(OpenAICompatible(server.url, model="m", api_key=""), cache)
        plain = Helpfulness(model)(**QUESTION)
        twice = [Helpfulness(model, probabilities=True)(**QUESTION) for _ in range(2)]

    assert len(server.requests) == 2
    assert plain.score == 1.0
    assert [one.score for one in twice] == [pytest.approx(EXPECTED, abs=1e-9)] * 2
    assert twice[1].usage.cached == 1


def test_a_model_with_a_format_of_its_own_says_that_it_has_none() -> None:
    """Its reply has a score of another scale, so that no token is a rating."""
    with serving(lambda _: Reply("<reasoning>Fine.</reasoning>\n<score>5</score>")) as server:
        model = speaking(OpenAICompatible(server.url, model="m", api_key=""), "glider")
        verdict = Helpfulness(model, probabilities=True)(**QUESTION)
    assert verdict.probabilities is None
    assert "format" in verdict.no_probabilities or verdict.unscored
