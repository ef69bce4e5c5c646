"""One question: a model says yes or no, or one of a few labels, with its reasons first."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Unpack

from pydantic import Field, JsonValue, create_model

from judges.asking import Asking, ModelSettings, Question, Reply
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict


class OneQuestion(Asking):
    """A judge that puts one question to a model, the task of its own pack.

    The reply is `{rationale, verdict, feedback}`, where `verdict` is true or false, or one of `labels`.

    Attributes:
        labels: The labels the model chooses from, with the score of each; none for yes or no.
    """

    labels: ClassVar[Mapping[str, float]] = MappingProxyType({})

    def __init__(
        self, model: object = None, *, fills: Mapping[str, str] | None = None, **settings: Unpack[ModelSettings]
    ) -> None:
        self._question: Question[Any] = Question(
            prompt=self.pack, reply=finding(tuple(self.labels)), fills=fills or {}
        )
        super().__init__(model, questions=(self._question,), **settings)

    @abstractmethod
    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Give what the model is shown of a sample, by name; raises `CannotJudge` where something is missing."""

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask once."""
        found = yield from self.put(self._question, sample, self.data(sample))
        if not self.labels:
            feedback = "" if found.verdict else found.feedback
            return Verdict.checked(found.verdict, rationale=found.rationale, feedback=feedback)
        score = self.labels[found.verdict]
        return self.verdict(score, value=found.verdict, rationale=found.rationale, feedback=found.feedback)


@lru_cache(maxsize=64)
def finding(labels: tuple[str, ...] = ()) -> type[Reply]:
    """Make the schema of a reply: yes or no, or one of some labels."""
    kind: Any = Literal[labels] if labels else bool
    told = f"one of {', '.join(labels)}" if labels else "true or false"
    return create_model(
        "Finding",
        __base__=Reply,
        __doc__="What was found.",
        rationale=(str, Field(description="text: your reasons, before the verdict")),
        verdict=(kind, Field(description=told)),
        feedback=(str, Field(description="text: what to change; empty if nothing")),
    )
