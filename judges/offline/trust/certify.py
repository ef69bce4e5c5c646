"""`certify`: a threshold with a guarantee, from recorded loops that people labelled."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Literal, get_args

from judges.certificate import CertifiedRow, Estimand, IssuedCertificate, Kind, Risk, Subject
from judges.errors import ConfigurationError, plural, shortened
from judges.fingerprint import package_version
from judges.offline.statistics import certificates, certify_weighted, clopper_pearson, labels_needed, wilson
from judges.offline.statistics import certify as certify_counts
from judges.offline.trust.calibration import (
    Calibration,
    CalibrationRun,
    PolicyTally,
    checked_thresholds,
    labelled_rates,
    recorded_attempts,
    runs_of,
)
from judges.offline.trust.drawing import RunChoice
from judges.offline.trust.loops import LabelledRows, read_labelled
from judges.offline.trust.rows import (
    GOOD,
    Harm,
    JudgedAnswer,
    RowSource,
    judge_among,
    label_digests,
    majority,
    read_judged,
    usable,
)
from judges.offline.trust.spending import LabelUses, LedgerSource
from judges.verdict import HIGHEST, LOWEST

_NEARLY_AS_MANY = 0.02
"""Share of all runs by which a stricter threshold may release fewer answers and still be taken."""


def _taken(
    result: certificates.Certificate, tallies: Sequence[PolicyTally], runs: int, *, laxest: bool, on_scores: bool
) -> int | None:
    """Return the place of the certified threshold that the loop takes; None if answers do not bear out any.

    A rating that nobody has seen lets through what nobody has judged: where everything is rated 4, the loop would
    be told to accept from 2. So a threshold is taken only where enough of the answers that it releases have a
    rating below the next stricter one, or a score below the next stricter one that can be taken or fails; of these
    the strictest that releases nearly as many as the laxest.
    """
    certified = [place for place, row in enumerate(result.rows) if row.status == "certified"]
    if laxest or not any(tally.passing for tally in tallies):
        return certified[-1] if certified else None
    taken_indices, stricter = list[int](), math.inf
    for place, tally in enumerate(tallies):
        if place in certified and (not place or len(tally.below(stricter)) >= result.least):
            taken_indices.append(place)
        if not on_scores or place in taken_indices or place not in certified:
            stricter = tally.least
    most = max((tallies[place].released for place in taken_indices), default=0)
    return next(
        (place for place in taken_indices if tallies[place].released >= most - _NEARLY_AS_MANY * runs), None
    )


def _without_unseen(result: certificates.Certificate) -> certificates.Certificate:
    """Return a result in which what passes the test on too few answers of its own is not certified."""
    rows = (replace(row, status="too_few") if row.status == "certified" else row for row in result.rows)
    return replace(result, rows=tuple(rows), certified=None)


def _table_of(
    runs: int,
    result: certificates.Certificate,
    tallies: Sequence[PolicyTally],
    counts: Sequence[tuple[int, int]],
    taken: int | None,
) -> dict[str, Any]:
    """Return the threshold, the counts behind it and the table."""
    best = min(
        range(len(tallies)), key=lambda place: (result.rows[place].upper is None, result.rows[place].upper or 1.0)
    )
    place = best if taken is None else taken
    policy = tallies[place].policy
    threshold = None
    if taken is not None:
        threshold = float(place) if isinstance(policy, tuple) else policy
    return {
        "threshold": threshold,
        "runs": runs,
        "released": counts[place][0],
        "bad": counts[place][1],
        "rows": tuple(_row(row, tally, runs) for row, tally in zip(result.rows, tallies, strict=True)),
        "reachable_alpha": result.reachable_alpha,
    }


def _row(row: certificates.PolicyRow, tally: PolicyTally, runs: int) -> CertifiedRow:
    of_runs = {
        "policy": tally.policy,
        "release_rate": tally.released / runs,
        "release_interval": wilson(tally.released, runs),
        "mean_attempts": tally.attempts / runs,
        "shares": tuple(count / runs for count in tally.decided),
        "cost": None if tally.cost is None else tally.cost / runs,
    }
    return CertifiedRow(**{**vars(row), **of_runs})


def _labels_needed(
    result: certificates.Certificate, tallies: Sequence[PolicyTally], alpha: float, delta: float
) -> int | None:
    """Return how many labelled answers would probably certify, if the best policy is as good as it looks."""
    best = min(labelled_rates((row.rate for row in result.rows), tallies), default=0.0)
    if result.certified is not None or best >= alpha:
        return None
    if result.method == "weighted":
        return certificates.questions_needed(alpha, delta, best)
    if result.method in _LOOKING:
        is_laxer = result.rows[0].status == "too_few"
        least = certificates.evidence_needed(delta, len(result.rows), is_begun_laxer=is_laxer)
        evidence = (
            (n, certificates.e_value(math.ceil(best * n), n, alpha)) for n in range(1, certificates.MOST_LABELS)
        )
        return next((n for n, value in evidence if value >= least), None)
    return labels_needed(alpha, delta, best or None)


def _digest_of(parts: object) -> str:
    """Return a digest of JSON data."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def _origin_of(rows: Sequence[JudgedAnswer]) -> dict[str, str | None]:
    """Return when the runs were recorded, where known, the time now, and the version of this library."""
    times = sorted(str(row.metadata["at"]) for row in rows if row.metadata.get("at"))
    return {
        "recorded_from": times[0] if times else None,
        "recorded_until": times[-1] if times else None,
        "issued_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "written_by": package_version(),
    }


