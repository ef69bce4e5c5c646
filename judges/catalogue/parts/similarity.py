"""How alike texts are: by the cosine of their vectors, or as a user's function scores pairs of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from judges.errors import CannotJudge
from judges.model import EmbeddingModel
from judges.requests import Apply, Embed
from judges.sample import Sample

Pairs = Sequence[tuple[str, str]]
Scorer = Callable[[Pairs], Iterable[float]]
"""A function from pairs of texts to one number for each, such as a classifier's `predict`; async is fine too."""


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Give the cosine of two vectors, -1 to 1; exactly 1 for equal ones.

    cos = a.b / sqrt(a.a * b.b), each vector divided by its largest number first, so that nothing overflows.

    Raises:
        CannotJudge: `undefined`, if a vector is all zeros, or holds a number that is not finite.
    """
    a, b = _scaled(one), _scaled(other)
    product = math.fsum(x * y for x, y in zip(a, b, strict=True))
    lengths = math.sqrt(math.fsum(x * x for x in a) * math.fsum(y * y for y in b))
    return max(-1.0, min(1.0, product / lengths))  # rounding may lead a little beyond


def _scaled(vector: Sequence[float]) -> list[float]:
    numbers = [float(one) for one in vector]
    largest = max(map(abs, numbers), default=0.0)
    if not all(map(math.isfinite, numbers)):
        raise CannotJudge("undefined", "a vector with a number that is not finite has no similarity")
    if largest == 0:
        raise CannotJudge("undefined", "a vector of zeros has no similarity")
    return [one / largest for one in numbers]


def embed(model: EmbeddingModel, texts: Iterable[str]) -> Generator[Any, Any, list[list[float]]]:
    """Turn texts into vectors, in one batch and in their order, with `yield from`."""
    vectors: list[list[float]] = yield Embed(model, tuple(texts))
    return vectors


def scored(scorer: Scorer, pairs: Pairs, sample: Sample) -> Generator[Any, Any, list[float]]:
    """Let a user's function score pairs, with `yield from`; it runs in a thread where the caller must not block.

    Raises:
        CannotJudge: `invalid_output`, if it does not give a finite number for each.
    """

    def scoring(_: Sample) -> Any:
        return scorer(pairs)

    scoring.__name__ = getattr(scorer, "__name__", type(scorer).__name__)  # it names the fault of a failing call
    given: Iterable[float] = yield Apply(scoring, sample)
    try:
        numbers = [float(one) for one in given]
    except (TypeError, ValueError) as error:
        raise CannotJudge("invalid_output", f"{scoring.__name__} gave something else than numbers") from error
    if len(numbers) != len(pairs) or not all(map(math.isfinite, numbers)):
        told = f"{scoring.__name__} gave {len(numbers)} numbers for {len(pairs)} pairs, or one that is not finite"
        raise CannotJudge("invalid_output", told)
    return numbers
