"""Errors that the guard itself answers with; errors of an upstream are passed on as they are.

ApiError               any error with a status, written in the form of the dialect that was asked
└── UpstreamFailed     no reply that can be used came from the upstream
"""

from __future__ import annotations

import math
from typing import Any

from graphs import RefineError

_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "request_too_large",
    415: "invalid_request_error",
    422: "answer_not_accepted",
    429: "rate_limit_error",
    431: "request_too_large",
    502: "upstream_error",
    503: "overloaded_error",
    504: "timeout_error",
}


class ApiError(RefineError):
    """An error that the guard answers with.

    Args:
        status: HTTP status.
        message: One line: what is wrong and what to do; without judged text and without a secret.
        code: What a program can tell the error by, for instance `"body_too_large"`.
        param: The field of the request that is wrong.
        retry_after_s: Seconds after which the same request may succeed.
        allow: The methods that the path takes, for a status 405.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        param: str | None = None,
        retry_after_s: float | None = None,
        allow: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.retry_after_s = retry_after_s
        self.allow = allow

    @property
    def kind(self) -> str:
        """The type of the error, as OpenAI and Anthropic call it."""
        return _KINDS.get(self.status, "api_error")

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Headers of the response, `retry-after` in whole seconds."""
        headers = [(b"allow", self.allow.encode())] if self.allow else []
        if self.retry_after_s is not None:
            headers.append((b"retry-after", str(max(1, math.ceil(self.retry_after_s))).encode()))
        return headers


class UpstreamFailed(ApiError):  # noqa: N818 - what the upstream did
    """No reply that can be used: no connection, none in time, or no such thing as a reply."""


def openai_error(error: ApiError) -> dict[str, Any]:
    """Return the body of an error as OpenAI writes it."""
    return {"error": {"message": str(error), "type": error.kind, "param": error.param, "code": error.code}}


def anthropic_error(error: ApiError) -> dict[str, Any]:
    """Return the body of an error as Anthropic writes it."""
    kind = "api_error" if error.status in (422, 500, 502) else error.kind
    return {"type": "error", "error": {"type": kind, "message": str(error), "code": error.code}}
