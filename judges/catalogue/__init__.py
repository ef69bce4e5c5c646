"""The catalogue: every judge and metric, by source. `judges.catalogue()` lists what can be loaded by name."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

from judges.first_guesses import no_such_name, of_package


class _Catalogue(ModuleType):
    """A callable package: `judges.catalogue` is both the package and the function that lists its judges."""

    def __call__(self) -> object:
        """Return the entries of all judges; see `judges.catalogue.registry.catalogue`."""
        return import_module("judges.catalogue.registry").catalogue()


def __getattr__(name: str) -> object:
    hint = "" if name.startswith("_") else of_package(__name__, name)
    raise no_such_name(__name__, name, hint)


sys.modules[__name__].__class__ = _Catalogue
