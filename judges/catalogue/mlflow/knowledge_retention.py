"""Knowledge retention: whether the assistant remembers what the user said earlier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from judges.catalogue.mlflow.turns import Turns
from judges.entry import Entry
from judges.verdict import Verdict


class KnowledgeRetention(Turns):
    """Judge whether the assistant ever forgets or contradicts what the user said earlier.

    The worst answer decides: score = 1 if none forgets or contradicts anything, else 0.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="mlflow.knowledge_retention",
        aliases=(
            "knowledge_retention",
            "KnowledgeRetention",
            "KnowledgeRetentionMetric",
            "KNOWLEDGE_RETENTION_PROMPT",
        ),
        asks="Does the assistant remember what the user said earlier, in every answer?",
        needs=("user_input",),
        calls="1",
        scale="yes or no",
        subject="conversation",
        source="mlflow 3",
        differs="All answers are looked at in one call, numbered, instead of one call each.",
        tags=("multi-turn", "dialogue", "chat", "memory", "forgetting"),
    )
    pack = "knowledge_retention"

    def score(self, items: Sequence[Verdict]) -> float:
        """Return 1 if every answer passed, else 0."""
        return float(all(item.passed for item in items))
