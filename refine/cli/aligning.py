"""The command `refine align`: how far a judge's verdicts can be believed."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from judges import ConfigurationError
from judges.errors import shortened
from judges.offline import align
from judges.offline.trust.beside import labels_for
from judges.offline.trust.calibration import with_labels
from judges.offline.trust.choosing import write_queue
from judges.offline.trust.correcting import Sampling
from judges.offline.trust.queueing import labels_to_estimate
from judges.offline.trust.rows import Source, read_judged
from refine.cli.loop_source import loop_source


@dataclass(frozen=True, kw_only=True)
class AlignOptions:
    """Options of `refine align`, as typed."""

    rows: str
    labels: Path | None
    judge: str | None
    good: float
    drawn: str
    split: str | None
    alpha: float
    delta: float
    thresholds: str | None
    max_attempts: int | None
    certificate: Path | None
    next_labels: Path | None
    budget: int
    ledger: Path | None
    full: bool
    as_json: bool
    seed: int


def run_align(options: AlignOptions) -> int:
    """Print the report, write what was asked for, and return the exit code.

    Raises:
        ConfigurationError: If rows, labels or an option cannot be used.
    """
    if options.certificate is not None:
        check_replaceable(options.certificate, "--certificate")
    sampling = _sampling(options.drawn)
    with loop_source(options.rows) as source:
        rows = source.rows if isinstance(source.rows, str) else list(source.rows)
        if options.next_labels is not None and (sampling == "active" or not _has_labels(rows, options.labels)):
            return _choose(rows, options, sampling, options.next_labels)
        aligned = align(
            rows,
            options.labels,
            judge=options.judge,
            good=options.good,
            sampling=sampling,
            split=options.split,
            alpha=options.alpha,
            delta=options.delta,
            thresholds=thresholds_in(options.thresholds),
            max_attempts=options.max_attempts,
            certificate=options.certificate,
            next_labels=options.next_labels,
            budget=options.budget,
            ledger=options.ledger or source.ledger,
            seed=options.seed,
        )
    if options.as_json:
        sys.stdout.write(f"{json.dumps(aligned.to_dict(), ensure_ascii=False, indent=2)}\n")
    else:
        sys.stdout.write(f"{aligned.report(full=options.full)}\n")
    return 0


def _has_labels(rows: Source, labels: Path | None) -> bool:
    read, _ = with_labels(read_judged(rows), labels_for(rows, labels)[0])
    return any(row.opinions for row in read)


def _choose(rows: Source, options: AlignOptions, sampling: Sampling, file: Path) -> int:
    """Choose the first rows to label, before there is anything to report."""
    chosen = labels_to_estimate(
        rows,
        options.labels,
        judge=options.judge,
        sampling="active" if sampling == "active" else "by_rating",
        good=options.good,
        budget=options.budget,
        seed=options.seed,
    )
    write_queue(chosen, file)
    drawn = "active" if sampling == "active" else "by-rating"
    sys.stdout.write(
        f"{len(chosen)} rows in {file}. Have people label them, `refine label {file}`, then give the file as "
        f"--labels, with --drawn {drawn}.\n"
    )
    return 0


def _sampling(drawn: str) -> Sampling:
    name = drawn.replace("-", "_")
    for sampling in get_args(Sampling):
        if name == sampling:
            return sampling  # type: ignore[no-any-return]  # one of the literals
    raise ConfigurationError(f"--drawn is random, by-rating, active or elsewhere, not {shortened(drawn)}")


def thresholds_in(text: str | None, *, name: str = "--thresholds") -> tuple[float, ...] | None:
    """Return numbers from a list with commas; None for none.

    Raises:
        ConfigurationError: If one is no number.
    """
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ConfigurationError(
            f"{name} are numbers with commas, for instance {'1,0.5,0,0' if name == '--harm' else '4,3,2'}, not "
            f"{shortened(text)}"
        ) from None


def check_replaceable(file: Path, option: str) -> None:
    """Check that nothing would be lost by writing a certificate: one that certifies something is never replaced.

    Raises:
        ConfigurationError: If something is there.
    """
    from judges.certificate import IssuedCertificate  # noqa: PLC0415 - pydantic

    if not file.exists():
        return
    try:
        certifies = IssuedCertificate.read(file).certified
    except ConfigurationError:
        certifies = True
    if certifies:
        raise ConfigurationError(f"{str(file)!r} is there already; choose another {option}, or delete it first")
