"""What release in pieces is worth: seconds to the first text and to the whole answer, and generated tokens.

A mock at a real model's tempo: 0.3 s to the first token, 80 tokens a second, an answer of 228 tokens in 12
sentences; the whole judge writes 120 tokens, the judge of pieces one. Times are of that tempo, not of the CPU: the
clock of the event loop is simulated, and jumps to whatever is due next. `python -m tests.bench.streaming` prints
the table, and fails where a bound is missed. The judge of pieces says at once what is amiss, as rules do. `Quick`
aborts by its first token, and the feedback of the judge behind it takes 1.65 s more for each refused piece; the
same judge without it refuses when its 120 tokens are written, while the model writes on.

CPU is real: of a released piece in this process, and of a whole judged stream of the guard with its upstream and
its client in the same process. So is the time to the first text that the guard and the library take.
"""

from __future__ import annotations

import asyncio
import json
import selectors
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableLambda

from judges import Judge, OpenAICompatible, Quick, Rubric, Verdict, as_judge
from judges.model import ModelRequest, ModelResponse
from judges.verdict import Usage
from refine import SelfRefine
from tests.guarding import QUESTION, guarding
from tests.model_server import Wire, serving

_FIRST_TOKEN_S, _TOKEN_S = 0.3, 1 / 80
_SENTENCES, _WORDS = 12, 19
_ASSESSMENT = 120


