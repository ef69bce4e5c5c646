"""When the judge fails: `on_judge_error` decides, for every fault alike, and nothing is accepted silently."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from graphs import JudgeFailed, Unanswered
from judges import Helpfulness, Panel, Sample, Verdict
from judges.testing import ScriptedJudge, ScriptedModel, no_waiting
from refine import Outcome, SelfRefine

DEADLINE_S = 0.15
"""Long enough for a busy machine to get to the judge, which then hangs."""


class Unauthorized(Exception):  # noqa: N818 - a status
    """A provider that does not know the key."""

    status_code = 401


@pytest.fixture(autouse=True)
def _no_waiting() -> Iterator[None]:
    """Wait for no retry."""
    with no_waiting():
        yield


@pytest.fixture
def freed() -> Iterator[threading.Event]:
    """Give an event that hanging judges wait for, and set it at the end."""
    event = threading.Event()
    yield event
    event.set()


Rate = Callable[[Sample], Verdict]
"""How the judge rates while it is well."""

Fault = Callable[[Rate, threading.Event, bool], tuple[Any, dict[str, Any]]]
"""Makes a judge that is well on drafts called "fine", and broken on others; and settings it needs."""


def well(sample: Sample) -> bool:
    """Tell whether the judge is well."""
    return sample.response == "fine"


def raises(rate: Rate, freed: threading.Event, asynchronous: bool) -> tuple[Any, dict[str, Any]]:  # noqa: FBT001
    """Raise, a message with a secret in it."""

    def line(sample: Sample) -> object:
        if well(sample):
            return rate(sample)
        raise RuntimeError("secret")

    return ScriptedJudge(line), {}


def times_out(rate: Rate, freed: threading.Event, asynchronous: bool) -> tuple[Any, dict[str, Any]]:  # noqa: FBT001
    """Hang until the deadline is over, and longer."""

    def hang(sample: Sample) -> Verdict:
        if not well(sample):
            freed.wait(30)
        return rate(sample)

    async def ahang(sample: Sample) -> Verdict:
        if not well(sample):
            await asyncio.sleep(30)
        return rate(sample)

    return (ahang if asynchronous else hang), {"deadline_s": DEADLINE_S}


def asked(reply: Callable[[], object], rate: Rate) -> Helpfulness:
    """Make a judge on a model that breaks down as `reply` says."""

    def line(messages: list[Any]) -> object:
        judged = [text for message in messages if '"answer":' in (text := str(message.text))]
        if '"answer": "fine"' not in judged[-1]:
            return reply()
        verdict = rate(Sample(response="fine"))
        return {"rationale": "", "rating": verdict.rating, "feedback": verdict.feedback}

    return Helpfulness(ScriptedModel(line, name="judge"))


def invalid(rate: Rate, freed: threading.Event, asynchronous: bool) -> tuple[Any, dict[str, Any]]:  # noqa: FBT001
    """Reply in no shape that was asked for."""
    return asked(lambda: "I like it: secret", rate), {}


def refuses(rate: Rate, freed: threading.Event, asynchronous: bool) -> tuple[Any, dict[str, Any]]:  # noqa: FBT001
    """Refuse to judge."""
    return asked(lambda: AIMessage("", response_metadata={"finish_reason": "content_filter"}), rate), {}


def unauthorized(rate: Rate, freed: threading.Event, asynchronous: bool) -> tuple[Any, dict[str, Any]]:  # noqa: FBT001
    """Be told by the provider that the key is wrong."""
    return asked(lambda: Unauthorized("secret"), rate), {}


def too_few(rate: Rate, freed: threading.Event, asynchronous: bool) -> tuple[Any, dict[str, Any]]:  # noqa: FBT001
    """Be a panel of three, two of which must speak, and two of which fail."""
    members = [raises(rate, freed, asynchronous)[0] for _ in range(2)]
    return Panel([*members, ScriptedJudge(rate)], rule="mean", quorum=2), {}


FAULTS: list[Fault] = [raises, times_out, invalid, refuses, unauthorized, too_few]

every_fault = pytest.mark.parametrize("fault", FAULTS)
both_ways = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])


def check_unrated(outcome: Outcome) -> None:
    """Check that a judge's failure is no low rating, and no feedback to anybody."""
    last = outcome.attempts[-1]
    assert (outcome.best, last.rating, last.feedback) == (None, None, "")
    assert last.verdict is not None
    assert last.verdict.unscored is not None


