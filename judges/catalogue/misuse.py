"""What to say where a judge is asked for by a wrong name, or with wrong settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from difflib import SequenceMatcher, get_close_matches
from typing import Any

from judges.catalogue.rival_settings import instead_of
from judges.entry import Setting
from judges.errors import one_line, shortened
from judges.settings import settings_of

_LONGEST_NAME = 80
_LONGEST_MEANING = 60
_ALIKE = 0.5
_MUCH = 0.2
_SIGNATURE = re.compile(r"^[\w.<>]+\(\)(?= (?:got|missing|takes) )")
_FIRST_SENTENCE = re.compile(r"[.;:](?:\s|$)")

_GUESSES = {
    **dict.fromkeys(
        ("get", "get_judge", "make", "create", "build", "judge", "load_judge"),
        "judges.load('helpfulness', model=...) makes a judge by its name",
    ),
    **dict.fromkeys(
        ("list", "list_judges", "names", "available", "all", "registry", "find", "search", "describe"),
        "judges.catalogue() lists all judges, as `refine judges` does",
    ),
    **dict.fromkeys(
        ("evaluate", "compare", "rank"), "it is in judges.offline: from judges.offline import evaluate"
    ),
    **dict.fromkeys(("aevaluate",), "it is in judges.offline: from judges.offline import aevaluate"),
    **dict.fromkeys(("ScriptedModel", "ScriptedJudge"), "it is in judges.testing"),
}


def similar_names(name: str, names: Collection[str]) -> list[str]:
    """Return the names most similar to `name`, the likeliest first; those in another case come last.

    Names that are much less similar than the likeliest one are left out.
    """
    text = name[:_LONGEST_NAME]
    folded = {known.casefold(): known for known in names}
    exact = get_close_matches(text, names, n=5, cutoff=_ALIKE)
    near = [*exact, *(folded[one] for one in get_close_matches(text.casefold(), folded, n=5, cutoff=_ALIKE))]
    likeness = {one: SequenceMatcher(None, text.casefold(), one.casefold()).ratio() for one in near}
    return [one for one in near if likeness[one] >= max(likeness.values()) - _MUCH]


def misuse(make: Callable[..., object], name: str, settings: Mapping[str, Any], error: Exception) -> str:
    """Describe in one line why a judge cannot be made with these settings."""
    text = one_line(error)
    if isinstance(error, TypeError) and _SIGNATURE.match(text):
        return f"{_SIGNATURE.sub(f'the judge {name!r}', text)}{_hint(make, settings, text)}"
    values = ", ".join(f"{setting}={shortened(value)}" for setting, value in settings.items())
    return f"the judge {name!r} cannot be made with {values or 'no settings'}: {text}"


def attribute_hint(name: str) -> str:
    """Return what to use instead of an attribute that the package does not have; empty where nothing is known."""
    of_a_class = f"a judge of the catalogue is made by judges.load({name!r}, ...)" if name[:1].isupper() else ""
    return _GUESSES.get(name, of_a_class)


def _hint(make: Callable[..., object], settings: Mapping[str, Any], text: str) -> str:
    known = {setting.name: setting for setting in settings_of(make)}
    unknown = [setting for setting in settings if setting not in known]
    if unknown and known:
        return f"; {_about_unknown(unknown[0], tuple(known))}"
    if "positional argument" in text and " takes " in text:
        return f"; it asks no model, and its settings are named: {', '.join(known)}"
    missing = re.findall(r"'(\w+)'", text.partition(" missing ")[2])
    return f"; give {' and '.join(_about_missing(known.get(setting), setting) for setting in missing)}" * bool(
        missing
    )


def _about_unknown(name: str, known: Collection[str]) -> str:
    listed = f"nown are {', '.join(known)}"
    instead = instead_of(name, known)
    if instead:
        return f"{instead}; k{listed}"
    near = get_close_matches(name[:_LONGEST_NAME], known, n=1)
    return f"did you mean {near[0]!r}? K{listed}" if near else f"k{listed}"


def _about_missing(setting: Setting | None, name: str) -> str:
    if setting is None or not setting.meaning:
        return f"{name}=..."
    purpose = _FIRST_SENTENCE.split(setting.meaning)[0]
    return f"{name}=... ({one_line(purpose[:1].lower() + purpose[1:], longest=_LONGEST_MEANING)})"
