"""The refine loop as a LangGraph graph, and the policy that controls it."""

from __future__ import annotations

import judges
from graphs.attempt import Attempt
from graphs.augment import all_drafts, feedback_only, last_draft, last_drafts
from graphs.certificate import CertificateWarning
from graphs.errors import (
    ConcurrentTurn,
    DraftError,
    GeneratorFailed,
    InputError,
    JudgeFailed,
    NotAccepted,
    RefineError,
    Rejected,
    ReviewPending,
    Unanswered,
)
from graphs.graph import SelfJudgingWarning, self_refine
from graphs.outcome import Outcome
from graphs.overrides import Bounds, Overrides
from graphs.policy import Augmenter, Override, Policy, PolicySettings
from graphs.refinement import Refinement
from judges.first_guesses import of_package

__all__ = [
    "Attempt",
    "Augmenter",
    "Bounds",
    "CertificateWarning",
    "ConcurrentTurn",
    "DraftError",
    "GeneratorFailed",
    "InputError",
    "JudgeFailed",
    "NotAccepted",
    "Outcome",
    "Override",
    "Overrides",
    "Policy",
    "PolicySettings",
    "RefineError",
    "Refinement",
    "Rejected",
    "ReviewPending",
    "SelfJudgingWarning",
    "Unanswered",
    "all_drafts",
    "feedback_only",
    "last_draft",
    "last_drafts",
    "self_refine",
]


def __getattr__(name: str) -> object:
    hint = "" if name.startswith("_") else of_package(__name__, name, {"judges": judges.__all__})
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint and '; '}{hint}")
