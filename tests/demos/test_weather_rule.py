"""The weather demo's judge: what it reads as a temperature, and how it rates."""

from __future__ import annotations

import pytest

from demos.weather.agent import celsius, judge


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It is 15 °C.", [15]),
        ("It is -125°C.", [-125]),
        ("It is \N{MINUS SIGN}125 ℃.", [-125]),
        ("minus 12.5 degrees Celsius", [-12.5]),
        ("15 degrees", [15]),
        ("15 C, that is 59 °F or 59 degrees Fahrenheit", [15]),
        ("15-20 °C", [20]),
        ("8,5 °C", [8.5]),
        ("In 2025 there were 3 cars.", []),
    ],
)
def test_temperatures_are_read(text: str, found: list[float]) -> None:
    """Temperatures are found in degrees Celsius only, with any kind of minus."""
    assert celsius(text) == found


@pytest.mark.parametrize(
    ("results", "answer", "rating"),
    [
        (["15 °C"], "It is 15 °C.", 4),
        (["-255 °C", "15 °C"], "It is 15 °C.", 4),
        (["15 °C"], "It is 15 °C and feels like 12 °C.", 3),
        (["15 °C"], "It is mild.", 2),
        (["15 °C"], "It is 20 °C.", 2),
        (["15 °C"], "It is -255 °C.", 1),
        (["-125 °C"], "It is -125 °C.", 1),
        (["-125 °C"], "It is 15 °C.", 1),
        (["15 °C", "57 °C"], "It is 57 °C.", 1),
        (["-89.2 °C"], "It is -89.2 °C.", 4),
        (["56.7 °C"], "It is 56.7 °C.", 4),
        (["no such city"], "It is 15 °C.", 1),
        ([], "It is 15 °C.", 1),
    ],
)
def test_rating_follows_measurement_and_answer(results: list[str], answer: str, rating: int) -> None:
    """What was last measured must be possible, and be what the answer says."""
    steps = [{"role": "tool", "name": "weather", "content": one} for one in results]

    verdict = judge(question="How warm is it?", answer=answer, trajectory=steps)

    assert verdict.rating == rating
    assert verdict.rationale
    assert bool(verdict.feedback) == (rating < 4)
    assert verdict.passed == (rating == 4)
