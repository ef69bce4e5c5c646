"""What judges made of several judges have in common."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

from judges.judge import Judge
from judges.model import JudgeModel
from judges.requests import Consult
from judges.sample import Sample
from judges.verdict import Verdict


class CompositeJudge(Judge):
    """A judge made of several, `judges` by name: their models are its models, and it reads what they read."""

    judges: Mapping[str, Judge]

    @property
    def models(self) -> tuple[JudgeModel, ...]:
        """Every model that its judges ask."""
        return tuple(model for judge in self.judges.values() for model in judge.models)

    @property
    def metadata_keys(self) -> tuple[str, ...]:
        """Keys of a sample's metadata that any of its judges reads."""
        return tuple(dict.fromkeys(key for judge in self.judges.values() for key in judge.metadata_keys))

    def first_to_decide(
        self, sample: Sample, decides: Callable[[Verdict], bool], *, called: str
    ) -> Generator[Consult, Any, Verdict]:
        """Consult judge after judge, and return the verdict of the first that decides, else of the last.

        Args:
            sample: The sample.
            decides: Whether the judge of this verdict decides.
            called: What a judge is called in `detail`, which names the one that decided.
        """
        verdicts: tuple[Verdict, ...] = ()
        for name, judge in self.judges.items():
            verdict: Verdict = yield Consult(judge, sample)
            verdicts = (*verdicts, verdict.model_copy(update={"judge": name}))
            if decides(verdict):
                break
        last = verdicts[-1]
        decision = f"{called} {len(verdicts)} of {len(self.judges)} decided: {last.judge}"
        detail = f"{decision}; {last.detail}" if last.detail else decision
        return last.model_copy(update={"judge": self.name, "items": verdicts, "detail": detail})
