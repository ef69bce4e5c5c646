"""Tool call accuracy: how far the calls an agent made are those that were wanted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal, Unpack

from judges.catalogue.metric import Measured, MetricSettings
from judges.catalogue.parts.alignment import Alignment, CallComparison, Extra, Matchers, Pair
from judges.catalogue.parts.calls import made_in, wanted_in, written, written_value
from judges.catalogue.parts.items import bullets
from judges.entry import Entry
from judges.errors import CannotJudge, ConfigurationError
from judges.judge import Judge
from judges.messages import ToolCall
from judges.runtime.validation import one_of
from judges.sample import Sample
from judges.verdict import Verdict

Match = Literal["strict", "unordered", "subset", "superset"]


class ToolCalls(Measured):
    """A judge that compares the calls made with those wanted, and names what differs."""

    pack = "tool_call_accuracy"

    def told(
        self, sample: Sample, score: float, wanted: Sequence[ToolCall], made: Sequence[ToolCall], found: Alignment
    ) -> Verdict:
        """Give the verdict, with one item for each wanted and each surplus call."""
        items = [one for _, one in sorted(self._standings(sample, wanted, made, found), key=lambda one: one[0])]
        advice = "" if score == 1 else self._advice(sample, items)
        return self.verdict(score, rationale=advice, feedback=advice, items=tuple(items))

    def _advice(self, sample: Sample, items: Sequence[Verdict]) -> str:
        lines = []
        for fault in ("missing", "surplus", "misordered", "wrong_arguments"):
            calls = [" - ".join(filter(None, (one.subject, one.detail))) for one in items if one.value == fault]
            lines += [self.say(fault, sample, calls=bullets(calls, longest=600))] if calls else []
        return "\n".join(lines)

    def _standings(
        self, sample: Sample, wanted: Sequence[ToolCall], made: Sequence[ToolCall], found: Alignment
    ) -> Iterator[tuple[tuple[bool, int], Verdict]]:
        """Say where each call stands, with its place: wanted calls first."""
        for pair in found.matched:
            call, value = made[pair.made], "matched" if pair.score == 1 else "wrong_arguments"
            detail = self._differences(sample, wanted[pair.wanted], call, pair)
            yield (False, pair.wanted), _standing(call, value, score=pair.score, detail=detail)
        for pair in found.misordered:
            places = self.say("place", sample, made=pair.made + 1, wanted=pair.wanted + 1)
            yield (False, pair.wanted), _standing(made[pair.made], "misordered", detail=places)
        for place in found.missing:
            yield (False, place), _standing(wanted[place], "missing")
        for place in found.surplus:
            yield (True, place), _standing(made[place], "surplus")

    def _differences(self, sample: Sample, wanted: ToolCall, made: ToolCall, pair: Pair) -> str:
        told = []
        for name in (name for name, score in pair.arguments.items() if score < 1):
            value = written_value(wanted.args[name]) if name in wanted.args else ""
            phrase = "unwanted" if not value else "given" if name in made.args else "left_out"
            told.append(self.say(phrase, sample, argument=name, value=value))
        return "; ".join(told)


class ToolCallAccuracy(ToolCalls):
    """Judge how far an agent made the tool calls that were wanted, with the right arguments, in the right order.

    Calls are aligned: by the longest common subsequence where order counts, otherwise by the best matching.
    Score = sum of the argument scores of aligned calls / number of calls, wanted or made, whichever is more. A
    call's argument score is the share of wanted arguments given right. Nothing wanted and nothing made is 1.

    With `variant="compat"` the score is ragas': arguments are compared as Python writes them; the lists of tools
    must be equal, or the score is 0; without order both lists are sorted, and paired place by place.

    Args:
        strict_order: Whether order counts.
        arg_comparison_metric: A function of an argument's wanted and given value that gives 0 to 1, or several
            by tool, by tool and argument, or by argument. Without one, values are equal as JSON: 75 is 75.0, but
            not "75". With `variant="compat"` it is given the values as text.
        extra_arguments: Whether arguments that were not wanted count as wrong (`"strict"`) or not at all.
        match: `"strict"` or `"unordered"`, as `strict_order` says; `"subset"` where no other calls may be made but
            some may be missing: score = sum / calls made; `"superset"` where none may be missing but others may
            be made: score = sum / calls wanted. Order does not count in these two.
        lenient: Whether a number, `true`, `false` or `null` is the same as the text that spells it.
        settings: See `judges.catalogue.metric.MetricSettings`.

    Raises:
        ConfigurationError: If a setting is out of its range, or not known to `variant="compat"`.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.tool_call_accuracy",
        aliases=("tool_call_accuracy", "ToolCallAccuracy"),
        asks="Did the agent make the tool calls that were wanted, with the right arguments, in the right order?",
        needs=("user_input", "reference_tool_calls"),
        subject="agent",
        source="ragas 0.4; modes after openevals",
        differs="Missing, surplus and misordered calls lower the score instead of making it 0; calls are aligned "
        "or matched, not paired by place; arguments are compared as JSON; no reference_tool_calls is unscored.",
    )

    def __init__(
        self,
        *,
        strict_order: bool = True,
        arg_comparison_metric: Matchers | None = None,
        extra_arguments: Literal["ignore", "strict"] = "ignore",
        match: Match | None = None,
        lenient: bool = False,
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(**settings)
        one_of(Literal["ignore", "strict"], extra_arguments, setting="extra_arguments")
        one_of(Literal[True, False], strict_order, setting="strict_order")
        one_of(Literal[True, False], lenient, setting="lenient")
        if self.compat and (extra_arguments == "strict" or lenient or match in ("subset", "superset")):
            raise ConfigurationError(
                "variant='compat' ignores extra arguments, is not lenient, and matches strictly or unordered"
            )
        extra: Extra = "bare" if self.compat else extra_arguments
        self._match = _matched_how(match, strict_order=strict_order)
        self._comparison = CallComparison(matchers=_checked(arg_comparison_metric), extra=extra, lenient=lenient)

    def measured(self, sample: Sample) -> Verdict:
        """Compare."""
        wanted, made = calls_in(sample, compat=self.compat)
        if self.compat:
            texts = [_as_texts(one) for one in wanted], [_as_texts(one) for one in made]
            found = self._comparison.aligned(*texts, ordered=self._match == "strict")
            return self.told(sample, self._compat_score(*texts), wanted, made, found)
        found = self._comparison.aligned(wanted, made, ordered=self._match == "strict")
        count = {"subset": len(made), "superset": len(wanted)}.get(self._match, max(len(wanted), len(made)))
        score = found.total / count if count else 1.0
        return self.told(sample, score, wanted, made, self._faults(found))

    def _faults(self, found: Alignment) -> Alignment:
        """Leave out what this way of matching does not mind."""
        if self._match == "subset":
            return replace(found, missing=())
        return replace(found, surplus=()) if self._match == "superset" else found

    def _compat_score(self, wanted: Sequence[ToolCall], made: Sequence[ToolCall]) -> float:
        """Give 0 unless the lists of tools are equal, else the mean argument score of calls at the same place."""
        if self._match == "unordered":
            wanted, made = sorted(wanted, key=_sorting), sorted(made, key=_sorting)
        if [one.name for one in wanted] != [one.name for one in made]:
            return 0.0
        scores = [self._comparison.score(*both) for both in zip(wanted, made, strict=True)]
        return sum(scores) / len(scores) if scores else 1.0


def calls_in(sample: Sample, *, compat: bool = False) -> tuple[tuple[ToolCall, ...], tuple[ToolCall, ...]]:
    """Give the calls wanted and the calls made.

    Raises:
        CannotJudge: `no_reference`, if the sample does not say which are wanted; `no_response`, if the assistant
            did nothing at all (with `compat`, it then made no calls).
    """
    wanted = wanted_in(sample)
    if not compat and not any(one.role == "assistant" for one in sample.messages):
        raise CannotJudge("no_response", "there is no message of the assistant to judge")
    return wanted, made_in(sample)


def _standing(call: ToolCall, value: str, *, score: float | None = None, detail: str = "") -> Verdict:
    score = float(value == "matched") if score is None else score
    return Verdict.scored(score, threshold=1, value=value, subject=written(call), detail=detail)


def _as_texts(call: ToolCall) -> ToolCall:
    """Write arguments as the reference compares them: as Python writes them."""
    return call.model_copy(update={"args": {name: str(value) for name, value in call.args.items()}})


def _sorting(call: ToolCall) -> tuple[str, ...]:
    return (call.name, *(text for name in sorted(call.args) for text in (name, str(call.args[name]))))


def _matched_how(match: Match | None, *, strict_order: bool) -> Match:
    if match is None:
        return "strict" if strict_order else "unordered"
    one_of(Match, match, setting="match")
    if match == "strict" and not strict_order:
        raise ConfigurationError("match='strict' and strict_order=False contradict each other; give one of them")
    return match


def _checked(matchers: Matchers | None) -> Matchers | None:
    """Check that there are functions at the bottom, and no judges, which take samples."""
    found: object = matchers
    inner = list(found.values()) if isinstance(found, Mapping) else [] if found is None else [found]
    for one in inner:
        if isinstance(one, Mapping):
            _checked(one)
        elif not callable(one) or isinstance(one, Judge):
            raise ConfigurationError(
                f"arg_comparison_metric is a function of a wanted and a given value, or functions by tool or "
                f"argument, not {one!r}"
            )
    return matchers
