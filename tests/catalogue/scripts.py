"""Models that answer a judge's questions by what they are shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.messages import BaseMessage

from judges.testing import ScriptedModel

Shown = dict[str, Any]


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
