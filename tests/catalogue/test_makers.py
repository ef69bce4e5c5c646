"""Judges of one prompt: labels, numbers and an order, as ragas makes them."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import pytest

from judges import ConfigurationError, discrete, load, numeric, ranking
from judges.prompting.prompts import LANGUAGES, prompt
from judges.testing import ScriptedModel, raising
from tests.catalogue.cases import sample_for
from tests.catalogue.filling import FillingModel
from tests.kit import Shown, asked, items, replying
from tests.laws import for_every


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


@pytest.mark.parametrize("pack", ["answer_accuracy", "context_relevance", "response_groundedness"])
def test_the_graders_have_tasks_of_their_own(pack: str) -> None:
    """The questions are worded apart, in every language, that of the question, and each item says who gave it."""
    for language in LANGUAGES:
        model = FillingModel(language=language)
        verdict = load(f"nvidia.{pack}", model=model)(sample_for("helpfulness", language=language))
        assert [one.judge for one in verdict.items] == [pack, f"{pack}_second"]
        tasks = [prompt(name, language).task for name in (pack, f"{pack}_second")]
        told = [messages[0].text for messages in model.prompts]
        assert sorted(sum(task in text for text in told) for task in tasks) == [1, 1]


SOURCE = "s" * 310
REPLIES = [{"keyphrases": ["phrase"]}, {"questions": ["One?", "Two?", "Three?"]}, items(*[True, True, False])]


@for_every("coeff, length", itertools.product([0, 0.1, 0.3, 0.5, 0.9, 1], [1, 31, 150, 310, 400]))
def test_the_score_lies_between_its_parts(coeff: float, length: int) -> None:
    """It is never above 1, and never above both parts."""
    judge = load("ragas.summarization_score", model=ScriptedModel(REPLIES), coeff=coeff)
    verdict = judge(response="t" * length, reference_contexts=[SOURCE])
    assert 0 <= (verdict.score or 0) <= max(2 / 3, 1 - length / 310) + 1e-12


SENTENCES = {
    "en": "You can send the shoes back within thirty days.",
    "de": "Sie können die Schuhe innerhalb von dreißig Tagen zurücksenden.",
    "fr": "Vous pouvez renvoyer les chaussures dans les trente jours.",
    "es": "Puede devolver los zapatos en un plazo de treinta días.",
    "ru": "Вы можете вернуть туфли в течение тридцати дней.",
    "uk": "Ви можете повернути туфлі протягом тридцяти днів.",
    "zh": "您可以在三十天内退回鞋子。",
    "ja": "靴は三十日以内に返品できます。",
    "ar": "يمكنك إرجاع الحذاء خلال ثلاثين يوما.",
}


@pytest.mark.parametrize("question", SENTENCES)
def test_the_answer_is_in_the_language_of_the_question(question: str) -> None:
    """Of nine languages each matches itself and no other, without a call; so it is where the language is set."""
    judge, fixed = load("reply_language"), load("reply_language", language=question)
    for answer, text in SENTENCES.items():
        verdict = judge(question=SENTENCES[question], answer=text)
        assert (verdict.passed, verdict.usage.calls) == (answer == question, 0), answer
        assert fixed(question="?", answer=text).passed is (answer == question), answer
