"""Judges by their names, and by words that say what is asked: for command lines and configuration."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher, get_close_matches
from functools import cache
from heapq import nlargest
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from operator import mul
from pathlib import Path
from pkgutil import walk_packages
from statistics import fmean, pstdev
from typing import Any

from judges.entry import Entry, Subject, own_tables
from judges.errors import ConfigurationError, JudgesError, one_line, shortened
from judges.judge import Judge
from judges.models.providers.local_models import alike, finest_likeness, whole_minilm
from judges.runtime.validation import judge_name, one_of, suggestion
from judges.sample import FIELD_NAMES, canonical_field
from judges.settings import NamedJudgeError, settings_of, translate_settings

_LONGEST_WHOLE = 3
"""Characters up to which a word must be a whole word: `rag` must not find `ragas`."""

_HELD = {
    "tools": "trajectory",
    "tool_calls": "trajectory",
    "conversation": "user_input",
    "chat": "user_input",
    "facts": "expected_facts",
    "topics": "reference_topics",
    "ids": "retrieved_context_ids",
    "expected_tools": "reference_tool_calls",
    "expected_tool_calls": "reference_tool_calls",
}
"""What one may call a field, besides its names in other libraries."""

_WEIGHTS = (3.0, 2.5, 2.0, 0.5)
"""What a word weighs that stands in the names, in the tags and the question, in other fields, in the docstring."""

_BEGINNING = 0.9
"""The share of it that counts for the beginning of a word."""
_SYNONYM = 0.6
"""The share for a synonym."""

_SAID = 1.0
"""What it weighs, beside each word in the judge's name, that each is among what people say."""
_BEGUN = 6
"""Letters of words that are compared with what people say."""

_MEANING = 0.2
"""What it weighs, beside each word in the judge's name, that a sentence means the nearest phrases of a judge."""
_NEAREST = 3
"""How many phrases of a judge are the nearest."""

_READ_CLOSELY = 12
"""Best matches whose phrases are read by MiniLM, some milliseconds each."""
_MEANT = 5
"""Matches that are left of them."""

_SENTENCE = 3
"""Words that tell something from which on a text is a sentence, whose words support each other."""

_MISSPELT = 0.86
"""How alike a word that nobody knows must be to one that is known."""

_MUCH_LESS = 0.4
"""Share of the best match's weight below which a judge is no match."""

_INNER_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[\u4e00-\u9fff]+|[^\W\u4e00-\u9fff]+")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_ALWAYS = frozenset({"user_input", "response"})


def find(
    entries: Iterable[Entry], *, text: str | None = None, fields: str | None = None, subject: str | None = None
) -> list[Entry]:
    """Return the entries that match all that is asked for, the best matches first.

    Args:
        entries: The entries to choose from.
        text: A sentence or some words. One is enough to find a judge; those count most that few judges have.
            They are looked for in names, question, needs, subject, tags, source and what the class says of
            itself, and so is what stands for them. A word of more than three letters may be the beginning of one.
        fields: Fields of a sample, separated by commas or blanks, by any name of a dataset: judges that can
            be used with these, question and answer alone; those that use most of them come first.
        subject: What is judged: answer, retriever, agent or conversation.

    Raises:
        ConfigurationError: If a field or a subject is unknown.
    """
    matches = sorted(entries, key=lambda entry: entry.name)
    if subject is not None:
        subject = subject.strip().casefold()
        one_of(Subject, subject, setting="subject")
        matches = [entry for entry in matches if entry.subject == subject]
    if fields is not None:
        held = _fields(fields, matches)
        usable = [
            entry for entry in matches if all(_alternatives(need) & (held | _ALWAYS) for need in entry.needs)
        ]
        matches = sorted(usable, key=lambda entry: -sum(bool(_alternatives(need) & held) for need in entry.needs))
    return matches if text is None else _best_by_words(matches, text)


