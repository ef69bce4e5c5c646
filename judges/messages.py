"""The messages of a conversation: `Message`, and the `ToolCall` that an assistant's message may hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from pydantic import BaseModel, Field, JsonValue, model_validator

from judges.verdict import assembled

MediaKind = Literal["image", "audio"]

_KINDS: dict[str, MediaKind] = {"image": "image", "audio": "audio"}

WITHOUT_MEDIA: dict[str, Any] = {name: {"__all__": {"media"}} for name in ("user_input", "trajectory")}
"""For `Sample.model_dump(exclude=...)`: everything but images and audio, which are named all the same."""

_BEGINNINGS = {"/9j/": "image/jpeg", "iVBOR": "image/png", "R0lGOD": "image/gif", "UklGR": "image/webp"}
"""How base64 of a picture begins, by its type."""

_LONGEST_HEAD = 200
"""Characters within which a `data:` URL says that it is base64."""

_AUDIO_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav", "vnd.wave": "wav"}


class Media(BaseModel, frozen=True):
    """An image or a sound of a message.

    Args:
        kind: What it is.
        place: Index of the part among those that are no text; see `Message.parts_not_shown`.
        url: Address of an image, `http` or `https`, or a `data:` URL in base64; empty if there is data.
        data: The content in base64; empty if there is an address.
        mime_type: Type of the data, such as `image/png`.
    """

    kind: MediaKind
    place: int = 0
    url: str = Field(default="", repr=False)
    data: str = Field(default="", repr=False)
    mime_type: str = ""

    def openai_part(self) -> dict[str, Any]:
        """Return it as a content part of chat completions."""
        if self.kind == "audio":
            mime_type, data = self._content()
            kind = mime_type.rpartition("/")[2]
            return {"type": "input_audio", "input_audio": {"data": data, "format": _AUDIO_FORMATS.get(kind, kind)}}
        url = self.url or f"data:{self.mime_type};base64,{self.data}"
        return {"type": "image_url", "image_url": {"url": url}}

    def langchain_block(self) -> dict[str, Any]:
        """Return it as a standard content block of LangChain."""
        if self.url and not _is_data(self.url):
            return {"type": self.kind, "url": self.url}
        mime_type, data = self._content()
        return {"type": self.kind, "base64": data, "mime_type": mime_type}

    def _content(self) -> tuple[str, str]:
        """Return the type and the base64 of a part that is no address."""
        if not self.url:
            return self.mime_type, self.data
        head, _, data = self.url.partition(",")
        return head[len("data:") :].partition(";")[0], data


Content = str | tuple[str | Media, ...]
"""Content of a message to a model: a text, or texts with images and audio between them."""


def _media_of(part: Mapping[str, Any], place: int) -> Media | None:
    """Read a content part of OpenAI, Anthropic, Gemini or LangChain.

    Returns:
        None for other parts, and for what a model cannot be sent: files known by an id, sounds by an address,
        addresses of other schemes.
    """
    kind = str(part.get("type", ""))
    source = part.get("source")
    if kind in ("image_url", "input_image"):
        return _addressed(part.get("image_url"), place)
    if kind == "input_audio":
        return _sound(part.get("input_audio"), place)
    if kind == "image" and isinstance(source, Mapping):  # Anthropic
        return _from_values("image", source.get("url"), source.get("data"), source.get("media_type"), place)
    mime_type = str(part.get("mime_type") or "")
    if kind in ("media", "file", "input_file"):
        kind = mime_type.partition("/")[0]
    if kind not in ("image", "audio"):
        return None
    url = part.get("url", part.get(kind))  # inspect has it under its kind
    return _from_values(_KINDS[kind], url, part.get("base64", part.get("data")), mime_type, place)


def _addressed(value: object, place: int) -> Media | None:
    return _from_values("image", value.get("url") if isinstance(value, Mapping) else value, None, None, place)


def _sound(value: object, place: int) -> Media | None:
    if not isinstance(value, Mapping):
        return None
    return _from_values("audio", None, value.get("data"), f"audio/{value.get('format') or 'wav'}", place)


def _from_values(kind: MediaKind, url: object, data: object, mime_type: object, place: int) -> Media | None:
    if isinstance(url, str) and _is_data(url):
        is_base64 = ";base64," in url[:_LONGEST_HEAD].lower()  # the whole may be megabytes
        return Media(kind=kind, place=place, url=url) if is_base64 else None
    if isinstance(url, str) and kind == "image" and url[:8].lower().startswith(("http://", "https://")):
        return Media(kind=kind, place=place, url=url)
    if not isinstance(data, str) or not data:
        return None
    return Media(kind=kind, place=place, data=data, mime_type=_type_of(kind, data, str(mime_type or "")))


def _is_data(url: str) -> bool:
    return url[:5].lower() == "data:"


def _type_of(kind: MediaKind, data: str, named: str) -> str:
    if named.startswith(f"{kind}/"):
        return named
    beginnings = (mime_type for beginning, mime_type in _BEGINNINGS.items() if data.startswith(beginning))
    return next(beginnings, "image/png") if kind == "image" else "audio/wav"


def openai_content(content: Content) -> Any:
    """Return the content of a message as chat completions have it: a text, or content parts."""
    return content if isinstance(content, str) else [_media_part(part, Media.openai_part) for part in content]


def langchain_content(content: Content) -> Any:
    """Return the content of a message as LangChain has it: a text, or standard content blocks."""
    return content if isinstance(content, str) else [_media_part(part, Media.langchain_block) for part in content]


def _media_part(part: str | Media, render: Callable[[Media], dict[str, Any]]) -> dict[str, Any]:
    return {"type": "text", "text": part} if isinstance(part, str) else render(part)


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


_ARGUMENTS = ("args", "arguments", "input", "parameters", "input_parameters", "inputParameters")
"""Names that the arguments of a call have, the first that is there."""


class ToolCall(BaseModel, frozen=True, from_attributes=True):
    """A tool call of the assistant: the tool's name, its JSON arguments and the call's id."""

    name: str
    args: dict[str, JsonValue] = Field(default_factory=dict)
    id: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _normalize(cls, data: Any) -> Any:
        """Read the arguments under any of their names: LangChain's, OpenAI's, Anthropic's, deepeval's."""
        if not isinstance(data, Mapping):
            return data
        function = data.get("function")
        call = function if isinstance(function, Mapping) else data
        args = next((call[name] for name in _ARGUMENTS if call.get(name) is not None), None)
        name = function if isinstance(function, str) else call.get("name")  # inspect's `function` is the name
        return {"name": name, "args": _arguments(args), "id": data.get("id")}


def _arguments(raw: Any) -> Any:
    if not isinstance(raw, str):
        return raw or {}
    try:
        return json.loads(raw or "{}")
    except ValueError:
        raise ValueError("tool arguments are JSON") from None


class Message(BaseModel, frozen=True):
    """One message of a conversation.

    Args:
        role: The author's role.
        content: The text; parts that are not text (images, audio) are replaced by their type in brackets.
        parts_not_shown: The types of these parts in their order; a judge is told that it was not shown them,
            unless it has `multimodal=True` and a model that takes them.
        media: Those of these parts that a model can be sent: images, and sounds that come as data.
        tool_calls: Calls the assistant requests.
        tool_call_id: On a tool's message, the call it answers.
        name: On a tool's message, the tool.
    """

    role: Role
    content: str = ""
    parts_not_shown: tuple[str, ...] = ()
    media: tuple[Media, ...] = Field(default=(), repr=False)
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _normalize(cls, data: Any) -> Any:
        fields = _fields_of(data)
        if fields is None:
            return data
        role = fields.get("role", fields.get("type"))
        canonical_role = _ROLES.get(str(role))
        if canonical_role is None:
            raise ValueError(f"unknown role {role!r}; known are system, user, assistant and tool")
        content = fields.get("content")
        if isinstance(content, str) and len(fields) == len(("role", "content")):  # as most have
            return {"role": canonical_role, "content": content}
        results = [part for part in _parts(content) if part.get("type") == "tool_result"]
        result = results[0] if results else {}
        others = tuple(_others(content))
        return {
            "role": "tool" if results else canonical_role,
            "content": "".join(
                [*map(_result_text, results), _text(_without(content, results) if results else content)]
            ),
            "parts_not_shown": fields.get("parts_not_shown") or tuple(map(_kind_of, others)),
            "media": fields.get("media") or _media_in(others),
            "tool_calls": fields.get("tool_calls") or _calls_in(fields),
            "tool_call_id": fields.get("tool_call_id", result.get("tool_use_id")),
            "name": fields.get("name"),
        }


def _fields_of(message: object) -> Mapping[str, Any] | None:
    """Return the fields of a dict or of a LangChain message, read by attribute so LangChain is not imported."""
    if isinstance(message, Mapping):
        data = message.get("data")  # as LangChain writes messages to files
        if isinstance(data, Mapping):
            return {"type": message.get("type"), **data}
        return unwrapped(message)
    if isinstance(message, tuple) and len(message) == 2:  # noqa: PLR2004 - LangChain's (role, text)
        return {"role": message[0], "content": message[1]}
    if hasattr(message, "type") and hasattr(message, "content"):
        is_plain = isinstance(message, BaseModel) and not message.__pydantic_extra__
        names = _attributes_of(type(message)) if is_plain else _ATTRIBUTES  # type: ignore[arg-type]  # a class has a hash
        return {name: value for name in names if (value := getattr(message, name, None))}
    return None


def unwrapped(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a message as LangChain serialises it (in LangSmith's runs); others as they are."""
    fields, path = message.get("kwargs"), message.get("id")
    if message.get("type") != "constructor" or not isinstance(fields, Mapping) or not isinstance(path, list):
        return message
    kind = str(path[-1]).removesuffix("Chunk").removesuffix("Message").lower() if path else ""
    return {"type": kind, **fields}


