"""Identity numbers, by the packs of countries."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from importlib import import_module

from judges.catalogue.safety.personal import national_checks
from judges.catalogue.safety.personal.finding import Finding
from judges.catalogue.safety.personal.labels import is_labelled, is_something_else
from judges.catalogue.safety.personal.national_formats import FORMATS, Format
from judges.catalogue.safety.personal.plain import Plain


def national_ids(plain: Plain, countries: Collection[str]) -> Iterator[Finding]:
    """Find identity and passport numbers.

    Args:
        plain: The text.
        countries: ISO codes of the packs to use.
    """
    for entry in FORMATS:
        if entry.country and entry.country not in countries:
            continue
        for match in _compiled(entry.pattern).finditer(plain.text):
            if _is_issued(entry, plain, match):
                yield Finding(entry.kind, match.start(), match.end(), entry.country)


def _is_issued(entry: Format, plain: Plain, match: re.Match[str]) -> bool:
    """Whether a text is such a number: valid, and called so or written like no other."""
    if not _is_valid(entry, match.group()):
        return False
    before, after = plain.before(match.start()), plain.after(match.end())
    if is_labelled(entry.labels, before, after):
        return True
    number = match.group()
    alone = bool(entry.alone) and number == number.upper() and re.fullmatch(entry.alone, number) is not None
    return alone and not is_something_else(before, entry.labels)


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
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?<![A-Za-z0-9_\u00c0-\u04ff])(?<![A-Za-z0-9][.,/+-])(?:{pattern})(?![A-Za-z0-9_]|[.,/-][A-Za-z0-9])",
        re.IGNORECASE,
    )
