"""What to say where somebody guesses at a name that a package or an object does not have."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from abc import ABCMeta
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from opcode import opmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Never

_ALIKE = 0.8
"""How alike a misspelt name is to a public one, from 0 to 1."""

_LEAST_PART = 4
"""Characters that a public name has at least that is looked for inside of a guess."""

_STEM = 5
"""Letters of a word that another form of it shares."""

_LEAST_SHARED = 1 / 3
"""Share of the words of two names, at least, that are in both where one is taken for the other."""

_OWN_WORDS = ("self", "refin", "judge")
"""Words of the product's own name and of its subject, which say little."""

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

_MOST_NAMES = 12
"""How many names an error lists."""


@cache
def _tables() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads(Path(__file__).with_name("guesses.toml").read_text(encoding="utf-8"))


@cache
def guesses(table: str) -> Mapping[str, str]:
    """Return what to use instead of each name that somebody may guess at, as a table of guesses has it."""
    lines = _tables()[table].items() if table else ()
    return {name: meant.replace("{name}", name) for meant, names in lines for name in names}


def meanings() -> Mapping[str, str]:
    """Return what a setting of a policy means, for those that are guessed at."""
    return _tables()["meanings"]


_OF_PACKAGES = {
    "judges": ("judges",),
    "graphs": ("graphs", "loop"),
    "refine": ("refine", "loop"),
    "refine.middleware": ("refine.middleware",),
    "judges.offline": ("judges.offline",),
    "judges.testing": ("judges.testing",),
}
"""The tables of names that a package does not have."""


