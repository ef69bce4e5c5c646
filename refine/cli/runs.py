"""The commands that judge: `refine evaluate`, `resume`, `rescore` and `merge`, each into the folder of a run."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column as RichColumn
from rich.text import Text

from judges import BadSample, ConfigurationError, Judge, Price, Sample, known_prices
from judges.errors import first_fault, plural, shortened
from judges.offline import Evaluation, Row, Summary, load_run, read_rows
from judges.offline import Progress as RunProgress
from judges.offline.dataset.reading import RowsFile, checked_columns
from judges.offline.results import dataset_changes
from judges.offline.run.cells import RunWork
from judges.offline.run.evaluate import Loader, check_free, check_shards, merge, run_source, with_fingerprints
from judges.offline.run.gate import Gate
from judges.offline.run.manifest import DatasetFile, JudgeRecord, Manifest, changed_judges
from judges.offline.run.outputs import SUMMARY, TIMING, RowOutput
from judges.offline.run.settings import BatchSettings, OnProgress, RunSettings
from judges.offline.run.source import RunRows
from refine.cli import options as of
from refine.cli.judge_specs import by_name, load_judges
from refine.cli.tables import Column, print_table, print_text, text_console

_CODES = {"passed": 0, "failed": 1, "unscored": 3}
_COLOURS = {1: "red", 2: "yellow", 3: "green", 4: "bright_green"}
_BARS = " ▁▂▃▄▅▆▇█"
_MOST = len(_BARS) - 1


class _RunGate:
    """A gate whose options have been read and checked.

    Args:
        options: The options.
        judges: Names of the judges of the run.

    Attributes:
        is_set: Whether there is anything to reach.

    Raises:
        ConfigurationError: If an option is wrong, or the baseline is no finished run.
    """

    def __init__(self, options: of.GateOptions, judges: Mapping[str, Judge]) -> None:
        self._gate = Gate(
            fail_under=dict(map(_parse, options.fail_under)),
            max_unscored=options.max_unscored,
            allow_other_judge=options.allow_other_judge,
        )
        self._gate.check_names(list(judges))
        self._junit, self._baseline = options.junit, options.baseline
        self._before = None if options.baseline is None else load_run(options.baseline)
        self.is_set = bool(self._gate.fail_under) or self._before is not None
        if self._junit is not None and not self.is_set:
            raise ConfigurationError(
                "--junit reports a gate; set one with --fail-under NAME=SCORE or --baseline RUN"
            )

    def check_baseline(self, manifest: Manifest, judges: Mapping[str, Judge]) -> None:
        """Check, before any model is asked, that the baseline has the same judges and the same rows.

        Raises:
            ConfigurationError: If it has not, and that is not allowed.
        """
        if self._before is not None and self._baseline is not None and not self._gate.allow_other_judge:
            others = changed_judges(self._before.judge_records, with_fingerprints(manifest, judges).by_name)
            rows = (Row.of(index, sample, {}) for index, sample in _source(manifest))
            self._gate.refuse_baseline(others, dataset_changes(self._before.rows, rows), self._baseline)

    def exit_code(self, folder: Path, evaluation: Evaluation) -> int:
        """Say what became of each condition, and return the exit code: 0 passed, 1 failed, 3 too many unscored."""
        comparison = None
        if self._before is not None:
            from judges.offline import compare_runs  # noqa: PLC0415 - loads numpy and scipy

            names = (str(self._baseline), str(folder))
            comparison = compare_runs(self._before, load_run(folder), names=names)
        result = self._gate.result(evaluation, comparison)
        for check in result.checks:
            sys.stderr.write(f"refine: gate {check}\n")
        if self._junit is not None:
            try:
                self._junit.parent.mkdir(parents=True, exist_ok=True)
                self._junit.write_bytes(result.junit(name=f"refine {folder}", seconds=_seconds_of(folder)))
            except OSError as error:
                raise ConfigurationError(f"--junit {self._junit} cannot be written: {error.strerror}") from None
        return _CODES[result.verdict]


def _seconds_of(folder: Path) -> float:
    """Return how long the last start of a run took."""
    return float(json.loads((folder / TIMING).read_bytes())["seconds"])


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


def read_prices(path: Path | None) -> Mapping[str, Price]:
    """Return the prices of a file, if there is one, which go before those that are known of public models.

    Raises:
        ConfigurationError: If the file holds something else.
    """
    price_table: dict[str, Price] = {}
    try:
        if path is not None:
            price_table = TypeAdapter(dict[str, Price]).validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"--prices {path} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        place, fault = first_fault(error)
        raise ConfigurationError(
            f"--prices {path}: {place or 'the file'}: {fault}; write "
            f'{{"MODEL": {{"input": 1.0, "output": 2.0}}}}, US dollars a million tokens'
        ) from None
    try:
        return known_prices(price_table)
    except ConfigurationError:  # the list of public prices is not installed
        return price_table


_LINE_EVERY_S = 5.0
_BAR_WIDTH = 16


@contextmanager
def show_progress() -> Iterator[OnProgress]:
    """Yield what shows the progress of a run while the block runs."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines()
        return
    text = TextColumn("{task.description}", markup=False, table_column=RichColumn())  # wraps where it is too long
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


