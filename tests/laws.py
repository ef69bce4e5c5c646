"""Laws: a test that goes over many cases as one, and names every case that breaks it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

Test = Callable[..., Any]
LONGEST = 300
"""How much is shown of a case, and of what became of it, in characters."""

BREACHES = (Exception, pytest.fail.Exception)
"""What a case may end with to break a law; `pytest.raises` fails with the second, which is no `Exception`."""


def for_every(names: str, cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test once for every case, all of them as one test, which fails at the end with all that broke it.

    What else the test takes, as fixtures or by `parametrize`, is the same for all cases.

    Args:
        names: The arguments that make up a case, as `pytest.mark.parametrize` takes them.
        cases: A value each, or a tuple of values where there are several names.
    """
    arguments = [name.strip() for name in names.split(",")]
    every = [dict(zip(arguments, case if len(arguments) > 1 else (case,), strict=True)) for case in cases]
    assert every, "a law over nothing holds always"

    def decorate(test: Test) -> Test:
        if inspect.iscoroutinefunction(test):

            async def acheck(**same: Any) -> None:
                broken = Broken()
                for case in every:
                    try:
                        await test(**same, **case)
                    except BREACHES as error:
                        broken.note(case, error)
                broken.tell(len(every))

            return _wrapped(acheck, test, arguments)

        def check(**same: Any) -> None:
            broken = Broken()
            for case in every:
                try:
                    test(**same, **case)
                except BREACHES as error:
                    broken.note(case, error)
            broken.tell(len(every))

        return _wrapped(check, test, arguments)

    return decorate


def _wrapped(check: Test, test: Test, arguments: list[str]) -> Test:
    """Give a check the name of its test, and of its arguments those that pytest has to give."""
    signature = inspect.signature(test)
    left = [one for name, one in signature.parameters.items() if name not in arguments]
    assert len(left) == len(signature.parameters) - len(arguments), f"a case has other names: {arguments}"
    functools.update_wrapper(check, test)
    check.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]  # functions may have one
    return check


class Broken:
    """What broke a law, and how."""

    def __init__(self) -> None:
        self._told: list[str] = []
        self._first: BaseException | None = None

    def note(self, case: Mapping[str, Any], error: BaseException) -> None:
        """Note a case and what became of it."""
        values = ", ".join(f"{name}={_short(ascii(value))}" for name, value in case.items())
        self._told.append(f"{values}: {type(error).__name__}: {_short(str(error))}")
        self._first = self._first or error

    def tell(self, count: int) -> None:
        """Fail if anything was noted."""
        if self._told:
            lines = "\n".join(self._told)
            raise AssertionError(f"{len(self._told)} of {count} cases break the law:\n{lines}") from self._first


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}..."
