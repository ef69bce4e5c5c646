"""The loop as a LangGraph graph."""

from __future__ import annotations

import warnings
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AnyMessage
from langgraph.channels import EphemeralValue
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer

from graphs import hidden
from graphs.loop import Entrance, Loop, Step
from graphs.policy import Policy
from judges.coerce import as_judge
from judges.judge import Judge

Evidence = dict[str, Any]


class SelfJudgingWarning(UserWarning):
    """The model that generates is also the one that judges, and tends to like its own answers."""


class Conversation(TypedDict):
    """What a node of the loop is shown: the conversation."""

    messages: Annotated[list[AnyMessage], add_messages]


class Question(Conversation, total=False):
    """What the graph takes in: the conversation and, if there is any, evidence (fields of a sample)."""

    evidence: Annotated[Evidence, EphemeralValue]


class Answered(Conversation):
    """What the graph gives back: the conversation with the answer, and a summary without rejected text."""

    refine: dict[str, Any] | None


class _State(Question, Answered):
    refinement: dict[str, Any]


def self_refine(
    generator: object,
    judge: object,
    *,
    policy: Policy | None = None,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    name: str = "self_refine",
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Compile the loop around a generator: generate, judge, augment, generate again, finish.

    The graph takes `{"messages": [...]}`, and `{"evidence": {...}}` where the judge is to see a reference or
    retrieved contexts (fields of a `Sample`). It appends one message, the answer, with a summary in its
    `response_metadata["refine"]`. It streams nothing of a rejected draft in any mode, and stands as a node in
    another graph over messages.

    With `on_exhausted="interrupt"` and a checkpointer it stops for a human, who resumes with
    `Command(resume="accept")`, `"reject"`, or `{"answer": "the text to send"}`.

    Args:
        generator: A chat model or its `"provider:model"` name, a runnable, a compiled agent graph, or a
            function of the list of messages, sync or async.
        judge: A judge, a function, or a list of judges (see `judges.as_judge`).
        policy: When to accept and when to stop; None takes the defaults of `Policy`.
        checkpointer: Where LangGraph keeps the state; give a `thread_id` in the config then.
        store: A LangGraph store, for nodes of an agent inside.
        name: Name of the graph, and of its run in a trace.

    Raises:
        ConfigurationError: If the generator or the judge is none, or the policy asks for what they cannot do.
    """
    spoken = as_judge(judge)
    policy = policy or Policy()
    _warn_of_self_judging(generator, spoken)
    loop = Loop(generator, spoken, policy)
    graph = StateGraph(_State, input_schema=Question, output_schema=Answered)
    graph.add_conditional_edges(START, Entrance(loop.begin), {"begin": "generate"})
    for step, decide, targets in (
        ("generate", loop.generate, {"judge": "", "finish": ""}),
        ("judge", loop.judge, {"generate": "augment", "finish": ""}),
        ("finish", loop.finish, None),
    ):
        node = Step(step, decide, log_texts=policy.log_texts)
        graph.add_node(step, node, input_schema=Conversation, destinations=targets)
    graph.add_edge("finish", END)
    compiled = graph.compile(checkpointer=checkpointer, store=store, name=name)
    compiled.stream_channels = ["messages", hidden.SUMMARY]
    return compiled


def _warn_of_self_judging(generator: object, judge: Judge) -> None:
    if any(model.is_model(generator) for model in judge.models):
        warnings.warn(
            f"{judge.name!r} asks the very model that generates; judges favour their own answers, so take another",
            SelfJudgingWarning,
            stacklevel=3,
        )
