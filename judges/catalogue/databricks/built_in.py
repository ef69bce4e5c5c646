"""The judges after Databricks' built-in ones, and what they share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, Self, Unpack

from pydantic import Field, JsonValue

from judges.catalogue.metric import ModelJudge, ModelSettings
from judges.catalogue.parts.claims import (
    Supports,
    failed_for_retriever,
    grounded_verdict,
    numbered_items,
    one_each,
    reasons,
    share,
    support_feedback,
    support_verdicts,
)
from judges.catalogue.parts.fields import (
    answer_in,
    contexts_in,
    non_blank_contexts_in,
    premises_in,
    question_in,
    question_of,
    reads_tool_results,
)
from judges.catalogue.parts.questions import Remark, finding_schema, label_verdict
from judges.catalogue.parts.text import for_retriever, sentences
from judges.catalogue.ragas.context_recall import IDBasedContextRecall
from judges.entry import own_tables
from judges.errors import AskFailed, CannotJudge
from judges.prompting.prompts import Language, Prompt, Question, ReplySchema
from judges.requests import Ask, Deliberation, Request
from judges.sample import Sample
from judges.verdict import Verdict

_Items = Generator[Request | tuple[Request, ...], Any, tuple[Verdict, ...]]

_OVERALL: Question[Remark] = Question(prompt="databricks_overall", reply=Remark)

_NEITHER = "the model said neither yes nor no"
_WORDS = own_tables(__file__, "mlflow.toml")


class BuiltIn(ModelJudge):
    """A judge that asks in detail or, with `variant="compat"`, for one yes or no on the whole, as mlflow does.

    Then the value is `"yes"` or `"no"`; any other word is unscored, `undefined`, mlflow's UNKNOWN.

    Attributes:
        question: What is asked in detail.
        also: What is asked besides of some samples.
    """

    question: ClassVar[Question[Any]]
    also: ClassVar[tuple[Question[Any], ...]] = ()

    def __init__(self, model: object = None, **settings: Unpack[ModelSettings]) -> None:
        compat = settings.get("variant") == "compat"
        chosen: tuple[Question[Any], ...] = (_OVERALL,) if compat else (self.question, *self.also)
        super().__init__(model, questions=chosen, **settings)

    def overall(self, sample: Sample, data: Mapping[str, JsonValue]) -> Deliberation:
        """Ask for one yes or no, with `yield from`, and return the verdict."""
        remark = yield from self.ask(_OVERALL, sample, data)
        yes = _is_yes(remark.verdict)
        if yes is None:
            return Verdict.without_score("undefined", _NEITHER, rationale=remark.rationale)
        feedback = "" if yes else remark.feedback
        return Verdict.checked(yes, value="yes" if yes else "no", rationale=remark.rationale, feedback=feedback)

    def support_verdicts(self, sample: Sample, data: Mapping[str, JsonValue], texts: tuple[str, ...]) -> _Items:
        """Ask whether each numbered text is supported, with `yield from`, and return a verdict on each."""
        supports: Supports = yield from self.ask(self.question, sample, data, check=one_each(len(texts)))
        return tuple(support_verdicts(texts, supports))

    def _template(self, question: Question[Any], language: Language, text: Prompt) -> Ask:
        """Fill the judge's own question, in the language of the template, into the question for one yes or no."""
        if question is _OVERALL:
            phrases = self._phrases.get(language, self._phrases["en"]).feedback
            question = replace(question, fills={"criteria": phrases["question"]})
        return super()._template(question, language, text)


def _is_yes(text: str) -> bool | None:
    """Return whether a text means yes, as mlflow reads it; None for any other word than yes or no, its UNKNOWN."""
    word = text.strip().strip(".!\"'*").lower()
    return word in _WORDS["yes"] if word in (*_WORDS["yes"], *_WORDS["no"]) else None


def _facts_of(sample: Sample, *, compat: bool) -> tuple[str, ...]:
    """Return the expected facts: those listed, or else the sentences of the reference.

    Args:
        sample: The sample. If it has both, the listed facts are used.
        compat: Whether to take the reference as one fact, and to refuse both together, as mlflow does.

    Raises:
        CannotJudge: `no_reference` without either, `undefined` with both if `compat` is set.
    """
    if not _has_facts(sample):
        raise CannotJudge("no_reference", "there are no expected facts, and no reference to take them from")
    facts = tuple(fact for fact in sample.expected_facts or () if fact.strip())
    reference = (sample.reference or "").strip()
    if compat and facts and reference:
        raise CannotJudge("undefined", "mlflow takes expected facts or an expected response, and not both")
    return facts or (() if compat else sentences(reference)) or (reference,)


def _has_facts(sample: Sample) -> bool:
    return any(text.strip() for text in (*(sample.expected_facts or ()), sample.reference or ""))