@cache
def _public_names(package: str) -> Collection[str]:
    """Return the public names of a package, which is read, not loaded: it may need what is not installed."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return ()
    statements = ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body
    assigned = (one for one in statements if isinstance(one, ast.Assign))
    lists = (one.value for one in assigned if ast.unparse(one.targets[0]) == "__all__")
    return frozenset(ast.literal_eval(next(lists, ast.List([]))))


def of_package(package: str, name: str, public_names: Collection[str] = ()) -> str:
    """Return what to use instead of a name that one of the packages does not have; empty where nothing is known.

    Args:
        package: The package that was asked.
        name: The name.
        public_names: The public names of the package, of which one may be alike.
    """
    for other in _DOORS:
        if other != package and name in _public_names(other):
            return f"it is in {other}: from {other} import {name}"
    first, rest = (*_OF_PACKAGES.get(package, ()), "elsewhere"), dict.fromkeys(chain(*_OF_PACKAGES.values()))
    hint = _first_hint(name, first) or _alike(name, public_names)
    if hint or not public_names:
        return hint or nearest(name, public_names) or _first_hint(name, rest)
    return _by_words(name, public_names, first) or nearest(name, public_names) or _by_words(name, (), rest)


def _by_words(name: str, public_names: Iterable[str], tables: Iterable[str]) -> str:
    """Return the hint at what shares most words with a name, one in three at least; empty where nothing does.

    Words of the product itself count where others lead nowhere. Of as many words the longer ones count, and then
    those that the name begins with: `run_gate` is about a gate, `GuardConfig` about a guard.
    """
    hints = {**{one: _did_you_mean(one) for one in public_names}, **_hints_in(tables)}

    def likeness(other: str, words: Sequence[str]) -> tuple[float, int, int]:
        shared = [word for word in words if word in _words(other)]
        share = len(shared) / len({*words, *_words(other)})
        return share, len("".join(shared)), -words.index(shared[0]) if shared else 0

    for words in ([word for word in _words(name) if word not in _OWN_WORDS], _words(name)):
        meant = max(hints, key=partial(likeness, words=words)) if words else ""
        if meant and likeness(meant, words)[0] >= _LEAST_SHARED:
            return hints[meant]
    return ""


@cache
def _words(name: str) -> tuple[str, ...]:
    """Return the words of a name by their beginnings, which forms such as `evaluate` and `evaluation` share."""
    return tuple(dict.fromkeys(word[:_STEM].lower() for word in _WORD.findall(name)))


def _hints_in(tables: Iterable[str]) -> dict[str, str]:
    return {name: hint for table in tables for name, hint in guesses(table).items()}


def _did_you_mean(name: str) -> str:
    return f"did you mean {name!r}?"


def _first_hint(name: str, tables: Iterable[str]) -> str:
    return next((guesses(table)[name] for table in tables if name in guesses(table)), "")


def _alike(name: str, public_names: Collection[str]) -> str:
    by_spelling = {other.lower(): other for other in public_names}
    near = get_close_matches(name.lower(), by_spelling, n=1, cutoff=_ALIKE)
    return _did_you_mean(by_spelling[near[0]]) if near else ""


def nearest(name: str, public_names: Collection[str]) -> str:
    """Return the question whether a name is meant that is alike, or that is a part of it; empty where none is."""
    guess = name.lower().removesuffix("judge") or name.lower()
    parts = [other for other in public_names if len(other) >= _LEAST_PART and other.lower() in guess]
    parts = parts or [other for other in public_names if len(guess) > _LEAST_PART and guess in other.lower()]
    return _alike(name, public_names) or (_did_you_mean(max(parts, key=len)) if parts else "")


def no_such_name(package: str, name: str, hint: str) -> Exception:
    """Return the error for a name that a package does not have, for its `__getattr__` alone to raise.

    `from package import name` drops what an AttributeError says, but not what an ImportError says.

    Args:
        package: The package.
        name: The name.
        hint: What to use instead; empty where nothing is known.
    """
    asking = sys._getframe(2)  # noqa: SLF001 - who asks is to be told
    if not name.startswith("_") and asking.f_code.co_code[asking.f_lasti] == opmap["IMPORT_FROM"]:
        hint = hint or f"it has {_listed(sys.modules[package].__all__)}"
        return ImportError(f"cannot import name {name!r} from {package!r}; {hint}", name=package)
    return AttributeError(f"module {package!r} has no attribute {name!r}{hint and '; '}{hint}")


def names_of(package: str, names: Collection[str], homes: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package, which loads what is imported on first use, and hints at the rest.

    Args:
        package: The package.
        names: Its public names.
        homes: The module of each name that is not imported with the package, from the package on after a dot.
    """

    def find(name: str) -> Any:
        home = None if homes is None else homes.get(name)
        if home is None:
            raise no_such_name(package, name, "" if name.startswith("_") else of_package(package, name, names))
        value = vars(sys.modules[package])[name] = getattr(import_module(home, package), name)
        return value

    return find


def _listed(names: Collection[str]) -> str:
    """Return names for an error, the first ones where they are many."""
    ordered = sorted(names)
    more = f" and {len(ordered) - _MOST_NAMES} more" if len(ordered) > _MOST_NAMES else ""
    return f"{', '.join(ordered[:_MOST_NAMES])}{more}"


_DOORS = (
    *("refine", "refine.middleware", "refine.record", "refine.server", "judges", "judges.authoring"),
    *("judges.catalogue", "judges.offline", "judges.testing", "graphs"),
)
"""The packages that names are imported from."""


class _HintsAtModules:
    """The last one asked for a module; of a module of these packages that there is not, it says what to import."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Find nothing.

        Raises:
            ModuleNotFoundError: If one of the packages is asked for a public module that it does not have.
        """
        del path, target
        package, _, last = name.rpartition(".")
        if name.partition(".")[0] not in ("refine", "judges", "graphs") or not package or last.startswith("_"):
            return
        door = next((door for door in _DOORS if door.rpartition(".")[2] == last), "")
        hint = f"it is {door}: from {door} import ..." if door else guesses("modules").get(last, "")
        named = ((door, name) for door in _DOORS for name in _public_names(door) if name.lower() == last)
        hint = hint or next((f"from {door} import {name}" for door, name in sorted(named)), "")
        hint = hint or f"from refine import SelfRefine is the loop; the packages are {_listed(_DOORS)}"
        raise ModuleNotFoundError(f"No module named {name!r}; {hint}", name=name)


