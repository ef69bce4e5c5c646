"""The guards of a server: what each is, which of them answers a request, and the models that its judge asks."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, ClassVar
from urllib.parse import urlsplit

from graphs import Bounds, GeneratorIdentity, Loop
from judges.errors import CannotJudge, ConfigurationError
from judges.fingerprint import fingerprint
from judges.judge import Judge
from judges.model import JudgeModel, ModelRequest, ModelResponse
from judges.models.identity import identity_of
from judges.models.providers.langchain import NamedModel
from judges.models.wrappers.breaker import Breaker
from judges.models.wrappers.wrapped import Wrapped
from refine.server.access import GUARD_HEADER
from refine.server.config import Revealed, Unjudged
from refine.server.errors import ApiError
from refine.server.upstream import Upstream

_PROVIDERS = {
    "api.openai.com": "openai",
    "openai.azure.com": "azure.ai.openai",
    "api.anthropic.com": "anthropic",
    "api.mistral.ai": "mistral_ai",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.x.ai": "x_ai",
    "generativelanguage.googleapis.com": "gcp.gemini",
}
"""Names that OpenTelemetry gives providers, by the end of their address."""


@dataclass(frozen=True, kw_only=True)
class ServedGuard:
    """One guard.

    Args:
        name: Its name.
        judge: What judges.
        loop: The loop around that judge, under the guard's policy; each request brings its own generator.
        upstream: The model that is guarded; None judges only.
        api: Whose API the upstream has: `openai` or `anthropic`; empty where it is not known.
        models: Patterns of the names of models that it serves, for instance `gpt-*`.
        attempt_models: Another model's name from an attempt number on.
        bounds: How far a request may go with settings of its own.
        reveal: What a client sees of a verdict beside its marks.
        unjudged: What becomes of an answer that cannot be judged.
        is_strict: Whether reasoning, and words of sources and tools, do not go out beside an answer either.
        max_choices: Most answers to one request.
        max_answer_tokens: Most tokens of an answer that a request may ask for.
        counts_all: Whether a reply's own `usage` is that of all attempts and judges.
        doubts: What the guard's certificate, if it has one, depends on and cannot be compared, a line each.
    """

    name: str
    judge: Judge
    loop: Loop
    upstream: Upstream | None
    api: str
    models: tuple[str, ...]
    attempt_models: Mapping[int, str]
    bounds: Bounds
    reveal: frozenset[Revealed]
    unjudged: Unjudged
    is_strict: bool
    max_choices: int
    max_answer_tokens: int | None
    counts_all: bool
    doubts: tuple[str, ...] = ()

    def fitness(self, api: str) -> int:
        """Return how well its upstream fits a request of an API, from 3 where it has that API to 0 for none."""
        if self.upstream is None:
            return 0
        return 2 if not self.api else 3 if self.api == api else 1

    def serves(self, model: str) -> bool:
        """Check whether it is for a model, in whatever case its name is written."""
        return any(fnmatchcase(model.casefold(), pattern.casefold()) for pattern in self.models)

    @property
    def has_judge(self) -> bool:
        """True if the models that judge its questions and answers may be asked now."""
        questions = self.loop.input_judge
        return _is_reachable(self.judge) and (questions is None or _is_reachable(questions))

    @cached_property
    def asks(self) -> tuple[str, ...]:
        """The models that it asks, by name: the upstream, by its address, and those that judge."""
        judges = (self.judge, self.loop.input_judge)
        models = (model.name for judge in judges if judge is not None for model in judge.models)
        return (*models, *(() if self.upstream is None else (self.upstream.origin,)))

    @cached_property
    def provider(self) -> str:
        """Whose model is guarded, as OpenTelemetry names providers; else the form of the API that it speaks."""
        host = "" if self.upstream is None else urlsplit(self.upstream.origin).hostname or ""
        known = (name for end, name in _PROVIDERS.items() if host == end or host.endswith(f".{end}"))
        return next(known, self.api or ("" if self.upstream is None else "openai"))

    @property
    def generator(self) -> GeneratorIdentity:
        """What can be said, for certificates, of what is guarded; which model answers is up to each request."""
        if self.upstream is None:
            return GeneratorIdentity("no upstream")
        models = fingerprint(self.upstream.url, dict(self.attempt_models))
        return GeneratorIdentity(f"whatever {self.upstream.origin} serves", models)

    @property
    def required_upstream(self) -> Upstream:
        """The upstream.

        Raises:
            ApiError: If it has none.
        """
        if self.upstream is None:
            raise ApiError(
                404, f"the guard {self.name!r} has no upstream; it judges at /v1/judge only", code="no_upstream"
            )
        return self.upstream


_KEYS = {"anthropic": re.compile(r"\bsk-ant-"), "openai": re.compile(r"\bsk-(proj|svcacct|admin)-")}
"""How the keys of providers begin."""


class Guards:
    """All guards of a server.

    Args:
        guards: The guards; the first serves what no other is for.
        by_header: Whether a request may choose one by the header `x-refine-guard`.
    """

    def __init__(self, guards: Sequence[ServedGuard], *, by_header: bool) -> None:
        self._by_name = {guard.name: guard for guard in guards}
        self._by_header = by_header

    def __iter__(self) -> Iterator[ServedGuard]:
        return iter(self._by_name.values())

    @cached_property
    def upstreams(self) -> list[ServedGuard]:
        """One guard for each address of an upstream, in order."""
        by_url = {guard.upstream.url: guard for guard in reversed(list(self)) if guard.upstream is not None}
        return [guard for guard in self if guard in by_url.values()]

    def check_key(self, guard: ServedGuard, credentials: Mapping[str, str]) -> None:
        """Check that a caller's own key may go to a guard's upstream.

        Raises:
            ApiError: If it is another provider's.
        """
        if guard.upstream is None or not guard.upstream.takes_callers_key:
            return
        owner = next((api for api, form in _KEYS.items() if any(map(form.search, credentials.values()))), "")
        if not owner or owner == guard.api:
            return
        if guard.api or owner in {one.api for one in self}:
            raise ApiError(
                400,
                f"the key that came is {owner.title()}'s, and the guard {guard.name!r} has another provider's "
                f"upstream; ask for a model of that key, or name its guard by {GUARD_HEADER}",
                code="foreign_key",
            )

    def choose(
        self, header: str | None, model: str, allowed: Collection[str] | None = None, *, api: str = ""
    ) -> ServedGuard:
        """Return the guard for a request: the one its header names, or the one for its model, or the default.

        Where several are for its model, or none is, one whose upstream has the API asked for goes first.

        Args:
            header: Value of `x-refine-guard`, if any.
            model: The model asked for.
            allowed: Names that the caller's key is for; None for all.
            api: The API asked for; empty where the request goes to no upstream.

        Raises:
            ApiError: If there is no such guard, or the key is not for it.
        """
        guard = self._named(header) if header else self._for_model(model, api)
        if allowed is not None and guard.name not in allowed:
            raise ApiError(403, "this key is not for that guard", code="guard_not_allowed")
        return guard

    def _named(self, name: str) -> ServedGuard:
        if not self._by_header:
            raise ApiError(400, "guards are not chosen by x-refine-guard here; leave it out", code="guard_header")
        if name not in self._by_name:
            raise ApiError(404, "there is no guard of the name in x-refine-guard", code="unknown_guard")
        return self._by_name[name]

    def _for_model(self, model: str, api: str) -> ServedGuard:
        guards = list(self._by_name.values())
        if len(guards) == 1:
            return guards[0]
        matching = [guard for guard in guards if guard.serves(model)] or guards
        if not api:
            return matching[0]
        return max(matching, key=lambda guard: guard.fitness(api))  # the first of those that fit as well


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


def guarded_model(models: Sequence[JudgeModel], failures: int, cooldown_s: float) -> JudgeModel:
    """Return one model for a judge: the first of these that answers.

    Args:
        models: The models, in order; at least one.
        failures: Failures in a row after which a model's calls fail at once; 0 never.
        cooldown_s: Seconds until one call tries it again.
    """
    if failures:
        models = [Wrapped(model, _Breaking(Breaker(failures, cooldown_s=cooldown_s))) for model in models]
    first, *reserves = models
    return _WithReserves(first, reserves=tuple(reserves)) if reserves else first


def connect_models(judge: Judge) -> None:
    """Make the clients of all models that a judge asks, which are otherwise made with the first request.

    Raises:
        ConfigurationError: If one cannot be made, for instance since its key or its package is missing.
    """
    for model in judge.models:
        for inner in _inner_models(model):
            if isinstance(inner, NamedModel):
                inner.connect()


def _is_reachable(judge: Judge) -> bool:
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
