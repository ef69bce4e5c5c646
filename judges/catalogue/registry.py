"""Look judges up by name, for command lines and configuration."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher, get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import walk_packages
from typing import Any

from judges.catalogue.finding import find
from judges.entry import Entry
from judges.errors import ConfigurationError, JudgesError, one_line, shortened
from judges.hints import translate_settings
from judges.judge import Judge
from judges.runtime.validation import judge_name
from judges.settings import NamedJudgeError, settings_of

GROUP = "selfrefine.judges"
"""Entry point group through which another distribution adds judges: each is a class with an `entry`."""

_MOST_SIMILAR = 3
_LONGEST_NAME = 80
_ALIKE, _MUCH_LESS_ALIKE = 0.75, 0.2
_LIBRARY = re.compile(r"^.*[./]")
_CALLED = re.compile(r"(\S+?)\((.*)\)")


@dataclass(frozen=True)
class Registry:
    """Judges by their names.

    Args:
        classes: Classes or factories of judges, each with an `entry` that names it; see `judges.Entry`.
        faults: What is wrong with judges that were left out, in a line each, with the name of the entry point.

    Raises:
        ConfigurationError: If two of them share a name.
    """

    classes: Iterable[Callable[..., Judge]]
    faults: tuple[tuple[str, str], ...] = ()
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

    def __contains__(self, name: object) -> bool:
        """Return whether a judge has this name or alias."""
        return isinstance(name, str) and name in self._makers

    def load(self, name: str, model: object = None, /, **settings: Any) -> Judge:
        """Return a new judge by its name; see `judges.load`.

        Raises:
            ConfigurationError: If the name is unknown, or a setting is missing, unknown or out of range.
        """
        make = self.maker(name)
        settings = translate_settings(settings, {setting.name for setting in settings_of(make)})
        try:
            judge = make(**settings) if model is None else make(model, **settings)
            judge_name(judge.name)
        except JudgesError:
            raise
        except Exception as error:
            values = ", ".join(f"{setting}={shortened(value)}" for setting, value in settings.items())
            line = f"the judge {name!r} cannot be made with {values or 'no settings'}: {one_line(error)}"
            raise NamedJudgeError(line) from error
        return judge

    def entry(self, name: str) -> Entry:
        """Return the entry of the judge that has this name or alias.

        Raises:
            ConfigurationError: If there is none.
        """
        return entry_of(self.maker(name))

    def qualified(self, name: str) -> str:
        """Return the qualified name of the judge that has this name or alias; of no judge, the name itself."""
        return self.entry(name).name if name in self else name

    def suggestion(self, name: str) -> str:
        """Return a hint for an unknown name: names spelt alike, judges it describes, or where all are listed."""
        by_judge: dict[str, str] = {}  # of each judge the most similar name
        for near in _similar_names(name, self._makers) or _similar_names(_LIBRARY.sub("", name), self._makers):
            by_judge.setdefault(self.qualified(near), near)
        if not by_judge and name.strip():
            by_judge = {entry.name: entry.name for entry in find(self.entries.values(), text=name[:_LONGEST_NAME])}
        if by_judge:
            return f"did you mean {', '.join(list(by_judge.values())[:_MOST_SIMILAR])}?"
        return f"`refine judges` lists the {len(self.entries)} there are, as judges.catalogue() does"

    def maker(self, name: object) -> Callable[..., Judge]:
        """Return the class or factory of the judge that has this name or alias.

        Raises:
            ConfigurationError: If there is none.
        """
        if isinstance(name, str) and name in self._makers:
            return self._makers[name]
        for point, fault in self.faults:
            if point == name:
                raise ConfigurationError(fault)
        hint = _misspelt(name, self) or self.suggestion(name if isinstance(name, str) else "")
        unknown = f"there is no judge {shortened(name)}; {hint}"
        raise NamedJudgeError("; ".join([unknown, *(fault for _, fault in self.faults)]))


def catalogue() -> tuple[Entry, ...]:
    """Return the entries of all judges that can be loaded by name, sorted, other distributions' included.

    Warns of a judge of another distribution that cannot be loaded, and leaves it out.
    """
    registry = default_registry()
    for _, fault in registry.faults:
        warnings.warn(fault, stacklevel=2)
    return tuple(registry.entries.values())


def entry_called(name: str) -> Entry:
    """Return the entry of the judge that has this name or alias.

    Raises:
        ConfigurationError: If there is none.
    """
    return registry_for(name).entry(name)


def qualified_name(name: str) -> str:
    """Return the qualified name of the judge that has this name or alias; of no judge, the name itself."""
    return registry_for(name).qualified(name)


def hint_at_class(name: str) -> str:
    """Return how to make the judge that somebody takes for a class of the package; empty where there is none."""
    registry = _own_registry()
    if name in registry:
        return f"a judge of the catalogue is made by judges.load({name!r}, ...)"
    of_source = next((entry for entry in registry.entries if entry.startswith(f"{name}.")), None)
    if of_source is not None:
        return f"its judges are made by their names: judges.load({of_source!r}, ...)"
    near = _similar_names(name, registry.entries)
    return f"judges.load({near[0]!r}, ...) makes a judge by its name" if near else ""


def registry_for(name: object) -> Registry:
    """Return the registry to look a name up in: other distributions are loaded if the package has none such."""
    own = _own_registry()
    return own if name in own else default_registry()


@cache
def default_registry() -> Registry:
    """Return the registry of all installed judges, built once.

    A judge of another distribution that cannot be loaded, or takes the name of another, is left out; the line
    that says so is one of the registry's `faults`.
    """
    registry = _own_registry()
    for point in entry_points(group=GROUP):
        try:
            registry = Registry((*registry.classes, point.load()), faults=registry.faults)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever another package's import raises
            fault = (point.name, _fault_of(point, error))
            registry = Registry(registry.classes, faults=(*registry.faults, fault))
    return registry


@cache
def _own_registry() -> Registry:
    """Return the registry of the package's own judges, those with an entry of their own."""
    package = import_module("judges.catalogue")
    modules = [import_module(info.name) for info in walk_packages(package.__path__, "judges.catalogue.")]
    return Registry(
        tuple(
            value
            for module in modules
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, Judge)
            and value.__module__ == module.__name__
            and "entry" in vars(value)
        )
    )


