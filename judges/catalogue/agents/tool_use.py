"""Agents without a reference: whether tools are chosen and used well, and whether the task is done."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat, takewhile
from typing import Literal, NamedTuple, Unpack

from pydantic import Field, JsonValue, TypeAdapter, ValidationError

from judges.catalogue.before_judging import arguments_schema
from judges.catalogue.metric import ModelJudge, ModelSettings
from judges.catalogue.parts.calls import key_of, render_call
from judges.catalogue.parts.claims import in_order, listed_feedback, one_each, reasons
from judges.catalogue.parts.fields import exchange_in, transcript
from judges.catalogue.parts.questions import checked_text
from judges.errors import CannotJudge, unfit
from judges.messages import Conversation, ToolCall
from judges.prompting.prompts import Question, ReplySchema
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict

TOOL_KEYS = ("tools", "available_tools", "tool_definitions")
"""Keys of the metadata that hold the tools; the first that is there counts."""

_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)


def checked_tools(tools: object) -> list[JsonValue] | None:
    """Return tools as shown to a model.

    Args:
        tools: Names, definitions as JSON, or objects with `name`, `description` and `args` such as LangChain's.

    Raises:
        ConfigurationError: If they are none of these.
    """
    if tools is None:
        return None
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable):
        raise unfit("tools is a list of names, definitions or LangChain tools", tools)
    return [_shown_tools(tool) for tool in tools]


def tools_in(sample: Sample) -> list[JsonValue] | None:
    """Return the tools that the sample's metadata lists, or None where it lists none."""
    tools = next((sample.metadata[key] for key in TOOL_KEYS if sample.metadata.get(key)), None)
    if tools is None:
        return None
    return tools if isinstance(tools, list) else [tools]


def _shown_tools(tool: object) -> JsonValue:
    if isinstance(name := getattr(tool, "name", None), str):
        fields = {
            "name": name,
            "description": getattr(tool, "description", ""),
            "parameters": arguments_schema(tool),
        }
        tool = {key: value for key, value in fields.items() if value}
    if not isinstance(tool, str | Mapping):
        raise unfit("a tool is a name, a definition or a LangChain tool", tool)
    try:
        return _JSON.validate_python(dict(tool) if isinstance(tool, Mapping) else tool)
    except ValidationError as error:
        raise unfit("a tool's definition is JSON", tool) from error


_Use = Literal["right", "wrong_tool", "wrong_arguments", "needless", "repeated"]

_FAULTS = ("loop", "wrong_tool", "wrong_arguments", "needless", "repeated")


class _CallUse(ReplySchema):
    """How one call was used."""

    number: int = Field(description="whole number of the item")
    reason: str = Field(description="text: why, before the verdict")
    verdict: _Use = Field(description="one of right, wrong_tool, wrong_arguments, needless, repeated")


class _ToolUseReply(ReplySchema):
    """How the calls were used, and whether one is missing."""

    items: list[_CallUse] = Field(description="list of objects, exactly one for each number, in their order")
    reason: str = Field(description="text: whether a call is missing, before `complete`")
    complete: bool = Field(description="true if no call is missing, else false")
    feedback: str = Field(description="text: which call is missing; empty if none is")


_TOOL_USE: Question[_ToolUseReply] = Question(prompt="tool_use", reply=_ToolUseReply)


_LOOP = 3
"""A call made this many times with the same result, and nothing new in between, is a loop."""


class _MadeCall(NamedTuple):
    """A call with what came of it.

    Args:
        call: The call.
        result: The text that the tool returned; None where the sample has none.
        first: Index of the first call with the same tool, arguments and result; None where there is none before.
        times: How many times it was made with this result, this time included.
        rounds: How many of these times since the last call that was none made before.
    """

    call: ToolCall
    result: str | None
    first: int | None
    times: int
    rounds: int

    @property
    def loops(self) -> bool:
        """True if the call goes round in a loop: tests that fail again after another change of the code do not."""
        return self.rounds >= _LOOP


