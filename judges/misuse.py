"""What to say where a judge is asked for by a wrong name, or with wrong settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from difflib import SequenceMatcher, get_close_matches
from typing import Any

from judges.entry import Setting
from judges.errors import one_line, shortened
from judges.rival_settings import instead_of, own_name
from judges.settings import accepted_by, settings_of

_LONGEST_NAME = 80
_LONGEST_MEANING = 60
_ALIKE = 0.5
_MUCH = 0.2
_SIGNATURE = re.compile(r"^[\w.<>]+\(\)(?= (?:got|missing|takes) )")
_CALLED = re.compile(r"(\S+?)\((.*)\)")
_FIRST_SENTENCE = re.compile(r"[.;:](?:\s|$)")


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


def misspelt(name: object, known: Container[object]) -> str:
    """Return how to write what was given as one judge's name; empty where it reads like a name.

    Args:
        name: What was given.
        known: The names there are.
    """
    if isinstance(name, type):
        return f"a class is called: {name.__name__}(...)"
    if not isinstance(name, str):
        return ""
    parts = [part.strip() for part in name.split(",")]
    if len(parts) > 1 and all(part in known for part in parts):
        return f"name each by itself: {parts} in a list, or --judge {' --judge '.join(parts)}"
    called = _CALLED.fullmatch(name.strip())
    if called is not None and called[1] in known:
        return f"settings follow a colon: {called[1]}{':' * bool(called[2])}{called[2]}"
    return ""


def misuse(make: Callable[..., object], name: str, settings: Mapping[str, Any], error: Exception) -> str:
    """Describe in one line why a judge cannot be made with these settings."""
    text = one_line(error)
    if isinstance(error, TypeError) and _SIGNATURE.match(text):
        text = one_line(str(error).partition("; ")[0])
        return f"{_SIGNATURE.sub(f'the judge {name!r}', text)}{_hint(make, settings, text)}"
    values = ", ".join(f"{setting}={shortened(value)}" for setting, value in settings.items())
    return f"the judge {name!r} cannot be made with {values or 'no settings'}: {text}"


def refuse_misuse(kind: type, arguments: Sequence[object], settings: Mapping[str, object]) -> None:
    """Check that a judge's class takes these settings, and say what to use instead of one that it does not have.

    What is missing is left to Python, which names it.

    Args:
        kind: The class.
        arguments: What it is called with by position.
        settings: What it is called with by name.

    Raises:
        TypeError: If a setting is unknown, or is given by position where only its name is taken.
    """
    accepted = accepted_by(kind)
    if accepted is None:
        return
    unknown = [setting for setting in settings if setting not in accepted.names]
    if unknown:
        text = f"{kind.__name__}() got an unexpected keyword argument {unknown[0]!r}"
    elif accepted.by_position is not None and len(arguments) > accepted.by_position:
        taken = accepted.by_position + 1
        text = (
            f"{kind.__name__}() takes {taken} positional argument{'s' * (taken > 1)} "
            f"but {len(arguments) + 1} were given"
        )
    else:
        return
    raise TypeError(f"{text}{_hint(kind, settings, text)}")


def _hint(make: Callable[..., object], settings: Mapping[str, Any], text: str) -> str:
    known = {setting.name: setting for setting in settings_of(make)}
    unknown = [setting for setting in settings if setting not in known]
    if unknown and known:
        return f"; {_about_unknown(unknown[0], tuple(known))}"
    if "positional argument" in text and " takes " in text:
        if "judges" in known:
            return "; give the judges as one list"
        no_model = "" if {"model", "embeddings"} & known.keys() else "it asks no model, and "
        return f"; {no_model}its settings are named: {', '.join(known)}"
    missing = re.findall(r"'(\w+)'", text.partition(" missing ")[2])
    return f"; give {' and '.join(_about_missing(known.get(setting), setting) for setting in missing)}" * bool(
        missing
    )


def _about_unknown(name: str, known: Collection[str]) -> str:
    listed = f"nown are {', '.join(known)}"
    instead = f"here it is {own}=..." if (own := own_name(name, known)) else instead_of(name, known)
    if instead:
        return f"{instead}; k{listed}"
    near = get_close_matches(name[:_LONGEST_NAME], known, n=1)
    return f"did you mean {near[0]!r}? K{listed}" if near else f"k{listed}"


def _about_missing(setting: Setting | None, name: str) -> str:
    if setting is None or not setting.meaning:
        return f"{name}=..."
    purpose = _FIRST_SENTENCE.split(setting.meaning)[0]
    return f"{name}=... ({one_line(purpose[:1].lower() + purpose[1:], longest=_LONGEST_MEANING)})"
