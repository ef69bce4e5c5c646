"""The Porter stemmer with the extensions of NLTK, as used by the common ROUGE implementation: English only."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_IRREGULAR = {
    **{word: word for word in (
        "sky", "news", "inning", "outing", "canning", "howe", "proceed", "exceed", "succeed",
    )},
    "skies": "sky", "dying": "die", "lying": "lie", "tying": "tie",
    "innings": "inning", "outings": "outing", "cannings": "canning",
}  # fmt: skip
_PLURALS = (("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", ""))
_LONG = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("bli", "ble"),
    ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate"),
    ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"),
    ("iviti", "ive"), ("biliti", "ble"), ("fulli", "ful"),
)  # fmt: skip
_MIDDLE = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""),
)  # fmt: skip
_SHORT = tuple(
    (ending, "")
    for ending in (
        "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate",
        "iti", "ous", "ive", "ize",
    )
)  # fmt: skip


def stem(word: str) -> str:
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
    """Whether a stem ends like `hop`, or is like `at`; Porter's *o."""
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
    return _replace(word, _LONG, lambda rest, _: _measure(rest) > 0)


def _middle(word: str) -> str:
    return _replace(word, _MIDDLE, lambda rest, _: _measure(rest) > 0)


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
