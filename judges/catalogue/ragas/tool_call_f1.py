"""Tool call F1: how many of the calls made were wanted, and how many of those wanted were made."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import ClassVar, Unpack

from pydantic import JsonValue

from judges.catalogue.metric import MetricSettings
from judges.catalogue.parts.alignment import CallComparison
from judges.catalogue.parts.f_score import f_score
from judges.catalogue.ragas.tool_call_accuracy import ToolCalls, calls_in
from judges.entry import Entry
from judges.errors import ConfigurationError
from judges.messages import ToolCall
from judges.sample import Sample
from judges.verdict import Verdict


class ToolCallF1(ToolCalls):
    """Judge how many of an agent's tool calls are exactly those that were wanted; order does not count.

    A call is right if tool and arguments are the same. F1 = 2 * right / (wanted + made), calls made twice counting
    twice. Nothing wanted and nothing made is 1.

    With `variant="compat"` the score is ragas': of sets, so that repeated calls count once, and 1 is `true`; to 4
    places; nothing wanted and nothing made is 0.

    Args:
        lenient: Whether a number, `true`, `false` or `null` is the same as the text that spells it.
        settings: See `judges.catalogue.metric.MetricSettings`.

    Raises:
        ConfigurationError: If a setting is out of its range, or not known to `variant="compat"`.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.tool_call_f1",
        aliases=("tool_call_f1", "ToolCallF1"),
        asks="Are the tool calls exactly those that were wanted, in any order?",
        needs=("user_input", "reference_tool_calls"),
        subject="agent",
        source="ragas 0.4",
        differs="Repeated calls count as often as they are made; exact, not rounded; no call wanted and none made "
        "is 1; no reference_tool_calls is unscored.",
    )

    def __init__(self, *, lenient: bool = False, **settings: Unpack[MetricSettings]) -> None:
        super().__init__(**settings)
        if self.compat and lenient:
            raise ConfigurationError("variant='compat' is not lenient")
        self._comparison = CallComparison(extra="strict", lenient=lenient)

    def measured(self, sample: Sample) -> Verdict:
        """Compare."""
        wanted, made = calls_in(sample, compat=self.compat)
        found = self._comparison.aligned(wanted, made, ordered=False)
        if self.compat:
            return self.told(sample, _of_sets(wanted, made), wanted, made, found)
        right, count = sum(one.score == 1 for one in found.matched), len(wanted) + len(made)
        return self.told(sample, 2 * right / count if count else 1.0, wanted, made, found)


def _of_sets(wanted: Iterable[ToolCall], made: Iterable[ToolCall]) -> float:
    """Give the reference's F1, rounded as it is there."""
    expected, actual = {_hashable(one) for one in wanted}, {_hashable(one) for one in made}
    right = len(expected & actual)
    return round(f_score(right / len(actual), right / len(expected)), 4) if right else 0.0


def _hashable(call: ToolCall) -> Hashable:
    return (call.name, _frozen(call.args))


def _frozen(value: JsonValue) -> Hashable:
    """Make a value hashable as the reference does, Python's own equality included."""
    if isinstance(value, dict):
        return frozenset((name, _frozen(one)) for name, one in value.items())
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value
