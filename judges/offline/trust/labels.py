"""What people say of an answer: read from the forms in which labels are written down."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from judges.errors import ConfigurationError, shortened
from judges.verdict import HIGHEST, LOWEST

_RATING_NAMES = ("rating", "label", "good", "up", "passed")
_WORDS = {
    **dict.fromkeys(("good", "pass", "passed", "yes", "true", "up", "accept", "correct"), True),
    **dict.fromkeys(("bad", "fail", "failed", "no", "false", "down", "reject", "incorrect"), False),
}
TUNED = frozenset({"tune", "tuned", "tuning", "train", "training", "dev", "few_shot", "few-shot", "prompt"})
"""Splits whose labels were used to make the judge what it is."""

Goodness = bool | None
Harm = tuple[float, float, float, float]
"""Harm of an answer that people rate 1, 2, 3 and 4, each 0 to 1."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """One person's label of one answer.

    Args:
        by: Who it is.
        rating: 1 to 4; 4 and 1 where the person only said good or bad.
        is_rating: Whether it is a rating.
        split: What the label may be used for.
        at: When it was given, where known.
    """

    by: str
    rating: float
    is_rating: bool
    split: str | None = None
    at: str | None = None

    def is_good(self, good: float) -> bool:
        """Whether the answer is good, if ratings are good from `good` on."""
        return self.rating >= good


def opinions_in(value: object, *, split: str | None = None, place: str = "") -> tuple[Opinion, ...]:
    """Return the labels that a value holds.

    Args:
        value: A rating from 1 to 4, True or False, "good" or "bad", or a mapping with `by` and `rating` or `up`;
            several of these in a list, or in a mapping by the person's name.
        split: What the labels may be used for, where one does not say so itself.
        place: Where the value stands, for errors.

    Raises:
        ConfigurationError: If a label is none of these.
    """
    if value is None:
        return ()
    if isinstance(value, Mapping) and not value.keys() & {*_RATING_NAMES, "by", "note"}:
        pairs: Iterable[tuple[str, object]] = [(str(name), label) for name, label in value.items()]
    elif isinstance(value, Sequence) and not isinstance(value, str):
        pairs = [(f"rater {number}", label) for number, label in enumerate(value, 1)]
    else:
        pairs = [("rater 1", value)]
    return tuple(opinion for by, label in pairs for opinion in _opinion(label, by, split, place))


def _opinion(label: object, by: str, split: str | None, place: str) -> Iterator[Opinion]:
    at = None
    if isinstance(label, Mapping):
        by, split = str(label.get("by") or by), _text(label.get("split")) or split
        at = _text(label.get("at"))
        label = next((label[name] for name in _RATING_NAMES if label.get(name) is not None), None)
    if label is None or label == "":
        return
    rating, is_rating = _rating(label, place)
    yield Opinion(by, rating, is_rating, split, at)


def _text(value: object) -> str | None:
    return None if value is None or value == "" else str(value)


def _rating(label: object, place: str) -> tuple[float, bool]:
    if isinstance(label, str):
        word = label.strip().lower()
        label = _WORDS[word] if word in _WORDS else _number(word, label)
    if isinstance(label, bool):
        return float(HIGHEST if label else LOWEST), False
    if isinstance(label, int | float) and label in range(LOWEST, HIGHEST + 1):
        return float(label), True
    raise ConfigurationError(
        f"{place}a label is a rating from 1 to 4, true or false, or 'good' or 'bad', not {shortened(label)}"
    )


def _number(word: str, label: str) -> object:
    try:
        return float(word)
    except ValueError:
        return label


def majority(opinions: Collection[Opinion], good: float) -> Goodness:
    """Return whether most people call an answer good; None if as many do as do not, or nobody said anything."""
    goods = sum(opinion.is_good(good) for opinion in opinions)
    bads = len(opinions) - goods
    return None if goods == bads else goods > bads


def lower_median(opinions: Collection[Opinion]) -> float | None:
    """Return the rating in the middle, the lower of two; None without any."""
    ratings = sorted(opinion.rating for opinion in opinions)
    return ratings[(len(ratings) - 1) // 2] if ratings else None


def is_bad(opinions: Collection[Opinion], good: float) -> bool | None:
    """Return whether an answer counts as bad in a certificate, where a tie does; None without any label."""
    return majority(opinions, good) is not True if opinions else None


def loss_of(opinions: Collection[Opinion], good: float, harm: Harm | None) -> float | None:
    """Return the harm of an answer: by its rating in the middle, or 1 for a bad one; None without a label."""
    median = lower_median(opinions)
    if median is None:
        return None
    return float(bool(is_bad(opinions, good))) if harm is None else harm[int(median) - LOWEST]


def is_tuned(split: str | None) -> bool:
    """Return whether labels of a split tuned the judge, however its name is spelled."""
    return (split or "").strip().casefold().replace(" ", "_") in TUNED


def usable(opinions: Sequence[Opinion], split: str | None) -> tuple[Opinion, ...]:
    """Return the labels of a split; without one, all.

    Raises:
        ConfigurationError: If labels that the judge was tuned on are among them.
    """
    if split is not None:
        if is_tuned(split):
            raise ConfigurationError(f"tuned_on: {_TUNED_ON.format(names=split)}")
        refuse_reused([("", opinion) for opinion in opinions], split)
        return tuple(opinion for opinion in opinions if opinion.split == split)
    tuned = sorted({opinion.split for opinion in opinions if opinion.split and is_tuned(opinion.split)})
    if tuned:
        raise ConfigurationError(f"tuned_on: {_TUNED_ON.format(names=', '.join(tuned))}")
    return tuple(opinions)


def refuse_reused(labels: Sequence[tuple[Hashable, Opinion]], split: str | None) -> None:
    """Refuse a person's label of an answer that the judge was tuned on, under another split.

    Args:
        labels: Every label with what identifies its answer.
        split: The split that is asked for.

    Raises:
        ConfigurationError: If one of that split was used for tuning, too.
    """
    tuned = {(answer, opinion.by) for answer, opinion in labels if is_tuned(opinion.split)}
    twice = [one.by for answer, one in labels if one.split == split and (answer, one.by) in tuned]
    if split is not None and twice:
        raise ConfigurationError(
            f"tuned_on: {min(twice)!r} labelled the same answer for tuning and for {split!r}; leave out the "
            f"answers that the judge was tuned on, or label fresh rows"
        )


_TUNED_ON = (
    "labels of the split {names} were used to tune the judge, so they cannot say how good it is; choose others "
    "with split=... (--split), or label fresh rows"
)


def label_digest(key: str, opinion: Opinion) -> str:
    """Return what identifies a label: the answer it is about, the person and the rating."""
    text = "\x1f".join((key, opinion.by, f"{opinion.rating:g}"))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
