"""The scripted doubles follow their script and behave like a real model and a real judge."""

from __future__ import annotations

import json
import threading
from collections import Counter
from typing import Any, Literal

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from pydantic import BaseModel, Field

from judges import ConfigurationError, Sample, ToolCall, Verdict
from judges.models.resolve import as_embeddings
from judges.testing import ScriptedEmbeddings, ScriptedJudge, ScriptedModel, no_model_requests

HOWS = ("invoke", "ainvoke", "stream", "astream")
everyhow = pytest.mark.parametrize("how", HOWS)
SEARCH = {"name": "search", "description": "Search.", "parameters": {"type": "object", "properties": {}}}
LOOK = {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}}


async def reply_of(how: str, model: Any, prompt: object = "q") -> AIMessage:
    """Return a model's complete reply, through one of the four methods of a runnable."""
    reply: AIMessage
    if how == "invoke":
        reply = model.invoke(prompt)
        return reply
    if how == "ainvoke":
        reply = await model.ainvoke(prompt)
        return reply
    chunks = list(model.stream(prompt)) if how == "stream" else [chunk async for chunk in model.astream(prompt)]
    reply = sum(chunks[1:], start=chunks[0])
    return reply


class Grade(BaseModel):
    """A grade."""

    rating: Literal[1, 2, 3, 4] = Field(description="How good.")


BLANKS = ["", " ", "a  b ", " a\nb", "日本語 テキスト"]
SCRIPTS: list[tuple[Any, bool, list[str]]] = [
    (["one two", "three"], False, ["one two", "three"]),
    ("hello there", False, ["hello there"]),
    (BLANKS, False, BLANKS),
    (["a", "b"], True, ["a", "b", "a", "b", "a"]),
    (lambda messages: f"you said {messages[-1].text}", False, ["you said x"]),
]


@everyhow
async def test_each_call_takes_the_next_line(how: str) -> None:
    """A plain text is one line, blanks are kept, a cycle never ends, and a function receives the messages."""
    for script, cycle, texts in SCRIPTS:
        model = ScriptedModel(script, cycle=cycle)
        assert [(await reply_of(how, model, "x")).text for _ in texts] == texts


def test_one_line_that_is_no_list_is_the_whole_script() -> None:
    """A mapping or a message has keys or fields, which are no lines; a verdict likewise."""
    for line in (AIMessage("hi"), {"rating": 4}, ToolCall(name="f", args={}, id="c")):
        assert ScriptedModel(line).invoke("q").content == ScriptedModel([line]).invoke("q").content  # type: ignore[arg-type]  # one line
    assert ScriptedModel({"rating": 4}).invoke("q").text == '{"rating": 4}'  # type: ignore[arg-type]  # as above
    for mark in (Verdict.rated(2, feedback="No."), {"rating": 2, "feedback": "No."}):
        verdict = ScriptedJudge(mark)(question="q?", answer="a")  # type: ignore[arg-type]  # as above
        assert (verdict.rating, verdict.feedback) == (2, "No.")


def test_text_is_streamed_word_by_word() -> None:
    """A stream has a chunk of LangChain's per word, tool calls complete in the last one with content."""
    chunks = [chunk.text for chunk in ScriptedModel(["one two three"]).stream("q")]
    assert [text for text in chunks if text] == ["one ", "two ", "three"]
    *_, last = ScriptedModel([ToolCall(name="look", args={"a": 1})]).stream("q")
    assert isinstance(last, AIMessageChunk)
    assert [(call["name"], call["args"]) for call in last.tool_calls] == [("look", {"a": 1})]


@everyhow
async def test_message_is_given_with_all_it_has(how: str) -> None:
    """An `AIMessage` of the script keeps metadata, refusal and usage."""
    line = AIMessage(
        "a b",
        additional_kwargs={"refusal": "no"},
        response_metadata={"finish_reason": "length", "model_name": "m-1"},
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    )
    reply = await reply_of(how, ScriptedModel([line]))
    assert (reply.text, reply.additional_kwargs["refusal"]) == ("a b", "no")
    assert (reply.response_metadata["finish_reason"], reply.response_metadata["model_name"]) == ("length", "m-1")
    assert reply.usage_metadata == line.usage_metadata


def test_script_is_not_changed_by_who_uses_a_reply() -> None:
    """Every reply is a message of its own."""
    line = AIMessage("a")
    model = ScriptedModel([line], cycle=True)
    first = model.invoke("q")
    first.content = "changed"
    assert (model.invoke("q").text, line.content, line.usage_metadata) == ("a", "a", None)


