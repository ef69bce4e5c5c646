"""Judged rows with labels: what a dataset, a run or a record says of each answer."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from judges.certificate import Subject
from judges.errors import BadSample, ConfigurationError, shortened
from judges.offline.dataset.reading import LABEL_NAMES, read_mappings
from judges.offline.results import Evaluation, Row
from judges.offline.run.evaluate import load_run
from judges.rows.columns import NESTED
from judges.sample import FIELD_NAMES, Sample
from judges.verdict import HIGHEST, LOWEST, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeMark:
    """What one judge says of an answer.

    Args:
        rating: 1 to 4; None is unscored.
        score: 0 to 1.
        passed: Whether it passes by the judge's own mark.
        natively: Whether the judge chose the rating itself; else its own mark must be reached, too.
        cost: Cost of judging in US dollars, where known.
        p_pass: How likely it was that the answer passes, where known.
    """

    rating: int | None = None
    score: float | None = None
    passed: bool | None = None
    natively: bool = True
    cost: float | None = None
    p_pass: float | None = None

    @property
    def scored(self) -> bool:
        """True if the judge came to a verdict."""
        return self.rating is not None or self.score is not None or self.passed is not None

    @property
    def effective(self) -> int | None:
        """The rating that a threshold is compared with; one below the judge's own mark passes none."""
        if self.rating is None:
            return None
        return self.rating if self.natively or self.passed is not False else LOWEST - 1

    @property
    def doubt(self) -> float:
        """How bad the judge takes the answer for, 0 to 1: by its probability, else its score, else its rating."""
        if self.p_pass is not None:
            return 1 - self.p_pass
        if self.score is not None:
            return 1 - self.score
        return _UNSURE if self.rating is None else (HIGHEST - self.rating) / (HIGHEST - LOWEST)

    @property
    def as_rating(self) -> int | None:
        """The rating; 4 and 1 where the judge only passes or refuses, the score as one where it only scores."""
        if self.rating is not None:
            return self.rating
        if self.passed is not None:
            return HIGHEST if self.passed else LOWEST
        return None if self.score is None else LOWEST + round((HIGHEST - LOWEST) * self.score)


_UNSURE = 0.5


def _mark_of(verdict: Verdict) -> JudgeMark:
    """Return what a verdict says."""
    return JudgeMark(
        rating=verdict.rating,
        score=verdict.score,
        passed=verdict.passed,
        natively=verdict.rated_natively,
        cost=verdict.usage.cost,
        p_pass=verdict.p_pass,
    )


def _marks_in(data: Mapping[str, Any], place: str) -> dict[str, JudgeMark]:
    """Return what the judges of a row say, by judge.

    In a record that is the judge of the loop, whatever part of it, or of the loop itself, gave the verdict.

    Args:
        data: `rating`, `score`, `passed` or `unscored` of one judge, or `verdicts` or `ratings` by judge.
        place: Where the row stands, for errors.

    Raises:
        ConfigurationError: If a verdict is out of range.
    """
    several = data.get("verdicts") or data.get("ratings")
    if isinstance(several, Mapping):
        return {str(name): _mark(value, place) for name, value in several.items()}
    verdict_data = data.get("verdict")
    fields = {**verdict_data, **data} if isinstance(verdict_data, Mapping) else data
    mark = _mark(fields, place)
    if not mark.scored and fields.keys().isdisjoint({"attempt", "rating", "score", "unscored"}):
        return {}
    subject = data.get("subject")
    recorded = subject.get("judge") if isinstance(subject, Mapping) else None
    return {str(recorded or data.get("judge") or "judge"): mark}


def _mark(value: object, place: str) -> JudgeMark:
    if isinstance(value, bool):
        return JudgeMark(passed=value, rating=HIGHEST if value else LOWEST)
    if value is None or isinstance(value, int | str):
        return JudgeMark(rating=_rating(value, place))
    if isinstance(value, float):
        return (
            JudgeMark(rating=_rating(value, place))
            if value.is_integer()
            else JudgeMark(score=_score(value, place))
        )
    if not isinstance(value, Mapping):
        raise ConfigurationError(
            f"{place}a verdict has a rating from 1 to 4 or a score from 0 to 1, not {value!r}"
        )
    if value.get("unscored"):
        return JudgeMark()
    passed = value.get("passed")
    usage = value.get("judge_usage") or value.get("usage")
    return JudgeMark(
        rating=_rating(value.get("rating"), place),
        score=_score(value.get("score"), place),
        passed=passed if isinstance(passed, bool) else {"true": True, "false": False}.get(str(passed).lower()),
        natively=value.get("rated_natively") is not False,
        cost=usage.get("cost") if isinstance(usage, Mapping) else None,
        p_pass=_score(value.get("p_pass"), place),
    )


