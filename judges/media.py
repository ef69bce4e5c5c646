"""Images and audio in messages, read from the forms of several providers, for a judge's model that takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MediaKind = Literal["image", "audio"]

_KINDS: dict[str, MediaKind] = {"image": "image", "audio": "audio"}

WITHOUT_MEDIA: dict[str, Any] = {name: {"__all__": {"media"}} for name in ("user_input", "trajectory")}
"""For `Sample.model_dump(exclude=...)`: everything but images and audio, which are named all the same."""

_BEGINNINGS = {"/9j/": "image/jpeg", "iVBOR": "image/png", "R0lGOD": "image/gif", "UklGR": "image/webp"}
"""How base64 of a picture begins, by its type."""

_LONGEST_HEAD = 200
"""Characters within which a `data:` URL says that it is base64."""

_AUDIO_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav", "vnd.wave": "wav"}


class Media(BaseModel):
    """An image or a sound of a message.

    Args:
        kind: What it is.
        place: Index of the part among those that are no text; see `Message.parts_not_shown`.
        url: Address of an image, `http` or `https`, or a `data:` URL in base64; empty if there is data.
        data: The content in base64; empty if there is an address.
        mime_type: Type of the data, such as `image/png`.
    """

    model_config = ConfigDict(frozen=True)

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


def media_of(part: Mapping[str, Any], place: int) -> Media | None:
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
    return content if isinstance(content, str) else [_part(part, Media.openai_part) for part in content]


def langchain_content(content: Content) -> Any:
    """Return the content of a message as LangChain has it: a text, or standard content blocks."""
    return content if isinstance(content, str) else [_part(part, Media.langchain_block) for part in content]


def _part(part: str | Media, render: Callable[[Media], dict[str, Any]]) -> dict[str, Any]:
    return {"type": "text", "text": part} if isinstance(part, str) else render(part)
