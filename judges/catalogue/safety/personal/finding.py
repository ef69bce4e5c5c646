"""What is found: its kind and its place, never its text."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal[
    "private_key",
    "api_key",
    "token",
    "password",
    "iban",
    "card",
    "email",
    "national_id",
    "passport",
    "phone",
    "name",
    "address",
]
"""The kinds of personal data and secrets; of two that overlap the one listed first counts."""

KINDS: tuple[Kind, ...] = get_args(Kind)
BY_MODEL: frozenset[Kind] = frozenset(("name", "address"))
"""The kinds that no rule finds, only a model."""


@dataclass(frozen=True)
class Finding:
    """One item of personal data or one secret.

    Args:
        kind: What it is.
        start: Index of its first character in the text.
        end: Index behind its last character.
        country: ISO code of the country that issues it; empty where there is none.
    """

    kind: Kind
    start: int
    end: int
    country: str = ""

    def __len__(self) -> int:
        return self.end - self.start


def without_overlaps(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings in order of their places; of those that overlap, the graver kind, then the longer one."""
    ranked = sorted(findings, key=lambda finding: (KINDS.index(finding.kind), -len(finding), finding.start))
    taken: list[Finding] = []
    for finding in ranked:
        place = bisect(taken, finding.start, key=_start)
        is_behind = place == 0 or taken[place - 1].end <= finding.start
        is_before = place == len(taken) or finding.end <= taken[place].start
        if is_behind and is_before:
            taken.insert(place, finding)
    return taken


def _start(finding: Finding) -> int:
    return finding.start
