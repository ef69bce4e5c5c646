"""What is judged: `Sample`, one type for the loop's input and a dataset's row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Self

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
from judges.messages import Conversation, Message, ToolCall


def _contexts(given: Any) -> Any:
    """Accept one or more documents: as text, as Databricks' `{content, doc_uri}`, or as LangChain documents."""
    if isinstance(given, str | Mapping) or hasattr(given, "page_content"):
        return (_context(given),)
    return tuple(_context(one) for one in given) if isinstance(given, Iterable) else given


def _context(one: Any) -> Any:
    if isinstance(one, Mapping):
        return one.get("content", one.get("page_content", one.get("text", one)))
    return getattr(one, "page_content", one)


def _rules(given: Any) -> Any:
    """Accept a single rule, or a single rule under a name, as a list of one."""
    if isinstance(given, Mapping):
        return {name: (rules,) if isinstance(rules, str) else rules for name, rules in given.items()}
    return (given,) if isinstance(given, str) else given


def _levels(given: Any) -> Any:
    """Accept ragas' `score3_description` keys as plain levels."""
    if not isinstance(given, Mapping):
        return given
    return {str(key).removeprefix("score").removesuffix("_description"): text for key, text in given.items()}


def _ids(given: Any) -> Any:
    """Accept ids that are whole numbers."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        return given
    return tuple(str(one) if type(one) is int else one for one in given)


Texts = Annotated[tuple[str, ...], BeforeValidator(_contexts)]
Ids = Annotated[tuple[str, ...], BeforeValidator(_ids)]
Guidelines = Annotated[tuple[str, ...] | dict[str, tuple[str, ...]] | None, BeforeValidator(_rules)]


def _either(*names: str) -> Any:
    return Field(default=None, validation_alias=AliasChoices(*names))


class Sample(BaseModel):
    """What was asked, what was answered, and any evidence.

    Field names are those of ragas; the dialects of LangChain (`question`, `answer`), Databricks (`request`,
    `expected_response`, `retrieved_context`, ...) and OpenAI (`messages`) are read as well. Where several columns
    name one field, the first that is not None counts and the others become metadata.

    Args:
        user_input: The question, or the conversation as a list of messages.
        response: The answer that is judged. Where it is missing and `user_input` ends with an assistant
            message that calls no tool, that message is judged.
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
    retrieved_context_ids: Ids | None = None
    reference: str | None = _either("reference", "expected_response", "ground_truth", "reference_outputs")
    reference_contexts: Texts | None = None
    reference_context_ids: Ids | None = None
    expected_facts: tuple[str, ...] | None = None
    guidelines: Guidelines = None
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
        known = {_first_given(row, names) for names in _NAMES.values()}
        others = {name: row.pop(name) for name in list(row) if name not in known}
        extra = {name: value for name, value in others.items() if name not in _FIELD_OF or value is not None}
        metadata = row.get("metadata", {})
        if extra and isinstance(metadata, Mapping):
            row["metadata"] = {**extra, **metadata}
        return row

    @property
    def messages(self) -> Conversation:
        """The whole exchange: conversation, steps and answer."""
        answer = () if self.answer is None else (Message(role="assistant", content=self.answer),)
        return (*self.conversation, *self.steps, *answer)

    @property
    def answer(self) -> str | None:
        """The text that is judged, or None where there is none."""
        if self.response is not None:
            return self.response
        last = self._given_messages[-1:]
        return last[0].content if last and _speaks(last[0]) else None

    @property
    def conversation(self) -> Conversation:
        """The messages up to and with the last question."""
        given = self._given_messages
        return given[: _after_last_question(given)]

    @property
    def question(self) -> str:
        """The text of the last user message; empty where there is none."""
        return next((m.content for m in reversed(self._given_messages) if m.role == "user"), "")

    @property
    def steps(self) -> Conversation:
        """What came between the last question and the answer: tool calls and tool results."""
        given = self._given_messages
        since = given[_after_last_question(given) :]
        return (*_before(self.answer, since), *_before(self.answer, self.trajectory))

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
        named = {_FIELD_OF.get(name, name) for name in fields}
        row = {name: one for name, one in (given or {}).items() if _FIELD_OF.get(name, name) not in named}
        row.update(fields)
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
    """Take the ids of Databricks' documents along, where no ids are given apart; a text may then be missing."""
    documents = row.get("retrieved_context")
    if isinstance(documents, str) or not isinstance(documents, Sequence):
        return
    ids = [one.get("doc_uri") if isinstance(one, Mapping) else None for one in documents]
    if ids and all(isinstance(one, str) for one in ids):
        if row.get("retrieved_context_ids") is None:
            row["retrieved_context_ids"] = tuple(ids)
        if not any("content" in one for one in documents):
            del row["retrieved_context"]


def _read_openai_request(row: dict[str, Any]) -> None:
    """Read a column that holds a whole chat request, `{"messages": [...]}`, as its messages."""
    for name in ("user_input", "request", "inputs", "input"):
        column = row.get(name)
        if isinstance(column, Mapping) and "messages" in column:
            row[name] = column["messages"]


def _first_given(row: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((name for name in names if row.get(name) is not None), names[0])


def _before(answer: str | None, messages: Conversation) -> Conversation:
    """Leave the answer out where messages end with it."""
    ends_with_it = bool(messages) and _speaks(messages[-1]) and messages[-1].content == answer
    return messages[:-1] if ends_with_it else messages


def _speaks(message: Message) -> bool:
    """Tell an answer from a step: the assistant speaks, and calls no tool."""
    return message.role == "assistant" and not message.tool_calls


def _one_line(error: ValidationError) -> str:
    """Say what is wrong at the deepest place; where a field may be one of several types, name them all."""
    faults = [(_place(one["loc"]), one) for one in error.errors(include_url=False)]
    place, first = max(faults, key=lambda fault: fault[0].count("."))
    told = [one["msg"].removeprefix("Value error, ") for where, one in faults if where == place]
    wanted = " or ".join(one if one is told[0] else one.removeprefix("Input should be ") for one in told)
    given = repr(first["input"])
    shown = given if len(given) <= 60 else given[:57] + "..."  # noqa: PLR2004 - about one line
    return f"field {place or 'sample'!r}: {wanted[0].lower()}{wanted[1:]} (given {shown})"


def _place(loc: tuple[int | str, ...]) -> str:
    """Write a place as a path, without pydantic's names for the branches of a union."""
    parts = [str(part) for part in loc if part != "str"]
    return ".".join(part for part in parts if not part.startswith(("function-", "tuple[", "dict[")))


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


_NAMES = {field: _names(field) for field in Sample.model_fields}
_FIELD_OF = {name: field for field, names in _NAMES.items() for name in names}
