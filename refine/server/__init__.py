"""The guard: an HTTP server in front of any OpenAI-compatible model, started by `refine serve`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from judges.first_guesses import no_such_name, of_package

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


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        hint = "" if name.startswith("_") else of_package(__name__, name, __all__)
        raise no_such_name(__name__, name, hint)
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return __all__
