"""Whether an agent may call the tools that it called, with such arguments: without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from operator import ge, gt, le, lt
from typing import Any, Unpack

from pydantic import JsonValue

from judges.catalogue.agents.tool_use import TOOL_KEYS, checked_tools, tools_in
from judges.catalogue.metric import ComputedMetric, MetricSettings
from judges.catalogue.parts.calls import actual_calls_in, render_call, render_value
from judges.catalogue.parts.claims import listed_feedback, reasons, share
from judges.catalogue.parts.fields import exchange_in
from judges.errors import CannotJudge, unfit
from judges.messages import ToolCall
from judges.sample import Sample
from judges.verdict import Verdict

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_BOUNDS: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": (">=", ge),
    "exclusiveMinimum": (">", gt),
    "maximum": ("<=", le),
    "exclusiveMaximum": ("<", lt),
}
_MOST_REFERENCES = 10
"""References that are followed in a row; a definition may name itself."""


class ToolPermission(ComputedMetric, entry="tool_permission", pack="tool_permission"):
    """Judge whether every tool call of an agent was permitted, and fits the tool's definition.

    A call is permitted if its name matches `allowed`, where that is given, and none of `forbidden`. Where the
    tools are known, by `tools` or the sample's metadata, it must be one of them, with all required arguments, no
    unknown ones, and values of the types, choices and bounds that the definition names, also inside of lists and
    objects.
    Score = permitted calls / calls made; it passes at 1 unless `threshold` is given. To make no call is permitted.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    pass_mark = 1.0
    metadata_keys = TOOL_KEYS
    """The keys of the tools that the agent has."""

    def __init__(
        self,
        *,
        allowed: Iterable[str] | None = None,
        forbidden: Iterable[str] = (),
        tools: Iterable[object] | None = None,
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(**settings)
        self._allowed = None if allowed is None else _names(allowed, setting="allowed")
        self._forbidden = _names(forbidden, setting="forbidden")
        self._tools = checked_tools(tools)

    def compute(self, sample: Sample) -> Verdict:
        """Check every call."""
        exchange_in(sample)
        tools = tools_in(sample) if self._tools is None else self._tools
        if tools is None and self._allowed is None and not self._forbidden:
            raise CannotJudge(
                "undefined", "nothing says what may be called; set allowed=..., forbidden=... or tools=..."
            )
        definitions = None if tools is None else dict(map(_definition, tools))
        items = [self._item(sample, call, definitions) for call in actual_calls_in(sample)]
        wrong = [f"{item.subject} - {item.rationale}" for item in items if not item.passed]
        feedback = listed_feedback(self, sample, {"wrong": wrong}, "calls")
        score = share(items) if items else 1.0
        return self.verdict(score, rationale=reasons(items), feedback=feedback, items=tuple(items))

    def _item(
        self, sample: Sample, call: ToolCall, definitions: Mapping[str, Mapping[str, Any]] | None
    ) -> Verdict:
        faults = list(self._faults(sample, call, definitions))
        return Verdict.checked(not faults, subject=render_call(call), rationale=" ".join(faults))

    def _faults(
        self, sample: Sample, call: ToolCall, definitions: Mapping[str, Mapping[str, Any]] | None
    ) -> Iterator[str]:
        is_allowed = self._allowed is None or any(fnmatchcase(call.name, name) for name in self._allowed)
        if not is_allowed or any(fnmatchcase(call.name, name) for name in self._forbidden):
            yield self.say("not_allowed", sample)
        elif definitions is not None and call.name not in definitions:
            yield self.say("unknown", sample, tools=", ".join(definitions))
        elif definitions is not None:
            yield from self._faults_of_arguments(sample, call.args, definitions[call.name])

    def _faults_of_arguments(
        self, sample: Sample, arguments: Mapping[str, JsonValue], schema: Mapping[str, Any]
    ) -> Iterator[str]:
        properties = schema.get("properties") or {}
        for name in schema.get("required") or ():
            if name not in arguments:
                yield self.say("left_out", sample, argument=name)
        for name, value in arguments.items():
            if name not in properties:
                if properties and not schema.get("additionalProperties"):
                    yield self.say("unwanted", sample, argument=name)
            elif wanted := _wanted(value, properties[name], schema):
                yield self.say("other", sample, argument=name, value=render_value(value), wanted=wanted)


def _names(names: Any, *, setting: str) -> tuple[str, ...]:
    listed = tuple(names) if isinstance(names, Iterable) and not isinstance(names, str | Mapping) else (None,)
    if not all(isinstance(name, str) and name.strip() for name in listed):
        raise unfit(f"{setting} is a list of names of tools, such as ['search_*']", names)
    return listed


def _definition(tool: Any) -> tuple[str, Mapping[str, Any]]:
    """Return name and schema of the arguments of a tool, in whichever form it is defined."""
    if isinstance(tool, str):
        return tool, {}
    fields = tool.get("function") if isinstance(tool.get("function"), Mapping) else tool
    keys = ("parameters", "inputSchema", "input_schema", "args")
    schema: Mapping[str, Any] = next((fields[key] for key in keys if isinstance(fields.get(key), Mapping)), {})
    is_bare = schema and "properties" not in schema and schema.get("type") != "object"  # LangChain's `args`
    return str(fields.get("name", "")), {"properties": schema} if is_bare else schema


def _wanted(value: JsonValue, schema: Any, definition: Mapping[str, Any]) -> str:
    """Return what a value should be by its schema; empty where it is that, or the schema does not say."""
    schema = _resolved(schema, definition)
    if not isinstance(schema, Mapping):
        return ""
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if choices is not None and value not in choices:
        return ", ".join(map(render_value, choices))
    options = [one for one in schema.get("anyOf") or () if isinstance(one, Mapping)]
    if options:
        wanted = [_wanted(value, one, definition) for one in options]
        return "" if "" in wanted else " / ".join(wanted)
    named = schema.get("type")
    types = [named] if isinstance(named, str) else list(named or ())
    kinds = [kind for name in types for kind in _TYPES.get(name, ())]
    is_kind = type(value) in kinds or (type(value) is float and value.is_integer() and int in kinds)
    return next(_wanted_inside(value, schema, definition), "") if not kinds or is_kind else " / ".join(types)


def _wanted_inside(value: Any, schema: Mapping[str, Any], definition: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a number, or a part of a list or an object, should be."""
    if type(value) in (int, float):
        for name, (sign, holds) in _BOUNDS.items():
            if type(schema.get(name)) in (int, float) and not holds(value, schema[name]):
                yield f"{sign} {schema[name]}"
    elif isinstance(value, list):
        yield from filter(None, (_wanted(one, schema.get("items"), definition) for one in value))
    elif isinstance(value, Mapping):
        properties = schema.get("properties") or {}
        yield from (f"{{{name}: ...}}" for name in schema.get("required") or () if name not in value)
        for name in properties.keys() & value.keys():
            if wanted := _wanted(value[name], properties[name], definition):
                yield f"{{{name}: {wanted}}}"


def _resolved(schema: Any, definition: Mapping[str, Any]) -> Any:
    """Return the schema that a reference within a tool's definition names, as pydantic writes it for an `Enum`."""
    for _ in range(_MOST_REFERENCES):
        path = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(path, str):
            return schema
        _, _, table_and_name = path.partition("#/")
        table, _, name = table_and_name.partition("/")
        definitions = definition.get(table)
        schema = definitions.get(name) if isinstance(definitions, Mapping) else None
    return None
