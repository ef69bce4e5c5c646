"""Redaction of a reference answer from texts that a generator or a reader gets."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from importlib import resources
from itertools import accumulate

from pydantic import JsonValue

PLACEHOLDER = "[...]"
"""The text that replaces a reference answer."""

LONGEST_TEXT = 50_000
"""Most characters of a text that are searched; the rest is left out."""

_CUT = f" {PLACEHOLDER}"

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Scripts written without spaces, or with joined endings: each of their letters counts as a word."""

_JOINING = "\u00ad\u0300-\u036f\u200b-\u200f\u2060-\u2064\ufeff"
"""Accents and invisible characters, which do not end a word."""

_WORD = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}_])\w|[{_JOINING}])+")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|(?<=[\u3002\uff01\uff1f])|\n+")
_JUDGED_WORD = re.compile(r"[^\W_]+")
_POSSESSIVE = re.compile(r"(?<=\w)['\u2019]s\b", re.IGNORECASE)
_HYPHENATION = re.compile(r".|[-\u2010\u2011]\s+", re.DOTALL)
"""What may stand inside a word of the reference: one character, or the hyphen at the end of a line."""

_UNMARKED = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "ħ": "h", "ŧ": "t", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th"}
)
"""Letters whose mark is no accent that can be taken off."""

_ORDINARY = frozenset((resources.files("graphs") / "packs/ordinary_words.txt").read_text("utf-8").split())
"""Words of any judgement, which give no reference away, and without which feedback loses its sense."""

_CLOSED_ANSWERS = frozenset(["yes", "no", "true", "false", "да", "нет", "是", "否", "对", "错"])
"""Ordinary words that are the whole answer to a closed question, and withheld where they are the reference."""

_STEM = 5
"""Letters of a word from which on it may have another ending."""
_ENDING = 3
"""Most letters of that ending."""
_BEGINNING = 5
_KEY = 8


def _redact(text: str, reference: str | None) -> str:
    """Replace the reference answer, whole or by sentence, in a text, so that it cannot be copied.

    Only letters and digits are compared, from the start of a word to the end of a word: case, accents, spacing,
    punctuation and invisible characters are ignored, words may be joined or divided by one character, and the
    last word may have a short ending. Sentences too short to be distinctive ("1.", "e.g.") remain; so do
    paraphrases and encoded copies. Of a text longer than `LONGEST_TEXT` only the beginning is returned.
    """
    if not reference or not reference.strip():
        return text
    if len(text) > LONGEST_TEXT:
        return f"{_redact(text[: LONGEST_TEXT - len(_CUT)], reference)}{_CUT}"
    bare = reference.strip()
    secret = _secret(bare)
    if (len(bare) == 1 and bare.isascii()) or not secret.whole:
        return re.sub(rf"(?<!\w){re.escape(bare)}(?!\w)" if bare.isalnum() else re.escape(bare), PLACEHOLDER, text)
    parts, end_of_last = [], 0
    for start, end in _matches(secret, _Letters(text)):
        parts += [text[end_of_last:start], PLACEHOLDER]
        end_of_last = end
    return "".join([*parts, text[end_of_last:]])


