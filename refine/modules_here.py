"""Modules of the working directory, which commands import as `python -m` does."""

from __future__ import annotations

import os
import sys


def see_modules_here() -> None:
    """Let modules of the working directory be imported."""
    if os.getcwd() not in sys.path:  # noqa: PTH109 - what is compared with are texts
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as above
