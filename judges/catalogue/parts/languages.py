"""The language of a text: by its script, then by py3langid, which is behind the extra `language`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any
from unicodedata import name as character_name

from judges.catalogue.parts.similarity import import_extra
from judges.errors import ConfigurationError, shortened

_CODES = (
    "af ar az be bg bn ca cs cy da de el en es et eu fa fi fr ga gl gu he hi hr hu hy id is it ja ka kk km kn ko "
    "lo lt lv mk ml mn mr ms my ne nl no pa pl ps pt ro ru sk sl sq sr sv sw ta te th tl tr uk ur uz vi zh"
)
_KNOWN = tuple(_CODES.split())
_SCRIPTS: Mapping[str, str] = {
    "ARABIC": "ar fa ps ur",
    "ARMENIAN": "hy",
    "BENGALI": "bn",
    "CJK": "zh ja ko",
    "CYRILLIC": "be bg kk mk mn ru sr uk uz",
    "DEVANAGARI": "hi mr ne",
    "GEORGIAN": "ka",
    "GREEK": "el",
    "GUJARATI": "gu",
    "GURMUKHI": "pa",
    "HANGUL": "ko",
    "HEBREW": "he",
    "HIRAGANA": "ja",
    "KANNADA": "kn",
    "KATAKANA": "ja",
    "KHMER": "km",
    "LAO": "lo",
    "MALAYALAM": "ml",
    "MYANMAR": "my",
    "TAMIL": "ta",
    "TELUGU": "te",
    "THAI": "th",
}
_OTHER_THAN_LATIN = {language for languages in _SCRIPTS.values() for language in languages.split()} - {"sr", "uz"}
_NOT_PROSE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+|\S+@\S+|<[^<>\n]*>", re.DOTALL)
_SURE, _LIKELY, _UNLIKELY = 0.5, 0.2, 0.05
_MOST_READ = 5_000


def checked_language(language: str, *, judge: str) -> str:
    """Return the code of a language without its region: `"pt"` for `"pt-BR"`.

    Raises:
        ConfigurationError: If it is no code of a language that can be told from others.
    """
    code = str(language).replace("_", "-").partition("-")[0].lower()
    if code not in _KNOWN:
        known = ", ".join(_KNOWN)
        raise ConfigurationError(f"{judge}: language is one of {known}, not {shortened(language)}")
    return code


def prose(text: str) -> str:
    """Return a text without code, addresses and tags, cut to its first 5,000 characters."""
    return _NOT_PROSE.sub(" ", text[: 4 * _MOST_READ])[:_MOST_READ]


def language_in(text: str, *, judge: str) -> str | None:
    """Return the language that a text is most likely in, or None if that is less likely than not."""
    (language, likelihood), *_ = _ranking(text, judge) or [("", 0.0)]
    return language if likelihood >= _SURE else None


def language_between(question: str, answer: str, *, judge: str) -> str | None:
    """Return the language a short question wants, the answer's if it may be that; None if it does not show."""
    likelihoods = dict(_ranking(question, judge))
    best = max(likelihoods, key=lambda language: likelihoods[language])
    if likelihoods[best] < _LIKELY:
        return None
    other = language_in(answer, judge=judge)
    if other is None:
        return None
    if likelihoods[other] >= likelihoods[best] / 3:
        return other
    return best if likelihoods[other] < _UNLIKELY else None


def is_in(text: str, language: str, *, judge: str) -> bool | None:
    """Whether a text is in a language; None if it is too short to tell."""
    script = script_in(text)
    if script is None:
        return None
    if language not in _languages_of(script):
        return False
    ranking = _ranking(text, judge)
    best, likelihood = ranking[0]
    if best == language:
        return True
    return False if likelihood >= _SURE and dict(ranking).get(language, 0.0) < _UNLIKELY else None


def script_in(text: str) -> str | None:
    """Return the script of most letters of a text, by its name in Unicode; None without letters."""
    letters = Counter(character for character in text if character.isalpha())
    scripts: Counter[str] = Counter()
    for letter, count in letters.items():
        scripts[character_name(letter, "").partition(" ")[0]] += count
    return scripts.most_common(1)[0][0] if scripts else None


def _languages_of(script: str) -> frozenset[str]:
    if script == "LATIN":
        return frozenset(_KNOWN) - _OTHER_THAN_LATIN
    return frozenset(_SCRIPTS.get(script, "").split())


def _ranking(text: str, judge: str) -> list[tuple[str, float]]:
    ranked: list[tuple[str, float]] = load_identifier(judge).rank(text)
    return ranked


@cache
def load_identifier(judge: str) -> Any:
    """Load the model of py3langid for the languages known here, once.

    Raises:
        ConfigurationError: If it is not installed.
    """
    langid = import_extra("py3langid.langid", extra="language", judge=judge)
    identifier = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
    identifier.set_languages(_KNOWN)
    return identifier
