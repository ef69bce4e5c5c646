"""Questions in every form that a chat model, an agent or a node takes, and answers in the form to match."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NotRequired

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, convert_to_messages
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.types import Command
from pydantic import BaseModel
from typing_extensions import TypedDict  # pydantic cannot read the standard one on Python 3.11

from graphs import InputError, Rejected, langgraph_private
from judges.errors import shortened

ModelQuestion = LanguageModelInput | Command[Any] | None
"""A question as a chat model takes it: text, messages or a prompt value; or a reviewer's `Command`.

Where a checkpointer keeps the conversation, None resumes an interrupted turn.
"""

StateQuestion = Mapping[str, Any]
"""A question as an agent takes it: a mapping with `messages`, for instance the state of a graph."""

RefineInput = ModelQuestion | StateQuestion
"""A question: text, messages, a prompt value, a mapping with `messages`; or a reviewer's `Command`."""

_KEYS = frozenset({"messages", "evidence", langgraph_private.SUMMARY})


class StateUpdate(TypedDict):
    """The answer to a question that came as a mapping: what a node of a graph writes to its state.

    Attributes:
        messages: The answer alone.
        refine: A summary of the attempts, where the mapping or the graph's state has that key.
    """

    messages: list[AnyMessage]
    refine: NotRequired[dict[str, Any] | None]


RefineOutput = AIMessage | StateUpdate
"""The answer: a message, or an update of the state where the question was a mapping."""


def read_question(value: Any, evidence: Mapping[str, Any] | None, config: RunnableConfig | None) -> dict[str, Any]:
    """Return a question as the loop takes it: messages and, where there is any, evidence.

    Further keys of a graph's state are left alone; outside of a graph they are refused.

    Raises:
        InputError: If it cannot be read.
    """
    fields = _state_fields(value)
    if fields is None:
        return _with_evidence(_messages(value), evidence)
    unknown = sorted(map(str, set(fields) - _KEYS))
    if "messages" not in fields or (unknown and not langgraph_private.is_node(ensure_config(config))):
        raise InputError(
            f"a question given as a mapping has 'messages' and, if need be, 'evidence', not {unknown}"
        )
    return _with_evidence(_messages(fields["messages"]), evidence or fields.get("evidence"))


def reply(answer: AIMessage, value: Any, config: RunnableConfig | None) -> RefineOutput:
    """Return the answer in the form that matches the question `value`."""
    fields = _state_fields(value)
    if fields is None:
        return answer
    summary = langgraph_private.SUMMARY
    if summary in fields or langgraph_private.has_channel(ensure_config(config), summary):
        return {"messages": [answer], "refine": answer.response_metadata.get(summary)}
    return {"messages": [answer]}


def reply_without_answer(rejected: Rejected, value: Any, config: RunnableConfig | None) -> StateUpdate:
    """Return what a node of a graph writes where a reviewer rejected the answer: no message.

    The graph around then goes on, instead of waiting for ever at a node that failed.

    Raises:
        Rejected: If there is no such graph, or the question was not its state, so that an answer is needed.
    """
    fields, around = _state_fields(value), ensure_config(config)
    if fields is None or not langgraph_private.is_node(around):
        raise rejected
    summary = langgraph_private.SUMMARY
    if summary in fields or langgraph_private.has_channel(around, summary):
        return {"messages": [], "refine": rejected.outcome.summary()}
    return {"messages": []}


def _state_fields(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of a state: a mapping, or an object of a pydantic class or dataclass with `messages`."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, PromptValue) or not hasattr(value, "messages"):
        return None
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return None


def _with_evidence(messages: list[BaseMessage], evidence: Any) -> dict[str, Any]:
    return {"messages": messages} if evidence is None else {"messages": messages, "evidence": evidence}


def _messages(value: Any) -> list[BaseMessage]:
    if isinstance(value, str):
        return [HumanMessage(value)] if value.strip() else []
    if isinstance(value, PromptValue):
        return value.to_messages()
    if isinstance(value, BaseMessage):
        return [value]
    if not isinstance(value, Sequence):
        raise InputError(f"cannot read {shortened(value)} as a question; give a text or a list of messages")
    try:
        return convert_to_messages(value)
    except (ValueError, NotImplementedError) as error:
        raise InputError(f"cannot read the messages: {str(error).splitlines()[0]}") from error
