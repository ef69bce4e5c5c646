"""BLEU: the share of the answer's n-grams of one to four words that occur in the reference."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Unpack

from judges.catalogue.metric import MetricSettings
from judges.catalogue.parts.likeness import Likeness, bind_settings, import_extra
from judges.catalogue.parts.text import Tokenizer, checked_tokenizer, tokens
from judges.entry import Entry


class BleuScore(Likeness):
    """Judge by BLEU: the share of the answer's n-grams of one to four tokens that occur in the reference.

    Score = brevity penalty * geometric mean of the precisions, of one sentence, over the orders there are, with
    exponential smoothing, as sacrebleu counts.

    With `variant="compat"` it is ragas' number: both texts are cut at `". "`, and the first piece of the answer
    alone is compared, with all pieces of the reference as alternatives; it needs four tokens.

    Args:
        tokenizer: How texts become tokens: `"13a"` separates marks from words, `"zh"` splits Chinese into
            characters besides, `"char"` takes every character, `"word"` runs of letters and digits; `"auto"` is
            `"zh"`, and `"13a"` with `variant="compat"`.
        lowercase: Whether letter case is ignored.
        kwargs: Further settings of `sacrebleu.corpus_bleu`, by name (`smooth_method`, `smooth_value`, ...), as
            ragas takes them; `tokenize` replaces `tokenizer`.
        settings: See `judges.catalogue.metric.MetricSettings`.

    Raises:
        ConfigurationError: If a setting is unknown, or the extra is not installed.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.bleu_score",
        aliases=("BleuScore", "bleu_score", "bleu", "BleuScoreEvaluator"),
        asks="How much of the answer's wording is that of the reference (BLEU)?",
        needs=("response", "reference"),
        source="ragas 0.4; sacrebleu; Papineni et al. 2002",
        differs="The whole answer is compared, not its first sentence alone; texts of fewer than four words "
        "have a score; Chinese is taken by the character; no score is above 1.",
        extra="sacrebleu",
        tags=("similarity", "overlap", "translation", "n-grams"),
        examples=('kwargs={"smooth_method": "floor"}',),
        follows="both generations, which agree",
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
        self._tokenizer = auto if checked_tokenizer(tokenizer) == "auto" else tokenizer
        self._lowercase = lowercase
        self._whole = "tokenize" in kwargs
        defaults = {"tokenize": "none", "force": True, "use_effective_order": not self.compat}
        corpus_bleu = import_extra("sacrebleu", extra="sacrebleu", judge=self.name).corpus_bleu
        self._bleu = bind_settings(corpus_bleu, {**defaults, **kwargs}, setting="kwargs")

    def likeness(self, response: str, reference: str) -> float:
        """Return BLEU, from 0 to 1."""
        pieces = [[text] if not self.compat else text.split(". ") for text in (response, reference)]
        hypotheses, references = ([self._tokenize(text) for text in texts] for texts in pieces)
        return float(self._bleu(hypotheses, [[text] for text in references]).score / 100)

    def _tokenize(self, text: str) -> str:
        cased = text.lower() if self._lowercase else text
        return cased if self._whole else " ".join(tokens(cased, self._tokenizer))
