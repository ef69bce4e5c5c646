"""Pairwise comparison: which of two answers is better, judged in both orders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Literal, Self, Unpack

from pydantic import BaseModel, JsonValue

from judges.catalogue.metric import ModelJudge, ModelSettings
from judges.catalogue.parts.claims import reasons
from judges.catalogue.parts.fields import answer_in, evidence, question_in, reference_in
from judges.catalogue.parts.questions import checked_text, finding_schema
from judges.errors import AskFailed, CannotJudge
from judges.prompting.prompts import Language, Prompt, Question
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Unscored, Usage, Verdict

Against = Literal["rival", "reference"]
Winner = Literal["a", "b", "tie"]

CHOICES = ("first", "second", "tie")
"""The choices of the model in one order."""

_ORDERS = (("answer first", "first"), ("rival first", "second"))
"""Name of each order, and the place of the answer in it."""

_OUTCOMES: Mapping[float, Literal["win", "tie", "loss"]] = {1.0: "win", 0.5: "tie", 0.0: "loss"}
_WINNERS: Mapping[float, Winner] = {1.0: "a", 0.5: "tie", 0.0: "b"}


class Preference(BaseModel, frozen=True, extra="forbid"):
    """Which of two answers is better.

    Args:
        winner: The better one, `"a"` or `"b"`, or `"tie"`; None where unscored.
        consistent: Whether both orders agreed; where they did not, it is a tie. False where unscored.
        rationales: The reasons with `a` shown first, and with `b` shown first.
        feedback: What the loser lacks, addressed to its author; at a tie in both orders, what both lack.
        detail: One line of background: how the orders differ, or the error behind an unscored comparison.
        unscored: Reason code, or None where there is a winner or a tie.
        usage: Usage of both orders together.
    """

    winner: Winner | None
    consistent: bool = False
    rationales: tuple[str, str] = ("", "")
    feedback: str = ""
    detail: str = ""
    unscored: Unscored | None = None
    usage: Usage = Usage()

    @classmethod
    def of(cls, verdict: Verdict) -> Self:
        """Convert the verdict of a `Pairwise` on the first answer into a preference between the two."""
        first, second = verdict.items or (Verdict.without_score("judge_failed"),) * 2
        agreed = verdict.score is not None and first.score == second.score
        return cls(
            winner=None if verdict.score is None else _WINNERS[verdict.score],
            consistent=agreed,
            rationales=(first.rationale, second.rationale),
            feedback=_joined_feedback((first, second)) if agreed else "",
            detail=verdict.detail,
            unscored=verdict.unscored,
            usage=verdict.usage,
        )


class Pairwise(ModelJudge, entry="pairwise", pack="pairwise"):
    """Judge whether an answer is better than a rival, in both orders, so that being shown first is no advantage.

    Two calls, at once: one shows the answer first, one the rival. Both must prefer the same one, or it is a tie,
    and `detail` says how they differ. A win scores 1, a tie 0.5, a loss 0; by default a tie passes, and with
    `threshold=1` the rival must be beaten. If one of the orders fails, the verdict is unscored. `items` holds both
    orders: the choice (`"first"`, `"second"`, `"tie"`), the reasons, and the advice to the worse answer.

    The swap of orders is that of MT-Bench (arXiv 2306.05685, section 3.4). Both variants give the same numbers.
    """

    metadata_keys = ("rival",)
    """The rival's key: `rival`."""

    def __init__(
        self,
        model: object = None,
        *,
        criteria: str | None = None,
        against: Against = "rival",
        **settings: Unpack[ModelSettings],
    ) -> None:
        self.against: Against = against
        criteria_text = None if criteria is None else checked_text(criteria, setting="criteria")
        self._question: Question[Any] = Question(
            prompt=self.pack,
            reply=finding_schema(CHOICES),
            fills=partial(_fills, criteria_text),
            examples=() if criteria_text else None,  # the packaged ones are for the packaged criteria
        )
        super().__init__(model, questions=(self._question,), **settings)

    @property
    def needs(self) -> tuple[str, ...]:
        """The question, and the fields of a sample that are compared."""
        return "user_input", "response", self.against

    def compare(self, question: object, a: str, b: str, **fields: object) -> Preference:
        """Compare two answers to one question.

        Args:
            question: A text, or the messages of a conversation.
            a: One answer.
            b: The other answer.
            fields: Further data for the model: fields of a `Sample`, for instance `retrieved_contexts`.

        Raises:
            BadSample: If the arguments cannot be read as a sample.
            ConfigurationError: If the judge or its model is set up wrongly.
        """
        return Preference.of(self(fields, user_input=question, response=a, **{self.against: b}))

    async def acompare(self, question: object, a: str, b: str, **fields: object) -> Preference:
        """Compare without blocking; otherwise as `compare`."""
        return Preference.of(await self.acall(fields, user_input=question, response=a, **{self.against: b}))

    def refuse_unasked(self, sample: Sample) -> Verdict | None:
        """Return the loss of an answer without content, or the win over such a rival; None where both are."""
        loss = super().refuse_unasked(sample)
        rival = sample.metadata.get("rival")
        if self.against == "reference" or not isinstance(rival, str):
            return loss
        empty = super().refuse_unasked(sample.model_copy(update={"response": rival}))
        if empty is None:
            return loss
        return self.verdict(1.0, value="win", detail=f"the rival, {empty.detail}") if loss is None else None

    def lowest_verdict(self, **fields: Any) -> Verdict:
        """Return the loss of an answer without content."""
        return super().lowest_verdict(**fields).model_copy(update={"value": "loss"})

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask in both orders at once."""
        question_in(sample)
        answer, rival = answer_in(sample), self._rival(sample)
        hidden = {"answer", self.against}
        common = {name: value for name, value in evidence(sample).items() if name not in hidden}
        orders: tuple[dict[str, JsonValue], ...] = (
            {**common, "first": answer, "second": rival},
            {**common, "first": rival, "second": answer},
        )
        replies = yield from self.ask_all([self.request(self._question, sample, data) for data in orders])
        return self._combine(tuple(map(_order_verdict, _ORDERS, replies)))

    def _rival(self, sample: Sample) -> str:
        if self.against == "reference":
            return reference_in(sample)
        rival = sample.metadata.get("rival")
        if not isinstance(rival, str):
            raise CannotJudge("invalid_sample", "there is no text called 'rival' in the metadata to compare with")
        if not rival.strip():
            raise CannotJudge("no_response", "the rival to compare with is blank")
        return rival

    def _combine(self, items: tuple[Verdict, ...]) -> Verdict:
        """Return a win or a loss only where both orders agree, otherwise a tie."""
        for item in items:
            if item.unscored is not None:
                detail = f"{item.subject}: {item.detail}"
                return Verdict.without_score(item.unscored, detail, raw=item.raw, items=items)
        agreed = items[0].score == items[1].score
        score = (items[0].score or 0.0) if agreed else 0.5
        return self.verdict(
            score,
            value=_OUTCOMES[score],
            rationale=reasons(item.model_copy(update={"passed": None}) for item in items),
            feedback=_joined_feedback(item for item in items if item.score != 1),
            detail="" if agreed else f"inconsistent: {_difference(items)}",
            items=items,
        )


def _fills(criteria: str | None, text: Prompt, _: Language) -> dict[str, str]:
    return {"criteria": criteria or text.feedback_text("criteria")}


def _order_verdict(order: tuple[str, str], reply: Any) -> Verdict:
    """Return the verdict of one order on the answer: 1 where the answer is better, 0.5 at a tie, 0 otherwise."""
    subject, place = order
    if isinstance(reply, AskFailed):
        return Verdict.without_score(reply.reason, reply.detail, subject=subject, raw=reply.raw)
    score = 0.5 if reply.verdict == "tie" else float(reply.verdict == place)
    return Verdict.scored(
        score, value=reply.verdict, subject=subject, rationale=reply.rationale, feedback=reply.feedback
    )


def _difference(items: Iterable[Verdict]) -> str:
    """Describe how two orders differ."""
    choices = [item.value for item in items]
    if "tie" not in choices:
        return f"each order preferred the answer shown {choices[0]}"
    preferred = "answer" if any(item.score == 1 for item in items) else "rival"
    return f"one order preferred the {preferred}, the other found a tie"


def _joined_feedback(items: Iterable[Verdict]) -> str:
    """Join the feedback of both orders, without duplicates."""
    return "\n".join(dict.fromkeys(item.feedback for item in items if item.feedback))
