"""Offline evaluation: laziness, order, failing cells, streaming, and reading rows from files."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Never

import pytest

from judges import BadSample, ConfigurationError, Helpfulness, Judge, Length, Sample, Verdict
from judges.offline import Evaluation, Row, aevaluate, evaluate, read_rows
from judges.requests import Deliberation
from judges.runtime.budget import Allowance
from judges.runtime.observation import within
from judges.testing import ScriptedJudge, ScriptedModel

Run = Callable[..., Evaluation]
"""Either of the two ways to evaluate."""


def in_tasks(samples: Any, judges: object, **settings: Any) -> Evaluation:
    """Evaluate in an event loop of its own."""
    return asyncio.run(aevaluate(samples, judges, **settings))


either = pytest.mark.parametrize("run", [evaluate, in_tasks], ids=["threads", "tasks"])


def rows(n: int) -> list[Sample]:
    """Make samples whose answers are their numbers."""
    return [Sample(user_input="?", response=str(number)) for number in range(n)]


def answers(evaluation: Evaluation) -> list[str | None]:
    """List the answers of the rows in their order."""
    return [row.sample.answer for row in evaluation.rows if row.sample is not None]


@either
def test_a_judge_by_name_asks_the_model_that_is_given(run: Run) -> None:
    """The model goes to every judge that is only named."""
    model = ScriptedModel([{"rationale": "r", "rating": 4, "feedback": ""}])
    evaluation = run(rows(1), ["helpfulness", "json"], model=model)
    assert (evaluation["helpfulness"].scored, len(model.prompts)) == (1, 1)


@either
def test_rows_keep_their_order(run: Run) -> None:
    """A row that finishes after its followers still comes first, in the result and in what is reported."""
    followers_done = threading.Event()
    reported: list[int] = []

    def judge(sample: Sample) -> bool:
        if sample.answer == "0":
            assert followers_done.wait(10)
        elif sample.answer == "7":
            followers_done.set()
        return True

    evaluation = run(rows(8), judge, max_concurrency=2, on_result=lambda row: reported.append(row.index))

    assert answers(evaluation) == [str(number) for number in range(8)]
    assert [row.index for row in evaluation.rows] == reported == list(range(8))


@either
def test_rows_are_pulled_lazily(run: Run) -> None:
    """A dataset of a million rows is never read ahead of the judges by more than the concurrency."""
    done = 0
    ahead: list[int] = []
    lock = threading.Lock()

    def dataset() -> Iterator[dict[str, object]]:
        for number in range(1_000_000):
            ahead.append(number - done)
            yield {"question": "?", "answer": str(number)}

    def judge(sample: Sample) -> bool:
        nonlocal done
        with lock:
            done += 1
        if sample.answer == "200":
            raise ConfigurationError("enough")
        return True

    with pytest.raises(ConfigurationError, match="enough"):
        run(dataset(), judge, max_concurrency=4)

    assert max(ahead) < 4
    assert 200 < len(ahead) < 5_000


async def test_an_async_iterable_is_pulled_lazily() -> None:
    """An endless async dataset is read no further than its judges need."""
    pulled = 0

    async def dataset() -> AsyncIterator[Sample]:
        nonlocal pulled
        while True:
            pulled += 1
            yield Sample(user_input="?", response="x")

    script = ScriptedJudge([4] * 50)  # runs out after 50 lines
    with pytest.raises(ConfigurationError, match="run out"):
        await aevaluate(dataset(), script, max_concurrency=3)

    assert 50 < pulled <= 53


def test_no_more_than_the_concurrency_at_once() -> None:
    """As many rows are judged at once as allowed, and no more."""
    together = threading.Barrier(3)
    busy: list[int] = [0]
    most: list[int] = [0]
    lock = threading.Lock()

    def judge(sample: Sample) -> bool:
        with lock:
            busy[0] += 1
            most[0] = max(most[0], busy[0])
        together.wait(10)
        with lock:
            busy[0] -= 1
        return True

    evaluate(rows(9), judge, max_concurrency=3)

    assert most == [3]


@either
@pytest.mark.parametrize(
    ("judges", "names"),
    [
        (Length(at_most=99), ["length"]),
        ([Length(at_most=99), Length(name="short", at_most=3)], ["length", "short"]),
        ({"a": Length(at_most=99), "b": lambda sample: True}, ["a", "b"]),
        (lambda answer: len(answer) < 3, ["function"]),
    ],
)
def test_judges_are_taken_in_every_form(run: Run, judges: object, names: list[str]) -> None:
    """One judge, a list, a mapping and a function are accepted; verdicts carry the name they are filed under."""
    row = run(rows(1), judges).rows[0]

    assert [(name, verdict.judge) for name, verdict in row.verdicts.items()] == [(name, name) for name in names]


@either
@pytest.mark.parametrize(
    ("samples", "judges", "settings", "message"),
    [
        (
            rows(1),
            [Length(at_most=99), Length(at_most=3), lambda sample: True],
            {},
            "several judges are called 'length'",
        ),
        (rows(1), [], {}, "at least one judge"),
        (rows(1), 3, {}, "cannot make a judge"),
        (rows(1), "length", {}, "the judge 'length': any length would pass"),
        (rows(1), Length(at_most=99), {"max_concurrency": 0}, "max_concurrency"),
        ("rows.jsonl", Length(at_most=99), {}, "read_rows"),
        ({"answer": "x"}, Length(at_most=99), {}, r"\[sample\]"),
        (Sample(response="x"), Length(at_most=99), {}, r"\[sample\]"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(
    run: Run, samples: Any, judges: object, settings: Any, message: str
) -> None:
    """Judges of one name, none, what is no judge, no concurrency and no rows are refused with the remedy."""
    with pytest.raises(ConfigurationError, match=message):
        run(samples, judges, **settings)


class _Reckless(Judge):
    """A judge that breaks its own interface."""

    name = "reckless"

    def __call__(self, sample: object = None, /, *more: Never, **fields: object) -> Verdict:
        raise RuntimeError("no verdict")

    async def acall(self, sample: object = None, /, *more: Never, **fields: object) -> Verdict:
        raise RuntimeError("no verdict")

    def deliberate(self, sample: Sample) -> Deliberation:
        raise NotImplementedError


@either
def test_a_failing_cell_is_unscored(run: Run) -> None:
    """A judge that raises, also outside its deliberation, leaves a cell without a score; the rest is judged."""
    broken = ScriptedJudge([True, ValueError("!"), False, True], name="broken")

    evaluation = run(rows(4), [broken, _Reckless(), Length(at_most=99)], max_concurrency=1)

    assert [row.verdicts["broken"].unscored for row in evaluation.rows] == [None, "judge_failed", None, None]
    assert evaluation.summary["broken"].mean == pytest.approx(2 / 3)
    assert evaluation.summary["broken"].unscored == {"judge_failed": 1}
    assert evaluation.summary["length"].scored == 4
    cell = evaluation.rows[0].verdicts["reckless"]
    assert (cell.unscored, cell.detail) == ("judge_failed", "RuntimeError in 'reckless'")


@either
def test_an_unreadable_row_keeps_its_place(run: Run) -> None:
    """A row that is no sample, or stands for a torn one, has an error and unscored cells; others are judged."""
    evaluation = run(
        [{"answer": "a"}, {"answer": 3}, {}, BadSample("line 7 is torn"), {"answer": "b"}], Length(at_most=99)
    )

    assert [bool(row.error) for row in evaluation.rows] == [False, True, True, True, False]
    assert "field 'answer'" in evaluation.rows[1].error
    assert evaluation.rows[1].sample is None
    assert evaluation.rows[1].verdicts["length"].unscored == "invalid_sample"
    assert evaluation.rows[3].error == "line 7 is torn"
    assert evaluation.rows[3].verdicts["length"].detail == "the row cannot be read: line 7 is torn"
    assert evaluation.summary["length"].n == 5
    assert evaluation.summary["length"].mean == 1.0


def test_a_configuration_error_comes_at_once() -> None:
    """It is raised while another worker is still asking; that worker's row is then written nowhere."""
    asking, released = threading.Event(), threading.Event()
    out = io.StringIO()

    def judge(sample: Sample) -> bool:
        if sample.answer == "0":
            asking.set()
            released.wait(10)
            return True
        asking.wait(10)
        raise ConfigurationError("no key")

    with pytest.raises(ConfigurationError, match="no key"):
        evaluate(rows(9), judge, max_concurrency=2, out=out)

    released.set()
    for thread in [one for one in threading.enumerate() if one.name.startswith("judges-offline")]:
        thread.join(10)
    assert out.getvalue() == ""


