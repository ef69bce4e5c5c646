"""A model call of an agent as a generator of the loop: the agent's handler answers each prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import replace
from typing import Any

from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain.agents.structured_output import StructuredOutputError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, ToolCall, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.errors import GraphBubbleUp

from graphs import Bounds, Policy, langchain_private
from graphs.answers import CALL_AS_TEXT, misfit_of, schemas_in, unread_call
from graphs.augment import copy_messages
from graphs.generators import Delta, Draft, DraftRequest, OnDelta, PerRequest
from graphs.generators import delta_in as delta_of_chunk
from graphs.graph import build_loop
from graphs.loop import Loop
from graphs.outcome import DraftError
from graphs.policy import Override
from graphs.policy import policy_of as checked_policy
from graphs.questions import InputJudging
from judges import ConfigurationError
from judges.errors import shortened
from judges.models.providers.langchain import chat_model, usage_of
from refine.middleware.turn import Response, Turn

_PLAIN_TEXT = "The answer was plain text. Answer with the structured output that is asked for."


def is_structured(request: ModelRequest[Any]) -> bool:
    """Check whether an agent wants structured answers."""
    return request.response_format is not None


def _structured_draft(draft: Draft, response: ModelResponse[Any]) -> Draft:
    """Return a draft with its structured answer as JSON text, or with what is wrong with it.

    Args:
        draft: What the model returned, as it stands.
        response: The same as the agent got it: with a `ToolMessage` for each call that stands for an answer, and
            the answer, where it fits.
    """
    message = draft.answer
    results = {reply.tool_call_id: reply for reply in response.result if isinstance(reply, ToolMessage)}
    answers = [call for call in message.tool_calls if call["id"] in results]
    if response.structured_response is not None:
        return replace(draft, answer=_as_json(message, answers), pending=False)
    if answers:
        faults = dict.fromkeys(str(results[call["id"] or ""].text) for call in answers)
        return _misfit(replace(draft, answer=_as_json(message, answers)), "\n".join(faults))
    if message.tool_calls:
        return draft
    return _misfit(draft, _fault_of_reply(message, _PLAIN_TEXT))


def _fault_of_reply(message: AIMessage, fault: str) -> str:
    """Return what is wrong with a reply that is no structured answer: an unreadable call, or else `fault`."""
    return unread_call() if message.invalid_tool_calls and not message.tool_calls else fault


def _misfit(draft: Draft, fault: str) -> Draft:
    """Return a draft as one that does not fit the schema of the answers."""
    answer = draft.answer
    return replace(draft, answer=_as_json(answer, answer.tool_calls), pending=False, fault=fault)


def _as_json(message: AIMessage, answers: Sequence[ToolCall]) -> AIMessage:
    """Return a message with the arguments of tool calls as its text, and without calls."""
    if not message.tool_calls:
        return message
    text = "\n".join(json.dumps(call["args"], ensure_ascii=False, default=str) for call in answers)
    metadata = {**message.response_metadata, CALL_AS_TEXT: True}
    return message.model_copy(update={"content": text, "tool_calls": [], "response_metadata": metadata})


_ERROR_TEXT = re.compile(r"Model call failed after \d+ attempts? with \w+: ")
"""How the text begins that `ModelRetryMiddleware` puts in the place of an error."""


class ModelCallFailed(Exception):  # noqa: N818 - says what happened
    """A model failed, and a middleware returned the error's text in the place of an answer."""


class _Heard:
    """Hands on what an agent's model writes, chunk by chunk; a model inside that fails may begin anew.

    Args:
        on_delta: Called with each chunk.
    """

    def __init__(self, on_delta: OnDelta) -> None:
        self.handler = langchain_private.HeardTokens(self._begin, self._hear)
        self._on_delta = on_delta
        self._text = ""

    def _begin(self) -> None:
        self._text = ""
        self._on_delta(Delta(is_anew=True))

    def _hear(self, chunk: AIMessageChunk) -> None:
        delta = delta_of_chunk(chunk)
        self._text += delta.text
        self._on_delta(delta)

    def end(self, draft: Draft) -> Draft:
        """Return the draft; where a middleware inside made it another answer, what was heard is none of it."""
        if str(draft.answer.text) != self._text:
            self._on_delta(Delta(is_anew=True))
        return draft


