"""Rows are read as other libraries, files and data frames have them."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langsmith.schemas import Example, Run
from pydantic import BaseModel

from judges import BadSample, ConfigurationError, Sample, as_judge
from judges.offline import aevaluate, evaluate, read_rows
from judges.offline.dataset import reading

CALL = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "7"}
SAID = {"role": "assistant", "content": "seven"}
ID = UUID(int=1)


def span(kind: str, outputs: object, inputs: object = None, *, parent: str | None = "1") -> dict[str, Any]:
    """Make a span of a trace of mlflow, whose attributes are JSON texts."""
    values = {"spanType": kind, "spanInputs": inputs, "spanOutputs": outputs}
    attributes = {f"mlflow.{name}": json.dumps(value) for name, value in values.items() if value is not None}
    return {"name": kind.lower(), "parent_span_id": parent, "attributes": attributes}


TRACE: dict[str, Any] = {
    "info": {
        "trace_id": "tr-1",
        "assessments": [
            {"assessment_name": "expected_response", "expectation": {"value": "7"}},
            {"assessment_name": "helpful", "feedback": {"value": True}},
        ],
    },
    "data": {
        "spans": [
            span("CHAIN", "seven", {"question": "q"}, parent=None),
            span("RETRIEVER", [{"page_content": "c", "metadata": {"doc_uri": "u"}}]),
            span("TOOL", "7", {"a": 1}),
        ]
    },
}


def fields(source: object) -> dict[str, Any]:
    """Read a row, and give what the sample holds as JSON."""
    held: dict[str, Any] = Sample.read(source).model_dump(mode="json", exclude_defaults=True)
    return held


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            {
                "inputs": {"question": "q", "context": "c"},
                "outputs": {"response": "a"},
                "expectations": {
                    "expected_response": "e",
                    "expected_facts": ["f"],
                    "guidelines": ["g"],
                    "expected_retrieved_context": [{"content": "d", "doc_uri": "u"}],
                },
            },
            {
                "user_input": "q",
                "response": "a",
                "retrieved_contexts": ["c"],
                "reference": "e",
                "expected_facts": ["f"],
                "guidelines": ["g"],
                "reference_contexts": ["d"],
                "reference_context_ids": ["u"],
            },
        ),
        ({"inputs": {"city": "Rome"}, "outputs": "a"}, {"user_input": "Rome", "response": "a"}),
        (
            {"inputs": {"city": "Rome", "days": 2}, "outputs": {"warm": True, "sun": 1}},
            {"user_input": '{"city": "Rome", "days": 2}', "response": '{"warm": true, "sun": 1}'},
        ),
        (
            {"inputs": {"input": "q"}, "outputs": {"output": "a"}, "reference_outputs": {"answer": "e"}},
            {"user_input": "q", "response": "a", "reference": "e"},
        ),
        (
            {"inputs": "q", "outputs": {"answer": "a", "source_documents": [{"page_content": "c"}]}},
            {"user_input": "q", "response": "a", "retrieved_contexts": ["c"]},
        ),
        (
            {"query": "q", "result": "a", "source_documents": [Document("c")]},
            {"user_input": "q", "response": "a", "retrieved_contexts": ["c"]},
        ),
        (
            {"input": "q", "actual_output": "a", "context": ["ideal"], "retrieval_context": ["got"]},
            {
                "user_input": "q",
                "response": "a",
                "reference_contexts": ["ideal"],
                "retrieved_contexts": ["got"],
            },
        ),
        (
            {"input": "q", "actualOutput": "a", "expectedOutput": "e", "context": ["ideal"]},
            {"user_input": "q", "response": "a", "reference": "e", "reference_contexts": ["ideal"]},
        ),
        ({"input": "q", "target": ["e"], "output": "a"}, {"user_input": "q", "reference": "e", "response": "a"}),
        (
            {"question": "q", "answer": "a", "ground_truths": ["e", "E"]},
            {
                "user_input": "q",
                "response": "a",
                "reference": "e",
                "metadata": {"all_ground_truths": ["e", "E"]},
            },
        ),
        ({"vars": {"question": "q", "tone": "dry"}, "output": "a"}, {"metadata": {"tone": "dry"}}),
        (
            {"vars": {"x": "1", "y": "2"}, "prompt": {"raw": "q"}, "response": {"output": "a"}},
            {"user_input": "q", "response": "a", "metadata": {"x": "1", "y": "2"}},
        ),
        (
            {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]},
            {"user_input": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]},
        ),
        (
            {"request": "q", "response": "a", "guidelines_context": {"policy": "none"}},
            {"user_input": "q", "response": "a", "metadata": {"guidelines_context": {"policy": "none"}}},
        ),
        (TRACE, {"user_input": "q", "response": "seven", "reference": "7", "retrieved_contexts": ["c"]}),
        ({"trace": TRACE, "reference": "own"}, {"response": "seven", "reference": "own"}),
        ({"trace": json.dumps(TRACE), "request": None}, {"user_input": "q", "response": "seven"}),
    ],
)
def test_rows_of_other_libraries_are_read(row: dict[str, Any], expected: dict[str, Any]) -> None:
    """Nested columns, and the names of mlflow, LangSmith, deepeval, inspect, promptfoo and ShareGPT."""
    assert fields(row).items() >= expected.items()


@pytest.mark.parametrize(
    ("answer", "steps"),
    [
        (AIMessage("seven"), 0),
        (SAID, 0),
        ({"role": "assistant", "content": [{"type": "text", "text": "seven"}]}, 0),
        (
            [
                AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1"}]),
                ToolMessage("7", tool_call_id="1"),
                SAID,
            ],
            2,
        ),
        ([CALL, RESULT, SAID], 2),
        ({"messages": [{"role": "user", "content": "q"}, CALL, RESULT, SAID]}, 2),
        ({"messages": [("human", "q"), ("ai", "seven")]}, 0),
        ({"choices": [{"message": SAID, "finish_reason": "stop"}], "usage": {}}, 0),
        ({"choices": [{"text": "seven"}]}, 0),
        (
            {
                "object": "response",
                "output": [
                    {"type": "reasoning"},
                    {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "1"},
                    {"type": "function_call_output", "call_id": "1", "output": "7"},
                    {"type": "message", "content": [{"type": "output_text", "text": "seven"}]},
                ],
            },
            2,
        ),
    ],
)
def test_an_answer_is_read_in_every_form(answer: object, steps: int) -> None:
    """Messages, completions and what an agent returns give the text, and the tool calls before it."""
    for name in ("response", "outputs", "answer"):
        sample = Sample.read({"question": "q", name: answer})
        assert (sample.question, sample.response, len(sample.steps)) == ("q", "seven", steps)


def test_an_answer_that_begins_with_its_question_brings_it() -> None:
    """Without a question of its own, a row takes that of the messages."""
    sample = Sample.read(outputs={"messages": [HumanMessage("q"), AIMessage("a")]})
    assert (sample.question, sample.answer) == ("q", "a")


class OwnRow(BaseModel):
    """A row as somebody's program has it."""

    question: str
    answer: str


