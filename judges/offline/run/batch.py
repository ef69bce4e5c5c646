"""Collecting the calls of a run's missing cells into files, which become batches."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import shorten
from typing import Any, BinaryIO, NoReturn, Self

from pydantic import BaseModel

from judges.errors import AskFailed, ConfigurationError
from judges.judge import Judge
from judges.model import JudgeModel, ModelRequest, ModelResponse
from judges.models import retry
from judges.models.identity import identity_of
from judges.models.providers.http_errors import EndpointError, EndpointResponse, EndpointStatusError
from judges.models.providers.openai import OpenAICompatible
from judges.models.providers.openai_batches import BatchEndpoint
from judges.models.providers.openai_replies import OK
from judges.offline.run.calls import Awaiting, CallMeter, CallPlace, RunStopped, response_json, unpriced
from judges.offline.run.cells import RunWork, judge_missing, new_meter
from judges.offline.run.journal import NAME as JOURNAL
from judges.offline.run.journal import Journal, cannot_write, make_folder, open_private, read_json, replacing
from judges.offline.run.manifest import Manifest
from judges.offline.run.settings import BatchSettings, OnProgress, Progress
from judges.offline.run.source import RunRows
from judges.verdict import Usage

_FOLDER = "batches"


class _BatchedCall(BaseModel, frozen=True):
    """A call in a batch.

    Args:
        place: Where it belongs.
        nonce: Random number of the request, which is removed from its reply.
    """

    place: CallPlace
    nonce: str


class _FailedCall(BaseModel, frozen=True):
    """A call that a batch has not answered.

    Args:
        place: Where it belongs.
        reason: Why, without a judged text.
        again: Whether it may succeed in another batch.
        counts: Whether it counts as a try.
    """

    place: CallPlace
    reason: str
    again: bool
    counts: bool = True


class _BatchRecord(BaseModel, frozen=True, extra="forbid"):
    """What is known of a batch.

    Args:
        number: Its number in the run, from 1.
        name: Name of its file at the provider, which no other has.
        model: Digest of the model's identity.
        requests: How many requests it has.
        file_id: Id of its uploaded file.
        batch_id: Its id.
        fetched: Whether its replies are in the journal; then its files are gone.
        failures: The calls that it has not answered.
        deleted: Whether its uploaded file is gone from the provider.
    """

    number: int
    name: str
    model: str
    requests: int
    file_id: str | None = None
    batch_id: str | None = None
    fetched: bool = False
    failures: tuple[_FailedCall, ...] = ()
    deleted: bool = False

    @property
    def is_left(self) -> bool:
        """True if its uploaded file is still at the provider, though nobody needs it any more."""
        return self.fetched and self.file_id is not None and not self.deleted


class _BatchFolder:
    """The batches of a run, in a folder below the run's.

    Args:
        run: Folder of the run.
    """

    def __init__(self, run: Path) -> None:
        self.path = run / _FOLDER
        make_folder(self.path)
        files = sorted(self.path.glob("[0-9]*.json"))
        records = (read_json(_BatchRecord, file, f"{file} cannot be read") for file in files)
        self._records = {record.number: record for record in records}
        for path in self.path.iterdir():  # of batches that were being collected when the process ended
            number = path.name.partition(".")[0]  # none in a file of others, such as a file manager's
            if path.suffix != ".json" and number.isdecimal() and int(number) not in self._records:
                path.unlink()

    @property
    def records(self) -> list[_BatchRecord]:
        """What is known of each batch."""
        return list(self._records.values())

    @property
    def next_number(self) -> int:
        """Number of the next batch."""
        return max(self._records, default=0) + 1

    def new(self, number: int, model: str, requests: int) -> _BatchRecord:
        """Return the record of a batch whose files are written."""
        return self.write(
            _BatchRecord(
                number=number,
                name=f"selfrefine-{uuid.uuid4().hex}-{number:04}.jsonl",
                model=model,
                requests=requests,
            )
        )

    def write(self, record: _BatchRecord) -> _BatchRecord:
        """Keep a record, and return it; once it is fetched, what was uploaded is removed."""
        with replacing(self.path / f"{record.number:04}.json") as file:
            file.write(record.model_dump_json().encode() + b"\n")
        self._records[record.number] = record
        if record.fetched:
            for path in (self.requests(record.number), self.calls(record.number)):
                path.unlink(missing_ok=True)
        return record

    def forget_failures(self) -> None:
        """Let calls that have failed count as never made."""
        for record in self.records:
            if record.failures:
                self.write(record.model_copy(update={"failures": ()}))

    def requests(self, number: int) -> Path:
        """Return the file with the requests of a batch, as they are uploaded."""
        return self.path / f"{number:04}.requests.jsonl"

    def calls(self, number: int) -> Path:
        """Return the file that says where the calls of a batch belong."""
        return self.path / f"{number:04}.calls.jsonl"

    def read_calls(self, number: int) -> dict[str, _BatchedCall]:
        """Return the calls of a batch by their ids in it."""
        with self.calls(number).open("rb") as file:
            return {str(line): _BatchedCall.model_validate_json(text) for line, text in enumerate(file, 1)}


def _failures_of(records: Iterable[_BatchRecord]) -> dict[CallPlace, list[_FailedCall]]:
    """Return the failures of all batches, by the call that failed."""
    by_call: dict[CallPlace, list[_FailedCall]] = {}
    for record in records:
        for failure in record.failures:
            by_call.setdefault(failure.place, []).append(failure)
    return by_call


@dataclass(frozen=True)
class _Line:
    """One line of a batch's output.

    Args:
        response: The response of the endpoint; None where there is none.
        code: Why there is none.
    """

    response: EndpointResponse | None
    code: str = ""


def _read_lines(file: BinaryIO) -> Iterator[tuple[str, _Line]]:
    """Yield the lines of an output or error file by the ids of their calls, without those that cannot be read."""
    file.seek(0)
    for text in file:
        try:
            record = json.loads(text)
            yield str(record["custom_id"]), _line(record)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue


def _line(record: Mapping[str, Any]) -> _Line:
    response = record.get("response")
    if isinstance(response, dict) and type(response.get("status_code")) is int:
        return _Line(EndpointResponse(response["status_code"], {}, json.dumps(response.get("body")).encode()))
    error = record.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return _Line(None, code if isinstance(code, str) else "no response")


class _Taker:
    """Takes the lines of one batch.

    Args:
        model: The model that was asked; what its endpoint refused of a request it leaves out from then on.
        meter: The calls of the run.
        journal: Its journal.
        price: What a call costs, as a share of its price outside of batches.
        is_new: Whether the calls belong to this start of the run, and none is in the journal yet.

    Attributes:
        failures: The calls that were not answered.
        end: What ends the run, as further calls would fail alike; None if nothing does.
    """

    def __init__(
        self, model: OpenAICompatible, meter: CallMeter, journal: Journal, *, price: float, is_new: bool
    ) -> None:
        self._model, self._meter, self._journal = model, meter, journal
        self._price, self._is_new = price, is_new
        self._before = copy(model)
        self.failures: list[_FailedCall] = []
        self.end: ConfigurationError | None = None

    def take(self, call: _BatchedCall, line: _Line | None) -> None:
        """Take a line of a call; None where the batch has none."""
        if line is None or line.response is None:
            self._fail(call, "no line" if line is None else line.code, again=True)
        elif line.response.status != OK:
            self._take_error(call, line.response)
        else:
            try:
                self._write(call, self._model.read_completion(line.response.body))
            except EndpointError as error:
                self._fail(call, retry.kind_of(error), again=True)

    def _take_error(self, call: _BatchedCall, http: EndpointResponse) -> None:
        if copy(self._before).do_without(http.status, http.body):
            if not any(not failure.counts for failure in self.failures):
                self._model.do_without(http.status, http.body)
            self._fail(call, "the endpoint refused a setting", again=True, counts=False)
            return
        error = EndpointStatusError("a line of a batch", status_code=http.status).of(http)
        failure = self._meter.failure(error, self._model)
        if isinstance(failure, ConfigurationError):
            self.end = self.end or failure
        hopeless = isinstance(failure, ConfigurationError)
        again = hopeless or retry.is_transient(error)
        self._fail(call, f"status {http.status}", again=again, counts=not hopeless)

    def _fail(self, call: _BatchedCall, reason: str, *, again: bool, counts: bool = True) -> None:
        self.failures.append(_FailedCall(place=call.place, reason=reason, again=again, counts=counts))

    def _write(self, call: _BatchedCall, response: ModelResponse) -> None:
        place = call.place
        usage = self._meter.prices.cost(response.usage, response.model or self._model.name)
        if response.usage.cost is None and usage.cost is not None:
            usage = usage.model_copy(update={"cost": usage.cost * self._price})
        if self._is_new:
            self._meter.add(usage)
        elif self._is_there(call):
            return
        text = response_json(replace(response, usage=usage), call.nonce)
        if text is None:
            self._fail(call, "a reply that is no text", again=False)
        else:
            self._journal.add_call(place.row, place.judge, place.digest, text)

    def _is_there(self, call: _BatchedCall) -> bool:
        """Return whether the process that collected the batch had begun to write its replies."""
        place = call.place
        same = Counter((record.judge, record.digest) for record in self._journal.calls(place.row))
        return same[place.judge, place.digest] > place.number


def _batched_models(judges: Mapping[str, Judge]) -> dict[str, OpenAICompatible]:
    """Return the models of judges by the digests of their identities.

    Raises:
        ConfigurationError: If one cannot be asked in batches.
    """
    models = {}
    for name, judge in judges.items():
        for model in judge.models:
            if not isinstance(model, OpenAICompatible):
                raise ConfigurationError(
                    f"the judge {name!r} asks {model.name!r} in a way that has no batches; ask it directly, by "
                    f"OpenAICompatible(...) or --base-url https://api.openai.com/v1, or leave batches out"
                )
            models[_digest_of_model(model)] = model
    return models


def _digest_of_model(model: JudgeModel) -> str:
    """Return a short digest of a model's identity."""
    return hashlib.sha256(identity_of(model).encode()).hexdigest()[:16]


