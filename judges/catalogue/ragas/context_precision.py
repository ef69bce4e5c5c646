"""Context precision: whether the useful contexts are ranked first among those retrieved."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, Unpack

from pydantic import Field, JsonValue

from judges.catalogue.metric import ModelJudge, ModelSettings
from judges.catalogue.parts.claims import failed_for_retriever, reasons
from judges.catalogue.parts.fields import answer_in, contexts_in, question_in, reference_in
from judges.catalogue.parts.text import EPSILON, average_precision, for_retriever
from judges.errors import AskFailed, ConfigurationError
from judges.prompting.prompts import Question, ReplySchema
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict

_PrecisionMetric = Literal["average_precision", "precision"]


class _Useful(ReplySchema):
    """Whether one context was useful."""

    reason: str = Field(description="text: why, before the verdict")
    verdict: bool = Field(description="true if the context is useful in arriving at the answer, else false")


class _Marked(ReplySchema):
    """Whether one context was useful, as ragas takes it: any number but 0 is a yes."""

    reason: str = Field(description="text: why, before the verdict")
    verdict: int = Field(description="1 if the context is useful in arriving at the answer, else 0")


_USEFUL: Question[Any] = Question(prompt="context_precision", reply=_Useful, compat=_Marked, shared=True)


class _PrecisionOfContexts(ModelJudge, pack="context_precision"):
    """Ask whether each context is useful, one call each and all at once, and score their order."""

    def __init__(
        self,
        model: object = None,
        *,
        metric: _PrecisionMetric = "average_precision",
        k: int | None = None,
        strict_k: bool = True,
        **settings: Unpack[ModelSettings],
    ) -> None:
        if not strict_k and (k is None or metric != "precision"):
            raise ConfigurationError("strict_k is for metric='precision' with k=...; leave it out otherwise")
        self._metric, self._k, self._strict_k = metric, k, strict_k
        super().__init__(model, questions=(_USEFUL,), **settings)

    @abstractmethod
    def answer(self, sample: Sample) -> str:
        """Return the answer that the contexts should be useful for."""

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask about each context on its own."""
        data = {"question": question_in(sample), "answer": self.answer(sample)}
        if self.compat and not sample.retrieved_contexts:
            return self.verdict(0.0, rationale="", feedback=for_retriever(self, sample))
        contexts = contexts_in(sample)[: self._k]
        replies = yield from self.ask_all([self._request(sample, data, one) for one in contexts])
        items = tuple(_item(context, reply) for context, reply in zip(contexts, replies, strict=True))
        failed = next((reply for reply in replies if isinstance(reply, AskFailed)), None)
        if failed is not None:
            return Verdict.without_score(failed.reason, failed.detail, items=items, raw=failed.raw)
        score = self._score([bool(item.passed) for item in items])
        advice = failed_for_retriever(self, sample, items, "useless", "contexts")
        return self.verdict(score, rationale=reasons(items), feedback=advice, items=items)

    def _request(self, sample: Sample, data: dict[str, JsonValue], context: str) -> Any:
        return self.request(_USEFUL, sample, {**data, "context": context})

    def _score(self, useful: Sequence[bool]) -> float:
        if self._metric == "precision":
            return sum(useful) / (self._k if self._strict_k and self._k else len(useful))
        return average_precision(useful, epsilon=EPSILON if self.compat else 0.0)


class ContextPrecision(_PrecisionOfContexts, entry="ragas.context_precision"):
    """Judge whether the contexts useful for the reference answer are ranked before the others.

    Score = average precision over the ranks: AP = sum_k(precision@k * v_k) / sum_k(v_k), with v_k 1 where the
    context of rank k is useful; 0 where none is. One call for each context, all at once. If the call for a context
    fails, the verdict is unscored, with the other results in `items`, since their order is unknown without it.

    With `variant="compat"` 1e-10 is added to the denominator, as ragas does, and no contexts score 0.
    """

    def answer(self, sample: Sample) -> str:
        """Return the reference."""
        return reference_in(sample)


class ContextUtilization(_PrecisionOfContexts, entry="ragas.context_utilization"):
    """Judge whether the contexts useful for the actual answer are ranked before the others.

    As `ContextPrecision`, with the answer in place of the reference.
    """

    def answer(self, sample: Sample) -> str:
        """Return the answer."""
        return answer_in(sample)


def _item(context: str, reply: _Useful | _Marked | AskFailed) -> Verdict:
    if isinstance(reply, AskFailed):
        return Verdict.without_score(reply.reason, reply.detail, subject=context)
    return Verdict.checked(bool(reply.verdict), subject=context, rationale=reply.reason)
