"""Equivalence: whether the answer says the same as the reference: by numbers, then by text, then by a model."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal, Unpack
from unicodedata import normalize

from judges.catalogue.model_judge import ModelJudge, ModelSettings
from judges.catalogue.parts.needed import answer_in, question_of, reference_in
from judges.catalogue.parts.one_question import finding_schema
from judges.catalogue.parts.quantities import quantity_in, same_quantity
from judges.entry import Entry
from judges.errors import ConfigurationError, shortened
from judges.prompting.questions import Question
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict

Stage = Literal["numbers", "text", "model"]

EQUIVALENCE: Question[Any] = Question(prompt="equivalence", reply=finding_schema())
_OUTER = "\"'“”„«»‘’「」『』 \t\r\n"
_ENDS = ".!?…。！？"
_ARTICLE = re.compile(r"^(?:the|an?)\s+(?=\S)", re.IGNORECASE)


class Equivalence(ModelJudge):
    """Judge whether the answer says the same as the reference; the detail names the stage that decided.

    1. `numbers`: both are a number with or without a unit: equal ones pass, different ones fail. 2. `text`: both
    are the same but for case (in texts without digits), quotation marks, blanks, the full stop and an article at
    the beginning. 3. `model`: the rest, and the only stage that is a call.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        tolerance: Largest difference of numbers, as a share of the larger one, from 0 to below 1.
        settings: See `judges.catalogue.model_judge.ModelSettings`.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    entry: ClassVar[Entry] = Entry(
        name="equivalence",
        aliases=(
            "semantic_equivalence",
            "equivalent",
            "Equivalence",
            "math_equivalence",
            "AnswerEquivalence",
            "final_response_match_v2",
        ),
        asks="Does the answer say the same as the reference?",
        needs=("response", "reference"),
        calls="1; 0 where numbers or text decide",
        scale="yes or no",
        tags=("correctness", "exact match", "numbers", "units", "math", "same meaning", "similarity", "accuracy"),
        examples=("tolerance=0.01",),
    )
    pack = "equivalence"

    def __init__(self, model: object = None, *, tolerance: float = 0.0, **settings: Unpack[ModelSettings]) -> None:
        if type(tolerance) not in (int, float) or not 0 <= tolerance < 1:
            raise ConfigurationError(f"tolerance is a share from 0 to below 1, not {shortened(tolerance)}")
        self._tolerance = float(tolerance)
        super().__init__(model, questions=(EQUIVALENCE,), **settings)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Compare numbers, then text, and ask only where both leave it open."""
        answer, reference = answer_in(sample), reference_in(sample)
        same, stage = self._decided(answer, reference)
        if same is not None:
            rationale = f"The {stage} of answer and reference {'agree' if same else 'differ'}."
            feedback = "" if same else self.say("different", sample)
            return Verdict.checked(same, rationale=rationale, feedback=feedback, detail=f"decided by {stage}")
        data = {**question_of(sample), "reference": reference, "answer": answer}
        reply = yield from self.ask(EQUIVALENCE, sample, data)
        feedback = "" if reply.verdict else reply.feedback
        return Verdict.checked(
            reply.verdict, rationale=reply.rationale, feedback=feedback, detail="decided by model"
        )

    def _decided(self, answer: str, reference: str) -> tuple[bool | None, Stage]:
        """Return what numbers or text decide, and which of them; None leaves it to the model."""
        quantities = quantity_in(answer), quantity_in(reference)
        if quantities[0] is not None and quantities[1] is not None:
            same = same_quantity(quantities[0], quantities[1], tolerance=self._tolerance)
            if same is not None:
                return same, "numbers"
        if _normalized(answer) == _normalized(reference):
            return True, "text"
        return None, "model"


def _normalized(text: str) -> str:
    """Return a text without the differences that never matter; `C` and `C++` differ, as `5 mW` and `5 MW` do."""
    plain = " ".join(normalize("NFKC", text).split())
    folded = plain if any(map(str.isdigit, plain)) else plain.casefold()
    bare = folded.strip(_OUTER).rstrip(_ENDS).strip(_OUTER)
    return _ARTICLE.sub("", bare or folded)
