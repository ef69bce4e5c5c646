"""Rows of other libraries: nested columns, replies and conversations, brought to the columns of a sample."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from judges.rows.conversations import is_list, performed, read_sharegpt, read_turns
from judges.rows.replies import as_json, is_message, is_messages, reply_of, text_of
from judges.rows.traces import as_trace, is_trace, trace_columns
from judges.rows.trajectories import keep_trajectory, read_trajectories

QUESTION_KEYS = ("user_input", "question", "query", "input", "messages", "prompt", "text", "content", "topic")
"""Keys under which the inputs of an application hold its question, the first that is there."""

_QUESTIONS = ("user_input", "question", "query", "request", "input", "inputs")
_ANSWERS = ("response", "answer", "output", "outputs", "prediction", "actual_output")
_REFERENCES = ("reference", "expected_response", "ground_truth", "reference_outputs", "expected_output", "target")
_EVIDENCE = ("retrieved_contexts", "retrieved_context_ids", "trajectory")
"""What an application hands out beside its answer."""
_CAMEL_CASE = {
    "actualOutput": "actual_output",
    "expectedOutput": "expected_output",
    "retrievalContext": "retrieval_context",
    "toolsCalled": "tools_called",
    "expectedTools": "expected_tools",
    "additionalMetadata": "additional_metadata",
}
"""deepeval's names, as its files have them."""

NESTED = frozenset({"conversation", "conversations", "trace", "turns", "vars", "expectations", *_CAMEL_CASE})
"""Columns that hold others, so that a row may be of them alone."""

_READ_WITH_OTHERS = frozenset({"trace", "actual_output", "retrieval_context", "source_documents", *_CAMEL_CASE})
"""Columns of which even a text is not always taken as it is."""

_NEVER_MISSING = frozenset({str, int, bool, type(None), list, tuple, dict})
_SCALARS = frozenset({str, int, float, bool, type(None)})