def _work(judges: Mapping[str, Judge], limits: of.LimitOptions, *, batch: bool, **settings: Any) -> RunWork:
    """Return how cells are judged within these limits, under other settings of the run."""
    names = ("processes", "rate", "tokens_per_minute", "max_calls", "max_cost")
    run = RunSettings(
        batch=BatchSettings(poll_s=limits.poll) if batch else None,
        prices=None if limits.prices is None else read_prices(limits.prices),
        **{name: getattr(limits, name) for name in names},
        **settings,
    )
    return RunWork(judges=judges, settings=run, max_concurrency=limits.max_concurrency)


def run_evaluate(options: of.EvaluateOptions) -> int:
    """Judge a dataset into a new run, and return the exit code: 0, or 1 if there is no score at all.

    Raises:
        ConfigurationError: If an option is wrong, or the folder already holds a run.
        BadSample: If a row cannot be read, before any is judged, unless such rows are kept.
    """
    folder, file = options.folder, rows_file(options.rows)
    _check_slices(options)
    loaded = load_judges(options.judges.judges, options.judges.asks)
    judges = by_name(loaded)
    gate = _RunGate(options.gate, judges)
    shard = None if options.shard is None else _parse_shard(options.shard)
    check_free(folder)
    work = _work(judges, options.limits, batch=options.batch, folder=folder)
    manifest = Manifest(
        dataset=_dataset(file, check_rows(file, options.rows.limit, keep_unreadable=options.rows.keep_unreadable)),
        judges=tuple(record for record, _ in loaded),
        limit=options.rows.limit,
        shard=shard,
        keep_unreadable=options.rows.keep_unreadable,
        batch=options.batch,
    )
    gate.check_baseline(manifest, judges)
    if options.out is None:
        sys.stderr.write(f"refine: the run is written to {folder}\n")
    load = partial(_load_again, manifest.judges, options.judges.asks.base_url)
    code = _judge(work, manifest, load, gate, as_json=options.as_json)
    if options.slices:
        _print_slices(_slices_of(load_run(folder), options.slices))
    return code


def _check_slices(options: of.EvaluateOptions) -> None:
    """Check, before any model is asked, that each column to group by is in the metadata of some row."""
    columns = options.slices
    if columns and options.as_json:
        raise ConfigurationError(
            f"--slice prints tables; leave out --json, or add `refine show {options.folder} --json --slice "
            f"{columns[0]}`"
        )
    names = set[str]()
    for row in islice(read_rows(options.rows.rows, errors="keep"), options.rows.limit) if columns else ():
        names |= row.metadata.keys() if isinstance(row, Sample) else set()
        if names.issuperset(columns):
            return
    for column in columns:
        if column not in names:
            near = get_close_matches(column, names, n=1)
            known = f"there are {sorted(names)}" if names else "add it"
            remedy = f"did you mean {near[0]!r}?" if near else known
            raise ConfigurationError(
                f"--slice {shortened(column)}: no row has such a column in its metadata; {remedy}"
            )


