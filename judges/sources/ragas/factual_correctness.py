"""Factual correctness: which claims of the answer the reference bears out, and which of the reference it makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Unpack

from pydantic import JsonValue

from judges.asking import Asking, ModelSettings, Question, all_of
from judges.entry import Entry
from judges.errors import CannotJudge, ConfigurationError
from judges.prompts import Language, Prompt
from judges.requests import Ask, Deliberation
from judges.sample import Sample
from judges.shapes.claims import CLAIMS, Claims, claims_in_each
from judges.shapes.f_score import checked_beta, f_score
from judges.shapes.items import Marks, Supports, bullets, numbered, one_each, reasons, share, standing, yes_or_no
from judges.shapes.needed import answer_in, reference_in
from judges.shapes.support import MARKED, SUPPORT
from judges.verdict import Verdict

FactualMode = Literal["f1", "precision", "recall"]
Degree = Literal["low", "high"]

BROKEN_DOWN: Question[Claims] = Question(prompt="factual_claims", reply=Claims, shared=True)
"""Break a text into claims as finely and as fully as is wanted."""


class FactualCorrectness(Asking):
    """Judge by claims alone how far an answer agrees with a reference.

    P = claims of the answer that the reference supports / all of them; R = claims of the reference that the answer
    supports / all of them; F = (1 + b^2) P R / (b^2 P + R). Two calls for a precision, else four.

    With `variant="compat"` the numbers are ragas': TP and FP are counted over the answer's claims, FN over the
    reference's, recall = TP / (TP + FN), and the result is rounded to 2 places.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        mode: `"f1"`, `"precision"` or `"recall"`.
        beta: How much more recall counts than precision, in F.
        atomicity: `"high"`: each claim is a single fact; `"low"`: it may hold several that belong together.
        coverage: `"high"`: every statement is a claim; `"low"`: the main points alone. With both high the claims
            are shared with other judges.
        settings: See `judges.asking.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.factual_correctness",
        aliases=("factual_correctness", "FactualCorrectness"),
        asks="How far do answer and reference make the same claims?",
        needs=("response", "reference"),
        calls="4, or 2 for a precision",
        source="ragas 0.4",
        differs="Recall is over the claims of the reference, where ragas divides the answer's supported claims "
        "by a sum of both; exact, not rounded; claims that contradict are told from absent ones; "
        "every fact is a claim (`atomicity`, `coverage`), where ragas' default is the main points.",
    )
    pack = "factual_correctness"

    def __init__(
        self,
        model: object = None,
        *,
        mode: FactualMode = "f1",
        beta: float = 1.0,
        atomicity: Degree = "high",
        coverage: Degree = "high",
        **settings: Unpack[ModelSettings],
    ) -> None:
        for name, degree in (("atomicity", atomicity), ("coverage", coverage)):
            if degree not in ("low", "high"):
                raise ConfigurationError(f"{name} is 'low' or 'high', not {degree!r}")
        if mode not in ("f1", "precision", "recall"):
            raise ConfigurationError(f"mode is 'f1', 'precision' or 'recall', not {mode!r}")
        self._mode, self._beta = mode, checked_beta(beta)
        self._verify: Question[Any] = MARKED if settings.get("variant") == "compat" else SUPPORT
        self._degrees = {"atomicity": atomicity, "coverage": coverage}
        self._claims = BROKEN_DOWN if "low" in self._degrees.values() else CLAIMS
        super().__init__(model, questions=(self._claims, self._verify), **settings)

    @property
    def calls(self) -> str:
        """Two for a precision, else four."""
        return "2" if self._mode == "precision" else "4"

    def deliberate(self, sample: Sample) -> Deliberation:
        """Break the texts into claims, and verify each against the other text."""
        answer, reference = answer_in(sample), reference_in(sample)
        texts = (answer,) if self._mode == "precision" else (answer, reference)
        given, *others = yield from claims_in_each(self, sample, *texts, question=self._claims)
        wanted = others[0] if others else ()
        if not self.compat:
            self._need(given, wanted)
        asked = [(reference, given), (answer, wanted)]
        found = yield from self.put_all([self._verifying(sample, *one) for one in asked if one[1]])
        replies = iter(all_of(found))
        supported, covered = (self._items(claims, next(replies)) if claims else [] for _, claims in asked)
        items = tuple(
            one.model_copy(update={"judge": side})
            for side, told in (("answer", supported), ("reference", covered))
            for one in told
        )
        score = self._compat_score(supported, covered) if self.compat else self._score(supported, covered)
        return self.verdict(
            score, rationale=reasons(items), feedback=self._advice(sample, supported, covered), items=items
        )

    def _template(self, question: Question[Any], language: Language, text: Prompt) -> Ask:
        """Say in the language of the template how finely and how fully to break a text down."""
        if question is BROKEN_DOWN:
            fills = {name: text.feedback[f"{name}_{degree}"] for name, degree in self._degrees.items()}
            question = replace(question, fills=fills)
        return super()._template(question, language, text)

    def _need(self, given: Sequence[str], wanted: Sequence[str]) -> None:
        if not given and self._mode != "recall":
            raise CannotJudge("no_claims", "the answer makes no claim")
        if not wanted and self._mode != "precision":
            raise CannotJudge("no_claims", "the reference makes no claim")

    def _verifying(self, sample: Sample, premise: str, claims: Sequence[str]) -> Any:
        data: dict[str, JsonValue] = {"contexts": [premise], "claims": numbered(claims, called="claim")}
        return self.asking(self._verify, sample, data, check=None if self.compat else one_each(len(claims)))

    def _items(self, claims: Sequence[str], reply: Supports | Marks) -> list[Verdict]:
        if isinstance(reply, Marks):
            return [yes_or_no(claim, mark) for claim, mark in zip(claims, reply.items, strict=False)]
        by_number = {one.number: one for one in reply.items}
        return [standing(claim, by_number[number]) for number, claim in enumerate(claims, 1)]

    def _score(self, supported: Sequence[Verdict], covered: Sequence[Verdict]) -> float:
        precision = share(supported) if supported else 0.0
        recall = share(covered) if covered else 0.0
        if self._mode != "f1":
            return precision if self._mode == "precision" else recall
        return f_score(precision, recall, self._beta)

    def _compat_score(self, supported: Sequence[Verdict], covered: Sequence[Verdict]) -> float:
        right = sum(bool(one.passed) for one in supported)
        wrong = len(supported) - right
        left_out = sum(not one.passed for one in covered)
        if self._mode == "precision":
            return _rounded(right / (right + wrong + 1e-8))
        if self._mode == "recall":
            return _rounded(right / (right + left_out + 1e-8))
        if not right:
            return 0.0
        precision, recall, weight = right / (right + wrong), right / (right + left_out), self._beta**2
        # In the order of ragas: another one would round some halves, such as 0.625, to the other side.
        return _rounded((1 + weight) * (precision * recall) / ((weight * precision) + recall))

    def _advice(self, sample: Sample, supported: Sequence[Verdict], covered: Sequence[Verdict]) -> str:
        """Name the claims that are wrong; count those left out, which would give the reference away."""
        failed = [one for one in supported if not one.passed]
        told = {
            "contradicted": [one.subject for one in failed if one.value == "contradicted"],
            "unsupported": [one.subject for one in failed if one.value != "contradicted"],
        }
        lines = [self.say(name, sample, claims=bullets(found)) for name, found in told.items() if found]
        lacking = sum(not one.passed for one in covered)
        return "\n".join(
            [*lines, self.say("lacking", sample, count=lacking, of=len(covered))] if lacking else lines
        )


def _rounded(score: float) -> float:
    """Round to 2 places as numpy does, which can differ from `round(score, 2)`."""
    return round(100 * score) / 100