async def test_a_configuration_error_cancels_the_other_tasks() -> None:
    """It is raised at once, and the judges at work are cancelled."""
    cancelled = asyncio.Event()
    asking = asyncio.Event()

    async def judge(sample: Sample) -> bool:
        if sample.answer == "1":
            await asking.wait()
            raise ConfigurationError("no key")
        asking.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return True

    with pytest.raises(ConfigurationError, match="no key"):
        await aevaluate(rows(2), judge)
    assert cancelled.is_set()


async def test_cancelling_cancels_the_workers() -> None:
    """Nothing judges on once the evaluation was cancelled."""
    cancelled: list[str | None] = []
    all_asking = asyncio.Event()
    asking: list[str | None] = []

    async def judge(sample: Sample) -> bool:
        asking.append(sample.answer)
        if len(asking) == 3:
            all_asking.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(sample.answer)
            raise
        return True

    task = asyncio.create_task(aevaluate(rows(9), judge, max_concurrency=3))
    await all_asking.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(map(str, cancelled)) == ["0", "1", "2"]


@either
def test_an_error_of_the_dataset_is_raised(run: Run) -> None:
    """A dataset that breaks is no row: its error reaches the caller as it is."""

    def dataset() -> Iterator[Sample]:
        yield from rows(3)
        raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        run(dataset(), Length(at_most=99))


