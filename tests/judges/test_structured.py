"""Failures of the transport: which may pass, who repeats them, and those that stay are told without secrets."""

from __future__ import annotations

import asyncio
import errno
import http.client
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import aiohttp
import aiohttp.http_exceptions
import httpcore
import httpx
import pytest
import urllib3.exceptions

from judges import Breaker, ConfigurationError, Helpfulness, Limiter, Verdict, limited
from judges.models.retry import is_transient, kind_of, status_of
from judges.runtime.budget import Allowance
from judges.runtime.observation import within
from judges.testing import ScriptedModel, no_waiting
from tests.kit import Way, ask, both_ways
from tests.laws import for_every

GOOD = {"rationale": "r", "rating": 4, "feedback": ""}


class _Response:
    """What a provider's client attaches to its error."""

    status_code = 429

    def __init__(self, **headers: str) -> None:
        self.headers = {name.replace("_", "-"): text for name, text in headers.items()}


class StatusFault(Exception):  # noqa: N818 - stands for a provider's class
    """An error with a status, as the clients of OpenAI, Anthropic and Ollama raise it."""

    def __init__(self, status_code: object, response: _Response | None = None) -> None:
        super().__init__("secret-key-in-the-message")
        self.status_code = status_code
        self.response = response


class CodeFault(Exception):  # noqa: N818
    """An error with a code, as Google's client raises it."""

    def __init__(self, code: object) -> None:
        super().__init__("secret-key-in-the-message")
        self.code = code


class HttpFault(Exception):  # noqa: N818
    """An error that leaves the status on its response, as httpx raises it."""

    def __init__(self, status: int) -> None:
        super().__init__("secret-key-in-the-message")
        self.response = _Response()
        self.response.status_code = status


class APIConnectionError(Exception):
    """A broken connection, known by its name alone."""


class SlowConnectionError(APIConnectionError):
    """A kind of it."""


class OutputParserException(ValueError):  # noqa: N818
    """A provider's own parser gave up."""

    llm_output = "rating: four"


async def judged(way: Way, model: ScriptedModel) -> Verdict:
    """Judge one sample with the driver named."""
    judge = Helpfulness(model)
    return await ask(judge, way, user_input="q", response="a")


TRANSIENT = [
    *[StatusFault(status) for status in (408, 409, 425, 429, 500, 502, 503, 504, 529)],
    HttpFault(503),
    CodeFault(429),
    APIConnectionError(),
    SlowConnectionError(),
    TimeoutError(),
    ConnectionResetError(),
    ConnectionRefusedError(),
]
FINAL = [
    *[StatusFault(status) for status in (400, 401, 403, 404, 413, 422, 501)],
    HttpFault(400),
    CodeFault(401),
    CodeFault("rate_limit_exceeded"),
    StatusFault("429"),
    ValueError("secret-key-in-the-message"),
    KeyError("choices"),
]


@both_ways
@for_every("fault", TRANSIENT)
async def test_passing_fault_is_repeated(way: Way, fault: Exception) -> None:
    """After two failures of the transport the third try counts, as one call; three end as `judge_failed`."""
    model = ScriptedModel([fault, fault, GOOD])
    with no_waiting() as waits:
        verdict = await judged(way, model)
    assert (verdict.rating, len(model.prompts), len(waits), verdict.usage.calls) == (4, 3, 2, 1)
    model = ScriptedModel([fault], cycle=True)
    with no_waiting():
        verdict = await judged(way, model)
    assert (verdict.unscored, len(model.prompts)) == ("judge_failed", 3)


@both_ways
@for_every("fault", FINAL)
async def test_final_fault_costs_exactly_one_call(way: Way, fault: Exception) -> None:
    """An error that repeating cannot mend is not repeated."""
    model = ScriptedModel([fault, GOOD])
    with no_waiting() as waits:
        verdict = await judged(way, model)
    assert (verdict.unscored, len(model.prompts), waits) == ("judge_failed", 1, [])


@both_ways
async def test_detail_names_type_and_status_but_not_the_message(way: Way) -> None:
    """A provider's message may hold a key: the verdict has only the error's type and status."""
    verdict = await judged(way, ScriptedModel([StatusFault(401)], name="gpt-x"))
    assert verdict.detail == "StatusFault (status 401) from gpt-x"
    assert "secret" not in verdict.model_dump_json()


@both_ways
async def test_reply_that_the_providers_parser_refused_is_invalid_output(way: Way) -> None:
    """Where a client parses and fails, the model did reply: the reason is `invalid_output`, the reply is kept."""
    verdict = await judged(way, ScriptedModel([OutputParserException()]))
    assert (verdict.unscored, verdict.raw) == ("invalid_output", "rating: four")


