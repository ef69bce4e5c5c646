"""Finds judges in the catalogue by words, by the fields that a sample has, and by what they judge."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from judges.entry import Entry, Subject
from judges.errors import ConfigurationError, shortened
from judges.runtime.validation import one_of, suggestion
from judges.sample import FIELD_NAMES, canonical_field

_LONGEST_WHOLE = 3
"""Characters up to which a word must be a whole word: `rag` must not find `ragas`."""

_SYNONYMS: tuple[frozenset[str], ...] = tuple(
    frozenset(group.split(", "))
    for group in (
        "hallucinat, grounded, grounding, faithful, made up, unsupported, fabricat, invent, confabulat, honest",
        "toxic, harm, hate, abus, offensive, moderat, nsfw, profan, swear, insult, racis, sexis, violen",
        "citation, citing, cited, cite, attribution, footnote, quotation, link, url",
        "conversation, dialog, chat, multi turn, multiturn, session",
        "agent, function calling, tool use, tool call",
        "format, structured output",
        "safe, unsafe, guardrail",
        "jailbreak, prompt injection, attack, red team, role violation",
        "retriev, search, ranking",
        "summar, abstract",
        "language, locale, multilingual",
        "translation, translat",
        "tone, register, style, voice, polite, rude, friendl, empath",
        "similar, overlap, paraphrase, distance, same meaning",
        "privacy, private, pii, personal data, gdpr, leak, secret",
        "correct, accura, truth, factual, right",
        "refusal, refus, declin",
        "bias, unbias, fair, unfair, stereotyp, discriminat, prejudice, racis, sexis",
        "length, brevity, brief, verbos, concise, conciseness, too long, long, short, empty, blank",
        "code, coding, programming, compil",
        "custom, own prompt, own criteria, criteria, g eval, geval, llm as a judge",
        "compar, preference, pairwise, arena",
        "relevan, irrelevan, on topic, off topic",
        "sentiment, emotion, frustrat, satisf",
        "memory, retention, forget",
        "fluen, coheren, gramma, readab, clarity, clear, vague",
        "pattern, regex, regexp, regular expression",
        "repetit, duplicat, redundan, needless",
        "plan, planning, steps",
        "helpful, useful, quality, good",
        "rule, guideline, instruction, policy, complian",
    )
)
"""Beginnings of words that stand for one another."""

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

_NO_HELP = frozenset({"a", "an", "and", "for", "in", "is", "of", "or", "the", "to", "with"})
"""Words that find nothing, and so are not looked for."""

_INNER_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
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
        text: Words that must all be found in names, question, needs, subject, tags or source, or stand for one
            that is. A word of more than three letters may be the beginning of one.
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
    if text is not None:
        words = {word: _standing_for(word) for word in map(_stem, _words(text)) if word not in _NO_HELP}
        ranks = {entry.name: [_rank(entry, *pair) for pair in words.items()] for entry in matches}
        matches = [entry for entry in matches if all(ranks[entry.name])]
        matches.sort(key=lambda entry: (not _is_called(entry, text), sum(ranks[entry.name])))
    return matches


def _is_called(entry: Entry, text: str) -> bool:
    return text.strip().casefold() in (name.casefold() for name in (entry.name, *entry.aliases))


def _rank(entry: Entry, word: str, synonyms: set[str]) -> int:
    """Return how directly a word finds an entry: 1 by its names, 2 by its texts, 3 by a synonym, 0 not at all."""
    names = _search_text(entry.name, *entry.aliases)
    texts = _search_text(entry.asks, entry.subject, *entry.needs, *entry.tags, *_dialects(entry), entry.source)
    has = _finder(names)
    if has(word):
        return 1
    also = _finder(names + texts)
    if also(word):
        return 2
    return 3 if any(map(also, synonyms)) else 0


def _finder(text: str) -> Callable[[str], bool]:
    """Return whether a word, or the beginning of one, is in a text; a short one must be there as a whole."""
    return lambda word: (f" {word} " if len(word) <= _LONGEST_WHOLE else f" {word}") in text


def _standing_for(word: str) -> set[str]:
    if len(word) <= _LONGEST_WHOLE:
        groups = [group for group in _SYNONYMS if word in group]
    else:
        groups = [group for group in _SYNONYMS if any(_alike(word, member) for member in group)]
    return {member for group in groups for member in group}


def _alike(word: str, member: str) -> bool:
    return word.startswith(member) or (member.startswith(word) and " " not in member)


def _search_text(*texts: str) -> str:
    """Return texts as words between blanks; a name in camel case is there in parts and as a whole."""
    words = [word for text in texts for word in (*_words(text), *_words(text.lower()))]
    return f" {' '.join(words)} "


def _words(text: str) -> list[str]:
    """Return the words of a text in lower case: of `ragas.LLMContextRecall` ragas, llm, context and recall."""
    split = _INNER_CAPITAL.sub(" ", text).replace("_", " ")
    return re.findall(r"\w+", split.lower())


def _stem(word: str) -> str:
    plural = len(word) > _LONGEST_WHOLE + 1 and word.endswith("s") and not word.endswith("ss")
    return word.removesuffix("s").removesuffix("ie") if plural else word


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
