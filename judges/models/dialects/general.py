"""`JSON_OBJECT`, the dialect of every general model."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel

from judges.model import Letter, RawReply
from judges.models.parse import read
from judges.models.render import compose
from judges.requests import Ask

T = TypeVar("T", bound=BaseModel)


class JsonObject:
    """Asks for exactly one JSON object that fits the schema, and takes nothing else."""

    def compose(self, ask: Ask, nonce: str) -> Letter:
        """Write instructions, worked cases and the fenced data."""
        return compose(ask, nonce)

    def read(self, reply: RawReply, schema: type[T]) -> T:
        """Read the object strictly."""
        return read(reply, schema)


JSON_OBJECT = JsonObject()