if _HintsAtModules not in sys.meta_path:
    sys.meta_path.append(_HintsAtModules)


_IN_AN_AGENT = "an agent takes a middleware: create_agent(model, tools, middleware=[SelfRefineMiddleware(judge)])"


class _Unmade:
    """Says that a class stands where one of its objects is wanted.

    LangChain asks `middleware.__class__` for its hooks, which is this where the middleware is a class.
    """

    def __get__(self, owner: object, kind: object) -> Never:
        del owner, kind
        raise AttributeError(f"this is a class, of which an object is wanted; {_IN_AN_AGENT}")


class HintsAtClassGuesses(ABCMeta):
    """A class whose missing attributes say what to use instead, as those of its objects do.

    A class that users inherit from beside other ones, as a judge, has none: it would clash with their classes'.
    """

    _guesses_at: str = ""

    if not TYPE_CHECKING:  # for type checkers an attribute that is missing stays an error
        wrap_tool_call = _Unmade()

        def __getattr__(cls, name: str) -> Any:
            hint = guesses(cls._guesses_at).get(name)
            if hint is None and hasattr(super(), "__getattr__"):
                with suppress(AttributeError):  # pydantic's says no more than the name
                    return super().__getattr__(name)
            known = "" if hint is None else f"; {hint}"
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}{known}")


class HintsAtGuesses:
    """An object whose missing attributes say what to use instead."""

    _guesses_at: ClassVar[str] = ""
    """The table of guesses at its attributes, if there is one."""

    if not TYPE_CHECKING:  # for type checkers an attribute that is missing stays an error

        def __getattr__(self, name: str) -> Any:
            hint = guesses(self._guesses_at).get(name)
            if hint is not None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}; {hint}")
            inherited = getattr(super(), "__getattr__", None)
            if inherited is not None:
                return inherited(name)
            return object.__getattribute__(self, name)  # raises again, so that a property's own error is told


class MiddlewareHook:
    """What LangChain asks a middleware's class for: that of another base, or an error that says what to write."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, kind: type) -> Any:
        inherited_hook = getattr(super(self._owner, kind if instance is None else instance), self._name, None)
        if inherited_hook is None:
            raise AttributeError(f"type object {kind.__name__!r} has no attribute {self._name!r}; {_IN_AN_AGENT}")
        return inherited_hook


class HintsAtCalls(HintsAtGuesses, metaclass=HintsAtClassGuesses):
    """An object that is asked by a method, and says by which one where it is called like a function."""

    if not TYPE_CHECKING:  # type checkers know that it is not callable

        def __call__(self, *_: object, **__: object) -> Never:
            """Say how it is asked.

            Raises:
                TypeError: Always.
            """
            raise TypeError(f"a {type(self).__name__} is not called: {guesses(self._guesses_at)['run']}")


class HintsAtKeys(HintsAtGuesses):
    """A record whose fields are attributes, and which names them where a key or another name is asked for."""

    if not TYPE_CHECKING:  # for type checkers a record has no keys, and no other attributes

        def __getattr__(self, name: str) -> Any:
            fields = type(self).model_fields
            if name.startswith("_") or name in {*fields, *guesses(self._guesses_at)} or hasattr(type(self), name):
                return super().__getattr__(name)
            properties = [own for own, value in vars(type(self)).items() if isinstance(value, property)]
            hint = nearest(name, [*fields, *properties]) or f"it has {_listed(fields)}"
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}; {hint}")

        def __getitem__(self, key: object) -> Any:
            guess = "" if not isinstance(key, str) else guesses(self._guesses_at).get(key, "")
            hint = guess or "its fields are attributes"
            if isinstance(key, str) and (key in type(self).model_fields or hasattr(type(self), key)):
                hint = f"it is the attribute .{key}"
            raise TypeError(f"{type(self).__name__!r} object has no keys such as {key!r:.80}; {hint}")
