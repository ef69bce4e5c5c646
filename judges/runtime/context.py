"""`setting`: a context variable that has a value for the time of a block."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from asyncio import AbstractEventLoop
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, Self, TypeVar

from judges.entry import Entry

if TYPE_CHECKING:
    from judges.model import EmbeddingModel, EmbeddingResponse, JudgeModel, ModelRequest, ModelResponse

T = TypeVar("T")


class setting(Generic[T]):  # noqa: N801 - named like a function, as what is used in a `with` statement is
    """Set a context variable in a block, and reset it afterwards; cheaper than a generator-based context manager.

    Args:
        variable: The variable.
        value: Its value in the block.
    """

    __slots__ = ("_token", "_value", "_variable")
    _token: Token[T]

    def __init__(self, variable: ContextVar[T], value: T) -> None:
        self._variable = variable
        self._value = value

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *_: object) -> None:
        self._variable.reset(self._token)


exchange_end: ContextVar[float | None] = ContextVar("judges.exchange_end", default=None)
"""When the exchange that is being made must be over, by the monotonic clock; None leaves it unbounded."""


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


class time_limit:  # noqa: N801 - named like a function, as what is used in a `with` statement is
    """Cancel what the current task awaits in a `with` block when the time is up.

    Args:
        seconds: Seconds from now; None is no limit.

    Raises:
        TimeoutError: From the block, when the time is up.
    """

    __slots__ = ("_cancellations", "_is_over", "_seconds", "_task", "_timer")

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None

    def __enter__(self) -> Self:
        if self._seconds is not None:
            self._task = asyncio.current_task()
            assert self._task is not None  # noqa: S101 - a coroutine runs in one
            self._cancellations = self._task.cancelling()
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._end)
        return self

    def __exit__(self, kind: type[BaseException] | None, raised: BaseException | None, trace: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._is_over and self._task is not None:
            is_own = self._task.uncancel() <= self._cancellations
            if is_own and kind is not None and issubclass(kind, asyncio.CancelledError):
                raise TimeoutError from raised

    def _end(self) -> None:
        self._is_over = True
        if self._task is not None:
            self._task.cancel()


def with_trace(headers: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Return the headers of a request with those of the current trace.

    They come back as they are where the application has not loaded OpenTelemetry, or there is no trace.
    """
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return headers
    span = trace.get_current_span()
    if span is trace.INVALID_SPAN or not span.get_span_context().is_valid:
        return headers
    from opentelemetry import propagate  # noqa: PLC0415 - loaded already, by the application

    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return {**{name: text for name, text in (headers or {}).items() if name.lower() not in carrier}, **carrier}


class CallWatcher(Protocol):
    """Stands between a judge and its model: it sends a request, answers it otherwise, or ends the run."""

    def send(self, model: JudgeModel, request: ModelRequest, *, shared: bool) -> ModelResponse:
        """Send a request that judges of one sample share if `shared`."""
        ...

    async def asend(self, model: JudgeModel, request: ModelRequest, *, shared: bool) -> ModelResponse:
        """Send a request without blocking."""
        ...

    def embed(self, model: EmbeddingModel, texts: Sequence[str]) -> EmbeddingResponse:
        """Turn texts into vectors."""
        ...

    async def aembed(self, model: EmbeddingModel, texts: Sequence[str]) -> EmbeddingResponse:
        """Turn texts into vectors without blocking."""
        ...


watcher: ContextVar[CallWatcher | None] = ContextVar("judges.call_watcher", default=None)


def sender(model: JudgeModel, *, shared: bool) -> Callable[[ModelRequest], ModelResponse]:
    """Return what sends the requests of a question: its model, or whoever watches calls here."""
    watching = watcher.get()
    return model.send if watching is None else partial(watching.send, model, shared=shared)


def asender(model: JudgeModel, *, shared: bool) -> Callable[[ModelRequest], Awaitable[ModelResponse]]:
    """Return what sends the requests of a question without blocking."""
    watching = watcher.get()
    return model.asend if watching is None else partial(watching.asend, model, shared=shared)


def embedder(model: EmbeddingModel) -> Callable[[Sequence[str]], EmbeddingResponse]:
    """Return what embeds the texts of a judge: its model, or whoever watches calls here."""
    watching = watcher.get()
    return model.embed if watching is None else partial(watching.embed, model)


def aembedder(model: EmbeddingModel) -> Callable[[Sequence[str]], Awaitable[EmbeddingResponse]]:
    """Return what embeds the texts of a judge without blocking."""
    watching = watcher.get()
    return model.aembed if watching is None else partial(watching.aembed, model)


_Kind = Literal["rows", "outcomes", "log_lines"]

_losses_log = logging.getLogger("refine")
_counts: Counter[_Kind] = Counter({"rows": 0, "outcomes": 0, "log_lines": 0})
"""Counts of this process: a log belongs to the process, so its losses do too."""
_lock = threading.Lock()


def losses() -> dict[_Kind, int]:
    """Return what this process has lost since it began.

    These are `rows` of recorded files, `outcomes` of records in a database, and `log_lines` whose logger raised.
    """
    with _lock:
        return dict(_counts)


def count(kind: _Kind, number: int = 1) -> int:
    """Count what was lost, and return the total of its kind."""
    with _lock:
        _counts[kind] += number
        return _counts[kind]


