"""From evaluations to what a report says of them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from judges.offline import Evaluation, Row, Summary, load_run
from judges.offline.compare import pair_rows
from judges.offline.run.outputs import RESULTS, TIMING
from judges.offline.run.source import Manifest
from judges.offline.statistics.intervals import Figure
from judges.verdict import Verdict
from refine.report.view import Entry, JudgeView, Report, RunView, Slice, Spread, TrustSources, trust_of

_PERCENTILES = (50, 90, 99)
_MOST_WORST = 5
_BINS = 10
_RATING_SCORES = {round(step / 3, 6) for step in range(4)}
_SHOWN_MODELS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RunData:
    """A run as it was read.

    Args:
        name: What it is called.
        evaluation: Its rows and summaries.
        dataset: The file that was judged; empty where there is none.
        finished: When it ended, in ISO 8601.
        seconds: How long its last start took.
        latencies: Percentiles of the latency by judge, where they are known.
        settings: How each judge was named on the command line.
    """

    name: str
    evaluation: Evaluation
    dataset: str = ""
    finished: str | None = None
    seconds: float | None = None
    latencies: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)


def build(
    runs: Sequence[RunData],
    *,
    slices: Sequence[str] = (),
    sources: TrustSources | None = None,
    seed: int = 0,
) -> Report:
    """Return what a report of one run says, or of two.

    Args:
        runs: The run; or two over the same questions, the earlier one first.
        slices: Columns of the metadata by whose values rows are grouped.
        sources: Labels, attempts and a certificate, from which it is told how far the later run can be believed.
        seed: Seed of all resamples.

    Raises:
        ConfigurationError: If no row has one of the columns, the two runs have no question in common, or a source
            cannot be read.
    """
    comparison = None
    if len(runs) > 1:
        from judges.offline import compare_runs  # noqa: PLC0415 - needs numpy and scipy

        before, after = runs
        comparison = compare_runs(before.evaluation, after.evaluation, names=(before.name, after.name), seed=seed)
    trust = trust_of(runs[-1].evaluation, sources or TrustSources(), seed=seed)
    entries = _entries([run.evaluation.kept_rows() for run in runs], {} if trust is None else trust.labels)
    return Report(
        runs=tuple(_run_view(run, slices) for run in runs),
        entries=entries,
        worst=_worst_rows(entries),
        comparison=comparison,
        trust=trust,
    )


def _worst_rows(entries: Sequence[Entry], most: int = _MOST_WORST) -> tuple[int, ...]:
    """Return the positions of rows that did not pass with a judge, those with the lowest mean score first."""
    failed: list[tuple[float, int]] = []
    for place, entry in enumerate(entries):
        verdicts = [verdict for verdict in entry.row.verdicts.values() if verdict.score is not None]
        if any(not verdict.passed for verdict in verdicts):
            failed.append((sum(verdict.score or 0.0 for verdict in verdicts) / len(verdicts), place))
    return tuple(place for _, place in sorted(failed)[:most])


def _entries(runs: Sequence[Sequence[Row]], labels: Mapping[int, bool]) -> tuple[Entry, ...]:
    """Pair the rows of two runs that ask the same; rows of one run alone stand alone."""
    words = {index: "good" if is_good else "bad" for index, is_good in labels.items()}
    sides: list[tuple[Row | None, ...]] = [(row,) for row in runs[-1]]
    if len(runs) > 1:
        pairs = pair_rows(*runs)
        paired = {id(row) for pair in pairs for row in pair}
        sides = [*pairs, *((row, None) for row in runs[0] if id(row) not in paired)]
        sides += [(None, row) for row in runs[1] if id(row) not in paired]
    entries = [_entry(side, words) for side in sides]
    return tuple(sorted(entries, key=lambda entry: (entry.index, entry.sides[-1] is not None)))


def _entry(sides: tuple[Row | None, ...], words: Mapping[int, str]) -> Entry:
    """Return an entry under the index that its row has in the last run that has it."""
    index = next(row.index for row in reversed(sides) if row is not None)
    return Entry(index=index, sides=sides, label=words.get(index, "") if sides[-1] else "")


def _run_view(run: RunData, columns: Sequence[str]) -> RunView:
    rows = run.evaluation.kept_rows()
    return RunView(
        name=run.name,
        dataset=run.dataset,
        rows=len(rows),
        unreadable=sum(bool(row.error) for row in rows),
        finished=run.finished,
        seconds=run.seconds,
        judges=_judge_views(run, rows),
        slices={column: _slices(run, column) for column in columns},
    )


def _judge_views(run: RunData, rows: Sequence[Row]) -> tuple[JudgeView, ...]:
    return tuple(
        _judge_view(
            name,
            summary,
            [row.verdicts[name] for row in rows],
            run.latencies.get(name),
            run.settings.get(name, ""),
        )
        for name, summary in run.evaluation.summary.items()
    )


def _slices(run: RunData, column: str) -> tuple[Slice, ...]:
    slices = []
    for value, summaries in run.evaluation.slices(column).items():
        judges = {name: _judge_view(name, summary, ()) for name, summary in summaries.items()}
        slices.append(Slice(value=value, n=next(iter(summaries.values())).n, judges=judges))
    return tuple(slices)


def _judge_view(
    name: str,
    summary: Summary,
    verdicts: Sequence[Verdict],
    latencies: Mapping[int, float] | None = None,
    setting: str = "",
) -> JudgeView:
    """Return the results of a judge.

    Args:
        name: Its name.
        summary: Its totals.
        verdicts: Its verdicts; empty where only the totals matter.
        latencies: Percentiles of the latency, if they are known.
        setting: How it was named on the command line.
    """
    usage = summary.usage
    costs = [verdict.usage.cost for verdict in verdicts]
    known = [cost for cost in costs if cost is not None]
    models = dict.fromkeys(verdict.model for verdict in verdicts if verdict.model)
    return JudgeView(
        name=name,
        n=summary.n,
        scored=summary.scored,
        mean=_figure(summary.mean, summary.mean_interval, summary.scored, "normal interval"),
        passed=_figure(summary.passed, summary.passed_interval, summary.scored, "Wilson"),
        ratings=summary.ratings,
        histogram=_histogram(verdicts),
        unscored=summary.unscored,
        latency=Spread(percentiles=latencies) if latencies else None,
        tokens=Spread(percentiles=percentiles([v.usage.tokens for v in verdicts]), total=usage.tokens),
        cost=Spread(percentiles=percentiles(known), total=usage.cost) if len(known) == len(costs) else None,
        calls=usage.calls,
        models=tuple(models)[:_SHOWN_MODELS],
        setting=setting,
    )


def percentiles(values: Sequence[float]) -> dict[int, float]:
    """Return percentiles by nearest rank, so that each is a value that occurred; empty without values."""
    ordered = sorted(values)
    return {p: ordered[math.ceil(p / 100 * len(ordered)) - 1] for p in _PERCENTILES} if ordered else {}


def _figure(value: float | None, interval: tuple[float, float] | None, n: int, method: str) -> Figure:
    if value is None:
        return Figure.undefined("too_few", n, method=method)
    low, high = interval or (None, None)
    return Figure(value=value, n=n, low=low, high=high, method=method)


def _histogram(verdicts: Sequence[Verdict]) -> tuple[int, ...]:
    """Return how many scores lie in each tenth from 0 to 1; nothing where the ratings say as much."""
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    if {round(score, 6) for score in scores} <= _RATING_SCORES:
        return ()
    bins = [0] * _BINS
    for score in scores:
        bins[min(int(score * _BINS), _BINS - 1)] += 1
    return tuple(bins)


def read_run(folder: Path) -> RunData:
    """Read a finished run.

    Raises:
        ConfigurationError: If the folder holds no run, or one that has not finished.
    """
    evaluation = load_run(folder)
    manifest = Manifest.read(folder)
    timing = _timing(folder)
    latencies = {
        name: {int(percentage): value for percentage, value in times["latency_percentiles_s"].items()}
        for name, times in timing.get("judges", {}).items()
    }
    return RunData(
        name=str(folder),
        evaluation=evaluation,
        dataset="" if manifest.dataset is None else manifest.dataset.name,
        finished=timing.get("finished") or _written(folder / RESULTS),
        seconds=timing.get("seconds"),
        latencies=latencies,
        settings={judge.name: " ".join(filter(None, (judge.spec, judge.model))) for judge in manifest.judges},
    )


def _timing(folder: Path) -> dict[str, Any]:
    """Return what the run knows of its times; nothing where that file was not kept."""
    try:
        return dict(json.loads((folder / TIMING).read_bytes()))
    except (OSError, ValueError):
        return {}


def _written(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
