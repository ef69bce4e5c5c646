"""A model call of an agent as a generator of the loop: the agent's handler answers each prompt."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from typing import Any

from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain.agents.structured_output import StructuredOutputError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig

from graphs.drafts import Draft
from graphs.errors import DraftError
from graphs.isolation import copy_messages
from judges.models.providers.langchain import usage_of
from refine.middleware.structured import fault_of_reply, is_structured, misfit, structured_draft
from refine.middleware.turn import Response, Turn

_ERROR_TEXT = re.compile(r"Model call failed after \d+ attempts? with \w+: ")
"""How the text begins that `ModelRetryMiddleware` puts in the place of an error."""


class ModelCallFailed(Exception):  # noqa: N818 - says what happened
    """A model failed, and a middleware returned the error's text in the place of an answer."""


class ModelCall:
    """Generates drafts by the handler of one model call of an agent.

    Args:
        turn: The turn that the call is part of.
        request: What the agent asks its model.
        handler: Asks it, blocking or not.
        models: The chat model for attempts from a number on, where it is not the agent's.
        silent: Whether to drop what middleware inside writes to the agent's custom stream.
    """

    may_interrupt = True
    reports_usage = True

    def __init__(
        self,
        turn: Turn,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any] | Awaitable[ModelResponse[Any]]],
        *,
        models: Mapping[int, BaseChatModel],
        silent: bool,
    ) -> None:
        self._turn = turn
        self._request = request
        self._handler: Callable[[ModelRequest[Any]], Any] = handler
        self._models = models
        self._silent = silent
        self.response: Response | None = None

    def draft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        """Return a draft, blocking until it is complete."""
        del config  # inherited
        try:
            return self._draft(self._handler(self._next_request(prompt, temperature)))
        except StructuredOutputError as error:
            return self._draft(error)

    async def adraft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        """Return a draft without blocking the event loop."""
        del config  # inherited
        try:
            return self._draft(await self._handler(self._next_request(prompt, temperature)))
        except StructuredOutputError as error:
            return self._draft(error)

    def _next_request(self, prompt: Sequence[BaseMessage], temperature: float | None) -> ModelRequest[Any]:
        """Return the agent's request with the messages that the loop added, and the settings of this attempt."""
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
        if self._silent:
            changes["runtime"] = request.runtime.override(stream_writer=_drop)
        return _changed(request, changes)

    def _draft(self, response: Response) -> Draft:
        self.response = response
        message = response.ai_message if isinstance(response, StructuredOutputError) else answer_in(response)
        _refuse_error_text(message)
        name = message.response_metadata.get("model_name")
        draft = Draft(
            answer=message,
            steps=tuple(self._turn.steps.values()),
            calls=((name if isinstance(name, str) else None, usage_of(message)),),
            pending=bool(message.tool_calls),
        )
        if isinstance(response, StructuredOutputError):
            return misfit(draft, fault_of_reply(message, str(response)))
        return structured_draft(draft, response) if is_structured(self._request) else draft


def answer_in(response: ModelResponse[Any]) -> AIMessage:
    """Return the message of the model in what a model call returned.

    Raises:
        DraftError: If there is none.
    """
    message = next((reply for reply in reversed(response.result) if isinstance(reply, AIMessage)), None)
    if message is None:
        raise DraftError("the agent's model call returned no AIMessage; every middleware inside must return one")
    return message


def _refuse_error_text(message: AIMessage) -> None:
    """Check that a text is not that of an error, which `ModelRetryMiddleware` returns by default."""
    if message.id is None and not message.response_metadata and _ERROR_TEXT.match(str(message.text)):
        raise ModelCallFailed(
            "the model failed, and ModelRetryMiddleware returned the text of the error as its answer; give it "
            "on_failure='error'"
        )


def _changed(request: ModelRequest[Any], changes: Mapping[str, Any]) -> ModelRequest[Any]:
    """Return a request with changes, of the runtime too, which `override` leaves as it is."""
    twin = copy(request)
    vars(twin).update(changes)
    return twin


def _drop(_: Any) -> None:
    """Discard what is written."""
