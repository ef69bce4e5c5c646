"""Turn a function, an evaluator of another library or a runnable into a judge."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel

from judges.entry import Explanation
from judges.errors import AskFailed, ConfigurationError, shortened
from judges.judge import Judge
from judges.messages import WITHOUT_MEDIA
from judges.models.prompt_and_reply import frame, fresh_nonce, render_data
from judges.models.providers.langchain import looks_like_chat_model
from judges.requests import Apply, Deliberation
from judges.runtime.observation import current
from judges.runtime.validation import SharedByCopies, check_picklable
from judges.sample import Sample, argument, canonical_field, copy_sample, excerpt_of
from judges.verdict import HIGHEST, LOWEST, Verdict

_REASONS = ("rationale", "reason", "reasoning", "comment", "explanation")

_FORMS = (
    "return a Verdict; True or False; a rating, which is an integer from 1 to 4; a score, which is a float from "
    "0.0 to 1.0; a mapping, dataclass or pydantic object with one of rating, score and passed; or a pair of one "
    "of these and the feedback. 1 and 0 mean True and False in a function annotated `-> bool`"
)

_YES_OR_NO = re.compile(r"\b(?:bool_?|TypeGuard|TypeIs)\b|Literal\[(?:0, ?1|1, ?0|True, ?False|False, ?True)\]")
_NUMBER = re.compile(r"\bint\b")
_AMBIGUOUS = (
    ", and nobody knows whether 1 and 0 are True and False or ratings: annotate it `-> bool`, or give "
    'as_judge(..., returns="check"), where it answers yes or no; annotate it `-> int`, or give '
    'returns="rating", where it rates'
)

Returns = Literal["check", "rating"]
"""What the whole numbers of a function mean: 1 and 0 are yes and no, or they are ratings."""


class _ContradictionError(ValueError):
    """The marks of a result exclude each other; says which."""


def _returned_by(function: object) -> Returns | None:
    """Return what the whole numbers of a function mean by its annotation, also in a pair; None if it is open."""
    annotation = _result_annotation(function)
    if _NUMBER.search(annotation):
        return "rating"
    return "check" if _YES_OR_NO.search(annotation) else None


def _result_annotation(function: object) -> str:
    """Return the annotation of the result as it is written; empty where there is none."""
    try:
        annotation = inspect.signature(function).return_annotation  # type: ignore[arg-type]  # raises for no callable
    except (TypeError, ValueError):  # some functions written in C have no signature
        return ""
    if annotation is inspect.Signature.empty:
        return ""
    if isinstance(annotation, str):
        return annotation.strip("'\" ")
    return annotation.__name__ if type(annotation) is type else str(annotation)


def verdict_of(result: object, *, judge: str, returns: Returns | None = None) -> Verdict:
    """Convert a function's result to a verdict; see `as_judge` for the accepted results.

    Args:
        result: What the function returned.
        judge: The judge's name.
        returns: What whole numbers mean; with None neither 1 nor 0 can be read.

    Raises:
        AskFailed: With the reason `"invalid_output"` if it cannot be converted.
    """
    fault = ""
    try:
        verdict = _convert(result, returns)
    except _ContradictionError as contradiction:
        verdict, fault = None, f", in which {contradiction}"
    except (ValueError, TypeError):
        verdict = None
    if verdict is None:
        number = _plain(result[0] if isinstance(result, tuple) and result else result)
        if type(number) is int and returns == "check":
            fault = ", although it is a check: annotate it `-> int` to return ratings"
        elif type(number) is int and returns is None and number in {0, 1}:
            fault = _AMBIGUOUS
        raise AskFailed(
            "invalid_output", f"{judge!r} returned {_describe(result)}, which is no verdict{fault}: {_FORMS}"
        )
    return verdict


def _convert(result: object, returns: Returns | None) -> Verdict | None:
    if isinstance(result, Verdict):
        return result
    match _plain(result):
        case bool(passed):
            return Verdict.checked(passed)
        case int(number) if number in {0, 1} and returns != "rating":
            return None if returns is None else Verdict.checked(bool(number))
        case int(number):
            return None if returns == "check" else Verdict.rated(number)
        case float(score):
            return Verdict.scored(score)
        case (mark, str() as feedback):
            marked = _convert(mark, returns)
            return None if marked is None else marked.model_copy(update={"feedback": feedback})
        case BaseModel() as fields:
            return _convert_mapping(fields.model_dump())
        case Mapping() as fields:
            return _convert_mapping(fields)
        case fields if dataclasses.is_dataclass(fields) and not isinstance(fields, type):
            return _convert_mapping(dataclasses.asdict(fields))
        case _:
            return None


def _plain(value: object) -> object:
    """Return the Python scalar of a scalar of numpy, or of a library like it; anything else as it is."""
    item = getattr(value, "item", None)
    return item() if callable(item) and getattr(value, "shape", None) == () else value


def _convert_mapping(result: Mapping[Any, Any]) -> Verdict | None:
    """Convert a mapping by its keys: a `score` of 1 is the best score, never a rating of 1."""
    rating, score, passed = (_plain(result.get(key)) for key in ("rating", "score", "passed"))
    outcome = passed if score is None else score
    if rating is not None:
        verdict = Verdict.rated(rating)  # type: ignore[arg-type]  # pydantic rejects anything but 1, 2, 3 and 4
    elif isinstance(outcome, bool):
        verdict = Verdict.checked(outcome)
    elif score is not None:
        verdict = Verdict.scored(score)  # type: ignore[arg-type]  # what is no number raises
    else:
        return None
    _refuse_contradictions(verdict, rating, score, passed)
    own_mark = {"passed": passed} if isinstance(passed, bool) else {}
    verdict = verdict.model_copy(update=own_mark)
    rationale = next((str(result[key]) for key in _REASONS if result.get(key)), "")
    feedback = str(result.get("feedback") or ("" if verdict.passed else rationale))
    return verdict.model_copy(update={"rationale": rationale, "feedback": feedback})


def _refuse_contradictions(verdict: Verdict, rating: object, score: object, passed: object) -> None:
    """Refuse marks that no pass mark can reconcile: the best that fails, the worst that passes, unlike marks."""
    if isinstance(passed, bool) and verdict.score == float(not passed):
        name, mark = ("score", score) if rating is None else ("rating", rating)
        raise _ContradictionError(f"{name} {mark!r} and passed {passed!r} contradict each other")
    if rating is None or not isinstance(score, int | float) or not 0 <= score <= 1:
        return
    if abs((verdict.rating or LOWEST) - (LOWEST + (HIGHEST - LOWEST) * score)) > 1:
        raise _ContradictionError(f"rating {rating!r} and score {score!r} contradict each other")


def _describe(result: object) -> str:
    """Return a number as it is; of anything else only the type, since it may contain judged text."""
    plain = _plain(result)
    return repr(plain) if plain is None or isinstance(plain, int | float) else f"a {type(result).__name__}"


_REMINDER = "Judge the response as your instructions say."
_RESPONSE = "structured_response"
_INTERRUPT = "__interrupt__"


def _without_memory(runnable: Any) -> Any:
    """Return the runnable; a graph without its checkpointer, so that a judge never remembers what it judged."""
    bound = getattr(runnable, "bound", None)
    if bound is not None and hasattr(runnable, "model_copy"):
        return runnable.model_copy(update={"bound": _without_memory(bound)})
    has_memory = _is_graph(runnable) and bool(runnable.checkpointer)
    return runnable.copy({"checkpointer": None}) if has_memory else runnable


def _input_for(runnable: object, sample: Sample) -> dict[str, Any]:
    """Return what to invoke a runnable with: the sample's fields; an agent gets them in a message."""
    fields = sample.model_dump(mode="json", exclude_none=True)
    channels = _channels_of(runnable)
    if not _is_agent(runnable):
        return fields
    evidence = sample.model_dump(mode="json", exclude_none=True, exclude_defaults=True, exclude=WITHOUT_MEDIA)
    message = {"role": "user", "content": frame(render_data(evidence), fresh_nonce(), _REMINDER)}
    return {**{name: value for name, value in fields.items() if name in channels}, "messages": [message]}


