"""What callback handlers are told of one call: `LlmRun`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmRun(Generic[T]):
    """What handlers are told of one call.

    Args:
        model: Name of the model.
        messages: Makes the messages that are sent.
        answer: Makes the message that came back.
        fields: The request's other fields.
        tags: Tags of the run.
    """

    model: str
    messages: Callable[[], Sequence[BaseMessage]]
    answer: Callable[[T], AIMessage]
    fields: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
