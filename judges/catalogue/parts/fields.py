"""What a judge shows of a sample: needed fields, evidence, the exchange, tool results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from judges.errors import CannotJudge, ConfigurationError
from judges.messages import Conversation, Media, MediaKind, Message, Role, ToolCall
from judges.sample import Sample

_KEY = "parts_not_shown"


class _ShownMessage(dict[str, JsonValue]):
    """The fields of a message as JSON, which know its images and audio."""

    def __init__(self, fields: Mapping[str, JsonValue], media: tuple[Media, ...]) -> None:
        super().__init__(fields)
        self.media = media


def attach(
    data: Mapping[str, JsonValue], takes: Callable[[MediaKind], bool]
) -> tuple[Mapping[str, JsonValue], tuple[Media, ...]]:
    """Return data in which messages name their attachments, and the attachments in this order.

    Args:
        data: What a model is shown.
        takes: Whether the model takes images, or audio; what it does not take stays named as not shown.
    """
    media: list[Media] = []
    attached = {name: _attached(value, media, takes) for name, value in data.items()}
    return (attached, tuple(media)) if media else (data, ())


def _attached(value: Any, media: list[Media], takes: Callable[[MediaKind], bool]) -> Any:
    if isinstance(value, list):
        return [_attached(part, media, takes) for part in value]
    if isinstance(value, _ShownMessage):
        return dict(_named(value, media, takes))
    if isinstance(value, dict):
        return {name: _attached(part, media, takes) for name, part in value.items()}
    return value


def _named(
    message: _ShownMessage, media: list[Media], takes: Callable[[MediaKind], bool]
) -> Iterator[tuple[str, JsonValue]]:
    """Yield the fields of a message, with the numbers of its attachments where its other parts are named."""
    media_by_place = {part.place: part for part in message.media if takes(part.kind)}
    for name, value in message.items():
        if name != _KEY or not isinstance(value, list):
            yield name, value
            continue
        first = len(media)
        media.extend(media_by_place.values())
        if media_by_place:
            yield "attachments", [f"attachment {first + number}" for number in range(1, len(media_by_place) + 1)]
        kinds_without_media = [kind for place, kind in enumerate(value) if place not in media_by_place]
        if kinds_without_media:
            yield _KEY, kinds_without_media


def evidence(sample: Sample) -> dict[str, JsonValue]:
    """Return the non-empty parts of a sample as shown to a judge, by name."""
    steps, answer = sample.steps, sample.answer
    fields: dict[str, JsonValue] = {
        "conversation": _conversation(sample),
        "steps": transcript(steps),
        "documents": list(sample.retrieved_contexts or ()),
        "reference": sample.reference,
        "answer": answer,
    }
    return {name: value for name, value in fields.items() if value}


def _conversation(sample: Sample) -> list[JsonValue]:
    if isinstance(sample.user_input, str) and sample.user_input:
        return [{"role": "user", "content": sample.user_input}]
    return transcript(sample.conversation)


def transcript(messages: Iterable[Message]) -> list[JsonValue]:
    """Return messages as shown to a judge."""
    return [_shown(message) for message in messages]


def _shown(message: Message) -> JsonValue:
    beside_text = message.parts_not_shown or message.media or message.tool_calls
    if message.content and message.name is None and not beside_text:  # as most are
        return {"role": message.role, "content": message.content}
    fields = message.model_dump(mode="json", exclude_defaults=True, exclude={"tool_call_id", "media"})
    return _ShownMessage(fields, message.media) if message.media else fields


def answer_in(sample: Sample) -> str:
    """Return the answer that is judged.

    Raises:
        CannotJudge: `no_response`, if there is none, or it is blank.
    """
    answer = sample.answer or ""
    if not answer.strip():
        raise CannotJudge("no_response", "there is no answer to judge")
    return answer


def reference_in(sample: Sample) -> str:
    """Return the expected answer.

    Raises:
        CannotJudge: `no_reference`, if there is none, or it is blank.
    """
    if not (sample.reference or "").strip():
        raise CannotJudge("no_reference", "there is no reference to compare with")
    return sample.reference or ""


def contexts_in(sample: Sample) -> tuple[str, ...]:
    """Return the retrieved contexts in rank order, blank ones included.

    Raises:
        CannotJudge: `no_contexts`, if there are none, or all are blank.
    """
    contexts = sample.retrieved_contexts or ()
    if not any(context.strip() for context in contexts):
        raise CannotJudge("no_contexts", "there are no retrieved contexts to look at")
    return contexts


def non_blank_contexts_in(sample: Sample) -> list[JsonValue]:
    """Return the retrieved contexts in rank order, without blank ones.

    Raises:
        CannotJudge: `no_contexts`, if there are none, or all are blank.
    """
    return [context for context in contexts_in(sample) if context.strip()]


def question_of(sample: Sample) -> dict[str, JsonValue]:
    """Return the question under the key `question`; an empty dictionary if there is none."""
    return {"question": question_in(sample)} if sample.question.strip() else {}


def question_in(sample: Sample) -> JsonValue:
    """Return the question as shown to a model: a text, or messages if there are several, or parts it cannot show.

    Raises:
        CannotJudge: `no_question`, if there is none.
    """
    if not sample.question.strip():
        raise CannotJudge("no_question", "there is no question")
    messages = sample.conversation
    if len(messages) == 1 and not messages[0].parts_not_shown:
        return sample.question
    return transcript(messages)


def exchange_in(sample: Sample) -> Conversation:
    """Return the whole exchange, from the first message to the answer.

    Raises:
        CannotJudge: `no_question`, if the user writes nothing; `no_response`, if the answer is blank, or the
            assistant neither writes anything nor calls a tool.
    """
    messages = sample.messages
    if not any(message.role == "user" and message.content.strip() for message in messages):
        raise CannotJudge("no_question", "there is no question")
    if sample.answer is not None:
        answer_in(sample)
    if not any(
        message.role == "assistant" and (message.content.strip() or message.tool_calls) for message in messages
    ):
        raise CannotJudge("no_response", "there is no message of the assistant to judge")
    return messages


def turns_of(role: Role, messages: Iterable[Message]) -> tuple[str, ...]:
    """Return the texts of one role's messages, without blank ones."""
    return tuple(message.content for message in messages if _is_turn(message, role))


