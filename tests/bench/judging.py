"""Measure what a judge's model call costs: `uv run --group dev python -m tests.bench.judging`.

Every system asks the same question of the same model server, which runs in a process of its own, over HTTP on
loopback. Given is the median and range of this process's CPU time, or of what it finishes in a second, and the
ratio to the system that a target names; all in one run and taken in turns, so that the ratios hold where the
microseconds do not. An answer of the whole loop is two refused drafts and an accepted one: three generations and
as many judgements.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

import aiohttp
import urllib3
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field

from judges import Helpfulness, OpenAICompatible
from judges.model import ModelRequest, ModelResponse
from judges.models.structured import response_format
from refine import SelfRefine
from tests.bench.instant_server import DRAFTS, serving

QUESTION = "How do I undo my last git commit but keep the changes?"
SAMPLE = {"user_input": QUESTION, "response": DRAFTS[0]}

Call = Callable[[], Awaitable[object]]


class Assessment(BaseModel):
    """Assessment of an answer."""

    rationale: str = Field(description="your reasons")
    rating: Literal[1, 2, 3, 4] = Field(description="1 to 4")
    feedback: str = Field(description="what to change")


class _Recorded(Exception):  # noqa: N818 - carries what was asked
    pass


class _Recorder:
    """Learns what a judge asks, so that every system asks the same."""

    name, retries = "recorder", 0
    request: ModelRequest

    def send(self, request: ModelRequest) -> ModelResponse:
        self.request = request
        raise _Recorded

    async def asend(self, request: ModelRequest) -> ModelResponse:
        return self.send(request)

    def is_model(self, other: object) -> bool:
        return other is self


def asked(draft: str = DRAFTS[0]) -> list[dict[str, str]]:
    """Write the messages that `Helpfulness` sends about a draft."""
    return [{"role": role, "content": text.replace(DRAFTS[0], draft)} for role, text in _LETTER.messages]


def _letter() -> ModelRequest:
    recorder = _Recorder()
    Helpfulness(recorder)(SAMPLE)
    return recorder.request


_LETTER = _letter()
_ASKED = asked()


class Bare:
    """A judge call over a bare HTTP client: hand-made JSON, nothing checked."""

    def __init__(self, base_url: str) -> None:
        self._url = f"{base_url}/chat/completions"
        self._pool = urllib3.connection_from_url(base_url)
        self._path = urlsplit(self._url).path
        self._told = {"model": "m", "temperature": 0.0, "response_format": response_format(Assessment)}

    async def open(self) -> None:
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

    async def close(self) -> None:
        self._pool.close()
        await self._session.close()

    async def acall(self) -> object:
        body = json.dumps({**self._told, "messages": _ASKED}).encode()
        headers = {"content-type": "application/json"}
        async with self._session.post(self._url, data=body, headers=headers) as response:
            told = json.loads(await response.read())
        return json.loads(told["choices"][0]["message"]["content"])["rating"]

    def call(self) -> object:
        body = json.dumps({**self._told, "messages": _ASKED}).encode()
        headers = {"content-type": "application/json"}
        response = self._pool.urlopen("POST", self._path, body, headers=headers)
        told = json.loads(response.data)
        return json.loads(told["choices"][0]["message"]["content"])["rating"]


def chat(base_url: str) -> ChatOpenAI:
    """Make the LangChain model."""
    return ChatOpenAI(model="generator", base_url=base_url, api_key="k", temperature=0.0, max_retries=0)  # type: ignore[arg-type]  # a text is taken


class BareLoop:
    """The loop in plain Python around LangChain's model, generator and judge built once."""

    def __init__(self, base_url: str) -> None:
        self._generator = chat(base_url)
        self._judge = chat(base_url).with_structured_output(Assessment)

    async def acall(self) -> object:
        prompt = [("user", QUESTION)]
        while True:
            draft = await self._generator.ainvoke(prompt)
            verdict: Any = await self._judge.ainvoke(asked(draft.text))
            if verdict.rating == 4:
                return draft
            prompt = [("user", QUESTION), ("assistant", draft.text), ("user", verdict.feedback)]