def _fault_of(point: EntryPoint, error: BaseException) -> str:
    """Describe in one line why the judge of another distribution is left out, and what to do."""
    reason = (
        one_line(error) if isinstance(error, ConfigurationError) else f"{type(error).__name__}: {one_line(error)}"
    )
    package = point.dist.name if point.dist is not None else point.module
    return (
        f"the judge {point.value} of an installed package cannot be loaded: {reason}; mend or uninstall "
        f"{package!r}"
    )


def _similar_names(name: str, names: Collection[str]) -> list[str]:
    """Return the names most similar to `name`, the likeliest first; those in another case come last.

    Names that are much less similar than the likeliest one are left out.
    """
    text = name[:_LONGEST_NAME]
    folded = {known.casefold(): known for known in names}
    exact = get_close_matches(text, names, n=5, cutoff=_ALIKE)
    near = [*exact, *(folded[one] for one in get_close_matches(text.casefold(), folded, n=5, cutoff=_ALIKE))]
    likeness = {one: SequenceMatcher(None, text.casefold(), one.casefold()).ratio() for one in near}
    return [one for one in near if likeness[one] >= max(likeness.values()) - _MUCH_LESS_ALIKE]


_MOST_WORDS = 3
"""Words that a name has at most; what has more is meant as a criterion."""


def _misspelt(name: object, known: Container[object]) -> str:
    """Return how to write what was given as one judge's name; empty where it reads like a name.

    Args:
        name: What was given.
        known: The names there are.
    """
    if isinstance(name, type):
        return f"a class is called: {name.__name__}(...)"
    if isinstance(name, list | tuple | Mapping):
        return "several judges are a panel: judges.Panel([...]), or judge=[...] of SelfRefine"
    if not isinstance(name, str):
        return ""
    if "?" in name or len(name.split()) > _MOST_WORDS:
        return f"a criterion in words is load('databricks.custom', model=..., criteria={shortened(name.strip())})"
    parts = [part.strip() for part in name.split(",")]
    if len(parts) > 1 and all(part in known for part in parts):
        return f"name each by itself: {parts} in a list, or --judge {' --judge '.join(parts)}"
    called = _CALLED.fullmatch(name.strip())
    if called is not None and called[1] in known:
        return f"settings follow a colon: {called[1]}{':' * bool(called[2])}{called[2]}"
    return ""


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
