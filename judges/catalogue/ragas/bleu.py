"""BLEU: how many of the answer's runs of one to four words stand in the reference."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Unpack

from judges.catalogue.metric import MetricSettings
from judges.catalogue.parts.likeness import Likeness, required, settled
from judges.catalogue.parts.text import Tokenizer, known_tokenizer, tokens
from judges.entry import Entry


class BleuScore(Likeness):
    """Judge by BLEU: the share of the answer's runs of one to four tokens that stand in the reference.

    Score = brevity penalty * geometric mean of the precisions, of one sentence, over the orders there are, with
    exponential smoothing, as sacrebleu counts.

    With `variant="compat"` it is ragas' number: both texts are cut at `". "`, and the first piece of the answer
    alone is compared, with all pieces of the reference as alternatives; it needs four tokens.

    Args:
        tokenizer: See `judges.catalogue.parts.text.Tokenizer`; `"auto"` is `"zh"`, and `"13a"` with
            `variant="compat"`.
        lowercase: Whether capital letters are the same as small ones.
        kwargs: Further settings of `sacrebleu.corpus_bleu`, by name (`smooth_method`, `smooth_value`, ...), as
            ragas takes them; with `tokenize`, that one cuts the texts.
        settings: See `judges.catalogue.metric.MetricSettings`.

    Raises:
        ConfigurationError: If a setting is unknown, or the extra is not installed.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.bleu_score",
        aliases=("BleuScore", "bleu_score", "bleu"),
        asks="How much of the answer's wording is that of the reference (BLEU)?",
        needs=("response", "reference"),
        source="ragas 0.4; sacrebleu; Papineni et al. 2002",
        differs="The whole answer is compared, not its first sentence alone; texts of fewer than four words "
        "have a score; Chinese is taken by the character; no score is above 1.",
        extra="sacrebleu",
    )

    def __init__(
        self,
        *,
        tokenizer: Tokenizer = "auto",
        lowercase: bool = False,
        kwargs: Mapping[str, object] = MappingProxyType({}),
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(**settings)
        auto: Tokenizer = "13a" if self.compat else "zh"
        self._tokenizer = auto if known_tokenizer(tokenizer) == "auto" else tokenizer
        self._lowercase = lowercase
        self._whole = "tokenize" in kwargs
        usual = {"tokenize": "none", "force": True, "use_effective_order": not self.compat}
        corpus_bleu = required("sacrebleu", extra="sacrebleu", judge=self.name).corpus_bleu
        self._bleu = settled(corpus_bleu, {**usual, **kwargs}, setting="kwargs")

    def likeness(self, response: str, reference: str) -> float:
        """Give BLEU, from 0 to 1."""
        pieces = [[one] if not self.compat else one.split(". ") for one in (response, reference)]
        given, wanted = ([self._apart(one) for one in texts] for texts in pieces)
        return float(self._bleu(given, [[one] for one in wanted]).score / 100)

    def _apart(self, text: str) -> str:
        cased = text.lower() if self._lowercase else text
        return cased if self._whole else " ".join(tokens(cased, self._tokenizer))
