"""Token F1: the overlap of the answer's words with the reference's, as SQuAD counts it."""

from __future__ import annotations

import re
import string
from collections import Counter
from typing import ClassVar
from unicodedata import category

from judges.catalogue.parts.f_score import f_of_counts
from judges.catalogue.parts.likeness import Likeness
from judges.catalogue.parts.text import tokens
from judges.entry import Entry

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_ASCII_MARKS = str.maketrans("", "", string.punctuation)


class TokenF1(Likeness):
    """Judge the answer by the F1 of its words and the reference's, without case, punctuation and articles.

    F1 = 2 P R / (P + R) over words with their numbers. Scripts without blanks count by the character; with
    `variant="compat"` words are what stands between blanks, as in the script of SQuAD.

    Args:
        settings: See `judges.catalogue.metric.MetricSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="token_f1",
        aliases=("f1_score", "F1ScoreEvaluator", "squad_f1", "f1", "TokenF1"),
        asks="How far do the words of the answer and of the reference overlap (F1)?",
        needs=("response", "reference"),
        source="SQuAD (Rajpurkar et al. 2016)",
        differs="Scripts without blanks count by the character; punctuation of all scripts is left out.",
        tags=("overlap", "question answering", "exact match", "similarity"),
    )

    def likeness(self, response: str, reference: str) -> float:
        """Return F1, from 0 to 1; of texts without words 1 if both are, else 0."""
        actual, expected = Counter(self._words(response)), Counter(self._words(reference))
        if not actual or not expected:
            return float(actual == expected)
        common = (actual & expected).total()
        return f_of_counts(common, actual.total() - common, expected.total() - common)

    def _words(self, text: str) -> list[str]:
        bare = text.lower().translate(_ASCII_MARKS)
        if self.compat:
            return _ARTICLES.sub(" ", bare).split()
        bare = "".join(character for character in bare if not category(character).startswith("P"))
        return tokens(_ARTICLES.sub(" ", bare), "auto")
