"""`certify`: a threshold with a guarantee, from recorded loops that people labelled."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from judges.certificate import IssuedCertificate, Subject
from judges.certificate.issued import Kind, Risk
from judges.errors import ConfigurationError, shortened
from judges.offline.statistics.certificates import ALPHA, DELTA, AnyMethod
from judges.offline.trust.beside import labels_for, naming
from judges.offline.trust.calibration import CalibrationRun, RunChoice, chosen_runs, runs_of, with_labels
from judges.offline.trust.chains import (
    ESCALATION,
    Tally,
    checked_thresholds,
    release_gain,
    tally_escalation,
    tally_thresholds,
)
from judges.offline.trust.issuing import (
    answer_models,
    certified_subject,
    dates_of,
    digest_of,
    labels_missing,
    labels_used,
    least_note,
    library_version,
    remarks,
    table_of,
)
from judges.offline.trust.ledger import Ledger
from judges.offline.trust.rows import JudgedRow, Source, judge_among, read_judged
from judges.offline.trust.weighing import check_weights, harm_of, tested_policies, weight_notes

GOOD = 3
INDEPENDENT = "independent attempts: it does not hold where feedback teaches the generator to please the judge"


@dataclass(frozen=True, kw_only=True)
class _Calibration:
    """The runs, and how they are looked at."""

    runs: Sequence[CalibrationRun]
    judges: tuple[str, ...]
    kind: Kind
    max_attempts: int
    patience: int | None
    subject: Subject
    notes: tuple[str, ...]


def certify(
    attempts: Source,
    labels: Source | None = None,
    *,
    alpha: float = ALPHA,
    delta: float = DELTA,
    thresholds: Sequence[float] | Sequence[Sequence[float]] | None = None,
    max_attempts: int | None = None,
    patience: int | None = None,
    method: AnyMethod = "sequence",
    harm: Mapping[int, float] | Sequence[float] | None = None,
    largest_weight: float | None = None,
    risk: Risk = "released",
    scores: bool = False,
    judge: str | None = None,
    escalation: Sequence[str] | None = None,
    independent_attempts: bool = False,
    loops: Source | None = None,
    unlabelled: Literal["bad", "left_out"] | None = None,
    good: float = GOOD,
    split: str | None = None,
    subject: Subject | None = None,
    ledger: str | os.PathLike[str] | None = None,
) -> IssuedCertificate:
    """Choose the laxest policy of which at most a share alpha of the released answers is bad, with a guarantee.

    The unit is the recorded loop, one for each question, and the label is on the answer that a policy would
    release. Record with the strictest threshold of the chain, so that every laxer policy's answer is in the
    record. The chain must be fixed before labels are seen, and labels be given blind to the rating. That nothing
    is certified is an answer.

    Args:
        attempts: Recorded attempts: the file of `record=...`, what `refine export` wrote, or rows.
        labels: Labels, where they are not in the rows: rows with `outcome_id` and `attempt`, or with question and
            answer, and `labels`; by default those that `refine label` left beside the file of attempts.
        alpha: Largest tolerated share of bad answers among those released.
        delta: Probability, over the draw of the runs, that the promise does not hold.
        thresholds: Success ratings to choose from, 4, 3 and 2 by default; with `scores`, scores, by default 0.95
            to 0.50; with `escalation`, the least rating accepted from each judge, 5 for never.
        max_attempts: Most attempts of the policy; by default as recorded. The certificate is for this number.
        patience: Attempts without a gain after which the policy stops; by default as recorded.
        method: `"sequence"`; `"fallback"` where bad answers are not rarer at higher ratings; `"anytime"` to look
            as often as labels come in; `"weighted"` where rows have weights (`weight`, 1 / probability with which
            a run was drawn), questions several runs, or harm is graded: a much weaker test.
        harm: Harm of an answer that people rate 1 to 4, each 0 to 1, for instance `{1: 1.0, 2: 0.5}`, whose mean
            is then bounded; needs `"weighted"`. By default that of a bad answer is 1.
        largest_weight: Most that the runs of a question weigh together, fixed before labels are seen, for
            `"weighted"`; by default as in the runs.
        risk: `"released"`, or `"per_question"` for the share of all questions that get a bad answer.
        scores: Whether thresholds are on scores.
        judge: The judge, where rows have verdicts of several.
        escalation: Judges from cheap to strong, all of which rated all rows; people decide what none releases.
        independent_attempts: Whether the labels are of single answers, of loops that were never recorded. The
            weaker certificate then assumes that attempts are independent, and says so.
        loops: Loops without labels, which make that certificate less weak: they tell how much more often a loop
            releases an answer than its first attempt does.
        unlabelled: Whether a run without any label counts as bad where it is released, the default; or is left
            out, which is right only where the labelled runs are a random sample, and the default for `"anytime"`.
        good: Least human rating that is good.
        split: Use the labels of this split alone.
        subject: The loop that it is about, where the rows do not say.
        ledger: File in which the use of labels is written down; by default beside the file that holds the labels.
            A further certificate on the same labels, of another judge, loop or question, or after more labels came
            in, gets a smaller share of delta. Without a file no use is known.

    Returns:
        The certificate; `write` it for `SelfRefine(..., certificate=...)`.

    Raises:
        ConfigurationError: If rows or labels cannot be used; in one line.
    """
    _check_levels(alpha, delta)
    labels, from_where = labels_for(attempts, labels)
    with naming(from_where):
        rows, strangers = with_labels(read_judged(attempts), labels)
    if not rows:
        raise ConfigurationError("there are no attempts; give the file that record='attempts.jsonl' wrote")
    check_weights(rows, method, largest_weight)
    losses = harm_of(harm, method)
    kind: Kind = "escalation" if escalation else "score" if scores else "rating"
    judges = tuple(escalation or (judge_among(rows, judge),))
    left_out = unlabelled == "left_out" or (unlabelled is None and method == "anytime")
    chosen = RunChoice(good=good, split=split, harm=losses, left_out=left_out, several=method == "weighted")
    runs, recorded_by, notes = chosen_runs(rows, chosen)
    notes = [*from_where, *notes, *weight_notes(runs, method, largest_weight)]
    if strangers:
        notes.append(f"{strangers} labels belong to no recorded attempt and were left out")
    own = subject or recorded_by
    most = recorded_attempts(rows, own, max_attempts, independent=independent_attempts)
    waits = patience if patience is not None else own.patience
    calibration = _Calibration(
        runs=runs, judges=judges, kind=kind, max_attempts=most, patience=waits, subject=own, notes=tuple(notes)
    )
    tested = alpha
    if independent_attempts:
        tested *= release_gain(
            _other_runs(loops, good), checked_thresholds(None, on_scores=False), judges[0], most
        )
        tested /= most
    tallies, cut_notes = _tallies(calibration, thresholds, first_alone=independent_attempts)
    book = _ledger(ledger, labels, attempts)
    used = labels_used(runs, split)
    settings = (
        alpha,
        delta,
        method,
        risk,
        float(good),
        *((losses, largest_weight) if method == "weighted" else ()),
    )
    key = _key(calibration, [tally.policy for tally in tallies], settings, used)
    use = 1 if book is None else book.use(frozenset(used), key)
    result, counts = tested_policies(
        tallies,
        runs,
        alpha=tested,
        delta=delta / use,
        method=method,
        per_question=risk == "per_question",
        largest_weight=largest_weight,
    )
    certificate = IssuedCertificate.issue(
        **table_of(len(runs), result, tallies, counts),
        subject=certified_subject(own, most, waits, kind),
        kind=kind,
        alpha=alpha,
        delta=delta / use,
        delta_in_all=delta,
        use_of_labels=use,
        method=method,
        harm=losses or (),
        risk=risk,
        assumes=INDEPENDENT if independent_attempts else "",
        good=good,
        labels=len(used),
        labels_digest=digest_of(sorted(used)),
        labels_needed=labels_missing(result, tested, delta / use),
        answer_models=answer_models(runs),
        notes=(*calibration.notes, *cut_notes, *least_note(result), *remarks(tallies, tested, alpha)),
        **dates_of(rows),
        written_by=library_version(),
    )
    if book is not None:
        book.enter(frozenset(used), key, delta=delta / use)
    return certificate


def _other_runs(loops: Source | None, good: float) -> list[CalibrationRun]:
    return [] if loops is None else runs_of(read_judged(loops), good=good, split=None)


def _check_levels(alpha: object, delta: object) -> None:
    for name, level in (("alpha", alpha), ("delta", delta)):
        if not isinstance(level, int | float) or not 0 < level < 1:
            raise ConfigurationError(f"{name} lies between 0 and 1, for instance 0.1, not {shortened(level)}")


def recorded_attempts(
    rows: Sequence[JudgedRow], subject: Subject, chosen: int | None, *, independent: bool
) -> int:
    """Return the most attempts of a loop: as chosen, or as recorded, or 1 where rows are no attempts of a loop.

    Raises:
        ConfigurationError: If nobody says.
    """
    recorded = subject.max_attempts or next(
        (int(row.metadata["max_attempts"]) for row in rows if row.metadata.get("max_attempts") is not None), None
    )
    if recorded is None and all(row.attempt is None for row in rows) and not independent:
        recorded = 1
    most = chosen if chosen is not None else recorded
    if most is None:
        raise ConfigurationError(
            "the rows do not say how many attempts the loop may make; give max_attempts=... (--max-attempts), the "
            "number that is deployed"
        )
    if type(most) is not int or most < 1:
        raise ConfigurationError(f"max_attempts is a whole number from 1, not {shortened(most)}")
    return most


def _tallies(
    calibration: _Calibration, thresholds: Sequence[Any] | None, *, first_alone: bool
) -> tuple[list[Tally], list[str]]:
    """Return what each policy of the chain releases, without those that the record says nothing about.

    Raises:
        ConfigurationError: If the record ends too soon for every policy, or for one that was asked for.
    """
    if calibration.kind == "escalation":
        return tally_escalation(calibration.runs, thresholds or ESCALATION, judges=calibration.judges), []
    on_scores = calibration.kind == "score"
    tallies = tally_thresholds(
        calibration.runs,
        checked_thresholds(thresholds, on_scores=on_scores),
        judge=calibration.judges[0],
        on_scores=on_scores,
        max_attempts=1 if first_alone else calibration.max_attempts,
        patience=None if first_alone else calibration.patience,
    )
    for tally in tallies:
        shorter = next((name for name in ("max_attempts", "patience") if tally.cuts.get(name)), None)
        if shorter is not None:
            raise ConfigurationError(
                f"{tally.cuts[shorter]} recorded loops were ended by {shorter} before this policy would; record "
                f"with {shorter} at least as large, or certify a smaller one"
            )
    identified = [tally for tally in tallies if not tally.cuts]
    left = [f"{tally.policy:g}" for tally in tallies if tally.cuts]
    if left and (thresholds is not None or not identified):
        raise ConfigurationError(
            f"the loops were recorded with a laxer threshold than {left[0]}, so that they ended before; record "
            f"with the strictest threshold of the chain, or leave {', '.join(left)} out of it"
        )
    notes = [f"{', '.join(left)} is not in the record: it was made with a laxer success rating"] if left else []
    return identified, notes


def _ledger(ledger: str | os.PathLike[str] | None, *sources: object) -> Ledger | None:
    if ledger is not None:
        return Ledger(Path(ledger))
    files = [Path(source) for source in sources if isinstance(source, str | os.PathLike)]
    beside = next((file for file in files if file.is_file()), None)
    return None if beside is None else Ledger(beside.with_name(f"{beside.name}.ledger"))


def _key(
    calibration: _Calibration, policies: Sequence[object], settings: tuple[object, ...], labels: set[str]
) -> str:
    """Return what tells one question to the labels from another; e-values may be looked at as labels come in."""
    anytime = "anytime" in settings
    parts = [
        calibration.subject.model_dump(mode="json"),
        [calibration.kind, calibration.judges, calibration.max_attempts, calibration.patience],
        list(policies),
        list(settings),
        None if anytime else sorted(labels),
    ]
    return digest_of(parts)
