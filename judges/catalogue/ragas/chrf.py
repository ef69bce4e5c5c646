"""chrF: how many runs of characters answer and reference share."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Unpack

from judges.catalogue.metric import MetricSettings
from judges.catalogue.parts.likeness import Likeness, required, settled
from judges.entry import Entry
from judges.runtime.validation import whole


class ChrfScore(Likeness):
    """Judge by chrF: the F-score of runs of one to six characters, blanks left out, that both texts have.

    It suits all scripts. `word_order=2` counts runs of words as well (chrF++).

    Args:
        char_order: Longest run of characters.
        word_order: Longest run of words; 0 for none.
        beta: How many times as much recall weighs as precision.
        lowercase: Whether capital letters are the same as small ones.
        kwargs: Further settings of `sacrebleu.corpus_chrf`, by name (`remove_whitespace`, ...), as ragas
            takes them; they go before those above.
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
        least = {"char_order": (char_order, 1), "word_order": (word_order, 0), "beta": (beta, 1)}
        for name, (given, lowest) in least.items():
            whole(given, least=lowest, setting=name)
        usual = {"char_order": char_order, "word_order": word_order, "beta": beta}
        corpus_chrf = required("sacrebleu", extra="sacrebleu", judge=self.name).corpus_chrf
        self._chrf = settled(corpus_chrf, {**usual, **kwargs}, setting="kwargs")
        self._lowercase = lowercase

    def likeness(self, response: str, reference: str) -> float:
        """Give chrF, from 0 to 1."""
        if not response.strip() or not reference.strip():
            return 0.0
        given, wanted = (one.lower() if self._lowercase else one for one in (response, reference))
        return float(self._chrf([given], [[wanted]]).score / 100)
