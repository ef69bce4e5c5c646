"""Spring AI's fact checking asks whether a document bears out what an answer says."""

from __future__ import annotations

from typing import Any

import pytest

from judges import ConfigurationError, load
from judges.models.wrappers.wrapped import speaking
from judges.testing import ScriptedModel
from tests.kit import asked, items, replying

EARTH: dict[str, Any] = {
    "response": "Earth is the fourth planet from the Sun.",
    "retrieved_contexts": ["Earth is the third planet from the Sun, and the only one known to harbour life.", " "],
}
THREE = {**EARTH, "response": "Earth is the fourth planet. It harbours life. It has one moon."}


def checking(*verdicts: object) -> ScriptedModel:
    """Make a model that gives these verdicts on the sentences."""
    return replying(lambda _: items(*verdicts))


def saying(word: str) -> ScriptedModel:
    """Make a model that gives its verdict on the whole in a word."""
    return replying(lambda _: {"rationale": "Because.", "verdict": word, "feedback": "Say third."})


@pytest.mark.parametrize(
    ("verdicts", "score"),
    [
        (["supported", "supported", "supported"], 1.0),
        (["contradicted", "supported", "absent"], 1 / 3),
        (["supported", "supported", "absent"], 2 / 3),
        (["contradicted", "contradicted", "absent"], 0.0),
    ],
)
async def test_the_score_is_the_share_of_supported_sentences(verdicts: list[str], score: float) -> None:
    """One call for all of them, sync and async; it passes only where all are supported."""
    judge = load("spring.fact_checking_evaluator", model=checking(*verdicts))
    for verdict in (judge(THREE), await judge.acall(THREE)):
        assert (verdict.score, verdict.value, verdict.usage.calls) == (score, score, 1)
        assert verdict.passed == (score == 1)
        assert [one.value for one in verdict.items] == verdicts


@pytest.mark.parametrize(("said", "passed"), [("contradicted", False), ("supported", True)])
def test_a_single_claim(said: str, passed: bool) -> None:  # noqa: FBT001 - a case
    """No fails with 0, yes passes with 1."""
    verdict = load("FactCheckingEvaluator", model=checking(said))(EARTH)
    assert (verdict.passed, verdict.score) == (passed, float(passed))


@pytest.mark.parametrize(
    ("word", "passed"), [("yes", True), (" YES ", True), ("no", False), ("yes.", False), ("", False)]
)
def test_compat_leaves_the_score_at_zero(word: str, passed: bool) -> None:  # noqa: FBT001 - a case
    """As in Spring AI: the word decides whether it passes, and no score is ever set."""
    verdict = load("spring.fact_checking", model=saying(word), variant="compat")(THREE)
    assert (verdict.passed, verdict.score, verdict.value, verdict.rating) == (passed, 0.0, 0.0, 1)
    assert (verdict.feedback, verdict.usage.calls) == ("" if passed else "Say third.", 1)


def test_compat_shows_the_answer_as_a_whole() -> None:
    """The document comes without blank parts."""
    model = saying("yes")
    load("spring.fact_checking", model=model, variant="compat")(THREE)
    assert asked(model) == [{"contexts": EARTH["retrieved_contexts"][:1], "answer": THREE["response"]}]


def test_the_model_is_shown_the_sentences_with_their_numbers() -> None:
    """Blank contexts are left out."""
    model = checking("supported", "supported")
    load("spring.fact_checking", model=model)({**EARTH, "response": "It lives. It turns."})
    assert asked(model) == [
        {
            "contexts": EARTH["retrieved_contexts"][:1],
            "claims": [{"number": 1, "claim": "It lives."}, {"number": 2, "claim": "It turns."}],
        }
    ]


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("Which planet is it?", "The documents contradict these sentences; correct or remove them:"),
        ("它是第几颗行星？", "以下句子与文档矛盾，请改正或删去："),
        ("Какая это планета?", "Документы противоречат этим предложениям; исправь или убери их:"),
    ],
)
def test_the_feedback_names_the_sentences(question: str, told: str) -> None:
    """Contradicted ones come first, then what nothing supports, in the language of the question."""
    judge = load("spring.fact_checking", model=checking("absent", "contradicted", "supported"))
    lines = judge({**THREE, "user_input": question}).feedback.splitlines()
    assert lines[:2] == [told, "- It harbours life."]
    assert lines[3:] == ["- Earth is the fourth planet."]


