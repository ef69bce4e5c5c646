"""What a judge does before it judges: look things up by tools, and answer the question itself.

Either is a question of its own, asked and read as all questions are: so any model can do it, it is claimed from
the same budget as any call, and what a tool returned stands inside the fence, as data.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from hashlib import sha256
from inspect import isawaitable, isclass
from typing import Any, Literal, Protocol, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ImportString,
    JsonValue,
    TypeAdapter,
    ValidationError,
    create_model,
    validate_call,
)

from judges.catalogue.parts.fields import evidence
from judges.entry import own_tables
from judges.errors import AskFailed, ConfigurationError, one_line, shortened, unfit
from judges.models.prompt_and_reply import encode, render_data
from judges.prompting.prompts import Question, ReplySchema, made_by
from judges.requests import Apply, Ask, Deliberation
from judges.runtime.validation import SharedByCopies
from judges.sample import Sample, cut_text, level
from judges.verdict import Verdict

SAMPLE = "sample"
"""Names the two tools that read and search the sample itself, where it is too long to be shown whole."""

_SHOWN_WHOLE = 30_000
"""Characters of data that are shown whole to a judge that can read the sample; more is outlined."""

_LONGEST_RESULT = 4_000
_LONGEST_QUOTE = 400
_LONGEST_FAULT = 300
_SHORTEST_PART = 100
_MOST_HITS = 10
_AROUND = 160
"""Characters that a search shows on each side of what it found."""

_MOST_KEPT = 1_000
"""Own answers that are kept; the oldest goes first."""

_ASKED = frozenset({"conversation", "documents"})
"""What a judge is shown that answers itself: nothing of the answer, its steps or the reference."""

_NONE = "none"
T = TypeVar("T")
_Value = Mapping[str, JsonValue]


@dataclass(frozen=True)
class _JudgeTool:
    """A tool as a judge's model is told of it.

    Args:
        name: Its name.
        description: What it does.
        parameters: JSON schema of its arguments.
        source: The function or LangChain tool; None for a tool that reads the sample.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    source: Any = None

    def fingerprint_parts(self) -> tuple[object, ...]:
        """Return what a verdict depends on: what the model is told, and the code of a function."""
        function = getattr(self.source, "func", self.source)
        code_of = function if hasattr(function, "__code__") else None
        return self.name, self.description, dict(self.parameters), code_of

    def shown(self) -> str:
        """Return the tool as a model is told of it."""
        properties = dict(self.parameters.get("properties", {}))
        return encode({"tool": self.name, "does": self.description, "arguments": properties})

    def call(self, arguments: _Value, sample: Sample) -> object:
        """Call it, and return what it returned, or something to be awaited that returns that."""
        del sample
        if hasattr(self.source, "invoke"):
            only_async = getattr(self.source, "func", self) is None
            return (self.source.ainvoke if only_async else self.source.invoke)(dict(arguments))
        return _adapter(self.source)(arguments)

    async def acall(self, arguments: _Value, sample: Sample) -> object:
        """Call it without blocking."""
        value = self.source.ainvoke(dict(arguments)) if hasattr(self.source, "ainvoke") else None
        value = self.call(arguments, sample) if value is None else value
        return await value if isawaitable(value) else value


@lru_cache(maxsize=256)
def _adapter(function: Callable[..., object]) -> Callable[[_Value], object]:
    checked: Callable[..., object] = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(function)
    return lambda arguments: checked(**arguments)


def as_tools(candidates: object) -> tuple[_JudgeTool, ...]:
    """Return the tools for functions, LangChain tools, `"module:function"` texts and `"sample"`.

    Raises:
        ConfigurationError: If one is none, or two have one name.
    """
    listed = [candidates] if isinstance(candidates, str) or callable(candidates) else candidates
    if not isinstance(listed, Sequence) or not listed:
        raise unfit(f"tools is a list of functions, LangChain tools or {SAMPLE!r}", candidates)
    tools = [tool for candidate in listed for tool in _tools_of(candidate)]
    names = [tool.name for tool in tools]
    twice = next((name for name in names if names.count(name) > 1 or name == _NONE), None)
    if twice is not None:
        raise ConfigurationError(f"tools: {twice!r} is the name of one tool, and not 'none'; rename a function")
    return tuple(tools)


