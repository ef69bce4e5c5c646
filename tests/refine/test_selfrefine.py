"""`SelfRefine` stands wherever a chat model or an agent stood."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompt_values import ChatPromptValue, StringPromptValue
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_core.runnables import (
    Runnable,
    RunnableConfig,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from graphs import InputError
from judges import ConfigurationError, Verdict
from judges.messages import ToolCall
from judges.offline import evaluate
from judges.testing import ScriptedJudge, ScriptedModel
from refine import Outcome, Policy, SelfRefine
from tests.laws import for_every


def refiner(**settings: Any) -> SelfRefine:
    """Make a refiner that refuses the first draft of each question and accepts the second."""
    model = ScriptedModel(["bad", "good"], cycle=True)
    return SelfRefine(model, ScriptedJudge([(1, "be good"), (4, "")], cycle=True), **settings)


def echoing(**settings: Any) -> SelfRefine:
    """Make a refiner that answers with the question and accepts it."""
    return SelfRefine(lambda messages: f"re: {messages[-1].text}", lambda response: True, **settings)


class Seen(BaseCallbackHandler):
    """Remembers what a caller's configuration became."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, list[str], dict[str, Any]]] = []

    def on_chain_start(self, serialized: Any, inputs: Any, **options: Any) -> None:
        """Note a run."""
        self.runs.append((options.get("name", ""), options.get("tags") or [], options.get("metadata") or {}))


def test_it_is_a_runnable() -> None:
    """It has the name it was given, and schemas that name messages and states, for tools that read them."""
    assert isinstance(refiner(), Runnable)
    assert (refiner().get_name(), refiner(name="mine").get_name()) == ("SelfRefine", "mine")
    assert "messages" in str(refiner().get_output_jsonschema())
    assert "HumanMessage" in str(refiner().get_input_jsonschema())


async def test_every_entrance_answers() -> None:
    """`invoke` gives the accepted answer as a message, `batch` one for each question; errors where asked."""
    answer = refiner().invoke("what?")
    assert (type(answer), answer.text) == (AIMessage, "good")
    assert (await refiner().ainvoke("what?")).text == "good"
    several = echoing().batch(["a", "b", "c"]), await echoing().abatch(["a", "b", "c"])
    assert [[one.text for one in answers] for answers in several] == [["re: a", "re: b", "re: c"]] * 2
    first, wrong, third = echoing().batch(["a", "", "c"], return_exceptions=True)
    assert isinstance(wrong, InputError)
    assert [first.text, third.text] == ["re: a", "re: c"]


async def test_it_stands_in_chains() -> None:
    """Between a prompt and a parser, sync and async, between functions, and beside others."""
    chain = ChatPromptTemplate([("user", "{question}")]) | echoing() | StrOutputParser()
    assert chain.invoke({"question": "what?"}) == "re: what?"
    assert chain.batch([{"question": "a"}, {"question": "b"}]) == ["re: a", "re: b"]
    other = PromptTemplate.from_template("{question}!") | echoing() | StrOutputParser()
    assert await other.ainvoke({"question": "what?"}) == "re: what?!"
    functions = (lambda text: text.upper()) | echoing() | (lambda answer: answer.text)
    assert functions.invoke("what?") == "re: WHAT?"
    both = RunnableParallel(answer=echoing(), question=RunnablePassthrough()).invoke("what?")
    assert (both["answer"].text, both["question"]) == ("re: what?", "what?")


@pytest.mark.filterwarnings("ignore::langchain_core._api.beta_decorator.LangChainBetaWarning")
def test_what_langchain_makes_of_a_runnable_is_made_of_it() -> None:
    """Configured runs, retries, fallbacks on either side, and a tool."""
    seen = Seen()
    configured = refiner().with_config(tags=["t"], metadata={"m": 1}, run_name="named", callbacks=[seen])
    assert configured.invoke("what?").text == "good"
    name, tags, metadata = seen.runs[0]
    assert (name, tags, metadata["m"]) == ("named", ["t"], 1)
    down = ScriptedModel([OSError("down"), "yes"])
    retrying = SelfRefine(down, ScriptedJudge([4])).with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
    assert retrying.invoke("what?").text == "yes"
    strict = SelfRefine(lambda _: "bad", ScriptedJudge([1]), max_attempts=1, on_exhausted="raise")
    other: Runnable[Any, AIMessage] = RunnableLambda(lambda _: AIMessage("sorry"))
    assert strict.with_fallbacks([other]).invoke("what?").text == "sorry"
    assert ScriptedModel([OSError("down")]).with_fallbacks([echoing()]).invoke("what?").text == "re: what?"
    tool = echoing().as_tool(name="ask", description="Ask.", arg_types={"messages": list})
    (answer,) = tool.invoke({"messages": [("user", "what?")]})["messages"]
    assert answer.text == "re: what?"


