"""The command `refine align`: how far a judge's verdicts can be believed."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from judges import ConfigurationError
from judges.errors import shortened
from judges.offline import align, certify
from judges.offline.statistics.certificates import AnyMethod
from judges.offline.trust.calibration import read_labelled
from judges.offline.trust.label import labels_to_certify, labels_to_estimate, write_queue
from judges.offline.trust.report_text import Sampling
from judges.offline.trust.rows import RowSource
from refine.cli.loops import loop_source
from refine.cli.options import AlignOptions, CertifyOptions


def run_align(options: AlignOptions) -> int:
    """Print the report, write what was asked for, and return the exit code.

    Raises:
        ConfigurationError: If rows, labels or an option cannot be used.
    """
    if options.certificate is not None:
        _check_replaceable(options.certificate, "--certificate")
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
            thresholds=_thresholds_in(options.thresholds),
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


def _has_labels(rows: RowSource, labels: Path | None) -> bool:
    return any(row.opinions for row in read_labelled(rows, labels).rows)


def _choose(rows: RowSource, options: AlignOptions, sampling: Sampling, file: Path) -> int:
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


def _thresholds_in(text: str | None, *, name: str = "--thresholds") -> tuple[float, ...] | None:
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


def _check_replaceable(file: Path, option: str) -> None:
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


def run_certify(options: CertifyOptions) -> int:
    """Certify, or only choose what to label; return the exit code: 0, or 1 if nothing is certified.

    Raises:
        ConfigurationError: If attempts, labels or an option cannot be used.
    """
    if options.next_labels is not None:
        return _choose_threshold(options)
    _check_replaceable(options.out, "--out")
    with loop_source(options.attempts) as source:
        certificate = certify(
            source.rows,
            options.labels,
            alpha=options.alpha,
            delta=options.delta,
            thresholds=_thresholds(options),
            max_attempts=options.max_attempts,
            patience=options.patience,
            method=_method(options.method),
            harm=_thresholds_in(options.harm, name="--harm"),
            largest_weight=options.largest_weight,
            risk="per_question" if options.per_question else "released",
            scores=options.scores,
            judge=options.judge,
            escalation=None if options.escalation is None else options.escalation.split(","),
            independent_attempts=options.assume_independent_attempts,
            loops=options.loops,
            unlabelled=_unlabelled(options.unlabelled),
            good=options.good,
            split=options.split,
            ledger=options.ledger or source.ledger,
        )
    certificate.write(options.out)
    if options.as_json:
        sys.stdout.write(f"{json.dumps(certificate.to_dict(), ensure_ascii=False, indent=2)}\n")
    else:
        sys.stdout.write(f"{certificate}\n\nwritten to {options.out}, id {certificate.id}\n")
    return 0 if certificate.certified else 1


def _choose_threshold(options: CertifyOptions) -> int:
    if options.next_labels is None:
        return 0
    with loop_source(options.attempts) as source:
        chosen = labels_to_certify(
            source.rows,
            options.labels,
            thresholds=_thresholds_in(options.thresholds),
            max_attempts=options.max_attempts,
            patience=options.patience,
            judge=options.judge,
            good=options.good,
            budget=options.budget,
        )
    write_queue(chosen, options.next_labels)
    sys.stdout.write(
        f"{len(chosen)} answers in {options.next_labels}: of a random sample of runs, what some threshold would "
        f"release. Have people fill in labels, then give the file as --labels, with --unlabelled left-out.\n"
    )
    return 0


def _thresholds(options: CertifyOptions) -> Sequence[float] | Sequence[Sequence[float]] | None:
    if options.escalation is None:
        if options.chain is not None:
            raise ConfigurationError(
                "--chain is for --escalation JUDGE,JUDGE; thresholds of one judge are --thresholds"
            )
        return _thresholds_in(options.thresholds)
    if options.thresholds is not None:
        raise ConfigurationError("the policies of --escalation are given as --chain, for instance 5,4;4,4;4,3")
    if options.chain is None:
        return None
    return [_thresholds_in(policy, name="--chain") or () for policy in options.chain.split(";")]


def _method(text: str) -> AnyMethod:
    for method in get_args(AnyMethod):
        if text == method:
            return method  # type: ignore[no-any-return]  # one of the literals
    raise ConfigurationError(f"--method is sequence, fallback, anytime or weighted, not {shortened(text)}")


def _unlabelled(text: str | None) -> Literal["bad", "left_out"] | None:
    match text:
        case None:
            return None
        case "bad":
            return "bad"
        case "left-out" | "left_out":
            return "left_out"
        case _:
            raise ConfigurationError(f"--unlabelled is bad or left-out, not {shortened(text)}")
