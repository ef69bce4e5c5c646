"""Objects of other libraries as rows, told apart by module and name, so that none of them is imported."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


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
            return _langsmith(source)
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
    """Whether a value is a message or a document, which is a part of a row."""
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


def _langsmith(source: object) -> Mapping[str, Any] | None:
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
