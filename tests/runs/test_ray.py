"""Ray Data on this machine: the rows of one process, Parquet in and out, limits divided, and runs that go on.

Needs the extra `ray`, which the main suite has not; `.ci/run` runs this file in an environment of its own.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from judges import ConfigurationError, Helpfulness, Length, OpenAICompatible, Panel, as_judge
from judges.offline import BatchSettings, Evaluation, Row, RunSettings, RunStopped, evaluate, evaluate_ray
from tests.model_server import Asked, ModelServer, Reply, serving

HAS_RAY = importlib.util.find_spec("ray") is not None
REQUIRED = os.environ.get("TEST_RAY") == "required"
with_ray = pytest.mark.skipif(not (HAS_RAY or REQUIRED), reason="needs the extra ray")
quietly = pytest.mark.filterwarnings("ignore")  # Ray's own code warns of itself

ROWS: list[dict[str, object]] = [
    {"question": f"q {i}", "answer": f"a {i}", **({"contexts": ["c"], "topic": i % 3} if i % 4 else {})}
    for i in range(40)
]
FILES = ("results.jsonl", "cells.jsonl", "summary.json", "run.json")


def polite(response: str) -> bool:
    """Judge an answer, as a function of a module."""
    return "3" not in response


def rate(asked: Asked) -> Reply:
    """Rate an answer by its number."""
    match = re.search(r'"a (\d+)"', asked["messages"][-1]["content"])
    assert match is not None
    rating = 1 + int(match[1]) % 4
    return Reply(text=json.dumps({"rationale": "r", "rating": rating, "feedback": "f"}))


def without_times(rows: tuple[Row, ...]) -> list[object]:
    """Return rows without the seconds that judging took."""

    def timeless(value: object) -> object:
        if isinstance(value, dict):
            return {name: timeless(part) for name, part in value.items() if name != "latency_s"}
        return [timeless(part) for part in value] if isinstance(value, list) else value

    return [timeless(json.loads(row.line())) for row in rows]


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """Start a server that rates every answer."""
    with serving(rate) as one:
        yield one


@pytest.mark.skipif(HAS_RAY, reason="Ray is installed")
def test_a_missing_extra_is_one_line() -> None:
    """Without Ray the line names the extra."""
    with pytest.raises(ConfigurationError, match=r"not installed; install the extra: selfrefine\[ray\]$"):
        evaluate_ray(ROWS, Length(at_most=3))


@with_ray
@quietly
def test_two_workers_give_the_rows_of_one_process(server: ModelServer, tmp_path: Path) -> None:
    """Rows, totals and files are those of `evaluate`; a run that stopped asks for what is missing alone."""
    import pyarrow as pa  # noqa: PLC0415 - comes with Ray
    from pyarrow import parquet  # noqa: PLC0415 - likewise

    names = dict.fromkeys(name for row in ROWS for name in row)
    parquet.write_table(
        pa.table({name: [row.get(name) for row in ROWS] for name in names}), tmp_path / "rows.parquet"
    )
    model = OpenAICompatible(server.url, model="m", api_key="")
    judges = {"helpful": Helpfulness(model), "polite": as_judge(polite), "panel": Panel([Length(at_most=2)])}
    one = evaluate(ROWS, judges, run=tmp_path / "one")
    server.requests.clear()

    settings = RunSettings(folder=tmp_path / "run", max_calls=20)
    with pytest.raises(RunStopped, match="a worker used up its part of max_calls=20, which is divided by 2"):
        evaluate_ray(tmp_path / "rows.parquet", judges, batch_size=4, run=settings)
    assert 10 <= len(server.requests) <= 20
    again = evaluate_ray(tmp_path / "rows.parquet", judges, batch_size=4, run=tmp_path / "run", resume=True)
    assert len(server.requests) == 40, "nothing is paid twice"
    assert isinstance(again, Evaluation)
    assert without_times(again.rows) == without_times(one.rows)
    for name in FILES:
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "one" / name).read_bytes()
    with serving(lambda _: Reply(status=401, text="bad key")) as refusing:
        closed = Helpfulness(OpenAICompatible(refusing.url, model="m", api_key=""))
        with pytest.raises(ConfigurationError, match=r"^the endpoint of 'm' refuses all calls \(status 401\)"):
            evaluate_ray(tmp_path / "rows.parquet", closed)
    with pytest.raises(ConfigurationError, match="the judge 'helpful' \\(missing now\\)"):
        evaluate_ray(tmp_path / "rows.parquet", judges["polite"], run=tmp_path / "run", resume=True)

    in_memory = evaluate_ray(ROWS, judges, batch_size=8)
    assert without_times(in_memory.rows) == without_times(one.rows)
    blocks = parquet.read_table(tmp_path / "run" / "blocks").sort_by("row").to_pandas()
    for table in (blocks, in_memory.dataset.to_pandas()):
        assert list(table["helpful"]) == one.scores["helpful"]
        assert list(table["question"]) == [row["question"] for row in ROWS]


@with_ray
@quietly
def test_columns_are_mapped_as_in_one_process(tmp_path: Path) -> None:
    """Renamed and nested columns, and rows without them, are judged as by `evaluate`; the dataset keeps its."""
    rows: list[dict[str, object]] = [
        {"q": f"q {i}", "out": {"text": f"a {i}" * i} if i != 3 else {"other": "x"}, "answer": "not this"}
        for i in range(8)
    ]
    columns = {"question": "q", "answer": "out.text"}
    one = evaluate(rows, ["length:at_most=8"], run=tmp_path / "one", map=columns)
    ray = evaluate_ray(rows, ["length:at_most=8"], run=tmp_path / "run", map=columns, batch_size=3)
    assert one["length"].unscored == {"invalid_sample": 1}
    assert without_times(ray.rows) == without_times(one.rows)
    for name in FILES:
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "one" / name).read_bytes()
    assert ray.dataset.take(1)[0]["out"]["text"] == ""
    with pytest.raises(ConfigurationError, match="map: 'anser' is no field of a sample; did you mean 'answer'"):
        evaluate_ray(rows, Length(at_most=8), map={"anser": "q"})


@with_ray
@quietly
def test_wrong_arguments_are_one_line() -> None:
    """What cannot be judged on Ray is refused before anything is."""
    for wrong, settings, text in (
        (ROWS, {"workers": 0}, "workers is a whole number from 1"),
        (ROWS, {"workers": 9}, "max_concurrency=8 cannot be divided between 9 workers"),
        (ROWS, {"run": RunSettings(folder="x", shard=(1, 2))}, "no use for the setting shard"),
        (ROWS, {"run": RunSettings(folder="x", batch=BatchSettings())}, "no use for the setting batch"),
        (ROWS, {"resume": True}, "resume=True goes with run="),
        (7, {}, "ds is a ray.data.Dataset, the path of Parquet files, or a list of mappings, not 7"),
        ([{"question": "q", "row": 1}], {}, r"columns called \['row'\]"),
    ):
        with pytest.raises(ConfigurationError, match=text):
            evaluate_ray(wrong, Length(at_most=3), **settings)
    with pytest.raises(ConfigurationError, match="'function' cannot be pickled"):
        evaluate_ray(ROWS, lambda answer: 4)
