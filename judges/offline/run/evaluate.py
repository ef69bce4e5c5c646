"""Judging a dataset: workers that pull rows from one iterator, as threads or as tasks."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import as_completed
from contextlib import aclosing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

from judges.catalogue.names import named
from judges.compose.panel import as_judge
from judges.errors import BadSample, ConfigurationError, shortened
from judges.judge import Judge
from judges.offline.dataset.reading import checked_columns, rename_rows, rows_in
from judges.offline.first_guesses import naming_arguments
from judges.offline.results import Evaluation, Row, Tally
from judges.offline.run.journaled import run_samples
from judges.offline.run.settings import BatchSettings, Outputs, RunSettings
from judges.offline.run.source import RowInput, read_sample
from judges.rows.replies import row_of
from judges.runtime import faults
from judges.runtime.flow import DaemonThreads
from judges.runtime.observation import shared_work
from judges.runtime.validation import judge_name
from judges.sample import Sample
from judges.verdict import Verdict


class OrderedWriter:
    """Receives rows as they finish, and emits each as soon as all before it are there.

    Args:
        names: Names of the judges.
        out: Where each row is written as a line of JSON, flushed at once; None writes nothing.
        on_result: Called with each row, one at a time.
        keep_rows: Whether the rows stay in memory for the evaluation.
    """

    def __init__(
        self,
        names: Iterable[str],
        *,
        out: TextIO | None,
        on_result: Callable[[Row], object] | None,
        keep_rows: bool,
    ) -> None:
        self._tallies = {name: Tally() for name in names}
        self._out, self._on_result, self._keep_rows = out, on_result, keep_rows
        self._rows: list[Row] = []
        self._early: dict[int, Row] = {}
        self._next = 0
        self._closed = False
        self._lock = threading.Lock()

    def add(self, row: Row) -> None:
        """Accept a row, in any order, from any thread."""
        with self._lock:
            self._early[row.index] = row
            while not self._closed and (ready := self._early.pop(self._next, None)) is not None:
                self._next += 1
                self._emit(ready)

    def close(self) -> None:
        """Stop writing; results from threads that are still running are discarded."""
        with self._lock:
            self._closed = True

    def evaluation(self) -> Evaluation:
        """Return the evaluation of the rows written."""
        summary = {name: tally.summary() for name, tally in self._tallies.items()}
        return Evaluation(rows=tuple(self._rows), summary=summary)

    def _emit(self, row: Row) -> None:
        for name, verdict in row.verdicts.items():
            self._tallies[name].add(verdict, judged=row.sample is not None)
        if self._keep_rows:
            self._rows.append(row)
        if self._out is not None:
            self._out.write(f"{row.line()}\n")
            self._out.flush()
        if self._on_result is not None:
            self._on_result(row)


_MODEL_REMEDY = 'give model=..., for instance model="openai:gpt-5-mini"'


@naming_arguments
def evaluate(
    samples: Iterable[RowInput],
    judges: object,
    *,
    max_concurrency: int = 8,
    out: str | Path | TextIO | None = None,
    on_result: Callable[[Row], object] | None = None,
    keep_rows: bool = True,
    log_texts: bool = False,
    run: str | Path | RunSettings | None = None,
    resume: bool = False,
    map: Mapping[str, str] | None = None,  # noqa: A002 - the name that it has in `read_rows`
    processes: int | None = None,
    batch: bool | BatchSettings = False,
    model: object = None,
) -> Evaluation:
    """Judge every sample of a dataset, in threads; also inside a running event loop.

    Rows are pulled lazily, so at most `max_concurrency` are read ahead of the judges. A worker takes one row
    and runs its judges one after the other. Rows may finish in any order; they are written, reported and
    returned in the order of the dataset.

    A judgement that fails is unscored and says why; so are all those of a row that cannot be read. Neither ends
    the evaluation.

    Args:
        samples: Samples, mappings, or objects of other libraries that are read as samples; a data frame of
            pandas or polars, a table of pyarrow, or a dict of lists. A `BadSample` stands for a row that could
            not be read, as `read_rows(path, errors="keep")` yields it.
        judges: A judge, a list of judges, or a mapping of names to judges; functions are accepted, and the names
            of judges, `["length:at_most=80", "helpfulness"]`.
        max_concurrency: How many rows are judged at once, at least 1.
        out: A path, which is overwritten, or an open text file; each row becomes one line of JSON there.
        on_result: Called with each `Row` once it has been written, in order and never twice at a time.
        keep_rows: Whether the evaluation holds the rows. False keeps memory flat on datasets of any size.
        log_texts: Whether the log of a judge's own errors holds what they say, which may quote the samples.
        run: Folder of a run, which survives a crash: every finished call and verdict is journaled there, and in
            the end it holds results, cells and summary. Judges of one row are then at work side by side, and
            `max_concurrency` bounds the model calls at once. Limits and more are in `RunSettings(folder=...)`.
        resume: Whether `run` was begun before: only what is missing is judged.
        map: Which column holds which field, where they have other names: `{"answer": "actual_text"}`.
        processes: How many processes of this machine judge, each its part of the rows, of `max_concurrency` and of
            the limits of a run. Rows are then reported when all are judged, and judges are sent by pickle: call
            this under `if __name__ == "__main__":`.
        batch: Whether a run sends its calls by the provider's batch endpoint: at half the price, within a day. Its
            judges ask `OpenAICompatible` models. The process may end meanwhile, and go on with `resume`.
        model: The model that judges ask which are given by name.

    Raises:
        RunStopped: If a run reached a limit of its settings; it can be resumed.
        ConfigurationError: At once, if a judge, its model or an argument is set up wrongly, or two judges share
            a name. Threads that are still waiting for a model finish in the background; nothing more is written.
    """
    if run is not None or resume or batch or processes not in (None, 1):
        judged = aevaluate(
            samples,
            judges,
            max_concurrency=max_concurrency,
            out=out,
            on_result=on_result,
            keep_rows=keep_rows,
            log_texts=log_texts,
            run=run,
            resume=resume,
            map=map,
            processes=processes,
            batch=batch,
            model=model,
        )
        return _finished(judged)
    members = judges_by_name(judges, model)
    source = _Source(_checked_rows(samples, max_concurrency, map))

    def work() -> None:
        try:
            while (item := source.take()) is not None:
                writer.add(_judge_row(*item, members))
        except BaseException:
            source.close()
            raise

    with faults.of_run(log_texts=log_texts), _open_writer(members, out, on_result, keep_rows=keep_rows) as writer:
        _in_threads(work, max_concurrency, source)
        return writer.evaluation()


@naming_arguments
async def aevaluate(
    samples: Iterable[RowInput] | AsyncIterable[RowInput],
    judges: object,
    *,
    max_concurrency: int = 8,
    out: str | Path | TextIO | None = None,
    on_result: Callable[[Row], object] | None = None,
    keep_rows: bool = True,
    log_texts: bool = False,
    run: str | Path | RunSettings | None = None,
    resume: bool = False,
    map: Mapping[str, str] | None = None,  # noqa: A002 - the name that it has in `read_rows`
    processes: int | None = None,
    batch: bool | BatchSettings = False,
    model: object = None,
) -> Evaluation:
    """Judge every sample of a dataset in tasks; otherwise as `evaluate`.

    `samples` may be an async iterable. Cancelling this cancels the judges at work.
    """
    members = judges_by_name(judges, model)
    samples = _checked_rows(samples, max_concurrency, map)
    if run is None and not resume and not batch and processes not in (None, 1):
        with TemporaryDirectory(prefix="judges-") as folder, _open_output(out) as file:
            output = Outputs(on_result=_also_written(file, on_result), keep_rows=keep_rows)
            settings = _run_settings(Path(folder) / "run", None, resume=False, processes=processes)
            return await run_samples(
                samples, members, settings, max_concurrency=max_concurrency, log_texts=log_texts, output=output
            )
    if run is not None or resume or batch:
        output = Outputs(on_result=on_result, keep_rows=keep_rows)
        settings = _run_settings(run, out, resume=resume, processes=processes, batch=batch)
        return await run_samples(
            samples, members, settings, max_concurrency=max_concurrency, log_texts=log_texts, output=output
        )
    lock = asyncio.Lock()

    async def work() -> None:
        while True:
            async with lock:
                item = await anext(source, None)
            if item is None:
                return
            writer.add(await _ajudge_row(*item, members))
            await asyncio.sleep(0)  # a judge that awaits nothing would block the loop

    with faults.of_run(log_texts=log_texts), _open_writer(members, out, on_result, keep_rows=keep_rows) as writer:
        async with aclosing(_aenumerate(samples)) as source:
            await _in_tasks([asyncio.create_task(work()) for _ in range(max_concurrency)])
        return writer.evaluation()


class _Source:
    """Hands out the rows of one iterator, each once and numbered, to any number of threads."""

    def __init__(self, samples: Iterable[RowInput]) -> None:
        self._left = enumerate(samples)
        self._closed = False
        self._lock = threading.Lock()

    def take(self) -> tuple[int, RowInput] | None:
        with self._lock:
            return None if self._closed else next(self._left, None)

    def close(self) -> None:
        self._closed = True


async def _aenumerate(
    samples: Iterable[RowInput] | AsyncIterable[RowInput],
) -> AsyncGenerator[tuple[int, RowInput], None]:
    if not isinstance(samples, AsyncIterable):
        for pair in enumerate(samples):
            yield pair
        return
    index = 0
    async for row in samples:
        yield index, row
        index += 1


def _in_threads(work: Callable[[], None], workers: int, source: _Source) -> None:
    with DaemonThreads(workers) as threads:
        try:
            for done in as_completed([threads.submit(work) for _ in range(workers)]):
                done.result()
        finally:
            source.close()


async def _in_tasks(running: list[asyncio.Task[None]]) -> None:
    try:
        await asyncio.gather(*running)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _judge_row(index: int, row: RowInput, judges: Mapping[str, Judge]) -> Row:
    sample = read_sample(row)
    if isinstance(sample, BadSample):
        return Row.unreadable(index, sample, judges)
    with shared_work():
        verdicts = {name: _with_judge(name, _verdict(judge, sample)) for name, judge in judges.items()}
    return Row(index=index, sample=sample, verdicts=verdicts)


async def _ajudge_row(index: int, row: RowInput, judges: Mapping[str, Judge]) -> Row:
    sample = read_sample(row)
    if isinstance(sample, BadSample):
        return Row.unreadable(index, sample, judges)
    with shared_work():
        verdicts = {name: _with_judge(name, await _averdict(judge, sample)) for name, judge in judges.items()}
    return Row(index=index, sample=sample, verdicts=verdicts)


def _verdict(judge: Judge, sample: Sample) -> Verdict:
    try:
        return judge(sample)
    except Exception as error:  # noqa: BLE001 - handled in one place
        return _failure_verdict(error, judge)


async def _averdict(judge: Judge, sample: Sample) -> Verdict:
    try:
        return await judge.acall(sample)
    except Exception as error:  # noqa: BLE001 - handled in one place
        return _failure_verdict(error, judge)


def _failure_verdict(error: Exception, judge: Judge) -> Verdict:
    if isinstance(error, ConfigurationError):
        raise error
    return Verdict.without_score("judge_failed", faults.report(error, repr(judge.name)))


def _with_judge(name: str, verdict: Verdict) -> Verdict:
    return verdict if verdict.judge == name else verdict.model_copy(update={"judge": name})


def _also_written(
    file: TextIO | None, on_result: Callable[[Row], object] | None
) -> Callable[[Row], object] | None:
    """Return what writes each row to an open file before it is reported."""
    if file is None:
        return on_result

    def write(row: Row) -> None:
        file.write(f"{row.line()}\n")
        if on_result is not None:
            on_result(row)

    return write


def _run_settings(
    run: str | Path | RunSettings | None,
    out: object,
    *,
    resume: bool,
    processes: int | None,
    batch: bool | BatchSettings = False,
) -> RunSettings:
    if run is None and batch:
        raise ConfigurationError("batch=True goes with run=..., the folder that remembers batches until they end")
    if run is None:
        raise ConfigurationError("resume=True goes with run=..., the folder of the run to go on with")
    if out is not None:
        raise ConfigurationError("a run has its results in its folder; leave out=... away")
    settings = run if isinstance(run, RunSettings) else RunSettings(folder=run)
    return replace(
        settings,
        resume=resume or settings.resume,
        processes=settings.processes if processes is None else processes,
        batch=settings.batch if not batch else batch if isinstance(batch, BatchSettings) else BatchSettings(),
    )


def _finished(judged: Coroutine[Any, Any, Evaluation]) -> Evaluation:
    """Finish an evaluation from sync code, in a thread of its own where a loop is running in this one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(judged)
    with DaemonThreads(1) as threads:
        evaluation: Evaluation = threads.submit(asyncio.run, judged).result()
        return evaluation


