"""Semantic similarity: how close the answer is in meaning to the reference."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, ClassVar, Unpack

from judges.catalogue.metric import Metric, MetricSettings
from judges.catalogue.parts.likeness import listed
from judges.catalogue.parts.needed import answer_in, reference_in
from judges.catalogue.parts.similarity import Scorer, cosine, embed, score_pairs
from judges.catalogue.parts.text import missing_and_surplus, tokens
from judges.entry import Entry
from judges.errors import CannotJudge, ConfigurationError, shortened
from judges.model import EmbeddingModel
from judges.models.resolve import as_embeddings
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict


class SemanticSimilarity(Metric):
    """Judge how close the answer is in meaning to the reference, by their vectors; no chat model is called.

    Value = cosine of the two vectors, -1 to 1, both embedded in one batch; score = max(0, cosine).
    A text that is missing or blank, and a vector of zeros, is unscored.

    With `variant="compat"` a blank text is embedded as a blank, and with a threshold, 0 included, the value
    becomes 1.0 or 0.0.

    Args:
        embeddings: A LangChain `Embeddings` object, an `EmbeddingModel`, or `"minilm"`, which needs no network.
        cross_encoder: Replaces them: a function, sync or async, from pairs (answer, reference) to one
            similarity from -1 to 1 for each.
        settings: See `judges.catalogue.metric.MetricSettings`.

    Raises:
        ConfigurationError: Unless exactly one of `embeddings` and `cross_encoder` is set.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.semantic_similarity",
        aliases=(
            "semantic_similarity",
            "answer_similarity",
            "SemanticSimilarity",
            "AnswerSimilarity",
            "ragas.answer_similarity",
            "similar",
            "embedding_similarity",
        ),
        asks="How close does the answer come in meaning to the expected one?",
        needs=("response", "reference"),
        scale="-1 to 1",
        source="ragas 0.4; arXiv 2108.06130",
        differs="The threshold decides on passing and leaves the value alone; a blank text or a vector of zeros "
        "is unscored; a cross-encoder may take the place of embeddings.",
        tags=("embeddings", "cosine", "vectors", "same meaning", "paraphrase"),
        examples=(
            'embeddings="minilm"',
            "cross_encoder=lambda pairs: [0.9 for pair in pairs]",
        ),
        follows="both generations, which agree",
    )
    pack = "semantic_similarity"

    def __init__(
        self, embeddings: object = None, *, cross_encoder: Scorer | None = None, **settings: Unpack[MetricSettings]
    ) -> None:
        if (embeddings is None) == (cross_encoder is None):
            raise ConfigurationError(
                f"{self.entry.name} compares texts by embeddings=..., a LangChain Embeddings object or 'minilm', "
                f"or by cross_encoder=..., and not by both"
            )
        if cross_encoder is not None and not callable(cross_encoder):
            raise ConfigurationError(
                f"cross_encoder is a function of pairs of texts, not {shortened(cross_encoder)}"
            )
        self._has_threshold = settings.get("threshold") is not None
        super().__init__(**settings)
        self._compare: _Compare = (
            partial(_by_vectors, as_embeddings(embeddings))
            if cross_encoder is None
            else partial(_by_scorer, cross_encoder)
        )

    def deliberate(self, sample: Sample) -> Deliberation:
        """Compare answer and reference."""
        texts = self._texts(sample)
        likeness = yield from self._compare(texts, sample)
        if self.compat and self._has_threshold:
            alike = likeness >= self.threshold
            verdict = Verdict.checked(alike, value=float(alike))
        else:
            verdict = self.verdict(max(0.0, likeness), value=likeness)
        return verdict if verdict.passed else verdict.model_copy(update={"feedback": self._advice(sample, texts)})

    def _advice(self, sample: Sample, texts: tuple[str, str]) -> str:
        """Return that the texts are far apart, and which words of the answer the reference does not have."""
        _, surplus = missing_and_surplus(*map(tokens, texts))
        words = [self.say("surplus", sample, words=listed(surplus))] if surplus else []
        return "\n".join([self.say("far", sample), *words])

    def _texts(self, sample: Sample) -> tuple[str, str]:
        if self.compat and sample.answer is not None and sample.reference is not None:
            return sample.answer or " ", sample.reference or " "
        return answer_in(sample), reference_in(sample)


_Compare = Callable[[tuple[str, str], Sample], Generator[Any, Any, float]]


def _by_vectors(model: EmbeddingModel, texts: tuple[str, str], _: Sample) -> Generator[Any, Any, float]:
    answer, reference = yield from embed(model, texts)
    return cosine(answer, reference)


def _by_scorer(scorer: Scorer, texts: tuple[str, str], sample: Sample) -> Generator[Any, Any, float]:
    (likeness,) = yield from score_pairs(scorer, [texts], sample)
    if not -1 <= likeness <= 1:
        raise CannotJudge("invalid_output", f"the cross-encoder gave {likeness}; -1 to 1 is wanted")
    return likeness
