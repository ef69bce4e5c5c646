"""`SelfRefine` stands wherever a chat model or an agent stood."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
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

from graphs import InputError, NotAccepted
from judges import ConfigurationError, Sample, Verdict
from judges.messages import ToolCall
from judges.offline import evaluate
from judges.testing import ScriptedJudge, ScriptedModel
from refine import Attempt, Outcome, Policy, SelfRefine


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
    """It is a LangChain runnable, with the name it was given."""
    assert isinstance(refiner(), Runnable)
    assert (refiner().get_name(), refiner(name="mine").get_name()) == ("SelfRefine", "mine")


def test_it_describes_what_it_takes_and_returns() -> None:
    """Its schemas name messages and states, for tools that read them."""
    assert "messages" in str(refiner().get_output_jsonschema())
    assert "HumanMessage" in str(refiner().get_input_jsonschema())


def test_invoke_answers() -> None:
    """`invoke` gives the accepted answer as a message."""
    answer = refiner().invoke("what?")
    assert type(answer) is AIMessage
    assert answer.text == "good"


async def test_ainvoke_answers() -> None:
    """`ainvoke` does the same without blocking."""
    assert (await refiner().ainvoke("what?")).text == "good"


def test_batch_answers_each() -> None:
    """`batch` answers each question, in order."""
    assert [one.text for one in echoing().batch(["a", "b", "c"])] == ["re: a", "re: b", "re: c"]


async def test_abatch_answers_each() -> None:
    """`abatch` does the same without blocking."""
    assert [one.text for one in await echoing().abatch(["a", "b", "c"])] == ["re: a", "re: b", "re: c"]


def test_batch_gives_errors_where_asked() -> None:
    """With `return_exceptions` a bad question costs the others nothing."""
    answers: Sequence[Any] = echoing().batch(["a", "", "c"], return_exceptions=True)
    assert isinstance(answers[1], InputError)
    assert [answers[0].text, answers[2].text] == ["re: a", "re: c"]


def test_batch_takes_evidence_for_all() -> None:
    """Keyword arguments of `batch` reach each question."""
    judge = ScriptedJudge([4], cycle=True)
    SelfRefine(lambda _: "yes", judge).batch(["a", "b"], evidence={"reference": "truth"})
    assert [one.reference for one in judge.samples] == ["truth", "truth"]


def test_it_stands_between_a_prompt_and_a_parser() -> None:
    """A chain `prompt | refiner | parser` works as with a chat model."""
    chain = ChatPromptTemplate([("user", "{question}")]) | echoing() | StrOutputParser()
    assert chain.invoke({"question": "what?"}) == "re: what?"
    assert chain.batch([{"question": "a"}, {"question": "b"}]) == ["re: a", "re: b"]


async def test_it_stands_in_a_chain_async() -> None:
    """The same without blocking."""
    chain = PromptTemplate.from_template("{question}!") | echoing() | StrOutputParser()
    assert await chain.ainvoke({"question": "what?"}) == "re: what?!"


def test_it_stands_before_and_after_functions() -> None:
    """Functions and mappings around it are made runnables, as for any other."""
    chain = (lambda text: text.upper()) | echoing() | (lambda answer: answer.text)
    assert chain.invoke("what?") == "re: WHAT?"
    both = RunnableParallel(answer=echoing(), question=RunnablePassthrough()).invoke("what?")
    assert (both["answer"].text, both["question"]) == ("re: what?", "what?")


def test_with_config_reaches_the_run() -> None:
    """Tags, metadata and a run name given by `with_config` are those of the run."""
    seen = Seen()
    configured = refiner().with_config(tags=["t"], metadata={"m": 1}, run_name="named", callbacks=[seen])
    assert configured.invoke("what?").text == "good"
    name, tags, metadata = seen.runs[0]
    assert (name, tags, metadata["m"]) == ("named", ["t"], 1)


def test_bind_hands_on_evidence() -> None:
    """`bind` fixes a keyword argument."""
    judge = ScriptedJudge([4])
    SelfRefine(lambda _: "yes", judge).bind(evidence={"reference": "truth"}).invoke("what?")
    assert judge.samples[0].reference == "truth"


def test_with_retry_asks_again() -> None:
    """`with_retry` asks again after an error."""
    model = ScriptedModel([OSError("down"), "yes"])
    retrying = SelfRefine(model, ScriptedJudge([4])).with_retry(
        stop_after_attempt=2, wait_exponential_jitter=False
    )
    assert retrying.invoke("what?").text == "yes"


def test_with_fallbacks_asks_another() -> None:
    """`with_fallbacks` asks another runnable after an error."""
    strict = SelfRefine(lambda _: "bad", ScriptedJudge([1]), max_attempts=1, on_exhausted="raise")
    other: Runnable[Any, AIMessage] = RunnableLambda(lambda _: AIMessage("sorry"))
    assert strict.with_fallbacks([other]).invoke("what?").text == "sorry"


def test_it_can_be_a_fallback() -> None:
    """It stands in for a chat model that failed."""
    assert ScriptedModel([OSError("down")]).with_fallbacks([echoing()]).invoke("what?").text == "re: what?"


@pytest.mark.filterwarnings("ignore::langchain_core._api.beta_decorator.LangChainBetaWarning")
def test_it_is_a_tool() -> None:
    """`as_tool` makes a tool of it."""
    tool = echoing().as_tool(name="ask", description="Ask.", arg_types={"messages": list})
    (answer,) = tool.invoke({"messages": [("user", "what?")]})["messages"]
    assert answer.text == "re: what?"


MESSAGES: list[AnyMessage] = [SystemMessage("be kind"), HumanMessage("what?")]

QUESTIONS: dict[str, Any] = {
    "messages": MESSAGES,
    "tuple of messages": tuple(MESSAGES),
    "pairs": [("system", "be kind"), ("user", "what?")],
    "dicts": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "what?"}],
    "prompt value": ChatPromptValue(messages=MESSAGES),
    "mapping": {"messages": MESSAGES},
    "mapping of pairs": {"messages": [("system", "be kind"), ("user", "what?")]},
}


@pytest.mark.parametrize("form", QUESTIONS)
def test_a_conversation_is_read_in_each_form(form: str) -> None:
    """A conversation is taken in each form LangChain knows."""
    model = ScriptedModel(["yes"])
    SelfRefine(model, ScriptedJudge([4])).invoke(QUESTIONS[form])
    assert [(one.type, one.text) for one in model.prompts[0]] == [("system", "be kind"), ("human", "what?")]


TEXTS: dict[str, Any] = {
    "text": "what?",
    "message": HumanMessage("what?"),
    "text prompt value": StringPromptValue(text="what?"),
    "mapping of text": {"messages": "what?"},
}


@pytest.mark.parametrize("form", TEXTS)
def test_a_question_is_read_in_each_form(form: str) -> None:
    """A single question is a text, a message or a prompt value."""
    model = ScriptedModel(["yes"])
    SelfRefine(model, ScriptedJudge([4])).invoke(TEXTS[form])
    assert [(one.type, one.text) for one in model.prompts[0]] == [("human", "what?")]


def test_a_text_with_braces_is_a_text() -> None:
    """A question is never a template."""
    model = ScriptedModel(["yes"])
    SelfRefine(model, ScriptedJudge([4])).invoke("what is {x} and {{y}}, %s?")
    assert model.prompts[0][0].text == "what is {x} and {{y}}, %s?"


def test_evidence_in_the_mapping_reaches_the_judge() -> None:
    """A mapping may hold evidence next to the messages."""
    judge = ScriptedJudge([4])
    SelfRefine(lambda _: "yes", judge).invoke({"messages": "what?", "evidence": {"reference": "truth"}})
    assert judge.samples[0].reference == "truth"


async def test_evidence_as_an_argument_reaches_the_judge() -> None:
    """Every entrance takes evidence as an argument."""
    judge = ScriptedJudge([4], cycle=True)
    inner = SelfRefine(lambda _: "yes", judge)
    evidence = {"retrieved_contexts": ["a text"]}
    inner.invoke("what?", evidence=evidence)
    inner.refine("what?", evidence=evidence)
    list(inner.stream("what?", evidence=evidence))
    await inner.ainvoke("what?", evidence=evidence)
    await inner.arefine("what?", evidence=evidence)
    assert [one async for one in inner.astream("what?", evidence=evidence)]
    assert [one.retrieved_contexts for one in judge.samples] == [("a text",)] * 6


@pytest.mark.parametrize(
    ("given", "message"),
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
    with pytest.raises(InputError, match=message):
        inner.invoke(given)
    with pytest.raises(InputError, match=message):
        await inner.ainvoke(given)
    with pytest.raises(InputError, match=message):
        inner.refine(given)
    with pytest.raises(InputError, match=message):
        await inner.arefine(given)
    with pytest.raises(InputError, match=message):
        list(inner.stream(given))
    assert model.prompts == []


def test_a_command_without_a_checkpointer_is_refused() -> None:
    """A reviewer's decision has nothing to resume without a checkpointer, as LangGraph says."""
    with pytest.raises((RuntimeError, ConfigurationError), match="without checkpointer"):
        refiner().invoke(Command(resume="accept"))


