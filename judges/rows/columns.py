"""Rows of other libraries: nested columns, replies and conversations, brought to the columns of a sample."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, TypeGuard

from pydantic import ValidationError

from judges.messages import Message
from judges.rows.replies import as_json, is_message, is_messages, langsmith_row, reply_of, text_of

_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "model": "assistant",
    "observation": "tool",
    "function_response": "tool",
}
"""Roles of ShareGPT that have another name here; `function_call` is an assistant's message with a call."""


def _read_turns(columns: dict[str, Any]) -> None:
    """Take deepeval's turns as messages, with the tools called before an answer and the documents it was given."""
    turns = columns.pop("turns")
    messages: list[Any] = []
    documents: dict[str, None] = {}
    for turn in turns:
        fields = turn if isinstance(turn, Mapping) else {}
        calls = fields.get("tools_called")
        messages += _performed(calls, first=len(messages) + 1) if _is_list(calls) else ()
        messages.append(turn)
        documents |= dict.fromkeys(fields.get("retrieval_context") or ())
    columns.setdefault("messages", messages)
    if documents:
        columns.setdefault("retrieved_contexts", list(documents))


def _performed(calls: Iterable[Mapping[str, Any]], *, first: int = 1) -> list[dict[str, Any]]:
    """Return tool calls and their outputs as the messages of a conversation.

    Args:
        calls: The calls.
        first: Number in the id of the first, if calls have none.
    """
    steps: list[dict[str, Any]] = []
    for number, call in enumerate(calls, first):
        key = call.get("id") or f"call_{number}"
        steps.append({"role": "assistant", "tool_calls": [{**call, "id": key}]})
        if call.get("output") is not None:
            output = call["output"]
            text = output if isinstance(output, str) else as_json(output)
            steps.append({"role": "tool", "tool_call_id": key, "name": call.get("name"), "content": text})
    return steps


def _read_sharegpt(columns: dict[str, Any]) -> None:
    """Take conversations of ShareGPT, and of Azure's evaluators, as messages."""
    turns = columns.get("conversations", columns.get("conversation"))
    if isinstance(turns, Mapping) and is_messages(turns.get("messages")):  # Azure's evaluators
        columns.setdefault("messages", turns["messages"])
        del columns["conversation" if "conversation" in columns else "conversations"]
        return
    if (
        not _is_list(turns)
        or not turns
        or not all(isinstance(turn, Mapping) and "value" in turn for turn in turns)
    ):
        if is_messages(columns.get("conversations")):
            columns.setdefault("messages", columns.pop("conversations"))
        return
    columns.pop("conversations", columns.pop("conversation", None))
    columns.setdefault("messages", [_message(turn) for turn in turns])


def _message(turn: Mapping[str, Any]) -> dict[str, Any]:
    role, value = str(turn.get("from", turn.get("role"))), turn["value"]
    if role == "function_call":
        calls = _json(value)
        return {"role": "assistant", "tool_calls": calls if isinstance(calls, list) else [calls]}
    return {"role": _ROLES.get(role, role), "content": value}


def _json(value: Any) -> Any:
    """Return what a text holds as JSON; a text that is none names a tool."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return {"name": value}


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Return whether a value is a list and no text."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


TRAJECTORY_KEYS = ("reference_trajectory", "expected_trajectory")
"""Columns of a reference trajectory, which become metadata."""


def _read_trajectories(columns: dict[str, Any]) -> None:
    """Write reference trajectories as JSON; what is no list of messages stays as it is."""
    for name in TRAJECTORY_KEYS:
        messages = _messages(columns.get(name))
        if messages is not None:
            columns[name] = _as_json(messages)


def _keep_trajectory(columns: dict[str, Any], reference: object) -> None:
    """Keep the messages of a reference as the reference trajectory, unless they are an answer alone.

    The reference itself is the text of such messages.
    """
    messages = _messages(reference) or ()
    if any(message.tool_calls or message.role in ("user", "tool") for message in messages):
        columns.setdefault(TRAJECTORY_KEYS[0], _as_json(messages))


def _messages(value: Any) -> tuple[Message, ...] | None:
    """Return messages that can be read; None for anything else."""
    if not is_messages(value):
        return None
    try:
        return tuple(Message.model_validate(message) for message in value)
    except ValidationError:
        return None


def _as_json(messages: Iterable[Message]) -> list[dict[str, Any]]:
    return [message.model_dump(mode="json", exclude_defaults=True) for message in messages]


_RETRIEVERS = frozenset({"RETRIEVER"})
_TOOLS = frozenset({"TOOL", "FUNCTION"})


def is_trace(value: object) -> bool:
    """Return whether a value is a trace of mlflow as a mapping."""
    if not isinstance(value, Mapping):
        return False
    info, data = value.get("info"), value.get("data")
    return isinstance(info, Mapping) and isinstance(data, Mapping) and isinstance(data.get("spans"), Sequence)


def _as_trace(value: Any) -> Any:
    """Return a trace as a mapping, given as one, as mlflow's object or as JSON; anything else as it is."""
    dump = getattr(value, "to_dict", None)
    return dump() if callable(dump) else _unquoted(value)