@dataclass
class Row:
    """One line of the table: a figure per system, and the target between two of them."""

    what: str
    unit: str
    figures: dict[str, list[float]] = field(default_factory=dict)
    targets: list[tuple[str, str, str, float]] = field(default_factory=list)

    def note(self, system: str, figure: float) -> None:
        self.figures.setdefault(system, []).append(figure)

    def lines(self) -> list[str]:
        middle = {system: statistics.median(each) for system, each in self.figures.items()}
        lines = [f"{self.what} ({self.unit})"]
        for system, each in self.figures.items():
            told = [
                f"{middle[system] / middle[other]:.3f} of {other} (target {sign} {bound}"
                f"{'' if self._holds(middle[system] / middle[other], sign, bound) else ', MISSED'})"
                for name, other, sign, bound in self.targets
                if name == system
            ]
            spread = f"{min(each):.0f}-{max(each):.0f}"
            lines.append(f"  {system:<36}{middle[system]:>9.0f}{spread:>16}   {'; '.join(told)}".rstrip())
        return lines

    @staticmethod
    def _holds(ratio: float, sign: str, bound: float) -> bool:
        return ratio <= bound if sign == "<=" else ratio >= bound


def cpu(row: Row, systems: dict[str, Callable[[int], object]], *, rounds: int, calls: int) -> Row:
    """Measure microseconds of CPU per call, all systems in turn."""
    for number in range(rounds + 1):
        for name, run in systems.items():
            started = time.process_time()
            run(calls)
            if number:  # the first round warms up
                row.note(name, (time.process_time() - started) / calls * 1e6)
    return row


async def rate(call: Call, *, calls: int, in_flight: int) -> float:
    """Measure how many calls are finished in a second, so many at once."""
    left = iter(range(calls))

    async def work() -> None:
        for _ in left:
            await call()

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(in_flight)))
    return calls / (time.perf_counter() - started)


def throughput(
    row: Row, runner: asyncio.Runner, systems: dict[str, Call], *, calls: int, in_flight: int, rounds: int
) -> Row:
    """Measure calls per second, all systems in turn."""
    for call in systems.values():
        runner.run(rate(call, calls=in_flight, in_flight=in_flight))
    for _ in range(rounds):
        for name, call in systems.items():
            row.note(name, runner.run(rate(call, calls=calls, in_flight=in_flight)))
    return row


def repeated(call: Callable[[], object]) -> Callable[[int], object]:
    """Make a function that calls so many times."""

    def run(calls: int) -> None:
        for _ in range(calls):
            call()

    return run


def awaited(runner: asyncio.Runner, call: Call) -> Callable[[int], object]:
    """Make a function that awaits so many calls, one after another."""

    async def run(calls: int) -> None:
        for _ in range(calls):
            await call()

    return lambda calls: runner.run(run(calls))


