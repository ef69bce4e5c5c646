"""Models as judges see them: what is sent, what comes back, and the two protocols."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from pydantic import BaseModel

from judges.verdict import Usage

Speaker = Literal["system", "user", "assistant"]

repetition: ContextVar[tuple[int, ...]] = ContextVar("judges.repetition", default=())
"""Which run of a repeated judge this is, so that a cache does not give one reply for all runs."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What is sent.

    Args:
        messages: Messages as (role, text).
        schema: Pydantic class that the reply must fit.
        nonce: The random number in the marks around the data; the one thing that differs between two requests
            that ask the same.
        text: Whether the reply is wanted as text in a format of the model's own, so that no tool is offered and
            no JSON is asked for.
    """

    messages: tuple[tuple[Speaker, str], ...]
    schema: type[BaseModel]
    nonce: str = ""
    text: bool = False


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """What came back, not yet believed.

    Args:
        text: The text of the reply.
        calls: Tool calls as (name, arguments); arguments as raw JSON text where the provider hands it on.
        broken_calls: How many tool calls could not even be parsed.
        finish_reason: The provider's word for why the reply ended; empty where it gave none.
        refusal: The provider's refusal message, where it has one.
        usage: What the call consumed.
        model: Model id as the provider reported it.
    """

    text: str = ""
    calls: tuple[tuple[str, str | dict[str, Any]], ...] = ()
    broken_calls: int = 0
    finish_reason: str = ""
    refusal: str = ""
    usage: Usage = Usage(calls=1)
    model: str | None = None


@runtime_checkable
class JudgeModel(Protocol):
    """A model as judges see it.

    One that was trained to judge in a format of its own has an attribute `dialect` besides, a
    `judges.models.dialects.protocol.Dialect`.

    Attributes:
        name: For messages and traces.
        retries: How often the driver may repeat a call whose transport failed; 0 where the model's own client
            already repeats, so that retries have one owner and never multiply.
    """

    @property
    def name(self) -> str:
        """Name for messages and traces."""
        ...

    @property
    def retries(self) -> int:
        """Retries the driver may make."""
        ...

    def send(self, request: ModelRequest) -> ModelResponse:
        """Send a request and wait for the reply; raises whatever the provider raises."""
        ...

    async def asend(self, request: ModelRequest) -> ModelResponse:
        """Send a request without blocking."""
        ...

    def is_model(self, other: object) -> bool:
        """Tell whether `other`, some generator, is this very model."""
        ...


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors in the order of their texts, all of one length, and what they cost.

    Args:
        vectors: One vector for each text.
        usage: What the requests consumed; calls are requests, one for each batch.
        model: Model id as the provider reported it.
    """

    vectors: list[list[float]]
    usage: Usage = Usage()
    model: str | None = None


@runtime_checkable
class EmbeddingModel(Protocol):
    """A model that turns texts into vectors."""

    @property
    def name(self) -> str:
        """Name for messages and traces."""
        ...

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Embed texts, in their order; raises whatever the provider raises."""
        ...

    async def aembed(self, texts: Sequence[str]) -> Embedded:
        """Embed texts without blocking."""
        ...
