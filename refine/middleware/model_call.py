"""The model calls of an agent as turns of the loop: the agent's handler answers each prompt."""

from __future__ import annotations

import json
import logging
import re
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar
from uuid import uuid4

from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain.agents.structured_output import StructuredOutputError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.errors import GraphBubbleUp

from graphs import Outcome, Refinement, langchain_private
from graphs.answers import CALL_AS_TEXT, Draft, check_whole, unread_call
from graphs.augment import copy_messages
from graphs.drivers import Node, Transition
from graphs.generators import Delta, DraftRequest, OnDelta
from graphs.generators import delta_in as delta_of_chunk
from graphs.outcome import DraftError
from graphs.refinement import StopReason
from graphs.structure import misfit_of, schemas_in
from judges.models.providers.langchain import usage_of
from judges.verdict import Usage

T = TypeVar("T")

_log = logging.getLogger("refine")

_SUMMARY = "lc_source"
"""Key of `additional_kwargs` by which LangChain marks a human message that sums up earlier messages."""


Response = ModelResponse[Any] | StructuredOutputError
"""What a model call of an agent comes to; the error is that of an answer which does not fit the schema."""


class _RunToken(str):  # noqa: SLOT000 - with slots there would be no weak reference to it
    """A turn's token as the state of a run holds it: with the last reference to that state it is gone, too."""


