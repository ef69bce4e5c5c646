"""Field notes 1.7, R1: whatever goes wrong on either side, a run ends once, in time, and accepts nothing unjudged."""

from __future__ import annotations

import pytest

from judges.testing import no_waiting
from tests.faults.catalogue import FAULTS, Fault
from tests.faults.stage import HOWS, ROLES, How, Role, Stage, run

DEADLINE_S = 0.4
SLACK_S = 0.5
"""How much later than its deadline a run may end."""


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_a_fault_ends_as_it_should(stage: Stage, fault: Fault, role: Role, how: How) -> None:
    """Every reply of one side is spoiled: the run ends for the reason that the catalogue states."""
    deadline_s = DEADLINE_S if fault.endless else None
    refiner = stage.refiner(fault, role, deadline_s=deadline_s, streaming=how == "stream")

    with no_waiting():
        end = await run(refiner, how)
    print(fault, role, how, end.stop_reason, end.ratings, round(end.seconds,3), dict(stage.asked))