def run_resume(options: of.ResumeOptions) -> int:
    """Judge what is missing in a run, and return the exit code.

    Raises:
        ConfigurationError: If there is no such run, or its dataset or its judges have changed.
    """
    before = Manifest.read(options.run)
    load = partial(_load_again, before.judges, options.base_url)
    judges = load()
    gate = _RunGate(options.gate, judges)
    remedy = "judge the rows that changed again"
    dataset = _same_dataset(before, options.rows, accept_changes=options.accept_changes, remedy=remedy)
    work = _work(
        judges,
        options.limits,
        batch=before.batch,
        folder=options.run,
        resume=True,
        retry_failed=options.retry_failed,
        accept_changes=options.accept_changes,
    )
    manifest = before.model_copy(update={"dataset": dataset})
    gate.check_baseline(manifest, judges)
    return _judge(work, manifest, load, gate, as_json=options.as_json)


def run_rescore(options: of.RescoreOptions) -> int:
    """Add judges to a run, or replace those of the same name, and return the exit code.

    Raises:
        ConfigurationError: If there is no such run, or its dataset or its other judges have changed.
    """
    before = Manifest.read(options.run)
    added = _added_judges(options, before)
    new_records = {record.name: record for record in added}
    records = {record.name: record for record in before.judges} | new_records
    load = partial(_load_again, tuple(records.values()), None)
    judges = load()
    remedy = f"first go on by `refine resume {options.run}`"
    dataset = _same_dataset(before, options.rows, accept_changes=False, remedy=remedy)
    run = {"folder": options.run, "resume": True, "rescored": frozenset(new_records)}
    work = _work(judges, options.limits, batch=before.batch, **run)
    manifest = before.model_copy(update={"dataset": dataset, "judges": tuple(records.values())})
    return _judge(work, manifest, load, _RunGate(of.GateOptions(), judges), as_json=options.as_json)


def _added_judges(options: of.RescoreOptions, before: Manifest) -> tuple[JudgeRecord, ...]:
    """Return the judges that are added to a run: those named, or those of another run.

    Raises:
        ConfigurationError: If there are none, or both.
    """
    if bool(options.judges) == (options.like is not None):
        raise ConfigurationError(
            "name the judges by --judge NAME, or take those of another run by --like RUN_B: one of the two"
        )
    if options.like is not None:
        return Manifest.read(options.like).judges
    first, wanted = next((record for record in before.judges if record.model), JudgeRecord(name="")), options.asks
    asks = of.ModelOptions(
        model=wanted.model or first.model,
        base_url=wanted.base_url or (None if wanted.model else first.base_url),
        language=wanted.language or first.language,
    )
    loaded = load_judges(options.judges, asks)
    by_name(loaded)  # two of one name are refused
    return tuple(record for record, _ in loaded)


def run_merge(options: of.MergeOptions) -> int:
    """Merge finished shards into one run, and return the exit code.

    Raises:
        ConfigurationError: If they are not all the shards of one run, or the dataset has changed.
    """
    folders, out = tuple(options.runs), Path(options.out)
    manifest = check_shards(folders)
    dataset = _same_dataset(manifest, options.rows, accept_changes=False, remedy="go on with each shard first")
    source = _source(manifest.model_copy(update={"dataset": dataset}))
    faults = _Faults()
    output = RowOutput(on_result=faults.note, faults_only=True, keep_rows=False, facts=_facts(manifest))
    return _print_totals(out, merge(folders, out, source, output), faults, as_json=options.as_json)


