"""The refine loop as a LangGraph graph, and the policy that controls it."""

from __future__ import annotations

import judges
from graphs.attempt import Attempt
from graphs.augment import all_drafts, feedback_only, last_draft, last_drafts
from graphs.certificate import CertificateWarning
from graphs.drivers import run
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
from graphs.generators import RequestGenerator
from graphs.graph import LoopGraph, SelfJudgingWarning, build_loop, self_refine
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
    "LoopGraph",
    "NotAccepted",
    "Outcome",
    "Override",
    "Overrides",
    "Policy",
    "PolicySettings",
    "RefineError",
    "Refinement",
    "Rejected",
    "RequestGenerator",
    "ReviewPending",
    "SelfJudgingWarning",
    "Unanswered",
    "all_drafts",
    "build_loop",
    "feedback_only",
    "last_draft",
    "last_drafts",
    "run",
    "self_refine",
]


def __getattr__(name: str) -> object:
    hint = "" if name.startswith("_") else of_package(__name__, name, {"judges": judges.__all__})
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint and '; '}{hint}")
