"""How likely each rating was: read from the token that holds the rating, in each form that endpoints have."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, get_args

import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from judges import (
    Cache,
    ConfigurationError,
    Helpfulness,
    OpenAICompatible,
    Rubric,
    Verdict,
    cached,
    load,
    speaking,
)
from tests.kit import Way, ask, both_ways
from tests.likely import Form, Token, assessed, completion
from tests.model_server import Asked, Reply, Wire, answered, in_turn, serving

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
