"""Limits of what was measured beside an answer: the time that it took, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Unpack

from judges.catalogue.metric import ComputedMetric, MetricSettings
from judges.errors import CannotJudge
from judges.sample import Sample
from judges.verdict import Verdict


class _Limit(ComputedMetric):
    """A judge of a number that the sample's metadata holds: it passes up to a limit.

    Where nothing was measured the verdict is unscored, `undefined`.

    Attributes:
        keys: The names under which the number may stand, with dots where it stands deeper.
        unit: What it is counted in, for the feedback.
    """

    keys: ClassVar[tuple[str, ...]]
    unit: ClassVar[str]
    _limit: float

    @property
    def metadata_keys(self) -> tuple[str, ...]:
        """The keys under which the number may stand."""
        return tuple(key.partition(".")[0] for key in self.keys)

    def compute(self, sample: Sample) -> Verdict:
        """Compare what was measured with the limit."""
        measured = next(
            (number for key in self.keys if (number := _number(sample.metadata, key)) is not None), None
        )
        if measured is None:
            raise CannotJudge("undefined", f"the metadata has no number under {' or '.join(self.keys)}")
        passed = measured <= self._limit
        figures = {"measured": f"{measured:g}{self.unit}", "limit": f"{self._limit:g}{self.unit}"}
        rationale = self.say("within" if passed else "above", sample, **figures)
        return Verdict.checked(passed, value=measured, rationale=rationale, feedback="" if passed else rationale)


def _number(metadata: Mapping[str, Any], key: str) -> float | None:
    """Return the number under a key, with dots for mappings inside; None where there is none."""
    value: Any = metadata
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return float(value) if type(value) in (int, float) and value >= 0 else None


class Latency(_Limit, entry="latency", pack="limits"):
    """Judge whether an answer came in time, by what was measured: `metadata["latency_s"]` in seconds."""

    keys = ("latency_s", "latency_seconds", "latency", "duration_s")
    unit = " s"

    def __init__(self, *, at_most: float, **settings: Unpack[MetricSettings]) -> None:
        super().__init__(**settings)
        self._limit = at_most


class Cost(_Limit, entry="cost", pack="limits"):
    """Judge whether an answer was cheap enough, by what was measured: `metadata["cost"]` in US dollars."""

    keys = ("cost", "usage.cost", "total_cost")
    unit = " USD"

    def __init__(self, *, at_most: float, **settings: Unpack[MetricSettings]) -> None:
        super().__init__(**settings)
        self._limit = at_most