def _tools_of(candidate: Any) -> Sequence[_JudgeTool]:
    if candidate == SAMPLE:
        return _SAMPLE_TOOLS
    source = _imported(candidate) if isinstance(candidate, str) and ":" in candidate else candidate
    if isinstance(source, _JudgeTool):
        return (source,)
    if all(hasattr(source, name) for name in ("invoke", "ainvoke", "name", "description")):
        return (_JudgeTool(source.name, source.description or "", arguments_schema(source), source),)
    name = getattr(source, "__name__", "")
    if not callable(source) or isclass(source) or not name.isidentifier():
        raise ConfigurationError(
            f"tools: {shortened(candidate)} is no function with a name and typed parameters, no LangChain tool, "
            f"no 'module:function' and not {SAMPLE!r}"
        )
    try:
        parameters = TypeAdapter(source, config=ConfigDict(arbitrary_types_allowed=True)).json_schema()
    except Exception as error:
        raise ConfigurationError(f"tools: the parameters of {name!r} have no schema: {one_line(error)}") from error
    if parameters.get("type") != "object":
        raise ConfigurationError(
            f"tools: the parameters of {name!r} are named; *args and / cannot be given by name"
        )
    return (_JudgeTool(name, " ".join((source.__doc__ or "").split()), parameters, source),)


def arguments_schema(tool: Any) -> dict[str, Any]:
    """Return the JSON schema of the arguments of a LangChain tool; that of one of an MCP server is one already."""
    schema: Any = getattr(tool, "tool_call_schema", None) or getattr(tool, "args_schema", None)
    if isclass(schema) and issubclass(schema, BaseModel):
        return schema.model_json_schema()
    return dict(schema or getattr(tool, "args", None) or {})


def _imported(reference: str) -> Any:
    try:
        return TypeAdapter(ImportString).validate_python(reference)
    except ValidationError as error:
        raise ConfigurationError(
            f"tools: {shortened(reference)} cannot be imported; write module:function"
        ) from error


@lru_cache(maxsize=256)
def _look_schema(names: tuple[str, ...]) -> type[ReplySchema]:
    kind = Literal[(*names, _NONE)]  # type: ignore[valid-type]
    schema = create_model(
        "Look",
        __base__=ReplySchema,
        __doc__="The next call of a tool, or none.",
        reason=(str, Field(description="text: what you still have to know, or why you know enough")),
        tool=(kind, Field(description=f"one of {', '.join((*names, _NONE))}")),
        arguments=(dict[str, Any], Field(description="object: the arguments by name; {} where there are none")),
    )
    return made_by(schema, _look_schema, names)


class _Asks(Protocol):
    """A judge that asks questions of packs."""

    def request(self, question: Question[Any], sample: Sample, data: _Value) -> Ask:
        """Return the request for a reply."""
        ...

    def say(self, phrase: str, sample: Sample, **values: object) -> str:
        """Return a phrase of its pack."""
        ...


@dataclass(frozen=True)
class _Looked:
    """One call of a tool: what it was called with, and what it returned, or why it failed."""

    tool: str
    arguments: _Value
    result: str
    fault: str = ""

    def shown(self) -> dict[str, JsonValue]:
        """Return the call as a model is shown it."""
        ended: _Value = {"failed": self.fault} if self.fault else {"returned": self.result}
        written = encode(dict(self.arguments))
        called_with = (
            dict(self.arguments) if len(written) <= _LONGEST_RESULT else cut_text(written, _LONGEST_RESULT)
        )
        return {"tool": self.tool, "called_with": called_with, **ended}

    def item(self) -> Verdict:
        """Return the call as an item of the verdict: evidence, which is quoted; unscored where it failed."""
        named = ", ".join(
            f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in self.arguments.items()
        )
        subject = cut_text(f"{self.tool}({named})", _LONGEST_QUOTE)
        if self.fault:
            return Verdict.without_score("undefined", self.fault, subject=subject, value="failed")
        quoted = cut_text(self.result, _LONGEST_QUOTE)
        return Verdict.checked(True, value="looked_up", subject=subject, rationale=quoted)  # noqa: FBT003 - evidence


