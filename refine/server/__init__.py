"""The guard: an HTTP server in front of any OpenAI-compatible model, started by `refine serve`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from refine.server.running import RunningGuard

__all__ = ["RunningGuard"]


def __getattr__(name: str) -> object:
    if name != "RunningGuard":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from refine.server.running import RunningGuard  # noqa: PLC0415 - loads the server and all it needs

    return RunningGuard


def __dir__() -> list[str]:
    return __all__
