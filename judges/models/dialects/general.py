"""`JSON_OBJECT`, the dialect of every general model."""

from __future__ import annotations

from judges.models.parse import parse_reply
from judges.models.render import render_request


class JsonObject:
    """Ask for exactly one JSON object that fits the schema, and accept nothing else."""

    compose = staticmethod(render_request)
    read = staticmethod(parse_reply)


JSON_OBJECT = JsonObject()