@either
def test_rows_stream_to_a_file_as_they_are_ready(run: Run, tmp_path: Path) -> None:
    """Each row is a line of JSON on disk, in order, when it is reported; what is no valid Unicode is escaped."""
    path = tmp_path / "results.jsonl"
    seen: list[list[int]] = []

    def written() -> list[Any]:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def look(row: Row) -> None:
        seen.append([row["index"] for row in written()])

    run(rows(3), lambda sample: Verdict.checked(passed=True, rationale="\ud83d"), out=path, on_result=look)

    assert seen == [[0], [0, 1], [0, 1, 2]]
    assert written()[0]["verdicts"]["function"]["rationale"] == "\ud83d"


@either
def test_rows_stream_to_an_open_file(run: Run) -> None:
    """An open text file receives the lines and stays open; each line reads back as its row."""
    out = io.StringIO()

    evaluation = run([*rows(2), {"answer": 3}], Length(at_most=99), out=out)

    assert tuple(map(Row.model_validate_json, out.getvalue().splitlines())) == evaluation.rows


@either
def test_the_summary_counts(run: Run) -> None:
    """Mean, ratings and share passed are over scored rows; reasons are counted apart."""
    judge = ScriptedJudge([4, 3, 1, 1, ValueError(), "nonsense"])

    summary = run(rows(6), judge, max_concurrency=1).summary["scripted"]

    assert (summary.n, summary.scored) == (6, 4)
    assert summary.mean == pytest.approx((1 + 2 / 3) / 4)
    assert summary.ratings == {1: 2, 2: 0, 3: 1, 4: 1}
    assert summary.passed == 0.5
    assert summary.unscored == {"invalid_output": 1, "judge_failed": 1}
    assert summary.latency_s is not None


@either
def test_the_summary_adds_up_usage(run: Run) -> None:
    """Calls and tokens of all rows are added up."""
    model = ScriptedModel(lambda messages: {"rationale": "r", "rating": 3, "feedback": ""})

    evaluation = run(rows(5), Helpfulness(model), max_concurrency=3)

    usage = evaluation.summary["helpfulness"].usage
    assert usage.calls == 5
    assert usage.tokens == sum(row.verdicts["helpfulness"].usage.tokens for row in evaluation.rows) > 0


@either
@pytest.mark.parametrize("samples", [[], [{"answer": 3}]])
def test_nothing_scored_has_no_mean(run: Run, samples: list[object]) -> None:
    """Without a score there is no mean and no share: None, never 0 and never NaN."""
    summary = run(samples, Length(at_most=99)).summary["length"]

    assert (summary.mean, summary.passed, summary.latency_s) == (None, None, None)


async def test_threads_work_inside_a_running_loop() -> None:
    """The sync way can be called where an event loop is running, with async functions too."""

    async def judge(sample: Sample) -> int:
        return 4

    assert evaluate(rows(3), judge).summary["judge"].ratings[4] == 3


@either
def test_workers_inherit_the_context(run: Run) -> None:
    """An allowance set around an evaluation holds in its workers."""
    model = ScriptedModel(lambda messages: {"rationale": "r", "rating": 3, "feedback": ""})

    with within(Allowance(calls=2)):
        evaluation = run(rows(5), Helpfulness(model), max_concurrency=2)

    assert evaluation.summary["helpfulness"].scored == 2
    assert evaluation.summary["helpfulness"].unscored == {"budget": 3}


# --- reading rows


Written = Callable[[str, str], Path]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Write a file of rows."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return write


