"""What a run knows of its batches, on disk before anything is waited for: a process may end at any moment."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import BaseModel, ConfigDict

from judges.errors import ConfigurationError
from judges.model import ModelResponse
from judges.models import retry
from judges.models.providers.http_errors import EndpointError, EndpointResponse, EndpointStatusError
from judges.models.providers.openai import OpenAICompatible
from judges.models.providers.openai_replies import OK
from judges.offline.run.calls import CallPlace, response_json
from judges.offline.run.journal import Journal, make_folder, read_json, replacing
from judges.offline.run.meter import CallMeter

_FOLDER = "batches"


class BatchedCall(BaseModel):
    """A call in a batch.

    Args:
        place: Where it belongs.
        nonce: Random number of the request, which is removed from its reply.
    """

    model_config = ConfigDict(frozen=True)

    place: CallPlace
    nonce: str


class FailedCall(BaseModel):
    """A call that a batch has not answered.

    Args:
        place: Where it belongs.
        reason: Why, without a judged text.
        again: Whether it may succeed in another batch.
        counts: Whether it counts as a try.
    """

    model_config = ConfigDict(frozen=True)

    place: CallPlace
    reason: str
    again: bool
    counts: bool = True


class BatchRecord(BaseModel):
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

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int
    name: str
    model: str
    requests: int
    file_id: str | None = None
    batch_id: str | None = None
    fetched: bool = False
    failures: tuple[FailedCall, ...] = ()
    deleted: bool = False

    @property
    def is_left(self) -> bool:
        """True if its uploaded file is still at the provider, though nobody needs it any more."""
        return self.fetched and self.file_id is not None and not self.deleted


class BatchFolder:
    """The batches of a run, in a folder below the run's.

    Args:
        run: Folder of the run.
    """

    def __init__(self, run: Path) -> None:
        self.path = run / _FOLDER
        make_folder(self.path)
        files = sorted(self.path.glob("*.json"))
        records = (read_json(BatchRecord, file, f"{file} cannot be read") for file in files)
        self._records = {record.number: record for record in records}
        for path in self.path.iterdir():  # of batches that were being collected when the process ended
            if path.suffix != ".json" and int(path.name.partition(".")[0]) not in self._records:
                path.unlink()

    @property
    def records(self) -> list[BatchRecord]:
        """What is known of each batch."""
        return list(self._records.values())

    @property
    def next_number(self) -> int:
        """Number of the next batch."""
        return max(self._records, default=0) + 1

    def new(self, number: int, model: str, requests: int) -> BatchRecord:
        """Return the record of a batch whose files are written."""
        return self.write(
            BatchRecord(
                number=number,
                name=f"selfrefine-{uuid.uuid4().hex}-{number:04}.jsonl",
                model=model,
                requests=requests,
            )
        )

    def write(self, record: BatchRecord) -> BatchRecord:
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

    def read_calls(self, number: int) -> dict[str, BatchedCall]:
        """Return the calls of a batch by their ids in it."""
        with self.calls(number).open("rb") as file:
            return {str(line): BatchedCall.model_validate_json(text) for line, text in enumerate(file, 1)}


def failures_of(records: Iterable[BatchRecord]) -> dict[CallPlace, list[FailedCall]]:
    """Return the failures of all batches, by the call that failed."""
    by_call: dict[CallPlace, list[FailedCall]] = {}
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


def read_lines(file: BinaryIO) -> Iterator[tuple[str, _Line]]:
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


class Taker:
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
        self.failures: list[FailedCall] = []
        self.end: ConfigurationError | None = None

    def take(self, call: BatchedCall, line: _Line | None) -> None:
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

    def _take_error(self, call: BatchedCall, http: EndpointResponse) -> None:
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

    def _fail(self, call: BatchedCall, reason: str, *, again: bool, counts: bool = True) -> None:
        self.failures.append(FailedCall(place=call.place, reason=reason, again=again, counts=counts))

    def _write(self, call: BatchedCall, response: ModelResponse) -> None:
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

    def _is_there(self, call: BatchedCall) -> bool:
        """Return whether the process that collected the batch had begun to write its replies."""
        place = call.place
        same = Counter((record.judge, record.digest) for record in self._journal.calls(place.row))
        return same[place.judge, place.digest] > place.number
