"""A dead endpoint is left alone: after some failures in a row calls fail at once, until one gets through again."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from judges import AskFailed, Breaker, ConfigurationError, Helpfulness, JudgeModel, Limiter, Verdict, limited
from judges.errors import ModelRequestError
from judges.offline import evaluate
from judges.testing import ScriptedModel, no_waiting
from tests.kit import Way, ask, both_ways
from tests.laws import for_every
from tests.model_server import Reply, serving

GOOD = {"rationale": "r", "rating": 4, "feedback": ""}
GOOD_TEXT = '{"rationale": "r", "rating": 4, "feedback": ""}'
ROW = {"question": "Why?", "answer": "Because."}


class Clock:
    """Time that passes on request."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now


class StatusFault(Exception):  # noqa: N818 - stands for a provider's class
    """An error with a status."""

    def __init__(self, status_code: int) -> None:
        super().__init__(status_code)
        self.status_code = status_code


DEAD = [ConnectionRefusedError(), TimeoutError(), *map(StatusFault, (408, 500, 502, 503, 504, 529))]
ALIVE = [None, *map(StatusFault, (400, 401, 404, 409, 422, 425, 429, 501)), ValueError(), KeyError()]
NEITHER = [asyncio.CancelledError(), KeyboardInterrupt(), ModelRequestError("m"), AskFailed("deadline", "d")]


def ended(breaker: Breaker, *errors: BaseException | None) -> None:
    """Let a call through for each error, and end it so."""
    for error in errors:
        breaker.settle(error, probe=breaker.admit())


def is_open(breaker: Breaker) -> bool:
    """Tell whether calls are refused."""
    try:
        breaker.check()
    except AskFailed:
        return True
    return False


@for_every("error", DEAD)
def test_failures_in_a_row_open_the_circuit(error: Exception) -> None:
    """The third failure of the transport opens a circuit of three."""
    breaker = Breaker(3)
    ended(breaker, error, error)
    assert not is_open(breaker)
    ended(breaker, error)
    assert is_open(breaker)


@for_every("error", ALIVE)
def test_an_answer_begins_the_count_anew(error: Exception | None) -> None:
    """A reply, or an error that the endpoint itself gave, shows that it is there; a 429 does too."""
    breaker = Breaker(2)
    for _ in range(3):
        ended(breaker, TimeoutError(), error)
    assert not is_open(breaker)


@for_every("error", NEITHER)
def test_what_says_nothing_of_the_endpoint_counts_for_nothing(error: BaseException) -> None:
    """A cancelled call, or one that was never sent, neither adds to the failures nor forgets them."""
    breaker = Breaker(2)
    ended(breaker, TimeoutError(), error, error)
    assert not is_open(breaker)
    ended(breaker, TimeoutError())
    assert is_open(breaker)


def opened(failures: int = 1) -> tuple[Breaker, Clock]:
    """Give a circuit that is open for 30 seconds, and its clock."""
    clock = Clock()
    breaker = Breaker(failures, cooldown_s=30, clock=clock)
    ended(breaker, *[TimeoutError()] * failures)
    return breaker, clock


def test_the_refusal_says_when_the_next_try_is() -> None:
    """The seconds left stand in the verdict."""
    breaker, clock = opened(2)
    clock.now += 17.5
    with pytest.raises(AskFailed) as refused:
        breaker.admit()
    assert refused.value.reason == "judge_failed"
    assert refused.value.detail == "the endpoint is not answering (2 failures in a row); next try in 13 s"


def test_after_the_cooldown_one_call_tries() -> None:
    """Only one is let through meanwhile; if it succeeds all are, and if it is cancelled the next one tries."""
    breaker, clock = opened()
    clock.now += 30
    breaker.check()
    assert breaker.admit()
    with pytest.raises(AskFailed, match="one call is trying it now"):
        breaker.admit()
    breaker.settle(asyncio.CancelledError(), probe=True)
    assert breaker.admit()
    breaker.settle(None, probe=True)
    assert [breaker.admit() for _ in range(3)] == [False, False, False]


def test_a_try_that_fails_begins_the_cooldown_again() -> None:
    """The endpoint is left alone for as long once more."""
    breaker, clock = opened(3)
    clock.now += 30
    ended(breaker, TimeoutError())
    clock.now += 29
    assert is_open(breaker)
    clock.now += 1
    assert not is_open(breaker)


def test_calls_that_began_before_do_not_prolong_the_cooldown() -> None:
    """Calls in flight when the circuit opened fail later; the next try is not put off by them."""
    clock = Clock()
    breaker = Breaker(1, cooldown_s=30, clock=clock)
    late = breaker.admit()
    ended(breaker, TimeoutError())
    clock.now += 29
    breaker.settle(TimeoutError(), probe=late)
    clock.now += 1
    assert not is_open(breaker)


