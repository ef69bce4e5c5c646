"""Putting judged text into a judge model's format, and building the object a judge asked for from its reply."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from pydantic import BaseModel, JsonValue

from judges.errors import ConfigurationError
from judges.model import ModelResponse
from judges.models.dialects.levels import levels_of
from judges.models.parse import Unreadable, parse_reply
from judges.models.render import encode, render_data

T = TypeVar("T", bound=BaseModel)

_JUDGED = ("claim", "answer")
_TAGS = (
    "feedback|score|reasoning|highlight|inputs?|output|evaluation_criteria|scoring_rubric|pass_criteria|rubric|"
    "data|document|claim"
)
_MARKS = re.compile(
    rf"[<\uff1c\ufe64](?=\s*[/\uff0f]?\s*(?:{_TAGS})\b)|[\[\uff3b](?=\s*[/\uff0f]?\s*(?:RESULT|SCORE)\b)|\#(?=\#\#)",
    re.IGNORECASE,
)


class _FinishedReply(BaseModel):
    """Schema without fields: checks only that a reply ended as it should."""


def judged_and_rest(data: Mapping[str, JsonValue]) -> tuple[str, dict[str, JsonValue]]:
    """Split data into what is judged, the field `claim` or else `answer`, and the other fields.

    Raises:
        ConfigurationError: If there is neither field.
    """
    name = next((name for name in _JUDGED if isinstance(data.get(name), str)), None)
    if name is None:
        raise ConfigurationError(
            f"a model that judges in a format of its own judges the text in a field {' or '.join(_JUDGED)}; "
            f"given were {', '.join(data) or 'none'}"
        )
    return str(data[name]), {other: value for other, value in data.items() if other != name}


def quote(value: JsonValue) -> str:
    """Return a value as JSON on one line, with the tags and marks of judge models' formats escaped."""
    return _escape_marks(encode(value))


def fence(value: JsonValue, nonce: str) -> str:
    """Put a text, or the fields of an object, between two marks with the nonce; see `quote`."""
    body = _escape_marks(render_data(value)) if isinstance(value, dict) else quote(value)
    return f"<<<{nonce}\n{body}\n{nonce}>>>"


def _escape_marks(body: str) -> str:
    return _MARKS.sub(lambda match: f"\\u{ord(match.group()):04x}", body)


def text_of(response: ModelResponse) -> str:
    """Return the text of a reply that is text and ended as it should.

    Raises:
        Unreadable: If the reply was cut, filtered or refused, is empty, or calls a tool.
    """
    if response.calls or response.broken_calls:
        raise Unreadable("a tool was called where text was asked for")
    parse_reply(replace(response, text="{}"), _FinishedReply)
    if not response.text.strip():
        raise Unreadable("the reply is empty")
    return response.text.strip()


def build_reply(schema: type[T], level: int, *, reasons: str, feedback: str) -> T:
    """Build the object that a judge asked for.

    Every text field holds the reasons, except `feedback`, which is empty at the highest level.

    Raises:
        Unreadable: If the reasons are not valid text.
    """
    levels = levels_of(schema)
    texts = dict.fromkeys(levels.texts, reasons)
    if "feedback" in texts:
        texts["feedback"] = "" if level == levels.choices[-1] else feedback
    return parse_reply(ModelResponse(text=json.dumps({**texts, levels.field: level})), schema)
