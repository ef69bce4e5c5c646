"""The model calls of a run: bounded, counted and priced; and those of one cell, journaled as they come."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from hashlib import blake2b
from typing import Any, NamedTuple, NoReturn, Protocol

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from judges.errors import ConfigurationError, JudgesError, one_line
from judges.fingerprint import fingerprint
from judges.model import EmbeddingModel, EmbeddingResponse, JudgeModel, ModelRequest, ModelResponse
from judges.models import retry
from judges.models.identity import identity_of
from judges.models.prompt_and_reply import tokens_of
from judges.models.providers.http_errors import error_in
from judges.models.wrappers.cache import key_of
from judges.models.wrappers.limiter import Limiter, Ticket
from judges.offline.run.journal import CallRecord, Journal
from judges.runtime.flow import NextTurn
from judges.runtime.prices import Price, price_of, with_cost
from judges.verdict import Usage

_log = logging.getLogger("judges")


class RememberedPrices(Mapping[str, Price]):
    """Prices that are looked up once each."""

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._prices = prices
        self._found: dict[str, Price | None] = {}

    def cost(self, usage: Usage, model: str | None, requested: str | None = None) -> Usage:
        """Return the usage of a call with its cost, by either name; None where it is unknown."""
        priced = next(
            (name for name in (model, requested) if name is not None and self.get(name) is not None), None
        )
        return usage if usage.cost is None and priced is None else with_cost(usage, priced, self)

    def __getitem__(self, name: str) -> Price:
        if name not in self._found:
            self._found[name] = price_of(name, self._prices)
        price = self._found[name]
        if price is None:
            raise KeyError(name)
        return price

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return len(self._prices)

    def __bool__(self) -> bool:
        return True


REPLY_TOKENS = (40, 400)
"""Tokens of a short and of a long reply of a judge's model."""

_HOPELESS = {401, 403, 404}
_OVERLOADED = {429, 503, 529}
_PATIENCE = 60
"""How often a call that met an overload is repeated; with a wait of up to 8 s before each, or the provider's."""

_PRICE_PAUSE_S = 0.01
_NO_SUCH_MODEL = re.compile(
    r"model\W.{0,200}\b(?:not found|not exist|unknown|no such|invalid)|(?:unknown|invalid|no such) model|"
    r"model_not_found",
    re.IGNORECASE | re.DOTALL,
)


class RunStopped(ConfigurationError):  # noqa: N818 - names what happened
    """A run has reached a limit of its own; all that was judged is in its journal, and it can be resumed."""

    exit_code = 3


def unpriced(model: str) -> ConfigurationError:
    """Return the error for a limit of cost that cannot be kept."""
    return ConfigurationError(
        f"what the model {model!r} costs is unknown, so --max-cost cannot be kept; give its price by --prices "
        f"FILE, or leave the limit out"
    )


