"""Models as judges see them: requests, responses, and the two protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel

from judges.messages import Content, Media
from judges.verdict import Usage

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

PromptRole = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request to a model.

    Args:
        messages: Messages as (role, text).
        schema: Pydantic class that the reply must fit.
        nonce: The random number in the marks around the data; all that differs between two requests that ask
            the same.
        text: Whether the reply is text in the model's own format, so that no tool is offered and no JSON is
            requested.
        beginning: How many messages, from the first on, are the same in every request that asks this about other
            data, so that they need to be encoded once.
        attached: Images and audio, and texts between them, that follow the text of the message behind the
            beginning.
        sizes: How many items the lists of the reply have, as (field, number), where that is known.
        most_items: Most items that any other list of the reply can have, by how much is judged; None where that
            is unknown.
        is_rated: Whether it is asked how likely each rating of the reply was.
        digits: The digits one of which is the whole reply, so that one token suffices; none for any other reply.
    """

    messages: tuple[tuple[PromptRole, str], ...]
    schema: type[BaseModel]
    nonce: str = ""
    text: bool = False
    beginning: int = 0
    attached: tuple[str | Media, ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()
    most_items: int | None = None
    is_rated: bool = False
    digits: tuple[str, ...] = ()

    def contents(self, first: int = 0) -> Iterator[tuple[PromptRole, Content]]:
        """Yield role and content of each message from one on: a text, or the parts of one with attachments."""
        for index, (role, text) in enumerate(self.messages[first:], first):
            yield role, (text, *self.attached) if self.attached and index == self.beginning else text


@dataclass(frozen=True, slots=True)
class Distribution:
    """How likely each rating of a reply was.

    Args:
        probabilities: Of each choice of the reply, in the order of `judges.models.likelihood.Levels`; they add up
            to 1. None where they are unknown.
        reason: Why they are unknown.
        share: Share of the probability that the choices had together, before it was distributed among them.
    """

    probabilities: tuple[float, ...] = ()
    reason: str = ""
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """A model's response, not yet validated.

    Args:
        text: The text of the reply.
        calls: Tool calls as (name, arguments); arguments as raw JSON text if the provider returns it so, None if
            that text was lost on the way.
        broken_calls: How many tool calls could not be parsed.
        finish_reason: The provider's code for why the reply ended; empty if there is none.
        refusal: The provider's refusal message, if there is one.
        usage: What the call consumed.
        model: Model id as the provider reported it.
        ratings: How likely each rating was, where the request asked for it and the model's client knows.
        has_reasoned: Whether the model is known to have reasoned before it replied.
    """

    text: str = ""
    calls: tuple[tuple[str, str | dict[str, Any] | None], ...] = ()
    broken_calls: int = 0
    finish_reason: str = ""
    refusal: str = ""
    usage: Usage = Usage(calls=1, tokens_known=False)
    model: str | None = None
    ratings: Distribution | None = None
    has_reasoned: bool = False


@runtime_checkable
class JudgeModel(Protocol):
    """A model as judges see it.

    A model that was trained to judge in a format of its own also has an attribute `dialect`, a
    `judges.models.prompt_and_reply.Dialect`.

    Attributes:
        name: For messages and traces.
        retries: How often the driver may repeat a call whose transport failed; 0 if the model's own client
            already retries, so that retries never multiply.
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
        """Check whether `other`, a generator's model, is this same model."""
        ...


@dataclass(frozen=True, slots=True)
class EmbeddingResponse:
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

    def embed(self, texts: Sequence[str]) -> EmbeddingResponse:
        """Return the vectors of texts, in order; raises whatever the provider raises."""
        ...

    async def aembed(self, texts: Sequence[str]) -> EmbeddingResponse:
        """Return the vectors of texts without blocking."""
        ...


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmRun(Generic[T]):
    """What handlers are told of one call.

    Args:
        model: Name of the model.
        messages: Makes the messages that are sent.
        answer: Makes the message that came back.
        fields: The request's other fields.
        tags: Tags of the run.
    """

    model: str
    messages: Callable[[], Sequence[BaseMessage]]
    answer: Callable[[T], AIMessage]
    fields: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
