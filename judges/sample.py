"""What is judged: `Sample`, one type for the loop's input and a dataset's row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import (
    AliasChoices,
    BeforeValidator,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)

from judges.errors import BadSample, ConfigurationError, one_line, shortened
from judges.messages import Conversation, Message, ToolCall
from judges.rows.columns import ANSWERS, NESTED, READ_WITH_OTHERS, columns_of, is_trace
from judges.rows.replies import row_of
from judges.verdict import Frozen


def _contexts(documents: Any) -> Any:
    """Accept one or more documents: as text, as Databricks' `{content, doc_uri}`, or as LangChain documents."""
    if isinstance(documents, str | Mapping) or hasattr(documents, "page_content"):
        return (_context(documents),)
    return tuple(_context(document) for document in documents) if isinstance(documents, Iterable) else documents


def _context(document: Any) -> Any:
    if isinstance(document, Mapping):
        return document.get("content", document.get("page_content", document.get("text", document)))
    return getattr(document, "page_content", document)


def _rules(guidelines: Any) -> Any:
    """Accept a single rule, with or without a name, as a list of one."""
    if isinstance(guidelines, Mapping):
        return {name: (rules,) if isinstance(rules, str) else rules for name, rules in guidelines.items()}
    return (guidelines,) if isinstance(guidelines, str) else guidelines


def _levels(rubrics: Any) -> Any:
    """Accept ragas' `score3_description` keys as plain levels."""
    if not isinstance(rubrics, Mapping):
        return rubrics
    return {str(key).removeprefix("score").removesuffix("_description"): text for key, text in rubrics.items()}


def _ids(ids: Any) -> Any:
    """Accept integer ids."""
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        return ids
    return tuple(str(item) if type(item) is int else item for item in ids)


_Texts = Annotated[tuple[str, ...], BeforeValidator(_contexts)]
_Ids = Annotated[tuple[str, ...], BeforeValidator(_ids)]
Guidelines = Annotated[tuple[str, ...] | dict[str, tuple[str, ...]] | None, BeforeValidator(_rules)]
Rubrics = Annotated[dict[str, str] | None, BeforeValidator(_levels)]


def _field(*names: str) -> Any:
    return Field(default=None, validation_alias=AliasChoices(*names))


