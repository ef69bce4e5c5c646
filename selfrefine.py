"""Says what to import: the name that is installed is that of none of its packages."""

raise ModuleNotFoundError(
    "selfrefine is installed, and its packages are refine, graphs and judges: from refine import SelfRefine",
    name="selfrefine",
)
