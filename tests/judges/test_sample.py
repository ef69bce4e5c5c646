"""A sample accepts every known dialect and converts it to one type."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from pydantic import ValidationError

from judges import BadSample, Message, Sample, ToolCall, as_judge, discrete, load
from judges.offline import evaluate
from judges.testing import ScriptedModel
from tests.laws import for_every

TOOL_CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
    ],
}
TOOL_RESULT = {"role": "tool", "tool_call_id": "c1", "name": "weather", "content": "15 C"}
QUESTION = {"role": "user", "content": "How warm is Paris?"}
ANSWER = {"role": "assistant", "content": "15 C."}
AGENT_TURN = [QUESTION, TOOL_CALL, TOOL_RESULT, ANSWER]


@pytest.mark.parametrize(
    ("field", "names"),
    [
        ("user_input", ["user_input", "question", "query", "request", "input", "inputs"]),
        ("response", ["response", "answer", "output", "outputs", "prediction"]),
        ("reference", ["reference", "expected_response", "ground_truth", "reference_outputs"]),
    ],
)
def test_a_field_is_read_under_every_name(field: str, names: list[str]) -> None:
    """Each dialect's name for question, answer and expected answer fills the field."""
    for name in names:
        assert getattr(Sample.read({name: "Why?"}), field) == "Why?", name


def test_a_row_of_plain_values_is_read_like_any_other() -> None:
    """A nested column beside them, of which a row is looked through, changes nothing but the metadata."""
    rows: list[dict[str, Any]] = [
        {"question": "Why?", "answer": "Because.", "id": 7},
        {"question": "Why?", "query": "Who?", "answer": None, "output": "Because.", "context": "One."},
        {"input": "Why?", "actual_output": "Because.", "context": "One.", "retrieval_context": "Two."},
        {"request": "Why?", "response": "Because.", "ground_truth": "It is.", "metadata": None},
        {"query": "Why?", "result": "Because.", "source_documents": "One."},
        {"input": "Why?", "actualOutput": "Because.", "expectedOutput": "It is."},
        {"question": "Why?", "answer": "Because.", "trace": '{"info": 1}'},
    ]
    for row in rows:
        nested = Sample.read({**row, "seen": ["here"]})
        plain = {name: value for name, value in nested.metadata.items() if name != "seen"}
        assert Sample.read(row) == nested.model_copy(update={"metadata": plain})


@pytest.mark.parametrize("name", ["retrieved_contexts", "contexts", "context", "retrieved_context", "documents"])
@for_every(
    "documents",
    [
        "One.",
        ["One."],
        {"content": "One."},
        [{"content": "One.", "doc_uri": "a"}],
        [{"page_content": "One."}],
        [{"text": "One."}],
        Document("One."),
        (Document("One."),),
    ],
)
def test_documents_are_read_in_every_shape(name: str, documents: object) -> None:
    """Documents may be texts, mappings or LangChain documents, one or several, under any known name."""
    assert Sample.read({name: documents}).retrieved_contexts == ("One.",)


def test_a_databricks_row_is_read() -> None:
    """A row of Databricks' agent evaluation keeps everything, document ids included."""
    sample = Sample.read(
        request="What is Spark?",
        response="An engine.",
        expected_response="A data engine.",
        expected_facts=["It processes data."],
        guidelines={"language": ["English"], "tone": "friendly"},
        retrieved_context=[{"content": "Spark is an engine.", "doc_uri": "d1"}, {"content": "x", "doc_uri": "d2"}],
    )
    assert sample.retrieved_contexts == ("Spark is an engine.", "x")
    assert sample.retrieved_context_ids == ("d1", "d2")
    assert sample.reference == "A data engine."
    assert sample.expected_facts == ("It processes data.",)
    assert sample.guidelines == {"language": ("English",), "tone": ("friendly",)}


def test_documents_known_only_by_id_are_read() -> None:
    """Databricks allows documents without text: then there are ids and no contexts; ids given apart are kept."""
    sample = Sample.read(retrieved_context=[{"doc_uri": "d1"}])
    assert (sample.retrieved_context_ids, sample.retrieved_contexts) == (("d1",), None)
    sample = Sample.read(retrieved_context=[{"content": "x", "doc_uri": "d1"}], retrieved_context_ids=["own"])
    assert sample.retrieved_context_ids == ("own",)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"guidelines": "Be kind."}, ("Be kind.",)),
        ({"guidelines": ["Be kind.", "Be short."]}, ("Be kind.", "Be short.")),
        ({"rubrics": {"score1_description": "bad", "score2_description": "good"}}, {"1": "bad", "2": "good"}),
        ({"rubrics": {1: "bad", 2: "good"}}, {"1": "bad", "2": "good"}),
        ({"rubrics": {"1": "bad", "2": "good"}}, {"1": "bad", "2": "good"}),
    ],
    ids=repr,
)
def test_guidelines_and_rubrics_are_read_in_every_form(row: dict[str, Any], expected: object) -> None:
    """A single guideline is a list of one; ragas' `score1_description`, numbers and digits all name levels."""
    (field,) = row
    assert getattr(Sample.read(row), field) == expected


