"""Faithfulness by a classifier: the share of an answer's statements that it takes as supported by the contexts."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, ClassVar, Literal, Unpack

from judges.catalogue.model_judge import ModelJudge, ModelSettings
from judges.catalogue.parts.claims import CLAIMS, claims_in
from judges.catalogue.parts.items import bullets, reasons, share
from judges.catalogue.parts.needed import answer_in, contexts_in
from judges.catalogue.parts.sentences import sentences
from judges.catalogue.parts.similarity import Scorer, score_pairs
from judges.entry import Entry
from judges.errors import CannotJudge, ConfigurationError, shortened
from judges.requests import Deliberation
from judges.runtime.validation import one_of, whole_number
from judges.sample import Sample
from judges.verdict import Verdict

_HALF = 0.5
_ROUNDING = 1e-6
"""How far a 32-bit probability may lie outside 0 to 1."""


AnswerSplit = Literal["claims", "sentences"]


class FaithfulnessWithHHEM(ModelJudge):
    """Judge what share of the answer's statements a classifier finds supported by the retrieved contexts.

    Each pair (contexts joined by line breaks, statement) gets a probability; score = statements whose probability
    is at least `threshold_probability` / statements. No statements is unscored, `no_claims`.

    With `variant="compat"` a probability is rounded as ragas does it, so that 0.5 itself counts as unsupported.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`, asked for the claims, in one
            call; with `split="sentences"` none is needed.
        classifier: A function, sync or async, from pairs (premise, hypothesis) to the probability, 0 to 1, that
            the premise supports the hypothesis, for each: `judges.HHEM`, or one of your own. It runs in a thread
            where the caller must not block.
        split: What the answer is broken into: claims that stand alone, or its sentences as they are.
        threshold_probability: Probability from which a statement counts as supported.
        batch_size: Maximum number of pairs passed to the classifier at once.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.faithfulness_with_hhem",
        aliases=(
            "faithfulness_with_hhem",
            "FaithfulnesswithHHEM",
            "FaithfulnessWithHHEM",
            "ragas.faithfulnesswith_hhem",
        ),
        asks="What share of the answer's statements does a classifier find supported by the contexts?",
        needs=("response", "retrieved_contexts"),
        calls="1, or 0 by sentences",
        source="ragas 0.4; the classifier is Vectara's HHEM 2.1",
        differs="The classifier is given, never downloaded; the probability that counts is a setting, and 0.5 is "
        "a yes; sentences may take the place of claims, and then no model is asked.",
        extra="hhem",
        tags=("rag", "hallucination", "groundedness", "unsupported", "classifier", "local model", "vectara"),
        examples=(
            "classifier=lambda pairs: [0.9 for pair in pairs]",
            "threshold_probability=0.7, classifier=lambda pairs: [0.9 for pair in pairs]",
            "batch_size=32, classifier=lambda pairs: [0.9 for pair in pairs]",
            'split="sentences", classifier=lambda pairs: [0.9 for pair in pairs]',
        ),
        follows="ragas.metrics (legacy), the only one",
    )
    pack = "faithfulness"

    def __init__(
        self,
        model: object = None,
        *,
        classifier: Scorer | None = None,
        split: AnswerSplit = "claims",
        threshold_probability: float = _HALF,
        batch_size: int = 10,
        **settings: Unpack[ModelSettings],
    ) -> None:
        if not callable(classifier):
            raise ConfigurationError(
                f"classifier is a function from pairs (premise, hypothesis) to probabilities, such as "
                f"judges.models.providers.hhem.HHEM(folder), not {shortened(classifier)}"
            )
        one_of(AnswerSplit, split, setting="split")
        whole_number(batch_size, setting="batch_size")
        _check_probability(threshold_probability, compat=settings.get("variant") == "compat")
        self._classifier = classifier
        self._split = split
        self._minimum = threshold_probability
        self._batch_size = batch_size
        super().__init__(model, questions=(CLAIMS,) if split == "claims" else (), **settings)

    @property
    def calls(self) -> str:
        """Model calls for one sample, set up as it is, as a formula."""
        return "1" if self._split == "claims" else "0"

    def deliberate(self, sample: Sample) -> Deliberation:
        """Break the answer into statements, and classify each."""
        answer, contexts = answer_in(sample), contexts_in(sample)
        if self._split == "claims":
            statements = yield from claims_in(self, sample, answer)
        else:
            statements = sentences(answer)
        if not statements:
            return Verdict.without_score("no_claims", "the answer makes no statement")
        premise = "\n".join(contexts)
        probabilities = yield from self._probabilities([(premise, one) for one in statements], sample)
        items = tuple(self._item(*pair) for pair in zip(statements, probabilities, strict=True))
        wrong = [item.subject for item in items if not item.passed]
        feedback = self.say("unsupported", sample, claims=bullets(wrong)) if wrong else ""
        return self.verdict(share(items), rationale=reasons(items), feedback=feedback, items=items)

    def _probabilities(self, pairs: list[tuple[str, str]], sample: Sample) -> Generator[Any, Any, list[float]]:
        """Return the probability of each pair; batches run in turn, as classifiers serve one caller at a time."""
        probabilities: list[float] = []
        for start in range(0, len(pairs), self._batch_size):
            probabilities += yield from score_pairs(
                self._classifier, pairs[start : start + self._batch_size], sample
            )
        outside = [one for one in probabilities if not -_ROUNDING <= one <= 1 + _ROUNDING]
        if outside:
            raise CannotJudge("invalid_output", f"the classifier gave {outside[0]}; a probability is wanted")
        return [min(1.0, max(0.0, one)) for one in probabilities]

    def _item(self, statement: str, probability: float) -> Verdict:
        supported = bool(round(probability)) if self.compat else probability >= self._minimum
        return Verdict.checked(supported, value=probability, subject=statement, rationale=f"{probability:.3f}")


def _check_probability(value: object, *, compat: bool) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ConfigurationError(f"threshold_probability lies from 0 to 1, not {shortened(value)}")
    if compat and value != _HALF:
        raise ConfigurationError(
            "with variant='compat' probabilities are rounded; leave threshold_probability out"
        )
