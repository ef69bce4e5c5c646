"""What tests of judges share: the ways of asking one, and models that answer by what they are shown."""

from __future__ import annotations

import json
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
