"""Which failures may pass: told by the error, by what it wraps, or by every member of a group."""

from __future__ import annotations

import errno
import http.client
import socket
import ssl
from collections.abc import Callable

import aiohttp
import aiohttp.http_exceptions
import httpcore
import httpx
import pytest
import urllib3.exceptions

from judges import Breaker, ConfigurationError, Helpfulness, Limiter, limited
from judges.models.retry import is_transient, kind_of, status_of
from judges.testing import ScriptedModel, no_waiting

GOOD = {"rationale": "r", "rating": 4, "feedback": ""}


class StatusFault(Exception):  # noqa: N818 - stands for a provider's class
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


TRANSIENT = [
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
    StatusFault(429),
]
LASTING = [
    ssl.SSLCertVerificationError(),
    StatusFault(401),
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
    assert [error for error in TRANSIENT if not is_transient(layer(error))] == []
    assert [error for error in LASTING if is_transient(layer(error))] == []


def test_the_outermost_known_error_decides() -> None:
    """A status outside counts before a broken connection inside; a context that is hidden counts for nothing."""
    denied = StatusFault(401)
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
    assert not is_transient(ExceptionGroup("g", [ConnectionResetError(), StatusFault(401)]))
    assert is_transient(ExceptionGroup("g", [ConnectionResetError(), StatusFault(503)]))
    first, second = ValueError(), KeyError()
    first.__cause__, second.__cause__ = second, first
    assert not is_transient(first)
    nested: Exception = ConnectionResetError()
    for _ in range(50):
        nested = ExceptionGroup("g", [nested])
    assert isinstance(is_transient(nested), bool)


def test_a_wrapped_failure_is_repeated_as_long_as_it_asks() -> None:
    """A 429 inside a group is waited for as its header says, and is no failure of a dead endpoint."""
    model = ScriptedModel([ExceptionGroup("g", [wrapped(StatusFault(429)), TimeoutError()]), GOOD])
    with no_waiting() as waits:
        verdict = Helpfulness(model)(user_input="q", response="a")
    assert (verdict.rating, waits) == (4, [7])
    assert status_of(wrapped(StatusFault(429))) == 429
    group = ExceptionGroup("g", [StatusFault(401), ExceptionGroup("h", [httpcore.ReadError()]), StatusFault(401)])
    assert kind_of(group) == "ExceptionGroup of StatusFault (status 401), ReadError"
    breaker = Breaker(1)
    guarded = Helpfulness(limited(ScriptedModel([wrapped(StatusFault(429)), GOOD]), Limiter(1), breaker=breaker))
    with no_waiting():
        assert guarded(user_input="q", response="a").rating == 4
    breaker.check()
