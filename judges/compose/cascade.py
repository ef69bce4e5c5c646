"""`Cascade`: judges one after another, cheapest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judges.compose import panel
from judges.errors import unfit
from judges.judge import Judge
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import LOWEST, Verdict


class Cascade(panel.CompositeJudge):
    """Ask judges one after another, cheapest first, and stop at the first that does not pass.

    The verdict is that of the deciding level: the first failure, or the last level if all pass; it passes if it
    reaches `success_rating`. `detail` names the deciding level, and `items` holds the verdicts so far. An
    unscored level decides too, since its result is unknown.

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
        self.judges: Mapping[str, Judge] = panel.judges_by_name(judges, model)
        self._success = panel.checked_success(success_rating)

    _asks = "Does it pass judge after judge?"

    def deliberate(self, sample: Sample) -> Deliberation:
        """Consult level after level until one decides."""
        verdict = yield from self.first_to_decide(sample, self._stops, called="level")
        passed = None if verdict.unscored else verdict.reaches(self._success)
        return verdict.model_copy(update={"passed": passed})

    def _stops(self, verdict: Verdict) -> bool:
        return not verdict.reaches(self._success)


class Escalation(panel.CompositeJudge):
    """Ask judges one after another, cheapest first, and stop at the first that is sure.

    A judge is sure if its rating reaches `sure`, or is at most `sure_bad`; with shares in place of ratings, if its
    `p_pass` does, without which it is then not sure. The last one decides in any case. The
    verdict is that of the judge that decides: its rating is compared as any other, so that the loop's success
    rating, and a certificate of recorded loops, are about the escalation as a whole. What nobody releases goes to
    people by the loop's `on_exhausted="interrupt"`. `detail` names the deciding judge, and `items` holds the
    verdicts so far; one that is unscored is not sure. With `sure_bad` a judge that failed could have refused
    alone: where a later one does not refuse, the escalation is unscored.

    Raises:
        ConfigurationError: If there are no judges, or a setting is out of its range.
    """

    def __init__(
        self,
        judges: Sequence[object] | Mapping[str, object],
        *,
        sure: int | float = 4,  # noqa: PYI041 - a whole number is a rating, any other a probability
        sure_bad: int | float | None = None,  # noqa: PYI041 - the same
        name: str = "escalation",
        model: object = None,
    ) -> None:
        self.name = name
        self.judges: Mapping[str, Judge] = panel.judges_by_name(judges, model)
        by_share = type(sure) is float and 0 < sure < 1
        self._sure: int | float = sure if by_share else panel.checked_success(sure, setting="sure")  # type: ignore[arg-type]
        lowest, kind = (0.0, "a p_pass from 0") if by_share else (LOWEST, "a rating from 1")
        if sure_bad is not None and not (type(sure_bad) is type(sure) and lowest <= sure_bad < sure):
            raise unfit(f"sure_bad is {kind}, below sure={sure}, or None", sure_bad)
        self._sure_bad = sure_bad

    _asks = "What says the first judge that is sure?"

    def deliberate(self, sample: Sample) -> Deliberation:
        """Consult judge after judge until one is sure."""
        verdict = yield from self.first_to_decide(sample, self._is_sure, called="judge")
        missing = panel.lacking(verdict.items[:-1])
        if self._sure_bad is None or not missing or verdict.rating is None:
            return verdict
        if self._refuses(verdict):
            return panel.as_refusal(verdict)
        return panel.without_missing(verdict.items, missing).model_copy(update={"judge": self.name})

    def _is_sure(self, verdict: Verdict) -> bool:
        if type(self._sure) is float:
            return self._refuses(verdict) or (verdict.p_pass is not None and verdict.p_pass >= self._sure)
        return self._refuses(verdict) or verdict.reaches(int(self._sure))

    def _refuses(self, verdict: Verdict) -> bool:
        """Return whether a judge before the last refuses alone with this verdict."""
        value = verdict.p_pass if type(self._sure) is float else verdict.rating
        return self._sure_bad is not None and value is not None and value <= self._sure_bad