@dataclass
class ForeignCall:
    """A tool call as an object, such as that of ragas."""

    name: str
    args: dict[str, Any]


@pytest.mark.parametrize(
    "call",
    [
        {"name": "weather", "args": {"city": "Paris"}},
        {"name": "weather", "args": '{"city": "Paris"}'},
        {"name": "weather", "arguments": {"city": "Paris"}, "type": "tool_call"},
        {"name": "weather", "args": None, "arguments": {"city": "Paris"}},
        {"name": "weather", "input": {"city": "Paris"}, "type": "tool_use"},
        {"name": "weather", "parameters": {"city": "Paris"}},
        {"type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}},
        ForeignCall("weather", {"city": "Paris"}),
    ],
)
def test_the_arguments_of_a_call_are_read_by_any_name(call: Any) -> None:
    """No arguments are lost: calls that differ in nothing else would count as equal."""
    turn = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    sample = Sample.read(user_input=turn, reference_tool_calls=[call])
    expected = (ToolCall(name="weather", args={"city": "Paris"}),)
    assert sample.reference_tool_calls == expected
    assert sample.messages[1].tool_calls == expected


@pytest.mark.parametrize(
    "turns",
    [
        [
            {"type": "human", "data": {"content": "?"}},
            {
                "type": "ai",
                "data": {"content": "", "tool_calls": [{"name": "now", "args": {"zone": "CET"}, "id": "1"}]},
            },
            {"type": "tool", "data": {"content": "12:00", "tool_call_id": "1"}},
        ],
        [
            {"role": "user", "content": "?"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "1", "name": "now", "input": {"zone": "CET"}}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "12:00"}]},
        ],
        [
            {"role": "user", "content": "?"},
            {
                "role": "assistant",
                "content": None,
                "function_call": {"name": "now", "arguments": '{"zone": "CET"}'},
            },
            {"role": "function", "name": "now", "content": "12:00"},
        ],
    ],
)
def test_calls_are_found_where_others_keep_them(turns: list[dict[str, Any]]) -> None:
    """In LangChain's files, in Anthropic's content, in OpenAI's older field."""
    sample = Sample.read(user_input=turns, response="At noon.")
    _, request, result, _ = sample.messages
    assert [(call.name, call.args) for call in request.tool_calls] == [("now", {"zone": "CET"})]
    assert (result.role, result.content) == ("tool", "12:00")
    assert sample.question == "?"


@pytest.mark.parametrize("name", ["messages", "user_input", "request", "inputs", "input"])
@pytest.mark.parametrize("wrapped", [False, True])
def test_openai_messages_are_read(name: str, wrapped: bool) -> None:  # noqa: FBT001
    """OpenAI messages, bare or as a whole chat request, become the conversation, tool calls included."""
    sample = Sample.read({name: {"messages": AGENT_TURN} if wrapped and name != "messages" else AGENT_TURN})
    assert isinstance(sample.user_input, tuple)
    assert [message.role for message in sample.user_input] == ["user", "assistant", "tool", "assistant"]
    assert sample.user_input[1].tool_calls == (ToolCall(name="weather", args={"city": "Paris"}, id="c1"),)
    assert sample.user_input[2] == Message(role="tool", content="15 C", tool_call_id="c1", name="weather")