class ModelCall:
    """Generates drafts by the handler of one model call of an agent.

    Args:
        turn: The turn that the call is part of.
        request: What the agent asks its model.
        handler: Asks it, blocking or not.
        models: The chat model for attempts from a number on, where it is not the agent's.
        silent: Whether to drop what middleware inside writes to the agent's custom stream.
    """

    may_interrupt = writes_in_chunks = True
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

    def draft(self, request: DraftRequest) -> Draft:
        """Return a draft, blocking until it is complete; with `on_delta`, tell of it while it is written."""
        with self._hearing(request) as heard:
            try:
                return heard(self._draft(self._handler(self._next_request(request))))
            except StructuredOutputError as error:
                return heard(self._draft(error))

    async def adraft(self, request: DraftRequest) -> Draft:
        """Return a draft without blocking the event loop; otherwise as `draft`."""
        with self._hearing(request) as heard:
            try:
                return heard(self._draft(await self._handler(self._next_request(request))))
            except StructuredOutputError as error:
                return heard(self._draft(error))

    @contextmanager
    def _hearing(self, draft_request: DraftRequest) -> Iterator[Callable[[Draft], Draft]]:
        """Hear what the model writes, and keep its replies for a middleware that asks a human about one."""
        replies = langchain_private.HeardReplies.of(draft_request.config)
        if replies is not None:
            replies.is_saved = False  # drafts of an agent are in no checkpoint
            replies.again = langchain_private.RepliesAgain(self._turn.replies, before=None)
        chunks = None if draft_request.on_delta is None else _Heard(draft_request.on_delta)
        try:
            with (
                nullcontext()
                if chunks is None
                else langchain_private.hearing(draft_request.config, chunks.handler)
            ):
                yield (lambda draft: draft) if chunks is None else chunks.end
        except GraphBubbleUp:
            self._turn.replies = () if replies is None else [reply.to_plain() for reply in replies.replies]
            raise
        self._turn.replies = ()

    @property
    def steps(self) -> tuple[AnyMessage, ...]:
        """The calls of tools, and their results, that led to this call."""
        return tuple(self._turn.steps.values())

    def _next_request(self, draft_request: DraftRequest) -> ModelRequest[Any]:
        """Return the agent's request with the messages that the loop added, and the settings of this attempt."""
        turn, request = self._turn, self._request
        changes: dict[str, Any] = {}
        added = draft_request.prompt[len(turn.conversation) :]
        if added or turn.originals:
            changes["messages"] = turn.with_added(request.messages, copy_messages(added))
        if draft_request.temperature is not None:
            changes["model_settings"] = {**request.model_settings, "temperature": draft_request.temperature}
        number = 1 if turn.refinement is None else turn.refinement.generated
        in_force = [first for first in self._models if first <= number]
        if in_force:
            changes["model"] = self._models[max(in_force)]
        model = changes.get("model", request.model)
        if isinstance(model, BaseChatModel):
            changes["model"] = langchain_private.replying_again(model, turn.replies)
        if self._silent:
            changes["runtime"] = request.runtime.override(stream_writer=_drop)
        return _change(request, changes)

    def _draft(self, response: Response) -> Draft:
        self.response = response
        message = response.ai_message if isinstance(response, StructuredOutputError) else answer_in(response)
        _refuse_error_text(message)
        if self._turn.replies:  # LangChain marks what a cache gives as free, and this was paid for
            usage: Any = {name: n for name, n in (message.usage_metadata or {}).items() if name != "total_cost"}
            message.usage_metadata = usage or None
        name = message.response_metadata.get("model_name")
        misfit = self._misfit_of(message)
        draft = Draft(
            answer=message,
            misfit=misfit,
            steps=self.steps,
            calls=((name if isinstance(name, str) else None, usage_of(message)),),
            pending=bool(message.tool_calls) and not misfit,
        )
        if isinstance(response, StructuredOutputError):
            return _misfit(draft, _fault_of_reply(message, str(response)))
        return _structured_draft(draft, response) if is_structured(self._request) else draft

    def _misfit_of(self, message: AIMessage) -> str:
        """Return what is wrong with a reply's tool calls; on the last attempt the agent tells the model itself."""
        refinement = self._turn.refinement
        if not message.tool_calls or refinement is None or not refinement.policy.check_tool_calls:
            return ""
        is_last = refinement.number >= refinement.max_attempts_now
        return (
            "" if is_last else misfit_of(message.tool_calls, schemas_in(list(map(_as_dict, self._request.tools))))
        )


