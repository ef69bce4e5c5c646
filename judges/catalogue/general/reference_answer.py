"""An answer beside the expected one: equivalence, overlap of tokens, METEOR."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Protocol, Unpack
from unicodedata import category, normalize

from judges.catalogue.metric import MetricSettings, ModelJudge, ModelSettings
from judges.catalogue.parts.fields import answer_in, question_of, reference_in
from judges.catalogue.parts.questions import finding_schema
from judges.catalogue.parts.similarity import Likeness, import_extra
from judges.catalogue.parts.text import Tokenizer, f_of_counts, tokens
from judges.entry import own_tables
from judges.errors import CannotJudge, ConfigurationError
from judges.prompting.prompts import Question
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict

_UNITS: Mapping[str, Mapping[str, float]] = own_tables(__file__, "units.toml")["units"]
"""Factors to one unit of each dimension, by the names of units; currencies are not converted."""

_FAHRENHEIT = frozenset(["°f", "f", "fahrenheit", "华氏度"])
_CELSIUS = frozenset(["°c", "c", "celsius", "摄氏度", "℃"])
_UNIT_OF = {
    name: (dimension, factor)
    for dimension, units in _UNITS.items()
    for names, factor in units.items()
    for name in names.split()
}
_TIMES: Mapping[str, float] = own_tables(__file__, "units.toml")["times"]
_MAGNITUDE = "|".join(sorted(_TIMES, key=len, reverse=True))
_QUANTITY = re.compile(
    rf"(?P<before>[€$£¥₽]?)\s*(?P<sign>[-+\u2212]?)\s*(?P<number>\d[\d.,' \u00a0\u202f]*(?<![ ,'])|\.\d+)"
    rf"(?:\s*(?P<times>{_MAGNITUDE})\.?)?\s*(?P<unit>[^\d\s].{{0,30}})?",
    re.DOTALL,
)
_GROUPED = re.compile(r"\d{1,3}(?:([,.' \u00a0\u202f])\d{3})(?:\1\d{3})*")
_BITS = re.compile(r"[kKMGT]b\b")
"""Bits, which only a small letter tells from bytes: not converted."""

_LONGEST = 60
_PRECISION = 1e-9
_ROUNDED = 0.05
"""Largest difference, as a share, that may come of rounding a converted number."""


@dataclass(frozen=True)
class _Quantity:
    """A number with its dimension.

    Args:
        values: What the number may be in the dimension's unit: two values where a mark may group or divide.
        dimension: Name of the dimension; empty without a unit.
        factor: What its own unit is of the dimension's unit.
    """

    values: tuple[float, ...]
    dimension: str
    factor: float = 1.0


def _quantity_in(text: str) -> _Quantity | None:
    """Return the quantity that a text is; None if it is none, or has other words in it."""
    if len(text) > _LONGEST or _BITS.search(text):
        return None
    text = text.strip().removesuffix(".").strip().casefold()
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    name = f"{match['before']} {match['unit'] or ''}".strip().removesuffix(".")
    numbers = _readings(match["number"])
    scale = _TIMES.get(match["times"] or "", 1.0) * (-1 if match["sign"] in ("-", "\u2212") else 1)
    if not numbers or not all(math.isfinite(number * scale) for number in numbers):
        return None
    values = [number * scale for number in numbers]
    if name in _CELSIUS:
        return _Quantity(tuple(value + 273.15 for value in values), "kelvin")
    if name in _FAHRENHEIT:
        return _Quantity(tuple((value + 459.67) * 5 / 9 for value in values), "kelvin", 5 / 9)
    if not name:
        return _Quantity(tuple(values), "")
    dimension, factor = _UNIT_OF.get(name, ("", 0.0))
    return _Quantity(tuple(value * factor for value in values), dimension, factor) if dimension else None


def _same_quantity(a: _Quantity, b: _Quantity, *, tolerance: float) -> bool | None:
    """True if two quantities are equal; None where a unit, a mark of the number or a conversion leaves it open.

    A number that was converted from another unit may have been rounded (`62 mph` for `100 km/h`).

    Args:
        a: A quantity.
        b: The other one.
        tolerance: Largest difference, as a share of the larger value.
    """
    if bool(a.dimension) != bool(b.dimension):
        return None
    if a.dimension != b.dimension:
        return False
    pairs = [(x, y) for x in a.values for y in b.values]
    equal = [math.isclose(x, y, rel_tol=max(tolerance, _PRECISION)) for x, y in pairs]
    if a.factor != b.factor and not any(equal) and any(math.isclose(x, y, rel_tol=_ROUNDED) for x, y in pairs):
        return None
    if len(equal) == 1 or not any(equal):
        return equal[0]
    return True if len(a.values) != len(b.values) else None


def _readings(number: str) -> tuple[float, ...]:
    """Return what a number may stand for: `1,234` is 1234, or 1.234 where the comma divides."""
    plain = re.sub(r"[' \u00a0\u202f]", "", number)
    if number.strip() != plain and not _well_grouped(number):
        return ()
    marks = [character for character in plain if character in ",."]
    if not marks:
        return (float(plain),)
    if len(set(marks)) > 1:  # the last one divides
        whole, _, decimals = plain.rpartition(marks[-1])
        other = "," if marks[-1] == "." else "."
        return (float(f"{whole.replace(other, '')}.{decimals}"),) if marks.count(marks[-1]) == 1 else ()
    digits = plain.replace(marks[0], "")
    if len(marks) > 1:
        return (float(digits),) if _GROUPED.fullmatch(plain) else ()
    divided = float(plain.replace(",", "."))
    grouped = _GROUPED.fullmatch(plain) is not None and plain[0] != "0" and " " not in number
    return (float(digits), divided) if grouped else (divided,)


def _well_grouped(number: str) -> bool:
    whole = re.split(r"[.,](?=\d*$)", number)[0]
    return _GROUPED.fullmatch(whole) is not None


_Stage = Literal["numbers", "text", "model"]

_EQUIVALENCE: Question[Any] = Question(prompt="equivalence", reply=finding_schema())
_OUTER = "\"'“”„«»‘’「」『』 \t\r\n"
_ENDS = ".!?…。！？"
_ARTICLE = re.compile(r"^(?:the|an?)\s+(?=\S)", re.IGNORECASE)


class Equivalence(ModelJudge, entry="equivalence", pack="equivalence"):
    """Judge whether the answer says the same as the reference; the detail names the stage that decided.

    1. `numbers`: both are a number with or without a unit: equal ones pass, different ones fail. 2. `text`: both
    are the same but for case (in texts without digits), quotation marks, blanks, the full stop and an article at
    the beginning. 3. `model`: the rest, and the only stage that is a call.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    def __init__(self, model: object = None, *, tolerance: float = 0.0, **settings: Unpack[ModelSettings]) -> None:
        self._tolerance = float(tolerance)
        super().__init__(model, questions=(_EQUIVALENCE,), **settings)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Compare numbers, then text, and ask only where both leave it open."""
        answer, reference = answer_in(sample), reference_in(sample)
        same, stage = self._decided(answer, reference)
        if same is not None:
            rationale = f"The {stage} of answer and reference {'agree' if same else 'differ'}."
            feedback = "" if same else self.say("different", sample)
            return Verdict.checked(same, rationale=rationale, feedback=feedback, detail=f"decided by {stage}")
        data = {**question_of(sample), "reference": reference, "answer": answer}
        reply = yield from self.ask(_EQUIVALENCE, sample, data)
        feedback = "" if reply.verdict else reply.feedback
        return Verdict.checked(
            reply.verdict, rationale=reply.rationale, feedback=feedback, detail="decided by model"
        )

    def _decided(self, answer: str, reference: str) -> tuple[bool | None, _Stage]:
        """Return what numbers or text decide, and which of them; None leaves it to the model."""
        quantities = _quantity_in(answer), _quantity_in(reference)
        if quantities[0] is not None and quantities[1] is not None:
            same = _same_quantity(quantities[0], quantities[1], tolerance=self._tolerance)
            if same is not None:
                return same, "numbers"
        if _normalized(answer) == _normalized(reference):
            return True, "text"
        return None, "model"


def _normalized(text: str) -> str:
    """Return a text without the differences that never matter; `C` and `C++` differ, as `5 mW` and `5 MW` do."""
    plain = " ".join(normalize("NFKC", text).split())
    folded = plain if any(map(str.isdigit, plain)) else plain.casefold()
    bare = folded.strip(_OUTER).rstrip(_ENDS).strip(_OUTER)
    return _ARTICLE.sub("", bare or folded)


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_ASCII_MARKS = str.maketrans("", "", string.punctuation)


class TokenF1(Likeness, entry="token_f1"):
    """Judge the answer by the F1 of its words and the reference's, without case, punctuation and articles.

    F1 = 2 P R / (P + R) over words with their numbers. Scripts without blanks count by the character; with
    `variant="compat"` words are what stands between blanks, as in the script of SQuAD.
    """

    def likeness(self, response: str, reference: str) -> float:
        """Return F1, from 0 to 1; of texts without words 1 if both are, else 0."""
        actual, expected = Counter(self._words(response)), Counter(self._words(reference))
        if not actual or not expected:
            return float(actual == expected)
        common = (actual & expected).total()
        return f_of_counts(common, actual.total() - common, expected.total() - common)

    def _words(self, text: str) -> list[str]:
        bare = text.lower().translate(_ASCII_MARKS)
        if self.compat:
            return _ARTICLES.sub(" ", bare).split()
        bare = "".join(character for character in bare if not category(character).startswith("P"))
        return tokens(_ARTICLES.sub(" ", bare), "auto")


_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
_NO_WORDNET = (
    "synonyms=True needs WordNet on this machine: run `python -m nltk.downloader wordnet` once, or leave it out"
)


class Meteor(Likeness, entry="meteor"):
    """Judge by METEOR: how many words answer and reference share, and in how few runs they stand.

    F = P R / (alpha P + (1 - alpha) R) over aligned words; score = F (1 - gamma (runs / aligned words) ^ beta).
    Words are aligned by spelling, what is left by stem (English by Porter's, Russian by Snowball's algorithm), as
    nltk does. Synonyms are left out unless `synonyms` is set, because they need the data of WordNet, which is
    downloaded apart; without them a score is at most that of implementations that have them.

    With `variant="compat"` marks count as words, stems are Porter's alone and equal texts score below 1, as in
    nltk; its defaults include `synonyms=True`.

    Raises:
        ConfigurationError: If a setting is out of its range, the extra is not installed, or WordNet is needed and
            missing.
    """

    def __init__(
        self,
        *,
        synonyms: bool = False,
        alpha: float = 0.9,
        beta: float = 3.0,
        gamma: float = 0.5,
        tokenizer: Tokenizer = "auto",
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(**settings)
        auto: Tokenizer = "13a" if self.compat else "auto"
        self._tokenizer = auto if tokenizer == "auto" else tokenizer
        self._weights = {"alpha": float(alpha), "beta": float(beta), "gamma": float(gamma)}
        self._synonyms = bool(synonyms)
        import_extra("nltk.translate.meteor_score", extra="meteor", judge=self.name)
        if self._synonyms:
            _check_wordnet()

    def likeness(self, response: str, reference: str) -> float:
        """Return METEOR, from 0 to 1."""
        actual, expected = (self._words(text) for text in (response, reference))
        if not self.compat and not expected:
            raise CannotJudge("undefined", "the reference has no word to look for")
        nltk = _nltk()
        stemmer = nltk.english if self.compat else _ByScript(nltk)
        wordnet = nltk.wordnet if self._synonyms else _NoSynonyms()
        return nltk.score(expected, actual, stemmer=stemmer, wordnet=wordnet, **self._weights)

    def _words(self, text: str) -> list[str]:
        words = tokens(text, self._tokenizer)
        if self._tokenizer != "auto":
            return words
        return [
            word for word in words if word.isalnum() or len(word) > 1
        ]  # scripts without blanks keep their marks


class _Stemmer(Protocol):
    def stem(self, word: str) -> str: ...


@dataclass(frozen=True)
class _Nltk:
    """What is used of nltk, which takes seconds to import."""

    score: Callable[..., float]
    english: _Stemmer
    russian: _Stemmer
    wordnet: Any


@dataclass(frozen=True)
class _ByScript:
    """A stemmer that takes Cyrillic words for Russian, and all others for English."""

    nltk: _Nltk

    def stem(self, word: str) -> str:
        """Return the stem of a lower-case word."""
        return (self.nltk.russian if _CYRILLIC.search(word) else self.nltk.english).stem(word)


class _NoSynonyms:
    """Stands where nltk looks synonyms up, and knows none."""

    def synsets(self, word: str) -> tuple[()]:
        """Return nothing."""
        del word
        return ()


@cache
def _nltk() -> _Nltk:
    from nltk.corpus import wordnet  # noqa: PLC0415 - an extra, imported on demand
    from nltk.stem.porter import PorterStemmer  # noqa: PLC0415
    from nltk.stem.snowball import SnowballStemmer  # noqa: PLC0415
    from nltk.translate.meteor_score import single_meteor_score  # noqa: PLC0415

    return _Nltk(single_meteor_score, PorterStemmer(), SnowballStemmer("russian"), wordnet)


def _check_wordnet() -> None:
    try:
        _nltk().wordnet.ensure_loaded()
    except (LookupError, OSError):
        raise ConfigurationError(_NO_WORDNET) from None
