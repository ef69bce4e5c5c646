"""The language of the answer, by rule; and its tone, by a model."""

from __future__ import annotations

import pytest

from judges import ConfigurationError, load
from judges.testing import ScriptedModel, raising
from tests.kit import asked

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


def test_code_addresses_and_quotations_are_no_other_language() -> None:
    """Only prose is read, and a little of another language does not fail an answer."""
    question = "Wie installiere ich das Paket, und wo lese ich mehr darüber?"
    answer = (
        "So wird das Paket installiert, und das ist alles:\n```sh\npip install the package now please\n```\n"
        "Mehr dazu steht unter https://example.org/the/very/long/manual und in der Anleitung, die beiliegt."
    )
    assert load("reply_language")(question=question, answer=answer).score == 1
    half = f"{SENTENCES['de']}\n{SENTENCES['en']}"
    verdict = load("reply_language")(question=question, answer=half)
    assert verdict.passed is False
    assert 0.3 < (verdict.score or 0) < 0.7


def test_what_is_too_short_has_no_score_unless_the_script_tells() -> None:
    """A name or a number is no language; another script is."""
    judge = load("reply_language")
    assert judge(question=SENTENCES["en"], answer="42").unscored == "undefined"
    assert judge(question=SENTENCES["en"], answer="Gustave Eiffel").unscored == "undefined"
    assert judge(question=SENTENCES["en"], answer="Париж").passed is False
    assert judge(question="Hello", answer=SENTENCES["ru"]).passed is False
    assert judge(question="Was kostet das?", answer="Das kostet fünf Euro, mit Versand sieben.").passed
    assert judge(question="Was kostet das?", answer=SENTENCES["en"]).passed is False
    assert "set language=" in judge(question="Hello", answer=SENTENCES["en"]).detail
    assert judge(question="", answer=SENTENCES["en"]).unscored == "no_question"


def test_a_region_is_accepted_and_an_unknown_language_is_not() -> None:
    """`pt-BR` is Portuguese; a language that cannot be told is refused with those that can."""
    assert load("reply_language", language="pt-BR")(
        answer="O pacote chega amanhã de manhã, não se preocupe."
    ).passed
    with pytest.raises(ConfigurationError, match="language is one of af, ar"):
        load("reply_language", language="klingon")


def test_the_tone_is_judged_by_its_name() -> None:
    """The model sees the tone that was set; feedback comes where it is broken, and only there."""
    model = ScriptedModel(
        [
            {"rationale": "Slang.", "verdict": "partly", "feedback": "Write yes."},
            {"rationale": "Fine.", "verdict": "kept", "feedback": "ignored"},
        ]
    )
    judge = load("tone", model=model, tone="formal")
    with raising():
        first, second = judge(question="?", answer="Yep."), judge(answer="Yes.")
    assert asked(model)[0] == {"tone": "formal", "question": "?", "answer": "Yep."}
    assert (first.value, first.score, first.passed, first.feedback) == ("partly", 0.5, False, "Write yes.")
    assert (second.passed, second.feedback) == (True, "")
    with pytest.raises(ConfigurationError, match="tone says in words"):
        load("tone", model=model, tone=" ")
