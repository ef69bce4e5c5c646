"""Judges of each turn of a conversation: whether it is relevant, and whether it is faithful to the evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, Unpack

from pydantic import JsonValue

from judges.catalogue.mlflow.turns import Turns
from judges.catalogue.model_judge import ModelSettings
from judges.catalogue.parts.exchange import with_numbers
from judges.catalogue.parts.items import share
from judges.entry import Entry
from judges.errors import CannotJudge
from judges.messages import Conversation
from judges.runtime.validation import one_of
from judges.sample import Sample
from judges.verdict import Verdict

Aggregate = Literal["mean", "worst"]


class PerTurn(Turns):
    """A judge of every answer of the assistant; the score is their mean, or that of the worst.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        aggregate: `"mean"`: answers that pass / all; `"worst"`: 1 if all pass, else 0.
        settings: See `judges.catalogue.model_judge.ModelSettings`.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    def __init__(
        self, model: object = None, *, aggregate: Aggregate = "mean", **settings: Unpack[ModelSettings]
    ) -> None:
        self._aggregate = one_of(Aggregate, aggregate, setting="aggregate")
        super().__init__(model, **settings)

    def score(self, items: Sequence[Verdict]) -> float:
        """Return the mean of the answers, or that of the worst."""
        mean = share(items)
        return mean if self._aggregate == "mean" else float(mean == 1)


class TurnRelevancy(PerTurn):
    """Judge whether every answer of a conversation is relevant to what the user wrote before it."""

    entry: ClassVar[Entry] = Entry(
        name="turn_relevancy",
        aliases=(
            "TurnRelevancyMetric",
            "ConversationRelevancyMetric",
            "conversation_relevancy",
            "turn_relevance",
            "conversation-relevance",
        ),
        asks="Is every answer of the conversation relevant to what the user wrote before it?",
        needs=("user_input",),
        calls="1",
        subject="conversation",
        source="as in deepeval",
        differs="All answers are looked at in one call, numbered, instead of one call each.",
        tags=("relevance", "multi-turn", "dialogue", "chat", "on topic", "off topic"),
    )
    pack = "turn_relevancy"


class TurnFaithfulness(PerTurn):
    """Judge whether every answer of a conversation is faithful to the contexts and tool results."""

    entry: ClassVar[Entry] = Entry(
        name="turn_faithfulness",
        aliases=("TurnFaithfulnessMetric", "conversation_faithfulness", "turn_groundedness"),
        asks="Is every answer of the conversation borne out by the contexts and tool results?",
        needs=("user_input", "retrieved_contexts"),
        calls="1",
        subject="conversation",
        source="as in deepeval",
        differs="All answers are looked at in one call; tool results in the conversation count as evidence.",
        tags=("hallucination", "groundedness", "multi-turn", "dialogue", "chat", "rag", "made up", "unsupported"),
    )
    pack = "turn_faithfulness"

    def data(self, sample: Sample, messages: Conversation) -> Mapping[str, JsonValue]:
        """Return the documents and the conversation with its answers numbered.

        Raises:
            CannotJudge: `no_contexts`, if there is neither a context nor a tool result.
        """
        documents: list[JsonValue] = [text for text in sample.retrieved_contexts or () if text.strip()]
        if not documents and not any(message.role == "tool" and message.content.strip() for message in messages):
            raise CannotJudge("no_contexts", "there are neither contexts nor tool results to compare with")
        return {"documents": documents, "conversation": with_numbers(messages, on="assistant")}
