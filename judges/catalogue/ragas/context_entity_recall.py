"""Context entity recall: the share of the entities in the expected answer that the contexts mention."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import ClassVar, Unpack

from pydantic import Field

from judges.catalogue.model_judge import ModelJudge, ModelSettings, all_of
from judges.catalogue.parts.items import bullets, share
from judges.catalogue.parts.needed import contexts_in, reference_in
from judges.catalogue.parts.retrieval import for_retriever
from judges.catalogue.parts.text import is_unspaced
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
    that the contexts have / entities of the reference; letter case, width and blanks do not matter. What stands
    in the contexts word for word is there, whether or not the model listed it.

    With `variant="compat"` entities match only if they are identical, repeated ones stay in the denominator, and
    1e-8 is added to it, as in ragas; a reference without entities is a 0.

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
        tags=("rag", "retrieval", "search", "entities", "names"),
        follows="ragas.metrics (legacy)",
    )
    pack = "context_entity_recall"

    def __init__(self, model: object = None, **settings: Unpack[ModelSettings]) -> None:
        super().__init__(model, questions=(ENTITIES,), **settings)

    def deliberate(self, sample: Sample) -> Deliberation:
        """List the entities of both, and compare."""
        texts = (reference_in(sample), "\n".join(contexts_in(sample)))
        replies = yield from self.ask_all([self.request(ENTITIES, sample, {"text": text}) for text in texts])
        expected, mentioned = (reply.entities for reply in all_of(replies))
        if self.compat:
            score = len(set(expected) & set(mentioned)) / (len(expected) + _EPSILON)
            return self._verdict(sample, score, _items({entity: entity for entity in expected}, mentioned))
        names: dict[str, str] = {}
        for entity in filter(_fold, expected):
            names.setdefault(_fold(entity), entity)
        text = _fold(texts[1])
        found = {name for name in names if _stands_in(name, text)}
        items = _items(names, {*map(_fold, mentioned), *found})
        if not items:
            raise CannotJudge("no_claims", "the reference names no entity")
        return self._verdict(sample, share(items), items)

    def _verdict(self, sample: Sample, score: float, items: tuple[Verdict, ...]) -> Verdict:
        missing = [item.subject for item in items if not item.passed]
        feedback = for_retriever(self, sample, self.say("missing", sample, entities=bullets(missing)))
        rationale = f"{len(items) - len(missing)} of {len(items)} entities are mentioned"
        return self.verdict(score, rationale=rationale, feedback=feedback if missing else "", items=items)


def _items(expected: Mapping[str, str], mentioned: Iterable[str]) -> tuple[Verdict, ...]:
    """Return a verdict on each expected entity; `expected` maps what is compared to the name that is reported."""
    keys = set(mentioned)
    return tuple(Verdict.checked(key in keys, subject=name) for key, name in expected.items())


def _stands_in(name: str, text: str) -> bool:
    """Whether a name stands in a text word by word, both folded; scripts without blanks have no words' ends."""
    before = r"(?<!\w)" if name[0].isalnum() and not is_unspaced(name[0]) else ""
    after = r"(?!\w)" if name[-1].isalnum() and not is_unspaced(name[-1]) else ""
    return re.search(f"{before}{re.escape(name)}{after}", text) is not None


def _fold(entity: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", entity).casefold().split())
