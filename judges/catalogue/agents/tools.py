"""The tools that an agent could have used: a setting of the judge, or the sample's metadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import JsonValue, TypeAdapter, ValidationError

from judges.errors import ConfigurationError, shortened
from judges.sample import Sample

TOOL_KEYS = ("tools", "available_tools", "tool_definitions")
"""Keys of the metadata that hold the tools; the first that is there counts."""

_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)


def checked_tools(tools: object) -> list[JsonValue] | None:
    """Return tools as shown to a model.

    Args:
        tools: Names, definitions as JSON, or objects with `name`, `description` and `args` such as LangChain's.

    Raises:
        ConfigurationError: If they are none of these.
    """
    if tools is None:
        return None
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable):
        raise ConfigurationError(
            f"tools is a list of names, definitions or LangChain tools, not {shortened(tools)}"
        )
    return [_shown(tool) for tool in tools]


def tools_in(sample: Sample) -> list[JsonValue] | None:
    """Return the tools that the sample's metadata lists, or None where it lists none."""
    tools = next((sample.metadata[key] for key in TOOL_KEYS if sample.metadata.get(key)), None)
    if tools is None:
        return None
    return tools if isinstance(tools, list) else [tools]


def _shown(tool: object) -> JsonValue:
    if isinstance(name := getattr(tool, "name", None), str):
        fields = {
            "name": name,
            "description": getattr(tool, "description", ""),
            "parameters": getattr(tool, "args", {}),
        }
        tool = {key: value for key, value in fields.items() if value}
    if not isinstance(tool, str | Mapping):
        raise ConfigurationError(f"a tool is a name, a definition or a LangChain tool, not {shortened(tool)}")
    try:
        return _JSON.validate_python(dict(tool) if isinstance(tool, Mapping) else tool)
    except ValidationError as error:
        raise ConfigurationError(f"a tool's definition is JSON, not {shortened(tool)}") from error
