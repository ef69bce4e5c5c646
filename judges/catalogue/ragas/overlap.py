"""Overlap of texts without a model, after ragas: BLEU, chrF, ROUGE, distances of strings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, Unpack, get_args
from unicodedata import normalize

from judges.catalogue.metric import MetricSettings
from judges.catalogue.parts.similarity import DistanceMeasure, Likeness, distance_of, import_extra
from judges.catalogue.parts.text import Tokenizer, f_score, tokens
from judges.entry import own_tables
from judges.errors import CannotJudge, ConfigurationError, one_line, shortened, unfit
from judges.sample import Sample


def _bind_settings(
    score: Callable[..., Any], settings: Mapping[str, object], *, setting: str
) -> Callable[..., Any]:
    """Return a function of sacrebleu with settings bound, after a trial call.

    Raises:
        ConfigurationError: If it does not accept a setting, or its value.
    """
    bound = partial(score, **settings)
    try:
        bound(["word"], [["word"]])
    except Exception as error:
        raise ConfigurationError(
            f"{setting}: {score.__name__} takes no {shortened(dict(settings))}: {one_line(error)}"
        ) from error
    return bound


class BleuScore(Likeness, entry="ragas.bleu_score"):
    """Judge by BLEU: the share of the answer's n-grams of one to four tokens that occur in the reference.

    Score = brevity penalty * geometric mean of the precisions, of one sentence, over the orders there are, with
    exponential smoothing, as sacrebleu counts.

    With `variant="compat"` it is ragas' number: both texts are cut at `". "`, and the first piece of the answer
    alone is compared, with all pieces of the reference as alternatives; it needs four tokens.

    Raises:
        ConfigurationError: If a setting is unknown, or the extra is not installed.
    """

    def __init__(
        self,
        *,
        tokenizer: Tokenizer = "auto",
        lowercase: bool = False,
        kwargs: Mapping[str, object] = MappingProxyType({}),
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(**settings)
        auto: Tokenizer = "13a" if self.compat else "zh"
        self._tokenizer = auto if tokenizer == "auto" else tokenizer
        self._lowercase = lowercase
        self._whole = "tokenize" in kwargs
        defaults = {"tokenize": "none", "force": True, "use_effective_order": not self.compat}
        corpus_bleu = import_extra("sacrebleu", extra="sacrebleu", judge=self.name).corpus_bleu
        self._bleu = _bind_settings(corpus_bleu, {**defaults, **kwargs}, setting="kwargs")

    def likeness(self, response: str, reference: str) -> float:
        """Return BLEU, from 0 to 1."""
        pieces = [[text] if not self.compat else text.split(". ") for text in (response, reference)]
        hypotheses, references = ([self._tokenize(text) for text in texts] for texts in pieces)
        return float(self._bleu(hypotheses, [[text] for text in references]).score / 100)

    def _tokenize(self, text: str) -> str:
        cased = text.lower() if self._lowercase else text
        return cased if self._whole else " ".join(tokens(cased, self._tokenizer))


class ChrfScore(Likeness, entry="ragas.chrf_score"):
    """Judge by chrF: the F-score of the n-grams of one to six characters, without blanks, that both texts share.

    It suits all scripts. `word_order=2` counts word n-grams as well (chrF++).

    Raises:
        ConfigurationError: If a setting is out of its range, or the extra is not installed.
    """

    def __init__(
        self,
        *,
        char_order: int = 6,
        word_order: int = 0,
        beta: int = 2,
        lowercase: bool = False,
        kwargs: Mapping[str, object] = MappingProxyType({}),
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(**settings)
        defaults = {"char_order": char_order, "word_order": word_order, "beta": beta}
        corpus_chrf = import_extra("sacrebleu", extra="sacrebleu", judge=self.name).corpus_chrf
        self._chrf = _bind_settings(corpus_chrf, {**defaults, **kwargs}, setting="kwargs")
        self._lowercase = lowercase

    def likeness(self, response: str, reference: str) -> float:
        """Return chrF, from 0 to 1."""
        if not response.strip() or not reference.strip():
            return 0.0
        hypothesis, expected = (text.lower() if self._lowercase else text for text in (response, reference))
        return float(self._chrf([hypothesis], [[expected]]).score / 100)


_PORTER = own_tables(__file__, "porter.toml")
_IRREGULAR: Mapping[str, str] = _PORTER["irregular"]
_PLURALS = (("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", ""))
_SHORT = tuple((ending, "") for ending in _PORTER["short"])


def _stem(word: str) -> str:
    """Strip the endings of a lower-case English word.

    Source: M. Porter, An algorithm for suffix stripping, Program 14(3), 1980.
    """
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 2:  # noqa: PLR2004 - nothing to strip
        return word
    for step in (_singular, _present, _with_i, _long, _middle, _short, _without_e, _without_l):
        word = step(word)
    return word


def _shape(word: str) -> str:
    """Return a word as `c` for consonants and `v` for vowels; y is a vowel after a consonant."""
    shape: list[str] = []
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape[-1:] == ["c"])
        shape.append("v" if vowel else "c")
    return "".join(shape)


def _measure(stem: str) -> int:
    """Count how often a vowel is followed by a consonant."""
    return _shape(stem).count("vc")


def _is_short(stem: str) -> bool:
    """Return whether a stem ends like `hop`, or is like `at`; Porter's *o."""
    shape = _shape(stem)
    return shape == "vc" or (shape.endswith("cvc") and stem[-1] not in "wxy")


