"""Identity numbers and payment cards: the formats and checksums of each country."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from importlib import import_module
from typing import Literal

from judges.catalogue.safety.personal.finding import CARD, Finding, Labels, Plain

_TAIWAN_LETTERS = "ABCDEFGHJKLMNPQRSTUVXYWZIO"
_SINGAPORE = {"S": "JZIHGFEDCBA", "T": "JZIHGFEDCBA", "F": "XWUTRQPNMLK", "G": "XWUTRQPNMLK", "M": "KLJNPQRTUWX"}


def nino(number: str) -> bool:
    """Check a British National Insurance number, which has no check digit: prefixes in use only."""
    return not re.match(r"[DFIQUV]|.[DFIOQUV]|BG|GB|KN|NK|NT|TN|ZZ", number)


def snils(number: str) -> bool:
    """Check a Russian insurance number (SNILS)."""
    total = sum(int(digit) * weight for digit, weight in zip(number[:9], range(9, 0, -1), strict=True))
    return number[:3] != "000" and total % 101 % 100 == int(number[9:])


def nuss(number: str) -> bool:
    """Check a Spanish social security number: the remainder by 97."""
    body = int(number[:2] + number[2:10].lstrip("0").zfill(7 if number[2] == "0" else 8))
    return body % 97 == int(number[10:])


def chinese(number: str) -> bool:
    """Check a Chinese identity number: date of birth and check digit.

    Its first digits tell where it was issued, which may be a district younger than the person, so that they are
    not looked up.
    """
    year, month, day = int(number[6:10]), int(number[10:12]), int(number[12:14])
    is_old = year <= date.today().year  # noqa: DTZ011 - a year is near enough
    total = sum(int(digit) * (1 << (17 - place)) for place, digit in enumerate(number[:17]))
    check = (12 - total % 11) % 11
    return is_old and _is_day(f"{day}", f"{month}") and "0123456789X"[check] == number[17]


def iin(number: str) -> bool:
    """Check a Kazakh individual identification number: date of birth and check digit."""
    digits = list(map(int, number))
    for shift in (0, 2):
        control = sum(digit * ((place + shift) % 11 + 1) for place, digit in enumerate(digits[:11])) % 11
        if control < 10:  # noqa: PLR2004 - a digit
            return control == digits[11] and _is_day(number[4:6], number[2:4])
    return False


def taiwan(number: str) -> bool:
    """Check a Taiwanese identity card number."""
    letter = _TAIWAN_LETTERS.index(number[0]) + 10
    digits = [letter // 10, letter % 10, *map(int, number[1:])]
    weights = (1, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1)
    return sum(digit * weight for digit, weight in zip(digits, weights, strict=True)) % 10 == 0


def hong_kong(number: str) -> bool:
    """Check a Hong Kong identity card number."""
    letters = re.match(r"[A-Z]+", number)
    head = (letters.group() if letters else "").rjust(2)
    values = [36 if letter == " " else ord(letter) - 55 for letter in head]
    values += map(int, number[len(head.strip()) : -1])
    last = 10 if number[-1] == "A" else int(number[-1])
    total = sum(value * weight for value, weight in zip(values, range(9, 1, -1), strict=True))
    return (total + last) % 11 == 0


def singapore(number: str) -> bool:
    """Check an identity number of Singapore."""
    total = sum(int(digit) * weight for digit, weight in zip(number[1:8], (2, 7, 6, 5, 4, 3, 2), strict=True))
    total += {"T": 4, "G": 4, "M": 3}.get(number[0], 0)
    place = total % 11
    letters = _SINGAPORE[number[0]]
    return letters[10 - place if number[0] == "M" else place] == number[8]


def korean(number: str) -> bool:
    """Check a Korean resident registration number: its date of birth; newer ones have no check digit."""
    return _is_day(number[4:6], number[2:4])


def _is_day(day: str, month: str) -> bool:
    try:
        date(2000, int(month), int(day))
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Format:
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


_ID = "id|identity*|national id|id number|ausweis*|personalausweis*|identificaci*|identidad|identité"
_TAX = "tax*|tin|steuer*|fiscal*|impôt*|налог*"

FORMATS: tuple[Format, ...] = (
    # North America
    Format("US", r"\d{3}[- ]?\d{2}[- ]?\d{4}", "ssn|social security*|социальн*|社会安全号*|社保号*|seguro social|"
           "sozialversicherung*|sécurité sociale", "us.ssn", r"\d{3}-\d{2}-\d{4}"),
    Format("US", r"9\d{2}[- ]?\d{2}[- ]?\d{4}", f"itin|{_TAX}", "us.itin", r"9\d{2}-[5-9]\d-\d{4}"),
    Format("CA", r"\d{3}[- ]?\d{3}[- ]?\d{3}", "sin|social insurance*|nas|assurance sociale", "ca.sin"),
    Format("MX", r"[A-Z]{4}\d{6}[HMX][A-Z]{5}[A-Z0-9]\d", "curp", "mx.curp", r".+"),
    Format("MX", r"[A-ZÑ&]{4}\d{6}[A-Z0-9]{3}", "rfc", "mx.rfc"),
    # Europe
    Format("GB", r"(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]",
           "ni|nino|national insurance*", "own.nino", r".+"),
    Format("GB", r"\d{3}[- ]?\d{3}[- ]?\d{4}", "nhs*", "gb.nhs"),
    Format("IE", r"\d{7}[A-W][A-IW]?", "pps|ppsn|personal public service*", "ie.pps"),
    Format("DE", r"\d{2} ?\d{3} ?\d{3} ?\d{3}",
    "steuer*|idnr|tin|steueridentifikation*|steuer-id*|tax*|идентификац*",
           "de.idnr"),
    Format("DE", r"\d{2} ?\d{6} ?[A-Z] ?\d{3}", "sozialversicherung*|rentenversicherung*|sv-nummer|svnr|rvnr",
           "", ""),
    Format("AT", r"\d{4} ?\d{6}", "svnr|sozialversicherung*|sv-nummer|versicherungsnummer", "at.vnr"),
    Format("CH", r"756\.?\d{4}\.?\d{4}\.?\d{2}", "ahv*|avs|avs-nummer|ahv-nummer", "ch.ssn",
           r"756\.\d{4}\.\d{4}\.\d{2}"),
    Format("FR", r"[12] ?\d{2} ?(?:0[1-9]|1[0-2]|[2-9]\d) ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3} ?\d{2}",
           "nir|sécurité sociale|sécu|insee|numéro de sécu*|social security*", "fr.nir", r".+"),
    Format("FR", r"[0-3]\d ?\d{2} ?\d{3} ?\d{3} ?\d{3}", "numéro fiscal|nif|fiscal*|spi|tax*", "fr.nif"),
    Format("ES", r"\d{8}[- ]?[A-Z]|\d{2}\.\d{3}\.\d{3}[- ]?[A-Z]", f"dni|nif|{_ID}", "es.dni", r".+"),
    Format("ES", r"[XYZ][- ]?\d{7}[- ]?[A-Z]", f"nie|{_ID}", "es.nie", r".+"),
    Format("ES", r"\d{2}[-/ ]?\d{8}[-/ ]?\d{2}", "nuss|naf|seguridad social", "own.nuss"),
    Format("IT", r"[A-Z]{6}[0-9LMNP-V]{2}[A-EHLMPRST][0-9LMNP-V]{2}[A-Z][0-9LMNP-V]{3}[A-Z]",
           "codice fiscale|cf|c.f.", "it.codicefiscale", r".+"),
    Format("PT", r"\d{3} ?\d{3} ?\d{3}", "nif|contribuinte|fiscal*", "pt.nif"),
    Format("PT", r"\d{8} ?\d ?[A-Z0-9]{2}\d", "cartão de cidadão|cc|cidadão|bi", "pt.cc",
    r"\d{8} \d [A-Z0-9]{2}\d"),
    Format("NL", r"\d{3}[. ]?\d{2,3}[. ]?\d{3}|\d{9}", "bsn|burgerservicenummer|sofinummer|sofi*", "nl.bsn"),
    Format("BE", r"\d{2}[. ]?\d{2}[. ]?\d{2}[- ]?\d{3}[. ]?\d{2}", "rijksregister*|nationaal nummer|niss|insz|"
           "registre national|numéro national|nrn", "be.nn", r"\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}"),
    Format("LU", r"\d{13}", "matricule|cns", ""),
    Format("PL", r"\d{11}", "pesel*", "pl.pesel"),
    Format("CZ", r"\d{6}/?\d{3,4}", "rodné číslo|rodného čísla|rč|rodne cislo", "cz.rc", r"\d{6}/\d{4}"),
    Format("RO", r"[1-8]\d{12}", "cnp", "ro.cnp"),
    Format("BG", r"\d{10}", "егн", "bg.egn"),
    Format("HR", r"\d{11}", "oib", "hr.oib"),
    Format("SI", r"\d{13}", "emšo|emso", "si.emso"),
    Format("GR", r"\d{11}", "amka|αμκα", "gr.amka"),
    Format("SE", r"(?:\d{2})?\d{6}[-+ ]?\d{4}", "personnummer*|personnr|pnr", "se.personnummer"),
    Format("NO", r"\d{6} ?\d{5}", "fødselsnummer*|personnummer*|fnr|fodselsnummer", "no.fodselsnummer"),
    Format("DK", r"\d{6}[- ]?\d{4}", "cpr*|personnummer*", "dk.cpr"),
    Format("FI", r"\d{6}[-+ABCDEFUVWXY]\d{3}[0-9A-Y]", "henkilötunnus*|hetu|personbeteckning*", "fi.hetu", r".+"),
    Format("IS", r"\d{6}-?\d{4}", "kennitala*", "is_.kennitala"),
    Format("EE", r"[1-8]\d{10}", "isikukood*", "ee.ik"),
    Format("LT", r"[1-8]\d{10}", "asmens kod*", "lt.asmens"),
    Format("LV", r"\d{6}-?\d{5}", "personas kod*", "lv.pvn"),
    Format("TR", r"[1-9]\d{10}", "kimlik*|tckn|t.c.|tc", "tr.tckimlik"),
    Format("RU", r"\d{3}[- ]?\d{3}[- ]?\d{3}[- ]?\d{2}", "снилс*|snils|пенсионн*|страхов*", "own.snils",
           r"\d{3}-\d{3}-\d{3}[- ]\d{2}"),
    Format("RU", r"\d{12}", "инн|налогоплательщик*|inn|идентификационн*", "ru.inn"),
    Format("RU", r"\d{2} ?\d{2} ?(?:№|No|номер|N)? ?\d{6}|\d{2} ?(?:№|No|номер|N)? ?\d{7}",
           "паспорт*|загранпаспорт*|серия|серии|passport*", "", "", "passport"),
    Format("RU", r"\d{16}|\d{4} \d{4} \d{4} \d{4}", "омс|полис*", ""),
    Format("UA", r"\d{10}", "рнокпп|іпн|ідентифікаційн*|инн|налогов*", "ua.rntrc"),
    Format("UA", r"\d{8}-\d{5}", "унзр|запис*", ""),
    Format("KZ", r"\d{6}[0-6]\d{5}", "иин|жсн|iin", "own.iin"),
    Format("BY", r"\d{7}[ABCKEMH]\d{3}(?:PB|BA|BI)\d", "личный номер|идентификационн*", "", ""),
    # Asia
    Format("CN", r"[1-9]\d{5} ?(?:18|19|20)\d{2} ?(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]) ?\d{3}[\dXx]",
           "身份证*|公民身份*|身份號碼|id card|identity*|удостоверен*", "own.chinese", r".+"),
    Format("TW", r"[A-Z][12]\d{8}", "身分證*|身份证*|統一編號|id|national id", "own.taiwan", r".+"),
    Format("HK", r"[A-Z]{1,2}\d{6} ?\(?[0-9A]\)?", "hkid*|身份證*|身份证*|identity card", "own.hong_kong",
           r"[A-Z]{1,2}\d{6}\([0-9A]\)"),
    Format("JP", r"\d{4}[- ]?\d{4}[- ]?\d{4}", "マイナンバー*|個人番号*|my number|mynumber", "jp.in_"),
    Format("KR", r"\d{6}-?[1-8]\d{6}", "주민등록번호*|주민번호*|외국인등록번호*|rrn|resident registration*",
           "own.korean", r"\d{6}-[1-8]\d{6}"),
    Format("IN", r"[2-9]\d{3}[- ]?\d{4}[- ]?\d{4}", "aadhaar*|aadhar*|uidai|uid|आधार*", "in_.aadhaar"),
    Format("IN", r"[A-Z]{3}[ABCFGHJLPT][A-Z]\d{4}[A-Z]", "pan|पैन|permanent account*", "in_.pan", r".{3}P.+"),
    Format("ID", r"\d{16}", "nik|ktp|nomor induk*", "id.nik"),
    Format("MY", r"\d{6}-?\d{2}-?\d{4}", "mykad|nric|kad pengenalan|ic", "my.nric", r"\d{6}-\d{2}-\d{4}"),
    Format("SG", r"[STFGM]\d{7}[A-Z]", "nric|fin|identity*", "own.singapore", r".+"),
    Format("TH", r"\d-?\d{4}-?\d{5}-?\d{2}-?\d", "บัตรประชาชน|เลขประจำตัว*|national id|id", "th.pin",
           r"\d-\d{4}-\d{5}-\d{2}-\d"),
    Format("VN", r"\d{12}", "cccd|căn cước*|cmnd|định danh*", ""),
    Format("PK", r"\d{5}-?\d{7}-?\d", "cnic|nadra|شناختی", "pk.cnic", r"\d{5}-\d{7}-\d"),
    Format("IL", r"\d{9}", "תעודת זהות|ת.ז.|teudat zehut|מספר זהות", "il.idnr"),
    Format("AE", r"784-?\d{4}-?\d{7}-?\d", "emirates id|هوية*|الهوية", "", r"784-\d{4}-\d{7}-\d"),
    Format("SA", r"[12]\d{9}", "هوية*|الهوية*|إقامة*|الإقامة*|iqama", "luhn"),
    Format("EG", r"[23]\d{13}", "الرقم القومي|رقم قومي|القومي|بطاقة*", ""),
    # Oceania, Africa, South America
    Format("AU", r"\d{3} ?\d{3} ?\d{3}", "tfn|tax file*", "au.tfn"),
    Format("NZ", r"\d{2,3}[- ]?\d{3}[- ]?\d{3}", "ird*", "nz.ird"),
    Format("ZA", r"\d{6} ?\d{4} ?\d{2} ?\d", "id number|south african id|identity*|id|rsa id", "za.idnr"),
    Format("BR", r"\d{3}\.?\d{3}\.?\d{3}-?\d{2}", "cpf*|cadastro de pessoa*", "br.cpf",
           r"\d{3}\.\d{3}\.\d{3}-\d{2}"),
    Format("AR", r"\d{1,2}\.?\d{3}\.?\d{3}", "dni|documento", "ar.dni"),
    Format("AR", r"\d{2}-?\d{8}-?\d", "cuit|cuil", "ar.cuit", r"\d{2}-\d{8}-\d"),
    Format("CL", r"\d{1,2}\.?\d{3}\.?\d{3}-?[\dkK]", "rut|rol único*", "cl.rut", r"\d{1,2}\.\d{3}\.\d{3}-[\dkK]"),
    Format("CL", r"\d{7,8}-[\dkK]", "run", "cl.rut"),  # an English word, too
    Format("CO", r"\d{1,2}\.\d{3}\.\d{3}|\d{1,3}(?:\.\d{3}){3}|\d{6,10}", "cédula|cedula|c.c.", ""),
    Format("PE", r"\d{8}", "dni", "", ""),
    Format("EC", r"\d{9}-?\d", "cédula|cedula|ci", "ec.ci"),
    Format("UY", r"\d\.?\d{3}\.?\d{3}-?\d", "cédula|cedula|ci|c.i.", "", r"\d\.\d{3}\.\d{3}-\d"),
    # everywhere
    Format("", r"(?:[A-Z]{1,3} ?)?\d{6,9}[A-Z]?|(?=(?:[A-Z]*\d){4})[A-Z0-9]{8,9}",
           "passport*|passeport*|reisepass*|pass-nr|passnummer|pasaporte*|passaporte*|passaporto|паспорт*|загранпаспорт*|"
           "护照*|護照*|パスポート*|旅券*|여권*|جواز*|पासपोर्ट|pasaport*|paszport*|paspoort*", "", "", "passport"),
    Format("", r"[A-Z]{1,2}\d{6,8}|\d{7,10}|(?=(?:[A-Z]*\d){3})[A-Z0-9]{9,12}|\d{2} ?\d{2} ?\d{6}|"
           r"[A-Z]{5}\d{6}[A-Z0-9]{5}",
           "driver's license*|drivers license*|driver license*|driving licence*|driving license*|führerschein*|"
           "permis de conduire|carnet de conducir|licencia de conducir|водительск*|驾驶证*|驾照*|駕照*|免許証*|"
           "ausweisnummer|personalausweis*|carte d'identité|carta d'identità|dowód osobist*|identity card", ""),
)  # fmt: skip
"""The country packs. A number that has a label and no check digits counts; one without a label needs both a form
of
its own and its check digits."""

COUNTRIES: frozenset[str] = frozenset(entry.country for entry in FORMATS) - {""}


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
    """Return whether a text is such a number: valid, and called so or written like no other."""
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
    check: Callable[[str], bool] = globals()[own] if room == "own" else import_module(f"stdnum.{name}").is_valid
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
