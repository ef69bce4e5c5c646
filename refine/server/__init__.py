"""The guard: an HTTP server in front of any OpenAI-compatible model, started by `refine serve`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from judges.first_guesses import names_of

if TYPE_CHECKING:
    from refine.page.routes import attempts_of, page_routes
    from refine.server.running import RunningGuard

_HOMES = {
    "RunningGuard": "refine.server.running",
    "attempts_of": "refine.page.routes",
    "page_routes": "refine.page.routes",
}
"""The module of each public name, imported on first use: what the server needs is an extra."""

__all__ = ["RunningGuard", "attempts_of", "page_routes"]


__getattr__ = names_of(__name__, __all__, _HOMES)


def __dir__() -> list[str]:
    return __all__
