"""Agents for the tests of the middleware: their models, tools and judges."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel

from judges.messages import ToolCall
from judges.testing import ScriptedModel
from refine.middleware import SelfRefineMiddleware
from tests.graphs.test_streams import GOOD, MARK, Graph, strict

QUESTION: Any = {"messages": [("user", "what is it?")]}
THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}


def invoke(agent: Any, question: Any = QUESTION, config: RunnableConfig | None = None, **settings: Any) -> Any:
    """Ask an agent."""
    return agent.invoke(question, config, **settings)


def ainvoke(agent: Any, question: Any = QUESTION, config: RunnableConfig | None = None, **settings: Any) -> Any:
    """Ask an agent without blocking."""
    return asyncio.run(agent.ainvoke(question, config, **settings))


both = pytest.mark.parametrize("ask", [invoke, ainvoke])

REJECTED = 9
ATTEMPTS = REJECTED + 1


def drafts() -> list[str]:
    """Give the drafts of one turn: rejected ones, each with the mark, then a good one."""
    return [*(f"wrong {MARK} {number}" for number in range(1, ATTEMPTS)), GOOD]


@tool
def lookup(subject: str) -> str:
    """Look a subject up."""
    return f"about {subject}"


@tool
def wait(subject: str) -> str:
    """Wait for a human."""
    return str(interrupt(subject))


@tool(return_direct=True)
def hand_over(subject: str) -> str:
    """Hand a subject over."""
    return f"handed over: {subject}"


class Report(BaseModel):
    """A report."""

    text: str


def calling(number: int, name: str = "lookup") -> ToolCall:
    """Make a call of a tool with an id of its own."""
    return ToolCall(name=name, args={"subject": f"it {number}"}, id=f"call_{number}")


def tool_script(texts: Sequence[str]) -> list[object]:
    """Give a tool call before every draft."""
    return [line for number, draft in enumerate(texts) for line in (calling(number), draft)]


def thinking_script() -> list[object]:
    """Give what a thinking model says; before its tool calls, too, it thinks of what was rejected."""
    thought = f"The reviewer did not accept {MARK}."
    block = {"type": "thinking", "thinking": thought, "signature": "s"}
    script: list[object] = []
    for number, draft in enumerate(drafts()):
        call = {"name": "lookup", "args": {"subject": "it"}, "id": f"call_{number}", "type": "tool_call"}
        thoughts = [block] if number else []
        extra = {"reasoning_content": thought} if number else {}
        script.append(
            AIMessage(
                [*thoughts, {"type": "text", "text": "One moment."}], tool_calls=[call], additional_kwargs=extra
            )
        )
        script.append(AIMessage([*thoughts, {"type": "text", "text": draft}], additional_kwargs=extra))
    return script


def report_script(*, as_json: bool) -> list[object]:
    """Give reports; every other one that is rejected does not fit the schema."""
    script: list[object] = []
    for number, draft in enumerate(drafts()):
        fields: Any = {"wrong field": draft} if number % 2 and draft != GOOD else {"text": draft}
        script.append(AIMessage(Report(text=draft).model_dump_json() if "text" in fields else f"{{{draft}"))
        if not as_json:
            script[-1] = ToolCall(name="Report", args=fields, id=f"call_{number}")
    return script


class Telling(AgentMiddleware):
    """A middleware of the user's own that writes every answer to the agent's custom stream."""

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]) -> Any:
        """Write the answer."""
        response = handler(request)
        request.runtime.stream_writer({"answer": str(response.result[-1].text)})
        return response

    async def awrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        """Write the answer."""
        response = await handler(request)
        request.runtime.stream_writer({"answer": str(response.result[-1].text)})
        return response


def agent_of(model: ScriptedModel, refining: Any, *tools: Any, **settings: Any) -> Any:
    """Make an agent with the middleware and tools: of each kind one where none is named."""
    return create_agent(model, [*tools] or [lookup, hand_over], middleware=[refining], **settings)


def refining_agent(script: Sequence[object], *, middleware: Sequence[Any] = (), **settings: Any) -> Graph:
    """Make an agent with the middleware, other middleware inside it, and the strict judge."""
    refining = SelfRefineMiddleware(strict(), max_attempts=ATTEMPTS)
    agent: Graph = create_agent(ScriptedModel(script), [lookup], middleware=[refining, *middleware], **settings)
    return agent


def as_a_node(**settings: Any) -> Graph:
    """Make a graph with the agent as a node."""
    builder = StateGraph(MessagesState)
    builder.add_node("agent", refining_agent(tool_script(drafts())))
    builder.add_edge(START, "agent")
    graph: Graph = builder.compile(**settings)
    return graph


AGENTS: dict[str, Callable[..., Graph]] = {
    "thinking model": lambda **settings: refining_agent(thinking_script(), middleware=[Telling()], **settings),
    "tool strategy": lambda **settings: refining_agent(
        report_script(as_json=False), response_format=ToolStrategy(Report), **settings
    ),
    "provider strategy": lambda **settings: refining_agent(
        report_script(as_json=True), response_format=ProviderStrategy(Report), **settings
    ),
    "as a node": as_a_node,
}
"""Every way in which an agent answers; each refuses `REJECTED` marked drafts."""