async def judged(way: Way, model: JudgeModel) -> Verdict:
    """Judge one row with the driver named."""
    judge = Helpfulness(model)
    return await ask(judge, way, ROW)


@both_ways
async def test_an_endpoint_that_refuses_connections_is_left_alone(way: Way) -> None:
    """With three tries a row the second row meets an open circuit, and the third one makes no try at all."""
    with socket.socket() as taken, no_waiting() as waits:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        chat = ChatOpenAI(base_url=url, model="m", api_key=SecretStr("k"), max_retries=0)
        model = limited(chat, Limiter(4), breaker=Breaker(5))
        verdicts = [await judged(way, model) for _ in range(3)]
    assert {one.unscored for one in verdicts} == {"judge_failed"}
    assert verdicts[0].detail.endswith(f"ConnectionError from m at {url.removesuffix('/v1')}")
    assert [one.detail.partition(";")[0] for one in verdicts[1:]] == [
        "the endpoint is not answering (5 failures in a row)"
    ] * 2
    assert len(waits) == 4


def test_ten_thousand_rows_do_not_wait_for_a_dead_endpoint() -> None:
    """Of a dataset only the calls that opened the circuit reach a dead endpoint; every row has its verdict."""
    with serving(lambda _: Reply(status=500)) as server, no_waiting():
        chat = ChatOpenAI(base_url=server.url, model="m", api_key=SecretStr("k"), max_retries=0)
        model = limited(chat, Limiter(2), breaker=Breaker(5))
        result = evaluate([ROW] * 500, Helpfulness(model), max_concurrency=4, keep_rows=False)
    assert result.summary["helpfulness"].unscored == {"judge_failed": 500}
    assert 5 <= len(server.requests) <= 6


@both_ways
async def test_an_endpoint_that_is_back_is_asked_again(way: Way) -> None:
    """After the cooldown the next row is judged, and so are those after it."""
    clock = Clock()
    replies = [Reply(status=503)] * 3
    with serving(lambda _: replies.pop() if replies else Reply(GOOD_TEXT)) as server, no_waiting():
        chat = ChatOpenAI(base_url=server.url, model="m", api_key=SecretStr("k"), max_retries=0)
        model = limited(chat, Limiter(4), breaker=Breaker(3, cooldown_s=30, clock=clock))
        unscored = [(await judged(way, model)).unscored for _ in range(2)]
        clock.now += 30
        ratings = [(await judged(way, model)).rating for _ in range(2)]
    assert (unscored, ratings) == (["judge_failed", "judge_failed"], [4, 4])
    assert len(server.requests) == 5


def test_a_refused_call_uses_up_no_limit() -> None:
    """What was not sent is not among the requests of the minute, and no place stays taken."""
    clock = Clock()
    model = ScriptedModel([ConnectionResetError(), GOOD, GOOD])
    wrapped = limited(model, Limiter(1, requests_per_minute=3), breaker=Breaker(1, clock=clock))
    judge = Helpfulness(wrapped)
    with no_waiting() as waits:
        assert [judge(ROW).unscored for _ in range(9)] == ["judge_failed"] * 9
        clock.now += 30
        assert [judge(ROW).rating, judge(ROW).rating] == [4, 4]
    assert len(waits) == 1
    assert waits[0] <= 0.5


def test_a_breaker_is_shared_by_the_models_of_an_endpoint() -> None:
    """What one model learns holds for the other."""
    breaker, limiter = Breaker(1), Limiter(4)
    dead = limited(ScriptedModel([TimeoutError()]), limiter, breaker=breaker)
    other = ScriptedModel([GOOD])
    with no_waiting():
        Helpfulness(dead)(ROW)
    verdict = Helpfulness(limited(other, limiter, breaker=breaker))(ROW)
    assert (verdict.unscored, other.prompts) == ("judge_failed", [])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"failures": 0}, "failures is a whole number from 1, not 0"),
        ({"failures": True}, "not True"),
        ({"cooldown_s": 0}, "cooldown_s is a number of seconds above 0, not 0"),
        ({"cooldown_s": float("inf")}, "not inf"),
        ({"cooldown_s": float("nan")}, "not nan"),
        ({"cooldown_s": True}, "not True"),
    ],
)
def test_a_setting_out_of_range_is_refused(given: dict[str, Any], message: str) -> None:
    """A breaker that could not work is an error at once."""
    with pytest.raises(ConfigurationError, match=message):
        Breaker(**given)
