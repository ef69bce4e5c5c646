"""What is judged: `Sample`, one type for the loop's input and a dataset's row, and the messages in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)

from judges.errors import BadSample

Role = Literal["system", "user", "assistant", "tool"]

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "tool": "tool",
    "function": "tool",
}


class ToolCall(BaseModel):
    """A call of a tool that the assistant asked for: its name, its JSON arguments and the call's id."""

    model_config = ConfigDict(frozen=True)

    name: str
    args: dict[str, JsonValue] = Field(default_factory=dict)
    id: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_openai(cls, given: Any) -> Any:
        if not isinstance(given, Mapping) or "function" not in given:
            return given
        function = given["function"]
        arguments = function.get("arguments") or {}
        if isinstance(arguments, str):
            arguments = json.loads(arguments)
        return {"name": function["name"], "args": arguments, "id": given.get("id")}


class Message(BaseModel):
    """One message of a conversation.

    Args:
        role: Who speaks.
        content: The text; parts that are not text (images, audio) are named by their type in brackets.
        tool_calls: Calls the assistant asks for.
        tool_call_id: On a tool's message, the call it answers.
        name: On a tool's message, the tool.
    """

    model_config = ConfigDict(frozen=True)

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        fields = _fields_of(given)
        if fields is None:
            return given
        role = fields.get("role", fields.get("type"))
        known = _ROLES.get(str(role))
        if known is None:
            raise ValueError(f"unknown role {role!r}; known are system, user, assistant and tool")
        return {
            "role": known,
            "content": _text(fields.get("content")),
            "tool_calls": fields.get("tool_calls") or (),
            "tool_call_id": fields.get("tool_call_id"),
            "name": fields.get("name"),
        }


def _fields_of(given: object) -> Mapping[str, Any] | None:
    """Read a dict, or a LangChain message by its attributes, so that LangChain need not be imported."""
    if isinstance(given, Mapping):
        return given
    if isinstance(given, tuple) and len(given) == 2:  # noqa: PLR2004 - LangChain's (role, text)
        return {"role": given[0], "content": given[1]}
    if hasattr(given, "type") and hasattr(given, "content"):
        names = ("type", "content", "tool_calls", "tool_call_id", "name")
        return {name: getattr(given, name, None) for name in names}
    return None


def _text(content: object) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        raise ValueError(f"message content is text or a list of parts, not {type(content).__name__}")  # noqa: TRY004
    return "".join(_part(part) for part in content)