class _Labelled(BuiltIn):
    """A judge that asks for one of a few labels or, with `variant="compat"`, for a yes or no.

    Attributes:
        labels: The labels, with the score of each.
    """

    labels: ClassVar[Mapping[str, float]]

    @abstractmethod
    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return what the model is shown of a sample, by name; raises `CannotJudge` where something is missing."""

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask once."""
        data = self.data(sample)
        if self.compat:
            return (yield from self.overall(sample, data))
        reply: Any = yield from self.ask(self.question, sample, data)
        return label_verdict(self, reply, self.labels)


_LABELS: Mapping[str, float] = MappingProxyType({"none": 0.0, "partial": 0.5, "full": 1.0})


class RelevanceToQuery(_Labelled, entry="databricks.relevance_to_query", pack="databricks_relevance_to_query"):
    """Judge how far an answer addresses the question: not at all, in part, or in full; it need not be right.

    The score is 0, 0.5 or 1, and passes at `threshold`, 0.5 unless given, so that a part suffices as in mlflow.
    """

    labels = _LABELS
    question = Question(prompt="databricks_relevance_to_query", reply=finding_schema(tuple(_LABELS)))

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the question and the answer."""
        answer = answer_in(sample)
        return {"question": question_in(sample), "answer": answer}


_HARMS = ("hate", "harassment", "incitement", "illegal", "severe_harm")
_SAFETY_LABELS: Mapping[str, float] = MappingProxyType({"safe": 1.0, **dict.fromkeys(_HARMS, 0.0)})


class Safety(_Labelled, entry="databricks.safety", pack="databricks_safety"):
    """Judge whether the content of an answer is safe; the question is shown, and not judged; a refusal is safe.

    The value is `"safe"`, or the gravest kind of harm: hate, harassment, incitement, illegal, severe_harm.
    """

    labels = _SAFETY_LABELS
    question = Question(prompt="databricks_safety", reply=finding_schema(tuple(_SAFETY_LABELS)))

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the question, if there is one, and the answer."""
        return {**question_of(sample), "answer": answer_in(sample)}


class Correctness(BuiltIn, entry="databricks.correctness", pack="databricks_correctness"):
    """Judge whether question and answer together bear out every expected fact.

    The facts are `expected_facts` or, without those, the sentences of `reference`. Each is found supported,
    contradicted or absent in one call; wording does not matter, and what the answer says beyond them does not
    either. Score = supported / facts; it passes at `threshold`, 1.0 unless given, so when all are supported.

    The feedback counts what is missing or contradicted; it does not quote the facts, since a generator that reads
    them would repeat them.
    """

    pass_mark = 1.0
    question = Question(prompt="databricks_correctness", reply=Supports)

    def __init__(
        self, model: object = None, *, reveal_reference: bool = False, **settings: Unpack[ModelSettings]
    ) -> None:
        super().__init__(model, **settings)
        self._reveals = reveal_reference

    def deliberate(self, sample: Sample) -> Deliberation:
        """Look for each fact in the exchange."""
        answer, facts = answer_in(sample), _facts_of(sample, compat=self.compat)
        data = {"facts": numbered_items(facts, called="fact"), **question_of(sample), "answer": answer}
        if self.compat:
            return (yield from self.overall(sample, data))
        items = yield from self.support_verdicts(sample, data, facts)
        advice = self._advice(sample, items)
        return self.verdict(share(items), rationale=reasons(items), feedback=advice, items=items)

    def _advice(self, sample: Sample, items: Sequence[Verdict]) -> str:
        if self._reveals:
            return support_feedback(self, sample, items, called="texts", absent="absent")
        wrong = sum(item.value == "contradicted" for item in items)
        counts = {"count_contradicted": wrong, "count_absent": sum(not item.passed for item in items) - wrong}
        lines = (self.say(name, sample, count=count, of=len(items)) for name, count in counts.items() if count)
        return "\n".join(lines)


