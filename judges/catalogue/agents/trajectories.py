"""An agent's way to its answer: judged by a model, or matched with an expected one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from types import MappingProxyType
from typing import Literal, NamedTuple, Unpack, get_args

from pydantic import JsonValue, TypeAdapter, ValidationError

from judges.catalogue.agents.tool_use import TOOL_KEYS, tools_in
from judges.catalogue.metric import MetricSettings
from judges.catalogue.parts.calls import (
    ArgumentsComparison,
    ArgumentsMode,
    ArgumentsRule,
    CallAlignment,
    CallComparison,
    Step,
    parallel_calls_in,
    reference_calls_in,
    render_call,
)
from judges.catalogue.parts.fields import exchange_in, transcript
from judges.catalogue.parts.questions import OneQuestion
from judges.catalogue.ragas.tool_calls import ToolCalls
from judges.errors import CannotJudge, first_fault, one_line, unfit
from judges.judge import Judge
from judges.messages import Conversation, Message, ToolCall
from judges.rows.columns import TRAJECTORY_KEYS
from judges.sample import Sample
from judges.settings import other_word
from judges.verdict import Verdict

_REFERENCE_KEYS = TRAJECTORY_KEYS
"""Keys of the metadata that hold a reference trajectory: a list of messages. The first that is there counts."""

_MESSAGES: TypeAdapter[tuple[Message, ...]] = TypeAdapter(tuple[Message, ...])


class _ReferenceSteps(NamedTuple):
    """The expected calls.

    Args:
        steps: The calls of each message that has some; of a plain list, one call each.
        grouped: Whether the reference says which calls belong to one message.
    """

    steps: tuple[Step, ...]
    grouped: bool


def _reference_steps_in(sample: Sample) -> _ReferenceSteps:
    """Return the calls that should have been made.

    Raises:
        CannotJudge: `no_reference`, if the sample has neither a reference trajectory nor reference calls;
            `invalid_sample`, if the trajectory is no list of messages.
    """
    messages = _reference_messages_in(sample)
    if messages is None:
        return _ReferenceSteps(tuple((call,) for call in reference_calls_in(sample)), grouped=False)
    return _ReferenceSteps(tuple(message.tool_calls for message in messages if message.tool_calls), grouped=True)


def _reference_messages_in(sample: Sample) -> Conversation | None:
    """Return the messages of the reference trajectory, or None where there is none.

    Raises:
        CannotJudge: `invalid_sample`, if it is no list of messages.
    """
    key = next((key for key in _REFERENCE_KEYS if sample.metadata.get(key) is not None), None)
    if key is None:
        return None
    try:
        return _MESSAGES.validate_python(sample.metadata[key])
    except ValidationError as error:
        place, fault = first_fault(error)
        raise CannotJudge(
            "invalid_sample", f"{key} is a list of messages with tool_calls: {place}: {one_line(fault)}"
        ) from error


def _reference_shown(sample: Sample) -> list[JsonValue] | None:
    """Return the reference trajectory as shown to a model, or None where there is none."""
    messages = _reference_messages_in(sample)
    if messages is not None:
        return transcript(messages)
    if sample.reference_tool_calls is None:
        return None
    return [call.model_dump(mode="json", exclude={"id"}) for call in sample.reference_tool_calls]


_TrajectoryMode = Literal["strict", "unordered", "subset", "superset", "in_order", "any_order"]

_MOST_PAIRS = 250_000


@dataclass(frozen=True, kw_only=True)
class _Trajectories:
    """Two trajectories to match.

    Args:
        expected: The steps of the reference.
        actual: The steps of the agent.
        comparison: How calls are compared.
        grouped: Whether the reference says which calls belong to one message; otherwise each step is one call.
    """

    expected: Sequence[Step]
    actual: Sequence[Step]
    comparison: CallComparison
    grouped: bool

    def match(self, mode: _TrajectoryMode) -> bool:
        """Return whether the trajectories match.

        Raises:
            CannotJudge: `undefined`, if there are too many calls to compare within seconds.
        """
        expected, actual = list(chain.from_iterable(self.expected)), list(chain.from_iterable(self.actual))
        if len(expected) * len(actual) > _MOST_PAIRS:
            raise CannotJudge("undefined", "there are too many tool calls to be compared")
        if mode == "strict":
            return len(expected) == len(actual) and self._same_steps(expected)
        if mode == "in_order":
            return self._in_order()
        if mode == "unordered":
            return len(expected) == len(actual) and self._all_paired(expected, actual)
        if mode == "subset":
            return len(actual) <= len(expected) and self._all_paired(expected, actual, of_actual=True)
        return self._all_paired(expected, actual)

    def _same_steps(self, expected: Sequence[ToolCall]) -> bool:
        """True if each step has the calls expected in it; those of a plain list are dealt out to the steps."""
        steps = self.expected if self.grouped else _dealt_out(expected, map(len, self.actual))
        sizes_agree = [len(step) for step in steps] == [len(step) for step in self.actual]
        return sizes_agree and all(map(self._all_paired, steps, self.actual))

    def _in_order(self) -> bool:
        """True if the expected steps follow each other among the actual ones, each message taking all it can."""
        expected_steps = deque(list(step) for step in self.expected if step)
        for calls in self.actual:
            pairing = _CallPairing(self._fits, calls)
            while expected_steps:
                expected_steps[0] = [call for call in expected_steps[0] if not pairing.add(call)]
                if expected_steps[0]:
                    break
                expected_steps.popleft()
        return not expected_steps

    def _all_paired(
        self, expected: Sequence[ToolCall], actual: Sequence[ToolCall], *, of_actual: bool = False
    ) -> bool:
        if of_actual:
            pairing = _CallPairing(lambda actual, wanted: self._fits(wanted, actual), expected)
            return all(map(pairing.add, actual))
        pairing = _CallPairing(self._fits, actual)
        return all(map(pairing.add, expected))

    def _fits(self, expected: ToolCall, actual: ToolCall) -> bool:
        return expected.name == actual.name and self.comparison.score(expected, actual) == 1


class _CallPairing:
    """One-to-one pairs of calls with some others, grown call by call; earlier pairs move to make room.

    Args:
        fits: Whether a call can be paired with another.
        others: The others, each of which is in one pair at most.
    """

    def __init__(self, fits: Callable[[ToolCall, ToolCall], bool], others: Sequence[ToolCall]) -> None:
        self._fits, self._others = fits, others
        self._calls: list[ToolCall] = []
        self._call_of: dict[int, int] = {}
        self._other_of: dict[int, int] = {}
        self._known: dict[tuple[int, int], bool] = {}

    def add(self, call: ToolCall) -> bool:
        """Pair one more call, along the shortest path of pairs that can move; False where there is none."""
        self._calls.append(call)
        start = len(self._calls) - 1
        reached: dict[int, int] = {}
        queue = deque([start])
        while queue:
            here = queue.popleft()
            for other in range(len(self._others)):
                if other in reached or not self._can_pair(here, other):
                    continue
                reached[other] = here
                if other not in self._call_of:
                    self._move(other, reached, start)
                    return True
                queue.append(self._call_of[other])
        return False

    def _move(self, other: int, reached: Mapping[int, int], start: int) -> None:
        """Pair along the path that ends at a free place."""
        while True:
            call = reached[other]
            place = self._other_of.get(call, other)
            self._call_of[other], self._other_of[call] = call, other
            if call == start:
                return
            other = place

    def _can_pair(self, call: int, other: int) -> bool:
        if (call, other) not in self._known:
            self._known[call, other] = self._fits(self._calls[call], self._others[other])
        return self._known[call, other]


def _dealt_out(calls: Sequence[ToolCall], sizes: Iterable[int]) -> list[Step]:
    remaining = iter(calls)
    return [tuple(islice(remaining, size)) for size in sizes]


class TrajectoryAccuracy(OneQuestion, entry="trajectory_accuracy", pack="trajectory_accuracy"):
    """Judge whether an agent's way to its answer makes sense, step by step.

    Where the sample has a reference trajectory (`metadata["reference_trajectory"]`, a list of messages, or
    `reference_tool_calls`), the model is shown it as one good way: another that does the same is as good.

    | value | score | when |
    |---|---|---|
    | sound | 1 | each step follows from what was known, and leads on |
    | wasteful | 2/3 | it gets there, with steps that were not needed |
    | flawed | 1/3 | a step does not follow, or one that is needed is missing |
    | wrong | 0 | it does not lead to what the user wants |
    """

    labels = MappingProxyType({"sound": 1.0, "wasteful": 2 / 3, "flawed": 1 / 3, "wrong": 0.0})
    metadata_keys = _REFERENCE_KEYS
    """The keys of a reference trajectory."""

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the whole exchange, and the reference trajectory where there is one."""
        conversation = transcript(exchange_in(sample))
        reference = _reference_shown(sample)
        data: dict[str, JsonValue] = {} if reference is None else {"reference_trajectory": reference}
        return {**data, "conversation": conversation}