@dataclass
class OwnRecord:
    """A row as another program has it."""

    question: str
    answer: str


class OwnTuple(NamedTuple):
    """A row as a third program has it."""

    question: str
    answer: str


def test_objects_are_read() -> None:
    """Pydantic models, dataclasses and named tuples are rows; runs and examples of LangSmith have their roles."""
    for kind in (OwnRow, OwnRecord, OwnTuple):
        assert fields(kind(question="q", answer="a")) == {"user_input": "q", "response": "a"}
    run = Run(
        id=ID,
        name="app",
        start_time="2026-01-01T00:00:00Z",
        run_type="chain",
        inputs={"question": "q"},
        outputs={"answer": "a"},
        trace_id=ID,
        dotted_order="x",
    )
    assert fields(run).items() >= {"user_input": "q", "response": "a"}.items()
    example = Example(id=ID, dataset_id=ID, inputs={"question": "q"}, outputs={"answer": "e"})
    assert fields(example) == {"user_input": "q", "reference": "e", "metadata": {"id": str(ID)}}


def test_objects_of_deepeval_are_read() -> None:
    """Its `context` are ideal documents, its `retrieval_context` what was retrieved; calls have their outputs."""
    cases = pytest.importorskip("deepeval.test_case")
    case = cases.LLMTestCase(
        input="q",
        actual_output="a",
        context=["ideal"],
        tools_called=[cases.ToolCall(name="f", input_parameters={"a": 1}, output="7")],
    )
    sample = Sample.read(case)
    assert (sample.reference_contexts, sample.retrieved_contexts, sample.answer) == (("ideal",), None, "a")
    assert [message.role for message in sample.steps] == ["assistant", "tool"]


