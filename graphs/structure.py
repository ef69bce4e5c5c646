"""Answers and arguments of tools by a schema: the check before the judge, and the reading of what is released."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import takewhile
from typing import Any

from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.runnables import Runnable, RunnableBinding, RunnableSequence, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.utils.function_calling import convert_to_json_schema
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import to_json

from graphs.answers import kind_of_answer
from judges import Cascade, Judge, as_judge
from judges.errors import ConfigurationError, one_line, shortened
from judges.models.providers.langchain import chat_model
from judges.models.providers.openai import OpenAICompatible
from judges.models.providers.openai_settings import names_direct_client
from judges.models.structured import response_format
from judges.verdict import Verdict

Schema = type[Any] | Mapping[str, Any]
"""A pydantic class, a TypedDict, a dataclass, or a JSON schema."""

_MOST_FAULTS = 5

_WITHOUT_OBJECT = {
    "refusal": "the model declined to answer",
    "filtered": "the provider stopped the answer",
    "cut": "the answer was cut off at its length limit",
}
"""Why an answer of such a kind holds no object."""


class Structure:
    """Reads texts as JSON by a schema.

    Args:
        schema: The schema.

    Raises:
        ConfigurationError: If it is none.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._name = _name_of(schema)
        self._adapter = _adapter_of(schema)

    def __reduce__(self) -> tuple[Any, ...]:
        return Structure, (self._schema,)

    def __call__(self, response: str) -> Verdict:
        """Check whether an answer fits."""
        faults = self._faults(response)
        if not faults:
            return Verdict.checked(True)  # noqa: FBT003 - the result of the check
        feedback = f"Reply with one JSON object that fits the schema {self._name}: {' '.join(faults)}"
        return Verdict.checked(False, rationale="The answer does not fit the schema.", feedback=feedback)  # noqa: FBT003 - as above

    def read(self, answer: AIMessage) -> Any:
        """Return the object that an answer holds.

        Raises:
            OutputParserException: If it holds none.
        """
        fault = f"the answer is no JSON that fits the schema {self._name}"
        try:
            value = self._adapter.validate_json(str(answer.text))
        except ValidationError as error:
            why = _WITHOUT_OBJECT.get(kind_of_answer(answer)) or " ".join(_described(error))
            raise OutputParserException(f"{fault}: {why}") from error
        if self._misfits(value):  # which may quote what was judged
            raise OutputParserException(f"{fault}, although it is an object")
        return value

    def read_with_raw(self, answer: AIMessage) -> dict[str, Any]:
        """Return the answer, the object in it, and the error where there is none, as LangChain's models do."""
        try:
            return {"raw": answer, "parsed": self.read(answer), "parsing_error": None}
        except OutputParserException as error:
            return {"raw": answer, "parsed": None, "parsing_error": error}

    def _faults(self, text: str) -> list[str]:
        try:
            return self._misfits(self._adapter.validate_json(text))
        except ValidationError as error:
            return _described(error)

    def _misfits(self, value: object) -> list[str]:
        """Return what is wrong with an object by a JSON schema; a class has checked its own already."""
        if not isinstance(self._schema, Mapping):
            return []
        wrapped = self._schema.get("json_schema", {"schema": self._schema})
        schema = wrapped.get("schema") if isinstance(wrapped, Mapping) else None
        if not isinstance(schema, Mapping) or schema.get("type") == "json_object":
            return []
        return _faults_in(value, schema, whole="the object")


def check_first(structure: Structure, judge: object, *, success_rating: int) -> Judge:
    """Return a judge that is asked about answers that fit a schema; any other fails without it."""
    coerced = as_judge(judge)
    fits = as_judge(structure, name="schema")
    return Cascade({"schema": fits, coerced.name: coerced}, success_rating=success_rating, name=coerced.name)


def _json_schema_of(schema: Schema, *, strict: bool | None = None) -> dict[str, Any]:
    """Return a schema as chat completions take it in `response_format`.

    Args:
        schema: The schema.
        strict: Whether the endpoint must enforce it exactly; None means so wherever the keys of all objects are
            known.
    """
    if isinstance(schema, Mapping) and schema.get("type") in ("json_schema", "json_object"):
        return dict(schema)
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        field = response_format(schema)
    else:
        field = {"type": "json_schema", "json_schema": {"name": _name_of(schema), "schema": _plain_schema(schema)}}
    if strict is None:
        return field
    return {**field, "json_schema": {**field["json_schema"], "strict": strict}}


def _plain_schema(schema: Schema) -> dict[str, Any]:
    return dict(schema) if isinstance(schema, Mapping) else convert_to_json_schema(schema)


