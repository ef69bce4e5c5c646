"""What people think of an answer: labels as rows carry them, and what several of them come to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Split = Literal["tune", "certify", "report"]
"""What a label may be used for. Those that tuned a judge are never used to measure it."""

SPLITS: tuple[Split, ...] = get_args(Split)
_GOOD_FROM = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """One person's opinion of one answer.

    Args:
        by: Who.
        rating: 1 to 4.
        up: Thumbs up or down: good or bad.
        note: In words.
        split: What it may be used for; None where nobody said.
        at: When, as it was recorded.
    """

    by: str
    rating: int | None = None
    up: bool | None = None
    note: str = ""
    split: str | None = None
    at: str = ""

    @property
    def good(self) -> bool | None:
        """Whether the answer is good: the thumb, or else a rating of 3 or more; None where there is neither."""
        if self.up is not None:
            return self.up
        return None if self.rating is None else self.rating >= _GOOD_FROM


def read_opinions(labels: object) -> tuple[Opinion, ...]:
    """Return the labels of a row's metadata, `[{"by": ..., "rating": ...}]`; what is no label is left out."""
    if not isinstance(labels, Sequence) or isinstance(labels, str):
        return ()
    return tuple(_opinion(label) for label in labels if isinstance(label, Mapping))


def _opinion(label: Mapping[str, object]) -> Opinion:
    rating, up, split = label.get("rating"), label.get("up"), label.get("split")
    return Opinion(
        by=str(label.get("by") or ""),
        rating=rating if type(rating) is int and 1 <= rating <= 4 else None,  # noqa: PLR2004 - the scale
        up=up if isinstance(up, bool) else None,
        note=str(label.get("note") or ""),
        split=split if isinstance(split, str) else None,
        at=str(label.get("at") or ""),
    )


def usable(opinions: Iterable[Opinion]) -> tuple[Opinion, ...]:
    """Return the opinions that may be used to measure: those that did not tune the judge."""
    return tuple(opinion for opinion in opinions if opinion.split != "tune")


def is_bad(opinions: Iterable[Opinion]) -> bool | None:
    """Return whether people call an answer bad: the majority, a tie counts as bad; None without an opinion."""
    votes = [opinion.good for opinion in opinions if opinion.good is not None]
    return sum(votes) * 2 <= len(votes) if votes else None