def _trace_columns(trace: Mapping[str, Any]) -> dict[str, Any]:
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


_QUESTION_KEYS = ("user_input", "question", "query", "input", "messages", "prompt", "text", "content", "topic")
"""Keys under which the inputs of an application hold its question, the first that is there."""

_QUESTIONS = ("user_input", "question", "query", "request", "input", "inputs", "userText")
_ASKED = frozenset({*_QUESTIONS, "messages"})
ANSWERS = (
    "response",
    "answer",
    "output",
    "outputs",
    "prediction",
    "completion",
    "actual_output",
    "responseContent",
)
"""Names of the answer, the first of which is the field's own."""
_REFERENCES = (
    "reference",
    "expected_response",
    "ground_truth",
    "reference_outputs",
    "expected_output",
    "target",
    "expected",
)
_EVIDENCE = ("retrieved_contexts", "retrieved_context_ids", "trajectory")
"""What an application hands out beside its answer."""
_OTHER_NAMES = {
    "actualOutput": "actual_output",
    "expectedOutput": "expected_output",
    "retrievalContext": "retrieval_context",
    "toolsCalled": "tools_called",
    "expectedTools": "expected_tools",
    "additionalMetadata": "additional_metadata",
    "preferred_output": "chosen",
    "non_preferred_output": "rejected",
    "attributes.input.value": "input",
    "attributes.output.value": "output",
    "attributes.retrieval.documents": "retrieved_context",
}
"""Names in files of deepeval, of OpenAI's preferences, and of Phoenix's spans."""

_FORMS = frozenset({"instruction", "prompt", "chosen"})
"""Columns of published sets of prompts and answers."""

NESTED = frozenset(
    {"conversation", "conversations", "trace", "turns", "vars", "expectations", *_FORMS, *_OTHER_NAMES}
)
"""Columns that hold others, so that a row may be of them alone."""

READ_WITH_OTHERS = frozenset(
    {"trace", "actual_output", "retrieval_context", "source_documents", "expected", *_FORMS, *_OTHER_NAMES}
)
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
    if not _NEVER_MISSING.issuperset(map(type, columns.values())) and any(map(_is_missing, columns.values())):
        columns = {name: None if _is_missing(value) else value for name, value in columns.items()}
    if READ_WITH_OTHERS.isdisjoint(columns) and _SCALARS.issuperset(map(type, columns.values())):
        return columns
    _unfold_trace(columns)
    _read_deepeval(columns)
    _read_sharegpt(columns)
    _read_promptfoo(columns)
    _read_published(columns)
    _read_langsmith(columns)
    if isinstance(columns.get("expectations"), Mapping):
        _spread(columns, columns.pop("expectations"), fields)
    if "source_documents" in columns and "result" in columns:  # LangChain's retrieval chains
        columns.setdefault("response", columns.pop("result"))
    for name in _QUESTIONS:
        if isinstance(columns.get(name), Mapping):
            _unfold_inputs(columns, name, fields)
    for name in ANSWERS:
        if not isinstance(columns.get(name), str | None):
            _unfold_answer(columns, name, fields)
    _read_references(columns)
    for name in ("target", "ground_truths", "expected"):
        _read_first_of_several(columns, name)
    _read_documents(columns, "retrieved_context", "retrieved_context_ids")
    _read_documents(columns, "expected_retrieved_context", "reference_context_ids")
    return columns


def _is_missing(value: object) -> bool:
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan or type(value).__name__ in ("NAType", "NaTType")


def _read_references(columns: dict[str, Any]) -> None:
    """Take expected answers as texts; tool calls in expected messages become the reference trajectory."""
    _read_trajectories(columns)
    for name in _REFERENCES:
        value = columns.get(name)
        if isinstance(value, Mapping) or is_messages(value) or is_message(value):
            _keep_trajectory(columns, value)
            columns[name] = text_of(value)