def _rating(value: object, place: str) -> int | None:
    number = _number_in(value, "rating", place)
    if number is None:
        return None
    if number not in range(LOWEST, HIGHEST + 1):
        raise ConfigurationError(
            f"{place}the judge's rating is a whole number from 1 to 4, not {shortened(value)}"
        )
    return int(number)


def _score(value: object, place: str) -> float | None:
    number = _number_in(value, "score", place)
    if number is not None and not 0 <= number <= 1:
        raise ConfigurationError(f"{place}the judge's score is a number from 0 to 1, not {shortened(value)}")
    return number


def _number_in(value: object, name: str, place: str) -> float | None:
    """Return a number, from a text of a CSV file, too; None where there is none.

    Raises:
        ConfigurationError: If it is something else.
    """
    if value is None or value == "":
        return None
    try:
        return float(str(value))
    except ValueError:
        raise ConfigurationError(f"{place}{name} is a number, not {shortened(value)}") from None


GOOD = 3
"""Least human rating that is good."""

_RATING_NAMES = ("rating", "label", "good", "up", "passed")
_WORDS = {
    **dict.fromkeys(("good", "pass", "passed", "yes", "true", "up", "accept", "correct"), True),
    **dict.fromkeys(("bad", "fail", "failed", "no", "false", "down", "reject", "incorrect"), False),
}
_TUNED = frozenset({"dev", "devset", "development"})
_TUNED_WORDS = ("tune", "tuning", "train", "fewshot", "prompt", "optimi")
"""Splits whose labels were used to make the judge what it is: `trainset`, `prompt-tuning`, `Few shot`, ..."""

