"""Reading what has come of a batch: replies go to the journal, the rest is told."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

from judges.errors import ConfigurationError
from judges.model import ModelResponse
from judges.models import retry
from judges.models.providers.endpoint_errors import EndpointError, EndpointResponse, EndpointStatusError
from judges.models.providers.openai import OpenAICompatible
from judges.models.providers.openai_replies import OK
from judges.offline.run.batch.records import BatchedCall, FailedCall
from judges.offline.run.calls import response_json
from judges.offline.run.journal import Journal
from judges.offline.run.meter import CallMeter


@dataclass(frozen=True)
class Line:
    """One line of a batch's output.

    Args:
        response: The response of the endpoint; None where there is none.
        code: Why there is none.
    """

    response: EndpointResponse | None
    code: str = ""


def read_lines(file: BinaryIO) -> Iterator[tuple[str, Line]]:
    """Yield the lines of an output or error file by the ids of their calls, without those that cannot be read."""
    file.seek(0)
    for text in file:
        try:
            record = json.loads(text)
            yield str(record["custom_id"]), _line(record)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue


def _line(record: Mapping[str, Any]) -> Line:
    response = record.get("response")
    if isinstance(response, dict) and type(response.get("status_code")) is int:
        return Line(EndpointResponse(response["status_code"], {}, json.dumps(response.get("body")).encode()))
    error = record.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return Line(None, code if isinstance(code, str) else "no response")


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

    def take(self, call: BatchedCall, line: Line | None) -> None:
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
        """Whether the process that collected the batch had begun to write its replies."""
        place = call.place
        same = Counter((record.judge, record.digest) for record in self._journal.calls(place.row))
        return same[place.judge, place.digest] > place.number