def judged(runner: asyncio.Runner, root: str, rounds: int) -> list[Row]:
    """Measure one judge call at no latency, async and sync."""
    url = f"{root}/0/v1"
    bare, direct = Bare(url), Helpfulness(OpenAICompatible(url, model="m", api_key="k"))
    langchain, structured = Helpfulness(chat(url)), chat(url).with_structured_output(Assessment)
    runner.run(bare.open())

    asynchronous = Row("one judge call, async", "CPU us")
    asynchronous.targets = [
        ("OpenAICompatible", "with_structured_output", "<=", 0.12),
        ("OpenAICompatible", "bare aiohttp", "<=", 3.0),
        ("ChatOpenAI", "with_structured_output", "<=", 0.7),
    ]
    cpu(
        asynchronous,
        {
            "bare aiohttp": awaited(runner, bare.acall),
            "OpenAICompatible": awaited(runner, lambda: direct.acall(SAMPLE)),
            "ChatOpenAI": awaited(runner, lambda: langchain.acall(SAMPLE)),
            "with_structured_output": awaited(runner, lambda: structured.ainvoke(_ASKED)),
        },
        rounds=rounds,
        calls=60,
    )
    synchronous = Row("one judge call, sync", "CPU us")
    synchronous.targets = [
        ("OpenAICompatible", "with_structured_output", "<=", 0.12),
        ("OpenAICompatible", "bare urllib3", "<=", 3.0),
        ("ChatOpenAI", "with_structured_output", "<=", 0.7),
    ]
    cpu(
        synchronous,
        {
            "bare urllib3": repeated(bare.call),
            "OpenAICompatible": repeated(lambda: direct(SAMPLE)),
            "ChatOpenAI": repeated(lambda: langchain(SAMPLE)),
            "with_structured_output": repeated(lambda: structured.invoke(_ASKED)),
        },
        rounds=rounds,
        calls=60,
    )
    runner.run(bare.close())
    return [asynchronous, synchronous]


def looped(runner: asyncio.Runner, root: str, rounds: int) -> list[Row]:
    """Measure the whole loop: CPU at no latency, answers per second at 20 ms."""

    def systems(latency_ms: int) -> dict[str, Call]:
        url = f"{root}/{latency_ms}/v1"
        judge = Helpfulness(OpenAICompatible(url, model="m", api_key="k"), success_rating=4)
        ours = SelfRefine(chat(url), judge, success_rating=4)
        writer = OpenAICompatible(url, model="generator", api_key="k", temperature=0.0)
        direct = SelfRefine(writer, judge, success_rating=4)
        return {
            "bare LangChain loop": BareLoop(url).acall,
            "SelfRefine, direct judge": lambda: ours.ainvoke(QUESTION),
            "SelfRefine, all direct": lambda: direct.ainvoke(QUESTION),
        }

    at_once = Row("the whole loop, async", "CPU us per answer")
    at_once.targets = [
        ("SelfRefine, direct judge", "bare LangChain loop", "<=", 0.65),
        ("SelfRefine, all direct", "bare LangChain loop", "<=", 0.25),
    ]
    runs = {name: awaited(runner, call) for name, call in systems(0).items()}
    rows = [cpu(at_once, runs, rounds=rounds, calls=10)]
    for in_flight, answers in ((32, 96), (256, 256)):
        row = Row(f"the whole loop, 20 ms, {in_flight} in flight", "answers/s")
        row.targets = [
            ("SelfRefine, direct judge", "bare LangChain loop", ">=", 1.4),
            ("SelfRefine, all direct", "bare LangChain loop", ">=", 4.0),
        ]
        rows.append(throughput(row, runner, systems(20), calls=answers, in_flight=in_flight, rounds=5))
    return rows


def alone(runner: asyncio.Runner, root: str) -> Row:
    """Measure judging alone: judgements per second at 20 ms and 64 in flight."""
    url = f"{root}/20/v1"
    bare, direct = Bare(url), Helpfulness(OpenAICompatible(url, model="m", api_key="k"))
    runner.run(bare.open())
    row = Row("judging alone, 20 ms, 64 in flight", "judgements/s")
    row.targets = [("OpenAICompatible", "bare aiohttp", ">=", 0.6)]
    systems: dict[str, Call] = {"bare aiohttp": bare.acall, "OpenAICompatible": lambda: direct.acall(SAMPLE)}
    throughput(row, runner, systems, calls=2000, in_flight=64, rounds=3)
    runner.run(bare.close())
    return row


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="rounds of the CPU measurements (default 9)")
    options = parser.parse_args()
    os.environ["LANGSMITH_TRACING"] = "false"
    with serving() as root, asyncio.Runner() as runner:
        rows = [
            *judged(runner, root, options.rounds),
            alone(runner, root),
            *looped(runner, root, options.rounds),
        ]
    print("\n".join(line for row in rows for line in row.lines()))


if __name__ == "__main__":
    main()