def check_rows(file: RowsFile, limit: int | None, *, keep_unreadable: bool) -> int:
    """Read the whole file before any model is asked, and return the number of its rows.

    Raises:
        BadSample: If a row cannot be read, unless such rows are kept.
        ConfigurationError: If there are no rows.
    """
    total = 0
    for row in islice(file.rows(), limit):
        total += 1
        if isinstance(row, BadSample) and not keep_unreadable:
            raise BadSample(f"{row}; mend the row, or keep such rows as unscored with --keep-unreadable")
    if total == 0:
        raise ConfigurationError(f"{file.path} holds no rows; write one JSON object or CSV record per row")
    return total


def rows_file(options: of.FileOptions) -> RowsFile:
    """Return a dataset's file, read with columns named as in `--map answer=text`.

    Raises:
        ConfigurationError: If such a text is no pair, or names no field of a sample.
    """
    pairs = [text.partition("=") for text in options.columns]
    for field, _, column in pairs:
        if not (field and column):
            raise ConfigurationError(f"--map is FIELD=COLUMN, such as answer=text, not {shortened(field or '=')}")
    named = checked_columns({field: column for field, _, column in pairs})
    return RowsFile(path=options.rows, encoding=options.encoding, columns=named)


def _parse_shard(text: str) -> tuple[int, int]:
    """Return part and number of parts of a text such as "1/4".

    Raises:
        ConfigurationError: If it is none.
    """
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise ConfigurationError(f"--shard is part and number of parts, 1/4 to 4/4, not {shortened(text)}")
    return int(part), int(parts)


def _load_again(records: tuple[JudgeRecord, ...], base_url: str | None) -> dict[str, Judge]:
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
        asks = of.ModelOptions(model=model, base_url=(base_url or address) if model else None, language=language)
        again = load_judges(specs, asks)
        loaded |= {record.name: judge for record, (_, judge) in zip(members, again, strict=True)}
    return {record.name: loaded[record.name] for record in records}


def _dataset(rows: RowsFile, total: int) -> DatasetFile:
    return DatasetFile(
        name=str(rows.path),
        path=str(rows.path.absolute()),
        sha256=_file_digest(rows.path),
        rows=total,
        encoding=rows.encoding,
        columns=dict(rows.columns),
    )


def _file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's content, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _same_dataset(before: Manifest, rows: Path | None, *, accept_changes: bool, remedy: str) -> DatasetFile:
    """Return the dataset of a run as it is now; `remedy` is what --accept-changes is good for."""
    if before.dataset is None:
        raise ConfigurationError(
            "the rows of this run were given to evaluate(...) in Python; go on there, with resume=True"
        )
    path = Path(before.dataset.path) if rows is None else rows
    if not path.exists():
        raise ConfigurationError(f"the dataset {path} is gone; say where it is now with --rows FILE")
    if _file_digest(path) == before.dataset.sha256:
        return before.dataset.model_copy(update={"path": str(path.absolute())})
    if not accept_changes:
        raise ConfigurationError(
            f"the dataset {path} has changed since the run began; undo it, or {remedy} with --accept-changes"
        )
    file = replace(before.dataset.file, path=path)
    now = _dataset(file, check_rows(file, before.limit, keep_unreadable=before.keep_unreadable))
    return now.model_copy(update={"name": before.dataset.name})


def _source(manifest: Manifest) -> RunRows:
    assert manifest.dataset is not None  # noqa: S101 - a run of the command line has a file
    dataset = manifest.dataset
    return RunRows(lambda: islice(dataset.file.rows(), manifest.limit), total=dataset.rows, shard=manifest.shard)


def _facts(manifest: Manifest) -> dict[str, object]:
    name = None if manifest.dataset is None else manifest.dataset.name
    return {"source": name, "model": next((judge.model for judge in manifest.judges if judge.model), None)}