def test_objects_of_inspect_are_read() -> None:
    """A sample has its target as reference, one of a log its answer, too."""
    dataset = pytest.importorskip("inspect_ai.dataset")
    assert fields(dataset.Sample(input="q", target="e", id=3)) == {
        "user_input": "q",
        "reference": "e",
        "metadata": {"id": 3},
    }


answered = as_judge(lambda sample: bool(sample.response), name="answered")


def judged(samples: Any, **settings: Any) -> list[Sample]:
    """Return the samples that a dataset was read as."""
    return [row.sample for row in evaluate(samples, answered, **settings).rows if row.sample is not None]


COLUMNS: dict[str, list[Any]] = {
    "question": ["q", "r"],
    "answer": ["a", None],
    "contexts": [["c"], None],
    "n": [1, 2],
}
TABLES: list[Callable[[], Any]] = [
    lambda: pd.DataFrame(COLUMNS),
    lambda: pl.DataFrame(COLUMNS),
    lambda: pa.table(COLUMNS),
    lambda: COLUMNS,
    lambda: {name: pd.Series(values, dtype=object) for name, values in COLUMNS.items()},
]


@pytest.mark.parametrize("table", TABLES)
def test_a_table_is_read_row_by_row(table: Callable[[], Any]) -> None:
    """Data frames and dicts of lists give rows, never the names of their columns; NaN is missing."""
    first, second = judged(table())
    assert first == Sample(user_input="q", response="a", retrieved_contexts=("c",), metadata={"n": 1})
    assert second == Sample(user_input="r", metadata={"n": 2})


def test_cells_of_a_frame_are_values_of_json() -> None:
    """Missing values of every kind, dates, arrays and numbers that are answers."""
    frame = pd.DataFrame(
        {
            "question": ["q", "r"],
            "answer": [42, 43],
            "reference": [float("nan"), pd.NA],
            "when": [pd.Timestamp("2026-01-02"), pd.NaT],
            "contexts": [pd.Series(["c"]).to_numpy(), None],
        }
    )
    first, second = judged(frame)
    assert (first.response, first.reference, first.retrieved_contexts) == ("42", None, ("c",))
    assert first.metadata == {"when": "2026-01-02T00:00:00"}
    assert (second.reference, second.metadata) == (None, {"when": None})


def test_lists_that_a_file_made_texts_are_lists_in_a_frame_too(tmp_path: Path) -> None:
    """As JSON, or as pandas writes lists and arrays; a text that only begins like one stays a text."""
    texts = ['["c", "d"]', "['c', 'd']", "['c'\n 'd']", "[1] see d"]
    frame = pd.DataFrame({"question": ["[q]"] * 4, "answer": ["[1]"] * 4, "contexts": texts})
    *lists, text = judged(frame)
    assert [one.retrieved_contexts for one in lists] == [("c", "d")] * 3
    assert (text.user_input, text.response, text.retrieved_contexts) == ("[q]", "[1]", ("[1] see d",))
    arrays = pd.DataFrame({"answer": ["a"], "contexts": [pd.Series(["it's", "d"]).to_numpy()]})
    arrays.to_csv(tmp_path / "rows.csv", index=False)
    (of_file,) = read_rows(tmp_path / "rows.csv")
    assert of_file.retrieved_contexts == ("it's", "d")


