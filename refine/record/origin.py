"""Where an outcome comes from: the refiner, and the policy and judge in force."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from graphs import Policy
from graphs.certificate import settings_of, subject_of
from judges import Judge
from judges.certificate import Subject
from judges.fingerprint import fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What an outcome does not say of itself, and a replay of the loop under another policy needs to know.

    Args:
        refiner: Name of the refiner, or of the guard.
        judge: Name of the judge.
        judge_digest: Fingerprint of the judge, which changes with its models, prompts and settings.
        policy_digest: Fingerprint of the policy.
        success_rating: The policy's own; as are the next three.
        max_attempts: See `Policy`.
        patience: See `Policy`.
        shadow: See `Policy`.
        model: The generator's model as configured, where its answers do not name one.
        request_id: Id of the HTTP request.
        continuation_probability: How probable it was that the loop goes on after a pass, to learn what it would
            have come to; None where it never does.
        subject: What a certificate made of this record is about.
    """

    refiner: str = ""
    judge: str = ""
    judge_digest: str = ""
    policy_digest: str = ""
    success_rating: int | None = None
    max_attempts: int | None = None
    patience: int | None = None
    shadow: bool = False
    model: str | None = None
    request_id: str | None = None
    continuation_probability: float | None = None
    subject: Subject | None = None

    @classmethod
    def of(
        cls, refiner: str, judge: Judge, policy: Policy, *, generator: object = None, model: str | None = None
    ) -> Self:
        """Return the origin of everything that one refiner answers; a request's id is added by `replace`."""
        subject = subject_of(judge, policy, generator)
        origin = cls(
            refiner=refiner, judge=judge.name, judge_digest=subject.judge_digest, model=model, subject=subject
        )
        return origin.under(policy)

    def under(self, policy: Policy) -> Self:
        """Return the same under another policy, for instance one that a request overrides in part."""
        subject = self.subject and self.subject.model_copy(update={"policy": settings_of(policy)})
        return replace(
            self,
            policy_digest=_digest(policy),
            success_rating=policy.success_rating,
            max_attempts=policy.max_attempts,
            patience=policy.patience,
            shadow=policy.shadow,
            subject=subject,
        )


def _digest(part: object) -> str:
    """Return the fingerprint of a judge or a policy; empty for one of the user's that has none."""
    try:
        return fingerprint(part)
    except Exception:  # noqa: BLE001 - what only describes it must not stop it
        return ""