def _best_by_words(entries: Sequence[Entry], text: str) -> list[Entry]:
    """Return the entries that a text's words find, or all that it means, the heaviest first."""
    terms = _terms(text, entries)
    if not terms:  # signs alone
        return []
    weights_by_term = [[term.weight(_indexed(entry)) for entry in entries] for term in terms]
    rarities = [
        math.log((len(entries) + 1) / max(1, sum(weight > 0 for weight in of_term))) for of_term in weights_by_term
    ]
    most = _WEIGHTS[0] * math.fsum(rarities) or 1.0
    said = _SAID * min(1.0, len(terms) / _SENTENCE)
    weights = [
        math.fsum(map(mul, of_entry, rarities)) / most + said * share
        for of_entry, share in zip(zip(*weights_by_term, strict=True), _shares_said(entries, terms), strict=True)
    ]
    ranked = [(weight, entry) for weight, entry in zip(weights, entries, strict=True) if weight > 0]
    if len(terms) >= _SENTENCE and finest_likeness() == "pieces" and text.isascii():
        close = _with_meaning(nlargest(_READ_CLOSELY, ranked, key=lambda one: one[0]), text)
        ranked = nlargest(_MEANT, close, key=lambda one: one[0])
    else:
        ranked = [one for one in ranked if one[0] >= max(weights) * _MUCH_LESS]
    called = {
        entry
        for entry in entries
        for name in (entry.name, *entry.aliases)
        if name.casefold() == text.strip().casefold()
    }
    return [entry for _, entry in sorted(ranked, key=lambda one: (one[1] not in called, -one[0]))]


def _shares_said(entries: Sequence[Entry], terms: Iterable[_Term]) -> list[float]:
    """Return of each entry the share of a text's words, the rare ones counting most, that people say of it."""
    beginnings = _beginnings(term.word for term in terms)
    common = [beginnings & _begun_by(entry) for entry in entries]
    rarity = {
        word: math.log((len(common) + 1) / max(1, sum(word in words for words in common))) for word in beginnings
    }
    total = math.fsum(rarity.values()) or 1.0
    return [math.fsum(rarity[word] for word in words) / total for words in common]


@cache
def _begun_by(entry: Entry) -> frozenset[str]:
    words = _words(f"{entry.asks}\n{_told(entry, 'judges')}\n{_told(entry, 'said')}")
    return _beginnings(_stem(word) for word in words if word not in _no_help())


def _beginnings(stems: Iterable[str]) -> frozenset[str]:
    return frozenset(stem[:_BEGUN] for stem in stems)


def _with_meaning(ranked: Sequence[tuple[float, Entry]], text: str) -> list[tuple[float, Entry]]:
    """Return the entries with what it weighs that a sentence is nearer to what is said of each than of most.

    What is said of a judge are its question, its name, its tags and what people say; the nearest few
    of them count. The unit is a standard deviation over the entries.
    """
    (vector,) = whole_minilm().embed([text]).vectors
    nearest = [nlargest(_NEAREST, (alike(vector, phrase) for phrase in _phrases(entry))) for _, entry in ranked]
    near = [fmean(of_one) for of_one in nearest]
    middle, spread = (fmean(near), pstdev(near)) if near else (0.0, 0.0)
    weights = (_MEANING * (one - middle) / (spread or 1.0) for one in near)
    return [(share + weight, entry) for weight, (share, entry) in zip(weights, ranked, strict=True)]


@cache
def _phrases(entry: Entry) -> tuple[list[float], ...]:
    name = entry.name.rpartition(".")[2].replace("_", " ")
    phrases = [entry.asks, name, ", ".join(entry.tags), *_told(entry, "said").splitlines()]
    return tuple(whole_minilm().embed(list(filter(None, phrases))).vectors)


@dataclass(frozen=True)
class _Term:
    """A word that is looked for, and beginnings of words that stand for it."""

    word: str
    synonyms: frozenset[str] = frozenset()

    def weight(self, index: Sequence[str]) -> float:
        """Return how much it says that a judge is meant; 0 where it is nowhere."""
        ranks = tuple(zip(index, _WEIGHTS, strict=False))
        for words, weight in ranks:
            if f" {self.word} " in words:
                return weight
            if _is_in(self.word, words):
                return weight * _BEGINNING
        alike = (weight for words, weight in ranks if any(_is_in(word, words) for word in self.synonyms))
        return next(alike, 0.0) * _SYNONYM


def _is_in(word: str, words: str) -> bool:
    """Return whether a word, or the beginning of one, is among words; a short one must be there as a whole."""
    return (f" {word} " if _is_whole(word) else f" {word}") in words


def _is_whole(word: str) -> bool:
    return len(word) <= _LONGEST_WHOLE and not _HAN.search(word)