MESSAGES: list[AnyMessage] = [SystemMessage("be kind"), HumanMessage("what?")]
PAIRS = [("system", "be kind"), ("human", "what?")]
ALONE = [("human", "what?")]
BRACES = "what is {x} and {{y}}, %s?"


@for_every(
    "given, read",
    [
        (MESSAGES, PAIRS),
        (tuple(MESSAGES), PAIRS),
        ([("system", "be kind"), ("user", "what?")], PAIRS),
        ([{"role": "system", "content": "be kind"}, {"role": "user", "content": "what?"}], PAIRS),
        (ChatPromptValue(messages=MESSAGES), PAIRS),
        ({"messages": MESSAGES}, PAIRS),
        ({"messages": [("system", "be kind"), ("user", "what?")]}, PAIRS),
        ("what?", ALONE),
        (HumanMessage("what?"), ALONE),
        (StringPromptValue(text="what?"), ALONE),
        ({"messages": "what?"}, ALONE),
        (BRACES, [("human", BRACES)]),
    ],
)
def test_a_question_is_read_in_each_form(given: Any, read: Any) -> None:
    """A conversation or a single question is taken in each form LangChain knows; a text is never a template."""
    model = ScriptedModel(["yes"])
    SelfRefine(model, ScriptedJudge([4])).invoke(given)
    assert [(one.type, one.text) for one in model.prompts[0]] == read


async def test_evidence_reaches_the_judge() -> None:
    """Every entrance takes it as an argument, `batch` for all questions; a mapping may hold it, too."""
    judge = ScriptedJudge([4], cycle=True)
    inner = SelfRefine(lambda _: "yes", judge)
    evidence = {"retrieved_contexts": ["a text"]}
    inner.invoke("what?", evidence=evidence)
    inner.refine("what?", evidence=evidence)
    list(inner.stream("what?", evidence=evidence))
    await inner.ainvoke("what?", evidence=evidence)
    await inner.arefine("what?", evidence=evidence)
    assert [one async for one in inner.astream("what?", evidence=evidence)]
    inner.batch(["a", "b"], evidence=evidence)
    inner.invoke({"messages": "what?", "evidence": evidence})
    assert [one.retrieved_contexts for one in judge.samples] == [("a text",)] * 9


@for_every(
    "given, message",
    [
        ("", "no messages to answer"),
        (" \n", "no messages to answer"),
        ([], "no messages to answer"),
        ({"messages": []}, "no messages to answer"),
        ([AIMessage("that")], "an answer already"),
        ({}, "a question given as a mapping has 'messages'"),
        ({"question": "what?"}, r"not \['question'\]"),
        ({"messages": "what?", "context": []}, r"not \['context'\]"),
        (7, "cannot read 7 as a question"),
        (None, "cannot read None as a question"),
        ([("nobody", "what?")], "cannot read the messages"),
        ([7], "cannot read the messages"),
        ([{"text": "what?"}], "cannot read the messages"),
    ],
)
async def test_a_question_that_cannot_be_read_is_refused(given: Any, message: str) -> None:
    """What is no question is one clear error, at every entrance, before anything is called."""
    model = ScriptedModel(["yes"])
    inner = SelfRefine(model, ScriptedJudge([4]))
    for call in (inner.invoke, inner.refine, lambda question: list(inner.stream(question))):
        with pytest.raises(InputError, match=message):
            call(given)
    for acall in (inner.ainvoke, inner.arefine):
        with pytest.raises(InputError, match=message):
            await acall(given)
    assert model.prompts == []


