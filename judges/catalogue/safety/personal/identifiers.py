"""E-mail and network addresses, phone and identity numbers, payment cards: formats, and checksums by country."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import date
from functools import cache, lru_cache
from importlib import import_module
from ipaddress import ip_address
from typing import Literal

from judges.catalogue.safety.personal.finding import CARD, PHONE, QUANTITY, REACH, Finding, Labels, Plain, words
from judges.entry import own_tables

_LONGEST_LOCAL = 64
"""Characters of an address before the @."""
_LONGEST_DOMAIN = 190
"""Characters after it."""
_WIDE = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_LOCAL = re.compile(rf"(?:(?![{_WIDE}])[\w.%+'-]){{1,{_LONGEST_LOCAL}}}$")
_WIDE_LOCAL = re.compile(rf"[\w.%+-]{{1,{_LONGEST_LOCAL}}}$")
_DOMAIN = re.compile(
    rf"(?:(?:(?![_{_WIDE}])[\w-]){{1,63}}\.){{1,6}}(?:xn--[A-Za-z0-9-]{{2,59}}|(?:(?![\d_{_WIDE}])\w){{2,24}})"
    rf"|(?:[{_WIDE}\w-]{{1,63}}\.){{1,6}}(?:[{_WIDE}]{{2,6}}|[A-Za-z]{{2,24}})"
)
_SPELT_OUT = re.compile(
    rf"(?:(?![{_WIDE}])[\w.+-]){{1,64}}\s*[\[({{]\s*(?i:at|@|собака|arroba|arobase)\s*[\])}}]\s*"
    r"[\w-]{1,63}(?:\s*(?:[\[({]\s*(?i:dot|точка|punto|punkt|point|点)\s*[\])}]|\.)\s*"
    rf"(?:(?![{_WIDE}])[\w-]){{2,63}}){{1,4}}"
)
_IN_CAPITALS = re.compile(
    r"(?<![\w.])[a-z0-9][a-z0-9._+-]{0,63} AT [a-z0-9-]{1,63}(?: DOT [a-z0-9-]{2,63}){1,4}(?!\w)"
)
_RESERVED = re.compile(r"(?:^|\.)(?:example(?:\.[a-z]{2,6}){0,2}|domain\.com|invalid|test)$")


def _emails(plain: Plain) -> Iterator[Finding]:
    """Find e-mail addresses, in any script, and those spelt with `[at]`.

    Not found are placeholders (`user@example.com`), and what only looks like one: `git@github.com:a/b`,
    `icon@2x.png`.
    """
    text = plain.text
    place = text.find("@")
    while place >= 0:
        start = max(0, place - _LONGEST_LOCAL)
        local = _LOCAL.search(text, start, place) or _WIDE_LOCAL.search(text, start, place)
        domain = _DOMAIN.match(text, place + 1, place + 1 + _LONGEST_DOMAIN)
        if local and domain and _is_address(text, local, domain):
            shift = len(local.group()) - len(local.group().lstrip(".'-%+"))
            yield Finding("email", local.start() + shift, domain.end())
        place = text.find("@", place + 1)
    for pattern in (_SPELT_OUT, _IN_CAPITALS):
        for match in pattern.finditer(text):
            yield Finding("email", match.start(), match.end())


def _is_address(text: str, local: re.Match[str], domain: re.Match[str]) -> bool:
    name, host = local.group().strip(".'-%+").lower(), domain.group().lower()
    if not name or host.rpartition(".")[2] in words("files"):
        return False
    if _is_credential(text, local.start()) or (name in words("generic") and _RESERVED.search(host)):
        return False
    after = text[domain.end() : domain.end() + 2]
    return not (name == "git" or re.match(r":[\w~/]|\(", after))


def _is_credential(text: str, start: int) -> bool:
    """Return whether what stands before `@` is the user or the password of a URL."""
    head = re.search(r"[a-z][a-z0-9+.-]{1,20}://[^\s/]{0,200}$", text[max(0, start - 222) : start], re.IGNORECASE)
    return head is not None and not head.group().lower().startswith("mailto")


_CANDIDATE = re.compile(
    r"(?<![A-Za-z0-9_@#\\&$€£%\u00c0-\u04ff])(?<![A-Za-z0-9][-/.])(?<!\d[,:])(?<!\+)(?<![A-Za-z0-9_]\()"
    r"(?:\+ ?|\(\+?|)\d(?:\d|[ ().\-/](?=[ ().\-/]{0,2}[\d(])){5,26}(?![A-Za-z0-9_@%\u00c0-\u04ff])"
)
_LINK = re.compile(r"(?:wa\.me/|t\.me/|api\.whatsapp\.com/send\?phone=|callto:|tel:)(?P<number>\+?\d{8,15})(?!\w)")
_INTERNATIONAL = re.compile(r"\(?\+")
_NO_PHONE = re.compile(
    r"(?:(?:1[89]|20)\d\d|\d{4}(?=-))([-./ ])(?:0?[1-9]|1[0-2])\1[0-3]?\d(?: .*)?"  # dates
    r"|\d{1,2}([-./])\d{1,2}\2\d{2,4}(?: .*)?"
    r"|\d{1,3}(?:\.\d{1,3}){3}|\d+\.\d+|(?!\d{3}\.\d{3}\.\d{4}$)\d+(?:\.\d+){2}"  # IP addresses, decimals
    r"|[1-9]\d{0,2}(?:[ .]000){1,5}|\d{4} ?[-/] ?\d{4}|\d{5}-\d{4}"  # round quantities, years, ZIP codes
)
_GROUPED = re.compile(
    r"\(\d{2,5}\) ?\d{2,5}(?:[ .-]?\d{2,5}){1,3}|\(0\d{1,5}\) ?\d{4,9}"  # (415) 555-0132
    r"|(?:1[- ])?[2-9]\d\d(?:-[2-9]\d\d-|\.[2-9]\d\d\.| [2-9]\d\d[ -])\d{4}"  # 415-555-0132
    r"|[78][- ]?\(?\d{3,5}\)?[- ]?\d{1,3}[- ]\d{2}[- ]\d{2}|[78] ?\(\d{3,5}\) ?\d{5,7}"  # 8 916 123-45-67
    r"|1[3-9]\d[- ]\d{4}[- ]\d{4}"  # 138 0013 8000
    r"|\(?0\d{1,5}\)?(?: ?[-/.] ?| )\d{2,8}(?:[ .-]\d{2,5}){0,4}"  # 020 7946 0958, 0171/2345678
    r"|[67]\d\d(?: \d\d){3}|[679]\d\d \d{3} \d{3}"  # 612 34 56 78
    r"|3\d\d[ -]\d{3}[ -]?\d{3,4}|[6-9]\d{4}[ -]\d{5}|\d{2} 9\d{4}-\d{4}"  # 347 123 4567, 98765 43210
)
_REACHABLE = re.compile(r"\d{10,15}|[0679]\d{8}|[\d() .\-/]*[() .\-/][\d() .\-/]*")
"""What may follow a word such as "call": many digits, or some in groups."""
_MAYBE_QUANTITY = re.compile(r"\d{3} \d{3} \d{3}")
_ROMANCE = re.compile(r"(?<!\w)(?:el|la|los|que|su|en|mi|al|por|para|il|di|che|suo|mio|per)(?!\w)")
"""Words of Spanish and Italian, in which such a number is rather a phone number."""

_FRENCH = re.compile(r"(?<!\w)(?:est|des|une|du|et|au|aux|avec|pour|dans)(?!\w)")
"""Words of French, which shares some of the above and writes quantities like that."""

_PLAIN_MOBILE = re.compile(r"1[3-9]\d{9}|[78]9\d{9}")
_FEWEST = 7
"""Fewest digits of a phone number."""
_MOST = 15
"""Most digits, country code included."""
_SURELY = 10
"""Digits from which on a number is a phone number by its form alone."""
_MOST_GROUPS = 8
_AROUND = " ().-/"
_FEWEST_ALONE = 9
_NO_TRUNK = frozenset(
    ("US", "CA", "RU", "KZ", "BY", "CN", "ES", "IT", "IN", "BR", "MX", "CO", "PT", "CL", "PE", "AR")
)
"""Countries where a national number is written without a 0 before it."""


def _phones(plain: Plain, regions: Collection[str]) -> Iterator[Finding]:
    """Find phone numbers: international ones, those with a label, and those grouped as is usual where they belong.

    A number reaches people, so lines that are toll-free, shared or premium are not found.

    Args:
        plain: The text.
        regions: ISO codes of the countries whose national numbers count.
    """
    for link in _LINK.finditer(plain.folded):
        if _is_dialled(f"+{link['number'].lstrip('+')}", (), at_least=_SURELY):
            yield Finding("phone", *link.span("number"))
    labels, region_codes = Labels(plain), tuple(regions)
    match = _CANDIDATE.search(plain.text)
    while match:
        end = _phone_end(plain, labels, match, region_codes)
        if end:
            yield Finding("phone", match.start(), end)
        match = _CANDIDATE.search(plain.text, end or match.end())


def _phone_end(plain: Plain, labels: Labels, match: re.Match[str], regions: tuple[str, ...]) -> int:
    """Return where the phone number ends with which a candidate begins; 0 if it begins with none."""
    number = match.group().rstrip(_AROUND)
    for _ in range(_MOST_GROUPS):
        if _is_phone(plain, labels, match.start(), number, regions):
            return match.start() + len(number)
        number = number.rpartition(" ")[0].rstrip(_AROUND)
    return 0


def _is_phone(plain: Plain, labels: Labels, start: int, number: str, regions: tuple[str, ...]) -> bool:
    """True if a number with its signs and blanks is a phone number: by its form, or by what it is called."""
    digits = sum(map(str.isdecimal, number))
    if not _FEWEST <= digits <= _MOST or _NO_PHONE.fullmatch(number):
        return False
    if _INTERNATIONAL.match(number):
        return _is_dialled(number, (), at_least=_SURELY)
    end = start + len(number)
    if QUANTITY.match(plain.folded, end):
        return False
    is_grouped = digits >= _FEWEST_ALONE and _GROUPED.fullmatch(number) is not None
    if labels.names(PHONE, start, end):
        is_sure = digits >= _FEWEST_ALONE or is_grouped or labels.stands_at(PHONE, start)
        return is_sure and _is_dialled(number, regions, at_least=_FEWEST + 1)
    if labels.names(REACH, start, end):
        at_least = _SURELY if is_grouped else _MOST + 1
        return bool(_REACHABLE.fullmatch(number)) and _is_dialled(number, regions, at_least=at_least)
    if labels.names_other(start, PHONE, REACH):
        return False
    has_trunk = number.lstrip("(").startswith("0")
    goes_on = re.match(r"[ .]\d\d\d" if has_trunk else r"[ .]\d", plain.text[end : end + 4]) is not None
    is_quantity = _MAYBE_QUANTITY.fullmatch(number) and not _is_romance(plain.folded)
    return _is_phone_alone(plain, number, regions, is_grouped=is_grouped and not goes_on and not is_quantity)


def _is_romance(folded: str) -> bool:
    return _ROMANCE.search(folded) is not None and not _FRENCH.search(folded)


def _is_phone_alone(plain: Plain, number: str, regions: tuple[str, ...], *, is_grouped: bool) -> bool:
    """Return whether a number that nothing calls one is a phone number."""
    if re.match(r"00\d(?:\D*\d){8}", number):
        return _is_dialled(f"+{number[2:]}", (), at_least=_SURELY)
    region_codes: tuple[str, ...] = ()
    if is_grouped:
        has_trunk = number.lstrip("(").startswith("0")
        region_codes = regions if has_trunk else tuple(region for region in regions if region in _NO_TRUNK)
    elif _PLAIN_MOBILE.fullmatch(number):
        region_codes = _regions_of_text(plain, regions)
    return bool(region_codes) and _is_dialled(number, region_codes, at_least=_MOST + 1)


def _regions_of_text(plain: Plain, regions: tuple[str, ...]) -> tuple[str, ...]:
    """Return the regions in which a mobile number is written without blanks, by the script around it."""
    if re.search(r"[\u3400-\u9fff]", plain.text):
        return tuple(region for region in regions if region in {"CN", "TW", "HK", "JP"})
    if re.search(r"[\u0400-\u04ff]", plain.text):
        return tuple(region for region in regions if region in {"RU", "KZ", "UA", "BY"})
    return ()


_PUBLIC_LINE = re.compile(
    r"(?:8|1)?[ (-]{0,2}8(?:00|88|77|66|55|44|33)[ )-]|88(?:00|04)\d{7}|0 ?800|00800|[48]00-\d{3}-"
)


@lru_cache(maxsize=4096)
def _is_dialled(number: str, regions: tuple[str, ...], *, at_least: int) -> bool:
    """Return whether a number can be dialled to reach a person.

    Args:
        number: The number, in plain form.
        regions: The countries it may be of; empty for one that begins with `+`.
        at_least: Digits from which a possible length is enough, because the plan of a country may be newer than
            the one known, or keep numbers for fiction.
    """
    from phonenumbers import (  # noqa: PLC0415 - an extra, imported on demand
        NumberParseException,
        is_possible_number,
        is_valid_number,
        number_type,
        parse,
    )

    digits = sum(map(str.isdecimal, number))
    if _PUBLIC_LINE.match(number):
        return False
    for region in regions or (None,):
        try:
            parsed = parse(number, region)
        except NumberParseException:
            continue
        if is_valid_number(parsed):
            if number_type(parsed) not in _impersonal_types():
                return True
        elif digits >= at_least and is_possible_number(parsed):
            return True
    return False


@lru_cache(maxsize=1)
def _impersonal_types() -> frozenset[int]:
    from phonenumbers import PhoneNumberType as Type  # noqa: PLC0415 - as above

    return frozenset((Type.TOLL_FREE, Type.PREMIUM_RATE, Type.SHARED_COST, Type.UAN, Type.VOICEMAIL))


_TAIWAN_LETTERS = "ABCDEFGHJKLMNPQRSTUVXYWZIO"
_SINGAPORE = {"S": "JZIHGFEDCBA", "T": "JZIHGFEDCBA", "F": "XWUTRQPNMLK", "G": "XWUTRQPNMLK", "M": "KLJNPQRTUWX"}


def _nino(number: str) -> bool:
    """Check a British National Insurance number, which has no check digit: prefixes in use only."""
    return not re.match(r"[DFIQUV]|.[DFIOQUV]|BG|GB|KN|NK|NT|TN|ZZ", number)


def _snils(number: str) -> bool:
    """Check a Russian insurance number (SNILS)."""
    total = sum(int(digit) * weight for digit, weight in zip(number[:9], range(9, 0, -1), strict=True))
    return number[:3] != "000" and total % 101 % 100 == int(number[9:])


def _nuss(number: str) -> bool:
    """Check a Spanish social security number: the remainder by 97."""
    body = int(number[:2] + number[2:10].lstrip("0").zfill(7 if number[2] == "0" else 8))
    return body % 97 == int(number[10:])


def _chinese(number: str) -> bool:
    """Check a Chinese identity number: date of birth and check digit.

    Its first digits tell where it was issued, which may be a district younger than the person, so that they are
    not looked up.
    """
    year, month, day = int(number[6:10]), int(number[10:12]), int(number[12:14])
    is_old = year <= date.today().year  # noqa: DTZ011 - a year is near enough
    total = sum(int(digit) * (1 << (17 - place)) for place, digit in enumerate(number[:17]))
    check = (12 - total % 11) % 11
    return is_old and _is_day(f"{day}", f"{month}") and "0123456789X"[check] == number[17]


def _iin(number: str) -> bool:
    """Check a Kazakh individual identification number: date of birth and check digit."""
    digits = list(map(int, number))
    for shift in (0, 2):
        control = sum(digit * ((place + shift) % 11 + 1) for place, digit in enumerate(digits[:11])) % 11
        if control < 10:  # noqa: PLR2004 - a digit
            return control == digits[11] and _is_day(number[4:6], number[2:4])
    return False


def _taiwan(number: str) -> bool:
    """Check a Taiwanese identity card number."""
    letter = _TAIWAN_LETTERS.index(number[0]) + 10
    digits = [letter // 10, letter % 10, *map(int, number[1:])]
    weights = (1, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1)
    return sum(digit * weight for digit, weight in zip(digits, weights, strict=True)) % 10 == 0


def _hong_kong(number: str) -> bool:
    """Check a Hong Kong identity card number."""
    letters = re.match(r"[A-Z]+", number)
    head = (letters.group() if letters else "").rjust(2)
    values = [36 if letter == " " else ord(letter) - 55 for letter in head]
    values += map(int, number[len(head.strip()) : -1])
    last = 10 if number[-1] == "A" else int(number[-1])
    total = sum(value * weight for value, weight in zip(values, range(9, 1, -1), strict=True))
    return (total + last) % 11 == 0


def _singapore(number: str) -> bool:
    """Check an identity number of Singapore."""
    total = sum(int(digit) * weight for digit, weight in zip(number[1:8], (2, 7, 6, 5, 4, 3, 2), strict=True))
    total += {"T": 4, "G": 4, "M": 3}.get(number[0], 0)
    place = total % 11
    letters = _SINGAPORE[number[0]]
    return letters[10 - place if number[0] == "M" else place] == number[8]


def _korean(number: str) -> bool:
    """Check a Korean resident registration number: its date of birth; newer ones have no check digit."""
    return _is_day(number[4:6], number[2:4])


def _is_day(day: str, month: str) -> bool:
    try:
        date(2000, int(month), int(day))
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class _Format:
    """How a country writes an identity number.

    Args:
        country: ISO code of the country.
        pattern: Regular expression of the whole number, in plain form.
        labels: What it is called, separated by bars; a trailing `*` stands for any ending.
        check: Module of `stdnum` that validates it, or a function of `national_checks` after `own.`; empty where
            it has no check digits, so that it counts only with a label.
        alone: Regular expression of the form that counts without a label, because no other number is written like
            it; empty if there is none.
        kind: The kind of finding.
    """

    country: str
    pattern: str
    labels: str
    check: str = ""
    alone: str = ""
    kind: Literal["national_id", "passport"] = "national_id"


@cache
def _formats() -> tuple[_Format, ...]:
    """Return the formats of all countries, as `identity_numbers.toml` has them."""
    tables = own_tables(__file__, "identity_numbers.toml")
    fills = tables["labels"]
    return tuple(_Format(**{**one, "labels": one["labels"].format(**fills)}) for one in tables["formats"])


def known_countries() -> frozenset[str]:
    """Return the ISO codes of the countries whose identity numbers are known."""
    return frozenset(entry.country for entry in _formats()) - {""}


def _national_ids(plain: Plain, countries: Collection[str]) -> Iterator[Finding]:
    """Find identity and passport numbers.

    Args:
        plain: The text.
        countries: ISO codes of the packs to use.
    """
    labels = Labels(plain)
    for entry in _formats():
        wanted = not entry.country or entry.country in countries
        if wanted and (entry.alone or labels.any(entry.labels)):
            for match in _compiled(entry.pattern, any_case=bool(entry.check)).finditer(plain.text):
                if _is_issued(entry, labels, match):
                    yield Finding(entry.kind, match.start(), match.end(), entry.country)


def _is_issued(entry: _Format, labels: Labels, match: re.Match[str]) -> bool:
    """Return whether a text is such a number: valid, and called so or written like no other."""
    number = match.group()
    alone = bool(entry.alone) and number == number.upper() and re.fullmatch(entry.alone, number) is not None
    if not (alone or labels.any(entry.labels)) or not _is_valid(entry, number):
        return False
    if labels.names(entry.labels, *match.span()):
        return True
    return alone and not labels.names_other(match.start(), entry.labels)


def _is_valid(entry: _Format, number: str) -> bool:
    compact = re.sub(r"[^A-Za-z0-9]", "", number).upper()
    if not any(map(str.isdecimal, compact)) or len(set(compact)) == 1:
        return False
    return not entry.check or _check_of(entry.check)(number if entry.check in _KEEPS_FORM else compact)


_KEEPS_FORM = frozenset(("se.personnummer", "fi.hetu"))
"""Checks that need the sign between date and number, which tells the century."""


@lru_cache(maxsize=128)
def _check_of(name: str) -> Callable[[str], bool]:
    """Return a check by its name: one of ours, or `is_valid` of a module of `stdnum`."""
    room, _, check_name = name.partition(".")
    check: Callable[[str], bool] = (
        globals()[f"_{check_name}"] if room == "own" else import_module(f"stdnum.{name}").is_valid
    )
    return check


@lru_cache(maxsize=256)
def _compiled(pattern: str, *, any_case: bool) -> re.Pattern[str]:
    before = r"(?<![A-Za-z0-9_\u00c0-\u04ff])(?<![A-Za-z0-9][./+-])(?<!\d,)"
    after = r"(?![A-Za-z0-9_]|[./-][A-Za-z0-9]|,\d{3}(?!\d))"
    return re.compile(f"{before}(?:{pattern}){after}", re.IGNORECASE if any_case else 0)


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


def _cards(plain: Plain) -> Iterator[Finding]:
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
        brand = _BRANDS.fullmatch(digits) or _RARE.fullmatch(digits)
        if (labelled and brand) or (usual and not labels.names_other(match.start(), CARD)):
            yield Finding("card", match.start(), match.end())


_IBAN_START = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}[ -]?\d{2}[ -]?(?=[A-Za-z0-9])")
_SHORTEST_IBAN = 15
"""Norway's."""
_LONGEST_IBAN = 34
"""As the standard allows."""


