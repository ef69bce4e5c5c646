"""The compiled graph: its picture, its input, its output, and the warning of a model that judges itself."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from langchain.chat_models import init_chat_model
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_store
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.memory import InMemoryStore

from graphs import GeneratorFailed, InputError, JudgeFailed, NotAccepted, Policy, SelfJudgingWarning, self_refine
from judges import BadSample, ConfigurationError, Helpfulness, Panel, Repeat
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine

ASKED: dict[str, Any] = {"messages": [("user", "what?")]}


def loop(**settings: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Make a loop that needs two attempts."""
    return self_refine(ScriptedModel(["one", "two"]), ScriptedJudge([(1, "again"), (4, "")]), **settings)


def test_the_picture_shows_the_ways() -> None:
    """The picture names all steps: the way back from the judge, over augment, and both ways to the end."""
    picture = loop().get_graph().draw_mermaid()
    assert all(re.search(rf"\b{step}\b", picture) for step in ("begin", "generate", "judge", "augment", "finish"))
    ways = {
        (edge.source, edge.target, "" if edge.data is None else str(edge.data).strip())
        for edge in loop().get_graph().edges
    }
    assert ways == {
        ("__start__", "generate", "begin"),
        ("generate", "judge", ""),
        ("generate", "finish", ""),
        ("judge", "generate", "augment"),
        ("judge", "finish", ""),
        ("finish", "__end__", ""),
    }


def test_the_graph_has_its_name() -> None:
    """The graph is called as asked."""
    assert (loop().name, loop(name="mine").name) == ("self_refine", "mine")


def test_the_answer_is_appended() -> None:
    """The conversation is kept as it was, and one message is added."""
    asked = [SystemMessage("be kind", id="1"), HumanMessage("what?", id="2")]
    messages = loop().invoke({"messages": asked})["messages"]
    assert messages[:2] == asked
    assert [one.text for one in messages[2:]] == ["two"]


def test_the_schemas_tell_what_goes_in_and_out() -> None:
    """The graph takes messages and evidence, and gives messages and a summary; the record is not part of it."""
    graph = loop()
    assert set(graph.get_input_jsonschema()["properties"]) == {"messages", "evidence"}
    assert set(graph.get_output_jsonschema()["properties"]) == {"messages", "refine"}


def test_metadata_of_the_draft_is_kept() -> None:
    """What the provider said about the answer stays next to the summary, which is that of the state."""
    state = loop().invoke(ASKED)
    answer = state["messages"][-1]
    assert state["refine"] == answer.response_metadata["refine"]
    assert (state["refine"]["passed"], state["refine"]["stop_reason"]) == (True, "accepted")
    assert answer.response_metadata["model_name"] == "scripted"
    assert answer.usage_metadata is not None


def test_the_drafts_own_message_is_not_changed() -> None:
    """The generator's message object is left as it was."""
    draft = AIMessage("yes", id="mine")
    self_refine(lambda _: draft, ScriptedJudge([4])).invoke(ASKED)
    assert draft == AIMessage("yes", id="mine")


@pytest.mark.parametrize(
    "evidence",
    [
        {"reference": "truth", "retrieved_contexts": ["a text"]},
        {"ground_truth": "truth", "contexts": ["a text"]},
        {"expected_response": "truth", "retrieved_context": [{"content": "a text", "doc_uri": "a.txt"}]},
    ],
    ids=["ragas", "others", "databricks"],
)
def test_evidence_reaches_the_judge_in_each_dialect(evidence: dict[str, Any]) -> None:
    """Evidence is read under each name that a sample knows, in every attempt."""
    judge = ScriptedJudge([(1, "again"), 4])
    self_refine(ScriptedModel(["one", "two"]), judge).invoke({**ASKED, "evidence": evidence})
    for sample in judge.samples:
        assert (sample.reference, sample.retrieved_contexts) == ("truth", ("a text",))


def test_evidence_stays_with_the_judge() -> None:
    """Evidence is neither sent to the generator nor part of the output."""
    model = ScriptedModel(["one", "two"])
    graph = self_refine(model, ScriptedJudge([(1, "it is the truth"), 4]))
    state = graph.invoke({**ASKED, "evidence": {"reference": "the truth"}})
    assert "truth" not in repr((model.prompts, state))