_ATTRIBUTES = ("type", "content", "tool_calls", "tool_call_id", "name")


@lru_cache(maxsize=64)
def _attributes_of(kind: type[BaseModel]) -> tuple[str, ...]:
    """Return the attributes that messages of a class have; pydantic looks for an absent one at some length."""
    return tuple(name for name in _ATTRIBUTES if name in kind.model_fields or hasattr(kind, name))


def _calls_in(fields: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return tool calls in OpenAI's legacy `function_call`, or in parts of Anthropic, LangChain and Azure."""
    parts = (part for part in _parts(fields.get("content")) if part.get("type") in ("tool_use", "tool_call"))
    return _legacy_calls(fields) or tuple(_call_in(part) for part in parts)


def _legacy_calls(fields: Mapping[str, Any]) -> tuple[Any, ...]:
    call = fields.get("function_call")
    return (call,) if call is not None and isinstance(call, Mapping) else ()


def _call_in(part: Mapping[str, Any]) -> Mapping[str, Any]:
    call = part.get("tool_call", part)
    return {"id": part.get("tool_call_id"), **call} if isinstance(call, Mapping) else part


def _result_text(part: Mapping[str, Any]) -> str:
    """Return the text of a tool's result: content, or Azure's `tool_result`, which may be any JSON."""
    content = part.get("content", part.get("tool_result"))
    is_content = content is None or isinstance(content, str | list | tuple)
    return _text(content) if is_content else json.dumps(content, ensure_ascii=False, default=str)


def _parts(content: object) -> list[Mapping[str, Any]]:
    return [part for part in content if isinstance(part, Mapping)] if isinstance(content, list | tuple) else []


def _without(content: Any, left_out: Sequence[object]) -> list[object]:
    return [part for part in content if part not in left_out]


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
    if (text := _text_in(part)) is not None:
        return text
    kind = _kind_of(part)
    return "" if kind in _NO_CONTENT else f"[{kind}]"


def _text_in(part: Mapping[str, Any]) -> str | None:
    """Return the text of a part, also of Anthropic's documents and search results; None where it is no text."""
    if isinstance(part.get("text"), str):
        return str(part["text"])
    source = part.get("source")
    content = part.get("content") if part.get("type") == "search_result" else None
    if part.get("type") == "document" and isinstance(source, Mapping):
        content = source.get({"text": "data", "content": "content"}.get(str(source.get("type")), ""))
    if not isinstance(content, str | list | tuple):
        return None
    return "\n".join([*(str(part[name]) for name in ("title", "context") if part.get(name)), _text(content)])


def _others(content: object) -> Iterator[Mapping[str, Any]]:
    """Yield the parts that are replaced by their type, those of a tool's results included."""
    for part in _parts(content):
        if part.get("type") == "tool_result":
            yield from _others(part.get("content"))
        elif _text_in(part) is None and _kind_of(part) not in _NO_CONTENT:
            yield part


def _media_in(parts: Sequence[Mapping[str, Any]]) -> tuple[Media, ...]:
    media = (_media_of(part, place) for place, part in enumerate(parts))
    return tuple(part for part in media if part is not None)


def _kind_of(part: Mapping[str, Any]) -> str:
    kind = part.get("type")
    return kind if isinstance(kind, str) else "part"


_NO_CONTENT = frozenset({"tool_use", "tool_call", "reasoning", "thinking"})
"""Types of parts that are no content of a message: its calls, and what was thought on the way."""


_BLANK = vars(Message(role="user"))


def plain_message(message: object) -> Message | None:
    """Return a message of LangChain's that has a role and a text alone, as most have; None for any other."""
    fields = _fields_of(message) or {}
    role, content = _ROLES.get(str(fields.get("type"))), fields.get("content")
    if role is None or type(content) is not str or len(fields) != len(("type", "content")):
        return None
    return assembled(Message, {**_BLANK, "role": role, "content": content}, {"role", "content"})


Conversation = tuple[Message, ...]
"""Messages in chronological order."""
