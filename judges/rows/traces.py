"""Traces of mlflow, as it writes them: question and answer, what was retrieved, which tools were called."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_RETRIEVERS, _TOOLS = frozenset({"RETRIEVER"}), frozenset({"TOOL", "FUNCTION"})


def is_trace(value: object) -> bool:
    """Whether a value is a trace of mlflow as a mapping."""
    if not isinstance(value, Mapping):
        return False
    info, data = value.get("info"), value.get("data")
    return isinstance(info, Mapping) and isinstance(data, Mapping) and isinstance(data.get("spans"), Sequence)


def as_trace(value: Any) -> Any:
    """Return a trace as a mapping, given as one, as mlflow's object or as JSON; anything else as it is."""
    dump = getattr(value, "to_dict", None)
    return dump() if callable(dump) else _unquoted(value)


def trace_columns(trace: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a trace says of an exchange as columns of a row."""
    info, spans = trace["info"], trace["data"]["spans"]
    columns: dict[str, Any] = {}
    root = next((span for span in spans if not span.get("parent_span_id", span.get("parent_id"))), None)
    if root is not None:
        columns["inputs"], columns["outputs"] = _attribute(root, "spanInputs"), _attribute(root, "spanOutputs")
    columns.setdefault("inputs", _unquoted(trace["data"].get("request", info.get("request_preview"))))
    columns.setdefault("outputs", _unquoted(trace["data"].get("response", info.get("response_preview"))))
    documents = [document for span in _of_kind(spans, _RETRIEVERS) for document in _documents(span)]
    if documents:
        columns["retrieved_context"] = documents
    calls = [_call(span) for span in _of_kind(spans, _TOOLS)]
    if calls:
        columns["tools_called"] = calls
    expectations = dict(_expectations(info.get("assessments")))
    if expectations:
        columns["expectations"] = expectations
    columns["trace_id"] = info.get("trace_id", info.get("request_id"))
    return columns


def _of_kind(spans: Sequence[Mapping[str, Any]], kinds: frozenset[str]) -> Iterator[Mapping[str, Any]]:
    return (span for span in spans if _attribute(span, "spanType") in kinds)


def _attribute(span: Mapping[str, Any], name: str) -> Any:
    attributes = span.get("attributes")
    return _unquoted(attributes.get(f"mlflow.{name}")) if isinstance(attributes, Mapping) else None


def _unquoted(value: Any) -> Any:
    """Return the value of a JSON text; other text is what it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _documents(span: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    outputs = _attribute(span, "spanOutputs")
    for document in outputs if isinstance(outputs, list) else ():
        if isinstance(document, Mapping):
            metadata = document.get("metadata")
            uri = metadata.get("doc_uri") if isinstance(metadata, Mapping) else None
            yield {"content": document.get("page_content", document.get("content", "")), "doc_uri": uri}
        elif isinstance(document, str):
            yield {"content": document, "doc_uri": None}


def _call(span: Mapping[str, Any]) -> dict[str, Any]:
    inputs = _attribute(span, "spanInputs")
    arguments = inputs if isinstance(inputs, Mapping) else {"input": inputs}
    return {"name": span.get("name"), "args": arguments, "output": _attribute(span, "spanOutputs")}


def _expectations(assessments: object) -> Iterator[tuple[str, Any]]:
    for assessment in assessments if isinstance(assessments, list) else ():
        match assessment:
            case {"assessment_name": str(name), "expectation": {"value": value}}:
                yield name, value
            case {"assessment_name": str(name), "expectation": {"serialized_value": {"value": str(text)}}}:
                yield name, _unquoted(text)
            case _:  # feedback of other judges is no part of the exchange
                continue
