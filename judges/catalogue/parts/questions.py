"""One question to a model: yes or no, a label, a level."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self, Unpack

from pydantic import BeforeValidator, Field, JsonValue, create_model

from judges.catalogue.metric import Metric, ModelJudge, ModelSettings
from judges.catalogue.parts.fields import answer_in, evidence
from judges.errors import unfit
from judges.prompting.prompts import Question, ReplySchema, made_by
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict, strict_integer

_RATIONALE = "text: your reasons, before the verdict"
_FEEDBACK = "text: what to change; empty if nothing"

_Choices = tuple[str, ...] | tuple[int, ...]
"""The choices of a model: labels, or levels. An empty tuple stands for yes or no."""

FINEST = 101
"""The largest number of levels on a scale: 0 to 100."""


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
            prompt=self.pack, reply=finding_schema(tuple(self.labels)), fills=fills or {}
        )
        super().__init__(model, questions=(self._question,), **settings)

    @abstractmethod
    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the data of a sample shown to the model, by name.

        Raises:
            CannotJudge: If something is missing.
        """

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask once."""
        reply = yield from self.ask(self._question, sample, self.data(sample))
        return self.conclude(reply)

    def conclude(self, reply: Any) -> Verdict:
        """Convert the reply into a verdict, dropping feedback where nothing is to change."""
        if not self.labels:
            feedback = "" if reply.verdict else reply.feedback
            return Verdict.checked(reply.verdict, rationale=reply.rationale, feedback=feedback)
        return label_verdict(self, reply, self.labels)


class Remark(ReplySchema):
    """What was found, with the verdict in words, as the references take it."""

    rationale: str = Field(description=_RATIONALE)
    verdict: str = Field(description="text: yes or no")
    feedback: str = Field(description=_FEEDBACK)

    @classmethod
    def from_reply(cls, other: Any) -> Self:
        """Convert a yes or no into a word."""
        return cls(rationale=other.rationale, verdict="yes" if other.verdict else "no", feedback=other.feedback)


class Grade(ReplySchema):
    """What was found, with the verdict as any whole number, as the references take it."""

    rationale: str = Field(description=_RATIONALE)
    verdict: int = Field(description="whole number")
    feedback: str = Field(description=_FEEDBACK)


class _AtAnEnd(ReplySchema):
    """The reply of an example in a pack, which stands at one end of any scale."""

    rationale: str
    verdict: Literal["lowest", "highest"]
    feedback: str


def example_format(
    reply: type[ReplySchema], *, lowest: object, highest: object
) -> tuple[type[ReplySchema], Callable[[_AtAnEnd], ReplySchema]]:
    """Return the schema and the conversion of a pack's examples, for a scale from `lowest` to `highest`."""
    return _AtAnEnd, partial(_at_an_end, reply, {"lowest": lowest, "highest": highest})


def _at_an_end(reply: type[ReplySchema], ends: Mapping[str, object], example: _AtAnEnd) -> ReplySchema:
    return reply.model_validate({**example.model_dump(), "verdict": ends[example.verdict]})


def checked_text(text: object, *, setting: str) -> str:
    """Return a setting that becomes part of the instructions.

    Raises:
        ConfigurationError: If it is not a text, or a blank one.
    """
    if not isinstance(text, str) or not text.strip():
        raise unfit(f"{setting} says in words what to judge by", text)
    return text


def full_evidence(sample: Sample) -> dict[str, JsonValue]:
    """Return all evidence of a sample, for a judge with a user's own criterion.

    Raises:
        CannotJudge: `no_response`, if there is no answer, or it is blank.
    """
    answer_in(sample)
    fields = evidence(sample)
    if sample.reference_contexts:
        fields["reference_documents"] = list(sample.reference_contexts)
    return fields


def label_verdict(judge: Metric, reply: Any, scores: Mapping[Any, float]) -> Verdict:
    """Return the verdict for a label, dropping feedback where nothing is to change."""
    score = scores[reply.verdict]
    feedback = "" if score == 1 else reply.feedback
    return judge.verdict(score, value=reply.verdict, rationale=reply.rationale, feedback=feedback)


@lru_cache(maxsize=256)
def finding_schema(choices: _Choices = ()) -> type[ReplySchema]:
    """Return the schema of a reply: yes or no, one of some labels, or one of some levels."""
    schema = create_model(
        "Finding",
        __base__=ReplySchema,
        __doc__="What was found.",
        rationale=(str, Field(description=_RATIONALE)),
        verdict=(_verdict_type(choices), Field(description=_description(choices))),
        feedback=(str, Field(description=_FEEDBACK)),
    )
    return made_by(schema, finding_schema, choices)


def _verdict_type(choices: _Choices) -> Any:
    if not choices:
        return bool
    literal: Any = Literal[choices]
    return literal if isinstance(choices[0], str) else Annotated[literal, BeforeValidator(strict_integer)]


def _description(choices: _Choices) -> str:
    if not choices:
        return "true or false"
    listed = ", ".join(map(str, choices))
    return f"one of {listed}" if isinstance(choices[0], str) else f"whole number: one of {listed}"
