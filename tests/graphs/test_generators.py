"""Every kind of generator: what it is sent, and how its draft is read."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from langchain_core.runnables import Runnable, RunnableBranch, RunnableConfig, RunnableLambda, RunnablePassthrough
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt

from graphs import DraftError, Policy, self_refine
from judges import ConfigurationError
from judges.messages import ToolCall
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine
from refine.middleware import SelfRefineMiddleware
from tests.laws import for_every
from tests.refine.agent_models import Report, hand_over

Graph = CompiledStateGraph[Any, Any, Any, Any]
THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}


def texts(messages: list[BaseMessage]) -> list[str]:
    """List the texts of messages."""
    return [str(one.text) for one in messages]


def echo(messages: list[BaseMessage]) -> str:
    """Answer with the last message."""
    return f"re: {messages[-1].text}"


async def aecho(messages: list[BaseMessage]) -> str:
    """Answer with the last message, asynchronously."""
    return echo(messages)


def deferred(messages: list[BaseMessage]) -> Awaitable[str]:
    """Answer with the last message, by a function that is not itself async."""
    return aecho(messages)


class Answerer:
    """An object that can be called."""

    def __call__(self, messages: list[BaseMessage]) -> str:
        """Answer with the last message."""
        return echo(messages)


class AsyncAnswerer:
    """An object that can be awaited when called."""

    async def __call__(self, messages: list[BaseMessage]) -> str:
        """Answer with the last message."""
        return echo(messages)

    async def answer(self, messages: list[BaseMessage]) -> str:
        """Answer from a method."""
        return echo(messages)


def prefixed(prefix: str, messages: list[BaseMessage]) -> str:
    """Answer with a prefix that was bound before."""
    return f"{prefix}: {messages[-1].text}"


async def aprefixed(prefix: str, messages: list[BaseMessage]) -> str:
    """Answer with a prefix that was bound before, asynchronously."""
    return prefixed(prefix, messages)


GENERATORS: dict[str, Callable[[], Any]] = {
    "chat model": lambda: ScriptedModel(["re: hello"]),
    "bound chat model": lambda: ScriptedModel(["re: hello"]).bind(stop=["x"]),
    "configured chat model": lambda: ScriptedModel(["re: hello"]).with_config(tags=["x"]),
    "lambda runnable": lambda: RunnableLambda(echo),
    "async lambda runnable": lambda: RunnableLambda(echo, aecho),
    "chain": lambda: (
        ChatPromptTemplate([("system", "Answer."), MessagesPlaceholder("messages")]) | ScriptedModel(["re: hello"])
    ),
    "chain under another name": lambda: (
        ChatPromptTemplate([MessagesPlaceholder("history")]) | ScriptedModel(["re: hello"])
    ),
    "function": lambda: echo,
    "async function": lambda: aecho,
    "callable object": Answerer,
    "async callable object": AsyncAnswerer,
    "async method": lambda: AsyncAnswerer().answer,
    "partial": lambda: functools.partial(prefixed, "re"),
    "async partial": lambda: functools.partial(aprefixed, "re"),
    "function that returns a coroutine": lambda: deferred,
    "agent": lambda: create_agent(ScriptedModel(["re: hello"]), tools=[]),
    "loop": lambda: self_refine(echo, ScriptedJudge([4])),
    "selfrefine": lambda: SelfRefine(echo, ScriptedJudge([4])),
}


@pytest.mark.parametrize("kind", GENERATORS)
async def test_each_kind_generates(kind: str) -> None:
    """Each kind of generator answers, without a graph and in one, sync and async, with a running loop around."""
    for outcome in (
        SelfRefine(GENERATORS[kind](), ScriptedJudge([4])).refine("hello"),
        await SelfRefine(GENERATORS[kind](), ScriptedJudge([4])).arefine("hello"),
    ):
        assert outcome.text == "re: hello"
    asked: dict[str, Any] = {"messages": [("user", "hello")]}
    blocking = self_refine(GENERATORS[kind](), ScriptedJudge([4]), checkpointer=InMemorySaver())
    waiting = self_refine(GENERATORS[kind](), ScriptedJudge([4]), checkpointer=InMemorySaver())
    assert blocking.invoke(asked, THREAD)["messages"][-1].text == "re: hello"
    assert (await waiting.ainvoke(asked, THREAD))["messages"][-1].text == "re: hello"


@pytest.mark.parametrize("given", [None, 7, object(), "gpt-5", ":", "openai:", str, [echo]])
def test_what_cannot_generate_is_refused(given: Any) -> None:
    """A thing that is no generator is refused when the loop is made, with what may be given."""
    with pytest.raises(ConfigurationError, match=r"cannot generate with .*give a chat model"):
        SelfRefine(given, ScriptedJudge([4]))


@pytest.mark.parametrize(
    ("name", "message"),
    [("nobody:gpt-5", "cannot be set up"), ("mistralai:large", r"not available: install the provider's package")],
    ids=["unknown provider", "missing package"],
)
async def test_a_model_that_cannot_be_made_is_reported_once(name: str, message: str) -> None:
    """A name of an unknown provider, or one without its package, is one clear error at the first question."""
    refiner = SelfRefine(name, ScriptedJudge([4]))
    with pytest.raises(ConfigurationError, match=message) as raised:
        refiner.invoke("hello")
    assert repr(name) in str(raised.value)
    assert "\n" not in str(raised.value).partition("\nDuring task")[0]
    with pytest.raises(ConfigurationError, match=message):
        await refiner.ainvoke("hello")


def test_a_named_model_is_made_when_first_used() -> None:
    """A model given by name is not created with the loop."""
    assert SelfRefine("nobody:gpt-5", ScriptedJudge([4])).policy.max_attempts == 3


@pytest.mark.parametrize(
    "prompt",
    [
        ChatPromptTemplate([("user", "{question}")]),
        PromptTemplate.from_template("Answer {question}"),
        ChatPromptTemplate([("user", "{question}"), MessagesPlaceholder("messages")]),
        ChatPromptTemplate([("user", "hello")]),
    ],
    ids=["chat", "text", "two variables", "none"],
)
def test_a_prompt_without_place_for_the_messages_is_refused(prompt: Any) -> None:
    """A chain whose prompt has no single place for the messages is refused when the loop is made."""
    with pytest.raises(ConfigurationError, match="MessagesPlaceholder"):
        SelfRefine(prompt | ScriptedModel(["x"]), ScriptedJudge([4]))


def test_a_prompt_with_its_texts_filled_in_is_taken() -> None:
    """A prompt whose other variables were filled in beforehand takes the messages."""
    prompt = ChatPromptTemplate([("system", "You are {role}."), MessagesPlaceholder("messages")])
    model = ScriptedModel(["hi"])
    SelfRefine(prompt.partial(role="terse") | model, ScriptedJudge([4])).invoke("hello")
    assert texts(model.prompts[0]) == ["You are terse.", "hello"]


def test_a_chain_is_sent_the_feedback_too() -> None:
    """A retry reaches a chain through the same placeholder."""
    model = ScriptedModel(["one", "two"])
    chain = ChatPromptTemplate([("system", "Answer."), MessagesPlaceholder("messages")]) | model
    SelfRefine(chain, ScriptedJudge([(1, "be kind"), 4])).invoke("hello")
    *before, note = texts(model.prompts[1])
    assert before == ["Answer.", "hello"]
    assert "be kind" in note


@tool
def lookup(subject: str) -> str:
    """Look a subject up."""
    return f"about {subject}"


def call(subject: str) -> ToolCall:
    """Call the tool."""
    return ToolCall(name="lookup", args={"subject": subject})


def test_steps_of_an_agent_are_those_of_the_attempt() -> None:
    """The tool calls and results of an attempt are its steps, and those of another attempt are not."""
    model = ScriptedModel([call("first"), "bad", call("second"), call("third"), "good"])
    agent = create_agent(model, tools=[lookup])
    outcome = SelfRefine(agent, ScriptedJudge([(1, "again"), 4])).refine("what?")
    steps = [[one.text for one in attempt.steps if one.type == "tool"] for attempt in outcome.attempts]
    assert steps == [["about first"], ["about second", "about third"]]
    assert [len(one.steps) for one in outcome.attempts] == [2, 4]


def test_the_judge_sees_an_agents_tool_results() -> None:
    """The sample holds the tool calls and results of this attempt, and the original question."""
    judge = ScriptedJudge([(1, "again"), 4])
    agent = create_agent(ScriptedModel([call("first"), "bad", call("second"), "good"]), tools=[lookup])
    SelfRefine(agent, judge).invoke("what?")
    last = judge.samples[-1]
    assert (last.question, last.response) == ("what?", "good")
    assert [(one.role, one.content) for one in last.steps] == [("assistant", ""), ("tool", "about second")]
    assert last.steps[0].tool_calls[0].args == {"subject": "second"}
    assert [one.content for one in last.messages] == ["what?", "", "about second", "good"]


def test_steps_of_an_agent_are_found_in_a_long_conversation() -> None:
    """Tool calls of earlier turns are conversation, not steps."""
    earlier: list[BaseMessage] = [
        HumanMessage("before"),
        AIMessage("", tool_calls=[{"name": "lookup", "args": {"subject": "old"}, "id": "1"}]),
        ToolMessage("about old", tool_call_id="1"),
        AIMessage("it was old"),
        HumanMessage("what?"),
    ]
    agent = create_agent(ScriptedModel([call("new"), "bad", call("newer"), "good"]), tools=[lookup])
    outcome = SelfRefine(agent, ScriptedJudge([(1, "again"), 4])).refine(earlier)
    assert [[one.text for one in each.steps if one.type == "tool"] for each in outcome.attempts] == [
        ["about new"],
        ["about newer"],
    ]


def test_an_agent_with_a_system_prompt_has_its_steps_alone() -> None:
    """A system prompt of the agent's own is no step."""
    agent = create_agent(ScriptedModel([call("it"), "good"]), tools=[lookup], system_prompt="Be brief.")
    outcome = SelfRefine(agent, ScriptedJudge([4])).refine("what?")
    assert [one.type for one in outcome.attempts[0].steps] == ["ai", "tool"]


