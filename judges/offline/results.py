"""Results of an evaluation: a `Row` per sample, a `Summary` per judge, and both in an `Evaluation`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, field_serializer
from pydantic_core import PydanticSerializationError

from judges.catalogue.registry import qualified_name
from judges.errors import BadSample
from judges.runtime.by_judge import ByJudge
from judges.sample import Sample
from judges.verdict import HIGHEST, LOWEST, Usage, Verdict

_FOUND_BY_ANY_NAME = AfterValidator(partial(ByJudge, qualified=qualified_name))


class Row(BaseModel):
    """One row of a dataset, judged.

    Args:
        index: Its position in the dataset, from 0; messages name rows by it.
        sample: The sample judged; None if the row could not be read.
        verdicts: Verdicts by judge, scored or not: every judge has one in every row. A judge of the catalogue is
            found by any of its names.
        error: Why the row could not be read; empty if it could.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: int = Field(ge=0)
    sample: Sample | None = None
    verdicts: Annotated[Mapping[str, Verdict], _FOUND_BY_ANY_NAME]
    error: str = ""

    @classmethod
    def unreadable(cls, index: int, error: BadSample, judges: Mapping[str, object]) -> Self:
        """Return a row that could not be read, with an unscored verdict for each judge."""
        cell = Verdict.without_score("invalid_sample", f"the row cannot be read: {error}")
        verdicts = {name: cell.model_copy(update={"judge": name}) for name in judges}
        return cls(index=index, verdicts=verdicts, error=str(error))

    @field_serializer("sample")
    def _without_defaults(self, sample: Sample | None) -> JsonValue:
        return None if sample is None else sample.model_dump(mode="json", exclude_defaults=True)

    def line(self) -> str:
        """Return the row as one line of JSON, without a newline; `Row.model_validate_json` reads it back."""
        try:
            return self.model_dump_json()
        except PydanticSerializationError:  # half a surrogate pair is invalid in UTF-8, but can be escaped
            return json.dumps(self.model_dump(mode="json"))


class Summary(BaseModel):
    """The results of one judge over all rows.

    Args:
        n: Number of rows.
        scored: Number of rows with a score; all the figures below but `unscored` and `usage` are over these.
        mean: Mean score, 0 to 1; None where nothing was scored.
        ratings: How many rows got each rating, 1 to 4.
        passed: Share of the scored rows that passed, 0 to 1; None where nothing was scored.
        unscored: How many rows have no score, by reason.
        usage: Usage of the judge in total.
        latency_s: Mean seconds from sample to verdict, scored or not; None where no row could be read.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    n: int
    scored: int
    mean: float | None
    ratings: Mapping[int, int]
    passed: float | None
    unscored: Mapping[str, int]
    usage: Usage
    latency_s: float | None


class Evaluation(BaseModel):
    """The result of judging a dataset.

    Args:
        rows: The rows in the order of the dataset; empty if they were not kept.
        summary: Summaries by judge, found as the verdicts of a row are.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: tuple[Row, ...]
    summary: Annotated[Mapping[str, Summary], _FOUND_BY_ANY_NAME]

    def __repr__(self) -> str:
        rows = next((one.n for one in self.summary.values()), 0)
        means = {name: "unscored" if one.mean is None else f"{one.mean:.3f}" for name, one in self.summary.items()}
        figures = [f"{rows} row{'' if rows == 1 else 's'}", *(f"{name} {mean}" for name, mean in means.items())]
        return f"Evaluation({', '.join(figures)})"

    def __str__(self) -> str:
        return repr(self)


class Tally:
    """The running totals of one judge, so that a summary needs no rows in memory."""

    def __init__(self) -> None:
        self._score = 0.0
        self._latency = 0.0
        self._judged = 0
        self._passed = 0
        self._ratings: Counter[int] = Counter()
        self._unscored: Counter[str] = Counter()
        self._usage = Usage()

    def add(self, verdict: Verdict, *, judged: bool) -> None:
        """Count a verdict; `judged` says whether the judge was called at all."""
        self._usage += verdict.usage
        self._judged += judged
        self._latency += verdict.latency_s if judged else 0.0
        if verdict.rating is None or verdict.score is None:
            self._unscored[str(verdict.unscored)] += 1
            return
        self._score += verdict.score
        self._ratings[verdict.rating] += 1
        self._passed += bool(verdict.passed)

    def summary(self) -> Summary:
        """Return the summary of the verdicts counted so far."""
        scored = self._ratings.total()
        return Summary(
            n=scored + self._unscored.total(),
            scored=scored,
            mean=self._score / scored if scored else None,
            ratings={rating: self._ratings[rating] for rating in range(LOWEST, HIGHEST + 1)},
            passed=self._passed / scored if scored else None,
            unscored=dict(sorted(self._unscored.items())),
            usage=self._usage,
            latency_s=self._latency / self._judged if self._judged else None,
        )
