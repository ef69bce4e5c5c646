"""Questions that judges ask models: the pack file with the prompt, and the schema of the reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, JsonValue

from judges.prompting.prompts import Language, Prompt
from judges.requests import WorkedExample

R = TypeVar("R", bound=BaseModel)
ReplyCheck = Callable[[Any], str | None]
"""Returns the fault of a reply that fits its schema, which is then requested again; None if it has none."""

Fills = Mapping[str, str] | Callable[[Prompt, Language], Mapping[str, str]]
"""Values of placeholders: the same in every language, or a function of a pack and its language."""


class ReplySchema(BaseModel):
    """Base of the schemas of models' replies: no extra fields, and read-only."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def from_reply(cls, other: Any) -> Self:
        """Convert a reply of another schema to this one: field by field, unless a subclass overrides it."""
        return cls.model_validate(other.model_dump())


@dataclass(frozen=True, kw_only=True)
class Question(Generic[R]):
    """A question of a judge to a model.

    Args:
        prompt: Name of the file in a pack.
        reply: Schema of the reply, with the deciding fields after the reasons.
        compat: Looser schema for `variant="compat"`, as the reference implementation reads replies.
        task: Instructions in place of the pack's.
        fills: Values for the `$name` placeholders of the task, or a function that returns them for a pack.
        examples: Worked examples in place of the pack's.
        example_format: If the pack's examples have another schema: that schema, and a function that converts its
            replies to this one.
        shared: Whether judges that ask this about one sample share the reply.
    """

    prompt: str
    reply: type[R]
    compat: type[ReplySchema] | None = None
    task: str | None = None
    fills: Fills = field(default_factory=dict)
    examples: tuple[WorkedExample, ...] | None = None
    example_format: tuple[type[BaseModel], Callable[[Any], R]] | None = None
    shared: bool = False

    def as_compat(self) -> Question[Any]:
        """Return the question with its looser schema, if it has one, and the same examples."""
        if self.compat is None:
            return self
        looser, question = self.compat, cast("Question[Any]", self)
        schema, convert = question.example_format or (question.reply, lambda reply: reply)
        return replace(
            question, reply=looser, example_format=(schema, lambda reply: looser.from_reply(convert(reply)))
        )

    def model_reply(self, reply: Mapping[str, JsonValue]) -> R:
        """Return the reply of an example as this question's schema."""
        if self.example_format is None:
            return self.reply.model_validate(reply)
        schema, convert = self.example_format
        return convert(schema.model_validate(reply))