def test_values_that_json_lacks_cost_no_row_of_a_table(tmp_path: Path) -> None:
    """Decimals, durations and UUIDs, as warehouses write them into a Parquet file or a frame."""
    columns = {
        "question": ["q"],
        "answer": [Decimal("0.10")],
        "price": [Decimal("0.10")],
        "took": [timedelta(hours=1)],
    }
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    (of_file,) = read_rows(tmp_path / "rows.parquet")
    assert (of_file.response, of_file.metadata) == ("0.10", {"price": 0.1, "took": "1:00:00"})
    (of_frame,) = judged(pd.DataFrame({**columns, "id": [UUID(int=7)]}, dtype=object))
    assert (of_frame.response, of_frame.metadata["id"]) == ("0.10", str(UUID(int=7)))


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ({"question": "q", "answer": "a"}, "several rows, not one dict; give [sample]"),
        ({"question": ["q"], "answer": ["a", "b"]}, "of one length; here they are 'question' 1, 'answer' 2"),
        ({"train": iter(()), "test": iter(())}, "give one of its datasets, 'train', 'test'"),
        (pl.DataFrame(COLUMNS).lazy(), "give frame.collect()"),
        (pd.Series(["q"]), "a Series has no named columns; give a DataFrame"),
        (pd.DataFrame([["q", "a", "b"]], columns=["question", "answer", "answer"]), "'answer' appears twice"),
        (pa.table([["q"], ["a"], ["b"]], ["question", "answer", "answer"]), "'answer' appears twice"),
        (OwnRow(question="q", answer="a"), "several rows, not one OwnRow; give [sample]"),
    ],
)
def test_what_is_no_table_is_refused_in_one_line(samples: Any, message: str) -> None:
    """A single row, columns of several lengths and tables without rows say what to give."""
    with pytest.raises(ConfigurationError) as caught:
        evaluate(samples, answered)
    assert message in str(caught.value)


def test_columns_are_mapped() -> None:
    """A field may come from any column, also from one inside another; what had its name gives way."""
    rows = [{"q": "Why?", "out": {"text": "Because."}, "answer": "gold"}]
    for samples in (rows, pd.DataFrame(rows), iter(rows)):
        (sample,) = judged(samples, map={"question": "q", "answer": "out.text"})
        assert (sample.question, sample.response) == ("Why?", "Because.")


async def test_columns_of_an_async_dataset_are_mapped() -> None:
    """An async iterable is renamed as it comes; a row without the column is unscored and says which there are."""

    async def rows() -> AsyncIterator[dict[str, str]]:
        yield {"q": "Why?", "a": "x"}
        yield {"q": "Why?", "b": "x"}

    evaluation = await aevaluate(rows(), answered, map={"answer": "a"})
    assert evaluation.summary["answered"].unscored == {"invalid_sample": 1}
    assert "there is no column 'a'; the columns are 'q', 'b'" in str(evaluation.rows[1].error)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"answr": "a"}, "'answr' is no field of a sample; did you mean 'answer'?"),
        ({"out": "answer"}, "did you mean answer=out?"),
        ("answer", 'map is {"field": "column"}'),
    ],
)
def test_a_wrong_map_is_refused(columns: Any, message: str) -> None:
    """A misspelt field, and one in the place of the column, name what was meant."""
    with pytest.raises(ConfigurationError) as caught:
        evaluate([{"q": "x"}], answered, map=columns)
    assert message in str(caught.value)


ROWS: list[dict[str, Any]] = [
    {"question": "Où?", "answer": "à côté, là", "contexts": ["c; d"], "reference": ""},
    {"question": "q", "answer": "", "contexts": "plain"},
]
WANTED = [
    Sample(user_input="Où?", response="à côté, là", retrieved_contexts=("c; d",)),
    Sample(user_input="q", response="", retrieved_contexts=("plain",)),
]


def _cells(separator: str) -> str:
    lines = [["question", "answer", "contexts", "reference"]]
    lines += [["Où?", "à côté, là", '["c; d"]', ""], ["q", "", "plain", ""]]
    quoted = [['"' + cell.replace('"', '""') + '"' if cell else "" for cell in line] for line in lines]
    return "\n".join(separator.join(line) for line in quoted)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("r.jsonl", "\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS)),
        ("r.json", json.dumps(ROWS, ensure_ascii=False)),
        ("r.json", json.dumps({"data": ROWS, "version": 2}, ensure_ascii=False)),
        ("r.json", json.dumps({key: [row.get(key) for row in ROWS] for key in ROWS[0]}, ensure_ascii=False)),
        ("r.csv", _cells(",")),
        ("r.csv", _cells(";")),
        ("r.csv", _cells("\t")),
        ("r.tsv", _cells("\t")),
    ],
)
def test_the_same_rows_are_read_from_every_file(tmp_path: Path, name: str, text: str, encoding: str) -> None:
    """An empty text is an empty answer or a missing field, whatever the format, the separator and the encoding."""
    path = tmp_path / name
    path.write_text(text, encoding=encoding)
    assert list(read_rows(path, encoding=encoding)) == WANTED


