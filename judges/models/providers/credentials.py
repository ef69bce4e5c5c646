"""The headers of requests to an endpoint, key included: checked, and kept where no repr or error shows them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from pydantic import SecretStr

from judges.errors import ConfigurationError

OWN_HEADERS = {"content-type": "application/json", "user-agent": "selfrefine"}
"""Headers of every request, which hold no secret."""

_AUTHENTICATING = {"authorization", "api-key", "x-api-key"}
_NAME = re.compile(r"[!#$%&'*+.^`|~\w-]+", re.ASCII)
_VALUE = re.compile(r"[\t -~\x80-\xff]*")


def secret_headers(key: object, own: object) -> tuple[dict[str, SecretStr], bool]:
    """Return all headers, and whether another process can rebuild them without a secret of this one.

    Args:
        key: The key as a text or a `SecretStr`; None takes the environment's `OPENAI_API_KEY` unless a header
            authenticates; an empty text sends none.
        own: The user's headers, a mapping from names to texts, or None.

    Raises:
        ConfigurationError: If the key or a header cannot be sent; no message repeats their values.
    """
    key_text = _checked_key(key)
    further = _checked_headers(own)
    headers = {**OWN_HEADERS, **{name.lower(): text for name, text in further.items()}}
    portable = not further and not key_text
    if key_text is None and not headers.keys() & _AUTHENTICATING:
        key_text = os.environ.get("OPENAI_API_KEY")
    if key_text and key_text.strip():
        headers.setdefault("authorization", f"Bearer {key_text.strip()}")
    if not all(_NAME.fullmatch(name) and _VALUE.fullmatch(text) for name, text in headers.items()):
        raise ConfigurationError("the key or a header holds a character that no header can hold")
    return {name: SecretStr(text) for name, text in headers.items()}, portable


def plain(headers: Mapping[str, SecretStr]) -> dict[str, str]:
    """Return headers as they are sent."""
    return {name: text.get_secret_value() for name, text in headers.items()}


def _checked_key(key: object) -> str | None:
    text = key.get_secret_value() if isinstance(key, SecretStr) else key
    if text is not None and not isinstance(text, str):
        raise ConfigurationError(
            f"api_key is a text, a SecretStr, or None for the environment's OPENAI_API_KEY, not of type "
            f"{type(key).__name__}"
        )
    return text


def _checked_headers(own: object) -> dict[str, str]:
    expected = "headers is a mapping from names to texts, for instance {'api-key': '...'}"
    if own is None:
        return {}
    if not isinstance(own, Mapping):
        raise ConfigurationError(f"{expected}, not of type {type(own).__name__}")
    for name, value in own.items():
        if not isinstance(name, str):
            raise ConfigurationError(f"{expected}; one of the names is of type {type(name).__name__}")
        if not isinstance(value, str):
            raise ConfigurationError(f"{expected}; the value of {name!r} is of type {type(value).__name__}")
    return dict(own)
