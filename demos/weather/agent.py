"""The agent, whose `weather` tool is right one time in three, and its judge, which needs no model.

The last two functions are the graphs of `langgraph.json`, for `langgraph dev`: the server gives them its
checkpointer. A client may ask for fewer attempts, or for more within the bounds, in the context of a run:
`{"max_attempts": 5}`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphs import Bounds, LoopGraph, Policy, self_refine
from judges import ConfigurationError, Sample, ToolCall, Verdict, as_judge
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


COLDEST, HOTTEST = -89.2, 56.7
"""Lowest and highest air temperature ever measured on Earth, in degrees Celsius: Vostok 1983 and Furnace Creek
1913 (World Meteorological Organization, archive of weather and climate extremes)."""

_CELSIUS = re.compile(
    r"(?<![\w.,])(?P<sign>[-−–]\s?|minus )?(?P<digits>\d+(?:[.,]\d+)?)\s*"
    r"(?:°\s*C\b|℃|C\b|degrees?\b(?!\s*(?:F\b|Fahrenheit))|°(?!\s*F))",
    re.IGNORECASE,
)


def rule(sample: Sample) -> Verdict:
    """Rate an answer about a temperature by what the weather tool returned and what the answer says.

    1 where nothing was measured or a temperature is impossible; 2 where the answer does not give the measured
    one; 3 where it gives others besides; 4 where it gives that one.
    """
    results = [step.content for step in sample.steps if step.role == "tool"]
    measured = celsius(results[-1])[-1:] if results else []
    stated = celsius(sample.answer or "")
    impossible = [degrees for degrees in (*measured, *stated) if not COLDEST <= degrees <= HOTTEST]
    others = [degrees for degrees in stated if degrees not in measured]
    if not measured:
        return _refusal(1, "The weather tool measured nothing.", "Call the weather tool before answering.")
    if impossible:
        return _refusal(
            1,
            f"{impossible[0]:g} °C is impossible; the records on Earth are {COLDEST} and {HOTTEST} °C.",
            "Call the weather tool again and report what it then returns.",
        )
    if measured[0] not in stated:
        stated_text = f"{others[0]:g} °C" if others else "no temperature"
        return _refusal(
            2, f"The answer gives {stated_text}; {measured[0]:g} °C was measured.", f"Report {measured[0]:g} °C."
        )
    if others:
        return _refusal(3, f"{others[0]:g} °C was never measured.", f"Report {measured[0]:g} °C only.")
    return Verdict.rated(
        4, rationale=f"{measured[0]:g} °C was measured, is possible, and is what the answer says."
    )


judge = as_judge(rule)


def celsius(text: str) -> list[float]:
    """Return the temperatures in degrees Celsius in a text."""
    return [_number(match) for match in _CELSIUS.finditer(text)]


def _number(match: re.Match[str]) -> float:
    size = float(match["digits"].replace(",", "."))
    return -size if match["sign"] else size


def _refusal(rating: int, rationale: str, feedback: str) -> Verdict:
    return Verdict.rated(rating, success_rating=4, rationale=rationale, feedback=feedback)


_SERVED_SEED = 1


def weather() -> LoopGraph:
    """Return the weather agent, whose answers are judged and written again; the best one is sent."""
    agent = weather_agent(None, seed=_SERVED_SEED)
    return self_refine(agent, judge, policy=Policy(success_rating=4), bounds=Bounds(max_attempts=16))


def reviewed() -> LoopGraph:
    """Return the weather agent with a human who decides where no answer passed."""
    policy = Policy(success_rating=4, max_attempts=1, on_exhausted="interrupt")
    return self_refine(weather_agent(None, seed=_SERVED_SEED), judge, policy=policy, checkpointer="inherit")