class _OwnRetries(ScriptedModel):
    """A model whose client repeats by itself."""

    max_retries: int | None = 2


@both_ways
@pytest.mark.parametrize(("own", "calls"), [(2, 1), (1, 1), (None, 1), (0, 3)])
async def test_retries_have_one_owner(way: Way, own: int | None, calls: int) -> None:
    """A client with retries of its own (None: its default) is not repeated from outside; one with 0 is."""
    model = _OwnRetries([StatusFault(503)], cycle=True)  # type: ignore[call-arg, arg-type]  # not seen: its __init__
    model.max_retries = own
    with no_waiting():
        verdict = await judged(way, model)
    assert (verdict.unscored, len(model.prompts)) == ("judge_failed", calls)


def test_waits_grow_from_half_a_second() -> None:
    """Left alone, the waits are random, the first below 0.5 s and the second below 1 s."""
    for _ in range(20):
        with no_waiting() as waits:
            asyncio.run(judged("sync", ScriptedModel([TimeoutError, TimeoutError, GOOD])))
        assert 0 <= waits[0] <= 0.5
        assert 0 <= waits[1] <= 1.0


@both_ways
@for_every(
    "headers, least, most",
    [
        ({"retry_after": "7"}, 7, 7),
        ({"retry_after": "1.5"}, 1.5, 1.5),
        ({"retry_after_ms": "2500"}, 2.5, 2.5),
        *(({"retry_after": one}, 60, 60) for one in ("86400", "1e300", "inf", "Fri, 31 Dec 9999 23:59:59 GMT")),
        *(({"retry_after": one}, 0, 0.5) for one in ("-5", "0", "soon", "", "nan")),
        *(({"retry_after": one}, 0, 0.5) for one in ("Wed, 99 Foo", "Wed, 21 Oct 2015 07:28:00 GMT")),
    ],
)
async def test_retry_after_is_obeyed(way: Way, headers: dict[str, str], least: float, most: float) -> None:
    """In seconds or milliseconds; nobody waits for more than a minute; what says nothing is ignored."""
    with no_waiting() as waits:
        await judged(way, ScriptedModel([StatusFault(429, _Response(**headers)), GOOD]))
    assert least <= waits[0] <= most


@both_ways
async def test_no_wait_reaches_past_the_deadline(way: Way) -> None:
    """Where the next wait would end after the deadline, the call is given up at once."""
    model = ScriptedModel([StatusFault(429, _Response(retry_after="30")), GOOD])
    with no_waiting() as waits, within(Allowance(seconds=10)):
        verdict = await judged(way, model)
    assert (verdict.unscored, len(model.prompts), waits) == ("judge_failed", 1, [])


def test_retry_after_may_be_a_date() -> None:
    """A date is waited for."""
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    with no_waiting() as waits:
        asyncio.run(judged("sync", ScriptedModel([StatusFault(429, _Response(retry_after=date)), GOOD])))
    assert 28 < waits[0] <= 30


async def test_fault_after_a_bad_reply_keeps_what_was_spent() -> None:
    """The usage of the first reply stays in a verdict that fails on the second call."""
    verdict = await judged("async", ScriptedModel(["nonsense", StatusFault(400)]))
    assert (verdict.unscored, verdict.usage.calls) == ("judge_failed", 2)
    assert verdict.usage.output_tokens == 1


async def test_cancelling_ends_the_call() -> None:
    """A cancelled judge does not turn it into a verdict; nor is one raised while asking, in sync code as well."""
    task = asyncio.create_task(judged("async", ScriptedModel([GOOD], delay_s=60)))
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(asyncio.CancelledError):
        Helpfulness(ScriptedModel([asyncio.CancelledError]))(user_input="q", response="a")


class HeaderFault(Exception):  # noqa: N818 - stands for a provider's class
    """An error with a status and the headers of its response."""

    def __init__(self, status_code: int, **headers: str) -> None:
        super().__init__("secret")
        self.status_code = status_code
        self.response = httpx.Response(status_code, headers={"retry-after": "7", **headers})


class ClientError(Exception):
    """An error as botocore raises it: the response is a mapping."""

    def __init__(self, status: int) -> None:
        super().__init__("secret")
        self.response = {"Error": {"Code": "X"}, "ResponseMetadata": {"HTTPStatusCode": status}}


