"""The weather demo: what it prints, what it accepts, and how it ends."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from demos.weather.agent import COLDEST, HOTTEST, celsius, judge
from demos.weather.app import main
from tests import forks
from tests.laws import for_every
from tests.snippets import ROOT

ACCEPTED_AT_ONCE, REFUSED_FIRST = 9, 1
"""Seeds whose first temperature is possible, and is not."""


@dataclass(frozen=True)
class Ran:
    """What a run of the demo left."""

    code: int
    out: str
    err: str

    @property
    def record(self) -> dict[str, Any]:
        """The JSON object on stdout."""
        data: dict[str, Any] = json.loads(self.out)
        return data


Run = Callable[..., Ran]


@pytest.fixture
def weather(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the demo in this process."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: object) -> Ran:
        code = main([str(one) for one in arguments])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


def degrees(result: str) -> float:
    """Read a temperature as the tool writes it."""
    return float(result.removesuffix(" °C"))


def without_times(value: Any) -> Any:
    """Drop from a record how long things took."""
    if isinstance(value, dict):
        return {key: without_times(one) for key, one in value.items() if not key.endswith("latency_s")}
    return [without_times(one) for one in value] if isinstance(value, list) else value


@for_every("seed", range(30))
def test_an_answer_is_accepted_if_and_only_if_it_is_possible(weather: Run, seed: int) -> None:
    """Every refused attempt measured the impossible, and the accepted one is the first that did not."""
    ran = weather("--seed", seed, "--json")

    measured = [degrees(one["tools"][0]["result"]) for one in ran.record["attempts"]]
    assert [COLDEST <= one <= HOTTEST for one in measured] == [
        one["rating"] == 4 for one in ran.record["attempts"]
    ]
    assert [COLDEST <= one <= HOTTEST for one in measured] == [False] * (len(measured) - 1) + [True]
    assert ran.record["answer"] == ran.record["attempts"][-1]["answer"] == "It is 15 °C in Paris."
    assert (ran.code, ran.record["passed"], ran.record["stop_reason"]) == (0, True, "accepted")


def test_a_seed_repeats_a_run(weather: Run) -> None:
    """Word for word; seeds differ; without one, which is printed, two drafts are refused, as is to be shown."""
    first, second = (weather("--seed", REFUSED_FIRST, "--json").record for _ in range(2))

    assert len(first["attempts"]) > 1
    assert without_times(first) == without_times(second)
    assert len({len(weather("--seed", seed, "--json").record["attempts"]) for seed in range(6)}) > 1
    unseeded = weather("--json").record
    assert [attempt["rating"] for attempt in unseeded["attempts"]] == [1, 1, 4]
    assert without_times(weather("--seed", unseeded["seed"], "--json").record) == without_times(unseeded)


def test_json_is_one_object_with_the_promised_keys(weather: Run) -> None:
    """Each attempt has one call of the tool, for the city that was asked about; usage adds up."""
    ran = weather("--seed", REFUSED_FIRST, "--json", "--question", "Is it warm in New York today?")

    record, attempts = ran.record, ran.record["attempts"]
    assert ran.err == ""
    assert record.keys() >= {"passed", "stop_reason", "answer", "attempts", "usage", "latency_s"}
    assert attempts[0].keys() >= {"answer", "rating", "feedback", "rationale", "tools", "latency_s"}
    assert attempts[0]["rating"] == 1
    assert "Call the weather tool again" in attempts[0]["feedback"]
    assert "impossible" in attempts[0]["rationale"]
    assert len(attempts) > 1
    for attempt in attempts:
        (call,) = attempt["tools"]
        assert (call["name"], call["args"]) == ("weather", {"city": "New York"})
        assert attempt["answer"] == f"It is {call['result']} in New York."
        assert attempt["usage"]["calls"] == 2  # and no call to judge
    assert record["usage"]["calls"] == 2 * len(attempts)
    assert record["usage"]["input_tokens"] == sum(one["usage"]["input_tokens"] for one in attempts)


def test_a_run_that_is_not_accepted_exits_1(weather: Run) -> None:
    """With one attempt and a broken thermometer the answer is shown as not accepted, on the screen and as JSON."""
    ran = weather("--seed", REFUSED_FIRST, "--max-attempts", 1)

    assert ran.code == 1
    assert "1 of 4, refused" in ran.out
    assert "not accepted (max_attempts)" in ran.out
    assert "gave up after 1 attempt in" in ran.out
    ran = weather("--seed", REFUSED_FIRST, "--max-attempts", 1, "--json")
    assert (ran.code, ran.record["passed"], ran.record["stop_reason"]) == (1, False, "max_attempts")


def test_the_screen_tells_the_story_in_order(weather: Run) -> None:
    """Every attempt shows tool, draft, rating and feedback before the accepted answer and the totals."""
    ran = weather("--seed", REFUSED_FIRST)

    landmarks = ["no key, no network", "question", "attempt 1", "tool", "draft", "rating", "why", "feedback"]
    landmarks += ["attempt 2", "4 of 4, accepted", "accepted answer", "It is 15 °C in Paris.", "accepted after"]
    assert re.search(".*?".join(map(re.escape, landmarks)), ran.out, re.DOTALL)
    assert max(map(len, ran.out.splitlines())) <= 80


def test_without_rich_the_same_is_reported_in_plain_text(weather: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rich is not installed the demo prints the same words."""
    coloured = weather("--seed", REFUSED_FIRST)
    for module in [name for name in sys.modules if name == "rich" or name.startswith("rich.")]:
        monkeypatch.setitem(sys.modules, module, None)

    plain = weather("--seed", REFUSED_FIRST)

    assert "╭" in coloured.out
    assert "╭" not in plain.out
    assert words(plain.out) == words(coloured.out)
    assert max(map(len, plain.out.splitlines())) <= 80


