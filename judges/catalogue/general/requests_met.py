"""Whether an answer does what was asked: every part of the question, and every instruction."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any, Literal, Unpack

from pydantic import Field, JsonValue

from judges.catalogue.metric import ModelJudge, ModelSettings
from judges.catalogue.parts import claims
from judges.catalogue.parts.fields import answer_in, evidence, question_in, transcript
from judges.errors import CannotJudge, ConfigurationError, shortened
from judges.prompting.prompts import Question, ReplySchema
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict

_SCORES = {"answered": 1.0, "asked_back": 1.0, "partly": 0.5, "ducked": 0.0, "missing": 0.0}


class _AnsweredPart(ReplySchema, wire_name="Part"):
    """One part of the question, and what the answer does about it."""

    part: str = Field(description="text: what is asked for, in a few words")
    reason: str = Field(description="text: why, before the verdict")
    verdict: Literal["answered", "asked_back", "declined", "ducked", "partly", "missing"] = Field(
        description="one of answered, asked_back, declined, ducked, partly, missing"
    )


class _AnsweredParts(ReplySchema, wire_name="Parts"):
    """The parts of the question, and what the answer does about each."""

    parts: list[_AnsweredPart] = Field(description="list of objects: the parts of the question, at least one")


_COMPLETENESS: Question[_AnsweredParts] = Question(prompt="completeness", reply=_AnsweredParts)


class Completeness(ModelJudge, entry="completeness", pack="completeness"):
    """Judge whether the answer deals with every part of the question.

    Score = mean over the parts: 1 where it is answered, asked back about, or declined because neither documents
    nor tool results settle it nor any good assistant knows it; 0.5 where it is answered in part; 0 where it is
    passed over, or ducked: said not to be known although documents or tool results settle it.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    pass_mark = 0.75

    def __init__(self, model: object = None, *, declined: float = 1.0, **settings: Unpack[ModelSettings]) -> None:
        self._scores = {**_SCORES, "declined": float(declined)}
        super().__init__(model, questions=(_COMPLETENESS,), **settings)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask for the parts and what became of each."""
        shown = evidence(sample)
        data: dict[str, JsonValue] = {
            "question": question_in(sample),
            **{name: shown[name] for name in ("steps", "documents") if name in shown},
            "answer": answer_in(sample),
        }
        reply = yield from self.ask(_COMPLETENESS, sample, data, check=_fault)
        items = tuple(
            Verdict.scored(
                self._scores[part.verdict],
                threshold=1.0,
                value=part.verdict,
                subject=claims.cut(part.part),
                rationale=part.reason,
            )
            for part in reply.parts
        )
        score = sum(self._scores[part.verdict] for part in reply.parts) / len(items)
        unmet_requests = [f"{item.subject} - {item.rationale}" for item in items if not item.passed]
        feedback = claims.listed_feedback(self, sample, {"left": unmet_requests}, "parts", longest=600)
        return self.verdict(score, items=items, rationale=claims.reasons(items), feedback=feedback)


def _fault(reply: _AnsweredParts) -> str | None:
    return None if reply.parts else "parts: empty; a question has at least one part"


class _Instructions(ReplySchema):
    """The instructions of a conversation."""

    instructions: list[str] = Field(
        description="list of texts: each instruction as a sentence that can be read alone; empty if there is none"
    )


class _Kept(ReplySchema):
    """Whether one instruction is kept."""

    number: int = Field(description="whole number of the item")
    reason: str = Field(description="text: why, before the verdict")
    verdict: Literal["kept", "not_applicable", "broken"] = Field(description="one of kept, not_applicable, broken")
    change: str = Field(description="text: what to change in the answer; empty if it is not broken")


class _AllKept(ReplySchema):
    """Whether each instruction is kept."""

    items: list[_Kept] = Field(description="list of objects, exactly one for each number, in their order")


_FIND: Question[_Instructions] = Question(prompt="instruction_following_find", reply=_Instructions, shared=True)
_CHECK: Question[_AllKept] = Question(prompt="instruction_following", reply=_AllKept)


class InstructionFollowing(ModelJudge, entry="instruction_following", pack="instruction_following"):
    """Judge whether an answer follows every instruction of the system messages and of the user.

    One call lists the instructions, a second gives a verdict on each. Score = kept / (kept + broken); instructions
    that do not apply to this answer are listed, and do not count. It passes at `threshold`, 1 unless given. Where
    there are no instructions, or none applies, it is unscored, `no_guidelines`.

    Raises:
        ConfigurationError: If `instructions` is no list of texts, or another setting is out of its range.
    """

    pass_mark = 1.0

    def __init__(
        self,
        model: object = None,
        *,
        instructions: str | Sequence[str] | None = None,
        **settings: Unpack[ModelSettings],
    ) -> None:
        self._instructions = None if instructions is None else _checked(instructions)
        questions: tuple[Question[Any], ...] = (_CHECK,) if self._instructions else (_FIND, _CHECK)
        super().__init__(model, questions=questions, **settings)

    @property
    def calls(self) -> str:
        """One call where the instructions are given, else two."""
        return "1" if self._instructions else "2"

    def deliberate(self, sample: Sample) -> Deliberation:
        """List the instructions, then check each."""
        answer, question = answer_in(sample), question_in(sample)
        instructions = self._instructions or (yield from self._find(sample))
        if not instructions:
            raise CannotJudge("no_guidelines", "there are no instructions to follow")
        data: dict[str, JsonValue] = {
            "question": question,
            "answer": answer,
            "instructions": claims.numbered_items(instructions, called="instruction"),
        }
        reply = yield from self.ask(_CHECK, sample, data, check=claims.one_each(len(instructions)))
        return self._conclude(sample, list(zip(instructions, claims.in_order(reply.items), strict=True)))

    def _find(self, sample: Sample) -> Generator[Any, Any, tuple[str, ...]]:
        reply = yield from self.ask(_FIND, sample, {"conversation": transcript(sample.conversation)})
        return claims.non_blank(reply.instructions)

    def _conclude(self, sample: Sample, checked: Sequence[tuple[str, _Kept]]) -> Verdict:
        items = tuple(_item(text, finding) for text, finding in checked)
        relevant = [item for item in items if item.value != "not_applicable"]
        if not relevant:
            detail = "no instruction applies to this answer"
            return Verdict.without_score("no_guidelines", detail, items=items)
        broken = [f"{item.subject} - {item.feedback}" for item in relevant if not item.passed]
        advice = claims.listed_feedback(self, sample, {"broken": broken}, "instructions", longest=600)
        return self.verdict(
            claims.share(relevant), rationale=claims.reasons(relevant), feedback=advice, items=items
        )


def _checked(instructions: Any) -> tuple[str, ...]:
    texts = (instructions,) if isinstance(instructions, str) else instructions
    listed = tuple(texts) if isinstance(texts, Iterable) else ()
    if not listed or not all(isinstance(text, str) and text.strip() for text in listed):
        raise ConfigurationError(
            f"instructions is a text or a list of texts, none blank, not {shortened(instructions)}; leave it out "
            f"to have them listed from the conversation"
        )
    return listed


def _item(text: str, finding: _Kept) -> Verdict:
    is_broken = finding.verdict == "broken"
    change = (finding.change.strip() or finding.reason) if is_broken else ""
    return Verdict.checked(
        not is_broken, value=finding.verdict, subject=text, rationale=finding.reason, feedback=change
    )