def with_numbers(messages: Conversation, *, on: Role) -> list[JsonValue]:
    """Return messages as shown to a model, with those of one role numbered from 1; see `turns_of`."""
    rendered: list[JsonValue] = []
    number = 0
    for message, fields in zip(messages, transcript(messages), strict=True):
        if isinstance(fields, dict) and _is_turn(message, on):
            number += 1
            numbered: dict[str, JsonValue] = {"number": number, **fields}
            rendered.append(_ShownMessage(numbered, message.media) if message.media else numbered)
        else:
            rendered.append(fields)
    return rendered


def _is_turn(message: Message, role: Role) -> bool:
    return message.role == role and bool(message.content.strip())


def reads_tool_results(setting: object, *, compat: bool) -> bool:
    """Return whether a judge reads tool results: by its setting, or else unless `variant="compat"`.

    Raises:
        ConfigurationError: If the setting is no yes or no, or asks for what compat does not know.
    """
    if setting is None:
        return not compat
    if setting and compat:
        raise ConfigurationError("variant='compat' reads contexts alone; leave tool_results out")
    return bool(setting)


def premises_in(sample: Sample, *, tool_results: bool, blank: bool = False) -> list[JsonValue]:
    """Return the retrieved contexts and, where they count, the tool results of the whole exchange.

    Args:
        sample: The sample.
        tool_results: Whether tool results count. One that is the same text as a context is left out.
        blank: Whether blank contexts are kept.

    Raises:
        CannotJudge: `no_contexts`, if there are neither contexts nor tool results, or all are blank.
    """
    contexts = sample.retrieved_contexts or ()
    filled = {context.strip() for context in contexts} - {""}
    has_messages = bool(sample.trajectory) or not isinstance(sample.user_input, str)
    results = _results(sample.messages, but=filled) if tool_results and has_messages else []
    if not filled and not results:
        also = " and no tool results" if tool_results else ""
        raise CannotJudge("no_contexts", f"there are no retrieved contexts{also} to look at")
    return [*(context for context in contexts if blank or context.strip()), *results]


def _results(messages: Sequence[Message], *, but: Iterable[str]) -> list[JsonValue]:
    """Return each tool result once, with the call it answers, as shown to a model."""
    results: list[JsonValue] = []
    unanswered: list[ToolCall] = []
    for message in messages:
        if message.role != "tool":
            unanswered = list(message.tool_calls)
            continue
        result = _shown_result(message, _answered(unanswered, message))
        is_new = isinstance(result, _ShownMessage) or result not in results  # pictures differ beside their text
        if message.content.strip() and message.content.strip() not in but and is_new:
            results.append(result)
    return results


def _answered(unanswered: list[ToolCall], result: Message) -> ToolCall | None:
    """Take the call that a result answers out of those before it: by its id, or without one the next call."""
    calls = [call for call in unanswered if result.tool_call_id in (None, call.id)]
    if not calls:
        return None
    unanswered.remove(calls[0])
    return calls[0]


def _shown_result(message: Message, call: ToolCall | None) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = {}
    if call is not None:
        fields = {"tool": call.name, "called_with": dict(call.args)}
    elif message.name:
        fields = {"tool": message.name}
    fields["returned"] = message.content
    if message.parts_not_shown:
        fields["parts_not_shown"] = list(message.parts_not_shown)
    return _ShownMessage(fields, message.media) if message.media else fields
