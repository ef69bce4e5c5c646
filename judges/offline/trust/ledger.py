"""The ledger of labels: each further certificate on the same labels gets a smaller share of delta."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judges.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Ledger:
    """A file that says which labels were used for which certificate, a line of JSON each.

    Args:
        path: The file; it need not exist yet.
    """

    path: Path

    def use(self, labels: frozenset[str], key: str) -> int:
        """Return which certificate on these labels one would be, from 1; the same question counts once.

        Args:
            labels: Digests of the labels.
            key: Digest of what is certified, and how.
        """
        earlier = {entry["key"] for entry in self._entries() if labels & set(entry["labels"])}
        return len(earlier - {key}) + 1 if key not in earlier else self._first_use(labels, key)

    def _first_use(self, labels: frozenset[str], key: str) -> int:
        before: set[str] = set()
        for entry in self._entries():
            if entry["key"] == key:
                break
            if labels & set(entry["labels"]):
                before.add(entry["key"])
        return len(before) + 1

    def enter(self, labels: frozenset[str], key: str, *, delta: float) -> None:
        """Write down that labels were used; what stands there already is not written again."""
        if any(entry["key"] == key and labels <= set(entry["labels"]) for entry in self._entries()):
            return
        entry = {"key": key, "delta": delta, "labels": sorted(labels)}
        try:
            file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            reason = f"the ledger {self.path} cannot be written: {error.strerror}; name another one (--ledger)"
            raise ConfigurationError(reason) from error
        with os.fdopen(file, "a", encoding="utf-8") as out:
            out.write(f"{json.dumps(entry)}\n")

    def _entries(self) -> Iterator[dict[str, Any]]:
        if not self.path.exists():
            return
        try:
            for line in self.path.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                yield {name: entry[name] for name in ("key", "labels")}
        except (OSError, ValueError, KeyError, TypeError):
            raise ConfigurationError(
                f"the ledger {self.path} cannot be read; restore it: it says how often these labels were used"
            ) from None
