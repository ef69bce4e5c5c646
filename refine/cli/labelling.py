"""The command `refine label`: a person's labels, blind to the verdict, into a file or the record."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from judges import ConfigurationError
from judges.offline.trust.beside import labels_file
from judges.offline.trust.label_file import LabelFile, labels_in
from judges.offline.trust.labelling import Label, LabelItem, Labelling, LabelStore, items_of
from judges.offline.trust.rows import JudgedRow, read_judged
from refine.cli.loop_source import is_database, open_database

if TYPE_CHECKING:
    from refine.record import DatabaseRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelOptions:
    """The options of the command, as they were written."""

    source: str
    labels: Path | None
    by: str | None
    split: str | None
    next: int | None
    seed: int


def run_label(options: LabelOptions) -> int:
    """Let a person label, and return the exit code: 0, or 1 where nothing is to be labelled.

    Raises:
        ConfigurationError: If the source cannot be read or holds no answers, there is no terminal, or an option is
            wrong.
    """
    _check_terminal(options)
    if is_database(options.source) and options.labels is None:
        with open_database(options.source) as record:
            rows = read_judged(list(record.rows()))
            return _label(options, rows, (), RecordStore(record), "the record")
    if is_database(options.source):
        with open_database(options.source) as record:
            rows = read_judged(list(record.rows()))
    else:
        rows = read_judged(options.source)
    file = options.labels or labels_file(options.source)
    store = LabelFile(file)
    store.repair()
    return _label(options, rows, labels_in(file), store, str(file))


def _label(
    options: LabelOptions, rows: list[JudgedRow], labels: Iterable[JudgedRow], store: LabelStore, place: str
) -> int:
    earlier = list(labels)
    chosen = rows if options.next is None else _chosen(options, rows, earlier)
    items = items_of(chosen, earlier)
    if not items:
        raise ConfigurationError(
            f"{options.source} holds no answers to label; give rows with questions and answers"
        )
    by = options.by or _own_name()
    labelling = Labelling(items, store, by=by, split=options.split, seed=options.seed)
    if labelling.current is None:
        sys.stderr.write(f"refine: nothing is left to label for {by}{_waiting(labelling)}\n")
        return 1
    from refine.cli.label_screen import LabelScreen  # noqa: PLC0415 - loads prompt_toolkit

    LabelScreen(labelling, source=options.source).run()
    sys.stderr.write(_summary(labelling, options, place))
    return 0


def _chosen(options: LabelOptions, rows: list[JudgedRow], labels: list[JudgedRow]) -> list[JudgedRow]:
    from judges.offline.trust.queue import choose_rows  # noqa: PLC0415 - loads numpy

    return choose_rows(rows, labels, budget=options.next or 1, seed=options.seed)


class RecordStore:
    """Keeps labels in a record, beside the answers."""

    def __init__(self, record: DatabaseRecord) -> None:
        self._record = record

    def add(self, item: LabelItem, label: Label) -> None:
        """Save a label in the record."""
        fields = {name: label.get(name) for name in ("rating", "up", "note", "split")}
        self._record.label(str(item.outcome_id), item.attempt or 1, by=str(label["by"]), **fields)

    def remove(self, item: LabelItem, label: Label) -> None:
        """Delete a label from the record."""
        self._record.label(str(item.outcome_id), item.attempt or 1, by=str(label["by"]))


def _check_terminal(options: LabelOptions) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigurationError(
            f"labelling needs a terminal, and this is none; over ssh give it one: ssh -t HOST refine label "
            f'{options.source}; or write the labels yourself, a line each: {{"outcome_id": ..., "attempt": 1, '
            f'"by": "ann", "rating": 3}}, or with question and answer in place of the two'
        )
    if find_spec("prompt_toolkit") is None:
        raise ConfigurationError("refine label needs prompt_toolkit; install the extra: selfrefine[cli]")


def _own_name() -> str:
    with suppress(OSError, KeyError, ImportError):
        return getpass.getuser()
    raise ConfigurationError("who labels? give --by NAME")


def _waiting(labelling: Labelling) -> str:
    if not labelling.waiting:
        return ""
    return f"; {labelling.waiting} answers wait for a second person (--by NAME)"


def _summary(labelling: Labelling, options: LabelOptions, place: str) -> str:
    left = labelling.total - labelling.labelled
    after = f"go on with `refine label {options.source}`" if left else "all are labelled"
    count = f"{labelling.labelled_now} labels by {labelling.by} in {place}"
    return f"{count}; {left} left: {after}{_waiting(labelling)}\n"