@everyhow
async def test_tool_calls_are_given(how: str) -> None:
    """A call, or a list of calls, is a message with these calls, numbered where they have no id."""
    model = ScriptedModel([[ToolCall(name="search", args={"q": [1]}), ToolCall(name="look", id="x")]])
    calls = (await reply_of(how, model.bind_tools([SEARCH, LOOK]))).tool_calls
    fields = [(call["name"], call["args"], call["id"]) for call in calls]
    assert fields == [("search", {"q": [1]}, "call_1"), ("look", {}, "x")]


@everyhow
@pytest.mark.parametrize("line", [{"rating": 3}, Grade(rating=3)], ids=["mapping", "object"])
async def test_structured_line_is_a_call_of_the_chosen_tool(how: str, line: object) -> None:
    """With tools bound, a structured reply calls the chosen tool, else the first; without tools it is text."""
    model = ScriptedModel([line], cycle=True)
    for choice, name in ((None, "search"), ("Grade", "Grade"), ("any", "search")):
        (call,) = (await reply_of(how, model.bind_tools([SEARCH, Grade], tool_choice=choice))).tool_calls
        assert (call["name"], call["args"]) == (name, {"rating": 3})
    assert json.loads((await reply_of(how, model)).text) == {"rating": 3}
    assert json.loads((await reply_of(how, ScriptedModel([{"é": 3}]))).text) == {"é": 3}


async def test_structured_output_works_as_with_any_model() -> None:
    """LangChain's `with_structured_output` reads the scripted reply."""
    grader = ScriptedModel([{"rating": 2}, {"rating": 4}]).with_structured_output(Grade)
    assert grader.invoke("q") == Grade(rating=2)
    assert await grader.ainvoke("q") == Grade(rating=4)


@everyhow
@pytest.mark.parametrize("line", [TimeoutError("slow"), TimeoutError], ids=["object", "class"])
async def test_exception_is_raised(how: str, line: object) -> None:
    """A fault is raised when its line is due, and the script continues after it."""
    model = ScriptedModel([line, "fine"])
    with pytest.raises(TimeoutError):
        await reply_of(how, model)
    assert (await reply_of(how, model)).text == "fine"


@everyhow
@pytest.mark.parametrize(("script", "cycle"), [(["a"], False), ([], False), ([], True)])
async def test_script_that_ran_out_says_so(how: str, script: list[str], cycle: bool) -> None:  # noqa: FBT001
    """One call more than there are lines is a configuration error."""
    model = ScriptedModel(script, cycle=cycle, name="short")
    for _ in script:
        await reply_of(how, model)
    with pytest.raises(ConfigurationError, match=rf"'short' has run out after {len(script)} lines"):
        await reply_of(how, model)


@pytest.mark.parametrize("line", [4, None, [], ["text"], b"bytes"], ids=repr)
def test_line_of_no_known_kind_is_refused(line: object) -> None:
    """The error shows the line and lists what a line may be."""
    with pytest.raises(ConfigurationError, match="a script's line is"):
        ScriptedModel([line]).invoke("q")


def test_prompts_and_settings_are_remembered() -> None:
    """Tests can inspect the prompts of a model and the settings of its calls; one that fails is a call, too."""
    model = ScriptedModel(["a", "b", TimeoutError])
    model.invoke([HumanMessage("one")])
    model.bind(temperature=0.5, seed=1).invoke([HumanMessage("two"), ToolMessage("three", tool_call_id="1")])
    with pytest.raises(TimeoutError):
        model.invoke("four")
    texts = [[message.text for message in prompt] for prompt in model.prompts]
    assert texts == [["one"], ["two", "three"], ["four"]]
    assert model.settings == [{}, {"temperature": 0.5, "seed": 1}, {}]


@everyhow
async def test_tokens_are_words(how: str) -> None:
    """Usage counts blank-separated words, so that budgets have something to count."""
    reply = await reply_of(how, ScriptedModel(["one two three"], name="m-1"), "four words are here")
    assert reply.usage_metadata is not None
    assert (reply.usage_metadata["input_tokens"], reply.usage_metadata["output_tokens"]) == (4, 3)
    assert reply.response_metadata["model_name"] == "m-1"


