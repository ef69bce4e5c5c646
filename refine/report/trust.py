"""How far the verdicts of a run can be believed: what labels, recorded attempts and a certificate say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from judges import ConfigurationError
from judges.offline import Evaluation

if TYPE_CHECKING:
    from judges.certificate import IssuedCertificate
    from judges.offline.trust.alignment import Alignment
    from judges.offline.trust.loop_replay import LoopReplay


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
    from judges.offline.trust.beside import labels_for  # noqa: PLC0415 - needs numpy and scipy
    from judges.offline.trust.calibration import with_labels  # noqa: PLC0415 - needs numpy and scipy
    from judges.offline.trust.certifying import GOOD  # noqa: PLC0415 - likewise
    from judges.offline.trust.labels import majority, usable  # noqa: PLC0415 - likewise
    from judges.offline.trust.rows import read_judged  # noqa: PLC0415 - likewise

    rows, _ = with_labels(read_judged(evaluation), labels_for(None, labels)[0])
    verdicts = {row.index: majority(usable(row.opinions, None), GOOD) for row in rows}
    return {index: verdict for index, verdict in verdicts.items() if verdict is not None}