def _name_of(schema: Schema) -> str:
    if isinstance(schema, Mapping):
        inner = schema.get("json_schema")
        title = inner.get("name") if isinstance(inner, Mapping) else schema.get("title")
        return title if isinstance(title, str) and title.isidentifier() else "answer"
    return getattr(schema, "__name__", "answer")


def _adapter_of(schema: Schema) -> TypeAdapter[Any]:
    reason = f"a schema is a pydantic class, a TypedDict, a dataclass or a JSON schema, not {shortened(schema)}"
    if isinstance(schema, Mapping):
        return TypeAdapter(dict[str, Any])
    if getattr(schema, "__module__", "builtins") == "builtins":
        raise ConfigurationError(reason)
    try:
        return TypeAdapter(schema)
    except Exception as error:
        cause = one_line(str(error).partition("\n")[0]) or type(error).__name__
        raise ConfigurationError(f"{reason}: {cause}") from error


def _described(error: ValidationError) -> list[str]:
    """Describe the faults of a text by their places, without quoting it."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    return [
        f"{'.'.join(map(str, fault['loc'])) or 'the text'}: {fault['msg']}." for fault in faults[:_MOST_FAULTS]
    ]


_Change = Callable[[Any], Any]
"""Binds something to a chat model."""


def with_settings(generator: object, settings: Mapping[str, Any]) -> object:
    """Return a generator whose model is called with further settings.

    Raises:
        ConfigurationError: If it is no chat model and no direct client.
    """
    remedy = "bind them to the model inside, for instance create_agent(model.bind(...), tools)"
    return _bound(generator, lambda model: model.bind(**settings), "settings", remedy)


def with_tools(generator: object, tools: Sequence[Any], settings: Mapping[str, Any]) -> object:
    """Return a generator whose model may call tools; its caller runs them.

    Raises:
        ConfigurationError: If it is no chat model and no direct client, or the model knows no tools.
    """
    remedy = "give them to the agent inside, SelfRefine(create_agent(model, tools), judge)"

    def bind(model: Any) -> Any:
        try:
            return model.bind_tools(tools, **settings)
        except NotImplementedError:
            raise ConfigurationError(f"{type(model).__name__} has no tools; use a model that has") from None

    return _bound(generator, bind, "tools", remedy)


def with_schema(generator: object, schema: Schema, settings: Mapping[str, Any]) -> object:
    """Return a generator whose model writes JSON that fits a schema, as the endpoint enforces it.

    Raises:
        ConfigurationError: If it is no chat model and no direct client, or the model knows no such replies.
    """
    remedy = "give it to the agent inside, SelfRefine(create_agent(model, tools, response_format=...), judge)"

    def bind(model: Any) -> Any:
        if isinstance(model, OpenAICompatible):
            return model.bind(response_format=_json_schema_of(schema, strict=settings.get("strict")))
        return _first_step(model, schema, settings)

    return _bound(generator, bind, "a schema", remedy)


def _first_step(model: BaseChatModel, schema: Schema, settings: Mapping[str, Any]) -> Any:
    """Return a model bound to a schema by its own package, without the parser that comes after it.

    It is bound to the JSON schema, never to the class: some packages parse by a class themselves, and a reply that
    does not fit would be an error there instead of a draft to refuse.
    """
    field = _json_schema_of(schema, strict=settings.get("strict"))
    plain = field["json_schema"]["schema"] if field["type"] == "json_schema" else field
    try:
        chain = model.with_structured_output({"title": "answer", **plain}, method="json_schema", **settings)
    except (NotImplementedError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{type(model).__name__} cannot be bound to a schema by the method 'json_schema': "
            f"{one_line(str(error) or type(error).__name__)}"
        ) from error
    first = chain.first if isinstance(chain, RunnableSequence) else None
    if isinstance(first, RunnableBinding) and "tools" not in first.kwargs:
        is_openais = _is_json_schema(first.kwargs.get("response_format"))
        return first.bind(response_format=field) if is_openais else first
    raise ConfigurationError(
        f"{type(model).__name__} writes no JSON by a schema, only calls of a tool; use an agent with "
        f"response_format=... as generator"
    )


def _is_json_schema(provider_format: object) -> bool:
    return isinstance(provider_format, Mapping) and provider_format.get("type") == "json_schema"


def _bound(generator: object, change: _Change, what: str, remedy: str) -> object:
    """Bind something to the model that a generator is, under whatever is bound to it already."""
    if isinstance(generator, str):
        generator = OpenAICompatible.named(generator) if names_direct_client(generator) else chat_model(generator)
    if isinstance(generator, OpenAICompatible):
        return change(generator)
    bound = _rebound(generator, change) if isinstance(generator, Runnable) else None
    if bound is None:
        raise ConfigurationError(
            f"{what} cannot be bound to {shortened(generator)}, which is no chat model and no OpenAICompatible; "
            f"{remedy}"
        )
    return bound


_FORMATS = frozenset({"response_format", "ls_structured_output_format", "format", "response_schema"})
"""Fields by which models are asked for JSON, under the names of several providers."""


def is_structured(generator: object) -> bool:
    """Check whether a generator is bound to write JSON, as far as that can be seen."""
    if isinstance(generator, OpenAICompatible):
        return generator.is_structured
    if isinstance(generator, RunnableWithFallbacks):
        return any(map(is_structured, generator.runnables))
    if not isinstance(generator, RunnableBindingBase):
        return False
    return not _FORMATS.isdisjoint(generator.kwargs) or is_structured(generator.bound)


def _rebound(runnable: Any, change: _Change) -> Any | None:
    """Return a model changed below its bindings, retries and fallbacks; None where there is no model."""
    if isinstance(runnable, BaseChatModel):
        return change(runnable)
    if isinstance(runnable, RunnableBindingBase):
        inner = _rebound(runnable.bound, change)
        return None if inner is None else runnable.model_copy(update={"bound": inner})
    if isinstance(runnable, RunnableWithFallbacks):
        models = [_rebound(model, change) for model in (runnable.runnable, *runnable.fallbacks)]
        if None in models:
            return None
        return runnable.model_copy(update={"runnable": models[0], "fallbacks": models[1:]})
    return None


_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (Mapping,),
    "array": (list, tuple),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


_DEEPEST = 30


_LONGEST = 200


_UNTRUSTED = ("pattern", "patternProperties", "format")
"""Keywords that are not checked: a schema may come with a request, and a pattern may take for ever."""


def misfit_of(calls: Iterable[Mapping[str, Any]], schemas: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what is wrong with tool calls, as feedback to whoever made them; empty where nothing is.

    With the extra `jsonschema` that is whatever their schemas say; without it only types, required arguments,
    listed values, and arguments that there are not.

    Args:
        calls: The calls, each with `name` and `args`.
        schemas: JSON schemas of the arguments by the tool's name; calls of other tools are not checked.
    """
    faults = [
        f"The call of the tool {call['name']} does not fit its schema: {fault}"
        for call in calls
        if isinstance(schema := schemas.get(call["name"]), Mapping)
        for fault in _faults_in(call["args"], schema)
    ]
    return "\n".join(faults)