def _part(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        raise ValueError(f"a message part is text or a mapping, not {type(part).__name__}")  # noqa: TRY004
    if isinstance(part.get("text"), str):
        return str(part["text"])
    kind = part.get("type", "part")
    return "" if kind in {"tool_use", "tool_call", "reasoning", "thinking"} else f"[{kind}]"


def _contexts(given: Any) -> Any:
    """Accept documents as text, as Databricks' `{content, doc_uri}`, or as LangChain documents."""
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        return given
    return tuple(_context(one) for one in given)


def _context(one: Any) -> Any:
    if isinstance(one, Mapping):
        return one.get("content", one.get("page_content", one.get("text", one)))
    return getattr(one, "page_content", one)


def _levels(given: Any) -> Any:
    """Accept ragas' `score3_description` keys as plain levels."""
    if not isinstance(given, Mapping):
        return given
    return {str(key).removeprefix("score").removesuffix("_description"): text for key, text in given.items()}


Texts = Annotated[tuple[str, ...], BeforeValidator(_contexts)]
Conversation = tuple[Message, ...]


def _either(*names: str) -> Any:
    return Field(default=None, validation_alias=AliasChoices(*names))


class Sample(BaseModel):
    """What was asked, what was answered, and any evidence.

    Field names are those of ragas; the dialects of LangChain (`question`, `answer`), Databricks (`request`,
    `expected_response`, `retrieved_context`, ...) and OpenAI (`messages`) are read as well.

    Args:
        user_input: The question, or the conversation as a list of messages.
        response: The answer that is judged. Where it is missing and `user_input` ends with an assistant
            message, that message is judged.
        trajectory: Tool calls and tool results between question and answer.
        retrieved_contexts: Texts the answer could draw on, in rank order.
        retrieved_context_ids: Their ids.
        reference: The expected answer.
        reference_contexts: The texts that should have been retrieved.
        reference_context_ids: Their ids.
        expected_facts: Facts that a right answer states.
        guidelines: Rules the answer must keep.
        rubrics: Level descriptions of this row, keyed by level.
        reference_tool_calls: The tool calls that should have been made.
        reference_topics: The topics the assistant may speak about.
        metadata: Anything else; unknown columns of a dataset are kept here.
    """

    model_config = ConfigDict(frozen=True, validate_by_name=True, validate_by_alias=True)

    user_input: str | Conversation | None = _either(
        "user_input", "question", "query", "request", "input", "inputs", "messages"
    )
    response: str | None = _either("response", "answer", "output", "outputs", "prediction")
    trajectory: Conversation = ()
    retrieved_contexts: Texts | None = _either(
        "retrieved_contexts", "contexts", "context", "retrieved_context", "documents"
    )
    retrieved_context_ids: tuple[str, ...] | None = None
    reference: str | None = _either("reference", "expected_response", "ground_truth", "reference_outputs")
    reference_contexts: Texts | None = None
    reference_context_ids: tuple[str, ...] | None = None
    expected_facts: tuple[str, ...] | None = None
    guidelines: tuple[str, ...] | dict[str, tuple[str, ...]] | None = None
    rubrics: Annotated[dict[str, str] | None, BeforeValidator(_levels)] = None
    reference_tool_calls: tuple[ToolCall, ...] | None = None
    reference_topics: tuple[str, ...] | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _from_row(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        row = dict(given)
        _read_documents(row)
        _read_openai_request(row)
        if isinstance(row.get("guidelines"), str):
            row["guidelines"] = (row["guidelines"],)
        unknown = {name: row.pop(name) for name in list(row) if name not in _FIELD_OF}
        if unknown:
            row["metadata"] = {**unknown, **(row.get("metadata") or {})}
        return row

    @property
    def messages(self) -> Conversation:
        """The whole exchange: conversation, trajectory and answer."""
        given = self._given_messages
        answer = () if self.response is None else (Message(role="assistant", content=self.response),)
        return (*given, *self.trajectory, *answer)

    @property
    def answer(self) -> str | None:
        """The text that is judged, or None where there is none."""
        if self.response is not None:
            return self.response
        given = self._given_messages
        return given[-1].content if given and given[-1].role == "assistant" else None

    @property
    def conversation(self) -> Conversation:
        """The messages up to and with the last question."""
        given = self._given_messages
        return given[: _after_last_question(given)] if self.response is None else given

    @property
    def question(self) -> str:
        """The text of the last user message; empty where there is none."""
        return next((m.content for m in reversed(self._given_messages) if m.role == "user"), "")

    @property
    def steps(self) -> Conversation:
        """Tool calls and tool results that led to the answer."""
        if self.response is not None or self.trajectory:
            return self.trajectory
        given = self._given_messages
        return given[_after_last_question(given) : -1]

    @property
    def _given_messages(self) -> Conversation:
        if isinstance(self.user_input, str):
            return (Message(role="user", content=self.user_input),)
        return self.user_input or ()

    @classmethod
    def read(cls, given: object = None, /, **fields: Any) -> Self:
        """Read a sample, a mapping or keyword fields as a sample.

        Raises:
            BadSample: If nothing was given or a field has the wrong type; the message names the field.
        """
        if isinstance(given, cls):
            if not fields:
                return given
            given = given.model_dump(exclude_defaults=True)
        if given is not None and not isinstance(given, Mapping):
            raise BadSample(
                f"cannot read a {type(given).__name__} as a sample; give a Sample, a mapping, or "
                f"keywords such as user_input=... and response=..."
            )
        row = {**(given or {}), **fields}
        if not row:
            raise BadSample("nothing to judge; give a Sample, a mapping, or user_input=... and response=...")
        try:
            return cls.model_validate(row)
        except ValidationError as error:
            raise BadSample(_one_line(error)) from error


def _after_last_question(messages: Conversation) -> int:
    places = [index for index, message in enumerate(messages) if message.role == "user"]
    return places[-1] + 1 if places else 0


def _read_documents(row: dict[str, Any]) -> None:
    """Take the ids of Databricks' documents along, where no ids are given apart."""
    documents = row.get("retrieved_context")
    if row.get("retrieved_context_ids") is None and isinstance(documents, Sequence):
        ids = [one.get("doc_uri") for one in documents if isinstance(one, Mapping)]
        if ids and all(isinstance(one, str) for one in ids):
            row["retrieved_context_ids"] = tuple(ids)


def _read_openai_request(row: dict[str, Any]) -> None:
    """Read a column that holds a whole chat request, `{"messages": [...]}`, as its messages."""
    for name in ("user_input", "request", "inputs", "input"):
        column = row.get(name)
        if isinstance(column, Mapping) and "messages" in column:
            row[name] = column["messages"]


def _one_line(error: ValidationError) -> str:
    first = max(error.errors(include_url=False), key=lambda one: len(one["loc"]))
    place = ".".join(
        str(part) for part in first["loc"] if not str(part).startswith(("function-", "tuple[", "str"))
    )
    given = repr(first["input"])
    shown = given if len(given) <= 60 else given[:57] + "..."  # noqa: PLR2004 - about one line
    return f"field {place or 'sample'!r}: {first['msg'].lower()} (given {shown})"


def field_named(name: str) -> str | None:
    """Tell which field of a sample a name of any known dialect means, or None."""
    return _FIELD_OF.get(name)


def argument(sample: Sample, name: str) -> object:
    """Give what a function's parameter called `name` means: text for question and answer, else the field."""
    if name == "messages":
        return [message.model_dump(mode="json", exclude_defaults=True) for message in sample.messages]
    field = _FIELD_OF[name]
    if field == "user_input":
        return sample.question
    return sample.answer if field == "response" else getattr(sample, field)


def _names(field: str) -> tuple[str, ...]:
    alias = Sample.model_fields[field].validation_alias
    choices = [str(one) for one in alias.choices] if isinstance(alias, AliasChoices) else []
    return (field, *choices)


_FIELD_OF = {name: field for field in Sample.model_fields for name in _names(field)}
