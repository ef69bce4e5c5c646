"""The manifest of a run: its dataset and judges, as written beside its journal, and what has changed since."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel

from judges.catalogue.registry import qualified_name
from judges.errors import plural
from judges.offline.dataset.reading import RowsFile
from judges.offline.run.journal import read_json, write_json
from judges.verdict import ByJudge

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
            what = _change_of(before.by_name[name], self.by_name[name]) if name in old else "new"
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
