"""All personal data and secrets in a text that rules can find."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Annotated

from judges.catalogue.safety.personal.contact import emails, phones
from judges.catalogue.safety.personal.finding import KINDS, Finding, Kind, Plain, without_overlaps
from judges.catalogue.safety.personal.national import COUNTRIES, cards, ibans, national_ids
from judges.catalogue.safety.personal.secrets import secrets
from judges.errors import ConfigurationError, shortened
from judges.sample import Sample
from judges.settings import means

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


_TAIL = 8
"""A number is the same in its national and its international form where this many last characters are."""

_SHORTEST = 3


class Allowed:
    """Texts that may stand in an answer.

    Raises:
        ConfigurationError: If one of them is no text, or has fewer than three letters and digits.
    """

    def __init__(
        self,
        texts: Annotated[
            Iterable[str], means("Values in any way of writing, or `@` and a domain for all its e-mail addresses.")
        ],
    ) -> None:
        values: tuple[object, ...] = (texts,) if isinstance(texts, str) else tuple(texts)
        for value in values:
            if not isinstance(value, str) or len(_key(value)) < _SHORTEST:
                raise ConfigurationError(
                    f"allow lists values such as 'help@shop.com', '@shop.com' or '+1 415 555 0132', "
                    f"not {shortened(value)}"
                )
        listed = [str(value).strip() for value in values]
        self._domains = tuple(value.lower() for value in listed if value.startswith("@"))
        self._keys = frozenset(_key(value) for value in listed if not value.startswith("@"))

    def __contains__(self, value: object) -> bool:
        """Whether a text is allowed."""
        text = str(value).strip()
        return _key(text) in self._keys or text.lower().endswith(self._domains)


def user_text(sample: Sample) -> str:
    """Return what the user wrote, as letters and digits alone, to look values up in."""
    texts = [message.content for message in sample.conversation if message.role == "user"]
    return "\n".join(_key(text) for text in texts)


def is_of_user(finding: Finding, value: str, text: str) -> bool:
    """Whether the user gave a value, in this or another way of writing.

    Args:
        finding: The finding.
        value: Its text.
        text: What the user wrote; see `user_text`.
    """
    key = _key(value)
    return bool(key) and (key in text or (finding.kind == "phone" and key[-_TAIL:] in text))


def _key(text: str) -> str:
    return "".join(character for character in Plain(text).folded if character.isalnum())
