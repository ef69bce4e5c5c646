"""METEOR of an answer, by nltk's own numbers."""

from __future__ import annotations

import random
import sys
from typing import Any

import nltk
import pytest
from nltk.stem.porter import PorterStemmer
from nltk.translate.meteor_score import single_meteor_score

from judges import ConfigurationError, load
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


@pytest.mark.parametrize(
    ("answer", "reference", "score"),
    [
        ("Коты бежали домой", "кот бежал домой", 1 - 0.5 / 27),
        ("猫坐在垫子上", "猫坐在垫子上。", 1 - 0.5 / 6**3),
        ("Der Turm steht", "der turm steht!", 1 - 0.5 / 27),
        ("same words", "same words", 1),
        ("rome", "paris", 0),
        ("...", "paris", 0),
    ],
)
def test_every_script_is_aligned(answer: str, reference: str, score: float) -> None:
    """Russian by stem, Chinese by the character; worked out by hand."""
    assert load("meteor")(answer=answer, reference=reference).score == pytest.approx(score)


def test_feedback_and_missing_texts() -> None:
    """What differs is said in the language of the question without the reference; blank texts have no score."""
    for question, phrase in (("Where?", "Words that are not"), ("在哪里？", "答案"), ("Где это?", "Слова")):
        verdict = load("meteor")(question=question, answer="It is Rome", reference="Paris")
        assert phrase in verdict.feedback
        assert "Paris" not in verdict.feedback
    assert load("meteor")(answer=" ", reference="a").unscored == "no_response"
    assert load("meteor")(answer="a").unscored == "no_reference"
    assert load("meteor")(answer="a", reference="!").unscored == "undefined"


def test_synonyms_need_wordnet(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are never downloaded: without nltk's data one line says what to do."""
    monkeypatch.setattr(nltk.data, "path", [])
    with pytest.raises(ConfigurationError, match=r"python -m nltk\.downloader wordnet"):
        load("meteor", synonyms=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 1.5}, "alpha is a number from 0 to 1, not 1.5"),
        ({"beta": -1}, "beta is a number from 0, not -1"),
        ({"gamma": "x"}, "gamma is a"),
        ({"tokenizer": "words"}, "tokenizer"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    """One clear line at construction."""
    with pytest.raises(ConfigurationError, match=message):
        load("meteor", **settings)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without nltk the judge cannot be made."""
    monkeypatch.setitem(sys.modules, "nltk.translate.meteor_score", None)
    with pytest.raises(ConfigurationError, match=r"selfrefine\[meteor\]"):
        load("meteor")
