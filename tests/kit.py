"""What tests share: ways of asking a judge, models that answer by what they are shown, what hangs, and clocks."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import pytest
from langchain_core.messages import BaseMessage

from judges import Judge, Panel, Verdict
from judges.offline import aevaluate, evaluate
from judges.testing import ScriptedModel

Way = Literal["sync", "async"]
Door = Literal["sync", "async", "panel", "evaluate", "aevaluate"]
Shown = dict[str, Any]

both_ways = pytest.mark.parametrize("way", get_args(Way))
"""Run a test once with each driver, whose name is its argument `way`."""


async def ask(judge: Judge, way: Door, sample: Any = None, /, **fields: Any) -> Verdict:
    """Return what a judge says of a sample, or of the fields of one.

    Args:
        judge: The judge.
        way: "sync" or "async" for its own drivers; "panel", "evaluate" or "aevaluate" to have it asked by these.
        sample: What is judged; None where it is given by its fields.
        fields: Fields of the sample.
    """
    row = fields if sample is None else sample
    match way:
        case "sync":
            return judge(row)
        case "async":
            return await judge.acall(row)
        case "panel":
            return Panel([judge])(row).items[0]
        case "evaluate":
            return evaluate([row], judge).rows[0].verdicts[judge.name]
        case "aevaluate":
            return (await aevaluate([row], judge)).rows[0].verdicts[judge.name]


def shown(messages: list[BaseMessage]) -> Shown:
    """Give the data of the last question, as the model sees it."""
    text = next(one.text for one in reversed(messages) if "\n<<<" in one.text)
    data: Shown = json.loads(text[text.index("\n{\n") : text.rindex("\n}\n") + 2])
    return data


def replying(reply: Callable[[Shown], Mapping[str, Any] | Exception]) -> ScriptedModel:
    """Make a model whose reply depends on the data alone, so that the order of calls means nothing."""
    return ScriptedModel(lambda messages: reply(shown(messages)))


def asked(model: ScriptedModel) -> list[Shown]:
    """Give the data of every question so far."""
    return [shown(messages) for messages in model.prompts]


def items(*verdicts: object) -> dict[str, Any]:
    """Write a reply of numbered items."""
    return {"items": [{"number": n, "reason": f"reason {n}", "verdict": one} for n, one in enumerate(verdicts, 1)]}


class Hang:
    """Calls that hang until their test is over, and whether anybody waited for that: nobody should.

    What waits for them all the same goes on after half a minute, so that its test fails instead of hanging.
    """

    def __init__(self) -> None:
        self._over = threading.Event()
        self.waited_out = False

    def wait(self) -> None:
        """Block."""
        if not self._over.wait(30):
            self.waited_out = True

    async def await_(self) -> None:
        """Wait without blocking."""
        for _ in range(600):
            if self._over.is_set():
                return
            await asyncio.sleep(0.05)
        self.waited_out = True

    def end(self) -> None:
        """Let go of what still hangs."""
        self._over.set()


class Clock:
    """The clocks of this process, which a test puts forward where it would else have to wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead_s = 0.0
        for name in ("monotonic", "perf_counter", "time"):
            monkeypatch.setattr(time, name, self._ahead_of(getattr(time, name)))

    def _ahead_of(self, clock: Callable[[], float]) -> Callable[[], float]:
        return lambda: clock() + self.ahead_s
