"""`Cascade`: judges one after another, cheapest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judges.compose.composite import CompositeJudge
from judges.compose.panel import judges_by_name
from judges.compose.votes import checked_success
from judges.entry import Explanation
from judges.judge import Judge
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict


class Cascade(CompositeJudge):
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

    def explain(self) -> Explanation:
        """Describe what each of its judges needs, asks and costs."""
        parts = [judge.explain() for judge in self.judges.values()]
        return Explanation.of_parts(self.name, parts, asks="Does it pass judge after judge?", scale="1 to 4")

    def deliberate(self, sample: Sample) -> Deliberation:
        """Consult level after level until one decides."""
        verdict = yield from self.first_to_decide(sample, self._stops, called="level")
        passed = None if verdict.unscored else verdict.reaches(self._success)
        return verdict.model_copy(update={"passed": passed})

    def _stops(self, verdict: Verdict) -> bool:
        return not verdict.reaches(self._success)
