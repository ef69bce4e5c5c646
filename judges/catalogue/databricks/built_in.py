"""What the judges after Databricks' built-in ones share: a question of their own, or a single yes or no."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Unpack

from pydantic import JsonValue

from judges.catalogue.model_judge import ModelJudge, ModelSettings
from judges.catalogue.parts.items import Supports, one_each
from judges.catalogue.parts.one_question import Remark
from judges.catalogue.parts.sentences import sentences
from judges.catalogue.parts.support import support_verdicts
from judges.errors import CannotJudge
from judges.prompting.prompts import Language, Prompt
from judges.prompting.questions import Question
from judges.requests import Ask, Deliberation, Request
from judges.sample import Sample
from judges.verdict import Verdict

Items = Generator[Request | tuple[Request, ...], Any, tuple[Verdict, ...]]

OVERALL: Question[Remark] = Question(prompt="databricks_overall", reply=Remark)

NEITHER = "the model said neither yes nor no"
# fmt: off
_YES = frozenset(
    {
        "yes", "y", "yea", "yeah", "true", "1", "1.0", "pass", "passed", "correct", "success",
        "affirmative", "absolutely", "certainly", "indeed", "sure", "ok", "okay", "agree", "accept",
        "accepted", "right", "positive", "pos", "accurate", "valid", "validity", "validated", "confirmed",
        "approve", "approved", "complete", "completed", "good", "great", "excellent", "active", "enabled",
        "on", "present", "found", "match", "matched",
    }
)
_NO = frozenset(
    {
        "no", "n", "nah", "nope", "false", "0", "0.0", "fail", "failed", "incorrect", "failure", "negative",
        "neg", "reject", "rejected", "disagree", "disapprove", "disapproved", "invalid", "inaccurate",
        "wrong", "declined", "deny", "denied", "incomplete", "bad", "poor", "inactive", "disabled", "off",
        "absent", "missing", "notfound", "mismatch", "mismatched", "none", "null", "nil", "not approved",
    }
)
# fmt: on
"""The words that mlflow 3 reads as yes and as no, in small letters."""


class BuiltIn(ModelJudge):
    """A judge that asks in detail or, with `variant="compat"`, for one yes or no on the whole, as mlflow does.

    Then the value is `"yes"` or `"no"`; any other word is unscored, `undefined`, mlflow's UNKNOWN.

    Attributes:
        question: What is asked in detail.
    """

    question: ClassVar[Question[Any]]

    def __init__(self, model: object = None, **settings: Unpack[ModelSettings]) -> None:
        chosen: Question[Any] = OVERALL if settings.get("variant") == "compat" else self.question
        super().__init__(model, questions=(chosen,), **settings)

    def overall(self, sample: Sample, data: Mapping[str, JsonValue]) -> Deliberation:
        """Ask for one yes or no, with `yield from`, and return the verdict."""
        remark = yield from self.ask(OVERALL, sample, data)
        yes = is_yes(remark.verdict)
        if yes is None:
            return Verdict.without_score("undefined", NEITHER, rationale=remark.rationale)
        feedback = "" if yes else remark.feedback
        return Verdict.checked(yes, value="yes" if yes else "no", rationale=remark.rationale, feedback=feedback)

    def support_verdicts(self, sample: Sample, data: Mapping[str, JsonValue], texts: tuple[str, ...]) -> Items:
        """Ask whether each numbered text is supported, with `yield from`, and return a verdict on each."""
        supports: Supports = yield from self.ask(self.question, sample, data, check=one_each(len(texts)))
        return tuple(support_verdicts(texts, supports))

    def _template(self, question: Question[Any], language: Language, text: Prompt) -> Ask:
        """Fill the judge's own question, in the language of the template, into the question for one yes or no."""
        if question is OVERALL:
            phrases = self._phrases.get(language, self._phrases["en"]).feedback
            question = replace(question, fills={"criteria": phrases["question"]})
        return super()._template(question, language, text)


def is_yes(text: str) -> bool | None:
    """Return whether a text means yes, as mlflow reads it; None for any other word than yes or no, its UNKNOWN."""
    word = text.strip().strip(".!\"'*").lower()
    return word in _YES if word in _YES | _NO else None


def facts_of(sample: Sample, *, compat: bool) -> tuple[str, ...]:
    """Return the expected facts: those listed, or else the sentences of the reference.

    Args:
        sample: The sample. If it has both, the listed facts are used.
        compat: Whether to take the reference as one fact, and to refuse both together, as mlflow does.

    Raises:
        CannotJudge: `no_reference` without either, `undefined` with both if `compat` is set.
    """
    facts = tuple(fact for fact in sample.expected_facts or () if fact.strip())
    reference = (sample.reference or "").strip()
    if not facts and not reference:
        raise CannotJudge("no_reference", "there are no expected facts, and no reference to take them from")
    if compat and facts and reference:
        raise CannotJudge("undefined", "mlflow takes expected facts or an expected response, and not both")
    return facts or (() if compat else sentences(reference)) or (reference,)
