"""Equivalence: numbers and units first, then text, then a model, which is asked only where it must be."""

from __future__ import annotations

import pytest

from judges import ConfigurationError, load
from judges.testing import ScriptedModel, raising
from tests.kit import asked

NUMBERS = [
    ("9289 km", "9,289 kilometres", True),
    ("1.5 km", "1500 m", True),
    ("1,5 км", "1500 метров", True),
    ("5 公里", "5 km", True),
    ("1 234,5", "1,234.5", True),
    ("1.234.567", "1 234 567", True),
    ("2 million", "2,000,000", True),
    ("3亿", "300 млн", True),
    ("$5", "5 USD", True),
    ("212 °F", "100 °C", True),
    ("2 h", "120 min.", True),
    ("-5", "\u22125.0", True),
    ("50%", "50 percent", True),
    ("5 Mio. Euro", "5000000 €", True),
    ("9289 miles", "9289 km", False),
    ("80 km/h", "30 m/s", False),
    ("42", "43", False),
    ("-5", "5", False),
    ("5 €", "5 $", False),
    ("5 kg", "5 km", False),
]
TEXTS = [("The Eiffel Tower.", "eiffel tower"), ("«Париж»", "париж"), ("yes!", "Yes"), ("ＡＢＣ", "abc")]
OPEN = [
    ("C++", "C"),
    ("5 km", "5"),
    ("1,234", "1.234"),
    ("not 5 km", "5 km"),
    ("about 9300 km", "9289 km"),
    ("5 x", "5 y"),
    ("5 Mb", "5 MB"),
    ("30 km/h", "8.33 m/s"),
    ("1 kg", "2.2 lbs"),
    ("98.6 °F", "37.1 °C"),
    ("5 mW", "5 MW"),
    ("100k", "100,000 €"),
]


@pytest.mark.parametrize(("answer", "reference", "same"), NUMBERS)
def test_numbers_with_units_are_compared_without_a_call(answer: str, reference: str, same: bool) -> None:  # noqa: FBT001 - pytest gives it
    """Notations and units of three languages are converted, both ways round."""
    judge = load("equivalence", model=ScriptedModel([]))
    for one, other in ((answer, reference), (reference, answer)):
        verdict = judge(answer=one, reference=other)
        assert (verdict.passed, verdict.detail, verdict.usage.calls) == (same, "decided by numbers", 0)
        assert bool(verdict.feedback) is not same


def test_equal_texts_need_no_call() -> None:
    """Case, quotation marks, width, an article and a full stop make no difference."""
    judge = load("equivalence", model=ScriptedModel([]))
    for answer, reference in TEXTS:
        verdict = judge(answer=answer, reference=reference)
        assert (verdict.passed, verdict.detail, verdict.usage.calls) == (True, "decided by text", 0), answer


@pytest.mark.parametrize(("answer", "reference"), OPEN)
def test_the_model_decides_the_rest(answer: str, reference: str) -> None:
    """One call, which shows question, reference and answer; the detail says so."""
    model = ScriptedModel([{"rationale": "Other.", "verdict": False, "feedback": "Check it."}])
    with raising():
        verdict = load("equivalence", model=model)(question="?", answer=answer, reference=reference)
    assert asked(model) == [{"question": "?", "reference": reference, "answer": answer}]
    assert (verdict.passed, verdict.detail, verdict.usage.calls) == (False, "decided by model", 1)
    assert verdict.feedback == "Check it."


def test_a_tolerance_is_a_share_of_the_larger_number() -> None:
    """Within it numbers are the same; a share of 1 would pass everything."""
    judge = load("equivalence", model=ScriptedModel([]), tolerance=0.01)
    assert judge(answer="99.5", reference="100").passed
    assert judge(answer="98", reference="100").passed is False
    with pytest.raises(ConfigurationError, match="tolerance is a share"):
        load("equivalence", model=ScriptedModel([]), tolerance=1)
    assert judge(answer="5", reference=" ").unscored == "no_reference"
