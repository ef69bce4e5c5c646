"""Collecting the calls of a run's missing cells into files, which become batches."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import BinaryIO, NoReturn

from judges.errors import AskFailed, ConfigurationError
from judges.judge import Judge
from judges.model import JudgeModel, ModelRequest
from judges.models.identity import identity_of
from judges.models.providers.openai import OpenAICompatible
from judges.offline.run.batch.records import BatchedCall, BatchFolder, BatchRecord, FailedCall
from judges.offline.run.batch.settings import BatchSettings
from judges.offline.run.calls import Awaiting, CallPlace
from judges.offline.run.estimate import REPLY_TOKENS, tokens_of
from judges.offline.run.files import cannot_write, open_private
from judges.offline.run.meter import CallMeter, unpriced
from judges.verdict import Usage


def batched_models(judges: Mapping[str, Judge]) -> dict[str, OpenAICompatible]:
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
            models[digest_of_model(model)] = model
    return models


def digest_of_model(model: JudgeModel) -> str:
    """Return a short digest of a model's identity."""
    return hashlib.sha256(identity_of(model).encode()).hexdigest()[:16]


class Collector:
    """Writes calls to files, one for each batch, within the limits of the provider and of the run.

    Args:
        folder: The batches of the run.
        settings: How calls are sent.
        failures: The failures of each call so far.
        meter: The calls and costs of the run.
    """

    def __init__(
        self,
        folder: BatchFolder,
        settings: BatchSettings,
        failures: Mapping[CallPlace, Sequence[FailedCall]],
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

    def finish(self) -> list[BatchRecord]:
        """Close the files, and return the batches that they will become."""
        records = []
        for files in (*self._finished, *self._open.values()):
            files.close()
            records.append(self._folder.new(files.number, files.model, files.lines))
        return records

    def discard(self) -> None:
        """Close the files without making batches of them."""
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
        """Whether the limits of the run leave room for one more call, if it is as long as calls may be."""
        limits = self._meter
        if self.is_refusing:
            return False
        if limits.max_calls is not None and limits.calls + len(self._taken) >= limits.max_calls:
            self.is_refusing = True
        if limits.max_cost is not None:
            usage = Usage(
                calls=1, input_tokens=round(tokens_of(request)[1]), output_tokens=REPLY_TOKENS[1], cost=None
            )
            cost = limits.prices.cost(usage, model.name).cost
            if cost is None:
                raise limits.stop(unpriced(model.name))
            self._expected_cost += cost * self._settings.price
            self.is_refusing |= (limits.cost or 0.0) + self._expected_cost > limits.max_cost
        return not self.is_refusing

    def _write(self, model: JudgeModel, request: ModelRequest, place: CallPlace) -> None:
        assert isinstance(model, OpenAICompatible)  # noqa: S101 - checked before the run began
        body = model.request_body(request)
        digest = digest_of_model(model)
        files = self._open.get(digest)
        if files is None or files.is_full(len(body), self._settings):
            if files is not None:
                self._finished.append(files)
                files.flush()
            files = self._open[digest] = _BatchFiles(self._folder, self._next, digest)
            self._next += 1
        files.write(body, BatchedCall(place=place, nonce=request.nonce))


class _BatchFiles:
    """The two files of a batch while it is collected."""

    _ENVELOPE = 120

    def __init__(self, folder: BatchFolder, number: int, model: str) -> None:
        self.number, self.model = number, model
        self.lines = self._bytes = 0
        self._files = ExitStack()
        self._requests = self._opened(folder, number, "requests")
        self._calls = self._opened(folder, number, "calls")

    def _opened(self, folder: BatchFolder, number: int, kind: str) -> BinaryIO:
        path = folder.requests(number) if kind == "requests" else folder.calls(number)
        descriptor = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        return self._files.enter_context(os.fdopen(descriptor, "wb", buffering=1 << 16))

    def is_full(self, more: int, settings: BatchSettings) -> bool:
        """Whether one more request, of some bytes, exceeds the provider's limits."""
        size = self._bytes + more + self._ENVELOPE
        return self.lines >= settings.max_requests or (size > settings.max_bytes and self.lines > 0)

    def write(self, body: bytes, call: BatchedCall) -> None:
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
