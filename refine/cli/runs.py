"""The commands that judge: `refine evaluate`, `resume`, `rescore` and `merge`, each into the folder of a run."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column

from judges import BadSample, ConfigurationError, Judge, Price, known_prices
from judges.errors import shortened
from judges.offline import Evaluation, load_run
from judges.offline import Progress as RunProgress
from judges.offline.dataset.reading import RowsFile, checked_columns
from judges.offline.results import RowOutput
from judges.offline.run.gate import MOST_UNSCORED, Check, Gate, junit, result_of
from judges.offline.run.journaled import Loader, check_free, check_shards, merge, run_source
from judges.offline.run.outputs import SUMMARY, TIMING
from judges.offline.run.settings import BatchSettings, OnProgress, RunSettings
from judges.offline.run.source import DatasetFile, JudgeRecord, Manifest, Source, file_digest, file_source
from refine.cli.judge_specs import LoadedJudge, by_name, load_judges
from refine.cli.options import STOPPED
from refine.cli.tables import Faults, show, show_slices, slices_as_json, slices_of

_CODES = {"passed": 0, "failed": 1, "unscored": STOPPED}


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """The options of a gate, as they were written on the command line."""

    fail_under: tuple[str, ...] = ()
    baseline: Path | None = None
    max_unscored: float = MOST_UNSCORED
    junit: Path | None = None


class _RunGate:
    """A gate whose options have been read and checked.

    Args:
        options: The options.
        judges: Names of the judges of the run.

    Raises:
        ConfigurationError: If an option is wrong, or the baseline is no finished run.
    """

    def __init__(self, options: GateOptions, judges: Sequence[str]) -> None:
        self._gate = Gate(fail_under=dict(map(_parse, options.fail_under)), max_unscored=options.max_unscored)
        self._gate.check_names(judges)
        self._junit, self._baseline = options.junit, options.baseline
        self._before: Evaluation | None = None
        if self._baseline is not None:
            self._before = load_run(self._baseline)
        if self._junit is not None and not self.is_set:
            raise ConfigurationError(
                "--junit reports a gate; set one with --fail-under NAME=SCORE or --baseline RUN"
            )

    @property
    def is_set(self) -> bool:
        """Whether there is anything to reach."""
        return bool(self._gate.fail_under) or self._before is not None

    def exit_code(self, folder: Path, evaluation: Evaluation) -> int:
        """Say what became of each condition, and return the exit code: 0 passed, 1 failed, 3 too many unscored."""
        checks = self._checks(folder, evaluation)
        for check in checks:
            sys.stderr.write(f"refine: gate {check}\n")
        if self._junit is not None:
            try:
                self._junit.parent.mkdir(parents=True, exist_ok=True)
                self._junit.write_bytes(junit(checks, name=f"refine {folder}"))
            except OSError as error:
                raise ConfigurationError(f"--junit {self._junit} cannot be written: {error.strerror}") from None
        return _CODES[result_of(checks)]

    def _checks(self, folder: Path, evaluation: Evaluation) -> list[Check]:
        if self._before is None:
            return self._gate.checks(evaluation)
        from judges.offline import compare_runs  # noqa: PLC0415 - loads numpy and scipy

        names = (str(self._baseline), str(folder))
        return self._gate.checks(evaluation, compare_runs(self._before, load_run(folder), names=names))


def _parse(text: str) -> tuple[str, float]:
    name, equals, figure = text.rpartition("=")
    try:
        least = float(figure)
    except ValueError:
        least = -1.0
    if not equals or not name.strip() or not 0 <= least <= 1:
        raise ConfigurationError(
            f"--fail-under is a judge and its least mean score from 0 to 1, helpfulness=0.8, not {shortened(text)}"
        )
    return name.strip(), least


def read_prices(path: Path) -> Mapping[str, Price]:
    """Return the prices of a file, which go before those that are known of public models.

    Raises:
        ConfigurationError: If the file holds something else.
    """
    try:
        own = TypeAdapter(dict[str, Price]).validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"--prices {path} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(map(str, fault["loc"])) or "the file"
        raise ConfigurationError(
            f'--prices {path}: {place}: {fault["msg"]}; write {{"MODEL": {{"input": 1.0, "output": 2.0}}}}, US '
            f"dollars a million tokens"
        ) from None
    try:
        return known_prices(own)
    except ConfigurationError:  # the list of public prices is not installed
        return own


_LINE_EVERY_S = 5.0
_BAR_WIDTH = 16


@contextmanager
def reported() -> Iterator[OnProgress]:
    """Yield what shows the progress of a run while the block runs."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines()
        return
    text = TextColumn("{task.description}", markup=False, table_column=Column())  # wraps where it is too long
    columns = (BarColumn(bar_width=_BAR_WIDTH), text)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("judging", total=None)
        yield lambda progress: bar.update(
            task, completed=progress.done, total=progress.total, description=str(progress)
        )


