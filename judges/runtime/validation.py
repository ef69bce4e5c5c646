"""Checks of settings: a wrong value is reported at once, in one line, with the valid ones."""

from __future__ import annotations

import inspect
import math
import pickle
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from functools import wraps
from inspect import iscoroutinefunction, signature
from textwrap import shorten
from typing import Any, Self, TypeVar, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretBytes, SecretStr

from judges.errors import ConfigurationError, ModelRequestError, shortened, unfit
from judges.first_guesses import guesses as guesses_at

_C = TypeVar("_C")
_F = TypeVar("_F", bound=Callable[..., Any])

_MOST_NAMES = 24
_LONGEST_NAME = 80


def suggestion(name: object, names: Collection[str]) -> str:
    """Return a hint for a name that is unknown: the most similar one, or else the names there are."""
    near = get_close_matches(str(name)[:_LONGEST_NAME], names, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    sorted_names = sorted(names)
    more = f" and {len(sorted_names) - _MOST_NAMES} more" if len(sorted_names) > _MOST_NAMES else ""
    return f"known are {', '.join(sorted_names[:_MOST_NAMES])}{more}"


def naming_settings(example: str, /, **guesses: str) -> Callable[[_F], _F]:
    """Return a decorator by which a call that does not fit says what to write.

    Args:
        example: How the function is called.
        guesses: What settings are called here, by the names that one may guess.
    """

    def decorate(function: _F) -> _F:
        parameters = signature(function).parameters
        names = [name for name, one in parameters.items() if name != "self" and one.kind is not one.VAR_KEYWORD]
        takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
        called = function.__qualname__.removesuffix(".__init__")

        def check(settings: Mapping[str, Any]) -> None:
            unknown = next((name for name in settings if name not in names), None)
            if unknown is not None and (unknown in guesses or not takes_any):
                elsewhere = guesses_at("arguments").get(unknown) or suggestion(unknown, names)
                hint = f"here it is {guesses[unknown]}=..." if unknown in guesses else elsewhere
                raise TypeError(f"{called}() has no argument {unknown!r}; {hint}")

        def explain(error: TypeError) -> None:
            """Raise a better error for a call that Python did not even begin."""
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                raise TypeError(f"{str(error).replace('.__init__()', '()')}; write {example}") from None

        @wraps(function)
        def call(*arguments: Any, **settings: Any) -> Any:
            check(settings)
            try:
                return function(*arguments, **settings)
            except TypeError as error:
                explain(error)
                raise

        @wraps(function)
        async def acall(*arguments: Any, **settings: Any) -> Any:
            check(settings)
            try:
                return await function(*arguments, **settings)
            except TypeError as error:
                explain(error)
                raise

        return acall if iscoroutinefunction(function) else call  # type: ignore[return-value]  # as it wraps

    return decorate


def one_of(words: Any, value: _C, *, setting: str) -> _C:
    """Return the value of a setting after checking that it is one of the words of a `Literal`.

    Raises:
        ConfigurationError: If it is none of them.
    """
    choices = [repr(word) for word in get_args(words)]
    if shortened(value) not in choices:
        raise unfit(f"{setting} is {', '.join(choices[:-1])} or {choices[-1]}", value)
    return value


def whole_number(value: int, *, setting: str, least: int = 1) -> int:
    """Return the value of a setting after checking that it is an integer of at least `least`.

    Raises:
        ConfigurationError: If it is not.
    """
    if type(value) is not int or value < least:
        raise unfit(f"{setting} is a whole number from {least}", value)
    return value


def finite_number(value: object, *, setting: str) -> float:
    """Return the value of a setting after checking that it is a number, and neither infinite nor NaN.

    Raises:
        ConfigurationError: If it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < math.inf:
        raise unfit(f"{setting} is a finite number", value)
    return value


def are_texts(value: object, *, count: int) -> bool:
    """Return whether a value is a list or a tuple of exactly so many texts."""
    return isinstance(value, list | tuple) and [type(part) for part in value] == [str] * count


def judge_name(name: object) -> str:
    """Return the name of a judge after checking that it is a text, and not blank.

    Raises:
        ConfigurationError: If it is not.
    """
    if not isinstance(name, str) or not name.strip():
        raise unfit("a judge's name is a text such as 'tone'", name)
    return name


_DEEPEST = 6
_LONGEST_REASON = 120


class SharedByCopies:
    """Base of what holds connections or locks: a copy of it, deep or not, is the object itself."""

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def check_picklable(part: object, owner: str, remedy: str) -> None:
    """Check that what an object holds can be pickled, and takes no key along.

    Args:
        part: What it holds: a model, a function, a runnable.
        owner: The object, for the message.
        remedy: What to do if not, for the message.

    Raises:
        ConfigurationError: If it holds a key, or cannot be pickled.
    """
    secret = _secret_in(part, _DEEPEST)
    if secret is not None:
        raise ConfigurationError(f"{owner} holds a key, {secret}, so it is not pickled; {remedy}")
    try:
        pickle.dumps(part)
    except ConfigurationError:
        raise
    except Exception as error:
        reason = shorten(str(error) or type(error).__name__, _LONGEST_REASON, placeholder=" ...")
        raise ConfigurationError(f"{owner} cannot be pickled: {reason}; {remedy}") from error


def _secret_in(value: object, depth: int) -> str | None:
    """Return the name of a field that holds a secret, of an object or of its parts; None if there is none."""
    if depth == 0:
        return None
    for name, part in _parts(value):
        is_secret = isinstance(part, SecretStr | SecretBytes) and bool(part.get_secret_value())
        secret = name if is_secret else _secret_in(part, depth - 1)
        if secret is not None:
            return secret
    return None


def _parts(value: object) -> Iterable[tuple[str, object]]:
    if isinstance(value, BaseModel):
        declared = getattr(value, "lc_secrets", None)  # LangChain's: fields that hold a key, also as plain text
        secrets = declared if isinstance(declared, Mapping) else {}
        for name, part in value:
            yield name, SecretStr(part) if name in secrets and isinstance(part, str) else part
    elif isinstance(value, Mapping):
        yield from ((str(name), part) for name, part in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from (("", part) for part in value)


_ADDRESSES = ("base_url", "openai_api_base", "anthropic_api_url")
_FAKES = "langchain_core.language_models.fake_chat_models"
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


class _RequestBan:
    """How many `no_model_requests` blocks are open, in the whole process.

    A context variable would not work: threads and event loops that were started earlier do not inherit it.
    """

    def __init__(self) -> None:
        self.depth = 0
        self._lock = threading.Lock()

    def change(self, by: int) -> None:
        """Open so many blocks more."""
        with self._lock:
            self.depth += by


ban = _RequestBan()
"""The one ban of this process; where its depth is 0, any request is allowed."""


@contextmanager
def no_model_requests() -> Iterator[None]:
    """Forbid requests to real models anywhere in the process while the block runs, in judges and in the loop.

    Scripted models (`judges.testing.ScriptedModel`, or any with a true attribute `scripted`), LangChain's own
    fakes, and models served from this machine's loopback address are still allowed. Meant for test suites, so
    that no test calls a provider by accident.
    """
    ban.change(+1)
    try:
        yield
    finally:
        ban.change(-1)


def check_allowed(name: str, model: object) -> None:
    """Raise an error for a request to `model`, called `name`, where requests are forbidden.

    Raises:
        ModelRequestError: If the guard is active and the model is neither scripted nor on this machine.
    """
    if ban.depth and not (getattr(model, "scripted", False) or _is_fake(model) or _is_local(model)):
        raise ModelRequestError(
            f"a request to {name} was about to be made inside no_model_requests(); "
            f"use judges.testing.ScriptedModel in tests"
        )


def _is_fake(model: object) -> bool:
    return any(kind.__module__ == _FAKES for kind in type(getattr(model, "bound", model)).__mro__)


def _is_local(model: object) -> bool:
    return any(_host(str(getattr(model, name, None) or "")) in _LOOPBACK for name in _ADDRESSES)


def _host(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


_OURS = ("judges.", "graphs.", "refine.")


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn of the line that called into this library, whatever functions of its own lie in between."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and f"{frame.f_globals.get('__name__')}.".startswith(_OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