def _replace(
    word: str, rules: Sequence[tuple[str, str]], allowed: Callable[[str, str], bool] = lambda _stem, _end: True
) -> str:
    """Apply the first rule whose ending the word has, if its stem allows it; no later rule is tried."""
    for ending, replacement in rules:
        if word.endswith(ending):
            rest = word[: len(word) - len(ending)]
            return rest + replacement if allowed(rest, ending) else word
    return word


def _singular(word: str) -> str:
    return word[:-1] if len(word) == 4 and word.endswith("ies") else _replace(word, _PLURALS)  # noqa: PLR2004 - dies


def _present(word: str) -> str:
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]  # noqa: PLR2004 - died
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) else word
    rest = next((word[: -len(ending)] for ending in ("ed", "ing") if word.endswith(ending)), "")
    if "v" not in _shape(rest):
        return word
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if rest[-1] == rest[-2:-1] and _shape(rest).endswith("c"):
        return rest if rest[-1] in "lsz" else rest[:-1]
    return rest + "e" if _measure(rest) == 1 and _is_short(rest) else rest


def _with_i(word: str) -> str:
    changes = word.endswith("y") and len(word) > 2 and _shape(word[:-1]).endswith("c")  # noqa: PLR2004 - not `by`
    return word[:-1] + "i" if changes else word


def _long(word: str) -> str:
    if word.endswith("alli") and _measure(word[:-4]):
        return _long(word[:-2])
    if word.endswith("logi"):
        return word[:-1] if _measure(word[:-3]) else word
    return _replace(word, _PORTER["long"], lambda rest, _: _measure(rest) > 0)


def _middle(word: str) -> str:
    return _replace(word, _PORTER["middle"], lambda rest, _: _measure(rest) > 0)


def _short(word: str) -> str:
    return _replace(
        word, _SHORT, lambda rest, ending: _measure(rest) > 1 and (ending != "ion" or rest[-1] in "st")
    )


def _without_e(word: str) -> str:
    rest = word[:-1]
    strips = word.endswith("e") and (_measure(rest) > 1 or (_measure(rest) == 1 and not _is_short(rest)))
    return rest if strips else word


def _without_l(word: str) -> str:
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


_CELLS = 4e10
"""Largest table of two texts that is still compared, in cells of one bit: a few seconds."""


