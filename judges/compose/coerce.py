"""Making a judge of what is at hand: a function, an evaluator of another library, a runnable."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from judges.errors import AskFailed, ConfigurationError
from judges.judge import Judge
from judges.requests import Apply, Deliberation
from judges.sample import Sample, argument, field_named
from judges.verdict import Verdict

_REASONS = ("rationale", "reason", "reasoning", "comment", "explanation")
_UNNAMED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def judge_of(given: object, *, name: str | None = None) -> Judge:
    """Make a judge of one function, evaluator or runnable; see `as_judge`.

    Raises:
        ConfigurationError: If it is none of these, or a parameter names no field of a sample.
    """
    if isinstance(given, Judge):
        return given
    if hasattr(given, "with_structured_output"):
        raise ConfigurationError(
            f"a chat model such as {_name_of(given)!r} is no judge by itself; give Helpfulness(model) or another "
            f"judge that asks it"
        )
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
        case BaseModel():
            return _read_mapping(result.model_dump())
        case Mapping():
            return _read_mapping(result)
        case _:
            return None


def _read_mapping(result: Mapping[Any, Any]) -> Verdict | None:
    """Read a mapping by its keys: a `score` of 1 is the best score, never a rating of 1."""
    rating, score, passed = (result.get(key) for key in ("rating", "score", "passed"))
    said = passed if score is None else score
    if rating is not None:
        verdict = Verdict.rated(rating)
    elif isinstance(said, bool):
        verdict = Verdict.checked(said)
    elif score is not None:
        verdict = Verdict.scored(score)
    else:
        return None
    own_mark = {"passed": passed} if isinstance(passed, bool) else {}
    verdict = verdict.model_copy(update=own_mark)
    rationale = next((str(result[key]) for key in _REASONS if result.get(key)), "")
    feedback = str(result.get("feedback") or ("" if verdict.passed else rationale))
    return verdict.model_copy(update={"rationale": rationale, "feedback": feedback})


def _taking_a_sample(function: Callable[..., object]) -> Callable[[Sample], object]:
    """Adapt a function whose parameters are named after fields of a sample to one that takes the sample."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C do not tell
        return function
    bound = function.keywords if isinstance(function, functools.partial) else {}
    wanted = [one for one in signature.parameters.values() if one.name not in bound]
    fields = [one for one in wanted if field_named(one.name) is not None and one.kind not in _UNNAMED]
    needed = [one.name for one in wanted if one.default is one.empty and one.kind not in _UNNAMED[1:]]
    strange = [name for name in needed if name not in {one.name for one in fields}]
    if fields and not strange:
        return _by_fields(function, fields)
    if _takes_one(signature):
        return function
    raise ConfigurationError(
        f"the parameters {strange} of {_name_of(function)!r} name no field of a sample; take one sample, or "
        f"parameters such as user_input, response, retrieved_contexts, reference"
    )


def _takes_one(signature: inspect.Signature) -> bool:
    try:
        signature.bind(None)
    except TypeError:
        return False
    return True


def _by_fields(
    function: Callable[..., object], parameters: Sequence[inspect.Parameter]
) -> Callable[[Sample], object]:
    """Call with the fields that are wanted; one with a default is left out where the sample has none."""
    needed = {one.name for one in parameters if one.default is one.empty}

    def call(sample: Sample) -> object:
        given = {one.name: argument(sample, one.name) for one in parameters}
        return function(**{name: value for name, value in given.items() if value is not None or name in needed})

    async def acall(sample: Sample) -> object:
        return await call(sample)  # type: ignore[misc]  # a coroutine function returns an awaitable

    return functools.update_wrapper(acall if inspect.iscoroutinefunction(function) else call, function)


def _name_of(given: object) -> str:
    while isinstance(given, functools.partial):
        given = given.func
    name = getattr(given, "__name__", None) or getattr(given, "name", None)
    return name if isinstance(name, str) and name != "<lambda>" else type(given).__name__.lower()


def _shortly(result: object) -> str:
    """Show a number; of anything else only the type, since it may hold the text that is judged."""
    return repr(result) if result is None or isinstance(result, int | float) else f"a {type(result).__name__}"
