"""A provider's word on when to come back is obeyed, in every form, within bounds."""

from __future__ import annotations

import random
from collections.abc import Iterator
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


def told(how: How) -> Iterator[tuple[dict[str, str], float]]:
    """Yield what a provider says, and the seconds that it means; a date is written when it is asked for."""
    yield {"retry_after": "3"}, 3
    yield {"retry_after_ms": "1500"}, 1.5
    yield {"retry_after_ms": "soon", "retry_after": "7"}, 7
    yield {"retry_after": "1e9"}, LONGEST_WAIT_S
    if how == "async":  # what headers say is read by the same code in every way
        yield {"retry_after": "0.5"}, 0.5
        yield {"retry_after": "59"}, 59
        yield {"retry_after_ms": "40", "retry_after": "7"}, 0.04
        yield from (({"retry_after": date(seconds)}, seconds) for seconds in (10, 45))
        yield from (({"retry_after": absurd}, LONGEST_WAIT_S) for absurd in ABSURD)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("client", CLIENTS)
async def test_what_a_provider_says_is_obeyed_within_bounds(stage: Stage, client: Client, how: How) -> None:
    """Every repetition waits as long as it was told, and never longer than the cap; none is slept through here."""
    for headers, wanted_s in told(how):
        with no_waiting() as waits:
            await run(stage.refiner(busy(**headers), "judge", client=client), how)

        is_near = wanted_s != LONGEST_WAIT_S
        assert waits == pytest.approx([wanted_s] * RETRIES, rel=0.2 if is_near else 0), headers


ABSURD = ("86400", "inf", "Fri, 31 Dec 9999 23:59:59 GMT")
UNREADABLE = (
    "-5",
    "0",
    "nan",
    "",
    "soon",
    "Thu, 01 Jan 1970 00:00:00 GMT",
    "Mon, 99 Foo 99999 99:99:99 GMT",
    "Wed, 21 Oct 2015 07:28:00 +99999999999999999999",
    "-inf",
)


@pytest.mark.parametrize("client", CLIENTS)
async def test_what_cannot_be_obeyed_leaves_the_driver_its_own_pace(stage: Stage, client: Client) -> None:
    """Negative, past or unreadable: the waits are the driver's own, short and never negative."""
    for seconds in UNREADABLE:
        with no_waiting() as waits:
            await run(stage.refiner(busy(retry_after=seconds), "judge", client=client), "async")

        assert len(waits) == RETRIES, seconds
        assert all(0 <= wait <= OWN_PACE_S for wait in waits), seconds


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
async def test_what_may_pass_is_repeated_twice(stage: Stage, client: Client) -> None:
    """A server that is busy or broken is asked again, a bounded number of times; what it refuses is sent once.

    The other statuses are in the catalogue.
    """
    for status, calls in ((403, 1), (404, 1), (422, 1), *((one, 1 + RETRIES) for one in (409, 502, 504))):
        stage.server.requests.clear()
        fault = Fault(str(status), lambda asked, reply, status=status: Reply("no", status=status))  # type: ignore[misc]

        with no_waiting():
            await run(stage.refiner(fault, "judge", client=client), "async")

        assert stage.asked == {WRITER: 1, CRITIC: calls}, status


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
