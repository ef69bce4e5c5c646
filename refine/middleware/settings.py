"""Settings of the middleware, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel

from graphs import Bounds, Policy
from graphs.building import build_loop
from graphs.generators import PerRequest
from graphs.loop import Loop
from graphs.policy import policy_of as checked_policy
from graphs.policy_settings import Override
from judges import ConfigurationError
from judges.errors import shortened
from judges.models.providers.langchain import chat_model

T = TypeVar("T")

_OF_THE_AGENT = frozenset({"checkpointer", "context_schema", "durability", "store"})


def policy_of(policy: Policy | None, settings: Mapping[str, Any]) -> Policy:
    """Return the policy of a middleware, given as one or as its settings.

    Raises:
        ConfigurationError: If a setting is unknown, out of range, or not for a middleware.
    """
    misplaced = sorted(settings.keys() & _OF_THE_AGENT)
    if misplaced:
        raise ConfigurationError(f"the agent has {', '.join(misplaced)}, not the middleware; give it to the agent")
    policy = checked_policy(policy, settings)
    if policy.on_exhausted == "interrupt":
        raise ConfigurationError(
            "on_exhausted='interrupt' is not for a middleware, where resuming would repeat every model call; put "
            "the agent inside instead: SelfRefine(agent, judge, on_exhausted='interrupt', checkpointer=...)"
        )
    if policy.candidates > 1:
        raise ConfigurationError(
            f"candidates={policy.candidates} is not for a middleware, where each draft may call the agent's tools "
            f"first; put the agent inside instead: SelfRefine(agent, judge, candidates={policy.candidates})"
        )
    return policy


def models_of(policy: Policy) -> dict[int, BaseChatModel]:
    """Return the chat models of a policy's overrides, by the attempt from which on they are used.

    Raises:
        ConfigurationError: If an override has something else, which could not use the agent's tools.
    """
    models: dict[int, BaseChatModel] = {}
    for number in policy.overrides:
        model = policy.override(number).model
        if isinstance(model, str):
            model = chat_model(model)
        if isinstance(model, BaseChatModel):
            models[number] = model
        elif model is not None:
            raise ConfigurationError(
                f"overrides of a middleware have a chat model or its 'provider:model' name, which the agent uses "
                f"with its tools, not {shortened(model)}"
            )
    return models


def loop_of(judge: object, policy: Policy, name: str, bounds: Bounds | None) -> Loop:
    """Return the loop of a middleware, to which each model call of the agent gives its own generator."""
    overrides = {number: Override(temperature=policy.override(number).temperature) for number in policy.overrides}
    own = policy.model_copy(update={"overrides": overrides})
    return build_loop(PerRequest(), judge, own, name=name, bounds=bounds)


def at_least_one(name: str, value: object) -> int:
    """Return a whole number from 1.

    Raises:
        ConfigurationError: If the value is none.
    """
    if type(value) is not int or value < 1:
        raise ConfigurationError(f"{name} is a whole number from 1, not {shortened(value)}")
    return value


def function_or_none(name: str, value: Callable[[T], object] | None) -> Callable[[T], object] | None:
    """Return a function, or None.

    Raises:
        ConfigurationError: If the value is something else.
    """
    if value is not None and not callable(value):
        raise ConfigurationError(f"{name} is a function of one argument, or None, not {shortened(value)}")
    return value
