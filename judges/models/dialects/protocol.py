"""What a dialect is: how a model is asked, and how its reply is read."""

from __future__ import annotations

from typing import Protocol, TypeVar

from pydantic import BaseModel

from judges.model import ModelRequest, ModelResponse
from judges.requests import Ask

T = TypeVar("T", bound=BaseModel)


class Dialect(Protocol):
    """How a model is asked and how its reply is read, where it was trained to judge in a format of its own."""

    def compose(self, ask: Ask, nonce: str) -> ModelRequest:
        """Write the request of a question, with `nonce` in the marks around the data."""
        ...

    def read(self, reply: ModelResponse, schema: type[T]) -> T:
        """Read a reply as `schema`; raises `judges.models.parse.Unreadable` if it does not fit."""
        ...
