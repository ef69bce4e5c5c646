"""The loop around a generator and a judge, checked."""

from __future__ import annotations

import warnings

from graphs.best_of import BestOfLoop
from graphs.certificate import CertificateWarning, check_certificate
from graphs.loop import Loop
from graphs.overrides import Bounds
from graphs.policy import Policy
from judges.catalogue.naming import one_judge
from judges.errors import ConfigurationError, shortened
from judges.judge import Judge
from judges.models.providers.langchain import looks_like_chat_model
from judges.models.providers.openai import OpenAICompatible


class SelfJudgingWarning(UserWarning):
    """The generating model is also the judging model; models tend to favour their own answers."""


def build_loop(
    generator: object, judge: object, policy: Policy, *, name: str, bounds: Bounds | None = None
) -> Loop:
    """Return the loop around a generator and a judge, and warn if a model is to judge itself.

    Raises:
        ConfigurationError: If generator or judge is unusable, or the policy's certificate is about another loop.
    """
    _check_name(name)
    _check_bounds(bounds)
    coerced = judge_for(generator, judge)
    if any(model.is_model(generator) for model in coerced.models):
        warnings.warn(
            f"{coerced.name!r} asks the very model that generates; judges favour their own answers",
            SelfJudgingWarning,
            stacklevel=3,
        )
    for doubt in check_certificate(coerced, policy, generator):
        warnings.warn(doubt, CertificateWarning, stacklevel=3)
    kind = Loop if policy.candidates == 1 else BestOfLoop
    return kind(generator, coerced, policy, name=name, bounds=bounds)


def judge_for(generator: object, judge: object) -> Judge:
    """Return the judge of a generator's answers; one given by its name asks the generator, where it has no model.

    Raises:
        ConfigurationError: If it is no judge, or it needs a model and the generator is none.
    """
    return one_judge(judge, default=generator if _is_model(generator) else None)


def _is_model(generator: object) -> bool:
    """Check whether a judge can ask the generator; a `SelfRefine` has a chat model's methods, and is a loop."""
    if isinstance(generator, str | OpenAICompatible):
        return True
    return looks_like_chat_model(generator) and not hasattr(generator, "arefine")


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name.strip():
        raise ConfigurationError(f"name is a text, not {shortened(name)}")


def _check_bounds(bounds: object) -> None:
    if not isinstance(bounds, Bounds | None):
        raise ConfigurationError(
            f"bounds is a graphs.Bounds, for instance Bounds(max_attempts=5), not {shortened(bounds)}"
        )
