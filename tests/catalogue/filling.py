"""A model that answers any judge's question: it fills the schema of the reply, with the best or the worst."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from pydantic import PrivateAttr

from judges.testing import ScriptedModel
from tests.kit import shown

Schema = Mapping[str, Any]

BEST = ("supported", "full", "kept", "safe", "achieved", "useful", "relevant", "sufficient", "good", "yes")
"""Words of closed sets that are good, where they are not the first of their set; the first of these counts."""

WORST = ("unresolved", "open", "contradicted", "none", "broken", "missing", "bad", "no")
"""Words that are bad, where they are not the last of their set; the first of these counts."""

FIXED: Mapping[frozenset[str], Mapping[str, object]] = {
    frozenset({"conversation", "topics"}): {"verdict": False},  # whether a topic was declined
    frozenset({"context", "reference_claims", "answer_claims"}): {"verdict": True},  # whether noise says so, too
}
"""Fields that are neither good nor bad, by the names of the data that is shown."""

UNWANTED = {"noncommittal", "refused", "refusal", "trivial", "toxic", "harmful", "leak", "severity"}
"""Fields whose yes is bad."""

BAD = "4711"
"""What stands in bad texts, and in no good one."""

WORDS = {
    "en": ("The tower stands in Paris.", "It was built in 1889.", "Say where the tower stands."),
    "zh": ("这座塔位于巴黎。", "它建于1889年。", "请说明塔在哪里。"),
    "ru": ("Башня стоит в Париже.", "Она построена в 1889 году.", "Скажи, где стоит башня."),
}
"""Texts that the model writes."""


class FillingModel(ScriptedModel):
    """A model that fills whatever schema it is asked for.

    Args:
        good: Whether it finds everything good, or everything bad.
        language: The language it writes in.
    """

    _opinion: dict[str, bool] = PrivateAttr(default_factory=dict)
    _language: str = PrivateAttr(default="en")

    def __init__(self, *, good: bool = True, language: str = "en") -> None:
        super().__init__([], name="filling")
        self._language = language
        self.find(good=good)

    def find(self, *, good: bool) -> None:
        """Find everything good, or bad, from now on: this model, and whatever was bound to a copy of it."""
        self._opinion["good"] = good

    def _reply(self, messages: list[BaseMessage], settings: dict[str, Any]) -> AIMessage:
        self.lines.calls.append((list(messages), settings))
        (tool,) = settings["tools"]
        filling = Filling(shown(messages), good=self._opinion["good"], language=self._language)
        return ScriptedModel([filling.of(tool["function"]["parameters"])])._reply(messages, settings)


class Filling:
    """One reply in the making."""

    def __init__(self, data: Mapping[str, Any], *, good: bool, language: str) -> None:
        self._lists = {name: numbers for name, one in data.items() if (numbers := numbers_in(one))}
        self._counts = [one for one in data.values() if type(one) is int]
        self._fixed = FIXED.get(frozenset(data), {})
        self._is_bad = BAD in str(data)
        self._first = str(data.get("first"))
        candidates = sorted(data.get("candidates") or (), key=lambda one: BAD in one["text"])
        self._order = [one["number"] for one in candidates]
        self._quote = re.split("[\ud800-\udfff]", str(data.get("answer", "")).strip()[:20])[0]
        self._good = good
        self._words = WORDS[language]

    def of(self, schema: Schema, name: str = "") -> Any:
        """Fill a schema; `name` is that of the field."""
        if name in self._fixed:
            return self._fixed[name]
        if "anyOf" in schema:
            return self.of(next(one for one in schema["anyOf"] if one.get("type") != "null"), name)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._choice(list(schema["enum"]))
        match schema.get("type"):
            case "object":
                return {key: self.of(one, key) for key, one in schema.get("properties", {}).items()}
            case "array":
                return self._list(schema["items"], name)
            case "boolean":
                return self._good is not (name in UNWANTED)
            case "integer" | "number":
                return self._number(schema, name)
            case _:
                return self._text(schema, name)

    def _list(self, items: Schema, name: str) -> list[Any]:
        if items.get("type") == "object" and "number" in items["properties"]:
            return [{**self.of(items), "number": number} for number in self._numbers(name)]
        if name == "order":
            return self._order
        if items.get("type") == "integer":
            return list(self._numbers(name)) if self._good else []
        if items.get("type") == "string" and "enum" not in items:
            return [f"{one} {BAD}" if self._is_bad else one for one in self._words[:2]]
        return [self.of(items)]

    def _numbers(self, name: str) -> list[int]:
        """Choose the numbered list that a list of the reply is about: the one of its name, or the next one."""
        if name in self._lists:
            return self._lists.pop(name)
        if not self._lists:
            return list(range(1, (self._counts or [2])[0] + 1))
        first = next(iter(self._lists))
        return self._lists.pop(first) if len(self._lists) > 1 else self._lists[first]

    def _choice(self, offered: list[Any]) -> Any:
        if all(isinstance(one, int) for one in offered):
            return max(offered) if self._good else min(offered)
        if {"first", "second"} <= set(offered):
            return "second" if BAD in self._first else "first"
        known = [one for one in (BEST if self._good else WORST) if one in offered]
        return (known or [offered[0] if self._good else offered[-1]])[0]

    def _number(self, schema: Schema, name: str) -> int:
        """Choose a number; one that is not from 0 to 1 is a level, from 1 up."""
        if name == "number":
            return 1
        description = str(schema.get("description"))
        worst, best = (0, 1) if re.search(r"\b0\b", description) else (1, 4)
        if scale := re.search(r"from (\d+) to (\d+)", description):
            worst, best = int(scale[1]), int(scale[2])
        bounds = int(schema.get("minimum", worst)), int(schema.get("maximum", best))
        return bounds[self._good is not (name in UNWANTED)]

    def _text(self, schema: Schema, name: str) -> str:
        if name == "quote":
            return self._quote
        if name in ("feedback", "change"):
            return "" if self._good else self._words[2]
        if re.search(r"\byes\b.*\bno\b", str(schema.get("description", ""))):
            return "yes" if self._good else "no"
        return self._words[0]


def numbers_in(value: Any) -> list[int]:
    """Give the numbers of a numbered list, or none."""
    listed = value if isinstance(value, list) else []
    return [one["number"] for one in listed if isinstance(one, dict) and type(one.get("number")) is int]
