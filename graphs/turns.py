"""One turn at a time on each thread of a checkpointer, and one decision for each review.

Two turns that run at once on one thread both begin with the same conversation, and the one that is stored last
replaces the other's answer. Within a process the second turn therefore waits for the first or is refused, whether
they run in threads or in tasks. Processes share nothing but the checkpointer: there, a turn checks with each of
its steps, before it is stored, that nobody has stored a newer checkpoint of the thread.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal
from uuid import uuid4
from weakref import WeakValueDictionary

from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Interrupt, StateSnapshot

from graphs import langgraph_private
from graphs.outcome import ConcurrentTurn, InputError, ReviewPending
from judges.models.wrappers.limiter import AdmissionQueue, Ticket
from judges.runtime import flow

ConcurrentTurns = Literal["queue", "refuse"]
"""What becomes of a turn while another one runs on its thread."""

_queues: WeakValueDictionary[Hashable, AdmissionQueue] = WeakValueDictionary()
"""The queue of each thread on which a turn is running: refiners that share a checkpointer share its threads."""
_creation = threading.Lock()


_NOT_AWAITED = (
    "no decision is awaited on this thread: it was made already, a new message took its place, or there never was "
    "a question"
)

_CLOSING_S = 5.0
"""Longest wait in seconds for a stream that was left before its end, and that its event loop closes soon."""


@dataclass
class CarriedDecision:
    """A decision that a run carries to the step that awaits it.

    Args:
        id: What tells it from every other.
        reached_a_step: Whether a step ran at all: none does where the thread was ended by somebody else meanwhile.
        error: What to raise once the run is stored.
    """

    id: str = field(default_factory=lambda: uuid4().hex)
    reached_a_step: bool = False
    error: Exception | None = None

    @staticmethod
    def of(config: RunnableConfig) -> CarriedDecision | None:
        """Return the decision that a run carries; None where it carries none, or goes on after a crash."""
        decision: CarriedDecision | None = langgraph_private.carried(config, langgraph_private.DECISION)
        return decision


class _PlaceOnThread:
    """A turn that waits for its place on a thread, or has it."""

    def __init__(self, thread: Hashable, wake: Callable[[], object]) -> None:
        self.thread = thread
        self.ticket = Ticket(0, wake)
        with _creation:
            self.queue = _queues.setdefault(thread, AdmissionQueue(1))
        outer = [reference() for reference in _outer.get()]
        self.is_nested = any(turn.thread == thread and turn.ticket.in_flight for turn in outer if turn is not None)


_outer: ContextVar[tuple[weakref.ref[_PlaceOnThread], ...]] = ContextVar("refine.turns", default=())
"""The turns inside which this code runs: a turn must not wait for one of them."""


@contextmanager
def turn(thread: Hashable, setting: ConcurrentTurns, wait_s: float | None) -> Iterator[None]:
    """Run a block as a turn of a thread, alone.

    Args:
        thread: The thread, see `langgraph_private.thread_of`; None runs the block at once.
        setting: Whether to wait for the turns before this one.
        wait_s: Longest wait in seconds, or None.

    Raises:
        ConcurrentTurn: If the turn is refused, or waited too long.
    """
    if thread is None:
        yield
        return
    woken = threading.Event()
    with _take_place(_PlaceOnThread(thread, woken.set)) as waiting:
        # Blocking an event loop would stop the very turn that is waited for, if it runs there.
        longest = 0.0 if setting == "refuse" or waiting.is_nested or _in_event_loop() else wait_s
        flow.run(_admission(waiting, woken, longest), woken.wait)
        yield


@asynccontextmanager
async def aturn(thread: Hashable, setting: ConcurrentTurns, wait_s: float | None) -> AsyncIterator[None]:
    """Run a block as a turn without blocking the event loop; otherwise as `turn`."""
    if thread is None:
        yield
        return
    woken = asyncio.Event()

    async def wait(seconds: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await woken.wait()

    wake = partial(asyncio.get_running_loop().call_soon_threadsafe, woken.set)
    with _take_place(_PlaceOnThread(thread, wake)) as waiting:
        longest = 0.0 if setting == "refuse" else wait_s
        await flow.arun(_admission(waiting, woken, _CLOSING_S if waiting.is_nested else longest), wait)
        yield


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@contextmanager
def _take_place(waiting: _PlaceOnThread) -> Iterator[_PlaceOnThread]:
    waiting_ref = weakref.ref(waiting)
    waiting.queue.enqueue(waiting.ticket)
    _outer.set((*_outer.get(), waiting_ref))
    try:
        yield waiting
    finally:
        waiting.queue.cancel(waiting.ticket)
        _outer.set(tuple(reference for reference in _outer.get() if reference is not waiting_ref))


def _admission(
    waiting: _PlaceOnThread, woken: threading.Event | asyncio.Event, longest_s: float | None
) -> Generator[float | None, Any, None]:
    """Yield how many seconds to wait until woken, as often as needed; end when the turn may begin."""
    until = None if longest_s is None else time.monotonic() + longest_s
    while True:
        woken.clear()  # before asking, so that no later change is missed
        if waiting.queue.ask(waiting.ticket, 0.0) == 0:
            return
        seconds_left = None if until is None else until - time.monotonic()
        if seconds_left is not None and seconds_left <= 0:
            raise ConcurrentTurn(_describe_refusal(waiting, longest_s or 0.0))
        yield seconds_left


def _describe_refusal(waiting: _PlaceOnThread, waited_s: float) -> str:
    if waiting.is_nested:
        return "a turn was begun inside another turn of the same thread; give it a thread_id of its own"
    after = f", and still after {waited_s:g} s" if waited_s else ""
    return f"another turn is running on this thread{after}; ask again when it has ended"


def check_decision(
    command: Command[Any], interrupts: Sequence[Interrupt], shown_interrupts: Sequence[Interrupt]
) -> None:
    """Check that a decision answers an interrupt which is still open, and was when the decision was made.

    Args:
        command: What the thread is resumed with.
        interrupts: The interrupts that are open on the thread.
        shown_interrupts: Those that were open before the turn waited for its place.

    Raises:
        InputError: If the command holds no decision, or there is nothing left to decide.
    """
    decision = command.resume
    if decision == {} or (decision is None and not (command.update or command.goto)):
        raise InputError(
            "the Command holds no decision; give Command(resume=...) with the answer to the interrupt"
        )
    ids = {interrupt.id for interrupt in interrupts}
    keys = decision.keys() if isinstance(decision, dict) else ()
    if not all(isinstance(key, str) for key in keys):
        raise InputError(
            f"a decision is a text, or a mapping whose keys are texts, not one with {sorted(map(repr, keys))}"
        )
    is_map = isinstance(decision, dict) and all(map(_is_interrupt_id, keys))
    is_late = ids != {interrupt.id for interrupt in shown_interrupts}
    if decision is not None and (not ids or is_late or (is_map and not (decision and decision.keys() <= ids))):
        raise InputError(_NOT_AWAITED)


def _is_interrupt_id(key: object) -> bool:
    """Check whether a key of a resume value has the form of an interrupt's id, as LangGraph does."""
    return isinstance(key, str) and re.fullmatch("[0-9a-f]{32}", key) is not None