def columns_of(row: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    """Return a row with its nested columns unfolded; what is there in plain form is left as it is.

    Read are `inputs`, `outputs` and `expectations` (mlflow, LangSmith), `vars` (promptfoo), traces of mlflow, test
    cases of deepeval, conversations of ShareGPT, and answers as messages or completions.

    Args:
        row: The row.
        fields: The field of a sample by each name that a column of it may have.
    """
    columns = dict(row)
    if has_missing(columns):
        columns = {name: None if _is_missing(value) else value for name, value in columns.items()}
    if _is_flat(columns):
        return columns
    _unfold_trace(columns)
    _read_deepeval(columns)
    read_sharegpt(columns)
    _read_promptfoo(columns)
    if isinstance(columns.get("expectations"), Mapping):
        _spread(columns, columns.pop("expectations"), fields)
    if "source_documents" in columns and "result" in columns:  # LangChain's retrieval chains
        columns.setdefault("response", columns.pop("result"))
    for name in _QUESTIONS:
        if isinstance(columns.get(name), Mapping):
            _unfold_inputs(columns, name, fields)
    for name in _ANSWERS:
        if not isinstance(columns.get(name), str | None):
            _unfold_answer(columns, name, fields)
    _read_references(columns)
    for name in ("target", "ground_truths"):
        _read_first_of_several(columns, name)
    _read_documents(columns, "retrieved_context", "retrieved_context_ids")
    _read_documents(columns, "expected_retrieved_context", "reference_context_ids")
    return columns


def has_missing(row: Mapping[str, Any]) -> bool:
    """Whether a row has a value that data frames write for a missing one: NaN, or pandas' `NA` and `NaT`."""
    return not _NEVER_MISSING.issuperset(map(type, row.values())) and any(map(_is_missing, row.values()))


def _is_missing(value: object) -> bool:
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan or type(value).__name__ in ("NAType", "NaTType")


def _is_flat(columns: Mapping[str, Any]) -> bool:
    """Whether nothing in a row can be unfolded, as in most files: its values are texts, numbers and the like."""
    return _READ_WITH_OTHERS.isdisjoint(columns) and _SCALARS.issuperset(map(type, columns.values()))


def _read_references(columns: dict[str, Any]) -> None:
    """Take expected answers as texts; tool calls in expected messages become the reference trajectory."""
    read_trajectories(columns)
    for name in _REFERENCES:
        value = columns.get(name)
        if isinstance(value, Mapping) or is_messages(value) or is_message(value):
            keep_trajectory(columns, value)
            columns[name] = text_of(value)


def _unfold_trace(columns: dict[str, Any]) -> None:
    trace = as_trace(columns.pop("trace", None))
    if is_trace(columns):
        trace = {name: columns.pop(name) for name in ("info", "data")}
    if trace is None:
        return
    if not is_trace(trace):
        columns["trace"] = trace
        return
    for name, value in trace_columns(trace).items():
        columns.setdefault(name, value)


def _read_promptfoo(columns: dict[str, Any]) -> None:
    """Take `vars` as an application's inputs; where no question is among them, it is the prompt."""
    if not isinstance(columns.get("vars"), Mapping):
        return
    prompt = columns.get("prompt")
    raw = prompt.get("raw") if isinstance(prompt, Mapping) else prompt
    inputs = dict(columns.pop("vars"))
    if isinstance(raw, str) and not any(inputs.get(key) is not None for key in QUESTION_KEYS):
        columns.pop("prompt")
        inputs["question"] = raw
    columns.setdefault("inputs", inputs)


def _read_deepeval(columns: dict[str, Any]) -> None:
    """Rename deepeval's columns, whose `context` holds the ideal documents, beside `retrieval_context`."""
    for camel, snake in _CAMEL_CASE.items():
        if camel in columns:
            columns.setdefault(snake, columns.pop(camel))
    if "context" in columns and not {"actual_output", "retrieval_context"}.isdisjoint(columns):
        columns.setdefault("reference_contexts", columns.pop("context"))
    for name, column in (("tools_called", "trajectory"), ("expected_tools", "reference_tool_calls")):
        calls = columns.get(name)
        if is_list(calls) and all(isinstance(call, Mapping) for call in calls):
            del columns[name]
            columns.setdefault(column, performed(calls) if name == "tools_called" else list(calls))
    if is_messages(columns.get("turns")):
        read_turns(columns)


def _spread(columns: dict[str, Any], nested: Mapping[str, Any], fields: Mapping[str, str]) -> None:
    """Take nested values as columns: known names before all others, the others where nothing has their name."""
    taken = {fields[name] for name, value in columns.items() if name in fields and value is not None}
    for name, value in nested.items():
        if fields.get(name, name) not in taken:
            columns.setdefault(str(name), value)
            if columns[str(name)] is None:
                columns[str(name)] = value


def _unfold_inputs(columns: dict[str, Any], name: str, fields: Mapping[str, str]) -> None:
    """Take the question out of an application's inputs; what else is known in them becomes a column."""
    inputs = dict(columns[name])
    found = [key for key in QUESTION_KEYS if inputs.get(key) is not None]
    if not found and len(inputs) == 1:
        found = list(inputs)
    if not found:
        known = {key: inputs.pop(key) for key in list(inputs) if key in fields}
        columns[name] = as_json(inputs) if inputs else None
        _spread(columns, known, fields)
        return
    question = inputs.pop(found[0])
    columns[name] = question if isinstance(question, str) or is_messages(question) else as_json(question)
    _spread(columns, inputs, fields)


def _unfold_answer(columns: dict[str, Any], name: str, fields: Mapping[str, str]) -> None:
    """Take an answer apart into its text and the steps before it, and the question if it begins with one."""
    value = columns[name]
    if is_list(value) and not is_messages(value):
        return
    reply = reply_of(value)
    columns[name] = reply.text
    if isinstance(value, Mapping):
        _spread(columns, {key: part for key, part in value.items() if fields.get(key) in _EVIDENCE}, fields)
    if reply.steps and not columns.get("trajectory"):
        columns["trajectory"] = list(reply.steps)
    if reply.asked and not any(columns.get(question) for question in (*_QUESTIONS, "messages")):
        columns["messages"] = list(reply.asked)


def _read_first_of_several(columns: dict[str, Any], name: str) -> None:
    """Take the first of several expected answers; all of them stay beside it as metadata."""
    answers = columns.get(name)
    if not is_list(answers) or is_messages(answers):
        return
    columns.pop(name)
    if answers:
        columns[name] = answers[0]
    if len(answers) > 1:
        columns[f"all_{name}"] = list(answers)


def _read_documents(columns: dict[str, Any], documents_name: str, ids_name: str) -> None:
    """Take the ids from Databricks' documents if there is no column of ids; such documents may lack a text."""
    documents = columns.get(documents_name)
    if not is_list(documents):
        return
    ids = [document.get("doc_uri") if isinstance(document, Mapping) else None for document in documents]
    if ids and all(isinstance(uri, str) for uri in ids):
        if columns.get(ids_name) is None:
            columns[ids_name] = tuple(ids)
        if not any("content" in document for document in documents):
            del columns[documents_name]
