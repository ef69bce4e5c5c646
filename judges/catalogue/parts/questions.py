"""One question to a model, or the same one to two graders: yes or no, a label, a level."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self, Unpack

from pydantic import BeforeValidator, Field, JsonValue, create_model

from judges.catalogue.metric import Metric, ModelJudge, ModelSettings
from judges.catalogue.parts.fields import answer_in, evidence
from judges.errors import AskFailed, unfit
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


class YesOrNo(OneQuestion):
    """A judge that asks for yes or no; with `variant="compat"` in words, read by the reference's own rule."""

    def __init__(self, model: object = None, **settings: Unpack[ModelSettings]) -> None:
        super().__init__(model, question=yes_or_no_question(self.pack), **settings)

    @abstractmethod
    def is_yes(self, word: str) -> bool:
        """Return whether the reference takes a reply for a yes."""

    def conclude(self, reply: Any) -> Verdict:
        """Convert the reply into a verdict."""
        yes = self.is_yes(reply.verdict) if self.compat else reply.verdict
        return Verdict.checked(yes, rationale=reply.rationale, feedback="" if yes else reply.feedback)


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


def yes_or_no_question(prompt: str) -> Question[Any]:
    """Return a yes-or-no question, in compat for a word; judges that ask it about one sample share the reply."""
    return Question(prompt=prompt, reply=finding_schema(), compat=Remark, shared=True)


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


def level_verdict(judge: Metric, reply: Any, scale: Sequence[int]) -> Verdict:
    """Return the verdict for a level of a scale; one off the scale is unscored, with the level as its value."""
    level, lowest, highest = reply.verdict, scale[0], scale[-1]
    if level not in scale:
        detail = f"{level} is no level of the scale from {lowest} to {highest}"
        return Verdict.without_score("invalid_output", detail, value=level, rationale=reply.rationale)
    feedback = "" if level == highest else reply.feedback
    score = (level - lowest) / (highest - lowest)
    return judge.verdict(score, value=level, rationale=reply.rationale, feedback=feedback)


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


class TwoGraders(ModelJudge):
    """A judge that asks two graders at once, each with a task of its own: two calls.

    The tasks are the judge's pack and the same name with `_second`. Both graders are shown the same data under
    the same names, the second one in reverse order. Score = mean of rating / highest over the graders that gave
    a valid rating; where none did, it is unscored with the reason of the failure.

    Attributes:
        reply: Schema of a grader's reply: `rationale`, `rating` and `feedback`.
        highest: The best rating; the worst is 0.
    """

    reply: ClassVar[type[ReplySchema]]
    highest: ClassVar[int]

    def __init__(self, model: object = None, **settings: Unpack[ModelSettings]) -> None:
        first, second = self.pack, f"{self.pack}_second"
        self._graders: tuple[Question[Any], ...] = (
            Question(prompt=first, reply=self.reply),
            Question(prompt=second, reply=self.reply),
        )
        super().__init__(model, questions=self._graders, **settings)

    @abstractmethod
    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the data of a sample shown to the first grader, by name.

        Raises:
            CannotJudge: If something is missing.
        """

    def shortcut(self, sample: Sample) -> Verdict | None:
        """Return the verdict that the reference reaches without a model, or None; used with `"compat"` only."""
        del sample
        return None

    def advice(self, sample: Sample, feedback: str) -> str:
        """Return the graders' feedback, addressed to its reader."""
        del sample
        return feedback

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask both graders, and return the mean."""
        verdict = self.shortcut(sample) if self.compat else None
        if verdict is not None:
            return verdict
        data = self.data(sample)
        orders = (data, dict(reversed([*data.items()])))
        replies = yield from self.ask_all(
            [self.request(grader, sample, order) for grader, order in zip(self._graders, orders, strict=True)]
        )
        return self._mean(sample, [self._item(*pair) for pair in zip(self._graders, replies, strict=True)])

    def _item(self, grader: Question[Any], reply: Any) -> Verdict:
        if isinstance(reply, AskFailed):
            return Verdict.without_score(reply.reason, reply.detail, judge=grader.prompt, raw=reply.raw)
        feedback = "" if reply.rating == self.highest else reply.feedback.strip()
        score = reply.rating / self.highest
        return self.verdict(
            score, value=reply.rating, judge=grader.prompt, rationale=reply.rationale, feedback=feedback
        )

    def _mean(self, sample: Sample, items: Sequence[Verdict]) -> Verdict:
        scores = [item.score for item in items if item.score is not None]
        if not scores:
            failed = items[0]
            reason = failed.unscored or "judge_failed"
            return Verdict.without_score(reason, failed.detail, items=tuple(items), raw=failed.raw)
        score = sum(scores) / len(scores)
        feedback = "\n".join(dict.fromkeys(item.feedback for item in items if item.feedback))
        return self.verdict(
            score,
            rationale="\n".join(dict.fromkeys(item.rationale for item in items if item.rationale)),
            feedback="" if score == 1 else self.advice(sample, feedback),
            items=tuple(items),
            detail=self._doubt(scores),
        )

    def _doubt(self, scores: Sequence[float]) -> str:
        """Return the reason to doubt the mean, or a blank text."""
        if len(scores) == 1:
            return "one of two graders gave no valid rating"
        if {*scores} == {0, 1}:
            return f"low confidence: the graders disagree, 0 against {self.highest}"
        return ""
