"""What a run knows of its batches, on disk before anything is waited for: a process may end at any moment."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from judges.errors import ConfigurationError
from judges.offline.run.calls import CallPlace
from judges.offline.run.files import make_folder, replacing

FOLDER = "batches"


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
        """Whether its uploaded file is still at the provider, though nobody needs it any more."""
        return self.fetched and self.file_id is not None and not self.deleted


class BatchFolder:
    """The batches of a run, in a folder below the run's.

    Args:
        run: Folder of the run.
    """

    def __init__(self, run: Path) -> None:
        self.path = run / FOLDER
        make_folder(self.path)
        self._records = {record.number: record for record in self._read()}
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

    def _read(self) -> Iterator[BatchRecord]:
        for path in sorted(self.path.glob("*.json")):
            try:
                yield BatchRecord.model_validate_json(path.read_bytes())
            except ValidationError:
                raise ConfigurationError(
                    f"{path} cannot be read; it was changed, or written by another version of selfrefine"
                ) from None


def failures_of(records: Iterable[BatchRecord]) -> dict[CallPlace, list[FailedCall]]:
    """Return the failures of all batches, by the call that failed."""
    by_call: dict[CallPlace, list[FailedCall]] = {}
    for record in records:
        for failure in record.failures:
            by_call.setdefault(failure.place, []).append(failure)
    return by_call
