"""What release in pieces is worth: seconds to the first text and to the whole answer, and generated tokens.

A mock at a real model's tempo: 0.3 s to the first token, 80 tokens a second, an answer of 228 tokens in 12
sentences; the whole judge writes 120 tokens, the judge of pieces one. Times are of that tempo, not of the CPU: the
clock of the event loop is simulated, and jumps to whatever is due next. `python -m tests.bench.streaming` prints
the table, and fails where a bound is missed. The judge of pieces says at once what is amiss, as rules do; behind a
`Quick` the feedback of the whole judge takes 1.65 s more for each refused piece.
"""

from __future__ import annotations

import asyncio
import selectors
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableLambda

from judges import Judge, Verdict, as_judge
from refine import SelfRefine

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
        own = _judge(1)
        refiner = SelfRefine(mock.runnable, own, piece_judge=own, release="pieces")
    with asyncio.Runner(loop_factory=_Simulated) as runner:
        return runner.run(_measure(mock, refiner))


def main() -> int:
    """Print the table; the exit code is 1 where a bound is missed."""
    cases = [
        (form, bad) for bad in (0, 2, 10) for form in ("none", "whole", "pieces") if form != "none" or not bad
    ]
    rows = {case: _case(*case) for case in cases}
    print(f"{'':32}{'first text':>12}{'whole answer':>14}{'generated':>11}")
    for (form, bad), (first, whole, tokens) in rows.items():
        name = {"none": "no judge", "whole": "judged whole", "pieces": "judged in pieces"}[form]
        print(f"{name + (f', sentence {bad} bad' if bad else ''):32}{first:10.2f} s{whole:12.2f} s{tokens:11}")
    plain = rows["none", 0]
    bounds = {
        "first text at most 3x": all(rows["pieces", bad][0] <= 3 * plain[0] for bad in (0, 2, 10)),
        "whole answer at most 1.15x": rows["pieces", 0][1] <= 1.15 * plain[1],
        "with a refused piece at most 2.1x": all(rows["pieces", bad][1] <= 2.1 * plain[1] for bad in (2, 10)),
        "tokens at most 1.3x": all(rows["pieces", bad][2] <= 1.3 * plain[2] for bad in (2, 10)),
    }
    for bound, holds in bounds.items():
        print(f"{'ok  ' if holds else 'MISS'} {bound}")
    return 0 if all(bounds.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