class Looking:
    """The tools of a judge, and how often they are called for one sample.

    Args:
        tools: The tools.
        most: Most calls of tools for one sample; each costs one question to the model, as does the last decision
            that nothing more is needed.
    """

    def __init__(self, tools: tuple[_JudgeTool, ...], most: int) -> None:
        self.tools = tools
        self.most = most
        names = tuple(tool.name for tool in tools)
        described = "\n".join(f"- {tool.shown()}" for tool in tools)
        self.question: Question[Any] = Question(
            prompt="looking", reply=_look_schema(names), fills={"tools": described}
        )

    @property
    def reads_sample(self) -> bool:
        """True if the sample itself can be read, so that nothing of it need be cut."""
        return any(tool.source is None for tool in self.tools)

    def calls(self, formula: str) -> str:
        """Return the model calls of a judge that makes so many without tools."""
        first = formula.partition(";")[0].partition(",")[0]
        return f"{first} + 1 where nothing is looked up, or {first} + {self.most} at most"

    def around(self, judge: _Asks, sample: Sample, deliberation: Deliberation, note: str) -> Deliberation:
        """Deliberate as a judge does, after looking up what its first question needs; see `_after`."""
        verdict, looked = yield from _after(
            deliberation,
            lambda asks: self._look(judge, sample, asks),
            lambda ask, looked: self._with_looks(ask, looked, note),
        )
        items = tuple(one.item() for one in looked or ())
        return verdict.model_copy(update={"items": (*verdict.items, *items)}) if items else verdict

    def _look(self, judge: _Asks, sample: Sample, asks: Sequence[Ask]) -> Generator[Any, Any, list[_Looked]]:
        data: dict[str, JsonValue] = dict(asks[0].data)
        for number, ask in enumerate(asks[1:], 2):
            data |= {f"{name}_{number}": value for name, value in ask.data.items() if value != data.get(name)}
        outline = self._outlined(data)
        looked: list[_Looked] = []
        while len(looked) < self.most:
            shown: dict[str, JsonValue] = {**outline, "looked_up": [one.shown() for one in looked]}
            reply = yield judge.request(self.question, sample, {"judgement": asks[0].task, **shown})
            if reply.tool == _NONE:
                break
            looked.append((yield from self._called(reply.tool, reply.arguments, data, sample, looked)))
        return looked

    def _called(
        self, name: str, arguments: _Value, data: _Value, sample: Sample, before: Sequence[_Looked]
    ) -> Generator[Any, Any, _Looked]:
        if any(one.tool == name and one.arguments == arguments for one in before):
            return _Looked(name, arguments, "", "it was called with these arguments before; its result is above")
        tool = next(tool for tool in self.tools if tool.name == name)
        call: Callable[[Sample], object]
        acall: Callable[[Sample], Any] | None
        if tool.source is None:
            call, acall = partial(_read_or_search, name, arguments, data), None
        else:
            call, acall = partial(tool.call, arguments), partial(tool.acall, arguments)
        result, fault = yield Apply(
            partial(_outcome_of, call), sample, None if acall is None else partial(_aoutcome_of, acall)
        )
        return _Looked(name, arguments, result, fault)

    def _with_looks(self, ask: Ask, looked: Sequence[_Looked], note: str) -> Ask:
        data: dict[str, JsonValue] = {**self._outlined(ask.data), "looked_up": [one.shown() for one in looked]}
        return replace(ask, task=f"{ask.task}\n\n{note}", data=data)

    def _outlined(self, data: _Value) -> dict[str, JsonValue]:
        return _with_outlines(data, _SHOWN_WHOLE) if self.reads_sample else dict(data)


class _OwnAnswer(ReplySchema):
    """The judge's own answer to the question."""

    reasoning: str = Field(description="text: how you find the answer, before you write it")
    answer: str = Field(description="text: your answer; where nobody can know it, that this is so")
    is_sure: bool = Field(description="true or false: whether you are sure of it")


