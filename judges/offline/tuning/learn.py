"""`learn`: a first level that decides like a judge where it is sure, by the verdicts that the judge gave before.

The rows are parted by question. A logistic regression is fitted to one half, its strength and the order in which
more and more is decided by cross-fitted predictions of that half. The other half, which it never saw, says how
far that may go: policies are tested from strict to lax, each by the exact binomial test, until one fails (tests in
a fixed sequence, Bauer 1991). The chain is fixed before, so that one delta pays for all of it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from judges.compose.learned import VECTORS, Learned, Vectors, likelihood, look_at, vectors_of, write_learned
from judges.errors import ConfigurationError, shortened
from judges.model import EmbeddingModel
from judges.offline.trust.rows import JudgedAnswer, RowSource, judge_among, read_judged
from judges.requests import Embed
from judges.sample import Sample

_STRENGTHS = (0.0003, 0.003, 0.03, 0.3)
"""Inverse strengths of the penalty, of which cross-fitting chooses."""

_FOLDS = 5
_STEPS = 40
_FEWEST = 100
"""Judged answers below which nothing is learned."""

_DIGITS = 7
_FLAT = 1e-9
_GOOD = 3
_TIMED = 50


@dataclass(frozen=True, kw_only=True)
class _Shown:
    """A judged answer, as the first level sees it.

    Args:
        sample: The texts.
        question: Identifies the question.
        passed: Whether the judge accepts it.
        numbers: What it shows.
        share: How likely the first level thinks it that the judge accepts it.
    """

    sample: Sample
    question: str
    passed: bool
    numbers: tuple[float, ...] = ()
    share: float = 0.5


@dataclass(frozen=True, kw_only=True)
class Learning:
    """What was learned; `str()` says it in a few lines.

    Args:
        judge: The judge that it was learned of.
        rows: Judged answers.
        questions: Different questions among them.
        checked: Questions on which it was checked; it never saw them before.
        agreement: The share of questions on which both levels together say what the judge says: the promise.
        confidence: How sure that is.
        accepts: Share of the checked answers that it accepts alone.
        refuses: Share of them that it refuses.
        wrong: Checked questions on which it decides otherwise than the judge.
        missed: Answers that the judge refuses and it accepts.
        refused: Answers that the judge refuses, among those checked.
        p50_ms: Milliseconds of a decision, the median.
        id: The file's.
        notes: What a reader must know besides.
    """

    judge: str
    rows: int
    questions: int
    checked: int
    agreement: float
    confidence: float
    accepts: float
    refuses: float
    wrong: int
    missed: int
    refused: int
    p50_ms: float
    id: str
    notes: tuple[str, ...] = ()

    @property
    def decides(self) -> float:
        """Share of the answers that it decides alone."""
        return self.accepts + self.refuses

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        sides = f"accepts {self.accepts:.0%}, refuses {self.refuses:.0%}"
        yield f"{self.judge}: decides {self.decides:.0%} alone ({sides})"
        if self.decides:
            yield (
                f"promise: on {self.agreement:.0%} of new questions at least, both levels together say what the "
                f"judge says, with confidence {self.confidence:.0%}; here on {self.checked - self.wrong} of "
                f"{self.checked}"
            )
            yield f"of {self.refused} answers that the judge refuses it accepts {self.missed}"
            yield "what it refuses goes to the judge, for feedback, unless refuses = true"
        count = f"{self.rows} answers to {self.questions} questions"
        yield f"learned from {count}; a decision takes {self.p50_ms:.1f} ms (median)"
        yield from self.notes

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data for JSON."""
        data: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return {**data, "decides": self.decides}


