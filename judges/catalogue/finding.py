"""Finds judges in the catalogue by words, by the fields that a sample has, and by what they judge."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from judges.entry import Entry, Subject
from judges.errors import ConfigurationError, shortened
from judges.runtime.validation import one_of, suggestion
from judges.sample import FIELD_NAMES, canonical_field

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

_NAMED, _TAGGED, _DESCRIBED = 3.0, 2.5, 2.0
"""What a word weighs that stands in the names, in the tags and the question, or elsewhere."""

_BEGINNING, _SYNONYM = 0.9, 0.6
"""The shares of it that count for the beginning of a word, and for a synonym."""

_MUCH_LESS = 0.4
"""Share of the best match's weight below which a judge is no match."""

_INNER_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[\u4e00-\u9fff]+|[^\W\u4e00-\u9fff]+")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_ALWAYS = frozenset({"user_input", "response"})


def find(
    entries: Iterable[Entry],
    *,
    text: str | None = None,
    fields: str | None = None,
    subject: str | None = None,
) -> list[Entry]:
    """Return the entries that match all that is asked for, the best matches first.

    Args:
        entries: The entries to choose from.
        text: A sentence or some words. One is enough to find a judge; those count most that few judges have.
            They are looked for in names, question, needs, subject, tags and source, and so is what stands for
            them. A word of more than three letters may be the beginning of one.
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
        matches = sorted(usable, key=lambda entry: -_count_used(entry, held))
    return matches if text is None else _best_by_words(matches, text)


def _best_by_words(entries: Sequence[Entry], text: str) -> list[Entry]:
    """Return the entries that a text's words find, the heaviest first."""
    said = _words_between_blanks(text)
    terms = _terms(text, said)
    weights = dict.fromkeys((entry.name for entry in entries), 0.0)
    for term in terms:
        by_name = {entry.name: term.weight(_indexed(entry)) for entry in entries}
        count = sum(weight > 0 for weight in by_name.values())
        for name, weight in by_name.items():
            weights[name] += weight * math.log((len(by_name) + 1) / count) if count else 0.0
    least = max(weights.values(), default=0.0) * _MUCH_LESS
    kept = [entry for entry in entries if weights[entry.name] > 0 and weights[entry.name] >= least]
    return sorted(kept, key=lambda entry: (not _is_called(entry, text), -weights[entry.name]))


def _is_called(entry: Entry, text: str) -> bool:
    return text.strip().casefold() in (name.casefold() for name in (entry.name, *entry.aliases))


@dataclass(frozen=True)
class _Index:
    """The words by which a judge is found, as texts of words between blanks, from the weightiest on."""

    names: str
    tags: str
    others: str


@dataclass(frozen=True)
class _Term:
    """A word that is looked for, and beginnings of words that stand for it."""

    word: str
    synonyms: frozenset[str] = frozenset()

    def weight(self, index: _Index) -> float:
        """Return how much it says that a judge is meant; 0 where it is nowhere."""
        ranks = ((index.names, _NAMED), (index.tags, _TAGGED), (index.others, _DESCRIBED))
        for words, weight in ranks:
            if f" {self.word} " in words:
                return weight
            if _is_in(self.word, words):
                return weight * _BEGINNING
        alike = (weight for words, weight in ranks if any(_is_in(word, words) for word in self.synonyms))
        return next(alike, 0.0) * _SYNONYM


def _is_in(word: str, words: str) -> bool:
    """Return whether a word, or the beginning of one, is among words; a short one must be there as a whole."""
    is_whole = len(word) <= _LONGEST_WHOLE and not _HAN.search(word)
    return (f" {word} " if is_whole else f" {word}") in words


def _terms(text: str, said: str) -> list[_Term]:
    """Return what a text asks for: its words, and the phrases in it that stand for others."""
    words = dict.fromkeys(map(_stem, _words(text)))
    helpful = [word for word in words if word not in _no_help()] or list(words)
    phrases = [member for group in _alike_groups() for member in group if " " in member and f" {member}" in said]
    return [_Term(word, _standing_for(word)) for word in dict.fromkeys((*helpful, *phrases))]


def _standing_for(word: str) -> frozenset[str]:
    if len(word) <= _LONGEST_WHOLE and not _HAN.search(word):
        groups = [group for group in _alike_groups() if word in group]
    else:
        groups = [group for group in _alike_groups() if any(_same_beginning(word, member) for member in group)]
    return frozenset(member for group in groups for member in group)


def _same_beginning(word: str, member: str) -> bool:
    if len(member) <= _LONGEST_WHOLE and not _HAN.search(member):
        return word == member
    return word.startswith(member) or (member.startswith(word) and " " not in member)


@cache
def _vocabulary() -> Mapping[str, object]:
    return tomllib.loads(files(__package__).joinpath("finding.toml").read_text(encoding="utf-8"))


@cache
def _no_help() -> frozenset[str]:
    return frozenset(str(_vocabulary()["no_help"]).split())


@cache
def _alike_groups() -> tuple[frozenset[str], ...]:
    groups: Collection[str] = _vocabulary()["alike"]  # type: ignore[assignment]  # a file of our own
    return tuple(frozenset(group.split(", ")) for group in groups)


@cache
def _indexed(entry: Entry) -> _Index:
    said: Mapping[str, str] = _vocabulary()["judges"]  # type: ignore[assignment]  # a file of our own
    return _Index(
        names=_words_between_blanks(entry.name, *entry.aliases),
        tags=_words_between_blanks(entry.asks, *entry.tags, said.get(entry.name, "")),
        others=_words_between_blanks(entry.subject, *entry.needs, *_dialects(entry), entry.source),
    )


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
    return [word for run in runs for word in (_pairs(run) if _HAN.match(run) else [run])]


def _pairs(signs: str) -> list[str]:
    return [signs[place : place + 2] for place in range(max(1, len(signs) - 1))]


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


def _count_used(entry: Entry, held: frozenset[str]) -> int:
    return sum(bool(_alternatives(need) & held) for need in entry.needs)


def _fields(text: str, entries: Sequence[Entry]) -> frozenset[str]:
    """Return the fields that are named, by their own names.

    Raises:
        ConfigurationError: If a name is unknown.
    """
    own = {field for entry in entries for need in entry.needs for field in _alternatives(need)}
    held = set()
    for name in filter(None, re.split(r"[,;\s]+", text)):
        field = _HELD.get(name) or canonical_field(name) or (name if name in own else None)
        if field is None:
            known = (*FIELD_NAMES, *_HELD, *own)
            raise ConfigurationError(f"no sample has a field {shortened(name)}; {suggestion(name, set(known))}")
        held.add(field)
    return frozenset(held)