def test_usage_of_an_agent_is_that_of_all_its_calls() -> None:
    """Each model call inside an agent counts, over all attempts."""
    agent = create_agent(ScriptedModel([call("it"), "bad", "good"]), tools=[lookup])
    outcome = SelfRefine(agent, ScriptedJudge([(1, "again"), 4])).refine("what?")
    assert [one.usage.calls for one in outcome.attempts] == [2, 1]
    assert outcome.usage.calls == 3
    assert outcome.usage.output_tokens == 5


def test_usage_of_a_chat_model_is_counted() -> None:
    """Calls and tokens of a chat model are those it reports."""
    outcome = SelfRefine(ScriptedModel(["one two three"]), ScriptedJudge([4])).refine("what is it?")
    usage = outcome.usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (1, 3, 3)


@pytest.mark.parametrize("made", ["text", {"answer": "text"}, AIMessage("text")], ids=["text", "dict", "message"])
def test_a_function_counts_as_one_call(made: object) -> None:
    """What returns an answer counts as one call, of unknown tokens."""
    outcome = SelfRefine(lambda _: made, ScriptedJudge([4])).refine("what?")
    assert (outcome.usage.calls, outcome.usage.tokens) == (1, 0)


def remembering(script: list[object]) -> tuple[ScriptedModel, Graph]:
    """Make an agent with a checkpointer of its own, and its model."""
    model = ScriptedModel(script)
    agent: Graph = create_agent(model, tools=[lookup], checkpointer=InMemorySaver())
    return model, agent


