"""Judging a dataset: workers that pull rows from one iterator, as threads or as tasks."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import TextIO

from judges.compose.panel import as_judge
from judges.errors import BadSample, ConfigurationError
from judges.judge import Judge
from judges.offline.results import Evaluation, Row
from judges.offline.run.ordered_writer import OrderedWriter
from judges.runtime.sharing import shared_work
from judges.sample import Sample
from judges.verdict import Verdict

Given = Sample | Mapping[str, object] | BadSample
"""What a dataset holds: samples, mappings that are read as samples, and errors in the place of broken rows."""


def evaluate(
    samples: Iterable[Given],
    judges: object,
    *,
    max_concurrency: int = 8,
    out: str | Path | TextIO | None = None,
    on_result: Callable[[Row], object] | None = None,
    keep_rows: bool = True,
) -> Evaluation:
    """Judge every sample of a dataset, in threads; also inside a running event loop.

    Rows are pulled lazily, so at most `max_concurrency` are read ahead of the judges. A worker takes one row
    and lets its judges speak in turn. Whatever order rows finish in, they are written, reported and returned in
    the order they were given.

    A cell that fails is unscored and says why; so are all the cells of a row that cannot be read. Neither ends
    the evaluation.

    Args:
        samples: Samples, or mappings that are read as samples. A `BadSample` stands for a row that could not be
            read, as `read_rows(path, errors="keep")` gives it.
        judges: A judge, a list of judges, or a mapping of names to judges; functions are accepted.
        max_concurrency: How many rows are judged at once, at least 1.
        out: A path, which is overwritten, or an open text file; each row becomes one line of JSON there.
        on_result: Called with each `Row` once it has been written, in order and never twice at a time.
        keep_rows: Whether the evaluation holds the rows. False keeps memory flat on datasets of any size.

    Raises:
        ConfigurationError: At once, if a judge, its model or an argument is set up wrongly, or two judges share
            a name. Threads that are still asking a model finish in the background; nothing more is written.
    """
    members = _named(judges)
    source = _Source(_checked(samples, max_concurrency))

    def work() -> None:
        try:
            while (taken := source.take()) is not None:
                record.file(_judged(*taken, members))
        except BaseException:
            source.close()
            raise

    with _recording(members, out, on_result, keep_rows=keep_rows) as record:
        _in_threads(work, max_concurrency, source)
        return record.evaluation()


async def aevaluate(
    samples: Iterable[Given] | AsyncIterable[Given],
    judges: object,
    *,
    max_concurrency: int = 8,
    out: str | Path | TextIO | None = None,
    on_result: Callable[[Row], object] | None = None,
    keep_rows: bool = True,
) -> Evaluation:
    """Judge every sample of a dataset in tasks; otherwise as `evaluate`.

    `samples` may be an async iterable. Cancelling this cancels the judges at work.
    """
    members = _named(judges)
    _checked(samples, max_concurrency)
    taking = asyncio.Lock()

    async def work() -> None:
        while True:
            async with taking:
                taken = await anext(source, None)
            if taken is None:
                return
            record.file(await _ajudged(*taken, members))
            await asyncio.sleep(0)  # a judge that awaits nothing would keep the loop to itself

    with _recording(members, out, on_result, keep_rows=keep_rows) as record:
        async with aclosing(_numbered(samples)) as source:
            await _in_tasks([asyncio.create_task(work()) for _ in range(max_concurrency)])
        return record.evaluation()


class _Source:
    """Hands out the rows of one iterator, each once and numbered, to any number of threads."""

    def __init__(self, samples: Iterable[Given]) -> None:
        self._left = enumerate(samples)
        self._closed = False
        self._lock = threading.Lock()

    def take(self) -> tuple[int, Given] | None:
        with self._lock:
            return None if self._closed else next(self._left, None)

    def close(self) -> None:
        self._closed = True


async def _numbered(samples: Iterable[Given] | AsyncIterable[Given]) -> AsyncGenerator[tuple[int, Given], None]:
    if not isinstance(samples, AsyncIterable):
        for pair in enumerate(samples):
            yield pair
        return
    index = 0
    async for given in samples:
        yield index, given
        index += 1


def _in_threads(work: Callable[[], None], workers: int, source: _Source) -> None:
    pool = ThreadPoolExecutor(workers, thread_name_prefix="judges-offline")
    try:
        running = [pool.submit(contextvars.copy_context().run, work) for _ in range(workers)]
        for done in as_completed(running):
            done.result()
    finally:
        source.close()
        pool.shutdown(wait=False, cancel_futures=True)


async def _in_tasks(running: list[asyncio.Task[None]]) -> None:
    try:
        await asyncio.gather(*running)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _judged(index: int, given: Given, judges: Mapping[str, Judge]) -> Row:
    sample = _read(given)
    if isinstance(sample, BadSample):
        return Row.unreadable(index, sample, judges)
    with shared_work():
        verdicts = {name: _called(name, _verdict(judge, sample)) for name, judge in judges.items()}
    return Row(index=index, sample=sample, verdicts=verdicts)


async def _ajudged(index: int, given: Given, judges: Mapping[str, Judge]) -> Row:
    sample = _read(given)
    if isinstance(sample, BadSample):
        return Row.unreadable(index, sample, judges)
    with shared_work():
        verdicts = {name: _called(name, await _averdict(judge, sample)) for name, judge in judges.items()}
    return Row(index=index, sample=sample, verdicts=verdicts)


def _verdict(judge: Judge, sample: Sample) -> Verdict:
    try:
        return judge(sample)
    except Exception as error:  # noqa: BLE001 - sorted in one place
        return _failed(error, judge)


async def _averdict(judge: Judge, sample: Sample) -> Verdict:
    try:
        return await judge.acall(sample)
    except Exception as error:  # noqa: BLE001 - sorted in one place
        return _failed(error, judge)


def _failed(error: Exception, judge: Judge) -> Verdict:
    if isinstance(error, ConfigurationError):
        raise error
    return Verdict.without_score("judge_failed", f"{type(error).__name__} in {judge.name!r}")


def _called(name: str, verdict: Verdict) -> Verdict:
    return verdict if verdict.judge == name else verdict.model_copy(update={"judge": name})


def _read(given: Given) -> Sample | BadSample:
    if isinstance(given, BadSample):
        return given
    try:
        return Sample.read(given)
    except BadSample as error:
        return error


def _named(given: object) -> dict[str, Judge]:
    if isinstance(given, Mapping):
        named = {str(name): as_judge(one, name=str(name)) for name, one in given.items()}
    else:
        several = [as_judge(one) for one in (given if isinstance(given, list | tuple) else [given])]
        twice = sorted(name for name, times in Counter(one.name for one in several).items() if times > 1)
        if twice:
            raise ConfigurationError(
                f"several judges are called {', '.join(map(repr, twice))}; give each a name=... of its own, or "
                f"give a mapping of names to judges"
            )
        named = {one.name: one for one in several}
    if not named:
        raise ConfigurationError("at least one judge is needed; none was given")
    return named


def _checked(samples: object, max_concurrency: int) -> Iterable[Given]:
    if type(max_concurrency) is not int or max_concurrency < 1:
        raise ConfigurationError(f"max_concurrency is a whole number from 1, not {max_concurrency!r}")
    if isinstance(samples, str | Path):
        raise ConfigurationError(f"samples are rows, not a path; give read_rows({str(samples)!r})")
    if isinstance(samples, Sample | Mapping):
        raise ConfigurationError(f"samples are several rows, not one {type(samples).__name__}; give [sample]")
    return samples  # type: ignore[return-value]  # what is no iterable fails when it is iterated


@contextmanager
def _recording(
    judges: Mapping[str, Judge],
    out: str | Path | TextIO | None,
    on_result: Callable[[Row], object] | None,
    *,
    keep_rows: bool,
) -> Iterator[OrderedWriter]:
    with _opened(out) as file:
        record = OrderedWriter(judges, out=file, on_result=on_result, keep_rows=keep_rows)
        try:
            yield record
        finally:
            record.close()


@contextmanager
def _opened(out: str | Path | TextIO | None) -> Iterator[TextIO | None]:
    if not isinstance(out, str | Path):
        yield out
        return
    with Path(out).open("w", encoding="utf-8", newline="\n") as file:
        yield file
