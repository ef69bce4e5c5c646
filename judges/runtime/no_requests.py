"""A guard against accidental model requests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar
from urllib.parse import urlsplit

from judges.errors import ModelRequestError

_ADDRESSES = ("base_url", "openai_api_base", "anthropic_api_url")
_FAKES = "langchain_core.language_models.fake_chat_models"
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


class _Guard:
    """How many `no_model_requests` blocks are open, in the whole process.

    A context variable would not work: threads and event loops that were started earlier do not inherit it.
    """

    depth: ClassVar[int] = 0
    lock: ClassVar[threading.Lock] = threading.Lock()


@contextmanager
def no_model_requests() -> Iterator[None]:
    """Forbid requests to real models anywhere in the process while the block runs, in judges and in the loop.

    Scripted models (`judges.testing.ScriptedModel`, or any with a true attribute `scripted`), LangChain's own
    fakes, and models served from this machine's loopback address are still allowed. Meant for test suites, so
    that no test calls a provider by accident.
    """
    with _Guard.lock:
        _Guard.depth += 1
    try:
        yield
    finally:
        with _Guard.lock:
            _Guard.depth -= 1


def is_guarded() -> bool:
    """Whether requests to real models are forbidden now."""
    return _Guard.depth > 0


def check_allowed(name: str, model: object) -> None:
    """Raise an error for a request to `model`, called `name`, where requests are forbidden.

    Raises:
        ModelRequestError: If the guard is active and the model is neither scripted nor on this machine.
    """
    if _Guard.depth and not (getattr(model, "scripted", False) or _is_fake(model) or _is_local(model)):
        raise ModelRequestError(
            f"a request to {name} was about to be made inside no_model_requests(); "
            f"use judges.testing.ScriptedModel in tests"
        )


def _is_fake(model: object) -> bool:
    return any(kind.__module__ == _FAKES for kind in type(getattr(model, "bound", model)).__mro__)


def _is_local(model: object) -> bool:
    return any(_host(str(getattr(model, name, None) or "")) in _LOOPBACK for name in _ADDRESSES)


def _host(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None