@pytest.mark.parametrize("config", [None, THREAD])
def test_an_agent_with_a_memory_never_remembers_a_draft(config: RunnableConfig | None) -> None:
    """An agent with a checkpointer of its own is sent each prompt afresh, under a thread of its own."""
    model, agent = remembering(["bad", "good", "other"])
    refiner = SelfRefine(agent, ScriptedJudge([(1, "again"), 4, 4]))
    refiner.invoke("what?", config)
    refiner.invoke("and then?", config)
    first, note = texts(model.prompts[1])
    assert (first, "again" in note, "bad" in note) == ("what?", True, False)
    assert texts(model.prompts[2]) == ["and then?"]


def test_an_agent_with_a_memory_leaves_the_callers_thread_alone() -> None:
    """Nothing is written into the thread of the caller in the agent's own checkpointer."""
    _, agent = remembering(["bad", "good"])
    SelfRefine(agent, ScriptedJudge([(1, "again"), 4])).invoke("what?", THREAD)
    assert agent.get_state(THREAD).values == {}


def test_an_agent_with_a_memory_works_under_our_checkpointer() -> None:
    """Both may have a checkpointer; the conversation is kept by ours, and no draft by either."""
    model, agent = remembering(["bad", "good", "next"])
    refiner = SelfRefine(agent, ScriptedJudge([(1, "again"), 4, 4]), checkpointer=InMemorySaver())
    refiner.invoke("what?", THREAD)
    refiner.invoke("and then?", THREAD)
    assert texts(model.prompts[2]) == ["what?", "good", "and then?"]


