"""Quoted spans: the share of an answer's quotations that stand in its contexts, word for word."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import ClassVar, Unpack

from judges.catalogue.metric import Measured, MetricSettings
from judges.catalogue.parts.items import bullets, share
from judges.catalogue.parts.needed import answer_in, contexts_in
from judges.catalogue.parts.quotations import plain, quotations, stands_in
from judges.catalogue.parts.text import characters, words
from judges.entry import Entry
from judges.errors import CannotJudge
from judges.runtime.validation import whole
from judges.sample import Sample
from judges.verdict import Verdict

_MARK = "[\"\u201c\u201d\u201e\u201f'\u2018\u2019`\u00b4]"
_BETWEEN_ANY_MARKS = re.compile(f"{_MARK}(.*?){_MARK}")


class QuotedSpansAlignment(Measured):
    """Judge whether what the answer quotes stands in the contexts, word for word.

    Score = quotations found / quotations. Only those of at least `min_span_words` words, or of
    `min_span_characters` characters of Chinese or another script without blanks, count. Blanks, marks at the end
    and, unless told, capital letters make no difference; `...` stands for what is left out.

    With `variant="compat"` it is ragas' number: any two marks, apostrophes included, are a quotation, words are
    what stands between blanks, and an answer that quotes nothing has 1.

    Args:
        casefold: Whether capital letters are the same as small ones.
        min_span_words: Fewest words of a quotation that counts.
        min_span_characters: Fewest characters of one in a script without blanks; not with `variant="compat"`.
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
        self._words = whole(min_span_words, setting="min_span_words")
        self._characters = whole(min_span_characters, setting="min_span_characters")

    def measured(self, sample: Sample) -> Verdict:
        """Look for each quotation."""
        answer = answer_in(sample)
        spans = self._between_any_marks(answer) if self.compat else self._quoted(answer)
        if not spans:
            return self._nothing_quoted()
        found = self._as_ragas(sample) if self.compat else self._in_contexts(sample)
        items = tuple(Verdict.checked(found(one), subject=one) for one in spans)
        astray = [one.subject for one in items if not one.passed]
        told = self.say("astray", sample, quotations=bullets(astray)) if astray else ""
        return self.verdict(share(items), rationale=told, feedback=told, items=items)

    def _nothing_quoted(self) -> Verdict:
        told = "the answer quotes nothing"
        return self.verdict(1.0, rationale=told) if self.compat else Verdict.without_score("no_claims", told)

    def _quoted(self, answer: str) -> Sequence[str]:
        return [
            one for one in quotations(answer) if words(one) >= self._words or characters(one) >= self._characters
        ]

    def _in_contexts(self, sample: Sample) -> Callable[[str], bool]:
        source = plain(" ".join(contexts_in(sample)), casefold=self._casefold)
        return lambda span: stands_in(span, source, casefold=self._casefold)

    def _between_any_marks(self, answer: str) -> Sequence[str]:
        spans = [one.strip() for one in _BETWEEN_ANY_MARKS.findall(answer)]
        return [one for one in spans if len(one.split()) >= self._words]

    def _as_ragas(self, sample: Sample) -> Callable[[str], bool]:
        if sample.retrieved_contexts is None:
            raise CannotJudge("no_contexts", "there are no retrieved contexts to look at")
        source = self._lowered(" ".join(sample.retrieved_contexts))
        return lambda span: self._lowered(span) in source

    def _lowered(self, text: str) -> str:
        return re.sub(r"\s+", " ", text).strip().lower() if self._casefold else text
