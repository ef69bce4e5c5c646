"""Messages as a judge's model is shown them, and the images and audio that go with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import JsonValue

from judges.media import Media, MediaKind

_KEY = "parts_not_shown"


class ShownMessage(dict[str, JsonValue]):
    """The fields of a message as JSON, which know its images and audio.

    Args:
        fields: The fields.
        media: The images and audio.
    """

    def __init__(self, fields: Mapping[str, JsonValue], media: tuple[Media, ...]) -> None:
        super().__init__(fields)
        self.media = media


def attach(
    data: Mapping[str, JsonValue], takes: Callable[[MediaKind], bool]
) -> tuple[Mapping[str, JsonValue], tuple[Media, ...]]:
    """Return data in which messages name their attachments, and the attachments in this order.

    Args:
        data: What a model is shown.
        takes: Whether the model takes images, or audio; what it does not take stays named as not shown.
    """
    media: list[Media] = []
    attached = {name: _attached(value, media, takes) for name, value in data.items()}
    return (attached, tuple(media)) if media else (data, ())


def _attached(value: Any, media: list[Media], takes: Callable[[MediaKind], bool]) -> Any:
    if isinstance(value, list):
        return [_attached(part, media, takes) for part in value]
    if isinstance(value, ShownMessage):
        return dict(_named(value, media, takes))
    if isinstance(value, dict):
        return {name: _attached(part, media, takes) for name, part in value.items()}
    return value


def _named(
    message: ShownMessage, media: list[Media], takes: Callable[[MediaKind], bool]
) -> Iterator[tuple[str, JsonValue]]:
    """Yield the fields of a message, with the numbers of its attachments where its other parts are named."""
    own = {part.place: part for part in message.media if takes(part.kind)}
    for name, value in message.items():
        if name != _KEY or not isinstance(value, list):
            yield name, value
            continue
        first = len(media)
        media.extend(own.values())
        if own:
            yield "attachments", [f"attachment {first + number}" for number in range(1, len(own) + 1)]
        left = [kind for place, kind in enumerate(value) if place not in own]
        if left:
            yield _KEY, left