def _terms(text: str, entries: Sequence[Entry]) -> list[_Term]:
    """Return what a text asks for: its words, well spelt, and the phrases in it that stand for others."""
    spoken_words = _words_between_blanks(text)
    words = dict.fromkeys(_words(text))
    helpful = [_known(_stem(word), entries) for word in words if not {word, _stem(word)} & _no_help()]
    phrases = [
        member for group in _alike_groups() for member in group if " " in member and f" {member}" in spoken_words
    ]
    return [_Term(word, _standing_for(word)) for word in dict.fromkeys((*(helpful or words), *phrases))]


def _known(word: str, entries: Sequence[Entry]) -> str:
    """Return a word, or the one of the index that it is nearly spelt like, where nobody knows it."""
    indexed = (words for entry in entries for words in _indexed(entry))
    if len(word) <= _LONGEST_WHOLE or word in _all_words() or any(_is_in(word, words) for words in indexed):
        return word
    return next(iter(get_close_matches(word, _all_words(), n=1, cutoff=_MISSPELT)), word)


@cache
def _all_words() -> frozenset[str]:
    """Return the words of the index of all judges, and those that stand for others."""
    entries = default_registry().entries.values()
    indexed = {word for entry in entries for words in _indexed(entry) for word in words.split()}
    said = {_stem(word) for entry in entries for word in _words(_told(entry, "said"))}
    return frozenset(indexed.union(said, *_alike_groups()))


def _standing_for(word: str) -> frozenset[str]:
    groups = [group for group in _alike_groups() if any(_same_beginning(word, member) for member in group)]
    return frozenset(member for group in groups for member in group)


def _same_beginning(word: str, member: str) -> bool:
    if _is_whole(word) or _is_whole(member):
        return word == member
    return word.startswith(member) or (member.startswith(word) and " " not in member)


@cache
def _no_help() -> frozenset[str]:
    return frozenset(own_tables(__file__, "finding.toml")["no_help"].split())


@cache
def _alike_groups() -> tuple[frozenset[str], ...]:
    return tuple(frozenset(group.split(", ")) for group in own_tables(__file__, "finding.toml")["alike"])


@cache
def _indexed(entry: Entry) -> tuple[str, ...]:
    """Return the words by which a judge is found, as texts of words between blanks, from the weightiest on."""
    registry = default_registry()
    described = registry.maker(entry.name).__doc__ or "" if entry.name in registry else ""
    return (
        _words_between_blanks(entry.name, *entry.aliases),
        _words_between_blanks(entry.asks, *entry.tags, _told(entry, "judges")),
        _words_between_blanks(entry.subject, *entry.needs, *_dialects(entry), entry.source),
        _words_between_blanks(described),
    )


def _told(entry: Entry, table: str) -> str:
    """Return a judge's own words, of the table `judges`, or what people say who miss it, of `said`."""
    return str(own_tables(__file__, "finding.toml")[table].get(entry.name, ""))


def _words_between_blanks(*texts: str) -> str:
    """Return the words of texts between blanks; a name in camel case is there in parts and as a whole."""
    words = [word for text in texts for word in (*_words(text), *_words(text.lower()))]
    return f" {' '.join(words)} "


def _words(text: str) -> list[str]:
    """Return the words of a text in lower case: of `ragas.LLMContextRecall` ragas, llm, context and recall.

    Chinese has no blanks between words, so each two neighbouring signs count as one.
    """
    split = _INNER_CAPITAL.sub(" ", text).replace("_", " ")
    runs: list[str] = _WORD.findall(split.lower())
    return [word for run in runs for word in (re.findall("(?=(..))", run) or [run] if _HAN.match(run) else [run])]


def _stem(word: str) -> str:
    """Return a word without the English endings that its beginning can do without."""
    for ending in ("ies", "ing", "es", "ed", "s", "e"):
        if word.endswith(ending) and not word.endswith("ss") and len(word) - len(ending) > _LONGEST_WHOLE:
            return word.removesuffix(ending)
    return word


def _dialects(entry: Entry) -> list[str]:
    """Return what the fields that a judge needs beyond question and answer are called elsewhere."""
    needed = {field for need in entry.needs for field in _alternatives(need)} - _ALWAYS
    return [name for name in FIELD_NAMES if canonical_field(name) in needed]


def _alternatives(need: str) -> set[str]:
    return set(need.split(" or "))