def wrapped(cause: BaseException, layers: int = 1, *, explicit: bool = True) -> Exception:
    """Return an error raised from `cause`, or while `cause` was handled, through several layers."""
    outer = RuntimeError("it failed")
    inner = wrapped(cause, layers - 1, explicit=explicit) if layers > 1 else cause
    outer.__context__ = inner
    if explicit:
        outer.__cause__ = inner
    return outer


def hidden(cause: Exception) -> Exception:
    """Return an error that says its context does not matter, as `raise ... from None` does."""
    outer = wrapped(cause, explicit=False)
    outer.__suppress_context__ = True
    return outer


PASSING = [
    httpcore.ReadError(),
    httpcore.ConnectTimeout(),
    httpcore.RemoteProtocolError(),
    httpcore.ConnectionNotAvailable(),
    http.client.IncompleteRead(b"", 5),
    http.client.RemoteDisconnected(""),
    urllib3.exceptions.ProtocolError("broken", http.client.IncompleteRead(b"")),
    aiohttp.ClientPayloadError(),
    aiohttp.ServerDisconnectedError(),
    aiohttp.http_exceptions.TransferEncodingError("short"),
    aiohttp.http_exceptions.ContentLengthError("short"),
    ssl.SSLEOFError(),
    socket.gaierror(socket.EAI_AGAIN, "try again"),
    OSError(errno.ENETUNREACH, "no route"),
    ClientError(503),
    HeaderFault(429),
]
LASTING = [
    ssl.SSLCertVerificationError(),
    HeaderFault(401),
    ClientError(400),
    ValueError(),
    OSError(errno.ENOENT, "no file"),
    ConfigurationError("wrong"),
]

LAYERS: list[Callable[[Exception], Exception]] = [
    lambda error: error,
    wrapped,
    lambda error: wrapped(error, 3),
    lambda error: wrapped(error, explicit=False),
    lambda error: ExceptionGroup("g", [error]),
    lambda error: wrapped(ExceptionGroup("g", [ExceptionGroup("h", [error]), wrapped(error)])),
]


@pytest.mark.parametrize("layer", LAYERS)
def test_a_failure_is_known_through_all_that_wraps_it(layer: Callable[[Exception], Exception]) -> None:
    """Alone, as a cause, as what was handled, in groups and groups of groups: the answer is the same."""
    assert [error for error in PASSING if not is_transient(layer(error))] == []
    assert [error for error in LASTING if is_transient(layer(error))] == []


def test_the_outermost_known_error_decides() -> None:
    """A status outside counts before a broken connection inside; a context that is hidden counts for nothing."""
    denied = HeaderFault(401)
    denied.__cause__ = ConnectionResetError()
    assert not is_transient(denied)
    assert not is_transient(hidden(ConnectionResetError()))
    refused = httpx.ConnectError("x")
    refused.__cause__ = ssl.SSLCertVerificationError()
    assert not is_transient(refused)
    misconfigured = ConfigurationError("wrong")
    misconfigured.__cause__ = ConnectionResetError()
    assert not is_transient(misconfigured)


def test_one_lasting_member_makes_a_group_lasting() -> None:
    """A group passes only if every member does; an endless chain is no endless loop."""
    assert not is_transient(ExceptionGroup("g", [ConnectionResetError(), HeaderFault(401)]))
    assert is_transient(ExceptionGroup("g", [ConnectionResetError(), HeaderFault(503)]))
    first, second = ValueError(), KeyError()
    first.__cause__, second.__cause__ = second, first
    assert not is_transient(first)
    nested: Exception = ConnectionResetError()
    for _ in range(50):
        nested = ExceptionGroup("g", [nested])
    assert isinstance(is_transient(nested), bool)


def test_a_wrapped_failure_is_repeated_as_long_as_it_asks() -> None:
    """A 429 inside a group is waited for as its header says, and is no failure of a dead endpoint."""
    model = ScriptedModel([ExceptionGroup("g", [wrapped(HeaderFault(429)), TimeoutError()]), GOOD])
    with no_waiting() as waits:
        verdict = Helpfulness(model)(user_input="q", response="a")
    assert (verdict.rating, waits) == (4, [7])
    assert status_of(wrapped(HeaderFault(429))) == 429
    group = ExceptionGroup("g", [HeaderFault(401), ExceptionGroup("h", [httpcore.ReadError()]), HeaderFault(401)])
    assert kind_of(group) == "ExceptionGroup of HeaderFault (status 401), ReadError"
    breaker = Breaker(1)
    guarded = Helpfulness(limited(ScriptedModel([wrapped(HeaderFault(429)), GOOD]), Limiter(1), breaker=breaker))
    with no_waiting():
        assert guarded(user_input="q", response="a").rating == 4
    breaker.check()
