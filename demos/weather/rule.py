"""A judge that needs no model: a temperature must be possible, and be the one that was measured."""

from __future__ import annotations

import re

from judges import Sample, Verdict, as_judge

COLDEST, HOTTEST = -89.2, 56.7
"""Lowest and highest air temperature ever measured on Earth, in degrees Celsius: Vostok 1983 and Furnace Creek
1913 (World Meteorological Organization, archive of weather and climate extremes)."""

_CELSIUS = re.compile(
    r"(?<![\w.,])(?P<sign>[-−–]\s?|minus )?(?P<digits>\d+(?:[.,]\d+)?)\s*"
    r"(?:°\s*C\b|℃|C\b|degrees?\b(?!\s*(?:F\b|Fahrenheit))|°(?!\s*F))",
    re.IGNORECASE,
)


def rule(sample: Sample) -> Verdict:
    """Rate an answer about a temperature by what the weather tool returned and what the answer says.

    1 where nothing was measured or a temperature is impossible; 2 where the answer does not give the measured
    one; 3 where it gives others besides; 4 where it gives that one.
    """
    results = [step.content for step in sample.steps if step.role == "tool"]
    measured = celsius(results[-1])[-1:] if results else []
    stated = celsius(sample.answer or "")
    impossible = [degrees for degrees in (*measured, *stated) if not COLDEST <= degrees <= HOTTEST]
    others = [degrees for degrees in stated if degrees not in measured]
    if not measured:
        return _refusal(1, "The weather tool measured nothing.", "Call the weather tool before answering.")
    if impossible:
        return _refusal(
            1,
            f"{impossible[0]:g} °C is impossible; the records on Earth are {COLDEST} and {HOTTEST} °C.",
            "Call the weather tool again and report what it then returns.",
        )
    if measured[0] not in stated:
        stated_text = f"{others[0]:g} °C" if others else "no temperature"
        return _refusal(
            2, f"The answer gives {stated_text}; {measured[0]:g} °C was measured.", f"Report {measured[0]:g} °C."
        )
    if others:
        return _refusal(3, f"{others[0]:g} °C was never measured.", f"Report {measured[0]:g} °C only.")
    return Verdict.rated(
        4, rationale=f"{measured[0]:g} °C was measured, is possible, and is what the answer says."
    )


judge = as_judge(rule)


def celsius(text: str) -> list[float]:
    """Return the temperatures in degrees Celsius in a text."""
    return [_number(match) for match in _CELSIUS.finditer(text)]


def _number(match: re.Match[str]) -> float:
    size = float(match["digits"].replace(",", "."))
    return -size if match["sign"] else size


def _refusal(rating: int, rationale: str, feedback: str) -> Verdict:
    return Verdict.rated(rating, success_rating=4, rationale=rationale, feedback=feedback)
