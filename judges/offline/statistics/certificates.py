"""A threshold with a guarantee: at most a share alpha of the released answers is bad, at confidence 1 - delta."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

from judges.offline.statistics.intervals import LazyModule, clopper_pearson, share, wilson
from judges.offline.statistics.replay import Ratings, breaks_of, replay_each
from judges.offline.statistics.resampling import chosen, finite, floats, listed, recorded_runs, whole

np, optimize, special = LazyModule("numpy"), LazyModule("scipy.optimize"), LazyModule("scipy.special")

_LARGEST_LOGARITHM = 700.0
"""The largest logarithm of an e-value that is still a finite number."""
_TINY = 1e-200
"""Probabilities below this count as 0, since their logarithm would be lost."""


def confidence_sequence(successes: int, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Return an interval for a rate that covers it at all times at once, with probability `level`.

    The beta mixture of Robbins (Annals of Mathematical Statistics 41, 1970); see Howard et al., Annals of
    Statistics 49, 2021. An interval made for one look, Wilson's for instance, misses in half of 2,000 looks.

    Args:
        successes: How many of the `n` passed.
        n: How many were seen, 0 or more.
        level: Probability, 0 to 1, that every interval of the sequence holds the rate.
    """
    successes, n = _checked_counts(successes, n)
    failures = n - successes
    mixture = special.betaln(0.5 + successes, 0.5 + failures) - special.betaln(0.5, 0.5)
    threshold = -math.log1p(-share(level, "level"))

    def surplus(rate: float) -> float:
        return float(mixture - special.xlogy(successes, rate) - special.xlog1py(failures, -rate) - threshold)

    centre = successes / n if n else 0.5
    low = _root(surplus, 0.0, centre) if successes else 0.0
    high = _root(surplus, 1.0, centre) if failures else 1.0
    return low, high


def _root(function: Callable[[float], float], edge: float, centre: float) -> float:
    outer = 1e-300 if edge == 0 else math.nextafter(1.0, 0.0)
    if function(outer) <= 0:  # closer to the edge than a float can tell
        return edge
    return float(optimize.brentq(function, outer, centre, xtol=1e-14, rtol=1e-14))


def e_value(bad: int, n: int, alpha: float) -> float:
    """Return the evidence against "more than a share `alpha` is bad" after `n` labels, `bad` of them bad.

    Whenever it reaches 1/delta, at any look, the share is at most `alpha` with confidence 1 - delta (Ville's
    inequality); the mixture is uniform over 0 to `alpha`. Larger evidence than e^700 is returned as that.

    Raises:
        ValueError: If a count is negative or not whole, `bad` exceeds `n`, or `alpha` is not between 0 and 1.
    """
    bad, n = _checked_counts(bad, n)
    alpha = share(alpha, "alpha")
    good = n - bad
    below = float(special.betainc(bad + 1, good + 1, alpha))
    if below < _TINY:
        return _far_above(bad, n, alpha)
    logarithm = special.betaln(bad + 1, good + 1) - (bad + 1) * math.log(alpha) - good * math.log1p(-alpha)
    return math.exp(min(_LARGEST_LOGARITHM, float(logarithm) + math.log(below)))


class AssistedLabel(NamedTuple):
    """A labelled answer beside answers that the judge alone has seen.

    Args:
        bad: Whether people call the answer bad.
        doubt: How bad the judge takes it for, 0 to 1.
        others: The same of answers that nobody labelled, drawn like this one, each beside one label only; empty
            for none, where the judge is no help.
    """

    bad: bool
    doubt: float
    others: Sequence[float] = ()


_BETS = ((0.0, 0.5, 1.0), (0.0, 0.8, 1.0), (0.5, 0.6, 0.5), (0.5, 0.9, 0.5), (1.0, 0.6, 1.0), (1.0, 0.9, 1.0))
"""Part of the judge's surprise that is taken off, part of the largest bet, and the doubt that is full doubt."""


