"""E-mail addresses, phone numbers and addresses on networks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from ipaddress import ip_address

from judges.catalogue.safety.personal.finding import PHONE, QUANTITY, REACH, Finding, Labels, Plain, words

_LONGEST_LOCAL, _LONGEST_DOMAIN = 64, 190
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
_FILES = words(
    "png jpg jpeg gif svg webp bmp ico css scss html htm json yaml yml toml xml txt pdf doc docx xls xlsx ppt "
    "csv js jsx tsx mjs cjs lock log tgz gz zip tar whl jar exe dll dmg deb rpm mp3 mp4 wav avi mov local "
    "internal lan localdomain localhost service socket target timer"
)
_GENERIC = words(
    "user username name you your.name yourname your-name your_name your.email your-email your_email youremail "
    "email mail someone somebody foo bar me recipient sender from to noreply no-reply example "
    "firstname.lastname first.last user1 user2 usuario utilisateur benutzer пользователь 用户"
)
_RESERVED = re.compile(r"(?:^|\.)(?:example(?:\.[a-z]{2,6}){0,2}|domain\.com|invalid|test)$")


def emails(plain: Plain) -> Iterator[Finding]:
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
    if not name or host.rpartition(".")[2] in _FILES:
        return False
    if _is_credential(text, local.start()) or (name in _GENERIC and _RESERVED.search(host)):
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
_FEWEST, _MOST, _SURELY = 7, 15, 10
_MOST_GROUPS = 8
_AROUND = " ().-/"
_FEWEST_ALONE = 9
_NO_TRUNK = frozenset(
    ("US", "CA", "RU", "KZ", "BY", "CN", "ES", "IT", "IN", "BR", "MX", "CO", "PT", "CL", "PE", "AR")
)
"""Countries where a national number is written without a 0 before it."""


def phones(plain: Plain, regions: Sequence[str]) -> Iterator[Finding]:
    """Find phone numbers: international ones, those with a label, and those grouped as is usual where they belong.

    A number reaches people, so lines that are toll-free, shared or premium are not found.

    Args:
        plain: The text.
        regions: ISO codes of the countries whose national numbers count.
    """
    for link in _LINK.finditer(plain.folded):
        if _is_dialled(f"+{link['number'].lstrip('+')}", (), at_least=_SURELY):
            yield Finding("phone", *link.span("number"))
    labels, known = Labels(plain), tuple(regions)
    match = _CANDIDATE.search(plain.text)
    while match:
        end = _phone_end(plain, labels, match, known)
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
    known: tuple[str, ...] = ()
    if is_grouped:
        has_trunk = number.lstrip("(").startswith("0")
        known = regions if has_trunk else tuple(region for region in regions if region in _NO_TRUNK)
    elif _PLAIN_MOBILE.fullmatch(number):
        known = _regions_of_text(plain, regions)
    return bool(known) and _is_dialled(number, known, at_least=_MOST + 1)


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


_IP = re.compile(
    r"(?<![\w.:/-])(?:(?:\d{1,3}\.){3}\d{1,3}|(?=[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:)[0-9A-Fa-f:]{4,39})(?![\w:]|\.\d|-\d)"
)
_VERSION = re.compile(r"(?:version|release|firmware|build|v|rev)[ .:]*$", re.IGNORECASE)


def ip_addresses(plain: Plain) -> Iterator[Finding]:
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
