"""Checking numbers before anything is computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def finite(values: Sequence[Any], name: str) -> NDArray[np.float64]:
    """Return values as an array.

    Args:
        values: Numbers, or rows of numbers.
        name: What they are, for the error.

    Raises:
        ValueError: If one is None, not a number, or infinite.
    """
    data = np.asarray(values, float)  # None becomes NaN
    if not np.isfinite(data).all():
        place = int(np.argwhere(~np.isfinite(data))[0][0])
        raise ValueError(f"{name} are finite numbers, but number {place} is {values[place]!r}; leave it out")
    return data
