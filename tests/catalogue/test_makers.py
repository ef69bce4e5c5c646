"""Judges of one prompt: labels, numbers and an order, as ragas makes them."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from judges import ConfigurationError, discrete, numeric, ranking
from judges.testing import ScriptedModel, raising
from tests.kit import Shown, asked, replying


def reply(verdict: object) -> dict[str, Any]:
    """Write a reply with a verdict."""
    return {"rationale": "so", "verdict": verdict, "feedback": "Mend it."}


@pytest.mark.parametrize(
    ("allowed", "scores"),
    [
        (("fail", "pass"), {"fail": 0, "pass": 1}),
        (["pass", "fail"], {"fail": 0, "pass": 1}),
        (["rude", "neutral", "kind"], {"rude": 0, "neutral": 0.5, "kind": 1}),
        ({"off": 0.2, "on": 0.9}, {"off": 0.2, "on": 0.9}),
    ],
)
def test_discrete_replies_with_a_label(allowed: Any, scores: dict[str, float]) -> None:
    """Labels run from worst to best, unless their words say otherwise; scores may be set."""
    for label, score in scores.items():
        model = ScriptedModel([reply(label)])
        judge = discrete("kind", prompt="Is {response} kind?", allowed=allowed, model=model)
        with raising():
            verdict = judge(question="?", answer="Hello.")
        assert (verdict.judge, verdict.value, verdict.score) == ("kind", label, score)
        assert asked(model) == [{"response": "Hello."}]
        assert "Is `response` kind?" in model.prompts[0][0].text


@pytest.mark.parametrize(
    ("allowed", "value", "score"), [((0.0, 1.0), 0.7, 0.7), ((1, 5), 4, 0.75), ((-1.0, 1.0), 0.0, 0.5)]
)
def test_numeric_replies_with_a_number(allowed: Any, value: float, score: float) -> None:
    """The number is the value, its place in the range the score; a copy by pickle judges alike."""
    judge = numeric("depth", prompt="How deep?", allowed=allowed, model=ScriptedModel([reply(value)]))
    with raising():
        verdict = judge(answer="Hello.")
    assert (verdict.judge, verdict.value) == ("depth", value)
    assert verdict.score == pytest.approx(score)
    assert str(pickle.loads(pickle.dumps(judge)).explain()) == str(judge.explain())  # noqa: S301 - our own


def test_a_number_off_the_range_is_asked_for_again() -> None:
    """Twice wrong is no verdict; of whole ends only whole numbers are taken."""
    model = ScriptedModel([reply(7), reply(2.5)])
    assert numeric("depth", prompt="How deep?", allowed=(1, 5), model=model)(answer="Hello.").unscored
    assert len(model.prompts) == 2


def test_ranking_says_where_the_answer_stands() -> None:
    """The rank is the value, its place between last and first the score, wherever the answer is shown."""

    def by_length(data: Shown) -> dict[str, Any]:
        order = sorted(data["candidates"], key=lambda one: -len(one["text"]))
        return {"rationale": "so", "order": [one["number"] for one in order], "feedback": "Say more."}

    judge = ranking("longest", prompt="The longest is best.", model=replying(by_length), allowed=3)
    for answer, rank, score in (("aaa", 1, 1), ("aa", 2, 0.5), ("a", 3, 0)):
        rivals = [text for text in ("a", "aa", "aaa") if text != answer]
        with raising():
            verdict = judge({"question": "?", "answer": answer, "rivals": rivals})
        assert (verdict.value, verdict.score, bool(verdict.feedback)) == (rank, score, rank > 1)
        assert [item.subject for item in verdict.items] == ["aaa", "aa", "a"]
    assert judge(answer="a").unscored == "invalid_sample"
    assert "not 3" in judge({"answer": "a", "rival": "b"}).detail
    same = judge({"answer": "a", "rivals": ["a", "a"]})
    assert (same.score, same.detail, same.usage.calls) == (0.5, "all candidates are equal", 0)


def test_an_order_has_each_candidate_once() -> None:
    """One that leaves a candidate out is asked for again."""
    replies = [{"rationale": "so", "order": order, "feedback": ""} for order in ([1, 1], [1, 2])]
    model = ScriptedModel(replies)
    assert ranking("best", prompt="Better?", model=model)({"answer": "a", "rival": "b"}).score is not None
    assert len(model.prompts) == 2


def test_wrong_settings_say_what_is_right() -> None:
    """Each fault is one line with what was expected."""
    model = ScriptedModel([])
    with pytest.raises(ConfigurationError, match="prompt says in words"):
        discrete("x", prompt=" ", model=model)
    with pytest.raises(ConfigurationError, match="allowed has two ends"):
        numeric("x", prompt="?", allowed=(1, 2, 3), model=model)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(ConfigurationError, match="from the worst number up"):
        numeric("x", prompt="?", allowed=(5, 1), model=model)
    with pytest.raises(ConfigurationError, match="allowed is a whole number from 2"):
        ranking("x", prompt="?", allowed=1, model=model)
