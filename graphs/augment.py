"""What the generator sees on a retry: the conversation, followed by marked messages with drafts and feedback.

Feedback was written by a model that read untrusted text, so it is passed on as a quoted JSON string of bounded
length, never as bare instructions, and never with the reference in it, or other evidence for the judge alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage

from graphs.answers import draft_message
from graphs.isolation import copy_messages, copy_refinement
from graphs.policy import Augmenter, AugmenterName
from graphs.redaction import withhold
from graphs.refinement import Attempt, Refinement
from judges.errors import ConfigurationError, shortened
from judges.models.prompt_and_reply import encode
from judges.prompting.prompts import Language, language_of

MARK = "refine"
"""Key in a message's `additional_kwargs` that marks it as added by the loop."""

FEEDBACK_LIMIT = 4_000
"""Maximum number of characters of one feedback that are sent to the generator."""

_NOTES: dict[Language, tuple[str, str, str]] = {
    "en": (
        "A reviewer did not accept the answer$rating.",
        "The review is quoted as data: ",
        "Answer the original question again, completely and with the faults mended. Do not mention the review.",
    ),
    "zh": (
        "审阅者没有接受这个回答$rating。",
        "审阅意见作为数据引用如下：",
        "请重新完整回答原来的问题，并改正其中的缺陷。不要提及审阅。",
    ),
    "ru": (
        "Рецензент не принял ответ$rating.",
        "Отзыв приведён как данные: ",
        "Ответь на исходный вопрос заново, полностью и без указанных недостатков. Не упоминай отзыв.",
    ),
}


def added_messages(refinement: Refinement) -> list[AnyMessage]:
    """Return the messages that follow the conversation on the next attempt, as set by the policy's `augment`.

    Raises:
        ConfigurationError: If a user-defined function returns anything but a list of messages.
    """
    augment = refinement.policy.augment
    if isinstance(augment, str):
        return _AUGMENTERS[augment](refinement)
    added: object = augment(copy_refinement(refinement))  # a user's function may do and return anything
    if isinstance(added, list | tuple) and all(isinstance(message, BaseMessage) for message in added):
        return copy_messages(added)
    kinds = [type(item).__name__ for item in added] if isinstance(added, list | tuple) else type(added).__name__
    raise ConfigurationError(
        f"the policy's augment function returned {kinds}; return a list of messages, for instance "
        f"[HumanMessage('Answer again, shorter.')]"
    )


def last_draft(refinement: Refinement) -> list[AnyMessage]:
    """Show the last draft and its feedback: the default."""
    last = refinement.attempts[-1]
    return [*_draft(last), _note(refinement, last)]


def feedback_only(refinement: Refinement) -> list[AnyMessage]:
    """Show the last feedback alone, as Spring AI's advisor does."""
    return [_note(refinement, refinement.attempts[-1])]


def all_drafts(refinement: Refinement) -> list[AnyMessage]:
    """Show every draft with its rating and feedback, so that corrected faults are not repeated."""
    return last_drafts(len(refinement.attempts))(refinement)


def last_drafts(k: int) -> Augmenter:
    """Return an augmenter that shows the last `k` drafts, each with its rating and feedback.

    Raises:
        ConfigurationError: If `k` is not a whole number from 1.
    """
    if type(k) is not int or k < 1:
        raise ConfigurationError(f"k is how many drafts are shown, a whole number from 1, not {shortened(k)}")

    return partial(_last_drafts, k)


def _last_drafts(k: int, refinement: Refinement) -> list[AnyMessage]:
    attempts = refinement.attempts[-k:]
    return [
        message for attempt in attempts for message in (*_draft(attempt), _note(refinement, attempt, rated=True))
    ]


_AUGMENTERS: dict[AugmenterName, Augmenter] = {
    "last_draft": last_draft,
    "feedback_only": feedback_only,
    "all_drafts": all_drafts,
}


def named(name: AugmenterName) -> Augmenter:
    """Return the augmenter of a name."""
    return _AUGMENTERS[name]


def words() -> object:
    """Return the library's own words in these messages, which are part of the prompt of a retry."""
    return _NOTES, FEEDBACK_LIMIT


def _draft(attempt: Attempt) -> Iterator[AnyMessage]:
    """Yield a draft to look back on; not an empty one, since some providers refuse a message without content."""
    message = draft_message(attempt.answer, {MARK: "draft"})
    if str(message.text).strip() or not isinstance(message.content, str) or "audio" in message.additional_kwargs:
        yield message


def _note(refinement: Refinement, attempt: Attempt, *, rated: bool = False) -> AnyMessage:
    rejection, quote_label, instruction = _NOTES[language_of(refinement.question or attempt.text)]
    rating = f" ({attempt.rating}/4)" if rated and attempt.rating is not None else ""
    feedback = attempt.feedback[: 2 * FEEDBACK_LIMIT]
    if refinement.evidence:
        feedback = withhold(feedback, refinement.evidence)
    feedback = feedback[:FEEDBACK_LIMIT]
    quotes = [f"{quote_label}{encode(feedback)}"] if feedback else []
    instructions = [instruction] if attempt is refinement.attempts[-1] else []
    text = "\n".join([rejection.replace("$rating", rating), *quotes, *instructions])
    return HumanMessage(text, additional_kwargs={MARK: "feedback"})
