"""Two graders: two differently worded questions about the same data, whose mean rating counts."""

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
