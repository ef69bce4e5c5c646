"""ROUGE: the overlap in words between answer and reference, as precision, recall or F-measure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Literal, Unpack

from judges.catalogue.metric import MetricSettings
from judges.catalogue.parts.f_score import f_score
from judges.catalogue.parts.likeness import Likeness
from judges.catalogue.parts.porter import stem
from judges.catalogue.parts.text import Tokenizer, checked_tokenizer, common_subsequence, tokens
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
        tokenizer: How texts become tokens: `"13a"` separates marks from words, `"zh"` splits Chinese into
            characters besides, `"char"` takes every character, `"word"` runs of letters and digits; `"auto"` takes
            characters in scripts without blanks, and else words. `variant="compat"` allows only `"auto"`.
        use_stemmer: Whether English words are stemmed, by Porter's algorithm.
        settings: See `judges.catalogue.metric.MetricSettings`.

    Raises:
        ConfigurationError: If a setting is unknown.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.rouge_score",
        aliases=("RougeScore", "rouge_score", "rouge", "rouge-n", "RougeScoreEvaluator", "response_match_score"),
        asks="How much wording do answer and reference share (ROUGE)?",
        needs=("response", "reference"),
        source="ragas 0.4; rouge_score; Lin 2004",
        differs="Words of every script count, Chinese by the character; a reference without a word is unscored.",
        tags=("similarity", "overlap", "summary", "n-grams"),
        follows="both generations, which agree",
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
        if checked_tokenizer(tokenizer) != "auto" and self.compat:
            raise ConfigurationError("variant='compat' has a tokenizer of its own; leave tokenizer out")
        self._type, self._mode, self._tokenizer, self._stems = rouge_type, mode, tokenizer, use_stemmer

    def likeness(self, response: str, reference: str) -> float:
        """Return ROUGE, from 0 to 1."""
        response_tokens, reference_tokens = self._tokens(response), self._tokens(reference)
        if not self.compat and not reference_tokens:
            raise CannotJudge("undefined", "the reference has no word to look for")
        if self._type == "rougeL":
            return self._value(
                common_subsequence(response_tokens, reference_tokens), len(response_tokens), len(reference_tokens)
            )
        ngrams, others = (_ngrams(words, int(self._type[-1])) for words in (response_tokens, reference_tokens))
        return self._value((ngrams & others).total(), ngrams.total(), others.total())

    def _value(self, shared: int, in_response: int, in_reference: int) -> float:
        precision, recall = shared / max(in_response, 1), shared / max(in_reference, 1)
        if self._mode == "fmeasure":
            return f_score(precision, recall)
        return precision if self._mode == "precision" else recall

    def _tokens(self, text: str) -> list[str]:
        words = _ENGLISH.findall(text.lower()) if self.compat else tokens(text, self._tokenizer)
        if not self._stems:
            return words
        stems = {one: stem(one) for one in set(words) if len(one) > _LONGEST_AS_IS and _ENGLISH.fullmatch(one)}
        return [stems.get(word, word) for word in words]


def _ngrams(words: Sequence[str], length: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[start:] for start in range(length)), strict=False))