class CallMeter:
    """All calls of a run: at most so many at once and a minute, and no more than allowed.

    Args:
        limiter: Limits of calls in flight, calls a minute and tokens a minute; slows down at an overload.
        prices: Price by model name.
        max_calls: Most calls, or None for any number.
        max_cost: Most US dollars, or None. For each call in flight is set aside what it costs with a long reply,
            and at least as much as the dearest call so far. Where no room is left for another, calls are made one
            by one, so that the limit is exceeded at most by what the last costs more than any before it.
    """

    def __init__(
        self,
        limiter: Limiter,
        *,
        prices: RememberedPrices,
        max_calls: int | None = None,
        max_cost: float | None = None,
    ) -> None:
        self.limiter, self.prices = limiter, prices
        self.max_calls, self.max_cost = max_calls, max_cost
        self.stopped: ConfigurationError | None = None
        self.calls = 0
        self.in_flight = 0
        self.cost: float | None = 0.0
        self._spent = 0.0  # as far as it is known: what one call cost that nobody knows must not lift the limit
        self._dearest: float | None = None
        self._set_aside = 0.0
        self._lock = threading.Lock()

    def send(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        """Send a request within the limits, again and again where the endpoint is overloaded."""
        try:
            return self._send(model, request)
        except Exception as error:
            if not _is_overload(error):
                raise self.failure(error, model) from error
            return retry.persist(partial(self._send, model, request), error, _PATIENCE)

    async def asend(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        """Send a request without blocking; otherwise as `send`."""
        try:
            return await self._asend(model, request)
        except Exception as error:
            if not _is_overload(error):
                raise self.failure(error, model) from error
            return await retry.apersist(partial(self._asend, model, request), error, _PATIENCE)

    @property
    def is_limited(self) -> bool:
        """True if anything but the calls at once is limited."""
        return self.limiter.is_paced or self.max_calls is not None or self.max_cost is not None

    def add(self, usage: Usage) -> None:
        """Count calls that were made elsewhere; no further call is made once they exceed a limit."""
        with self._lock:
            self.calls += usage.calls
            self._spend(usage.cost)
            if self.max_calls is not None and self.calls > self.max_calls:
                self.stopped = self.stopped or RunStopped(
                    f"stopped after {self.calls} calls, as --max-calls {self.max_calls} says"
                )
            if self.max_cost is not None and self._spent > self.max_cost:
                self.stopped = self.stopped or RunStopped(
                    f"stopped at ${self._spent:.4f} after {self.calls} calls, as --max-cost {self.max_cost:g} says"
                )

    def check(self) -> None:
        """Raise why the run has ended, if it has."""
        if self.stopped is not None:
            raise self.stopped

    def add_vectors(self, response: EmbeddingResponse, model: EmbeddingModel) -> None:
        """Count what vectors cost; the requests for them are no calls."""
        usage, name = response.usage, response.model or model.name
        if not usage.calls:
            return
        cost = self.prices.cost(usage, response.model, model.name).cost
        if cost is None and self.max_cost is not None:
            if usage.tokens_known:
                self.stop(unpriced(name))
            elif self.cost is not None:
                _log.warning("--max-cost leaves out what the embeddings of %r cost: they report no tokens", name)
        self.add(usage.model_copy(update={"calls": 0, "cost": cost}))

    def stop(self, reason: ConfigurationError) -> ConfigurationError:
        """Refuse every further call, and return the first reason for that."""
        with self._lock:
            self.stopped = self.stopped or reason
            return self.stopped

    def _send(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        ticket = self.limiter.enter(self._length(request))
        expected = 0.0 if self.max_cost is None else self.expected_cost(model, request) or 0.0
        try:
            while (share := self._claim(expected)) is None:
                time.sleep(_PRICE_PAUSE_S)
        except BaseException:
            self.limiter.cancel(ticket)
            raise
        try:
            response = model.send(request)
        except BaseException as error:
            self._settle(ticket, error, model, share)
            raise
        self._settle(ticket, response, model, share)
        return response

    async def _asend(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        ticket = await self.limiter.aenter(self._length(request))
        expected = 0.0 if self.max_cost is None else self.expected_cost(model, request) or 0.0
        try:
            while (share := self._claim(expected)) is None:  # noqa: ASYNC110 - threads settle calls, too
                await asyncio.sleep(_PRICE_PAUSE_S)
        except BaseException:
            self.limiter.cancel(ticket)
            raise
        try:
            response = await model.asend(request)
        except BaseException as error:
            self._settle(ticket, error, model, share)
            raise
        self._settle(ticket, response, model, share)
        return response

    def _length(self, request: ModelRequest) -> int:
        """Return the length of a request; it is of interest only where tokens are limited."""
        return sum([len(text) for _, text in request.messages]) if self.limiter.is_paced else 0

    def expected_cost(self, model: JudgeModel, request: ModelRequest) -> float | None:
        """Return what a call with a long reply costs; None where the price is unknown."""
        usage = Usage(calls=1, input_tokens=round(tokens_of(request)[1]), output_tokens=REPLY_TOKENS[1], cost=None)
        return self.prices.cost(usage, model.name).cost

    def _claim(self, expected: float) -> float | None:
        """Count a call to be made, and return the cost set aside for it; None if it must wait for others to end.

        Args:
            expected: What it costs with a long reply.

        Raises:
            ConfigurationError: If no further call may be made.
        """
        with self._lock:
            if self.stopped is None and self.max_calls is not None and self.calls >= self.max_calls:
                self.stopped = RunStopped(
                    f"stopped after {self.calls} calls, as --max-calls {self.max_calls} says"
                )
            share = max(expected, self._dearest or 0.0)
            if self.stopped is None and self.max_cost is not None and not self._fits(share):
                if self.in_flight:
                    return None
                self.stopped = RunStopped(
                    f"stopped at ${self._spent:.4f} after {self.calls} calls, since a further one may exceed "
                    f"--max-cost {self.max_cost:g}"
                )
            self.check()
            self.calls += 1
            self.in_flight += 1
            self._set_aside += share
            return share

    def _fits(self, share: float) -> bool:
        """Return whether one more call fits the limit of cost: beside those in flight, or alone."""
        if self._dearest is None:
            return not self.in_flight
        if not self.in_flight:
            self._set_aside, share = 0.0, self._dearest  # without what rounding has left
        return self._spent + self._set_aside + share <= (self.max_cost or 0.0)

    def _settle(
        self, ticket: Ticket, ending: ModelResponse | BaseException, model: JudgeModel, share: float
    ) -> None:
        self.limiter.release(ticket, ending)
        with self._lock:
            self.in_flight -= 1
            self._set_aside -= share
            if isinstance(ending, ModelResponse):
                self._charge(ending, model)
            elif _is_overload(ending):
                self.calls -= 1  # refused before any work, and not billed

    def _charge(self, response: ModelResponse, model: JudgeModel) -> None:
        name = response.model or model.name
        cost = self.prices.cost(response.usage, name).cost
        if cost is None and self.max_cost is not None:
            self.stopped = self.stopped or unpriced(name)
        self._spend(cost)
        if response.usage.calls:
            self._dearest = max(self._dearest or 0.0, cost or 0.0)

    def _spend(self, cost: float | None) -> None:
        self._spent += cost or 0.0
        self.cost = None if cost is None or self.cost is None else self.cost + cost

    def failure(self, error: Exception, model: JudgeModel) -> Exception:
        """Return what to raise for a failed call: an end of the run where every further one would fail alike."""
        if isinstance(error, ConfigurationError):
            return self.stop(error)
        status = retry.status_of(error)
        if status not in _HOPELESS and not (status in {400, 422} and _NO_SUCH_MODEL.search(_message_of(error))):
            return error
        remedy = "check the key" if status in {401, 403} else "check the model's name and the address"
        reason = f": {one_line(error)}" if isinstance(error, JudgesError) else ""
        return self.stop(
            ConfigurationError(
                f"the endpoint of {model.name!r} refuses all calls (status {status}); {remedy}{reason}"
            )
        )


def _message_of(error: Exception) -> str:
    """Return what an endpoint said, to look for words in it; the message itself hides those of the prompt."""
    upstream = getattr(error, "upstream", None)
    return str(error) if upstream is None else error_in(upstream.body)


def _is_overload(error: BaseException) -> bool:
    return retry.status_of(error) in _OVERLOADED


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
        response = self._replay(model, request, shared=shared)
        if response is None:
            response = self._meter.send(model, request)
            self._write(model, request, response)
        return response

    async def asend(self, model: JudgeModel, request: ModelRequest, *, shared: bool) -> ModelResponse:
        """Return the journaled response of a request, or send it without blocking."""
        response = self._replay(model, request, shared=shared)
        if response is None:
            response = await self._meter.asend(model, request)
            self._write_soon(partial(self._write, model, request, response), shared=shared)
        return response

    def embed(self, model: EmbeddingModel, texts: Sequence[str]) -> EmbeddingResponse:
        """Return the journaled vectors of texts, or embed them."""
        digest = _digest_of(model, texts)
        replayed = self._replay_vectors(digest)
        if replayed is None:
            self._meter.check()
            replayed = model.embed(texts)
            self._meter.add_vectors(replayed, model)
            self._write_vectors(digest, replayed)
        return replayed

    async def aembed(self, model: EmbeddingModel, texts: Sequence[str]) -> EmbeddingResponse:
        """Return the journaled vectors of texts, or embed them without blocking."""
        digest = _digest_of(model, texts)
        replayed = self._replay_vectors(digest)
        if replayed is None:
            self._meter.check()
            replayed = await model.aembed(texts)
            self._meter.add_vectors(replayed, model)
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
        """Return the response of the same request, asked as often before; None where it is to be sent now."""
        self.sent += 1
        if not self._records and self._collector is None:
            return None
        digest = key_of(identity_of(model), request).hex()
        number = self._count(digest)
        record, is_own = self._recorded(digest, number, shared=shared)
        response = None if record is None else _response(record)
        if response is not None:
            return response if is_own else replace(response, usage=Usage(cached=1))
        if self._collector is not None:
            place = CallPlace(row=self._row, judge=self._judge, digest=digest, number=number)
            self._collector.collect(model, request, place, shared=shared and not self._is_alone)
        return None

    def _recorded(self, digest: str, number: int, *, shared: bool) -> tuple[CallRecord | None, bool]:
        """Return the record of the same call, made as often before, and whether this judge has paid for it."""
        same = [record for record in self._records if record.digest == digest]
        records_of_judge = [record for record in same if record.judge == self._judge]
        if number < len(records_of_judge):
            return records_of_judge[number], True
        return (same[0] if shared and same and not records_of_judge else None), False

    def _count(self, digest: str) -> int:
        """Return how often a request was made before, and count it."""
        before = self._sent.get(digest, 0)
        self._sent[digest] = before + 1
        return before

    def _replay_vectors(self, digest: str) -> EmbeddingResponse | None:
        record, is_own = self._recorded(digest, self._count(digest), shared=True)
        response = None if record is None else _read(record.response)
        return response if response is None or is_own else replace(response, usage=Usage())

    def _write_vectors(self, digest: str, response: EmbeddingResponse) -> None:
        self._journal.add_call(self._row, self._judge, digest, _embedding_json(response))

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