def check_reached(command: Command[Any], decision: CarriedDecision) -> None:
    """Check that a decision came to a step: if none ran, somebody else decided while this one was on its way.

    Raises:
        InputError: If no step ran.
        NotAccepted: If the decision was that there be no answer.
    """
    if command.resume is not None and not decision.reached_a_step:
        raise InputError(_NOT_AWAITED)
    if decision.error is not None:
        raise decision.error


def check_current(config: RunnableConfig) -> None:
    """Check in a node that nobody else has continued its thread since the node began.

    Raises:
        ConcurrentTurn: If there is a newer checkpoint; nothing of this turn is stored any more.
    """
    position = _shared_position(config)
    if position is not None:
        _refuse_overtaken(position.checkpointer.get_tuple(position.newest), position)


async def acheck_current(config: RunnableConfig) -> None:
    """Check without blocking; otherwise as `check_current`."""
    position = _shared_position(config)
    if position is not None:
        _refuse_overtaken(await position.checkpointer.aget_tuple(position.newest), position)


def _shared_position(config: RunnableConfig) -> langgraph_private.Position | None:
    """Return what a node continues; None where no other process can, since it is in the memory of this one."""
    position = langgraph_private.checkpoint_of(config) if langgraph_private.stores_steps(config) else None
    return None if position is None or isinstance(position.checkpointer, InMemorySaver) else position


def _refuse_overtaken(newest: CheckpointTuple | None, position: langgraph_private.Position) -> None:
    if newest is not None and newest.checkpoint["id"] > position.checkpoint_id:
        raise ConcurrentTurn(
            "another process has continued this thread meanwhile; this turn's answer is not part of it, ask again"
        )


OnNewQuestion = Literal["refuse", "supersede"]
"""What becomes of a new question while the turn before it waits for a human."""


def admit_question(question: Any, before: StateSnapshot, setting: OnNewQuestion) -> Any:
    """Return the input of a new turn, or refuse it.

    A question whose answer was rejected, or that is superseded, leaves the conversation: it would otherwise be
    answered together with the new one, past the reviewer. So does one that the input judge refused, with the
    fallback text: a judge that reads the whole conversation would refuse all that follow.

    Args:
        question: The input of the graph.
        before: The state of the thread.
        setting: What to do where the turn before waits.

    Raises:
        ReviewPending: If it waits, and new questions are refused.
    """
    if before.interrupts and setting == "refuse":
        raise ReviewPending(
            "a human's decision is awaited on this thread, so a new question is refused; decide with "
            "Command(resume=...) first, or let new questions take its place by on_new_question='supersede'"
        )
    messages: Sequence[AnyMessage] = before.values.get("messages") or ()
    summary = before.values.get(langgraph_private.SUMMARY)
    if not isinstance(question, Mapping) or not (before.interrupts or summary is not None):
        return question
    is_refused = isinstance(summary, Mapping) and summary.get("stop_reason") == "question_refused"
    fallback = messages[-1:] if is_refused and messages and isinstance(messages[-1], AIMessage) else ()
    gone = (*fallback, *_unanswered(messages[: len(messages) - len(fallback)]))
    removed = [RemoveMessage(id=message.id) for message in gone if message.id]
    if not removed:
        return question
    added = question.get("messages") or []
    return {**question, "messages": [*removed, *(added if isinstance(added, list) else [added])]}


def with_status(state: StateSnapshot) -> StateSnapshot:
    """Return a state whose status is `waiting` where a human is to decide, also inside a generator or a judge."""
    if not state.interrupts or not isinstance(state.values, dict):
        return state
    return state._replace(values={**state.values, langgraph_private.STATUS: "waiting"})


def _unanswered(messages: Sequence[AnyMessage]) -> Iterator[AnyMessage]:
    """Yield the messages after the last answer, the last one first."""
    for message in reversed(messages):
        if message.type == "system" or (isinstance(message, AIMessage) and not message.tool_calls):
            return
        yield message
