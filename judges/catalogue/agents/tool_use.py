"""Tool use: whether an agent chose and used its tools well, without a reference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal, Unpack

from pydantic import Field, JsonValue

from judges.catalogue.agents.tools import TOOL_KEYS, checked_tools, tools_in
from judges.catalogue.model_judge import ModelJudge, ModelSettings
from judges.catalogue.parts.calls import render_call
from judges.catalogue.parts.evidence import transcript
from judges.catalogue.parts.exchange import exchange_in
from judges.catalogue.parts.items import bullets, in_order, one_each, reasons
from judges.catalogue.parts.repeats import MadeCall, calls_made_in
from judges.entry import Entry
from judges.errors import CannotJudge
from judges.prompting.questions import Question, ReplySchema
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict

Use = Literal["right", "wrong_tool", "wrong_arguments", "needless", "repeated"]

_FAULTS = ("loop", "wrong_tool", "wrong_arguments", "needless", "repeated")


class CallUse(ReplySchema):
    """How one call was used."""

    number: int = Field(description="whole number of the item")
    reason: str = Field(description="text: why, before the verdict")
    verdict: Use = Field(description="one of right, wrong_tool, wrong_arguments, needless, repeated")


class ToolUseReply(ReplySchema):
    """How the calls were used, and whether one is missing."""

    items: list[CallUse] = Field(description="list of objects, exactly one for each number, in their order")
    reason: str = Field(description="text: whether a call is missing, before `complete`")
    complete: bool = Field(description="true if no call is missing, else false")
    feedback: str = Field(description="text: which call is missing; empty if none is")


TOOL_USE: Question[ToolUseReply] = Question(prompt="tool_use", reply=ToolUseReply)


class ToolUse(ModelJudge):
    """Judge whether an agent chose the right tools, gave them the right arguments, and called none for nothing.

    No reference is needed. Repetition is found by rule: a call with the tool, the arguments and the result of an
    earlier one in the same turn is marked for the model; from the third time on it is a loop, on which
    no model is asked.
    Score = right calls / calls made, where a missing call counts as one more; it passes at `threshold`, or 1.
    No call where none was needed is 1, if the tools are known; otherwise it is unscored, `undefined`.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        tools: The tools that the agent has: names, definitions as JSON, or LangChain tools; None takes
            `metadata["tools"]` of the sample (or `available_tools`, `tool_definitions`), if there are any.
        settings: See `judges.catalogue.model_judge.ModelSettings`.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    entry: ClassVar[Entry] = Entry(
        name="tool_use",
        aliases=(
            "ToolUse",
            "ToolUseMetric",
            "tool_correctness",
            "ToolCorrectness",
            "ArgumentCorrectness",
            "ArgumentCorrectnessMetric",
            "argument_correctness",
            "ToolCallAccuracyEvaluator",
            "ToolSelectionEvaluator",
            "ToolInputAccuracyEvaluator",
            "tool_selection",
            "tool_input_accuracy",
            "ToolCallCorrectness",
            "ToolCallEfficiency",
            "tool_call_correctness",
            "tool_call_efficiency",
            "tool_calling",
            "TOOL_SELECTION_PROMPT",
        ),
        asks="Did the agent choose the right tools, with the right arguments, and call none for nothing?",
        needs=("user_input",),
        calls="1",
        subject="agent",
        source="as in deepeval, Azure AI evaluation, mlflow and Phoenix",
        differs="Selection, arguments and needless calls in one call, with a verdict on each; loops by rule.",
        tags=("agent", "tools", "function calling", "loop", "repetition", "arguments"),
        examples=('tools=["search", "book_table"]',),
    )
    pack = "tool_use"
    pass_mark = 1.0

    def __init__(
        self, model: object = None, *, tools: Iterable[object] | None = None, **settings: Unpack[ModelSettings]
    ) -> None:
        self._tools = checked_tools(tools)
        super().__init__(model, questions=(TOOL_USE,), **settings)

    @property
    def metadata_keys(self) -> tuple[str, ...]:
        """The keys of the tools that the agent has."""
        return TOOL_KEYS

    def deliberate(self, sample: Sample) -> Deliberation:
        """Find loops by rule, and ask about the other calls."""
        messages = exchange_in(sample)
        calls = calls_made_in(messages)
        tools = tools_in(sample) if self._tools is None else self._tools
        if not calls and tools is None:
            raise CannotJudge("undefined", "no tool was called; say in tools= which ones there were")
        open_calls = [call for call in calls if not call.loops]
        data: dict[str, JsonValue] = {} if tools is None else {"tools": tools}
        data |= {"conversation": transcript(messages), "calls": _numbered(open_calls, calls)}
        reply = yield from self.ask(TOOL_USE, sample, data, check=one_each(len(open_calls)))
        uses = iter(in_order(reply.items))
        items = [self._loop(sample, call) if call.loops else _use(call, next(uses)) for call in calls]
        return self._conclude(sample, items, reply)

    def _loop(self, sample: Sample, call: MadeCall) -> Verdict:
        reason = self.say("loop_reason", sample, count=call.times)
        return Verdict.checked(False, value="loop", subject=render_call(call.call), rationale=reason)  # noqa: FBT003

    def _conclude(self, sample: Sample, items: Sequence[Verdict], reply: ToolUseReply) -> Verdict:
        right, count = sum(item.passed is True for item in items), len(items) + (not reply.complete)
        lines = [self._faults(sample, items, fault) for fault in _FAULTS]
        if not reply.complete:
            lines.append(self.say("missing", sample, what=reply.feedback.strip() or reply.reason))
        rationale = "\n".join(filter(None, (reasons(items), "" if reply.complete else reply.reason)))
        return self.verdict(
            right / count if count else 1.0,
            rationale=rationale or reply.reason,
            feedback="\n".join(filter(None, lines)),
            items=tuple(items),
        )

    def _faults(self, sample: Sample, items: Iterable[Verdict], fault: str) -> str:
        calls = dict.fromkeys(f"{item.subject} - {item.rationale}" for item in items if item.value == fault)
        return self.say(fault, sample, calls=bullets(calls, longest=600)) if calls else ""


def _use(call: MadeCall, use: CallUse) -> Verdict:
    return Verdict.checked(
        use.verdict == "right", value=use.verdict, subject=render_call(call.call), rationale=use.reason
    )


def _numbered(open_calls: Iterable[MadeCall], all_calls: Sequence[MadeCall]) -> list[JsonValue]:
    """Return calls as shown to a model; one that repeats another tells the number of that one."""
    listed = list(open_calls)
    numbers = {id(call): number for number, call in enumerate(listed, 1)}
    return [_shown(call, number, numbers, all_calls) for number, call in enumerate(listed, 1)]


def _shown(
    call: MadeCall, number: int, numbers: dict[int, int], all_calls: Sequence[MadeCall]
) -> dict[str, JsonValue]:
    data: dict[str, JsonValue] = {"number": number, "tool": call.call.name, "arguments": dict(call.call.args)}
    if call.result is not None:
        data["result"] = call.result
    if call.first is not None:
        data["repeats"] = numbers[id(all_calls[call.first])]
    return data
