"""Judging a dataset, in memory or into the folder of a run: `evaluate`, and `aevaluate` in tasks."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType
from typing import Any, TextIO, TypeVar

from judges.catalogue.names import named
from judges.compose.panel import as_judge
from judges.errors import ConfigurationError, shortened, unfit
from judges.judge import Judge
from judges.offline.dataset import reading
from judges.offline.results import Evaluation, Row
from judges.offline.run.cells import CellWorkers, NoJournal, RunWork
from judges.offline.run.journaled import run_samples
from judges.offline.run.outputs import OrderedRows, RowOutput
from judges.offline.run.settings import BatchSettings, RunSettings
from judges.offline.run.source import JudgeRecords, each
from judges.rows.replies import row_of
from judges.runtime import faults
from judges.runtime.flow import DaemonThreads
from judges.runtime.validation import judge_name, naming_settings

_T = TypeVar("_T")
_MODEL_REMEDY = 'give model=..., for instance model="openai:gpt-5-mini"'

_OTHER_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("dataset", "data", "examples", "rows", "test_cases", "testset"), "samples"),
    **dict.fromkeys(("metrics", "scorers", "evaluators", "judge", "scoring_functions"), "judges"),
    **dict.fromkeys(("llm", "judge_model", "evaluator_llm"), "model"),
    **dict.fromkeys(("concurrency", "max_workers", "num_workers", "num_threads", "workers"), "max_concurrency"),
    **dict.fromkeys(("batch_size", "n_jobs"), "max_concurrency"),
    **dict.fromkeys(("column_map", "column_mapping", "columns"), "map"),
    **dict.fromkeys(("callback", "on_row", "progress_callback"), "on_result"),
    **dict.fromkeys(("output", "output_path", "output_file"), "out"),
}

"""What other libraries call the arguments of an evaluation."""


@naming_settings("evaluate(rows, judge), for instance evaluate([{'answer': ...}], 'json')", **_OTHER_NAMES)
def evaluate(
    samples: Iterable[reading.RowInput],
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
    plan = _CheckedEvaluation(
        judges=_judges_of(judges, samples, model),
        samples=_rows_of(samples, max_concurrency, map),
        settings=_run_settings(run, out, resume=resume, processes=processes, batch=batch),
        max_concurrency=max_concurrency,
        out=out,
        output=RowOutput(on_result=on_result, keep_rows=keep_rows),
        log_texts=log_texts,
    )
    return plan.judge_in_threads() if plan.settings is None else finish(plan.judge())


@naming_settings("await aevaluate(rows, judge)", **_OTHER_NAMES)
async def aevaluate(
    samples: Iterable[reading.RowInput] | AsyncIterable[reading.RowInput],
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
    plan = _CheckedEvaluation(
        judges=_judges_of(judges, samples, model),
        samples=_rows_of(samples, max_concurrency, map),
        settings=_run_settings(run, out, resume=resume, processes=processes, batch=batch),
        max_concurrency=max_concurrency,
        out=out,
        output=RowOutput(on_result=on_result, keep_rows=keep_rows),
        log_texts=log_texts,
    )
    return await plan.judge()


@dataclass(frozen=True, kw_only=True)
class _CheckedEvaluation:
    """The checked arguments of an evaluation; `settings` are None for one in memory, which has no journal."""

    judges: Mapping[str, Judge]
    samples: Any
    settings: RunSettings | None
    max_concurrency: int
    out: str | Path | TextIO | None
    output: RowOutput
    log_texts: bool

    def judge_in_threads(self) -> Evaluation:
        with self._open_output() as output:
            results = OrderedRows(self.judges, output)
            with closing(results), faults.of_run(log_texts=self.log_texts):
                self._workers(enumerate(self.samples), results).run_in_threads(self.max_concurrency)
            return results.evaluation().judged_by(JudgeRecords(self.judges))

    async def judge(self) -> Evaluation:
        with self._open_output() as output:
            if self.settings is not None:
                return await self._judge_run(self.settings, output)
            results = OrderedRows(self.judges, output)
            with closing(results), faults.of_run(log_texts=self.log_texts):
                numbers = count()
                rows = ((next(numbers), row) async for row in each(self.samples))
                await self._workers(rows, results).run(self.max_concurrency)
            return results.evaluation().judged_by(JudgeRecords(self.judges))

    def _workers(
        self, rows: Iterable[reading.NumberedRow] | AsyncIterable[reading.NumberedRow], results: OrderedRows
    ) -> CellWorkers:
        return CellWorkers(rows, self.judges, NoJournal(self.judges), results)

    def _open_output(self) -> AbstractContextManager[RowOutput]:
        return nullcontext(self.output) if self.out is None else _open_file(self.out, self.output)

    async def _judge_run(self, settings: RunSettings, output: RowOutput) -> Evaluation:
        with _folder_of(settings) as in_folder:
            work = RunWork(
                judges=self.judges,
                settings=in_folder,
                max_concurrency=self.max_concurrency,
                log_texts=self.log_texts,
            )
            return await run_samples(self.samples, work, output)


def _run_settings(
    run: str | Path | RunSettings | None,
    out: object,
    *,
    resume: bool,
    processes: int | None,
    batch: bool | BatchSettings,
) -> RunSettings | None:
    """Return the settings of a run; None for an evaluation in memory."""
    if run is None and batch:
        raise ConfigurationError("batch=True goes with run=..., the folder that remembers batches until they end")
    if run is None and resume:
        raise ConfigurationError("resume=True goes with run=..., the folder of the run to go on with")
    if run is None and processes in (None, 1):
        return None
    if run is not None and out is not None:
        raise ConfigurationError("a run has its results in its folder; leave out=... away")
    settings = run if isinstance(run, RunSettings) else RunSettings(folder=run or _TEMPORARY)
    return settings.evolve(
        resume=resume or settings.resume,
        processes=settings.processes if processes is None else processes,
        batch=settings.batch if not batch else batch if isinstance(batch, BatchSettings) else BatchSettings(),
    )


_TEMPORARY = Path()
"""Stands for a folder that exists only while processes judge."""


@contextmanager
def _folder_of(settings: RunSettings) -> Iterator[RunSettings]:
    if settings.folder is not _TEMPORARY:
        yield settings
        return
    with TemporaryDirectory(prefix="judges-") as folder:
        yield settings.evolve(folder=Path(folder) / "run")


def finish(judging: Coroutine[Any, Any, _T]) -> _T:
    """Finish what judges from sync code, in a thread of its own where a loop is running in this one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(judging)
    with DaemonThreads(1) as threads:
        judged: _T = threads.submit(asyncio.run, judging).result()
        return judged