def words(text: str) -> list[str]:
    """List the words of a screen, without borders and seconds."""
    return re.findall(r"\w+", re.sub(r"in \d+\.\d+ s", "", text))


def test_a_possible_first_answer_is_not_asked_for_again(weather: Run) -> None:
    """One attempt is made, and no escape sequence of a question reaches the screen."""
    ran = weather("--seed", ACCEPTED_AT_ONCE, "--question", "How is it in \x1b[2JRome?")

    assert "attempt 2" not in ran.out
    assert "accepted after 1 attempt in" in ran.out
    assert "\x1b" not in ran.out


@for_every(
    "arguments, message",
    [
        (["--success-rating", "5"], "success_rating"),
        (["--max-attempts", "0"], "max_attempts"),
        (["--seed", "first"], "--seed"),
        (["--no-such-option"], "--no-such-option"),
        (["--question", " "], "--question is empty"),
        (["--base-url", "http://127.0.0.1:9/v1"], "needs --generator MODEL, --judge MODEL or both"),
        (["--base-url", "localhost", "--judge", "m"], "not 'localhost'"),
        (["--generator", "nobody:no-model"], "nobody:no-model"),
        (["--generator", "openai:gpt-5-mini"], "openai:gpt-5-mini"),
        (["--judge", "openai:gpt-5-mini"], "openai:gpt-5-mini"),
    ],
)
def test_bad_options_are_reported_in_one_line(
    weather: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    """An option that is wrong, or a model without a key, exits with 2 and one line that names it."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    ran = weather(*arguments)

    (line,) = ran.err.splitlines()
    assert (ran.code, ran.out) == (2, "")
    assert line.startswith("demos.weather: ")
    assert message in line


def test_without_langchain_the_missing_extra_is_named(weather: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where LangChain is not installed, one line says what to install."""
    monkeypatch.setitem(sys.modules, "langchain.agents", None)

    ran = weather()

    assert (ran.code, ran.out) == (2, "")
    assert "selfrefine[agents]" in ran.err


def test_it_runs_as_a_module_without_colour() -> None:
    """`python -m demos.weather` with NO_COLOR prints no escape sequence, and exits with 0."""
    ran = forks.run("demos.weather", "--seed", REFUSED_FIRST, folder=ROOT, NO_COLOR="1")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "\x1b" not in ran.stdout
    assert "Scripted model and rule judge; no key, no network." in ran.stdout
    assert "It is 15 °C in Paris." in ran.stdout


@for_every(
    "text, found",
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


@for_every(
    "results, answer, rating",
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