@tool
def approve(action: str) -> str:
    """Ask a human to approve an action."""
    return f"{action}: {interrupt({'action': action})}"


def asking(script: list[object], judge: Any) -> Graph:
    """Make a loop around an agent with a tool that asks a human."""
    agent = create_agent(ScriptedModel(script), tools=[approve])
    return self_refine(agent, judge, checkpointer=InMemorySaver())


def test_a_tool_may_ask_a_human_under_our_checkpointer() -> None:
    """An agent that interrupts inside the loop stops it, and goes on where it was once a human has answered."""
    loop = asking([ToolCall(name="approve", args={"action": "pay"}), "paid"], ScriptedJudge([4]))
    waiting = loop.invoke({"messages": [("user", "pay it")]}, THREAD)
    assert waiting["__interrupt__"][0].value == {"action": "pay"}
    ended = loop.invoke(Command(resume="yes"), THREAD)
    assert ended["messages"][-1].text == "paid"


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_tool_may_ask_a_human_in_every_attempt(durability: Any) -> None:
    """A second attempt asks anew, and is not handed the first one's decision; nothing is called twice."""
    pay, refund = (ToolCall(name="approve", args={"action": action}) for action in ("pay", "refund"))
    judge = ScriptedJudge([(1, "again"), 4])
    agent = create_agent(ScriptedModel([pay, "paid", refund, "refunded"]), tools=[approve])
    refiner = SelfRefine(agent, judge, checkpointer=InMemorySaver(), durability=durability)
    refiner.refine("do it", THREAD)
    waiting = refiner.refine(Command(resume="yes"), THREAD)
    assert (waiting.answer, waiting.stop_reason, len(waiting.attempts)) == (None, "interrupted", 1)
    assert refiner.invoke(Command(resume="no"), THREAD).text == "refunded"
    results = [[one.content for one in sample.steps if one.role == "tool"] for sample in judge.samples]
    assert results == [["pay: yes"], ["refund: no"]]


def test_a_tool_cannot_ask_a_human_without_a_checkpointer() -> None:
    """Without a checkpointer there is nothing to resume, which is told rather than judged."""
    agent = create_agent(
        ScriptedModel([ToolCall(name="approve", args={"action": "pay"}), "paid"]), tools=[approve]
    )
    with pytest.raises(ConfigurationError, match="give the checkpointer to the "):
        SelfRefine(agent, ScriptedJudge([4])).invoke("pay it")


def test_a_tool_cannot_ask_a_human_in_a_memory_of_its_own() -> None:
    """An agent whose own checkpointer holds the interrupt could never be resumed through the loop: it says so."""
    model = ScriptedModel([ToolCall(name="approve", args={"action": "pay"}), "paid"])
    agent = create_agent(model, tools=[approve], checkpointer=InMemorySaver())
    with pytest.raises(ConfigurationError, match="an agent inside none of its own"):
        SelfRefine(agent, ScriptedJudge([4]), checkpointer=InMemorySaver()).invoke("pay it", THREAD)


CONTEXTS = [Document("a text", metadata={"source": "a.txt"}), Document("another")]


@for_every(
    "answer_key, context_key",
    [
        ("answer", "context"),
        ("output", "contexts"),
        ("response", "retrieved_contexts"),
        ("result", "source_documents"),
        ("text", "documents"),
    ],
)
def test_contexts_of_a_rag_chain_reach_the_judge(answer_key: str, context_key: str) -> None:
    """A mapping of an answer and the documents behind it hands the documents to the judge."""
    judge = ScriptedJudge([4])
    outcome = SelfRefine(lambda _: {answer_key: "so it is", context_key: CONTEXTS}, judge).refine("what?")
    assert (judge.samples[0].response, judge.samples[0].retrieved_contexts) == ("so it is", ("a text", "another"))
    assert outcome.attempts[0].evidence == {"retrieved_contexts": ["a text", "another"]}