@dataclass(kw_only=True)
class Turn:
    """What the model calls of one turn share.

    Args:
        conversation: The messages up to the question.
        token: Names the turn in the agent's state.
        attempts_before: Number of attempts of which only the count is known, since another process made them.
        usage_before: What they consumed.
        steps: Tool calls and results since the question by id, also those that a summary replaced.
        refinement: The record so far; None before the first call.
        next_step: The step of the loop that comes next.
        replies: What the model replied, by its prompts, in an attempt that a middleware inside stopped to ask.
        responses: What the model returned for each attempt, by the attempt's number.
        originals: Tool calls as the model made them, by id, where the agent's history has them without reasoning.
        continued_by: Id of the first message that the agent put after what the loop added last.
        run: Identifies the run of the agent that made the last call.
        paused_at: When the last call ended, in seconds of the monotonic clock.
        can_resume: Whether a checkpointer keeps the agent's state, so that another run may go on with the turn.
    """

    conversation: Sequence[AnyMessage]
    token: str = field(default_factory=lambda: uuid4().hex)
    attempts_before: int = 0
    usage_before: Usage = Usage()
    steps: dict[str, AnyMessage] = field(default_factory=dict)
    refinement: Refinement | None = None
    next_step: Node = "generate"
    replies: Sequence[Sequence[Any]] = ()
    responses: dict[int, Response] = field(default_factory=dict)
    originals: dict[str, AIMessage] = field(default_factory=dict)
    continued_by: str | None = None
    run: object = None
    paused_at: float = 0.0
    can_resume: bool = False
    _run_token: weakref.ref[_RunToken] | None = None

    @classmethod
    def of(cls, messages: Sequence[AnyMessage], figures: Mapping[str, Any] | None = None) -> Turn:
        """Return the turn that an agent's messages are in, with the figures that its state has of it."""
        question = _question_index(messages)
        turn = cls(conversation=messages if question is None else messages[: question + 1])
        if figures:
            turn.token = figures["token"]
            turn.attempts_before = figures.get("attempts", 0)
            turn.usage_before = Usage.model_validate(figures.get("usage", {}))
        return turn

    def figures(self, *, can_resume: bool) -> dict[str, Any]:
        """Return what the agent's state may hold of the turn: nothing of a draft, only how many there were."""
        attempts, usage = self.attempts_before, self.usage_before
        if self.refinement is not None:
            attempts, usage = attempts + len(self.refinement.attempts), self.refinement.usage
        token, self.can_resume = _RunToken(self.token), can_resume
        self._run_token = weakref.ref(token)
        return {"token": token, "attempts": attempts, "usage": usage.model_dump(mode="json")}

    @property
    def is_over(self) -> bool:
        """True if its run is gone, by an error that nobody told of here, and none can go on with it."""
        return not self.can_resume and self._run_token is not None and self._run_token() is None

    @property
    def size(self) -> int:
        """About how many characters it holds."""
        attempts = () if self.refinement is None else self.refinement.attempts
        held = (*self.conversation, *self.steps.values(), *(attempt.answer for attempt in attempts))
        return sum(len(str(message.content)) for message in held)

    def end(self, detail: str, *, stop_reason: StopReason, answer: AIMessage | None = None) -> Outcome | None:
        """Return the record of a turn that ended elsewhere; None where no draft was refused."""
        refinement = self.refinement
        if refinement is None or not refinement.attempts:
            return None
        now = refinement.started_at if refinement.updated_at is None else refinement.updated_at
        ended = refinement if refinement.done else refinement.stop(stop_reason, detail, now=now)
        return Outcome.of(ended, self.conversation, answer, now=now)

    def update(self, messages: Sequence[AnyMessage]) -> None:
        """Take over what the agent's state holds by now: newer forms of known messages, and further steps."""
        if any(ours is not theirs for ours, theirs in zip(self.conversation, messages, strict=False)):
            newest = {message.id: message for message in messages if message.id is not None}
            self.conversation = [newest.get(message.id or "", message) for message in self.conversation]
        for message in messages[_index_after_question(messages) :]:
            if message.type in ("ai", "tool") and message.id is not None:
                self.steps[message.id] = message

    def with_added(self, messages: Sequence[AnyMessage], added: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return an agent's messages with those that the loop added, in the order in which they came about."""
        turn_messages = [self._with_reasoning(message) for message in messages]
        place = len(turn_messages)
        if self.continued_by is not None:
            ids = [message.id for message in messages]
            is_begun = self.continued_by in ids
            place = ids.index(self.continued_by) if is_begun else _index_after_question(messages)
        return [*turn_messages[:place], *added, *turn_messages[place:]]

    def _with_reasoning(self, message: AnyMessage) -> AnyMessage:
        """Return a message as the model made it, unless somebody changed its calls since."""
        original = self.originals.get(message.id or "")
        changed = (
            original is None or not isinstance(message, AIMessage) or message.tool_calls != original.tool_calls
        )
        return message if changed or original is None else original

    def begin(self, refinement: Refinement) -> Refinement:
        """Go on from a record, and return it; attempts that another process made count."""
        if self.refinement is None and self.usage_before.calls:
            policy = refinement.policy
            attempts_left = max(1, policy.max_attempts - self.attempts_before)
            policy = policy.model_copy(update={"max_attempts": attempts_left})
            refinement = replace(refinement, policy=policy, unfinished=self.usage_before)
        self.refinement = refinement
        return refinement

    def resume(self, run: object) -> None:
        """Go on in a run of the agent; the time since the last call counts if it was the same run, as tools do."""
        refinement = self.refinement
        if refinement is not None and refinement.updated_at is not None and run is not None and run is self.run:
            elapsed = time.monotonic() - self.paused_at
            self.refinement = replace(refinement, updated_at=refinement.updated_at + elapsed)
        self.run = run

    def record(self, transition: Transition, response: Response | None) -> None:
        """Note where a step of the loop led to, and what the model last returned."""
        before, after = self.refinement, transition.refinement
        if before is not None and after.added is not before.added:
            self.continued_by = None
        is_new = before is not None and len(after.attempts) > len(before.attempts)
        if response is not None and is_new and not after.attempts[-1].pieces:  # pieces alone are the answer
            self.responses[len(after.attempts)] = response
        self.refinement, self.next_step = after, transition.goto or "generate"
        self.paused_at = time.monotonic()

    def hand_on(self, message: AIMessage, original: AIMessage | None) -> None:
        """Note a tool call that goes to the agent, after whatever the loop added so far.

        Args:
            message: The tool call.
            original: The same with the model's reasoning, which the model is to see again; None if it has it.
        """
        self.continued_by = self.continued_by or message.id
        if original is not None and message.id is not None:
            self.originals[message.id] = original


def _question_index(messages: Sequence[AnyMessage]) -> int | None:
    """Return the place of the last human message that is no summary; None where there is none."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].type == "human" and _SUMMARY not in messages[index].additional_kwargs:
            return index
    return None


def _index_after_question(messages: Sequence[AnyMessage]) -> int:
    """Return where the turn's own messages begin: after the question, or after the summary that replaced it."""
    question = _question_index(messages)
    if question is not None:
        return question + 1
    summaries = [index for index, message in enumerate(messages) if message.type == "human"]
    return summaries[-1] + 1 if summaries else 0


_MOST_CHARACTERS = 32_000_000
"""About how many characters are held at once, of turns and of outcomes each: questions may be very long."""


class _Bounded(Generic[T]):
    """Values by key, of which the oldest go where there are too many or they are too large together.

    Args:
        most: Most values.
    """

    def __init__(self, most: int) -> None:
        self.values: OrderedDict[str, tuple[T, int]] = OrderedDict()
        self._most = most
        self._size = 0

    def put(self, key: str, value: T, size: int) -> Iterator[T]:
        """Hold a value of a size, and yield those that go; the newest stays, however large."""
        self.pop(key)
        self.values[key] = value, size
        self._size += size
        while len(self.values) > 1 and (len(self.values) > self._most or self._size > _MOST_CHARACTERS):
            gone = self.pop(next(iter(self.values)))
            assert gone is not None  # noqa: S101 - it is held
            yield gone

    def pop(self, key: str) -> T | None:
        """Return a value, which is held no longer; None where it is not."""
        value, size = self.values.pop(key, (None, 0))
        self._size -= size
        return value


class OpenTurns:
    """The turns between two model calls, by token, and the last outcomes, by id: bounded, safe between threads.

    Args:
        max_turns: Most turns held at once; of more the oldest are given up.
        max_outcomes: Most outcomes held; of more the oldest are forgotten.
    """

    def __init__(self, *, max_turns: int, max_outcomes: int) -> None:
        self._turns, self._outcomes = _Bounded[Turn](max_turns), _Bounded[Outcome](max_outcomes)
        self._given_up: list[Turn] = []
        self._max_turns = max_turns
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._turns.values)

    def put(self, turn: Turn) -> None:
        """Hold a turn until its next call, and give up the oldest where there are too many."""
        with self._lock:
            gone = self._turns.put(turn.token, turn, turn.size)
            given_up = [old for old in gone if old.refinement is not None and old.refinement.attempts]
            self._given_up += given_up
        if given_up:
            _log.warning(
                "more than max_turns=%d turns are open, or too long ones: the oldest has lost its rejected drafts",
                self._max_turns,
            )

    def take(self, token: str | None) -> Turn | None:
        """Return a turn, which belongs to the caller from now on, so that two runs never share one.

        None means that it is not held: it ended, began in another process, or was given up.
        """
        with self._lock:
            return None if token is None else self._turns.pop(str(token))

    def take_over(self, token: str | None = None, *, all_of_them: bool = False) -> list[Turn]:
        """Return the turns that are over without an outcome, which belong to the caller from now on.

        Args:
            token: One of which that is known.
            all_of_them: Whether every turn is over, as at the end of the process.
        """
        with self._lock:
            turns = self._turns.values
            over = [key for key, (turn, _) in turns.items() if all_of_them or key == token or turn.is_over]
            ended = [*self._given_up, *filter(None, map(self._turns.pop, over))]
            self._given_up = []
        return ended

    def add_outcome(self, outcome: Outcome) -> None:
        """Hold an outcome; forget the oldest where there are too many."""
        held = (*outcome.conversation, *(attempt.answer for attempt in outcome.attempts))
        with self._lock:
            size = sum(len(str(message.content)) for message in held)
            for _ in self._outcomes.put(outcome.id, outcome, size):
                """It is forgotten."""

    def outcome(self, outcome_id: str) -> Outcome | None:
        """Return an outcome; None where it is not held."""
        return self._outcomes.values.get(outcome_id, (None, 0))[0]


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
        check_whole(message)
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
