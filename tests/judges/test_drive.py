"""Both drivers execute a judge's requests: concurrently, with or without a running loop, losing no failure."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from judges import (
    AskFailed,
    ConfigurationError,
    Helpfulness,
    Judge,
    Length,
    Panel,
    Sample,
    Usage,
    Verdict,
    as_judge,
)
from judges.models.resolve import as_model
from judges.requests import Apply, Ask, Consult, Deliberates, Deliberation
from judges.runtime.observation import observing
from judges.testing import ScriptedJudge, ScriptedModel

GOOD = {"rationale": "r", "rating": 4, "feedback": ""}
How = Literal["sync", "sync in a loop", "async"]
HOWS = ("sync", "sync in a loop", "async")
everyhow = pytest.mark.parametrize("how", HOWS)

place: contextvars.ContextVar[str] = contextvars.ContextVar("place", default="nowhere")


def judge_sample(how: How, judge: Judge) -> Verdict:
    """Judge one sample: from sync code, from sync code inside a running event loop, or from async code."""

    async def inside() -> Verdict:
        return judge(user_input="q", response="a")

    async def awaited() -> Verdict:
        return await judge.acall(user_input="q", response="a")

    if how == "sync":
        return judge(user_input="q", response="a")
    return asyncio.run(inside() if how == "sync in a loop" else awaited())


class Written(Judge):
    """A judge whose deliberation is a generator function passed to it."""

    name = "written"

    def __init__(self, deliberation: Callable[[Sample], Any]) -> None:
        self._deliberation = deliberation

    def deliberate(self, sample: Sample) -> Deliberation:
        """Run the generator function."""
        deliberation: Deliberation = self._deliberation(sample)
        return deliberation


class _Answer(BaseModel):
    text: str


def question(model: ScriptedModel) -> Ask:
    """Return a question that asks a model for a text."""
    return Ask(model=as_model(model), task="t", data={"a": 1}, reminder="r", schema=_Answer)


@everyhow
def test_async_function_is_judged(how: How) -> None:
    """It is run to its end from sync code, too, in a running loop or without; a sync one works from async code."""

    async def rate(sample: Sample) -> int:
        await asyncio.sleep(0)
        return 4 if place.get() == "here" else 1

    place.set("here")
    assert judge_sample(how, as_judge(rate)).rating == 4
    assert judge_sample(how, as_judge(lambda sample: 4)).rating == 4


def test_sync_function_does_not_block_the_loop() -> None:
    """From async code a sync function runs in another thread."""
    threads: list[int] = []

    def note(sample: Sample) -> bool:
        threads.append(threading.get_ident())
        return True

    assert judge_sample("async", as_judge(note)).passed
    assert threads != [threading.get_ident()]


@everyhow
def test_requests_of_a_tuple_run_at_once(how: How) -> None:
    """Members that wait for one another all get to run, and answers keep the order of the requests."""
    barrier = threading.Barrier(5, timeout=10)

    def member(number: int) -> Callable[[Sample], float]:
        def score(sample: Sample) -> float:
            barrier.wait()
            return number / 4

        return score

    panel = Panel({f"m{number}": member(number) for number in range(5)})
    assert [item.score for item in judge_sample(how, panel).items] == [0, 0.25, 0.5, 0.75, 1]


def test_async_requests_of_a_tuple_run_at_once() -> None:
    """Async members share the loop."""
    reached: list[int] = []
    together = asyncio.Event()

    def member(number: int) -> Callable[[Sample], Any]:
        async def rate(sample: Sample) -> int:
            reached.append(number)
            if len(reached) == 20:
                together.set()
            await together.wait()
            return 4

        return rate

    assert judge_sample("async", Panel([as_judge(member(n), name=f"m{n}") for n in range(20)])).rating == 4


@everyhow
def test_context_variables_reach_every_request(how: How) -> None:
    """Functions in threads see the caller's context, nested panels included."""
    seen: list[str] = []

    def look(sample: Sample) -> bool:
        seen.append(place.get())
        return True

    place.set("here")
    judge_sample(how, Panel([Panel([look, look]), look]))
    assert seen == ["here"] * 3


