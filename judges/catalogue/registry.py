"""Judges by name, for command lines and configuration."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import walk_packages
from typing import Any

from judges.entry import Entry
from judges.errors import ConfigurationError
from judges.judge import Judge

GROUP = "selfrefine.judges"
"""Group of the entry points by which another distribution offers judges: each is a class with an `entry`."""


@dataclass(frozen=True)
class Registry:
    """Judges by their names.

    Args:
        classes: What makes a judge, each with an `entry` that names it; see `judges.Entry`.

    Raises:
        ConfigurationError: If two of them share a name.
    """

    classes: Iterable[Callable[..., Judge]]
    entries: Mapping[str, Entry] = field(init=False)
    _makers: Mapping[str, Callable[..., Judge]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        entries: dict[str, Entry] = {}
        makers: dict[str, Callable[..., Judge]] = {}
        for make in self.classes:
            entry = entry_of(make)
            entries[entry.name] = entry
            for name in dict.fromkeys((entry.name, *entry.aliases)):
                if name in makers:
                    told = f"{_place(make)} and {_place(makers[name])}"
                    raise ConfigurationError(f"two judges are called {name!r}: {told}; rename one")
                makers[name] = make
        object.__setattr__(self, "entries", dict(sorted(entries.items())))
        object.__setattr__(self, "_makers", makers)

    def load(self, name: str, /, **settings: Any) -> Judge:
        """Make the judge that a name stands for.

        Raises:
            ConfigurationError: If the name is unknown, or a setting is missing, unknown or out of range.
        """
        make = self._makers.get(name)
        if make is None:
            raise ConfigurationError(f"there is no judge {name!r}; {self.near(name)}")
        try:
            return make(**settings)
        except TypeError as error:
            told = re.sub(r"^[\w.<>]+\(\)", f"the judge {name!r}", str(error))
            raise ConfigurationError(told) from error

    def near(self, name: str) -> str:
        """Say what an unknown name may have been meant for."""
        from difflib import get_close_matches  # noqa: PLC0415 - only for a misspelt name

        near = get_close_matches(str(name), self._makers, n=5, cutoff=0.5)
        return f"did you mean {', '.join(near)}?" if near else f"known are {', '.join(self.entries)}"


def load(name: str, /, **settings: Any) -> Judge:
    """Make the judge that a name stands for: `load("ragas.faithfulness", model="openai:gpt-5-mini")`.

    Args:
        name: A name of the catalogue, or an alias: see `catalogue`.
        settings: What the judge's class takes.

    Raises:
        ConfigurationError: If the name is unknown, or a setting is missing, unknown or out of range.
    """
    return known().load(name, **settings)


def catalogue() -> tuple[Entry, ...]:
    """List all judges that can be loaded by name, sorted: the package's own and those of other distributions."""
    return tuple(known().entries.values())


@cache
def known() -> Registry:
    """Give the registry of all judges there are, looked up once."""
    return Registry((*_own(), *_offered()))


def _offered() -> Iterator[Callable[..., Judge]]:
    """Load the judges of other distributions; one that cannot be imported is told of and left out."""
    for point in entry_points(group=GROUP):
        try:
            make = point.load()
            entry_of(make)
        except Exception as error:  # noqa: BLE001 - whatever another package's import raises
            told = f"the judge {point.value} of an installed package cannot be loaded: {error}"
            warnings.warn(told, stacklevel=2)
        else:
            yield make


def _own() -> list[Callable[..., Judge]]:
    """Find the classes of the package that have an entry of their own."""
    package = import_module("judges.catalogue")
    modules = [import_module(one.name) for one in walk_packages(package.__path__, "judges.catalogue.")]
    return [
        thing
        for module in modules
        for thing in vars(module).values()
        if isinstance(thing, type) and thing.__module__ == module.__name__ and "entry" in vars(thing)
    ]


def entry_of(make: Callable[..., Judge]) -> Entry:
    """Give what names a judge.

    Raises:
        ConfigurationError: If nothing does.
    """
    entry = getattr(make, "entry", None)
    if not isinstance(entry, Entry):
        raise ConfigurationError(f"{_place(make)} has no entry, a judges.Entry that names it")
    return entry


def _place(make: object) -> str:
    return f"{getattr(make, '__module__', '?')}.{getattr(make, '__qualname__', make)}"