_LOOKING = ("anytime", "assisted")
"""Methods that may be looked at as labels come in."""

_RATINGS = range(LOWEST, HIGHEST + 1)


def _harm_of(harm: Mapping[int, float] | Sequence[float] | None, method: certificates.AnyMethod) -> Harm | None:
    """Return the harm of answers rated 1, 2, 3 and 4; a rating that a mapping leaves out does none.

    Raises:
        ConfigurationError: If it is out of range, falls short for a better rating, or the test is exact.
    """
    if harm is None:
        return None
    if method != "weighted":
        raise ConfigurationError(f"harm is for method='weighted' (--method weighted), not {method!r}")
    if isinstance(harm, Mapping):
        strangers = [name for name in harm if name not in _RATINGS]
        harms = [] if strangers else [float(harm.get(rating, 0.0)) for rating in _RATINGS]
    else:
        harms = [float(one) for one in harm]
    falls = harms == sorted(harms, reverse=True)
    if len(harms) != len(_RATINGS) or not falls or not all(0 <= one <= 1 for one in harms):
        raise ConfigurationError(
            f"harm is 0 to 1 for each of the ratings 1 to 4, the worse the more, for instance "
            f"{{1: 1.0, 2: 0.5}} (--harm 1,0.5,0,0), not {shortened(harm)}"
        )
    return harms[0], harms[1], harms[2], harms[3]


def _checked_breaks(
    break_at_most: float | None,
    method: certificates.AnyMethod,
    escalation: Sequence[str] | None,
    *,
    independent: bool,
) -> float | None:
    """Return the largest share of good first answers that may come out bad.

    Raises:
        ConfigurationError: If it is out of range, or what is certified has no first and final answers to compare.
    """
    if break_at_most is None:
        return None
    if not 0 < break_at_most < 1:
        raise ConfigurationError(
            f"break_at_most lies between 0 and 1, for instance 0.01, not {shortened(break_at_most)}"
        )
    if method == "weighted" or escalation or independent:
        raise ConfigurationError(
            "break_at_most (--break-at-most) is for loops of several attempts and an exact test: leave out "
            "method='weighted', escalation and independent_attempts, or break_at_most"
        )
    return float(break_at_most)