class OwnAnswers(SharedByCopies):
    """A model's own answers, by what was asked, so that all attempts at a question are judged beside the same.

    A judge that reads a fluent answer first tends to follow it; one that has committed itself sees the difference.
    """

    question: Question[_OwnAnswer] = Question(prompt="own_answer", reply=_OwnAnswer)

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, JsonValue]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return OwnAnswers, ()

    def fingerprint_parts(self) -> tuple[object, ...]:
        """Return what a verdict depends on, which is not what was answered so far."""
        return (self.question,)

    def calls(self, formula: str) -> str:
        """Return the model calls of a judge that makes so many without answering first."""
        first, semicolon, rest = formula.partition(";")
        return f"{first} + 1; {first} for further attempts at a question{semicolon}{rest}"

    def around(self, judge: _Asks, sample: Sample, deliberation: Deliberation, note: str) -> Deliberation:
        """Deliberate as a judge does, with the model's own answer beside the one that is judged; see `_after`."""
        verdict, _ = yield from _after(
            deliberation,
            lambda _: self._answer(judge, sample),
            lambda ask, own: replace(ask, task=f"{ask.task}\n\n{note}", data={"own_answer": own, **ask.data}),
        )
        return verdict

    def _answer(self, judge: _Asks, sample: Sample) -> Generator[Any, Any, dict[str, JsonValue]]:
        shown = {name: part for name, part in evidence(sample).items() if name in _ASKED}
        request = judge.request(self.question, sample, shown)
        digest = sha256(f"{request.task}\n{render_data(request.data)}".encode("utf-8", "replace")).hexdigest()
        if digest not in self._kept:
            reply: _OwnAnswer = yield request
            own_answer: dict[str, JsonValue] = {"answer": reply.answer, "sure": reply.is_sure}
            self._kept.setdefault(digest, own_answer)
            if len(self._kept) > _MOST_KEPT:
                self._kept.pop(next(iter(self._kept)), None)
            return self._kept.get(digest, own_answer)
        return self._kept[digest]


def _after(
    deliberation: Deliberation,
    prepare: Callable[[Sequence[Ask]], Generator[Any, Any, T]],
    change: Callable[[Ask, T], Ask],
) -> Generator[Any, Any, tuple[Verdict, T | None]]:
    """Deliberate with questions that are changed by what is prepared before the first of them.

    Questions that judges share, such as a text's claims, are asked as they are.

    Args:
        deliberation: The deliberation.
        prepare: Makes its requests for the first questions, and returns what it found.
        change: Returns a question with what was found.
    """
    prepared: T | None = None
    is_prepared = False
    answer: Any = None
    failure: AskFailed | None = None
    while True:
        try:
            requested = deliberation.send(answer) if failure is None else deliberation.throw(failure)
        except StopIteration as end:
            return end.value, prepared
        requests = requested if isinstance(requested, tuple) else (requested,)
        unshared_asks = [one for one in requests if isinstance(one, Ask) and not one.shared]
        if unshared_asks and not is_prepared:
            prepared, is_prepared = (yield from prepare(unshared_asks)), True
        changed = [change(one, prepared) if one in unshared_asks else one for one in requests]  # type: ignore[arg-type]  # prepared
        answer, failure = None, None
        try:
            answer = yield tuple(changed) if isinstance(requested, tuple) else changed[0]
        except AskFailed as error:
            failure = error


_Outcome = tuple[str, str]
"""What a tool returned as text, and why it failed; one of them is empty."""


def _outcome_of(call: Callable[[Sample], object], sample: Sample) -> object:
    try:
        value = call(sample)
        return _awaited(value) if isawaitable(value) else _returned(value)
    except Exception as error:  # noqa: BLE001 - the model is told, also that a result cannot be written
        return _failed(error)


async def _aoutcome_of(call: Callable[[Sample], Any], sample: Sample) -> _Outcome:
    return await _awaited(call(sample))


async def _awaited(value: Any) -> _Outcome:
    try:
        return _returned(await value)
    except Exception as error:  # noqa: BLE001 - the model is told
        return _failed(error)


