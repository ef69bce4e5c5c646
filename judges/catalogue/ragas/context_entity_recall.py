"""Context entity recall: what share of the entities in the expected answer do the contexts mention?"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from typing import ClassVar, Unpack

from pydantic import Field

from judges.catalogue.model_judge import ModelJudge, ModelSettings, all_of
from judges.catalogue.parts.items import bullets, share
from judges.catalogue.parts.needed import contexts_in, reference_in
from judges.catalogue.parts.retrieval import for_retriever
from judges.entry import Entry
from judges.errors import CannotJudge
from judges.prompting.questions import Question, ReplySchema
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict

_EPSILON = 1e-8


class Entities(ReplySchema):
    """The entities of a text."""

    entities: list[str] = Field(description="list of texts: each entity once, by its fullest name in the text")


ENTITIES: Question[Entities] = Question(prompt="entities", reply=Entities, shared=True)


class ContextEntityRecall(ModelJudge):
    """Judge what share of the reference's entities the retrieved contexts mention.

    Two calls, at once, list the entities of the reference and of the contexts. Score = entities of the reference
    that the contexts have / entities of the reference; letter case, width and blanks do not matter.

    With `variant="compat"` entities are the same only if every letter is, repeated ones stay in the denominator,
    and 1e-8 is added to it, as in ragas; a reference without entities is a 0.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.context_entity_recall",
        aliases=("context_entity_recall", "ContextEntityRecall"),
        asks="What share of the entities in the expected answer do the contexts mention?",
        needs=("retrieved_contexts", "reference"),
        calls="2",
        subject="retriever",
        source="ragas 0.4",
        differs="Each entity counts once, whatever its letter case and width; exact; no entities is unscored.",
    )
    pack = "context_entity_recall"

    def __init__(self, model: object = None, **settings: Unpack[ModelSettings]) -> None:
        super().__init__(model, questions=(ENTITIES,), **settings)

    def deliberate(self, sample: Sample) -> Deliberation:
        """List the entities of both, and compare."""
        texts = (reference_in(sample), "\n".join(contexts_in(sample)))
        replies = yield from self.ask_all([self.request(ENTITIES, sample, {"text": one}) for one in texts])
        wanted, found = (one.entities for one in all_of(replies))
        if self.compat:
            score = len(set(wanted) & set(found)) / (len(wanted) + _EPSILON)
            return self._concluded(sample, score, _looked_up({one: one for one in wanted}, found))
        named: dict[str, str] = {}
        for one in filter(_folded, wanted):
            named.setdefault(_folded(one), one)
        items = _looked_up(named, map(_folded, found))
        if not items:
            raise CannotJudge("no_claims", "the reference names no entity")
        return self._concluded(sample, share(items), items)

    def _concluded(self, sample: Sample, score: float, items: tuple[Verdict, ...]) -> Verdict:
        missing = [one.subject for one in items if not one.passed]
        feedback = for_retriever(self, sample, self.say("missing", sample, entities=bullets(missing)))
        told = f"{len(items) - len(missing)} of {len(items)} entities are mentioned"
        return self.verdict(score, rationale=told, feedback=feedback if missing else "", items=items)


def _looked_up(wanted: Mapping[str, str], found: Iterable[str]) -> tuple[Verdict, ...]:
    known = set(found)
    return tuple(Verdict.checked(key in known, subject=name) for key, name in wanted.items())


def _folded(entity: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", entity).casefold().split())