def _judge(work: RunWork, manifest: Manifest, load: Loader, gate: _RunGate, *, as_json: bool) -> int:
    """Judge what is missing in a run, print the totals, and return the exit code.

    Args:
        work: How it is judged.
        manifest: What is judged, and by which judges.
        load: Loads the judges again, in another process.
        gate: What must be reached.
        as_json: Whether the totals are printed as JSON.
    """
    faults, folder = _Faults(), Path(work.settings.folder)
    output = RowOutput(on_result=faults.note, faults_only=True, keep_rows=False, facts=_facts(manifest))
    with show_progress() as on_progress:
        watched = work.evolve(on_progress=on_progress)
        evaluation = asyncio.run(run_source(_source(manifest), watched, manifest, output, load))
    code = _print_totals(folder, evaluation, faults, as_json=as_json)
    return gate.exit_code(folder, evaluation) if gate.is_set else code


def _print_totals(folder: Path, evaluation: Evaluation, faults: _Faults, *, as_json: bool) -> int:
    if as_json:
        sys.stdout.write((folder / SUMMARY).read_text(encoding="utf-8"))
    else:
        seconds = _seconds_of(folder)
        _print_results(evaluation.summary, faults, place=folder, seconds=seconds)
    return 0 if any(figures.scored for figures in evaluation.summary.values()) else 1


def run_show(options: of.ShowOptions) -> int:
    """Print the table of a run, and return the exit code.

    Raises:
        ConfigurationError: If the folder holds no run, or one that has not finished, or no row has a column.
    """
    folder = options.run
    evaluation: Evaluation = load_run(folder)
    groups = _slices_of(evaluation, options.slices)
    if options.as_json:
        text = (folder / SUMMARY).read_text(encoding="utf-8")
        if groups:
            summary = {**json.loads(text), "slices": _slices_as_json(groups)}
            text = f"{json.dumps(summary, ensure_ascii=False, indent=2)}\n"
        sys.stdout.write(text)
        return 0
    faults = _Faults()
    for row in evaluation.rows:
        faults.note(row)
    timing = json.loads((folder / TIMING).read_bytes())
    totals = {name: one.model_copy(update=timing["judges"][name]) for name, one in evaluation.summary.items()}
    _print_results(totals, faults, place=folder, seconds=timing["seconds"])
    _print_slices(groups)
    return 0


