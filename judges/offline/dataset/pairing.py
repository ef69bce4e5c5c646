"""Pairing the answers of two runs over the same questions, so that they can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest

from judges.errors import BadSample, ConfigurationError
from judges.offline.results import Evaluation
from judges.offline.run.evaluate import Given
from judges.sample import Sample


def paired(a: Evaluation | Iterable[Given], b: Evaluation | Iterable[Given]) -> Iterator[Given]:
    """Pair the answers of two runs over the same questions, row by row, for `compare`.

    A row is the one of `a`, with the answer of `b` as its rival. Contexts and steps stay only where both runs had
    the same: shown those of one, a model would favour its answer.

    Args:
        a: Samples of the one system, or an evaluation of them that kept its rows.
        b: Those of the other, in the same order.

    Yields:
        A sample for each pair; a `BadSample` for one that cannot be read, or where the questions differ.

    Raises:
        ConfigurationError: With the first pair, if an evaluation did not keep its rows.
    """
    for number, (one, other) in enumerate(zip_longest(_answers(a), _answers(b)), 1):
        if one is None or other is None:
            yield BadSample(f"row {number} is in one run only")
            continue
        try:
            yield _opposed(Sample.read(_known(one)), Sample.read(_known(other)), number)
        except BadSample as error:
            yield error


def _answers(run: Evaluation | Iterable[Given]) -> Iterable[Given]:
    if not isinstance(run, Evaluation):
        return run
    if not run.rows and any(one.n for one in run.summary.values()):
        raise ConfigurationError("the evaluation did not keep its rows; evaluate with keep_rows=True")
    return (BadSample(row.error) if row.sample is None else row.sample for row in run.rows)


def _known(given: Given) -> Sample | Mapping[str, object]:
    if isinstance(given, BadSample):
        raise given
    return given


def _opposed(one: Sample, other: Sample, number: int) -> Sample:
    if one.conversation != other.conversation:
        raise BadSample(f"the two runs do not ask the same in row {number}")
    update: dict[str, object] = {
        "response": one.answer,
        "metadata": {**one.metadata, "rival": other.answer or ""},
    }
    if one.retrieved_contexts != other.retrieved_contexts:
        update["retrieved_contexts"] = None
    if one.steps != other.steps:
        update |= {"user_input": one.conversation, "trajectory": ()}
    return one.model_copy(update=update)
