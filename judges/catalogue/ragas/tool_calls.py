"""Tool calls after ragas: how far the calls made match those expected, in order or as a set."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any, Literal, Unpack

from pydantic import JsonValue

from judges.catalogue.metric import ComputedMetric, MetricSettings
from judges.catalogue.parts.calls import (
    CallAlignment,
    CallComparison,
    Extra,
    Matchers,
    Pair,
    actual_calls_in,
    parallel_calls_in,
    reference_calls_in,
    render_call,
    render_value,
)
from judges.catalogue.parts.claims import bullets
from judges.catalogue.parts.text import f_score
from judges.errors import CannotJudge, ConfigurationError, unfit
from judges.judge import Judge
from judges.messages import ToolCall
from judges.sample import Sample
from judges.verdict import Verdict

_Match = Literal["strict", "unordered", "subset", "superset"]


class ToolCalls(ComputedMetric, pack="tool_call_accuracy"):
    """A judge that compares actual with expected tool calls, and names the differences.

    The feedback names calls that were made and their arguments; what was expected instead stands in the rationale
    alone, since a generator that reads it would repeat it.
    """

    def __init__(self, *, reveal_reference: bool = False, **settings: Unpack[MetricSettings]) -> None:
        super().__init__(**settings)
        self._reveals = reveal_reference

    def aligned_verdict(
        self,
        sample: Sample,
        score: float,
        expected: Sequence[ToolCall],
        actual: Sequence[ToolCall],
        alignment: CallAlignment,
    ) -> Verdict:
        """Return the verdict, with one item for each expected and each surplus call."""

        def items_of(*, full: bool) -> tuple[Verdict, ...]:
            verdicts = self._call_verdicts(sample, expected, actual, alignment, full=full)
            return tuple(verdict for _, verdict in sorted(verdicts, key=itemgetter(0)))

        items = items_of(full=True)
        full = "" if score == 1 else self._advice(sample, items)
        advice = full if self._reveals or not full else self._advice(sample, items_of(full=False), full=False)
        return self.verdict(score, rationale=full, feedback=advice, items=items)

    def _advice(self, sample: Sample, items: Sequence[Verdict], *, full: bool = True) -> str:
        lines = []
        for fault in ("missing", "surplus", "misordered", "wrong_arguments"):
            calls = [" - ".join(filter(None, (one.subject, one.detail))) for one in items if one.value == fault]
            if calls and fault == "missing" and not full:
                lines.append(self.say("count_missing", sample, count=len(calls)))
            elif calls:
                lines.append(self.say(fault, sample, calls=bullets(calls, longest=600)))
        return "\n".join(lines)

    def _call_verdicts(
        self,
        sample: Sample,
        expected: Sequence[ToolCall],
        actual: Sequence[ToolCall],
        alignment: CallAlignment,
        *,
        full: bool,
    ) -> Iterator[tuple[tuple[bool, int], Verdict]]:
        """Yield the verdict on each call with its sort key: expected calls first, then surplus ones."""
        for pair in alignment.matched:
            call, value = actual[pair.actual], "matched" if pair.score == 1 else "wrong_arguments"
            detail = self._differences(sample, expected[pair.expected], call, pair, full=full)
            yield (False, pair.expected), _call_verdict(call, value, score=pair.score, detail=detail)
        for pair in alignment.misordered:
            phrase = "place" if full else "other_place"
            places = self.say(phrase, sample, made=pair.actual + 1, wanted=pair.expected + 1)
            yield (False, pair.expected), _call_verdict(actual[pair.actual], "misordered", detail=places)
        for place in alignment.missing:
            yield (False, place), _call_verdict(expected[place], "missing")
        for place in alignment.surplus:
            yield (True, place), _call_verdict(actual[place], "surplus")

    def _differences(self, sample: Sample, expected: ToolCall, actual: ToolCall, pair: Pair, *, full: bool) -> str:
        lines = []
        for name in (name for name, score in pair.arguments.items() if score < 1):
            value = render_value(expected.args[name]) if name in expected.args else ""
            wrong, left_out = ("given", "left_out") if full else ("other_value", "lacking")
            phrase = "unwanted" if not value else wrong if name in actual.args else left_out
            lines.append(self.say(phrase, sample, argument=name, value=value))
        return "; ".join(lines)


class ToolCallAccuracy(ToolCalls, entry="ragas.tool_call_accuracy"):
    """Judge how far an agent made the expected tool calls, with the right arguments, in the right order.

    Calls of one message are made at once, so their order among themselves does not count.

    Calls are aligned: by the longest common subsequence where order counts, otherwise by the best matching.
    Score = sum of the argument scores of aligned calls / number of calls, expected or made, whichever is more. A
    call's argument score is the share of expected arguments that are right. No calls expected and none made is 1.

    With `variant="compat"` the score is ragas': arguments are compared as Python writes them; the lists of tools
    must be equal, or the score is 0; without order both lists are sorted, and paired place by place.

    Raises:
        ConfigurationError: If a setting is out of its range, or not known to `variant="compat"`.
    """

    def __init__(
        self,
        *,
        strict_order: bool = True,
        arg_comparison_metric: Matchers | None = None,
        extra_arguments: Literal["ignore", "strict"] = "ignore",
        match: _Match | None = None,
        lenient: bool = False,
        reveal_reference: bool = False,
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(reveal_reference=reveal_reference, **settings)
        if self.compat and (extra_arguments == "strict" or lenient or match in ("subset", "superset")):
            raise ConfigurationError(
                "variant='compat' ignores extra arguments, is not lenient, and matches strictly or unordered"
            )
        extra: Extra = "bare" if self.compat else extra_arguments
        self._match = _match_mode(match, strict_order=strict_order)
        self._comparison = CallComparison(
            matchers=_checked_matchers(arg_comparison_metric), extra=extra, lenient=lenient
        )

    def compute(self, sample: Sample) -> Verdict:
        """Align the calls and score the alignment."""
        expected, actual = _calls_in(sample, compat=self.compat)
        if self.compat:
            texts = [_as_texts(one) for one in expected], [_as_texts(one) for one in actual]
            alignment = self._comparison.align(*texts, ordered=self._match == "strict")
            return self.aligned_verdict(sample, self._compat_score(*texts), expected, actual, alignment)
        ordered = self._match == "strict"
        if ordered:
            actual = self._comparison.in_expected_order(expected, parallel_calls_in(sample))
        alignment = self._comparison.align(expected, actual, ordered=ordered)
        count = {"subset": len(actual), "superset": len(expected)}.get(
            self._match, max(len(expected), len(actual))
        )
        score = alignment.total / count if count else 1.0
        return self.aligned_verdict(sample, score, expected, actual, self._relevant_faults(alignment))

    def _relevant_faults(self, alignment: CallAlignment) -> CallAlignment:
        """Drop the faults that this way of matching ignores."""
        if self._match == "subset":
            return replace(alignment, missing=())
        return replace(alignment, surplus=()) if self._match == "superset" else alignment

    def _compat_score(self, expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> float:
        """Return 0 unless the lists of tools are equal, else the mean argument score of calls at equal places."""
        if self._match == "unordered":
            expected, actual = sorted(expected, key=_sort_key), sorted(actual, key=_sort_key)
        if [one.name for one in expected] != [one.name for one in actual]:
            return 0.0
        scores = [self._comparison.score(*pair) for pair in zip(expected, actual, strict=True)]
        return sum(scores) / len(scores) if scores else 1.0


def _calls_in(sample: Sample, *, compat: bool = False) -> tuple[tuple[ToolCall, ...], tuple[ToolCall, ...]]:
    """Return the expected calls and the actual calls.

    Raises:
        CannotJudge: `no_reference`, if the sample lists no expected calls; `no_response`, if there is no message
            of the assistant (with `compat`, that counts as no calls).
    """
    expected = reference_calls_in(sample)
    if not compat and not any(one.role == "assistant" for one in sample.messages):
        raise CannotJudge("no_response", "there is no message of the assistant to judge")
    return expected, actual_calls_in(sample)


def _call_verdict(call: ToolCall, value: str, *, score: float | None = None, detail: str = "") -> Verdict:
    score = float(value == "matched") if score is None else score
    return Verdict.scored(score, threshold=1, value=value, subject=render_call(call), detail=detail)


def _as_texts(call: ToolCall) -> ToolCall:
    """Return the call with its arguments as text, as ragas compares them: by `str`."""
    return call.model_copy(update={"args": {name: str(value) for name, value in call.args.items()}})


def _sort_key(call: ToolCall) -> tuple[str, ...]:
    return (call.name, *(text for name in sorted(call.args) for text in (name, str(call.args[name]))))


def _match_mode(match: _Match | None, *, strict_order: bool) -> _Match:
    if match is None:
        return "strict" if strict_order else "unordered"
    if match == "strict" and not strict_order:
        raise ConfigurationError("match='strict' and strict_order=False contradict each other; give one of them")
    return match


def _checked_matchers(matchers: Any) -> Any:
    """Return the matchers as functions; a judge that computes its score compares the values as texts."""
    if matchers is None:
        return None
    if isinstance(matchers, Mapping):
        return {name: _checked_matchers(matcher) for name, matcher in matchers.items()}
    if isinstance(matchers, ComputedMetric):
        return partial(_likeness_by, matchers)
    if callable(matchers) and not isinstance(matchers, Judge):
        return matchers
    raise unfit(
        "arg_comparison_metric is a function of a wanted and a given value, a judge that asks no model, "
        "or these by tool or argument",
        matchers,
    )


def _likeness_by(judge: ComputedMetric, expected: object, actual: object) -> float:
    """Return a judge's score for two values as texts; what it cannot score counts as different."""
    texts = (value if isinstance(value, str) else json.dumps(value) for value in (actual, expected))
    try:
        return judge.compute(Sample.read(dict(zip(("response", "reference"), texts, strict=True)))).score or 0.0
    except CannotJudge:
        return 0.0


class ToolCallF1(ToolCalls, entry="ragas.tool_call_f1"):
    """Judge how far an agent's tool calls are exactly the expected ones; order does not count.

    A call is right if tool and arguments are the same. F1 = 2 * right / (expected + made), calls made twice
    counting twice. No calls expected and none made is 1.

    With `variant="compat"` the score is ragas': of sets, so that repeated calls count once, and 1 is `true`; to 4
    places; no calls expected and none made is 0.

    Raises:
        ConfigurationError: If a setting is out of its range, or not known to `variant="compat"`.
    """

    def __init__(
        self, *, lenient: bool = False, reveal_reference: bool = False, **settings: Unpack[MetricSettings]
    ) -> None:
        super().__init__(reveal_reference=reveal_reference, **settings)
        if self.compat and lenient:
            raise ConfigurationError("variant='compat' is not lenient")
        self._comparison = CallComparison(extra="strict", lenient=lenient)

    def compute(self, sample: Sample) -> Verdict:
        """Align the calls and score the alignment."""
        expected, actual = _calls_in(sample, compat=self.compat)
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
