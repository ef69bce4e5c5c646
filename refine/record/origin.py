"""Where an outcome comes from: the refiner, and the policy and judge in force."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Self

from graphs import Policy
from judges import Judge

_DIGEST_LENGTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What an outcome does not say of itself, and a replay of the loop under another policy needs to know.

    Args:
        refiner: Name of the refiner, or of the guard.
        judge: Name of the judge.
        judge_digest: Changes whenever the judge's models or prompts do.
        policy_digest: Changes whenever a setting of the policy does.
        success_rating: The policy's own; as are the next three.
        max_attempts: See `Policy`.
        patience: See `Policy`.
        shadow: See `Policy`.
        model: The generator's model as configured, where its answers do not name one.
        request_id: Id of the HTTP request.
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

    @classmethod
    def of(cls, refiner: str, judge: Judge, policy: Policy, *, model: str | None = None) -> Self:
        """Return the origin of everything that one refiner answers; a request's id is added by `replace`."""
        return cls(
            refiner=refiner,
            judge=judge.name,
            judge_digest=judge_digest(judge),
            policy_digest=policy_digest(policy),
            success_rating=policy.success_rating,
            max_attempts=policy.max_attempts,
            patience=policy.patience,
            shadow=policy.shadow,
            model=model,
        )


def policy_digest(policy: Policy) -> str:
    """Return a digest of all settings; functions and models count by their names."""
    return _digest(policy.model_dump())


def judge_digest(judge: Judge) -> str:
    """Return a digest of what the judge asks, of which models; empty where it cannot explain itself."""
    try:
        return _digest(asdict(judge.explain()))
    except Exception:  # noqa: BLE001 - a judge of the user's, and what only describes it must not stop it
        return ""


def _digest(settings: object) -> str:
    text = json.dumps(settings, default=_name_of, sort_keys=True)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_LENGTH]


def _name_of(value: object) -> str:
    """Name what is no JSON, without an address in memory, which differs from process to process."""
    names = [getattr(value, attribute, None) for attribute in ("model_name", "model", "__qualname__", "name")]
    return next((name for name in names if isinstance(name, str)), type(value).__qualname__)