def assisted_e_value(labels: Iterable[AssistedLabel], alpha: float) -> float:
    """Return the evidence against "more than a share `alpha` is bad", with the judge as control variate.

    Label by label it is bet, as in `e_value`, that fewer are bad. Of each label is taken off by how much the judge
    doubts this answer more than the others beside it, which is 0 on average and takes out what the judge knew. As
    fresh others stand beside each label the bets are fair, however wrong the judge is, and may be looked at after
    each (Waudby-Smith and Ramdas, JRSS B 86, 2024; control variates: Shekhar et al., "Risk-limiting financial
    audits", 2023). The evidence is the mean of six fixed bets, two of which do not ask the judge.

    Args:
        labels: The labels, in the order in which they were given.
        alpha: Largest tolerated share of bad answers.

    Raises:
        ValueError: If `alpha` is not between 0 and 1, or a doubt is not 0 to 1.
    """
    alpha = share(alpha, "alpha")
    read = [AssistedLabel(*label) for label in labels]
    if not all(0 <= doubt <= 1 for label in read for doubt in (label.doubt, *label.others)):
        raise ValueError("a judge's doubt is a number from 0 to 1")
    bad = floats([label.bad for label in read])
    own = floats([label.doubt for label in read])
    beside = np.array([len(label.others) for label in read], dtype=int)
    owner = np.repeat(np.arange(len(read)), beside)
    others = floats([doubt for label in read for doubt in label.others])
    logs = []
    for part, bet, full in _BETS:
        sums = np.bincount(owner, np.minimum(others / full, 1), minlength=len(read))
        surprise = np.where(beside > 0, np.minimum(own / full, 1) - sums / np.maximum(beside, 1), 0.0)
        logs.append(float(np.log1p(bet / (1 + part - alpha) * (alpha - bad + part * surprise)).sum()))
    return math.exp(min(_LARGEST_LOGARITHM, float(special.logsumexp(logs)) - math.log(len(_BETS))))


def _far_above(bad: int, n: int, alpha: float) -> float:
    """Return the evidence where far more than `alpha` are bad, by the series of the incomplete beta function."""
    term = total = (1 - alpha) / (bad + 1)
    step = 0
    while term > total * 1e-16:
        term *= alpha * (n + 2 + step) / (bad + 2 + step)
        total += term
        step += 1
    return total


def e_cusum(outcomes: Sequence[bool | int], p0: float, p1: float | None = None) -> list[float]:
    """Return the alarm statistic after each audited release: an alarm is due where it reaches 100.

    M = max(M before, 1) x L, with L = p1/p0 for a bad release and (1 - p1)/(1 - p0) for a good one. Without a
    change the mean run to an alarm at 100 is at least 100 audits.

    Args:
        outcomes: True or 1 for a bad release, in the order of the audits.
        p0: The share of bad releases that was certified, above 0 and below 1.
        p1: The share worth an alarm; None takes twice `p0`.
    """
    raised = min(2 * p0, (1 + p0) / 2) if p1 is None else p1
    if not 0 < p0 < raised < 1:
        raise ValueError(f"p0 and p1 satisfy 0 < p0 < p1 < 1; they are {p0!r} and {raised!r}")
    statistic, path = 1.0, []
    for outcome in outcomes:
        statistic = max(statistic, 1.0) * (raised / p0 if outcome else (1 - raised) / (1 - p0))
        path.append(statistic)
    return path


def _checked_counts(successes: object, n: object) -> tuple[int, int]:
    count, total = whole(successes, "a count"), whole(n, "a count")
    if not 0 <= count <= total:
        raise ValueError(f"counts satisfy 0 <= count <= n; they are {successes!r} of {n!r}")
    return count, total


_Status = Literal["certified", "refused", "too_few", "not_tested"]
Method = Literal["sequence", "fallback", "anytime", "assisted"]
AnyMethod = Literal["sequence", "fallback", "anytime", "assisted", "weighted"]

ALPHA = 0.10
DELTA = 0.05
_THRESHOLDS = (4, 3, 2)
_POWER = 0.8
_HOLDS_FOR = 15
"""Numbers of labels in a row at which the power is reached, since it rises in steps."""
MOST_LABELS = 3_000
"""Labels beyond which no number is told."""


class Counts(NamedTuple):
    """What a policy released in the calibration runs.

    Args:
        released: Answers released.
        bad: Those that a human calls bad; one without a label counts as bad.
    """

    released: int
    bad: int


