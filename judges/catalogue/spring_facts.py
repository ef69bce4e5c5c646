"""Fact checking modelled on Spring AI: whether a document supports what an answer says."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, Unpack

from pydantic import JsonValue

from judges.catalogue.model_judge import ModelJudge, ModelSettings, all_of
from judges.catalogue.parts.items import reasons, share
from judges.catalogue.parts.needed import answer_in, non_blank_contexts_in
from judges.catalogue.parts.one_question import yes_or_no_question
from judges.catalogue.parts.sentences import sentences
from judges.catalogue.parts.support import SUPPORT, support_feedback, verify_claims
from judges.entry import Entry
from judges.prompting.questions import Question
from judges.requests import Deliberation
from judges.runtime.validation import one_of
from judges.sample import Sample
from judges.verdict import Verdict

FactPrompt = Literal["general", "minicheck"]

SUPPORTED: Question[Any] = yes_or_no_question("fact_checking")
"""Asks whether the contexts support the answer, or one sentence of it, as a whole."""


class FactCheckingEvaluator(ModelJudge):
    """Judge whether every sentence of the answer is supported by the document: the retrieved contexts.

    The answer is split into sentences without a model, repeated ones counting once, and one call classifies each
    as supported, contradicted or absent. Score = supported / sentences; it passes at `threshold`, 1.0
    unless given, so when all are supported. An answer without a letter or a digit is unscored, `no_claims`.

    With `variant="compat"` the model replies yes or no, in words, on the answer as a whole, and the score is 0
    even where it passes, as in Spring AI.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        prompt: `"general"`, or `"minicheck"` for a model that judges one claim at a time, such as
            `judges.speaking(..., "minicheck")`: a call for each sentence, and a sentence is
            supported or not, never contradicted.
        settings: See `judges.catalogue.model_judge.ModelSettings`.

    Raises:
        ConfigurationError: If there is no such prompt.
    """

    entry: ClassVar[Entry] = Entry(
        name="spring.fact_checking_evaluator",
        aliases=("spring.fact_checking", "FactCheckingEvaluator"),
        asks="Does the document support every sentence of the answer?",
        needs=("response", "retrieved_contexts"),
        calls="1, or s for s sentences with a MiniCheck model",
        source="Spring AI",
        differs="One verdict for each sentence, with reasons; the score is the share of supported ones, not "
        "always 0; no document is unscored.",
        tags=("rag", "hallucination", "groundedness", "faithfulness", "made up", "unsupported", "claims"),
    )
    pack = "fact_checking"
    pass_mark = 1.0

    def __init__(
        self, model: object = None, *, prompt: FactPrompt = "general", **settings: Unpack[ModelSettings]
    ) -> None:
        one_of(FactPrompt, prompt, setting="prompt")
        self._one_by_one = prompt == "minicheck"
        question: Question[Any] = SUPPORT
        if self._one_by_one:  # such a model replies in a form of its own, not in words
            question = replace(SUPPORTED, compat=None)
        elif settings.get("variant") == "compat":
            question = SUPPORTED
        super().__init__(model, questions=(question,), **settings)

    @property
    def calls(self) -> str:
        """One, or s for s sentences that are checked one by one."""
        return "s" if self._one_by_one and not self.compat else "1"

    def deliberate(self, sample: Sample) -> Deliberation:
        """Check each sentence, or the answer as a whole."""
        answer = answer_in(sample)
        contexts = non_blank_contexts_in(sample)
        if self.compat:
            return _compat_verdict((yield from self.ask(SUPPORTED, sample, _data(contexts, answer))))
        claims = sentences(answer)
        if not claims:
            return Verdict.without_score("no_claims", "the answer says nothing in words")
        check = self._one_at_a_time if self._one_by_one else partial(verify_claims, self)
        items = yield from check(sample, contexts, claims)
        advice = support_feedback(self, sample, items, called="sentences", absent="unsupported")
        return self.verdict(share(items), rationale=reasons(items), feedback=advice, items=tuple(items))

    def _one_at_a_time(
        self, sample: Sample, contexts: list[JsonValue], claims: Sequence[str]
    ) -> Generator[Any, Any, list[Verdict]]:
        """Check each sentence in a call of its own; all replies are needed, as one unsupported sentence fails."""
        requests = [self.request(SUPPORTED, sample, _data(contexts, claim)) for claim in claims]
        replies = all_of((yield from self.ask_all(requests)))
        return [
            Verdict.checked(
                reply.verdict,
                value="supported" if reply.verdict else "absent",
                subject=claim,
                rationale=reply.rationale,
            )
            for claim, reply in zip(claims, replies, strict=True)
        ]


def _data(contexts: list[JsonValue], answer: str) -> dict[str, JsonValue]:
    return {"contexts": contexts, "answer": answer}


def _compat_verdict(reply: Any) -> Verdict:
    """Return a verdict that passes only on true or exactly "yes", with a score of 0 either way."""
    yes = reply.verdict is True or str(reply.verdict).strip().lower() == "yes"
    feedback = "" if yes else reply.feedback
    return Verdict(value=0.0, score=0.0, rating=1, passed=yes, rationale=reply.rationale, feedback=feedback)