def _common_ends(a: Sequence[str], b: Sequence[str]) -> tuple[int, int]:
    """Return the lengths of the common beginning of two sequences, and of the common end of the rest."""
    most = min(len(a), len(b))
    head = next((place for place in range(most) if a[place] != b[place]), most)
    most -= head
    tail = next((place for place in range(most) if a[-1 - place] != b[-1 - place]), most)
    return head, tail


def _check_length(a: Sequence[str], b: Sequence[str]) -> None:
    """Check that comparing two texts cell by cell takes no more than a few seconds.

    Raises:
        CannotJudge: `undefined`, if it would.
    """
    if len(a) * len(b) > _CELLS:
        raise CannotJudge("undefined", f"texts of {len(a)} and {len(b)} are too long to be compared")


def _common_subsequence(a: Sequence[str], b: Sequence[str], *, block: int = 8192) -> int:
    """Return the length of the longest common subsequence, exactly.

    Bit-parallel after Hyyrö (2004), a block of `a` at a time: O(n * m / 64), in little memory.

    Raises:
        CannotJudge: `undefined`, if the parts between the common ends would take more than a few seconds.
    """
    head, tail = _common_ends(a, b)
    shared = set(a) & set(b)
    left, right = ([token for token in text[head : len(text) - tail] if token in shared] for text in (a, b))
    _check_length(left, right)
    carries = bytearray(len(right))
    middle = sum(_common_in(left[start : start + block], right, carries) for start in range(0, len(left), block))
    return head + middle + tail


def _common_in(block: Sequence[str], other: Sequence[str], carries: bytearray) -> int:
    """Return the contribution of one block to the common subsequence; `carries` pass from block to block."""
    places: dict[str, int] = {}
    for place, token in enumerate(block):
        places[token] = places.get(token, 0) | 1 << place
    full = (1 << len(block)) - 1
    rows = full
    for place, token in enumerate(other):
        where = places.get(token, 0)
        carry = carries[place]
        if where or carry:
            hits = rows & where
            total = rows + hits + carry
            carries[place] = total > full
            rows = (total | (rows - hits)) & full
    return len(block) - rows.bit_count()


_RougeType = Literal["rouge1", "rouge2", "rougeL"]
_RougeMode = Literal["fmeasure", "precision", "recall"]
_ENGLISH = re.compile(r"[a-z0-9]+")
_LONGEST_AS_IS = 3


class RougeScore(Likeness, entry="ragas.rouge_score"):
    """Judge by ROUGE: single tokens, pairs, or the longest sequence that answer and reference share.

    Precision = shared / those of the answer; recall = shared / those of the reference; F = their harmonic mean.

    With `variant="compat"` tokens are the runs of a-z and 0-9, as in the package rouge_score, so that Chinese has
    none and scores 0.

    Raises:
        ConfigurationError: If a setting is unknown.
    """

    def __init__(
        self,
        *,
        rouge_type: _RougeType = "rougeL",
        mode: _RougeMode = "fmeasure",
        tokenizer: Tokenizer = "auto",
        use_stemmer: bool = True,
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(**settings)
        if tokenizer != "auto" and self.compat:
            raise ConfigurationError("variant='compat' has a tokenizer of its own; leave tokenizer out")
        self._type, self._mode, self._tokenizer, self._stems = rouge_type, mode, tokenizer, use_stemmer

    def likeness(self, response: str, reference: str) -> float:
        """Return ROUGE, from 0 to 1."""
        response_tokens, reference_tokens = self._tokens(response), self._tokens(reference)
        if not self.compat and not reference_tokens:
            raise CannotJudge("undefined", "the reference has no word to look for")
        if self._type == "rougeL":
            return self._value(
                _common_subsequence(response_tokens, reference_tokens), len(response_tokens), len(reference_tokens)
            )
        ngrams, others = (_ngrams(words, int(self._type[-1])) for words in (response_tokens, reference_tokens))
        return self._value((ngrams & others).total(), ngrams.total(), others.total())

    def _value(self, shared: int, in_response: int, in_reference: int) -> float:
        precision, recall = shared / max(in_response, 1), shared / max(in_reference, 1)
        if self._mode == "fmeasure":
            return f_score(precision, recall)
        return precision if self._mode == "precision" else recall

    def _tokens(self, text: str) -> list[str]:
        words = _ENGLISH.findall(text.lower()) if self.compat else tokens(text, self._tokenizer)
        if not self._stems:
            return words
        stems = {one: _stem(one) for one in set(words) if len(one) > _LONGEST_AS_IS and _ENGLISH.fullmatch(one)}
        return [stems.get(word, word) for word in words]


def _ngrams(words: Sequence[str], length: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[start:] for start in range(length)), strict=False))