@everyhow
def test_failures_in_a_tuple_are_values(how: How) -> None:
    """One failed request does not cost the others; its answer is an `AskFailed`."""
    received: list[Any] = []

    def deliberation(sample: Sample) -> Any:
        answers = yield (
            question(ScriptedModel([{"text": "fine"}])),
            question(ScriptedModel(["nonsense", "nonsense"])),
            Apply(lambda _: 1 / 0, sample),
            Consult(ScriptedJudge([RuntimeError()]), sample),
        )
        received.extend(answers)
        return Verdict.rated(4)

    verdict = judge_sample(how, Written(deliberation))
    text, invalid, divided, consulted = received
    assert text.text == "fine"
    assert (invalid.reason, divided.reason, consulted.unscored) == (
        "invalid_output",
        "judge_failed",
        "judge_failed",
    )
    assert (verdict.rating, verdict.usage.calls) == (4, 3)


@everyhow
def test_single_failure_is_raised_inside_the_deliberation(how: How) -> None:
    """A judge may catch it and continue; uncaught, its reason, raw reply and usage become the verdict's."""

    def uncaught(sample: Sample) -> Any:
        yield question(ScriptedModel(["nonsense", "still nonsense"]))

    def caught(sample: Sample) -> Any:
        try:
            yield from uncaught(sample)
        except AskFailed as failure:
            return Verdict.rated(2, rationale=failure.reason)

    verdict = judge_sample(how, Written(caught))
    assert (verdict.rating, verdict.rationale, verdict.usage.calls) == (2, "invalid_output", 2)
    verdict = judge_sample(how, Written(uncaught))
    assert (verdict.unscored, verdict.raw, verdict.usage.calls) == ("invalid_output", "still nonsense", 2)


def _fail(*_: object) -> Any:
    raise KeyError("secret")


def yielding(*requests: Any, then: Callable[..., Any] = lambda answer: Verdict.rated(4)) -> Callable[..., Any]:
    """Return a deliberation that yields requests, and returns what is made of the last answer."""

    def deliberation(sample: Sample) -> Any:
        answer = None
        for request in requests:
            answer = yield request(sample) if callable(request) else request
        return then(answer)

    return deliberation


@everyhow
@pytest.mark.parametrize(
    "deliberation", [yielding((), then=_fail), _fail, yielding(lambda sample: Apply(_fail, sample))]
)
def test_fault_of_a_judge_is_unscored_and_names_only_its_type(how: How, deliberation: Callable[..., Any]) -> None:
    """A judge's own error is `judge_failed`; its message, which may contain anything, is not reported."""
    verdict = judge_sample(how, Written(deliberation))
    assert verdict.unscored == "judge_failed"
    assert "KeyError" in verdict.detail
    assert "secret" not in verdict.model_dump_json()


@everyhow
@pytest.mark.parametrize(
    "deliberation",
    [
        yielding((), then=lambda answer: None),
        yielding((), then=lambda answer: 4),
        yielding(None),
        yielding(lambda sample: [Apply(str, sample)]),
        yielding(lambda sample: (Apply(str, sample), "text")),
        yielding(lambda sample: Apply(lambda _: next(iter(())), sample)),
    ],
    ids=["returns nothing", "returns a number", "yields nothing", "a list", "a mixture", "StopIteration"],
)
def test_deliberation_that_breaks_the_rules_is_unscored(how: How, deliberation: Callable[..., Any]) -> None:
    """One that yields no request, returns no verdict, or whose function ends like a generator, crashes nobody."""
    assert judge_sample(how, Written(deliberation)).unscored == "judge_failed"


@everyhow
def test_empty_tuple_of_requests_is_answered_with_none(how: How) -> None:
    """An empty tuple of requests has an empty tuple of answers."""
    verdict = judge_sample(
        how, Written(yielding((), then=lambda answers: Verdict.rated(4 if answers == () else 1)))
    )
    assert verdict.rating == 4


@everyhow
def test_deliberation_that_is_no_generator_is_refused(how: How) -> None:
    """A `deliberate` that returns a verdict without a `yield` is a mistake of its author, told with the remedy."""
    with pytest.raises(ConfigurationError, match=r"returned a Verdict: it must be a generator.* by as_judge"):
        judge_sample(how, Written(lambda sample: Verdict.rated(4)))


