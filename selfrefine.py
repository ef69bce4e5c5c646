"""A signpost: the distribution is called selfrefine, its packages are `refine`, `judges` and `graphs`."""

raise ImportError(
    "selfrefine is imported by the names of its packages: from refine import SelfRefine, from judges import "
    "Helpfulness, from graphs import self_refine",
    name=__name__,
)
