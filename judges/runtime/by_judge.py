"""Values by the names of judges, found under any name that a judge of the catalogue has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from judges.entry import Entry

V = TypeVar("V")


class ByJudge(dict[str, V]):
    """A dict by the names that judges report, in which `[]`, `get` and `in` know their other names, too.

    Iterating, comparing and writing it as JSON are those of a dict: each value is there once.

    Args:
        values: The values by name.
        qualified: Returns the qualified name for any name of a judge, and any other text as it is.
    """

    def __init__(self, values: Mapping[str, V], *, qualified: Callable[[str], str]) -> None:
        super().__init__(values)
        self._qualified = qualified

    def key(self, name: str) -> str:
        """Return the name in the dict that means the same judge; `name` itself if there is none, or several."""
        if super().__contains__(name) or not isinstance(name, str):
            return name
        qualified = self._qualified(name)
        keys = [key for key in self if self._qualified(key) == qualified]
        return keys[0] if len(keys) == 1 else name

    def __missing__(self, name: str) -> V:
        key = self.key(name)
        if key == name:
            raise KeyError(name)
        return self[key]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(self.key(name) if isinstance(name, str) else name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a judge by any of its names, or the default."""
        return super().get(self.key(name), default)


def names_of(entries: Iterable[object]) -> Callable[[str], str]:
    """Return a function from any name in these entries to the qualified one; what is no entry is left out."""
    return partial(
        _qualified, {name: entry.name for entry in entries if isinstance(entry, Entry) for name in entry.aliases}
    )


def _qualified(names: Mapping[str, str], name: str) -> str:
    return names.get(name, name)
