"""What an evaluation comes to: a `Row` per sample, a `Summary` per judge, and both in an `Evaluation`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_serializer
from pydantic_core import PydanticSerializationError

from judges.errors import BadSample
from judges.sample import Sample
from judges.verdict import HIGHEST, LOWEST, Usage, Verdict


class Row(BaseModel):
    """One row of a dataset, judged.

    Args:
        index: Its place among the rows given, from 0.
        sample: What was judged; None where the row could not be read.
        verdicts: By judge, scored or not: every judge has its cell in every row.
        error: Why the row could not be read; empty where it could.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: int = Field(ge=0)
    sample: Sample | None = None
    verdicts: Mapping[str, Verdict]
    error: str = ""

    @classmethod
    def unreadable(cls, index: int, error: BadSample, judges: Mapping[str, object]) -> Self:
        """Keep the place of a row that could not be read: a cell without a score for each judge."""
        cell = Verdict.without_score("invalid_sample", f"the row cannot be read: {error}")
        verdicts = {name: cell.model_copy(update={"judge": name}) for name in judges}
        return cls(index=index, verdicts=verdicts, error=str(error))

    @field_serializer("sample")
    def _only_what_is_there(self, sample: Sample | None) -> JsonValue:
        return None if sample is None else sample.model_dump(mode="json", exclude_defaults=True)

    def line(self) -> str:
        """Write the row as one line of JSON, without a line end; `Row.model_validate_json` reads it back."""
        try:
            return self.model_dump_json()
        except PydanticSerializationError:  # half a surrogate pair is no UTF-8, but can be escaped
            return json.dumps(self.model_dump(mode="json"))


class Summary(BaseModel):
    """What one judge said about all rows.

    Args:
        n: Rows.
        scored: Rows with a score; all the figures below but `unscored` and `usage` are over these.
        mean: Mean score, 0 to 1; None where nothing was scored.
        ratings: How many rows got each rating, 1 to 4.
        passed: Share of the scored rows that passed, 0 to 1; None where nothing was scored.
        unscored: How many rows have no score, by reason.
        usage: What the judge consumed, in all.
        latency_s: Mean seconds from question to verdict, scored or not; None where no row could be read.
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
        rows: The rows in the order they were given; empty where they were not kept.
        summary: By judge.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: tuple[Row, ...]
    summary: Mapping[str, Summary]


class Tally:
    """The running totals of one judge, so that a summary needs no rows in memory."""

    def __init__(self) -> None:
        self._score = 0.0
        self._latency = 0.0
        self._asked = 0
        self._passed = 0
        self._ratings: Counter[int] = Counter()
        self._unscored: Counter[str] = Counter()
        self._usage = Usage()

    def add(self, verdict: Verdict, *, asked: bool) -> None:
        """Count a verdict; `asked` tells whether the judge was asked at all."""
        self._usage += verdict.usage
        self._asked += asked
        self._latency += verdict.latency_s if asked else 0.0
        if verdict.rating is None or verdict.score is None:
            self._unscored[str(verdict.unscored)] += 1
            return
        self._score += verdict.score
        self._ratings[verdict.rating] += 1
        self._passed += bool(verdict.passed)

    def summary(self) -> Summary:
        """Sum up what was counted so far."""
        scored = self._ratings.total()
        return Summary(
            n=scored + self._unscored.total(),
            scored=scored,
            mean=self._score / scored if scored else None,
            ratings={rating: self._ratings[rating] for rating in range(LOWEST, HIGHEST + 1)},
            passed=self._passed / scored if scored else None,
            unscored=dict(sorted(self._unscored.items())),
            usage=self._usage,
            latency_s=self._latency / self._asked if self._asked else None,
        )