def _tested_policies(
    tallies: Sequence[PolicyTally],
    runs: Sequence[CalibrationRun],
    settings: CertifySettings,
    *,
    alpha: float,
    delta: float,
) -> tuple[certificates.Certificate, list[tuple[int, int]]]:
    """Return the outcome of the test, and what each policy releases and how much of it is bad.

    Raises:
        ConfigurationError: If a question weighs more than was fixed.
    """
    per_question, largest = settings.risk == "per_question", settings.largest_weight
    counts = [(len(runs) if per_question else tally.released, tally.bad) for tally in tallies]
    if settings.method != "weighted":
        breaks = [(tally.first_good, tally.broken) for tally in tallies]
        certificate = certify_counts(
            counts,
            alpha,
            delta,
            method=settings.method,
            breaks=None if settings.break_at_most is None else breaks,
            break_at_most=settings.break_at_most,
            assisted=[tally.assisted for tally in tallies] if settings.method == "assisted" else None,
        )
        return certificate, counts
    heaviest = _heaviest_question(runs)
    if largest is not None and largest < heaviest:
        raise ConfigurationError(
            f"largest_weight={largest:g} is exceeded: the runs of a question weigh {heaviest:g} together"
        )
    chain = [[*tally.releases, *(tally.silent if per_question else ())] for tally in tallies]
    return certify_weighted(chain, alpha, delta, largest=largest or heaviest), counts


