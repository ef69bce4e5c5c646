"""The one interface through which a judge's questions reach a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from pydantic import BaseModel

from judges.errors import ConfigurationError
from judges.verdict import Usage

Speaker = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Letter:
    """What is sent: messages as (role, text), and the pydantic class that the reply must fit."""

    messages: tuple[tuple[Speaker, str], ...]
    schema: type[BaseModel]


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


@runtime_checkable
class JudgeModel(Protocol):
    """A model as judges see it.

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
