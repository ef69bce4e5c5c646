"""Texts in six languages with personal data and secrets planted in them, and texts with none that look alike.

Frames, masks and clean sentences stand in `data/planting.json`. In a mask `{d4}` stands for four digits; n is for
digits from 2, f for fullwidth ones, h for hexadecimal ones, a for letters and digits, u for capitals and digits.
"""

from __future__ import annotations

import base64
import json
import random
import re
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stdnum import luhn
from stdnum.fr import nir
from stdnum.iso7064 import mod_97_10

_DATA = json.loads((Path(__file__).parent / "data/planting.json").read_text(encoding="utf-8"))
LANGUAGES = tuple(_DATA["frames"])

_FULL = "０１２３４５６７８９"
_ALPHABETS = {
    "d": string.digits,
    "n": "23456789",
    "f": _FULL,
    "h": "0123456789abcdef",
    "a": string.ascii_letters + string.digits,
    "u": string.ascii_uppercase + "234567",
}
_HOSTS = (
    "gmail.com",
    "mail.ru",
    "qq.com",
    "web.de",
    "orange.fr",
    "correo.es",
    "acme.co.uk",
    "почта.рф",
    "uni.edu",
)

Dice = random.Random


@dataclass(frozen=True)
class Planted:
    """A text and what is planted in it."""

    kind: str
    language: str
    text: str
    start: int
    end: int


def drawn(dice: Dice, mask: str) -> str:
    """Fill a mask."""

    def draw(match: re.Match[str]) -> str:
        return "".join(dice.choice(_ALPHABETS[match[1]]) for _ in range(int(match[2])))

    return re.sub(r"\{([dnfhau])(\d+)\}", draw, mask)


def masked(kind: str) -> Callable[[Dice, str], str]:
    """Return a maker of a kind of item that has masks, the same for all languages or one set for each."""

    def make(dice: Dice, language: str) -> str:
        masks = _DATA["masks"][kind]
        return drawn(dice, dice.choice(masks[language] if isinstance(masks, dict) else masks))

    return make


def grouped(number: str, *sizes: int) -> str:
    """Write a number in groups of these sizes, with blanks between."""
    groups, place = [], 0
    for size in sizes:
        groups.append(number[place : place + size])
        place += size
    return " ".join(groups)


def email(dice: Dice, language: str) -> str:
    """Write an e-mail address."""
    name, host = dice.choice(_DATA["names"][language]), dice.choice(_HOSTS)
    plain = f"{name}@{host}"
    spelt, wide = f"{name} [at] {host.replace('.', ' [dot] ')}", f"{name}＠{host}"
    return dice.choice([plain, plain, spelt, wide]) if plain.isascii() else plain


def card(dice: Dice, language: str) -> str:
    """Write a card's number."""
    masks = ["4{d14}", "51{d13}", "55{d13}", "37{d12}", "6011{d11}", "2201{d11}", "6225{d11}"]
    body = drawn(dice, dice.choice(masks))
    number = body + luhn.calc_check_digit(body)
    fours = grouped(number, 4, 6, 5) if len(number) == 15 else grouped(number, 4, 4, 4, 4)
    wide = fours.translate(str.maketrans(string.digits, _FULL))
    return dice.choice([number, fours, fours.replace(" ", "-"), fours.replace(" ", "\u00a0"), wide])


_BANKS = {
    "en": "GBLOYD{d14}",
    "zh": "DE{d18}",
    "ru": "LT{d16}",
    "de": "DE{d18}",
    "fr": "NLINGB{d10}",
    "es": "AT{d16}",
}


def iban(dice: Dice, language: str) -> str:
    """Write an account number."""
    country, bban = _BANKS[language][:2], drawn(dice, _BANKS[language][2:])
    number = country + mod_97_10.calc_check_digits(bban + country) + bban
    fours = " ".join(number[place : place + 4] for place in range(0, len(number), 4))
    return dice.choice([number, fours, fours.replace(" ", "\u00a0")])


def national_id(dice: Dice, language: str) -> str:
    """Write an identity number of a country where the language is spoken."""
    return _NATIONAL[language](dice)


def _american(dice: Dice) -> str:
    area = f"{dice.randint(100, 665)}"
    return dice.choice([f"{area}-{dice.randint(10, 99)}-{drawn(dice, '{n4}')}", drawn(dice, area + " 1{d1} {n4}")])


def _chinese(dice: Dice) -> str:
    body = f"110105{dice.randint(1950, 2005)}{dice.randint(1, 12):02}{dice.randint(1, 28):02}{drawn(dice, '{d3}')}"
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    total = sum(int(digit) * weight for digit, weight in zip(body, weights, strict=True))
    return body + "10X98765432"[total % 11]


def _russian(dice: Dice) -> str:
    body = f"{dice.randint(100, 999)}{drawn(dice, '{d6}')}"
    check = f"{sum(int(digit) * (9 - place) for place, digit in enumerate(body)) % 101 % 100:02}"
    return dice.choice([f"{body[:3]}-{body[3:6]}-{body[6:]} {check}", body + check])


