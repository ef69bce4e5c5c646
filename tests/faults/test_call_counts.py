"""Retries have one owner and never multiply, whatever goes wrong."""

from __future__ import annotations

import random

import pytest

from judges import Helpfulness, Panel
from judges.models.providers.langchain import RETRIES
from judges.models.structured import REPAIRS
from judges.testing import no_waiting
from refine import SelfRefine
from tests.faults.catalogue import CRITIC, FAULTS, WRITER, Fault, good
from tests.faults.stage import CLIENTS, Client, Stage, run
from tests.model_server import Asked, Reply, Wire

COUNTED = [fault for fault in FAULTS if not fault.endless and not fault.refused and fault.name != "10 MB body"]
"""What ends by itself, soon, and reaches the server."""


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("fault", COUNTED, ids=str)
async def test_a_judges_calls_are_counted(stage: Stage, fault: Fault, client: Client) -> None:
    """A judge repeats what may pass twice and mends what cannot be read once; nothing else is asked again."""
    refiner = stage.refiner(fault, "judge", client=client)

    with no_waiting() as waits:
        await run(refiner, "async")

    assert stage.asked == {WRITER: 1, CRITIC: fault.judged}
    assert sum(stage.asked.values()) <= 1 * (1 + 1) * (1 + RETRIES)
    assert len(waits) == (RETRIES if fault.judged == 1 + RETRIES else 0)


@pytest.mark.parametrize("fault", COUNTED, ids=str)
async def test_a_generators_calls_are_its_clients_own(stage: Stage, fault: Fault) -> None:
    """The loop never repeats a call of the generator: it is asked once for each attempt."""
    refiner = stage.refiner(fault, "generator")

    with no_waiting() as waits:
        end = await run(refiner, "async")

    assert stage.asked[WRITER] == max(1, len(end.ratings))
    assert waits == []


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_what_cannot_pass_is_asked_once(stage: Stage, status: int, client: Client) -> None:
    """A request that the server refuses for what it is is not sent again."""
    fault = Fault(str(status), lambda asked, reply: Reply("no", status=status))

    await run(stage.refiner(fault, "judge", client=client), "async")

    assert stage.asked == {WRITER: 1, CRITIC: 1}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504])
async def test_what_may_pass_is_repeated_twice(stage: Stage, status: int, client: Client) -> None:
    """A server that is busy or broken is asked again, a bounded number of times."""
    fault = Fault(str(status), lambda asked, reply: Reply("no", status=status))

    with no_waiting():
        await run(stage.refiner(fault, "judge", client=client), "async")

    assert stage.asked == {WRITER: 1, CRITIC: 1 + RETRIES}


@pytest.mark.parametrize("own", [1, 2])
async def test_a_clients_own_retries_are_not_multiplied(stage: Stage, own: int) -> None:
    """Where the judge's client repeats by itself, the driver does not."""
    stage.server.reply = lambda asked: good(asked) if asked["model"] == WRITER else _busy(asked)
    refiner = SelfRefine(stage.chat(WRITER), Helpfulness(stage.chat(CRITIC, max_retries=own)))

    with no_waiting() as waits:
        await run(refiner, "async")

    assert (stage.asked, waits) == ({WRITER: 1, CRITIC: 1 + own}, [])


async def test_members_of_a_panel_repeat_each_for_itself(stage: Stage) -> None:
    """With two judges, a bad server and three attempts at most, the count stays within the product."""
    fault = Fault("busy", lambda asked, reply: _busy(asked))
    stage.refiner(fault, "judge")
    panel = Panel([stage.judge(client) for client in CLIENTS])

    with no_waiting():
        await run(SelfRefine(stage.chat(WRITER), panel), "async")

    assert stage.asked == {WRITER: 1, CRITIC: 2 * (1 + RETRIES)}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("seed", range(2))
async def test_any_mixture_of_faults_keeps_the_bound(stage: Stage, seed: int, client: Client) -> None:
    """Attempts that are refused, faults that pass, replies that are mended: never more calls than allowed."""
    choose = random.Random(seed)
    last: list[str] = []

    def reply(asked: Asked) -> Reply | Wire:
        last.append(asked["model"])
        fault = choose.choice(COUNTED) if asked["model"] == CRITIC and choose.random() < 0.7 else None
        return good(asked, rating=2) if fault is None else fault.spoil(asked, good(asked, rating=2))

    stage.server.reply = reply
    refiner = SelfRefine(stage.chat(WRITER), stage.judge(client), max_attempts=3)
    for _ in range(30):
        last.clear()
        with no_waiting():
            await run(refiner, "async")
        runs = "".join("j" if name == CRITIC else " " for name in last).split()
        assert last.count(WRITER) <= 3
        assert all(len(one) <= (1 + REPAIRS) * (1 + RETRIES) for one in runs)


def _busy(asked: Asked) -> Reply:
    return Reply("no", status=503, headers={"retry-after-ms": "1"})
