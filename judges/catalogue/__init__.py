"""The catalogue: every judge and metric, by source. `judges.catalogue()` lists what can be loaded by name."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

from judges.first_guesses import names_of


class _Catalogue(ModuleType):
    """A callable package: `judges.catalogue` is both the package and the function that lists its judges."""

    def __call__(self) -> object:
        """Return the entries of all judges; see `judges.catalogue.registry.catalogue`."""
        return import_module("judges.catalogue.registry").catalogue()


__getattr__ = names_of(__name__, ())


sys.modules[__name__].__class__ = _Catalogue
