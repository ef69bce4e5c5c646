"""`Wrapped`, a model that puts a middleware between a judge and the model it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from judges.media import MediaKind
from judges.model import JudgeModel, ModelRequest, ModelResponse
from judges.models.dialects.general import dialect_of, takes_media
from judges.models.dialects.protocol import Dialect
from judges.models.identity import identity_of, unread_settings


class Middleware(Protocol):
    """Step between a judge and a model, which every request and response passes."""

    def send(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        """Send a request to `model`, or answer it otherwise."""
        ...

    async def asend(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        """Send a request without blocking."""
        ...


class PassThrough:
    """Middleware that sends every request to the model unchanged."""

    def send(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        """Send a request and wait for the reply."""
        return model.send(request)

    async def asend(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        """Send a request without blocking."""
        return await model.asend(request)


@dataclass(frozen=True, eq=False)
class Wrapped:
    """A model behind a middleware, or asked in a dialect of its own; all other attributes are the model's.

    Args:
        model: The model.
        middleware: Step that every request and response passes.
        own_dialect: Format of its requests and replies; None takes the model's.
    """

    model: JudgeModel
    middleware: Middleware = PassThrough()
    own_dialect: Dialect | None = None

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.model.name

    @property
    def retries(self) -> int:
        """Retries the driver may make."""
        return self.model.retries

    @property
    def dialect(self) -> Dialect:
        """Format of the model's requests and replies."""
        return dialect_of(self.model) if self.own_dialect is None else self.own_dialect

    @property
    def scripted(self) -> bool:
        """Whether the model is a double that may answer in tests."""
        return bool(getattr(self.model, "scripted", False))

    @property
    def identity(self) -> str:
        """Identity of the model; see `identity_of`."""
        return identity_of(self.model)

    @property
    def unread_settings(self) -> tuple[str, ...]:
        """Settings of the model that its identity does not cover; see `unread_settings`."""
        return unread_settings(self.model)

    def send(self, request: ModelRequest) -> ModelResponse:
        """Send a request and wait for the reply."""
        return self.middleware.send(self.model, request)

    async def asend(self, request: ModelRequest) -> ModelResponse:
        """Send a request without blocking."""
        return await self.middleware.asend(self.model, request)

    def takes(self, kind: MediaKind) -> bool:
        """Whether the model may be sent images, or audio."""
        return takes_media(self.model, kind)

    def is_model(self, other: object) -> bool:
        """Check whether `other` is the model."""
        return other is self or self.model.is_model(other)
