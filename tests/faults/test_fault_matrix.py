"""Whatever goes wrong, a run ends once, in time, and accepts nothing unjudged."""

from __future__ import annotations

import pytest

from judges.models.providers.http import LARGEST_REPLY
from judges.testing import no_waiting
from tests.faults.catalogue import CRITIC, CUT, FAULTS, WRITER, Fault, good
from tests.faults.stage import CLIENTS, HOWS, Client, How, Stage, run
from tests.model_server import Reply

DEADLINE_S = 0.4
SLACK_S = 10.0
"""How much later than its deadline a run may end."""

TEN_MEGABYTES_S = 5.0
"""How long a run may take that needs no deadline."""


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_a_generator_at_fault_ends_the_run(stage: Stage, fault: Fault, how: How) -> None:
    """Every reply of the generator is spoiled: the run ends once, in time, for the reason the catalogue states."""
    streams = how == "stream"
    refiner = stage.refiner(fault, "generator", deadline_s=_deadline(fault), streaming=streams)

    with no_waiting():
        end = await run(refiner, how)

    wanted = (fault.streaming or fault.generating) if streams else fault.generating
    assert end.stop_reason == wanted
    assert end.passed == (wanted == "accepted")
    assert (end.ratings[-1:] == (4,)) == (end.passed or fault.name == CUT)
    assert end.seconds < (_deadline(fault) or TEN_MEGABYTES_S) + SLACK_S


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_a_judge_at_fault_accepts_nothing(stage: Stage, fault: Fault, client: Client, how: How) -> None:
    """Every reply of the judge is spoiled: the verdict is unscored, and the answer is flagged as not accepted.

    Our own client may notice the deadline itself, a moment before the loop does.
    """
    refiner = stage.refiner(fault, "judge", client=client, deadline_s=_deadline(fault))

    with no_waiting():
        end = await run(refiner, how)

    timed_out = fault.endless and client == "direct" and end.stop_reason == "judge_failed"
    wanted = "judge_failed" if timed_out else fault.judging
    assert end.stop_reason == ("deadline" if wanted == "deadline" else "judge_failed")
    assert (end.passed, end.ratings) == (False, (wanted,))
    assert end.answer is not None
    assert end.seconds < (_deadline(fault) or TEN_MEGABYTES_S) + SLACK_S


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


@pytest.mark.parametrize("how", HOWS)
async def test_our_own_client_reads_no_reply_above_its_limit(stage: Stage, how: How) -> None:
    """A reply that is larger is refused as it arrives, and not asked for again."""
    endless = Fault("too large", lambda asked, reply: Reply("x" * (LARGEST_REPLY + 1)))

    end = await run(stage.refiner(endless, "judge", client="direct"), how)

    assert (end.ratings, stage.asked[CRITIC]) == (("judge_failed",), 1)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("how", HOWS)
async def test_without_a_fault_the_answer_is_accepted(stage: Stage, client: Client, how: How) -> None:
    """The stage itself works: one call of each model, the answer of the one, the rating of the other."""
    end = await run(stage.refiner(client=client, streaming=how == "stream"), how)

    assert (end.stop_reason, end.ratings, stage.asked) == ("accepted", (4,), {WRITER: 1, CRITIC: 1})
    assert end.answer is not None
    assert end.answer.text == good({"model": WRITER}).text


def test_the_catalogue_has_all_faults() -> None:
    """Each fault stands in the catalogue once."""
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) == 25


def _deadline(fault: Fault) -> float | None:
    """Only what never ends by itself gets a deadline."""
    return DEADLINE_S if fault.endless else None
