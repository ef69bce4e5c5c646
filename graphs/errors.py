"""Errors of the refine loop.

RefineError
├── InputError            nothing to answer, or unreadable input
├── ConcurrentTurn        another turn ran on the same thread, and this one is not part of the conversation
│   └── ReviewPending     the turn before waits for a human's decision
├── DraftError            a generator returned nothing, or a value that is not an answer
└── Unanswered            the loop ended without a releasable answer; `outcome` holds the record
    ├── NotAccepted       no attempt passed, and the policy is to raise
    │   └── Rejected      a reviewer let there be no answer
    ├── JudgeFailed       the judge gave no verdict, and the policy is to raise
    └── GeneratorFailed   the generator raised before there was anything to return

A misconfigured policy, judge or model raises `judges.ConfigurationError`, and what a function of the policy raises
comes through as it is. Where either ends a turn after something was attempted, the error has the record, too, as
its `outcome`; see `outcome_of`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from judges.errors import rebuild

if TYPE_CHECKING:
    from graphs.outcome import Outcome


class RefineError(Exception):
    """Base class of every error of this package.

    Attributes:
        outcome: The record of the turn that the error ended; None where nothing was attempted.
    """

    outcome: Outcome | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what a copy or a pickle is made of: type, message and attributes."""
        return rebuild, (type(self), self.args), vars(self)


class InputError(RefineError, ValueError):
    """There is nothing to answer, or the input cannot be read; the message says what to pass."""


class DraftError(RefineError, TypeError):
    """A generator returned a value that is not an answer; the message says what to return."""


class ConcurrentTurn(RefineError):  # noqa: N818 - names what got in the way
    """Another turn runs on the same thread of a checkpointer; this one is not part of the conversation.

    It was refused before anything was spent, or, where another process had continued the thread meanwhile, at the
    end of one of its steps. It can be given again.
    """


class ReviewPending(ConcurrentTurn):
    """The turn before this one waits for a human's decision; nothing was spent, and nothing was changed."""


class Unanswered(RefineError):  # noqa: N818 - the adjective describes the question
    """The loop ended without an answer that may be released.

    Args:
        message: Description of the failure, without any judged text.
        outcome: The complete record.
    """

    outcome: Outcome

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome


class NotAccepted(Unanswered):
    """No attempt passed, and `on_exhausted` is `"raise"`; or, as `Rejected`, a reviewer rejected the answer."""


class Rejected(NotAccepted):
    """A reviewer rejected the answer; the decision is stored, and the turn is done."""


class QuestionRefused(Unanswered):
    """The input judge refused the question, and there is no fallback text."""


class JudgeFailed(Unanswered):
    """The judge gave no verdict, and `on_judge_error` is `"raise"`."""


class GeneratorFailed(Unanswered):
    """The generator raised before there was anything to return; `__cause__` is its error."""
