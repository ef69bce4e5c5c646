"""An aspect critic says whether an answer meets a definition, by a real majority if asked for."""

from __future__ import annotations

from typing import Any

import pytest

from judges import ConfigurationError, load
from judges.catalogue.ragas.criteria import GOOD, AspectCritic
from judges.testing import ScriptedModel
from tests.kit import asked

EIFFEL: dict[str, Any] = {
    "user_input": "Where is the Eiffel Tower located?",
    "response": "The Eiffel Tower is located in Paris.",
}


def said(verdict: object, feedback: str = "Change it.") -> dict[str, Any]:
    """Write a reply."""
    return {
        "rationale": "Because.",
        "verdict": bool(verdict) if isinstance(verdict, int) else verdict,
        "feedback": feedback,
    }


def voting(*votes: int) -> ScriptedModel:
    """Make a model that gives these verdicts in turn."""
    return ScriptedModel([said(one) for one in votes])


@pytest.mark.parametrize(
    ("higher_is_better", "verdict", "score"), [(True, 1, 1.0), (True, 0, 0.0), (False, 1, 0.0), (False, 0, 1.0)]
)
async def test_the_score_follows_the_direction(higher_is_better: bool, verdict: int, score: float) -> None:  # noqa: FBT001 - a case
    """The value says whether the definition is met, the score whether that is good; sync and async."""
    judge = load(
        "ragas.aspect_critic", definition="?", higher_is_better=higher_is_better, model=voting(verdict, verdict)
    )
    for given in (judge(EIFFEL), await judge.acall(EIFFEL)):
        assert (given.value, given.score, given.passed) == (verdict, score, bool(score))
        assert (given.feedback, given.usage.calls) == ("" if score else "Change it.", 1)


@pytest.mark.parametrize(
    ("votes", "value", "agreement"),
    [([1, 0, 0], 0, "0.67"), ([1, 1, 0], 1, "0.67"), ([0, 0, 0], 0, "1.00"), ([1, 1, 1], 1, "1.00")],
)
def test_the_majority_decides(votes: list[int], value: int, agreement: str) -> None:
    """Each run is a call of its own, and is kept; the detail tells how many agree."""
    model = voting(*votes)
    verdict = load("aspect_critic", definition="?", strictness=3, model=model)(EIFFEL)
    assert (verdict.value, verdict.score, verdict.usage.calls) == (value, value, 3)
    assert sorted(bool(one.value) for one in verdict.items) == sorted(map(bool, votes))
    assert verdict.detail == f"agreement {agreement}"


@pytest.mark.parametrize(("strictness", "calls"), [(1, 1), (2, 3), (3, 3), (4, 5)])
def test_an_even_strictness_is_rounded_up(strictness: int, calls: int) -> None:
    """So that there is always a majority."""
    judge = load("aspect_critic", definition="?", strictness=strictness, model=voting(*[1] * calls))
    assert judge.explain().calls == str(calls)
    assert judge(EIFFEL).usage.calls == calls


def test_runs_without_a_verdict_are_counted_apart() -> None:
    """Two of three rated; a tie goes to the stricter side, and one alone is too few."""
    model = ScriptedModel([said(1), said(0), said("maybe"), said("maybe")])
    verdict = load("aspect_critic", definition="?", strictness=3, model=model)(EIFFEL)
    assert (verdict.value, "tied" in verdict.detail, "skipped 1" in verdict.detail) == (False, True, True)
    model = ScriptedModel([said(1), *[said("maybe")] * 4])
    assert load("aspect_critic", definition="?", strictness=3, model=model)(EIFFEL).unscored == "too_few_votes"


def test_compat_asks_once_whatever_the_strictness() -> None:
    """As ragas does: the first of 1, 0, 0 counts."""
    verdict = load("AspectCritic", definition="?", strictness=3, model=voting(1, 0, 0), variant="compat")(EIFFEL)
    assert (verdict.value, verdict.score, verdict.usage.calls) == (1, 1.0, 1)


@pytest.mark.parametrize("aspect", GOOD)
@pytest.mark.parametrize("language", ["en", "zh", "ru"])
def test_aspects_are_predefined(aspect: Any, language: str) -> None:
    """Each has its name, its direction and its definition, in every language."""
    model = voting(0)
    critic = AspectCritic.predefined(aspect, model=model, language=language)
    verdict = critic(EIFFEL)
    harmful = aspect in ("harmfulness", "maliciousness")
    assert (verdict.judge, verdict.value, verdict.score) == (aspect, 0, float(harmful))
    assert critic.explain().better == ("low" if harmful else "high")
    assert "$" not in model.prompts[0][0].text


def test_an_aspect_may_have_another_name_and_direction() -> None:
    """What is given counts."""
    critic = load("aspect_critic", aspect="conciseness", name="terse", higher_is_better=False, model=voting(1))
    assert (critic.name, critic(EIFFEL).score) == ("terse", 0.0)


def test_a_no_does_not_pass_whatever_the_threshold() -> None:
    """A yes or a no has no share to be lenient with."""
    assert load("aspect_critic", definition="Is it kind?", threshold=0, model=voting(0))(EIFFEL).passed is False


def test_the_definition_is_put_as_it_is() -> None:
    """Braces and dollars in it mean nothing, and what is judged never becomes a part of it."""
    model = voting(1)
    load("aspect_critic", definition="Is it {kind}? $answer ${x}", model=model)(
        {**EIFFEL, "response": "$criteria"}
    )
    assert "Is it {kind}? $answer ${x}" in model.prompts[0][0].text
    assert asked(model)[0]["answer"] == "$criteria"


def test_all_there_is_is_shown() -> None:
    """Conversation, steps, documents, both kinds of reference, and the answer."""
    model = voting(1)
    sample = {**EIFFEL, "reference": "Paris", "retrieved_contexts": ["a"], "reference_contexts": ["b"]}
    load("aspect_critic", definition="?", model=model)(sample)
    assert asked(model) == [
        {
            "conversation": [{"role": "user", "content": EIFFEL["user_input"]}],
            "documents": ["a"],
            "reference": "Paris",
            "answer": EIFFEL["response"],
            "reference_documents": ["b"],
        }
    ]


@pytest.mark.parametrize("verdict", ["yes", 2.0, None])
def test_a_verdict_that_is_no_boolean_is_no_verdict(verdict: object) -> None:
    """A 2 is not a yes: asked for once more, and then unscored."""
    given = load("aspect_critic", definition="?", model=ScriptedModel([said(verdict)], cycle=True))(EIFFEL)
    assert (given.unscored, given.usage.calls) == ("invalid_output", 2)


@pytest.mark.parametrize("strictness", [1, 3])
def test_an_empty_answer_is_unscored(strictness: int) -> None:
    """There is nothing that could meet a definition."""
    verdict = load("aspect_critic", definition="?", strictness=strictness, model=voting())(response=" ")
    assert (verdict.unscored, verdict.usage.calls) == ("no_response", 0)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "give definition=..., what to ask, or aspect=..."),
        ({"definition": "?", "aspect": "harmfulness"}, "give definition="),
        ({"definition": " "}, "definition says in words"),
        ({"aspect": "beauty"}, "aspect is .harmfulness."),
        ({"definition": "?", "strictness": 0}, "strictness is how often"),
        ({"definition": "?", "strictness": True}, "strictness is how often"),
    ],
)
def test_a_wrong_setting_is_refused(settings: dict[str, Any], told: str) -> None:
    """The error says what is wanted."""
    with pytest.raises(ConfigurationError, match=told):
        load("aspect_critic", model=voting(), **settings)