def reason_of(fault: Fault) -> str:
    """Tell what the loop stops for."""
    return "deadline" if fault is times_out else "judge_failed"


async def refined(inner: SelfRefine, *, asynchronous: bool) -> Outcome:
    """Refine through either entrance."""
    return await inner.arefine("what?") if asynchronous else inner.refine("what?")


def broken(fault: Fault, freed: threading.Event, drafts: list[str], **settings: Any) -> tuple[SelfRefine, Any]:
    """Make a refiner whose judge is well on "fine" drafts alone, and its generator."""
    asynchronous = settings.pop("asynchronous")
    judge, needed = fault(lambda sample: Verdict.rated(2, feedback="more"), freed, asynchronous)
    model = ScriptedModel(drafts)
    return SelfRefine(model, judge, max_attempts=5, success_rating=4, **needed, **settings), model


@every_fault
@both_ways
async def test_accept_flags_the_answer(fault: Fault, asynchronous: bool, freed: threading.Event) -> None:  # noqa: FBT001
    """Under `accept` the draft is returned, flagged in every way there is, and generated once."""
    inner, model = broken(fault, freed, ["draft"], on_judge_error="accept", asynchronous=asynchronous)
    outcome = await refined(inner, asynchronous=asynchronous)
    assert outcome.answer is not None
    assert (outcome.answer.text, outcome.passed, outcome.stop_reason) == ("draft", False, reason_of(fault))
    summary = outcome.answer.response_metadata["refine"]
    assert (summary["passed"], summary["stop_reason"], summary["rating"]) == (False, reason_of(fault), None)
    assert (len(model.prompts), bool(outcome.detail), "secret" in outcome.detail) == (1, True, False)
    check_unrated(outcome)


@every_fault
@both_ways
async def test_reject_returns_nothing_unjudged(
    fault: Fault,
    asynchronous: bool,  # noqa: FBT001 - pytest's way
    freed: threading.Event,
) -> None:
    """Under `reject` a draft that was not judged is no answer: `refine` tells of none, `invoke` raises."""
    inner, model = broken(fault, freed, ["draft", "draft"], on_judge_error="reject", asynchronous=asynchronous)
    outcome = await refined(inner, asynchronous=asynchronous)
    assert (outcome.answer, outcome.passed, outcome.stop_reason) == (None, False, reason_of(fault))
    assert len(model.prompts) == 1
    check_unrated(outcome)
    with pytest.raises(Unanswered, match=reason_of(fault)):
        await inner.ainvoke("what?") if asynchronous else inner.invoke("what?")


@every_fault
@both_ways
async def test_raise_raises(fault: Fault, asynchronous: bool, freed: threading.Event) -> None:  # noqa: FBT001
    """Under `raise` there is an error that holds the draft and tells no secret, also of `refine`."""
    inner, model = broken(fault, freed, ["draft"], on_judge_error="raise", asynchronous=asynchronous)
    kind = Unanswered if fault is times_out else JudgeFailed
    with pytest.raises(kind, match=reason_of(fault)) as raised:
        await refined(inner, asynchronous=asynchronous)
    assert (raised.value.outcome.answer, raised.value.outcome.passed) == (None, False)
    assert [one.text for one in raised.value.outcome.attempts] == ["draft"]
    assert (len(model.prompts), "secret" in str(raised.value)) == (1, False)


@every_fault
@both_ways
async def test_reject_returns_the_best_judged_so_far(
    fault: Fault,
    asynchronous: bool,  # noqa: FBT001 - pytest's way
    freed: threading.Event,
) -> None:
    """Under `reject` the best judged attempt before the outage is the answer, not accepted; nothing is retried."""
    drafts = ["fine", "draft", "never asked for"]
    inner, model = broken(fault, freed, drafts, on_judge_error="reject", asynchronous=asynchronous)
    outcome = await refined(inner, asynchronous=asynchronous)
    assert outcome.answer is not None
    assert (outcome.answer.text, outcome.passed, outcome.stop_reason) == ("fine", False, reason_of(fault))
    assert (len(model.prompts), outcome.released) == (2, 1)
