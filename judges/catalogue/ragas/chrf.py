"""chrF: how many character n-grams answer and reference share."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Unpack

from judges.catalogue.metric import MetricSettings
from judges.catalogue.parts.likeness import Likeness, bind_settings, import_extra
from judges.entry import Entry
from judges.runtime.validation import whole_number


class ChrfScore(Likeness):
    """Judge by chrF: the F-score of the n-grams of one to six characters, without blanks, that both texts share.

    It suits all scripts. `word_order=2` counts word n-grams as well (chrF++).

    Args:
        char_order: Length of the longest character n-grams.
        word_order: Length of the longest word n-grams; 0 for none.
        beta: How many times as much recall weighs as precision.
        lowercase: Whether letter case is ignored.
        kwargs: Further settings of `sacrebleu.corpus_chrf`, by name (`remove_whitespace`, ...), as ragas
            takes them; they take precedence over those above.
        settings: See `judges.catalogue.metric.MetricSettings`.

    Raises:
        ConfigurationError: If a setting is out of its range, or the extra is not installed.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.chrf_score",
        aliases=("ChrfScore", "CHRFScore", "chrf_score", "chrf"),
        asks="How many runs of characters do answer and reference share (chrF)?",
        needs=("response", "reference"),
        source="ragas 0.4; sacrebleu; Popovic 2015",
        differs="A blank answer or reference is unscored.",
        extra="sacrebleu",
        tags=("similarity", "overlap", "translation", "n-grams", "characters"),
        examples=("word_order=2", "char_order=4", "beta=3", 'kwargs={"remove_whitespace": False}'),
        follows="both generations, which agree",
    )

    def __init__(
        self,
        *,
        char_order: int = 6,
        word_order: int = 0,
        beta: int = 2,
        lowercase: bool = False,
        kwargs: Mapping[str, object] = MappingProxyType({}),
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(**settings)
        minima = {"char_order": (char_order, 1), "word_order": (word_order, 0), "beta": (beta, 1)}
        for name, (value, lowest) in minima.items():
            whole_number(value, least=lowest, setting=name)
        defaults = {"char_order": char_order, "word_order": word_order, "beta": beta}
        corpus_chrf = import_extra("sacrebleu", extra="sacrebleu", judge=self.name).corpus_chrf
        self._chrf = bind_settings(corpus_chrf, {**defaults, **kwargs}, setting="kwargs")
        self._lowercase = lowercase

    def likeness(self, response: str, reference: str) -> float:
        """Return chrF, from 0 to 1."""
        if not response.strip() or not reference.strip():
            return 0.0
        hypothesis, expected = (text.lower() if self._lowercase else text for text in (response, reference))
        return float(self._chrf([hypothesis], [[expected]]).score / 100)
