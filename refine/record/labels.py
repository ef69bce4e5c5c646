"""Labels: what people think of an attempt."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, select

from judges import ConfigurationError
from judges.errors import shortened
from refine.record.cleaning import name_of, text_of
from refine.record.rows import now_ms
from refine.record.schema import ATTEMPT, LABEL

_LONGEST_NOTE = 10_000
_SPLITS = frozenset({"tune", "certify", "report"})


@dataclass(frozen=True, kw_only=True)
class Label:
    """One person's opinion of one attempt; see `DatabaseRecord.label`."""

    outcome: str
    number: int
    by: str
    rating: int | None = None
    up: bool | None = None
    note: str | None = None
    split: str | None = None

    def __post_init__(self) -> None:
        if self.rating is not None and (type(self.rating) is not int or self.rating not in {1, 2, 3, 4}):
            raise ConfigurationError(f"a label's rating is 1, 2, 3 or 4, not {shortened(self.rating)}")
        if self.up is not None and type(self.up) is not bool:
            raise ConfigurationError(f"a label's up is true or false, not {shortened(self.up)}")
        if self.split is not None and self.split not in _SPLITS:
            raise ConfigurationError(f"a label's split is tune, certify or report, not {shortened(self.split)}")
        if not self.by.strip():
            raise ConfigurationError(f"a label says by whom it is, not {shortened(self.by)}")

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing."""
        return self.rating is None and self.up is None and not (self.note or "").strip()


def save(connection: Connection, label: Label) -> None:
    """Save a label in place of an earlier one of the same person; an empty one only deletes that.

    Raises:
        ConfigurationError: If there is no such attempt.
    """
    key = {"outcome": label.outcome, "number": label.number}
    attempt = select(ATTEMPT.c.number).filter_by(**key)
    if connection.execute(attempt).first() is None:
        raise ConfigurationError(f"there is no attempt {label.number} of outcome {shortened(label.outcome)}")
    by = name_of(label.by.strip())
    connection.execute(delete(LABEL).filter_by(**key, by=by))
    if not label.is_empty:
        note = text_of(label.note, _LONGEST_NOTE) if label.note else None
        values = {**key, "by": by, "at": now_ms(), "rating": label.rating, "up": label.up, "note": note}
        values["split"] = label.split
        connection.execute(LABEL.insert().values(values))
