"""All personal data and secrets in a text that rules can find."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from judges.catalogue.safety.personal.contact import emails, phones
from judges.catalogue.safety.personal.finding import KINDS, Finding, Kind, without_overlaps
from judges.catalogue.safety.personal.national import national_ids
from judges.catalogue.safety.personal.national_formats import COUNTRIES
from judges.catalogue.safety.personal.payment import cards, ibans
from judges.catalogue.safety.personal.plain import Plain
from judges.catalogue.safety.personal.secrets import secrets

PHONE_REGIONS = (
    "US", "GB", "CN", "RU", "DE", "FR", "ES", "IT", "PT", "BR", "IN", "JP", "KR", "TW", "HK", "UA", "KZ", "BY",
    "PL",
    "NL", "BE", "CH", "AT", "SE", "NO", "DK", "FI", "IE", "CZ", "SK", "HU", "RO", "BG", "GR", "TR", "IL", "AE",
    "SA",
    "EG", "MX", "AR", "CL", "CO", "PE", "AU", "NZ", "ZA", "SG", "MY", "ID", "TH", "VN", "PK", "CA",
)  # fmt: skip
"""The countries whose national phone numbers are known, the likeliest first."""


def find(text: str, *, kinds: Collection[Kind] = KINDS, countries: Collection[str] | None = None) -> list[Finding]:
    """Return the personal data and secrets in a text, in order of their places.

    Args:
        text: The text.
        kinds: The kinds to look for.
        countries: ISO codes of the countries whose national numbers count; None takes all that are known.
    """
    plain = Plain(text)
    regions = PHONE_REGIONS if countries is None else tuple(sorted(countries))
    packs = COUNTRIES if countries is None else countries
    findings = without_overlaps(one for one in _all(plain, regions, packs) if one.kind in kinds)
    places = [(finding, plain.original(finding.start, finding.end)) for finding in findings]
    return [replace(finding, start=start, end=end) for finding, (start, end) in places]


def _all(plain: Plain, regions: Collection[str], packs: Collection[str]) -> Iterator[Finding]:
    yield from secrets(plain)
    yield from emails(plain)
    if any(character.isdecimal() for character in plain.text):
        yield from ibans(plain)
        yield from cards(plain)
        yield from national_ids(plain, packs)
        yield from phones(plain, tuple(regions))