class _Collector:
    """Writes calls to files, one for each batch, within the limits of the provider and of the run.

    Args:
        folder: The batches of the run.
        settings: How calls are sent.
        failures: The failures of each call so far.
        meter: The calls and costs of the run.
    """

    def __init__(
        self,
        folder: _BatchFolder,
        settings: BatchSettings,
        failures: Mapping[CallPlace, Sequence[_FailedCall]],
        meter: CallMeter,
    ) -> None:
        self._folder, self._settings, self._failures, self._meter = folder, settings, failures, meter
        self._open: dict[str, _BatchFiles] = {}
        self._finished: list[_BatchFiles] = []
        self._next = folder.next_number
        self._taken: set[tuple[int, str, str, int]] = set()
        self._expected_cost = 0.0
        self._lock = threading.Lock()
        self.is_refusing = False

    def collect(self, model: JudgeModel, request: ModelRequest, place: CallPlace, *, shared: bool) -> NoReturn:
        """Write a call to a file, once.

        Raises:
            Awaiting: When it is written, or the limits of the run leave no room for it.
            AskFailed: If it has failed for good.
            ConfigurationError: If the disk is full; no further call is made.
        """
        self._check_failures(place, model)
        key = place._replace(judge="") if shared else place
        with self._lock:
            if key not in self._taken and self._has_room(model, request):
                self._taken.add(key)
                try:
                    self._write(model, request, place)
                except OSError as error:  # no fault of the judge, which is at work here
                    raise self._meter.stop(cannot_write(self._folder.requests(self._next - 1), error)) from error
        raise Awaiting(f"a call of {place.judge!r} waits for its batch")

    def finish(self) -> list[_BatchRecord]:
        """Close the files, and return the batches that they will become."""
        records = []
        for files in (*self._finished, *self._open.values()):
            files.close()
            records.append(self._folder.new(files.number, files.model, files.lines))
        return records

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files, also without making batches of them."""
        for files in (*self._finished, *self._open.values()):
            files.discard()

    def _check_failures(self, place: CallPlace, model: JudgeModel) -> None:
        failures = self._failures.get(place, ())
        counted = [failure for failure in failures if failure.counts]
        if failures and (not failures[-1].again or len(counted) >= self._settings.tries):
            times = f", the last of {len(counted)} tries" if len(counted) > 1 else ""
            detail = f"{failures[-1].reason} in a batch from {model.name}{times}"
            raise AskFailed("judge_failed", detail, usage=Usage(calls=len(counted)))

    def _has_room(self, model: JudgeModel, request: ModelRequest) -> bool:
        """Return whether the limits of the run leave room for one more call, if it is as long as calls may be."""
        limits = self._meter
        if self.is_refusing:
            return False
        if limits.max_calls is not None and limits.calls + len(self._taken) >= limits.max_calls:
            self.is_refusing = True
        if limits.max_cost is not None:
            cost = limits.expected_cost(model, request)
            if cost is None:
                raise limits.stop(unpriced(model.name))
            self._expected_cost += cost * self._settings.price
            self.is_refusing |= (limits.cost or 0.0) + self._expected_cost > limits.max_cost
        return not self.is_refusing

    def _write(self, model: JudgeModel, request: ModelRequest, place: CallPlace) -> None:
        assert isinstance(model, OpenAICompatible)  # noqa: S101 - checked before the run began
        body = model.request_body(request)
        digest = _digest_of_model(model)
        files = self._open.get(digest)
        if files is None or files.is_full(len(body), self._settings):
            if files is not None:
                self._finished.append(files)
                files.flush()
            files = self._open[digest] = _BatchFiles(self._folder, self._next, digest)
            self._next += 1
        files.write(body, _BatchedCall(place=place, nonce=request.nonce))


class _BatchFiles:
    """The two files of a batch while it is collected."""

    _ENVELOPE = 120

    def __init__(self, folder: _BatchFolder, number: int, model: str) -> None:
        self.number, self.model = number, model
        self.lines = self._bytes = 0
        self._files = ExitStack()
        self._requests, self._calls = map(self._opened, (folder.requests(number), folder.calls(number)))

    def _opened(self, path: Path) -> BinaryIO:
        descriptor = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        return self._files.enter_context(os.fdopen(descriptor, "wb", buffering=1 << 16))

    def is_full(self, more: int, settings: BatchSettings) -> bool:
        """Return whether one more request, of some bytes, exceeds the provider's limits."""
        size = self._bytes + more + self._ENVELOPE
        return self.lines >= settings.max_requests or (size > settings.max_bytes and self.lines > 0)

    def write(self, body: bytes, call: _BatchedCall) -> None:
        """Add a request."""
        self.lines += 1
        head = json.dumps({"custom_id": str(self.lines), "method": "POST", "url": "/v1/chat/completions"})
        self._bytes += self._requests.write(head[:-1].encode() + b', "body": ' + body + b"}\n")
        self._calls.write(call.model_dump_json().encode() + b"\n")

    def flush(self) -> None:
        """Bring all that was written to the disk."""
        for file in (self._requests, self._calls):
            file.flush()
            os.fsync(file.fileno())

    def close(self) -> None:
        """Close the files, with all that was written on the disk."""
        if not self._requests.closed:
            self.flush()
        self._files.close()

    def discard(self) -> None:
        """Close the files, whatever is on the disk."""
        with suppress(OSError):
            self._files.close()


