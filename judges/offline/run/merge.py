"""Merging the shards of a run into one, as if one process had judged the whole dataset."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from judges.errors import ConfigurationError
from judges.offline.results import Evaluation
from judges.offline.run.files import make_folder
from judges.offline.run.journal import Journal
from judges.offline.run.journaled import check_free, summed_up
from judges.offline.run.lock import locked
from judges.offline.run.manifest import Manifest
from judges.offline.run.outputs import SUMMARY, Results
from judges.offline.run.settings import Outputs
from judges.offline.run.source import Source


def check_shards(folders: Sequence[Path]) -> Manifest:
    """Return the manifest of the run that some shards make up together.

    Raises:
        ConfigurationError: If they are not all the shards of one run, each finished.
    """
    manifests = [Manifest.read(folder) for folder in folders]
    whole = [manifest.model_copy(update={"shard": None}) for manifest in manifests]
    for folder, manifest, other in zip(folders, manifests, whole, strict=True):
        if manifest.shard is None:
            raise ConfigurationError(
                f"{folder} is a whole run, not a shard of one; there is nothing to merge it with"
            )
        changes = other.changes(whole[0])
        if changes:
            raise ConfigurationError(
                f"{folder} and {folders[0]} are not shards of one run: {'; '.join(changes)} differ"
            )
        if not (folder / SUMMARY).exists():
            raise ConfigurationError(f"{folder} has not finished; go on with `refine resume {folder}` first")
    _check_parts(folders, manifests)
    return whole[0]


def merge(folders: Sequence[Path], out: Path, source: Source, output: Outputs) -> Evaluation:
    """Write the run that finished shards make up together into a new folder, and return its evaluation.

    Args:
        folders: Folders of the shards.
        out: The new folder.
        source: All rows of the dataset.
        output: What becomes of the rows.

    Raises:
        ConfigurationError: If the shards are not all of one run, or the folder cannot be written.
    """
    manifest = check_shards(folders)
    check_free(out)
    make_folder(out)
    with ExitStack() as held:
        for folder in (*folders, out):
            held.enter_context(locked(folder))
        check_free(out, is_ours=True)
        manifest.write(out)
        journal = Journal(out)
        held.callback(journal.close)
        for folder in folders:
            shard = Journal(folder)
            try:
                journal.copy_cells(shard)
            finally:
                shard.close()
        names = [judge.name for judge in manifest.judges]
        with Results(out, journal, names, output) as results:
            results.write_all(source)
        return summed_up(results, out, output, seconds=0.0)


def _check_parts(folders: Sequence[Path], manifests: Sequence[Manifest]) -> None:
    parts = {manifest.shard: folder for folder, manifest in zip(folders, manifests, strict=True) if manifest.shard}
    numbers = {n for _, n in parts}
    if len(numbers) > 1:
        raise ConfigurationError(f"these are shards of {sorted(numbers)} parts; merge the shards of one run")
    (n,) = numbers
    if len(parts) < len(manifests):
        raise ConfigurationError("the same shard is named twice; name each one once")
    missing = [f"{part}/{n}" for part in range(1, n + 1) if (part, n) not in parts]
    if missing:
        raise ConfigurationError(
            f"shards are missing: {', '.join(missing)}; judge them first with --shard {missing[0]}"
        )
