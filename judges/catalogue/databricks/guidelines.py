"""Guideline adherence: does an answer keep the rules it was given, for all rows or for this one?"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, Unpack

from pydantic import Field, JsonValue

from judges.catalogue.databricks.built_in import BuiltIn
from judges.catalogue.metric import ModelSettings
from judges.catalogue.parts.claims import in_order, listed_feedback, numbered_items, one_each, reasons, share
from judges.catalogue.parts.fields import answer_in, question_of
from judges.errors import BadSample, CannotJudge, ConfigurationError, one_line, unfit
from judges.prompting.prompts import Question, ReplySchema
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict

_Rules = str | Sequence[str] | Mapping[str, str | Sequence[str]]
"""Guidelines as users write them: one, a list, or lists under names."""

_GuidelineRule = tuple[str, str]
"""A guideline and the name it is listed under, empty where there is none."""

_LONGEST = 600


class _Adherence(ReplySchema):
    """Whether one guideline is kept."""

    number: int = Field(description="whole number of the guideline")
    reason: str = Field(description="text: why, before the verdict")
    verdict: Literal["kept", "broken", "not_applicable"] = Field(description="one of kept, broken, not_applicable")
    change: str = Field(description="text: what to change in the answer; empty unless it is broken")


class _Adherences(ReplySchema):
    """Whether each guideline is kept."""

    items: list[_Adherence] = Field(description="list of objects, exactly one for each number, in their order")


class _GuidelineJudge(BuiltIn, pack="databricks_guidelines"):
    """A judge of whether an answer keeps guidelines, wherever they come from."""

    pass_mark = 1.0
    question = Question(prompt="databricks_guidelines", reply=_Adherences)
    metadata_keys = ("guidelines_context",)
    """The key of the context that belongs to the rules of a sample."""

    def __init__(
        self,
        model: object = None,
        *,
        guidelines_context: Mapping[str, JsonValue] = MappingProxyType({}),
        **settings: Unpack[ModelSettings],
    ) -> None:
        if not isinstance(guidelines_context, Mapping):
            raise unfit("guidelines_context maps names to facts", guidelines_context)
        self._context = dict(guidelines_context)
        super().__init__(model, **settings)

    @abstractmethod
    def rules(self, sample: Sample) -> tuple[_GuidelineRule, ...]:
        """Return the guidelines for a sample; raises `CannotJudge` where there are none."""

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask about all guidelines in one call."""
        answer, rules = answer_in(sample), self.rules(sample)
        data: dict[str, JsonValue] = {
            "guidelines": numbered_items((text for text, _ in rules), called="guideline"),
            **self._context_of(sample),
            **question_of(sample),
            "answer": answer,
        }
        if self.compat:
            return (yield from self.overall(sample, data))
        reply = yield from self.ask(self.question, sample, data, check=one_each(len(rules)))
        items = tuple(_guideline_verdict(*pair) for pair in zip(rules, in_order(reply.items), strict=True))
        return self.verdict(
            share(items), rationale=reasons(items), feedback=self._advice(sample, items), items=items
        )

    def _context_of(self, sample: Sample) -> dict[str, JsonValue]:
        context_in_metadata = sample.metadata.get("guidelines_context")
        context = {**self._context, **(context_in_metadata if isinstance(context_in_metadata, dict) else {})}
        return {"guidelines_context": context} if context else {}

    def _advice(self, sample: Sample, items: Sequence[Verdict]) -> str:
        broken = [f"{item.subject} -> {item.feedback}".removesuffix(" -> ") for item in items if not item.passed]
        return listed_feedback(self, sample, {"broken": broken}, "guidelines", longest=_LONGEST)


class GlobalGuidelineAdherence(_GuidelineJudge, entry="databricks.global_guideline_adherence"):
    """Judge whether an answer keeps guidelines that hold for every row.

    Each guideline is found kept, broken or not applicable, in one call; one that does not apply counts as kept.
    Score = kept / guidelines; it passes at `threshold`, 1.0 unless given, so when none is broken.
    """

    def __init__(
        self,
        model: object = None,
        *,
        guidelines: _Rules,
        guidelines_context: Mapping[str, JsonValue] = MappingProxyType({}),
        **settings: Unpack[ModelSettings],
    ) -> None:
        self._rules = _checked_rules(guidelines)
        super().__init__(model, guidelines_context=guidelines_context, **settings)

    def rules(self, sample: Sample) -> tuple[_GuidelineRule, ...]:
        """Return the guidelines that hold for every row."""
        del sample
        return self._rules


class GuidelineAdherence(_GuidelineJudge, entry="databricks.guideline_adherence"):
    """Judge whether an answer keeps the guidelines of its own row, `guidelines`: a list, or lists under names.

    Each guideline is found kept, broken or not applicable, in one call; one that does not apply counts as kept.
    Score = kept / guidelines; it passes at `threshold`, 1.0 unless given, so when none is broken.
    """

    def rules(self, sample: Sample) -> tuple[_GuidelineRule, ...]:
        """Return the guidelines of the row."""
        rules = tuple(_flattened_rules(sample))
        if not rules:
            raise CannotJudge("no_guidelines", "the row has no guidelines")
        return rules


def _flattened_rules(sample: Sample) -> Iterable[_GuidelineRule]:
    guidelines = sample.guidelines or ()
    groups = guidelines if isinstance(guidelines, dict) else {"": guidelines}
    return ((text.strip(), name) for name, texts in groups.items() for text in texts if text.strip())


def _checked_rules(guidelines: object) -> tuple[_GuidelineRule, ...]:
    try:
        rules = tuple(_flattened_rules(Sample.read(guidelines=guidelines)))
    except BadSample as error:
        raise ConfigurationError(
            f"guidelines is a text, texts, or lists of them under names: {one_line(error)}"
        ) from error
    if not rules:
        raise unfit("guidelines has at least one, for instance 'Be polite.'", guidelines)
    return rules


def _guideline_verdict(rule: _GuidelineRule, adherence: _Adherence) -> Verdict:
    text, name = rule
    passed = adherence.verdict != "broken"
    change = "" if passed else adherence.change
    return Verdict.checked(
        passed, value=adherence.verdict, subject=text, rationale=adherence.reason, feedback=change, detail=name
    )
