"""A limiter keeps an endpoint's limits for all who ask it, in the order in which they came."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, SecretStr

from judges import Breaker, Cache, ConfigurationError, Helpfulness, JudgeModel, Limiter, cached, limited
from judges.model import ModelRequest, ModelResponse
from judges.models.retry import pause
from judges.models.wrappers.limiter import MINUTE_S, AdmissionQueue, Ticket
from judges.offline import aevaluate, evaluate
from judges.runtime.budget import Allowance
from judges.runtime.observation import within
from judges.testing import ScriptedModel, no_waiting
from tests.kit import Way, ask, both_ways
from tests.model_server import Reply, in_turn, serving

GOOD = {"rationale": "r", "rating": 4, "feedback": ""}
GOOD_TEXT = '{"rationale": "r", "rating": 4, "feedback": ""}'
ROW = {"question": "Why?", "answer": "Because."}


async def judged(way: Way, model: JudgeModel) -> Any:
    """Judge one row with the driver named."""
    judge = Helpfulness(model)
    return await ask(judge, way, ROW)


class Crowded:
    """A judge's model that notes how many calls are in it at once, and keeps each for a moment."""

    name = "crowded"
    retries = 0

    def __init__(self) -> None:
        self.now = self.most = self.calls = 0
        self._lock = threading.Lock()

    def _come(self) -> None:
        with self._lock:
            self.now += 1
            self.calls += 1
            self.most = max(self.most, self.now)

    def _go(self) -> ModelResponse:
        with self._lock:
            self.now -= 1
        return ModelResponse(GOOD_TEXT)

    def send(self, request: ModelRequest) -> ModelResponse:
        """Stay for a moment."""
        self._come()
        threading.Event().wait(0.001)
        return self._go()

    async def asend(self, request: ModelRequest) -> ModelResponse:
        """Stay for some turns of the loop."""
        self._come()
        for _ in range(5):
            await asyncio.sleep(0)
        return self._go()

    def is_model(self, other: object) -> bool:
        """Tell whether it is this."""
        return other is self


@dataclass(frozen=True)
class Job:
    """A call of a simulation: when it comes, how long it takes, how it ends, and its caller's patience."""

    comes: float
    takes: float
    tokens: int
    ends: Literal["reply", "overload", "failure"]
    leaves: float


@dataclass
class World:
    """A admission in simulated time, and what went through it."""

    admission: AdmissionQueue
    now: float = 0.0
    begun: list[tuple[float, int]] = field(default_factory=list)
    in_flight: int = 0
    most: int = 0
    events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    count: itertools.count[int] = field(default_factory=itertools.count)

    def at(self, when: float, do: Callable[[], None]) -> None:
        """Do something later."""
        heapq.heappush(self.events, (max(when, self.now), next(self.count), do))

    def run(self) -> None:
        """Let time pass until nothing happens any more."""
        for _ in range(100_000):
            if not self.events:
                return
            self.now, _, do = heapq.heappop(self.events)
            do()
        raise AssertionError("somebody asks for ever")


class Caller:
    """Somebody who lines up, asks whenever woken, calls, and ends."""

    def __init__(self, world: World, number: int, job: Job) -> None:
        self.world, self.number, self.job = world, number, job
        self.state = "out"
        self.ticket = Ticket(job.tokens * 4, lambda: world.at(world.now, self.ask))
        world.at(job.comes, self.come)

    def come(self) -> None:
        """Line up."""
        self.state = "waiting"
        self.world.admission.enqueue(self.ticket)
        self.world.at(self.world.now + self.job.leaves, self.leave)
        self.ask()

    def ask(self) -> None:
        """Ask for a place."""
        if self.state != "waiting":
            return
        seconds = self.world.admission.ask(self.ticket, self.world.now)
        if seconds == 0:
            self.state = "in_flight"
            self.world.begun.append((self.world.now, self.number))
            self.world.in_flight += 1
            self.world.most = max(self.world.most, self.world.in_flight)
            assert self.world.in_flight <= self.world.admission.allowed
            self.world.at(self.world.now + self.job.takes, self.release)
        elif seconds < math.inf:
            self.world.at(self.world.now + seconds, self.ask)

    def leave(self) -> None:
        """Lose patience."""
        if self.state == "waiting":
            self.state = "left"
            self.world.admission.cancel(self.ticket)

    def release(self) -> None:
        """End the call."""
        self.state = "done"
        self.world.in_flight -= 1
        tokens = self.job.tokens if self.job.ends == "reply" else None
        self.world.admission.release(self.ticket, tokens=tokens, overloaded=self.job.ends == "overload")


