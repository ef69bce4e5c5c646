"""Standing in for a model: `Wrapped` is one itself, and puts something between a judge and the model it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from judges.model import JudgeModel, ModelRequest, ModelResponse
from judges.models.dialects.general import JSON_OBJECT
from judges.models.dialects.protocol import Dialect
from judges.models.identity import identity_of


def dialect_of(model: JudgeModel) -> Dialect:
    """Tell how a model is asked and read."""
    dialect: Dialect = getattr(model, "dialect", JSON_OBJECT)
    return dialect


class Way(Protocol):
    """How a request reaches a model and a reply comes back."""

    def send(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        """Send a request to `model`, or answer it otherwise."""
        ...

    async def asend(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        """Send a request without blocking."""
        ...


class Straight:
    """The way that leads to the model and nowhere else."""

    def send(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        """Send a request and wait for the reply."""
        return model.send(request)

    async def asend(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        """Send a request without blocking."""
        return await model.asend(request)


@dataclass(frozen=True, eq=False)
class Wrapped:
    """A model that is reached or asked in a way of its own; whatever else is wanted is the model's.

    Args:
        model: The model.
        way: How it is reached.
        spoken: The dialect it is asked and read in; None takes the model's own.
    """

    model: JudgeModel
    way: Way = Straight()
    spoken: Dialect | None = None

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
        """How the model is asked and read."""
        return dialect_of(self.model) if self.spoken is None else self.spoken

    @property
    def scripted(self) -> bool:
        """Whether the model is a double that may answer in tests."""
        return bool(getattr(self.model, "scripted", False))

    @property
    def identity(self) -> str:
        """What tells the model from every other."""
        return identity_of(self.model)

    def send(self, request: ModelRequest) -> ModelResponse:
        """Send a request and wait for the reply."""
        return self.way.send(self.model, request)

    async def asend(self, request: ModelRequest) -> ModelResponse:
        """Send a request without blocking."""
        return await self.way.asend(self.model, request)

    def is_model(self, other: object) -> bool:
        """Tell whether `other` is the model."""
        return other is self or self.model.is_model(other)