class Sample(Frozen, validate_by_name=True, validate_by_alias=True):
    """What was asked, what was answered, and any evidence.

    Field names are those of ragas; those of LangChain (`question`, `answer`), Databricks and mlflow (`request`,
    `expected_response`, `inputs`, `expectations`, ...), OpenAI (`messages`), deepeval (`actual_output`, ...),
    LangSmith, inspect, promptfoo, autoevals, Phoenix, Azure, Spring AI and ShareGPT are accepted, too. Of several
    names of a field the first that is not None is used and the others become metadata; two answers that differ
    are refused, since nobody says which is to be judged.

    Args:
        user_input: The question, or the conversation as a list of messages.
        response: The answer to judge. If it is missing and `user_input` ends with an assistant message without
            tool calls, that message is judged.
        trajectory: Tool calls and tool results between question and answer.
        retrieved_contexts: Texts available to the answer, in rank order.
        retrieved_context_ids: Their ids.
        reference: The expected answer.
        reference_contexts: The texts that should have been retrieved.
        reference_context_ids: Their ids.
        expected_facts: Facts that a correct answer states.
        guidelines: Rules the answer must follow.
        rubrics: Level descriptions of this row, keyed by level.
        reference_tool_calls: The expected tool calls.
        reference_topics: The topics the assistant may discuss.
        metadata: Anything else, including unknown columns of a dataset.
    """

    _guesses_at: ClassVar[str] = "a sample"

    user_input: str | Conversation | None = _field(
        "user_input", "question", "query", "request", "input", "inputs", "messages", "userText"
    )
    response: str | None = _field(*ANSWERS)
    trajectory: Conversation = ()
    retrieved_contexts: _Texts | None = _field(
        "retrieved_contexts",
        "contexts",
        "context",
        "retrieved_context",
        "retrieval_context",
        "documents",
        "source_documents",
        "dataList",
    )
    retrieved_context_ids: _Ids | None = None
    reference: str | None = _field(
        "reference",
        "expected_response",
        "ground_truth",
        "reference_outputs",
        "expected_output",
        "target",
        "ground_truths",
        "expected",
    )
    reference_contexts: _Texts | None = _field("reference_contexts", "expected_retrieved_context")
    reference_context_ids: _Ids | None = None
    expected_facts: tuple[str, ...] | None = None
    guidelines: Guidelines = None
    rubrics: Rubrics = None
    reference_tool_calls: tuple[ToolCall, ...] | None = None
    reference_topics: tuple[str, ...] | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _from_row(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or (isinstance(data, dict) and _is_canonical(data)):
            return data
        row = columns_of(data, _FIELD_OF)
        if _is_renamed(row):
            return row
        _check_one_answer(row)
        fields = {_FIELD_OF[name] for name in row if name in _FIELD_OF}
        columns = {_first_filled(row, _NAMES[field]) for field in fields}
        others = {name: row.pop(name) for name in list(row) if name not in columns}
        extra = {name: value for name, value in others.items() if name not in _FIELD_OF or value is not None}
        if row.get("metadata", ...) is None:
            del row["metadata"]
        metadata = row.get("metadata", {})
        if extra and isinstance(metadata, Mapping):
            row["metadata"] = {**extra, **metadata}
        return row

    @property
    def messages(self) -> Conversation:
        """The whole exchange: conversation, steps and answer."""
        answer = () if self.answer is None else (Message(role="assistant", content=self.answer),)
        return (*self.conversation, *self.steps, *answer)

    if not TYPE_CHECKING:  # type checkers read the fields

        def __init__(self, /, *values: object, **fields: Any) -> None:
            """Validate the fields.

            Raises:
                TypeError: If a value is given without a name, or a name is nearly one of a field.
            """
            if values:
                raise TypeError("Sample() takes no value without a name; it is Sample(question=..., answer=...)")
            if not fields.keys() <= _FIELD_OF.keys() and (hint := did_you_mean(fields)):
                raise TypeError(f"Sample() has no such field{hint} Anything else goes into metadata={{...}}")
            super().__init__(**fields)

        __init__.__pydantic_base_init__ = True  # else rows that are read went through it, too

    def __contains__(self, _: object) -> bool:
        """Refuse: of a sample it would always be false, and is asked by a function that expects the answer.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(
            "`in` looks into a text, and a judge's function whose parameter is named after no field of a sample "
            "gets the whole sample; name the parameter `answer`, or look into sample.response"
        )

    @property
    def answer(self) -> str | None:
        """The text to judge, or None where there is none."""
        if self.response is not None:
            return self.response
        last = self._input_messages[-1:]
        return last[0].content if last and _is_answer(last[0]) else None

    @property
    def conversation(self) -> Conversation:
        """The messages up to and including the last question."""
        messages = self._input_messages
        return messages[: _after_last_question(messages)]

    @property
    def question(self) -> str:
        """The text of the last user message; empty where there is none."""
        if isinstance(self.user_input, str):
            return self.user_input
        return next((m.content for m in reversed(self._input_messages) if m.role == "user"), "")

    @property
    def steps(self) -> Conversation:
        """The messages between the last question and the answer: tool calls and tool results."""
        messages = () if isinstance(self.user_input, str) else self._input_messages
        since = messages[_after_last_question(messages) :]
        if not since and not self.trajectory:
            return ()
        return (*_without_answer(self.answer, since), *_without_answer(self.answer, self.trajectory))

    @property
    def _input_messages(self) -> Conversation:
        if isinstance(self.user_input, str):
            return (Message(role="user", content=self.user_input),)
        return self.user_input or ()

    @classmethod
    def read(cls, source: object = None, /, **fields: Any) -> Self:
        """Return a sample made from a sample, a mapping, an object of another library, or keyword fields.

        A mapping is a row of a dataset, whose unknown columns become metadata; a keyword must be a known column.
        Objects are samples of ragas and inspect, test cases of deepeval, traces of mlflow, runs and examples of
        LangSmith, and any pydantic model or dataclass whose fields are columns.

        Raises:
            BadSample: If there is no input, no column of it is known, a keyword is no field, or a field has the
                wrong type; the message names the field.
        """
        _check_keywords(fields)
        if isinstance(source, cls):
            if not fields:
                return source
            source = {
                name: value for name, value in source if value is not None
            }  # read already, and taken as it is
        if source is not None and not isinstance(source, Mapping):
            source = _row_in(source)
        row = dict(source or {})
        if fields:
            replaced = {_FIELD_OF.get(name, name) for name in fields}
            row = {name: value for name, value in row.items() if _FIELD_OF.get(name, name) not in replaced}
            row.update(fields)
        if not row:
            raise BadSample("nothing to judge; give a Sample, a mapping, or user_input=... and response=...")
        if _FIELD_OF.keys().isdisjoint(row) and NESTED.isdisjoint(row) and not is_trace(row):
            raise BadSample(
                f"no column is known, only {shortened(list(row))[1:-1]}{did_you_mean(row)}; a sample has "
                f"user_input (or question), response (or answer), retrieved_contexts, reference and others: see "
                f"judges.Sample"
            )
        try:
            return cls.model_validate(row)
        except ValidationError as error:
            raise BadSample(_one_line(error)) from error


def _row_in(source: object) -> Mapping[str, Any]:
    row = row_of(source)
    if row is None:
        kind = type(source).__name__
        article = "an" if kind[0] in "AEIOUaeiou" else "a"
        remedy = "; several rows are evaluate(rows, judge) of judges.offline" if kind == "list" else ""
        raise BadSample(
            f"cannot read {article} {kind} as a sample; give a Sample, a mapping, or keywords such as "
            f"question=... and answer=...{remedy}"
        )
    return row


def _is_canonical(row: dict[Any, Any]) -> bool:
    """True if a row is taken as it is: fields under their own names, none of them nested, or plain texts."""
    if not row.keys() <= _NAMES.keys():
        fields = set(map(_FIELD_OF.get, row))
        is_plain = len(fields) == len(row) and None not in fields and set(map(type, row.values())) == {str}
        return is_plain and READ_WITH_OTHERS.isdisjoint(row)
    plain = isinstance(row.get("response"), str | None) and isinstance(row.get("reference"), str | None)
    is_request = isinstance(row.get("user_input"), Mapping)
    return plain and not is_request and row.get("metadata", ...) is not None


def _is_renamed(row: Mapping[str, Any]) -> bool:
    """True if each column of a row is a field of its own and has a value, so that it is read by its name alone."""
    fields = {_FIELD_OF.get(name) for name in row}
    return len(fields) == len(row) and None not in fields and all(value is not None for value in row.values())


def _check_one_answer(row: Mapping[str, Any]) -> None:
    """Refuse a row with two answers that differ: to choose one in silence may judge the wrong one."""
    answers = {name: row[name] for name in row if _FIELD_OF.get(name) == "response" and isinstance(row[name], str)}
    first = next(iter(answers), "")
    other = next((name for name, text in answers.items() if text != answers[first]), None)
    if other is not None:
        raise ValueError(
            f"there are answers in {first!r} and in {other!r}; say which are to be judged: map="
            f"{{'answer': {first!r}}}, --map answer={first}, or Sample.read(row, answer=row[{first!r}])"
        )


_TEXT_JUDGED = ("content", "text", "generated_text")
"""What the text that is judged is called elsewhere, as in mlflow's `is_safe(content=...)`."""


def _check_keywords(names: Iterable[str]) -> None:
    for name in names:
        if name not in _FIELD_OF and name not in NESTED:
            near = ["answer"] if name in _TEXT_JUDGED else get_close_matches(name, _FIELD_OF, n=1)
            remedy = f"did you mean {near[0]}=...?" if near else f"known are {', '.join(Sample.model_fields)}."
            raise BadSample(
                f"{one_line(name, longest=60)}=... is no field of a sample; {remedy} Anything else goes into "
                f"metadata={{...}}"
            )


def _after_last_question(messages: Conversation) -> int:
    for end in range(len(messages), 0, -1):
        if messages[end - 1].role == "user":
            return end
    return 0


def _first_filled(row: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((name for name in names if row.get(name) is not None), names[0])


def _without_answer(answer: str | None, messages: Conversation) -> Conversation:
    """Return the messages without the answer if they end with it."""
    ends_with_answer = bool(messages) and _is_answer(messages[-1]) and messages[-1].content == answer
    return messages[:-1] if ends_with_answer else messages


def _is_answer(message: Message) -> bool:
    """Return whether a message is an answer and not a step: the assistant's, without tool calls."""
    return message.role == "assistant" and not message.tool_calls


def _one_line(error: ValidationError) -> str:
    """Describe the fault at the deepest path; where a field may have one of several types, list them all."""
    faults = [(_path(fault["loc"]), fault) for fault in error.errors(include_url=False)]
    path, first = max(faults, key=lambda item: item[0].count("."))
    texts = [fault["msg"].removeprefix("Value error, ") for where, fault in faults if where == path]
    expected = " or ".join(text if text is texts[0] else text.removeprefix("Input should be ") for text in texts)
    fault = one_line(f"{expected[0].lower()}{expected[1:]}")
    if not path:  # of the row as a whole, which holds the texts that are judged
        return fault
    return f"field {shortened(path)}: {fault} (given {shortened(first['input'], longest=60)})"


def _path(loc: tuple[int | str, ...]) -> str:
    """Return a location as a dotted path, without pydantic's names for the branches of a union."""
    parts = [str(part) for part in loc if part != "str"]
    return ".".join(part for part in parts if not part.startswith(("function-", "tuple[", "dict[")))


def copy_sample(sample: Sample) -> Sample:
    """Return a sample for code that is not ours, which may change the mappings and arguments in it."""
    twin = sample.model_copy()
    fields = vars(twin)
    for name, value in fields.items():
        if isinstance(value, dict):
            fields[name] = deepcopy(value) if value else {}
        elif isinstance(value, tuple):
            fields[name] = tuple(map(_copy_calls, value))
    return twin


def _copy_calls(part: Any) -> Any:
    """Return a tool call, or a message with some, as a copy: arguments can be changed, all else cannot."""
    has_arguments = isinstance(part, ToolCall) or (isinstance(part, Message) and part.tool_calls)
    return deepcopy(part) if has_arguments else part


def did_you_mean(columns: Iterable[object]) -> str:
    """Return, after a semicolon, which fields are meant by columns that are nearly spelt like them."""
    present = {_FIELD_OF[name] for name in columns if isinstance(name, str) and name in _FIELD_OF}
    missing = [name for name, field in _FIELD_OF.items() if field not in present]
    near = {
        name: get_close_matches(str(name), missing, n=1, cutoff=_CLOSE)
        for name in columns
        if name not in _FIELD_OF
    }
    meant = [f"{match[0]!r} by {shortened(name)}" for name, match in near.items() if match]
    return f"; did you mean {', '.join(meant)}?" if meant else ""


def canonical_field(name: str) -> str | None:
    """Return the field of a sample that `name` stands for in any known dialect, or None."""
    return _FIELD_OF.get(name)


def argument(sample: Sample, name: str) -> object:
    """Return the value for a function's parameter `name`: text for question and answer, else the field."""
    if name == "messages":
        return [message.model_dump(mode="json", exclude_defaults=True) for message in sample.messages]
    field = _FIELD_OF[name]
    if field == "user_input":
        return sample.question
    return sample.answer if field == "response" else getattr(sample, field)


def _names(field: str) -> tuple[str, ...]:
    alias = Sample.model_fields[field].validation_alias
    choices = [str(choice) for choice in alias.choices] if isinstance(alias, AliasChoices) else []
    return (field, *choices)


_NAMES = {field: _names(field) for field in Sample.model_fields}
_FIELD_OF = {name: field for field, names in _NAMES.items() for name in names}
FIELD_NAMES = tuple(_FIELD_OF)
"""Every name that a field of a sample has in a dialect."""


_CLOSE = 0.8
"""Least likeness of a column's name to that of a field, by `difflib`, for it to be a slip of the pen."""

_SHORTEST = 200
"""A text of several is not cut below this: rather, the last ones are left out."""


def excerpt_of(sample: Sample, limit: int) -> Sample:
    """Return a sample as a model is shown it, with long texts cut.

    Args:
        sample: The sample.
        limit: Most characters of the answer, of the retrieved contexts together, of the reference, and of the
            reference contexts together.
    """
    if not is_long(sample, limit):
        return sample
    changes: dict[str, Any] = {}
    for name in ("response", "reference"):
        text = getattr(sample, name)
        if text is not None:
            changes[name] = cut_text(text, limit)
    for name in ("retrieved_contexts", "reference_contexts"):
        texts = getattr(sample, name)
        if texts is not None:
            changes[name] = _texts_within(texts, limit)
    return sample.model_copy(update=changes)


def is_long(sample: Sample, limit: int) -> bool:
    """Check whether any text of a sample, besides the conversation, is longer than a model is shown."""
    contexts, ideal = sample.retrieved_contexts, sample.reference_contexts
    return (
        len(sample.response or "") > limit
        or len(sample.reference or "") > limit
        or (contexts is not None and sum(map(len, contexts)) > limit)
        or (ideal is not None and sum(map(len, ideal)) > limit)
    )


def _texts_within(texts: Sequence[str], limit: int) -> tuple[str, ...]:
    """Return texts, the longest cut in their middle, that have `limit` characters altogether.

    Where that does not suffice the last ones, which rank lowest, are left out, and a note in their place says so.
    """
    lengths = [len(text) for text in texts]
    if sum(lengths) <= limit:
        return tuple(texts)
    longest = max(_SHORTEST, level(lengths, limit))
    cut = [cut_text(text, longest) for text in texts]
    fitting = 0
    for text in cut:
        limit -= len(text)
        if limit < 0:
            break
        fitting += 1
    left_out = len(cut) - fitting
    note = (f"[{left_out} texts are left out here, because all together are long]",) if left_out else ()
    return (*cut[:fitting], *note)


def level(lengths: Sequence[int], limit: int) -> int:
    """Return the length to which the longest must be cut so that all fit into `limit`."""
    characters_left = limit
    for number, length in enumerate(sorted(lengths)):
        if length * (len(lengths) - number) > characters_left:
            return characters_left // (len(lengths) - number)
        characters_left -= length
    return limit


def cut_text(text: str, longest: int) -> str:
    """Return a text of at most `longest` characters: begin and end, and between them how much is left out."""
    if len(text) <= longest:
        return text
    note = f" [... {len(text) - longest:,} characters are left out here ...] "
    half = max(0, longest - len(note)) // 2
    return f"{text[:half]}{note}{text[len(text) - half :]}"
