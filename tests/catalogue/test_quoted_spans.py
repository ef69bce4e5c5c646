"""What an answer quotes stands in its contexts, word for word, or not."""

from __future__ import annotations

import time
from typing import Any

import pytest

from judges import Verdict, load
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
