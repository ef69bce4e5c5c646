"""A bias report that does not cry wolf: what an intervention or a control shows, corrected for many tests."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from judges.offline.statistics import resampling
from judges.offline.statistics.comparing import mcnemar, sign_flip
from judges.offline.statistics.intervals import LazyModule, Undefined, holm, is_number, normal_quantile, p_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    _Array = NDArray[np.float64]
else:
    np = LazyModule("numpy")
special = LazyModule("scipy.special")

Finding = Literal["flagged", "small", "not enough data", "association"]

_LEVEL = 0.05
_LEAST_DISCORDANT = 20
_LEAST_LEAN = 0.05
"""The least lean that counts as a bias."""
_LEAST_CHANGE = 0.1
"""The least change of a verdict that does."""


@dataclass(frozen=True, kw_only=True)
class BiasTest:
    """One test of a bias report.

    Args:
        bias: What was tested.
        effect: Its size: a lean (-1 to 1 of all pairs), a change of the rating, or a difference of rates.
        interval: 90 % interval of the effect, where one could be computed.
        p: Raw p-value; None where there is too little data to test, or nothing to flag.
        adjusted_p: p by Holm over all tests of the report.
        least: Smallest effect worth a flag.
        finding: `"flagged"` if adjusted p is at most 0.05 and the effect at least `least`; `"small"` if the
            interval lies within `least`; else `"not enough data"`. `"association"` is observed and never flagged.
        n: Pairs, probes or questions.
        figures: Further figures, by name.
        reason: Why there is no test.
        assumption: What must hold for the test to mean what it says.
    """

    bias: str
    effect: float | None
    n: int
    least: float
    interval: tuple[float, float] | None = None
    p: float | None = None
    adjusted_p: float | None = None
    finding: Finding = "not enough data"
    figures: dict[str, float | int | None]
    reason: Undefined | None = None
    assumption: str = ""

    @property
    def finding_text(self) -> str:
        """The finding in words: what kept it from being tested, or that the data cannot tell."""
        if self.finding != "not enough data":
            return self.finding
        if self.p is not None:
            return "cannot be told from so few"
        cases = "people and judge differ on" if self.bias == "leniency" else "there are"
        what = "questions" if self.bias == "leniency" else "cases that differ"
        few = f"{cases} fewer than {_LEAST_DISCORDANT} {what}"
        return f"not tested, {few if self.reason == 'too_few' else 'the data cannot tell'}"


@dataclass(frozen=True, kw_only=True)
class BiasReport:
    """The tests of a report, one family: the chance of any false flag is at most 5 %."""

    tests: tuple[BiasTest, ...]

    def __getitem__(self, bias: str) -> BiasTest:
        test_of_bias = next((test for test in self.tests if test.bias == bias), None)
        if test_of_bias is None:
            raise KeyError(f"{bias!r} was not tested; tested were: {', '.join(test.bias for test in self.tests)}")
        return test_of_bias

    @property
    def flagged(self) -> tuple[str, ...]:
        """Names of the biases that were found."""
        return tuple(test.bias for test in self.tests if test.finding == "flagged")

    def __str__(self) -> str:
        return "\n".join(map(_line, self.tests)) or "no bias was tested"


def _line(test: BiasTest) -> str:
    effect = "-" if test.effect is None else f"{test.effect:+.3f}"
    interval = "" if test.interval is None else f" ({test.interval[0]:+.3f} to {test.interval[1]:+.3f})"
    p = "" if test.adjusted_p is None else f", {p_text(test.adjusted_p)} after Holm"
    return f"{test.bias}: {test.finding_text}, effect {effect}{interval}{p}, n = {test.n}"


class _Family(NamedTuple):
    """Ratings of one question for self-preference.

    Args:
        judge_own: The judge's rating of its own family's answer.
        control_own: The control's rating of it.
        judge_other: The judge's rating of the other answer.
        control_other: The control's rating of it.
    """

    judge_own: float
    control_own: float
    judge_other: float
    control_other: float


def bias_report(
    *,
    position: Sequence[str | Sequence[float]] | None = None,
    verbosity: Sequence[tuple[float, float]] | None = None,
    cues: dict[str, Sequence[tuple[float, float]]] | None = None,
    robustness: dict[str, Sequence[tuple[Hashable, Hashable, Hashable]]] | None = None,
    self_preference: Sequence[Sequence[float]] | None = None,
    leniency: Sequence[tuple[float, float]] | None = None,
    length: tuple[Sequence[float], Sequence[float], Sequence[float] | None, Sequence[float]] | None = None,
    clusters: Sequence[Hashable] | None = None,
    seed: int = 0,
) -> BiasReport:
    """Test a judge for biases, all tests as one family (Holm at 0.05).

    Args:
        position: Per pair which *place* won in each of the two orders: two letters, F (first), S (second) or T; or
            two numbers, +1 for the first place, -1 for the second, 0 for a tie.
        verbosity: Per probe the rating of an answer, and of a padded copy without new content.
        cues: By name of a cue (authority, bandwagon, sycophancy, formatting ...) per probe the rating without and
            with it.
        robustness: By name of a perturbation per probe the verdict, the verdict after it, and that of a plain
            second judgement (CALM, arXiv 2410.02736).
        self_preference: Per question the judge's and a control's rating of the judge's own family's answer, then
            the judge's and the control's of another answer, as the test of self-preference takes them.
        leniency: Per row the human's rating and the judge's.
        length: The judge's ratings, a first rater's, a second rater's (None: one rater alone), and the logarithm
            of the lengths: the ratings' association with length beyond quality.
        clusters: The question of each row of `leniency` and `length`.
        seed: Seed of sign flips and resamples.

    Raises:
        ValueError: If a probe or a rating is not of the form above.
    """
    tests = []
    if position is not None:
        tests.append(_position(position))
    if verbosity is not None and "verbosity" in (cues or {}):
        raise ValueError("verbosity was tested twice: give it as verbosity=..., and no cue of that name")
    for name, mapping in (("cues", cues), ("robustness", robustness)):
        if mapping is not None and not isinstance(mapping, dict):
            raise ValueError(f"{name} has its probes by name, {{'authority': [...]}}; not {mapping!r}")
    probes = {**({"verbosity": verbosity} if verbosity is not None else {}), **(cues or {})}
    tests += [_toward(name, pairs, seed) for name, pairs in probes.items()]
    tests += [_robustness(name, triples) for name, triples in (robustness or {}).items()]
    if self_preference is not None:
        rated = _rows_of_numbers(self_preference, 4, "ratings for self-preference")
        tests.append(_self_preference([_Family(*ratings) for ratings in rated.tolist()], seed))
    if leniency is not None:
        tests.append(_leniency(leniency, clusters, seed))
    if length is not None and len(length) != 4:  # noqa: PLR2004 - as the message says
        raise ValueError(f"length is (judge, rater, second rater or None, logarithms), not {len(length)} columns")
    if length is not None:
        tests.append(_length(*length, clusters))
    return BiasReport(tests=tuple(_judged(tests)))


def _rows_of_numbers(rows: Sequence[Any], columns: int, name: str) -> _Array:
    """Return rows of numbers as an array.

    Args:
        rows: The rows.
        columns: How many numbers each has.
        name: What they are, for the error.

    Raises:
        ValueError: If a row has more or fewer, or one is no finite number.
    """
    for row in resampling.listed(rows, name):
        if isinstance(row, str) or not isinstance(row, Sequence | np.ndarray) or len(row) != columns:
            raise ValueError(f"{name} are rows of {columns} numbers, not {row!r}")
        if not all(is_number(value) for value in row):
            raise ValueError(f"{name} are finite numbers, but a row is {row!r}; leave it out")
    return resampling.floats(rows).reshape(len(rows), columns)


def _judged(tests: Sequence[BiasTest]) -> list[BiasTest]:
    """Adjust the p-values over the family, and say what follows from each."""
    tested = [i for i, test in enumerate(tests) if test.p is not None]
    adjusted = dict(zip(tested, holm([test.p for test in tests if test.p is not None]), strict=True))
    return [
        replace(test, adjusted_p=adjusted.get(i), finding=_finding(test, adjusted.get(i)))
        for i, test in enumerate(tests)
    ]


def _finding(test: BiasTest, adjusted: float | None) -> Finding:
    if test.finding == "association":
        return "association"
    if adjusted is not None and test.effect is not None and adjusted <= _LEVEL and abs(test.effect) >= test.least:
        return "flagged"
    if test.interval is not None and max(map(abs, test.interval)) <= test.least:
        return "small"
    return "not enough data"


def _position(pairs: Sequence[str | Sequence[float]]) -> BiasTest:
    sums = [_lean(pair) for pair in resampling.listed(pairs, "position")]
    first, second, n = sum(s > 0 for s in sums), sum(s < 0 for s in sums), len(sums)
    leans = np.sign(resampling.floats(sums))
    return BiasTest(
        bias="position",
        effect=float(leans.mean()) if n else None,
        n=n,
        least=_LEAST_LEAN,
        interval=_normal_interval(leans),
        p=mcnemar(first, second) if first + second >= _LEAST_DISCORDANT else None,
        reason=None if first + second >= _LEAST_DISCORDANT else "too_few",
        figures={
            "first": first,
            "second": second,
            "flip_rate": (first + second) / n if n else None,
            "p": mcnemar(first, second),
        },
    )


def _lean(pair: str | Sequence[float]) -> float:
    places = [_PLACE.get(place, place) for place in resampling.listed(pair, "a pair", text=True)]
    if len(places) != 2 or not all(place in (1, 0, -1) for place in places):  # noqa: PLR2004 - two orders
        raise ValueError(f"a pair has a place for each order, F, S or T, or 1, -1 or 0; not {pair!r}")
    return float(sum(places))


_PLACE: dict[str | float, float] = {"F": 1.0, "S": -1.0, "T": 0.0}


def _toward(name: str, pairs: Sequence[tuple[float, float]], seed: int) -> BiasTest:
    """Test whether a cue moves ratings up; the sign test is one-sided for cues, since only toward it is a bias."""
    rated = _rows_of_numbers(pairs, 2, f"ratings before and after {name}")
    changes = rated[:, 1] - rated[:, 0]
    up, down = int((changes > 0).sum()), int((changes < 0).sum())
    two_sided = mcnemar(up, down)
    p = two_sided if name == "verbosity" else _one_sided(up, down)
    enough = up + down >= _LEAST_DISCORDANT
    n = len(changes)
    return BiasTest(
        bias=name,
        effect=float(changes.mean()) if n else None,
        n=n,
        least=_LEAST_CHANGE,
        interval=_bootstrap_interval(changes, seed),
        p=p if enough else None,
        reason=None if enough else "too_few",
        figures={"up": up / n if n else None, "down": down / n if n else None},
    )


def _one_sided(up: int, down: int) -> float:
    return float(special.bdtr(down, up + down, 0.5)) if up + down else 1.0


def _robustness(name: str, triples: Sequence[tuple[Hashable, Hashable, Hashable]]) -> BiasTest:
    for triple in map(list, triples):
        if len(triple) != 3 or None in triple:  # noqa: PLR2004 - as the message says
            raise ValueError(f"a probe is (verdict, verdict after, verdict again), none missing; not {triple!r}")
    unchanged = [(first == after, first == again) for first, after, again in triples]
    n = len(unchanged)
    robust, consistent = (
        (sum(column) / n if n else 0.0 for column in zip(*unchanged, strict=True)) if n else (None, None)
    )
    worse, better = unchanged.count((False, True)), unchanged.count((True, False))
    enough = worse + better >= _LEAST_DISCORDANT
    gaps = np.array([float(a) - float(b) for a, b in unchanged])
    return BiasTest(
        bias=f"{name} (robustness)",
        effect=None if robust is None or consistent is None else robust - consistent,
        n=n,
        least=_LEAST_LEAN,
        interval=_normal_interval(gaps),
        p=_one_sided(worse, better) if enough else None,
        reason=None if enough else "too_few",
        figures={"robustness": robust, "consistency": consistent},
    )


def _self_preference(questions: Sequence[_Family], seed: int) -> BiasTest:
    differences = np.array(
        [(q.judge_own - q.control_own) - (q.judge_other - q.control_other) for q in questions], float
    )
    n = len(differences)
    enough = int((differences != 0).sum()) >= _LEAST_DISCORDANT
    p = sign_flip(differences.tolist(), seed=seed)
    return BiasTest(
        bias="self-preference",
        effect=float(differences.mean()) if n else None,
        n=n,
        least=_LEAST_CHANGE,
        interval=_bootstrap_interval(differences, seed),
        p=p if enough else None,
        reason=None if enough else "too_few",
        figures={"se": float(differences.std(ddof=1)) / n**0.5 if n > 1 else None, "p": p},
        assumption="judge and control use the scale alike: take a control of similar strength",
    )


def _leniency(pairs: Sequence[tuple[float, float]], clusters: Sequence[Hashable] | None, seed: int) -> BiasTest:
    rated = _rows_of_numbers(pairs, 2, "ratings by human and judge")
    raw = rated[:, 1] - rated[:, 0]
    differences = np.array([raw[rows].mean() for rows in resampling.cluster_rows(len(raw), clusters)])
    enough = int((differences != 0).sum()) >= _LEAST_DISCORDANT
    return BiasTest(
        bias="leniency",
        effect=float(differences.mean()) if len(differences) else None,
        n=len(differences),
        least=_LEAST_CHANGE,
        interval=_bootstrap_interval(differences, seed),
        p=sign_flip(differences.tolist(), seed=seed) if enough else None,
        reason=None if enough else "too_few",
        figures={},
    )


def _length(
    judge: Sequence[float],
    rater: Sequence[float],
    second: Sequence[float] | None,
    log_lengths: Sequence[float],
    clusters: Sequence[Hashable] | None,
) -> BiasTest:
    columns = [judge, rater, log_lengths, *([] if second is None else [second])]
    resampling.same_length(
        "length has the judge's ratings, a rater's, a second's or None, and lengths, for each row", *columns
    )
    for column in columns:
        resampling.finite(column, "ratings and logarithms of lengths")
    x = resampling.floats(log_lengths)
    n = len(x)
    if len(resampling.cluster_rows(n, clusters)) < _LEAST_DISCORDANT or not x.std():
        return BiasTest(bias="length", effect=None, n=n, least=_LEAST_CHANGE, figures={}, reason="too_few")
    standard = ((x - x.mean()) / x.std(ddof=1)).tolist()
    fit = instrumental(judge, rater, second if second is not None else rater, standard, clusters=clusters)
    if fit is None:
        return BiasTest(bias="length", effect=None, n=n, least=_LEAST_CHANGE, figures={}, reason="not_identified")
    effect, se = fit.coefficients[2], fit.errors[2]
    half = normal_quantile(0.9) * se
    alone = second is None
    return BiasTest(
        bias="length",
        effect=effect,
        n=n,
        least=_LEAST_CHANGE,
        interval=(effect - half, effect + half),
        p=None if alone or not se else float(2 * special.ndtr(-abs(effect) / se)),
        finding="association" if alone else "not enough data",
        figures={"se": se},
        assumption="with one rater alone, whose ratings are noisy, an unbiased judge looks biased"
        if alone
        else "",
    )


class _Fit(NamedTuple):
    """Coefficients of [1, quality, x] and their standard errors."""

    coefficients: tuple[float, float, float]
    errors: tuple[float, float, float]


def instrumental(
    judge: Sequence[float],
    rater: Sequence[float],
    second: Sequence[float],
    x: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
) -> _Fit | None:
    """Regress a judge's ratings on quality and x, one rater's noise taken out by a second rater as instrument.

    Two-stage least squares with regressors [1, rater, x] and instruments [1, second, x], and standard errors that
    are robust to unequal variance and to questions with several rows.

    Returns:
        The fit, or None where the second rater says nothing about the first.
    """
    y = resampling.floats(judge)
    regressors = np.column_stack([np.ones_like(y), resampling.floats(rater), resampling.floats(x)])
    instruments = np.column_stack([np.ones_like(y), resampling.floats(second), resampling.floats(x)])
    crossed = instruments.T @ regressors
    if np.linalg.matrix_rank(crossed) < len(crossed):
        return None
    inverse = np.linalg.inv(crossed)
    coefficients: Any = inverse @ (instruments.T @ y)
    residuals = y - regressors @ coefficients
    scores = instruments * residuals[:, None]
    sums = np.array([scores[rows].sum(axis=0) for rows in resampling.cluster_rows(len(y), clusters)])
    errors = np.sqrt(np.diag(inverse @ (sums.T @ sums) @ inverse.T))
    return _Fit(tuple(map(float, coefficients)), tuple(map(float, errors)))  # type: ignore[arg-type]  # three of each


def _bootstrap_interval(values: _Array, seed: int) -> tuple[float, float] | None:
    if len(values) < 2:  # noqa: PLR2004 - one value has no spread
        return None
    groups = resampling.cluster_rows(len(values), None)
    figure = resampling.bootstrap_rows(
        lambda rows: float(values[rows].mean()), groups, level=0.9, seed=seed, resamples=1000
    )
    return None if figure.low is None or figure.high is None else (figure.low, figure.high)


def _normal_interval(values: _Array) -> tuple[float, float] | None:
    if len(values) < 2:  # noqa: PLR2004 - one value has no spread
        return None
    half = normal_quantile(0.9) * float(values.std(ddof=1)) / len(values) ** 0.5
    return float(values.mean()) - half, float(values.mean()) + half
