"""An answer in any of the forms that chat applications store: text, messages, completions, structured output."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from judges.messages import Message, unwrapped

_ANSWER_KEYS = (
    "response",
    "answer",
    "output",
    "actual_output",
    "result",
    "text",
    "content",
    "completion",
    "generation",
)
"""Keys under which a mapping holds the text of an answer, the first that is there."""


class _Reply(NamedTuple):
    """An answer taken apart.

    Args:
        text: The answer's text; None where there is none, as in a turn that only calls tools.
        steps: Messages between question and answer: tool calls and their results.
        asked: The conversation up to and including the last question, where the messages begin with it.
    """

    text: Any
    steps: tuple[Any, ...] = ()
    asked: tuple[Any, ...] = ()


def reply_of(value: Any) -> _Reply:
    """Take an answer apart; what has no known form is returned as the text it is, for a sample to check."""
    if is_messages(value):
        return _of_messages(value)
    if is_message(value):
        return _of_messages((value,))
    if isinstance(value, Mapping):
        return _of_mapping(value)
    return _Reply(value)


def text_of(value: Any) -> Any:
    """Return the text of an expected answer in any form, a mapping of several values as JSON."""
    return reply_of(value).text


def is_message(value: object) -> bool:
    """Return whether a value is one message: with a role and content, or LangChain's."""
    if isinstance(value, Mapping):
        return "role" in value and ("content" in value or "tool_calls" in value)
    return isinstance(getattr(value, "type", None), str) and hasattr(value, "content")


def is_messages(value: object) -> bool:
    """Return whether a value is a list of messages, pairs of role and text among them."""
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        return False
    return all(is_message(part) or _is_stored(part) or _is_pair(part) for part in value)


def as_json(value: object) -> str:
    """Return a value as JSON text, in its own script."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _is_pair(part: object) -> bool:
    return isinstance(part, tuple) and len(part) == 2 and all(isinstance(text, str) for text in part)  # noqa: PLR2004 - role and text


def _is_stored(part: object) -> bool:
    """Return whether a value is a message as LangChain writes or serialises them."""
    if not isinstance(part, Mapping):
        return False
    return unwrapped(part) is not part or (isinstance(part.get("data"), Mapping) and "content" in part["data"])


def _role(message: Any) -> object:
    if isinstance(message, tuple):
        return message[0]
    if isinstance(message, Mapping):
        fields = unwrapped(message)
        return fields.get("role", fields.get("type"))
    return getattr(message, "role", None) or getattr(message, "type", None)


def _of_messages(messages: Sequence[Any]) -> _Reply:
    questions = [index for index, message in enumerate(messages) if _role(message) in ("user", "human")]
    since = questions[-1] + 1 if questions else 0
    steps, last = tuple(messages[since:]), messages[-1]
    if not steps or _role(last) not in ("assistant", "ai", "AIMessageChunk") or _calls_tools(last):
        return _Reply(None, steps, tuple(messages[:since]))
    return _Reply(_content(last), steps[:-1], tuple(messages[:since]))


def _calls_tools(message: Any) -> bool:
    if isinstance(message, Mapping):
        data = message.get("data", unwrapped(message))
        return bool(data.get("tool_calls") or data.get("function_call"))
    return bool(getattr(message, "tool_calls", None))


def _content(message: Any) -> Any:
    """Return the text of a message; parts that are no text are named by their type, as in a conversation."""
    return Message.model_validate(message).content


def _of_mapping(value: Mapping[str, Any]) -> _Reply:
    if {"status_code", "body"} <= value.keys():  # a line that the batch endpoint wrote
        return reply_of(value["body"])
    choices = value.get("choices")
    if isinstance(choices, Sequence) and choices and isinstance(choices[0], Mapping):
        choice = choices[0]
        return reply_of(choice["message"]) if "message" in choice else _Reply(choice.get("text"))
    if isinstance(value.get("candidates"), list) and value["candidates"]:
        return _of_candidates(value["candidates"])
    if isinstance(value.get("generations"), list):
        return _of_generations(value["generations"])
    if is_messages(value.get("messages")):
        return _of_messages(value["messages"])
    if _is_stored(value):
        return _of_messages((value,))
    if isinstance(value.get("output"), list) and value.get("object") == "response":
        return _of_responses(value["output"])
    keys = [key for key in _ANSWER_KEYS if value.get(key) is not None]
    if keys and (isinstance(value[keys[0]], str) or len(value) == 1):
        return reply_of(value[keys[0]])
    texts = [text for text in value.values() if isinstance(text, str)]
    return _Reply(texts[0]) if len(value) == 1 and texts else _Reply(as_json(value))


def _of_generations(generations: Any) -> _Reply:
    """Read the first reply of a model as LangChain and LangSmith keep it."""
    while isinstance(generations, list):
        generations = generations[0] if generations else None
    if not isinstance(generations, Mapping):
        return _Reply(None)
    message = generations.get("message")
    return reply_of(message) if message is not None else _Reply(generations.get("text"))


def _of_candidates(candidates: Sequence[Any]) -> _Reply:
    """Read the first candidate of Gemini: its text, or the calls it makes."""
    content = candidates[0].get("content") if isinstance(candidates[0], Mapping) else None
    parts = [part for part in (content or {}).get("parts") or () if isinstance(part, Mapping)]
    calls = [part[name] for part in parts for name in ("functionCall", "function_call") if name in part]
    steps = ({"role": "assistant", "tool_calls": calls},) if calls else ()
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str) and not part.get("thought")]
    return _Reply("".join(texts) if texts else None, steps)


def _of_responses(items: Sequence[Any]) -> _Reply:
    """Read the output of OpenAI's Responses: messages, and function calls with their results."""
    steps: list[Any] = []
    texts: list[str] = []
    for item in items:
        match item:
            case {"type": "message", "content": [*parts]}:
                texts.append(_content({"role": "assistant", "content": parts}))
            case {"type": "image_generation_call"}:
                texts.append("[image]")
            case {"type": "function_call", "name": name, "arguments": arguments}:
                call = {"name": name, "args": arguments, "id": item.get("call_id")}
                steps.append({"role": "assistant", "tool_calls": [call]})
            case {"type": "function_call_output", "output": output}:
                text = output if isinstance(output, str) else as_json(output)
                steps.append({"role": "tool", "content": text, "tool_call_id": item.get("call_id")})
            case _:  # reasoning, and calls of the provider's own tools, say nothing that a judge reads
                continue
    return _Reply("".join(texts) if texts else None, tuple(steps))


