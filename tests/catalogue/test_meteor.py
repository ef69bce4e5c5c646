"""METEOR of an answer, by nltk's own numbers."""

from __future__ import annotations

import random
from typing import Any

import pytest
from nltk.stem.porter import PorterStemmer
from nltk.translate.meteor_score import single_meteor_score

from judges import load
from judges.catalogue.parts.text import tokens

GUIDE = "It is a guide to action which ensures that the military always obeys the commands of the party"
GUIDE_REFERENCE = "It is a guide to action that ensures that the military will forever heed Party commands"
WORDS = "run runs running cat cats the a mouse mice jumped jump over dogs dog quickly quick, house!".split()  # noqa: SIM905 - reads as a text


class NoWordNet:
    """A WordNet without entries."""

    def synsets(self, word: str) -> list[Any]:
        """Know nothing."""
        return []


def expected(words: tuple[list[str], list[str]], weights: dict[str, float]) -> float:
    """Return nltk's own number for words, without synonyms."""
    answer, reference = words
    return float(single_meteor_score(reference, answer, stemmer=PorterStemmer(), wordnet=NoWordNet(), **weights))


def test_the_number_is_that_of_nltk_where_no_synonym_plays() -> None:
    """Its documented example, and random texts of inflected words, by both variants and other weights."""
    assert load("meteor")(answer=GUIDE, reference=GUIDE_REFERENCE).score == pytest.approx(0.6944, abs=5e-5)
    chance = random.Random(15)
    for _ in range(150):
        answer, reference = (" ".join(chance.choices(WORDS, k=chance.randint(1, 12))) for _ in range(2))
        weights = {"alpha": chance.random(), "beta": 4 * chance.random(), "gamma": chance.random()}
        words = tokens(answer, "auto"), tokens(reference, "auto")
        marked = tokens(answer, "13a"), tokens(reference, "13a")
        sample = {"answer": answer, "reference": reference}
        if answer != reference:
            assert load("meteor", **weights)(sample).score == pytest.approx(expected(words, weights), abs=1e-12)
        compat = load("METEOR", variant="compat", **weights)(sample)
        assert compat.score == pytest.approx(expected(marked, weights), abs=1e-12)
