"""Whatever a generator, a judge or a function of the user's does to what it gets, it changes only its own copy."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from graphs import Bounds, Refinement
from judges import Judge, Panel, Sample, Verdict
from judges.offline import evaluate
from judges.requests import Deliberation
from judges.testing import ScriptedJudge, ScriptedModel
from refine import Outcome, SelfRefine

THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}


def question() -> list[AnyMessage]:
    """Make a conversation with everything in it that can be changed in place."""
    return [
        SystemMessage("be brief", additional_kwargs={"kept": [1]}),
        HumanMessage([{"type": "text", "text": "what?"}], additional_kwargs={"kept": {"deep": [1]}}),
    ]


NUMBERS = count(1)
"""No answer is a repeat of an earlier one, which no judge would see."""


def edit(messages: list[Any]) -> str:
    """Change messages in every way, and answer."""
    for message in messages:
        message.additional_kwargs["spoilt"] = True
        message.additional_kwargs.get("kept", []).clear()
        message.response_metadata["spoilt"] = True
        if isinstance(message.content, list):
            message.content[0]["text"] = "spoilt"
            message.content.append({"type": "text", "text": "spoilt"})
        else:
            message.content = "spoilt"
        message.id = "spoilt"
    return f"answer {next(NUMBERS)}"


def spoil(messages: list[Any]) -> str:
    """Change messages and their list in every way, and answer."""
    messages.append(HumanMessage("spoilt"))
    answer = edit(messages)
    messages.insert(0, SystemMessage("spoilt"))
    del messages[2:]
    return answer


async def aspoil(messages: list[BaseMessage]) -> str:
    """Change messages without blocking."""
    return spoil(messages)


class SpoilingModel(BaseChatModel):
    """A chat model of the user's that changes what it reads."""

    scripted: bool = True

    @property
    def _llm_type(self) -> str:
        return "spoiling"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(spoil(messages)))])


def agent() -> Any:
    """Make an agent whose node changes the messages of its state."""
    graph = StateGraph(MessagesState)
    graph.add_node("answer", lambda state: {"messages": [AIMessage(edit(state["messages"]))]})
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph.compile()


class SpoilingHandler(BaseCallbackHandler):
    """A callback handler that changes what it is shown."""

    def on_chat_model_start(self, serialized: Any, messages: list[list[Any]], **_: Any) -> None:
        """Change the messages."""
        for batch in messages:
            spoil(batch)

    def on_custom_event(self, name: str, data: Any, **_: Any) -> None:
        """Change the event."""
        for tool in data.get("tools", ()):
            tool["args"].clear()
        data.clear()


GENERATORS: dict[str, Callable[[], Any]] = {
    "function": lambda: spoil,
    "coroutine function": lambda: aspoil,
    "runnable": lambda: RunnableLambda(spoil),
    "agent": agent,
    "chat model of the user's": SpoilingModel,
    "chat model with a handler": lambda: ScriptedModel(lambda _: f"answer {next(NUMBERS)}"),
}


@pytest.mark.parametrize("checkpointed", [False, True], ids=["plain", "kept"])
@pytest.mark.parametrize("watched", [False, True], ids=["alone", "watched"])
@pytest.mark.parametrize("kind", GENERATORS)
async def test_a_generator_changes_only_its_own_copy(kind: str, *, watched: bool, checkpointed: bool) -> None:
    """The judge, the next attempt, the thread and the caller see the conversation as it was."""
    given = question()
    judge = ScriptedJudge([1, 4], cycle=True)
    asked = SelfRefine(GENERATORS[kind](), judge, checkpointer=InMemorySaver() if checkpointed else None)
    config: RunnableConfig = {**THREAD, "callbacks": [SpoilingHandler()] if watched else []}
    for outcome in (
        await asked.arefine(given, config),
        asked.refine(given, {**config, "configurable": {"thread_id": "2"}}),
    ):
        assert [message.model_dump(exclude={"id"}) for message in given] == [
            message.model_dump(exclude={"id"}) for message in question()
        ]
        assert [message.id for message in given] == [None, None] or checkpointed
        assert [message.text for message in outcome.conversation] == ["be brief", "what?"]
        assert "spoilt" not in outcome.model_dump_json()
        assert outcome.answer is not None
        assert outcome.answer.text.startswith("answer")
    assert [[message.content for message in sample.conversation] for sample in judge.samples] == [
        ["be brief", "what?"]
    ] * 4


def test_a_message_that_is_used_again_changes_no_draft() -> None:
    """A generator may return the same message object each time, with another text in it."""
    reply = AIMessage("")
    texts = iter(["first", "second", "third"])

    def generate(_: list[BaseMessage]) -> AIMessage:
        reply.content = next(texts)
        return reply

    for generator in (generate, RunnableLambda(generate)):
        texts = iter(["first", "second", "third"])
        outcome = SelfRefine(generator, ScriptedJudge([2, 1, 1])).refine("what?")
        assert [attempt.text for attempt in outcome.attempts] == ["first", "second", "third"]
        assert outcome.answer is not None
        assert outcome.answer.text == "first"


