"""The ledger of labels: which certificates were asked of them, and how much of delta the next one may spend.

Labels that say yes to one judge after another say yes to a bad one in the end. So the k-th certificate on the same
labels gets delta / (k (k + 1)): that sums to delta, however many there are (delta / k does not: of teams with ten
judges just above alpha 8 in 100 got a certificate where 5 were asked for).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from judges.errors import ConfigurationError

_ENDING = ".ledger"
_TUNED = 0
"""Use of labels that tuned a judge; certificates are numbered from 1."""


class _Ledger(Protocol):
    """What keeps the uses of labels, such as a `DatabaseRecord`: in its database, beside the labels."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def file(self) -> Path | None:
        """The file it is in; None where it is in none."""

    def label_uses(self) -> Sequence[str]:
        """Return the uses of labels, a line each, the oldest first."""

    def keep_label_use(self, line: str) -> None:
        """Keep one more."""


LedgerSource = str | os.PathLike[str] | _Ledger
"""Where the use of labels is written down: a file, or the record that holds them."""


@dataclass(frozen=True, slots=True)
class _LedgerFile:
    file: Path

    @property
    def name(self) -> str:
        return str(self.file)

    def label_uses(self) -> Sequence[str]:
        return self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else ()

    def keep_label_use(self, line: str) -> None:
        try:
            file = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            reason = f"the ledger {self.file} cannot be written: {error.strerror}; name another one (--ledger)"
            raise ConfigurationError(reason) from error
        with os.fdopen(file, "a", encoding="utf-8") as out:
            out.write(f"{line}\n")


@dataclass(frozen=True, slots=True)
class LabelUses:
    """Ledgers that say which labels were used for which certificate, a line of JSON each.

    Args:
        own: The ledgers that are written. That of a record goes wherever its database does; the one beside a file
            meets what is exported next to it.
        others: Ledgers beside it and beside the labels, which count, too: a copy of labels is no fresh set.
    """

    own: tuple[_Ledger, ...]
    others: tuple[_Ledger, ...] = ()

    @classmethod
    def of(cls, ledger: LedgerSource | None, sources: Sequence[Path]) -> Self | None:
        """Return the ledgers of labels: a file that was named alone, or the record's, and those beside the files.

        Args:
            ledger: The ledger that was named, or the record that the labels are in.
            sources: The files of labels and rows; without any file nothing is known, and None is returned.
        """
        if isinstance(ledger, str | os.PathLike):
            return cls((_LedgerFile(Path(ledger)),))
        kept_ledgers = () if ledger is None else (ledger,)
        places = [*sources, *(one.file for one in kept_ledgers if one.file is not None)]
        files = [place.absolute() for place in places if place.is_file()]
        if not files:
            return cls(kept_ledgers) if kept_ledgers else None
        ledger_file = files[0].with_name(f"{files[0].name}{_ENDING}")
        beside = {ledger_file_beside for file in files for ledger_file_beside in file.parent.glob(f"*{_ENDING}")}
        return cls(
            (*kept_ledgers, _LedgerFile(ledger_file)), tuple(map(_LedgerFile, sorted(beside - {ledger_file})))
        )

    def share_of(self, delta: float, labels: frozenset[str], key: str, *, once: bool = False) -> tuple[int, float]:
        """Return which certificate on these labels one would be, from 1, and what it may spend of delta.

        Args:
            delta: What all certificates on these labels may spend together.
            labels: Digests of the labels, made of question, answer, person and rating.
            key: Digest of what is certified, and how; the same question asked again is the same certificate.
            once: Whether nothing is left for another.

        Raises:
            ConfigurationError: If nothing is left, or a ledger cannot be read.
        """
        self.refuse_tuned(labels, "they certify none", split="certify")
        entries = [entry for entry in self._entries() if not labels.isdisjoint(entry["labels"])]
        entries_of_key = [entry for entry in entries if entry["key"] == key]
        others = [entry for entry in entries if entry["key"] != key]
        is_spent = not entries_of_key and any(entry["once"] for entry in others)
        if is_spent or (once and others):
            remedy = "" if is_spent else ", or leave out once=True (--once)"
            raise ConfigurationError(
                f"these labels were used for a certificate before, and not all of delta is left for this one: "
                f"label fresh rows{remedy}"
            )
        if once or any(entry["once"] for entry in entries_of_key):
            return 1, delta
        number = entries_of_key[0]["use"] if entries_of_key else len({entry["key"] for entry in others}) + 1
        return number, self.share_of_use(delta, number)

    @staticmethod
    def share_of_use(delta: float, number: int) -> float:
        """Return what of delta the certificate of this number, from 1, may spend: altogether it is delta."""
        return delta / (number * (number + 1))

    def refuse_tuned(self, labels: frozenset[str], so: str, *, split: str) -> None:
        """Refuse labels that tuned a judge.

        Args:
            labels: Digests of the labels.
            so: What follows, in words.
            split: The split of those that are left, in the file that tuning wrote.

        Raises:
            ConfigurationError: If some did, or a ledger cannot be read.
        """
        tuned = {label for entry in self._entries() if entry["use"] == _TUNED for label in entry["labels"]}
        if not labels.isdisjoint(tuned):
            raise ConfigurationError(
                f"tuned_on: {len(labels & tuned)} of these labels tuned a judge, so {so}; label fresh answers, or "
                f"take those that are left (--labels labels.jsonl --split {split})"
            )

    def enter_tuned(self, labels: frozenset[str], key: str) -> None:
        """Write down that labels tuned a judge: they certify none from now on."""
        self.enter(labels, key, use=_TUNED, delta=0.0)

    def enter(self, labels: frozenset[str], key: str, *, use: int, delta: float, once: bool = False) -> None:
        """Write down that labels were used; what stands in a ledger already is not written there again."""
        line = json.dumps({"key": key, "use": use, "delta": delta, "once": once, "labels": sorted(labels)})
        for ledger in self.own:
            if not any(
                entry["key"] == key and entry["once"] >= once and labels <= set(entry["labels"])
                for entry in _entries_of(ledger)
            ):
                ledger.keep_label_use(line)

    def _entries(self) -> Iterator[dict[str, Any]]:
        for ledger in (*self.others, *self.own):
            yield from _entries_of(ledger)


def _entries_of(ledger: _Ledger) -> Iterator[dict[str, Any]]:
    try:
        for place, line in enumerate(ledger.label_uses(), 1):
            entry = json.loads(line)
            use = int(entry.get("use", place))
            yield {"key": entry["key"], "labels": entry["labels"], "use": use, "once": entry.get("once") is True}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise ConfigurationError(
            f"the ledger {ledger.name} cannot be read; restore it: it says how often these labels were used"
        ) from None
