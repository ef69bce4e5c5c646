"""ROUGE: how many words of the reference the answer has, and how many of its own the reference has."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Literal, Unpack

from judges.catalogue.metric import MetricSettings
from judges.catalogue.parts.f_score import f_score
from judges.catalogue.parts.likeness import Likeness
from judges.catalogue.parts.porter import stem
from judges.catalogue.parts.text import Tokenizer, common_subsequence, known_tokenizer, tokens
from judges.entry import Entry
from judges.errors import CannotJudge, ConfigurationError
from judges.runtime.validation import one_of

RougeType = Literal["rouge1", "rouge2", "rougeL"]
RougeMode = Literal["fmeasure", "precision", "recall"]
_ENGLISH = re.compile(r"[a-z0-9]+")
_LONGEST_AS_IS = 3


class RougeScore(Likeness):
    """Judge by ROUGE: single tokens, pairs, or the longest sequence that answer and reference share.

    Precision = shared / those of the answer; recall = shared / those of the reference; F = their harmonic mean.

    With `variant="compat"` tokens are the runs of a-z and 0-9, as in the package rouge_score, so that Chinese has
    none and scores 0.

    Args:
        rouge_type: `"rouge1"`, `"rouge2"` or `"rougeL"` (longest common subsequence).
        mode: `"fmeasure"`, `"precision"` or `"recall"`.
        tokenizer: See `judges.catalogue.parts.text.Tokenizer`; with `variant="compat"` just `"auto"` is possible.
        use_stemmer: Whether English words are stemmed, after Porter.
        settings: See `judges.catalogue.metric.MetricSettings`.

    Raises:
        ConfigurationError: If a setting is unknown.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.rouge_score",
        aliases=("RougeScore", "rouge_score", "rouge"),
        asks="How much wording do answer and reference share (ROUGE)?",
        needs=("response", "reference"),
        source="ragas 0.4; rouge_score; Lin 2004",
        differs="Words of every script count, Chinese by the character; a reference without a word is unscored.",
    )

    def __init__(
        self,
        *,
        rouge_type: RougeType = "rougeL",
        mode: RougeMode = "fmeasure",
        tokenizer: Tokenizer = "auto",
        use_stemmer: bool = True,
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(**settings)
        one_of(RougeType, rouge_type, setting="rouge_type")
        one_of(RougeMode, mode, setting="mode")
        if known_tokenizer(tokenizer) != "auto" and self.compat:
            raise ConfigurationError("variant='compat' has a tokenizer of its own; leave tokenizer out")
        self._type, self._mode, self._tokenizer, self._stems = rouge_type, mode, tokenizer, use_stemmer

    def likeness(self, response: str, reference: str) -> float:
        """Give ROUGE, from 0 to 1."""
        given, wanted = self._tokens(response), self._tokens(reference)
        if not self.compat and not wanted:
            raise CannotJudge("undefined", "the reference has no word to look for")
        if self._type == "rougeL":
            return self._of(common_subsequence(given, wanted), len(given), len(wanted))
        runs, others = (_runs(one, int(self._type[-1])) for one in (given, wanted))
        return self._of((runs & others).total(), runs.total(), others.total())

    def _of(self, shared: int, given: int, wanted: int) -> float:
        precision, recall = shared / max(given, 1), shared / max(wanted, 1)
        if self._mode == "fmeasure":
            return f_score(precision, recall)
        return precision if self._mode == "precision" else recall

    def _tokens(self, text: str) -> list[str]:
        found = _ENGLISH.findall(text.lower()) if self.compat else tokens(text, self._tokenizer)
        if not self._stems:
            return found
        stems = {one: stem(one) for one in set(found) if len(one) > _LONGEST_AS_IS and _ENGLISH.fullmatch(one)}
        return [stems.get(one, one) for one in found]


def _runs(found: Sequence[str], length: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(found[begun:] for begun in range(length)), strict=False))
