"""Graphs for a LangGraph server: `langgraph dev` in the folder of `langgraph.json`.

The server gives them its checkpointer. They need no key: a script answers, and a rule judges. A client may ask for
fewer attempts, or for more within the bounds, in the context of a run: `{"max_attempts": 5}`.
"""

from __future__ import annotations

from demos.weather.agent import judge, weather_agent
from graphs import Bounds, LoopGraph, Policy, self_refine

SEED = 1
"""Seeds the broken thermometer."""


def weather() -> LoopGraph:
    """Return the weather agent, whose answers are judged and written again; the best one is sent."""
    bounds = Bounds(max_attempts=16)
    return self_refine(weather_agent(None, seed=SEED), judge, policy=Policy(success_rating=4), bounds=bounds)


def reviewed() -> LoopGraph:
    """Return the weather agent with a human who decides where no answer passed."""
    policy = Policy(success_rating=4, max_attempts=1, on_exhausted="interrupt")
    return self_refine(weather_agent(None, seed=SEED), judge, policy=policy, checkpointer="inherit")
