"""`setting`: a context variable that has a value for the time of a block."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Generic, TypeVar

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