_Goodness = bool | None
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
        is_named: Whether the label says by whom it is; else `by` is no more than its place.
    """

    by: str
    rating: float
    is_rating: bool
    split: str | None = None
    at: str | None = None
    is_named: bool = True

    def is_good(self, good: float) -> bool:
        """Return whether the answer is good, if ratings are good from `good` on."""
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
        return tuple(opinion for by, label in pairs for opinion in _opinion(label, by, split, place, named=True))
    several = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    placed = [(f"rater {number}", label) for number, label in enumerate(several, 1)]
    return tuple(opinion for by, label in placed for opinion in _opinion(label, by, split, place, named=False))


def merge_opinions(*places: Iterable[Opinion]) -> tuple[Opinion, ...]:
    """Return the labels of an answer from several places: of a person's own the last; of those without a name all.

    Two people who do not say who they are are two people: neither replaces the other. A label without a name that
    stands in two places, a row and a file of labels, is one.
    """
    merged: dict[tuple[str, str | None, bool], Opinion] = {}
    for place in places:
        before = Counter((one.rating, one.split) for one in merged.values() if not one.is_named)
        for opinion in place:
            by = opinion.by
            if not opinion.is_named:
                if before[opinion.rating, opinion.split]:
                    before[opinion.rating, opinion.split] -= 1
                    continue
                taken = {one.by for one in merged.values() if one.split == opinion.split}
                free = (f"rater {number}" for number in range(1, len(taken) + 2))
                by = by if by not in taken else next(name for name in free if name not in taken)
            merged[by, opinion.split, opinion.is_named] = replace(opinion, by=by)
    return tuple(merged.values())


def _opinion(label: object, by: str, split: str | None, place: str, *, named: bool) -> Iterator[Opinion]:
    at = None
    if isinstance(label, Mapping):
        name = str(label.get("by") or "").strip()
        named = named or bool(name)
        by, split = name or by, _text(label.get("split")) or split
        at = _text(label.get("at"))
        label = next((label[name] for name in _RATING_NAMES if label.get(name) is not None), None)
    if label is None or label == "":
        return
    rating, is_rating = _label_rating(label, place)
    yield Opinion(by, rating, is_rating, split, at, named)


def _text(value: object) -> str | None:
    return None if value is None or value == "" else str(value)


def _label_rating(label: object, place: str) -> tuple[float, bool]:
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


def majority(opinions: Collection[Opinion], good: float) -> _Goodness:
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


def is_tuned(split: str | None) -> bool:
    """Return whether labels of a split tuned the judge, however its name is spelled."""
    name = "".join(letter for letter in (split or "").casefold() if letter.isalnum())
    return name in _TUNED or any(word in name for word in _TUNED_WORDS)


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


def label_digests(rows: Iterable[JudgedAnswer], split: str | None) -> set[str]:
    """Return what identifies each label of a split: the answer it is about, the person and the rating."""
    texts = {
        "\x1f".join((row.key, opinion.by, f"{opinion.rating:g}"))
        for row in rows
        for opinion in usable(row.opinions, split)
    }
    return {hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16] for text in texts}


RowSource = str | os.PathLike[str] | Evaluation | Iterable[object]
"""Where judged rows, or labels of them, come from: a file, the folder of a run, an evaluation, or rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedAnswer:
    """One answer, with what a judge and people say of it.

    Args:
        index: Its place among the rows, from 0.
        key: Identifies question and answer.
        question_id: The question.
        marks: By judge.
        opinions: What people say.
        length: Characters of the answer.
        weight: Design weight.
        probability: With which it was drawn to be labelled, where that differs from row to row; else None.
        drawn: How many rows were drawn with it.
        attempt: Its number in a recorded loop, from 1; None where there was none.
        outcome_id: The loop.
        stop_reason: Why the loop ended, at its last attempt.
        metadata: Everything else that the row holds.
        sample: The texts.
    """

    index: int
    key: str
    question_id: str
    marks: Mapping[str, JudgeMark]
    opinions: tuple[Opinion, ...] = ()
    length: int = 0
    weight: float = 1.0
    probability: float | None = None
    drawn: int | None = None
    attempt: int | None = None
    outcome_id: str | None = None
    stop_reason: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, repr=False)
    sample: Sample | None = field(default=None, repr=False)

    @property
    def subject(self) -> Subject:
        """The loop that made it, as far as the record says."""
        data = self.metadata.get("subject")
        if isinstance(data, Mapping):
            return Subject.model_validate(data)
        return Subject(
            judge=str(self.metadata.get("judge") or ""), judge_digest=str(self.metadata.get("judge_digest") or "")
        )


def read_judged(source: RowSource) -> list[JudgedAnswer]:
    """Return judged rows.

    Args:
        source: A file of rows (`.jsonl`, `.csv`), the folder of a run, an `Evaluation`, or samples or mappings.

    Raises:
        ConfigurationError: If there is none, or a row cannot be read.
    """
    return [row for row in _read(source) if row.metadata.get("chosen") is not False]


def _read(source: RowSource) -> list[JudgedAnswer]:
    """Return rows; those of a kind are read one kind after the other, not each through all of the reading."""
    rows = list(_rows_in(source))
    plain = {index: row for index, row in enumerate(rows) if not isinstance(row, Row | JudgedAnswer)}
    read = dict(zip(plain, _of_samples(plain, _samples(plain)), strict=True))
    for index, row in enumerate(rows):
        if isinstance(row, JudgedAnswer):
            read[index] = replace(row, index=index)
        elif isinstance(row, Row):
            read[index] = _of_evaluation(row)
    return [read[index] for index in range(len(rows))]


def _rows_in(source: RowSource) -> Iterable[object]:
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if not path.is_dir():
            return _mappings(path)
        source = load_run(path)
    if isinstance(source, Evaluation):
        return source.kept_rows()
    if not isinstance(source, Iterable):
        raise ConfigurationError(f"rows are a file, the folder of a run, or samples, not {shortened(source)}")
    return source


def _mappings(path: Path) -> list[Mapping[str, Any]]:
    try:
        return list(read_mappings(path))
    except BadSample as error:
        raise ConfigurationError(str(error)) from error