_AT_ONCE = 64
_LONGEST_FAULT = 300
_NO_SUCH_PAGE = {404, 405, 501}
_ENDED = {"completed", "failed", "expired", "cancelled"}
_log = logging.getLogger("judges")


async def judge_in_batches(rows: RunRows, work: RunWork, folder: Path) -> None:
    """Judge what is missing in a run's journal, by batches.

    Args:
        rows: The rows of the run.
        work: How they are judged.
        folder: The folder of the run, whose lock is held.

    Raises:
        RunStopped: If a limit was reached; what was asked by then is judged.
        ConfigurationError: If a model has no batches, or the provider refuses one.
    """
    settings, models = work.settings, _batched_models(work.judges)
    assert settings.batch is not None  # noqa: S101 - checked by the caller
    batches = _BatchFolder(folder)
    if settings.retry_failed:
        _drop_failed(folder)
        batches.forget_failures()
    one_pass = replace(work, max_concurrency=_AT_ONCE).evolve(retry_failed=False, on_progress=None)
    meter = new_meter(one_pass)
    sender = _Sender(batches, settings.batch, models, meter, folder, settings.on_progress)
    await sender.delete_uploads()
    await sender.finish([record for record in batches.records if not record.fetched], are_new=False)
    while True:
        collector = _Collector(batches, settings.batch, _failures_of(batches.records), meter)
        with closing(Journal(folder)) as journal, collector:
            sender.progress = await judge_missing(
                rows, one_pass, journal, size=rows.size, meter=meter, collector=collector
            )
            records = collector.finish()
        if not records:
            break
        await sender.finish(records, are_new=True)
    if collector.is_refusing:
        limits = {"--max-calls": settings.max_calls, "--max-cost": settings.max_cost}
        names = " and ".join(f"{name} {limit:g}" for name, limit in limits.items() if limit is not None)
        raise RunStopped(f"stopped after {meter.calls} calls in batches, as a further one may exceed {names}")