def _is_agent(runnable: object) -> bool:
    """Return whether a runnable is a compiled graph over messages."""
    return "messages" in _channels_of(runnable)


def _grade_in(output: object, *, judge: str) -> object:
    """Return the grade in what a runnable returned: an agent's `structured_response`, otherwise all of it.

    Raises:
        ConfigurationError: If an agent stopped for a human where nothing could resume it.
        AskFailed: With the reason `"invalid_output"` if an agent returned messages alone.
    """
    if not isinstance(output, Mapping):
        return output
    if _INTERRUPT in output:
        raise ConfigurationError(
            f"the judge {judge!r} stopped to ask a human, and nothing could resume it; give a checkpointer to the "
            f"loop"
        )
    if output.get(_RESPONSE) is not None:
        return output[_RESPONSE]
    if "messages" in output and not {"rating", "score", "passed"} & set(output):
        raise AskFailed(
            "invalid_output",
            f"{judge!r} is an agent that returned no {_RESPONSE!r}; make it by "
            f"create_agent(..., response_format=...) of a class with a rating, a score or passed",
        )
    return output


def _channels_of(runnable: object) -> Mapping[str, object]:
    bound = getattr(runnable, "bound", None)
    if bound is not None:
        return _channels_of(bound)
    channels = getattr(runnable, "channels", None) if _is_graph(runnable) else None
    return channels if isinstance(channels, Mapping) else {}


def _is_graph(runnable: object) -> bool:
    return any(kind.__name__ == "Pregel" for kind in type(runnable).__mro__)


