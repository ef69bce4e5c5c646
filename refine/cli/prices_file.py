"""Prices of models from a file, as `--prices FILE` names it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from judges import ConfigurationError, Price, known_prices


def read_prices(path: Path) -> Mapping[str, Price]:
    """Return the prices of a file, which go before those that are known of public models.

    Raises:
        ConfigurationError: If the file holds something else.
    """
    try:
        own = TypeAdapter(dict[str, Price]).validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"--prices {path} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(map(str, fault["loc"])) or "the file"
        raise ConfigurationError(
            f'--prices {path}: {place}: {fault["msg"]}; write {{"MODEL": {{"input": 1.0, "output": 2.0}}}}, US '
            f"dollars a million tokens"
        ) from None
    try:
        return known_prices(own)
    except ConfigurationError:  # the list of public prices is not installed
        return own
