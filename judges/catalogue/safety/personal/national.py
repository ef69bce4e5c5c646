"""Identity numbers, by the packs of countries."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from importlib import import_module

from judges.catalogue.safety.personal import national_checks
from judges.catalogue.safety.personal.finding import Finding
from judges.catalogue.safety.personal.labels import Labels
from judges.catalogue.safety.personal.national_formats import FORMATS, Format
from judges.catalogue.safety.personal.plain import Plain


def national_ids(plain: Plain, countries: Collection[str]) -> Iterator[Finding]:
    """Find identity and passport numbers.

    Args:
        plain: The text.
        countries: ISO codes of the packs to use.
    """
    labels = Labels(plain)
    for entry in FORMATS:
        wanted = not entry.country or entry.country in countries
        if wanted and (entry.alone or labels.any(entry.labels)):
            for match in _compiled(entry.pattern, any_case=bool(entry.check)).finditer(plain.text):
                if _is_issued(entry, labels, match):
                    yield Finding(entry.kind, match.start(), match.end(), entry.country)


def _is_issued(entry: Format, labels: Labels, match: re.Match[str]) -> bool:
    """Whether a text is such a number: valid, and called so or written like no other."""
    number = match.group()
    alone = bool(entry.alone) and number == number.upper() and re.fullmatch(entry.alone, number) is not None
    if not (alone or labels.any(entry.labels)) or not _is_valid(entry, number):
        return False
    if labels.names(entry.labels, *match.span()):
        return True
    return alone and not labels.names_other(match.start(), entry.labels)


def _is_valid(entry: Format, number: str) -> bool:
    compact = re.sub(r"[^A-Za-z0-9]", "", number).upper()
    if not any(map(str.isdecimal, compact)) or len(set(compact)) == 1:
        return False
    return not entry.check or _check_of(entry.check)(number if entry.check in _KEEPS_FORM else compact)


_KEEPS_FORM = frozenset(("se.personnummer", "fi.hetu"))
"""Checks that need the sign between date and number, which tells the century."""


@lru_cache(maxsize=128)
def _check_of(name: str) -> Callable[[str], bool]:
    """Return a check by its name: one of ours, or `is_valid` of a module of `stdnum`."""
    room, _, own = name.partition(".")
    check: Callable[[str], bool] = (
        getattr(national_checks, own) if room == "own" else import_module(f"stdnum.{name}").is_valid
    )
    return check


@lru_cache(maxsize=256)
def _compiled(pattern: str, *, any_case: bool) -> re.Pattern[str]:
    before = r"(?<![A-Za-z0-9_\u00c0-\u04ff])(?<![A-Za-z0-9][./+-])(?<!\d,)"
    after = r"(?![A-Za-z0-9_]|[./-][A-Za-z0-9]|,\d{3}(?!\d))"
    return re.compile(f"{before}(?:{pattern}){after}", re.IGNORECASE if any_case else 0)
