"""The settings of a policy as a type, for those who take them as keywords: checked and completed by editors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage
from typing_extensions import TypedDict  # pydantic cannot read the standard one on Python 3.11

from graphs.policy import Augmenter, AugmenterName, OnExhausted, OnJudgeError, Override
from judges.certificate import IssuedCertificate
from judges.runtime.prices import Price
from judges.verdict import Rating


class OverrideSettings(TypedDict, total=False):
    """Settings of `graphs.Override`, which says what they mean."""

    temperature: float | None
    model: Any


class _Rates(TypedDict):
    input: float
    output: float


class PriceSettings(_Rates, total=False):
    """Settings of `judges.Price`, which says what they mean."""

    cached_input: float | None


AnyOverride = Override | OverrideSettings | Mapping[str, Any]
"""An override in any form; the last one is for a variable that was not declared."""


class PolicySettings(TypedDict, total=False):
    """Settings of `graphs.Policy`, which says what they mean; all may be left out."""

    success_rating: Rating
    max_attempts: int
    on_exhausted: OnExhausted
    max_revisions: int
    fallback: str | None
    on_judge_error: OnJudgeError
    max_calls: int | None
    max_tokens: int | None
    max_cost: float | None
    max_retries: int | None
    deadline_s: float | None
    max_conversation_chars: int
    prices: Mapping[str, Price | PriceSettings | Mapping[str, float]]
    patience: int | None
    augment: AugmenterName | Augmenter
    overrides: Mapping[int, AnyOverride | Sequence[AnyOverride]]
    candidates: int
    first_accepted: bool
    skip: Callable[[AIMessage], bool] | None
    judge_refusals: bool
    sample_rate: float
    shadow: bool
    show_drafts: bool
    log_texts: bool
    keep_reasoning: bool
    certificate: IssuedCertificate | str | os.PathLike[str] | None
