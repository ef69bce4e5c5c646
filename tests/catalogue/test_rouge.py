"""ROUGE of an answer: as the package rouge_score counts, and in any script."""

from __future__ import annotations

from typing import Any

import pytest

from judges import ConfigurationError, load
from judges.catalogue.ragas.overlap import stem
from tests.catalogue.test_strings import CHINESE, ENGLISH, every_variant
from tests.laws import for_every

TALLER = {
    "response": "The Eiffel Tower is located in Paris.",
    "reference": "The Eiffel Tower is located in Paris. It has a height of 1000ft.",
}


@every_variant
@pytest.mark.parametrize(
    ("rouge_type", "mode", "sample", "score"),
    [
        ("rouge1", "fmeasure", ENGLISH, 0.8571428571428571),
        ("rouge2", "fmeasure", ENGLISH, 0.8333333333333334),
        ("rougeL", "fmeasure", ENGLISH, 0.8571428571428571),
        ("rouge1", "precision", TALLER, 1.0),
        ("rouge1", "recall", TALLER, 7 / 13),
        ("rouge1", "fmeasure", TALLER, 0.7),
        ("rouge2", "precision", TALLER, 1.0),
        ("rouge2", "recall", TALLER, 0.5),
        ("rouge2", "fmeasure", TALLER, 2 / 3),
        ("rougeL", "precision", TALLER, 1.0),
        ("rougeL", "recall", TALLER, 7 / 13),
        ("rougeL", "fmeasure", TALLER, 0.7),
        ("rouge1", "fmeasure", {"response": "studies studied", "reference": "studying study"}, 1.0),
        ("rouge2", "fmeasure", {"response": "one", "reference": "two"}, 0.0),
        ("rougeL", "fmeasure", {"response": "the the the", "reference": "the cat"}, 0.4),
    ],
)
async def test_english_is_counted_as_the_reference_does(
    variant: str, rouge_type: str, mode: str, sample: dict[str, str], score: float
) -> None:
    """Stemmed words, pairs and longest common subsequence, sync and async, in both variants."""
    judge = load("rouge", rouge_type=rouge_type, mode=mode, variant=variant)
    for verdict in (judge(sample), await judge.acall(sample)):
        assert verdict.score == pytest.approx(score, abs=1e-12)
        assert verdict.usage.calls == 0


@pytest.mark.parametrize(("rouge_type", "score"), [("rouge1", 0.8), ("rouge2", 2 / 3), ("rougeL", 0.8)])
def test_chinese_is_counted_by_the_character(rouge_type: str, score: float) -> None:
    """Compat, whose words are of a-z and 0-9, finds none."""
    assert load("RougeScore", rouge_type=rouge_type)(CHINESE).score == pytest.approx(score, abs=1e-12)
    assert load("RougeScore", rouge_type=rouge_type, variant="compat")(CHINESE).score == 0


def test_other_scripts_have_words() -> None:
    """Russian, which compat cannot read."""
    sample = {"response": "Башня стоит в Париже", "reference": "башня стоит в Лондоне"}
    assert load("rouge_score")(sample).score == 0.75
    assert load("rouge_score", variant="compat")(sample).score == 0


def test_the_stemmer_can_be_left_out() -> None:
    """Then words must be the same."""
    sample = {"response": "running", "reference": "runs"}
    assert load("rouge_score")(sample).score == 1
    assert load("rouge_score", use_stemmer=False)(sample).score == 0


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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rouge_type": "rouge3"}, "rouge_type is 'rouge1', 'rouge2' or 'rougeL', not 'rouge3'"),
        ({"mode": "f1"}, "mode is 'fmeasure', 'precision' or 'recall', not 'f1'"),
        ({"tokenizer": "bpe"}, "tokenizer is 'auto', '13a'"),
        ({"tokenizer": "char", "variant": "compat"}, "leave tokenizer out"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    """One clear line at construction."""
    with pytest.raises(ConfigurationError, match=message):
        load("rouge_score", **settings)


def test_a_megabyte_against_a_page_is_scored() -> None:
    """Long texts are compared exactly; two that are both very long and different are unscored."""
    judge = load("rouge_score")
    long = " ".join(f"w{n % 5000}" for n in range(150_000))
    assert judge(response=long, reference="w1 w2 w3 w4999 nowhere").score == pytest.approx(8 / 150_005)
    dense = "".join(chr(0x4E00 + n * n % 3001) for n in range(250_000))
    assert judge(response=dense, reference=dense[::-1] + "。").unscored == "undefined"
    assert judge(response=dense, reference=dense).score == 1


@pytest.mark.parametrize(("rouge_type", "text"), [("rougeL", "🙂"), ("rouge1", "!!!"), ("rouge2", "Paris")])
def test_equal_texts_score_1_also_without_a_run_of_words(rouge_type: str, text: str) -> None:
    """Else the right answer could never be accepted; compat has nothing to count."""
    sample = {"response": text, "reference": text}
    assert load("rouge", rouge_type=rouge_type)(sample).score == 1
    assert load("rouge", rouge_type=rouge_type, variant="compat")(sample).score == 0


def test_a_reference_without_a_word_is_unscored() -> None:
    """There is nothing that an answer could share with it."""
    assert load("rouge")(response="...", reference="!").unscored == "undefined"
    assert load("rouge", variant="compat")(response="...", reference="!").score == 0
