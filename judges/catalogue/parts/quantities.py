"""Quantities: a text that is a number, with or without a unit, in the writings of several languages."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

_UNITS: Mapping[str, Mapping[str, float]] = {
    "length": {
        "mm millimetre millimetres millimeter millimeters мм 毫米": 1e-3,
        "cm centimetre centimetres centimeter centimeters см 厘米": 1e-2,
        "m metre metres meter meters м метр метра метров 米": 1.0,
        "km kilometre kilometres kilometer kilometers км километр километра километров 公里 千米": 1e3,
        "in inch inches": 0.0254,
        "ft foot feet": 0.3048,
        "yd yard yards": 0.9144,
        "mi mile miles": 1609.344,
    },
    "mass": {
        "mg milligram milligrams мг 毫克": 1e-6,
        "g gram grams г грамм грамма граммов 克": 1e-3,
        "kg kilogram kilograms кг килограмм килограмма килограммов 公斤 千克": 1.0,
        "t tonne tonnes т тонна тонны тонн 吨": 1e3,
        "lb lbs pound pounds": 0.45359237,
        "oz ounce ounces": 0.028349523125,
    },
    "time": {
        "ms millisecond milliseconds мс 毫秒": 1e-3,
        "s sec second seconds с сек секунда секунды секунд 秒": 1.0,
        "min minute minutes мин минута минуты минут 分钟": 60.0,
        "h hour hours hr hrs ч час часа часов 小时": 3600.0,
        "day days день дня дней 天": 86400.0,
        "week weeks неделя недели недель 周": 604800.0,
    },
    "volume": {
        "ml millilitre millilitres milliliter milliliters мл 毫升": 1e-3,
        "l litre litres liter liters л литр литра литров 升": 1.0,
    },
    "speed": {"km/h kmh kph км/ч 公里/小时": 1 / 3.6, "m/s м/с 米/秒": 1.0, "mph": 0.44704},
    "area": {"m² m2 м²": 1.0, "km² km2 км²": 1e6, "ha га": 1e4},
    "energy": {"j": 1.0, "kj": 1e3, "cal": 4.184, "kcal": 4184.0, "wh": 3600.0, "kwh": 3.6e6},
    "power": {"w вт": 1.0, "kw квт": 1e3, "megawatt megawatts мвт": 1e6},
    "data": {
        "byte bytes": 1.0,
        "kb": 1e3,
        "mb": 1e6,
        "gb": 1e9,
        "tb": 1e12,
        "kib": 2**10,
        "mib": 2**20,
        "gib": 2**30,
    },
    "share": {"% percent per cent процент процента процентов": 1.0, "‰": 0.1},
    "kelvin": {"kelvin": 1.0},
    "euro": {"€ eur euro euros евро 欧元": 1.0},
    "dollar": {"$ usd dollar dollars доллар доллара долларов 美元": 1.0},
    "rouble": {"₽ rub рубль рубля рублей руб": 1.0},
    "yuan": {"¥ cny rmb yuan 元 人民币": 1.0},
    "sterling": {"£ gbp": 1.0},
}
"""Factors to one unit of each dimension, by the names of units; currencies are not converted."""

_FAHRENHEIT = frozenset(["°f", "f", "fahrenheit", "华氏度"])
_CELSIUS = frozenset(["°c", "c", "celsius", "摄氏度", "℃"])
_UNIT_OF = {
    name: (dimension, factor)
    for dimension, units in _UNITS.items()
    for names, factor in units.items()
    for name in names.split()
}
_TIMES = {
    "thousand": 1e3,
    "million": 1e6,
    "billion": 1e9,
    "trillion": 1e12,
    "тыс": 1e3,
    "тысяч": 1e3,
    "млн": 1e6,
    "миллионов": 1e6,
    "миллиона": 1e6,
    "млрд": 1e9,
    "mio": 1e6,
    "mrd": 1e9,
    "миллиардов": 1e9,
    "万": 1e4,
    "亿": 1e8,
}
_MAGNITUDE = "|".join(sorted(_TIMES, key=len, reverse=True))
_QUANTITY = re.compile(
    rf"(?P<before>[€$£¥₽]?)\s*(?P<sign>[-+\u2212]?)\s*(?P<number>\d[\d.,' \u00a0\u202f]*(?<![ ,'])|\.\d+)"
    rf"(?:\s*(?P<times>{_MAGNITUDE})\.?)?\s*(?P<unit>[^\d\s].{{0,30}})?",
    re.DOTALL,
)
_GROUPED = re.compile(r"\d{1,3}(?:([,.' \u00a0\u202f])\d{3})(?:\1\d{3})*")
_BITS = re.compile(r"[kKMGT]b\b")
"""Bits, which only a small letter tells from bytes: not converted."""

_LONGEST = 60
_PRECISION = 1e-9
_ROUNDED = 0.05
"""Largest difference, as a share, that may come of rounding a converted number."""


@dataclass(frozen=True)
class _Quantity:
    """A number with its dimension.

    Args:
        values: What the number may be in the dimension's unit: two values where a mark may group or divide.
        dimension: Name of the dimension; empty without a unit.
        factor: What its own unit is of the dimension's unit.
    """

    values: tuple[float, ...]
    dimension: str
    factor: float = 1.0


def quantity_in(text: str) -> _Quantity | None:
    """Return the quantity that a text is; None if it is none, or has other words in it."""
    if len(text) > _LONGEST or _BITS.search(text):
        return None
    text = text.strip().removesuffix(".").strip().casefold()
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    name = f"{match['before']} {match['unit'] or ''}".strip().removesuffix(".")
    numbers = _readings(match["number"])
    scale = _TIMES.get(match["times"] or "", 1.0) * (-1 if match["sign"] in ("-", "\u2212") else 1)
    if not numbers or not all(math.isfinite(number * scale) for number in numbers):
        return None
    values = [number * scale for number in numbers]
    if name in _CELSIUS:
        return _Quantity(tuple(value + 273.15 for value in values), "kelvin")
    if name in _FAHRENHEIT:
        return _Quantity(tuple((value + 459.67) * 5 / 9 for value in values), "kelvin", 5 / 9)
    if not name:
        return _Quantity(tuple(values), "")
    dimension, factor = _UNIT_OF.get(name, ("", 0.0))
    return _Quantity(tuple(value * factor for value in values), dimension, factor) if dimension else None


def same_quantity(a: _Quantity, b: _Quantity, *, tolerance: float) -> bool | None:
    """Whether two quantities are equal; None where a unit, a mark of the number or a conversion leaves it open.

    A number that was converted from another unit may have been rounded (`62 mph` for `100 km/h`).

    Args:
        a: A quantity.
        b: The other one.
        tolerance: Largest difference, as a share of the larger value.
    """
    if bool(a.dimension) != bool(b.dimension):
        return None
    if a.dimension != b.dimension:
        return False
    pairs = [(x, y) for x in a.values for y in b.values]
    equal = [math.isclose(x, y, rel_tol=max(tolerance, _PRECISION)) for x, y in pairs]
    if a.factor != b.factor and not any(equal) and any(math.isclose(x, y, rel_tol=_ROUNDED) for x, y in pairs):
        return None
    if len(equal) == 1 or not any(equal):
        return equal[0]
    return True if len(a.values) != len(b.values) else None


def _readings(number: str) -> tuple[float, ...]:
    """Return what a number may stand for: `1,234` is 1234, or 1.234 where the comma divides."""
    plain = re.sub(r"[' \u00a0\u202f]", "", number)
    if number.strip() != plain and not _well_grouped(number):
        return ()
    marks = [character for character in plain if character in ",."]
    if not marks:
        return (float(plain),)
    if len(set(marks)) > 1:  # the last one divides
        whole, _, decimals = plain.rpartition(marks[-1])
        other = "," if marks[-1] == "." else "."
        return (float(f"{whole.replace(other, '')}.{decimals}"),) if marks.count(marks[-1]) == 1 else ()
    digits = plain.replace(marks[0], "")
    if len(marks) > 1:
        return (float(digits),) if _GROUPED.fullmatch(plain) else ()
    divided = float(plain.replace(",", "."))
    grouped = _GROUPED.fullmatch(plain) is not None and plain[0] != "0" and " " not in number
    return (float(digits), divided) if grouped else (divided,)


def _well_grouped(number: str) -> bool:
    whole = re.split(r"[.,](?=\d*$)", number)[0]
    return _GROUPED.fullmatch(whole) is not None
