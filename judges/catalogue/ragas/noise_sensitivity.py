"""Noise sensitivity: the share of an answer's claims that are wrong because of the retrieved contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, ClassVar, Literal, Unpack, get_args

from pydantic import Field, JsonValue

from judges.catalogue.model_judge import ModelJudge, ModelSettings, all_of
from judges.catalogue.parts.claims import CLAIMS, claims_in_each
from judges.catalogue.parts.items import YesNo, bullets, fault_in, in_order, numbered_items
from judges.catalogue.parts.needed import answer_in, contexts_in, reference_in
from judges.catalogue.parts.support import SUPPORT, support_request, support_verdicts
from judges.entry import Entry
from judges.errors import CannotJudge
from judges.prompting.questions import Question, ReplySchema
from judges.requests import Deliberation
from judges.runtime.validation import one_of
from judges.sample import Sample
from judges.verdict import Verdict

NoiseMode = Literal["relevant", "irrelevant", "hallucination"]
Origin = Literal["correct", "relevant", "irrelevant", "unsupported"]


class Matrix(ReplySchema):
    """What one context bears out, of the claims of the reference and of the answer."""

    reference_claims: list[YesNo] = Field(
        description="list of objects, exactly one for each number: true if the context supports the claim"
    )
    answer_claims: list[YesNo] = Field(
        description="list of objects, exactly one for each number: true if the context supports the claim"
    )


MATRIX: Question[Matrix] = Question(prompt="noise_sensitivity", reply=Matrix, shared=True)


@dataclass(frozen=True)
class _ClaimSupport:
    """Which claims each context supports, by context, then by claim; which answer claims the reference supports.

    Args:
        of_reference: Support of the reference's claims by each context.
        of_answer: Support of the answer's claims by each context.
        correct: Support of the answer's claims by the reference.
    """

    of_reference: Sequence[Sequence[bool]]
    of_answer: Sequence[Sequence[bool]]
    correct: Sequence[bool]

    def origins(self) -> list[Origin]:
        """Return for each claim of the answer whether it is correct, and if not, where it comes from.

        A context is relevant if it supports any claim of the reference. A claim that a relevant context supports
        comes from a relevant context, whatever else supports it.
        """
        return [self._origin(number) for number in range(len(self.correct))]

    def _origin(self, number: int) -> Origin:
        if self.correct[number]:
            return "correct"
        relevance = {
            any(of_reference)
            for of_reference, of_answer in zip(self.of_reference, self.of_answer, strict=True)
            if of_answer[number]
        }
        if True in relevance:
            return "relevant"
        return "irrelevant" if relevance else "unsupported"


class NoiseSensitivity(ModelJudge):
    """Judge how many claims of the answer are wrong because of what was retrieved; low is good.

    A claim of the answer is wrong if the reference does not support it. It comes from a relevant context (one that
    supports any claim of the reference), else from an irrelevant one, else from nowhere. Value = claims of the
    kind that `mode` names / claims of the answer; the three kinds add up to the share of wrong claims. The score
    is 1 - value.

    Both texts are broken into claims, one call for each context finds which claims of both it supports, and one
    more which claims of the answer the reference supports: 3 + n calls, which all modes share.

    With `variant="compat"` each context is asked about twice, as in ragas: 3 + 2n calls, the same formula.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        mode: `"relevant"`, `"irrelevant"`, or `"hallucination"`: wrong, and supported by nothing.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.noise_sensitivity",
        aliases=("noise_sensitivity", "NoiseSensitivity"),
        asks="What share of the answer's claims is wrong, and comes from the contexts?",
        needs=("response", "reference", "retrieved_contexts"),
        calls="3 + n; compat 3 + 2n",
        better="low",
        source="ragas 0.4; arXiv 2408.08067",
        differs="Every wrong claim is told to come from a relevant context, an irrelevant one, or nowhere, which "
        "is a mode of its own; no claims is unscored; one call for each context.",
        tags=("rag", "hallucination", "robustness", "distraction", "claims"),
        follows="both generations, which agree",
    )
    pack = "noise_sensitivity"

    def __init__(
        self, model: object = None, *, mode: NoiseMode = "relevant", **settings: Unpack[ModelSettings]
    ) -> None:
        one_of(NoiseMode, mode, setting="mode")
        self._mode = mode
        compat = settings.get("variant") == "compat"
        questions: tuple[Question[Any], ...] = (CLAIMS, SUPPORT) if compat else (CLAIMS, MATRIX, SUPPORT)
        super().__init__(model, questions=questions, **settings)

    @property
    def calls(self) -> str:
        """Model calls for one sample, as a formula: one for each context, or two in compat."""
        return "3 + 2n" if self.compat else "3 + n"

    def deliberate(self, sample: Sample) -> Deliberation:
        """Break both texts into claims, and find what supports them."""
        answer, reference, contexts = answer_in(sample), reference_in(sample), contexts_in(sample)
        answer_claims, reference_claims = yield from claims_in_each(self, sample, answer, reference)
        if not answer_claims:
            raise CannotJudge("no_claims", "the answer makes no claim")
        if not reference_claims:  # no context could be relevant, and an answer of noise alone would look perfect
            raise CannotJudge("no_claims", "the reference makes no claim")
        find_support = self._compat_support if self.compat else self._support
        support: _ClaimSupport = yield from find_support(
            sample, contexts, reference, (reference_claims, answer_claims)
        )
        origins = support.origins()
        value = origins.count("unsupported" if self._mode == "hallucination" else self._mode) / len(origins)
        items = tuple(
            Verdict.checked(origin == "correct", value=origin, subject=claim)
            for claim, origin in zip(chain(answer_claims, repeat("")), origins, strict=False)
        )
        return self.verdict(
            1 - value,
            value=value,
            rationale="\n".join(f"{item.value}: {item.subject}" for item in items),
            feedback=self._advice(sample, items) if value else "",
            items=items,
            detail=", ".join(f"{origins.count(origin)} {origin}" for origin in get_args(Origin)),
        )

    def _support(
        self, sample: Sample, contexts: Sequence[str], reference: str, claims: tuple[Sequence[str], Sequence[str]]
    ) -> Any:
        reference_claims, answer_claims = claims
        lists: dict[str, JsonValue] = {
            "reference_claims": numbered_items(reference_claims, called="claim"),
            "answer_claims": numbered_items(answer_claims, called="claim"),
        }

        def check(reply: Any) -> str | None:
            return fault_in(reply.reference_claims, len(reference_claims), called="reference_claims") or fault_in(
                reply.answer_claims, len(answer_claims), called="answer_claims"
            )

        requests = [self.request(MATRIX, sample, {"context": one, **lists}, check=check) for one in contexts]
        replies = yield from self.ask_all(
            [*requests, support_request(self, sample, [reference], answer_claims, with_question=True)]
        )
        *matrices, last = all_of(replies)
        return _ClaimSupport(
            [[one.verdict for one in in_order(matrix.reference_claims)] for matrix in matrices],
            [[one.verdict for one in in_order(matrix.answer_claims)] for matrix in matrices],
            [bool(one.passed) for one in support_verdicts(answer_claims, last)],
        )

    def _compat_support(
        self, sample: Sample, contexts: Sequence[str], reference: str, claims: tuple[Sequence[str], Sequence[str]]
    ) -> Any:
        pairs = [(context, side) for context in contexts for side in claims]
        requests = [support_request(self, sample, [text], side) for text, side in pairs]
        requests.append(support_request(self, sample, [reference], claims[1], with_question=True))
        replies = all_of((yield from self.ask_all(requests)))
        marks = [[bool(one.verdict) for one in reply.items] for reply in replies]
        of_reference, of_answer, correct = marks[:-1:2], marks[1:-1:2], marks[-1]
        if {len(one) for one in of_answer} != {len(correct)} or len({len(one) for one in of_reference}) > 1:
            raise CannotJudge("invalid_output", "the model gave lists of verdicts of different lengths")
        if not (correct and of_reference[0]):
            raise CannotJudge("no_claims", "no claim was verified")
        return _ClaimSupport(of_reference, of_answer, correct)

    def _advice(self, sample: Sample, items: Sequence[Verdict]) -> str:
        wrong = {kind: [one.subject for one in items if one.value == kind] for kind in get_args(Origin)[1:]}
        return "\n".join(
            self.say(kind, sample, claims=bullets(claims)) for kind, claims in wrong.items() if claims
        )
