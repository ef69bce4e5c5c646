"""Judges after Databricks' built-in ones that choose one of a few labels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import JsonValue

from judges.catalogue.databricks.built_in import BuiltIn
from judges.catalogue.parts.one_question import label_verdict
from judges.requests import Deliberation
from judges.sample import Sample


class Labelled(BuiltIn):
    """A judge that asks for one of a few labels or, with `variant="compat"`, for a yes or no.

    Attributes:
        labels: The labels, with the score of each.
    """

    labels: ClassVar[Mapping[str, float]]

    @abstractmethod
    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return what the model is shown of a sample, by name; raises `CannotJudge` where something is missing."""

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask once."""
        data = self.data(sample)
        if self.compat:
            return (yield from self.overall(sample, data))
        reply: Any = yield from self.ask(self.question, sample, data)
        return label_verdict(self, reply, self.labels)
