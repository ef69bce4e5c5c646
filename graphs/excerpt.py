"""The excerpt of a long conversation that a judge is shown, so that what a judgement costs is bounded."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, SystemMessage

from graphs.outcome import question_of, read_conversation, sample_of
from graphs.refinement import Refinement
from judges.excerpt import cut_text, level
from judges.sample import Sample

_FRAME = 40
"""Characters that each message and each tool call costs beside its texts: names of fields, punctuation."""
_SHORTEST = 500
"""A tool's result is not cut below this: rather, whole steps are left out."""


def judged_sample(messages: Sequence[AnyMessage], refinement: Refinement) -> Sample:
    """Return the sample for a judge: conversation and steps within the policy's bound, the draft, the evidence.

    The conversation is read once for all attempts.
    """
    limit = refinement.policy.max_conversation_chars
    attempt = refinement.attempts[-1]
    steps = steps_within(attempt.steps, limit)
    if steps is not attempt.steps:
        attempt = attempt.model_copy(update={"steps": tuple(steps)})
    conversation = refinement.memo.get(
        "conversation", messages, lambda: read_conversation(conversation_within(messages, limit))
    )
    if attempt.steps or attempt.evidence:
        return sample_of(conversation, attempt, refinement.evidence)
    question = refinement.memo.get(
        "question", (*messages, refinement.evidence), lambda: question_of(conversation, refinement.evidence)
    )
    return question.model_copy(update={"response": attempt.text, "trajectory": ()})


def conversation_within(messages: Sequence[AnyMessage], limit: int) -> Sequence[AnyMessage]:
    """Return a conversation without its middle if it is longer than `limit` characters; a note tells of the gap.

    The last question and the last message stay, each shortened in its middle where it is very long.
    """
    if sum(map(_length, messages)) <= limit:
        return messages
    longest = limit if len(messages) == 1 else limit // 4
    questions = [index for index, message in enumerate(messages) if message.type == "human"]
    return _without_middle([_cut(message, longest) for message in messages], limit, questions[-1:])


def steps_within(steps: Sequence[AnyMessage], limit: int) -> Sequence[AnyMessage]:
    """Return an attempt's steps with long arguments and results shortened, to `limit` characters altogether."""
    lengths = [_length(step) for step in steps]
    if sum(lengths) <= limit:
        return steps
    longest = max(_SHORTEST, level(lengths, limit) - 2 * _FRAME)
    return _without_middle([_cut(step, longest) for step in steps], limit, [])


def _without_middle(messages: Sequence[AnyMessage], limit: int, chosen: Sequence[int]) -> Sequence[AnyMessage]:
    lengths = [_length(message) for message in messages]
    if sum(lengths) <= limit:
        return messages
    last = len(messages) - 1
    selected = {last, *chosen}
    left = limit - 2 * _length(_gap(last)) - sum(lengths[index] for index in selected)
    selected |= _fitting(range(last - 1, -1, -1), lengths, left * 2 // 3, selected)
    selected |= _fitting(range(last), lengths, left - left * 2 // 3, selected)
    return _with_gaps(messages, sorted(selected))


def _fitting(indexes: Sequence[int], lengths: Sequence[int], room: int, selected: Collection[int]) -> set[int]:
    """Return the first of `indexes` whose lengths fit into `room`; what is selected already takes none."""
    fitting: set[int] = set()
    for index in indexes:
        room -= 0 if index in selected else lengths[index]
        if room < 0:
            break
        fitting.add(index)
    return fitting


def _with_gaps(messages: Sequence[AnyMessage], selected: Sequence[int]) -> list[AnyMessage]:
    excerpt: list[AnyMessage] = []
    for before, index in zip([-1, *selected], selected, strict=False):
        if index > before + 1:
            excerpt.append(_gap(index - before - 1))
        excerpt.append(messages[index])
    return excerpt


def _gap(count: int) -> AnyMessage:
    return SystemMessage(f"[{count} messages are left out here, because the conversation is long]")


def _length(message: AnyMessage) -> int:
    content = message.content
    length = _FRAME + len(content if isinstance(content, str) else str(message.text))
    if isinstance(message, AIMessage):
        for call in message.tool_calls:
            length += _FRAME + len(call["name"]) + len(str(call["args"]))
    return length


def _cut(message: AnyMessage, longest: int) -> AnyMessage:
    if _length(message) <= longest + _FRAME:
        return message
    changes: dict[str, Any] = {"content": cut_text(str(message.text), longest)}
    if isinstance(message, AIMessage) and message.tool_calls:
        calls = [{**call, "args": _cut_values(call["args"], longest)} for call in message.tool_calls]
        changes["tool_calls"] = calls
    return message.model_copy(update=changes)


def _cut_values(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return cut_text(value, longest)
    if isinstance(value, dict):
        return {name: _cut_values(item, longest) for name, item in value.items()}
    return [_cut_values(item, longest) for item in value] if isinstance(value, list) else value