def _calls_made_in(messages: Conversation) -> list[_MadeCall]:
    """Return the calls of the assistant in order, each with its result and whether it repeats an earlier one.

    A call that is made again for another result (a second try after an error, a look at a state that has changed),
    or after another message of the user, repeats nothing.
    """
    calls: list[_MadeCall] = []
    indices_by_call: dict[Hashable, list[int]] = {}
    newest = 0  # the last call that no earlier one was like
    for turn, call, result in _with_results(messages):
        key = (turn, call.name, key_of(call.args), result)
        places = indices_by_call.setdefault(key, [])
        if not places:
            newest = len(calls)
        rounds = 1 + sum(place >= newest for place in places)
        calls.append(_MadeCall(call, result, places[0] if places else None, len(places) + 1, rounds))
        places.append(len(calls) - 1)
    return calls


def _with_results(messages: Conversation) -> Iterator[tuple[int, ToolCall, str | None]]:
    """Yield calls with the number of the user's message before, and the result.

    Results are found by the call's id, else in order among those right behind the call's message.
    """
    turn = 0
    for index, message in enumerate(messages):
        turn += message.role == "user"
        if message.role == "assistant" and message.tool_calls:
            results = _results(message.tool_calls, messages, since=index + 1)
            yield from zip(repeat(turn), message.tool_calls, results, strict=False)


def _results(calls: Sequence[ToolCall], messages: Conversation, *, since: int) -> list[str | None]:
    """Return what the calls of one message returned, from the tools' messages up to the next of another role."""
    later = (messages[place] for place in range(since, len(messages)))
    answers = list(takewhile(lambda message: message.role == "tool", later))
    ids = {call.id for call in calls if call.id is not None}
    by_id = {message.tool_call_id: message.content for message in answers if message.tool_call_id in ids}
    rest = iter([message.content for message in answers if message.tool_call_id not in ids])
    return [by_id[call.id] if call.id in by_id else next(rest, None) for call in calls]


class ToolUse(ModelJudge, entry="tool_use", pack="tool_use"):
    """Judge whether an agent chose the right tools, gave them the right arguments, and called none for nothing.

    No reference is needed. Repetition is found by rule: a call with the tool, the arguments and the result of an
    earlier one in the same turn is marked for the model; from the third time on, with no new call in between, it
    is a loop, on which no model is asked.
    Score = right calls / calls made, where a missing call counts as one more; it passes at `threshold`, or 1.
    No call where none was needed is 1, if the tools are known; otherwise it is unscored, `undefined`.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    pass_mark = 1.0
    metadata_keys = TOOL_KEYS
    """The keys of the tools that the agent has."""

    def __init__(  # type: ignore[misc]  # its tools are those of the agent
        self, model: object = None, *, tools: Iterable[object] | None = None, **settings: Unpack[ModelSettings]
    ) -> None:
        self._tools = checked_tools(tools)
        super().__init__(model, questions=(_TOOL_USE,), **settings)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Find loops by rule, and ask about the other calls."""
        messages = exchange_in(sample)
        calls = _calls_made_in(messages)
        tools = tools_in(sample) if self._tools is None else self._tools
        if not calls and tools is None:
            raise CannotJudge("undefined", "no tool was called; say in tools= which ones there were")
        open_calls = [call for call in calls if not call.loops]
        data: dict[str, JsonValue] = {} if tools is None else {"tools": tools}
        data |= {"conversation": transcript(messages), "calls": _numbered(open_calls, calls)}
        reply = yield from self.ask(_TOOL_USE, sample, data, check=one_each(len(open_calls)))
        uses = iter(in_order(reply.items))
        items = [self._loop(sample, call) if call.loops else _use(call, next(uses)) for call in calls]
        return self._conclude(sample, items, reply)

    def _loop(self, sample: Sample, call: _MadeCall) -> Verdict:
        reason = self.say("loop_reason", sample, count=call.times)
        return Verdict.checked(False, value="loop", subject=render_call(call.call), rationale=reason)  # noqa: FBT003

    def _conclude(self, sample: Sample, items: Sequence[Verdict], reply: _ToolUseReply) -> Verdict:
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
        return listed_feedback(self, sample, {fault: calls}, "calls", longest=600)