_OWN_LABEL = frozenset({"at", "by", "good", "note", "rating", "split", "up"})
_LABELLED_TEXTS = frozenset({"user_input", "response"})
"""Fields of the answer that a label is about, in a file that `refine label` wrote."""


def read_labels(source: RowSource) -> list[JudgedAnswer]:
    """Return labels as rows: those of `labels` in a row or, in a label's own row, its `rating` or `up`.

    Raises:
        ConfigurationError: If they cannot be read, or all are ratings of which nobody says whose they are.
    """
    rows = _read([_label_row(row) for row in _rows_in(source)])
    rated = any(mark.scored for row in rows for mark in row.marks.values())
    if rated and not any(row.opinions for row in rows):
        raise ConfigurationError(
            "no label says whose it is, and a rating alone may be the judge's; a label has by beside its rating, "
            'or stands under labels: [{"by": ..., "rating": ...}]'
        )
    return rows


def _is_label(row: Mapping[Any, Any]) -> bool:
    """Return whether a row is a label: it says by whom, or up or down, or nothing but how an outcome is rated."""
    if not row.keys().isdisjoint(LABEL_NAMES):
        return False
    return (
        bool(row.get("by"))
        or row.get("up") not in (None, "")
        or row.keys() <= {*_OWN_LABEL, "outcome_id", "attempt"}
    )


def _label_row(row: object) -> object:
    """Return a row with its own label among `labels`."""
    if not isinstance(row, Mapping) or not _is_label(row):
        return row
    opinion = {name: value for name, value in row.items() if name in _OWN_LABEL}
    rest = {name: value for name, value in row.items() if name not in _OWN_LABEL}
    if (rest.keys() & _SAMPLE_NAMES) != _LABELLED_TEXTS or not all(isinstance(v, _SCALAR) for v in rest.values()):
        return {**rest, "labels": [opinion]}
    others = {name: value for name, value in rest.items() if name not in _LABELLED_TEXTS}
    return {**{name: rest[name] for name in _LABELLED_TEXTS}, "metadata": {**others, "labels": [opinion]}}


_SCALAR = (str, int, float, bool, type(None))
_SAMPLE_NAMES = frozenset(FIELD_NAMES) | NESTED
_TEXT_NAMES = frozenset(FIELD_NAMES) - {"metadata"}


def _samples(rows: Mapping[int, object]) -> list[Sample]:
    """Return rows as samples; one without texts has its outcome, or its question, in place of them."""
    samples = []
    for index, row in rows.items():
        if isinstance(row, Mapping) and _TEXT_NAMES.isdisjoint(row):
            names = ("outcome_id", "question_id")
            texts = [str(row[name]) for name in names if row.get(name)]
            row = {**row, "user_input": texts[0] if texts else str(index)}  # noqa: PLW2901 - with what it lacks
        try:
            samples.append(Sample.read(row))
        except BadSample as error:
            raise ConfigurationError(f"row {index}: {error}") from error
    return samples


def _of_evaluation(row: Row) -> JudgedAnswer:
    sample = row.sample
    if sample is None:
        return JudgedAnswer(index=row.index, key=f"#{row.index}", question_id=f"#{row.index}", marks={})
    marks = {name: _mark_of(verdict) for name, verdict in row.verdicts.items()}
    return replace(_of_sample(row.index, sample, sample.answer), marks=marks)


def _of_samples(indices: Iterable[int], samples: Sequence[Sample]) -> Iterator[JudgedAnswer]:
    answers = [sample.answer for sample in samples]
    return map(_of_sample, indices, samples, answers)


def _of_sample(index: int, sample: Sample, answer: str | None) -> JudgedAnswer:
    data = sample.metadata
    question = _question(sample)
    place = f"row {index}: "
    attempt, drawn = (_number_in(data.get(name), name, place) for name in ("attempt", "drawn"))
    split = data.get("split")
    labels = next((data[name] for name in LABEL_NAMES if data.get(name) is not None), None)
    return JudgedAnswer(
        index=index,
        key=_key_of(question, f"#{int(attempt or index)}" if answer is None else answer),
        question_id=str(data.get("question_id") or question),
        marks=_marks_in(data, place),
        opinions=opinions_in(_parsed(labels), split=None if split is None else str(split), place=place),
        length=len(answer or ""),
        weight=_number_in(data.get("weight"), "weight", place) or 1.0,
        probability=_probability_in(data, place),
        drawn=None if drawn is None else int(drawn),
        attempt=None if attempt is None else int(attempt),
        outcome_id=_text(data.get("outcome_id")),
        stop_reason=None if data.get("stop_reason") is None else str(data["stop_reason"]),
        metadata=data,
        sample=sample,
    )