def test_langchain_messages_are_read() -> None:
    """LangChain messages become the same conversation as OpenAI's."""
    call = {"name": "weather", "args": {"city": "Paris"}, "id": "c1"}
    messages = [
        HumanMessage("How warm is Paris?"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("15 C", tool_call_id="c1", name="weather"),
        AIMessageChunk(content="15 C."),
    ]
    assert Sample.read(messages=messages) == Sample.read(messages=AGENT_TURN)


@pytest.mark.parametrize(
    ("message", "role"),
    [
        ({"role": "developer", "content": "x"}, "system"),
        ({"type": "human", "content": "x"}, "user"),
        ({"type": "ai", "content": "x"}, "assistant"),
        (("human", "x"), "user"),
        (SystemMessage("x"), "system"),
        (Message(role="tool", content="x"), "tool"),
    ],
    ids=repr,
)
def test_roles_of_every_dialect_are_known(message: object, role: str) -> None:
    """A message has a role named as in OpenAI, LangChain, ragas or here."""
    parsed = Sample.read(messages=[message]).messages[0]
    assert (parsed.role, parsed.content) == (role, "x")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ([{"type": "text", "text": "See "}, {"type": "image_url", "image_url": {"url": "u"}}], "See [image_url]"),
        (["a", "b"], "ab"),
        ([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Yes."}], "Yes."),
        ([{"type": "tool_use", "name": "f"}], ""),
    ],
    ids=repr,
)
def test_message_parts_become_text(content: object, text: str) -> None:
    """Text parts are joined, hidden thoughts and tool calls left out, anything else is named by its type."""
    assert Message.model_validate({"role": "assistant", "content": content}).content == text


def test_parts_that_are_not_text_are_named_to_the_judge() -> None:
    """Pictures and sounds stand by their types in the message, after a round trip, and in what a model reads."""
    picture, sound = {"type": "image_url", "image_url": {"url": "u"}}, {"type": "input_audio", "input_audio": {}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "What is it? "}, picture, sound]}]
    sample = Sample.read(messages=messages, answer="A dog.")
    assert sample.messages[0].parts_not_shown == ("image_url", "input_audio")
    assert Sample.model_validate(sample.model_dump(mode="json", exclude_defaults=True)) == sample
    model = ScriptedModel([{"rationale": "so", "verdict": "good", "feedback": ""}] * 2)
    tone = ScriptedModel([{"rationale": "so", "verdict": "kept", "feedback": ""}])
    assert load("tone", model=tone, tone="dry")(sample).passed
    judge = discrete("right", prompt="Is it right?", allowed=("bad", "good"), model=model)
    for row in (sample, {"question": "What is it?", "answer": "A dog."}):
        assert judge(row).passed
    first, second = (prompt[-1].text for prompt in model.prompts)
    assert '"parts_not_shown": ["image_url", "input_audio"]' in first
    assert '"parts_not_shown": ["image_url", "input_audio"]' in tone.prompts[0][-1].text
    assert "parts_not_shown" not in second
    result = {"type": "tool_result", "tool_use_id": "1", "content": [picture]}
    assert Message.model_validate({"role": "user", "content": [result]}).parts_not_shown == ("image_url",)


@pytest.mark.parametrize("arguments", ["", "{}", None, {}])
def test_a_call_without_arguments_is_read(arguments: object) -> None:
    """Providers write no arguments in several ways."""
    assert ToolCall.model_validate({"function": {"name": "f", "arguments": arguments}}) == ToolCall(name="f")
    assert ToolCall.model_validate({"name": "f", "args": arguments}) == ToolCall(name="f", args={})


def test_unknown_columns_become_metadata() -> None:
    """An unknown column is stored beside the explicit metadata."""
    sample = Sample.read({"question": "q", "split": "dev", "n": 3, "metadata": {"n": 4}})
    assert sample.metadata == {"split": "dev", "n": 4}


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("questio", "did you mean question=...?"),
        ("contextes", "did you mean contexts=...?"),
        ("content", "did you mean answer=...?"),
        ("split", "known are user_input, response, "),
    ],
)
def test_a_keyword_that_is_no_field_is_refused(name: str, remedy: str) -> None:
    """A misspelt keyword is no metadata: it is refused with the nearest name, by a judge as by a sample."""
    judge = as_judge(lambda answer: True, name="j")
    for call in (Sample.read, judge):
        with pytest.raises(BadSample, match=re.escape(f"{name}=... is no field of a sample; {remedy}")):
            call(answer="a", **{name: "x"})
    assert Sample.read(answer="a", metadata={name: "x"}).metadata == {name: "x"}


def test_a_row_without_any_known_column_is_refused() -> None:
    """A row of which nothing is known names the columns it has, also offline, where it is one unscored row."""
    row = {"prompt_text": "q", "completion_text": "a"}
    with pytest.raises(BadSample, match="no column is known, only 'prompt_text', 'completion_text'; did you mean"):
        Sample.read(row)
    evaluation = evaluate([row], as_judge(lambda answer: True, name="j"))
    assert evaluation.summary["j"].unscored == {"invalid_sample": 1}
    assert "'prompt_text'" in evaluation.rows[0].error


