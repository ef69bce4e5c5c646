"""Two graders: two separately worded questions about the same data, of whose ratings the mean counts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Unpack

from pydantic import JsonValue

from judges.catalogue.model_judge import ModelJudge, ModelSettings
from judges.errors import AskFailed
from judges.prompting.questions import Question, ReplySchema
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict


class TwoGraders(ModelJudge):
    """A judge that asks two graders at once, each with a task of its own: two calls.

    The tasks are the judge's pack and the same name with `_second`. Both graders are shown the same data under
    the same names, the second one in reverse order. Score = mean of rating / highest over the graders that gave
    a valid rating; where none did, it is unscored with the reason of the failure.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        settings: See `judges.catalogue.model_judge.ModelSettings`.

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
        """Give what the first grader is shown of a sample; raises `CannotJudge` where something is missing."""

    def shortcut(self, sample: Sample) -> Verdict | None:
        """Give the verdict that the reference reaches without a model, or None; asked with `"compat"` only."""
        del sample
        return None

    def advice(self, sample: Sample, told: str) -> str:
        """Address the graders' feedback to whom it concerns."""
        del sample
        return told

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask both graders, and take the mean."""
        known = self.shortcut(sample) if self.compat else None
        if known is not None:
            return known
        data = self.data(sample)
        orders = (data, dict(reversed([*data.items()])))
        replies = yield from self.ask_all(
            [self.request(one, sample, shown) for one, shown in zip(self._graders, orders, strict=True)]
        )
        return self._mean(sample, [self._item(*one) for one in zip(self._graders, replies, strict=True)])

    def _item(self, grader: Question[Any], reply: Any) -> Verdict:
        if isinstance(reply, AskFailed):
            return Verdict.without_score(reply.reason, reply.detail, judge=grader.prompt, raw=reply.raw)
        feedback = "" if reply.rating == self.highest else reply.feedback.strip()
        score = reply.rating / self.highest
        return self.verdict(
            score, value=reply.rating, judge=grader.prompt, rationale=reply.rationale, feedback=feedback
        )

    def _mean(self, sample: Sample, items: Sequence[Verdict]) -> Verdict:
        scores = [one.score for one in items if one.score is not None]
        if not scores:
            failed = items[0]
            reason = failed.unscored or "judge_failed"
            return Verdict.without_score(reason, failed.detail, items=tuple(items), raw=failed.raw)
        score = sum(scores) / len(scores)
        told = "\n".join(dict.fromkeys(one.feedback for one in items if one.feedback))
        return self.verdict(
            score,
            rationale="\n".join(dict.fromkeys(one.rationale for one in items if one.rationale)),
            feedback="" if score == 1 else self.advice(sample, told),
            items=tuple(items),
            detail=self._doubt(scores),
        )

    def _doubt(self, scores: Sequence[float]) -> str:
        """Tell why little trust is to be put in the mean, if so."""
        if len(scores) == 1:
            return "one of two graders gave no valid rating"
        if {*scores} == {0, 1}:
            return f"low confidence: the graders disagree, 0 against {self.highest}"
        return ""
