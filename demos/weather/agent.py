"""The agent: a chat model with a `weather` tool that is right one time in three."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from judges import ConfigurationError, ToolCall
from judges.testing import ScriptedModel

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage
    from langgraph.graph.state import CompiledStateGraph

READINGS = (-125, 15, -255)
"""Degrees Celsius that the tool returns, each as likely as the others."""

_INSTRUCTIONS = (
    "You answer questions about the weather. Call the weather tool for the temperature, in degrees Celsius, "
    "before every answer, and report what it returned."
)
_CITY = re.compile(r"\b(?:in|for|at)\s+([^\W\d_][\w'’. -]*?)(?=\s+(?:right now|now|today)\b|\s*[?!,;.]|\s*$)")


def weather_agent(
    model: BaseChatModel | None, *, seed: int, middleware: Sequence[AgentMiddleware[Any, Any, Any]] = ()
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Build the agent.

    Args:
        model: A chat model that can call tools; None takes the script.
        seed: Seeds the tool, so that a run can be repeated.
        middleware: What to put around its model calls.

    Raises:
        ConfigurationError: If LangChain, which has the agent, is not installed.
    """
    try:
        from langchain.agents import create_agent  # noqa: PLC0415 - an extra, opened on demand
    except ImportError as error:
        raise ConfigurationError("the agent of this demo needs the extra: selfrefine[agents]") from error
    thermometer = random.Random(seed)  # noqa: S311 - a demo, no secret

    def weather(city: str) -> str:  # noqa: ARG001 - the thermometer is as broken everywhere
        """Measure the temperature in a city."""
        return f"{thermometer.choice(READINGS)} °C"

    return create_agent(model or scripted_model(), [weather], system_prompt=_INSTRUCTIONS, middleware=middleware)


def scripted_model(*, delay_s: float = 0.0) -> ScriptedModel:
    """Return the chat model that needs no key: it calls the tool, then reports what that returned."""
    return ScriptedModel(_next_message, name="scripted", delay_s=delay_s)


def _next_message(messages: Sequence[BaseMessage]) -> object:
    city = _city(messages)
    if messages[-1].type != "tool":
        return ToolCall(name="weather", args={"city": city}, id=f"call_{len(messages)}")
    return f"It is {messages[-1].text} in {city}."


def _city(messages: Sequence[BaseMessage]) -> str:
    question = next(turn.text for turn in messages if turn.type == "human")
    match = _CITY.search(question)
    return "your city" if match is None else match[1]