def learn(
    attempts: RowSource,
    *,
    judge: str | None = None,
    out: str | os.PathLike[str] = "first.json",
    agreement: float = 0.95,
    delta: float = 0.05,
    success_rating: int | None = None,
    vectors: Vectors = "pieces",
    seed: int = 0,
) -> Learning:
    """Learn a first level of a judge's verdicts, and write it to a file for `judges.Learned`.

    Args:
        attempts: Judged answers: recorded attempts, the folder of a run, or rows with verdicts.
        judge: The judge, where rows have verdicts of several.
        out: The file. Weights and marks stand in it as JSON; no text of the rows does.
        agreement: Least share of questions on which both levels together say what the judge says.
        delta: Probability that this does not hold.
        success_rating: Rating from which the judge accepts; None takes the rating or the score from which the
            recorded loops did, or its own.
        vectors: `"pieces"`, means of MiniLM's word pieces; `"minilm"`, what three of its layers make of the first
            24 tokens of each text, slower; or `"none"`.
        seed: Seed of the parts.

    Raises:
        ConfigurationError: If rows or settings cannot be used, or scikit-learn is missing.
    """
    _check(agreement, delta, vectors)
    rows = read_judged(attempts)
    name = judge_among(rows, judge)
    judged = list(_judged(rows, name, success_rating, vectors_of(vectors)))
    to_fit = [one for one in judged if int(_digest(seed, one.question), 16) % 2]
    to_check = [one for one in judged if not int(_digest(seed, one.question), 16) % 2]
    level, note = _Level(), ""
    if len(judged) < _FEWEST or len({one.passed for one in to_fit}) < 2:  # noqa: PLR2004 - yes and no
        passing = sum(one.passed for one in judged)
        note = f"too little to learn from: {len(judged)} judged answers, of which {passing} pass"
    else:
        level, chain = _fit(to_fit)
        to_check = [
            replace(one, share=likelihood(level.weights, level.intercept, one.numbers)) for one in to_check
        ]
        level = _check_chain(level, chain, to_check, agreement=agreement, delta=delta)
    promise = {"agreement": agreement, "confidence": 1 - delta}
    digest = rows[0].subject.judge_digest
    provenance = {"judge": name, "judge_digest": digest, "rows": len(judged), "seed": seed, **promise}
    identity = write_learned(Path(out), {**asdict(level), "vectors": vectors, "provenance": provenance})
    accepted, refused = ([one for one in to_check if level.decides(one) is verdict] for verdict in (True, False))
    return Learning(
        judge=name,
        rows=len(judged),
        questions=len({one.question for one in judged}),
        checked=len({one.question for one in to_check}),
        accepts=len(accepted) / (len(to_check) or 1),
        refuses=len(refused) / (len(to_check) or 1),
        wrong=_wrong(level, to_check),
        missed=sum(not one.passed for one in accepted),
        refused=sum(not one.passed for one in to_check),
        p50_ms=_time(Learned(Path(out)), [one.sample for one in judged[:_TIMED]]),
        id=identity,
        notes=(note,) if note else (),
        **promise,
    )


def _check(agreement: float, delta: float, vectors: str) -> None:
    shares: tuple[tuple[str, object], ...] = (("agreement", agreement), ("delta", delta))
    for setting, value in shares:
        if not isinstance(value, int | float) or not 0 < value < 1:
            raise ConfigurationError(f"{setting} lies between 0 and 1, for instance 0.95, not {shortened(value)}")
    if vectors not in VECTORS:
        raise ConfigurationError(f"vectors is one of {', '.join(VECTORS)}, not {shortened(vectors)}")


def _passed(row: JudgedAnswer, judge: str, success_rating: int | None) -> bool | None:
    """Return whether the judge accepts an answer, as its loop does; None where it has no verdict, or no answer."""
    mark = row.marks.get(judge)
    if mark is None or not mark.scored or row.sample is None or not (row.sample.answer or "").strip():
        return None
    recorded, score = row.metadata.get("success_rating"), row.metadata.get("success_score")
    if success_rating is None and isinstance(score, float) and mark.score is not None:
        return mark.score >= score
    least = success_rating or (recorded if isinstance(recorded, int) else None)
    rating = mark.effective
    if least is None or rating is None:
        return mark.passed if mark.passed is not None else (mark.as_rating or 0) >= _GOOD
    return rating >= least


def _judged(
    rows: Iterable[JudgedAnswer], judge: str, success_rating: int | None, model: EmbeddingModel | None
) -> Iterator[_Shown]:
    """Yield the rows of which the judge has a verdict, as the first level sees them."""
    for row in rows:
        passed = _passed(row, judge, success_rating)
        if passed is not None and row.sample is not None:
            numbers = tuple(_numbers_of(row.sample, model))
            yield _Shown(sample=row.sample, question=row.question_id, passed=passed, numbers=numbers)


def _numbers_of(sample: Sample, model: EmbeddingModel | None) -> list[float]:
    looking = look_at(sample, model)
    try:
        request = next(looking)
        assert isinstance(request, Embed)  # noqa: S101 - all that it yields
        looking.send(request.model.embed(request.texts).vectors)
    except StopIteration as end:
        numbers: list[float] = end.value
        return numbers
    raise TypeError("it asks for vectors once")


def _digest(seed: int, question: str) -> str:
    return hashlib.sha256(f"{seed}:{question}".encode(errors="surrogatepass")).hexdigest()


@dataclass(frozen=True, kw_only=True)
class _Level:
    """A first level: weights, and the probabilities beyond which it decides; None decides nothing on that side."""

    weights: tuple[float, ...] = ()
    intercept: float = 0.0
    accept: float | None = None
    refuse: float | None = None

    def decides(self, one: _Shown) -> bool | None:
        """Return whether it accepts or refuses; None where it leaves that to the judge."""
        if self.accept is not None and one.share >= self.accept:
            return True
        return False if self.refuse is not None and one.share <= self.refuse else None


