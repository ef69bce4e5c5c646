"""The direct client as generator, under every fault of its endpoint."""

from __future__ import annotations

import pytest

from judges.models.providers.openai import RETRIES
from judges.testing import no_waiting
from refine import SelfRefine
from tests.faults.catalogue import CRITIC, CUT, FAULTS, WRITER, Fault, good
from tests.faults.stage import HOWS, Stage, run

DEADLINE_S = 0.3
SLACK_S = 10.0
"""How much later than its deadline a run may end."""

REPEATED = {fault.name for fault in FAULTS if fault.judged == 1 + RETRIES}
"""Faults that may pass: the transport failed."""


@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_every_fault_ends_the_run(stage: Stage, fault: Fault) -> None:
    """Sync, async and with a stream from the endpoint: one end, in time, and nothing accepted unjudged."""
    for how in HOWS:
        deadline_s = DEADLINE_S if fault.endless else None
        streams = how == "stream"
        refiner = stage.refiner(
            fault, "generator", writer="direct", client="direct", streaming=streams, deadline_s=deadline_s
        )
        with no_waiting():
            end = await run(refiner, how)

        assert (how, end.stop_reason) == (how, fault.generating)
        assert end.passed == (fault.generating == "accepted")
        assert (end.ratings[-1:] == (4,)) == (end.passed or fault.name == CUT)
        assert not fault.endless or end.seconds < DEADLINE_S + SLACK_S


@pytest.mark.parametrize("fault", [one for one in FAULTS if not one.refused and not one.endless], ids=str)
async def test_what_may_pass_is_repeated_and_counted_once(stage: Stage, fault: Fault) -> None:
    """A failed transport is repeated as often as the client says, within one call; nothing else is."""
    refiner = stage.refiner(fault, "generator", writer="direct", client="direct", max_calls=9)

    with no_waiting() as waits:
        end = await run(refiner, "async")

    repeated = fault.name in REPEATED
    assert stage.asked[WRITER] == (1 + RETRIES if repeated else max(1, len(end.ratings)))
    assert len(waits) == (RETRIES if repeated else 0)


@pytest.mark.parametrize("max_retries", [0, 1])
async def test_the_policy_bounds_the_repeats(stage: Stage, max_retries: int) -> None:
    """`Policy.max_retries` holds for the generator's requests too."""
    busy = next(fault for fault in FAULTS if fault.name == "503")
    refiner = stage.refiner(busy, "generator", writer="direct", client="direct")
    refiner = SelfRefine(refiner.generator, refiner.judge, max_retries=max_retries)

    with no_waiting():
        end = await run(refiner, "async")

    assert (end.stop_reason, stage.asked[WRITER]) == ("generator_failed", 1 + max_retries)


async def test_a_fault_that_passes_costs_nothing(stage: Stage) -> None:
    """A busy endpoint is asked again after the time it names, and the answer is accepted."""
    busy = next(fault for fault in FAULTS if fault.name == "429 with retry-after")
    refiner = stage.refiner(busy, "generator", writer="direct", client="direct", times=1)

    with no_waiting() as waits:
        end = await run(refiner, "async")

    assert (end.stop_reason, stage.asked, waits) == ("accepted", {WRITER: 2, CRITIC: 1}, [3.0])
    assert end.answer is not None
    assert end.answer.text == good({"model": WRITER}).text
