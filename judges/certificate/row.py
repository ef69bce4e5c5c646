"""One line of a certificate's table."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

_NEVER = 5


class CertifiedRow(BaseModel):
    """What the calibration said of one policy of the chain.

    Args:
        policy: Its threshold, or, of an escalation, the least rating accepted from each judge, 5 for never.
        released: Answers it releases in the calibration runs.
        bad: Those that people call bad, and those without a label.
        rate: bad / released; None where nothing is released.
        upper: Exact upper bound of the share of bad ones.
        p: Exact p-value of "the share of bad ones is above alpha"; None where it was not tested.
        e: Evidence that holds at any look.
        status: What follows: `"certified"`, `"refused"`, `"too_few"` or `"not_tested"`.
        release_rate: Share of the runs in which it releases an answer.
        release_interval: Its 95 % interval.
        mean_attempts: Mean attempts a run.
        shares: Of an escalation: share of the runs that each judge decides, and last that people do.
        cost: Of an escalation, where known: mean cost of judging a run, in US dollars.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    policy: float | tuple[float, ...]
    released: int = Field(ge=0)
    bad: int = Field(ge=0)
    rate: float | None = None
    upper: float | None = None
    p: float | None = None
    e: float | None = None
    status: Literal["certified", "refused", "too_few", "not_tested"]
    release_rate: float | None = None
    release_interval: tuple[float, float] | None = None
    mean_attempts: float | None = None
    shares: tuple[float, ...] = ()
    cost: float | None = None

    @property
    def policy_text(self) -> str:
        """The policy in words."""
        if isinstance(self.policy, tuple):
            return " / ".join("never" if least >= _NEVER else f"{least:g}" for least in self.policy)
        return f"{self.policy:g}"