@pytest.mark.parametrize("context", ["one text", ["one text"], [{"content": "one text"}], [Document("one text")]])
def test_contexts_may_be_given_in_each_form(context: object) -> None:
    """Contexts are texts, documents, or Databricks' mappings, one or more."""
    judge = ScriptedJudge([4])
    SelfRefine(lambda _: {"answer": "yes", "context": context}, judge).invoke("what?")
    assert judge.samples[0].retrieved_contexts == ("one text",)


@pytest.mark.parametrize("context", [[], "", None, 7, [7], {"user": "Ann"}], ids=repr)
def test_what_is_no_context_is_left_out(context: object) -> None:
    """Something else under the name of the contexts is not shown to the judge, and breaks nothing."""
    judge = ScriptedJudge([4])
    SelfRefine(lambda _: {"answer": "yes", "context": context}, judge).invoke("what?")
    assert judge.samples[0].retrieved_contexts is None


def test_contexts_of_each_attempt_are_its_own() -> None:
    """What was retrieved for one attempt is not shown with another."""
    judge = ScriptedJudge([(1, "again"), 4])
    made = iter([{"answer": "one", "context": ["first"]}, {"answer": "two"}])
    SelfRefine(lambda _: next(made), judge).invoke("what?")
    assert [one.retrieved_contexts for one in judge.samples] == [("first",), None]


def test_a_rag_chain_of_runnables_is_taken() -> None:
    """A chain that assigns an answer next to its documents is a generator."""
    judge = ScriptedJudge([4])
    retrieve: Runnable[Any, Any] = RunnableLambda(lambda messages: {"context": CONTEXTS})
    answer: Runnable[Any, Any] = RunnableLambda(lambda given: AIMessage("so it is"))
    chain = retrieve | RunnablePassthrough.assign(answer=answer)
    assert SelfRefine(chain, judge).invoke("what?").text == "so it is"
    assert judge.samples[0].retrieved_contexts == ("a text", "another")


def test_a_mapping_with_messages_is_a_draft_with_steps() -> None:
    """A mapping with the whole conversation is read as what follows the question; a list is new messages."""

    def generate(messages: list[BaseMessage]) -> dict[str, Any]:
        steps = [AIMessage("", tool_calls=[{"name": "lookup", "args": {}, "id": "1"}])]
        return {"messages": [*messages, *steps, ToolMessage("found", tool_call_id="1"), AIMessage("so it is")]}

    (attempt,) = SelfRefine(generate, ScriptedJudge([4])).refine("what?").attempts
    assert (attempt.text, texts(list(attempt.steps))) == ("so it is", ["", "found"])
    made = [ToolMessage("found", tool_call_id="1"), AIMessage("so it is")]
    (attempt,) = SelfRefine(lambda _: made, ScriptedJudge([4])).refine("what?").attempts
    assert (attempt.text, texts(list(attempt.steps))) == ("so it is", ["found"])


def test_chunks_are_read_as_a_message() -> None:
    """A chunk of a message is an answer too."""
    assert (
        type(SelfRefine(lambda _: AIMessageChunk(content="yes"), ScriptedJudge([4])).invoke("what?")) is AIMessage
    )


@pytest.mark.parametrize(
    "made",
    [None, 7, {}, [], {"context": ["a"]}, {"answer": 7}, HumanMessage("yes"), {"messages": []}, b"yes", ["yes"]],
    ids=repr,
)
async def test_what_is_no_answer_is_refused(made: object) -> None:
    """A generator that returns nothing, or no answer, is an error that says what to return."""
    judge = ScriptedJudge([4])
    refiner = SelfRefine(lambda _: made, judge)
    with pytest.raises(DraftError, match="AIMessage"):
        refiner.invoke("what?")
    with pytest.raises(DraftError, match="AIMessage"):
        await refiner.arefine("what?")
    assert judge.samples == []


