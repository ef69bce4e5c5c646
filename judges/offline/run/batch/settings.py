"""How calls are sent in batches."""

from __future__ import annotations

from dataclasses import dataclass

from judges.errors import ConfigurationError, shortened

_MOST_REQUESTS = 50_000
_MOST_BYTES = 200_000_000


@dataclass(frozen=True, kw_only=True)
class BatchSettings:
    """How the calls of a run are sent in batches; for `evaluate(..., batch=BatchSettings(poll_s=300))`.

    Args:
        poll_s: Seconds between two looks at a batch.
        window: How long the provider may take, as it names it.
        max_requests: Most requests of a batch.
        max_bytes: Most bytes of a batch.
        tries: How often a request is sent, each time in another batch, until it counts as failed.
        price: What a call costs, as a share of its price outside of batches.
    """

    poll_s: float = 60.0
    window: str = "24h"
    max_requests: int = _MOST_REQUESTS
    max_bytes: int = _MOST_BYTES
    tries: int = 3
    price: float = 0.5

    def __post_init__(self) -> None:
        for name in ("max_requests", "max_bytes", "tries"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 1:
                raise ConfigurationError(f"{name} is a whole number from 1, not {shortened(getattr(self, name))}")
        for name, least in (("poll_s", 0.01), ("price", 0.0)):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int | float) or not least <= number < 1e6:  # noqa: PLR2004 - some bound
                raise ConfigurationError(f"{name} is a number from {least}, not {shortened(number)}")
