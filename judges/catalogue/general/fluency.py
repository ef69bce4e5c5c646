"""Fluency: whether the answer is well written, whatever it says."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from pydantic import JsonValue

from judges.catalogue.parts.needed import answer_in
from judges.catalogue.parts.one_question import OneQuestion
from judges.entry import Entry
from judges.sample import Sample


class Fluency(OneQuestion):
    """Judge whether the answer is correct and natural language; what it says does not matter.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="fluency",
        aliases=("FluencyEvaluator", "mlflow.fluency", "Fluency", "grammar"),
        asks="Is the answer correct and natural language?",
        needs=("response",),
        calls="1",
        scale="good, acceptable, poor, bad",
        source="as in mlflow 3 and Azure AI Evaluation",
        differs="Four described labels; the question is not shown, as it does not matter.",
        tags=("readability", "spelling", "style", "writing"),
    )
    pack = "fluency"
    labels = MappingProxyType({"good": 1.0, "acceptable": 2 / 3, "poor": 1 / 3, "bad": 0.0})

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the answer."""
        return {"answer": answer_in(sample)}
