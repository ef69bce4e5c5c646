"""What a generator's call consumed."""

from __future__ import annotations

from graphs.drafts import Draft
from graphs.policy import Policy
from graphs.step import Effect
from judges.runtime.prices import with_cost
from judges.verdict import Usage


def consumed(effect: Effect, draft: Draft, policy: Policy) -> Usage:
    """Return what a generator consumed: as counted call by call, unless its messages report more calls.

    They do so for calls that an agent made before it stopped for a human. If no call was counted and none
    reported, how many there were is unknown.
    """
    reported = Usage.total([with_cost(usage, model, policy.prices) for model, usage in draft.calls])
    if effect.allowance is None:
        return reported if reported.calls else Usage()
    counted = effect.spent
    if counted.calls:
        return reported if reported.calls > counted.calls else counted
    return reported if reported.tokens_known else reported.model_copy(update={"calls_known": False})
