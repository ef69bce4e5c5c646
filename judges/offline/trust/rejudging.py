"""Judging some recorded attempts a second time: what tells a gain from regression to the mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b

from judges.compose.panel import as_judge
from judges.errors import ConfigurationError, shortened
from judges.offline.run.evaluate import evaluate
from judges.offline.trust.loops import LoopAttempt, RecordedLoop, best_of
from judges.sample import Sample

_Key = tuple[str, int]


def rejudged_loops(
    loops: Sequence[RecordedLoop], judge: object, *, fraction: float, seed: int, max_concurrency: int
) -> list[RecordedLoop]:
    """Return the loops with second ratings of some attempts, chosen without regard to how they were rated.

    For the gain these are refused attempts that another one followed; for the best attempt, best attempts of loops
    with several. Both are drawn for themselves: being the best says something about the next rating.

    Args:
        loops: The loops.
        judge: The judge: the one that recorded.
        fraction: Share of each kind that is judged again, above 0 and up to 1.
        seed: Seed of the choice, which is the same for the same attempts in every process.
        max_concurrency: Rows that are judged at once.

    Raises:
        ConfigurationError: If the fraction is out of range, the judge cannot be used, or no attempt has texts.
    """
    if not 0 < fraction <= 1:
        raise ConfigurationError(f"rejudge_fraction is above 0 and at most 1, not {shortened(fraction)}")
    for_gain = {
        (loop.id, attempt.number)
        for loop in loops
        for attempt in _followed(loop)
        if _is_drawn(loop.id, attempt.number, "gain", fraction, seed)
    }
    as_best = {
        (loop.id, best.number)
        for loop in loops
        if len(loop.attempts) > 1 and (best := best_of(loop.attempts)) is not None
        if _is_drawn(loop.id, best.number, "best", fraction, seed)
    }
    ratings = _judged(_samples(loops, for_gain | as_best), judge, max_concurrency)
    return [_with_ratings(loop, ratings, for_gain, as_best) for loop in loops]


def _followed(loop: RecordedLoop) -> Iterable[LoopAttempt]:
    """Yield the refused attempts that another one followed, those of shadows excepted."""
    own = [attempt for attempt in loop.attempts if not attempt.shadow]
    return (attempt for attempt in own[:-1] if attempt.rating is not None)


def _is_drawn(loop: str, number: int, purpose: str, fraction: float, seed: int) -> bool:
    text = f"{seed} {purpose} {number} {loop}"
    draw = int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "big")
    return draw < fraction * 2**64


def _samples(loops: Sequence[RecordedLoop], keys: set[_Key]) -> dict[_Key, Sample]:
    samples = {
        (loop.id, attempt.number): attempt.sample
        for loop in loops
        for attempt in loop.attempts
        if (loop.id, attempt.number) in keys and attempt.sample is not None
    }
    if keys and not samples:
        raise ConfigurationError(
            "the attempts were recorded without texts, so none can be judged again; record with texts=True, or in "
            "a file of JSON lines"
        )
    return samples


def _judged(samples: dict[_Key, Sample], judge: object, max_concurrency: int) -> dict[_Key, int]:
    bare = [sample.model_copy(update={"metadata": {}}) for sample in samples.values()]
    rows = evaluate(bare, as_judge(judge), max_concurrency=max_concurrency).rows
    ratings = (next(iter(row.verdicts.values())).rating for row in rows)
    return {key: rating for key, rating in zip(samples, ratings, strict=True) if rating is not None}


def _with_ratings(
    loop: RecordedLoop, ratings: dict[_Key, int], for_gain: set[_Key], as_best: set[_Key]
) -> RecordedLoop:
    def rated(attempt: LoopAttempt) -> LoopAttempt:
        key = loop.id, attempt.number
        rating = ratings.get(key)
        if rating is None:
            return attempt
        return replace(
            attempt,
            rejudged=rating if key in for_gain else attempt.rejudged,
            rejudged_as_best=rating if key in as_best else attempt.rejudged_as_best,
        )

    return replace(loop, attempts=tuple(map(rated, loop.attempts)))
