"""`Cascade`: judges one after another, cheapest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judges.compose.panel import judges_by_name
from judges.compose.votes import checked_success
from judges.entry import Explanation
from judges.judge import Judge
from judges.model import JudgeModel
from judges.requests import Consult, Deliberation
from judges.sample import Sample
from judges.verdict import Verdict


class Cascade(Judge):
    """Ask judges one after another, cheapest first, and stop at the first that does not pass.

    The verdict is that of the deciding level: the first failure, or the last level if all pass; it passes if it
    reaches `success_rating`. `detail` names the deciding level, and `items` holds the verdicts so far. An
    unscored level decides too, since its result is unknown.

    Args:
        judges: The levels, cheapest first, or a mapping of names to levels; functions and judges' names are
            accepted.
        success_rating: Rating from which a level passes.
        name: The cascade's name.
        model: The model of levels that are given by name and can ask one.

    Raises:
        ConfigurationError: If there are no levels, or a setting is out of its range.
    """

    def __init__(
        self,
        judges: Sequence[object] | Mapping[str, object],
        *,
        success_rating: int = 3,
        name: str = "cascade",
        model: object = None,
    ) -> None:
        self.name = name
        self.judges: Mapping[str, Judge] = judges_by_name(judges, model)
        self._success = checked_success(success_rating)

    @property
    def models(self) -> tuple[JudgeModel, ...]:
        """Every model its levels ask."""
        return tuple(model for judge in self.judges.values() for model in judge.models)

    @property
    def metadata_keys(self) -> tuple[str, ...]:
        """Keys of a sample's metadata that any level reads."""
        return tuple(dict.fromkeys(key for judge in self.judges.values() for key in judge.metadata_keys))

    def explain(self) -> Explanation:
        """Describe what each of its judges needs, asks and costs."""
        parts = [judge.explain() for judge in self.judges.values()]
        return Explanation.of_parts(self.name, parts, asks="Does it pass judge after judge?", scale="1 to 4")

    def deliberate(self, sample: Sample) -> Deliberation:
        """Consult level after level until one decides."""
        verdicts: tuple[Verdict, ...] = ()
        for name, judge in self.judges.items():
            verdict: Verdict = yield Consult(judge, sample)
            verdicts = (*verdicts, verdict.model_copy(update={"judge": name}))
            if not verdict.reaches(self._success):
                break
        last = verdicts[-1]
        decision = f"level {len(verdicts)} of {len(self.judges)} decided: {last.judge}"
        detail = f"{decision}; {last.detail}" if last.detail else decision
        passed = None if last.unscored else last.reaches(self._success)
        own = {"judge": self.name, "passed": passed, "items": verdicts, "detail": detail}
        return last.model_copy(update=own)
