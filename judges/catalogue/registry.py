"""Look judges up by name, for command lines and configuration."""

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
"""Entry point group through which another distribution adds judges: each is a class with an `entry`."""


@dataclass(frozen=True)
class Registry:
    """Judges by their names.

    Args:
        classes: Classes or factories of judges, each with an `entry` that names it; see `judges.Entry`.

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
                    places = f"{_place(make)} and {_place(makers[name])}"
                    raise ConfigurationError(f"two judges are called {name!r}: {places}; rename one")
                makers[name] = make
        object.__setattr__(self, "entries", dict(sorted(entries.items())))
        object.__setattr__(self, "_makers", makers)

    def load(self, name: str, /, **settings: Any) -> Judge:
        """Return a new judge by its name.

        Raises:
            ConfigurationError: If the name is unknown, or a setting is missing, unknown or out of range.
        """
        make = self._makers.get(name)
        if make is None:
            raise ConfigurationError(f"there is no judge {name!r}; {self.suggestion(name)}")
        try:
            return make(**settings)
        except TypeError as error:
            message = re.sub(r"^[\w.<>]+\(\)", f"the judge {name!r}", str(error))
            raise ConfigurationError(message) from error

    def suggestion(self, name: str) -> str:
        """Return a hint for an unknown name: similar names, or else all names."""
        from difflib import get_close_matches  # noqa: PLC0415 - only for a misspelt name

        similar = get_close_matches(str(name), self._makers, n=5, cutoff=0.5)
        return f"did you mean {', '.join(similar)}?" if similar else f"known are {', '.join(self.entries)}"


def load(name: str, /, **settings: Any) -> Judge:
    """Return a new judge by its name: `load("ragas.faithfulness", model="openai:gpt-5-mini")`.

    Args:
        name: A name of the catalogue, or an alias: see `catalogue`.
        settings: Settings of the judge's class.

    Raises:
        ConfigurationError: If the name is unknown, or a setting is missing, unknown or out of range.
    """
    return default_registry().load(name, **settings)


def catalogue() -> tuple[Entry, ...]:
    """Return the entries of all judges that can be loaded by name, sorted, other distributions' included."""
    return tuple(default_registry().entries.values())


@cache
def default_registry() -> Registry:
    """Return the registry of all installed judges, built once."""
    return Registry((*_own(), *_external()))


def _external() -> Iterator[Callable[..., Judge]]:
    """Yield the judges of other distributions; warn about one that cannot be imported, and skip it."""
    for point in entry_points(group=GROUP):
        try:
            make = point.load()
            entry_of(make)
        except Exception as error:  # noqa: BLE001 - whatever another package's import raises
            message = f"the judge {point.value} of an installed package cannot be loaded: {error}"
            warnings.warn(message, stacklevel=2)
        else:
            yield make


def _own() -> list[Callable[..., Judge]]:
    """Return the classes of the package that have an entry of their own."""
    package = import_module("judges.catalogue")
    modules = [import_module(info.name) for info in walk_packages(package.__path__, "judges.catalogue.")]
    return [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__ and "entry" in vars(value)
    ]


def entry_of(make: Callable[..., Judge]) -> Entry:
    """Return the entry of a judge's class or factory.

    Raises:
        ConfigurationError: If it has none.
    """
    entry = getattr(make, "entry", None)
    if not isinstance(entry, Entry):
        raise ConfigurationError(f"{_place(make)} has no entry, a judges.Entry that names it")
    return entry


def _place(make: object) -> str:
    return f"{getattr(make, '__module__', '?')}.{getattr(make, '__qualname__', make)}"
