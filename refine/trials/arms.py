"""The arms of a trial: ways of going on from the same first answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import get_args

from graphs.policy import Augmenter, AugmenterName, Policy
from judges import ConfigurationError
from judges.errors import shortened

FIRST = "first"
"""The arm of the first answer alone, which every trial has."""

LOOP = "loop"
"""The arm of the loop as its policy sets it."""

_STRONGER = "stronger"
BASELINE = "fresh"
"""The arm that others are compared with, where a trial has it."""

DEFAULT_ARMS = (FIRST, LOOP, "restated", "verify_first", BASELINE)
_FORMS: tuple[str, ...] = get_args(AugmenterName)


@dataclass(frozen=True, kw_only=True)
class Arm:
    """A way of going on from the first answer.

    Args:
        name: What it is called in tables and files.
        augment: What the generator sees on a retry, as in `Policy`; None leaves it to the policy of the trial.
        generator: Another generator for the retries, for instance a stronger model; None takes that of the trial.
    """

    name: str
    augment: AugmenterName | Augmenter | None = None
    generator: object = None

    def policy(self, policy: Policy) -> Policy:
        """Return the policy of the trial with this form of a retry."""
        return policy if self.augment is None else policy.model_copy(update={"augment": self.augment})


def read_arms(arms: str | Sequence[str | Arm]) -> tuple[Arm, ...]:
    """Return arms by their names: `first`, `loop`, a named form of a retry, or `stronger=MODEL`.

    The first answer alone is an arm of every trial, and stands first.

    Args:
        arms: Names, or arms of your own; a text holds names with commas between them.

    Raises:
        ConfigurationError: If a name means no arm, or two arms share one.
    """
    named = [one for one in map(str.strip, arms.split(",")) if one] if isinstance(arms, str) else list(arms)
    read = [one if isinstance(one, Arm) else _named(one) for one in named]
    names = [arm.name for arm in read]
    shared = next((name for name in names if names.count(name) > 1), None)
    if shared is not None:
        raise ConfigurationError(f"two arms are called {shared!r}; leave one out, or give it another name")
    for arm in read:
        _check_name(arm.name)
    others = [arm for arm in read if arm.name != FIRST]
    if not others:
        raise ConfigurationError(
            f"a trial compares {FIRST!r} with other arms; add one, for instance {LOOP!r} or {BASELINE!r}"
        )
    return (Arm(name=FIRST), *others)


def _named(name: object) -> Arm:
    if not isinstance(name, str):
        raise ConfigurationError(f"an arm is a name or an Arm(name=..., augment=...), not {shortened(name)}")
    kind, equals, model = name.partition("=")
    if kind == _STRONGER:
        if not model.strip():
            raise ConfigurationError("the arm 'stronger' names a model: stronger=openai:gpt-5")
        return Arm(name=_STRONGER, generator=model.strip())
    if name in (FIRST, LOOP):
        return Arm(name=name)
    if name in _FORMS:
        return Arm(name=name, augment=name)  # type: ignore[arg-type]  # one of the names
    known = [FIRST, LOOP, *_FORMS, f"{_STRONGER}=MODEL"]
    near = get_close_matches(name, known, n=1)
    remedy = f"did you mean {near[0]!r}?" if near and not equals else f"there are {', '.join(known)}"
    raise ConfigurationError(f"{shortened(name)} is no arm of a trial; {remedy}")


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name.strip() or any(sign in name for sign in "=,\n"):
        raise ConfigurationError(f"the name of an arm is a text without '=' and commas, not {shortened(name)}")
