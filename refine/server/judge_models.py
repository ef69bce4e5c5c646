"""The model that a guard's judge asks: by name, behind a circuit breaker, and with others in reserve."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from judges.errors import CannotJudge, ConfigurationError
from judges.judge import Judge
from judges.model import JudgeModel, ModelRequest, ModelResponse
from judges.models.identity import identity_of
from judges.models.providers.langchain import NamedModel
from judges.models.wrappers.limiter import Breaker
from judges.models.wrappers.wrapped import Wrapped


@dataclass(frozen=True)
class _Breaking:
    """Lets calls through to a model, and fails them at once while it does not answer."""

    breaker: Breaker
    is_direct: ClassVar[bool] = True

    def send(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        with self._admitted():
            return model.send(request)

    async def asend(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        with self._admitted():
            return await model.asend(request)

    @contextmanager
    def _admitted(self) -> Iterator[None]:
        probe, ended = self.breaker.admit(), _CANCELLED
        try:
            yield
            ended = None
        except Exception as error:
            ended = error
            raise
        finally:
            self.breaker.settle(ended, probe=probe)


_CANCELLED: BaseException | None = KeyboardInterrupt()
"""How a call ended of which nothing else is known: for the breaker it was never made."""


@dataclass(frozen=True, eq=False)
class _WithReserves(Wrapped):
    """A model whose calls go to the next one where it cannot be asked.

    Args:
        reserves: The others, in order.
    """

    reserves: tuple[JudgeModel, ...] = ()

    @property
    def identity(self) -> str:
        """Identity of all of them, since any may have given a verdict."""
        return " or ".join(map(identity_of, (self.model, *self.reserves)))

    @property
    def scripted(self) -> bool:
        """True if all of them are doubles that may answer in tests."""
        return all(getattr(model, "scripted", False) for model in (self.model, *self.reserves))

    def send(self, request: ModelRequest) -> ModelResponse:
        """Send a request to the first model that answers."""
        for model in (self.model, *self.reserves[:-1]):
            try:
                return model.send(request)
            except Exception as error:
                if not _is_down(error):
                    raise
        return self.reserves[-1].send(request)

    async def asend(self, request: ModelRequest) -> ModelResponse:
        """Send a request to the first model that answers, without blocking."""
        for model in (self.model, *self.reserves[:-1]):
            try:
                return await model.asend(request)
            except Exception as error:
                if not _is_down(error):
                    raise
        return await self.reserves[-1].asend(request)

    def is_model(self, other: object) -> bool:
        """Check whether `other` is one of them."""
        return other is self or any(model.is_model(other) for model in (self.model, *self.reserves))


def _is_down(error: Exception) -> bool:
    """Check whether a model could not be asked: its call failed, or its circuit is open."""
    if isinstance(error, CannotJudge):
        return error.reason == "judge_failed"
    return not isinstance(error, ConfigurationError)


def guarded_model(models: Sequence[JudgeModel], make_breaker: Callable[[], Breaker | None]) -> JudgeModel:
    """Return one model for a judge: the first of these that answers.

    Args:
        models: The models, in order; at least one.
        make_breaker: Makes the circuit breaker of each, or None where there is to be none.
    """
    first, *reserves = [_behind(model, make_breaker()) for model in models]
    return _WithReserves(first, reserves=tuple(reserves)) if reserves else first


def _behind(model: JudgeModel, breaker: Breaker | None) -> JudgeModel:
    return model if breaker is None else Wrapped(model, _Breaking(breaker))


def connect_models(judge: Judge) -> None:
    """Make the clients of all models that a judge asks, which are otherwise made with the first request.

    Raises:
        ConfigurationError: If one cannot be made, for instance since its key or its package is missing.
    """
    for model in judge.models:
        for inner in _inner_models(model):
            if isinstance(inner, NamedModel):
                inner.connect()


def is_reachable(judge: Judge) -> bool:
    """Check whether the models of a judge may be asked now: the circuit of none, or of one in reserve, is open."""
    return all(map(_may_be_asked, judge.models))


def _may_be_asked(model: Any) -> bool:
    if isinstance(model, _WithReserves):
        return any(map(_may_be_asked, (model.model, *model.reserves)))
    breaking = getattr(model, "middleware", None)
    return not (isinstance(breaking, _Breaking) and breaking.breaker.is_open)


def _inner_models(model: Any) -> Iterator[Any]:
    """Yield a model and all that it holds."""
    yield model
    for inner in (getattr(model, "model", None), *getattr(model, "reserves", ())):
        if isinstance(inner, JudgeModel):
            yield from _inner_models(inner)