def _ibans(plain: Plain) -> Iterator[Finding]:
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


_IP = re.compile(
    r"(?:(?<![\w.:/-])|(?<=://)|(?<=::ffff:))(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d|-\d+(?!\.?\d))"
    r"|(?<![\w.:/-])(?=[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:)[0-9A-Fa-f:]{4,39}(?![\w:]|\.\d|-\d)"
)
_VERSION = re.compile(r"(?:version|release|firmware|build|v|rev)[ .:]*$", re.IGNORECASE)


def _ip_addresses(plain: Plain) -> Iterator[Finding]:
    """Find addresses of the public internet, of either version.

    Not found are those of private networks, of documentation and the like, and numbers of versions.
    """
    for match in _IP.finditer(plain.text):
        try:
            address = ip_address(match.group())
        except ValueError:
            continue
        if address.is_global and not _VERSION.search(plain.text, max(0, match.start() - 12), match.start()):
            yield Finding("ip_address", match.start(), match.end())


def identifiers(plain: Plain, *, regions: Collection[str], countries: Collection[str]) -> Iterator[Finding]:
    """Find addresses of e-mail and networks, numbers of phones, cards and accounts, and those of identities.

    Args:
        plain: The text.
        regions: ISO codes of the countries whose national phone numbers count.
        countries: ISO codes of the countries whose identity numbers count.
    """
    yield from _emails(plain)
    if any(character.isdecimal() for character in plain.text):
        yield from _ibans(plain)
        yield from _cards(plain)
        yield from _national_ids(plain, countries)
        yield from _phones(plain, regions)
        yield from _ip_addresses(plain)
