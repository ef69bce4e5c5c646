"""What a report says, as plain data: made once, and rendered as a page, as Markdown or as a table of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from judges import ConfigurationError
from judges.offline import Evaluation, Row
from judges.offline.statistics.intervals import Figure

if TYPE_CHECKING:
    from judges.certificate import IssuedCertificate
    from judges.offline import RunComparison
    from judges.offline.trust.align import Alignment
    from judges.offline.trust.replay import LoopReplay


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A quantity over the rows of a judge.

    Args:
        percentiles: The median and the 90th and 99th percentile, by percentage.
        total: Its sum; None where it means nothing, or is not known.
    """

    percentiles: Mapping[int, float]
    total: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeView:
    """The results of one judge in one run.

    Args:
        name: Its name in the run.
        n: Rows.
        scored: Rows with a score.
        mean: Mean score with its 95 % interval.
        passed: Share of the scored rows that passed, with its 95 % interval.
        ratings: Rows by rating, 1 to 4.
        histogram: Rows by tenth of the score, where scores are not just the four ratings; else empty.
        unscored: Rows without a score, by reason.
        latency: Seconds; None where the run does not know them.
        tokens: Tokens a row, and in total.
        cost: US dollars a row, and in total; None where a price is unknown.
        calls: Model calls in total.
        models: The models that answered, as they reported themselves.
        setting: How the judge was named on the command line; empty where it was not.
    """

    name: str
    n: int
    scored: int
    mean: Figure
    passed: Figure
    ratings: Mapping[int, int]
    histogram: tuple[int, ...] = ()
    unscored: Mapping[str, int]
    latency: Spread | None
    tokens: Spread
    cost: Spread | None
    calls: int
    models: tuple[str, ...] = ()
    setting: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A group of rows with the same value in a column of their metadata; `""` are rows without one."""

    value: str
    n: int
    judges: Mapping[str, JudgeView]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """One run.

    Args:
        name: What the run is called, its folder.
        dataset: The file that was judged; empty where rows came from Python.
        rows: Number of rows.
        unreadable: Rows that could not be read.
        finished: When its last start ended, in ISO 8601; None where it is not known.
        seconds: How long that took.
        judges: Its judges, in the order of the run.
        slices: By column, its groups of rows.
    """

    name: str
    dataset: str = ""
    rows: int
    unreadable: int = 0
    finished: str | None = None
    seconds: float | None = None
    judges: tuple[JudgeView, ...]
    slices: Mapping[str, tuple[Slice, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row of the table of all rows.

    Args:
        index: Its index in the dataset.
        sides: The row in each run; None where a run does not have it.
        label: "good" or "bad", as people call the answer of the last run; empty where nobody did.
    """

    index: int
    sides: tuple[Row | None, ...]
    label: str = ""

    @property
    def row(self) -> Row:
        """The row in the last run that has it."""
        return next(row for row in reversed(self.sides) if row is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that a report says.

    Args:
        runs: One run, or two that are compared, the earlier one first.
        entries: All rows.
        worst: Positions in `entries` of the rows that did worst, worst first.
        comparison: How the second run compares with the first.
        trust: How far the verdicts can be believed, where there are labels or attempts.
    """

    runs: tuple[RunView, ...]
    entries: tuple[Entry, ...]
    worst: tuple[int, ...] = ()
    comparison: RunComparison | None = None
    trust: Trust | None = None

    @property
    def run(self) -> RunView:
        """The run that the report is about: the only one, or the later of two."""
        return self.runs[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustSources:
    """Where labels, attempts and a certificate are.

    Args:
        labels: File of labels, or rows with labels.
        attempts: File of recorded attempts.
        certificate: File that `refine certify` wrote.
    """

    labels: Path | None = None
    attempts: Path | None = None
    certificate: Path | None = None

    def __bool__(self) -> bool:
        return any((self.labels, self.attempts, self.certificate))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """What is known of how far verdicts can be believed.

    Args:
        alignments: By judge, how it agrees with people.
        replay: What recorded attempts tell.
        certificate: What was promised about a loop, or that nothing could be.
        is_issued: Whether the certificate is that of a file, and not only calculated for the report.
        labels: By index of a row, whether people call its answer good.
        notes: What could not be told, and why.
    """

    alignments: tuple[Alignment, ...] = ()
    replay: LoopReplay | None = None
    certificate: IssuedCertificate | None = None
    is_issued: bool = False
    labels: Mapping[int, bool] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def trust_of(evaluation: Evaluation, sources: TrustSources, *, seed: int = 0) -> Trust | None:
    """Return how far the verdicts of a run can be believed; None where nothing was given to tell it from.

    Args:
        evaluation: The run, with its rows. Labels in the rows count as well as those of the sources.
        sources: What there is besides.
        seed: Seed of the resamples.

    Raises:
        ConfigurationError: If a file cannot be read, or labels belong to no row of the run.
    """
    has_labels = sources.labels is not None or _has_labels(evaluation)
    if not (sources or has_labels):
        return None
    notes: list[str] = []
    alignments = _alignments(evaluation, sources.labels, notes, seed) if has_labels else ()
    certificate = _certificate(sources, alignments, notes)
    return Trust(
        alignments=alignments,
        replay=_replay(sources, seed),
        certificate=certificate,
        is_issued=sources.certificate is not None,
        labels=_labels(evaluation, sources.labels) if alignments else {},
        notes=tuple(dict.fromkeys(notes)),
    )


def _has_labels(evaluation: Evaluation) -> bool:
    return any(row.sample is not None and row.sample.metadata.get("labels") for row in evaluation.rows)


def _alignments(evaluation: Evaluation, labels: Path | None, notes: list[str], seed: int) -> tuple[Alignment, ...]:
    """Compare each judge with people; one that scored no labelled row has its reason in a note."""
    from judges.offline import align  # noqa: PLC0415 - needs numpy and scipy

    alignments = []
    for judge, summary in evaluation.summary.items():
        if summary.scored == 0:
            notes.append(f"{judge} is not compared with people: it scored no row.")
            continue
        alignment = align(evaluation, labels, judge=judge, seed=seed)
        alignments.append(alignment)
        notes += [f"{judge}: {note}." for note in alignment.notes if not note.startswith("no threshold")]
    return tuple(alignments)


def _certificate(
    sources: TrustSources, alignments: tuple[Alignment, ...], notes: list[str]
) -> IssuedCertificate | None:
    """Return the certificate of a file, or what one from the same labels would say."""
    if sources.certificate is not None:
        from judges.certificate import IssuedCertificate  # noqa: PLC0415 - only here

        return IssuedCertificate.read(sources.certificate)
    if sources.attempts is None:
        return next((one.certificate for one in alignments if one.certificate is not None), None)
    from judges.offline import certify  # noqa: PLC0415 - needs numpy and scipy

    try:
        return certify(sources.attempts, _labels_of_attempts(sources), unlabelled="left_out")
    except ConfigurationError as error:
        notes.append(f"No threshold is certified: {error}.")
        return None


def _replay(sources: TrustSources, seed: int) -> LoopReplay | None:
    if sources.attempts is None:
        return None
    from judges.offline import replay  # noqa: PLC0415 - needs numpy and scipy

    return replay(sources.attempts, _labels_of_attempts(sources), seed=seed)


def _labels_of_attempts(sources: TrustSources) -> Path | None:
    """Return the labels that were named, where any of them is about a recorded attempt."""
    from judges.offline.trust.calibration import keys_of  # noqa: PLC0415 - needs numpy and scipy
    from judges.offline.trust.rows import read_judged, read_labels  # noqa: PLC0415 - likewise

    if sources.labels is None or sources.attempts is None:
        return None
    about = {key for row in read_judged(sources.attempts) for key in keys_of(row)}
    return (
        None
        if about.isdisjoint(key for row in read_labels(sources.labels) for key in keys_of(row))
        else sources.labels
    )


def _labels(evaluation: Evaluation, labels: Path | None) -> dict[int, bool]:
    from judges.offline.trust.calibration import with_labels  # noqa: PLC0415 - needs numpy and scipy
    from judges.offline.trust.certify import GOOD  # noqa: PLC0415 - likewise
    from judges.offline.trust.rows import (  # noqa: PLC0415 - likewise
        labels_for,
        majority,
        read_judged,
        usable,
    )

    rows, _ = with_labels(read_judged(evaluation), labels_for(None, labels)[0])
    verdicts = {row.index: majority(usable(row.opinions, None), GOOD) for row in rows}
    return {index: verdict for index, verdict in verdicts.items() if verdict is not None}
