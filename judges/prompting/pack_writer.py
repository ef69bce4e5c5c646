"""Writing a prompt as the TOML file of a pack that people can read and edit: without escapes for other scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from judges.prompting.prompts import Prompt

_WIDTH = 110
_LONG = re.compile(rf"(.{{{_WIDTH - 40},{_WIDTH}}}) (?=\S)")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_UNSAFE = re.compile(r'[\x00-\x08\x0a-\x1f\x7f"\\]')
_UNSAFE_IN_LINES = re.compile(r'[\x00-\x08\x0b-\x1f\x7f\\]|"(?="")|"\Z')
_SHORT = {"\b": "\\b", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def to_toml(prompt: Prompt) -> str:
    """Return a prompt as TOML; parsing it gives the same prompt."""
    blocks = ["\n".join(_head(prompt))]
    if prompt.levels:
        blocks.append(_table("levels", {str(level): text for level, text in prompt.levels.items()}))
    for example in prompt.examples:
        data, reply = _table("examples.data", example.data), _table("examples.reply", example.reply)
        blocks.append(f"[[examples]]\n{data}\n{reply}")
    if prompt.feedback:
        blocks.append(_table("feedback", prompt.feedback))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _head(prompt: Prompt) -> Iterator[str]:
    if prompt.task:
        yield f"task = {_lines(prompt.task)}"
    if prompt.reminder:
        yield f"reminder = {_text(prompt.reminder)}"


def _table(name: str, fields: Mapping[str, JsonValue]) -> str:
    return "\n".join([f"[{name}]", *(f"{_key(key)} = {_value(value)}" for key, value in fields.items())])


def _value(value: JsonValue) -> str:
    if isinstance(value, list) and len(flat := _flat(value)) > _WIDTH:
        lines = "".join(f"  {_flat(item)},\n" for item in value)
        return f"[\n{lines}]"
    return flat if isinstance(value, list) else _flat(value)


def _flat(value: JsonValue) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return _text(value)
        case list():
            return f"[{', '.join(map(_flat, value))}]"
        case dict():
            fields = ", ".join(f"{_key(key)} = {_flat(item)}" for key, item in value.items())
            return f"{{ {fields} }}" if fields else "{}"
        case None:
            raise ValueError("TOML has no null; leave the field out")
        case _:
            return repr(value)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _text(text: str) -> str:
    return f'"{_UNSAFE.sub(_escape, text)}"'


def _lines(text: str) -> str:
    """Return a text as a multi-line string; long lines are continued at a single blank."""
    safe = _UNSAFE_IN_LINES.sub(_escape, text)
    lines = (_LONG.sub(r"\1 \\\n", line) if len(line) > _WIDTH else line for line in safe.split("\n"))
    return '"""\n' + "\n".join(lines) + '"""'


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    return _SHORT.get(character, f"\\u{ord(character):04x}")
