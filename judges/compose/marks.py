"""Convert what a function returned to a verdict, and decide what its 1 and 0 mean."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from judges.errors import AskFailed
from judges.verdict import HIGHEST, LOWEST, Verdict

_REASONS = ("rationale", "reason", "reasoning", "comment", "explanation")

_FORMS = (
    "return a Verdict; True or False; a rating, which is an integer from 1 to 4; a score, which is a float from "
    "0.0 to 1.0; a mapping, dataclass or pydantic object with one of rating, score and passed; or a pair of one "
    "of these and the feedback. 1 and 0 mean True and False in a function annotated `-> bool`, or documented or "
    "named as a check"
)

_YES_OR_NO = re.compile(r"\b(?:bool_?|TypeGuard|TypeIs)\b|Literal\[(?:0, ?1|1, ?0|True, ?False|False, ?True)\]")
_NUMBER = re.compile(r"\bint\b")
_CHECK_NAME = re.compile(r"_*(?:is|are|has|have|can|does|contains|includes|matches|checks?)(?:_|$)", re.IGNORECASE)
_CHECK_TEXT = re.compile(
    r"(?:checks?|tests?|verify|verifies|(?:returns? |tells? )?(?:whether|true|(?:1|one) (?:if|when|where|for)))\b",
    re.IGNORECASE,
)
_GRADING = re.compile(r"(?:\b|_)(?:rat(?:e|es|ed|ing|ings)|scor(?:e|es|ed|ing)|1 to 4|1-4)(?:\b|_)", re.IGNORECASE)


class _ContradictionError(ValueError):
    """The marks of a result exclude each other; says which."""


def is_check(function: object) -> bool:
    """Check whether a function answers yes or no, so that its 1 and 0 mean True and False.

    It does if its result is annotated as `bool` (also within a pair), or, where the annotation leaves it open, if
    its docstring begins as that of a check does ("Check ...", "Whether ...", "Return True if ...", "Return 1
    if ...") or its name does (`is_`, `has_`, `contains_`, `check_` and the like), and neither speaks of ratings
    or scores.
    """
    annotation = _result_annotation(function)
    if annotation not in {"", "object", "Any", "typing.Any"}:
        return bool(_YES_OR_NO.search(annotation)) and not _NUMBER.search(annotation)
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", "")
    described = function if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004 - read, not tested
    text = inspect.getdoc(described) or ""
    if _GRADING.search(f"{name} {text}"):
        return False
    return bool(_CHECK_NAME.match(name) or _CHECK_TEXT.match(text))


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


def verdict_of(result: object, *, judge: str, check: bool = False) -> Verdict:
    """Convert a function's result to a verdict; see `as_judge` for the accepted results.

    Args:
        result: What the function returned.
        judge: The judge's name.
        check: Whether the function answers yes or no, so that 1 and 0 mean True and False.

    Raises:
        AskFailed: With the reason `"invalid_output"` if it cannot be converted.
    """
    fault = ""
    try:
        verdict = _convert(result, check=check)
    except _ContradictionError as contradiction:
        verdict, fault = None, f", in which {contradiction}"
    except (ValueError, TypeError):
        verdict = None
    if verdict is None:
        if check and type(_plain(result)) is int:
            fault = ", although it is a check: annotate it `-> int` to return ratings"
        raise AskFailed(
            "invalid_output", f"{judge!r} returned {_describe(result)}, which is no verdict{fault}: {_FORMS}"
        )
    return verdict


def _convert(result: object, *, check: bool) -> Verdict | None:
    match _plain(result):
        case Verdict() as verdict:
            return verdict
        case bool(passed):
            return Verdict.checked(passed)
        case int(number):
            if check:
                return Verdict.checked(bool(number)) if number in {0, 1} else None
            return Verdict.rated(number)
        case float(score):
            return Verdict.scored(score)
        case (mark, str() as feedback):
            marked = _convert(mark, check=check)
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
