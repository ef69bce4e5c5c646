"""Judges made of functions, of other judges, and of their names, which are resolved by what `judges` sets up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Any

    from langchain_core.runnables import Runnable

    from judges.judge import Judge


_OneJudge: TypeAlias = "Judge | str | Path | Runnable[Any, Any] | Callable[..., object]"
JudgeLike: TypeAlias = "_OneJudge | Sequence[_OneJudge]"
"""What a judge is made of wherever one is taken: see `judges.as_judge`."""


class FileJudges(dict[str, "Judge"]):
    """The judges of a file by name, in the place of its path."""


class Resolve(Protocol):
    """Loads the judges that are given by name."""

    def __call__(self, candidate: object, /) -> object:
        """Return what was given with its names loaded; what is no name stays as it is."""
        ...


class _ResolveNames(Protocol):
    """Loads the judges that are given by name, with their model."""

    def __call__(self, candidate: object, *, model: object = None, remedy: str = "") -> object:
        """Return what was given with its names loaded; see `judges.catalogue.names.named`."""
        ...


_installed: list[_ResolveNames] = []


def install_resolver(resolve: _ResolveNames) -> None:
    """Set what loads judges by name wherever a judge is taken; `judges` does it once, when it is imported."""
    _installed[:] = [resolve]


def resolve_names(candidate: object, *, model: object = None, remedy: str = "") -> object:
    """Return what was given with its names loaded, by what was installed."""
    return _installed[0](candidate, model=model, remedy=remedy)