def _unfold_trace(columns: dict[str, Any]) -> None:
    trace = _as_trace(columns.pop("trace", None))
    if is_trace(columns):
        trace = {name: columns.pop(name) for name in ("info", "data")}
    if trace is None:
        return
    if not is_trace(trace):
        columns["trace"] = trace
        return
    for name, value in _trace_columns(trace).items():
        if name != "outputs" or not _holds(columns, ANSWERS):  # a row's own answer is the one to judge
            columns.setdefault(name, value)


def _read_promptfoo(columns: dict[str, Any]) -> None:
    """Take `vars` as an application's inputs; where no question is among them, it is the prompt."""
    if not isinstance(columns.get("vars"), Mapping):
        return
    prompt = columns.get("prompt")
    raw = prompt.get("raw") if isinstance(prompt, Mapping) else prompt
    inputs = dict(columns.pop("vars"))
    if isinstance(raw, str) and not any(inputs.get(key) is not None for key in _QUESTION_KEYS):
        columns.pop("prompt")
        inputs["question"] = raw
    columns.setdefault("inputs", inputs)


def _read_published(columns: dict[str, Any]) -> None:
    """Take the forms of published sets: Alpaca, prompt and completion, preferences, SQuAD, logged requests."""
    if isinstance(columns.get("instruction"), str) and not _holds(columns, _ASKED - {"input"}):
        parts = (columns.pop("instruction"), columns.pop("input", None))
        columns["user_input"] = "\n\n".join(str(part) for part in parts if part)
    _read_transcripts(columns)
    prompt, pair = columns.get("prompt"), columns.get("chosen")
    if pair is not None and columns.get("rejected") is not None and not _holds(columns, ANSWERS):
        columns["response"] = columns.pop("chosen")
        rejected = columns.pop("rejected")
        columns.setdefault("rival", rejected if isinstance(rejected, str) else reply_of(rejected).text)
    if (isinstance(prompt, str) or is_messages(prompt)) and not _holds(columns, _ASKED):
        columns["user_input"] = columns.pop("prompt")
    if not _holds(columns, ANSWERS) and (
        reply := _one_choice("choices", columns.get("choices"), "message", "text")
    ):
        columns["response"] = reply
        del columns["choices"]
    _read_solutions(columns)
    _read_paragraphs(columns)


def _one_choice(name: str, value: object, *keys: str) -> dict[str, Any] | None:
    """Return the choices of a completion as that completion; None for what is none.

    Raises:
        ValueError: If there are several.
    """
    if not _is_list(value) or not any(isinstance(one, Mapping) and set(keys) & one.keys() for one in value):
        return None
    if len(value) > 1:
        raise ValueError(f"{name!r} has {len(value)} answers; give a row for each that is to be judged")
    return {"choices": value}


_TURN = re.compile(r"(?:^|\n\n)(Human|Assistant): ?")


def _read_transcripts(columns: dict[str, Any]) -> None:
    """Take pairs of hh-rlhf, which are whole conversations as one text, as what was said and two last answers."""
    pair = [columns.get(name) for name in ("chosen", "rejected")]
    if not all(isinstance(text, str) and text.lstrip().startswith("Human: ") for text in pair):
        return
    turns = [_TURN.split(str(text).strip())[1:] for text in pair]
    if any(parts[-2] != "Assistant" for parts in turns) or _holds(columns, _ASKED):
        return
    columns["chosen"], columns["rejected"] = (parts[-1].strip() for parts in turns)
    roles, texts = turns[0][:-2:2], turns[0][1:-2:2]
    columns["messages"] = [
        {"role": "user" if role == "Human" else "assistant", "content": text.strip()}
        for role, text in zip(roles, texts, strict=True)
    ]


def _read_paragraphs(columns: dict[str, Any]) -> None:
    """Take the paragraphs of HotpotQA, each a title and its sentences, and the documents of Phoenix, as texts."""
    context, documents = columns.get("context"), columns.get("retrieved_context")
    if isinstance(context, Mapping) and {"title", "sentences"} <= context.keys():
        context = list(zip(context["title"], context["sentences"], strict=True))
    if _is_list(context) and context and all(_is_list(part) and len(part) == 2 for part in context):  # noqa: PLR2004 - a pair
        columns["context"] = [f"{title}: {''.join(sentences)}" for title, sentences in context]
    if _is_list(documents) and documents and all(isinstance(one, Mapping) for one in documents):
        columns["retrieved_context"] = [
            {**one, "content": one["document.content"]} if "document.content" in one else one for one in documents
        ]