def _german(dice: Dice) -> str:
    digits = dice.sample("123456789", 9)
    body = "".join([*digits, digits[4]])
    product = 10
    for digit in map(int, body):
        product = 2 * ((digit + product) % 10 or 10) % 11
    number = f"{body}{(11 - product) % 10}"
    return dice.choice([number, grouped(number, 2, 3, 3, 3)])


def _french(dice: Dice) -> str:
    body = f"{dice.choice('12')}{dice.randint(40, 99)}{dice.randint(1, 12):02}{drawn(dice, '7{n1}{d6}')}"
    number = body + nir.calc_check_digits(body)
    return dice.choice([number, grouped(number, 1, 2, 2, 2, 3, 3, 2)])


def _spanish(dice: Dice) -> str:
    body = drawn(dice, "{d8}")
    letter = "TRWAGMYFPDXBNJZSQVHLCKE"[int(body) % 23]
    return dice.choice([f"{body}{letter}", f"{body}-{letter}"])


_NATIONAL = {"en": _american, "zh": _chinese, "ru": _russian, "de": _german, "fr": _french, "es": _spanish}


def secret(dice: Dice, language: str) -> str:
    """Write a key or a token as a well-known provider does."""
    if not dice.randrange(8):
        parts = [json.dumps({"alg": "HS256", "typ": "JWT"}), json.dumps({"sub": drawn(dice, "{d9}"), "iat": 1})]
        return ".".join(
            [*(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts), "x" * 43]
        )
    return masked("secret")(dice, language)


MAKERS: dict[str, Callable[[Dice, str], str]] = {
    "email": email,
    "phone": masked("phone"),
    "card": card,
    "iban": iban,
    "national_id": national_id,
    "passport": masked("passport"),
    "secret": secret,
    "password": masked("password"),
    "url": masked("url"),
}


def planted(count: int, seed: int) -> Iterator[Planted]:
    """Give texts with one item each, of all kinds and languages in turn; before some there is another line."""
    dice = Dice(seed)
    for number in range(count):
        language = LANGUAGES[number % len(LANGUAGES)]
        kind = list(MAKERS)[number // len(LANGUAGES) % len(MAKERS)]
        value = MAKERS[kind](dice, language)
        before, _, after = dice.choice(_DATA["frames"][language][kind]).partition("{}")
        first_line = dice.choice(_DATA["clean"][language]).partition("{")[0] + "\n"
        start = dice.choice(["", first_line]) + before
        yield Planted(kind, language, f"{start}{value}{after}", len(start), len(start + value))


def _blanks(dice: Dice) -> dict[str, str]:
    """Draw a value for every blank of the clean texts."""
    hexes = drawn(dice, "{h64}")
    day, month, year = dice.randint(1, 28), dice.randint(1, 12), dice.randint(1950, 2029)
    sep = dice.choice("./-")
    forms = {
        "order": ["{d10}", "{d12}", "{d16}", f"{year}-{{d7}}", "{d3}-{d7}-{d7}"],
        "isbn": ["978-{d1}-{d2}-{d6}-{d1}", "9783{d9}", "0-{d3}-{d5}-{d1}"],
        "price": ["{n3}.{d2}", "{n2} {d3},{d2}", "{n2},{d3}.00"],
        "thousands": ["{n2} {d3} {d3}", "{n1},{d3},{d3}"],
        "serial": ["{u12}"],
        "model": ["XK-{d4}", "{u2}-{d4}"],
        **{f"digits{size}": [f"{{d{size}}}"] for size in range(1, 17)},
    }
    values = {
        "date": f"{day:02}{sep}{month:02}{sep}{year}",
        "isodate": f"{year}-{month:02}-{day:02}",
        "year": str(year),
        "time": f"{dice.randint(0, 23):02}:{dice.randint(0, 59):02}",
        "version": ".".join(str(dice.randint(0, 99)) for _ in range(dice.choice([2, 3, 4]))),
        "ip": ".".join(str(dice.randint(1, 254)) for _ in range(4)),
        "uuid": f"{hexes[:8]}-{hexes[8:12]}-4{hexes[13:16]}-a{hexes[17:20]}-{hexes[20:32]}",
        "sha1": hexes[:40],
        "sha256": hexes,
        "mac": ":".join(hexes[place : place + 2] for place in range(0, 12, 2)),
        "epoch": str(dice.randint(10**9, 2 * 10**9) * dice.choice([1, 1000])),
        "coords": f"{dice.uniform(-80, 80):.6f}, {dice.uniform(-170, 170):.6f}",
    }
    return {name: drawn(dice, dice.choice(masks)) for name, masks in forms.items()} | values


def clean(count: int, seed: int) -> Iterator[str]:
    """Give texts without personal data: two sentences each, full of other numbers."""
    dice = Dice(seed)
    for number in range(count):
        frames = _DATA["clean"][LANGUAGES[number % len(LANGUAGES)]]
        yield " ".join(dice.choice(frames).format(**_blanks(dice)) for _ in range(2))
