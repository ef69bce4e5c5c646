"""The language of the answer, by rule; and its tone, by a model."""

from __future__ import annotations

import pytest

from judges import load

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
