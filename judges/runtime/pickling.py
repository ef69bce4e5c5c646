"""Copies and pickles: what cannot be copied is shared, what cannot be pickled says why, and no key is written."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from textwrap import shorten
from typing import Any, Self

from pydantic import BaseModel, SecretBytes, SecretStr

from judges.errors import ConfigurationError

_DEEPEST = 6
_LONGEST_REASON = 120


class SharedByCopies:
    """Base of what holds connections or locks: a copy of it, deep or not, is the object itself."""

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def check_picklable(part: object, owner: str, remedy: str) -> None:
    """Check that what an object holds can be pickled, and takes no key along.

    Args:
        part: What it holds: a model, a function, a runnable.
        owner: The object, for the message.
        remedy: What to do if not, for the message.

    Raises:
        ConfigurationError: If it holds a key, or cannot be pickled.
    """
    secret = _secret_in(part, _DEEPEST)
    if secret is not None:
        raise ConfigurationError(f"{owner} holds a key, {secret}, so it is not pickled; {remedy}")
    try:
        pickle.dumps(part)
    except ConfigurationError:
        raise
    except Exception as error:
        reason = shorten(str(error) or type(error).__name__, _LONGEST_REASON, placeholder=" ...")
        raise ConfigurationError(f"{owner} cannot be pickled: {reason}; {remedy}") from error


def _secret_in(value: object, depth: int) -> str | None:
    """Return the name of a field that holds a secret, of an object or of its parts; None if there is none."""
    if depth == 0:
        return None
    for name, part in _parts(value):
        is_secret = isinstance(part, SecretStr | SecretBytes) and bool(part.get_secret_value())
        secret = name if is_secret else _secret_in(part, depth - 1)
        if secret is not None:
            return secret
    return None


def _parts(value: object) -> Iterable[tuple[str, object]]:
    if isinstance(value, BaseModel):
        declared = getattr(value, "lc_secrets", None)  # LangChain's: fields that hold a key, also as plain text
        secrets = declared if isinstance(declared, Mapping) else {}
        for name, part in value:
            yield name, SecretStr(part) if name in secrets and isinstance(part, str) else part
    elif isinstance(value, Mapping):
        yield from ((str(name), part) for name, part in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from (("", part) for part in value)