@dataclass(frozen=True, kw_only=True)
class PolicyRow:
    """What the calibration says of one policy.

    Args:
        policy: Its success rating, or its place in the chain from 0.
        released: Answers it releases.
        bad: Those that are bad.
        rate: bad / released; None where nothing is released.
        upper: Exact upper bound (Clopper-Pearson) of the share of bad ones, with confidence 1 - delta.
        p: Exact p-value of "the share of bad ones is above alpha"; None where it was not tested.
        e: Evidence against it that holds at any look; see `e_value`. None where losses are weighted.
        status: What follows.
        release_rate: Share of the runs in which it releases an answer, where the number of runs is known.
        release_interval: Its 95 % interval (Wilson).
        mean_attempts: Mean attempts a run, where runs are known.
        first_good: Runs whose first answer was good, where breaking them is bounded, too.
        broken: Of these, runs whose released answer is bad.
        broken_upper: Exact upper bound of their share.
    """

    policy: float
    released: int
    bad: int
    rate: float | None
    upper: float | None
    p: float | None
    e: float | None
    status: _Status
    release_rate: float | None = None
    release_interval: tuple[float, float] | None = None
    mean_attempts: float | None = None
    first_good: int | None = None
    broken: int | None = None
    broken_upper: float | None = None


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The outcome of a certification. "Nothing is certified" is an outcome like any other.

    Args:
        alpha: Largest tolerated share of bad answers among those released.
        delta: Probability, over the draw of the calibration runs, that the promise does not hold.
        method: `"sequence"`: from the strictest policy on, each at level delta, until one fails (Bauer 1991;
            Angelopoulos et al., "Learn then Test", 2021). `"fallback"`: equal shares of delta, passed on (Wiens
            2003), which needs no order. `"anytime"`: e-values, for labels that arrive one by one; `"assisted"`
            the same with `assisted_e_value`; see `evidence_needed`. `"weighted"`: see `certify_weighted`.
        certified: The most lenient certified policy; None if there is none.
        rows: What was computed for each policy, in order.
        least: Fewest released and labelled runs, none bad, that can certify anything.
        reachable_alpha: The smallest alpha that the best policy would have passed, if nothing is certified. It is
            not a certificate.
        break_at_most: Of first answers that were good, the largest tolerated share that comes out bad; None where
            that is not promised. Both promises hold together with confidence 1 - delta: a policy is certified only
            where both tests reject at delta (intersection-union, Berger, Technometrics 24, 1982).
    """

    alpha: float
    delta: float
    method: AnyMethod
    certified: float | None
    rows: tuple[PolicyRow, ...]
    least: int
    reachable_alpha: float | None = None
    break_at_most: float | None = None

    def __str__(self) -> str:
        lines = [
            f"at most {self.alpha:.1%} bad answers among those released, with confidence {1 - self.delta:.0%}"
        ]
        for row in self.rows:
            rate = "-" if row.rate is None else f"{row.rate:.1%}, at most {row.upper:.1%}"
            lines.append(f"  from {row.policy:g}: {row.released} released, {row.bad} bad ({rate}): {row.status}")
        if self.certified is not None:
            lines.append(f"certified: success rating {self.certified:g}")
        else:
            reach = "" if self.reachable_alpha is None else f"; alpha would have to be {self.reachable_alpha:.1%}"
            lines.append(f"not certified{reach} (at least {self.least} released and labelled runs are needed)")
        return "\n".join(lines)


def certify(
    counts: Mapping[float, tuple[int, int]] | Sequence[tuple[int, int]],
    alpha: float = ALPHA,
    delta: float = DELTA,
    *,
    method: Method = "sequence",
    breaks: Mapping[float, tuple[int, int]] | Sequence[tuple[int, int]] | None = None,
    break_at_most: float | None = None,
    assisted: Sequence[Sequence[AssistedLabel]] | None = None,
) -> Certificate:
    """Choose the most lenient policy whose share of bad answers is at most alpha, with confidence 1 - delta.

    The chain must be fixed before labels are seen, the runs be one per question, and labels be made blind to the
    rating. The promise holds for the same stream of questions, policy and standard of labelling; not for a single
    question, and not after a drift.

    Args:
        counts: For each policy (released, bad), strictest first; a mapping is from success ratings, in any order.
        alpha: Largest tolerated share of bad answers among those released.
        delta: Probability that the promise does not hold, or one of both.
        method: See `Certificate`.
        breaks: For each policy (runs whose first answer was good, those of them that release a bad one); see
            `breaks_of`. None promises nothing about them.
        break_at_most: Largest tolerated share of `breaks`.
        assisted: For `"assisted"`: for each policy, strictest first, its labels with what the judge says.

    Raises:
        ValueError: If a count or a level is out of range, or one of what belongs together is missing.
    """
    alpha, delta = share(alpha, "alpha"), share(delta, "delta")
    chosen(method, get_args(Method), "method")
    if (breaks is None) is not (break_at_most is None):
        raise ValueError("breaks and break_at_most are given together: counts, and the largest share")
    if (assisted is None) is (method == "assisted") or (assisted is not None and breaks is not None):
        raise ValueError("assisted is for method='assisted', which promises nothing about breaks")
    chain, second = _chain(counts), None if breaks is None else _chain(breaks)
    if second is not None and [policy for policy, _ in second] != [policy for policy, _ in chain]:
        raise ValueError("counts and breaks are of the same policies")
    promises = [(alpha, [count for _, count in chain])]
    if second is not None and break_at_most is not None:
        promises.append((share(break_at_most, "break_at_most"), [count for _, count in second]))
    evidence = [e_value(count.bad, count.released, alpha) for _, count in chain]
    if assisted is not None:
        evidence = [assisted_e_value(labels, alpha) for labels in assisted]
    statuses = _statuses(promises, delta, method, evidence)
    rows = tuple(
        _row(policy, count, status, alpha, delta, e=e)
        for (policy, count), status, e in zip(chain, statuses, evidence, strict=True)
    )
    if second is not None:
        rows = tuple(_with_breaks(row, count, delta) for row, (_, count) in zip(rows, second, strict=True))
    return _outcome(rows, alpha, delta, method, break_at_most)


def _outcome(
    rows: tuple[PolicyRow, ...], alpha: float, delta: float, method: AnyMethod, break_at_most: float | None = None
) -> Certificate:
    certified = [row.policy for row in rows if row.status == "certified"]
    uppers = [row.upper for row in rows if row.upper is not None]
    return Certificate(
        alpha=alpha,
        delta=delta,
        method=method,
        certified=certified[-1] if certified else None,
        rows=rows,
        least=_fewest_that_certify(alpha, delta),
        reachable_alpha=min(uppers) if uppers and not certified else None,
        break_at_most=break_at_most,
    )


def _fewest_that_certify(alpha: float, delta: float) -> int:
    """Return the fewest cases, none of them bad, that show at confidence 1 - delta that at most alpha are."""
    return math.ceil(round(math.log(delta) / math.log(1 - alpha), 9))


def _statuses(
    promises: Sequence[tuple[float, Sequence[Counts]]], delta: float, method: Method, evidence: Sequence[float]
) -> list[_Status]:
    """Return what follows for each policy of the chain from the tests of one promise, or of two.

    Args:
        promises: The largest share of each promise, and its counts by policy.
        delta: Probability that they do not hold.
        method: See `Certificate`.
        evidence: For the first promise, by policy; see `e_value`.
    """
    places = range(len(promises[0][1]))
    p_values = [max(_p_value(counts[place], level) for level, counts in promises) for place in places]
    enough = [
        all(counts[place].released >= _fewest_that_certify(level, delta) for level, counts in promises)
        for place in places
    ]
    match method:
        case "sequence":
            return _in_sequence(enough, [p <= delta for p in p_values])
        case "anytime" | "assisted":
            for level, counts in promises[1:]:
                evidence = list(map(min, evidence, [e_value(one.bad, one.released, level) for one in counts]))
            least = evidence_needed(delta, len(places), is_begun_laxer=not enough[0])
            return _in_sequence(enough, [e >= least for e in evidence])
        case "fallback":  # equal shares of delta, and what a success did not use up to the next (Wiens 2003)
            return ["certified" if rejected else "refused" for rejected in _fallback(p_values, delta)]


_BEGUN_LAXER = 0.1
"""Part of delta that looks may spend of which the strictest policy has too few releases."""


def evidence_needed(delta: float, policies: int, *, is_begun_laxer: bool) -> float:
    """Return the least e-value that certifies a policy of a chain which is looked at as labels come in.

    Which policy is the first with enough releases changes from look to look, and each that a chain is begun at may
    be certified falsely. So those after the strictest share what is kept back for them.
    """
    if is_begun_laxer and policies > 1:
        return (policies - 1) / (delta * _BEGUN_LAXER)
    return 1 / delta if policies == 1 else 1 / (delta * (1 - _BEGUN_LAXER))


def _with_breaks(row: PolicyRow, count: Counts, delta: float) -> PolicyRow:
    upper = clopper_pearson(count.bad, count.released, level=1 - 2 * delta)[1] if count.released else None
    return replace(row, first_good=count.released, broken=count.bad, broken_upper=upper)


def _chain(
    counts: Mapping[float, tuple[int, int]] | Sequence[tuple[int, int]],
) -> list[tuple[float, Counts]]:
    if isinstance(counts, Mapping):
        finite(list(counts), "success ratings")
        return [(policy, _counted(policy, counts[policy])) for policy in sorted(counts, reverse=True)]
    return [(place, _counted(place, count)) for place, count in enumerate(listed(counts, "counts"))]


def _counted(policy: float, count: object) -> Counts:
    if not isinstance(count, Sequence | np.ndarray) or isinstance(count, str) or len(count) != len(Counts._fields):
        raise ValueError(f"the counts of a policy are (released, bad); policy {policy!r} has {count!r}")
    released, bad = (whole(number, f"a count of policy {policy!r}") for number in count)
    if not 0 <= bad <= released:
        raise ValueError(f"counts satisfy 0 <= bad <= released; policy {policy!r} has {(released, bad)}")
    return Counts(released, bad)


def _p_value(count: Counts, alpha: float) -> float:
    """Return P(Bin(released, alpha) <= bad)."""
    return float(special.bdtr(count.bad, count.released, alpha)) if count.released else 1.0


def _in_sequence(enough: Sequence[bool], passes: Sequence[bool]) -> list[_Status]:
    """Test from the strictest on until one fails; at first, those with too few releases to pass are skipped."""
    statuses: list[_Status] = []
    for has_enough, is_passed in zip(enough, passes, strict=True):
        if "refused" in statuses:
            statuses.append("not_tested")
        elif not has_enough and "certified" not in statuses:
            statuses.append("too_few")
        else:
            statuses.append("certified" if is_passed else "refused")
    return statuses


def _fallback(p_values: Sequence[float], delta: float) -> list[bool]:
    """Return which hypotheses the fallback procedure rejects (Wiens, Pharmaceutical Statistics 2, 2003)."""
    share, level, rejected = delta / max(1, len(p_values)), 0.0, []
    for p in p_values:
        level += share
        rejected.append(p <= level)
        if not rejected[-1]:
            level = 0.0
    return rejected


def _row(policy: float, count: Counts, status: _Status, alpha: float, delta: float, *, e: float) -> PolicyRow:
    n, bad = count
    return PolicyRow(
        policy=policy,
        released=n,
        bad=bad,
        rate=bad / n if n else None,
        upper=clopper_pearson(bad, n, level=1 - 2 * delta)[1] if n else None,
        p=_p_value(count, alpha) if status in ("certified", "refused") else None,
        e=e,
        status=status,
    )


def certify_runs(
    runs: Sequence[tuple[Ratings, Sequence[bool | None]]],
    alpha: float = ALPHA,
    delta: float = DELTA,
    thresholds: Sequence[float] = _THRESHOLDS,
    max_attempts: int = 3,
    *,
    patience: int | None = None,
    method: Method = "sequence",
    risk: Literal["released", "per_question"] = "released",
    break_at_most: float | None = None,
) -> Certificate:
    """Certify a success rating on recorded loops: the unit is the run, the label is on the answer it releases.

    Record with the strictest success rating, so that every laxer policy's answer is in the record. A run that a
    policy would not have ended by a pass, crashed ones included, releases nothing.

    Args:
        runs: For each run its ratings, attempt by attempt, and whether each answer is bad; a label that is missing
            where it is needed counts as bad.
        alpha: Largest tolerated share of bad answers among those released.
        delta: Probability that the promise does not hold.
        thresholds: The success ratings to choose from; fixed before labels are seen.
        max_attempts: Most attempts of the policy; the certificate holds for exactly this number.
        patience: Attempts without a gain after which the policy stops; None never does.
        method: See `Certificate`.
        risk: Bound the share of bad answers among those released, or among all questions (`"per_question"`), which
            counts a run without an answer as not bad.
        break_at_most: Of first answers that were good, the largest tolerated share that comes out bad; None
            promises nothing about them.

    Raises:
        ValueError: If an argument is out of range, or a run is not a list of ratings and one of labels.
    """
    chosen(risk, ("released", "per_question"), "risk")
    recorded_runs(runs)
    finite(thresholds, "thresholds")
    strictest_first = sorted(set(thresholds), reverse=True)
    counts, attempts, breaks = {}, {}, {}
    for threshold in strictest_first:
        results = replay_each([ratings for ratings, _ in runs], threshold, max_attempts, patience)
        released = [
            (bad, result.released) for (_, bad), result in zip(runs, results, strict=True) if result.released
        ]
        wrong = sum(number > len(bad) or bad[number - 1] in (None, True) for bad, number in released)
        counts[float(threshold)] = (len(released) if risk == "released" else len(runs), wrong)
        attempts[float(threshold)] = sum(result.attempts for result in results)
        kept = [breaks_of(bad, result.released) for (_, bad), result in zip(runs, results, strict=True)]
        breaks[float(threshold)] = (sum(good for good, _ in kept), sum(broken for _, broken in kept))
    certificate = certify(
        counts,
        alpha,
        delta,
        method=method,
        breaks=None if break_at_most is None else breaks,
        break_at_most=break_at_most,
    )
    rows = (
        replace(
            row,
            release_rate=row.released / len(runs),
            release_interval=wilson(row.released, len(runs)),
            mean_attempts=attempts[row.policy] / len(runs),
        )
        for row in certificate.rows
    )
    return replace(certificate, rows=tuple(rows)) if runs else certificate


def hoeffding_bentkus(mean: float, n: int, alpha: float) -> float:
    """Return a p-value of "the mean loss is above alpha" for losses from 0 to 1, weighted or averaged by question.

    Much weaker than the exact binomial test, which plain bad-or-good labels allow (Bates et al., JACM 68, 2021).

    Args:
        mean: Mean loss over questions, 0 to 1.
        n: Number of questions.
        alpha: Largest tolerated mean loss.
    """
    low = min(mean, alpha)
    entropy = float(special.rel_entr(low, alpha) + special.rel_entr(1 - low, 1 - alpha))
    hits = math.ceil(round(n * mean, 9))
    bentkus = math.e * float(special.bdtr(hits, n, alpha)) if hits < n else math.e
    return min(1.0, math.exp(-n * entropy), bentkus)


def weighted_risk(
    losses: Sequence[float],
    alpha: float = ALPHA,
    *,
    weights: Sequence[float] | None = None,
    clusters: Sequence[Hashable] | None = None,
    largest: float | None = None,
) -> float:
    """Return a p-value of "the weighted mean loss of released answers is above alpha".

    For graded harm, sampling weights, or several runs a question, where the exact test does not apply. The losses
    of a question are summed as w (loss - alpha) / m + alpha, and tested as `hoeffding_bentkus` does.

    Args:
        losses: Loss of each released answer, 0 to 1; 1 is bad.
        alpha: Largest tolerated mean loss.
        weights: Design weight of each answer.
        clusters: The question of each answer.
        largest: m, fixed in advance: at least the largest sum of weights of a question. None takes that of the
            data.
    """
    keys = list(range(len(losses))) if clusters is None else list(clusters)
    own = weights or [1.0] * len(losses)
    if not keys:
        return 1.0
    most = heaviest(zip(keys, own, strict=True))
    if largest is not None and largest < most:
        raise ValueError(f"largest is at least the largest sum of weights of a question, {most}; not {largest!r}")
    excess: dict[Hashable, float] = {}
    for loss, weight, key in zip(losses, own, keys, strict=True):
        excess[key] = excess.get(key, 0.0) + weight * (loss - alpha)
    mean = math.fsum(one / (largest or most) + alpha for one in excess.values()) / len(excess)
    return hoeffding_bentkus(mean, len(excess), alpha)


def heaviest(weights: Iterable[tuple[Hashable, float]]) -> float:
    """Return the largest sum of weights that a question has, of pairs of question and weight; 0 without any."""
    sums: dict[Hashable, float] = {}
    for question, weight in weights:
        sums[question] = sums.get(question, 0.0) + weight
    return max(sums.values(), default=0.0)


def labels_needed(alpha: float = ALPHA, delta: float = DELTA, true_rate: float | None = None) -> int | None:
    """Return how many released and labelled runs certify alpha with a probability of 80 %.

    Args:
        alpha: Largest tolerated share of bad answers.
        delta: Probability that the promise does not hold.
        true_rate: The share that really is bad; None asks for the fewest runs, none of them bad, that certify.

    Returns:
        The smallest number whose power stays at 80 % for the next 15; None if 3,000 do not suffice.
    """
    least = _fewest_that_certify(alpha, delta)
    if true_rate is None:
        return least
    enough, most_bad = 0, -1
    for n in range(least, MOST_LABELS):
        while special.bdtr(most_bad + 1, n, alpha) <= delta:  # of all `n` it is 1
            most_bad += 1
        power = float(special.bdtr(most_bad, n, true_rate)) if most_bad >= 0 else 0.0
        enough = enough + 1 if power >= _POWER else 0
        if enough > _HOLDS_FOR:
            return n - _HOLDS_FOR
    return None


class Release(NamedTuple):
    """A released answer.

    Args:
        loss: Harm it does, 0 to 1; 1 is bad.
        weight: Its design weight, 1 / probability with which its run was drawn.
        question: What tells its question from others.
    """

    loss: float
    weight: float
    question: Hashable


def certify_weighted(
    chain: Mapping[float, Sequence[Release]] | Sequence[Sequence[Release]],
    alpha: float = ALPHA,
    delta: float = DELTA,
    *,
    largest: float | None = None,
) -> Certificate:
    """Choose the most lenient policy whose weighted mean loss is at most alpha, with confidence 1 - delta.

    The sequence of `certify`, with the Hoeffding-Bentkus bound of `weighted_risk` over questions in place of the
    exact test. It is much weaker: take it for weights, several runs a question, or harm between 0 and 1.

    Args:
        chain: What each policy releases in the calibration runs, strictest first; a mapping is from success
            ratings, in any order.
        alpha: Largest tolerated mean loss.
        delta: Probability that the promise does not hold.
        largest: At least the largest sum of weights of a question, fixed before labels are seen; None takes that
            of the answers released.

    Raises:
        ValueError: If a level, a loss or a weight is out of range, or a question outweighs `largest`.
    """
    alpha, delta = share(alpha, "alpha"), share(delta, "delta")
    pairs = sorted(chain.items(), reverse=True) if isinstance(chain, Mapping) else list(enumerate(chain))
    released = [[_checked(Release(*one)) for one in releases] for _, releases in pairs]
    sums = [heaviest((one.question, one.weight) for one in releases) for releases in released]
    scale = largest or max(sums, default=1.0) or 1.0
    least = _fewest_that_certify(alpha, delta)
    p_values = [_weighted_p_value(releases, alpha, scale) for releases in released]
    enough = [len({one.question for one in releases}) >= least for releases in released]
    statuses = _in_sequence(enough, [p <= delta for p in p_values])
    rows = []
    for (policy, _), releases, p, status in zip(pairs, released, p_values, statuses, strict=True):
        total = math.fsum(one.weight for one in releases)
        row = PolicyRow(
            policy=float(policy),
            released=len(releases),
            bad=sum(one.loss > 0 for one in releases),
            rate=math.fsum(one.loss * one.weight for one in releases) / total if releases else None,
            upper=_upper(releases, delta, scale) if releases else None,
            p=p if status in ("certified", "refused") else None,
            e=None,
            status=status,
        )
        rows.append(row)
    return _outcome(tuple(rows), alpha, delta, "weighted")


def _checked(release: Release) -> Release:
    if not (0 <= release.loss <= 1 and 0 < release.weight < math.inf):
        raise ValueError(f"a loss is 0 to 1 and a weight above 0, not {release.loss!r} and {release.weight!r}")
    return release


def _weighted_p_value(releases: Sequence[Release], alpha: float, scale: float) -> float:
    losses, weights, questions = zip(*releases, strict=True) if releases else ((), (), ())
    return weighted_risk(losses, alpha, weights=weights, clusters=questions, largest=scale)


def _upper(releases: Sequence[Release], delta: float, scale: float) -> float:
    """Return the smallest mean loss that the test would have confirmed, to nine digits."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        is_confirmed = _weighted_p_value(releases, middle, scale) <= delta
        low, high = (low, middle) if is_confirmed else (middle, high)
    return high


def questions_needed(alpha: float, delta: float, mean: float) -> int | None:
    """Return how many questions certify alpha if their mean loss stays as it is; None if 3,000 do not suffice."""
    enough = (n for n in range(1, MOST_LABELS) if hoeffding_bentkus(mean, n, alpha) <= delta)
    return next(enough, None)
