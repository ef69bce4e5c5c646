"""Questions that judges put to models: the file of a pack that words it, and the schema of the reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, JsonValue

from judges.prompting.prompts import Language, Prompt
from judges.requests import Worked

R = TypeVar("R", bound=BaseModel)
ReplyCheck = Callable[[Any], str | None]
"""Names the fault of a reply that fits its schema, for which it is asked for again; None where there is none."""

Fills = Mapping[str, str] | Callable[[Prompt, Language], Mapping[str, str]]
"""Values of placeholders: the same in every language, or found for the pack of one."""


class ReplySchema(BaseModel):
    """Base of the replies that models are asked for: closed, and read-only."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def like(cls, other: Any) -> Self:
        """Write a reply of another schema as one of this: field by field, unless this one knows better."""
        return cls.model_validate(other.model_dump())


@dataclass(frozen=True, kw_only=True)
class Question(Generic[R]):
    """What a judge puts to a model.

    Args:
        prompt: Name of the file in a pack.
        reply: Schema of the reply: what decides stands after the reasons.
        compat: What is asked for instead with `variant="compat"`: a looser schema, as the reference reads.
        task: Instructions in place of the pack's.
        fills: Values for the `$name` placeholders of the task, or a function that finds them for a pack.
        examples: Worked cases in place of the pack's.
        written: Where the pack's examples are written for another schema: that one, and how its replies become
            replies of this one.
        shared: Whether judges that ask this about one sample share the reply.
    """

    prompt: str
    reply: type[R]
    compat: type[ReplySchema] | None = None
    task: str | None = None
    fills: Fills = field(default_factory=dict)
    examples: tuple[Worked, ...] | None = None
    written: tuple[type[BaseModel], Callable[[Any], R]] | None = None
    shared: bool = False

    def as_compat(self) -> Question[Any]:
        """Ask for the looser schema, where there is one, with the same examples."""
        if self.compat is None:
            return self
        looser, question = self.compat, cast("Question[Any]", self)
        schema, rewritten = question.written or (question.reply, lambda found: found)
        return replace(question, reply=looser, written=(schema, lambda found: looser.like(rewritten(found))))

    def model_reply(self, reply: Mapping[str, JsonValue]) -> R:
        """Read the reply of an example."""
        if self.written is None:
            return self.reply.model_validate(reply)
        schema, rewritten = self.written
        return rewritten(schema.model_validate(reply))