def certify(
    attempts: RowSource,
    labels: RowSource | None = None,
    *,
    alpha: float = certificates.ALPHA,
    delta: float = certificates.DELTA,
    break_at_most: float | None = None,
    thresholds: Sequence[float] | Sequence[Sequence[float]] | None = None,
    max_attempts: int | None = None,
    patience: int | None = None,
    method: certificates.AnyMethod = "sequence",
    harm: Mapping[int, float] | Sequence[float] | None = None,
    largest_weight: float | None = None,
    risk: Risk = "released",
    estimand: Estimand = "traffic",
    laxest: bool = False,
    scores: bool = False,
    judge: str | None = None,
    control: str | None = None,
    escalation: Sequence[str] | None = None,
    independent_attempts: bool = False,
    loops: RowSource | None = None,
    unlabelled: Literal["bad", "left_out"] | None = None,
    good: float = GOOD,
    split: str | None = None,
    subject: Subject | None = None,
    ledger: LedgerSource | None = None,
    once: bool = False,
) -> IssuedCertificate:
    """Choose a lax policy of which at most a share alpha of the released answers is bad, with a guarantee.

    The unit is the recorded loop, and the label is on the answer that a policy would release. Record with the
    strictest threshold of the chain, so that every laxer policy's answer is in the record. The chain must be fixed
    before labels are seen, and labels be given blind to the rating. That nothing is certified is an answer.

    Args:
        attempts: Recorded attempts: the file of `record=...`, what `refine export` wrote, or rows.
        labels: Labels, where they are not in the rows: rows with `outcome_id` and `attempt`, or with question and
            answer, and `labels`; by default those that `refine label` left beside the file of attempts.
        alpha: Largest tolerated share of bad answers among those released.
        delta: Probability, over the draw of the runs, that the promise does not hold, or one of both.
        break_at_most: A second promise: of first answers that were good at most this share comes out bad. It needs
            labels of first answers, too.
        thresholds: Success ratings to choose from, 4, 3 and 2 by default, and 4.9 for a rating of 4 with a score
            of at least .9, which is stricter than any of these; with `scores`, scores, by default 0.95
            to 0.50; with `escalation`, the least rating accepted from each judge, 5 for never.
        max_attempts: Most attempts of the policy; by default as recorded. The certificate is for this number.
        patience: Attempts without a gain after which the policy stops; by default as recorded.
        method: `"sequence"`; `"fallback"` where bad answers are not rarer at higher ratings; `"anytime"` to look
            as often as labels come in; `"assisted"` the same, with what a judge says of answers without a label,
            which takes fewer labels where its score or probability knows more than the rating; `"weighted"` where
            rows have weights (`weight`, 1 / probability with which a run was drawn), questions several runs, or
            harm is graded: a much weaker test.
        harm: Harm of an answer that people rate 1 to 4, each 0 to 1, for instance `{1: 1.0, 2: 0.5}`, whose mean
            is then bounded; needs `"weighted"`. By default that of a bad answer is 1.
        largest_weight: Most that the runs of a question weigh together, fixed before labels are seen, for
            `"weighted"`; by default as in the runs.
        risk: `"released"`, or `"per_question"` for the share of all questions that get a bad answer.
        estimand: Of what it is a promise. `"traffic"`: of answers as often as they are asked; every recorded run
            counts, repeats of a question too, and the runs are a random sample of traffic. `"questions"`: of
            questions, each once; one run a question counts. For sets with planned repeats.
        laxest: Whether the laxest certified threshold is taken, whatever it adds. By default it is the strictest
            that releases nearly as many answers (2 points) as the laxest, and none that accepts ratings which too
            few released answers had.
        scores: Whether thresholds are on scores.
        judge: The judge, where rows have verdicts of several.
        control: The judge, of those whose verdicts the rows have, that helps labels under `"assisted"`; by default
            the loop's own.
        escalation: Judges from cheap to strong, all of which rated all rows; people decide what none releases.
        independent_attempts: Whether the labels are of single answers, of loops that were never recorded. The
            weaker certificate then assumes that attempts are independent, and says so.
        loops: Loops without labels, which make that certificate less weak: they tell how much more often a loop
            releases an answer than its first attempt does.
        unlabelled: Whether a run without any label counts as bad where it is released, the default; or is left
            out, which is right only where the labelled runs are a random sample, and the default for `"anytime"`
            and `"assisted"`.
        good: Least human rating that is good.
        split: Use the labels of this split alone.
        subject: The loop that it is about, where the rows do not say.
        ledger: File in which the use of labels is written down, or the `DatabaseRecord` that holds the labels; by
            default beside the file that holds the labels, and what other ledgers there say counts, too. The k-th
            certificate on the same labels, of another judge, loop or question, or after more labels came in, gets
            delta / (k (k + 1)), so that all of them together spend no more than delta. Without a file no use is
            known, and all of delta is spent.
        once: Whether these labels will certify this alone: all of delta is spent, and nothing is left for another.

    Returns:
        The certificate; `write` it for `SelfRefine(..., certificate=...)`.

    Raises:
        ConfigurationError: If rows or labels cannot be used; in one line.
    """
    settings = CertifySettings(
        alpha=alpha,
        delta=delta,
        break_at_most=_checked_breaks(break_at_most, method, escalation, independent=independent_attempts),
        thresholds=thresholds,
        max_attempts=max_attempts,
        patience=patience,
        method=method,
        harm=_harm_of(harm, method),
        largest_weight=largest_weight,
        risk=risk,
        estimand=estimand,
        laxest=laxest,
        kind="escalation" if escalation else "score" if scores else "rating",
        judges=tuple(escalation) if escalation else (judge,) if judge is not None else (),
        control=control,
        independent_attempts=independent_attempts,
        loops=loops,
        left_out=unlabelled == "left_out" or (unlabelled is None and method in _LOOKING),
        good=good,
        split=split,
        subject=subject,
        once=once,
        uses=ledger,
    )
    return certify_rows(read_labelled(attempts, labels), settings)


