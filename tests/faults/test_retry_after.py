"""A provider's word on when to come back is obeyed, in every form, within bounds."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from judges import Helpfulness, Panel
from judges.models.providers.langchain import RETRIES
from judges.models.retry import LONGEST_WAIT_S
from judges.models.structured import REPAIRS
from judges.testing import no_waiting
from refine import SelfRefine
from tests.faults.catalogue import CRITIC, FAULTS, WRITER, Fault, good
from tests.faults.stage import CLIENTS, HOWS, Client, How, Stage, run
from tests.model_server import Asked, Reply, Wire

OWN_PACE_S = 8.0
"""The longest wait where the provider says nothing that can be obeyed."""


def busy(**headers: str) -> Fault:
    """Make a server that is busy, and says until when."""
    fields = {name.replace("_", "-"): one for name, one in headers.items()}
    return Fault("busy", lambda asked, reply: Reply("busy", status=429, headers=fields))


def date(seconds: float) -> str:
    """Write the date that is so many seconds away, as HTTP does."""
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("headers", "wanted_s"),
    [
        ({"retry_after": "3"}, 3),
        ({"retry_after": "0.5"}, 0.5),
        ({"retry_after": "59"}, 59),
        ({"retry_after_ms": "1500"}, 1.5),
        ({"retry_after_ms": "40", "retry_after": "7"}, 0.04),
        ({"retry_after_ms": "soon", "retry_after": "7"}, 7),
    ],
    ids=str,
)
async def test_seconds_and_milliseconds_are_obeyed(
    stage: Stage, headers: dict[str, str], wanted_s: float, client: Client, how: How
) -> None:
    """Every repetition waits as long as it was told, and none is slept through here."""
    refiner = stage.refiner(busy(**headers), "judge", client=client)

    with no_waiting() as waits:
        await run(refiner, how)

    assert waits == pytest.approx([wanted_s] * RETRIES, rel=0.2)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("seconds", [10, 45])
async def test_a_date_is_obeyed(stage: Stage, seconds: float, client: Client) -> None:
    """A date is as good as the seconds until then."""
    refiner = stage.refiner(busy(retry_after=date(seconds)), "judge", client=client)

    with no_waiting() as waits:
        await run(refiner, "async")

    assert waits == pytest.approx([seconds] * RETRIES, rel=0.2)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("seconds", ["86400", "1e9", "inf", "Fri, 31 Dec 9999 23:59:59 GMT"])
async def test_an_absurd_wait_is_capped(stage: Stage, seconds: str, client: Client) -> None:
    """However long the provider says, no single wait is longer than the cap."""
    refiner = stage.refiner(busy(retry_after=seconds), "judge", client=client)

    with no_waiting() as waits:
        await run(refiner, "async")

    assert waits == [LONGEST_WAIT_S] * RETRIES


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    "seconds",
    ["-5", "0", "nan", "", "soon", "Thu, 01 Jan 1970 00:00:00 GMT", "Mon, 99 Foo 99999 99:99:99 GMT", "-inf"],
)
async def test_what_cannot_be_obeyed_leaves_the_driver_its_own_pace(
    stage: Stage, seconds: str, client: Client
) -> None:
    """Negative, past or unreadable: the waits are the driver's own, short and never negative."""
    refiner = stage.refiner(busy(retry_after=seconds), "judge", client=client)

    with no_waiting() as waits:
        await run(refiner, "async")

    assert len(waits) == RETRIES
    assert all(0 <= wait <= OWN_PACE_S for wait in waits)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("how", HOWS)
async def test_a_wait_past_the_deadline_is_not_begun(stage: Stage, client: Client, how: How) -> None:
    """Where the provider wants more time than there is, the run ends at once instead of waiting in vain."""
    refiner = stage.refiner(busy(retry_after="30"), "judge", client=client, deadline_s=20.0)

    with no_waiting() as waits:
        end = await run(refiner, how)

    assert (waits, stage.asked[CRITIC], end.passed) == ([], 1, False)
    assert end.stop_reason in ("deadline", "judge_failed")
    assert end.seconds < 10


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("how", HOWS)
async def test_waits_do_not_add_up_past_the_deadline(stage: Stage, client: Client, how: How) -> None:
    """On the real clock, in fractions of a second: the second wait would pass the deadline and is not begun."""
    refiner = stage.refiner(busy(retry_after_ms="400"), "judge", client=client, deadline_s=0.75)

    end = await run(refiner, how)

    assert (stage.asked[CRITIC], end.passed) == (2, False)
    assert 0.4 <= end.seconds < 10


async def test_a_generators_client_that_waits_is_left_at_the_deadline(stage: Stage) -> None:
    """The generator's own client obeys its provider for as long as it likes; the loop does not."""
    refiner = stage.refiner(busy(retry_after="5"), "generator", deadline_s=0.3, max_retries=2)

    end = await run(refiner, "async")

    assert (end.stop_reason, end.answer) == ("deadline", None)
    assert end.seconds < 4


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