def test_parquet_is_read(tmp_path: Path) -> None:
    """A Parquet file is read like any other."""
    path = tmp_path / "r.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS[:1]), path)
    assert list(read_rows(path)) == WANTED[:1]
    path.write_bytes(b"PAR1 broken")
    with pytest.raises(BadSample, match="cannot be read"):
        list(read_rows(path))


def test_lists_as_data_frames_write_them_are_read(tmp_path: Path) -> None:
    """A list in a CSV file may be as Python shows it."""
    path = tmp_path / "r.csv"
    pd.DataFrame({"answer": ["a"], "contexts": [["it's", 'a "quote"']]}).to_csv(path, index=False)
    assert next(read_rows(path)).retrieved_contexts == ("it's", 'a "quote"')


def test_a_wrong_encoding_is_named(tmp_path: Path) -> None:
    """A file in another encoding names the place, an unknown encoding names some that are known."""
    path = tmp_path / "r.jsonl"
    path.write_bytes('{"answer": "a"}\n{"answer": "à"}'.encode("latin-1"))
    with pytest.raises(BadSample, match=r"line 2: the line is not UTF-8 at column 13; save the file as UTF-8, or"):
        list(read_rows(path))
    assert [sample.response for sample in read_rows(path, encoding="latin-1")] == ["a", "à"]
    with pytest.raises(ConfigurationError, match="there is no encoding 'latin-9x'"):
        read_rows(path, encoding="latin-9x")


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Forget which columns were named before."""
    reading._named.clear()
    yield
    reading._named.clear()


@pytest.mark.usefixtures("forgotten")
def test_columns_that_are_not_read_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """One line names them with all columns, however many rows; metadata on purpose and labels are not."""
    rows = [{"answer": "a", "origin": "web", "labels": [{"rating": 4}], "metadata": {"own": 1}}] * 3
    with caplog.at_level(logging.WARNING, "judges"):
        evaluate(rows, answered)
        evaluate(rows, answered)
    (record,) = caplog.records
    assert (
        "judges that read them: 'origin' (columns: 'answer', 'origin', 'labels', 'metadata')"
        in record.getMessage()
    )


def serialised(kind: str, **fields: Any) -> dict[str, Any]:
    """Write a message as LangChain serialises it."""
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", kind], "kwargs": fields}


@pytest.mark.parametrize(
    ("row", "question", "answer", "steps"),
    [
        (
            {
                "inputs": {"messages": [serialised("HumanMessage", content="q")]},
                "outputs": {"generations": [[{"text": "a", "message": serialised("AIMessage", content="a")}]]},
            },
            "q",
            "a",
            [],
        ),
        ({"question": "q", "outputs": {"generations": [[{"text": "a"}]]}}, "q", "a", []),
        (
            {"question": "q", "output": serialised("AIMessageChunk", content="a", type="AIMessageChunk")},
            "q",
            "a",
            [],
        ),
        (
            {
                "question": "q",
                "response": {"candidates": [{"content": {"role": "model", "parts": [{"text": "a"}]}}]},
            },
            "q",
            "a",
            [],
        ),
        (
            {
                "conversations": [
                    {"from": "human", "value": "q"},
                    {"from": "function_call", "value": '{"name": "f", "arguments": {"x": 1}}'},
                    {"from": "observation", "value": "7"},
                    {"from": "gpt", "value": "a"},
                ]
            },
            "q",
            "a",
            [("f", {"x": 1}), "7"],
        ),
        (
            {
                "query": [{"role": "user", "content": [{"type": "text", "text": "q"}]}],
                "response": [
                    {
                        "role": "assistant",
                        "content": [
                            {"type": "tool_call", "tool_call_id": "1", "name": "f", "arguments": {"x": 1}}
                        ],
                    },
                    {
                        "role": "tool",
                        "tool_call_id": "1",
                        "content": [{"type": "tool_result", "tool_result": {"is": 7}}],
                    },
                    {"role": "assistant", "content": [{"type": "text", "text": "a"}]},
                ],
            },
            "q",
            "a",
            [("f", {"x": 1}), '{"is": 7}'],
        ),
        (
            {
                "turns": [
                    {"role": "user", "content": "q"},
                    {"role": "assistant", "content": "a", "tools_called": [{"name": "f", "output": 7}]},
                ]
            },
            "q",
            "a",
            [("f", {}), "7"],
        ),
    ],
)
def test_conversations_with_calls_keep_them(
    row: dict[str, Any], question: str, answer: str, steps: list[Any]
) -> None:
    """Runs of chat models, Gemini's replies, ShareGPT's calls, Azure's parts, the tools of deepeval's turns."""
    sample = Sample.read(row)
    assert (sample.question, sample.answer) == (question, answer)
    seen = [
        (step.tool_calls[0].name, step.tool_calls[0].args) if step.tool_calls else step.content
        for step in sample.steps
    ]
    assert seen == steps


def test_missing_values_of_frames_are_missing_in_rows_of_them() -> None:
    """As `frame.to_dict("records")` gives them; documents of deepeval's turns are the contexts."""
    nan = float("nan")
    row = {"user_input": "q", "response": "a", "reference": nan, "retrieved_contexts": pd.NA, "note": nan}
    assert fields(row) == {"user_input": "q", "response": "a", "metadata": {"note": None}}
    assert fields({"question": "q", "answer": nan}) == {"user_input": "q"}
    turns = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a", "retrieval_context": ["c", "d"]},
        {"role": "assistant", "content": "b", "retrieval_context": ["d"]},
    ]
    assert fields({"turns": turns})["retrieved_contexts"] == ["c", "d"]