EVIDENCE: dict[str, Any] = {
    "metadata": {"list": [1, 2], "deep": {"key": ["value"]}},
    "guidelines": {"rules": ["be brief"]},
    "rubrics": {"1": "bad", "4": "good"},
    "reference_tool_calls": [{"name": "search", "args": {"place": ["here"]}}],
}


BOUNDS = Bounds(max_criteria_chars=100)
"""The evidence of a question may bring guidelines and rubrics."""


def spoil_sample(sample: Sample) -> int:
    """Change whatever can be changed of a sample."""
    sample.metadata["spoilt"] = True
    sample.metadata["list"].append(3)  # type: ignore[union-attr]  # it is a list here
    sample.metadata["deep"]["key"].clear()  # type: ignore[index, union-attr, call-overload]  # as above
    sample.guidelines["spoilt"] = ()  # type: ignore[index]  # as above
    sample.rubrics.clear()  # type: ignore[union-attr]  # as above
    for call in sample.reference_tool_calls or ():
        call.args["place"].append("there")  # type: ignore[union-attr]  # as above
        call.args["spoilt"] = True
    for message in sample.steps:
        for made in message.tool_calls:
            made.args.clear()
    return 4


def spoil_fields(metadata: dict[str, Any], rubrics: dict[str, str], response: str) -> int:
    """Change fields that are passed by their names."""
    metadata["list"].append(3)
    rubrics.clear()
    return 4


class SpoilingJudge(Judge):
    """A judge of the user's own that changes its sample."""

    name = "spoiling"

    def deliberate(self, sample: Sample) -> Deliberation:
        """Change the sample."""
        yield from ()
        return Verdict.rated(spoil_sample(sample))


@pytest.mark.parametrize(
    "judge", [spoil_sample, spoil_fields, SpoilingJudge()], ids=["function", "fields", "judge"]
)
def test_a_judge_changes_only_its_own_copy(judge: Any) -> None:
    """The next member of a panel, the next attempt, the record and a dataset see the sample as it was."""
    seen = ScriptedJudge([1, 4], cycle=True, name="seen")
    call, answers = AIMessage("", tool_calls=[{"name": "t", "args": {"a": 1}, "id": "1"}]), iter(["yes", "indeed"])
    panel = Panel([judge, seen])
    outcome = SelfRefine(
        lambda messages: {"messages": [*messages, call, AIMessage(next(answers))]}, panel, bounds=BOUNDS
    ).refine("what?", evidence=EVIDENCE)
    sample = Sample.read(user_input="what?", response="yes", **EVIDENCE)
    before = sample.model_copy(deep=True)
    again = evaluate([sample], panel)
    assert sample == before
    assert again.rows[0].sample == before
    assert [attempt.rating for attempt in outcome.attempts] == [1, 4]
    for shown in seen.samples:
        assert shown.metadata == EVIDENCE["metadata"]
        assert shown.rubrics == EVIDENCE["rubrics"]
        assert "spoilt" not in shown.model_dump_json()
    assert seen.samples[1].steps[0].tool_calls[0].args == {"a": 1}
    assert "spoilt" not in outcome.model_dump_json()
    assert outcome.samples()[0].steps[0].tool_calls[0].args == {"a": 1}


def test_functions_of_a_policy_change_only_their_own_copies() -> None:
    """What `augment` and `skip` do to drafts and evidence changes neither the record nor what is judged."""

    def augment(refinement: Refinement) -> list[AnyMessage]:
        for attempt in refinement.attempts:
            attempt.answer.content = "spoilt"
            attempt.evidence.clear()
        dict(refinement.evidence)["metadata"].clear()  # type: ignore[union-attr]  # a mapping here
        return [refinement.attempts[-1].answer, HumanMessage("again")]

    def skip(answer: AIMessage) -> bool:
        answer.content = "spoilt"
        return False

    judge = ScriptedJudge([(2, "more"), 1, 1])
    outcome: Outcome = SelfRefine(
        ScriptedModel(["one", "two", "three"]), judge, augment=augment, skip=skip, bounds=BOUNDS
    ).refine("what?", evidence=EVIDENCE)
    assert [sample.response for sample in judge.samples] == ["one", "two", "three"]
    assert [sample.metadata for sample in judge.samples] == [EVIDENCE["metadata"]] * 3
    assert [attempt.text for attempt in outcome.attempts] == ["one", "two", "three"]


def test_a_handler_of_events_changes_no_record() -> None:
    """A handler that empties the arguments of a tool in an event leaves those of the attempt."""
    call = {"name": "t", "args": {"a": 1}, "id": "1"}
    steps = [AIMessage("", tool_calls=[call]), AIMessage("yes")]
    asked = SelfRefine(lambda messages: {"messages": [*messages, *steps]}, ScriptedJudge([4]), show_drafts=True)
    outcome = asked.refine("what?", {"callbacks": [SpoilingHandler()]})
    assert outcome.attempts[0].tools == [{"name": "t", "args": {"a": 1}, "result": None}]
