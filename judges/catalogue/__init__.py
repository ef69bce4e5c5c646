"""The catalogue: every judge and metric, by source. `judges.catalogue()` lists what can be loaded by name."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType


class _Catalogue(ModuleType):
    """A package that can be called: the name is that of the folder and of the list of what is in it."""

    def __call__(self) -> object:
        """List all judges that can be loaded by name; see `judges.catalogue.registry.catalogue`."""
        return import_module("judges.catalogue.registry").catalogue()


sys.modules[__name__].__class__ = _Catalogue
