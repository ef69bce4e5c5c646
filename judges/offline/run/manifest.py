"""What a run is about: `run.json` in its folder. It holds no key, no time and nothing of a row."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from judges.errors import ConfigurationError
from judges.offline.dataset.reading import RowsFile
from judges.offline.run.files import replacing

NAME = "run.json"


class DatasetFile(BaseModel):
    """The file of a dataset.

    Args:
        name: Its name on the command line.
        path: Where it is.
        sha256: Digest of its content.
        rows: How many of its rows are judged.
        encoding: How its text is encoded.
        columns: Which of its columns holds which field, where they have other names.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    path: str
    sha256: str
    rows: int
    encoding: str = "utf-8"
    columns: dict[str, str] = {}

    @property
    def file(self) -> RowsFile:
        """The file, as it is read."""
        return RowsFile(path=Path(self.path), encoding=self.encoding, columns=self.columns)


class JudgeRecord(BaseModel):
    """A judge of a run.

    Args:
        name: Its name in the run.
        fingerprint: See `judges.fingerprint`.
        spec: How it was named on the command line; None where it was given to `evaluate`.
        model: The model it asks, as named on the command line.
        base_url: Address of that model, without its query.
        language: Language of its prompts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    fingerprint: str = ""
    spec: str | None = None
    model: str | None = None
    base_url: str | None = None
    language: str | None = None


class Manifest(BaseModel):
    """What a run is about.

    Args:
        format: Version of the folder's format.
        dataset: The file judged; None where rows were given to `evaluate`.
        rows: How many rows were given, where that is known without reading them.
        judges: The judges, in the order of the results.
        limit: How many rows of the file are judged; None for all.
        shard: Part and number of parts, (1, 4) for the first of four; None for the whole dataset.
        keep_unreadable: Whether rows that cannot be read are kept, unscored.
        batch: Whether calls are sent in batches; written only if they are.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    dataset: DatasetFile | None = None
    rows: int | None = None
    judges: tuple[JudgeRecord, ...] = ()
    limit: int | None = None
    shard: tuple[int, int] | None = None
    keep_unreadable: bool = False
    batch: bool = False

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the manifest of a run.

        Raises:
            ConfigurationError: If the folder holds no run, or one of another version.
        """
        path = folder / NAME
        try:
            text = path.read_bytes()
        except (OSError, ValueError):
            raise ConfigurationError(
                f"{folder} holds no run; give a folder that `refine evaluate ... --out RUN` has written"
            ) from None
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            fault = error.errors()[0]
            place = ".".join(map(str, fault["loc"]))
            raise ConfigurationError(
                f"{path} cannot be read: {place}: {fault['msg']}; it was changed, or written by another version "
                f"of selfrefine"
            ) from None

    def write(self, folder: Path) -> None:
        """Write the manifest into the folder of its run."""
        document = self.model_dump(mode="json", exclude=None if self.batch else {"batch"})
        with replacing(folder / NAME) as file:
            file.write(json.dumps(document, ensure_ascii=True, indent=2).encode() + b"\n")

    def changes(self, before: Manifest, *, rescored: frozenset[str] = frozenset()) -> list[str]:
        """Return in words what differs from the manifest of an earlier start of the same run.

        Args:
            before: That manifest.
            rescored: Names of judges that are new, or replaced, on purpose.
        """
        changes = []
        if (
            self.dataset is not None
            and before.dataset is not None
            and self.dataset.sha256 != before.dataset.sha256
        ):
            rows = f" ({before.dataset.rows:,} rows then, {self.dataset.rows:,} now)"
            changes.append(
                f"the dataset {self.dataset.name}{rows if self.dataset.rows != before.dataset.rows else ''}"
            )
        if None not in (self.rows, before.rows) and self.rows != before.rows:
            changes.append(f"the number of rows ({before.rows:,} then, {self.rows:,} now)")
        if self.shard != before.shard:
            changes.append("the shard")
        if self.limit != before.limit:
            changes.append("the limit")
        old = {judge.name: judge.fingerprint for judge in before.judges}
        new = {judge.name: judge.fingerprint for judge in self.judges}
        for name in [name for name in new if name not in rescored and old.get(name) != new[name]]:
            what = "its settings, prompt or model" if name in old else "new"
            changes.append(f"the judge {name!r} ({what})")
        changes += [f"the judge {name!r} (missing now)" for name in old if name not in new]
        return changes


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's content, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
