"""METEOR: words of the answer aligned with the reference's, by spelling, by stem and, if asked for, by synonym."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Any, ClassVar, Protocol, Unpack

from judges.catalogue.metric import MetricSettings
from judges.catalogue.parts.likeness import Likeness, import_extra
from judges.catalogue.parts.text import Tokenizer, checked_tokenizer, tokens
from judges.entry import Entry
from judges.errors import CannotJudge, ConfigurationError, shortened
from judges.runtime.validation import finite_number

_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
_NO_WORDNET = (
    "synonyms=True needs WordNet on this machine: run `python -m nltk.downloader wordnet` once, or leave it out"
)


class Meteor(Likeness):
    """Judge by METEOR: how many words answer and reference share, and in how few runs they stand.

    F = P R / (alpha P + (1 - alpha) R) over aligned words; score = F (1 - gamma (runs / aligned words) ^ beta).
    Words are aligned by spelling, what is left by stem (English by Porter's, Russian by Snowball's algorithm), as
    nltk does. Synonyms are left out unless `synonyms` is set, because they need the data of WordNet, which is
    downloaded apart; without them a score is at most that of implementations that have them.

    With `variant="compat"` marks count as words, stems are Porter's alone and equal texts score below 1, as in
    nltk; its defaults include `synonyms=True`.

    Args:
        synonyms: Whether words left over are aligned by WordNet's English synonyms, from nltk's installed data.
        alpha: Weight of precision against recall in F, 0 to 1.
        beta: How sharply many runs are punished, from 0.
        gamma: Largest share of F that many runs cost, 0 to 1.
        tokenizer: How texts become words: `"auto"`, by words, and by characters in Chinese and the like; `"13a"`,
            as machine translation counts, the default with `variant="compat"`; `"zh"`, `"char"` or `"word"`.
        settings: See `judges.catalogue.metric.MetricSettings`.

    Raises:
        ConfigurationError: If a setting is out of its range, the extra is not installed, or WordNet is needed and
            missing.
    """

    entry: ClassVar[Entry] = Entry(
        name="meteor",
        aliases=("meteor_score", "MeteorScore", "METEOR", "Meteor", "MeteorScoreEvaluator"),
        asks="How many words do answer and reference share, by stem, and in how few runs (METEOR)?",
        needs=("response", "reference"),
        source="nltk; Lavie and Agarwal 2007",
        differs="Synonyms only with `synonyms=True` and WordNet installed; Chinese is taken by the character; "
        "Russian words are stemmed; equal texts score 1.",
        extra="meteor",
        tags=("overlap", "translation", "summary"),
        examples=("synonyms=False", "alpha=0.5", "beta=1.0", "gamma=0.25", 'tokenizer="char"'),
    )

    def __init__(
        self,
        *,
        synonyms: bool = False,
        alpha: float = 0.9,
        beta: float = 3.0,
        gamma: float = 0.5,
        tokenizer: Tokenizer = "auto",
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(**settings)
        _check("alpha", alpha, highest=1)
        _check("beta", beta)
        _check("gamma", gamma, highest=1)
        auto: Tokenizer = "13a" if self.compat else "auto"
        self._tokenizer = auto if checked_tokenizer(tokenizer) == "auto" else tokenizer
        self._weights = {"alpha": float(alpha), "beta": float(beta), "gamma": float(gamma)}
        self._synonyms = bool(synonyms)
        import_extra("nltk.translate.meteor_score", extra="meteor", judge=self.name)
        if self._synonyms:
            _check_wordnet()

    def likeness(self, response: str, reference: str) -> float:
        """Return METEOR, from 0 to 1."""
        actual, expected = (self._words(text) for text in (response, reference))
        if not self.compat and not expected:
            raise CannotJudge("undefined", "the reference has no word to look for")
        nltk = _nltk()
        stemmer = nltk.english if self.compat else _ByScript(nltk)
        wordnet = nltk.wordnet if self._synonyms else _NoSynonyms()
        return nltk.score(expected, actual, stemmer=stemmer, wordnet=wordnet, **self._weights)

    def _words(self, text: str) -> list[str]:
        words = tokens(text, self._tokenizer)
        if self._tokenizer != "auto":
            return words
        return [
            word for word in words if word.isalnum() or len(word) > 1
        ]  # scripts without blanks keep their marks


class _Stemmer(Protocol):
    def stem(self, word: str) -> str: ...


@dataclass(frozen=True)
class _Nltk:
    """What is used of nltk, which takes seconds to import."""

    score: Callable[..., float]
    english: _Stemmer
    russian: _Stemmer
    wordnet: Any


@dataclass(frozen=True)
class _ByScript:
    """A stemmer that takes Cyrillic words for Russian, and all others for English."""

    nltk: _Nltk

    def stem(self, word: str) -> str:
        """Return the stem of a lower-case word."""
        return (self.nltk.russian if _CYRILLIC.search(word) else self.nltk.english).stem(word)


class _NoSynonyms:
    """Stands where nltk looks synonyms up, and knows none."""

    def synsets(self, word: str) -> tuple[()]:
        """Return nothing."""
        del word
        return ()


@cache
def _nltk() -> _Nltk:
    from nltk.corpus import wordnet  # noqa: PLC0415 - an extra, imported on demand
    from nltk.stem.porter import PorterStemmer  # noqa: PLC0415
    from nltk.stem.snowball import SnowballStemmer  # noqa: PLC0415
    from nltk.translate.meteor_score import single_meteor_score  # noqa: PLC0415

    return _Nltk(single_meteor_score, PorterStemmer(), SnowballStemmer("russian"), wordnet)


def _check_wordnet() -> None:
    try:
        _nltk().wordnet.ensure_loaded()
    except (LookupError, OSError):
        raise ConfigurationError(_NO_WORDNET) from None


def _check(setting: str, value: float, *, highest: float = inf) -> None:
    if finite_number(value, setting=setting) < 0 or value > highest:
        bounds = "from 0" if highest == inf else f"from 0 to {highest:g}"
        raise ConfigurationError(f"{setting} is a number {bounds}, not {shortened(value)}")
