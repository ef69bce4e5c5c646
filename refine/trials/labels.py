"""What people say of the answers of a trial, where no judge was the truth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from judges import Sample
from judges.offline.run.journal import replacing
from judges.offline.run.source import row_json
from judges.offline.trust.benefit_report import good_by_people
from judges.offline.trust.rows import Opinion, labels_beside, read_judged, read_labels
from refine.trials.results import Trial, TrialAttempt, TrialRow

ANSWERS = "answers.jsonl"
"""Every different answer of a trial once, to be labelled: `refine label TRIAL/answers.jsonl`."""

_Marks = Mapping[tuple[str, str], bool | None]
"""By question and answer, whether people call it good."""


def write_answers(folder: Path, answers: Iterable[tuple[int, Sample]]) -> None:
    """Write every different answer once, with the index of its question."""
    lines = dict.fromkeys(
        row_json(sample.model_copy(update={"metadata": {**sample.metadata, "question_id": str(question)}}))
        for question, sample in answers
    )
    with replacing(folder / ANSWERS) as file:
        file.writelines(line + b"\n" for line in lines)


def read_trial(folder: Path, labels: Path | None = None) -> Trial:
    """Read a finished trial, with what people say of its answers where no judge was the truth.

    Args:
        folder: Its folder.
        labels: The file of labels; None takes what `refine label` left in the folder.

    Raises:
        ConfigurationError: If it has not finished, or a file cannot be read.
    """
    found, answers = Trial.read(folder), folder / ANSWERS
    file = labels or labels_beside(answers)
    if found.has_truth or file is None or not answers.is_file():
        return found
    opinions: dict[str, tuple[Opinion, ...]] = {}
    for row in read_labels(file):
        opinions[row.key] = (*opinions.get(row.key, ()), *row.opinions)
    marks = {
        (row.question_id, (row.sample and row.sample.answer) or ""): good_by_people(opinions.get(row.key, ()))
        for row in read_judged(answers)
    }
    return found.with_rows(_labelled(row, marks) for row in found.rows)


def _labelled(row: TrialRow, marks: _Marks) -> TrialRow:
    question = str(row.question)

    def marked(attempt: TrialAttempt) -> TrialAttempt:
        return attempt.model_copy(update={"good": marks.get((question, attempt.text))})

    answer_good = None if row.answer is None else marks.get((question, row.answer))
    attempts = tuple(map(marked, row.attempts))
    return row.model_copy(update={"attempts": attempts, "answer_good": answer_good})
