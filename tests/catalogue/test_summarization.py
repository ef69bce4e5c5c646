"""Summarization scores what a summary keeps of its source, and how short it is."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from judges import ConfigurationError, load
from judges.testing import ScriptedModel
from tests.kit import Shown, asked, replying
from tests.laws import for_every

SOURCE, SUMMARY = "s" * 310, "t" * 183
NAME = "ragas.summarization_score"


def sample(summary: str = SUMMARY, *, source: list[str] | None = None) -> dict[str, Any]:
    """Make a sample."""
    return {"response": summary, "reference_contexts": [SOURCE] if source is None else source}


def answering(
    answers: Sequence[object], *, phrases: list[str] | None = None, questions: list[str] | None = None
) -> ScriptedModel:
    """Make a model that gives these answers, booleans by number or texts in a list, as many as it is given."""
    made = questions if questions is not None else [f"Question {n}?" for n in range(1, len(answers) + 1)]

    def reply(data: Shown) -> dict[str, Any]:
        if "summary" in data:
            told = [{"number": n, "reason": "So.", "verdict": one} for n, one in enumerate(answers, 1)]
            return {"answers": list(answers)} if any(isinstance(one, str) for one in answers) else {"items": told}
        if "keyphrases" in data:
            return {"questions": made}
        return {"keyphrases": ["phrase"] if phrases is None else phrases}

    return replying(reply)


@pytest.mark.parametrize(
    ("summary", "answers", "score"),
    [
        (SUMMARY, ["1"] * 8, 0.7048387096775146),
        (SUMMARY, ["yes"], 0.20483870967751455),
        (SOURCE, ["1"], 0.5000000000001612),
        ("x", ["0"], 0.49838709677419407),
        (SUMMARY, ["1", "0"], 0.25 + 0.20483870967751455),
    ],
)
def test_compat_gives_the_scores_of_ragas(summary: str, answers: list[str], score: float) -> None:
    """The mean of the share of ones and of what the summary saves, in three calls."""
    verdict = load(NAME, model=answering(answers), variant="compat")(sample(summary))
    assert verdict.score == pytest.approx(score, abs=1e-12)
    assert verdict.usage.calls == 3


@pytest.mark.parametrize(
    ("settings", "score"),
    [
        ({"length_penalty": False}, 0.5),
        ({"coeff": 0}, 0.5),
        ({"coeff": 1}, 0.40967741935502904),
        ({"coeff": 0.2}, 0.5 * 0.8 + 0.40967741935502904 * 0.2),
    ],
)
def test_compat_weighs_the_length(settings: dict[str, Any], score: float) -> None:
    """Without the penalty the share of ones is all."""
    judge = load(NAME, model=answering(["1", "0"]), variant="compat", **settings)
    assert judge(sample()).score == pytest.approx(score, abs=1e-12)


def test_compat_divides_by_the_answers_returned() -> None:
    """Their number is not tied to that of the questions."""
    judge = load(NAME, model=answering(["1", "0", "1", "1"], questions=["One?"]), variant="compat", coeff=0)
    verdict = judge(sample())
    assert (verdict.score, len(verdict.items)) == (0.75, 4)


@pytest.mark.parametrize(
    ("summary", "answers", "settings", "score"),
    [
        (SUMMARY, [True] * 8, {}, 1 / (0.5 + 0.5 / (1 - 183 / 310))),
        (SUMMARY, [True, False], {}, 1 / (0.5 / 0.5 + 0.5 / (1 - 183 / 310))),
        ("t" * 31, [True, True], {"coeff": 0.2}, 1 / (0.8 + 0.2 / 0.9)),
        (SUMMARY, [True, False], {"length_penalty": False}, 0.5),
        (SUMMARY, [True, True, False], {"coeff": 0}, 2 / 3),
        (SUMMARY, [True], {"coeff": 1}, 1 - 183 / 310),
        (SOURCE, [True], {}, 0.0),
        (SOURCE * 2, [True], {}, 0.0),
        (SOURCE, [True], {"length_penalty": False}, 1.0),
        ("x", [False], {}, 0.0),
        ("x", [False], {"coeff": 1}, 1 - 1 / 310),
    ],
)
async def test_neither_a_copy_nor_a_letter_is_a_summary(
    summary: str, answers: list[bool], settings: dict[str, Any], score: float
) -> None:
    """The harmonic mean is 0 where one part that weighs anything is; sync and async."""
    judge = load(NAME, model=answering(answers), **settings)
    for verdict in (judge(sample(summary)), await judge.acall(sample(summary))):
        assert verdict.score == pytest.approx(score, abs=1e-12)
        assert verdict.value == verdict.score
        assert (verdict.usage.calls, [one.passed for one in verdict.items]) == (3, answers)


@for_every("coeff, length", itertools.product([0, 0.1, 0.3, 0.5, 0.9, 1], [1, 31, 150, 310, 400]))
def test_the_score_lies_between_its_parts(coeff: float, length: int) -> None:
    """It is never above 1, and never above both parts."""
    verdict = load(NAME, model=answering([True, True, False]), coeff=coeff)(sample("t" * length))
    assert 0 <= (verdict.score or 0) <= max(2 / 3, 1 - length / 310) + 1e-12


def test_the_model_is_shown_one_thing_after_the_other() -> None:
    """The source alone, the source with its phrases, then the summary alone with numbered questions."""
    model = answering([True, True], phrases=[" Aare ", "", "Bern"], questions=["One?", " ", "Two?"])
    load("summary_score", model=model)(sample("Short.", source=["First part.", "Second part."]))
    text = "First part.\nSecond part."
    assert asked(model) == [
        {"text": text},
        {"text": text, "keyphrases": ["Aare", "Bern"]},
        {"summary": "Short.", "questions": [{"number": 1, "question": "One?"}, {"number": 2, "question": "Two?"}]},
    ]


@pytest.mark.parametrize("alias", ["summarization_score", "SummarizationScore", "summary_score", "SummaryScore"])
def test_it_goes_by_the_names_of_the_reference(alias: str) -> None:
    """Every spelling loads the judge."""
    assert load(alias, model=answering([True])).name == NAME


def test_the_feedback_names_the_open_questions() -> None:
    """Those that the summary answers are not named; a short summary is not told to be shorter."""
    verdict = load(NAME, model=answering([True, False, False]))(sample("t" * 20))
    assert verdict.feedback.splitlines()[1:] == ["- Question 2?", "- Question 3?"]


@pytest.mark.parametrize("variant", ["corrected", "compat"])
def test_the_feedback_tells_to_shorten(variant: Any) -> None:
    """Where the length is what costs, that is what is to be changed."""
    answers = ["1", "1"] if variant == "compat" else [True, True]
    verdict = load(NAME, model=answering(answers), variant=variant)(sample())
    assert verdict.feedback == "The summary is 59% as long as its source; shorten it."


@pytest.mark.parametrize(
    ("summary", "settings"), [("t" * 20, {}), (SUMMARY, {"length_penalty": False}), (SUMMARY, {"coeff": 0})]
)
def test_a_good_summary_needs_no_change(summary: str, settings: dict[str, Any]) -> None:
    """All is answered, and it is short, or its length does not count."""
    assert load(NAME, model=answering([True, True]), **settings)(sample(summary)).feedback == ""


@pytest.mark.parametrize("variant", ["corrected", "compat"])
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"response": " "}, "no_response"),
        ({"response": None}, "no_response"),
        ({"reference_contexts": None}, "no_contexts"),
        ({"reference_contexts": ["", " "]}, "no_contexts"),
    ],
)
def test_nothing_to_judge_is_unscored(fields: dict[str, Any], reason: str, variant: Any) -> None:
    """What is missing is told, without a call."""
    verdict = load(NAME, model=answering([True]), variant=variant)({**sample(), **fields})
    assert (verdict.unscored, verdict.usage.calls) == (reason, 0)


@pytest.mark.parametrize("variant", ["corrected", "compat"])
@pytest.mark.parametrize("phrases", [[], ["phrase"]])
def test_without_questions_there_is_no_score(phrases: list[str], variant: Any) -> None:
    """No division by zero: nothing more is asked, and the reason is told. Compat asks without phrases, too."""
    model = answering([True], phrases=phrases, questions=[])
    verdict = load(NAME, model=model, variant=variant)(sample())
    calls = 2 if phrases or variant == "compat" else 1
    assert (verdict.unscored, verdict.usage.calls) == ("no_claims", calls)


def test_compat_makes_questions_without_key_phrases() -> None:
    """As ragas goes on with an empty list."""
    verdict = load(NAME, model=answering(["1"], phrases=[]), variant="compat", coeff=0)(sample())
    assert (verdict.score, verdict.usage.calls) == (1.0, 3)


def test_compat_without_answers_has_no_score() -> None:
    """Where ragas divides by zero, nothing was answered."""
    model = replying(
        lambda data: (
            {"answers": []} if "summary" in data else {"questions": ["One?"]} if "keyphrases" in data
            else {"keyphrases": ["phrase"]}
        )
    )  # fmt: skip
    verdict = load(NAME, model=model, variant="compat")(sample())
    assert (verdict.unscored, verdict.usage.calls) == ("no_claims", 3)


@pytest.mark.parametrize("answers", [[True], [True, True, True], [True, 1], [True, None]])
def test_every_question_gets_one_answer(answers: list[object]) -> None:
    """One left out, added or no boolean is asked for again, and then unscored."""
    verdict = load(NAME, model=answering(answers, questions=["One?", "Two?"]))(sample())
    assert (verdict.unscored, verdict.usage.calls) == ("invalid_output", 4)


@pytest.mark.parametrize(
    "settings", [{"coeff": -0.1}, {"coeff": 1.1}, {"coeff": True}, {"coeff": "0.5"}, {"length_penalty": 1}]
)
def test_wrong_settings_are_refused(settings: dict[str, Any]) -> None:
    """The error names the setting."""
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        load(NAME, model=answering([True]), **settings)