def test_two_hundred_threads_share_a_script() -> None:
    """Every line is used once, and every call is recorded with its own settings."""
    model = ScriptedModel([str(number) for number in range(200)])
    replies: list[str] = []

    def ask(number: int) -> None:
        replies.append(model.bind(number=number).invoke(str(number)).text)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(replies) == Counter(map(str, range(200)))
    pairs = zip(model.prompts, model.settings, strict=True)
    assert all(prompt[0].text == str(settings["number"]) for prompt, settings in pairs)


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize(
    ("line", "rating", "feedback"),
    [
        (4, 4, ""),
        (True, 4, ""),
        (False, 1, ""),
        (0.5, 3, ""),
        ((2, "say more"), 2, "say more"),
        ({"rating": 3, "feedback": "f"}, 3, "f"),
        (Verdict.rated(2, feedback="f"), 2, "f"),
        (Verdict.without_score("no_claims"), None, ""),
    ],
    ids=repr,
)
async def test_judge_reads_what_a_function_may_return(
    how: str, line: object, rating: int | None, feedback: str
) -> None:
    """A line of a judge's script is a verdict in any of the accepted forms."""
    judge = ScriptedJudge([line], name="j")
    verdict = judge(response="a") if how == "sync" else await judge.acall(response="a")
    assert (verdict.rating, verdict.feedback, verdict.judge) == (rating, feedback, "j")


@pytest.mark.parametrize(
    ("line", "unscored"),
    [(RuntimeError("secret"), "judge_failed"), (RuntimeError, "judge_failed"), ("fine", "invalid_output")],
    ids=["object", "class", "no verdict"],
)
def test_judges_exception_is_an_unscored_verdict(line: object, unscored: str) -> None:
    """An exception in the script simulates a broken judge; a line that is no verdict is that of a function."""
    verdict = ScriptedJudge([line])(response="a")
    assert verdict.unscored == unscored
    assert ("RuntimeError" in verdict.detail) is (unscored == "judge_failed")
    assert "secret" not in verdict.detail


def test_judges_script_may_be_a_function_or_a_cycle() -> None:
    """A function receives the sample; a cycle never ends; one that ran out is an error; samples are remembered."""
    by_length = ScriptedJudge(lambda sample: len(sample.answer or ""))
    assert [by_length(response=text).rating for text in ("a", "abcd")] == [1, 4]
    assert by_length.samples == [Sample(response="a"), Sample(response="abcd")]
    alternating = ScriptedJudge([1, 4], cycle=True)
    assert [alternating(response="a").rating for _ in range(3)] == [1, 4, 1]
    with pytest.raises(ConfigurationError, match="run out"):
        ScriptedJudge([])(response="a")


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_embeddings_follow_their_script(how: str) -> None:
    """A vector for each text, in order, or a function's; the texts of every request are recorded."""
    model = ScriptedEmbeddings({"a": [1, 0], "b": [0.5, 2]})
    vectors = model.embed_documents(["b", "a"]) if how == "sync" else await model.aembed_documents(["b", "a"])
    assert vectors == [[0.5, 2.0], [1.0, 0.0]]
    assert (model.embed_query("a") if how == "sync" else await model.aembed_query("a")) == [1.0, 0.0]
    assert model.batches == [["b", "a"], ["a"]]
    assert ScriptedEmbeddings(lambda text: [len(text), 1]).embed_documents(["", "abc"]) == [[0.0, 1.0], [3.0, 1.0]]


@pytest.mark.parametrize(("script", "text"), [({"a": [1]}, "b"), ({}, "b"), ({"b": "1, 2"}, "b"), ({"b": 1}, "b")])
def test_text_without_a_vector_is_a_mistake_in_the_script(script: dict[str, object], text: str) -> None:
    """It is an error, never embedded as something else; an exception in its place is raised, as by a provider."""
    with pytest.raises(ConfigurationError, match=r"'b'|vector"):
        ScriptedEmbeddings(script).embed_documents([text])
    for line in (TimeoutError("slow"), TimeoutError):
        with pytest.raises(TimeoutError):
            ScriptedEmbeddings({**script, text: line}).embed_query(text)


def test_scripted_embeddings_answer_where_requests_are_forbidden() -> None:
    """The guard allows them, and the embeddings report their own name."""
    model = as_embeddings(ScriptedEmbeddings({"a": [1, 0]}, name="e"))
    with no_model_requests():
        response = model.embed(["a"])
    assert (response.vectors, response.model, model.name) == ([[1.0, 0.0]], "e", "e")
