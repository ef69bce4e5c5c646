"""The protocols that the guard speaks, one class each, and which of them a client reads errors in."""

from __future__ import annotations

from collections.abc import Mapping

from refine.server.dialects.chat import ChatDialect
from refine.server.dialects.messages import MessagesDialect
from refine.server.dialects.protocol import ApiDialect
from refine.server.dialects.responses import ResponsesDialect

CHAT, MESSAGES = ChatDialect(), MessagesDialect()
DIALECTS: tuple[ApiDialect, ...] = (CHAT, ResponsesDialect(), MESSAGES)
"""All protocols that are judged."""

_ANTHROPIC_PATH = "/v1/messages"
_ANTHROPIC_HEADER = "anthropic-version"


def form_for(path: str, headers: Mapping[str, str]) -> ApiDialect:
    """Return the dialect whose errors a client reads: Anthropic's for its paths and its clients, else OpenAI's."""
    is_anthropic = (
        path == _ANTHROPIC_PATH or path.startswith(f"{_ANTHROPIC_PATH}/") or _ANTHROPIC_HEADER in headers
    )
    return MESSAGES if is_anthropic else CHAT
