"""Texts in any script: tokens, sentences, and shares such as F scores."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal
from unicodedata import normalize

from judges.catalogue.metric import Metric
from judges.sample import Sample

Tokenizer = Literal["auto", "13a", "zh", "char", "word"]
"""How a text becomes tokens.

`"auto"` splits scripts without blanks (Chinese, Japanese, Thai) into characters and everything else into words;
`"13a"` is the tokenizer of the machine-translation workshops, which separates marks from words; `"zh"` is `"13a"`
with Chinese split into characters; `"char"` takes every character but blanks; `"word"` runs of letters and digits.
"""


_UNSPACED = (
    r"\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    r"\u3001-\u303f\u3040-\u30ff\u31f0-\u31ff"  # marks, Kana
    r"\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"  # full-width marks
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
)
_MARKS = (
    r"\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
    r"\u0900-\u0963\u0966-\u0dff"  # Indian scripts, where vowels are marks
)
_CHARACTER = re.compile(f"([{_UNSPACED}])")
_WORD = re.compile(rf"(?:[^\W_]|[{_MARKS}])+")
_WORD_OR_CHARACTER = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W_]|[{_MARKS}])+")
_MARK_SPACING = (
    (re.compile(r"([{-~\[-` -&(-+:-@/])"), r" \1 "),
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)
_ENTITIES = (
    ("<skipped>", ""),
    ("-\n", ""),
    ("\n", " "),
    ("&quot;", '"'),
    ("&amp;", "&"),
    ("&lt;", "<"),
    ("&gt;", ">"),
)
_FENCE = re.compile(r"\A\s*```[\w-]*[ \t]*\n(.*?)\n?```\s*\Z", re.DOTALL)


def strip_fence(text: str) -> str:
    """Return a text without the code fence that a model may put around it."""
    match = _FENCE.match(text)
    return match[1] if match else text


def tokens(text: str, tokenizer: Tokenizer = "auto") -> list[str]:
    """Split a text into tokens; only `"auto"` and `"word"` drop marks and fold capital letters."""
    match tokenizer:
        case "13a":
            return _thirteen_a(text)
        case "zh":
            return _thirteen_a(_CHARACTER.sub(r" \1 ", text))
        case "char":
            return list("".join(text.split()))
        case "word":
            return _fold(_WORD.findall(text))
        case "auto":
            return _fold(_WORD_OR_CHARACTER.findall(text))


def count_characters(text: str) -> int:
    """Count the letters of scripts without blanks, not their punctuation."""
    return sum(character.isalnum() for character in _CHARACTER.findall(text))


def count_words(text: str) -> int:
    """Count the words of scripts with blanks: what stands between blanks and has a letter or digit."""
    return sum(bool(_WORD.search(word)) for word in _CHARACTER.sub(" ", text).split())


def missing_and_surplus(actual: Sequence[str], expected: Sequence[str]) -> tuple[Counter[str], Counter[str]]:
    """Return the expected tokens that are missing, and the actual ones not expected, with their counts."""
    actual_counts, expected_counts = Counter(actual), Counter(expected)
    return expected_counts - actual_counts, actual_counts - expected_counts


def is_unspaced(character: str) -> bool:
    """Return whether a character is of a script that has no blanks between words."""
    return _CHARACTER.fullmatch(character) is not None


def _fold(words: list[str]) -> list[str]:
    return [word.casefold() if word.isascii() else normalize("NFKC", word).casefold() for word in words]


def _thirteen_a(text: str) -> list[str]:
    """Tokenise like mteval-v13a, as sacrebleu does."""
    text = text.rstrip()
    for entity, meaning in _ENTITIES:
        text = text.replace(entity, meaning)
    text = f" {text} "
    for pattern, replacement in _MARK_SPACING:
        text = pattern.sub(replacement, text)
    return text.split()


_ABBREVIATIONS = (
    "mr|mrs|ms|dr|prof|sr|jr|st|vs|etc|e\\.g|i\\.e|approx|no|vol|fig|inc|ltd|co|corp|u\\.s|u\\.k|a\\.m|p\\.m|"
    "т\\.е|т\\.к|т\\.д|т\\.п|г|гг|ул|рис|см|др|пр"
)
_ENDS = re.compile(
    r"(?<=[。！？；])[\"'”’」』）)]*"  # full-width ends need no blank after them
    r"|(?<=[.!?…؟۔।])[\"'”’»)\]]*\s+(?=[^\s\da-zа-яё])"  # a lower-case letter or a digit does not begin a sentence
    r"|\n+"
)
_ABBREVIATED = re.compile(rf"(?:^|[\s(\"'«])(?:{_ABBREVIATIONS}|[A-ZА-ЯЁ])\.$", re.IGNORECASE)
_LONGEST_ABBREVIATION = 20
"""More characters than any has, with what stands before it."""


def sentences(text: str) -> tuple[str, ...]:
    """Split a text into sentences: at full stops, question and exclamation marks of any script, and line ends.

    Common abbreviations and initials (`Dr.`, `e.g.`, `J. Smith`) do not end a sentence, nor do decimal points.
    """
    parts: list[str] = []
    start = 0
    for end in _ENDS.finditer(text):
        tail = text[max(start, end.start() - _LONGEST_ABBREVIATION) : end.end()].strip()
        if "\n" not in end.group() and _ABBREVIATED.search(tail):
            continue
        parts.append(text[start : end.end()].strip())
        start = end.end()
    parts.append(text[start:].strip())
    return tuple(part for part in parts if any(character.isalnum() for character in part))


def f_score(precision: float, recall: float, beta: float = 1.0) -> float:
    """Return F = (1 + b^2) P R / (b^2 P + R); 0 where either is 0."""
    if not precision or not recall:
        return 0.0
    weight = beta**2
    return (1 + weight) * precision * recall / (weight * precision + recall)


def f_of_counts(right: int, wrong: int, left_out: int, beta: float = 1.0) -> float:
    """Return F from counts of right, wrong and left-out items: (1 + b^2) TP / ((1 + b^2) TP + b^2 FN + FP)."""
    weight = beta**2
    return (1 + weight) * right / ((1 + weight) * right + weight * left_out + wrong) if right else 0.0


EPSILON = 1e-10
"""Added by ragas to a denominator, so that a perfect score is 0.9999999999."""


def for_retriever(judge: Metric, sample: Sample, advice: str = "") -> str:
    """Return feedback for the retriever: a note that no rewrite of the answer can help, and the advice."""
    note = judge.say("note", sample)
    return f"{note}\n{advice}" if advice else note


def average_precision(relevant: Sequence[bool], *, epsilon: float = 0.0) -> float:
    """Return the mean of precision@k over the ranks k of relevant items; 0 if there are none.

    AP = sum_k(precision@k * v_k) / (sum_k v_k + epsilon), with v_k 1 or 0.
    """
    hits = 0
    total = 0.0
    for rank, is_relevant in enumerate(relevant, 1):
        if is_relevant:
            hits += 1
            total += hits / rank
    return total / (hits + epsilon) if hits else 0.0
