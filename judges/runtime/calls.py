"""Who watches the calls of models made in a block: a run that journals, counts and limits them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from judges.model import EmbeddingModel, EmbeddingResponse, JudgeModel, ModelRequest, ModelResponse


class CallWatcher(Protocol):
    """Stands between a judge and its model: it sends a request, answers it otherwise, or ends the run."""

    def send(self, model: JudgeModel, request: ModelRequest, *, shared: bool) -> ModelResponse:
        """Send a request that judges of one sample share if `shared`."""
        ...

    async def asend(self, model: JudgeModel, request: ModelRequest, *, shared: bool) -> ModelResponse:
        """Send a request without blocking."""
        ...

    def embed(self, model: EmbeddingModel, texts: Sequence[str]) -> EmbeddingResponse:
        """Turn texts into vectors."""
        ...

    async def aembed(self, model: EmbeddingModel, texts: Sequence[str]) -> EmbeddingResponse:
        """Turn texts into vectors without blocking."""
        ...


watcher: ContextVar[CallWatcher | None] = ContextVar("judges.call_watcher", default=None)


def sender(model: JudgeModel, *, shared: bool) -> Callable[[ModelRequest], ModelResponse]:
    """Return what sends the requests of a question: its model, or whoever watches calls here."""
    watching = watcher.get()
    return model.send if watching is None else partial(watching.send, model, shared=shared)


def asender(model: JudgeModel, *, shared: bool) -> Callable[[ModelRequest], Awaitable[ModelResponse]]:
    """Return what sends the requests of a question without blocking."""
    watching = watcher.get()
    return model.asend if watching is None else partial(watching.asend, model, shared=shared)


def embedder(model: EmbeddingModel) -> Callable[[Sequence[str]], EmbeddingResponse]:
    """Return what embeds the texts of a judge: its model, or whoever watches calls here."""
    watching = watcher.get()
    return model.embed if watching is None else partial(watching.embed, model)


def aembedder(model: EmbeddingModel) -> Callable[[Sequence[str]], Awaitable[EmbeddingResponse]]:
    """Return what embeds the texts of a judge without blocking."""
    watching = watcher.get()
    return model.aembed if watching is None else partial(watching.aembed, model)
