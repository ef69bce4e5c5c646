"""`verifiable_instructions`: rules that a program checks, and IFEval's rows as they are."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from judges import ConfigurationError, load
from tests.laws import for_every

KEPT_AND_BROKEN = tomllib.loads(
    Path(__file__).with_name("verifiable_instructions.toml").read_text(encoding="utf-8")
)["row"]


@for_every("instruction, kept, broken, advice", [one.values() for one in KEPT_AND_BROKEN])
def test_an_instruction_is_kept_or_fed_back_in_plain_words(
    instruction: dict[str, Any], kept: str, broken: str, advice: str
) -> None:
    """The answer that keeps it passes; the other is told what to do, without a regular expression."""
    judge = load("verifiable_instructions", instructions=[instruction])

    good, bad = judge(answer=kept), judge(answer=broken)

    assert (good.score, good.passed, good.feedback) == (1.0, True, "")
    assert (bad.score, bad.passed) == (0.0, False)
    assert advice in bad.feedback
    assert "$" not in bad.feedback


def test_the_language_of_the_answer_is_an_instruction() -> None:
    """Another language breaks it, whatever the length."""
    judge = load("verifiable_instructions", instructions=[{"kind": "language", "language": "de"}])

    assert judge(answer="Das Wetter ist heute schön und warm.").passed
    assert not judge(answer="The weather is fine and warm today.").passed


def test_every_instruction_is_an_item_and_the_score_is_their_share() -> None:
    """One of two kept is half; all have to be kept to pass, unless a lower threshold is set."""
    rules = [{"kind": "no_commas"}, {"kind": "upper_case"}]

    verdict = load("verifiable_instructions", instructions=rules)(answer="no commas here")

    assert [(item.subject, item.passed) for item in verdict.items] == [("no_commas", True), ("upper_case", False)]
    assert (verdict.score, verdict.passed) == (0.5, False)
    assert load("verifiable_instructions", instructions=rules, threshold=0.5)(answer="no commas here").passed


def test_rows_of_ifeval_are_read_as_they_are() -> None:
    """Names and settings are those of its dataset; settings that are null do not count."""
    row = {
        "question": "Write two bullets without commas.",
        "answer": "* one\n* two",
        "instruction_id_list": ["punctuation:no_comma", "detectable_format:number_bullet_lists"],
        "kwargs": [{}, {"num_bullets": 2, "relation": None}],
    }

    assert load("ifeval")(row).score == 1.0
    assert load("ifeval")({**row, "answer": "* one, two"}).score == 0.0


def test_a_row_may_bring_its_own_instructions() -> None:
    """They stand in the column `instructions`, in the form of the setting."""
    judge = load("verifiable_instructions")

    assert judge({"answer": "ab", "instructions": [{"kind": "lower_case"}]}).passed
    assert judge({"answer": "ab"}).unscored == "no_guidelines"


@for_every(
    "language, advice", [("en", "Write without any comma."), ("zh", "不要使用逗号。"), ("ru", "Не ставь запятых.")]
)
def test_feedback_is_in_the_language_of_the_question(language: str, advice: str) -> None:
    """Three packs say the same."""
    judge = load("verifiable_instructions", instructions=[{"kind": "no_commas"}], language=language)

    assert judge(answer="a, b").feedback == advice


@for_every(
    "instructions, complaint",
    [
        ([], "give at least one instruction"),
        ([{"kind": "wrods", "at_most": 3}], "'kind'"),
        ([{"kind": "words"}], "give at_least, at_most or both"),
        ([{"kind": "words", "at_least": 3, "at_most": 2}], "at_least=3 lies above at_most=2"),
        ([{"kind": "words", "at_most": 3, "least": 1}], "instructions, at 0.words.least"),
        ([{"kind": "keyword", "at_least": 1}], "instructions, at 0.keyword.keyword"),
    ],
)
def test_a_wrong_instruction_is_one_line(instructions: list[Any], complaint: str) -> None:
    """It names the place, and what would be right."""
    with pytest.raises(ConfigurationError) as caught:
        load("verifiable_instructions", instructions=instructions)

    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


@for_every(
    "kind, text",
    [
        ("bullets", "\n" * 200_000),
        ("placeholders", "[" * 200_000),
        ("title", "<" * 200_000),
        ("sentences", "No. " * 90_000),
    ],
)
def test_an_instruction_is_checked_in_a_very_long_answer(kind: str, text: str) -> None:
    """Whatever stands open, no line is gone through again and again, which would take minutes."""
    rule = {"kind": kind} if kind == "title" else {"kind": kind, "at_least": 3}
    started = time.process_time()
    assert load("verifiable_instructions", instructions=[rule])(answer=f"a{text}.").score == 0
    assert time.process_time() - started < 5


@for_every(
    "rule, said",
    [
        ({"kind": "words"}, r"instructions, at 0\.words: any number would do; give at_least"),
        ({"kind": "language", "language": "xx"}, r"^verifiable_instructions: language is one of .*, not 'xx'$"),
    ],
)
def test_what_is_wrong_with_an_instruction_is_said_in_our_words(rule: dict[str, Any], said: str) -> None:
    """Not with those of a library around them, which hid the extra that a language needs."""
    with pytest.raises(ConfigurationError, match=said):
        load("verifiable_instructions", instructions=[rule])
