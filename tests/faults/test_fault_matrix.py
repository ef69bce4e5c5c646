"""Whatever goes wrong, a run ends once, in time, and accepts nothing unjudged."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from judges.models.providers.http import LARGEST_REPLY
from judges.models.providers.openai import RETRIES
from judges.testing import no_waiting
from refine import SelfRefine
from tests.faults.catalogue import CRITIC, CUT, FAULTS, WRITER, Fault, good
from tests.faults.stage import CLIENTS, HOWS, Client, Stage, run
from tests.model_server import Reply

DEADLINE_S = 0.4
SLACK_S = 10.0
"""How much later than its deadline a run may end."""

TEN_MEGABYTES_S = 5.0
"""How long a run may take that needs no deadline."""


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_a_generator_at_fault_ends_the_run(stage: Stage, fault: Fault, client: Client) -> None:
    """Every reply of the generator is spoiled: the run ends once, in time, for the reason the catalogue states.

    The loop never repeats a call of the generator; our own client repeats what the transport lost, within one.
    """
    for how in HOWS:
        stage.server.requests.clear()
        streams = how == "stream"
        limits: dict[str, Any] = {"deadline_s": _deadline(fault), "max_calls": 9}
        refiner = stage.refiner(fault, "generator", writer=client, client=client, streaming=streams, **limits)

        with no_waiting() as waits:
            end = await run(refiner, how)

        is_read_by_langchain = streams and client == "langchain"
        wanted = (fault.streaming or fault.generating) if is_read_by_langchain else fault.generating
        assert (how, end.stop_reason) == (how, wanted)
        assert end.passed == (wanted == "accepted")
        assert (end.ratings[-1:] == (4,)) == (end.passed or fault.name == CUT)
        assert end.seconds < (_deadline(fault) or TEN_MEGABYTES_S) + SLACK_S
        if how != "stream" and not fault.endless:
            repeats = RETRIES if client == "direct" and fault.judged == 1 + RETRIES else 0
            calls = (1 + repeats) * max(1, len(end.ratings))
            assert (len(waits), stage.asked[WRITER]) == (repeats, 0 if fault.refused else calls)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_a_judge_at_fault_accepts_nothing(stage: Stage, fault: Fault, client: Client) -> None:
    """Every reply of the judge is spoiled: the verdict is unscored, and the answer is flagged as not accepted.

    A judge repeats what may pass twice and mends what cannot be read once; nothing else is asked again. Our own
    client may notice the deadline itself, a moment before the loop does.
    """
    for how in HOWS:
        stage.server.requests.clear()
        refiner = stage.refiner(fault, "judge", client=client, deadline_s=_deadline(fault))

        with no_waiting() as waits:
            end = await run(refiner, how)

        timed_out = fault.endless and client == "direct" and end.stop_reason == "judge_failed"
        wanted = "judge_failed" if timed_out else fault.judging
        assert (how, end.stop_reason) == (how, "deadline" if wanted == "deadline" else "judge_failed")
        assert (end.passed, end.ratings) == (False, (wanted,))
        assert end.answer is not None
        assert end.seconds < (_deadline(fault) or TEN_MEGABYTES_S) + SLACK_S
        if not fault.endless:
            assert len(waits) == (RETRIES if fault.judged == 1 + RETRIES else 0)
            assert stage.asked == Counter({WRITER: 1} if fault.refused else {WRITER: 1, CRITIC: fault.judged})


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("fault", [one for one in FAULTS if not one.refused and one.name != "10 MB body"], ids=str)
async def test_a_judge_recovers_from_what_passes(stage: Stage, fault: Fault, client: Client) -> None:
    """One spoiled reply of the judge, then good ones: where asking again is worth it, the answer is accepted."""
    refiner = stage.refiner(fault, "judge", client=client, deadline_s=_deadline(fault), times=1)

    with no_waiting():
        end = await run(refiner, "async")

    again = fault.judged > 1
    most = 2 if again else 1
    least = (
        0 if fault.judging == "deadline" else most
    )  # on a loaded machine the time is up before the call is made
    assert end.passed == again
    assert least <= stage.asked[CRITIC] <= most


async def test_our_own_client_reads_no_reply_above_its_limit(stage: Stage) -> None:
    """A reply that is larger is refused as it arrives, and not asked for again."""
    endless = Fault("too large", lambda asked, reply: Reply("x" * (LARGEST_REPLY + 1)))

    for number, how in enumerate(HOWS, 1):
        end = await run(stage.refiner(endless, "judge", client="direct"), how)

        assert (end.ratings, stage.asked[CRITIC]) == (("judge_failed",), number)


@pytest.mark.parametrize("client", CLIENTS)
async def test_without_a_fault_the_answer_is_accepted(stage: Stage, client: Client) -> None:
    """The stage itself works: one call of each model, the answer of the one, the rating of the other."""
    for number, how in enumerate(HOWS, 1):
        end = await run(stage.refiner(client=client, streaming=how == "stream"), how)

        assert (end.stop_reason, end.ratings, stage.asked) == ("accepted", (4,), {WRITER: number, CRITIC: number})
        assert end.answer is not None
        assert end.answer.text == good({"model": WRITER}).text


@pytest.mark.parametrize("max_retries", [0, 1])
async def test_the_policy_bounds_the_repeats_of_our_own_client(stage: Stage, max_retries: int) -> None:
    """`Policy.max_retries` holds for the requests of a generator, too."""
    busy = next(fault for fault in FAULTS if fault.name == "503")
    refiner = stage.refiner(busy, "generator", writer="direct", client="direct")
    refiner = SelfRefine(refiner.generator, refiner.judge, max_retries=max_retries)

    with no_waiting():
        end = await run(refiner, "async")

    assert (end.stop_reason, stage.asked[WRITER]) == ("generator_failed", 1 + max_retries)


async def test_a_fault_that_passes_costs_a_generator_nothing(stage: Stage) -> None:
    """A busy endpoint is asked again after the time it names, and the answer is accepted."""
    busy = next(fault for fault in FAULTS if fault.name == "429 with retry-after")
    refiner = stage.refiner(busy, "generator", writer="direct", client="direct", times=1)

    with no_waiting() as waits:
        end = await run(refiner, "async")

    assert (end.stop_reason, stage.asked, waits) == ("accepted", {WRITER: 2, CRITIC: 1}, [3.0])
    assert end.answer is not None
    assert end.answer.text == good({"model": WRITER}).text


def test_the_catalogue_has_all_faults() -> None:
    """Each fault stands in the catalogue once."""
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) == 25


def _deadline(fault: Fault) -> float | None:
    """Only what never ends by itself gets a deadline."""
    return DEADLINE_S if fault.endless else None
