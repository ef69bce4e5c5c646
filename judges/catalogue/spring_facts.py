"""Fact checking after Spring AI: whether a document bears out what an answer says."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, Unpack

from pydantic import JsonValue

from judges.catalogue.model_judge import ModelJudge, ModelSettings, all_of
from judges.catalogue.parts.items import reasons, share
from judges.catalogue.parts.needed import answer_in, filled_contexts_in
from judges.catalogue.parts.one_question import asked
from judges.catalogue.parts.sentences import sentences
from judges.catalogue.parts.support import SUPPORT, support_feedback, verify_claims
from judges.entry import Entry
from judges.prompting.questions import Question
from judges.requests import Deliberation
from judges.runtime.validation import one_of
from judges.sample import Sample
from judges.verdict import Verdict

FactPrompt = Literal["general", "minicheck"]

BORNE_OUT: Question[Any] = asked("fact_checking")
"""Find whether the contexts bear out the answer, or one sentence of it, as a whole."""


class FactCheckingEvaluator(ModelJudge):
    """Judge whether every sentence of the answer is supported by the document: the retrieved contexts.

    The answer is split into sentences without a model, those that recur counting once, and each is found
    supported, contradicted or absent, in one call. Score = supported / sentences; it passes at `threshold`, 1.0
    unless given, so when all are supported. An answer without a letter or a digit is unscored, `no_claims`.

    With `variant="compat"` one yes or no, in words, is asked about the answer as a whole, and the score is 0 even
    where it passes, as in Spring AI.

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
            question = replace(BORNE_OUT, compat=None)
        elif settings.get("variant") == "compat":
            question = BORNE_OUT
        super().__init__(model, questions=(question,), **settings)

    @property
    def calls(self) -> str:
        """One, or s for s sentences that are checked one by one."""
        return "s" if self._one_by_one and not self.compat else "1"

    def deliberate(self, sample: Sample) -> Deliberation:
        """Check each sentence, or the answer as a whole."""
        answer = answer_in(sample)
        contexts = filled_contexts_in(sample)
        if self.compat:
            return _passing((yield from self.ask(BORNE_OUT, sample, _shown(contexts, answer))))
        said = sentences(answer)
        if not said:
            return Verdict.without_score("no_claims", "the answer says nothing in words")
        check = self._one_at_a_time if self._one_by_one else partial(verify_claims, self)
        items = yield from check(sample, contexts, said)
        advice = support_feedback(self, sample, items, called="sentences", absent="unsupported")
        return self.verdict(share(items), rationale=reasons(items), feedback=advice, items=tuple(items))

    def _one_at_a_time(
        self, sample: Sample, contexts: list[JsonValue], said: Sequence[str]
    ) -> Generator[Any, Any, list[Verdict]]:
        """Check sentences apart; all replies are needed, for one unsupported sentence fails the answer."""
        asking = [self.request(BORNE_OUT, sample, _shown(contexts, one)) for one in said]
        replies = all_of((yield from self.ask_all(asking)))
        return [
            Verdict.checked(
                one.verdict,
                value="supported" if one.verdict else "absent",
                subject=sentence,
                rationale=one.rationale,
            )
            for sentence, one in zip(said, replies, strict=True)
        ]


def _shown(contexts: list[JsonValue], answer: str) -> dict[str, JsonValue]:
    return {"contexts": contexts, "answer": answer}


def _passing(found: Any) -> Verdict:
    """Take nothing but the word itself for a yes, or a plain yes, and leave the score at 0."""
    yes = found.verdict is True or str(found.verdict).strip().lower() == "yes"
    feedback = "" if yes else found.feedback
    return Verdict(value=0.0, score=0.0, rating=1, passed=yes, rationale=found.rationale, feedback=feedback)
