"""What an answer quotes stands in its contexts, word for word, or not."""

from __future__ import annotations

import time
from typing import Any

import pytest

from judges import ConfigurationError, Verdict, load
from judges.catalogue.parts.text import quotations
from tests.laws import for_every

CONTEXTS = [
    "Machine learning models improve\naccuracy by 15%. It doesn't always help.",
    "机器学习模型 提高了准确率。它并不总是有用。",
    "Модель стала точнее на треть.",
]


def judged(response: str, contexts: list[str] | None = CONTEXTS, **settings: Any) -> Verdict:
    """Judge an answer."""
    return load("quoted_spans", **settings)(user_input="", response=response, retrieved_contexts=contexts)


@pytest.mark.parametrize(
    ("response", "score"),
    [
        ('The study says "machine learning models improve accuracy".', 1.0),
        ("The study says “machine learning models improve accuracy,” it seems.", 1.0),
        ("It says „Machine  learning models“ and »no, it never does that«.", 0.5),
        ('It says "machine learning models" and "they always make it worse".', 0.5),
        ("It says 'it doesn't always help', doesn't it?", 1.0),
        ("It says ‘it doesn’t always help’.", 1.0),
        ('It says "machine learning models ... accuracy by 15%".', 1.0),
        ('It says "accuracy by 15% … machine learning models".', 0.0),
        ("文中说“机器学习模型提高了准确率”。", 1.0),
        ("文中说「机器学习模型降低了准确率」，又说『它并不总是有用』。", 0.5),
        ("见《机器学习模型》。", 1.0),
        ("Сказано: «модель стала точнее на треть».", 1.0),
        ('"they always make it worse"', 0.0),
    ],
)
async def test_the_score_is_the_share_of_quotations_found(response: str, score: float) -> None:
    """Marks of many scripts; blanks, capital letters and a comma at the end make no difference. Sync and async."""
    judge = load("ragas.quoted_spans_alignment")
    sample = {"response": response, "retrieved_contexts": CONTEXTS}
    for verdict in (judge(sample), await judge.acall(sample)):
        assert verdict.score == score
        assert verdict.usage.calls == 0


@pytest.mark.parametrize(
    "response",
    [
        "No quotation at all.",
        'A "short one" only.',
        "It's the dogs' bone, isn't it? Rock 'n' roll.",
        "他说“很好”。",
        'An inch is 1". Not closed: "a b c d',
    ],
)
def test_an_answer_that_quotes_nothing_is_unscored(response: str) -> None:
    """Corrected has nothing to judge; compat has 1."""
    assert judged(response).unscored == "no_claims"


@pytest.mark.parametrize(
    ("response", "score"),
    [
        ("No quotation at all.", 1.0),
        ('A "short one" only.', 1.0),
        ("文中说“机器学习模型降低了准确率”。", 1.0),
        ("文中说「机器学习模型 降低了 准确率」。", 1.0),
        ('It says "machine learning models improve accuracy".', 1.0),
        ('It says "machine learning models" and "they always make it worse".', 0.5),
        ("It doesn't say that it's good, or isn't", 0.0),
    ],
)
def test_compat_takes_any_two_marks(response: str, score: float) -> None:
    """As ragas does, apostrophes included, words being what stands between blanks."""
    assert judged(response, variant="compat").score == score


def test_compat_needs_no_context() -> None:
    """Without contexts nothing is found; where they are missing altogether it is unscored."""
    assert judged('It says "a b c".', [], variant="compat").score == 0
    assert judged('It says "a b c".', None, variant="compat").unscored == "no_contexts"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"response": ""}, "no_response"),
        ({"contexts": []}, "no_contexts"),
        ({"contexts": [" "]}, "no_contexts"),
        ({"contexts": None}, "no_contexts"),
    ],
)
def test_nothing_to_judge_is_unscored(fields: dict[str, Any], reason: str) -> None:
    """What cannot be judged has a reason."""
    assert judged(**{"response": 'It says "a b c d".', **fields}).unscored == reason


def test_feedback_names_the_quotations_that_stand_nowhere() -> None:
    """Only those; the others are among the items."""
    verdict = judged('It says "machine learning models" and "they always make it worse".')
    assert verdict.feedback.splitlines()[1:] == ["- they always make it worse"]
    assert [(one.subject, one.passed) for one in verdict.items] == [
        ("machine learning models", True),
        ("they always make it worse", False),
    ]
    assert judged('It says "machine learning models".').feedback == ""
    assert "引文" in judged("文中说“机器学习模型降低了准确率”。").feedback


