"""Judging a run in rounds: cells are judged as far as the journal has replies; what they ask for next is a batch.

A round is like a start of a run that is resumed: nothing waits in memory, so the process may end at any time.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import shorten
from typing import Any

from judges.errors import ConfigurationError
from judges.judge import Judge
from judges.models import retry
from judges.models.providers.endpoint_errors import EndpointStatusError
from judges.models.providers.openai import OpenAICompatible
from judges.models.providers.openai_batches import BatchEndpoint
from judges.offline.run.batch.collecting import Collector, batched_models
from judges.offline.run.batch.fetching import Taker, read_lines
from judges.offline.run.batch.records import BatchFolder, BatchRecord, failures_of
from judges.offline.run.batch.settings import BatchSettings
from judges.offline.run.cells import JournalOnly
from judges.offline.run.journal import Journal
from judges.offline.run.judging import judge_missing, new_meter
from judges.offline.run.meter import CallMeter, RunStopped
from judges.offline.run.parts import drop_failed
from judges.offline.run.progress import OnProgress, Progress
from judges.offline.run.settings import RunSettings
from judges.offline.run.source import NumberedRows

_AT_ONCE = 64
_LONGEST_FAULT = 300
_NO_SUCH_PAGE = {404, 405, 501}
_ENDED = {"completed", "failed", "expired", "cancelled"}
_log = logging.getLogger("judges")


async def judge_in_batches(
    rows: NumberedRows, judges: Mapping[str, Judge], settings: RunSettings, folder: Path, *, log_texts: bool
) -> None:
    """Judge what is missing in a run's journal, by batches.

    Args:
        rows: The rows of the run.
        judges: The judges by name.
        settings: The settings of the run.
        folder: Its folder, whose lock is held.
        log_texts: Whether the log of a judge's own errors holds what they say.

    Raises:
        RunStopped: If a limit was reached; what was asked by then is judged.
        ConfigurationError: If a model has no batches, or the provider refuses one.
    """
    assert settings.batch is not None  # noqa: S101 - checked by the caller
    models = batched_models(judges)
    batches = BatchFolder(folder)
    if settings.retry_failed:
        drop_failed(folder)
        batches.forget_failures()
    meter = new_meter(settings, judges, _AT_ONCE)
    sender = _Sender(batches, settings.batch, models, meter, folder, settings.on_progress)
    await sender.delete_uploads()
    await sender.finish([record for record in batches.records if not record.fetched], are_new=False)
    one_pass = replace(settings, retry_failed=False, on_progress=None)
    while True:
        collector = Collector(batches, settings.batch, failures_of(batches.records), meter)
        journal = Journal(folder)
        try:
            sender.progress = await judge_missing(
                rows,
                judges,
                one_pass,
                JournalOnly(journal),
                max_concurrency=_AT_ONCE,
                log_texts=log_texts,
                meter=meter,
                collector=collector,
            )
            records = collector.finish()
        except BaseException:
            collector.discard()
            raise
        finally:
            journal.close()
        if not records:
            break
        await sender.finish(records, are_new=True)
    if collector.is_refusing:
        limits = {"--max-calls": settings.max_calls, "--max-cost": settings.max_cost}
        names = " and ".join(f"{name} {limit:g}" for name, limit in limits.items() if limit is not None)
        raise RunStopped(f"stopped after {meter.calls} calls in batches, as a further one may exceed {names}")


@dataclass
class _Sender:
    """Sends batches, waits for them, and writes their replies to the journal."""

    batches: BatchFolder
    settings: BatchSettings
    models: Mapping[str, OpenAICompatible]
    meter: CallMeter
    folder: Path
    on_progress: OnProgress | None
    progress: Progress = Progress()
    started: float = field(default_factory=time.monotonic)
    has_told_of_uploads: bool = False

    async def finish(self, records: Sequence[BatchRecord], *, are_new: bool) -> None:
        """Bring batches to their end.

        Args:
            records: The batches.
            are_new: Whether this process has collected them.
        """
        waiting: dict[BatchRecord, Mapping[str, Any]] = {}
        for record in records:
            waiting[await self._created(record, are_new=are_new)] = {}
        while True:
            for record in list(waiting):
                waiting[record] = await self._state(record) or waiting[record]
                if waiting[record].get("status") in _ENDED:
                    await self._fetch(record, waiting.pop(record), are_new=are_new)
            if not waiting:
                return
            self._report(waiting)
            await asyncio.sleep(self.settings.poll_s)

    async def _created(self, record: BatchRecord, *, are_new: bool) -> BatchRecord:
        """Upload and create a batch as far as that was not done; each id is kept before the next step."""
        model = self._model(record)
        try:
            return await self._create(record, BatchEndpoint(model.endpoint), are_new=are_new)
        except EndpointStatusError as error:
            if error.status_code in _NO_SUCH_PAGE:
                raise ConfigurationError(
                    f"the model {model.name!r} has no batches: its endpoint answered with status "
                    f"{error.status_code}; begin a new run without them, or give the address of one that has"
                ) from error
            raise self.meter.failure(error, model) from error

    async def _create(self, record: BatchRecord, endpoint: BatchEndpoint, *, are_new: bool) -> BatchRecord:
        if record.file_id is None:
            path = self.batches.requests(record.number)
            file_id = await endpoint.upload(path, record.name, may_be_there=not are_new)
            record = self.batches.write(record.model_copy(update={"file_id": file_id}))
        if record.batch_id is None and record.file_id is not None:
            batch_id = await endpoint.create(
                record.file_id, record.name, self.settings.window, may_be_there=not are_new
            )
            record = self.batches.write(record.model_copy(update={"batch_id": batch_id}))
        return record

    async def _state(self, record: BatchRecord) -> dict[str, Any]:
        """Return what the provider says of a batch; nothing while it cannot be reached."""
        try:
            return await BatchEndpoint(self._model(record).endpoint).state(record.batch_id or "")
        except Exception as error:
            if not retry.is_transient(error):
                raise ConfigurationError(
                    f"batch {record.batch_id} cannot be looked up: {error}; check key and address, and go on with "
                    f"`refine resume {self.folder}`"
                ) from error
            _log.warning("batch %s cannot be looked up now: %s", record.batch_id, retry.kind_of(error))
            return {}

    async def _fetch(self, record: BatchRecord, state: Mapping[str, Any], *, are_new: bool) -> None:
        """Write the replies of a batch that has ended to the journal."""
        if state.get("status") == "failed":
            await self._delete_upload(self.batches.write(record.model_copy(update={"fetched": True})))
            raise ConfigurationError(
                f"the provider refused batch {record.batch_id}: {_faults(state)}; mend that, and go on with "
                f"`refine resume {self.folder}`"
            )
        model = self._model(record)
        calls = self.batches.read_calls(record.number)
        journal = Journal(self.folder)
        taker = Taker(model, self.meter, journal, price=self.settings.price, is_new=are_new)
        try:
            for name in ("output_file_id", "error_file_id"):
                file_id = state.get(name)
                if not isinstance(file_id, str) or not file_id:
                    continue
                with tempfile.TemporaryFile() as file:
                    await BatchEndpoint(model.endpoint).download(file_id, file)
                    for line_id, line in read_lines(file):
                        if line_id in calls:
                            taker.take(calls.pop(line_id), line)
            for call in calls.values():
                taker.take(call, None)
        finally:
            journal.close()
        await self._delete_upload(
            self.batches.write(record.model_copy(update={"fetched": True, "failures": tuple(taker.failures)}))
        )
        if taker.end is not None:
            raise taker.end

    async def delete_uploads(self) -> None:
        """Delete the uploaded files that an earlier start of the run has left at the provider."""
        for record in self.batches.records:
            if record.is_left:
                await self._delete_upload(record, may_be_gone=True)

    async def _delete_upload(self, record: BatchRecord, *, may_be_gone: bool = False) -> None:
        """Delete the uploaded file of a batch whose replies are fetched; the first that stays is told of."""
        if self.has_told_of_uploads:
            return
        try:
            endpoint = BatchEndpoint(self._model(record).endpoint)
            await endpoint.delete(record.file_id or "", may_be_gone=may_be_gone)
        except Exception as error:  # noqa: BLE001 - the run does not need it gone
            self.has_told_of_uploads = True
            _log.warning(
                "the uploaded file %s, which holds what was judged, stays at the provider, as later ones do (%s); "
                "`refine resume %s` tries again, or delete it there",
                record.file_id,
                "no judge asks its model now" if isinstance(error, ConfigurationError) else retry.kind_of(error),
                self.folder,
            )
            return
        self.batches.write(record.model_copy(update={"deleted": True}))

    def _model(self, record: BatchRecord) -> OpenAICompatible:
        model = self.models.get(record.model)
        if model is None:
            raise ConfigurationError(
                f"a batch of {self.folder} was sent to a model that no judge asks now; go on with the model of "
                f"before, or begin a new run"
            )
        return model

    def _report(self, waiting: Mapping[BatchRecord, Mapping[str, Any]]) -> None:
        if self.on_progress is None or not waiting:
            return
        progress = replace(
            self.progress,
            calls=self.meter.calls,
            cost=self.meter.cost,
            in_flight=sum(record.requests for record in waiting),
            seconds=time.monotonic() - self.started,
            seconds_left=None,
            batches=", ".join(_described(record, state) for record, state in waiting.items()),
        )
        self.on_progress(progress)


def _described(record: BatchRecord, state: Mapping[str, Any]) -> str:
    counts = state.get("request_counts")
    counts = counts if isinstance(counts, dict) else {}
    completed, failed = (
        counts.get(name) if type(counts.get(name)) is int else 0 for name in ("completed", "failed")
    )
    faults = f", {failed:,} failed" if failed else ""
    return f"batch {record.number} {state.get('status', 'unknown')}, {completed:,} of {record.requests:,}{faults}"


def _faults(state: Mapping[str, Any]) -> str:
    """Return what the provider says of a batch that it refused as a whole."""
    errors = state.get("errors")
    data = errors.get("data") if isinstance(errors, dict) else None
    first = next((one for one in data or () if isinstance(one, dict)), {})
    words = [str(first[name]) for name in ("code", "message") if first.get(name)]
    return shorten(": ".join(words), _LONGEST_FAULT, placeholder=" ...") or "no reason given"
