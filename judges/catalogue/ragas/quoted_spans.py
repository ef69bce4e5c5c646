"""Quoted spans: the share of an answer's quotations that occur in its contexts, word for word."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import ClassVar, Unpack

from judges.catalogue.metric import ComputedMetric, MetricSettings
from judges.catalogue.parts.items import bullets, share
from judges.catalogue.parts.needed import answer_in, contexts_in
from judges.catalogue.parts.quotations import occurs_in, plain_text, quotations
from judges.catalogue.parts.text import count_characters, count_words
from judges.entry import Entry
from judges.errors import CannotJudge
from judges.runtime.validation import whole_number
from judges.sample import Sample
from judges.verdict import Verdict

_MARK = "[\"\u201c\u201d\u201e\u201f'\u2018\u2019`\u00b4]"
_BETWEEN_ANY_MARKS = re.compile(f"{_MARK}(.*?){_MARK}")


class QuotedSpansAlignment(ComputedMetric):
    """Judge whether the answer's quotations occur in the contexts, word for word.

    Score = quotations found / quotations. Only those of at least `min_span_words` words, or of
    `min_span_characters` characters of Chinese or another script without blanks, count. Blanks, closing
    punctuation and, by default, letter case are ignored; `...` matches omitted text.

    With `variant="compat"` it is ragas' number: any two marks, apostrophes included, enclose a quotation, words
    are separated by blanks, and an answer that quotes nothing scores 1.

    Args:
        casefold: Whether letter case is ignored.
        min_span_words: Minimum number of words of a quotation that counts.
        min_span_characters: Minimum number of characters in a script without blanks; not with `variant="compat"`.
        settings: See `judges.catalogue.metric.MetricSettings`.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.quoted_spans_alignment",
        aliases=("QuotedSpansAlignment", "QuotedSpans", "quoted_spans_alignment", "quoted_spans"),
        asks="What share of the answer's quotations stands in the contexts, word for word?",
        needs=("response", "retrieved_contexts"),
        source="ragas 0.4",
        differs="Quotation marks of many scripts, none of them apostrophes; Chinese counts by the character; an "
        "answer that quotes nothing is unscored.",
        tags=("rag", "citation", "quotations", "attribution", "verbatim", "hallucination"),
        examples=("min_span_words=5", "min_span_characters=8"),
        follows="ragas.metrics.collections, the only one",
    )
    pack = "quoted_spans"

    def __init__(
        self,
        *,
        casefold: bool = True,
        min_span_words: int = 3,
        min_span_characters: int = 4,
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(**settings)
        self._casefold = casefold
        self._words = whole_number(min_span_words, setting="min_span_words")
        self._characters = whole_number(min_span_characters, setting="min_span_characters")

    def compute(self, sample: Sample) -> Verdict:
        """Look for each quotation."""
        answer = answer_in(sample)
        spans = self._between_any_marks(answer) if self.compat else self._quotations(answer)
        if not spans:
            return self._nothing_quoted()
        occurs = self._as_ragas(sample) if self.compat else self._in_contexts(sample)
        items = tuple(Verdict.checked(occurs(span), subject=span) for span in spans)
        astray = [item.subject for item in items if not item.passed]
        feedback = self.say("astray", sample, quotations=bullets(astray)) if astray else ""
        return self.verdict(share(items), rationale=feedback, feedback=feedback, items=items)

    def _nothing_quoted(self) -> Verdict:
        reason = "the answer quotes nothing"
        return self.verdict(1.0, rationale=reason) if self.compat else Verdict.without_score("no_claims", reason)

    def _quotations(self, answer: str) -> Sequence[str]:
        return [
            one
            for one in quotations(answer)
            if count_words(one) >= self._words or count_characters(one) >= self._characters
        ]

    def _in_contexts(self, sample: Sample) -> Callable[[str], bool]:
        source = plain_text(" ".join(contexts_in(sample)), casefold=self._casefold)
        return lambda span: occurs_in(span, source, casefold=self._casefold)

    def _between_any_marks(self, answer: str) -> Sequence[str]:
        spans = [one.strip() for one in _BETWEEN_ANY_MARKS.findall(answer)]
        return [one for one in spans if len(one.split()) >= self._words]

    def _as_ragas(self, sample: Sample) -> Callable[[str], bool]:
        if sample.retrieved_contexts is None:
            raise CannotJudge("no_contexts", "there are no retrieved contexts to look at")
        source = self._lower(" ".join(sample.retrieved_contexts))
        return lambda span: self._lower(span) in source

    def _lower(self, text: str) -> str:
        return re.sub(r"\s+", " ", text).strip().lower() if self._casefold else text
