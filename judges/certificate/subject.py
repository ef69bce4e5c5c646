"""The loop that a certificate is about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import BaseModel, ConfigDict, JsonValue

from judges.errors import shortened


class Subject(BaseModel):
    """The loop that a certificate is about: whatever its promise depends on, as far as that can be known.

    Args:
        judge: Name of the judge.
        judge_digest: Fingerprint of the judge: its class, prompts, packs, settings and models; empty if unknown.
        judge_models: Names of the models it asks.
        judge_models_digest: Fingerprint of these models with their settings; empty if unknown.
        generator: Name of the generator.
        generator_digest: Fingerprint of the generator, as far as it can be read; empty if it cannot.
        generator_known: Whether that covers all of it; it does not for a function or an agent.
        policy: Settings of the loop that differ from the defaults, and always `max_attempts`, `patience` and
            `feedback`, a digest of what the generator is shown on a retry. What has no influence on the answers
            that pass is left out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    judge: str = ""
    judge_digest: str = ""
    judge_models: tuple[str, ...] = ()
    judge_models_digest: str = ""
    generator: str = ""
    generator_digest: str = ""
    generator_known: bool = False
    policy: Mapping[str, JsonValue] = {}

    @property
    def max_attempts(self) -> int | None:
        """Most attempts of the loop; None if unknown."""
        value = self.policy.get("max_attempts")
        return value if isinstance(value, int) else None

    @property
    def patience(self) -> int | None:
        """Attempts without a gain after which the loop stops; None: it does not."""
        value = self.policy.get("patience")
        return value if isinstance(value, int) else None

    def changes(self, now: Subject) -> list[str]:
        """Return what is known to differ in the loop `now`, in words."""
        return [*self._judge_changes(now), *self._generator_changes(now), *self._policy_changes(now)]

    def doubts(self, now: Subject) -> list[str]:
        """Return what cannot be compared, in words."""
        return [] if self.generator_known and now.generator_known else [f"the generator {now.generator!r}"]

    def _judge_changes(self, now: Subject) -> Iterator[str]:
        if not (self.judge_digest and now.judge_digest):
            yield (
                "the fingerprint of the judge is not known"
                if self.judge_digest
                else "it does not say of which judge"
            )
        elif self.judge_models_digest != now.judge_models_digest:
            if self.judge_models != now.judge_models:
                yield f"the judge's model was {_names(self.judge_models)} and is {_names(now.judge_models)}"
            else:
                yield f"the settings of the judge's model {_names(now.judge_models)} changed"
        elif self.judge_digest != now.judge_digest:
            if self.judge != now.judge:
                yield f"the judge was {self.judge!r} and is {now.judge!r}"
            else:
                yield f"the prompts, packs or settings of the judge {now.judge!r} changed"

    def _generator_changes(self, now: Subject) -> Iterator[str]:
        if not _differ(self.generator_digest, now.generator_digest):
            return
        if self.generator != now.generator:
            yield f"the generator was {self.generator!r} and is {now.generator!r}"
        else:
            yield f"the settings or the code of the generator {now.generator!r} changed"

    def _policy_changes(self, now: Subject) -> Iterator[str]:
        names = {*self.policy, *now.policy}
        if self.policy.get("feedback") != now.policy.get("feedback"):
            yield "what the generator is shown on a retry (augment) changed"
            names -= {"augment"}
        for name in sorted(names - {"feedback"}):
            before, after = self.policy.get(name, _DEFAULT), now.policy.get(name, _DEFAULT)
            if before != after:
                yield f"{name} was {_value(before)} and is {_value(after)}"


_DEFAULT = "the default"


def _differ(before: str, after: str) -> bool:
    return bool(before and after) and before != after


def _names(models: tuple[str, ...]) -> str:
    return ", ".join(map(repr, models)) or "none"


def _value(value: object) -> str:
    return str(value) if value == _DEFAULT else shortened(value)
