"""What a trial is about, as its folder says it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel

from judges.offline.run.journal import read_json, write_json

MANIFEST = "trial.json"


def is_trial(folder: Path) -> bool:
    """Check whether a folder holds a trial, and no run."""
    try:
        return (folder / MANIFEST).exists()
    except (OSError, ValueError):
        return False


class TrialManifest(BaseModel, frozen=True, extra="forbid"):
    """What a trial is about, as its folder says it.

    Args:
        format: Version of the folder's format.
        questions: Digest of the questions.
        count: How many there are.
        generator: What generates, as far as it has a name.
        judge: Fingerprint of the loop's judge.
        truth: Fingerprint of the truth; None where there is none.
        arms: By arm, what its retries see and which generator they ask.
        baseline: The arm that the others are compared with.
        draws: How often each question is asked.
        temperature: Of the generator; None is its own.
        seed: Seed of the draws; None sends none.
        policy: Digest of the policy.
        command: The options of the command line that began it; None where it began in Python.
    """

    format: Literal[1] = 1
    questions: str
    count: int
    generator: str
    judge: str
    truth: str | None
    arms: dict[str, str]
    baseline: str
    draws: int
    temperature: float | None
    seed: int | None
    policy: str
    command: dict[str, Any] | None = None

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the manifest of a trial.

        Raises:
            ConfigurationError: If the folder holds no trial, or one of another version.
        """
        missing = f"{folder} holds no trial; give a folder that `refine trial ... --out FOLDER` has written"
        return read_json(cls, folder / MANIFEST, missing)

    def write(self, folder: Path) -> None:
        """Write the manifest into the folder of its trial."""
        write_json(folder / MANIFEST, self.model_dump(mode="json"))

    def changes(self, before: TrialManifest) -> list[str]:
        """Return in words what differs from an earlier start; arms and draws may be added, and a truth given."""
        names = {
            "questions": "the questions",
            "generator": "the generator",
            "judge": "the judge (its settings, prompt or model)",
            "temperature": "the temperature",
            "seed": "the seed",
            "policy": "the policy of the loop",
        }
        changed = [text for name, text in names.items() if getattr(self, name) != getattr(before, name)]
        changed += [f"the arm {name!r}" for name, arm in before.arms.items() if self.arms.get(name, arm) != arm]
        return changed