def test_a_misspelt_column_is_asked_about() -> None:
    """A row without a known column names the field that is nearly meant; a near name beside its field is fine."""
    with pytest.raises(BadSample, match=r"did you mean 'question' by 'qestion', 'answer' by 'anwser'\?"):
        Sample.read({"qestion": "q", "anwser": "a"})
    assert Sample.read({"question": "q", "answer": "a", "answers": "b"}).metadata == {"answers": "b"}


HUMAN, AI = (
    {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", kind], "kwargs": {"content": text}}
    for kind, text in (("HumanMessage", "q"), ("AIMessage", "a"))
)
EXCHANGE: list[dict[str, str]] = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"instruction": "Translate.", "input": "Hund", "output": "dog"}, ("Translate.\n\nHund", "dog", None)),
        ({"instruction": "q", "input": "", "output": "a"}, ("q", "a", None)),
        ({"prompt": "q", "completion": "a"}, ("q", "a", None)),
        ({"prompt": EXCHANGE[:1], "completion": EXCHANGE[1:]}, ("q", "a", None)),
        ({"prompt": "q", "chosen": "a", "rejected": "b"}, ("q", "a", None)),
        (
            {"chosen": "\n\nHuman: q\n\nAssistant: a", "rejected": "\n\nHuman: q\n\nAssistant: b"},
            ("q", "a", None),
        ),
        ({"chosen": EXCHANGE, "rejected": [EXCHANGE[0], {"role": "assistant", "content": "b"}]}, ("q", "a", None)),
        ({"messages": EXCHANGE[:1], "choices": [{"index": 0, "message": EXCHANGE[1]}]}, ("q", "a", None)),
        ({"attributes.input.value": "q", "attributes.output.value": "a"}, ("q", "a", None)),
        (
            {"response": {"status_code": 200, "body": {"choices": [{"message": EXCHANGE[1]}]}}, "question": "q"},
            ("q", "a", None),
        ),
        (
            {"input": {"messages": EXCHANGE[:1]}, "preferred_output": "a", "non_preferred_output": "b"},
            ("q", "a", None),
        ),
        ({"question": "q", "answer": "a", "context": [["t", ["x"]]]}, ("q", "a", None)),
        ({"input": "q", "output": "a", "expected": 42, "scores": {"x": 1}}, ("q", "a", "42")),
        ({"input": EXCHANGE[:1], "output": [{"index": 0, "message": EXCHANGE[1]}]}, ("q", "a", None)),
        (
            {"question": "q", "context": "c", "answers": [{"text": "x", "answer_start": 1}]},
            ("q", None, "x"),
        ),
        (
            {"question": "q", "context": "c", "answers": {"text": ["x", "y"], "answer_start": [1, 2]}},
            ("q", None, "x"),
        ),
        ({"question": "q", "context": "c", "answers": {"text": [], "answer_start": []}}, ("q", None, None)),
        (
            {
                "inputs": {"messages": [[HUMAN]]},
                "outputs": {"generations": [[{"message": AI}]]},
                "run_type": "llm",
            },
            ("q", "a", None),
        ),
        ({"inputs": {"messages": [[HUMAN]]}, "outputs": {"generations": [[{"message": AI}]]}}, ("q", "a", None)),
        ({"inputs": {"question": "q"}, "outputs": {"answer": "x"}, "dataset_id": "d"}, ("q", None, "x")),
        ({"input": "q", "output": "a", "expected": "e"}, ("q", "a", "e", None)),
        (
            {"input": {"question": "q"}, "output": {"answer": "a"}, "expected": {"answer": "e"}},
            ("q", "a", "e", None),
        ),
        ({"input": "q", "output": "a", "expected": ["e", "f"]}, ("q", "a", "e", None)),
        ({"query": "q", "response": "a", "ground_truth": "e", "context": "c"}, ("q", "a", "e", ("c",))),
        ({"userText": "q", "responseContent": "a", "dataList": ["c", "d"]}, ("q", "a", None, ("c", "d"))),
        (
            {
                "conversation": {
                    "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
                }
            },
            ("q", "a", None, None),
        ),
    ],
)
def test_published_and_exported_rows_are_read(row: dict[str, object], expected: tuple[object, ...]) -> None:
    """Question, answer, expected answer and contexts are where each format keeps them; nothing is lost unsaid."""
    sample = Sample.read(row)
    parts = (sample.question, sample.answer, sample.reference, sample.retrieved_contexts)
    assert parts[: len(expected)] == expected
    if "rejected" in row:
        assert sample.metadata["rival"] == "b"


