"""Models that hold another: `Wrapped`, the base of the wrappers, and `speaking`, which changes the dialect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from judges.errors import ConfigurationError, shortened
from judges.messages import MediaKind
from judges.model import JudgeModel, ModelRequest, ModelResponse
from judges.models.dialects.graded import MiniCheck, graded
from judges.models.identity import identity_of, unread_settings
from judges.models.prompt_and_reply import Dialect, dialect_of, takes_media
from judges.models.resolve import as_model


class _Middleware(Protocol):
    """Step between a judge and a model, which every request and response passes."""

    def send(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        """Send a request to `model`, or answer it otherwise."""
        ...

    async def asend(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        """Send a request without blocking."""
        ...


class _PassThrough:
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
    middleware: _Middleware = _PassThrough()
    own_dialect: Dialect | None = None

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.model.name

    @property
    def is_direct(self) -> bool:
        """True if calls run code of this package alone."""
        return getattr(self.middleware, "is_direct", False) and getattr(self.model, "is_direct", False)

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
        """True if the model is a double that may answer in tests."""
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
        """Return whether the model may be sent images, or audio."""
        return takes_media(self.model, kind)

    def is_model(self, other: object) -> bool:
        """Check whether `other` is the model."""
        return other is self or self.model.is_model(other)


DialectName = Literal["flow_judge", "glider", "minicheck", "prometheus"]


def _own_dialect(name: str) -> Dialect | None:
    """Return the dialect of this name, if there is one."""
    if name not in get_args(DialectName):
        return None
    return MiniCheck() if name == "minicheck" else graded(name)


def speaking(model: object, dialect: DialectName | Dialect, *, temperature: float | None = 0.0) -> JudgeModel:
    """Return a model that is asked in the format of its own that it was trained to judge in.

    The result goes wherever a judge takes a model, for instance
    `Helpfulness(speaking("ollama:bespoke-minicheck", "minicheck"))`.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        dialect: `"flow_judge"` (Flow-Judge), `"glider"` (GLIDER), `"minicheck"` (Bespoke-MiniCheck: does the
            evidence support the answer, whatever the judge's own criterion), `"prometheus"` (Prometheus 2), or a
            `Dialect` of your own. Scores are mapped onto the judge's levels by their place on the scale: 1 to 5
            becomes 1, 2, 3, 3, 4 of four levels; yes and no become the highest and the lowest.
        temperature: Sampling temperature for models that set none; None keeps the provider's default. The judge's
            own `temperature` does not reach a model that is wrapped like this.

    Raises:
        ConfigurationError: If there is no such dialect, or `model` is not a model.
    """
    own_dialect = _own_dialect(dialect) if isinstance(dialect, str) else dialect
    if not (hasattr(own_dialect, "compose") and hasattr(own_dialect, "read")):
        names = ", ".join(get_args(DialectName))
        raise ConfigurationError(f"a dialect is one of {names}, or has compose and read; not {shortened(dialect)}")
    assert own_dialect is not None  # noqa: S101 - it has compose and read
    return Wrapped(as_model(model, temperature=temperature), own_dialect=own_dialect)
