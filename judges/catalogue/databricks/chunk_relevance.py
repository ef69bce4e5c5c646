"""Chunk relevance: what share of the retrieved chunks is relevant to the request?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self, Unpack

from pydantic import Field

from judges.catalogue.databricks.built_in import NEITHER, is_yes
from judges.catalogue.model_judge import ModelJudge, ModelSettings
from judges.catalogue.parts.items import bullets, reasons
from judges.catalogue.parts.needed import contexts_in, question_in
from judges.catalogue.parts.retrieval import for_retriever
from judges.entry import Entry
from judges.errors import AskFailed
from judges.prompting.questions import Question, ReplySchema
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict


class Relevance(ReplySchema):
    """Whether one chunk is relevant."""

    rationale: str = Field(description="text: why, before the verdict")
    verdict: bool = Field(description="true if the chunk is relevant to the request, else false")


class Said(ReplySchema):
    """Whether one chunk is relevant, in words, as mlflow takes it."""

    rationale: str = Field(description="text: why, before the verdict")
    verdict: str = Field(description="text: yes if the chunk is relevant to the request, else no")

    @classmethod
    def from_reply(cls, other: Any) -> Self:
        """Convert a boolean verdict to the word yes or no."""
        return cls(rationale=other.rationale, verdict="yes" if other.verdict else "no")


RELEVANT: Question[Any] = Question(
    prompt="chunk_relevance",
    reply=Relevance,
    compat=Said,
    shared=True,
)


class ChunkRelevance(ModelJudge):
    """Judge which of the retrieved chunks are relevant to the request, with one call per chunk, all at once.

    Value = precision = relevant / chunks. A chunk whose call failed is left out of the denominator, and is
    unscored in `items`.

    With `variant="compat"` the model answers yes or no in words; chunks with any other answer (mlflow's UNKNOWN)
    and chunks whose call failed stay in the denominator, so that they count as not relevant.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="databricks.chunk_relevance",
        aliases=(
            "chunk_relevance",
            "ChunkRelevance",
            "chunk_relevance/precision",
            "databricks.chunk_relevance_precision",
            "mlflow.retrieval_relevance",
            "RetrievalRelevance",
        ),
        asks="What share of the retrieved chunks is relevant to the request?",
        needs=("user_input", "retrieved_contexts"),
        calls="n",
        subject="retriever",
        source="Databricks built-in judges; mlflow 3 RetrievalRelevance",
        differs="A chunk without a verdict is reported, and does not count as irrelevant.",
        tags=("rag", "retrieval", "search", "precision"),
    )
    pack = "chunk_relevance"

    def __init__(self, model: object = None, **settings: Unpack[ModelSettings]) -> None:
        super().__init__(model, questions=(RELEVANT,), **settings)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask about each chunk separately."""
        request, chunks = question_in(sample), contexts_in(sample)
        requests = [self.request(RELEVANT, sample, {"request": request, "chunk": chunk}) for chunk in chunks]
        replies = yield from self.ask_all(requests)
        items = tuple(_item(chunk, reply) for chunk, reply in zip(chunks, replies, strict=True))
        scored = [item for item in items if item.passed is not None]
        unknown = self.compat and any(item.unscored == "undefined" for item in items)
        if not scored and not unknown:
            first = items[0]
            return Verdict.without_score(first.unscored or "judge_failed", first.detail, items=items)
        score = sum(bool(item.passed) for item in scored) / len(items if self.compat else scored)
        skipped = len(items) - len(scored)
        return self.verdict(
            score,
            rationale=reasons(items),
            feedback=self._advice(sample, scored),
            items=items,
            detail=f"{skipped} of {len(items)} chunks without a verdict" if skipped else "",
        )

    def _advice(self, sample: Sample, items: Sequence[Verdict]) -> str:
        irrelevant = [item.subject for item in items if not item.passed]
        if not irrelevant:
            return ""
        return for_retriever(self, sample, self.say("irrelevant", sample, chunks=bullets(irrelevant)))


def _item(chunk: str, reply: Relevance | Said | AskFailed) -> Verdict:
    if isinstance(reply, AskFailed):
        return Verdict.without_score(reply.reason, reply.detail, subject=chunk)
    yes = is_yes(reply.verdict) if isinstance(reply, Said) else reply.verdict
    if yes is None:
        return Verdict.without_score("undefined", NEITHER, subject=chunk)
    return Verdict.checked(yes, subject=chunk, rationale=reply.rationale)