def test_a_second_column_for_a_field_becomes_metadata() -> None:
    """Of two questions or two equal answers the first that is filled counts, and the other column is kept."""
    assert Sample.read(user_input=None, question="q") == Sample(user_input="q")
    sample = Sample.read(user_input="q", query="other", response="judged", answer="judged")
    assert (sample.question, sample.response) == ("q", "judged")
    assert sample.metadata == {"query": "other", "answer": "judged"}


@pytest.mark.parametrize(
    ("row", "first", "other"),
    [
        ({"question": "q", "answer": "gold", "response": "said"}, "answer", "response"),
        ({"instruction": "q", "output": "gold", "response": ""}, "output", "response"),
        ({"prompt": "q", "completion": "gold", "prediction": "said"}, "completion", "prediction"),
        ({"inputs": {"question": "q"}, "outputs": {"answer": "gold"}, "response": "said"}, "outputs", "response"),
        (
            {
                "input": "q",
                "actual_output": "gold",
                "output": [{"message": {"content": "said", "role": "assistant"}}],
            },
            "output",
            "actual_output",
        ),
    ],
)
def test_two_answers_are_a_question_wherever_a_row_is_read(row: dict[str, Any], first: str, other: str) -> None:
    """Nobody says which is the model's and which the expected one: the line asks, and quotes neither."""
    pair = {first, other}
    with pytest.raises(BadSample, match=r"there are answers in '\w+' and in '\w+'; say which") as caught:
        Sample.read(row)
    assert set(str(caught.value).split("'")[1:4:2]) == pair
    assert "gold" not in str(caught.value)
    evaluation = evaluate([row], as_judge(lambda answer: True, name="j"))
    assert evaluation.summary["j"].unscored == {"invalid_sample": 1}
    assert "say which" in evaluation.rows[0].error
    mapped = evaluate([row], as_judge(lambda answer: True, name="j"), map={"answer": first})
    assert mapped["j"].passed == 1
    assert Sample.read(row, answer="this one").answer == "this one"


def test_keywords_replace_what_a_sample_holds() -> None:
    """A keyword in another dialect replaces the field it means; without one a sample is read as itself."""
    sample = Sample(user_input="q", response="old")
    assert Sample.read(sample, answer="new").response == "new"
    assert Sample.read({"question": "q", "response": "old"}, answer="new").metadata == {}
    assert Sample.read(sample) is sample


TEXTS = st.text(max_size=20)
MESSAGES = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    content=TEXTS,
    tool_calls=st.lists(st.builds(ToolCall, name=TEXTS, args=st.dictionaries(TEXTS, st.integers())), max_size=1),
)
SAMPLES = st.builds(
    Sample,
    user_input=st.none() | TEXTS | st.lists(MESSAGES, max_size=4),
    response=st.none() | TEXTS,
    trajectory=st.lists(MESSAGES, max_size=2),
    retrieved_contexts=st.none() | st.lists(TEXTS, max_size=2),
    guidelines=st.none() | st.lists(TEXTS, max_size=2) | st.dictionaries(TEXTS, st.lists(TEXTS, max_size=2)),
    metadata=st.dictionaries(TEXTS, TEXTS | st.booleans() | st.none(), max_size=2),
)


@given(SAMPLES)
def test_a_sample_survives_json(sample: Sample) -> None:
    """A round trip, also without empty fields, returns the same sample; its parts make it up without overlap."""
    assert Sample.model_validate_json(sample.model_dump_json()) == sample
    assert Sample.model_validate(json.loads(sample.model_dump_json(exclude_defaults=True))) == sample
    answer = [sample.answer] if sample.answer is not None else []
    earlier = [*sample.conversation, *sample.steps]
    assert list(sample.messages[: len(earlier)]) == earlier
    assert [message.content for message in sample.messages[len(earlier) :]] == answer


STEPS = ["assistant: ", "tool: 15 C"]