@dataclass(frozen=True, kw_only=True)
class CertifySettings:
    """The settings of `certify`, in the form that is worked with.

    Args:
        harm: Harm of answers rated 1 to 4; None: 1 for a bad one.
        judges: The judge that was chosen, or those of an escalation; empty where the rows say.
        control: The judge that helps labels.
        left_out: Whether runs without a label are left out.
        uses: What says which labels were used; None takes the ledger beside the labels.
        once: Whether all of delta is spent at once.
    """

    alpha: float = certificates.ALPHA
    delta: float = certificates.DELTA
    break_at_most: float | None = None
    thresholds: Sequence[Any] | None = None
    max_attempts: int | None = None
    patience: int | None = None
    method: certificates.AnyMethod = "sequence"
    harm: Harm | None = None
    largest_weight: float | None = None
    risk: Risk = "released"
    estimand: Estimand = "traffic"
    laxest: bool = False
    kind: Kind = "rating"
    judges: tuple[str, ...] = ()
    control: str | None = None
    independent_attempts: bool = False
    loops: RowSource | None = None
    left_out: bool = False
    good: float = GOOD
    split: str | None = None
    subject: Subject | None = None
    uses: LedgerSource | None = None
    once: bool = False

    def __post_init__(self) -> None:
        levels: tuple[tuple[str, object], ...] = (("alpha", self.alpha), ("delta", self.delta))
        for name, level in levels:  # of users without types
            if not isinstance(level, int | float) or not 0 < level < 1:
                raise ConfigurationError(f"{name} lies between 0 and 1, for instance 0.1, not {shortened(level)}")
        if self.estimand not in get_args(Estimand):
            raise ConfigurationError(
                f"estimand is 'traffic', every run, or 'questions', each question once, not "
                f"{shortened(self.estimand)}"
            )
        is_plain = self.kind != "escalation" and self.risk == "released" and self.estimand == "traffic"
        if self.method == "assisted" and (not is_plain or self.break_at_most or self.independent_attempts):
            raise ConfigurationError(
                "method='assisted' (--method assisted) is for the share of bad answers among those that recorded "
                "loops release; leave out what asks for another promise, or take method='anytime'"
            )
        if self.control is not None and self.method != "assisted":
            raise ConfigurationError(f"control is for method='assisted' (--method assisted), not {self.method!r}")


def certify_rows(read: LabelledRows, settings: CertifySettings) -> IssuedCertificate:
    """Certify on rows that were read with their labels; see `certify`."""
    if not read.rows:
        raise ConfigurationError("there are no attempts; give the file that record='attempts.jsonl' wrote")
    read, settings = _as_recorded_in_pieces(read, settings)
    calibration = _calibrate(read, settings)
    tallies, cut_notes = calibration.tallies(settings.thresholds, first_alone=settings.independent_attempts)
    if settings.method == "assisted":
        calibration.assist(tallies, settings.control)
    uses = LabelUses.of(settings.uses, read.files)
    rows = [row for run in calibration.runs for row in run.rows]
    labels = frozenset(label_digests(rows, settings.split))
    notes = [_label_authors(rows, settings.split, settings.good), *calibration.notes]
    key = _key(calibration, [tally.policy for tally in tallies], settings, labels)
    use, delta = 1, settings.delta
    if uses is not None:
        use, delta = uses.share_of(settings.delta, labels, key, once=settings.once)
    tested, left = _tested_levels(calibration, settings, delta)
    result, counts = _tested_policies(tallies, calibration.runs, settings, alpha=tested, delta=left)
    taken = _taken(
        result, tallies, len(calibration.runs), laxest=settings.laxest, on_scores=settings.kind == "score"
    )
    added = list(_laxer_threshold_notes(result, tallies, taken, kind=calibration.kind))
    result = result if taken is not None else _without_unseen(result)
    certificate = IssuedCertificate.issue(
        **_table_of(len(calibration.runs), result, tallies, counts, taken),
        subject=calibration.certified_subject,
        **_terms_of(settings),
        assumes=calibration.assumes,
        delta=delta,
        final_bad=None if settings.kind == "escalation" else calibration.final_bad,
        use_of_labels=use,
        labels=len(labels),
        labels_digest=_digest_of(sorted(labels)),
        labels_needed=_labels_needed(result, tallies, tested, left * _next_share(use if uses else None, settings)),
        answer_models=calibration.answer_models,
        notes=(*notes, *cut_notes, *_label_notes(result, tallies, tested, settings.alpha), *added),
        **_origin_of(read.rows),
    )
    if uses is not None:
        uses.enter(labels, key, use=use, delta=delta, once=settings.once)
    return certificate


