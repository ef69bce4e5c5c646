"""A model call of an agent as a generator: the loop asks for a draft, the agent's handler answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain.agents.structured_output import StructuredOutputError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig

from graphs.errors import DraftError
from graphs.generators import Draft
from graphs.isolation import copy_messages
from judges.models.providers.langchain import usage_of
from judges.runtime import budget
from refine.middleware.turn import Turn


class ModelCallFailed(Exception):  # noqa: N818 - says what happened
    """Every call of a model failed, and a middleware inside put a text in the answer's place."""


class ModelCall:
    """Generates drafts by the handler of one model call of an agent.

    Args:
        turn: The turn that the call is part of.
        request: What the agent asks its model.
        handler: Asks it, sync or async.
        models: Another chat model for attempts from a number on.
        silent: Whether what middleware inside writes to the agent's custom stream is dropped.
    """

    may_interrupt = True

    def __init__(
        self,
        turn: Turn,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Any],
        *,
        models: Mapping[int, BaseChatModel],
        silent: bool,
    ) -> None:
        self._turn = turn
        self._request = request
        self._handler = handler
        self._models = models
        self._silent = silent
        self.response: ModelResponse[Any] | None = None

    def draft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        """Return a draft, blocking until it is complete."""
        try:
            response = self._handler(self._next_request(prompt, temperature))
        except StructuredOutputError as error:
            return self._misfit(error)
        return self._draft(response)

    async def adraft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        """Return a draft without blocking the event loop."""
        try:
            response = await self._handler(self._next_request(prompt, temperature))
        except StructuredOutputError as error:
            return self._misfit(error)
        return self._draft(response)

    def _next_request(self, prompt: Sequence[BaseMessage], temperature: float | None) -> ModelRequest[Any]:
        """Return the agent's request with the messages that the loop added, and the settings of the attempt."""
        turn, request = self._turn, self._request
        changes: dict[str, Any] = {}
        added = prompt[len(turn.conversation) :]
        if added or turn.originals:
            changes["messages"] = turn.with_added(request.messages, copy_messages(added))
        if temperature is not None:
            changes["model_settings"] = {**request.model_settings, "temperature": temperature}
        number = 1 if turn.refinement is None else turn.refinement.number
        in_force = [first for first in self._models if first <= number]
        if in_force:
            changes["model"] = self._models[max(in_force)]
        if self._silent and request.runtime is not None:
            changes["runtime"] = request.runtime.override(stream_writer=_drop)
        return replace(request, **changes) if changes else request

    def _draft(self, response: ModelResponse[Any]) -> Draft:
        message = next((reply for reply in reversed(response.result) if isinstance(reply, AIMessage)), None)
        if message is None:
            raise DraftError("the model call of the agent returned no AIMessage; return one from each middleware")
        _refuse_error_text(message)
        steps, calls = tuple(self._turn.steps.values()), ((_model_name(message), usage_of(message)),)
        self.response = response
        if self._request.response_format is None:
            if message.tool_calls:
                return Draft(answer=message, steps=steps, calls=calls, pending=True)
            return Draft(answer=message, steps=steps, calls=calls)
        answer, fault, pending = _structured(message, response)
        return Draft(answer=answer, steps=steps, calls=calls, fault=fault, pending=pending)

    def _misfit(self, error: StructuredOutputError) -> Draft:
        """Return a draft that does not fit the schema of the agent's answers, and whose error the agent raises."""
        self.response = None
        message = error.ai_message
        answer = _as_text(message, message.tool_calls)
        calls = ((_model_name(message), usage_of(message)),)
        return Draft(answer=answer, steps=tuple(self._turn.steps.values()), calls=calls, fault=str(error))


def _structured(message: AIMessage, response: ModelResponse[Any]) -> tuple[AIMessage, str, bool]:
    """Return a structured answer as text, what is wrong with it, and whether it is no answer but a tool call."""
    replies = {reply.tool_call_id: reply for reply in response.result if isinstance(reply, ToolMessage)}
    own = [call for call in message.tool_calls if call["id"] in replies]
    if response.structured_response is not None:
        return _as_text(message, own), "", False
    if own:
        return _as_text(message, own), "\n".join(str(replies[call["id"]].text) for call in own), False
    if message.tool_calls:
        return message, "", True
    return message, "Answer with the structured output that is asked for, not with plain text.", False


def _as_text(message: AIMessage, calls: Sequence[ToolCall]) -> AIMessage:
    """Return a message whose answer stands in the arguments of tool calls with these as its text, in JSON."""
    if not calls:
        return message.model_copy(update={"tool_calls": []}) if message.tool_calls else message
    text = "\n".join(json.dumps(call["args"], ensure_ascii=False) for call in calls)
    return message.model_copy(update={"content": text, "tool_calls": []})


def _refuse_error_text(message: AIMessage) -> None:
    """Check that a model answered, and not a middleware in its place because every call had failed."""
    allowance = budget.current()
    if allowance is None or not allowance.failed:
        return
    if message.id is None or allowance.failed >= allowance.spent.calls:
        raise ModelCallFailed(
            "the model failed, and a middleware inside returned a text in its place; let it raise the error, for "
            "instance by ModelRetryMiddleware(on_failure='error')"
        )


def _model_name(message: AIMessage) -> str | None:
    name = message.response_metadata.get("model_name") or message.response_metadata.get("model")
    return name if isinstance(name, str) else None


def _drop(_: Any) -> None:
    """Discard what is written to the stream."""
