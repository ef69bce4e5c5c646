"""The catalogue: every judge and metric, by source. `judges.catalogue()` lists what can be loaded by name."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType


class _Catalogue(ModuleType):
    """A callable package: `judges.catalogue` is both the package and the function that lists its judges."""

    def __call__(self) -> object:
        """Return the entries of all judges; see `judges.catalogue.registry.catalogue`."""
        return import_module("judges.catalogue.registry").catalogue()


sys.modules[__name__].__class__ = _Catalogue