class NonLLMStringSimilarity(Likeness, entry="ragas.non_llm_string_similarity"):
    """Judge the edit distance between answer and reference.

    Score = 1 - normalised distance. Hamming counts the surplus of the longer text as differences.

    Raises:
        ConfigurationError: If a setting is unknown, or the extra is not installed.
    """

    def __init__(
        self,
        *,
        distance_measure: DistanceMeasure = "levenshtein",
        normalize: Collection[_Normalization] = (),
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(**settings)
        self._distance = distance_of(distance_measure, judge=self.name)
        self._linear = self._distance.measure == "hamming"
        self._normalize = _checked_normalization(normalize)

    def likeness(self, response: str, reference: str) -> float:
        """Return 1 - normalised distance."""
        answer, expected = (_normalize_text(text, self._normalize) for text in (response, reference))
        if answer == expected:
            return 1.0
        if not self._linear:
            same = sum(_common_ends(answer, expected)) if self._distance.measure == "levenshtein" else 0
            _check_length(answer[same:], expected[same:])
        return 1 - self._distance(expected, answer)


_Normalization = Literal["nfkc", "trim", "casefold"]
"""Differences removed before texts are compared: character forms, outer and repeated blanks, capital letters."""


def _checked_normalization(names: Collection[_Normalization]) -> frozenset[_Normalization]:
    """Return the names of normalisations as a set.

    Raises:
        ConfigurationError: If one is unknown.
    """
    allowed = get_args(_Normalization)
    if isinstance(names, str) or not set(names) <= set(allowed):
        raise unfit(f"normalize is a list of any of {', '.join(allowed)}", names)
    return frozenset(names)


def _normalize_text(text: str, by: Collection[_Normalization]) -> str:
    """Apply normalisations to a text."""
    if "nfkc" in by:
        text = normalize("NFKC", text)
    if "trim" in by:
        text = " ".join(text.split())
    return text.casefold() if "casefold" in by else text


class _Normalized(Likeness):
    """The base of judges that compare texts as wholes, which may be normalised first."""

    def __init__(self, *, normalize: Collection[_Normalization] = (), **settings: Unpack[MetricSettings]) -> None:
        super().__init__(**settings)
        self._normalize = _checked_normalization(normalize)


class ExactMatch(_Normalized, entry="ragas.exact_match"):
    """Judge whether the answer equals the reference exactly."""

    def likeness(self, response: str, reference: str) -> float:
        """Return 1 if the texts are the same, else 0."""
        return float(_normalize_text(response, self._normalize) == _normalize_text(reference, self._normalize))


class StringPresence(_Normalized, entry="ragas.string_presence"):
    """Judge whether the reference occurs in the answer, word for word."""

    def likeness(self, response: str, reference: str) -> float:
        """Return 1 if the reference occurs in the answer, else 0."""
        return float(_normalize_text(reference, self._normalize) in _normalize_text(response, self._normalize))

    def advice(self, sample: Sample, response: str, reference: str) -> str:  # noqa: ARG002 - the base passes all
        """Return feedback that a text is absent, with its length alone."""
        return self.say("absent", sample, wanted=len(reference))
