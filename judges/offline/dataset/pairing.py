"""Pairing rows of two runs over the same questions, so that they can be compared."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import zip_longest

from judges.errors import BadSample, ConfigurationError
from judges.offline.dataset.reading import RowInput
from judges.offline.results import Evaluation, Row
from judges.sample import Sample


def paired(a: Evaluation | Iterable[RowInput], b: Evaluation | Iterable[RowInput]) -> Iterator[RowInput]:
    """Pair the answers of two runs over the same questions, row by row, for `compare`.

    Each row is that of `a`, with the answer of `b` as its rival. Contexts and steps are kept only where both runs
    have the same: a model that sees those of one run would favour its answer.

    Args:
        a: Samples of the one system, or an evaluation of them that kept its rows.
        b: Those of the other, in the same order; of two evaluations the rows are paired that ask the same.

    Yields:
        A sample for each pair; a `BadSample` for one that cannot be read, or where the questions differ.

    Raises:
        ConfigurationError: With the first pair, if an evaluation did not keep its rows.
    """
    for index, (ours, theirs) in enumerate(_pairs(a, b)):
        if ours is None or theirs is None:
            yield BadSample(f"the row at index {index} is in one run only")
            continue
        try:
            yield _with_rival(Sample.read(_readable(ours)), Sample.read(_readable(theirs)), index)
        except BadSample as error:
            yield error


def _pairs(
    a: Evaluation | Iterable[RowInput], b: Evaluation | Iterable[RowInput]
) -> Iterable[tuple[RowInput | None, RowInput | None]]:
    if not isinstance(a, Evaluation) or not isinstance(b, Evaluation):
        return zip_longest(_answers(a), _answers(b))
    _answers(a), _answers(b)  # checked
    pairs = pair_rows(a.rows, b.rows)
    partners = {first.index: second for first, second in pairs}
    taken = {second.index for _, second in pairs}
    rows = [(_answer(row), _answer(partners[row.index]) if row.index in partners else None) for row in a.rows]
    return [*rows, *((None, _answer(row)) for row in b.rows if row.index not in taken)]


def _answers(run: Evaluation | Iterable[RowInput]) -> Iterable[RowInput]:
    if not isinstance(run, Evaluation):
        return run
    if not run.rows and any(figures.n for figures in run.summary.values()):
        raise ConfigurationError("the evaluation did not keep its rows; evaluate with keep_rows=True")
    return map(_answer, run.rows)


def _answer(row: Row) -> RowInput:
    return BadSample(row.error) if row.sample is None else row.sample


def _readable(row: RowInput) -> Sample | Mapping[str, object]:
    if isinstance(row, BadSample):
        raise row
    return row


def _with_rival(sample: Sample, other: Sample, index: int) -> Sample:
    if sample.conversation != other.conversation:
        raise BadSample(f"the two runs do not ask the same at index {index}")
    update: dict[str, object] = {
        "response": sample.answer,
        "metadata": {**sample.metadata, "rival": other.answer or ""},
    }
    if sample.retrieved_contexts != other.retrieved_contexts:
        update["retrieved_contexts"] = None
    if sample.steps != other.steps:
        update |= {"user_input": sample.conversation, "trajectory": ()}
    return sample.model_copy(update=update)


def pair_rows(before: Iterable[Row], after: Iterable[Row]) -> list[tuple[Row, Row]]:
    """Return the rows of two runs that ask the same, in the order of the first.

    A row is paired with the one at the same place if that asks the same, else with the next one that does and has
    no partner yet, so that runs over other parts or another order of a dataset are compared, too. Rows without a
    question have their place alone.

    Args:
        before: Rows of the one run.
        after: Rows of the other.
    """
    first, second = ({row.index: row for row in rows} for rows in (before, after))
    in_place = {i for i, row in first.items() if i in second and question_of(row) == question_of(second[i])}
    moved: defaultdict[Hashable, deque[Row]] = defaultdict(deque)
    for i, row in second.items():
        if i not in in_place and question_of(row):
            moved[question_of(row)].append(row)
    pairs = []
    for i, row in first.items():
        if i in in_place:
            pairs.append((row, second[i]))
        elif moved.get(question_of(row)):
            pairs.append((row, moved[question_of(row)].popleft()))
    return pairs


def question_of(row: Row) -> tuple[str, ...]:
    """Return what the user said in a row."""
    if row.sample is None:
        return ()
    return tuple(message.content for message in row.sample.conversation if message.role == "user")