def test_what_counts_is_a_setting() -> None:
    """The least length, and whether capital letters count."""
    assert judged('A "learning models" here.', min_span_words=2).score == 1
    assert judged("他说“模型”。", min_span_characters=2).score == 1
    assert judged('It says "machine learning models".', casefold=False).score == 0
    assert judged('It says "Machine learning models".', casefold=False, variant="compat").score == 1


@pytest.mark.parametrize(
    "settings", [{"min_span_words": 0}, {"min_span_characters": 1.5}, {"min_span_words": True}]
)
def test_wrong_settings_are_refused(settings: dict[str, Any]) -> None:
    """A length is a whole number from 1."""
    with pytest.raises(ConfigurationError, match="is a whole number from 1"):
        judged("x", **settings)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("“outer ‘inner quote’ end”", ("outer ‘inner quote’ end",)),
        ("'90s music and 'the real thing'", ("the real thing",)),
        ('"a"b"c"', ("a", "c")),
        ('"a\nb"', ()),
        ("« vite »", ("vite",)),
        ("''", ()),
        ("「一」『二』《三》", ("一", "二", "三")),
    ],
)
def test_quotations_are_found_once(text: str, found: tuple[str, ...]) -> None:
    """Outermost ones, none across lines, and no apostrophes."""
    assert quotations(text) == found


@for_every("text", ["'a " * 100_000, "“" * 150_000, '" ' * 150_000, "‘a" * 100_000, " 「 " * 100_000])
def test_a_very_long_answer_of_marks_is_read(text: str) -> None:
    """Whatever stands open, no text is gone through again and again, which would take minutes."""
    started = time.process_time()
    assert judged(text).unscored == "no_claims"
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("»the quick fox« says he and then »jumps over it«", ["the quick fox", "jumps over it"]),
        ("»(the) quick fox« says he and then »… jumps over it«", ["(the) quick fox", "… jumps over it"]),
        ("«le renard», dit-il, « saute par-dessus »", ["le renard", "saute par-dessus"]),
        ("”den snabba räven” och ”hoppar över”", ["den snabba räven", "hoppar över"]),
        ("‚der flinke Fuchs‘ und „springt“", ["der flinke Fuchs", "springt"]),
        ("‚wie geht’s dem Fuchs‘ und ‚er springt‘", ["wie geht’s dem Fuchs", "er springt"]),
        ("״השועל המהיר״ של ד״ר כהן", ["השועל המהיר"]),
        ('“the quick fox" and “jumps over it"', ["the quick fox", "jumps over it"]),
        ('"the quick fox” and "jumps over it”', ["the quick fox", "jumps over it"]),
        ('“he said "the quick fox" to me”', ['he said "the quick fox" to me']),
        ('"he said “the quick fox” to me"', ["he said “the quick fox” to me"]),
        ("“the quick\nfox”, “but not\n\nthis”", ["the quick\nfox"]),
        ('"the quick\nfox"', []),
        ('He is 6\'2" tall, she is 5\'10": "a quick fox"', ["a quick fox"]),
        ('a 15" screen and a 17" one', []),
        ("the foxes' den isn't 'the quick fox'", ["the quick fox"]),
    ],
)
def test_quotations_are_found_in_the_marks_of_many_languages(text: str, found: list[str]) -> None:
    """Also mixed and nested ones; no inches, no apostrophes."""
    assert list(quotations(text)) == found


@for_every("marks", ['"', "“", "«", "»", "'", "“«‹„", '"“', '„"', "' "])
def test_a_very_long_row_of_marks_is_gone_through_once(marks: str) -> None:
    """What is opened and never closed is not looked for again and again, which would take minutes."""
    started = time.process_time()
    assert len(quotations(marks * (300_000 // len(marks)))) <= 1
    assert time.process_time() - started < 5


def test_the_width_of_a_comma_is_no_difference() -> None:
    """As typed on a Chinese keyboard, or on another."""
    verdict = load("QuotedSpans")(response="他说“人生苦短,及时行乐”。", contexts=["古人云：人生苦短，及时行乐。"])
    assert verdict.score == 1
