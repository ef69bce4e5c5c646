"""One turn of an agent: what its model calls share, from the user's message to the answer.

Drafts live here, in the process, and never in the agent's state, since whatever a state holds is streamed and
checkpointed. The state holds a token, by which the next model call finds its turn, and figures.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar
from uuid import uuid4

from langchain.agents.middleware import ModelResponse
from langchain.agents.structured_output import StructuredOutputError
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage

from graphs import Outcome, Refinement
from graphs.drivers import Node, Transition
from graphs.refinement import StopReason
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