def test_the_outcome_tells_all() -> None:
    """An outcome holds the answer, whether it passed, why it stopped, and each attempt with its verdict."""
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


@pytest.mark.parametrize("kept", [None, InMemorySaver()], ids=["plain", "kept"])
def test_an_outcome_is_json(kept: Any) -> None:
    """An outcome, tool steps and evidence included, is written as JSON and read back the same."""
    messages = [AIMessage("", tool_calls=[{"name": "t", "args": {"a": 1}, "id": "1"}])]
    steps = [*messages, ToolMessage("found", tool_call_id="1"), AIMessage("yes", additional_kwargs={"k": [1]})]
    inner = SelfRefine(lambda _: steps, ScriptedJudge([(1, "again"), 4]), checkpointer=kept)
    config: Any = {"configurable": {"thread_id": "1"}}
    outcome = inner.refine("what?", config, evidence={"retrieved_contexts": ["a"], "reference": "truth"})
    text = outcome.model_dump_json()
    assert Outcome.model_validate_json(text) == outcome
    assert Outcome.model_validate(json.loads(text)) == outcome


def test_an_unanswered_outcome_is_json() -> None:
    """An outcome without an answer goes through JSON too."""
    outcome = SelfRefine(ScriptedModel([OSError("down")]), ScriptedJudge([4])).refine("what?")
    assert (outcome.answer, outcome.attempts, outcome.best) == (None, (), None)
    assert Outcome.model_validate_json(outcome.model_dump_json()) == outcome


