"""Guards by name: a judge, a policy and an upstream each; which of them serves a request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

from graphs import Bounds, GeneratorIdentity, Loop
from judges.fingerprint import fingerprint
from judges.judge import Judge
from refine.server.errors import ApiError
from refine.server.upstream import Upstream

Revealed = Literal["rationale", "feedback"]


@dataclass(frozen=True, kw_only=True)
class Guard:
    """One guard.

    Args:
        name: Its name.
        judge: What judges.
        loop: The loop around that judge, under the guard's policy; each request brings its own generator.
        upstream: The model that is guarded; None judges only.
        models: Patterns of the names of models that it serves, for instance `gpt-*`.
        attempt_models: Another model's name from an attempt number on.
        bounds: How far a request may go with settings of its own.
        reveal: What a client sees of a verdict beside its marks.
        doubts: What the guard's certificate, if it has one, depends on and cannot be compared, a line each.
    """

    name: str
    judge: Judge
    loop: Loop
    upstream: Upstream | None
    models: tuple[str, ...] = ()
    attempt_models: Mapping[int, str] = field(default_factory=dict)
    bounds: Bounds = field(default_factory=Bounds)
    reveal: frozenset[Revealed] = frozenset()
    doubts: tuple[str, ...] = ()

    @property
    def generator(self) -> GeneratorIdentity:
        """What is guarded, for certificates."""
        return upstream_identity(self.upstream, self.attempt_models)

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


def upstream_identity(upstream: Upstream | None, models: Mapping[int, str]) -> GeneratorIdentity:
    """Return what can be said of an upstream; which of its models answers is up to each request."""
    if upstream is None:
        return GeneratorIdentity("no upstream")
    return GeneratorIdentity(f"whatever {upstream.origin} serves", fingerprint(upstream.url, dict(models)))


class Guards:
    """All guards of a server.

    Args:
        guards: The guards; the first serves what no other is for.
        by_header: Whether a request may choose one by the header `x-refine-guard`.
    """

    def __init__(self, guards: Sequence[Guard], *, by_header: bool = True) -> None:
        self._by_name = {guard.name: guard for guard in guards}
        self._default = guards[0]
        self._by_header = by_header

    def __iter__(self) -> Iterator[Guard]:
        return iter(self._by_name.values())

    def choose(self, header: str | None, model: str, allowed: frozenset[str] | None = None) -> Guard:
        """Return the guard for a request: the one its header names, else the first for its model, else the first.

        Args:
            header: Value of `x-refine-guard`, if any.
            model: The model asked for.
            allowed: Names that the caller's key is for; None for all.

        Raises:
            ApiError: If there is no such guard, or the key is not for it.
        """
        guard = self._named(header) if header else self._for_model(model)
        if allowed is not None and guard.name not in allowed:
            raise ApiError(403, "this key is not for that guard", code="guard_not_allowed")
        return guard

    def _named(self, name: str) -> Guard:
        if not self._by_header:
            raise ApiError(400, "guards are not chosen by x-refine-guard here; leave it out", code="guard_header")
        if name not in self._by_name:
            raise ApiError(404, "there is no guard of the name in x-refine-guard", code="unknown_guard")
        return self._by_name[name]

    def _for_model(self, model: str) -> Guard:
        matching = (
            guard
            for guard in self._by_name.values()
            if any(fnmatchcase(model, pattern) for pattern in guard.models)
        )
        return next(matching, self._default)
