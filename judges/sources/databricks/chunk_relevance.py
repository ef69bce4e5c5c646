"""Chunk relevance: what share of the retrieved chunks is relevant to the request?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Unpack

from pydantic import Field

from judges.asking import Asking, ModelSettings, Question, Reply
from judges.entry import Entry
from judges.errors import AskFailed, CannotJudge
from judges.requests import Deliberation
from judges.sample import Sample
from judges.shapes.items import bullets, reasons
from judges.shapes.needed import contexts_in, question_in
from judges.shapes.retrieval import for_retriever
from judges.verdict import Verdict


class Relevance(Reply):
    """Whether one chunk is relevant."""

    rationale: str = Field(description="text: why, before the verdict")
    verdict: bool = Field(description="true if the chunk is relevant to the request, else false")


class Said(Reply):
    """Whether one chunk is relevant, in words, as mlflow takes it."""

    rationale: str = Field(description="text: why, before the verdict")
    verdict: str = Field(description="text: yes if the chunk is relevant to the request, else no")


RELEVANT: Question[Relevance] = Question(prompt="chunk_relevance", reply=Relevance, shared=True)
SAID: Question[Said] = Question(
    prompt="chunk_relevance",
    reply=Said,
    written=(Relevance, lambda one: Said(rationale=one.rationale, verdict="yes" if one.verdict else "no")),
    shared=True,
)


class ChunkRelevance(Asking):
    """Judge which of the retrieved chunks are relevant to the request, one call for each, all at once.

    Value = precision = relevant / chunks. A chunk whose call failed is left out of the denominator, and stands
    unscored among `items`.

    With `variant="compat"` the model says yes or no in words; chunks it says anything else of (mlflow's UNKNOWN),
    and chunks whose call failed, stay in the denominator, so that they count as not relevant.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        settings: See `judges.asking.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="databricks.chunk_relevance",
        aliases=(
            "chunk_relevance",
            "ChunkRelevance",
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
    )
    pack = "chunk_relevance"

    def __init__(self, model: object = None, **settings: Unpack[ModelSettings]) -> None:
        chosen: Question[Any] = SAID if settings.get("variant") == "compat" else RELEVANT
        self._question = chosen
        super().__init__(model, questions=(chosen,), **settings)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask about each chunk by itself."""
        request, chunks = question_in(sample), contexts_in(sample)
        asked = [self.asking(self._question, sample, {"request": request, "chunk": one}) for one in chunks]
        replies = yield from self.put_all(asked)
        items = tuple(_item(chunk, reply) for chunk, reply in zip(chunks, replies, strict=True))
        told = [one for one in items if one.passed is not None]
        if not told:
            first = items[0]
            return Verdict.without_score(first.unscored or "judge_failed", first.detail, items=items)
        score = sum(bool(one.passed) for one in told) / len(items if self.compat else told)
        skipped = len(items) - len(told)
        return self.verdict(
            score,
            rationale=reasons(items),
            feedback=self._advice(sample, told),
            items=items,
            detail=f"{skipped} of {len(items)} chunks without a verdict" if skipped else "",
        )

    def _advice(self, sample: Sample, items: Sequence[Verdict]) -> str:
        useless = [one.subject for one in items if not one.passed]
        if not useless:
            return ""
        return for_retriever(self, sample, self.say("irrelevant", sample, chunks=bullets(useless)))


def _item(chunk: str, reply: Relevance | Said | AskFailed) -> Verdict:
    try:
        if isinstance(reply, AskFailed):
            raise reply
        return Verdict.checked(_yes(reply.verdict), subject=chunk, rationale=reply.rationale)
    except CannotJudge as reason:
        return Verdict.without_score(reason.reason, reason.detail, subject=chunk)


def _yes(said: bool | str) -> bool:  # noqa: FBT001 - what a model said
    if isinstance(said, bool):
        return said
    word = said.strip().lower()
    if word not in ("yes", "no"):
        raise CannotJudge("undefined", "the model said neither yes nor no")
    return word == "yes"