def test_an_outcome_cannot_be_changed() -> None:
    """Outcomes and attempts are immutable."""
    outcome = refiner().refine("what?")
    for one in (outcome, outcome.attempts[0]):
        with pytest.raises(ValueError, match="frozen"):
            one.passed = False  # type: ignore[union-attr]  # that is the point


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
    """`response_metadata["refine"]` sums up how the answer came about, as JSON."""
    summary = refiner().invoke("what?").response_metadata["refine"]
    assert json.loads(json.dumps(summary)) == summary
    assert set(summary) == {
        "outcome_id",
        "passed",
        "stop_reason",
        "detail",
        "rating",
        "rationale",
        "attempts",
        "usage",
        "latency_s",
    }
    assert (summary["passed"], summary["stop_reason"], summary["rating"]) == (True, "accepted", 4)
    assert [(one["number"], one["rating"]) for one in summary["attempts"]] == [(1, 1), (2, 4)]
    assert summary["usage"]["calls"] == 2


@pytest.mark.parametrize(
    ("settings", "ratings", "rating"),
    [
        ({"on_exhausted": "best"}, [2, 1], 2),
        ({"on_exhausted": "last"}, [2, 1], 1),
        ({"on_exhausted": "fallback", "fallback": "sorry"}, [2, 1], None),
    ],
    ids=["best", "last", "fallback"],
)
def test_the_summarys_rating_is_that_of_the_answer(settings: Any, ratings: list[int], rating: int | None) -> None:
    """The rating in the metadata is the one of the released answer; a fallback has none."""
    model = ScriptedModel(["first", "second"])
    answer = SelfRefine(model, ScriptedJudge(ratings), max_attempts=2, **settings).invoke("what?")
    assert answer.response_metadata["refine"]["rating"] == rating