def test_two_columns_of_answers_are_a_question(tmp_path: Path) -> None:
    """A file with two answers a row is read once somebody says which."""
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"question": "q", "answer": "a", "output": "b"}) + "\n")
    with pytest.raises(BadSample, match="'choices' has 2 answers; give a row for each"):
        Sample.read({"question": "q", "choices": [{"text": "a"}, {"text": "b"}]})
    with pytest.raises(BadSample, match="line 1: there are answers in 'answer' and in 'output'; say which"):
        list(read_rows(file))
    assert [row.answer for row in read_rows(file, map={"answer": "output"})] == ["b"]
    file.write_text(json.dumps({"question": "q", "answer": "a", "output": "a"}) + "\n")
    assert [row.answer for row in read_rows(file)] == ["a"]


EXPORTS = Path(__file__).parent / "exports"
"""What the tools of these versions wrote themselves, one answer each; of the log of inspect without its events."""


@pytest.mark.parametrize("file", sorted(EXPORTS.iterdir()), ids=lambda file: file.name)
def test_files_that_the_tools_wrote_are_read(file: Path) -> None:
    """Question, answer and reference stand where a judge looks for them, contexts and other columns are kept."""
    (sample,) = read_rows(file)
    assert sample.conversation[0].content == "What is the capital of France?"
    assert sample.answer == (None if "example" in file.name else "It is Paris.")
    assert sample.reference == (None if "-run-" in file.name else "Paris")
    if file.name.startswith(("ragas-0", "deepeval")):
        assert sample.retrieved_contexts == ("Paris is the capital of France.",)
    if file.name.startswith(("inspect", "braintrust")):
        assert sample.metadata["topic"] == "geo"
