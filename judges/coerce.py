"""Making a judge of what is at hand: a function, an evaluator of another library, a runnable."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from judges.errors import AskFailed, ConfigurationError
from judges.judge import Judge
from judges.requests import Apply, Deliberation
from judges.sample import Sample, argument, field_named
from judges.verdict import Verdict

_REASONS = ("rationale", "reason", "reasoning", "comment", "explanation")


def as_judge(given: object, *, name: str | None = None) -> Judge:
    """Make a judge of a function, an openevals-style evaluator, a LangChain runnable, or several judges.

    A function takes either one sample, or arguments named after fields of a sample (`question`, `answer` and
    the other dialects included), sync or async. It returns a `Verdict`; or True or False; or a whole number
    from 1 to 4, a rating; or a float from 0 to 1, a score; or a mapping with one of `rating`, `score` or
    `passed` and, if it likes, `rationale` and `feedback`; or a pair of any of these and the feedback. A list
    of judges becomes a `Panel` that is as strict as its strictest member.

    Args:
        given: What to make a judge of; a judge is returned as it is.
        name: What the judge is called; None takes the function's name.

    Raises:
        ConfigurationError: If it is none of these, or a parameter names no field of a sample.
    """
    if isinstance(given, Judge):
        return given
    if isinstance(given, list | tuple):
        from judges.panel import Panel  # noqa: PLC0415 - a panel makes judges of its members in turn

        return Panel(given, name=name or "panel")
    if hasattr(given, "invoke") and hasattr(given, "ainvoke"):
        return _RunnableJudge(given, name=name or _name_of(given))
    if callable(given) and not isinstance(given, type):
        return FunctionJudge(given, name=name or _name_of(given))
    raise ConfigurationError(
        f"cannot make a judge of {given!r}; give a judge, a function from a sample to a verdict, a LangChain "
        f"runnable, or a list of these"
    )


class FunctionJudge(Judge):
    """A judge whose algorithm is one plain function; see `as_judge`."""

    def __init__(self, function: Callable[..., object], *, name: str) -> None:
        self.name = name
        self._function = _taking_a_sample(function)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Call the function, and read what it returns as a verdict."""
        result = yield Apply(self._function, sample)
        return verdict_of(result, judge=self.name)


class _RunnableJudge(Judge):
    """A judge that is a LangChain runnable; it receives the sample's fields as a dict."""

    def __init__(self, runnable: Any, *, name: str) -> None:
        self.name = name
        self._runnable = runnable

    def deliberate(self, sample: Sample) -> Deliberation:
        """Invoke the runnable, and read what it returns as a verdict."""
        result = yield Apply(self._invoke, sample, self._ainvoke)
        return verdict_of(result, judge=self.name)

    def _invoke(self, sample: Sample) -> object:
        return self._runnable.invoke(sample.model_dump(mode="json", exclude_none=True))

    async def _ainvoke(self, sample: Sample) -> object:
        return await self._runnable.ainvoke(sample.model_dump(mode="json", exclude_none=True))


def verdict_of(result: object, *, judge: str) -> Verdict:
    """Read what a function returned as a verdict; see `as_judge` for what it may return.

    Raises:
        AskFailed: With the reason `"invalid_output"` if it cannot be read.
    """
    try:
        verdict = _read(result)
    except (ValueError, TypeError):
        verdict = None
    if verdict is None:
        raise AskFailed(
            "invalid_output",
            f"{judge!r} returned {_shortly(result)}, which is no verdict: return a Verdict, True or False, a "
            f"rating from 1 to 4, a score from 0.0 to 1.0, or a mapping with one of these",
        )
    return verdict


def _read(result: object) -> Verdict | None:
    match result:
        case Verdict():
            return result
        case bool():
            return Verdict.checked(result)
        case int():
            return Verdict.rated(result)
        case float():
            return Verdict.scored(result)
        case (marks, str() as feedback):
            verdict = _read(marks)
            return None if verdict is None else verdict.model_copy(update={"feedback": feedback})
        case Mapping():
            return _read_mapping(result)
        case _:
            return None


def _read_mapping(result: Mapping[Any, Any]) -> Verdict | None:
    mark = next((result[key] for key in ("rating", "score", "passed") if result.get(key) is not None), None)
    verdict = None if isinstance(mark, Mapping) else _read(mark)
    if verdict is None:
        return None
    rationale = next((str(result[key]) for key in _REASONS if result.get(key)), "")
    return verdict.model_copy(update={"rationale": rationale, "feedback": str(result.get("feedback") or "")})


def _taking_a_sample(function: Callable[..., object]) -> Callable[[Sample], object]:
    """Adapt a function whose parameters are named after fields of a sample to one that takes the sample."""
    parameters = _parameters(function)
    needed = [name for name, optional in parameters.items() if not optional]
    fields = {name: field for name in parameters if (field := field_named(name)) is not None}
    if fields and set(needed) <= set(fields):
        return _by_fields(function, tuple(fields))
    if len(needed) == 1 or not parameters:
        return function
    strange = [name for name in needed if name not in fields]
    raise ConfigurationError(
        f"the parameters {strange or list(parameters)} of {_name_of(function)!r} name no field of a sample; take "
        f"one sample, or parameters such as user_input, response, retrieved_contexts, reference"
    )


def _by_fields(function: Callable[..., object], names: tuple[str, ...]) -> Callable[[Sample], object]:
    def call(sample: Sample) -> object:
        return function(**{name: argument(sample, name) for name in names})

    async def acall(sample: Sample) -> object:
        return await call(sample)  # type: ignore[misc]  # a coroutine function returns an awaitable

    return functools.update_wrapper(acall if inspect.iscoroutinefunction(function) else call, function)


def _parameters(function: Callable[..., object]) -> dict[str, bool]:
    """Parameter names, and whether each may be left out; empty where they cannot be known."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {
        one.name: one.default is not one.empty
        for one in found
        if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    }


def _name_of(given: object) -> str:
    name = getattr(given, "__name__", None) or getattr(given, "name", None)
    return name if isinstance(name, str) and name != "<lambda>" else type(given).__name__.lower()


def _shortly(result: object) -> str:
    return f"a {type(result).__name__}" if isinstance(result, str | Mapping | list | tuple) else repr(result)