def test_json_lines_are_read(written: Written) -> None:
    """Each line is a sample, whatever its dialect; blank lines and a byte order mark are skipped."""
    path = written("r.jsonl", '\ufeff{"question": "q", "answer": "a", "id": 7}\n\n{"response": "b"}\r\n')

    assert list(read_rows(path)) == [
        Sample(user_input="q", response="a", metadata={"id": 7}),
        Sample(response="b"),
    ]


def test_csv_is_read(written: Written) -> None:
    """A line for Excel and blanks around names are no data; an empty cell is an empty answer or no field."""
    rows = [
        Sample(user_input="q", response="a, b", retrieved_contexts=("c",), metadata={"id": "7"}),
        Sample(user_input="r", response="", metadata={"id": ""}),
    ]
    path = written("r.csv", 'sep=;\n question ; answer;contexts ;id\nq;a, b;"[""c""]";7\nr;;;\n')
    assert list(read_rows(path)) == rows


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("r.jsonl", '{"answer": "a"}\n{"answer": 3}\n', "line 2: field 'answer': "),
        ("r.jsonl", '\n["a"]\n', r"line 2: a row is a JSON object .*, not \[\"a\"\]"),
        ("r.jsonl", '{"score": NaN}\n', "line 1: NaN is not a JSON number"),
        ("r.jsonl", "[" * 100_000, "line 1: not readable JSON"),
        ("r.jsonl", '{"answer": "a"}\n{"question": "ж日😀", "answer": x}\n', "line 2: .* at column 31$"),
        ("r.jsonl", '\ufeff{"answer": }', "line 1: not valid JSON: .* at column 12$"),
        ("r.jsonl", '{"answer": "cut', "line 1: not valid JSON: unterminated string starting at column 12$"),
        (
            "r.jsonl",
            '\r\n{"answer": "a"\r\n',
            "line 2: .* at column 15; a row is one whole JSON object on one line$",
        ),
        ("r.jsonl", "{\n", "line 1: .* at column 2; a row is one whole"),
        (
            "r.jsonl",
            '{"answer": "NaN \\" Infinity", "score": -Infinity}',
            "line 1: -Infinity is not a JSON number, at column 40$",
        ),
        ("r.csv", "sep=,\nanswer\nb,c\n", "line 3: there are more cells than columns"),
        (
            "r.csv",
            'answer,contexts\n"a\n\nb",\n\n\n"c\nd",[é}\n',
            "line 7: field 'contexts': in a CSV file it is written as JSON.* column 2 of the cell$",
        ),
        (
            "r.csv",
            '\nanswer,contexts\r\n"a\r\nb","[1,\r\n,]"\r\n',
            "line 3: .* at column 1 of line 2 of the cell$",
        ),
        ("r.csv", "answer,answer\na,b\n", "line 1: the column 'answer' appears twice"),
        ("r.csv", 'answer\na\n\n"b\n\n', "line 4: a quotation mark is opened here and never closed$"),
        ("r.jsonl", '{"answer": "a"}\n{"answer": "éé\xff"}\n', "line 2: .* column 15; save the file as UTF-8"),
        ("r.csv", 'answer\na\n"b\nééb,é\xff"\n', "line 4: .* column 6; save the file as UTF-8"),
    ],
)
def test_a_row_that_cannot_be_read_is_placed(tmp_path: Path, name: str, text: str, place: str) -> None:
    """One line names file, line, column and field; columns are characters, lines those of the file, quoted too.

    The letter ÿ stands for a byte that is no UTF-8.
    """
    path = tmp_path / name
    path.write_bytes(text.encode().replace("\xff".encode(), b"\xff"))

    with pytest.raises(BadSample, match=place) as caught:
        list(read_rows(path))
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_rows_are_read_lazily_and_errors_can_be_kept(written: Written) -> None:
    """What stands further down is not looked at for the first row; an error can stand among the others."""
    path = written("r.jsonl", '{"answer": "a"}\nbroken\n{"answer": "b"}\n')

    assert next(read_rows(path)) == Sample(response="a")
    assert [type(one) for one in read_rows(path, errors="keep")] == [Sample, BadSample, Sample]


@pytest.mark.parametrize(
    ("name", "message"), [("none.jsonl", "there is no file"), ("r.txt", r"\.jsonl or a \.csv")]
)
def test_files_that_cannot_be_rows_are_refused(written: Written, name: str, message: str) -> None:
    """A missing file and one of another kind are refused before anything is read."""
    path = written("r.txt", "x").with_name(name)

    with pytest.raises(ConfigurationError, match=message):
        read_rows(path)