def _drop_failed(folder: Path) -> None:
    """Write the journal of a run anew without the cells whose judging failed, so that they count as missing."""
    with closing(Journal(folder)) as journal, replacing(folder / JOURNAL) as file:
        file.writelines(line for _, line in journal.lines(Manifest.read(folder).by_name, without_failed=True))


@dataclass
class _Sender:
    """Sends batches, waits for them, and writes their replies to the journal."""

    batches: _BatchFolder
    settings: BatchSettings
    models: Mapping[str, OpenAICompatible]
    meter: CallMeter
    folder: Path
    on_progress: OnProgress | None
    progress: Progress = Progress()
    started: float = field(default_factory=time.monotonic)
    has_told_of_uploads: bool = False

    async def finish(self, records: Sequence[_BatchRecord], *, are_new: bool) -> None:
        """Bring batches to their end.

        Args:
            records: The batches.
            are_new: Whether this process has collected them.
        """
        waiting: dict[_BatchRecord, Mapping[str, Any]] = {}
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

    async def _created(self, record: _BatchRecord, *, are_new: bool) -> _BatchRecord:
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

    async def _create(self, record: _BatchRecord, endpoint: BatchEndpoint, *, are_new: bool) -> _BatchRecord:
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

    async def _state(self, record: _BatchRecord) -> dict[str, Any]:
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

    async def _fetch(self, record: _BatchRecord, state: Mapping[str, Any], *, are_new: bool) -> None:
        """Write the replies of a batch that has ended to the journal."""
        if state.get("status") == "failed":
            await self._delete_upload(self.batches.write(record.model_copy(update={"fetched": True})))
            raise ConfigurationError(
                f"the provider refused batch {record.batch_id}: {_faults(state)}; mend that, and go on with "
                f"`refine resume {self.folder}`"
            )
        model = self._model(record)
        calls = self.batches.read_calls(record.number)
        with closing(Journal(self.folder)) as journal:
            taker = _Taker(model, self.meter, journal, price=self.settings.price, is_new=are_new)
            for name in ("output_file_id", "error_file_id"):
                file_id = state.get(name)
                if not isinstance(file_id, str) or not file_id:
                    continue
                with tempfile.TemporaryFile() as file:
                    await BatchEndpoint(model.endpoint).download(file_id, file)
                    for line_id, line in _read_lines(file):
                        if line_id in calls:
                            taker.take(calls.pop(line_id), line)
            for call in calls.values():
                taker.take(call, None)
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

    async def _delete_upload(self, record: _BatchRecord, *, may_be_gone: bool = False) -> None:
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

    def _model(self, record: _BatchRecord) -> OpenAICompatible:
        model = self.models.get(record.model)
        if model is None:
            raise ConfigurationError(
                f"a batch of {self.folder} was sent to a model that no judge asks now; go on with the model of "
                f"before, or begin a new run"
            )
        return model

    def _report(self, waiting: Mapping[_BatchRecord, Mapping[str, Any]]) -> None:
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


def _described(record: _BatchRecord, state: Mapping[str, Any]) -> str:
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
