"""Guideline adherence: does an answer keep the rules it was given, for all rows or for this one?"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Literal, Unpack

from pydantic import Field, JsonValue

from judges.catalogue.databricks.built_in import BuiltIn
from judges.catalogue.model_judge import ModelSettings
from judges.catalogue.parts.items import bullets, in_order, numbered, one_each, reasons, share
from judges.catalogue.parts.needed import answer_in, question_of
from judges.entry import Entry
from judges.errors import BadSample, CannotJudge, ConfigurationError
from judges.prompting.questions import Question, ReplySchema
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict

Rules = str | Sequence[str] | Mapping[str, str | Sequence[str]]
"""Guidelines as they are given: one, a list, or lists under names."""

GuidelineRule = tuple[str, str]
"""A guideline and the name it is listed under, empty where there is none."""

_LONGEST = 600


class Adherence(ReplySchema):
    """Whether one guideline is kept."""

    number: int = Field(description="whole number of the guideline")
    reason: str = Field(description="text: why, before the verdict")
    verdict: Literal["kept", "broken", "not_applicable"] = Field(description="one of kept, broken, not_applicable")
    change: str = Field(description="text: what to change in the answer; empty unless it is broken")


class Adherences(ReplySchema):
    """Whether each guideline is kept."""

    items: list[Adherence] = Field(description="list of objects, exactly one for each number, in their order")


class Keeping(BuiltIn):
    """A judge of whether an answer keeps guidelines, wherever they come from.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        guidelines_context: Facts the guidelines speak of, by name, beside question and answer; those of a row, in
            `metadata["guidelines_context"]`, are added and come first.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    pack = "databricks_guidelines"
    pass_mark = 1.0
    question = Question(prompt="databricks_guidelines", reply=Adherences)

    def __init__(
        self,
        model: object = None,
        *,
        guidelines_context: Mapping[str, JsonValue] = MappingProxyType({}),
        **settings: Unpack[ModelSettings],
    ) -> None:
        if not isinstance(guidelines_context, Mapping):
            raise ConfigurationError(f"guidelines_context maps names to facts, not {guidelines_context!r}")
        self._context = dict(guidelines_context)
        super().__init__(model, **settings)

    @abstractmethod
    def rules(self, sample: Sample) -> tuple[GuidelineRule, ...]:
        """Give the guidelines for a sample; raises `CannotJudge` where there are none."""

    def deliberate(self, sample: Sample) -> Deliberation:
        """Look at each guideline."""
        answer, rules = answer_in(sample), self.rules(sample)
        data: dict[str, JsonValue] = {
            "guidelines": numbered((text for text, _ in rules), called="guideline"),
            **self._context_of(sample),
            **question_of(sample),
            "answer": answer,
        }
        if self.compat:
            return (yield from self.overall(sample, data))
        found = yield from self.ask(self.question, sample, data, check=one_each(len(rules)))
        items = tuple(_kept(*one) for one in zip(rules, in_order(found.items), strict=True))
        return self.verdict(
            share(items), rationale=reasons(items), feedback=self._advice(sample, items), items=items
        )

    def _context_of(self, sample: Sample) -> dict[str, JsonValue]:
        own = sample.metadata.get("guidelines_context")
        context = {**self._context, **(own if isinstance(own, dict) else {})}
        return {"guidelines_context": context} if context else {}

    def _advice(self, sample: Sample, items: Sequence[Verdict]) -> str:
        broken = [f"{one.subject} -> {one.feedback}".removesuffix(" -> ") for one in items if not one.passed]
        return self.say("broken", sample, guidelines=bullets(broken, longest=_LONGEST)) if broken else ""


class GlobalGuidelineAdherence(Keeping):
    """Judge whether an answer keeps guidelines that hold for every row.

    Each guideline is found kept, broken or not applicable, in one call; one that does not apply counts as kept.
    Score = kept / guidelines; it passes at `threshold`, 1.0 unless given, so when none is broken.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        guidelines: A guideline, a list of them, or lists under names.
        guidelines_context: Facts the guidelines speak of, by name, beside question and answer; those of a row, in
            `metadata["guidelines_context"]`, are added and come first.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="databricks.global_guideline_adherence",
        aliases=("global_guideline_adherence", "mlflow.guidelines", "Guidelines", "meets_guidelines"),
        asks="Does the answer keep every guideline?",
        needs=("response",),
        calls="1",
        source="Databricks built-in judges; mlflow 3 Guidelines",
        differs="One verdict for each guideline, so that the broken ones are named; score is the share kept.",
    )

    def __init__(
        self,
        model: object = None,
        *,
        guidelines: Rules,
        guidelines_context: Mapping[str, JsonValue] = MappingProxyType({}),
        **settings: Unpack[ModelSettings],
    ) -> None:
        self._rules = _read(guidelines)
        super().__init__(model, guidelines_context=guidelines_context, **settings)

    def rules(self, sample: Sample) -> tuple[GuidelineRule, ...]:
        """Give the guidelines that hold for every row."""
        del sample
        return self._rules


class GuidelineAdherence(Keeping):
    """Judge whether an answer keeps the guidelines of its own row, `guidelines`: a list, or lists under names.

    Each guideline is found kept, broken or not applicable, in one call; one that does not apply counts as kept.
    Score = kept / guidelines; it passes at `threshold`, 1.0 unless given, so when none is broken.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        guidelines_context: Facts the guidelines speak of, by name, beside question and answer; those of a row, in
            `metadata["guidelines_context"]`, are added and come first.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="databricks.guideline_adherence",
        aliases=("guideline_adherence", "mlflow.expectations_guidelines", "ExpectationsGuidelines"),
        asks="Does the answer keep every guideline of its row?",
        needs=("response", "guidelines"),
        calls="1",
        source="Databricks built-in judges; mlflow 3 ExpectationsGuidelines",
        differs="One verdict for each guideline, so that the broken ones are named; score is the share kept; "
        "a row without guidelines is unscored.",
    )

    def rules(self, sample: Sample) -> tuple[GuidelineRule, ...]:
        """Give the guidelines of the row."""
        rules = tuple(_listed(sample))
        if not rules:
            raise CannotJudge("no_guidelines", "the row has no guidelines")
        return rules


def _listed(sample: Sample) -> Iterable[GuidelineRule]:
    given = sample.guidelines or ()
    groups = given if isinstance(given, dict) else {"": given}
    return ((text.strip(), name) for name, texts in groups.items() for text in texts if text.strip())


def _read(guidelines: object) -> tuple[GuidelineRule, ...]:
    try:
        rules = tuple(_listed(Sample.read(guidelines=guidelines)))
    except BadSample as error:
        raise ConfigurationError(f"guidelines is a text, texts, or lists of them under names: {error}") from error
    if not rules:
        raise ConfigurationError(f"guidelines has at least one, for instance 'Be polite.', not {guidelines!r}")
    return rules


def _kept(rule: GuidelineRule, found: Adherence) -> Verdict:
    text, name = rule
    kept = found.verdict != "broken"
    change = "" if kept else found.change
    return Verdict.checked(
        kept, value=found.verdict, subject=text, rationale=found.reason, feedback=change, detail=name
    )