def test_evidence_cannot_replace_the_question() -> None:
    """Evidence that names a question or an answer of its own is not taken for those of the conversation."""
    judge = ScriptedJudge([4])
    evidence = {"question": "another?", "answer": "another", "reference": "truth"}
    self_refine(ScriptedModel(["one"]), judge).invoke({**ASKED, "evidence": evidence})
    sample = judge.samples[0]
    assert (sample.question, sample.response, sample.reference) == ("what?", "one", "truth")


def test_evidence_that_cannot_be_read_is_refused() -> None:
    """Evidence of a wrong type is an error that names the field, before anything is called."""
    model = ScriptedModel(["one"])
    with pytest.raises(BadSample, match="'reference'"):
        self_refine(model, ScriptedJudge([4])).invoke({**ASKED, "evidence": {"reference": 7}})
    assert model.prompts == []


@pytest.mark.parametrize("given", [{"messages": []}, {"evidence": {"reference": "truth"}}])
async def test_a_question_without_messages_is_refused(given: dict[str, Any]) -> None:
    """Without messages there is nothing to answer, and the error says what to give, sync and async."""
    with pytest.raises(InputError, match="no messages to answer; give at least one"):
        loop().invoke(given)
    with pytest.raises(InputError, match="no messages to answer; give at least one"):
        await loop().ainvoke(given)


def test_a_conversation_that_ends_with_an_answer_is_refused() -> None:
    """A conversation that ends with the assistant has no question left."""
    with pytest.raises(InputError, match="the last message is an answer already"):
        loop().invoke({"messages": [("user", "what?"), ("ai", "that")]})


def test_a_second_turn_without_a_message_is_refused() -> None:
    """Under a checkpointer a turn that adds nothing to the conversation has nothing to answer."""
    config: RunnableConfig = {"configurable": {"thread_id": "1"}}
    graph = loop(checkpointer=InMemorySaver())
    graph.invoke(ASKED, config)
    with pytest.raises(InputError, match="an answer already"):
        graph.invoke({"messages": []}, config)


@pytest.mark.parametrize(
    "last", [HumanMessage("what?"), ToolMessage("42", tool_call_id="1"), SystemMessage("go on")]
)
def test_any_other_last_message_is_answered(last: Any) -> None:
    """A user, a tool or a system message may come last."""
    assert loop().invoke({"messages": [last]})["messages"][-1].text == "two"


@pytest.mark.parametrize("judge", [None, 7, object(), int])
def test_what_cannot_judge_is_refused(judge: Any) -> None:
    """A thing that is no judge is refused when the graph is made."""
    with pytest.raises(ConfigurationError, match="cannot make a judge of"):
        self_refine(ScriptedModel(["one"]), judge)


def test_a_chat_model_is_no_judge() -> None:
    """A bare chat model is refused as a judge, with what to give instead."""
    with pytest.raises(ConfigurationError, match="give Helpfulness"):
        self_refine(ScriptedModel(["one"]), ScriptedModel(["two"]))
    with pytest.raises(ConfigurationError, match="give Helpfulness"):
        self_refine(ScriptedModel(["one"]), ScriptedModel(["two"]).with_fallbacks([ScriptedModel(["three"])]))


def test_several_judges_are_a_panel() -> None:
    """A list of judges is as strict as its strictest member."""
    graph = self_refine(ScriptedModel(["one", "two"]), [ScriptedJudge([4, 4]), lambda answer: answer == "two"])
    assert graph.invoke(ASKED)["messages"][-1].text == "two"


@pytest.mark.parametrize(
    ("settings", "judge", "error"),
    [
        ({"on_exhausted": "raise", "max_attempts": 2}, [1, 1], NotAccepted),
        ({"on_judge_error": "raise"}, [RuntimeError("down")], JudgeFailed),
    ],
)
def test_a_policy_that_raises_raises_from_the_graph(settings: Any, judge: list[Any], error: Any) -> None:
    """What the policy says to raise comes out of the graph, with the record."""
    graph = self_refine(ScriptedModel(["one", "two"]), ScriptedJudge(judge), policy=Policy(**settings))
    with pytest.raises(error) as raised:
        graph.invoke(ASKED)
    assert len(raised.value.outcome.attempts) == len(judge)