JOBS = st.lists(
    st.builds(
        Job,
        comes=st.floats(0, 200),
        takes=st.floats(0, 50),
        tokens=st.integers(0, 300),
        ends=st.sampled_from(["reply", "reply", "overload", "failure"]),
        leaves=st.one_of(st.just(math.inf), st.floats(0, 100)),
    ),
    max_size=30,
)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(
    jobs=JOBS,
    in_flight=st.integers(1, 5),
    requests=st.none() | st.integers(1, 10),
    tokens=st.none() | st.integers(1, 500),
)
def test_limits_hold_and_everybody_is_served(
    jobs: list[Job], in_flight: int, requests: int | None, tokens: int | None
) -> None:
    """Whatever comes and goes: never too many at once or a minute, first come first served, none forgotten."""
    world = World(AdmissionQueue(in_flight, requests=requests, tokens=tokens))
    callers = [Caller(world, number, job) for number, job in enumerate(sorted(jobs, key=lambda job: job.comes))]
    world.run()
    assert all(caller.state in ("done", "left") for caller in callers)
    assert [caller.state for caller in callers if caller.job.leaves == math.inf].count("left") == 0
    assert world.most <= in_flight
    begun = [when for when, _ in world.begun]
    if requests is not None:
        assert all(later >= first + MINUTE_S for first, later in zip(begun, begun[requests:], strict=False))
    assert [number for _, number in world.begun] == sorted(number for _, number in world.begun)
    assert 1 <= world.admission.allowed <= in_flight
    last = Ticket(0, lambda: None)
    world.admission.enqueue(last)
    assert world.admission.ask(last, world.now + 10 * MINUTE_S) == 0


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(spent=st.lists(st.integers(0, 200), max_size=30), tokens=st.integers(1, 500))
def test_tokens_of_a_minute_are_exceeded_by_at_most_one_call(spent: list[int], tokens: int) -> None:
    """Calls one after another never begin when the last minute's replies have used up its tokens."""
    admission = AdmissionQueue(1, tokens=tokens)
    now, paid = 0.0, list[tuple[float, int]]()
    for one in spent:
        ticket = Ticket(100, lambda: None)
        admission.enqueue(ticket)
        while seconds := admission.ask(ticket, now):
            now += seconds
        assert sum(amount for when, amount in paid if when + MINUTE_S > now) <= tokens
        admission.release(ticket, tokens=one)
        paid.append((now, one))


def through(admission: AdmissionQueue, characters: int = 0, now: float = 0.0) -> Ticket:
    """Go through at once."""
    ticket = Ticket(characters, lambda: None)
    admission.enqueue(ticket)
    assert admission.ask(ticket, now) == 0
    return ticket


def test_overload_halves_once_for_all_calls_in_flight() -> None:
    """Eight calls refused together halve the limit once; those begun later halve it again, down to one."""
    admission = AdmissionQueue(8)
    for expected in (4, 2, 1, 1):
        tickets = [through(admission) for _ in range(admission.allowed)]
        for ticket in tickets:
            admission.release(ticket, overloaded=True)
        assert admission.allowed == expected


def test_successes_win_the_limit_back_one_by_one() -> None:
    """One more is allowed after as many successes as are allowed at once, up to what was configured."""
    admission = AdmissionQueue(4)
    admission.release(through(admission), overloaded=True)
    for _ in range(9):
        admission.release(through(admission))  # a broken call neither lowers the limit nor counts as a success
    assert admission.allowed == 2
    seen = []
    for _ in range(8):
        admission.release(through(admission), tokens=1)
        seen.append(admission.allowed)
    assert seen == [2, 3, 3, 3, 4, 4, 4, 4]


def test_the_tokens_of_a_letter_are_learned() -> None:
    """After replies that cost a token per character, a request is taken to cost that, not a quarter."""
    admission = AdmissionQueue(1, tokens=1000)
    for minute in range(60):
        admission.release(through(admission, 100, minute * MINUTE_S), tokens=100)
    tickets = [Ticket(600, lambda: None) for _ in range(2)]
    now = 100 * MINUTE_S
    for ticket in tickets:
        admission.enqueue(ticket)
    assert admission.ask(tickets[0], now) == 0
    admission.release(tickets[0])
    assert admission.ask(tickets[1], now) == MINUTE_S


