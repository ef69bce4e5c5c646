"""Questions that judges ask models: the pack file with the prompt, and the schema of the reply."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, JsonValue

from judges.prompting.prompts import Language, Prompt
from judges.requests import WorkedExample

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass as _ModelType
else:
    _ModelType = type(BaseModel)  # it has no public name

R = TypeVar("R", bound=BaseModel)
S = TypeVar("S", bound="ReplySchema")
ReplyCheck = Callable[[Any], str | None]
"""Returns the fault of a reply that fits its schema, which is then requested again; None if it has none."""

Fills = Mapping[str, str] | Callable[[Prompt, Language], Mapping[str, str]]
"""Values of placeholders: the same in every language, or a function of a pack and its language."""


_RECIPE = "__recipe__"
"""Attribute of a schema made at run time: the call that makes it."""


class _SchemaType(_ModelType):
    """Type of the schemas; one that is made at run time is pickled as the call that makes it."""


class ReplySchema(BaseModel, metaclass=_SchemaType):
    """Base of the schemas of models' replies: no extra fields, and read-only."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def from_reply(cls, other: Any) -> Self:
        """Convert a reply of another schema to this one: field by field, unless a subclass overrides it."""
        return cls.model_validate(other.model_dump())


def made_by(schema: type[S], function: Callable[..., type[S]], *arguments: object) -> type[S]:
    """Return a schema made at run time, which can be pickled from now on.

    Args:
        schema: The schema, of which a module has no name to pickle.
        function: The function of a module that makes it.
        arguments: What it is called with.
    """
    setattr(schema, _RECIPE, (function, arguments))
    return schema


def _reduce_schema(schema: type) -> Any:
    recipe: tuple[Any, ...] | None = vars(schema).get(_RECIPE)
    return recipe or schema.__qualname__


copyreg.pickle(_SchemaType, _reduce_schema)


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
        schema, convert = question.example_format or (question.reply, _unchanged)
        return replace(question, reply=looser, example_format=(schema, partial(_loosened, looser, convert)))

    def model_reply(self, reply: Mapping[str, JsonValue]) -> R:
        """Return the reply of an example as this question's schema."""
        if self.example_format is None:
            return self.reply.model_validate(reply)
        schema, convert = self.example_format
        return convert(schema.model_validate(reply))


def _unchanged(reply: Any) -> Any:
    return reply


def _loosened(schema: type[ReplySchema], convert: Callable[[Any], Any], reply: Any) -> Any:
    """Return the reply of an example as another schema."""
    return schema.from_reply(convert(reply))