def test_a_failed_generator_raises_from_the_graph() -> None:
    """A generator that fails before there is an answer ends the graph with its error as the cause."""
    with pytest.raises(GeneratorFailed) as raised:
        self_refine(ScriptedModel([OSError("down")]), ScriptedJudge([4])).invoke(ASKED)
    assert isinstance(raised.value.__cause__, OSError)


def test_a_store_reaches_the_generator() -> None:
    """A LangGraph store is there for what runs inside."""
    store = InMemoryStore()
    store.put(("facts",), "sky", {"colour": "blue"})

    def generate(_: object) -> str:
        found = get_store().get(("facts",), "sky")
        return "?" if found is None else str(found.value["colour"])

    graph = self_refine(generate, ScriptedJudge([4]), store=store)
    assert graph.invoke(ASKED)["messages"][-1].text == "blue"


def test_a_callers_configuration_reaches_the_generator() -> None:
    """What a caller puts into `configurable` is there for a model or agent inside."""
    seen: list[Any] = []

    def generate(messages: Any, config: RunnableConfig) -> str:
        seen.append(config["configurable"].get("user"))
        return "one"

    config: RunnableConfig = {"configurable": {"user": "Ann"}}
    self_refine(RunnableLambda(generate), ScriptedJudge([4])).invoke(ASKED, config)
    assert seen == ["Ann"]


def test_a_small_recursion_limit_is_no_limit_of_attempts() -> None:
    """A caller's recursion limit that fits the loop's own steps is enough, whatever runs inside."""
    graph = self_refine(ScriptedModel(["one", "two"]), ScriptedJudge([(1, "again"), 4]))
    assert graph.invoke(ASKED, {"recursion_limit": 6})["messages"][-1].text == "two"


def judging(model: object) -> Helpfulness:
    """Make a judge that asks a model."""
    return Helpfulness(model)


SELVES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "same object": lambda: (model := ScriptedModel(["x"]), judging(model)),
    "same name": lambda: (
        init_chat_model("openai:m", api_key="k"),
        judging(init_chat_model("openai:m", api_key="k")),
    ),
    "same string": lambda: ("openai:gpt-5", judging("openai:gpt-5")),
    "bound": lambda: ((model := ScriptedModel(["x"])).bind(stop=["x"]), judging(model)),
    "judge asks a binding": lambda: (model := ScriptedModel(["x"]), judging(model.bind(stop=["x"]))),
    "in a panel": lambda: (model := ScriptedModel(["x"]), Panel([ScriptedJudge([4]), judging(model)])),
    "repeated": lambda: (model := ScriptedModel(["x"]), Repeat(judging(model))),
}


@pytest.mark.parametrize("which", SELVES)
def test_a_model_that_judges_itself_is_warned_of_once(which: str) -> None:
    """A judge that asks the very model that generates gets one warning, where the loop is made."""
    generator, judge = SELVES[which]()
    for made in (self_refine, SelfRefine):
        with pytest.warns(SelfJudgingWarning, match="judges favour their own answers") as warned:
            made(generator, judge)
        assert [warning.filename for warning in warned] == [__file__]


OTHERS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "another name": lambda: (ScriptedModel(["x"], name="a"), judging(ScriptedModel(["x"], name="b"))),
    "another script": lambda: (ScriptedModel(["x"]), judging(ScriptedModel(["x"]))),
    "another script of that name": lambda: (ScriptedModel(["x"], name="m"), judging(ScriptedModel([], name="m"))),
    "another string": lambda: ("openai:gpt-5", judging("openai:gpt-5-mini")),
    "another provider": lambda: ("openai:gpt-5", judging("azure_openai:gpt-5")),
    "no model": lambda: (ScriptedModel(["x"]), ScriptedJudge([4])),
    "a function": lambda: (lambda _: "x", judging(ScriptedModel(["x"]))),
}


@pytest.mark.parametrize("which", OTHERS)
def test_another_model_is_not_warned_of(which: str) -> None:
    """A judge that asks another model, or none, gets no warning."""
    generator, judge = OTHERS[which]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        self_refine(generator, judge)


def test_asking_does_not_warn_again() -> None:
    """The warning comes when the loop is made, not with every question."""
    model = ScriptedModel(["answer", {"rationale": "good", "rating": 4, "feedback": ""}])
    with pytest.warns(SelfJudgingWarning):
        graph = self_refine(model, judging(model))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert graph.invoke(ASKED)["messages"][-1].text == "answer"
