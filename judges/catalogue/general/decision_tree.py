"""A judge that asks one question after the other: each answer decides which comes next, or the score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Unpack

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from judges.catalogue.metric import ModelJudge, ModelSettings
from judges.catalogue.parts.claims import reasons
from judges.catalogue.parts.fields import answer_in, evidence
from judges.catalogue.parts.questions import finding_schema
from judges.errors import ConfigurationError, one_line
from judges.prompting.prompts import Question
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict

_DEEPEST = 12


class _Leaf(BaseModel, extra="forbid", frozen=True):
    """Where a way through the tree ends."""

    score: Annotated[float, Field(ge=0, le=1)]
    feedback: str = ""


class _Branch(BaseModel, extra="forbid", frozen=True):
    """A question of the tree, and what follows from either answer."""

    ask: Annotated[str, Field(min_length=1)]
    yes: _Node
    no: _Node

    def depths(self) -> list[int]:
        """Return how many questions each way from here asks."""
        nodes = (self.yes, self.no)
        return [1 + depth for node in nodes for depth in (node.depths() if isinstance(node, _Branch) else [0])]


_Node = _Branch | _Leaf | Annotated[float, Field(ge=0, le=1)]
_Branch.model_rebuild()
_TREE: TypeAdapter[_Branch] = TypeAdapter(_Branch)
_STEP: Question[Any] = Question(prompt="decision_tree", reply=finding_schema())


class DecisionTree(ModelJudge, entry="decision_tree", pack="decision_tree"):
    """Judge an answer by a tree of questions that yes or no answers, each of which leads to another or to a score.

    Only the questions on the way are asked, one call each; every one of them is an item, so that the way can be
    read. The score and, where it has one, the feedback are those of the end that is reached; without one the
    feedback is that of the last question.

    Raises:
        ConfigurationError: If the tree is none, or asks more than 12 questions in a row.
    """

    def __init__(
        self, model: object = None, *, tree: Mapping[str, Any], **settings: Unpack[ModelSettings]
    ) -> None:
        self._tree = _checked(tree)
        super().__init__(model, questions=(_STEP,), **settings)

    @property
    def calls(self) -> str:
        """As many calls as questions lie on the way."""
        depths = self._tree.depths()
        return str(max(depths)) if min(depths) == max(depths) else f"{min(depths)}, or {max(depths)}"

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask the questions on the way, one after the other."""
        answer_in(sample)
        items: list[Verdict] = []
        node: _Node = self._tree
        while isinstance(node, _Branch):
            data = {"asked": node.ask, **evidence(sample)}
            reply = yield from self.ask(_STEP, sample, data)
            feedback = "" if reply.verdict else reply.feedback
            items.append(
                Verdict.checked(reply.verdict, subject=node.ask, rationale=reply.rationale, feedback=feedback)
            )
            node = node.yes if reply.verdict else node.no
        end = node if isinstance(node, _Leaf) else _Leaf(score=node)
        way = [
            f"{item.subject} {self.say('yes' if item.passed else 'no', sample)} - {item.rationale}"
            for item in items
        ]
        advice = "" if end.score == 1 else end.feedback or items[-1].feedback or items[-1].rationale
        return self.verdict(
            end.score, rationale="\n".join(way) or reasons(items), feedback=advice, items=tuple(items)
        )


def _checked(tree: object) -> _Branch:
    try:
        read = _TREE.validate_python(tree)
    except (ValidationError, RecursionError) as error:
        faults = error.errors(include_url=False) if isinstance(error, ValidationError) else [None]
        fault = next((one for one in faults if one and one["type"] != "model_type"), faults[0])
        place = (
            ".".join(str(part) for part in fault["loc"] if part in ("ask", "yes", "no", "score")) if fault else ""
        )
        reason = one_line(fault["msg"]).removesuffix(" or instance of _Branch") if fault else "it is too deep"
        raise ConfigurationError(
            f'tree, at {place or "the top"}: {reason}; write {{"ask": "Is it a refund?", "yes": 1, "no": 0}}'
        ) from None
    if max(read.depths()) > _DEEPEST:
        raise ConfigurationError(
            f"tree asks {max(read.depths())} questions in a row; at most {_DEEPEST}, write fewer"
        )
    return read