def test_what_belongs_elsewhere_is_refused() -> None:
    """A model's setting, which nobody would read, and a decision, which resumes nothing without a checkpointer."""
    inner = SelfRefine(ScriptedModel(["yes"]), ScriptedJudge([4]))
    for door in ("invoke", "stream", "refine"):
        with pytest.raises(ConfigurationError, match=r"takes no \['stop'\] with a question; bind"):
            list(getattr(inner, door)("what?", stop=["x"]))
    with pytest.raises((RuntimeError, ConfigurationError), match="without checkpointer"):
        refiner().invoke(Command(resume="accept"))


def test_the_outcome_tells_all() -> None:
    """Answer, whether it passed, why it stopped, and each attempt with its verdict; nothing can be changed."""
    outcome = refiner().refine("what?")
    assert outcome.answer is not None
    assert (outcome.answer.text, outcome.passed, outcome.stop_reason) == ("good", True, "accepted")
    assert [(one.number, one.text, one.rating, one.feedback) for one in outcome.attempts] == [
        (1, "bad", 1, "be good"),
        (2, "good", 4, ""),
    ]
    assert outcome.best == outcome.attempts[1]
    assert outcome.usage.calls == 2
    assert outcome.latency_s > 0
    assert [one.text for one in outcome.conversation] == ["what?"]
    assert outcome.answer.response_metadata["refine"]["attempts"][1]["rating"] == 4
    for one in (outcome, outcome.attempts[0]):
        with pytest.raises(ValueError, match="frozen"):
            one.passed = False  # type: ignore[union-attr]  # that is the point


async def test_sync_async_and_the_graph_give_one_outcome() -> None:
    """Plain, async and checkpointed runs of one script give the same record, but for times and ids."""

    def bare(outcome: Outcome) -> object:
        attempts = [(one.number, one.text, one.rating, one.feedback, one.usage) for one in outcome.attempts]
        answer = None if outcome.answer is None else outcome.answer.text
        return answer, outcome.passed, outcome.stop_reason, attempts, outcome.usage, outcome.evidence

    evidence = {"reference": "truth"}
    kept: RunnableConfig = {"configurable": {"thread_id": "1"}}
    result = [
        refiner().refine("what?", evidence=evidence),
        await refiner().arefine("what?", evidence=evidence),
        refiner(checkpointer=InMemorySaver()).refine("what?", kept, evidence=evidence),
        await refiner(checkpointer=InMemorySaver()).arefine("what?", kept, evidence=evidence),
    ]
    assert [bare(one) for one in result] == [bare(result[0])] * 4


def test_the_verdict_is_the_judges_own() -> None:
    """An attempt's verdict is what the judge says when it is called with that sample."""
    judge = ScriptedJudge(lambda sample: Verdict.scored(0.9, rationale=f"about {sample.response}"))
    outcome = SelfRefine(lambda _: "yes", judge).refine("what?")
    again = judge(outcome.samples()[0])
    assert outcome.attempts[0].verdict is not None
    same = {"judge", "value", "score", "rating", "passed", "rationale", "feedback"}
    assert outcome.attempts[0].verdict.model_dump(include=same) == again.model_dump(include=same)


def test_an_outcome_is_json() -> None:
    """With tool steps and evidence, kept or not, and without an answer, it is written and read back the same."""
    messages = [AIMessage("", tool_calls=[{"name": "t", "args": {"a": 1}, "id": "1"}])]
    steps = [*messages, ToolMessage("found", tool_call_id="1"), AIMessage("yes", additional_kwargs={"k": [1]})]
    config: Any = {"configurable": {"thread_id": "1"}}
    for saver in (None, InMemorySaver()):
        inner = SelfRefine(lambda _: steps, ScriptedJudge([(1, "again"), 4]), checkpointer=saver)
        outcome = inner.refine("what?", config, evidence={"retrieved_contexts": ["a"], "reference": "truth"})
        text = outcome.model_dump_json()
        assert Outcome.model_validate_json(text) == Outcome.model_validate(json.loads(text)) == outcome
    outcome = SelfRefine(ScriptedModel([OSError("down")]), ScriptedJudge([4])).refine("what?")
    assert (outcome.answer, outcome.attempts, outcome.best) == (None, (), None)
    assert Outcome.model_validate_json(outcome.model_dump_json()) == outcome


