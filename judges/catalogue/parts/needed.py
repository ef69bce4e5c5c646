"""Fields that a judge needs: read from the sample, or reported as missing."""

from __future__ import annotations

from pydantic import JsonValue

from judges.catalogue.parts.evidence import transcript
from judges.errors import CannotJudge
from judges.sample import Sample


def answer_in(sample: Sample) -> str:
    """Return the answer that is judged.

    Raises:
        CannotJudge: `no_response`, if there is none, or it is blank.
    """
    answer = sample.answer or ""
    if not answer.strip():
        raise CannotJudge("no_response", "there is no answer to judge")
    return answer


def reference_in(sample: Sample) -> str:
    """Return the expected answer.

    Raises:
        CannotJudge: `no_reference`, if there is none, or it is blank.
    """
    if not (sample.reference or "").strip():
        raise CannotJudge("no_reference", "there is no reference to compare with")
    return sample.reference or ""


def contexts_in(sample: Sample) -> tuple[str, ...]:
    """Return the retrieved contexts in rank order, blank ones included.

    Raises:
        CannotJudge: `no_contexts`, if there are none, or all are blank.
    """
    contexts = sample.retrieved_contexts or ()
    if not any(context.strip() for context in contexts):
        raise CannotJudge("no_contexts", "there are no retrieved contexts to look at")
    return contexts


def non_blank_contexts_in(sample: Sample) -> list[JsonValue]:
    """Return the retrieved contexts in rank order, without blank ones.

    Raises:
        CannotJudge: `no_contexts`, if there are none, or all are blank.
    """
    return [context for context in contexts_in(sample) if context.strip()]


def question_of(sample: Sample) -> dict[str, JsonValue]:
    """Return the question under the key `question`; an empty dictionary if there is none."""
    return {"question": question_in(sample)} if sample.question.strip() else {}


def question_in(sample: Sample) -> JsonValue:
    """Return the question as shown to a model: a text, or messages if there are several, or parts it cannot show.

    Raises:
        CannotJudge: `no_question`, if there is none.
    """
    if not sample.question.strip():
        raise CannotJudge("no_question", "there is no question")
    messages = sample.conversation
    if len(messages) == 1 and not messages[0].parts_not_shown:
        return sample.question
    return transcript(messages)
