"""The model calls of one cell: journaled as they come, and taken from the journal where they are there."""

from __future__ import annotations

import base64
import json
import re
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from hashlib import blake2b
from typing import Any, NamedTuple, NoReturn, Protocol

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from judges.errors import ConfigurationError
from judges.fingerprint import fingerprint
from judges.model import EmbeddingModel, EmbeddingResponse, JudgeModel, ModelRequest, ModelResponse
from judges.models.identity import identity_of
from judges.models.wrappers.cache import key_of
from judges.offline.run.journal import CallRecord, Journal
from judges.offline.run.meter import CallMeter
from judges.runtime.flow import NextTurn
from judges.verdict import Usage


def _digest_of(model: EmbeddingModel, texts: Sequence[str]) -> str:
    """Return a digest of all that vectors depend on."""
    parts = ["embeddings", fingerprint(model), list(texts)]
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def _embedding_json(response: EmbeddingResponse) -> bytes:
    """Return vectors and what they cost as JSON."""
    vectors = [base64.b64encode(array("d", vector).tobytes()).decode() for vector in response.vectors]
    usage = response.usage.model_dump(mode="json")
    return json.dumps({"vectors": vectors, "usage": usage, "model": response.model}).encode()


def _read(record: Mapping[str, Any]) -> EmbeddingResponse | None:
    """Return the vectors that `response_json` has written; None where they cannot be read."""
    try:
        vectors = [array("d", base64.b64decode(text, validate=True)).tolist() for text in record["vectors"]]
        usage = Usage.model_validate(record["usage"])
    except (KeyError, TypeError, ValueError, ValidationError):
        return None
    return EmbeddingResponse(vectors, usage, record.get("model"))


class CallPlace(NamedTuple):
    """Where a call belongs.

    Args:
        row: Index of the row.
        judge: Name of the judge.
        digest: Digest of the request.
        number: Which call of its cell with this digest, from 0.
    """

    row: int
    judge: str
    digest: str
    number: int


class CallCollector(Protocol):
    """Takes calls that are made later."""

    def collect(self, model: JudgeModel, request: ModelRequest, place: CallPlace, *, shared: bool) -> NoReturn:
        """Take a call.

        Raises:
            Awaiting: The call will be made; its cell is judged again when there is a response.
            AskFailed: The call was made, and failed.
        """
        ...


class Awaiting(ConfigurationError):  # noqa: N818 - names a state, not a fault
    """A call waits for its response; like a fault of the set-up it ends the judging of its cell at once."""