def _as_dict(tool: Any) -> Mapping[str, Any]:
    """Return a tool as APIs list it, with the schema of what its model may say."""
    return tool if isinstance(tool, Mapping) else convert_to_openai_tool(tool)


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


def _change(request: ModelRequest[Any], changes: Mapping[str, Any]) -> ModelRequest[Any]:
    """Return a request with changes, of the runtime too, which `override` leaves as it is."""
    twin = copy(request)
    vars(twin).update(changes)
    return twin


def _drop(_: Any) -> None:
    """Discard what is written."""


_OF_THE_AGENT = frozenset({"checkpointer", "context_schema", "durability", "store"})


def policy_of(policy: Policy | None, settings: Mapping[str, Any]) -> Policy:
    """Return the policy of a middleware, given as one or as its settings.

    Raises:
        ConfigurationError: If a setting is unknown, out of range, or not for a middleware.
    """
    misplaced = sorted(settings.keys() & _OF_THE_AGENT)
    if misplaced:
        raise ConfigurationError(f"the agent has {', '.join(misplaced)}, not the middleware; give it to the agent")
    policy = checked_policy(policy, settings)
    if policy.on_exhausted == "interrupt":
        raise ConfigurationError(
            "on_exhausted='interrupt' is not for a middleware, where resuming would repeat every model call; put "
            "the agent inside instead: SelfRefine(agent, judge, on_exhausted='interrupt', checkpointer=...)"
        )
    if policy.candidates > 1:
        raise ConfigurationError(
            f"candidates={policy.candidates} is not for a middleware, where each draft may call the agent's tools "
            f"first; put the agent inside instead: SelfRefine(agent, judge, candidates={policy.candidates})"
        )
    return policy


def models_of(policy: Policy) -> dict[int, BaseChatModel]:
    """Return the chat models of a policy's overrides, by the attempt from which on they are used.

    Raises:
        ConfigurationError: If an override has something else, which could not use the agent's tools.
    """
    models: dict[int, BaseChatModel] = {}
    for number in policy.overrides:
        model = policy.override(number).model
        if isinstance(model, str):
            model = chat_model(model)
        if isinstance(model, BaseChatModel):
            models[number] = model
        elif model is not None:
            raise ConfigurationError(
                f"overrides of a middleware have a chat model or its 'provider:model' name, which the agent uses "
                f"with its tools, not {shortened(model)}"
            )
    return models


def loop_of(
    judge: object,
    policy: Policy,
    name: str,
    bounds: Bounds | None,
    *,
    piece_judge: object = None,
    questions: InputJudging | None = None,
) -> Loop:
    """Return the loop of a middleware, to which each model call of the agent gives its own generator."""
    overrides = {number: Override(temperature=policy.override(number).temperature) for number in policy.overrides}
    request_policy = policy.model_copy(update={"overrides": overrides})
    return build_loop(
        PerRequest(), judge, request_policy, name=name, bounds=bounds, piece_judge=piece_judge, questions=questions
    )


def at_least_one(name: str, value: object) -> int:
    """Return a whole number from 1.

    Raises:
        ConfigurationError: If the value is none.
    """
    if type(value) is not int or value < 1:
        raise ConfigurationError(f"{name} is a whole number from 1, not {shortened(value)}")
    return value