def test_a_conversation_that_did_not_go_on_is_refused() -> None:
    """A graph that hands back the question alone has not answered."""
    with pytest.raises(DraftError, match="do not end with an answer"):
        SelfRefine(lambda messages: {"messages": messages}, ScriptedJudge([4])).invoke("what?")


@pytest.mark.parametrize("empty", ["", " \n\t", AIMessage([]), {"answer": ""}], ids=repr)
def test_an_empty_draft_is_rated_without_the_judge(empty: object) -> None:
    """An empty draft gets rating 1 and a retry, and costs no judge call."""
    judge = ScriptedJudge([4])
    made = iter([empty, "an answer"])
    outcome = SelfRefine(lambda _: next(made), judge).refine("what?")
    assert [one.rating for one in outcome.attempts] == [1, 4]
    assert [one.response for one in judge.samples] == ["an answer"]


def test_a_turn_that_calls_a_tool_is_not_judged() -> None:
    """A chat model's tool call is handed on as it is, unjudged."""
    judge = ScriptedJudge([1])
    outcome = SelfRefine(ScriptedModel([call("it")]), judge).refine("what?")
    assert outcome.answer is not None
    assert outcome.answer.tool_calls[0]["args"] == {"subject": "it"}
    assert (outcome.stop_reason, outcome.passed, judge.samples) == ("skipped", False, [])


def test_a_conversation_that_ends_with_a_tool_is_answered() -> None:
    """The next turn, with the tool's result, is judged; the judge sees the result."""
    judge = ScriptedJudge([4])
    asked = [
        HumanMessage("what?"),
        AIMessage("", tool_calls=[{"name": "lookup", "args": {}, "id": "1"}]),
        ToolMessage("found", tool_call_id="1"),
    ]
    assert SelfRefine(ScriptedModel(["so it is"]), judge).invoke(asked).text == "so it is"
    assert [one.content for one in judge.samples[0].steps] == ["", "found"]


def test_the_first_prompt_is_the_conversation_itself() -> None:
    """The first attempt is sent the very messages that were asked."""
    asked = [HumanMessage("what?", id="1", additional_kwargs={"mine": True})]
    seen: list[list[BaseMessage]] = []

    def generate(messages: list[BaseMessage]) -> str:
        seen.append(messages)
        return "yes"

    SelfRefine(generate, ScriptedJudge([4])).invoke(asked)
    assert seen == [asked]


def test_a_temperature_reaches_a_bound_chat_model() -> None:
    """An override of the temperature is handed to a chat model, bound or not."""
    model = ScriptedModel(["one", "two"])
    policy = Policy(overrides={2: {"temperature": 0.9}})
    SelfRefine(model.bind(stop=["x"]), ScriptedJudge([(1, "again"), 4]), policy=policy).invoke("what?")
    assert [one.get("temperature") for one in model.settings] == [None, 0.9]


@pytest.mark.parametrize("door", [SelfRefine, self_refine])
@pytest.mark.parametrize("kind", ["function", "chain", "agent", "fallbacks", "branch"])
def test_a_temperature_for_what_has_none_is_refused(kind: str, door: Any) -> None:
    """An override that cannot work is an error before anything is spent, which says what to do instead."""
    model = ScriptedModel([])
    choices: dict[str, Any] = {
        "fallbacks": model.with_fallbacks([model]),
        "branch": RunnableBranch((lambda _: True, model), model),
    }
    generator = choices[kind] if kind in choices else GENERATORS[kind]()
    overrides: list[dict[int, Any]] = [
        {1: {"temperature": 0.9}},
        {3: {"temperature": 0.9}},
        {2: {"model": generator}, 3: {"temperature": 0.9}},
    ]
    for number, override in enumerate(overrides):
        with pytest.raises(ConfigurationError, match=r"can be overridden for a chat model.*override model="):
            door(generator if number < 2 else model, ScriptedJudge([4]), overrides=override)


def test_a_stronger_model_takes_over() -> None:
    """An override of the model answers from its attempt on, with the same prompt and feedback."""
    weak, strong = ScriptedModel(["weak"]), ScriptedModel(["strong", "stronger"])
    judge = ScriptedJudge([(1, "again"), (1, "again"), 4])
    outcome = SelfRefine(weak, judge, overrides={2: {"model": strong}}).refine("what?")
    assert [one.text for one in outcome.attempts] == ["weak", "strong", "stronger"]
    for first, note in map(texts, strong.prompts):
        assert (first, "again" in note) == ("what?", True)


