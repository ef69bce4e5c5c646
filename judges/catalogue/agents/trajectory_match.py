"""Trajectory match: whether an agent made the calls of a reference, in one of the usual modes, without a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar, Literal, Unpack, get_args

from judges.catalogue.agents.reference import REFERENCE_KEYS, reference_messages_in, reference_steps_in
from judges.catalogue.metric import MetricSettings
from judges.catalogue.parts.alignment import Alignment
from judges.catalogue.parts.calls import parallel_calls_in, render_call
from judges.catalogue.parts.trajectories import (
    ArgumentsComparison,
    ArgumentsMode,
    ArgumentsRule,
    Trajectories,
    TrajectoryMode,
)
from judges.catalogue.ragas.tool_call_accuracy import ToolCalls
from judges.entry import Entry
from judges.errors import CannotJudge, ConfigurationError, shortened
from judges.judge import Judge
from judges.runtime.validation import one_of
from judges.sample import Sample
from judges.verdict import Verdict


class TrajectoryMatch(ToolCalls):
    """Judge whether an agent made the tool calls of a reference trajectory: yes or no.

    The reference is a list of messages in `metadata["reference_trajectory"]`, or else `reference_tool_calls`.
    Calls of one message are a set: their order among themselves does not count. Messages without calls are not
    compared, except by their roles with `variant="compat"` and `"strict"`. A call counts as often as it is made.

    | mode | passes when |
    |---|---|
    | strict | the same calls were made, in the same order; a reference of messages fixes which are made together |
    | in_order | the expected calls were made in their order, others perhaps between them |
    | unordered | the same calls were made, in any order |
    | superset, any_order | the expected calls were made, in any order, others perhaps besides |
    | subset | no calls were made but expected ones, in any order |

    `strict`, `unordered`, `subset` and `superset` are those of openevals; ADK's `EXACT` is `strict`, and its
    `IN_ORDER` and `ANY_ORDER` are known by these names.

    Args:
        mode: How calls are compared: `"strict"`, the same calls in the same order; `"in_order"`, the expected ones
            in their order, others between them; `"unordered"`, the same calls in any order; `"superset"` or
            `"any_order"`, the expected ones and perhaps others; `"subset"`, none but expected ones.
        arguments: How the arguments of two calls are compared: `"exact"`; `"ignore"`; `"subset"` where expected
            ones may be missing; `"superset"` where others may be added; a list of the arguments that count, nested
            ones with dots (`"order.id"`); or a function of the arguments made and the expected ones.
        arguments_by_tool: The same for some tools, by their names.
        lenient: Whether a number, `true`, `false` or `null` equals the text that spells it.
        reveal_reference: Whether the feedback tells the expected calls and values, too.
        settings: See `judges.catalogue.metric.MetricSettings`.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    entry: ClassVar[Entry] = Entry(
        name="trajectory_match",
        aliases=(
            "TrajectoryMatch",
            "create_trajectory_match_evaluator",
            "create_async_trajectory_match_evaluator",
            "trajectory_strict_match",
            "trajectory_unordered_match",
            "tool_trajectory_avg_score",
            "ToolTrajectoryCriterion",
            "TrajectoryEvaluator",
            "TaskNavigationEfficiencyEvaluator",
        ),
        asks="Did the agent make the tool calls of the reference trajectory?",
        needs=("user_input", "reference_tool_calls or reference_trajectory"),
        scale="yes or no",
        subject="agent",
        source="modes of openevals and of Google ADK",
        differs="Calls of one message are a set in every mode; each fault is named; no reference is unscored.",
        tags=("agent", "tools", "steps", "path", "openevals", "adk"),
        examples=('arguments="ignore"', 'arguments_by_tool={"search": ["query"]}'),
    )
    pack = "trajectory_match"

    def __init__(
        self,
        *,
        mode: TrajectoryMode = "strict",
        arguments: ArgumentsRule = "exact",
        arguments_by_tool: Mapping[str, ArgumentsRule] | None = None,
        lenient: bool = False,
        reveal_reference: bool = False,
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(reveal_reference=reveal_reference, **settings)
        one_of(Literal[True, False], lenient, setting="lenient")
        self._mode = _checked_mode(mode)
        self._comparison = ArgumentsComparison(
            rule=_checked_rule(arguments, setting="arguments"),
            by_tool=_checked_rules(arguments_by_tool),
            lenient=lenient,
        )

    @property
    def metadata_keys(self) -> tuple[str, ...]:
        """The keys of a reference trajectory."""
        return REFERENCE_KEYS

    def compute(self, sample: Sample) -> Verdict:
        """Match the trajectories; where they do not match, align them to name the faults."""
        expected, grouped = reference_steps_in(sample)
        if not any(message.role == "assistant" for message in sample.messages):
            raise CannotJudge("no_response", "there is no message of the assistant to judge")
        actual = parallel_calls_in(sample)
        pair = Trajectories(expected=expected, actual=actual, comparison=self._comparison, grouped=grouped)
        if pair.match(self._mode) and self._has_messages(sample):
            return self._matched(pair)
        try:
            return self._mismatched(sample, pair)
        except CannotJudge as error:
            if error.reason != "undefined":
                raise
            text = self.say("mismatch", sample)  # too many calls differ to say which
            return Verdict.checked(False, rationale=text, feedback=text, detail=str(error))  # noqa: FBT003

    def _has_messages(self, sample: Sample) -> bool:
        """Whether the messages are those of the reference by their roles, which counts for openevals' `strict`."""
        reference = reference_messages_in(sample) if self.compat and self._mode == "strict" else None
        return reference is None or [one.role for one in reference] == [one.role for one in sample.messages]

    def _matched(self, pair: Trajectories) -> Verdict:
        steps = pair.actual if self._mode == "subset" else pair.expected
        calls = [render_call(call) for call in chain.from_iterable(steps)]
        return Verdict.checked(
            True,  # noqa: FBT003 - the verdict
            items=tuple(Verdict.checked(True, value="matched", subject=call) for call in calls),  # noqa: FBT003
        )

    def _mismatched(self, sample: Sample, pair: Trajectories) -> Verdict:
        expected, actual = tuple(chain.from_iterable(pair.expected)), tuple(chain.from_iterable(pair.actual))
        ordered = self._mode in ("strict", "in_order")
        if ordered:
            actual = self._comparison.in_expected_order(expected, pair.actual)
        alignment = self._relevant_faults(self._comparison.align(expected, actual, ordered=ordered))
        verdict = self.aligned_verdict(sample, 0.0, expected, actual, alignment)
        if not verdict.feedback:  # the calls are right, but not which of them are made together
            text = self.say("messages" if pair.match(self._mode) else "grouping", sample)
            verdict = verdict.model_copy(update={"feedback": text, "rationale": text})
        return verdict.model_copy(update={"value": False})

    def _relevant_faults(self, alignment: Alignment) -> Alignment:
        """Drop the faults that this mode allows."""
        if self._mode == "subset":
            return replace(alignment, missing=())
        if self._mode in ("superset", "any_order", "in_order"):
            return replace(alignment, surplus=())
        return alignment


def _checked_mode(mode: object) -> TrajectoryMode:
    """Return the mode, which may be spelled as an enum's name or value elsewhere: `IN_ORDER`."""
    name: Any = mode.lower() if isinstance(mode, str) else mode
    checked: TrajectoryMode = one_of(TrajectoryMode, "strict" if name == "exact" else name, setting="mode")
    return checked


def _checked_rules(rules: object) -> Mapping[str, ArgumentsRule]:
    if rules is None:
        return {}
    if not isinstance(rules, Mapping):
        raise ConfigurationError(
            f"arguments_by_tool maps names of tools to how their arguments are compared, not {shortened(rules)}"
        )
    return {tool: _checked_rule(rule, setting=f"arguments_by_tool[{tool!r}]") for tool, rule in rules.items()}


def _checked_rule(rule: ArgumentsRule, *, setting: str) -> ArgumentsRule:
    if isinstance(rule, str) and rule in get_args(ArgumentsMode):
        return rule
    if callable(rule) and not isinstance(rule, Judge | type):
        return rule
    if isinstance(rule, list | tuple) and rule and all(isinstance(path, str) and path for path in rule):
        return tuple(rule)
    raise ConfigurationError(
        f"{setting} is one of {', '.join(get_args(ArgumentsMode))}, a list of arguments, or a function of the "
        f"arguments made and the expected ones, not {shortened(rule)}"
    )
