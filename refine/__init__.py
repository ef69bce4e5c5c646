"""Judge a chat application's answers before anyone sees them, and refine them until they are good enough."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from refine.process import refuse_shadows

if TYPE_CHECKING:
    from graphs import Attempt, Outcome, Policy
    from judges.runtime.faults import losses
    from refine.selfrefine import SelfRefine

_HOMES = {
    "Attempt": "graphs",
    "Outcome": "graphs",
    "Policy": "graphs",
    "SelfRefine": "refine.selfrefine",
    "losses": "judges.runtime.faults",
}
"""The module of each public name, imported on first use so that the command line starts at once."""

__all__ = ["Attempt", "Outcome", "Policy", "SelfRefine", "losses"]


refuse_shadows("graphs", "judges")


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_hint_for(name)}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def _hint_for(name: str) -> str:
    if name.startswith("_"):
        return ""
    others = {other: import_module(other).__all__ for other in ("judges", "graphs")}
    hint = import_module("judges.first_guesses").of_package(__name__, name, others)
    return f"; {hint}" if hint else ""


def __dir__() -> list[str]:
    return __all__
