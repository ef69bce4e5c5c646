"""Labels that lie beside what they are about, where `refine label` leaves them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from judges.errors import ConfigurationError
from judges.offline.trust.rows import Source, read_labels


def labels_file(source: str | os.PathLike[str]) -> Path:
    """Return where `refine label` keeps the labels of a file, or of the folder of a run."""
    path = Path(source)
    return path / "labels.jsonl" if path.is_dir() else path.with_name(f"{path.stem}.labels.jsonl")


def labels_beside(source: object) -> Path | None:
    """Return the file of labels beside a file or a run's folder; None without one, or for anything else."""
    if not isinstance(source, str | os.PathLike):
        return None
    with suppress(OSError, ValueError):
        file = labels_file(source)
        return file if file.is_file() and file != Path(source) else None
    return None


def labels_for(source: object, labels: Source | None) -> tuple[Source | None, list[str]]:
    """Return the labels of judged rows, and what to say of where they were.

    Args:
        source: The rows.
        labels: Labels that were named. Where they are a file in which nobody has filled in any yet, such as the
            rows chosen to be labelled, those beside it are taken.

    Returns:
        The labels that were named, or those beside the rows; None where there are neither.
    """
    if labels is not None and not _is_blank(labels):
        return labels, []
    named = source if labels is None else labels
    beside = labels_beside(named)
    if beside is None or not isinstance(named, str | os.PathLike):
        return labels, []
    return beside, [f"labels: {beside.name}, which lies beside {Path(named).name or named}"]


@contextmanager
def naming(notes: Sequence[str]) -> Iterator[None]:
    """Add to an error which labels were taken without being named."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError("; ".join((str(error), *notes))) from None


def _is_blank(labels: Source) -> bool:
    """Check whether labels are a file of rows none of which holds a label."""
    if not isinstance(labels, str | os.PathLike) or not Path(labels).is_file():
        return False
    with suppress(ConfigurationError):
        return not any(row.opinions for row in read_labels(labels))
    return False