def _fields(text: str, entries: Sequence[Entry]) -> frozenset[str]:
    """Return the fields that are named, by their own names.

    Raises:
        ConfigurationError: If a name is unknown.
    """
    entry_fields = {field for entry in entries for need in entry.needs for field in _alternatives(need)}
    held = set()
    for name in filter(None, re.split(r"[,;\s]+", text)):
        field = _HELD.get(name) or canonical_field(name) or (name if name in entry_fields else None)
        if field is None:
            field_names = (*FIELD_NAMES, *_HELD, *entry_fields)
            raise ConfigurationError(
                f"no sample has a field {shortened(name)}; {suggestion(name, set(field_names))}"
            )
        held.add(field)
    return frozenset(held)


_GROUP = "selfrefine.judges"
"""Entry point group through which another distribution adds judges: each is a class with an `entry`."""

_MOST_SIMILAR = 3
_LONGEST_NAME = 80
_ALIKE = 0.75
"""How alike a misspelt name is to one of the catalogue, from 0 to 1."""
_MUCH_LESS_ALIKE = 0.2
"""How much less alike than the best one a name is that is left out."""
_LIBRARY = re.compile(r"^.*[./]")
_SHARED_BY_NAMES = re.compile(r"^create_|[_ ]?(?:evaluator|judge|metric|prompt|score)$", re.IGNORECASE)
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
            by_judge = {
                entry.name: entry.name for entry in find(self.entries.values(), text=_core(name[:_LONGEST_NAME]))
            }
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


def _entry_called(name: str) -> Entry:
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
    bare = name.lower().removesuffix("judge")
    registered_name = next((one for one in (name, name.lower(), bare) if one in registry), None)
    if registered_name is not None:
        return f"a judge of the catalogue is made by judges.load({registered_name!r}, ...)"
    of_source = next((entry for entry in registry.entries if entry.startswith(f"{name}.")), None)
    if of_source is not None:
        return f"its judges are made by their names: judges.load({of_source!r}, ...)"
    near = _similar_names(name, registry.entries)
    return f"judges.load({near[0]!r}, ...) makes a judge by its name" if near else ""


def registry_for(name: object) -> Registry:
    """Return the registry to look a name up in: other distributions are loaded if the package has none such."""
    default = _own_registry()
    return default if name in default else default_registry()


@cache
def default_registry() -> Registry:
    """Return the registry of all installed judges, built once.

    A judge of another distribution that cannot be loaded, or takes the name of another, is left out; the line
    that says so is one of the registry's `faults`.
    """
    registry = _own_registry()
    for point in entry_points(group=_GROUP):
        try:
            registry = Registry((*registry.classes, point.load()), faults=registry.faults)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever another package's import raises
            fault = (point.name, _fault_of(point, error))
            registry = Registry(registry.classes, faults=(*registry.faults, fault))
    return registry


@cache
def _own_registry() -> Registry:
    """Return the registry of the package's own judges, those with an entry of their own."""
    folders = [str(Path(__file__).parent)]
    modules = [import_module(info.name) for info in walk_packages(folders, f"{__package__}.")]
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
    folded = {registered_name.casefold(): registered_name for registered_name in names}
    exact = get_close_matches(text, names, n=5, cutoff=_ALIKE)
    near = [*exact, *(folded[one] for one in get_close_matches(text.casefold(), folded, n=5, cutoff=_ALIKE))]
    near = [one for one in near if _likeness(_core(text), _core(one)) >= _ALIKE]
    likeness = {one: _likeness(text, one) for one in near}
    return [one for one in near if likeness[one] >= max(likeness.values()) - _MUCH_LESS_ALIKE]


def _core(name: str) -> str:
    """Return a name without what many share: `ConcisenessEvaluator` is nothing like `GroundednessEvaluator`."""
    return _SHARED_BY_NAMES.sub("", name) or name


def _likeness(name: str, other: str) -> float:
    return SequenceMatcher(None, name.casefold(), other.casefold()).ratio()


_MOST_WORDS = 3
"""Words that a name has at most; what has more is meant as a criterion."""


def _misspelt(name: object, names: Container[object]) -> str:
    """Return how to write what was given as one judge's name; empty where it reads like a name.

    Args:
        name: What was given.
        names: The names there are.
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
    if len(parts) > 1 and all(part in names for part in parts):
        return f"name each by itself: {parts} in a list, or --judge {' --judge '.join(parts)}"
    called = _CALLED.fullmatch(name.strip())
    if called is not None and called[1] in names:
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