def test_samples_judge_again_offline() -> None:
    """The attempts of an outcome are rows that the same judge rates the same offline."""

    def polite(response: str) -> tuple[int, str]:
        return (4, "") if "please" in response else (1, "say please")

    outcome = SelfRefine(ScriptedModel(["no", "please"]), polite).refine("what?")
    rows = outcome.samples()
    assert [one.metadata["rating"] for one in rows] == [1, 4]
    ratings = [next(iter(row.verdicts.values())).rating for row in evaluate(rows, polite).rows]
    assert ratings == [one.rating for one in outcome.attempts]


def test_the_answer_carries_a_summary() -> None:
    """`response_metadata["refine"]` sums up how the answer came about, as JSON; a message has an id of its own."""
    summary = refiner().invoke("what?").response_metadata["refine"]
    assert json.loads(json.dumps(summary)) == summary
    assert set(summary) == {
        *("outcome_id", "passed", "stop_reason", "detail", "rating", "rationale", "attempts", "usage"),
        "latency_s",
    }
    assert (summary["passed"], summary["stop_reason"], summary["rating"]) == (True, "accepted", 4)
    assert [(one["number"], one["rating"]) for one in summary["attempts"]] == [(1, 1), (2, 4)]
    assert summary["usage"]["calls"] == 2
    inner = SelfRefine(lambda _: AIMessage("yes", id="mine"), ScriptedJudge([4], cycle=True))
    assert len({inner.invoke("what?").id, inner.invoke("what?").id, "mine", None}) == 4


@for_every(
    "settings, rating",
    [
        ({"on_exhausted": "best"}, 2),
        ({"on_exhausted": "last"}, 1),
        ({"on_exhausted": "fallback", "fallback": "sorry"}, None),
    ],
)
def test_the_summarys_rating_is_that_of_the_answer(settings: Any, rating: int | None) -> None:
    """The rating in the metadata is the one of the released answer; a fallback has none."""
    model = ScriptedModel(["first", "second"])
    answer = SelfRefine(model, ScriptedJudge([2, 1]), max_attempts=2, **settings).invoke("what?")
    assert answer.response_metadata["refine"]["rating"] == rating


def test_policy_as_settings_or_as_a_policy() -> None:
    """A policy is given whole or as settings."""
    policy = Policy(success_rating=4, max_attempts=7)
    assert refiner(policy=policy).policy == refiner(success_rating=4, max_attempts=7).policy == policy


@for_every(
    "settings, message",
    [
        ({"policy": Policy(), "patience": 1, "max_attempts": 2}, r"not both .*\['max_attempts', 'patience'\]"),
        ({"sucess_rating": 4}, "did you mean 'success_rating'"),
        ({"nonsense": 4}, "known are"),
        ({"success_rating": 5}, r"success_rating: .*given 5"),
        ({"max_attempts": 0}, r"max_attempts: .*given 0"),
        ({"on_exhausted": "fallback"}, "needs fallback="),
    ],
)
def test_a_setting_that_is_no_policy_is_refused(settings: dict[str, Any], message: str) -> None:
    """Unknown, impossible, or beside a whole policy: one error, when the refiner is made."""
    with pytest.raises(ConfigurationError, match=message):
        refiner(**settings)


def test_a_tool_call_is_handed_on() -> None:
    """Bound to tools, it stands in an agent as a chat model: a tool call comes back unjudged."""
    model = ScriptedModel([ToolCall(name="weather", args={"city": "Oslo"})])
    answer = SelfRefine(model, ScriptedJudge([])).invoke("weather in Oslo?")
    assert answer.tool_calls[0]["name"] == "weather"
    assert answer.response_metadata["refine"]["stop_reason"] == "skipped"


def test_one_refiner_serves_many_questions() -> None:
    """Nothing of one question is left for the next."""
    seen: list[list[BaseMessage]] = []

    def generate(messages: list[BaseMessage]) -> str:
        seen.append(messages)
        return "bad" if len(messages) == 1 else "good"

    inner = SelfRefine(generate, lambda response: (4, "") if response == "good" else (False, "be good"))
    counts = [len(inner.refine(question).attempts) for question in ("a", "b", "c")]
    assert counts == [2, 2, 2]
    assert [len(one) for one in seen] == [1, 2] * 3