class _Lines:
    """Writes a line now and then, the first after some seconds: a short run says nothing."""

    def __init__(self) -> None:
        self._written = time.monotonic()

    def __call__(self, progress: RunProgress) -> None:
        if time.monotonic() - self._written >= _LINE_EVERY_S:
            self._written = time.monotonic()
            sys.stderr.write(f"refine: {progress}\n")
            sys.stderr.flush()


_WIDTH = 100
"""Columns of the table if stdout is not a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOptions:
    """Which judges, and what they ask."""

    judges: tuple[str, ...]
    model: str | None = None
    base_url: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    """How fast a run may be, and where it stops."""

    max_concurrency: int = 8
    processes: int = 1
    batch: bool = False
    poll_s: float = 60.0
    rate: int | None = None
    tokens_per_minute: int | None = None
    max_calls: int | None = None
    max_cost: float | None = None
    prices: Path | None = None

    def settings(self, folder: Path) -> RunSettings:
        """Return the settings of a run with these limits."""
        return RunSettings(
            folder=folder,
            processes=self.processes,
            batch=BatchSettings(poll_s=self.poll_s) if self.batch else None,
            rate=self.rate,
            tokens_per_minute=self.tokens_per_minute,
            max_calls=self.max_calls,
            max_cost=self.max_cost,
            prices=None if self.prices is None else read_prices(self.prices),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateOptions:
    """The options of `refine evaluate`."""

    rows: RowsFile
    judges: JudgeOptions
    out: Path
    limits: LimitOptions
    limit: int | None = None
    shard: str | None = None
    keep_unreadable: bool = False
    gate: GateOptions = GateOptions()
    as_json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeOptions:
    """The options of `refine resume`, and those it has in common with `refine rescore`."""

    run: Path
    limits: LimitOptions
    rows: Path | None = None
    base_url: str | None = None
    retry_failed: bool = False
    accept_changes: bool = False
    gate: GateOptions = GateOptions()
    as_json: bool = False


def run_evaluate(options: EvaluateOptions) -> int:
    """Judge a dataset into a new run, and return the exit code: 0, or 1 if there is no score at all.

    Raises:
        ConfigurationError: If an option is wrong, or the folder already holds a run.
        BadSample: If a row cannot be read, before any is judged, unless `keep_unreadable` is set.
    """
    loaded = _loaded(options.judges)
    judges = by_name(loaded)
    gate = _RunGate(options.gate, list(judges))
    shard = None if options.shard is None else _parse_shard(options.shard)
    check_free(options.out)
    settings = options.limits.settings(options.out)
    total = preflight(options.rows, limit=options.limit, keep_unreadable=options.keep_unreadable)
    manifest = Manifest(
        dataset=_dataset(options.rows, total),
        judges=_records(loaded, options.judges),
        limit=options.limit,
        shard=shard,
        keep_unreadable=options.keep_unreadable,
        batch=options.limits.batch,
    )
    return _judge(
        judges,
        manifest,
        settings,
        options.limits,
        gate,
        load=partial(_loaded_again, manifest.judges, options.judges.base_url),
        as_json=options.as_json,
    )


def run_resume(options: ResumeOptions) -> int:
    """Judge what is missing in a run, and return the exit code.

    Raises:
        ConfigurationError: If there is no such run, or its dataset or its judges have changed.
    """
    before = Manifest.read(options.run)
    return _go_on(before, partial(_loaded_again, before.judges, options.base_url), before.judges, options)


def run_rescore(options: ResumeOptions, added: JudgeOptions) -> int:
    """Add judges to a run, or replace those of the same name, and return the exit code.

    Raises:
        ConfigurationError: If there is no such run, or its dataset or its other judges have changed.
    """
    before = Manifest.read(options.run)
    first = next((record for record in before.judges if record.model), JudgeRecord(name=""))
    filled = JudgeOptions(
        judges=added.judges,
        model=added.model or first.model,
        base_url=added.base_url or (None if added.model else first.base_url),
        language=added.language or first.language,
    )
    new_records = {record.name: record for record in _records(_loaded(filled), filled)}
    records = {record.name: record for record in before.judges} | new_records
    load = partial(_with_added, before.judges, filled)
    return _go_on(before, load, tuple(records.values()), options, rescored=frozenset(new_records))


def run_merge(folders: tuple[Path, ...], out: Path, *, rows: Path | None, as_json: bool) -> int:
    """Merge finished shards into one run, and return the exit code.

    Raises:
        ConfigurationError: If they are not all the shards of one run, or the dataset has changed.
    """
    manifest = check_shards(folders)
    dataset = _same_dataset(manifest, rows, accept_changes=False, remedy="go on with each shard first")
    source = _source(manifest.model_copy(update={"dataset": dataset}))
    faults = Faults()
    output = RowOutput(on_result=faults.note, faults_only=True, keep_rows=False, facts=_facts(manifest))
    evaluation = merge(folders, out, source, output)
    return _report(out, evaluation, faults, as_json=as_json)


def preflight(rows: RowsFile, *, limit: int | None, keep_unreadable: bool) -> int:
    """Read the whole file before any model is asked, and return the number of its rows.

    Raises:
        BadSample: If a row cannot be read, unless such rows are kept.
        ConfigurationError: If there are no rows.
    """
    total = 0
    for row in islice(rows.rows(), limit):
        total += 1
        if isinstance(row, BadSample) and not keep_unreadable:
            raise BadSample(f"{row}; mend the row, or keep such rows as unscored with --keep-unreadable")
    if total == 0:
        raise ConfigurationError(f"{rows.path} holds no rows; write one JSON object or CSV record per row")
    return total


def rows_file(path: Path, *, columns: list[str] | None, encoding: str) -> RowsFile:
    """Return a dataset's file, read with columns named as in `--map answer=text`.

    Raises:
        ConfigurationError: If such a text is no pair, or names no field of a sample.
    """
    pairs = [text.partition("=") for text in columns or ()]
    for field, _, column in pairs:
        if not (field and column):
            raise ConfigurationError(f"--map is FIELD=COLUMN, such as answer=text, not {shortened(field or '=')}")
    named = checked_columns({field: column for field, _, column in pairs})
    return RowsFile(path=path, encoding=encoding, columns=named)


def _parse_shard(text: str) -> tuple[int, int]:
    """Return part and number of parts of a text such as "1/4".

    Raises:
        ConfigurationError: If it is none.
    """
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise ConfigurationError(f"--shard is part and number of parts, 1/4 to 4/4, not {shortened(text)}")
    return int(part), int(parts)


def _loaded(options: JudgeOptions) -> list[LoadedJudge]:
    return load_judges(options.judges, model=options.model, base_url=options.base_url, language=options.language)


def _loaded_again(records: tuple[JudgeRecord, ...], base_url: str | None) -> dict[str, Judge]:
    """Load the judges of a run as they were loaded before: those that shared a model share one again."""
    groups: dict[tuple[str | None, ...], list[JudgeRecord]] = {}
    for record in records:
        if record.spec is None:
            raise ConfigurationError(
                f"the judge {record.name!r} was given to evaluate(...) in Python; go on there, with resume=True"
            )
        groups.setdefault((record.model, record.base_url, record.language), []).append(record)
    loaded: dict[str, Judge] = {}
    for (model, address, language), members in groups.items():
        specs = [record.spec for record in members if record.spec is not None]
        again = load_judges(
            specs, model=model, base_url=(base_url or address) if model else None, language=language
        )
        loaded |= {record.name: judge.judge for record, judge in zip(members, again, strict=True)}
    return {record.name: loaded[record.name] for record in records}


def _with_added(before: tuple[JudgeRecord, ...], added: JudgeOptions) -> dict[str, Judge]:
    """Load the judges of a run with some added, or in the place of those of the same name."""
    new = by_name(_loaded(added))
    staying = _loaded_again(tuple(record for record in before if record.name not in new), None)
    judges = {**staying, **new}
    return {name: judges[name] for name in dict.fromkeys([*(record.name for record in before), *new])}


def _records(judges: Sequence[LoadedJudge], options: JudgeOptions) -> tuple[JudgeRecord, ...]:
    address = None if options.base_url is None else urlunsplit((*urlsplit(options.base_url)[:3], "", ""))
    return tuple(
        JudgeRecord(
            name=judge.name, spec=judge.spec, model=judge.model, base_url=address, language=options.language
        )
        for judge in judges
    )


def _dataset(rows: RowsFile, total: int) -> DatasetFile:
    return DatasetFile(
        name=str(rows.path),
        path=str(rows.path.absolute()),
        sha256=file_digest(rows.path),
        rows=total,
        encoding=rows.encoding,
        columns=dict(rows.columns),
    )


def _same_dataset(before: Manifest, rows: Path | None, *, accept_changes: bool, remedy: str) -> DatasetFile:
    """Return the dataset of a run as it is now; `remedy` is what --accept-changes is good for."""
    if before.dataset is None:
        raise ConfigurationError(
            "the rows of this run were given to evaluate(...) in Python; go on there, with resume=True"
        )
    path = Path(before.dataset.path) if rows is None else rows
    if not path.exists():
        raise ConfigurationError(f"the dataset {path} is gone; say where it is now with --rows FILE")
    if file_digest(path) == before.dataset.sha256:
        return before.dataset.model_copy(update={"path": str(path.absolute())})
    if not accept_changes:
        raise ConfigurationError(
            f"the dataset {path} has changed since the run began; undo it, or {remedy} with --accept-changes"
        )
    file = replace(before.dataset.file, path=path)
    now = _dataset(file, preflight(file, limit=before.limit, keep_unreadable=before.keep_unreadable))
    return now.model_copy(update={"name": before.dataset.name})


def _go_on(
    before: Manifest,
    load: Loader,
    records: tuple[JudgeRecord, ...],
    options: ResumeOptions,
    *,
    rescored: frozenset[str] = frozenset(),
) -> int:
    judges = load()
    gate = _RunGate(options.gate, list(judges))
    remedy = f"first go on by `refine resume {options.run}`" if rescored else "judge the rows that changed again"
    dataset = _same_dataset(before, options.rows, accept_changes=options.accept_changes, remedy=remedy)
    manifest = before.model_copy(update={"dataset": dataset, "judges": records})
    limits = replace(options.limits, batch=before.batch)
    settings = limits.settings(options.run)
    return _judge(
        judges,
        manifest,
        RunSettings(
            **{
                **{name: getattr(settings, name) for name in settings.__dataclass_fields__},
                "resume": True,
                "retry_failed": options.retry_failed,
                "accept_changes": options.accept_changes,
                "rescored": rescored,
            }
        ),
        limits,
        gate,
        load=load,
        as_json=options.as_json,
    )


def _source(manifest: Manifest) -> Source:
    assert manifest.dataset is not None  # noqa: S101 - a run of the command line has a file
    dataset = manifest.dataset
    return file_source(dataset.file, limit=manifest.limit, total=dataset.rows, shard=manifest.shard)


def _facts(manifest: Manifest) -> dict[str, object]:
    name = None if manifest.dataset is None else manifest.dataset.name
    return {"source": name, "model": next((judge.model for judge in manifest.judges if judge.model), None)}


def _judge(
    judges: Mapping[str, Judge],
    manifest: Manifest,
    settings: RunSettings,
    limits: LimitOptions,
    gate: _RunGate,
    *,
    load: Loader,
    as_json: bool,
) -> int:
    faults = Faults()
    output = RowOutput(on_result=faults.note, faults_only=True, keep_rows=False, facts=_facts(manifest))
    with reported() as on_progress:
        evaluation = asyncio.run(
            run_source(
                _source(manifest),
                judges,
                manifest,
                settings.watched(on_progress),
                max_concurrency=limits.max_concurrency,
                output=output,
                load=load,
            )
        )
    folder = Path(settings.folder)
    code = _report(folder, evaluation, faults, as_json=as_json)
    return gate.exit_code(folder, evaluation) if gate.is_set else code


def _report(folder: Path, evaluation: Evaluation, faults: Faults, *, as_json: bool) -> int:
    if as_json:
        sys.stdout.write((folder / SUMMARY).read_text(encoding="utf-8"))
    else:
        console = Console()
        if not console.is_terminal:
            console.width = _WIDTH
        seconds = json.loads((folder / TIMING).read_bytes())["seconds"]
        show(console, evaluation.summary, faults, place=folder, seconds=seconds)
    return 0 if any(figures.scored for figures in evaluation.summary.values()) else 1


"""Columns of the table if stdout is not a terminal."""


def run_show(folder: Path, *, slices: tuple[str, ...] = (), as_json: bool) -> int:
    """Print the table of a run, and return the exit code.

    Raises:
        ConfigurationError: If the folder holds no run, or one that has not finished, or no row has a column.
    """
    evaluation: Evaluation = load_run(folder)
    groups = slices_of(evaluation, slices)
    if as_json:
        text = (folder / SUMMARY).read_text(encoding="utf-8")
        if groups:
            summary = {**json.loads(text), "slices": slices_as_json(groups)}
            text = f"{json.dumps(summary, ensure_ascii=False, indent=2)}\n"
        sys.stdout.write(text)
        return 0
    faults = Faults()
    for row in evaluation.rows:
        faults.note(row)
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH
    timing = json.loads((folder / TIMING).read_bytes())
    summary = {name: one.model_copy(update=timing["judges"][name]) for name, one in evaluation.summary.items()}
    show(console, summary, faults, place=folder, seconds=timing["seconds"])
    show_slices(groups)
    return 0