class _Letters:
    """The letters and digits of a text without anything between them, and where its words are.

    Attributes:
        text: The text.
        spans: Start and end of each word in the text.
        folded: All words, folded, one after the other.
        offsets: Where each word begins in `folded`; the last entry is the length of it.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        words = [(match.span(), _fold(match.group())) for match in _WORD.finditer(text)]
        words = [(span, word) for span, word in words if word]
        self.spans = [span for span, _ in words]
        self.folded = "".join(word for _, word in words)
        self.offsets = [0, *accumulate(len(word) for _, word in words)]

    def __len__(self) -> int:
        return len(self.spans)

    def gap(self, number: int) -> str:
        """Return what stands before a word, after the word before it."""
        return self.text[self.spans[number - 1][1] : self.spans[number][0]]


@dataclass(frozen=True)
class _Piece:
    """A reference or a sentence of it.

    Args:
        last: Length of its last word.
        boundaries: Where one word ends and the next begins.
    """

    last: int
    boundaries: frozenset[int]


@dataclass(frozen=True)
class _Secret:
    """A reference, prepared for the search.

    Args:
        whole: Its letters.
        beginning: Its first words, of which a text that breaks off may show no more.
        pieces: The pieces by their first letters, then by their length, longest first, then by their letters.
    """

    whole: str
    beginning: str
    pieces: dict[str, dict[int, dict[str, _Piece]]] = field(default_factory=dict)


def _fold(word: str) -> str:
    if word.isascii():
        return word.lower()
    parts = unicodedata.normalize("NFKD", word.casefold()).translate(_UNMARKED)
    return "".join(part for part in parts if unicodedata.category(part) not in ("Mn", "Cf"))


@lru_cache(maxsize=16)
def _secret(reference: str) -> _Secret:
    words = _folded_words(reference)
    secret = _Secret("".join(words), "".join(words[:_BEGINNING]) if len(words) > _BEGINNING else "")
    for text in {reference, _POSSESSIVE.sub("", reference)}:
        sentences = [_folded_words(sentence) for sentence in _SENTENCE_END.split(text)]
        for words in (_folded_words(text), *filter(_is_distinctive, sentences)):
            _add(secret, words)
    for key, lengths in secret.pieces.items():
        secret.pieces[key] = dict(sorted(lengths.items(), reverse=True))
    return secret


def _folded_words(text: str) -> list[str]:
    return list(filter(None, map(_fold, _WORD.findall(text))))


def _is_distinctive(sentence: list[str]) -> bool:
    letters = "".join(sentence)
    if _ORDINARY.issuperset(sentence) or letters in _ORDINARY:
        return False
    return len(letters) > (2 if letters.isascii() and letters.isalpha() else 1)


def _add(secret: _Secret, words: list[str]) -> None:
    if not words:
        return
    letters = "".join(words)
    piece = _Piece(len(words[-1]), frozenset(accumulate(map(len, words[:-1]))))
    lengths = secret.pieces.setdefault(letters[:_KEY], {})
    lengths.setdefault(len(letters), {}).setdefault(letters, piece)


def _matches(secret: _Secret, letters: _Letters) -> Iterator[tuple[int, int]]:
    """Yield start and end of each match in the text, in order."""
    broken_off = _broken_off(secret, letters)
    keys = sorted({len(key) for key in secret.pieces}, reverse=True)
    number = 0
    while number < len(letters):
        after = len(letters) if number == broken_off else _match_end(secret, letters, number, keys)
        if after:
            yield letters.spans[number][0], letters.spans[after - 1][1]
        number = after or number + 1


def _match_end(secret: _Secret, letters: _Letters, number: int, keys: list[int]) -> int:
    """Return the number of the word after the longest match that begins with a word; 0 where there is none."""
    start = letters.offsets[number]
    for key in keys:
        for length, pieces in secret.pieces.get(letters.folded[start : start + key], {}).items():
            piece = pieces.get(letters.folded[start : start + length])
            after = 0 if piece is None else _last_word(letters, number, length, piece)
            if after:
                return after
    return 0


def _last_word(letters: _Letters, number: int, length: int, piece: _Piece) -> int:
    """Return the number of the word after a match, 0 where it is none: it ends in a word, or divides a word."""
    start = letters.offsets[number]
    after = bisect_left(letters.offsets, start + length)
    ending = letters.offsets[after] - start - length
    if ending > (_ENDING if piece.last >= _STEM else 0):
        return 0
    inside = range(number + 1, after)
    divided = (word for word in inside if letters.offsets[word] - start not in piece.boundaries)
    return after if all(_HYPHENATION.fullmatch(letters.gap(word)) for word in divided) else 0


def _broken_off(secret: _Secret, letters: _Letters) -> int:
    """Return the number of the word from which a text repeats the reference until it breaks off; -1 for none."""
    starts = set(letters.offsets)
    position = letters.folded.find(secret.beginning) if secret.beginning else -1
    while position >= 0:
        if position in starts and secret.whole.startswith(letters.folded[position:]):
            return bisect_left(letters.offsets, position)
        position = letters.folded.find(secret.beginning, position + 1)
    return -1


_FACTS = ("expected_facts", "reference_topics", "rubrics", "reference_tool_calls")
_SHORTEST_WORD = 4
_MANY_WORDS = 4


def withhold(text: str, evidence: Mapping[str, JsonValue]) -> str:
    """Replace in a text whatever of the evidence tells what is expected, so that it cannot be copied.

    That is the reference, its contexts, tool calls and topics, the expected facts and the rubrics. Guidelines and
    retrieved contexts remain: the generator is to follow the ones and has the others.
    """
    return reduce(_redact, _secrets_of(evidence), text) if evidence and text else text


def _secrets_of(evidence: Mapping[str, JsonValue]) -> list[str]:
    """Return the texts of the evidence that only the judge may see, longest first.

    Left out are texts of nothing but words of any judgement ("not complete"), short descriptions of a level
    without a name or a number and, apart from the reference itself, answers to a closed question ("yes"), single
    letters and words of three letters: their absence would tell nothing and cost the feedback its sense.
    """
    reference = evidence.get("reference")
    contexts = "\n".join(_texts(evidence.get("reference_contexts")))
    facts = [text for name in _FACTS for text in _facts(name, evidence.get(name))]
    references = [text for text in _texts(reference) if _is_closed_answer(text) or not _is_ordinary(text)]
    others = [text for text in {contexts, *facts} if _is_telling(text) and not _is_ordinary(text)]
    return sorted([*references, *others], key=len, reverse=True)


def _facts(name: str, value: JsonValue) -> Iterator[str]:
    if name == "rubrics" and isinstance(value, Mapping):
        yield from filter(_names_something, _texts(list(value.values())))
    elif name == "reference_tool_calls" and isinstance(value, list):
        calls = [call for call in value if isinstance(call, Mapping)]
        yield from _texts([[call.get("name"), call.get("args")] for call in calls])
    else:
        yield from _texts(value)


def _texts(value: JsonValue) -> Iterator[str]:
    """Yield the texts and numbers of a value, at any depth; names of arguments are no texts."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _texts(part)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


def _is_ordinary(text: str) -> bool:
    """Return whether a text has no words but those of any judgement."""
    words = _JUDGED_WORD.findall(text.casefold())
    return bool(words) and _ORDINARY.issuperset(words)


def _is_closed_answer(text: str) -> bool:
    """Return whether a text is one word that answers a closed question."""
    words = _JUDGED_WORD.findall(text.casefold())
    return len(words) == 1 and words[0] in _CLOSED_ANSWERS


def _names_something(description: str) -> bool:
    """Return whether the description of a level is long, or has a name or a number in it."""
    is_long = len(_WORD.findall(description)) >= _MANY_WORDS
    return is_long or any(character.isupper() or character.isdigit() for character in description)


def _is_telling(text: str) -> bool:
    letters = "".join(re.findall(r"\w", text))
    return len(letters) >= (_SHORTEST_WORD if letters.isascii() and letters.isalpha() else 2)
