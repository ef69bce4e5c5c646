"""Similarity of texts: by the cosine of their vectors, or by a user's function that scores pairs."""

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
"""A function from pairs of texts to one number for each, such as a classifier's `predict`; may be async."""


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the cosine of two vectors, -1 to 1; exactly 1 for equal ones.

    cos = a.b / sqrt(a.a * b.b), each vector divided by its largest number first, so that nothing overflows.

    Raises:
        CannotJudge: `undefined`, if a vector is all zeros, or holds a number that is not finite.
    """
    a, b = _scale(first), _scale(second)
    product = math.fsum(x * y for x, y in zip(a, b, strict=True))
    lengths = math.sqrt(math.fsum(x * x for x in a) * math.fsum(y * y for y in b))
    return max(-1.0, min(1.0, product / lengths))  # rounding may exceed the range slightly


def _scale(vector: Sequence[float]) -> list[float]:
    numbers = [float(number) for number in vector]
    largest = max(map(abs, numbers), default=0.0)
    if not all(map(math.isfinite, numbers)):
        raise CannotJudge("undefined", "a vector with a number that is not finite has no similarity")
    if largest == 0:
        raise CannotJudge("undefined", "a vector of zeros has no similarity")
    return [number / largest for number in numbers]


def embed(model: EmbeddingModel, texts: Iterable[str]) -> Generator[Any, Any, list[list[float]]]:
    """Turn texts into vectors, in one batch and in their order, with `yield from`."""
    vectors: list[list[float]] = yield Embed(model, tuple(texts))
    return vectors


def score_pairs(scorer: Scorer, pairs: Pairs, sample: Sample) -> Generator[Any, Any, list[float]]:
    """Score pairs with a user's function, with `yield from`; it runs in a thread where the caller must not block.

    Raises:
        CannotJudge: `invalid_output`, if it does not return a finite number for each.
    """

    def scoring(_: Sample) -> Any:
        return scorer(pairs)

    scoring.__name__ = getattr(scorer, "__name__", type(scorer).__name__)  # errors name it
    scores: Iterable[float] = yield Apply(scoring, sample)
    try:
        numbers = [float(score) for score in scores]
    except (TypeError, ValueError) as error:
        raise CannotJudge("invalid_output", f"{scoring.__name__} gave something else than numbers") from error
    if len(numbers) != len(pairs) or not all(map(math.isfinite, numbers)):
        detail = (
            f"{scoring.__name__} gave {len(numbers)} numbers for {len(pairs)} pairs, or one that is not finite"
        )
        raise CannotJudge("invalid_output", detail)
    return numbers
