"""A failed transport is repeated by one owner; what stays failed is an unscored verdict that tells no secrets."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from judges import Helpfulness, Verdict
from judges.runtime.budget import Allowance
from judges.runtime.observation import within
from judges.testing import ScriptedModel, no_waiting
from tests.kit import Way, ask, both_ways

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


def shown(error: Exception) -> str:
    """Name a fault for pytest."""
    return f"{type(error).__name__}-{getattr(error, 'status_code', getattr(error, 'code', ''))}"


@both_ways
@pytest.mark.parametrize("fault", TRANSIENT, ids=shown)
async def test_passing_fault_is_repeated(way: Way, fault: Exception) -> None:
    """After two failures of the transport the third try counts, as one call."""
    model = ScriptedModel([fault, fault, GOOD])
    with no_waiting() as waits:
        verdict = await judged(way, model)
    assert (verdict.rating, len(model.prompts), len(waits), verdict.usage.calls) == (4, 3, 2, 1)


@both_ways
@pytest.mark.parametrize("fault", TRANSIENT[::3], ids=shown)
async def test_lasting_fault_is_given_up(way: Way, fault: Exception) -> None:
    """Three failures in a row end as `judge_failed`."""
    model = ScriptedModel([fault], cycle=True)
    with no_waiting():
        verdict = await judged(way, model)
    assert (verdict.unscored, len(model.prompts)) == ("judge_failed", 3)


@both_ways
@pytest.mark.parametrize("fault", FINAL, ids=shown)
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
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({"retry_after": "7"}, 7), ({"retry_after": "1.5"}, 1.5), ({"retry_after_ms": "2500"}, 2.5)],
)
async def test_retry_after_is_obeyed(way: Way, headers: dict[str, str], seconds: float) -> None:
    """The provider says how long to wait, in seconds or milliseconds."""
    with no_waiting() as waits:
        await judged(way, ScriptedModel([StatusFault(429, _Response(**headers)), GOOD]))
    assert waits == [seconds]


def test_retry_after_may_be_a_date() -> None:
    """A date is waited for."""
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    with no_waiting() as waits:
        asyncio.run(judged("sync", ScriptedModel([StatusFault(429, _Response(retry_after=date)), GOOD])))
    assert 28 < waits[0] <= 30


@pytest.mark.parametrize("seconds", ["-5", "0", "soon", "", "nan", "Wed, 99 Foo", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_senseless_retry_after_is_ignored(seconds: str) -> None:
    """A header that says nothing usable leaves the usual wait."""
    with no_waiting() as waits:
        asyncio.run(judged("sync", ScriptedModel([StatusFault(429, _Response(retry_after=seconds)), GOOD])))
    assert 0 <= waits[0] <= 0.5


@pytest.mark.parametrize("seconds", ["86400", "1e300", "inf", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_absurd_retry_after_is_capped(seconds: str) -> None:
    """Nobody waits longer than a minute."""
    with no_waiting() as waits:
        asyncio.run(judged("sync", ScriptedModel([StatusFault(429, _Response(retry_after=seconds)), GOOD])))
    assert waits == [60]


@both_ways
async def test_no_wait_reaches_past_the_deadline(way: Way) -> None:
    """Where the next wait would end after the deadline, the call is given up at once."""
    model = ScriptedModel([StatusFault(429, _Response(retry_after="30")), GOOD])
    with no_waiting() as waits, within(Allowance(seconds=10)):
        verdict = await judged(way, model)
    assert (verdict.unscored, len(model.prompts), waits) == ("judge_failed", 1, [])


async def test_fault_after_a_bad_reply_keeps_what_was_spent() -> None:
    """The usage of the first reply stays in a verdict that fails on the second call."""
    verdict = await judged("async", ScriptedModel(["nonsense", StatusFault(400)]))
    assert (verdict.unscored, verdict.usage.calls) == ("judge_failed", 2)
    assert verdict.usage.output_tokens == 1


async def test_cancelling_ends_the_call() -> None:
    """A cancelled judge does not turn the cancellation into a verdict."""
    task = asyncio.create_task(judged("async", ScriptedModel([GOOD], delay_s=60)))
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_cancelled_error_of_a_model_is_no_verdict() -> None:
    """A cancellation raised while asking passes through, in sync code as well."""
    with pytest.raises(asyncio.CancelledError):
        Helpfulness(ScriptedModel([asyncio.CancelledError]))(user_input="q", response="a")
