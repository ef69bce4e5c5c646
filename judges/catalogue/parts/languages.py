"""The language of a text, by its script, then by py3langid; and the languages that a text asks for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from unicodedata import name as character_name

from judges.catalogue.parts.similarity import import_extra
from judges.entry import own_tables
from judges.errors import unfit

_CODES = (
    "af ar az be bg bn ca cs cy da de el en es et eu fa fi fr ga gl gu he hi hr hu hy id is it ja ka kk km kn ko "
    "lo lt lv mk ml mn mr ms my ne nl no pa pl ps pt ro ru sk sl sq sr sv sw ta te th tl tr uk ur uz vi zh"
)
_KNOWN = tuple(_CODES.split())
_SCRIPTS: Mapping[str, str] = own_tables(__file__, "languages.toml")["scripts"]
_OTHER_THAN_LATIN = {language for languages in _SCRIPTS.values() for language in languages.split()} - {"sr", "uz"}
_NOT_PROSE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+|(?<![^\s>`])\S+@\S+|<[^<>\n]*>", re.DOTALL)
_SURE = 0.5
"""Likelihood from which on a text is in a language."""
_LIKELY = 0.2
"""Likelihood of its best language from which on a short question tells one."""
_UNLIKELY = 0.05
"""Likelihood below which a text is not in a language."""
_MOST_READ = 5_000


def checked_language(language: str, *, judge: str) -> str:
    """Return the code of a language without its region: `"pt"` for `"pt-BR"`.

    Raises:
        ConfigurationError: If it is no code of a language that can be told from others.
    """
    code = str(language).replace("_", "-").partition("-")[0].lower()
    if code not in _KNOWN:
        codes = ", ".join(_KNOWN)
        raise unfit(f"{judge}: language is one of {codes}", language)
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
    """Return whether a text is in a language; None if it is too short to tell."""
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


_NAMES: Mapping[str, str] = own_tables(__file__, "languages.toml")["names"]
"""The names of languages in the languages in which they are asked for; Russian ones without their endings."""

_CODE_BY_NAME: Mapping[str, str] = {
    name.strip(): code for code, names in _NAMES.items() for name in names.split("|")
}


def english_name(code: str) -> str:
    """Return the English name of a language with a known code: `"German"` for `"de"`."""
    return _NAMES[code].partition("|")[0].strip().title()


def _either(words: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


_SPACED = _either(name for name in _CODE_BY_NAME if re.match(r"[a-zа-яà-ÿ]", name))
_UNSPACED = _either(name for name in _CODE_BY_NAME if not re.match(r"[a-zа-яà-ÿ]", name))
_MENTION = re.compile(
    rf"(?:\b(?:in|into|to|en|auf|ins|em|al|au|po|на|speak|use)\s+(?:[^\W\d_]+\s+){{0,2}}?|\bпо-)(?P<spaced>{_SPACED})"
    rf"|(?P<unspaced>{_UNSPACED})",
    re.IGNORECASE,
)
"""Finds "in French", "en français", "по-французски"; a name in a script without spaces needs no word before it."""

_TO_ANSWER = re.compile(
    r"\b(?:answer|repl[yi]|respon[ds]|writ|speak|antwort|schreib|sprich|répon|écri|parle[zr]|respond|respuest|contest|"
    r"escrib|habl|respost|escrev|rispo[ns]|scriv)|отве[тч]|пиши|говори|回答|答复|回复|作答|答え|返信|回答|대답|답변|답해",
    re.IGNORECASE,
)
"""Finds the words that ask for an answer, and not for a word or a text in another language."""

_NOT = re.compile(
    r"\b(?:not|never|without|don['’]t|nicht|nie|kein\w*|pas|jamais|no|nunca|não|non|не|нельзя)\b|不要|别|勿|ない|말고|아니",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^.:!?。：！？\n]+[.:!?。：！？]*")
_NEAR = 30
"""Characters between the word that asks for an answer and the language that it asks for."""


@dataclass(frozen=True)
class _LanguagesNamed:
    """The languages that a text names as those to write in.

    Args:
        required: Those in which it tells to answer.
        allowed: Those that it names otherwise, as where it wants a translation.
    """

    required: frozenset[str] = frozenset()
    allowed: frozenset[str] = frozenset()


def languages_named(text: str) -> _LanguagesNamed:
    """Return the languages that a text tells to answer in, and those that it names besides.

    A question ("Can you answer in French?", "How do I answer that in French?") requires none, and what is
    forbidden ("not in French") is not named.
    """
    requests = [pair for sentence in _SENTENCE.findall(text) for pair in _named_in(sentence)]
    return _LanguagesNamed(
        required=frozenset(code for code, is_required in requests if is_required),
        allowed=frozenset(code for code, is_required in requests if not is_required),
    )


def _named_in(sentence: str) -> Iterator[tuple[str, bool]]:
    """Yield each language that a sentence names, and whether it tells to answer in it."""
    asks = sentence.rstrip().endswith(("?", "？"))
    for match in _MENTION.finditer(sentence):
        start, end = match.span()
        before, around = sentence[max(0, start - _NEAR) : start], sentence[max(0, start - _NEAR) : end + _NEAR]
        if _NOT.search(before) is None:
            yield (
                _CODE_BY_NAME[(match["spaced"] or match["unspaced"]).lower()],
                not asks and bool(_TO_ANSWER.search(around)),
            )