class PlanQuality(OneQuestion, entry="plan_quality", pack="plan_quality"):
    """Judge whether an agent's plan could reach what the user wants, whether or not it was carried out.

    The plan is `metadata["plan"]`, a text or a list of steps, or else what the assistant says that it will do.
    With `metadata["tools"]` it must be possible with these.

    | value | score | when |
    |---|---|---|
    | good | 1 | its steps lead to the goal, in an order that works |
    | wasteful | 2/3 | they do, with steps that are not needed |
    | gaps | 1/3 | a step is missing, not possible, or in the wrong place |
    | unfit | 0 | it leads elsewhere, or there is no plan although one was needed |
    """

    labels = MappingProxyType({"good": 1.0, "wasteful": 2 / 3, "gaps": 1 / 3, "unfit": 0.0})
    metadata_keys = ("plan", *TOOL_KEYS)
    """The keys of the plan, and of the tools that the agent has."""

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the exchange, with the plan and the tools where they are known."""
        conversation = transcript(exchange_in(sample))
        data: dict[str, JsonValue] = {"plan": sample.metadata.get("plan"), "tools": tools_in(sample)}
        return {**{name: value for name, value in data.items() if value}, "conversation": conversation}


class TrajectoryMatch(ToolCalls, entry="trajectory_match", pack="trajectory_match"):
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

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    metadata_keys = _REFERENCE_KEYS
    """The keys of a reference trajectory."""

    def __init__(
        self,
        *,
        mode: _TrajectoryMode = "strict",
        arguments: ArgumentsRule = "exact",
        arguments_by_tool: Mapping[str, ArgumentsRule] | None = None,
        lenient: bool = False,
        reveal_reference: bool = False,
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(reveal_reference=reveal_reference, **settings)
        self._mode = other_word("mode", mode)
        self._comparison = ArgumentsComparison(
            rule=_checked_rule(arguments, setting="arguments"),
            by_tool=_checked_rules(arguments_by_tool),
            lenient=lenient,
        )

    def compute(self, sample: Sample) -> Verdict:
        """Match the trajectories; where they do not match, align them to name the faults."""
        expected, grouped = _reference_steps_in(sample)
        if not any(message.role == "assistant" for message in sample.messages):
            raise CannotJudge("no_response", "there is no message of the assistant to judge")
        actual = parallel_calls_in(sample)
        pair = _Trajectories(expected=expected, actual=actual, comparison=self._comparison, grouped=grouped)
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
        """True if the messages are those of the reference by their roles, which counts for openevals' `strict`."""
        reference = _reference_messages_in(sample) if self.compat and self._mode == "strict" else None
        return reference is None or [one.role for one in reference] == [one.role for one in sample.messages]

    def _matched(self, pair: _Trajectories) -> Verdict:
        steps = pair.actual if self._mode == "subset" else pair.expected
        calls = [render_call(call) for call in chain.from_iterable(steps)]
        return Verdict.checked(
            True,  # noqa: FBT003 - the verdict
            items=tuple(Verdict.checked(True, value="matched", subject=call) for call in calls),  # noqa: FBT003
        )

    def _mismatched(self, sample: Sample, pair: _Trajectories) -> Verdict:
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

    def _relevant_faults(self, alignment: CallAlignment) -> CallAlignment:
        """Drop the faults that this mode allows."""
        if self._mode == "subset":
            return replace(alignment, missing=())
        if self._mode in ("superset", "any_order", "in_order"):
            return replace(alignment, surplus=())
        return alignment


def _checked_rules(rules: object) -> Mapping[str, ArgumentsRule]:
    if rules is None:
        return {}
    if not isinstance(rules, Mapping):
        raise unfit("arguments_by_tool maps names of tools to how their arguments are compared", rules)
    return {tool: _checked_rule(rule, setting=f"arguments_by_tool[{tool!r}]") for tool, rule in rules.items()}


def _checked_rule(rule: ArgumentsRule, *, setting: str) -> ArgumentsRule:
    if isinstance(rule, str) and rule in get_args(ArgumentsMode):
        return rule
    if callable(rule) and not isinstance(rule, Judge | type):
        return rule
    if isinstance(rule, list | tuple) and rule and all(isinstance(path, str) and path for path in rule):
        return tuple(rule)
    raise unfit(
        f"{setting} is one of {', '.join(get_args(ArgumentsMode))}, a list of arguments, or a function of "
        "the arguments made and the expected ones",
        rule,
    )
