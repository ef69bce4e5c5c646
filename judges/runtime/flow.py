"""How code runs that is written once: a flow, blocking or not; threads for what blocks.

A flow is an algorithm as a generator, which decides and does no I/O: it yields effects, receives what they came
to (a failure, or a cancellation, is raised at the `yield`), and returns its result. `run` and `arun` perform the
effects. A user's blocking functions run in threads that hold up neither an event loop nor the end of the process.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread
import contextvars
import queue
import threading
from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Self, TypeVar

from judges.runtime.observation import current

T = TypeVar("T")
Effect = TypeVar("Effect")
Outcome = TypeVar("Outcome")
Result = TypeVar("Result")


def run(flow: Generator[Effect, Outcome, Result], perform: Callable[[Effect], Outcome]) -> Result:
    """Run a flow to its result, performing one effect after the other."""
    try:
        effect = next(flow)
        while True:
            try:
                outcome = perform(effect)
            except BaseException as error:  # noqa: BLE001 - the flow decides what becomes of it
                effect = flow.throw(error)
            else:
                effect = flow.send(outcome)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # what the flow returned
    finally:
        flow.close()  # whatever ended it, so that what it has opened is closed now


async def arun(
    flow: Generator[Effect, Outcome, Result], perform: Callable[[Effect], Awaitable[Outcome]]
) -> Result:
    """Run a flow without blocking; otherwise as `run`."""
    try:
        effect = next(flow)
        while True:
            try:
                outcome = await perform(effect)
            except BaseException as error:  # noqa: BLE001 - the flow decides what becomes of it
                effect = flow.throw(error)
            else:
                effect = flow.send(outcome)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # what the flow returned
    finally:
        flow.close()  # what it has opened is closed now here, too


class CallInTask(asyncio.Future[T]):
    """A call without blocking that has begun in a task of its own; what it raises reaches whoever awaits it.

    asyncio raises a KeyboardInterrupt of a task through the event loop, past the task that awaits it: the record
    of a turn would be lost, which the error is given on its way. What nobody awaits any more is dropped.

    Args:
        call: The call.
    """

    def __init__(self, call: Awaitable[T]) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self._call = call
        self._task = asyncio.ensure_future(_outcome_of(call))
        self._task.add_done_callback(self._take)

    def cancel(self, msg: object = None) -> bool:
        """Cancel the call; this is done when it has ended."""
        return self._task.cancel(msg)

    def _take(self, task: asyncio.Task[tuple[T | None, BaseException | None]]) -> None:
        if isinstance(self._call, Coroutine):
            self._call.close()  # it may have been cancelled before it began, and then nobody has awaited it
        if task.cancelled():
            super().cancel()
            return
        error = task.exception()
        _settle(self, *(task.result() if error is None else (None, error)))
        self.exception()  # or asyncio would warn of an error of a call that was given up


async def _outcome_of(call: Awaitable[T]) -> tuple[T | None, BaseException | None]:
    try:
        return await call, None
    except (KeyboardInterrupt, SystemExit) as error:  # raised where the call is awaited
        return None, error


def _may_be_left() -> bool:
    """True if a call made here may be left before it ends: at a deadline, or since it is not needed any more."""
    allowance = current.get().allowance
    return allowance is not None and allowance.may_be_left


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call a blocking function in a thread, and await its result.

    A call that may be left before it ends, as with a deadline, gets a daemon thread that nobody has to join: a
    thread of asyncio's pool would delay the end of the event loop. For any other call the pool is used, so that
    many concurrent calls do not start many threads.
    """
    if not _may_be_left():
        return await asyncio.to_thread(_call, function, *arguments)
    return await in_daemon_thread(function, *arguments)


async def in_daemon_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call a blocking function in a daemon thread of its own, and await its result."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            value = context.run(_call, function, *arguments)
        except BaseException as error:  # noqa: BLE001 - passed on to the awaiting task
            _schedule(loop, _settle, future, None, error)
        else:
            _schedule(loop, _settle, future, value, None)

    threading.Thread(target=run, daemon=True, name="judges-call").start()
    return await future


class DeadlinePassed(Exception):  # noqa: N818 - the name describes the event
    """The call did not finish in time."""


def call_within(seconds: float | None, function: Callable[[], T]) -> T:
    """Call a function and wait for its result at most `seconds`; None waits without a limit.

    A blocking call cannot be stopped from outside, so with a limit it runs in its own thread, which is abandoned
    when the time is up.

    Raises:
        DeadlinePassed: If the time is up.
    """
    if seconds is None:
        return function()
    if seconds <= 0:
        raise DeadlinePassed
    results: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            results.put((context.run(function), None))
        except BaseException as error:  # noqa: BLE001 - re-raised in the waiting thread
            results.put((None, error))

    context = contextvars.copy_context()
    threading.Thread(target=run, daemon=True, name="refine-call").start()
    try:
        value, error = results.get(timeout=min(seconds, threading.TIMEOUT_MAX))
    except queue.Empty:
        leave_unjoined()
        raise DeadlinePassed from None
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # without an error there is a value


