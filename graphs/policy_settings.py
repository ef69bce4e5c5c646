"""The settings of a policy as a type, for those who take them as keywords: checked and completed by editors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Unpack

from langchain_core.messages import AIMessage, AnyMessage
from pydantic import Discriminator, Field, Tag
from typing_extensions import TypedDict  # pydantic cannot read the standard one on Python 3.11

from graphs.frozen_settings import ALIKE, EACH, FrozenSettings
from judges.certificate import IssuedCertificate
from judges.runtime.prices import Price
from judges.verdict import Rating

Augmenter = Callable[[Any], list[AnyMessage]]
"""Returns, for the `graphs.Refinement` so far, the messages that follow the conversation on the next attempt."""

AugmenterName = Literal["last_draft", "feedback_only", "all_drafts"]
OnExhausted = Literal["best", "last", "raise", "fallback", "interrupt"]
OnJudgeError = Literal["accept", "reject", "raise"]


class OverrideSettings(TypedDict, total=False):
    """Settings of `graphs.Override`, which says what they mean."""

    temperature: float | None
    model: Any


class Override(FrozenSettings):
    """Settings that change from an attempt number on.

    Args:
        temperature: Sampling temperature for a chat model.
        model: Another generator, for instance a stronger chat model or its `"provider:model"` name.

    Raises:
        ConfigurationError: If a setting is unknown or out of range; the message names it and the remedy.
    """

    temperature: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    model: Any = None

    def __init__(self, **settings: Unpack[OverrideSettings]) -> None:
        """Validate the settings; see the class."""
        super().__init__(**settings)


def _form_of_override(value: object) -> str:
    return EACH if isinstance(value, list | tuple) else ALIKE


AttemptOverride = Annotated[
    Annotated[Override, Tag(ALIKE)] | Annotated[tuple[Override, ...], Tag(EACH)],
    Discriminator(_form_of_override),
]
"""An override for every candidate of an attempt, or one for each of them in order."""


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
