"""A function as LangChain calls it with a config."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

T = TypeVar("T")


class Configured(Generic[T]):
    """A function of an input and a config, whose signature is there already.

    LangChain looks at the signature with each call, which takes longer than a small step of the loop.

    Args:
        function: The function.
    """

    __slots__ = ("_function",)
    __signature__: ClassVar[inspect.Signature] = inspect.signature(lambda input, config: (input, config))  # noqa: A006

    def __init__(self, function: Callable[..., T]) -> None:
        self._function = function

    def __call__(self, value: Any, /, **settings: Any) -> T:
        """Call the function with an input and, by name, its config."""
        return self._function(value, **settings)
