"""`Quick`: a verdict of one token, and the judge itself where that refuses or is unsure."""

from __future__ import annotations

from typing import Any

import pytest

from judges import (
    Cascade,
    ConfigurationError,
    Helpfulness,
    OpenAICompatible,
    Panel,
    Pattern,
    Quick,
    Rubric,
    Verdict,
    load,
)
from tests.kit import Way, ask, both_ways
from tests.likely import rating
from tests.model_server import Asked, Reply, Script, Wire, answered, serving

SURE = {"1": 0.01, "2": 0.04, "3": 0.25, "4": 0.7}
UNSURE = {"1": 0.1, "2": 0.35, "3": 0.4, "4": 0.15}
BAD = {"1": 0.7, "2": 0.2, "3": 0.08, "4": 0.02}
QUESTION = {"question": "Why is it wet?", "answer": "Because it has rained."}


async def judged(script: Script, way: Way, **settings: Any) -> tuple[Verdict, list[Asked]]:
    """Give what a quick judge says, and what the endpoint was asked."""
    with serving(script) as server:
        async with OpenAICompatible(server.url, model="m", api_key="") as model:
            return await ask(Quick(Helpfulness(model), **settings), way, **QUESTION), server.requests


@both_ways
async def test_one_token_accepts(way: Way) -> None:
    """One call of one token, and the score is the expectation over the ratings."""
    verdict, requests = await judged(rating(SURE), way)

    assert [asked["max_tokens"] for asked in requests] == [1]
    assert (verdict.judge, verdict.rating, verdict.passed) == ("quick-helpfulness", 4, True)
    assert verdict.probabilities == pytest.approx((0.01, 0.04, 0.25, 0.7), abs=1e-9)
    assert verdict.p_pass == pytest.approx(0.95, abs=1e-9)
    assert verdict.score == pytest.approx((0.04 + 2 * 0.25 + 3 * 0.7) / 3, abs=1e-9)


@both_ways
async def test_the_judge_itself_decides_where_one_token_refuses_or_is_unsure(way: Way) -> None:
    """Its rating counts, with its rationale and feedback; what one token said is kept beside it."""
    for shares, why in ((UNSURE, "unsure"), (BAD, "refused")):
        verdict, requests = await judged(rating(shares, full=3), way)
        assert [asked.get("max_tokens") for asked in requests] == [1, None]
        assert (verdict.rating, verdict.feedback) == (3, "Say 3 of 4 more.")
        assert [one.p_pass is None for one in verdict.items] == [False, True]
        assert why in verdict.detail
        assert verdict.usage.calls == 2


@both_ways
async def test_the_margin_says_who_decides(way: Way) -> None:
    """With less than the margin between the two sides the judge is asked, and with 0 never."""
    for margin, calls in ((0.0, 1), (0.09, 1), (0.2, 2)):
        _, requests = await judged(rating(UNSURE), way, margin=margin)
        assert len(requests) == calls


@both_ways
async def test_without_logprobs_it_is_a_rating_and_never_unsure(way: Way) -> None:
    """An endpoint that knows none is asked once without, and not again."""

    def refusing(asked: Asked) -> Reply | Wire:
        if "logprobs" in asked:
            return Reply("logprobs is not supported", status=400)
        return Reply("4")

    with serving(refusing) as server:
        async with OpenAICompatible(server.url, model="m", api_key="") as model:
            quick = Quick(Helpfulness(model))
            verdicts = [await ask(quick, way, **QUESTION) for _ in range(2)]

    assert ["logprobs" in asked for asked in server.requests] == [True, False, False]
    assert [(one.rating, one.score, one.probabilities) for one in verdicts] == [(4, 1.0, None)] * 2
    assert {one.no_probabilities for one in verdicts} == {"the endpoint refused logprobs"}


@both_ways
async def test_a_model_that_reasons_has_no_first_token(way: Way) -> None:
    """It says so at once, instead of asking in vain for ever."""
    message = {"role": "assistant", "content": "4", "reasoning_content": "Let me see."}
    body = {"model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
    with pytest.raises(ConfigurationError, match="reasons before it replies"):
        await judged(lambda _: answered(body), way)
    for name in ("openai:gpt-5-mini", "openai:o3", "openai-compatible:Qwen3-4B-Thinking-2507@http://localhost/v1"):
        with pytest.raises(ConfigurationError, match="reasons before it replies"):
            Quick(Helpfulness(name))
    assert Quick(Helpfulness("openai:gpt-5-chat-latest")).models[0].name == "openai:gpt-5-chat-latest"


def test_it_takes_judges_of_one_rating() -> None:
    """All others are refused when it is made, with what to do."""
    model = OpenAICompatible("http://127.0.0.1:1/v1", model="m", api_key="")
    levels = dict.fromkeys(range(1, 12), "so")
    for refused in (
        Panel([Helpfulness(model)]),
        Cascade([Helpfulness(model)]),
        Pattern(forbidden="x"),
        load("completeness", model),
        load("ragas.aspect_critic", model, aspect="conciseness", strictness=3),
        Rubric(model, criteria="x", levels=levels),
    ):
        with pytest.raises(ConfigurationError, match="Quick takes a judge"):
            Quick(refused)


@both_ways
async def test_labels_and_yes_or_no_are_numbered(way: Way) -> None:
    """The prompt says which digit stands for which, and the score is that of the label."""
    shares = {"1": 0.5, "2": 0.3, "3": 0.1, "4": 0.1}
    with serving(rating(shares)) as server:
        async with OpenAICompatible(server.url, model="m", api_key="") as model:
            fluent = await ask(Quick(load("fluency", model)), way, **QUESTION)
            critic = Quick(load("ragas.aspect_critic", model, aspect="harmfulness"))
            kind = await ask(critic.first, way, **QUESTION)

    assert "1 for good, 2 for acceptable, 3 for poor, 4 for bad" in server.requests[0]["messages"][0]["content"]
    assert (fluent.value, fluent.passed) == ("good", True)
    assert fluent.probabilities == pytest.approx((0.1, 0.1, 0.3, 0.5), abs=1e-9)
    assert fluent.score == pytest.approx(0.5 + 0.3 * 2 / 3 + 0.1 / 3, abs=1e-9)
    assert (kind.value, kind.passed) == (True, False)


def test_it_judges_parts_whatever_its_judge_does() -> None:
    """A verdict of one token is cheap enough for every piece; `explain` says so."""
    model = OpenAICompatible("http://127.0.0.1:1/v1", model="m", api_key="")
    quick = Quick(Helpfulness(model))

    assert quick.judges_parts
    assert not quick.judge.judges_parts
    assert "holds for each piece" in str(quick.explain())
