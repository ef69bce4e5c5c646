"""Rows that were drawn actively: each with a probability, which weighs its label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from judges.errors import ConfigurationError
from judges.offline.trust.rows import JudgedRow


def actively_drawn(rows: Sequence[JudgedRow]) -> tuple[list[JudgedRow], list[str]]:
    """Return rows with the weights of an active sample, and what to say where not all that was drawn is labelled.

    Where people labelled only some of the rows drawn, in random order as `refine label` shows them, each was
    labelled with that much less probability.

    Raises:
        ConfigurationError: If no labelled row says with which probability it was drawn.
    """
    labelled = [row for row in rows if row.opinions and row.probability is not None]
    if not labelled:
        raise ConfigurationError(
            "no labelled row has a probability, so that they are no active sample; draw one with --drawn active "
            "--next FILE, label that file, and give it as --labels"
        )
    drawn = max((row.drawn or 0 for row in labelled), default=0)
    share = min(1.0, len(labelled) / drawn) if drawn else 1.0
    notes = []
    if share < 1:
        notes.append(
            f"{len(labelled)} of {drawn} drawn rows are labelled: right if people took them in random order"
        )
    return [_weighed(row, share) for row in rows], notes


def _weighed(row: JudgedRow, share: float) -> JudgedRow:
    if not row.opinions or row.probability is None:
        return row
    probability = row.probability * share
    return replace(row, probability=probability, weight=row.weight / probability)