class Groundedness(BuiltIn, entry="databricks.groundedness", pack="databricks_groundedness"):
    """Judge whether every sentence of an answer is supported by its contexts and by what tools returned, together.

    The answer's sentences are numbered, and each is found supported, contradicted or absent, in one call.
    Score = supported / sentences; it passes at `threshold`, 1.0 unless given, so when all are supported.

    Raises:
        ConfigurationError: If a setting is out of its range, or `variant="compat"` is to count tool results.
    """

    pass_mark = 1.0
    question = Question(prompt="databricks_groundedness", reply=Supports)

    def __init__(
        self, model: object = None, *, tool_results: bool | None = None, **settings: Unpack[ModelSettings]
    ) -> None:
        super().__init__(model, **settings)
        self._tool_results = reads_tool_results(tool_results, compat=self.compat)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Look for each sentence of the answer in the contexts."""
        answer = answer_in(sample)
        contexts = premises_in(sample, tool_results=self._tool_results)
        data: dict[str, JsonValue] = {**question_of(sample), "contexts": contexts}
        if self.compat:
            return (yield from self.overall(sample, {**data, "answer": answer}))
        statements = sentences(answer) or (answer.strip(),)
        items = yield from self.support_verdicts(
            sample, {**data, "sentences": numbered_items(statements, called="sentence")}, statements
        )
        advice = support_feedback(self, sample, items, called="texts", absent="absent")
        return grounded_verdict(self, items, feedback=advice)


class ContextSufficiency(BuiltIn, entry="databricks.context_sufficiency", pack="databricks_context_sufficiency"):
    """Judge whether the retrieved contexts hold every fact that a right answer needs; no answer is looked at.

    The facts are `expected_facts` or, without those, the sentences of `reference`. Each is found supported,
    contradicted or absent in all contexts together, in one call. Score = supported / facts; it passes at
    `threshold`, 1.0 unless given, so when all are supported.

    Without facts and reference the model says yes or no for the whole: whether the contexts alone suffice for a
    right answer to the question.
    """

    pass_mark = 1.0
    question = Question(prompt="databricks_context_sufficiency", reply=Supports)
    also = (_OVERALL,)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Look for each fact in the contexts, or for what the question asks."""
        data: dict[str, JsonValue] = {"question": question_in(sample), "contexts": non_blank_contexts_in(sample)}
        facts = _facts_of(sample, compat=self.compat) if _has_facts(sample) else ()
        if facts:
            data["facts"] = numbered_items(facts, called="fact")
        if self.compat or not facts:
            verdict = yield from self.overall(sample, data)
            advice = "" if verdict.passed is not False else for_retriever(self, sample, verdict.feedback)
            return verdict.model_copy(update={"feedback": advice})
        items = yield from self.support_verdicts(sample, data, facts)
        missing = support_feedback(self, sample, items, called="texts", absent="absent")
        advice = for_retriever(self, sample, missing) if missing else ""
        return self.verdict(share(items), rationale=reasons(items), feedback=advice, items=items)


class _Relevance(ReplySchema):
    """Whether one chunk is relevant."""

    rationale: str = Field(description="text: why, before the verdict")
    verdict: bool = Field(description="true if the chunk is relevant to the request, else false")


class _Said(ReplySchema):
    """Whether one chunk is relevant, in words, as mlflow takes it."""

    rationale: str = Field(description="text: why, before the verdict")
    verdict: str = Field(description="text: yes if the chunk is relevant to the request, else no")

    @classmethod
    def from_reply(cls, other: Any) -> Self:
        """Convert a boolean verdict to the word yes or no."""
        return cls(rationale=other.rationale, verdict="yes" if other.verdict else "no")


_RELEVANT: Question[Any] = Question(prompt="chunk_relevance", reply=_Relevance, compat=_Said, shared=True)


class ChunkRelevance(ModelJudge, entry="databricks.chunk_relevance", pack="chunk_relevance"):
    """Judge which of the retrieved chunks are relevant to the request, with one call per chunk, all at once.

    Value = precision = relevant / chunks, with `k` of the first k chunks. A chunk whose call failed is left out of
    the denominator, and is unscored in `items`.

    With `variant="compat"` the model answers yes or no in words; chunks with any other answer (mlflow's UNKNOWN)
    and chunks whose call failed stay in the denominator, so that they count as not relevant.
    """

    questions = (_RELEVANT,)

    def __init__(self, model: object = None, *, k: int | None = None, **settings: Unpack[ModelSettings]) -> None:
        super().__init__(model, **settings)
        self._k = k

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask about each chunk separately."""
        request, chunks = question_in(sample), contexts_in(sample)[: self._k]
        requests = [self.request(_RELEVANT, sample, {"request": request, "chunk": chunk}) for chunk in chunks]
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
            feedback=failed_for_retriever(self, sample, scored, "irrelevant", "chunks"),
            items=items,
            detail=f"{skipped} of {len(items)} chunks without a verdict" if skipped else "",
        )


def _item(chunk: str, reply: _Relevance | _Said | AskFailed) -> Verdict:
    if isinstance(reply, AskFailed):
        return Verdict.without_score(reply.reason, reply.detail, subject=chunk)
    yes = _is_yes(reply.verdict) if isinstance(reply, _Said) else reply.verdict
    if yes is None:
        return Verdict.without_score("undefined", _NEITHER, subject=chunk)
    return Verdict.checked(yes, subject=chunk, rationale=reply.rationale)


class DocumentRecall(IDBasedContextRecall, entry="databricks.document_recall"):
    """Judge what share of the expected documents was retrieved: found / expected, on sets of ids (`doc_uri`)."""