def _use(call: _MadeCall, use: _CallUse) -> Verdict:
    return Verdict.checked(
        use.verdict == "right", value=use.verdict, subject=render_call(call.call), rationale=use.reason
    )


def _numbered(open_calls: Iterable[_MadeCall], all_calls: Sequence[_MadeCall]) -> list[JsonValue]:
    """Return calls as shown to a model; one that repeats another tells the number of that one."""
    listed = list(open_calls)
    numbers = {id(call): number for number, call in enumerate(listed, 1)}
    return [_shown(call, number, numbers, all_calls) for number, call in enumerate(listed, 1)]


def _shown(
    call: _MadeCall, number: int, numbers: dict[int, int], all_calls: Sequence[_MadeCall]
) -> dict[str, JsonValue]:
    data: dict[str, JsonValue] = {"number": number, "tool": call.call.name, "arguments": dict(call.call.args)}
    if call.result is not None:
        data["result"] = call.result
    if call.first is not None:
        data["repeats"] = numbers[id(all_calls[call.first])]
    return data


_SCORES = {"done": 1.0, "partly": 0.5, "open": 0.0}


class _TaskState(ReplySchema):
    """How far one task is done, and what is left of it."""

    task: str = Field(description="text: the task, in a few words")
    reason: str = Field(description="text: why, before the verdict")
    verdict: Literal["done", "partly", "open"] = Field(description="one of done, partly, open")
    left: str = Field(description="text: what is left to do; empty if it is done")


class _TaskStates(ReplySchema):
    """How far each task is done."""

    tasks: list[_TaskState] = Field(description="list of objects, one for each task; empty if there is none")


_TASKS: Question[_TaskStates] = Question(prompt="task_completion", reply=_TaskStates)


class TaskCompletion(ModelJudge, entry="task_completion", pack="task_completion"):
    """Judge how far an agent has done what the user wanted, and name what is left.

    The model lists what the user wants, task by task, and says of each whether it is done, partly done or open, by
    what tools returned and what the answer gives, not by what the agent claims.
    Score = mean over the tasks of 1, 0.5 and 0. Where the user wants nothing (a greeting), it is unscored,
    `no_question`.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    def __init__(
        self, model: object = None, *, task: str | None = None, **settings: Unpack[ModelSettings]
    ) -> None:
        self._task = None if task is None else checked_text(task, setting="task")
        super().__init__(model, questions=(_TASKS,), **settings)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask how far each task is done."""
        data: dict[str, JsonValue] = {} if self._task is None else {"task": self._task}
        data["conversation"] = transcript(exchange_in(sample))
        reply = yield from self.ask(_TASKS, sample, data)
        states = [state for state in reply.tasks if state.task.strip()]
        if not states:
            return Verdict.without_score("no_question", "the user wants nothing to be done")
        return self._conclude(sample, states)

    def _conclude(self, sample: Sample, states: Sequence[_TaskState]) -> Verdict:
        items = tuple(_item(state) for state in states)
        open_steps = [
            f"{state.task}: {state.left.strip() or state.reason}" for state in states if state.verdict != "done"
        ]
        advice = listed_feedback(self, sample, {"left": open_steps}, "tasks", longest=600)
        score = sum(_SCORES[state.verdict] for state in states) / len(states)
        return self.verdict(score, rationale=reasons(items), feedback=advice, items=items)


def _item(state: _TaskState) -> Verdict:
    is_done = state.verdict == "done"
    return Verdict.scored(
        _SCORES[state.verdict],
        threshold=1,
        value=state.verdict,
        subject=state.task,
        rationale=state.reason,
        feedback="" if is_done else state.left,
    )
