"""The protocols that the guard speaks, one pure module each, and which of them a client reads errors in."""

from __future__ import annotations

from collections.abc import Mapping

from refine.server.dialects import chat, messages, responses
from refine.server.dialects.protocol import ApiDialect

DIALECTS: tuple[ApiDialect, ...] = (chat, responses, messages)
"""All protocols that are judged."""

_ANTHROPIC_PATH = "/v1/messages"
_ANTHROPIC_HEADER = "anthropic-version"


def form_for(path: str, headers: Mapping[str, str]) -> ApiDialect:
    """Return the dialect whose errors a client reads: Anthropic's for its paths and its clients, else OpenAI's."""
    is_anthropic = (
        path == _ANTHROPIC_PATH or path.startswith(f"{_ANTHROPIC_PATH}/") or _ANTHROPIC_HEADER in headers
    )
    return messages if is_anthropic else chat
