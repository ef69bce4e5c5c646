"""Finds what is wrong with criteria of one's own before a model is asked: levels, double criteria, vague words.

It reads a file of judges, or a prompt of a pack, and needs no model. What it finds are faults of wording that make
judges disagree with people, or with themselves.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise
from math import inf
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from judges.catalogue.names import JudgesFile, JudgeSpec, is_reference
from judges.catalogue.registry import default_registry
from judges.entry import own_tables
from judges.errors import ConfigurationError, one_line, shortened
from judges.prompting.prompts import Prompt
from judges.settings import settings_of, translate_settings

_SAME_WORDS = 0.8
"""Share of common words from which two levels say the same."""

_LONGEST_CRITERION = 400
"""Characters above which a criterion is a list of them, in which "and" says nothing."""

_WORD = re.compile(r"[\u4e00-\u9fff]|[^\W\d_]+(?:[-'’][^\W\d_]+)*|\d+(?:[.,]\d+)*%?")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_NUMBER = r"(\d+(?:\.\d+)?)"
_UNIT = r"(?:\s*(%|[^\W\d_]+))?"
_BETWEEN = re.compile(
    rf"(?:{_NUMBER}\s*(?:-|–|to|bis|至|到|до)|between {_NUMBER} and)\s*{_NUMBER}{_UNIT}", re.IGNORECASE
)
_ABOVE = re.compile(
    rf"(?:(more than|over|above|>|超过|более|больше)|at least|≥|>=|至少|не менее)\s*"
    rf"{_NUMBER}{_UNIT}",
    re.IGNORECASE,
)
_BELOW = re.compile(
    rf"(?:(fewer than|less than|under|below|<|少于|менее|меньше)|at most|up to|no more than|≤|<=|至多|最多|"
    rf"не более|до)\s*{_NUMBER}{_UNIT}",
    re.IGNORECASE,
)
_OR_MORE = re.compile(
    rf"{_NUMBER}{_UNIT}\s+(?:or|and|и|или)\s+(?:more|above|longer|over|более|больше)", re.IGNORECASE
)
_OR_LESS = re.compile(rf"{_NUMBER}{_UNIT}\s+(?:or|and|и|или)\s+(?:fewer|less|below|менее|меньше)", re.IGNORECASE)
_ASKED = re.compile(
    r"(?:^|\band |\bbut |, )(?:is|are|does|do|has|have|can|was) (?:it|they|the|this|its|there|every|each|all)\b"
    r"|(?:^[^是]*|[，；且和]|以及)是否|(?:^|\bи )\w+ ли\b",
    re.IGNORECASE,
)
"""A question, also one that another begins: "Is it short and does it name the price?" """

_TWO_THINGS = re.compile(
    r"\b(?:name|give|mention|state|contain|include|list|show|quote)s? (?:the|an?|its|their) [\w-]+(?: [\w-]+)?"
    r",? and (?:the|an?|its|their) ",
    re.IGNORECASE,
)
"""In a requirement: "Does it name the price and the time?" """

_UNASKED = "none:unasked"
"""Names a model, so that a judge can be made; one that is named is created when it is asked, and this never is."""

_ITEM_SETTINGS = ("items", "guidelines", "global_guidelines")


@dataclass(frozen=True, kw_only=True)
class _LintFinding:
    """A fault of wording.

    Args:
        place: Where it stands: the file with its line, and the key.
        fault: What is wrong.
        remedy: What to do.
    """

    place: str
    fault: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.place}: {self.fault}; {self.remedy}"


def lint(path: str | Path) -> list[_LintFinding]:
    """Return what is wrong with the wording of the judges in a file, or of a prompt of a pack.

    Raises:
        ConfigurationError: If the file cannot be read as either.
    """
    file = Path(path)
    text, document = _read(file)
    if "judges" not in document and document.keys() & {*Prompt.model_fields}:
        listed = list(_of_prompt(document))
    else:
        specs = JudgesFile.read(file).specs
        listed = [fault for name, spec in specs.items() for fault in lint_judge(name, spec)]
    return [
        _LintFinding(place=f"{_line_of(text, file, one)}: {one.key}", fault=one.fault, remedy=one.remedy)
        for one in listed
    ]


@dataclass(frozen=True)
class _Fault:
    """A finding whose line is not known yet."""

    key: str
    text: str
    fault: str
    remedy: str


def _read(file: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = file.read_text(encoding="utf-8-sig")
        return text, tomllib.loads(text)
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be read: {error.strerror}; give the path of a judges.toml"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} is not valid TOML: {one_line(error)}") from None


def _line_of(text: str, file: Path, fault: _Fault) -> str:
    """Return the file with the line in which a faulty text, or else its table, begins."""
    parts = fault.key.split(".")
    table = text.find(f"[{'.'.join(parts[:2])}")
    start = max(0, table)
    place = text.find(fault.text[:30].split("\n")[0], start) if fault.text else -1
    return f"{file}:{text.count(chr(10), 0, place if place >= 0 else start) + 1}"


def _of_prompt(document: Mapping[str, Any]) -> Iterator[_Fault]:
    try:
        prompt = Prompt.model_validate(document)
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            key = ".".join(map(str, fault["loc"])) or "the file"
            fields_of_a_pack = f"a pack has {', '.join(Prompt.model_fields)}"
            yield _Fault(
                key, str(fault["loc"][-1]) if fault["loc"] else "", one_line(fault["msg"]), fields_of_a_pack
            )
        return
    yield from _of_levels("levels", prompt.levels)


def lint_judge(name: str, spec: JudgeSpec) -> Iterator[_Fault]:
    """Yield what is wrong with the wording of one judge."""
    key = f"judges.{name}"
    if is_reference(spec.name):  # code of the user's own, which is not run for this
        return
    try:
        if spec.takes_model:
            spec.load(model=_UNASKED)
    except ConfigurationError as error:
        yield _Fault(key, "", one_line(error), "mend the setting")
        return
    setting_names = [setting.name for setting in settings_of(default_registry().maker(spec.name))]
    settings = translate_settings(spec.settings, setting_names)
    needs = frozenset(default_registry().entry(spec.name).needs) | ({"tools"} if settings.get("tools") else set())
    remedies: set[str] = set()
    criteria = list(_criteria_in(key, settings))
    for (_, one), (place, other) in combinations(criteria, 2):
        if _without_degrees(one) == _without_degrees(other):
            yield _Fault(place, other, f"it asks the same as {shortened(one)}", "leave one out: it counts twice")
    for place, criterion in criteria:
        faults = list(_of_criterion(place, criterion, needs))
        remedies |= {one.remedy for one in faults}
        yield from faults
    for place, levels in _levels_in(key, settings):
        yield from _of_levels(place, levels)
        for level, text in levels.items():
            yield from (one for one in _unseen(f"{place}.{level}", text, needs) if one.remedy not in remedies)


def _criteria_in(key: str, settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in ("criteria", "definition"):
        if isinstance(settings.get(name), str):
            yield f"{key}.{name}", settings[name]
    for name in _ITEM_SETTINGS:
        listed = settings.get(name)
        for number, item in enumerate(
            listed if isinstance(listed, Sequence) and not isinstance(listed, str) else (), 1
        ):
            text = item.get("ask") if isinstance(item, Mapping) else item
            if isinstance(text, str):
                yield f"{key}.{name}.{number}", text
    for name, one in _dimensions_in(settings):
        yield f"{key}.dimensions.{name}.criteria", str(one.get("criteria", ""))


def _dimensions_in(settings: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    dimensions = settings.get("dimensions")
    listed = dimensions.items() if isinstance(dimensions, Mapping) else ()
    return [(name, one) for name, one in listed if isinstance(one, Mapping)]


def _levels_in(key: str, settings: Mapping[str, Any]) -> Iterator[tuple[str, dict[int, str]]]:
    tables = [(key, settings), *((f"{key}.dimensions.{name}", one) for name, one in _dimensions_in(settings))]
    for place, table in tables:
        levels = table.get("levels")
        if isinstance(levels, Mapping):
            yield f"{place}.levels", {int(level): str(text) for level, text in levels.items()}


def _of_criterion(key: str, text: str, needs: frozenset[str]) -> Iterator[_Fault]:
    if len(text) <= _LONGEST_CRITERION:
        yield from _doubled(key, text)
    for word in _found(text, "vague"):
        remedy = "say what can be seen in the answer instead, or describe it in the levels"
        yield _Fault(key, text, f"nobody can say where {word!r} begins", remedy)
    yield from _unseen(key, text, needs)


def _doubled(key: str, text: str) -> Iterator[_Fault]:
    """Yield that a criterion asks for two things: two questions, or two qualities that are joined."""
    remedy = (
        "write one criterion for each, for instance as `dimensions`, so that the verdict says which one failed"
    )
    if max(len(re.findall(r"[?？]", text)), len(_ASKED.findall(text))) > 1:
        yield _Fault(key, text, "it asks two questions", remedy)
        return
    if ".items." in key and _TWO_THINGS.search(text):
        yield _Fault(key, text, "it asks for two things", "write one item for each")
        return
    joined = _plain(text)
    qualities = _listed("qualities")
    named_qualities = sorted({one for one in qualities if _is_in(one, joined)}, key=joined.find)
    for first, second in pairwise(named_qualities):
        between = joined[joined.find(first) + len(first) : joined.find(second)]
        is_listed = re.search(rf"{re.escape(first)}\w*\s*[,，、]\s*{re.escape(second)}", text.casefold())
        if is_listed or any(_is_in(join, between) for join in _listed("joins")):
            yield _Fault(key, text, f"{first!r} and {second!r} are two criteria in one", remedy)
            return


def _unseen(key: str, text: str, needs: frozenset[str]) -> Iterator[_Fault]:
    plain = _plain(text)
    for name in sorted(_listed("shown"), key=len, reverse=True):
        plain = plain.replace(name, "")
    for kind in own_tables(__file__, "linting.toml")["unseen"]:
        words = [word for word in kind["words"].split(", ") if _is_in(word, plain)]
        if words and not any(need in one for need in kind["needs"] for one in needs):
            yield _Fault(
                key, text, f"it speaks of {words[0]!r}, which the judge need not be shown", kind["instead"]
            )


def _of_levels(key: str, levels: Mapping[int, str]) -> Iterator[_Fault]:
    bare = {level: _without_degrees(text) for level, text in levels.items()}
    remedy = "say what is seen at this level alone"
    for level, text in levels.items():
        if bare[level] <= _listed("places"):
            yield _Fault(
                f"{key}.{level}", text, f"{shortened(text)} says where it stands, not what is seen there", remedy
            )
    for one, other in combinations(sorted(levels), 2):
        if not bare[one] <= _listed("places") and len(bare[one] & bare[other]) >= _SAME_WORDS * len(
            bare[one] | bare[other]
        ):
            fault = (
                f"{shortened(levels[one])} and {shortened(levels[other])} overlap: they differ by how much alone"
            )
            yield _Fault(f"{key}.{other}", levels[other], fault, remedy)
    yield from _of_ranges(key, levels)


def _of_ranges(key: str, levels: Mapping[int, str]) -> Iterator[_Fault]:
    """Yield where levels count the same thing with ranges that overlap, or leave something between them."""
    ranges: dict[str, list[tuple[float, float, int]]] = {}
    units: dict[str, str] = {}
    for level, text in levels.items():
        for word, lowest, highest in _ranges_in(text):
            ranges.setdefault(_unit(word), []).append((lowest, highest, level))
            units.setdefault(_unit(word), f" {word}".rstrip())
    for kind, listed in ranges.items():
        ordered, unit = sorted(listed), units[kind]
        for (low, high, one), (next_low, _, other) in pairwise(ordered):
            remedy = "let each number belong to exactly one level"
            if one != other and (next_low <= high or next_low == low):
                fault = f"levels {one} and {other} overlap: {_number(next_low)}{unit} is in both"
                yield _Fault(f"{key}.{other}", levels[other], fault, remedy)
            elif next_low > high + 1:
                fault = f"between {_number(high)} and {_number(next_low)}{unit} there is no level"
                yield _Fault(f"{key}.{other}", levels[other], fault, remedy)
        if len({level for *_, level in ordered}) > 1 and max(high for _, high, _ in ordered) < inf:
            highest, last = max((high, level) for _, high, level in ordered)
            fault = f"it is unbounded: more than {_number(highest)}{unit} belong to no level"
            yield _Fault(f"{key}.{last}", levels[last], fault, "let a level say 'more than' or 'at least'")


def _ranges_in(text: str) -> Iterator[tuple[str, float, float]]:
    """Yield the ranges of whole numbers that a text names, each with what is counted."""
    rest = text
    for match in _BETWEEN.finditer(text):
        yield match[4] or "", float(match[1] or match[2]), float(match[3])
        rest = rest.replace(match[0], " ")
    for match in _BELOW.finditer(rest):
        yield match[3] or "", 0, float(match[2]) - (1 if match[1] else 0)
        rest = rest.replace(match[0], " ")  # "no more than 5" is not "more than 5"
    for match in _OR_LESS.finditer(rest):
        yield match[2] or "", 0, float(match[1])
    for match in _OR_MORE.finditer(rest):
        yield match[2] or "", float(match[1]), inf
    for match in _ABOVE.finditer(rest):
        yield match[3] or "", float(match[2]) + (1 if match[1] else 0), inf


def _unit(word: str) -> str:
    """Return what is counted in one form: 1 word, 2 words; 1 слово, 2 слова, 5 слов."""
    return word.casefold()[:3] if re.match(r"[\u0400-\u04ff]", word) else word.casefold().rstrip("s")


def _number(value: float) -> str:
    return f"{value:g}"


def _without_degrees(text: str) -> frozenset[str]:
    plain = _plain(text)
    if not _HAN.search(plain):
        return frozenset(plain.split()) - _listed("degrees")
    for word in sorted((*_listed("degrees"), *_listed("places")), key=len, reverse=True):
        plain = plain.replace(word, f" {word} " if word in _listed("places") else "")
    words = plain.split()
    return frozenset(words) if set(words) <= _listed("places") else frozenset("".join(words))


def _plain(text: str) -> str:
    return " ".join(word.casefold() for word in _WORD.findall(text)) if not _HAN.search(text) else text.casefold()


def _found(text: str, kind: str) -> list[str]:
    plain = _plain(text)
    return [word for word in sorted(_listed(kind), key=len, reverse=True) if _is_in(word, plain)][:1]


def _is_in(word: str, text: str) -> bool:
    """Return whether a word is in a text: Chinese anywhere, Russian as a beginning, English as a whole."""
    if _HAN.search(word):
        return word in text
    ending = r"" if re.search(r"[\u0400-\u04ff]{4}", word) else r"(?!\w)"
    return re.search(rf"(?<!\w){re.escape(word)}{ending}", text) is not None


@cache
def _listed(kind: str) -> frozenset[str]:
    listed = own_tables(__file__, "linting.toml")[kind]
    return frozenset(word.strip() for word in listed.split(",") if word.strip())