@contextmanager
def logging_safely() -> Iterator[None]:
    """Continue where a logger, handler, filter or processor raises in this block; the line is lost and counted.

    The first loss, the tenth, the hundredth and so on are a WARNING of the logger `refine`, or a line on standard
    error if that logger raises too.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - a log line is worth less than an answer, whatever raised
        total = count("log_lines")
        if str(total).rstrip("0") == "1":
            _report(
                f"the logger raised {type(error).__name__}, so a line is missing from the log ({total} so far)"
            )


def _report(message: str) -> None:
    try:
        _losses_log.warning(message)
    except Exception:  # noqa: BLE001 - as above
        with suppress(Exception):
            sys.stderr.write(f"refine: {message}\n")


_log = logging.getLogger("judges")


class _Logging(NamedTuple):
    """How faults are logged; see `logging_texts`."""

    log_texts: bool = False
    outcome_id: str = ""


_BY_DEFAULT = _Logging()
_logging: ContextVar[_Logging] = ContextVar("judges.logging", default=_BY_DEFAULT)
_raising: ContextVar[bool] = ContextVar("judges.raising", default=False)
_logged: ContextVar[set[str] | None] = ContextVar("judges.logged_faults", default=None)
_instead: ContextVar[Callable[[Exception], Exception | None] | None] = ContextVar("judges.instead", default=None)


def raising() -> setting[bool]:
    """Let errors of a judge's own code through in a `with` block; else they become unscored verdicts."""
    return setting(_raising, True)  # noqa: FBT003 - the variable's value


def letting_through(instead: Callable[[Exception], Exception | None]) -> setting[Any]:
    """Let errors that are no fault of a judge through in a `with` block.

    Args:
        instead: Returns what to raise instead of an error, or None where the error is a fault.
    """
    return setting(_instead, instead)


def logging_texts(*, log_texts: bool, outcome_id: str = "") -> setting[_Logging]:
    """Set how faults are logged in a `with` block.

    Args:
        log_texts: Whether what errors say, which may quote judged texts, is logged.
        outcome_id: Id of the outcome that the lines belong to, as lines of the logger `refine` have it.
    """
    return setting(_logging, _Logging(log_texts, outcome_id))


def outcome_label() -> str:
    """Return what a line of the log ends in: the outcome that it belongs to, if any."""
    outcome_id = _logging.get().outcome_id
    return f" (outcome_id={outcome_id!r})" if outcome_id else ""


@contextmanager
def of_run(*, log_texts: bool) -> Iterator[None]:
    """Warn of each fault once in this block, however many samples meet it; all of them are logged on DEBUG."""
    with setting(_logged, set()), logging_texts(log_texts=log_texts):
        yield


def report(error: Exception, place: str) -> str:
    """Log an error of a judge's own code, and return its kind and place, which quote no text.

    Args:
        error: The error.
        place: Whose code raised it, for instance the judge's name.

    Raises:
        Exception: The error itself within `raising()`, or if by it LangGraph stops for a human; or another one in
            its place, as set by `letting_through`.
    """
    if _raising.get() or _is_control_flow(error):
        raise error
    instead = _instead.get()
    other = None if instead is None else instead(error)
    if other is not None:
        raise other from error
    fault = f"{type(error).__name__} in {place}"
    line = f"{fault}{_innermost(error.__traceback__)}"
    seen = _logged.get()
    repeated = seen is not None and line in seen
    if seen is not None:
        seen.add(line)
    with logging_safely():
        if not repeated:
            message = f": {error}" if _logging.get().log_texts else ""
            _log.warning(
                "%s%s; the verdict is unscored (judge_failed), the traceback is logged on DEBUG%s",
                line,
                message,
                outcome_label(),
            )
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s%s\n%s", line, outcome_label(), _rendered(error))
    return fault


def _is_control_flow(error: Exception) -> bool:
    """Check whether LangGraph, which is not imported here, stops for a human or leaves a graph by this error."""
    return any(kind.__name__ == "GraphBubbleUp" for kind in type(error).__mro__)


def _innermost(frames: TracebackType | None) -> str:
    summary = traceback.extract_tb(frames)
    return f" ({summary[-1].filename}:{summary[-1].lineno}, {summary[-1].name})" if summary else ""


def _rendered(error: BaseException) -> str:
    """Render a traceback with its causes; messages, which may quote texts, only where these may be logged."""
    if _logging.get().log_texts:
        return "".join(traceback.format_exception(error))
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    before = "" if cause is None else f"{_rendered(cause)}which led to\n"
    return f"{before}{''.join(traceback.format_tb(error.__traceback__))}{type(error).__name__}\n"


_V = TypeVar("_V")


class ByJudge(dict[str, _V]):
    """A dict by the names that judges report, in which `[]`, `get` and `in` know their other names, too.

    Iterating, comparing and writing it as JSON are those of a dict: each value is there once.

    Args:
        values: The values by name.
        qualified: Returns the qualified name for any name of a judge, and any other text as it is.
    """

    def __init__(self, values: Mapping[str, _V], *, qualified: Callable[[str], str]) -> None:
        super().__init__(values)
        self._qualified = qualified

    def key(self, name: str) -> str:
        """Return the name in the dict that means the same judge; `name` itself if there is none, or several."""
        if super().__contains__(name) or not isinstance(name, str):
            return name
        qualified = self._qualified(name)
        keys = [key for key in self if self._qualified(key) == qualified]
        return keys[0] if len(keys) == 1 else name

    def __missing__(self, name: str) -> _V:
        key = self.key(name)
        if key == name:
            raise KeyError(name)
        return self[key]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(self.key(name) if isinstance(name, str) else name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a judge by any of its names, or the default."""
        return super().get(self.key(name), default)


def names_of(entries: Iterable[object]) -> Callable[[str], str]:
    """Return a function from any name in these entries to the qualified one; what is no entry is left out."""
    return partial(
        _qualified, {name: entry.name for entry in entries if isinstance(entry, Entry) for name in entry.aliases}
    )


def _qualified(names: Mapping[str, str], name: str) -> str:
    return names.get(name, name)
