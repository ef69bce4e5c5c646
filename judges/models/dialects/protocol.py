"""The dialect protocol: the format of a model's requests and replies."""

from __future__ import annotations

from typing import Protocol, TypeVar

from pydantic import BaseModel

from judges.model import ModelRequest, ModelResponse
from judges.requests import Ask

T = TypeVar("T", bound=BaseModel)


class Dialect(Protocol):
    """Request and reply format of a model that was trained to judge in a format of its own."""

    def compose(self, ask: Ask, nonce: str) -> ModelRequest:
        """Build the request for a question, with `nonce` in the marks around the data."""
        ...

    def read(self, response: ModelResponse, schema: type[T]) -> T:
        """Parse a reply as `schema`; raises `judges.models.parse.Unreadable` if it does not fit."""
        ...
