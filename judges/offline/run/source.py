"""The rows of a run, numbered, which can be read twice: to judge them, and to write the results."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from judges.catalogue.registry import qualified_name
from judges.errors import BadSample, plural
from judges.offline.dataset.reading import RowInput, RowsFile, read_sample
from judges.offline.run.journal import read_json, write_json
from judges.sample import Sample
from judges.verdict import ByJudge

_T = TypeVar("_T")
SPOOL = "rows.jsonl"


class RunRows:
    """Rows that can be read again; of a sharded run those of its part alone, with the numbers of the whole.

    Args:
        read: Returns the rows from the beginning.
        total: How many they are, all parts together; None where that is unknown.
        shard: Part and number of parts; None for all rows.
    """

    def __init__(
        self, read: Callable[[], Iterable[RowInput]], *, total: int | None, shard: tuple[int, int] | None = None
    ) -> None:
        self._read, self._total = read, total
        self._first, self._step = (shard[0] - 1, shard[1]) if shard is not None else (0, 1)

    def __iter__(self) -> Iterator[tuple[int, Sample | BadSample]]:
        for index, row in islice(enumerate(self._read()), self._first, None, self._step):
            yield index, read_sample(row)

    @property
    def step(self) -> int:
        """How far apart the numbers of two rows are."""
        return self._step

    @property
    def size(self) -> int | None:
        """How many rows this part has; None where that is unknown."""
        return None if self._total is None else len(range(self._first, self._total, self._step))


def row_json(row: Sample | BadSample) -> bytes:
    """Return a row as JSON."""
    return _sample_json(row) if isinstance(row, Sample) else json.dumps({"unreadable": str(row)}).encode()


def _sample_json(sample: Sample) -> bytes:
    """Return a sample as JSON without the fields it does not have."""
    try:
        return sample.model_dump_json(exclude_defaults=True).encode()
    except PydanticSerializationError:  # half a surrogate pair is invalid in UTF-8, but can be escaped
        return json.dumps(sample.model_dump(mode="json", exclude_defaults=True), separators=(",", ":")).encode()


def digest_of(text: bytes) -> bytes:
    """Return a digest of what a row holds, given as JSON."""
    return blake2b(text, digest_size=16).digest()


def read_again(row: dict[str, Any]) -> Sample | BadSample:
    """Return the row whose `row_json` was parsed."""
    unreadable = row.get("unreadable")
    return BadSample(unreadable) if isinstance(unreadable, str) else Sample.model_validate(row)


async def each(rows: Iterable[_T] | AsyncIterable[_T]) -> AsyncGenerator[_T, None]:
    """Yield rows, whether they come sync or async."""
    if isinstance(rows, AsyncIterable):
        async for row in rows:
            yield row
        return
    for row in rows:
        yield row


NAME = "run.json"


class DatasetFile(BaseModel, frozen=True, extra="forbid"):
    """The file of a dataset.

    Args:
        name: Its name on the command line.
        path: Where it is.
        sha256: Digest of its content.
        rows: How many of its rows are judged.
        encoding: How its text is encoded.
        columns: Which of its columns holds which field, where they have other names.
    """

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


class JudgeRecord(BaseModel, frozen=True, extra="forbid"):
    """A judge of a run.

    Args:
        name: Its name in the run.
        fingerprint: See `judges.fingerprint`.
        spec: How it was named on the command line; None where it was given to `evaluate`.
        model: The model it asks, as named on the command line.
        base_url: Address of that model, without its query.
        language: Language of its prompts.
        prompts: Its instructions to models, by the name of their file in a pack, those of judges inside it, too.
        settings: In words its class and what it was made with, of judges inside it behind their names.
    """

    name: str
    fingerprint: str = ""
    spec: str | None = None
    model: str | None = None
    base_url: str | None = None
    language: str | None = None
    prompts: dict[str, str] = {}
    settings: dict[str, str] = {}


class Manifest(BaseModel, frozen=True, extra="forbid"):
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
        versions: Versions of Python and of the packages that verdicts come from, at the last start.
    """

    format: Literal[1] = 1
    dataset: DatasetFile | None = None
    rows: int | None = None
    judges: tuple[JudgeRecord, ...] = ()
    limit: int | None = None
    shard: tuple[int, int] | None = None
    keep_unreadable: bool = False
    batch: bool = False
    versions: dict[str, str] = {}

    @property
    def by_name(self) -> dict[str, JudgeRecord]:
        """The judges by name."""
        return {judge.name: judge for judge in self.judges}

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the manifest of a run.

        Raises:
            ConfigurationError: If the folder holds no run, or one of another version.
        """
        missing = f"{folder} holds no run; give a folder that `refine evaluate ... --out RUN` has written"
        return read_json(cls, folder / NAME, missing)

    def write(self, folder: Path) -> None:
        """Write the manifest into the folder of its run."""
        write_json(folder / NAME, self.model_dump(mode="json", exclude=None if self.batch else {"batch"}))

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
            rows = f" ({plural(before.dataset.rows, 'row')} then, {self.dataset.rows:,} now)"
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


def changed_judges(before: Mapping[str, JudgeRecord], after: Mapping[str, JudgeRecord]) -> dict[str, str]:
    """Return in words what is another judge in the later of two runs, by its name; the same judges are left out.

    Two judges are the same if all that their verdicts depend on is: settings, prompts, language and model.
    """
    later = ByJudge(after, qualified=qualified_name)
    return {
        name: _change_of(judge, later[name])
        for name, judge in before.items()
        if name in later and judge.fingerprint != later[name].fingerprint
    }


def _change_of(before: JudgeRecord, after: JudgeRecord) -> str:
    first, second = ({**_NAMED_APART, **one.settings} for one in (before, after))
    pairs = (
        ("is", before.spec, after.spec, "given in Python"),
        ("asks", before.model or first["model"], after.model or second["model"], "no model"),
        ("asks at", before.base_url, after.base_url, "its provider"),
        (
            "is told to write",
            before.language or first["language"],
            after.language or second["language"],
            "what the row says",
        ),
    )
    changes = [
        f"{verb} {new or without} instead of {old or without}" for verb, old, new, without in pairs if old != new
    ]
    if before.spec == after.spec:  # else it says what the settings are
        names = [name for name in {**first, **second} if name not in _NAMED_APART]
        changes += [
            f"has {f'{name}={second[name]}' if name in second else f'the default {name}'} instead of "
            f"{first.get(name, 'its default')}"
            for name in names
            if first.get(name) != second.get(name)
        ]
    if not changes and before.prompts != after.prompts:
        return "has another prompt"
    return " and ".join(changes) or "has other settings, another prompt or another model"


_NAMED_APART = {"model": None, "language": None}
"""Settings of which there are words of their own."""