def test_threads_and_event_loops_share_one_limit() -> None:
    """A dataset judged in threads and two in event loops never have more in flight together than is allowed."""
    crowded, limiter = Crowded(), Limiter(3)
    judge = Helpfulness(limited(crowded, limiter))
    rows = [ROW] * 40
    results: list[Any] = []
    work: list[Callable[[], object]] = [
        lambda: results.append(evaluate(rows, judge, max_concurrency=8)),
        lambda: results.append(asyncio.run(aevaluate(rows, judge, max_concurrency=8))),
        lambda: results.append(asyncio.run(aevaluate(rows, judge, max_concurrency=8))),
    ]
    threads = [threading.Thread(target=one) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.summary["helpfulness"].scored for one in results] == [40, 40, 40]
    assert (crowded.calls, crowded.most, crowded.now) == (120, 3, 0)


@both_ways
async def test_an_overloaded_endpoint_is_asked_less(way: Way) -> None:
    """A 429 halves what may be in flight and is repeated; the wait it asks for is waited for once."""
    replies = [Reply(status=429, headers={"retry-after": "7"}), Reply(GOOD_TEXT)]
    with serving(in_turn(*replies)) as server, no_waiting() as waits:
        chat = ChatOpenAI(base_url=server.url, model="m", api_key=SecretStr("k"), max_retries=0)
        limiter = Limiter(8)
        verdict = await judged(way, limited(chat, limiter))
    assert (waits, limiter.allowed, len(server.requests)) == ([7.0], 4, 2)
    assert verdict.usage.calls == 1


@pytest.mark.parametrize(("status", "allowed"), [(429, 4), (503, 4), (529, 4), (500, 8), (504, 8), (400, 8)])
def test_which_status_means_overload(status: int, allowed: int) -> None:
    """Too many requests and overload do, other faults do not."""
    limiter = Limiter(8)
    limiter.release(limiter.enter(), StatusFault(status))
    assert limiter.allowed == allowed


class StatusFault(Exception):  # noqa: N818 - stands for a provider's class
    """An error with a status."""

    def __init__(self, status_code: int) -> None:
        super().__init__(status_code)
        self.status_code = status_code


def test_a_place_is_free_while_its_call_waits_to_be_repeated() -> None:
    """Between two tries others may call."""
    limiter = Limiter(1)
    model = limited(ScriptedModel([StatusFault(500), GOOD]), limiter)
    seen: list[float] = []

    def others(seconds: float) -> None:
        limiter.cancel(limiter.enter())
        seen.append(seconds)

    token = pause.set(others)
    try:
        assert Helpfulness(model)(ROW).rating == 4
    finally:
        pause.reset(token)
    assert len(seen) == 1


@both_ways
@pytest.mark.parametrize(("limits", "calls"), [({"requests_per_minute": 2}, 3), ({"tokens_per_minute": 10}, 2)])
async def test_the_end_of_a_minute_is_waited_for(limits: dict[str, Any], calls: int, way: Way) -> None:
    """The call that a minute has no room for waits until the first, or what it consumed, is a minute old."""
    judge = limited(ScriptedModel([GOOD], cycle=True), Limiter(9, **limits))
    with no_waiting() as waits:
        for _ in range(calls):
            assert (await judged(way, judge)).rating == 4
    assert len(waits) == 1
    assert 59 < waits[0] <= 60


@both_ways
async def test_nobody_waits_past_the_deadline(way: Way) -> None:
    """Without a free place the judge is unscored for `deadline`, at once where the wait would pass it."""
    model, limiter = ScriptedModel([GOOD], cycle=True), Limiter(1)
    ticket = limiter.enter()
    with within(Allowance(seconds=0.03)):
        verdict = await judged(way, limited(model, limiter))
    assert (verdict.unscored, model.prompts) == ("deadline", [])
    limiter.cancel(ticket)
    assert (await judged(way, limited(model, limiter))).rating == 4
    paced = limited(model, Limiter(1, requests_per_minute=1))
    assert (await judged(way, paced)).rating == 4
    with within(Allowance(seconds=30)), no_waiting() as waits:
        verdict = await judged(way, paced)
    assert (verdict.unscored, waits) == ("deadline", [])


