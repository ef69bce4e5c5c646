"""What a judge cannot do without: read from the sample, or said to be missing."""

from __future__ import annotations

from pydantic import JsonValue

from judges.catalogue.parts.shown import transcript
from judges.errors import CannotJudge
from judges.sample import Sample


def answer_in(sample: Sample) -> str:
    """Give the answer that is judged.

    Raises:
        CannotJudge: `no_response`, if there is none, or it is blank.
    """
    answer = sample.answer or ""
    if not answer.strip():
        raise CannotJudge("no_response", "there is no answer to judge")
    return answer


def reference_in(sample: Sample) -> str:
    """Give the expected answer.

    Raises:
        CannotJudge: `no_reference`, if there is none, or it is blank.
    """
    if not (sample.reference or "").strip():
        raise CannotJudge("no_reference", "there is no reference to compare with")
    return sample.reference or ""


def contexts_in(sample: Sample) -> tuple[str, ...]:
    """Give the retrieved contexts in rank order, blank ones included.

    Raises:
        CannotJudge: `no_contexts`, if there are none, or all are blank.
    """
    contexts = sample.retrieved_contexts or ()
    if not any(one.strip() for one in contexts):
        raise CannotJudge("no_contexts", "there are no retrieved contexts to look at")
    return contexts


def filled_contexts_in(sample: Sample) -> list[JsonValue]:
    """Give the retrieved contexts in rank order, blank ones left out.

    Raises:
        CannotJudge: `no_contexts`, if there are none, or all are blank.
    """
    return [one for one in contexts_in(sample) if one.strip()]


def question_of(sample: Sample) -> dict[str, JsonValue]:
    """Give what was asked under its name, `question`; nothing where nothing was."""
    return {"question": question_in(sample)} if sample.question.strip() else {}


def question_in(sample: Sample) -> JsonValue:
    """Give what was asked as a model is shown it: a text, or the messages of a conversation of several turns.

    Raises:
        CannotJudge: `no_question`, if nothing was asked.
    """
    if not sample.question.strip():
        raise CannotJudge("no_question", "there is no question")
    if len(sample.conversation) == 1:
        return sample.question
    return transcript(sample.conversation)