def _next_share(use: int | None, settings: CertifySettings) -> float:
    """Return what a certificate on more labels may spend, of what this one does; looks by e-values are one."""
    if use is None or settings.once or settings.method in _LOOKING:
        return 1.0
    return LabelUses.share_of_use(settings.delta, use + 1) / LabelUses.share_of_use(settings.delta, use)


def _terms_of(settings: CertifySettings) -> dict[str, Any]:
    """Return what a certificate says of its terms, which were set before anything was counted."""
    return {
        **{name: getattr(settings, name) for name in ("kind", "alpha", "break_at_most", "method", "risk", "good")},
        "delta_in_all": settings.delta,
        "harm": settings.harm or (),
        "estimand": "questions" if settings.method == "weighted" else settings.estimand,
    }


def _as_recorded_in_pieces(read: LabelledRows, settings: CertifySettings) -> tuple[LabelledRows, CertifySettings]:
    """Return rows and settings for the one policy that loops which released pieces were recorded under.

    What they showed says nothing of any other. Of a refused piece its judge gives the verdict, of the whole answer
    another one: both are that of the loop.

    Raises:
        ConfigurationError: If another policy is to be certified, or they were recorded under several.
    """
    subject = settings.subject or read.rows[0].subject
    if subject.policy.get("release") != "pieces":
        return read, settings
    ways = {(row.metadata.get("success_score"), row.metadata.get("success_rating")) for row in read.rows}
    (score, rating), *others = sorted(ways, key=repr)
    kind: Kind = "rating" if score is None else "score"
    threshold = rating if score is None else score
    chosen = (settings.thresholds, settings.max_attempts, settings.patience)
    policy_as_recorded = ([threshold], subject.policy.get("max_attempts"), subject.policy.get("patience"))
    differs = any(
        one is not None and one != recorded for one, recorded in zip(chosen, policy_as_recorded, strict=True)
    )
    if (
        others
        or differs
        or threshold is None
        or settings.independent_attempts
        or settings.kind not in ("rating", kind)
    ):
        raise ConfigurationError(
            f"these loops were released in pieces, and what they show says nothing of another policy: certify "
            f"what was recorded under one success_{kind}, here {shortened([threshold, *others])}, and as it was"
        )
    rows = [replace(row, marks=dict(zip([subject.judge], row.marks.values(), strict=False))) for row in read.rows]
    return replace(read, rows=rows), replace(settings, kind=kind, thresholds=[threshold], judges=())


def _calibrate(read: LabelledRows, settings: CertifySettings) -> Calibration:
    """Return the runs that count, and how they are looked at."""
    rows = read.rows
    if settings.method == "weighted":  # where a row says no weight, the probability that it was drawn with does
        drawn = [row.probability if row.weight == 1 else None for row in rows]
        rows = [replace(row, weight=1 / one) if one else row for row, one in zip(rows, drawn, strict=True)]
    _check_weights(rows, settings)
    judges = settings.judges
    if settings.kind != "escalation":
        judges = (judge_among(rows, judges[0] if judges else None),)
    choice = RunChoice(
        good=settings.good,
        split=settings.split,
        harm=settings.harm,
        left_out=settings.left_out,
        several=settings.method == "weighted" or settings.estimand == "traffic",
        judge=None if settings.kind == "escalation" else judges[0],
        least=_least_released(settings),
    )
    runs, others, recorded_by, notes = choice.choose(rows)
    notes = [*read.notes, *notes, *_weight_notes(runs, settings)]
    if read.strangers:
        notes.append(f"{read.strangers} labels belong to no recorded attempt and were left out")
    subject = settings.subject or recorded_by
    most = recorded_attempts(rows, subject, settings.max_attempts, independent=settings.independent_attempts)
    assumes = [choice.assume(runs, others)]
    if settings.independent_attempts:
        promise = "it does not hold where feedback teaches the generator to please the judge"
        assumes.insert(0, f"independent attempts: {promise}")
    return Calibration(
        runs=runs,
        others=others,
        judges=judges,
        kind=settings.kind,
        max_attempts=most,
        patience=settings.patience if settings.patience is not None else subject.patience,
        subject=subject,
        assumes="; ".join(filter(None, assumes)),
        notes=tuple(notes),
    )


