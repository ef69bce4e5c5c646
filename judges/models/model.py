"""The one interface through which a judge's questions reach a model."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel

from judges.errors import ConfigurationError
from judges.verdict import Usage

if TYPE_CHECKING:
    from judges.requests import Ask

T = TypeVar("T", bound=BaseModel)

Speaker = Literal["system", "user", "assistant"]

repetition: ContextVar[tuple[int, ...]] = ContextVar("judges.repetition", default=())
"""Which run of a repeated judge this is, so that a cache does not give one reply for all runs."""


@dataclass(frozen=True, slots=True)
class Letter:
    """What is sent.

    Args:
        messages: Messages as (role, text).
        schema: Pydantic class that the reply must fit.
        nonce: The random number in the marks around the data; the one thing that differs between two letters
            that ask the same.
        text: Whether the reply is wanted as text in a format of the model's own, so that no tool is offered and
            no JSON is asked for.
    """

    messages: tuple[tuple[Speaker, str], ...]
    schema: type[BaseModel]
    nonce: str = ""
    text: bool = False


@dataclass(frozen=True, slots=True)
class RawReply:
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


class Dialect(Protocol):
    """How a model is asked and how its reply is read, where it was trained to judge in a format of its own."""

    def compose(self, ask: Ask, nonce: str) -> Letter:
        """Write the letter of a question, with `nonce` in the marks around the data."""
        ...

    def read(self, reply: RawReply, schema: type[T]) -> T:
        """Read a reply as `schema`; raises `judges.models.reading.Unreadable` if it does not fit."""
        ...


@runtime_checkable
class JudgeModel(Protocol):
    """A model as judges see it.

    One that was trained to judge in a format of its own has an attribute `dialect` besides, a `Dialect`.

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

    def send(self, letter: Letter) -> RawReply:
        """Send a letter and wait for the reply; raises whatever the provider raises."""
        ...

    async def asend(self, letter: Letter) -> RawReply:
        """Send a letter without blocking."""
        ...

    def is_model(self, other: object) -> bool:
        """Tell whether `other`, some generator, is this very model."""
        ...


def as_model(given: object, *, temperature: float | None = 0.0) -> JudgeModel:
    """Accept a LangChain chat model, a `"provider:model"` string, or anything that is a `JudgeModel` already.

    Args:
        given: The model.
        temperature: Sampling temperature asked of a LangChain model that has none of its own; None leaves it
            to the provider.

    Raises:
        ConfigurationError: If nothing was given, or something that is no model.
    """
    from judges.models.langchain import LangChainModel, NamedModel, looks_like_chat_model  # noqa: PLC0415 - cycle

    if isinstance(given, str) and ":" in given.strip(":"):
        return NamedModel(given, temperature=temperature)
    if looks_like_chat_model(given):
        return LangChainModel(given, temperature=temperature)
    if isinstance(given, JudgeModel):
        return given
    raise ConfigurationError(
        f"a judge needs a model to ask, not {given!r}; give a LangChain chat model or a string such as "
        f"'openai:gpt-5-mini'"
    )
