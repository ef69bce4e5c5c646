"""How models are asked and read: the dialect of every general model, and those of models trained to judge."""

from __future__ import annotations

from judges.models.dialects.general import JSON_OBJECT, JsonObject
from judges.models.dialects.graded import Graded
from judges.models.dialects.minicheck import MiniCheck

__all__ = ["JSON_OBJECT", "Graded", "JsonObject", "MiniCheck"]
