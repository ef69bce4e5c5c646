"""Check digits of identity numbers that `stdnum` does not know."""

from __future__ import annotations

import re
from datetime import date

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