def judges_by_name(judges: object, model: object = None) -> dict[str, Judge]:
    """Return judges by name; functions become judges, and names are loaded, to ask the model if they ask one.

    Raises:
        ConfigurationError: If there is none, one cannot be a judge, or two share a name.
    """
    judges = named(judges, model=model, remedy=_MODEL_REMEDY)
    if isinstance(judges, Mapping):
        by_name = {judge_name(str(name)): as_judge(judge, name=str(name)) for name, judge in judges.items()}
    else:
        members = [as_judge(judge) for judge in (judges if isinstance(judges, list | tuple) else [judges])]
        for member in members:
            judge_name(member.name)
        shared = sorted(name for name, times in Counter(member.name for member in members).items() if times > 1)
        if shared:
            raise ConfigurationError(
                f"several judges are called {', '.join(map(repr, shared))}; give each a name=... of its own, or "
                f"give a mapping of names to judges"
            )
        by_name = {member.name: member for member in members}
    if not by_name:
        raise ConfigurationError("at least one judge is needed; none was given")
    return by_name


def _checked_rows(samples: Any, max_concurrency: int, columns: Mapping[str, str] | None) -> Any:
    if type(max_concurrency) is not int or max_concurrency < 1:
        raise ConfigurationError(f"max_concurrency is a whole number from 1, not {shortened(max_concurrency)}")
    if isinstance(samples, str | Path):
        raise ConfigurationError(f"samples are rows, not a path; give read_rows({shortened(str(samples))})")
    if isinstance(samples, Evaluation):
        raise ConfigurationError(
            "samples are rows, not an Evaluation; give [row.sample for row in evaluation.rows]"
        )
    rows = rows_in(samples)
    if rows is samples and not hasattr(rows, "__len__") and row_of(rows) is not None:
        raise ConfigurationError(f"samples are several rows, not one {type(samples).__name__}; give [sample]")
    return rename_rows(rows, checked_columns(columns))


@contextmanager
def _open_writer(
    judges: Mapping[str, Judge],
    out: str | Path | TextIO | None,
    on_result: Callable[[Row], object] | None,
    *,
    keep_rows: bool,
) -> Iterator[OrderedWriter]:
    with _open_output(out) as file:
        writer = OrderedWriter(judges, out=file, on_result=on_result, keep_rows=keep_rows)
        try:
            yield writer
        finally:
            writer.close()


@contextmanager
def _open_output(out: str | Path | TextIO | None) -> Iterator[TextIO | None]:
    if not isinstance(out, str | Path):
        yield out
        return
    with Path(out).open("w", encoding="utf-8", newline="\n") as file:
        yield file
