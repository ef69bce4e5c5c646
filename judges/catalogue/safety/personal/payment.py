"""Payment cards and bank accounts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from judges.catalogue.safety.personal.finding import Finding
from judges.catalogue.safety.personal.labels import CARD, Labels
from judges.catalogue.safety.personal.plain import Plain

_CARD = re.compile(
    r"(?<![A-Za-z0-9_\u00c0-\u04ff])(?<![A-Za-z0-9][./+-])(?<!\d,)"
    r"\d(?:[ -]?\d){12,18}(?![./-]?\d|,\d{3}(?!\d))(?![A-Za-z_\u00c0-\u04ff])"
)
_BRANDS = re.compile(
    r"4\d{15}|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}|3[47]\d{13}"
    r"|6(?:011|4[4-9]\d|5\d\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}|62\d{14,17}|220[0-4]\d{12}|81\d{14}"
)
"""Lengths and beginnings in use: Visa, Mastercard, Amex, Discover, JCB, UnionPay, Mir."""

_RARE = re.compile(r"4\d{12}(?:\d{6})?|(?:30[0-5]|309|36\d|3[89]\d)\d{11}|(?:50|5[6-9]|6\d)\d{10,17}|9792\d{12}")
"""Beginnings that many other numbers have: Diners Club, Maestro, old Visa."""

_DINERS = re.compile(r"(?:30[0-5]\d|36\d\d|3[89]\d\d)([ -])\d{6}\1\d{4}")
_USUAL = re.compile(r"\d{4}([ -])\d{4}\1\d{4}\1\d{4}(?:\1\d{3})?|\d{4}([ -])\d{6}\2\d{4,5}|\d+")


_CODE = re.compile(r"[=(\[{<]\s*$")
"""What stands before a number in code."""


def cards(plain: Plain) -> Iterator[Finding]:
    """Find numbers of payment cards: with the check digit, in a length and with a beginning that are in use."""
    from stdnum import luhn  # noqa: PLC0415 - an extra, imported on demand

    labels = Labels(plain)
    for match in _CARD.finditer(plain.text):
        digits = re.sub(r"\D", "", match.group())
        if len(set(digits)) == 1 or not luhn.is_valid(digits):
            continue
        labelled = labels.names(CARD, *match.span())
        in_code = _CODE.search(plain.text, max(0, match.start() - 4), match.start())
        usual = bool(_BRANDS.fullmatch(digits) and _USUAL.fullmatch(match.group()) and not in_code)
        usual = usual or (_DINERS.fullmatch(match.group()) is not None and not in_code)
        known = _BRANDS.fullmatch(digits) or _RARE.fullmatch(digits)
        if (labelled and known) or (usual and not labels.names_other(match.start(), CARD)):
            yield Finding("card", match.start(), match.end())


_IBAN_START = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}[ -]?\d{2}[ -]?(?=[A-Za-z0-9])")
_SHORTEST_IBAN, _LONGEST_IBAN = 15, 34


def ibans(plain: Plain) -> Iterator[Finding]:
    """Find international bank account numbers, with their country's format and check digits."""
    from stdnum import iban  # noqa: PLC0415 - an extra, imported on demand

    for match in _IBAN_START.finditer(plain.text):
        end = _iban_end(plain.text, match.start(), iban.is_valid)
        if end:
            yield Finding("iban", match.start(), end, plain.text[match.start() : match.start() + 2].upper())


def _iban_end(text: str, start: int, is_valid: Callable[[str], bool]) -> int:
    """Return where a valid account number that begins at `start` ends; 0 if none does."""
    characters: list[str] = []
    place = start
    while place < len(text) and len(characters) <= _LONGEST_IBAN:
        character = text[place]
        if character.isascii() and character.isalnum():
            characters.append(character)
        elif character not in " -" or text[place - 1] in " -":
            break
        place += 1
        at_end = place >= len(text) or not (text[place].isascii() and text[place].isalnum())
        if at_end and len(characters) >= _SHORTEST_IBAN and is_valid("".join(characters)):
            return place
    return 0
