"""Turn a function, an evaluator of another library or a runnable into a judge."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from judges.compose.agents import grade_in, input_for, is_agent, without_memory
from judges.compose.marks import is_check, verdict_of
from judges.entry import Explanation
from judges.errors import ConfigurationError, shortened
from judges.excerpt import excerpt_of
from judges.judge import Judge
from judges.models.providers.langchain import looks_like_chat_model
from judges.requests import Apply, Deliberation
from judges.runtime.pickling import SharedByCopies, check_picklable
from judges.sample import Sample, argument, canonical_field, copy_sample

_UNNAMED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def judge_of(candidate: object, *, name: str | None = None) -> Judge:
    """Return a judge made from one function, evaluator or runnable; see `as_judge`.

    Raises:
        ConfigurationError: If it is none of these, or a parameter names no field of a sample.
    """
    if isinstance(candidate, Judge):
        return candidate
    if looks_like_chat_model(candidate):
        raise ConfigurationError(
            f"a chat model such as {_name_of(candidate)!r} is no judge by itself; give Helpfulness(model) or "
            f"another judge that asks it"
        )
    if hasattr(candidate, "invoke") and hasattr(candidate, "ainvoke"):
        return _RunnableJudge(candidate, name=name or _name_of(candidate))
    if callable(candidate) and not isinstance(candidate, type):
        return FunctionJudge(candidate, name=name or _name_of(candidate))
    hint = f"; of a class, give {candidate.__name__}(...)" if isinstance(candidate, type) else ""
    raise ConfigurationError(
        f"cannot make a judge of {shortened(candidate)}; give a judge, a function from a sample to a verdict, a "
        f"LangChain runnable, the name of a judge, or a list of these{hint}"
    )


class FunctionJudge(SharedByCopies, Judge):
    """A judge that calls one plain function; see `as_judge`."""

    def __init__(self, function: Callable[..., object], *, name: str) -> None:
        self.name = name
        self._original = function
        self._function = _adapt_to_sample(function)
        self._is_check = is_check(function)

    def __reduce__(self) -> tuple[Any, ...]:
        check_picklable(self._original, f"the judge {self.name!r}", "define its function by def in a module")
        return functools.partial(FunctionJudge, name=self.name), (self._original,)

    def explain(self) -> Explanation:
        """Describe what the function needs: the fields that its parameters without a default are named after."""
        return replace(super().explain(), needs=_needs_of(self._function), reads=_reads_of(self._function))

    def deliberate(self, sample: Sample) -> Deliberation:
        """Call the function, and convert its result to a verdict."""
        result = yield Apply(self._function, copy_sample(sample))
        return verdict_of(result, judge=self.name, check=self._is_check)


class _RunnableJudge(SharedByCopies, Judge):
    """A judge that calls a LangChain runnable with the sample's fields as a dict, or an agent with a message."""

    def __reduce__(self) -> tuple[Any, ...]:
        check_picklable(self._runnable, f"the judge {self.name!r}", "make it in each process")
        return functools.partial(_RunnableJudge, name=self.name), (self._runnable,)

    def __init__(self, runnable: Any, *, name: str) -> None:
        self.name = name
        self._runnable = without_memory(runnable)
        self._is_check = is_check(getattr(runnable, "func", None) or getattr(runnable, "afunc", None))

    def deliberate(self, sample: Sample) -> Deliberation:
        """Invoke the runnable, and convert its result to a verdict."""
        seen = excerpt_of(sample) if is_agent(self._runnable) else sample
        output = yield Apply(self._invoke, seen, self._ainvoke)
        return verdict_of(grade_in(output, judge=self.name), judge=self.name, check=self._is_check)

    def _invoke(self, sample: Sample) -> object:
        return self._runnable.invoke(input_for(self._runnable, sample))

    async def _ainvoke(self, sample: Sample) -> object:
        return await self._runnable.ainvoke(input_for(self._runnable, sample))


def _adapt_to_sample(function: Callable[..., object]) -> Callable[[Sample], object]:
    """Return a function of one sample for a function whose parameters are named after fields of a sample."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C have no signature
        return function
    bound = function.keywords if isinstance(function, functools.partial) else {}
    free = [param for param in signature.parameters.values() if param.name not in bound]
    fields = [param for param in free if canonical_field(param.name) is not None and param.kind not in _UNNAMED]
    required = [param.name for param in free if param.default is param.empty and param.kind not in _UNNAMED[1:]]
    unknown = [name for name in required if name not in {param.name for param in fields}]
    if fields and not unknown:
        return _call_by_fields(function, fields)
    if _accepts_one_argument(signature):
        return function
    raise ConfigurationError(
        f"the parameters {unknown} of {_name_of(function)!r} name no field of a sample; take one sample, or "
        f"parameters such as user_input, response, retrieved_contexts, reference"
    )


def _needs_of(function: Callable[..., object]) -> tuple[str, ...]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # as above
        return ()
    required = [param.name for param in parameters if param.default is param.empty and param.kind not in _UNNAMED]
    return tuple(field for field in map(canonical_field, required) if field is not None)


def _reads_of(function: Callable[..., object]) -> tuple[str, ...]:
    """Return the fields that a function may read: those its parameters name, or all where it takes a sample."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # as above
        return tuple(Sample.model_fields)
    fields = tuple(field for field in map(canonical_field, parameters) if field is not None)
    return fields or tuple(Sample.model_fields)


def _accepts_one_argument(signature: inspect.Signature) -> bool:
    try:
        signature.bind(None)
    except TypeError:
        return False
    return True


def _call_by_fields(
    function: Callable[..., object], parameters: Sequence[inspect.Parameter]
) -> Callable[[Sample], object]:
    """Pass the fields named by the parameters; one with a default is left out where the sample has no value."""
    required = {param.name for param in parameters if param.default is param.empty}

    def call(sample: Sample) -> object:
        values = {param.name: argument(sample, param.name) for param in parameters}
        return function(**{name: value for name, value in values.items() if value is not None or name in required})

    async def acall(sample: Sample) -> object:
        return await call(sample)  # type: ignore[misc]  # a coroutine function returns an awaitable

    return functools.update_wrapper(acall if inspect.iscoroutinefunction(function) else call, function)


def _name_of(candidate: object) -> str:
    while isinstance(candidate, functools.partial):
        candidate = candidate.func
    name = getattr(candidate, "__name__", None) or getattr(candidate, "name", None)
    return name if isinstance(name, str) and name != "<lambda>" else type(candidate).__name__.lower()
