"""One turn of an agent: what its model calls share, from the user's message to the answer.

Drafts live here, in the process, and nowhere in the agent's state: whatever a state holds is streamed and
checkpointed. The state holds a token, by which the next model call finds its turn, and figures.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from langchain.agents.middleware import ModelResponse
from langchain_core.messages import AIMessage, AnyMessage

from graphs import Outcome, Refinement
from graphs.loop import Node, Transition

_log = logging.getLogger("refine")

_SUMMARY_MARK = "lc_source"
"""Key of `additional_kwargs` by which LangChain marks a human message that sums up earlier ones."""


@dataclass(kw_only=True)
class Turn:
    """What the model calls of one turn share.

    Args:
        conversation: The messages up to the question, as it was asked.
        token: Names the turn in the agent's state.
        steps: Messages since the question, by id: tool calls and results, also those that a summary replaced.
        refinement: The record so far; None before the first call and after an error.
        next_step: The step of the loop that comes next.
        responses: What the model returned for each attempt that was an answer, by the attempt's number.
        originals: Tool calls as the model made them, by id, where the agent's history has them without reasoning.
        continued_by: Id of the first message that the agent put after the last rejected draft.
        run: Identifies the run of the agent that made the last call.
        paused_at: When the last call ended, by the monotonic clock.
    """

    conversation: Sequence[AnyMessage]
    token: str = field(default_factory=lambda: uuid4().hex)
    steps: dict[str, AnyMessage] = field(default_factory=dict)
    refinement: Refinement | None = None
    next_step: Node = "generate"
    responses: dict[int, ModelResponse[Any]] = field(default_factory=dict)
    originals: dict[str, AIMessage] = field(default_factory=dict)
    continued_by: str | None = None
    run: object = None
    paused_at: float = 0.0

    @classmethod
    def of(cls, messages: Sequence[AnyMessage], *, token: str | None = None) -> Turn:
        """Return the turn that a state's messages are in."""
        question = _question_index(messages)
        conversation = messages if question is None else messages[: question + 1]
        return cls(conversation=conversation) if token is None else cls(conversation=conversation, token=token)

    def update(self, messages: Sequence[AnyMessage]) -> None:
        """Take over what the agent's state holds by now: newer forms of known messages, and further steps."""
        question = _question_index(messages)
        since = 0 if question is None else question + 1
        if len(messages) < len(self.conversation) or any(
            ours is not theirs for ours, theirs in zip(self.conversation, messages, strict=False)
        ):
            newest = {message.id: message for message in messages if message.id is not None}
            self.conversation = [newest.get(message.id or "", message) for message in self.conversation]
        for message in messages[since:]:
            if message.type in ("ai", "tool") and message.id is not None:
                self.steps[message.id] = message

    def with_added(self, messages: Sequence[AnyMessage], added: Sequence[AnyMessage]) -> list[AnyMessage]:
        """Return an agent's messages with those that the loop added, in the order in which they came about."""
        own = [self.originals.get(message.id or "", message) for message in messages]
        if not added:
            return own
        place = len(own)
        if self.continued_by is not None:
            ids = [message.id for message in messages]
            question = _question_index(messages)
            start = 0 if question is None else question + 1
            place = ids.index(self.continued_by) if self.continued_by in ids else start
        return [*own[:place], *added, *own[place:]]

    def resume(self, run: object) -> Refinement | None:
        """Return the record for the next call; time that passed within a run of the agent counts, waits do not."""
        refinement = self.refinement
        if refinement is None or refinement.updated_at is None or run is None or run is not self.run:
            return refinement
        elapsed = time.monotonic() - self.paused_at
        return replace(refinement, updated_at=refinement.updated_at + elapsed)

    def pause(self, run: object) -> None:
        """Note when, and in which run, a call ended."""
        self.run, self.paused_at = run, time.monotonic()

    def record(self, transition: Transition) -> None:
        """Note where a step of the loop led to."""
        if self.refinement is not None and transition.refinement.added != self.refinement.added:
            self.continued_by = None
        self.refinement = transition.refinement
        self.next_step = transition.goto or "generate"

    def restart(self) -> None:
        """Forget the record: after an answer or an error the next call begins a new one."""
        self.refinement, self.next_step, self.continued_by = None, "generate", None
        self.responses, self.originals = {}, {}


def _question_index(messages: Sequence[AnyMessage]) -> int | None:
    """Return the place of the last human message that is no summary; None where there is none."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].type == "human" and _SUMMARY_MARK not in messages[index].additional_kwargs:
            return index
    return None


class Turns:
    """The turns that run, by token, and the outcomes of the last ones that ended, by id; bounded, thread-safe.

    Args:
        max_turns: Most turns that run at once; the oldest beyond are forgotten.
        max_outcomes: Most outcomes that are held.
    """

    def __init__(self, *, max_turns: int, max_outcomes: int) -> None:
        self._turns: OrderedDict[str, Turn] = OrderedDict()
        self._outcomes: OrderedDict[str, Outcome] = OrderedDict()
        self._max_turns, self._max_outcomes = max_turns, max_outcomes
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._turns)

    def open(self, turn: Turn) -> None:
        """Hold a turn, and forget the oldest where there are too many."""
        with self._lock:
            self._turns[turn.token] = turn
            forgotten = None
            if len(self._turns) > self._max_turns:
                _, forgotten = self._turns.popitem(last=False)
        if forgotten is not None and forgotten.refinement is not None:
            _log.warning("more than %d turns run at once: the drafts of the oldest are lost", self._max_turns)

    def get(self, token: str | None) -> Turn | None:
        """Return a turn; None where it is unknown here: it began in another process, or was forgotten."""
        return None if token is None else self._turns.get(token)

    def close(self, token: str | None) -> Turn | None:
        """Forget a turn, and return it."""
        with self._lock:
            return None if token is None else self._turns.pop(token, None)

    def add_outcome(self, outcome: Outcome) -> None:
        """Hold an outcome, and forget the oldest where there are too many."""
        with self._lock:
            self._outcomes[outcome.id] = outcome
            while len(self._outcomes) > self._max_outcomes:
                self._outcomes.popitem(last=False)

    def outcome(self, id_: str) -> Outcome | None:
        """Return an outcome by its id; None where it is not held."""
        return self._outcomes.get(id_)


def token_of(state: Mapping[str, Any], channel: str, name: str) -> Mapping[str, Any]:
    """Return what an agent's state holds of the turn for a middleware of a name; empty where it holds nothing."""
    figures: Mapping[str, Any] = (state.get(channel) or {}).get(name) or {}
    return figures
