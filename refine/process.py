"""The packages that are installed side by side, and a check that no folder of the user's stands in for one."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

_SIDE_BY_SIDE = Path(__file__).resolve().parent.parent


def refuse_shadows(*packages: str) -> None:
    """Check that importing `packages` leads to selfrefine's own.

    Raises:
        ImportError: If a folder or a module of the same name is found first; the message names it and the remedy.
    """
    for package in packages:
        place = _place(package)
        if place is not None and place.parent != _SIDE_BY_SIDE:
            raise ImportError(
                f"selfrefine needs its package {package!r}, but {str(place)!r} has the same name and is found "
                f"first: rename it, or start Python from another folder",
                name=package,
                path=str(place),
            )


def _place(package: str) -> Path | None:
    """Return the folder or file that `import package` leads to, without importing it; None where there is none."""
    module = sys.modules.get(package)
    spec = find_spec(package) if module is None else module.__spec__
    if spec is None:
        return None
    folders = list(spec.submodule_search_locations or ())
    place = folders[0] if folders else spec.origin
    return None if place is None else Path(place).resolve()


def see_modules_here() -> None:
    """Let modules of the working directory be imported."""
    if os.getcwd() not in sys.path:  # noqa: PTH109 - what is compared with are texts
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as above
