"""The command `refine certify`: a success rating with a guarantee."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from judges import ConfigurationError
from judges.errors import shortened
from judges.offline import certify
from judges.offline.statistics.certificates import AnyMethod
from judges.offline.trust.choosing import write_queue
from judges.offline.trust.queueing import labels_to_certify
from refine.cli.aligning import check_replaceable, thresholds_in
from refine.cli.loop_source import loop_source


@dataclass(frozen=True, kw_only=True)
class CertifyOptions:
    """Options of `refine certify`, as typed."""

    attempts: str
    labels: Path | None
    out: Path
    alpha: float
    delta: float
    thresholds: str | None
    max_attempts: int | None
    patience: int | None
    method: str
    harm: str | None
    largest_weight: float | None
    per_question: bool
    scores: bool
    judge: str | None
    escalation: str | None
    chain: str | None
    assume_independent_attempts: bool
    loops: Path | None
    unlabelled: str | None
    good: float
    split: str | None
    next_labels: Path | None
    budget: int
    ledger: Path | None
    as_json: bool


def run_certify(options: CertifyOptions) -> int:
    """Certify, or only choose what to label; return the exit code: 0, or 1 if nothing is certified.

    Raises:
        ConfigurationError: If attempts, labels or an option cannot be used.
    """
    if options.next_labels is not None:
        return _choose(options)
    check_replaceable(options.out, "--out")
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
            harm=thresholds_in(options.harm, name="--harm"),
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


def _choose(options: CertifyOptions) -> int:
    if options.next_labels is None:
        return 0
    with loop_source(options.attempts) as source:
        chosen = labels_to_certify(
            source.rows,
            options.labels,
            thresholds=thresholds_in(options.thresholds),
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
        return thresholds_in(options.thresholds)
    if options.thresholds is not None:
        raise ConfigurationError("the policies of --escalation are given as --chain, for instance 5,4;4,4;4,3")
    if options.chain is None:
        return None
    return [thresholds_in(policy, name="--chain") or () for policy in options.chain.split(";")]


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