_Marks = tuple[float | None, float | None]
"""Probability from which a policy accepts, and down to which it refuses."""


def _fit(rows: Sequence[_Shown]) -> tuple[_Level, list[_Marks]]:
    """Return a level that decides nothing yet, and policies in the order in which more and more is decided.

    Raises:
        ConfigurationError: If scikit-learn is missing.
    """
    try:
        import numpy as np  # noqa: PLC0415 - an extra, imported on demand
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
        from sklearn.model_selection import GroupKFold, cross_val_predict  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError("learning needs scikit-learn; install the extra: selfrefine[learn]") from error
    numbers = np.array([one.numbers for one in rows])
    passed = np.array([one.passed for one in rows])
    groups = [one.question for one in rows]
    mean, scale = numbers.mean(axis=0), numbers.std(axis=0)
    scale[scale < _FLAT] = 1.0
    standard = (numbers - mean) / scale
    folds = GroupKFold(min(_FOLDS, len(set(groups))))
    crossed = {
        strength: cross_val_predict(
            LogisticRegression(C=strength, max_iter=2_000),
            standard,
            passed,
            groups=groups,
            cv=folds,
            method="predict_proba",
        )[:, 1]
        for strength in _STRENGTHS
    }
    best = min(_STRENGTHS, key=lambda strength: _loss(crossed[strength], passed))
    model = LogisticRegression(C=best, max_iter=2_000).fit(standard, passed)
    weights = model.coef_[0] / scale
    intercept = float(model.intercept_[0] - weights @ mean)
    level = _Level(
        weights=tuple(float(f"{weight:.{_DIGITS}g}") for weight in weights), intercept=round(intercept, _DIGITS)
    )
    return level, _chain(crossed[best].tolist(), [one.passed for one in rows])


def _loss(shares: Any, passed: Any) -> float:
    likely = [share if good else 1 - share for share, good in zip(shares.tolist(), passed.tolist(), strict=True)]
    return -math.fsum(math.log(max(share, 1e-9)) for share in likely)


def _chain(shares: Sequence[float], passed: Sequence[bool]) -> list[_Marks]:
    """Return policies from strict to lax, each deciding what the one before it does.

    A step gives the side more to decide that errs less on what it would add, by the cross-fitted predictions. A
    side that errs more than half as often as whoever guesses decides no more, whatever the promise would allow:
    where the judge accepts nearly everything, accepting everything would keep it, too.
    """
    ordered = sorted(zip(shares, passed, strict=True))
    step = max(1, len(ordered) // _STEPS)
    low, high, chain = 0, len(ordered), list[_Marks]()
    accept: float | None = None
    refuse: float | None = None
    good_share = sum(passed) / len(passed)
    while high - low >= step:
        above, below = ordered[high - step : high], ordered[low : low + step]
        bad, good = sum(not is_good for _, is_good in above), sum(is_good for _, is_good in below)
        accepted, refused = ordered[high - step :], ordered[: low + step]
        may_accept = sum(not is_good for _, is_good in accepted) <= (1 - good_share) / 2 * len(accepted)
        may_refuse = sum(is_good for _, is_good in refused) <= good_share / 2 * len(refused)
        if may_accept and (bad <= good or not may_refuse):
            high, accept = high - step, above[0][0]
        elif may_refuse:
            low, refuse = low + step, below[-1][0]
        else:
            break
        chain.append((accept, refuse))
    return chain


def _check_chain(
    level: _Level, chain: Sequence[_Marks], rows: Sequence[_Shown], *, agreement: float, delta: float
) -> _Level:
    """Return the level with the laxest marks that keep the promise on rows that it has not seen."""
    from scipy.stats import binom  # noqa: PLC0415 - comes with scikit-learn

    questions = len({one.question for one in rows})
    certified = level
    for accept, refuse in chain:
        laxer = replace(level, accept=accept, refuse=refuse)
        if not questions or binom.cdf(_wrong(laxer, rows), questions, 1 - agreement) > delta:
            break
        certified = laxer
    return certified


def _wrong(level: _Level, rows: Sequence[_Shown]) -> int:
    """Return the questions with an answer that it decides otherwise than the judge."""
    return len({one.question for one in rows if level.decides(one) is (not one.passed)})


def _time(judge: Learned, samples: Sequence[Sample]) -> float:
    """Return the median of the milliseconds that a decision takes; 0 where there is nothing to decide."""
    taken = []
    for sample in samples:
        start = time.perf_counter()
        judge(sample)
        taken.append((time.perf_counter() - start) * 1_000)
    return median(taken) if taken else 0.0