class CellCalls:
    """The calls of one cell: those in the journal are not repeated, and new ones are written there.

    A call is written with the next turn of the event loop, unless its cell is finished by then.

    Args:
        meter: The calls of the run.
        journal: Its journal.
        row: Index of the row.
        judge: Name of the judge.
        next_turn: Calls what is due in the next turn of the event loop, for all cells of the run.
        records: Journaled calls of the row.
        is_alone: Whether no other judge judges the row, so that none shares a call.
        collector: Takes calls that are made later, many at once; None makes them now.

    Attributes:
        sent: How many calls were made or replayed here, repeats of failed ones included.
    """

    def __init__(
        self,
        meter: CallMeter,
        journal: Journal,
        row: int,
        judge: str,
        *,
        next_turn: NextTurn,
        records: Sequence[CallRecord] = (),
        is_alone: bool = True,
        collector: CallCollector | None = None,
    ) -> None:
        self._collector, self._next_turn = collector, next_turn
        self.sent = 0
        self._meter, self._journal = meter, journal
        self._row, self._judge, self._is_alone = row, judge, is_alone
        self._records = records
        self._sent: dict[str, int] = {}
        self._pending: list[Callable[[], None]] = []

    def send(self, model: JudgeModel, request: ModelRequest, *, shared: bool) -> ModelResponse:
        """Return the journaled response of a request, or send it."""
        self.sent += 1
        replayed = self._replay(model, request, shared=shared)
        if replayed is not None:
            return replayed
        self._collect(model, request, shared=shared)
        response = self._meter.send(model, request)
        self._write(model, request, response)
        return response

    async def asend(self, model: JudgeModel, request: ModelRequest, *, shared: bool) -> ModelResponse:
        """Return the journaled response of a request, or send it without blocking."""
        self.sent += 1
        replayed = self._replay(model, request, shared=shared)
        if replayed is not None:
            return replayed
        self._collect(model, request, shared=shared)
        response = await self._meter.asend(model, request)
        self._write_soon(partial(self._write, model, request, response), shared=shared)
        return response

    def embed(self, model: EmbeddingModel, texts: Sequence[str]) -> EmbeddingResponse:
        """Return the journaled vectors of texts, or embed them."""
        digest = _digest_of(model, texts)
        replayed = self._replay_vectors(digest)
        if replayed is None:
            replayed = model.embed(texts)
            self._write_vectors(digest, replayed)
        return replayed

    async def aembed(self, model: EmbeddingModel, texts: Sequence[str]) -> EmbeddingResponse:
        """Return the journaled vectors of texts, or embed them without blocking."""
        digest = _digest_of(model, texts)
        replayed = self._replay_vectors(digest)
        if replayed is None:
            replayed = await model.aembed(texts)
            self._write_soon(partial(self._write_vectors, digest, replayed), shared=True)
        return replayed

    def finish(self) -> None:
        """Drop what was not written yet: the cell is finished."""
        self._pending.clear()

    def _write_soon(self, write: Callable[[], None], *, shared: bool) -> None:
        """Write at once what another judge may need, else with the next turn if the cell is not finished then."""
        if shared and not self._is_alone:
            write()
        else:
            self._pending.append(write)
            self._next_turn.call(self._write_pending)

    def _write_pending(self) -> None:
        while self._pending:
            try:
                self._pending.pop(0)()
            except ConfigurationError as error:  # the disk is full
                self._meter.stop(error)

    def _replay(self, model: JudgeModel, request: ModelRequest, *, shared: bool) -> ModelResponse | None:
        """Return the response of the same request, asked as often before, if there is one."""
        if not self._records:
            return None
        record, is_own = self._recorded(key_of(identity_of(model), request).hex(), shared=shared)
        response = None if record is None else _response(record)
        return response if response is None or is_own else replace(response, usage=Usage(cached=1))

    def _recorded(self, digest: str, *, shared: bool) -> tuple[CallRecord | None, bool]:
        """Return the record of the same call, made as often before, and whether this judge has paid for it."""
        same = [record for record in self._records if record.digest == digest]
        records_of_judge = [record for record in same if record.judge == self._judge]
        number = self._counted(digest)
        if number < len(records_of_judge):
            return records_of_judge[number], True
        return (same[0] if shared and same and not records_of_judge else None), False

    def _counted(self, digest: str) -> int:
        """Return how often a request was made before, and count it."""
        before = self._sent.get(digest, 0)
        self._sent[digest] = before + 1
        return before

    def _replay_vectors(self, digest: str) -> EmbeddingResponse | None:
        if not self._records:
            return None
        record, is_own = self._recorded(digest, shared=True)
        response = None if record is None else _read(record.response)
        return response if response is None or is_own else replace(response, usage=Usage())

    def _write_vectors(self, digest: str, response: EmbeddingResponse) -> None:
        self._journal.add_call(self._row, self._judge, digest, _embedding_json(response))

    def _collect(self, model: JudgeModel, request: ModelRequest, *, shared: bool) -> None:
        if self._collector is None:
            return
        digest = key_of(identity_of(model), request).hex()
        # with records it was counted when one was looked for
        number = self._sent[digest] - 1 if self._records else self._counted(digest)
        place = CallPlace(row=self._row, judge=self._judge, digest=digest, number=number)
        self._collector.collect(model, request, place, shared=shared and not self._is_alone)

    def _write(self, model: JudgeModel, request: ModelRequest, response: ModelResponse) -> None:
        digest = key_of(identity_of(model), request).hex()
        text = response_json(response, request.nonce)
        if text is not None:
            self._journal.add_call(self._row, self._judge, digest, text)


def response_json(response: ModelResponse, nonce: str) -> bytes | None:
    """Return a response as JSON without the nonce of its request; None where it cannot be written."""
    try:
        text = _responses().dump_json(response).decode()
    except PydanticSerializationError:  # half a surrogate pair: asked again after a crash
        return None
    return (re.sub(nonce, "", text, flags=re.IGNORECASE) if nonce else text).encode()


def _response(record: CallRecord) -> ModelResponse | None:
    try:
        return _responses().validate_python(record.response)
    except ValidationError:
        return None


@cache
def _responses() -> TypeAdapter[ModelResponse]:
    return TypeAdapter(ModelResponse)
