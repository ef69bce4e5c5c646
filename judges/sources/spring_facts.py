"""Fact checking after Spring AI: whether a document bears out what an answer says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Unpack

from pydantic import JsonValue

from judges.asking import Asking, ModelSettings, Question
from judges.entry import Entry
from judges.requests import Deliberation
from judges.sample import Sample
from judges.shapes.items import bullets, numbered, one_each, reasons, share, standing
from judges.shapes.needed import answer_in, contexts_in
from judges.shapes.one_question import Remark, in_words
from judges.shapes.sentences import sentences
from judges.shapes.support import SUPPORT
from judges.verdict import Verdict

WHOLE: Question[Remark] = in_words("fact_checking")


class FactCheckingEvaluator(Asking):
    """Judge whether every sentence of the answer is supported by the document: the retrieved contexts.

    The answer is split into sentences without a model, those that recur counting once, and each is found
    supported, contradicted or absent, in one call. Score = supported / sentences; it passes at `threshold`, 1.0
    unless given, so when all are supported. An answer without a letter or a digit is unscored, `no_claims`.

    With `variant="compat"` one yes or no, in words, is asked about the answer as a whole, and the score is 0 even
    where it passes, as in Spring AI.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        settings: See `judges.asking.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="spring.fact_checking_evaluator",
        aliases=("spring.fact_checking", "FactCheckingEvaluator"),
        asks="Does the document support every sentence of the answer?",
        needs=("response", "retrieved_contexts"),
        calls="1",
        source="Spring AI",
        differs="One verdict for each sentence, with reasons; the score is the share of supported ones, not "
        "always 0; no document is unscored.",
    )
    pack = "fact_checking"

    def __init__(self, model: object = None, **settings: Unpack[ModelSettings]) -> None:
        asked: Question[Any] = WHOLE if settings.get("variant") == "compat" else SUPPORT
        strict: ModelSettings = {"threshold": 1.0, **settings}
        super().__init__(model, questions=(asked,), **strict)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Check each sentence, or the answer as a whole."""
        answer = answer_in(sample)
        contexts: list[JsonValue] = [one for one in contexts_in(sample) if one.strip()]
        if self.compat:
            return _passing((yield from self.put(WHOLE, sample, {"contexts": contexts, "answer": answer})))
        said = tuple(dict.fromkeys(sentences(answer)))
        if not said:
            return Verdict.without_score("no_claims", "the answer says nothing in words")
        data: dict[str, JsonValue] = {"contexts": contexts, "claims": numbered(said, called="claim")}
        found = yield from self.put(SUPPORT, sample, data, check=one_each(len(said)))
        by_number = {one.number: one for one in found.items}
        items = [standing(sentence, by_number[number]) for number, sentence in enumerate(said, 1)]
        return self.verdict(
            share(items), rationale=reasons(items), feedback=self._advice(sample, items), items=tuple(items)
        )

    def _advice(self, sample: Sample, items: Sequence[Verdict]) -> str:
        """Name the contradicted sentences first, then the unsupported ones."""
        told = {
            "contradicted": [one.subject for one in items if one.value == "contradicted"],
            "unsupported": [one.subject for one in items if one.value == "absent"],
        }
        return "\n".join(self.say(name, sample, sentences=bullets(found)) for name, found in told.items() if found)


def _passing(found: Remark) -> Verdict:
    """Take nothing but the word itself for a yes, and leave the score at 0."""
    yes = found.verdict.strip().lower() == "yes"
    feedback = "" if yes else found.feedback
    return Verdict(value=0.0, score=0.0, rating=1, passed=yes, rationale=found.rationale, feedback=feedback)
