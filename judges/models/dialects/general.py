"""`JSON_OBJECT`, the dialect of every general model, and `dialect_of`, the dialect of any."""

from __future__ import annotations

from judges.media import MediaKind
from judges.model import JudgeModel
from judges.models.dialects.protocol import Dialect
from judges.models.parse import parse_reply
from judges.models.render import render_request


class JsonObject:
    """Ask for exactly one JSON object that fits the schema, and accept nothing else."""

    compose = staticmethod(render_request)
    read = staticmethod(parse_reply)


JSON_OBJECT = JsonObject()


def dialect_of(model: JudgeModel) -> Dialect:
    """Return the format of a model's requests and replies."""
    dialect: Dialect = getattr(model, "dialect", JSON_OBJECT)
    return dialect


def takes_media(model: JudgeModel, kind: MediaKind) -> bool:
    """Whether a model may be sent images, or audio: a general one that does not say that it takes none."""
    takes = getattr(model, "takes", None)
    return dialect_of(model) is JSON_OBJECT and (takes is None or bool(takes(kind)))