async def test_a_cancelled_caller_gives_its_place_back() -> None:
    """The middle one of three in a queue is cancelled, the last is served; a call in flight frees its place."""
    limiter = Limiter(1)
    held = limiter.enter()
    tasks = [asyncio.create_task(limiter.aenter()) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    limiter.cancel(held)
    limiter.cancel(await tasks[0])
    limiter.cancel(await tasks[2])
    call = asyncio.create_task(judged("async", limited(ScriptedModel([GOOD], delay_s=60), limiter)))
    for _ in range(5):
        await asyncio.sleep(0)
    call.cancel()
    for cancelled in (tasks[1], call):
        with pytest.raises(asyncio.CancelledError):
            await cancelled
    limiter.cancel(limiter.enter())


def test_callers_of_an_event_loop_that_is_gone_hold_nobody_up() -> None:
    """A place in the queue that no one can come for any more is passed over."""
    limiter = Limiter(1)
    held = limiter.enter()
    loop = asyncio.new_event_loop()
    waiting = limiter.aenter()

    async def first_step() -> None:
        task = asyncio.ensure_future(waiting)
        await asyncio.sleep(0)
        kept.append(task)

    kept: list[asyncio.Future[Any]] = []
    loop.run_until_complete(first_step())
    loop.close()
    limiter.cancel(held)
    limiter.cancel(limiter.enter())
    waiting.close()
    kept[0]._log_destroy_pending = False  # type: ignore[attr-defined]  # that it is lost is what is tested


def test_callers_are_served_in_the_order_they_came() -> None:
    """Threads and tasks alike wait in one queue."""
    limiter, order = Limiter(1), list[int]()
    held = limiter.enter()

    def call(number: int) -> None:
        ticket = asyncio.run(limiter.aenter()) if number % 2 else limiter.enter()
        order.append(number)
        limiter.cancel(ticket)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(6)]
    for number, thread in enumerate(threads, 1):
        thread.start()
        while len(limiter._admission._queue) < number:
            threading.Event().wait(0.0005)
    limiter.cancel(held)
    for thread in threads:
        thread.join()
    assert order == list(range(6))


def test_a_reply_from_a_cache_counts_against_no_limit(tmp_path: Any) -> None:
    """Where nothing was sent, the minute has as many requests left as before."""
    model = ScriptedModel([GOOD], cycle=True)
    with Cache(tmp_path / "c") as cache, no_waiting() as waits:
        judge = Helpfulness(limited(cached(model, cache), Limiter(1, requests_per_minute=2)))
        verdicts = [judge(ROW) for _ in range(5)]
    assert [one.usage.cached for one in verdicts] == [0, 1, 1, 1, 1]
    assert waits == []


class Tagged(Crowded):
    """A model with everything that a wrapper must pass on."""

    scripted = True
    identity = "tagged"
    retries = 7

    class _Plain:
        def read(self, response: ModelResponse, schema: type[BaseModel]) -> BaseModel:
            return schema.model_validate(GOOD)

        def compose(self, ask: Any, nonce: str) -> ModelRequest:
            return ModelRequest((("user", "judge"),), ask.schema, nonce)

    dialect = _Plain()


def test_a_limited_model_stands_where_the_model_stood() -> None:
    """Name, retries, dialect, identity and kinship are the model's own."""
    inner = Tagged()
    model: Any = limited(inner, Limiter(1), breaker=Breaker())
    settings = (model.name, model.retries, model.dialect, model.scripted, model.identity)
    assert settings == ("crowded", 7, inner.dialect, True, "tagged")
    assert model.is_model(inner)
    assert not model.is_model(Tagged())
    assert isinstance(model, JudgeModel)
    assert Helpfulness(model)(ROW).rating == 4


def test_a_model_is_not_limited_twice_by_one_limiter() -> None:
    """A call that holds a place and waits for another one would wait for itself; what is no model is refused."""
    limiter = Limiter(1)
    once = limited(Crowded(), limiter)
    with pytest.raises(ConfigurationError, match="limited by this very limiter already"):
        limited(limited(once, Limiter(1)), limiter)
    with pytest.raises(ConfigurationError, match="a judge needs a model to ask, not 7"):
        limited(7, limiter)
    chat = ScriptedModel([GOOD])
    Helpfulness(limited(chat, limiter, temperature=0.7))(ROW)
    assert chat.settings[0]["temperature"] == 0.7


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"in_flight": 0}, "in_flight is a whole number from 1, not 0"),
        ({"in_flight": True}, "not True"),
        ({"in_flight": 2.0}, r"not 2\.0"),
        ({"in_flight": 1, "requests_per_minute": 0}, "requests_per_minute is a whole number from 1, not 0"),
        ({"in_flight": 1, "tokens_per_minute": -1}, "tokens_per_minute is a whole number from 1, not -1"),
    ],
)
def test_a_limit_out_of_range_is_refused(given: dict[str, Any], message: str) -> None:
    """A limit that lets nothing through is an error at once."""
    with pytest.raises(ConfigurationError, match=message):
        Limiter(**given)