_UNNAMED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def judge_of(candidate: object, *, name: str | None = None, returns: Returns | None = None) -> Judge:
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
        return _RunnableJudge(candidate, name=name or _name_of(candidate), returns=returns)
    if _is_validator(candidate):
        check = functools.partial(_verdict_of_validator, candidate)
        return FunctionJudge(check, name=name or _name_of(candidate))
    if callable(candidate) and not isinstance(candidate, type):
        return FunctionJudge(candidate, name=name or _name_of(candidate), returns=returns)
    hint = f"; of a class, give {candidate.__name__}(...)" if isinstance(candidate, type) else ""
    if isinstance(candidate, Mapping):
        hint = "; of judges by name, give Panel({...})"
    raise ConfigurationError(
        f"cannot make a judge of {shortened(candidate)}; give a judge, a function from a sample to a verdict, a "
        f"LangChain runnable, a validator of guardrails-ai, the name of a judge, or a list of these{hint}"
    )


def _is_validator(candidate: object) -> bool:
    """True if this is a validator as those of guardrails-ai are: an object with `validate(value, metadata)`."""
    validate = None if isinstance(candidate, type) else getattr(candidate, "validate", None)
    return callable(validate) and "metadata" in inspect.signature(validate).parameters


def _verdict_of_validator(validator: Any, answer: str, metadata: Mapping[str, Any] | None = None) -> Verdict:
    """Return what a validator says of an answer: its message is the feedback, its `fix_value` the replacement."""
    result = validator.validate(answer, dict(metadata or {}))
    outcome = getattr(result, "outcome", None)
    if outcome not in {"pass", "fail"}:
        raise AskFailed(
            "invalid_output",
            f"{_name_of(validator)!r} returned {_describe(result)}; return PassResult or FailResult",
        )
    if outcome == "pass":
        return Verdict.checked(passed=True)
    fixed = getattr(result, "fix_value", None)
    replacement = fixed if isinstance(fixed, str) and fixed != answer else None
    return Verdict.checked(passed=False, feedback=str(result.error_message or ""), replacement=replacement)


class FunctionJudge(SharedByCopies, Judge):
    """A judge that calls one plain function; see `as_judge`."""

    def __init__(self, function: Callable[..., object], *, name: str, returns: Returns | None = None) -> None:
        self.name = name
        self._original = function
        self._function = _adapt_to_sample(function)
        self._returns = returns or _returned_by(function)

    def __reduce__(self) -> tuple[Any, ...]:
        check_picklable(self._original, f"the judge {self.name!r}", "define its function by def in a module")
        return functools.partial(FunctionJudge, name=self.name, returns=self._returns), (self._original,)

    def explain(self) -> Explanation:
        """Describe what the function needs: the fields that its parameters without a default are named after."""
        return replace(super().explain(), needs=_needs_of(self._function), reads=_reads_of(self._function))

    def deliberate(self, sample: Sample) -> Deliberation:
        """Call the function, and convert its result to a verdict."""
        result = yield Apply(self._function, copy_sample(sample))
        return verdict_of(result, judge=self.name, returns=self._returns)


class _RunnableJudge(SharedByCopies, Judge):
    """A judge that calls a LangChain runnable with the sample's fields as a dict, or an agent with a message."""

    def __reduce__(self) -> tuple[Any, ...]:
        check_picklable(self._runnable, f"the judge {self.name!r}", "make it in each process")
        return functools.partial(_RunnableJudge, name=self.name, returns=self._returns), (self._runnable,)

    def __init__(self, runnable: Any, *, name: str, returns: Returns | None = None) -> None:
        self.name = name
        self._runnable = _without_memory(runnable)
        function = getattr(runnable, "func", None) or getattr(runnable, "afunc", None)
        self._returns = returns or _returned_by(function)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Invoke the runnable, and convert its result to a verdict."""
        limit = current.get().longest_shown
        shown_sample = sample if limit is None or not _is_agent(self._runnable) else excerpt_of(sample, limit)
        output = yield Apply(self._invoke, shown_sample, self._ainvoke)
        return verdict_of(_grade_in(output, judge=self.name), judge=self.name, returns=self._returns)

    def _invoke(self, sample: Sample) -> object:
        return self._runnable.invoke(_input_for(self._runnable, sample))

    async def _ainvoke(self, sample: Sample) -> object:
        return await self._runnable.ainvoke(_input_for(self._runnable, sample))


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
        values = {
            param.name: value
            for param in parameters
            if (value := argument(sample, param.name)) is not None or param.name in required
        }
        return function(**values)

    async def acall(sample: Sample) -> object:
        return await call(sample)  # type: ignore[misc]  # a coroutine function returns an awaitable

    return functools.update_wrapper(acall if inspect.iscoroutinefunction(function) else call, function)


def _name_of(candidate: object) -> str:
    while isinstance(candidate, functools.partial):
        candidate = candidate.func
    name = getattr(candidate, "__name__", None) or getattr(candidate, "name", None)
    return name if isinstance(name, str) and name != "<lambda>" else type(candidate).__name__.lower()
