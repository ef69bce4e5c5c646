"""The output of a generator: `Draft`, and how it is read from what a generator returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage, message_chunk_to_message
from pydantic import JsonValue

from graphs.errors import DraftError
from graphs.isolation import copy_message, copy_messages
from graphs.tool_answer import RETURN_DIRECT, fault_in, tool_result_in, with_answer_last
from judges.errors import BadSample, ConfigurationError
from judges.models.providers.langchain import usage_of
from judges.sample import Sample
from judges.verdict import Usage

_ANSWER_KEYS = ("answer", "output", "response", "result", "text")
_CONTEXT_KEYS = ("retrieved_contexts", "context", "contexts", "source_documents", "documents")


@dataclass(frozen=True, kw_only=True)
class Draft:
    """The output of a generator.

    Args:
        answer: The answer.
        steps: Messages before the answer: tool calls and tool results.
        evidence: Fields of a sample that the generator returned, for instance `retrieved_contexts`.
        raw: The endpoint's own reply, where the generator is a direct client.
        calls: Each model call, as far as the messages report it: the model's name, and what the call consumed.
        fault: What makes the answer unfit to be released, as feedback to the generator: it is rejected, and no
            judge is asked.
        unjudged: Why the answer is handed on unjudged, in a line without its text; empty where it is judged.
        pending: Whether this is no answer yet: whoever runs the loop goes on with it, and then with the loop.
    """

    answer: AIMessage
    steps: tuple[AnyMessage, ...] = ()
    evidence: Mapping[str, JsonValue] = field(default_factory=dict)
    raw: dict[str, JsonValue] | None = None
    calls: tuple[tuple[str | None, Usage], ...] = ()
    fault: str = ""
    unjudged: str = ""
    pending: bool = False


def own_copy(draft: Draft) -> Draft:
    """Return a draft that shares nothing with a generator which may use its messages again."""
    return replace(draft, answer=copy_message(draft.answer), steps=tuple(copy_messages(draft.steps)))


def draft_of(output: object, prompt: Sequence[BaseMessage]) -> Draft:
    """Convert the output of a generator to a draft.

    Raises:
        DraftError: If the output is not an answer.
        ConfigurationError: If a graph stopped for a human where nothing can resume it.
    """
    match output:
        case {"__interrupt__": _}:
            raise ConfigurationError(
                "the generator stopped to ask a human, and nothing could resume it; give the checkpointer to the "
                "loop, and an agent inside none of its own"
            )
        case AIMessageChunk():
            return _draft([_whole_message(output)])
        case AIMessage():
            return _draft([output])
        case str():
            return Draft(answer=AIMessage(output), calls=((None, Usage(calls=1, tokens_known=False)),))
        case {"messages": [*messages], **rest}:
            new = with_answer_last(_new_messages(messages, prompt), rest.get("structured_response"))
            return _draft(new, _contexts(rest))
        case [*messages] if messages and all(isinstance(message, BaseMessage) for message in messages):
            return _draft(_new_messages(messages, prompt))
        case Mapping():
            answer = next((output[key] for key in _ANSWER_KEYS if output.get(key) is not None), None)
            if isinstance(answer, str | AIMessage):
                draft = draft_of(answer, prompt)
                return replace(draft, evidence=_contexts(output))
    raise DraftError(
        f"the generator returned {_shape_of(output)}, which is no answer; return a text, an AIMessage, a mapping "
        f"with 'messages', or one with 'answer' and, if there are any, 'context'"
    )


def _shape_of(output: object) -> str:
    """Describe an output without quoting its texts."""
    if isinstance(output, Mapping):
        return f"a mapping with the keys {sorted(map(str, output))}"
    return repr(output) if output is None or isinstance(output, int | float) else f"a {type(output).__name__}"


def _draft(messages: Sequence[Any], evidence: Mapping[str, JsonValue] | None = None) -> Draft:
    replies = [message for message in messages if isinstance(message, AIMessage)]
    calls = tuple((reply.response_metadata.get("model_name"), usage_of(reply)) for reply in replies)
    if replies and messages[-1] is replies[-1]:
        return Draft(answer=replies[-1], steps=tuple(messages[:-1]), evidence=evidence or {}, calls=calls)
    result = tool_result_in(messages)
    if result is None:
        raise DraftError(
            "the generator's messages do not end with an answer; the last one must be an AIMessage that follows "
            "the question"
        )
    draft = Draft(answer=result, steps=tuple(messages), evidence=evidence or {}, calls=calls)
    fault = fault_in(messages)
    return replace(draft, fault=fault) if fault else replace(draft, unjudged=RETURN_DIRECT)


def _whole_message(chunk: AIMessageChunk) -> AIMessage:
    message = message_chunk_to_message(chunk)
    if not isinstance(message, AIMessage):
        raise DraftError(f"the generator returned a {type(message).__name__}, not an AIMessage")
    return message


def _new_messages(messages: list[Any], prompt: Sequence[BaseMessage]) -> list[Any]:
    """Return the messages after the prompt, or after the last human message where the graph rewrote the prompt."""
    length = len(prompt)
    if len(messages) > length and all(
        ours.type == theirs.type and ours.text == theirs.text
        for ours, theirs in zip(prompt, messages, strict=False)
    ):
        return messages[length:]
    questions = [index for index, message in enumerate(messages) if getattr(message, "type", "") == "human"]
    return messages[questions[-1] + 1 :] if questions else messages


def _contexts(output: Mapping[Any, Any]) -> dict[str, JsonValue]:
    """Return the retrieved contexts of an output, in any form that a sample accepts; skip unreadable values."""
    for value in filter(None, map(output.get, _CONTEXT_KEYS)):
        try:
            texts = Sample.read(retrieved_contexts=value).retrieved_contexts
        except BadSample:
            continue
        if texts:
            return {"retrieved_contexts": list(texts)}
    return {}
