"""One question: a model says yes or no, one of a few labels, or a level, with its reasons first."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self, Unpack

from pydantic import BeforeValidator, Field, JsonValue, create_model

from judges.catalogue.metric import Metric
from judges.catalogue.model_judge import ModelJudge, ModelSettings
from judges.catalogue.parts.needed import answer_in
from judges.catalogue.parts.shown import evidence
from judges.errors import ConfigurationError
from judges.prompting.questions import Question, ReplySchema
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict, only_an_integer

_RATIONALE = "text: your reasons, before the verdict"
_FEEDBACK = "text: what to change; empty if nothing"

Choices = tuple[str, ...] | tuple[int, ...]
"""What a model chooses from: labels, or levels. None at all stands for yes or no."""

FINEST = 101
"""The most levels a scale has: 0 to 100."""


class OneQuestion(ModelJudge):
    """A judge that puts one question to a model, the task of its own pack.

    The reply is `{rationale, verdict, feedback}`, where `verdict` is true or false, or one of `labels`.

    Attributes:
        labels: The labels the model chooses from, with the score of each; none for yes or no.
    """

    labels: ClassVar[Mapping[str, float]] = MappingProxyType({})

    def __init__(
        self,
        model: object = None,
        *,
        question: Question[Any] | None = None,
        fills: Mapping[str, str] | None = None,
        **settings: Unpack[ModelSettings],
    ) -> None:
        self._question: Question[Any] = question or Question(
            prompt=self.pack, reply=finding(tuple(self.labels)), fills=fills or {}
        )
        super().__init__(model, questions=(self._question,), **settings)

    @abstractmethod
    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Give what the model is shown of a sample, by name; raises `CannotJudge` where something is missing."""

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask once."""
        found = yield from self.ask(self._question, sample, self.data(sample))
        return self.concluded(found)

    def concluded(self, found: Any) -> Verdict:
        """Make a verdict of the reply; feedback where nothing is to change is dropped."""
        if not self.labels:
            feedback = "" if found.verdict else found.feedback
            return Verdict.checked(found.verdict, rationale=found.rationale, feedback=feedback)
        return labelled(self, found, self.labels)


class YesOrNo(OneQuestion):
    """A judge that asks for yes or no; with `variant="compat"` in words, read by the reference's own rule.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    def __init__(self, model: object = None, **settings: Unpack[ModelSettings]) -> None:
        super().__init__(model, question=asked(self.pack), **settings)

    @abstractmethod
    def is_yes(self, said: str) -> bool:
        """Tell whether the reference takes a reply for a yes."""

    def concluded(self, found: Any) -> Verdict:
        """Make a verdict of the reply."""
        yes = self.is_yes(found.verdict) if self.compat else found.verdict
        return Verdict.checked(yes, rationale=found.rationale, feedback="" if yes else found.feedback)


class Remark(ReplySchema):
    """What was found, with the verdict in words, as the references take it."""

    rationale: str = Field(description=_RATIONALE)
    verdict: str = Field(description="text: yes or no")
    feedback: str = Field(description=_FEEDBACK)

    @classmethod
    def like(cls, other: Any) -> Self:
        """Write a yes or no as a word."""
        return cls(rationale=other.rationale, verdict="yes" if other.verdict else "no", feedback=other.feedback)


class Grade(ReplySchema):
    """What was found, with the verdict as any whole number, as the references take it."""

    rationale: str = Field(description=_RATIONALE)
    verdict: int = Field(description="whole number")
    feedback: str = Field(description=_FEEDBACK)


class Lowest(ReplySchema):
    """What is found of an answer that says nothing, by whatever criterion: the lowest there is on its scale."""

    rationale: str
    verdict: Literal["lowest"]
    feedback: str


def lowest_is(
    reply: type[ReplySchema], lowest: object
) -> tuple[type[ReplySchema], Callable[[Lowest], ReplySchema]]:
    """Read a pack's examples for a scale of the user's own, of which `lowest` is the worst."""
    return Lowest, lambda example: reply.model_validate({**example.model_dump(), "verdict": lowest})


def asked(prompt: str) -> Question[Any]:
    """Ask for yes or no, in compat for a word; judges that ask this about one sample share the reply."""
    return Question(prompt=prompt, reply=finding(), compat=Remark, shared=True)


def worded(given: object, *, setting: str) -> str:
    """Take a setting that is put into the instructions.

    Raises:
        ConfigurationError: If it is no text, or a blank one.
    """
    if not isinstance(given, str) or not given.strip():
        raise ConfigurationError(f"{setting} says in words what to judge by, not {given!r}")
    return given


def material(sample: Sample) -> dict[str, JsonValue]:
    """Lay out all there is of a sample for a judge by somebody's own criterion.

    Raises:
        CannotJudge: `no_response`, if there is no answer, or it is blank.
    """
    answer_in(sample)
    shown = evidence(sample)
    if sample.reference_contexts:
        shown["reference_documents"] = list(sample.reference_contexts)
    return shown


def labelled(judge: Metric, found: Any, scores: Mapping[Any, float]) -> Verdict:
    """Give the score of a label; feedback where nothing is to change is dropped."""
    score = scores[found.verdict]
    feedback = "" if score == 1 else found.feedback
    return judge.verdict(score, value=found.verdict, rationale=found.rationale, feedback=feedback)


def graded(judge: Metric, found: Any, scale: Sequence[int]) -> Verdict:
    """Place a level on a scale, from its lowest to its highest; any other is unscored, with it as the value."""
    level, lowest, highest = found.verdict, scale[0], scale[-1]
    if level not in scale:
        detail = f"{level} is no level of the scale from {lowest} to {highest}"
        return Verdict.without_score("invalid_output", detail, value=level, rationale=found.rationale)
    feedback = "" if level == highest else found.feedback
    score = (level - lowest) / (highest - lowest)
    return judge.verdict(score, value=level, rationale=found.rationale, feedback=feedback)


@lru_cache(maxsize=256)
def finding(choices: Choices = ()) -> type[ReplySchema]:
    """Make the schema of a reply: yes or no, one of some labels, or one of some levels."""
    return create_model(
        "Finding",
        __base__=ReplySchema,
        __doc__="What was found.",
        rationale=(str, Field(description=_RATIONALE)),
        verdict=(_kind(choices), Field(description=_told(choices))),
        feedback=(str, Field(description=_FEEDBACK)),
    )


def _kind(choices: Choices) -> Any:
    if not choices:
        return bool
    chosen: Any = Literal[choices]
    return chosen if isinstance(choices[0], str) else Annotated[chosen, BeforeValidator(only_an_integer)]


def _told(choices: Choices) -> str:
    if not choices:
        return "true or false"
    listed = ", ".join(map(str, choices))
    return f"one of {listed}" if isinstance(choices[0], str) else f"whole number: one of {listed}"
