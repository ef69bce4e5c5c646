"""User frustration: whether the user is annoyed, and still is at the end."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from pydantic import JsonValue

from judges.catalogue.parts.evidence import transcript
from judges.catalogue.parts.exchange import exchange_in
from judges.catalogue.parts.one_question import OneQuestion
from judges.entry import Entry
from judges.sample import Sample


class UserFrustration(OneQuestion):
    """Judge whether the user becomes frustrated with the assistant, and whether that is resolved by the end.

    The value is `"none"`, `"resolved"` or `"unresolved"`; the score, high where things are good, 1, 0.5 or 0.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="mlflow.user_frustration",
        aliases=("user_frustration", "UserFrustration"),
        asks="Is the user frustrated with the assistant, and was it resolved by the end?",
        needs=("user_input",),
        calls="1",
        scale="none, resolved or unresolved: 1, 0.5 or 0",
        subject="conversation",
        source="mlflow 3",
        differs="Reasons and feedback come with the label, and a score.",
        tags=("multi-turn", "dialogue", "chat", "sentiment", "emotion", "satisfaction", "support"),
    )
    pack = "user_frustration"
    labels: ClassVar[Mapping[str, float]] = MappingProxyType({"none": 1.0, "resolved": 0.5, "unresolved": 0.0})

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the whole conversation."""
        return {"conversation": transcript(exchange_in(sample))}