def schemas_in(tools: object) -> dict[str, Mapping[str, Any]]:
    """Return the schemas of arguments by the tool's name, in the form of any API that lists tools."""
    schemas: dict[str, Mapping[str, Any]] = {}
    for tool in tools if isinstance(tools, list | tuple) else ():
        inner = tool.get("function", tool) if isinstance(tool, Mapping) else None
        if isinstance(inner, Mapping) and isinstance(name := inner.get("name"), str):
            schema = inner.get("parameters", inner.get("input_schema"))
            if isinstance(schema, Mapping):
                schemas[name] = schema
    return schemas


def _faults_in(value: object, schema: Mapping[str, Any], *, whole: str = "its arguments") -> list[str]:
    validate = _validator_class()
    if validate is None:
        return list(_plain_faults(value, schema, "", _DEEPEST))[:_MOST_FAULTS]
    try:
        faults = sorted(validate(schema, value), key=lambda fault: list(map(str, fault.path)))
    except Exception:  # noqa: BLE001 - a schema that cannot be read, or refers elsewhere, is not the model's fault
        return []
    return list(dict.fromkeys(fault for one in faults for fault in _instructions(one, whole)))[:_MOST_FAULTS]


def _instructions(fault: Any, whole: str) -> Iterator[str]:
    place = fault.json_path.removeprefix("$").removeprefix(".")
    if fault.validator == "required":
        yield from (_missing(key, place) for key in fault.validator_value if key not in fault.instance)
    else:
        yield f"{place or whole}: {fault.message[:_LONGEST]}."


def _missing(key: str, place: str) -> str:
    return f"{f'{place}.' if place else ''}{key} is missing."


@cache
def _validator_class() -> Any:
    """Return what yields the faults of a value by a schema; None without the extra.

    Only references within a schema are followed: nothing is fetched.
    """
    try:
        from jsonschema import Draft202012Validator  # noqa: PLC0415 - an extra, imported on demand
        from jsonschema.validators import extend  # noqa: PLC0415
        from referencing import Registry  # noqa: PLC0415 - comes with it
    except ImportError:
        return None
    kind = extend(Draft202012Validator, dict.fromkeys(_UNTRUSTED, _ignore))  # type: ignore[no-untyped-call]
    nothing = Registry()
    return lambda schema, value: kind(dict(schema), registry=nothing).iter_errors(value)


