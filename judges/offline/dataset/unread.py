"""Saying once which columns of a dataset are not read as fields of a sample."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from judges.errors import shortened
from judges.offline.dataset.label_columns import LABEL_COLUMNS
from judges.sample import Sample

_log = logging.getLogger("judges")
_named: set[str] = set()


def name_unread(sample: Sample, row: object) -> None:
    """Log the columns of a row that became metadata without being asked for, each column once a process.

    Columns of labels are metadata on purpose.
    """
    if not sample.metadata or not isinstance(row, Mapping):
        return
    own = row.get("metadata")
    unread = [name for name in sample.metadata if name in row and not (isinstance(own, Mapping) and name in own)]
    new = [name for name in unread if name not in _named and name not in LABEL_COLUMNS]
    if new:
        _named.update(new)
        _log.warning(
            "no fields of a sample, but kept as metadata, for slices and for judges that read them: %s "
            "(columns: %s); map={'answer': 'COLUMN'}, or --map answer=COLUMN, says which column is which",
            shortened(new)[1:-1],
            shortened(list(map(str, row)), longest=200)[1:-1],
        )
