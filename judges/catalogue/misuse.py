"""What to say where a judge is asked for by a wrong name, or with wrong settings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Any

from judges.errors import one_line, shortened
from judges.runtime.validation import suggestion

_LONGEST_NAME = 80
_ALIKE = 0.5
_SIGNATURE = re.compile(r"^[\w.<>]+\(\)(?= (?:got|missing|takes) )")


def similar_names(name: str, names: Collection[str]) -> list[str]:
    """Return the names most similar to `name`, the likeliest first; those in another case come last."""
    text = name[:_LONGEST_NAME]
    folded = {known.casefold(): known for known in names}
    exact = get_close_matches(text, names, n=5, cutoff=_ALIKE)
    return [*exact, *(folded[near] for near in get_close_matches(text.casefold(), folded, n=5, cutoff=_ALIKE))]


def misuse(make: Callable[..., object], name: str, settings: Mapping[str, Any], error: Exception) -> str:
    """Describe in one line why a judge cannot be made with these settings."""
    text = one_line(error)
    if isinstance(error, TypeError) and _SIGNATURE.match(text):
        return f"{_SIGNATURE.sub(f'the judge {name!r}', text)}{_hint(make, settings, text)}"
    values = ", ".join(f"{setting}={shortened(value)}" for setting, value in settings.items())
    return f"the judge {name!r} cannot be made with {values or 'no settings'}: {text}"


def _hint(make: Callable[..., object], settings: Mapping[str, Any], text: str) -> str:
    known = _settings_of(make)
    unknown = [setting for setting in settings if setting not in known]
    if unknown and known:
        return f"; {suggestion(unknown[0], known)}"
    missing = re.findall(r"'(\w+)'", text.partition(" missing ")[2])
    return f"; give {', '.join(f'{setting}=...' for setting in missing)}" if missing else ""


def _settings_of(make: Callable[..., object]) -> set[str]:
    """Return the names of a judge's settings: those of its class and, where it passes on others, of its bases."""
    names: set[str] = set()
    makers = [vars(kind).get("__init__") for kind in inspect.getmro(make)] if isinstance(make, type) else [make]
    for function in filter(None, makers):
        parameters = inspect.signature(function).parameters.values()
        names |= {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
        if all(one.kind is not one.VAR_KEYWORD for one in parameters):
            break
    return names - {"self"}