def mixed_evaluation(**settings: Any) -> Evaluation:
    """Judge four rows of two topics, one of them unreadable for the judge."""
    scores = {"a": 1.0, "b": 0.0, "c": 1.0}

    def judge(sample: Sample) -> float | None:
        return scores.get(sample.answer or "")

    topics = ["x", "y", "x", "y"]
    samples = [
        {"question": "?", "answer": answer, "topic": topic} for answer, topic in zip("abcd", topics, strict=True)
    ]
    return evaluate(samples, {"good": judge, "short": Length(at_most=3)}, **settings)


def test_figures_come_with_their_intervals_and_percentiles() -> None:
    """The means have Wilson's interval, latencies their percentiles."""
    summary = mixed_evaluation()["good"]
    assert (summary.n, summary.scored) == (4, 3)
    assert summary.mean == pytest.approx(2 / 3)
    assert summary.mean_interval == pytest.approx((0.2077, 0.9385), abs=1e-3)
    assert summary.passed_interval == pytest.approx((0.2077, 0.9385), abs=1e-3)
    assert set(summary.latency_percentiles_s) == {50, 90, 99}
    assert summary.latency_percentiles_s[50] <= summary.latency_percentiles_s[99]
    nothing = evaluate([], Length(at_most=3))["length"]
    assert (nothing.mean_interval, nothing.passed_interval, nothing.latency_percentiles_s) == (None, None, {})


def test_an_evaluation_is_read_by_judge_slice_and_row() -> None:
    """Summaries by judge, scores by row, slices by a column of the metadata, and what it cost."""
    evaluation = mixed_evaluation()
    assert len(evaluation) == 4
    assert evaluation.scores == {"good": [1.0, 0.0, 1.0, None], "short": [1.0] * 4}
    assert evaluation.cost == 0
    slices = evaluation.slices("topic")
    assert {topic: by_judge["good"].mean for topic, by_judge in slices.items()} == {"x": 1.0, "y": 0.0}
    assert slices["y"]["good"].unscored == evaluation["good"].unscored
    with pytest.raises(ConfigurationError, match=r"no row has a column 'tpoic' .* \['topic'\]"):
        evaluation.slices("tpoic")
    dropped = mixed_evaluation(keep_rows=False)
    assert (dropped.rows, len(dropped), dropped["good"].ratings) == ((), 4, evaluation["good"].ratings)
    with pytest.raises(ConfigurationError, match="keep_rows=True"):
        _ = dropped.scores


def test_an_evaluation_is_saved_and_loaded(tmp_path: Path) -> None:
    """What is loaded equals what was saved, and another file is refused in one line."""
    evaluation = mixed_evaluation()
    evaluation.save(tmp_path / "run.jsonl")
    assert Evaluation.load(tmp_path / "run.jsonl") == evaluation
    (tmp_path / "other").write_text("[1]\n")
    with pytest.raises(ConfigurationError, match="no saved evaluation"):
        Evaluation.load(tmp_path / "other")
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        Evaluation.load(tmp_path / "missing")
    with pytest.raises(ConfigurationError, match=r"is a folder; read a run by judges.offline.load_run\(\.\.\.\)"):
        Evaluation.load(tmp_path)
    with pytest.raises(KeyError, match="no judge of this run is called 'goood'; its judges are good, short"):
        evaluation["goood"]
    with pytest.raises(ConfigurationError, match="cannot be written"):
        evaluation.save(tmp_path / "no" / "folder")


def test_an_evaluation_becomes_a_table_of_pandas() -> None:
    """A line per row, with the sample's fields and each judge's figures."""
    pytest.importorskip("pandas")
    table = mixed_evaluation().to_pandas()
    assert list(table["row"]) == [0, 1, 2, 3]
    assert list(table["response"]) == list("abcd")
    assert list(table["good"].fillna(-1)) == [1.0, 0.0, 1.0, -1]
    assert table["good_unscored"].iloc[3] is not None
    assert list(table["short_passed"]) == [True] * 4


def test_repeated_ids_are_told(caplog: pytest.LogCaptureFixture) -> None:
    """Rows that share an id all count, and which ids they are is logged once."""
    rows = [{"id": name, "question": f"q{n}", "answer": "s"} for n, name in enumerate("abab")]
    assert len(evaluate(rows, "length:at_most=3")) == 4
    assert caplog.text.count("repeated ids, of 2 further rows: 'a', 'b'; rows are told apart by their place") == 1
