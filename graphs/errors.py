"""What can go wrong while refining.

RefineError
├── InputError            nothing to answer, or input that cannot be read
├── DraftError            a generator returned nothing, or something that is no answer
└── Unanswered            the loop ended without an answer that may be released; `outcome` holds the record
    ├── NotAccepted       no attempt passed, and the policy says to raise
    ├── JudgeFailed       the judge gave no verdict, and the policy says to raise
    └── GeneratorFailed   the generator raised before there was anything to return

A policy, judge or model that is set up wrongly raises `judges.ConfigurationError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphs.outcome import Outcome


class RefineError(Exception):
    """Base of every error of this package."""


class InputError(RefineError, ValueError):
    """There is nothing to answer, or the input cannot be read; the message says what to give."""


class DraftError(RefineError, TypeError):
    """A generator returned something that is no answer; the message says what to return."""


class Unanswered(RefineError):  # noqa: N818 - an adjective that says what the question is
    """The loop ended without an answer that may be released.

    Args:
        message: What happened, without any judged text.
        outcome: The whole record.
    """

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome


class NotAccepted(Unanswered):
    """No attempt passed, and `on_exhausted` is `"raise"`, or a reviewer refused."""


class JudgeFailed(Unanswered):
    """The judge gave no verdict, and `on_judge_error` is `"raise"`."""


class GeneratorFailed(Unanswered):
    """The generator raised before there was anything to return; `__cause__` is its error."""
