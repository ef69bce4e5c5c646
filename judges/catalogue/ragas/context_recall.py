"""Context recall: the share of the expected answer that the retrieved contexts support."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Unpack

from pydantic import Field

from judges.catalogue.model_judge import ModelJudge, ModelSettings
from judges.catalogue.parts.claims import CLAIMS, claims_in
from judges.catalogue.parts.items import bullets, reasons, share
from judges.catalogue.parts.needed import contexts_in, question_of, reference_in
from judges.catalogue.parts.retrieval import for_retriever
from judges.catalogue.parts.sentences import sentences
from judges.catalogue.parts.support import SUPPORT, verify_claims
from judges.entry import Entry
from judges.errors import CannotJudge, ConfigurationError
from judges.prompting.questions import Question, ReplySchema
from judges.requests import Deliberation
from judges.runtime.validation import one_of
from judges.sample import Sample
from judges.verdict import Verdict


class Attribution(ReplySchema):
    """Whether one sentence can be attributed to the contexts, as ragas takes it: any number but 0 is a yes."""

    statement: str = Field(description="text: the sentence of the reference")
    reason: str = Field(description="text: why, before the verdict")
    attributed: int = Field(description="1 if the contexts support it, else 0")


class Attributions(ReplySchema):
    """The sentences of a reference that the model itself finds, and which can be attributed."""

    classifications: list[Attribution] = Field(
        description="list of objects, one for each sentence of the reference"
    )


ATTRIBUTED: Question[Attributions] = Question(prompt="context_recall", reply=Attributions, shared=True)


ReferenceSplit = Literal["sentences", "claims"]


class ContextRecall(ModelJudge):
    """Judge what share of the reference the retrieved contexts support.

    The reference is split into sentences without a model, and one call classifies each numbered sentence as
    supported, contradicted or absent. Score = supported / sentences.

    With `variant="compat"` the model itself lists the sentences, as in ragas, so that their number may differ from
    run to run: score = attributed / listed.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        split: `"sentences"`, or `"claims"`: one more call, which other judges of the reference's claims share.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.context_recall",
        aliases=(
            "context_recall",
            "ContextRecall",
            "LLMContextRecall",
            "ragas.llm_context_recall",
            "ContextualRecallMetric",
            "context-recall",
        ),
        asks="What share of the expected answer do the contexts support?",
        needs=("retrieved_contexts", "reference"),
        calls="1, or 2 by claims",
        subject="retriever",
        source="ragas 0.4",
        differs="The sentences are split without a model and numbered, so that their number does not move.",
        tags=("rag", "retrieval", "search", "coverage"),
        follows="ragas.metrics (legacy)",
    )
    pack = "context_recall"

    def __init__(
        self,
        model: object = None,
        *,
        split: ReferenceSplit = "sentences",
        **settings: Unpack[ModelSettings],
    ) -> None:
        one_of(ReferenceSplit, split, setting="split")
        compat = settings.get("variant") == "compat"
        if compat and split == "claims":
            raise ConfigurationError("with variant='compat' the model splits the reference; leave split out")
        self._split = split
        questions: list[Question[Any]] = [ATTRIBUTED] if compat else [SUPPORT]
        super().__init__(model, questions=[*questions, CLAIMS] if split == "claims" else questions, **settings)

    @property
    def calls(self) -> str:
        """Model calls for one sample: one, or two where the reference is broken into claims."""
        return "2" if self._split == "claims" else "1"

    def deliberate(self, sample: Sample) -> Deliberation:
        """Look for each part of the reference in the contexts."""
        contexts, reference = contexts_in(sample), reference_in(sample)
        items = yield from (self._attribute if self.compat else self._verify)(sample, contexts, reference)
        if not items:
            raise CannotJudge("no_claims", "the reference says nothing that could be looked for")
        return self.verdict(
            share(items), rationale=reasons(items), feedback=self._advice(sample, items), items=tuple(items)
        )

    def _verify(self, sample: Sample, contexts: Sequence[str], reference: str) -> Any:
        parts = sentences(reference)
        if self._split == "claims":
            parts = yield from claims_in(self, sample, reference)
        if not parts:
            return []
        return (yield from verify_claims(self, sample, contexts, parts, with_question=True))

    def _attribute(self, sample: Sample, contexts: Sequence[str], reference: str) -> Any:
        data = question_of(sample)
        data |= {"contexts": list(contexts), "reference": reference}
        reply = yield from self.ask(ATTRIBUTED, sample, data)
        return [
            Verdict.checked(bool(one.attributed), subject=one.statement, rationale=one.reason)
            for one in reply.classifications
        ]

    def _advice(self, sample: Sample, items: Sequence[Verdict]) -> str:
        missing = [item.subject for item in items if not item.passed]
        if not missing:
            return ""
        return for_retriever(self, sample, self.say("missing", sample, sentences=bullets(missing)))
