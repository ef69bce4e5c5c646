"""The refine loop as a LangGraph graph, and the policy that controls it."""

from __future__ import annotations

from graphs.answers import Attempt, Draft, reply_without_reasoning
from graphs.augment import all_drafts, auto, fresh, last_draft, last_drafts, restated, verify_first
from graphs.certified_loop import CertificateWarning, GeneratorIdentity, check_certificate
from graphs.generators import AsyncGenerator, DraftRequest, Generator, PerRequest, RequestGenerator
from graphs.graph import LoopGraph, SelfJudgingWarning, build_loop, self_refine
from graphs.langgraph_private import SUMMARY
from graphs.loop import Loop, arun, run
from graphs.outcome import (
    ConcurrentTurn,
    DraftError,
    GeneratorFailed,
    InputError,
    JudgeFailed,
    NotAccepted,
    Outcome,
    QuestionRefused,
    RefineError,
    Rejected,
    ReviewPending,
    Unanswered,
    outcome_of,
)
from graphs.overrides import Bounds, Overrides
from graphs.policy import Augmenter, Override, Policy, PolicySettings
from graphs.redaction import withhold
from graphs.refinement import Refinement
from judges.first_guesses import names_of

__all__ = [
    "SUMMARY",
    "AsyncGenerator",
    "Attempt",
    "Augmenter",
    "Bounds",
    "CertificateWarning",
    "ConcurrentTurn",
    "Draft",
    "DraftError",
    "DraftRequest",
    "Generator",
    "GeneratorFailed",
    "GeneratorIdentity",
    "InputError",
    "JudgeFailed",
    "Loop",
    "LoopGraph",
    "NotAccepted",
    "Outcome",
    "Override",
    "Overrides",
    "PerRequest",
    "Policy",
    "PolicySettings",
    "QuestionRefused",
    "RefineError",
    "Refinement",
    "Rejected",
    "RequestGenerator",
    "ReviewPending",
    "SelfJudgingWarning",
    "Unanswered",
    "all_drafts",
    "arun",
    "auto",
    "build_loop",
    "check_certificate",
    "fresh",
    "last_draft",
    "last_drafts",
    "outcome_of",
    "reply_without_reasoning",
    "restated",
    "run",
    "self_refine",
    "verify_first",
    "withhold",
]


__getattr__ = names_of(__name__, __all__)
