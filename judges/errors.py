"""What can go wrong while judging.

JudgesError
├── ConfigurationError    a judge, model or dataset is set up wrongly: raised, never turned into a verdict
│   └── ModelRequestError a provider was about to be called where `no_model_requests` forbids it
├── BadSample             a row or argument cannot be read as a sample
└── CannotJudge           no verdict is possible: becomes an unscored verdict
    └── AskFailed         a model gave no usable reply
"""

from __future__ import annotations

import reprlib
from typing import Any, ClassVar, TypeVar

from pydantic import ValidationError

from judges.verdict import Unscored, Usage

Error = TypeVar("Error", bound=BaseException)


def rebuild(kind: type[Error], arguments: tuple[object, ...]) -> Error:
    """Return an error of a kind without its `__init__`, whose parameters are not what `args` holds."""
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    return error


class JudgesError(Exception):
    """Base of every error of this package.

    Attributes:
        exit_code: What a command ends with that it stops.
    """

    exit_code: ClassVar[int] = 2

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what a copy or a pickle is made of: type, message and attributes."""
        return rebuild, (type(self), self.args), vars(self)


class ConfigurationError(JudgesError, ValueError):
    """Something is set up wrongly; the message names the value and the remedy."""


class ModelRequestError(ConfigurationError):
    """A model was about to be called although `no_model_requests` is in force."""


class BadSample(JudgesError, ValueError):  # noqa: N818 - names the bad input
    """A row or argument cannot be read as a `Sample`; the message names the field."""


class CannotJudge(JudgesError):  # noqa: N818 - names what happened
    """No verdict is possible; raised inside a deliberation, it becomes an unscored verdict.

    Args:
        reason: Reason code of the verdict, for instance `"no_contexts"`.
        detail: One line for a person; never contains the judged text.
    """

    def __init__(self, reason: Unscored, detail: str) -> None:
        super().__init__(detail)
        self.reason: Unscored = reason
        self.detail = detail


class AskFailed(CannotJudge):
    """A request to a model got no usable reply.

    Args:
        reason: Reason code of the verdict, for instance `"judge_failed"` or `"invalid_output"`.
        detail: One line for a person; never contains the judged text.
        usage: What was spent before giving up.
        raw: The reply that could not be used, where there was one.
    """

    def __init__(self, reason: Unscored, detail: str, *, usage: Usage | None = None, raw: str = "") -> None:
        super().__init__(reason, detail)
        self.usage = usage or Usage()
        self.raw = raw


_LONGEST = 80
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 4 * _LONGEST  # what is cut there is cut again, at the end


def plural(number: int, noun: str) -> str:
    """Return a count with its noun, which is plural unless the number is 1."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def shortened(value: object, *, longest: int = _LONGEST) -> str:
    """Return the repr of a value as one line for an error message, cut where it is long.

    Args:
        value: Anything that a user gave.
        longest: Most characters of the line.
    """
    try:
        line = " ".join(_REPR.repr(value).split("\n"))
    except Exception:  # noqa: BLE001 - a value that has no repr must not hide the error that names it
        line = f"a {type(value).__name__}"
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def first_fault(error: ValidationError) -> tuple[str, str]:
    """Return where the first fault stands that pydantic found, with dots, and what it says."""
    fault = error.errors(include_url=False)[0]
    return ".".join(map(str, fault["loc"])), fault["msg"].removeprefix("Value error, ")


def unfit(expected: str, value: object) -> ConfigurationError:
    """Return the error for a setting that is none of what is expected: `expected, not value`."""
    return ConfigurationError(f"{expected}, not {shortened(value)}")


def one_line(error: object, *, longest: int = 200) -> str:
    """Return what an error says as one line, cut where it is long."""
    line = " ".join(str(error).split())
    return line if len(line) <= longest else f"{line[: longest - 3]}..."