def judges_by_name(judges: object, model: object = None) -> dict[str, Judge]:
    """Return judges by name; functions become judges, and names are loaded, to ask the model if they ask one.

    Raises:
        ConfigurationError: If there is none, one cannot be a judge, or two share a name.
    """
    name: object = getattr(judges, "name", None)
    if isinstance(judges, Judge) and isinstance(name, str) and name.strip():
        return {name: judges}
    judges = named(judges, model=model, remedy=_MODEL_REMEDY)
    if isinstance(judges, Mapping):
        by_name = {judge_name(str(name)): as_judge(judge, name=str(name)) for name, judge in judges.items()}
    else:
        by_name = _by_own_names(
            [as_judge(one) for one in (judges if isinstance(judges, list | tuple) else [judges])]
        )
    if not by_name:
        raise ConfigurationError("at least one judge is needed; none was given")
    return by_name


def _by_own_names(judges: list[Judge]) -> dict[str, Judge]:
    for judge in judges:
        judge_name(judge.name)
    shared = sorted(name for name, times in Counter(judge.name for judge in judges).items() if times > 1)
    if shared:
        raise ConfigurationError(
            f"several judges are called {', '.join(map(repr, shared))}; give each a name=... of its own, or "
            f"give a mapping of names to judges"
        )
    return {judge.name: judge for judge in judges}


def _judges_of(judges: object, samples: object, model: object) -> Mapping[str, Judge]:
    if isinstance(samples, Judge | FunctionType):
        raise ConfigurationError("the rows come first, and the judges after them: evaluate(rows, judge)")
    return judges_by_name(judges, model)


def _rows_of(samples: Any, max_concurrency: int, columns: Mapping[str, str] | None) -> Any:
    if type(max_concurrency) is not int or max_concurrency < 1:
        raise unfit("max_concurrency is a whole number from 1", max_concurrency)
    if isinstance(samples, str | Path):
        raise ConfigurationError(f"samples are rows, not a path; give read_rows({shortened(str(samples))})")
    if isinstance(samples, Evaluation):
        raise ConfigurationError(
            "samples are rows, not an Evaluation; give [row.sample for row in evaluation.rows]"
        )
    if isinstance(samples, list | tuple) and samples and all(isinstance(row, str) for row in samples):
        raise ConfigurationError("samples are rows, not texts; give [{'answer': text} for text in texts]")
    if columns is None and isinstance(samples, list):
        return samples
    rows = reading.rows_in(samples)
    if rows is samples and not hasattr(rows, "__len__") and row_of(rows) is not None:
        raise ConfigurationError(f"samples are several rows, not one {type(samples).__name__}; give [sample]")
    if not hasattr(rows, "__iter__") and not hasattr(rows, "__aiter__"):
        raise ConfigurationError(
            f"samples are rows such as [{{'question': ..., 'answer': ...}}], not {shortened(samples)}"
        )
    return reading.rename_rows(rows, reading.checked_columns(columns))


@contextmanager
def _open_file(out: str | Path | TextIO, output: RowOutput) -> Iterator[RowOutput]:
    """Yield the output with rows written as lines to `out`, each flushed before it is reported."""
    with (
        Path(out).open("w", encoding="utf-8", newline="\n")
        if isinstance(out, str | Path)
        else nullcontext(out) as file
    ):

        def write(row: Row) -> None:
            file.write(f"{row.line()}\n")
            file.flush()
            if output.on_result is not None:
                output.on_result(row)

        yield replace(output, on_result=write)
