"""ROUGE of an answer: as the package rouge_score counts, and in any script."""

from __future__ import annotations

import pytest

from judges import load
from judges.catalogue.ragas.overlap import stem
from tests.laws import for_every


@for_every(
    "word, stemmed",
    [
        ("caresses", "caress"), ("ponies", "poni"), ("dies", "die"), ("died", "die"), ("spied", "spi"),
        ("agreed", "agre"), ("feed", "feed"), ("plastered", "plaster"), ("bled", "bled"), ("sing", "sing"),
        ("conflated", "conflat"), ("troubled", "troubl"), ("sized", "size"), ("hopping", "hop"),
        ("falling", "fall"), ("filing", "file"), ("happy", "happi"), ("enjoy", "enjoy"),
        ("relational", "relat"), ("radically", "radic"), ("generalization", "gener"), ("electrical", "electr"),
        ("adoption", "adopt"), ("rate", "rate"), ("cease", "ceas"), ("controlling", "control"),
        ("skies", "sky"), ("geology", "geolog"), ("hopefully", "hope"), ("canning", "canning"),
        ("yyyy", "yyyi"), ("by", "by"), ("1000ft", "1000ft"),
    ],
)  # fmt: skip
def test_english_words_are_stemmed(word: str, stemmed: str) -> None:
    """As Porter does, with the amendments of NLTK."""
    assert stem(word) == stemmed


def test_a_megabyte_against_a_page_is_scored() -> None:
    """Long texts are compared exactly; two that are both very long and different are unscored."""
    judge = load("rouge_score")
    long = " ".join(f"w{n % 5000}" for n in range(150_000))
    assert judge(response=long, reference="w1 w2 w3 w4999 nowhere").score == pytest.approx(8 / 150_005)
    dense = "".join(chr(0x4E00 + n * n % 3001) for n in range(250_000))
    assert judge(response=dense, reference=dense[::-1] + "。").unscored == "undefined"
    assert judge(response=dense, reference=dense).score == 1