def _least_released(settings: CertifySettings) -> float:
    """Return the rating, or the score, below which no policy of the chain releases an answer."""
    if settings.kind == "score":
        return min(settings.thresholds or (0.0,))
    thresholds = () if settings.kind == "escalation" else checked_thresholds(settings.thresholds, on_scores=False)
    return math.floor(min(thresholds, default=LOWEST))


_OF_LOOPS = 0.1
"""Part of delta that is spent on how much more often loops release an answer."""


def _tested_levels(calibration: Calibration, settings: CertifySettings, delta: float) -> tuple[float, float]:
    """Return the share that single answers are tested at, so that loops stay within alpha, and the delta left."""
    if not settings.independent_attempts:
        return settings.alpha, delta
    most = calibration.max_attempts
    if settings.loops is None or calibration.kind == "escalation":
        return settings.alpha / most, delta
    loops = runs_of(read_judged(settings.loops), good=settings.good, split=None)
    gain = calibration.release_gain(loops, settings.thresholds, delta=_OF_LOOPS * delta)
    return settings.alpha * gain / most, (1 - _OF_LOOPS) * delta


def _key(
    calibration: Calibration, policies: Sequence[object], settings: CertifySettings, labels: Collection[str]
) -> str:
    """Return what tells one question to the labels from another; e-values may be looked at as labels come in."""
    weighted = (settings.harm, settings.largest_weight) if settings.method == "weighted" else ()
    breaks = () if settings.break_at_most is None else (settings.break_at_most,)
    parts = [
        calibration.subject.model_dump(mode="json"),
        [calibration.kind, calibration.judges, calibration.max_attempts, calibration.patience],
        list(policies),
        [settings.alpha, settings.delta, settings.method, settings.risk, float(settings.good), *weighted, *breaks],
        settings.estimand,
        None if settings.method in _LOOKING else sorted(labels),
    ]
    return _digest_of(parts)


def _laxer_threshold_notes(
    result: certificates.Certificate, tallies: Sequence[PolicyTally], taken: int | None, *, kind: Kind
) -> Iterator[str]:
    """Yield what each threshold that passes adds to the next stricter one that does, where marks tell."""
    passing = [place for place, row in enumerate(result.rows) if row.status == "certified"]
    if taken is None and passing:
        before, strictest = tallies[passing[0] - 1], tallies[passing[0]]
        count = len(strictest.below(before.least))
        yield (
            f"accepting from {strictest.policy:g} passes the test, but what it would let through is hardly seen: "
            f"of {strictest.released} answers {count} below {before.policy:g}, and {result.least} are asked for"
        )
    for stricter, laxer in pairwise(passing):
        if taken is None or not tallies[laxer].passing:
            continue
        added = tallies[laxer].below(tallies[stricter].least)
        also = " is certified, too, and" if laxer > taken else ""
        name = f"accepting from {tallies[laxer].policy:g}{also}"
        if not added:
            yield f"{name} adds no answer: nobody has seen what it would let through"
            continue
        upper = clopper_pearson(sum(added), len(added), level=1 - 2 * certificates.DELTA)[1]
        share = f"{sum(added) / len(added):.1%}, at most {upper:.1%}"
        yield f"{name} adds {len(added)} answers of lower {kind}s, {sum(added)} of them bad: {share}"


