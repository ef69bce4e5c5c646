"""`Repeat`: one judge asked several times."""

from __future__ import annotations

from collections import Counter

from judges.compose.panel import one_judge
from judges.compose.votes import checked_quorum, skipped_notes, too_few_votes
from judges.entry import Explanation
from judges.errors import ConfigurationError, shortened
from judges.judge import Judge
from judges.model import JudgeModel
from judges.requests import Deliberation, repeat
from judges.sample import Sample


class Repeat(Judge):
    """Ask one judge several times and take the most frequent verdict (self-consistency, arXiv 2203.11171).

    A tie goes to the stricter side, and `detail` reports it. `detail` also reports the agreement: the share of the
    rated runs with this verdict. Use a judge with a temperature above 0; at 0 the runs are identical.

    Args:
        judge: The judge; a function and a judge's name are accepted.
        n: How often to ask, at least 1.
        quorum: How many runs must rate; None requires more than half. With fewer the verdict is unscored,
            `"too_few_votes"`.
        name: The name; None takes the judge's name.
        model: The model of a judge that is given by name and can ask one.

    Raises:
        ConfigurationError: If `n` or `quorum` is out of its range.
    """

    def __init__(
        self,
        judge: object,
        n: int = 3,
        *,
        quorum: int | None = None,
        name: str | None = None,
        model: object = None,
    ) -> None:
        if type(n) is not int or n < 1:
            raise ConfigurationError(
                f"n is how often the judge is asked, a whole number from 1, not {shortened(n)}"
            )
        self.judge = one_judge(judge, model=model)
        self.name = name or self.judge.name
        self._n = n
        self._quorum = checked_quorum(quorum, n)

    @property
    def models(self) -> tuple[JudgeModel, ...]:
        """The models of the repeated judge."""
        return self.judge.models

    @property
    def metadata_keys(self) -> tuple[str, ...]:
        """Keys of a sample's metadata that the repeated judge reads."""
        return self.judge.metadata_keys

    def explain(self) -> Explanation:
        """Describe what the judge needs, asks and costs."""
        part = self.judge.explain()
        asks = f"What does {part.judge} say most often, asked {self._n} times?"
        calls = "0" if part.calls == "0" else f"{self._n} x ({part.calls})"
        return Explanation.of_parts(self.name, [part], asks=asks, calls=calls, scale=part.scale)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Consult the judge n times at once and return the most frequent verdict."""
        verdicts = yield from repeat(self.judge, sample, self._n)
        valid = [verdict for verdict in verdicts if verdict.rating is not None]
        if len(valid) < self._quorum:
            return too_few_votes(verdicts, len(valid), self._quorum)
        counts = Counter((verdict.passed, verdict.rating) for verdict in valid)
        most = max(counts.values())
        tied = [verdict for verdict in valid if counts[verdict.passed, verdict.rating] == most]
        strictest = min(tied, key=lambda verdict: (verdict.passed, verdict.rating))
        notes = [f"agreement {most / len(valid):.2f}", *skipped_notes(verdicts)]
        if most < len(tied):
            notes.insert(1, "tied: the stricter side counts")
        return strictest.model_copy(update={"judge": self.name, "items": verdicts, "detail": "; ".join(notes)})