def _ignore(*_: object) -> Iterator[Any]:
    yield from ()


def _plain_faults(value: object, schema: Mapping[str, Any], place: str, depth: int) -> Iterator[str]:
    """Yield what is wrong by the plainest keywords; a schema that is put together of others is not read."""
    if depth == 0 or not isinstance(schema, Mapping):
        return
    kinds = schema.get("type")
    names = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    if names and not any(_is_of(value, name) for name in names):
        yield f"{place or 'its arguments'} must be of type {' or '.join(map(str, names))}."
        return
    listed = schema.get("enum")
    if isinstance(listed, list) and value not in listed:
        yield f"{place or 'its arguments'} must be one of {', '.join(map(repr, listed))[:_LONGEST]}."
    if isinstance(value, Mapping):
        yield from _faults_of_object(value, schema, place, depth)
    if isinstance(value, list) and isinstance(items := schema.get("items"), Mapping):
        for number, item in enumerate(value):
            yield from _plain_faults(item, items, f"{place}[{number}]", depth - 1)


def _faults_of_object(
    value: Mapping[str, Any], schema: Mapping[str, Any], place: str, depth: int
) -> Iterator[str]:
    required, properties = schema.get("required"), schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    for key in required if isinstance(required, list) else ():
        if key not in value:
            yield _missing(str(key), place)
    for key, part in value.items():
        inner = f"{place}.{key}" if place else str(key)
        if isinstance(properties.get(key), Mapping):
            yield from _plain_faults(part, properties[key], inner, depth - 1)
        elif schema.get("additionalProperties") is False and key not in properties:
            yield f"{inner} is no argument of it."


def _is_of(value: object, name: object) -> bool:
    kinds: Sequence[type] = _TYPES.get(name, (object,)) if isinstance(name, str) else (object,)
    if isinstance(value, bool) and name in ("integer", "number"):
        return False
    is_whole = name == "integer" and isinstance(value, float) and value.is_integer()
    return is_whole or isinstance(value, tuple(kinds))


def with_answer_last(messages: Sequence[Any], structured_response: object) -> list[Any]:
    """Return an agent's new messages so that they end with its structured answer, as JSON text without a call.

    Args:
        messages: The messages. Where they do not end with the result of a call that stands for such an answer
            (`response_format=ToolStrategy(...)`), they are returned as they are.
        structured_response: The answer as the agent's state has it, where it may be one of an earlier turn; None
            where it has none.
    """
    index, results = _last_calls(messages)
    if structured_response is None or index is None or not results:
        return list(messages)
    called = {result.tool_call_id for result in results}
    calls = [call for call in messages[index].tool_calls if call["id"] in called]
    if not any(_stands_for(call, structured_response) for call in calls):
        return list(messages)
    text = to_json(structured_response, fallback=str).decode()
    answer = messages[index].model_copy(update={"content": text, "tool_calls": []})
    return [*messages[:index], answer]


def _last_calls(messages: Sequence[Any]) -> tuple[int | None, list[ToolMessage]]:
    """Return the place of the message before the results of tools that messages end with, and the results."""
    ending = takewhile(lambda message: isinstance(message, ToolMessage), reversed(messages))
    results: list[ToolMessage] = list(ending)[::-1]
    index = len(messages) - len(results) - 1
    return (index if index >= 0 and isinstance(messages[index], AIMessage) else None), results


def _stands_for(call: ToolCall, answer: object) -> bool:
    """Check whether a call has a structured answer for its arguments, as far as its name or its fields say so."""
    names = answer if isinstance(answer, Mapping) else getattr(answer, "__dict__", {})
    has_its_fields = bool(call["args"]) and call["args"].keys() <= names.keys()
    return call["name"] == type(answer).__name__ or has_its_fields or call["args"] == answer


def tool_result_in(messages: Sequence[Any]) -> tuple[AIMessage, str] | None:
    """Return what tools returned as an answer, and the errors among it, where messages end with it; else None."""
    index, results = _last_calls(messages)
    if index is None or not results:
        return None
    called = {call["id"] for call in messages[index].tool_calls}
    if any(result.tool_call_id not in called for result in results):
        return None
    errors = "\n".join(str(result.text) for result in results if result.status == "error")
    contents: list[Any] = [result.content for result in results]
    if len(contents) == 1:
        return AIMessage(contents[0]), errors
    if all(isinstance(content, str) for content in contents):
        return AIMessage("\n\n".join(contents)), errors
    return AIMessage([part for content in contents for part in _parts(content)]), errors


def _parts(content: str | list[Any]) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
