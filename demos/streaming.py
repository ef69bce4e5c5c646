"""Two chats side by side: on the left an answer is judged whole, on the right it streams while it is judged.

The model is scripted, at the tempo of a real one: 0.3 seconds to the first token, then 80 tokens a second. Its
first answer has a sentence that the judge refuses; the viewer never sees it. No key, no network.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableLambda

from demos.command import Options
from demos.screen import Screen, screen
from judges import ConfigurationError, Judge, Verdict, as_judge
from refine import SelfRefine

if TYPE_CHECKING:
    from rich.columns import Columns

_QUESTION = "My parcel is late. What can I do?"
_INDISCRETION = "Frankly, our carrier loses every tenth parcel."
_ANSWER = (
    "I am sorry that your parcel is late.",
    "You find where it is under Orders, with the number from your confirmation.",
    _INDISCRETION,
    "If it has not moved for three days, write to us with that number.",
    "We then ask the carrier, which takes two working days.",
    "Should it be lost, you choose: we send it again, or you have your money back.",
)
_FIRST_TOKEN_S = 0.3
_TOKEN_S = 1 / 80
_ASSESSMENT_TOKENS = 120


_Wait = Callable[[float], Awaitable[None]]
"""Waits as many seconds as a model would take, or a part of them."""


def _writer(wait: _Wait) -> RunnableLambda[list[BaseMessage], str]:
    """Return a model that says the secret once, and goes on from where it is asked to."""

    async def write(messages: list[BaseMessage]) -> AsyncIterator[str]:
        prompt = "\n".join(str(message.text) for message in messages[1:])
        left = [one for one in _ANSWER if one not in prompt and not (prompt and one == _INDISCRETION)]
        await wait(_FIRST_TOKEN_S)
        for token in re.findall(r"\s*\S{1,5}", " ".join(left)):
            await wait(_TOKEN_S)
            yield token

    return RunnableLambda(write)


def _judge(wait: _Wait, tokens: int) -> Judge:
    """Return a judge that refuses the secret, as slow as one that writes so many tokens."""

    async def discreet(answer: str) -> Verdict:
        await wait(_FIRST_TOKEN_S / 2 + tokens * _TOKEN_S)
        return Verdict.checked(_INDISCRETION not in answer, feedback="Say nothing about our carrier's failures.")

    return as_judge(discreet)


@dataclass
class _Side:
    """What the viewer of one chat has seen.

    Args:
        title: What it shows.
        refiner: Answers.
        text: The text so far.
        first_s: Seconds to the first text.
        whole_s: Seconds to the whole answer.
        attempts: How often it was written.
    """

    title: str
    refiner: SelfRefine
    text: str = ""
    first_s: float | None = None
    whole_s: float | None = None
    attempts: int = 0
    seen: list[str] = field(default_factory=list)

    async def run(self, clock: Callable[[], float], changed: Callable[[], None]) -> None:
        """Ask the question, and show what comes."""
        async for chunk in self.refiner.astream(_QUESTION):
            if chunk.text and self.first_s is None:
                self.first_s = clock()
            self.text += str(chunk.text)
            self.seen.append(str(chunk.text))
            if "refine" in chunk.response_metadata:
                self.attempts = len(chunk.response_metadata["refine"]["attempts"])
            changed()
        self.whole_s = clock()
        changed()


def _sides(speed: float) -> tuple[_Side, _Side]:
    """Return both chats."""

    async def wait(seconds: float) -> None:
        await asyncio.sleep(seconds / speed)

    left = SelfRefine(_writer(wait), _judge(wait, _ASSESSMENT_TOKENS))
    right = SelfRefine(
        _writer(wait), _judge(wait, 1), piece_judge=_judge(wait, 1), release="pieces", piece_chars=40
    )
    return _Side("judged whole, as ever", left), _Side("judged in pieces", right)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; the exit code is 0, or 2 if it could not be run."""
    parser = Options("demos.streaming", __doc__)
    parser.add_argument("--speed", type=float, default=1.0, metavar="N", help="how many times faster; default: 1")
    return parser.run(_run, arguments)


def _run(options: argparse.Namespace) -> int:
    if options.speed <= 0:
        raise ConfigurationError(f"--speed is a number above 0, not {options.speed:g}")
    display, both = screen(), _sides(options.speed)
    display.line(f"> {_QUESTION}", "strong")
    asyncio.run(_watch(both, display, options.speed))
    for side in both:
        display.panel(side.title, side.text, "good")
    rows = [
        [side.title, f"{side.first_s or 0:.2f} s", f"{side.whole_s or 0:.2f} s", str(side.attempts)]
        for side in both
    ]
    display.table(["", "first text", "whole answer", "attempts"], rows)
    display.line(
        "Both first drafts spoke of the carrier's failures. Neither viewer has seen that sentence.", "dim"
    )
    return 0


async def _watch(both: Sequence[_Side], display: Screen, speed: float) -> None:
    """Run both chats at once, on a terminal with what each viewer sees."""
    began = time.perf_counter()

    def clock() -> float:
        return (time.perf_counter() - began) * speed

    if not display.live:
        await asyncio.gather(*(side.run(clock, lambda: None) for side in both))
        return
    try:
        from rich.live import Live  # noqa: PLC0415 - an extra, of a terminal alone
    except ImportError:
        await asyncio.gather(*(side.run(clock, lambda: None) for side in both))
        return
    with Live(_picture(both, clock()), refresh_per_second=15, transient=True) as live:
        running = asyncio.gather(*(side.run(clock, lambda: live.update(_picture(both, clock()))) for side in both))
        while not running.done():
            await asyncio.wait({running}, timeout=0.1)
            live.update(_picture(both, clock()))
        await running


def _picture(both: Sequence[_Side], seconds: float) -> Columns:
    from rich.columns import Columns  # noqa: PLC0415 - as above
    from rich.panel import Panel  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    panels = []
    for side in both:
        elapsed = seconds if side.whole_s is None else side.whole_s
        text = Text(side.text or ("..." if side.first_s is None else ""))
        style = "dim" if side.first_s is None else "green" if side.whole_s is not None else "white"
        title = f"{side.title}  {elapsed:4.1f} s"
        panels.append(Panel(text, title=title, title_align="left", border_style=style, width=46, height=14))
    return Columns(panels)


if __name__ == "__main__":
    raise SystemExit(main())