@everyhow
@pytest.mark.parametrize("alone", [True, False])
def test_wrong_set_up_is_raised(how: How, alone: bool) -> None:  # noqa: FBT001 - a parameter of pytest
    """A `ConfigurationError` never becomes a verdict, not even in a member of a panel."""
    judge = Helpfulness(ScriptedModel([]))
    with pytest.raises(ConfigurationError, match="run out"):
        judge_sample(how, judge if alone else Panel([judge, Length(at_least=1)]))


async def test_wrong_set_up_leaves_no_task_behind() -> None:
    """The other members are finished before the error is raised."""
    finished: list[bool] = []

    async def slow(sample: Sample) -> bool:
        for _ in range(20):
            await asyncio.sleep(0)
        finished.append(True)
        return True

    with pytest.raises(ConfigurationError):
        await Panel([Helpfulness(ScriptedModel([])), slow]).acall(response="a")
    assert finished == [True]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@everyhow
@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt, SystemExit])
def test_what_is_no_exception_passes_through(how: How, error: type[BaseException]) -> None:
    """A cancellation or an interrupt is not a judge's fault."""

    def deliberation(sample: Sample) -> Any:
        yield ()
        raise error

    with pytest.raises(error):
        judge_sample(how, Written(deliberation))


async def test_cancelling_a_panel_cancels_its_members() -> None:
    """A cancelled judge leaves nothing running."""
    stopped: list[str] = []

    async def wait(sample: Sample) -> bool:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append("stopped")
        return True

    task = asyncio.create_task(Panel([wait, wait, wait]).acall(response="a"))
    for _ in range(10):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stopped == ["stopped"] * 3


@everyhow
def test_usage_is_that_of_all_requests(how: How) -> None:
    """A panel's usage is the sum of its members', re-asks included; what a function reports is kept."""
    panel = Panel([Helpfulness(ScriptedModel([GOOD], name="m-1")), Helpfulness(ScriptedModel(["x", GOOD]))])
    verdict = judge_sample(how, panel)
    assert verdict.usage.calls == 3
    assert verdict.usage.tokens == sum(item.usage.tokens for item in verdict.items)
    assert verdict.model == "m-1"
    spent = Usage(calls=2, input_tokens=5, output_tokens=6, cost=0.5)
    reported = Verdict.rated(4, usage=spent, model="own-1")
    for judge in (as_judge(lambda sample: reported), ScriptedJudge([reported])):
        verdict = judge_sample(how, judge)
        assert (verdict.usage, verdict.model) == (spent, "own-1")


@everyhow
def test_observer_sees_every_judge(how: How) -> None:
    """A tracer enters for each judge, members of a panel included, and receives each verdict."""
    seen: list[str] = []

    @contextmanager
    def watch(judge: Deliberates, sample: Sample) -> Iterator[Callable[[Verdict], None]]:
        yield lambda verdict: seen.append(f"{judge.name} {verdict.rating}")

    with observing(observer=watch):
        judge_sample(how, Panel({"one": lambda sample: 4, "two": lambda sample: 3}))
    assert sorted(seen[:2]) == ["one 4", "two 3"]
    assert seen[2:] == ["panel 3"]


def test_one_judge_serves_many_threads_and_tasks() -> None:
    """A hundred samples judged at once, each with its own question, never mix."""
    model = ScriptedModel(lambda messages: {**GOOD, "feedback": messages[-1].text.split("marker-")[1][:3]})
    judge = Helpfulness(model)
    feedback: dict[str, str] = {}

    def judge_one(number: str) -> None:
        feedback[number] = judge(user_input="q", response=f"marker-{number}").feedback

    async def several() -> list[Verdict]:
        return await asyncio.gather(*(judge.acall(response=f"marker-{number}") for number in range(200, 300)))

    threads = [threading.Thread(target=judge_one, args=(str(number),)) for number in range(100, 200)]
    for thread in threads:
        thread.start()
    verdicts = asyncio.run(several())
    for thread in threads:
        thread.join()
    assert feedback == {number: number for number in map(str, range(100, 200))}
    assert [verdict.feedback for verdict in verdicts] == [str(number) for number in range(200, 300)]
