"""The dialects, and in which of them an error is written: by the path, or by what the client says."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from refine.server.dialects import chat, messages, responses
from refine.server.dialects.protocol import Dialect
from refine.server.errors import ApiError, openai_error
from refine.server.requests import request_headers, request_id

DIALECTS: tuple[Dialect, ...] = (chat, responses, messages)
"""All protocols that are judged."""

_ANTHROPIC_PATH = "/v1/messages"
_ANTHROPIC_HEADER = "anthropic-version"
_MESSAGES = {
    404: ("unknown_path", "there is no such path; a client's base URL ends in /v1"),
    405: ("method_not_allowed", "this path does not take this method"),
}


def form_for(path: str, headers: Mapping[str, str]) -> Dialect:
    """Return the dialect whose errors a client reads: Anthropic's for its paths and its clients, else OpenAI's."""
    is_anthropic = (
        path == _ANTHROPIC_PATH or path.startswith(f"{_ANTHROPIC_PATH}/") or _ANTHROPIC_HEADER in headers
    )
    return messages if is_anthropic else chat


async def refused(request: Request, error: Exception) -> Response:
    """Return what a path that is none of the API's answers to a request that it does not take."""
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for these alone
    code, message = _MESSAGES.get(error.status_code, ("refused", error.detail))
    body = openai_error(ApiError(error.status_code, message, code=code))
    identifier = request_id(request_headers(request.scope["headers"]))
    return JSONResponse(body, error.status_code, {**(error.headers or {}), "x-request-id": identifier})