def _failed(error: Exception) -> _Outcome:
    if isinstance(error, ConfigurationError):
        raise error
    if isinstance(error, ValidationError):
        faults = error.errors(include_url=False, include_input=False)
        text = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in faults)
    else:
        text = f"{type(error).__name__}: {error}"
    return "", one_line(text, longest=_LONGEST_FAULT)


def _returned(value: object) -> _Outcome:
    """Return what a tool returned as text: blocks of text joined, anything but text as JSON."""
    if (
        isinstance(value, list | tuple)
        and value
        and all(isinstance(part, Mapping) and "text" in part for part in value)
    ):
        value = "\n".join(str(part["text"]) for part in value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return cut_text(text, _LONGEST_RESULT), ""


_SAMPLE_TOOLS = tuple(_JudgeTool(**tool) for tool in own_tables(__file__, "before_judging.toml")["sample_tools"])


def _read_or_search(name: str, arguments: _Value, data: _Value, sample: Sample) -> str:
    del sample
    if name == "search_sample":
        return _found(str(arguments.get("words", "")), data)
    field, part, start = (arguments.get(key) or 0 for key in ("field", "part", "start"))
    if not isinstance(field, str) or field not in data or not isinstance(part, int) or not isinstance(start, int):
        raise ValueError(f"field is one of {', '.join(data)}; part and start are whole numbers")
    value = data[field]
    if isinstance(value, list):
        if not 1 <= part <= len(value):
            raise ValueError(f"{field} has the parts 1 to {len(value)}")
        value = value[part - 1]
    text = _text_of(value)
    piece = text[max(0, start) : max(0, start) + _LONGEST_RESULT - _AROUND]
    rest = len(text) - max(0, start) - len(piece)
    return f"{piece} [... {rest:,} more characters, from start={start + len(piece)} on]" if rest > 0 else piece


def _found(words: str, data: _Value) -> str:
    """Return where words stand: all of them together, or, where they do so nowhere, each."""
    texts = [(field, number, text) for field, value in data.items() for number, text in _parts_of(value)]
    for wanted in ([words], words.split()):
        hits = [
            {"field": field, "part": number, "text": text[max(0, place - _AROUND) : place + len(one) + _AROUND]}
            for field, number, text in texts
            for one in wanted
            if one.strip() and (place := text.casefold().find(one.casefold())) >= 0
        ]
        if hits:
            return json.dumps({"places": len(hits), "first": hits[:_MOST_HITS]}, ensure_ascii=False)
    return "nowhere"


def _parts_of(value: JsonValue) -> list[tuple[int, str]]:
    if isinstance(value, list):
        return [(number, _text_of(part)) for number, part in enumerate(value, 1)]
    return [(0, _text_of(value))]


def _text_of(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _with_outlines(data: _Value, limit: int) -> dict[str, JsonValue]:
    """Return data as they are, or, where they are longer than a limit, with long fields outlined.

    Of a list each part is there by its number, the long ones by their beginning; of very many parts the first and
    the last. Of a text there are begin and end.

    Args:
        data: The fields.
        limit: Most characters of all together, about.
    """
    sizes = {name: len(_text_of(value)) for name, value in data.items()}
    if sum(sizes.values()) <= limit:
        return dict(data)
    longest = max(2 * _SHORTEST_PART, level(list(sizes.values()), limit))
    return {name: value if sizes[name] <= longest else _outline(value, longest) for name, value in data.items()}


def _outline(value: JsonValue, longest: int) -> JsonValue:
    if not isinstance(value, list):
        return cut_text(_text_of(value), longest)
    sizes = [len(_text_of(part)) for part in value]
    room = max(_SHORTEST_PART, level(sizes, longest))
    parts: list[JsonValue] = [
        {"part": number, "shown": part}
        if size <= room
        else {"part": number, "begins": _text_of(part)[:room], "characters": size}
        for number, (part, size) in enumerate(zip(value, sizes, strict=True), 1)
    ]
    most = max(2, longest // (2 * _SHORTEST_PART))
    if len(parts) <= most:
        return parts
    left_out = f"the parts {most // 2 + 1} to {len(parts) - most // 2} are left out here"
    return [*parts[: most // 2], {"left_out": left_out}, *parts[-(most // 2) :]]
