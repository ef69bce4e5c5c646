"""What other libraries call the settings of judges, and the functions that read it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from enum import Enum
from typing import Any

from judges.entry import own_tables
from judges.errors import ConfigurationError

_TABLES = own_tables(__file__, "hints.toml")
_SAME: Mapping[str, list[str]] = {
    name: called.split(", ") for called, names in _TABLES["same"].items() for name in names
}
_INSTEAD: Mapping[str, str] = {
    name: hint.replace("{name}", name) for hint, names in _TABLES["instead"].items() for name in names
}
_WORDS = {name: word for word, names in _TABLES["words"].items() for name in names}

_MARKS = {"success_rating": "the rating", "threshold": "the score"}
_PASS_MARKS = (*_MARKS, "strict_mode")
_ALIKE = 0.8


def translate_settings(settings: Mapping[str, Any], setting_names: Collection[str]) -> dict[str, Any]:
    """Return settings by the names that they have here.

    Args:
        settings: Settings as they were given; what the judge has itself, or nobody knows, stays as it is.
        setting_names: The settings of the judge.

    Raises:
        ConfigurationError: If one setting is given under two names.
    """
    result = {name: value for name, value in settings.items() if name in setting_names}
    for name, value in settings.items():
        if name in setting_names:
            continue
        setting_name, setting_value = _own_setting(name, value, setting_names)
        if setting_name in result:
            raise ConfigurationError(f"{name} and {setting_name} are one setting here; leave out {name}")
        result[setting_name] = setting_value
    return result


def instead_of(name: str, setting_names: Collection[str]) -> str:
    """Return what to use instead of a setting that a judge does not have; empty where nothing is known of it."""
    near = get_close_matches(name, _PASS_MARKS, n=1, cutoff=_ALIKE)
    mark = near[0] if near else name
    if mark in _PASS_MARKS and mark not in setting_names:
        hints = (
            f"{setting_name}=... is {what} from which it passes"
            for setting_name, what in _MARKS.items()
            if setting_name in setting_names
        )
        hint = next(hints, "")
        if hint:
            return hint if mark == name else f"did you mean {mark!r}? Here {hint}"
    return _INSTEAD.get(name, "")


def own_name(name: str, setting_names: Collection[str]) -> str:
    """Return what a setting of another library is called here; empty where the judge has none such."""
    return next((candidate for candidate in _SAME.get(name, ()) if candidate in setting_names), "")


def _own_setting(name: str, value: Any, setting_names: Collection[str]) -> tuple[str, Any]:
    if name == "strict_mode" and isinstance(value, bool) and "threshold" in setting_names:
        return ("threshold", 1.0 if value else None)
    setting_name = own_name(name, setting_names) or name
    return setting_name, other_word(setting_name, value)


def other_word(name: str, value: Any) -> Any:
    """Return what another library's word for a value is called here; a member of an enumeration is its value."""
    plain = value.value if isinstance(value, Enum) else value
    return _WORDS.get(plain, plain) if name in ("mode", "match") and isinstance(plain, str) else plain