def _read_solutions(columns: dict[str, Any]) -> None:
    """Take the answers of SQuAD, several of which are right, and values that are no text, as expected answers."""
    answers = columns.get("answers")
    texts = answers.get("text") if isinstance(answers, Mapping) else None
    if (
        _is_list(answers)
        and answers
        and all(isinstance(one, Mapping) and "answer_start" in one for one in answers)
    ):
        texts = [one.get("text") for one in answers]  # as the authors of SQuAD publish it
    if _is_list(texts) and not _holds(columns, _REFERENCES):
        del columns["answers"]
        columns["ground_truths"] = list(texts)
    for name in ("expected", "output"):
        if isinstance(columns.get(name), bool | int | float):
            columns[name] = as_json(columns[name])


def _holds(columns: Mapping[str, Any], names: Iterable[str]) -> bool:
    """Return whether one of some columns is filled."""
    return any(columns.get(name) not in (None, "") for name in names)


def _read_langsmith(columns: dict[str, Any]) -> None:
    """Take a run or an example of LangSmith that was exported as data as the objects of its client are taken."""
    if isinstance(columns.get("inputs"), Mapping) and not {"run_type", "dataset_id"}.isdisjoint(columns):
        row = langsmith_row(_as_object(columns))
        rest = {name: value for name, value in columns.items() if name not in _OF_A_RUN}
        columns.clear()
        columns.update({**rest, **(row or {})})


_OF_A_RUN = frozenset({"inputs", "outputs", "metadata", "child_runs", "id"})


def _as_object(run: Mapping[str, Any]) -> SimpleNamespace:
    """Return a run as an object, with those below it."""
    children = [_as_object(child) for child in run.get("child_runs") or () if isinstance(child, Mapping)]
    return SimpleNamespace(**{**run, "child_runs": children})


def _read_deepeval(columns: dict[str, Any]) -> None:
    """Rename deepeval's columns, whose `context` holds the ideal documents, beside `retrieval_context`."""
    for camel, snake in _OTHER_NAMES.items():
        if camel in columns:
            columns.setdefault(snake, columns.pop(camel))
    if "context" in columns and not {"actual_output", "retrieval_context"}.isdisjoint(columns):
        columns.setdefault("reference_contexts", columns.pop("context"))
    for name, column in (("tools_called", "trajectory"), ("expected_tools", "reference_tool_calls")):
        calls = columns.get(name)
        if _is_list(calls) and all(isinstance(call, Mapping) for call in calls):
            del columns[name]
            columns.setdefault(column, _performed(calls) if name == "tools_called" else list(calls))
    if is_messages(columns.get("turns")):
        _read_turns(columns)


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
    keys = [key for key in _QUESTION_KEYS if inputs.get(key) is not None]
    if not keys and len(inputs) == 1:
        keys = list(inputs)
    if not keys:
        fields_in_inputs = {key: inputs.pop(key) for key in list(inputs) if key in fields}
        columns[name] = as_json(inputs) if inputs else None
        _spread(columns, fields_in_inputs, fields)
        return
    question = inputs.pop(keys[0])
    if _is_list(question) and len(question) == 1 and is_messages(question[0]):  # of LangSmith
        question = question[0]
    columns[name] = question if isinstance(question, str) or is_messages(question) else as_json(question)
    _spread(columns, inputs, fields)


def _unfold_answer(columns: dict[str, Any], name: str, fields: Mapping[str, str]) -> None:
    """Take an answer apart into its text and the steps before it, and the question if it begins with one."""
    value = columns[name]
    if _is_list(value) and not is_messages(value):
        value = _one_choice(name, value, "message")  # as Braintrust logs OpenAI's client
        if value is None:
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
    if not _is_list(answers) or is_messages(answers):
        return
    columns.pop(name)
    if answers:
        columns[name] = answers[0]
    if len(answers) > 1:
        columns[f"all_{name}"] = list(answers)


def _read_documents(columns: dict[str, Any], documents_name: str, ids_name: str) -> None:
    """Take the ids from Databricks' documents if there is no column of ids; such documents may lack a text."""
    documents = columns.get(documents_name)
    if not _is_list(documents):
        return
    ids = [document.get("doc_uri") if isinstance(document, Mapping) else None for document in documents]
    if ids and all(isinstance(uri, str) for uri in ids):
        if columns.get(ids_name) is None:
            columns[ids_name] = tuple(ids)
        if not any("content" in document for document in documents):
            del columns[documents_name]
