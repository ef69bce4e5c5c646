"""Tool call F1: how many actual calls were expected, and how many expected calls were made."""

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
    """Judge how far an agent's tool calls are exactly the expected ones; order does not count.

    A call is right if tool and arguments are the same. F1 = 2 * right / (expected + made), calls made twice
    counting twice. No calls expected and none made is 1.

    With `variant="compat"` the score is ragas': of sets, so that repeated calls count once, and 1 is `true`; to 4
    places; no calls expected and none made is 0.

    Args:
        lenient: Whether a number, `true`, `false` or `null` equals the text that spells it.
        reveal_reference: Whether the feedback tells the expected calls and values, too.
        settings: See `judges.catalogue.metric.MetricSettings`.

    Raises:
        ConfigurationError: If a setting is out of its range, or not known to `variant="compat"`.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.tool_call_f1",
        aliases=("tool_call_f1", "ToolCallF1", "ToolCorrectnessMetric", "tool-call-f1"),
        asks="Are the tool calls exactly those that were wanted, in any order?",
        needs=("user_input", "reference_tool_calls"),
        subject="agent",
        source="ragas 0.4",
        differs="Repeated calls count as often as they are made; exact, not rounded; no call wanted and none made "
        "is 1; no reference_tool_calls is unscored.",
        tags=("tools", "function calling", "trajectory", "arguments", "steps"),
        follows="both generations, which agree",
    )

    def __init__(
        self, *, lenient: bool = False, reveal_reference: bool = False, **settings: Unpack[MetricSettings]
    ) -> None:
        super().__init__(reveal_reference=reveal_reference, **settings)
        if self.compat and lenient:
            raise ConfigurationError("variant='compat' is not lenient")
        self._comparison = CallComparison(extra="strict", lenient=lenient)

    def compute(self, sample: Sample) -> Verdict:
        """Align the calls and score the alignment."""
        expected, actual = calls_in(sample, compat=self.compat)
        alignment = self._comparison.align(expected, actual, ordered=False)
        if self.compat:
            return self.aligned_verdict(sample, _set_f1(expected, actual), expected, actual, alignment)
        right, count = sum(one.score == 1 for one in alignment.matched), len(expected) + len(actual)
        return self.aligned_verdict(sample, 2 * right / count if count else 1.0, expected, actual, alignment)


def _set_f1(expected: Iterable[ToolCall], actual: Iterable[ToolCall]) -> float:
    """Return ragas' F1 of sets, rounded as there."""
    expected_keys, actual_keys = {_hashable(call) for call in expected}, {_hashable(call) for call in actual}
    right = len(expected_keys & actual_keys)
    return round(f_score(right / len(actual_keys), right / len(expected_keys)), 4) if right else 0.0


def _hashable(call: ToolCall) -> Hashable:
    return (call.name, _freeze(call.args))


def _freeze(value: JsonValue) -> Hashable:
    """Return a hashable value as ragas does, Python's own equality included."""
    if isinstance(value, dict):
        return frozenset((name, _freeze(one)) for name, one in value.items())
    return tuple(_freeze(one) for one in value) if isinstance(value, list) else value