def test_nothing_is_to_be_changed_where_all_is_supported() -> None:
    """No feedback then."""
    assert load("spring.fact_checking", model=checking("supported"))(EARTH).feedback == ""


@pytest.mark.parametrize("variant", ["corrected", "compat"])
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"response": ""}, "no_response"),
        ({"response": None}, "no_response"),
        ({"retrieved_contexts": []}, "no_contexts"),
        ({"retrieved_contexts": [" "]}, "no_contexts"),
    ],
)
def test_nothing_to_judge_is_unscored(fields: dict[str, Any], reason: str, variant: Any) -> None:
    """An empty document refutes nothing, and costs nothing."""
    verdict = load("spring.fact_checking", model=checking("supported"), variant=variant)({**EARTH, **fields})
    assert (verdict.unscored, verdict.usage.calls) == (reason, 0)


def test_an_answer_without_words_makes_no_claim() -> None:
    """Dots and emoji say nothing that could be checked."""
    assert load("spring.fact_checking", model=checking())({**EARTH, "response": "... 🌍"}).unscored == "no_claims"


@pytest.mark.parametrize(
    "reply",
    [
        items("supported", "supported"),
        items("supported", "supported", "maybe"),
        items("supported", "supported", "supported", "supported"),
        {"items": [{**one, "number": 1} for one in items(*["supported"] * 3)["items"]]},
    ],
)
def test_every_sentence_gets_one_verdict(reply: dict[str, Any]) -> None:
    """One left out, doubled or out of the set is asked for again, and then unscored."""
    verdict = load("spring.fact_checking", model=ScriptedModel([reply], cycle=True))(THREE)
    assert (verdict.unscored, verdict.usage.calls) == ("invalid_output", 2)


def test_a_lower_threshold_lets_some_sentences_pass() -> None:
    """The pass mark is 1.0 unless given."""
    judge = load("spring.fact_checking", model=checking("supported", "supported", "absent"), threshold=0.6)
    assert judge(THREE).passed


def minicheck(*unsupported: str) -> ScriptedModel:
    """Make a Bespoke-MiniCheck that says no to claims with these words."""
    return ScriptedModel(
        lambda messages: "No" if any(f"{one}." in messages[-1].text for one in unsupported) else "Yes"
    )


async def test_minicheck_checks_a_sentence_at_a_time() -> None:
    """One call for each, so that a model trained on single claims can be used; sync and async."""
    model = minicheck("fourth planet")
    judge = load("spring.fact_checking", model=speaking(model, "minicheck"), prompt="minicheck")
    for verdict in (judge(THREE), await judge.acall(THREE)):
        assert (verdict.score, verdict.passed, verdict.usage.calls) == (2 / 3, False, 3)
        assert [one.value for one in verdict.items] == ["absent", "supported", "supported"]
        assert verdict.feedback.splitlines()[1:] == ["- Earth is the fourth planet."]
    assert judge.explain().calls == "s"


@pytest.mark.parametrize(("unsupported", "passed"), [(["one moon"], False), ([], True)])
def test_minicheck_in_compat_checks_the_answer_as_a_whole(
    unsupported: list[str],
    passed: bool,  # noqa: FBT001 - a case
) -> None:
    """One call, and the score stays 0."""
    model = speaking(minicheck(*unsupported), "minicheck")
    judge = load("spring.fact_checking", model=model, prompt="minicheck", variant="compat")
    verdict = judge(THREE)
    assert (verdict.passed, verdict.score, verdict.usage.calls) == (passed, 0.0, 1)
    assert judge.explain().calls == "1"


def test_a_sentence_that_is_not_checked_leaves_the_answer_unscored() -> None:
    """It might be the one that is not supported."""
    model = ScriptedModel(
        lambda messages: "Perhaps" if any("one moon." in one.text for one in messages) else "Yes"
    )
    judge = load("spring.fact_checking", model=speaking(model, "minicheck"), prompt="minicheck")
    assert (judge(THREE).score, judge(THREE).unscored) == (None, "invalid_output")


def test_an_unknown_prompt_is_refused() -> None:
    """The error lists those there are."""
    with pytest.raises(ConfigurationError, match="prompt is 'general' or 'minicheck', not 'bespoke'"):
        load("spring.fact_checking", model=checking(), prompt="bespoke")