def _label_notes(
    result: certificates.Certificate, tallies: Sequence[PolicyTally], tested: float, alpha: float
) -> list[str]:
    """Say what is odd about the labels, and what single answers were tested at."""
    notes = []
    if any(row.status == "too_few" for row in result.rows):
        notes.append(f"too few: {result.least} released answers, none of them bad, are the least that certify")
    if result.rows[0].status == "too_few" and result.method in ("anytime", "assisted"):
        least = certificates.evidence_needed(result.delta, len(result.rows), is_begun_laxer=True)
        notes.append(f"the strictest has too few to begin with, so that the others need an E of {least:.0f}")
    missing = max((tally.unlabelled for tally in tallies), default=0)
    if missing:
        what = "has no label, and counts" if missing == 1 else "have no label, and count"
        notes.append(
            f"{plural(missing, 'released answer')} {what} as bad: label {'it' if missing == 1 else 'them'}"
        )
    if tested != alpha:
        notes.append(f"single answers were tested at {tested:.3%}, so that loops of them stay within {alpha:.1%}")
    shares = [tally.bad / tally.released for tally in tallies if tally.released]
    if any(laxer < stricter for stricter, laxer in pairwise(shares)):
        notes.append("bad answers are not rarer where more is demanded: consider --method fallback")
    return notes


def _label_authors(rows: Iterable[JudgedAnswer], split: str | None, good: float) -> str:
    """Say whose labels of a split count, of how many answers each, and what became of those that differ."""
    opinions = [usable(row.opinions, split) for row in rows]
    people = Counter(opinion.by for of_answer in opinions for opinion in of_answer)
    named = [f"{by} ({count})" for by, count in people.most_common(5)]
    others = len(people) - len(named)
    who = f"labels of {', '.join([*named, *([f'{others} others'] if others else [])])}"
    disputed = [majority(one, good) for one in opinions if len({opinion.is_good(good) for opinion in one}) > 1]
    if not disputed:
        return who
    ties = disputed.count(None)
    decided = f"most decided {len(disputed) - ties}, and {ties} with as many on each side count as bad"
    return f"{who}; they differ on {plural(len(disputed), 'answer')}: {decided}"


def _check_weights(rows: Sequence[JudgedAnswer], settings: CertifySettings) -> None:
    """Check that rows with weights get a test that takes them.

    Raises:
        ConfigurationError: If they do not, or `largest_weight` stands beside an exact test, or is not above 0.
    """
    method, largest_weight = settings.method, settings.largest_weight
    probabilities = {row.probability for row in rows if row.probability is not None}
    if method != "weighted" and (any(row.weight != 1 for row in rows) or len(probabilities) > 1):
        raise ConfigurationError(
            "the rows have weights, or were drawn with different probabilities, and an exact certificate needs a "
            "simple random sample of runs: take the weaker test, method='weighted' (--method weighted)"
        )
    if largest_weight is not None and (method != "weighted" or largest_weight <= 0):
        raise ConfigurationError(
            f"largest_weight is above 0, and for method='weighted' (--method weighted), not "
            f"{shortened(largest_weight)} with {method!r}"
        )


def _heaviest_question(runs: Sequence[CalibrationRun]) -> float:
    """Return the largest sum of weights that the runs of a question have."""
    return certificates.heaviest((run.question_id, run.weight) for run in runs) or 1.0


def _weight_notes(runs: Sequence[CalibrationRun], settings: CertifySettings) -> list[str]:
    """Say by what harm is scaled, where that was not fixed before and questions differ."""
    if settings.method != "weighted" or settings.largest_weight is not None or _heaviest_question(runs) == 1:
        return []
    note = (
        f"a question weighs at most {_heaviest_question(runs):g}, as in these runs; the promise is strict if that "
        f"was fixed before labels were seen (largest_weight, --largest-weight)"
    )
    return [note]