class _Faults:
    """The first fault of each kind and how often that kind occurred, to be printed below the table."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], tuple[int, str]] = {}
        self._times: dict[tuple[str, str], int] = {}
        self._contradicted: dict[str, list[int]] = {}

    def note(self, row: Row) -> None:
        """Count what is wrong with a row: it cannot be read, lacks verdicts, or has contradicted claims."""
        if row.error:
            self._count("", "unreadable", row.index, row.error)
            return
        for name, verdict in row.verdicts.items():
            if verdict.unscored is not None:
                self._count(name, verdict.unscored, row.index, verdict.detail)
            for part in verdict.failed_parts() if verdict.unscored is None else ():
                self._count(name, f"without {part.judge or 'a part'} ({part.unscored})", row.index, part.detail)
            if verdict.contradicted:
                self._contradicted.setdefault(name, []).append(row.index)

    def lines(self) -> list[str]:
        """Return a line for each kind of fault: how often, at which index of the results first, and why."""
        faults = [
            f"{self._times[kind]} x {' '.join(filter(None, kind))}, first at index {index}: {detail}".rstrip(": ")
            for kind, (index, detail) in self._first.items()
        ]
        return [*faults, *(_contradicted_line(name, rows) for name, rows in self._contradicted.items())]

    def _count(self, judge: str, reason: str, index: int, detail: str) -> None:
        kind = (judge, reason)
        self._first.setdefault(kind, (index, detail))
        self._times[kind] = self._times.get(kind, 0) + 1


_MOST_NAMED = 50
"""Most rows that a line names."""


def _contradicted_line(judge: str, rows: Sequence[int]) -> str:
    named = ", ".join(map(str, rows[:_MOST_NAMED])) + (", ..." if len(rows) > _MOST_NAMED else "")
    have = "has a claim that its" if len(rows) == 1 else "have claims that their"
    return f"{plural(len(rows), 'row')} {have} evidence contradicts ({judge}), at index {named}"


def _print_results(summary: Mapping[str, Summary], faults: _Faults, *, place: Path, seconds: float) -> None:
    """Print a line for each judge, the faults, and where the results are."""
    console = text_console()
    columns = (
        Column("judge"),
        Column("mean", is_number=True),
        *(
            Column("rated 1" if rating == 1 else f"{rating}", f"rated {rating}", is_number=True, style=colour)
            for rating, colour in _COLOURS.items()
        ),
        Column("passed", is_number=True),
        Column("unscored"),
        Column("tokens", is_number=True),
        Column("s/row", is_number=True),
    )
    digits = max(len(f"{number:,}") for figures in summary.values() for number in figures.ratings.values())
    bars = not console.options.ascii_only
    rows = [(Text(name), *_result_cells(figures, digits, bars=bars)) for name, figures in summary.items()]
    print_table(console, columns, rows)
    means = [f"{name} {_interval(one.mean_interval, '.3f')}" for name, one in summary.items() if one.mean_interval]
    if means:
        print_text(f" 95 % of means, over questions: {', '.join(means)}", style="dim")
    for line in faults.lines():
        print_text(f" ! {line}", style="yellow")
    total = next(iter(summary.values())).n
    print_text(f" {plural(total, 'row')} in {seconds:.1f} s, written to {place}", style="dim")


def _result_cells(summary: Summary, digits: int, *, bars: bool) -> list[str | Text]:
    most = max(summary.ratings.values())
    ratings = [_bar_and_count(number, most, digits, bars=bars) for number in summary.ratings.values()]
    unscored = "\n".join(f"{number:,} {reason}" for reason, number in summary.unscored.items())
    return [
        Text(_number(summary.mean, ".3f"), style="bold"),
        *ratings,
        _number(summary.passed, ".1%"),
        Text(unscored or "-", style="yellow" if unscored else "dim"),
        f"{summary.usage.tokens:,}",
        _number(summary.latency_s, ".2f"),
    ]


def _bar_and_count(number: int, most: int, digits: int, *, bars: bool) -> Text:
    """Return a count, with a bar as high as its share of the highest."""
    bar = _BARS[max(1, round(_MOST * number / most))] if bars and number else ""
    return Text(f"{bar} {number:>{digits},}", style="" if number else "dim")


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


_SLICE_COLUMNS = (
    Column("judge"),
    Column("rows", is_number=True),
    Column("scored", is_number=True),
    Column("mean", is_number=True),
    Column("95 %", "95 % of means", is_number=True),
    Column("passed", is_number=True),
    Column("95 %", "95 % of passes", is_number=True),
)

_Slices = Mapping[str, Mapping[str, Mapping[str, Summary]]]


def _slices_of(evaluation: Evaluation, columns: Sequence[str]) -> _Slices:
    """Return the figures of an evaluation by column, value and judge.

    Raises:
        ConfigurationError: If no row has one of the columns.
    """
    return {column: evaluation.slices(column) for column in columns}


def _print_slices(slices: _Slices) -> None:
    """Print a table for each column."""
    for column, groups in slices.items():
        rows = [
            ((value or "(none)") if place == 0 else "", name, *_slice_cells(summary))
            for value, judges in groups.items()
            for place, (name, summary) in enumerate(judges.items())
        ]
        print_table(text_console(), [Column(column), *_SLICE_COLUMNS], rows)


def _slices_as_json(slices: _Slices) -> dict[str, object]:
    """Return the same figures as plain data."""
    return {
        column: {
            value: {name: summary.model_dump(mode="json") for name, summary in judges.items()}
            for value, judges in groups.items()
        }
        for column, groups in slices.items()
    }


def _slice_cells(summary: Summary) -> tuple[str, ...]:
    return (
        f"{summary.n:,}",
        f"{summary.scored:,}",
        _number(summary.mean, ".3f"),
        _interval(summary.mean_interval, ".3f"),
        _number(summary.passed, ".1%"),
        _interval(summary.passed_interval, ".1%"),
    )


def _interval(ends: tuple[float, float] | None, form: str) -> str:
    return "-" if ends is None else f"{ends[0]:{form}} to {ends[1]:{form}}"