class _Simulated(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer instead of waiting for it."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        """Return the simulated time."""
        return self._now

    def jump(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds


class _Jumping(selectors.DefaultSelector):
    """Selects what is ready, and lets the time pass that it would have waited."""

    def __init__(self, loop: _Simulated) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        """Return what is ready now."""
        ready: list[Any] = super().select(0 if timeout is None or timeout > 0 else timeout)
        if not ready and timeout:
            self._loop.jump(timeout)
        return ready


@dataclass
class _Mock:
    """A model that writes sentences, of which one is bad the first time, and counts its tokens.

    Args:
        bad: Number of the bad sentence; 0 for none.
    """

    bad: int = 0
    tokens: int = 0
    calls: int = 0

    async def write(self, messages: list[BaseMessage]) -> AsyncIterator[AIMessageChunk]:
        """Write what is not there yet, a word a token."""
        self.calls += 1
        asked = "\n".join(str(message.text) for message in messages[1:])
        await asyncio.sleep(_FIRST_TOKEN_S)
        for number in range(1, _SENTENCES + 1):
            mark = "BAD" if number == self.bad and self.calls == 1 else "good"
            words = [f"Sentence{number}", mark, *["word"] * (_WORDS - 3), "end."]
            if f"Sentence{number} good" in asked:
                continue
            for word in words:
                await asyncio.sleep(_TOKEN_S)
                self.tokens += 1
                yield AIMessageChunk(content=f"{word} ")

    @property
    def runnable(self) -> Runnable[Any, Any]:
        """The model as a generator."""
        return RunnableLambda(self.write)


class _JudgeModel:
    """A judge's model at that tempo: one token where a digit is asked for, else a whole assessment."""

    name, retries = "judge", 0

    def send(self, request: ModelRequest) -> ModelResponse:
        """Not in use."""
        raise NotImplementedError

    async def asend(self, request: ModelRequest) -> ModelResponse:
        """Read the last piece, and write what is asked for."""
        tokens = 1 if request.digits else _ASSESSMENT
        await asyncio.sleep(_FIRST_TOKEN_S / 2 + tokens * _TOKEN_S)
        lines = [line for line in request.messages[-1][1].split("\n") if "Sentence" in line]
        rating = 1 if "BAD" in lines[-1] else 4
        whole = json.dumps({"rationale": "So it is.", "rating": rating, "feedback": "Say it well."})
        return ModelResponse(str(rating) if request.digits else whole, usage=Usage.of_call(200, tokens))

    def is_model(self, other: object) -> bool:
        """Say that it is nothing else."""
        return other is self


def _judge_by_model() -> Judge:
    levels = {1: "bad", 2: "poor", 3: "fair", 4: "good"}
    return Rubric(_JudgeModel(), criteria="good", levels=levels, instructions="Rate it.", examples=[], gate=False)


def _judge(tokens: int) -> Judge:
    async def judge(answer: str) -> Verdict:
        await asyncio.sleep(_FIRST_TOKEN_S / 2 + tokens * _TOKEN_S)
        return Verdict.checked("BAD" not in answer, feedback="Say it well.")

    return as_judge(judge)


async def _measure(mock: _Mock, refiner: Any) -> tuple[float, float, int]:
    """Return the seconds to the first text and to the last, and the tokens that were generated."""
    clock, first = asyncio.get_running_loop().time, None
    began = clock()
    async for chunk in refiner.astream([HumanMessage("Question?")]):
        if chunk.text and first is None:
            first = clock() - began
    return first or 0.0, clock() - began, mock.tokens


def _case(form: str, bad: int) -> tuple[float, float, int]:
    mock = _Mock(bad)
    if form == "none":
        refiner: Any = mock.runnable
    elif form == "whole":
        refiner = SelfRefine(mock.runnable, _judge(_ASSESSMENT))
    else:
        own = {"pieces": lambda: _judge(1), "quick": lambda: Quick(_judge_by_model()), "slow": _judge_by_model}[
            form
        ]()
        refiner = SelfRefine(mock.runnable, own, piece_judge=own, release="pieces")
    with asyncio.Runner(loop_factory=_Simulated) as runner:
        return runner.run(_measure(mock, refiner))


_NAMES = {
    "none": "no judge",
    "whole": "judged whole",
    "pieces": "judged in pieces",
    "quick": "in pieces, Quick",
    "slow": "in pieces, 120 tokens each",
}


async def _accepts(answer: str) -> bool:
    return bool(answer)


def _least(measure: Callable[[], float], rounds: int = 3) -> float:
    return min(measure() for _ in range(rounds))


def _cpu_of_a_piece() -> float:
    """Return the seconds of CPU for a released piece: of an answer of many, without waiting."""
    pieces = 400

    async def write(messages: list[BaseMessage]) -> AsyncIterator[AIMessageChunk]:
        del messages
        for number in range(pieces):
            yield AIMessageChunk(content=f"This is the sentence number {number} of it. ")

    async def read() -> None:
        own = as_judge(_accepts)
        refiner = SelfRefine(RunnableLambda(write), own, piece_judge=own, release="pieces", piece_chars=1)
        async for _ in refiner.astream("Why?"):
            pass

    began = time.process_time()
    asyncio.run(read())
    return (time.process_time() - began) / pieces


def _written() -> Wire:
    """Return the answer at the real tempo, as chunks of a completion."""
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    words = [
        word
        for number in range(1, _SENTENCES + 1)
        for word in [f"Sentence{number}", "good", *["word"] * (_WORDS - 3), "end."]
    ]
    deltas = [{"index": 0, "delta": {"content": f"{word} "}, "finish_reason": None} for word in words]
    events = [{**head, "choices": [delta]} for delta in deltas]
    events.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    lines = [f"data: {json.dumps(event)}\n\n".encode() for event in events]
    start = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    return Wire((start, *lines, b"data: [DONE]\n\n"), pause_s=_TOKEN_S, then="close")


def _first_texts() -> tuple[float, float, float]:
    """Return the seconds to the first text in the library and in the guard, and the CPU of the guard's stream."""
    common: Any = {"judge": "tests.guarding:accepts", "piece_judge": "tests.guarding:accepts", "release": "pieces"}
    with serving(lambda _: _written()) as upstream, guarding(upstream.url, **common) as guard:
        own = as_judge(_accepts)
        model = OpenAICompatible(upstream.url, model="m", api_key="k")
        refiner = SelfRefine(model, own, piece_judge=own, release="pieces")

        async def read() -> float:
            began = time.perf_counter()
            async for chunk in refiner.astream("Why?"):
                if chunk.text:
                    return time.perf_counter() - began
            return 0.0

        asyncio.run(read())  # so that connections are open, and modules loaded
        library = _least(lambda: asyncio.run(read()))
        body = {"model": "m", "messages": QUESTION, "stream": True}
        firsts, cpu = [], []
        for _ in range(3):
            began, spent = time.perf_counter(), time.process_time()
            with guard.client.stream("POST", f"{guard.url}/chat/completions", json=body) as response:
                lines = response.iter_lines()
                next(line for line in lines if "Sentence1" in line)
                firsts.append(time.perf_counter() - began)
                list(lines)
            cpu.append(time.process_time() - spent)
    return library, min(firsts), min(cpu)


def main() -> int:
    """Print the table; the exit code is 1 where a bound is missed."""
    cases = [("none", 0), *((form, bad) for bad in (0, 2, 10) for form in ("whole", "pieces", "quick", "slow"))]
    rows = {case: _case(*case) for case in cases}
    print(f"{'':42}{'first text':>12}{'whole answer':>14}{'generated':>11}")
    for (form, bad), (first, whole, tokens) in rows.items():
        name = _NAMES[form] + (f", sentence {bad} bad" if bad else "")
        print(f"{name:42}{first:10.2f} s{whole:12.2f} s{tokens:11}")
    plain, quick = rows["none", 0], ("pieces", "quick")
    cpu = _least(_cpu_of_a_piece)
    library, guard, stream = _first_texts()
    print(
        f"CPU of a released piece {cpu * 1e3:.2f} ms; of a stream of the guard, its ends included {stream:.3f} s"
    )
    print(f"first text at the real tempo: library {library:.2f} s, guard {guard:.2f} s")
    bounds = {
        "first text at most 3x": all(rows[form, bad][0] <= 3 * plain[0] for form in quick for bad in (0, 2, 10)),
        "whole answer at most 1.15x": all(rows[form, 0][1] <= 1.15 * plain[1] for form in quick),
        "with a refused piece at most 2.1x": all(
            rows[form, bad][1] <= 2.1 * plain[1] for form in quick for bad in (2, 10)
        ),
        "120 tokens each no later than whole": all(
            rows["slow", bad][1] <= rows["whole", bad][1] + 0.01 for bad in (0, 2, 10)
        ),
        "tokens at most 1.3x": all(rows[form, bad][2] <= 1.3 * plain[2] for form in quick for bad in (2, 10)),
        "CPU of a piece at most 0.5 ms": cpu <= 0.5e-3,
        "the guard's first text within 0.1 s": guard - library <= 0.1,
    }
    for bound, holds in bounds.items():
        print(f"{'ok  ' if holds else 'MISS'} {bound}")
    return 0 if all(bounds.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