def handing_over(*subjects: str) -> AIMessage:
    """Return calls of a tool whose result is the answer."""
    calls: list[Any] = [
        {"name": "hand_over", "args": {"subject": subject}, "id": subject, "type": "tool_call"}
        for subject in subjects
    ]
    return AIMessage("", tool_calls=calls)


@pytest.mark.parametrize("candidates", [1, 2])
def test_what_a_tool_gave_as_the_answer_is_handed_on(candidates: int) -> None:
    """It is not judged, and says so; the call stands in the steps, and results of several calls are joined."""
    for subjects, text in ((("a",), "handed over: a"), (("a", "b"), "handed over: a\n\nhanded over: b")):
        agent = create_agent(ScriptedModel([handing_over(*subjects)], cycle=True), [hand_over])
        refiner = SelfRefine(agent, ScriptedJudge([]), candidates=candidates)
        for outcome in (refiner.refine("what?"), asyncio.run(refiner.arefine("what?"))):
            assert outcome.answer is not None
            assert (outcome.answer.text, outcome.stop_reason) == (text, "skipped")
            assert outcome.detail.startswith("return_direct: ")
            assert outcome.attempts[0].tools[0] == {
                "name": "hand_over",
                "args": {"subject": "a"},
                "result": "handed over: a",
            }
            assert outcome.usage.calls == candidates
    after_a_draft = create_agent(ScriptedModel(["wrong", handing_over("a")]), [hand_over])
    outcome = SelfRefine(after_a_draft, ScriptedJudge([1])).refine("what?")
    assert (outcome.stop_reason, [attempt.text for attempt in outcome.attempts]) == (
        "skipped",
        ["wrong", "handed over: a"],
    )


def test_a_tool_that_failed_gives_no_answer() -> None:
    """Its error is feedback for the next attempt, and never released."""
    wrong: list[Any] = [{"name": "hand_over", "args": {}, "id": "1", "type": "tool_call"}]
    model = ScriptedModel([AIMessage("", tool_calls=wrong), handing_over("a")])
    outcome = SelfRefine(create_agent(model, [hand_over]), ScriptedJudge([])).refine("what?")
    assert outcome.answer is not None
    assert (outcome.answer.text, len(outcome.attempts)) == ("handed over: a", 2)
    assert "subject" in str(model.prompts[1][-1].text)
    model = ScriptedModel([AIMessage("", tool_calls=wrong)], cycle=True)
    assert SelfRefine(create_agent(model, [hand_over]), ScriptedJudge([])).refine("what?").answer is None
    refining = SelfRefineMiddleware(ScriptedJudge([]))
    result = create_agent(model, [hand_over], middleware=[refining]).invoke({"messages": [HumanMessage("what?")]})
    assert refining.outcome(result).detail.endswith("the tool failed")


def test_a_structured_answer_of_an_earlier_turn_is_not_taken_for_this_one() -> None:
    """A state that still holds one beside the result of a tool; one that the tool's call stands for is taken."""
    call = handing_over("a")
    result = ToolMessage("handed over: a", tool_call_id="a", name="hand_over")
    for stale in (Report(text="old"), {"text": "old"}):
        state = {"messages": [HumanMessage("what?"), call, result], "structured_response": stale}
        outcome = SelfRefine(lambda _, state=state: state, ScriptedJudge([])).refine("what?")
        assert outcome.answer is not None
        assert (outcome.answer.text, outcome.stop_reason) == ("handed over: a", "skipped")
    for fresh in (Report(text="new"), {"text": "new"}):
        calls: Any = [{"name": "Report", "args": {"text": "new"}, "id": "a", "type": "tool_call"}]
        state = {
            "messages": [HumanMessage("what?"), AIMessage("", tool_calls=calls), result],
            "structured_response": fresh,
        }
        judge = ScriptedJudge([4])
        SelfRefine(lambda _, state=state: state, judge).refine("what?")
        assert judge.samples[0].response == '{"text":"new"}'
