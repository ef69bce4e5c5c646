"""`Cascade`: judges one after another, cheapest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judges.compose.panel import members
from judges.compose.votes import checked_success
from judges.entry import Explanation
from judges.judge import Judge
from judges.model import JudgeModel
from judges.requests import Consult, Deliberation
from judges.sample import Sample
from judges.verdict import Verdict


class Cascade(Judge):
    """Ask judges one after another, cheapest first, and stop at the first that does not pass.

    The verdict is the deciding level's own: the first failure, or the last level if all pass; it has passed if
    it reaches `success_rating`. `detail` says which level decided, and `items` holds the verdicts so far. A
    level that is unscored decides too, since what it was to check is not known.

    Args:
        judges: The levels, cheapest first, or a mapping of names to levels; functions are accepted.
        success_rating: Rating from which a level passes.
        name: What the cascade is called.

    Raises:
        ConfigurationError: If there are no levels, or a setting is out of its range.
    """

    def __init__(
        self,
        judges: Sequence[object] | Mapping[str, object],
        *,
        success_rating: int = 3,
        name: str = "cascade",
    ) -> None:
        self.name = name
        self.judges: Mapping[str, Judge] = members(judges)
        self._success = checked_success(success_rating)

    @property
    def models(self) -> tuple[JudgeModel, ...]:
        """Every model its levels ask."""
        return tuple(model for judge in self.judges.values() for model in judge.models)

    def explain(self) -> Explanation:
        """Tell what each of its judges needs, asks and costs."""
        parts = [one.explain() for one in self.judges.values()]
        return Explanation.of_parts(self.name, parts, asks="Does it pass judge after judge?", scale="1 to 4")

    def deliberate(self, sample: Sample) -> Deliberation:
        """Consult level after level until one decides."""
        verdicts: tuple[Verdict, ...] = ()
        for name, judge in self.judges.items():
            told: Verdict = yield Consult(judge, sample)
            verdicts = (*verdicts, told.model_copy(update={"judge": name}))
            if not told.reaches(self._success):
                break
        last = verdicts[-1]
        place = f"level {len(verdicts)} of {len(self.judges)} decided: {last.judge}"
        detail = f"{place}; {last.detail}" if last.detail else place
        passed = None if last.unscored else last.reaches(self._success)
        own = {"judge": self.name, "passed": passed, "items": verdicts, "detail": detail}
        return last.model_copy(update=own)