def test_the_answer_has_a_fresh_id() -> None:
    """The released message has an id of its own, another one each time."""
    inner = SelfRefine(lambda _: AIMessage("yes", id="mine"), ScriptedJudge([4], cycle=True))
    assert len({inner.invoke("what?").id, inner.invoke("what?").id, "mine", None}) == 4


def test_the_outcomes_answer_is_the_invoked_one() -> None:
    """`refine` and `invoke` give the same message, summary included."""
    outcome = refiner().refine("what?")
    assert outcome.answer is not None
    assert outcome.answer.response_metadata["refine"]["attempts"][1]["rating"] == 4


def test_policy_as_settings_or_as_a_policy() -> None:
    """A policy is given whole or as settings."""
    policy = Policy(success_rating=4, max_attempts=7)
    assert refiner(policy=policy).policy == refiner(success_rating=4, max_attempts=7).policy == policy


def test_policy_and_settings_together_are_refused() -> None:
    """Both at once is an error that names the settings."""
    with pytest.raises(ConfigurationError, match=r"not both .*\['max_attempts', 'patience'\]"):
        refiner(policy=Policy(), patience=1, max_attempts=2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sucess_rating": 4}, "did you mean 'success_rating'"),
        ({"nonsense": 4}, "known are"),
        ({"success_rating": 5}, r"success_rating: .*given 5"),
        ({"max_attempts": 0}, r"max_attempts: .*given 0"),
        ({"on_exhausted": "fallback"}, "needs fallback="),
    ],
)
def test_a_setting_that_is_no_policy_is_refused(settings: dict[str, Any], message: str) -> None:
    """An unknown or impossible setting is one error, when the refiner is made."""
    with pytest.raises(ConfigurationError, match=message):
        refiner(**settings)


def test_attempts_are_recorded(tmp_path: Path) -> None:
    """With `record` each attempt is one JSON line, a row of a dataset, for its owner's eyes alone."""
    path = tmp_path / "attempts.jsonl"
    inner = refiner(record=path)
    inner.invoke("first?")
    inner.invoke("second?")
    rows = [Sample.model_validate_json(line) for line in path.read_text("utf-8").splitlines()]
    fields = [(one.question, one.response, one.metadata["attempt"], one.metadata["rating"]) for one in rows]
    assert fields == [
        ("first?", "bad", 1, 1),
        ("first?", "good", 2, 4),
        ("second?", "bad", 1, 1),
        ("second?", "good", 2, 4),
    ]
    assert path.stat().st_mode & 0o777 == 0o600


async def test_attempts_of_refused_runs_are_recorded(tmp_path: Path) -> None:
    """A run that raises is recorded too, sync and async."""
    path = tmp_path / "attempts.jsonl"
    judge = ScriptedJudge([1], cycle=True)
    strict = SelfRefine(lambda _: "bad", judge, max_attempts=1, on_exhausted="raise", record=str(path))
    with pytest.raises(NotAccepted):
        strict.invoke("what?")
    with pytest.raises(NotAccepted):
        await strict.arefine("what?")
    assert len(path.read_text("utf-8").splitlines()) == 2


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


def test_the_public_names() -> None:
    """The names a user imports from here."""
    assert Attempt.__name__ == "Attempt"
    assert Outcome.__name__ == "Outcome"


@pytest.mark.parametrize("door", ["invoke", "stream", "refine"])
def test_a_setting_that_nobody_reads_is_refused(door: str) -> None:
    """A model's setting given with the question would be lost; it is refused, with the place where it belongs."""
    refiner = SelfRefine(ScriptedModel(["yes"]), ScriptedJudge([4]))
    with pytest.raises(ConfigurationError, match=r"takes no \['stop'\] with a question; bind"):
        list(getattr(refiner, door)("what?", stop=["x"]))