@pytest.mark.parametrize(
    ("row", "answer", "steps"),
    [
        ({"question": "How warm is Paris?", "answer": "15 C."}, "15 C.", []),
        ({"messages": [{"role": "system", "content": "Be short."}, *AGENT_TURN]}, "15 C.", STEPS),
        ({"messages": AGENT_TURN, "response": "15 C."}, "15 C.", STEPS),
        ({"messages": AGENT_TURN[:-1], "response": "15 C."}, "15 C.", STEPS),
        ({"messages": AGENT_TURN[:1], "trajectory": AGENT_TURN[1:3], "response": "15 C."}, "15 C.", STEPS),
        ({"question": "How warm is Paris?", "trajectory": AGENT_TURN[1:3], "response": "15 C."}, "15 C.", STEPS),
        ({"question": "How warm is Paris?", "trajectory": AGENT_TURN[1:], "response": "15 C."}, "15 C.", STEPS),
        ({"messages": [QUESTION, ANSWER], "response": "16 C."}, "16 C.", ["assistant: 15 C."]),
        ({"messages": [QUESTION]}, None, []),
        ({"messages": [QUESTION, TOOL_CALL]}, None, STEPS[:1]),
        ({"messages": [QUESTION, TOOL_CALL, TOOL_RESULT]}, None, STEPS),
    ],
)
def test_an_exchange_has_its_parts(row: dict[str, Any], answer: str | None, steps: list[str]) -> None:
    """Wherever it stands, the last message is the answer, unless it is a step or an answer is given apart.

    An answer that the messages or the trajectory end with is told once, and an earlier one is not lost.
    """
    sample = Sample.read(row)
    assert (sample.question, sample.answer) == ("How warm is Paris?", answer)
    assert [f"{step.role}: {step.content}" for step in sample.steps] == steps
    earlier = ["system"] * ("Be short." in str(row))
    assert [message.role for message in sample.conversation] == [*earlier, "user"]
    told = () if answer is None else (Message(role="assistant", content=answer),)
    assert sample.messages == (*sample.conversation, *sample.steps, *told)


def test_of_several_questions_the_last_is_answered() -> None:
    """What was said before it is the conversation; without a message there is no question and no answer."""
    sample = Sample.read(messages=[*AGENT_TURN, {"role": "user", "content": "And Rome?"}, ANSWER])
    assert (sample.question, sample.answer, sample.steps) == ("And Rome?", "15 C.", ())
    assert sample.conversation == sample.messages[:-1]
    nothing = Sample.read(messages=[])
    assert (nothing.question, nothing.answer, nothing.messages) == ("", None, ())


def test_a_sample_is_frozen() -> None:
    """Nothing changes a sample that others hold."""
    with pytest.raises(ValidationError, match="frozen"):
        Sample(user_input="q").response = "x"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"user_input": 5}, "field 'user_input': input should be a valid string or a valid tuple (given 5)"),
        ({"answer": 5}, "field 'answer': input should be a valid string (given 5)"),
        ({"contexts": ["a", 1]}, "field 'contexts.1': input should be a valid string (given 1)"),
        ({"guidelines": {"a": 5}}, "field 'guidelines.a': input should be a valid tuple (given 5)"),
        ({"metadata": "x", "a": 1}, "field 'metadata': input should be a valid dictionary (given 'x')"),
        (
            {"metadata": {"strange": {1, 2}}},
            "field 'metadata.strange': input was not a valid JSON value (given {1, 2})",
        ),
        (
            {"messages": [QUESTION, ("x", "")]},
            "field 'messages.1': unknown role 'x'; known are system, user, assistant and tool (given ('x', ''))",
        ),
        (
            {"messages": [("user", 5)]},
            "field 'messages.0': message content is text or a list of parts, not int (given ('user', 5))",
        ),
        (
            {"messages": [("user", [5])]},
            "field 'messages.0': a message part is text or a mapping, not int (given ('user', [5]))",
        ),
        (
            {"reference_tool_calls": [{"function": {"arguments": "{}"}}]},
            "field 'reference_tool_calls.0.name': input should be a valid string (given None)",
        ),
        (
            {"reference_tool_calls": [{"function": {"arguments": "{"}}]},
            "field 'reference_tool_calls.0': tool arguments are JSON (given {'function': {'arguments': '{'}})",
        ),
    ],
    ids=lambda case: None if isinstance(case, str) else str(next(iter(case))),
)
def test_a_bad_row_is_refused_in_one_line(row: dict[str, Any], message: str) -> None:
    """The error shows the field's name in the input, what was expected and the value; a long one is cut."""
    with pytest.raises(BadSample) as caught:
        Sample.read(row)
    assert str(caught.value) == message
    with pytest.raises(BadSample, match=r"\(given \['x+\.\.\.\)$") as caught:
        Sample.read(response=["x" * 1000])
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize(
    ("source", "message"),
    [(None, "nothing to judge"), ({}, "nothing to judge"), ("text", "cannot read a str as a sample"), (5, "int")],
)
def test_what_is_no_row_is_refused(source: object, message: str) -> None:
    """Only a sample, a mapping or keywords can be read."""
    with pytest.raises(BadSample, match=message):
        Sample.read(source)