def row_of(source: object) -> Mapping[str, Any] | None:
    """Return an object as a row, or None where it is none.

    Read are samples of ragas and inspect, test cases of deepeval, traces of mlflow, runs and examples of
    LangSmith, and any pydantic model, dataclass or named tuple.
    """
    if isinstance(source, Mapping):
        return source
    library, kind = type(source).__module__.partition(".")[0], type(source).__name__
    match library, kind:
        case "mlflow", "Trace":
            return _dumped(source, "to_dict")
        case "langsmith", _:
            return langsmith_row(source)
        case "inspect_ai", "Sample" | "EvalSample":
            return _inspect(source)
        case "deepeval", _:
            return _deepeval(source)
        case _:
            return _plain(source)


def _plain(source: object) -> Mapping[str, Any] | None:
    if isinstance(source, type) or _is_langchain(source):
        return None
    if hasattr(source, "model_dump"):
        return _dumped(source, "model_dump")
    if dataclasses.is_dataclass(source):
        return {field.name: getattr(source, field.name) for field in dataclasses.fields(source)}
    return _dumped(source, "_asdict")


def _is_langchain(source: object) -> bool:
    """Return whether a value is a message or a document, which is a part of a row."""
    return hasattr(source, "page_content") or (hasattr(source, "content") and hasattr(source, "type"))


def _dumped(source: object, method: str, **settings: bool) -> Mapping[str, Any] | None:
    dump = getattr(source, method, None)
    value = dump(**settings) if callable(dump) else None
    return value if isinstance(value, Mapping) else None


def _deepeval(source: object) -> Mapping[str, Any] | None:
    """Read a test case; its `context` holds the ideal documents, whether or not any were retrieved."""
    row = dict(_dumped(source, "model_dump", exclude_defaults=True) or {})
    if "context" in row:
        row["reference_contexts"] = row.pop("context")
    return row or None


def langsmith_row(source: object) -> Mapping[str, Any] | None:
    """Read a run, whose outputs are the answer, or an example, whose outputs are the expected answer."""
    inputs, outputs = getattr(source, "inputs", None), getattr(source, "outputs", None)
    if inputs is None and outputs is None:
        return None
    messages = inputs.get("messages") if isinstance(inputs, Mapping) else None
    if inputs and isinstance(messages, list) and len(messages) == 1 and isinstance(messages[0], list):
        inputs = {**inputs, "messages": messages[0]}  # a batch of one
    row: dict[str, Any] = {"inputs": inputs, "metadata": {"id": str(getattr(source, "id", ""))}}
    if not hasattr(source, "run_type"):
        return {**row, "reference_outputs": outputs, "metadata": {**row["metadata"], **_own_metadata(source)}}
    children = getattr(source, "child_runs", None) or ()
    documents = [
        d for run in children if run.run_type == "retriever" for d in (run.outputs or {}).get("documents", ())
    ]
    calls = [
        {"name": run.name, "args": run.inputs, "output": (run.outputs or {}).get("output", run.outputs)}
        for run in children
        if run.run_type == "tool"
    ]
    row["outputs"] = outputs
    return {**row, **({"documents": documents} if documents else {}), **({"tools_called": calls} if calls else {})}


def _own_metadata(source: object) -> Mapping[str, Any]:
    metadata = getattr(source, "metadata", None)
    return metadata if isinstance(metadata, Mapping) else {}


def _inspect(source: Any) -> Mapping[str, Any]:
    """Read a sample of inspect, or one of its logs with what the model answered."""
    metadata = {**_own_metadata(source), **({"id": source.id} if source.id is not None else {})}
    row: dict[str, Any] = {"input": _messages(source.input), "target": source.target, "metadata": metadata}
    if getattr(source, "choices", None):
        row["metadata"]["choices"] = list(source.choices)
    output = getattr(source, "output", None)
    if output is not None:
        row["output"] = output.completion
        steps = _messages(source.messages)[len(row["input"]) if isinstance(row["input"], list) else 1 :]
        if len(steps) > 1:
            row["trajectory"] = steps[:-1] if steps[-1].get("role") == "assistant" else steps
    return row


def _messages(messages: Any) -> Any:
    return messages if isinstance(messages, str) else [message.model_dump(mode="json") for message in messages]