def _probability_in(data: Mapping[str, Any], place: str) -> float | None:
    probability = _number_in(data.get("probability"), "probability", place)
    if probability is not None and not 0 < probability <= 1:
        raise ConfigurationError(f"{place}probability is above 0 to 1, not {shortened(probability)}")
    return probability


def _parsed(labels: object) -> object:
    """Return the data in a cell of a CSV file that holds JSON."""
    if isinstance(labels, str) and labels[:1] in {"[", "{"}:
        try:
            return json.loads(labels)
        except ValueError:
            return labels
    return labels


def _question(sample: Sample) -> str:
    if isinstance(sample.user_input, str):
        return sample.user_input
    return json.dumps([[message.role, message.content] for message in sample.conversation], ensure_ascii=False)


def _key_of(question: str, answer: str) -> str:
    """Return what identifies an answer to a question."""
    text = f"{question}\x1f{answer}"
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:24]


def judge_among(rows: Sequence[JudgedAnswer], judge: str | None) -> str:
    """Return the judge to look at.

    Raises:
        ConfigurationError: If there is none, or there are several and none is chosen, or not this one.
    """
    names = sorted({name for row in rows for name in row.marks})
    if judge is not None and judge in names:
        return judge
    if judge is not None:
        raise ConfigurationError(
            f"no row has a verdict of {judge!r}; there are those of {', '.join(names) or 'none'}"
        )
    if not names:
        raise ConfigurationError(
            "no row has a verdict: a row holds rating (1 to 4), score (0 to 1) or passed; judge the rows first, "
            "`refine evaluate ROWS --judge NAME --out RUN`, and give the folder RUN"
        )
    if len(names) > 1:
        raise ConfigurationError(
            f"the rows have verdicts of {', '.join(names)}; choose one with judge=... (--judge)"
        )
    return names[0]


def labels_file(source: str | os.PathLike[str]) -> Path:
    """Return where `refine label` keeps the labels of a file, or of the folder of a run."""
    path = Path(source)
    return path / "labels.jsonl" if path.is_dir() else path.with_name(f"{path.stem}.labels.jsonl")


def labels_beside(source: object) -> Path | None:
    """Return the file of labels beside a file or a run's folder; None without one, or for anything else."""
    if not isinstance(source, str | os.PathLike):
        return None
    with suppress(OSError, ValueError):
        file = labels_file(source)
        return file if file.is_file() and file != Path(source) else None
    return None


def labels_for(source: object, labels: RowSource | None) -> tuple[RowSource | None, list[str]]:
    """Return the labels of judged rows, and what to say of where they were.

    Args:
        source: The rows.
        labels: Labels that were named. Where they are a file in which nobody has filled in any yet, such as the
            rows chosen to be labelled, those beside it are taken.

    Returns:
        The labels that were named, or those beside the rows; None where there are neither.
    """
    if labels is not None and not _is_blank(labels):
        return labels, []
    named = source if labels is None else labels
    beside = labels_beside(named)
    if beside is None or not isinstance(named, str | os.PathLike):
        return labels, [] if labels is None else [f"labels: nobody has filled in any in {labels}"]
    return beside, [f"labels: {beside.name}, which lies beside {Path(named).name or named}"]


@contextmanager
def naming_labels(notes: Sequence[str]) -> Iterator[None]:
    """Add to an error which labels were taken without being named."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError("; ".join((str(error), *notes))) from None


def _is_blank(labels: RowSource) -> bool:
    """Check whether labels are a file of rows none of which holds a label."""
    if not isinstance(labels, str | os.PathLike) or not Path(labels).is_file():
        return False
    with suppress(ConfigurationError):
        return not any(row.opinions for label in _mappings(Path(labels)) for row in read_labels([label]))
    return False