async def acall_within(seconds: float | None, call: Awaitable[T]) -> T:
    """Await a call for at most `seconds`; None waits without a limit.

    When the time is up the call is cancelled and abandoned, even if it is slow to clean up or ignores the
    cancellation.

    Raises:
        DeadlinePassed: If the time is up.
    """
    if seconds is None:
        return await call
    let_calls_be_left()
    running, loop = CallInTask(call), asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()  # `asyncio.wait` costs more than the task
    end: Callable[..., None] = partial(_end_wait, over)
    timer = loop.call_later(max(0.0, seconds), end)
    running.add_done_callback(end)
    try:
        await over
        if running.done():
            return running.result()
        leave_unjoined()
        raise DeadlinePassed
    finally:
        timer.cancel()
        running.remove_done_callback(end)
        running.cancel()


def _end_wait(over: asyncio.Future[None], *_: object) -> None:
    if not over.done():
        over.set_result(None)


LAST_WORDS_S = 0.25
"""Seconds that a judge is waited for past its deadline, at which it ends its calls and says who is missing."""


def let_calls_be_left() -> None:
    """Let blocking calls that may be left, as with a deadline, hold up the end of the running event loop no more.

    LangChain calls what blocks, such as a model without an async client, in the loop's default executor, whose
    threads the loop and the process wait for. From now on such a call gets a daemon thread; any other call goes
    where it went. A loop that does not show its executor, such as uvloop's, is left alone.
    """
    loop = asyncio.get_running_loop()
    if not hasattr(loop, "_default_executor"):
        return
    executor: Executor | None = loop._default_executor  # noqa: SLF001 - what it has is not shown in public
    if not isinstance(executor, _LeavingExecutor):
        loop.set_default_executor(_LeavingExecutor(executor))


class _LeavingExecutor(ThreadPoolExecutor):
    """Calls in a daemon thread what may be left before it ends; any other call in its pool, or another executor.

    Args:
        executor: Where other calls go; None for the pool.
    """

    def __init__(self, executor: Executor | None) -> None:
        super().__init__(thread_name_prefix="asyncio")
        self._executor = executor

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        if _may_be_left():
            return _in_daemon_thread(partial(fn, *args, **kwargs))
        return (
            super().submit(fn, *args, **kwargs)
            if self._executor is None
            else self._executor.submit(fn, *args, **kwargs)
        )

    def shutdown(self, *arguments: Any, **settings: Any) -> None:
        if self._executor is not None:
            self._executor.shutdown(*arguments, **settings)
        super().shutdown(*arguments, **settings)


def _in_daemon_thread(function: Callable[[], T]) -> Future[T]:
    future: Future[T] = Future()

    def run() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised where the result is waited for
            future.set_exception(error)

    threading.Thread(target=run, daemon=True, name="judges-call").start()
    return future


def leave_unjoined() -> None:
    """Let the process end without waiting for pools that were started inside an abandoned daemon thread.

    Their threads are daemons too, since threads inherit that, and yet `concurrent.futures` joins them at the end
    of the process: an agent's tool that hangs would hold it up. There is no public way to be left out.
    """
    joined = getattr(concurrent.futures.thread, "_threads_queues", {})
    for thread in [thread for thread in list(joined) if thread.daemon]:
        joined.pop(thread, None)


class DaemonThreads:
    """A pool of threads that nobody has to join: a call that hangs does not delay the end of the process.

    Used in a `with` block; threads end with it as soon as they are idle, and calls not begun by then are dropped.

    Args:
        most: Most threads at once.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._started = 0
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._closed = True
        for _ in range(self._started):
            self._calls.put(None)

    def submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        """Call a function in one of the threads, in a copy of the caller's context."""
        future: Future[T] = Future()
        context = contextvars.copy_context()

        def run() -> None:
            try:
                future.set_result(context.run(function, *arguments))
            except BaseException as error:  # noqa: BLE001 - raised where the result is waited for
                future.set_exception(error)

        self._calls.put(run)
        if not self._idle.acquire(blocking=False) and self._started < self._most:
            self._started += 1
            threading.Thread(target=self._work, daemon=True, name="judges-call").start()
        return future

    def _work(self) -> None:
        while (call := self._calls.get()) is not None and not self._closed:
            call()
            del call
            self._idle.release()


def _settle(future: asyncio.Future[Any], value: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


def _schedule(loop: asyncio.AbstractEventLoop, *call: Any) -> None:
    with suppress(RuntimeError):  # the loop may be closed by now, and nobody is waiting
        loop.call_soon_threadsafe(*call)


def _call(function: Callable[..., T], *arguments: Any) -> T:
    try:
        return function(*arguments)
    except StopIteration as error:
        raise RuntimeError("StopIteration") from error  # a future cannot hold it and would never finish


class NextTurn:
    """Calls functions in the next turn of the event loop that runs, all that came until then together."""

    def __init__(self) -> None:
        self._due: dict[AbstractEventLoop, list[Callable[[], None]]] = {}

    def call(self, function: Callable[[], None]) -> None:
        """Call a function, which raises nothing, in the next turn."""
        loop = asyncio.get_running_loop()
        due = self._due.get(loop)
        if due is None:
            self._due[loop] = [function]
            loop.call_soon(self._run, loop)
        else:
            due.append(function)

    def _run(self, loop: AbstractEventLoop) -> None:
        for function in self._due.pop(loop):
            function()
