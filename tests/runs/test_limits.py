"""Where a run stops: at its limits, at a call that shows that all are in vain, and not at an overload."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata

from judges import ConfigurationError, Helpfulness, OpenAICompatible, OpenAICompatibleEmbeddings, Price, as_judge
from judges.catalogue.ragas.answer_correctness import SemanticSimilarity
from judges.offline import Evaluation, Progress, RunSettings, RunStopped, evaluate
from judges.testing import ScriptedModel, no_waiting
from tests.model_server import Asked, ModelServer, Reply, Wire, answered, serving
from tests.runs.commands import RATED, begin, line_of, refine, write_rows

NAMED = {"model_name": "m"}
USED = UsageMetadata(input_tokens=5, output_tokens=1, total_tokens=6)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """Start a server that rates every answer."""
    with serving(lambda _: Reply(text=RATED, usage=(1_000, 100))) as one:
        yield one


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Write 30 rows."""
    return write_rows(tmp_path / "rows.jsonl", 30)


def test_max_calls_stops_and_resume_goes_on(server: ModelServer, rows: Path, tmp_path: Path) -> None:
    """No call more is made; the line says how to go on, and going on repeats none."""
    run = tmp_path / "run"
    line = line_of(refine(*begin(rows, run, server.url, "--max-calls", 12)), code=3)
    assert "stopped after 12 calls, as --max-calls 12 says" in line
    assert line.endswith(f"go on with `refine resume {run}`")
    assert len(server.requests) == 12
    assert not (run / "results.jsonl").exists()
    assert "holds a run that has not finished" in line_of(refine(*begin(rows, run, server.url)))
    assert refine("resume", run).exit_code == 0
    assert len(server.requests) == 30
    assert len((run / "results.jsonl").read_text().splitlines()) == 30
    assert refine("resume", run).exit_code == 0, "nothing is missing"
    assert len(server.requests) == 30


def test_max_cost_is_kept_and_costs_are_known(server: ModelServer, rows: Path, tmp_path: Path) -> None:
    """What was spent stays within the limit, prices come from the file, and an unknown price is refused."""
    prices, run = tmp_path / "prices.json", tmp_path / "run"
    prices.write_text('{"m": {"input": 1.0, "output": 10.0}}')  # 0.002 US dollars a call
    line = line_of(refine(*begin(rows, run, server.url, "--max-cost", 0.021, "--prices", prices)), code=3)
    assert "may exceed --max-cost 0.021" in line
    assert len(server.requests) == 10
    result = refine("resume", run, "--prices", prices, "--json")
    usage = json.loads(result.stdout)["judges"]["helpfulness"]["usage"]
    assert (usage["calls"], round(usage["cost"], 6)) == (30, 0.06)
    line = line_of(refine(*begin(rows, tmp_path / "other", server.url, "--max-cost", 1)))
    assert "what the model 'm' costs is unknown" in line
    prices.write_text('{"m": 3}')
    assert "--prices" in line_of(refine(*begin(rows, tmp_path / "third", server.url, "--prices", prices)))


def test_max_cost_is_kept_where_calls_cost_more_and_more(tmp_path: Path) -> None:
    """Many calls at once spend at most one call's difference more than allowed, though the first are cheap."""
    rows = [{"question": f"q {i}", "answer": f"a {i}"} for i in range(60)]
    prices = {"m": Price(input=1.0, output=10.0)}  # 0.001 to 0.0035 US dollars a call
    spent = 0.0

    def dearer(_: object) -> Reply:
        nonlocal spent
        usage = (1_000, min(250, 5 * len(one.requests)))
        spent += (usage[0] * 1.0 + usage[1] * 10.0) / 1e6
        return Reply(text=RATED, usage=usage, delay_s=0.02)

    with serving(dearer) as one, OpenAICompatible(one.url, model="m", api_key="") as model:
        settings = RunSettings(folder=tmp_path / "run", max_cost=0.05, prices=prices)
        with pytest.raises(RunStopped, match=r"may exceed --max-cost 0\.05"):
            evaluate(rows, Helpfulness(model), run=settings, max_concurrency=60)
    assert 0.04 < spent <= 0.05 + 0.0035


def test_cached_prompt_tokens_have_their_own_price(tmp_path: Path) -> None:
    """A model that reports cached tokens is priced as its provider does."""
    usage = {"prompt_tokens": 1_000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 800}}
    reply = {"choices": [{"message": {"content": RATED}, "finish_reason": "stop"}], "usage": usage, "model": "m"}
    with serving(lambda _: answered(reply)) as one, OpenAICompatible(one.url, model="m", api_key="") as model:
        prices = {"m": Price(input=1.0, output=10.0, cached_input=0.1)}
        settings = RunSettings(folder=tmp_path / "run", prices=prices)
        evaluation = evaluate([{"question": "q", "answer": "a"}], Helpfulness(model), run=settings)
    assert evaluation.cost == pytest.approx((200 * 1.0 + 800 * 0.1 + 100 * 10.0) / 1e6)


@pytest.mark.parametrize("text", ["Air scatters light of short waves. ", "因为空气散射光线，波长越短越强。"])
def test_an_estimate_holds_what_a_run_takes(tmp_path: Path, text: str) -> None:
    """A provider that counts messages and the reply's schema, at usual letters a token, stays in the range."""
    rows = [{"question": "Why is the sky blue?", "answer": text * (1 + i)} for i in range(4)]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def counting(asked: Asked) -> Reply:
        words = "".join(message["content"] for message in asked["messages"]) + json.dumps(asked["response_format"])
        latin = len(words.encode("ascii", "ignore"))
        return Reply(text=RATED, usage=(round(latin / 4 + (len(words) - latin)), 100))

    with serving(counting) as one, OpenAICompatible(one.url, model="m", api_key="") as model:
        judge = ("--judge", "helpfulness", "--model", "m", "--base-url", one.url)
        expected = json.loads(refine("estimate", file, *judge, "--json").stdout)
        assert one.requests == []
        evaluation = evaluate(rows, Helpfulness(model), run=tmp_path / "run")
    low, high = expected["judges"][0]["input_tokens"]
    assert 0 < low <= evaluation["helpfulness"].usage.input_tokens <= high
    assert expected["calls"] == [4, 4]


@pytest.mark.parametrize(
    ("status", "text", "remedy"),
    [
        (401, "bad key", "check the key"),
        (403, "no access", "check the key"),
        (404, "no such page", "check the model's name"),
        (400, "The model `m` does not exist", "check the model's name"),
    ],
)
def test_calls_in_vain_end_the_run_at_once(
    rows: Path, tmp_path: Path, status: int, text: str, remedy: str
) -> None:
    """The first refusal is one line with exit code 2, and nothing is left of a run in which nothing was judged."""
    run = tmp_path / "run"
    with serving(lambda _: Reply(status=status, text=text)) as one:
        judge = ("--judge", "helpfulness", "--model", "m", "--base-url", one.url)
        line = line_of(refine("evaluate", rows, *judge, "--out", run))
        assert f"refuses all calls (status {status}); {remedy}" in line
        assert line.count(str(status)) > 1, "what the endpoint said follows"
        assert len(one.requests) <= 3 * 8
    assert not run.exists()


def test_a_model_that_is_missing_is_seen_though_a_row_says_the_same(tmp_path: Path) -> None:
    """What an endpoint says is read before the words of the prompt are hidden in it."""
    said = "The model `m` does not exist"
    with (
        serving(lambda _: Reply(status=400, text=said)) as one,
        OpenAICompatible(one.url, model="m") as model,
        pytest.raises(ConfigurationError, match="refuses all calls"),
    ):
        evaluate([{"question": "q", "answer": said}] * 9, Helpfulness(model), run=tmp_path / "run")


def test_a_key_revoked_on_the_way_loses_nothing(rows: Path, tmp_path: Path) -> None:
    """What was judged before stays, and the line says how to go on."""
    run = tmp_path / "run"
    with serving(lambda _: Reply(text=RATED)) as one:
        one.reply = lambda _: Reply(text=RATED) if len(one.requests) <= 10 else Reply(status=401, text="revoked")
        assert f"refine resume {run}" in line_of(refine(*begin(rows, run, one.url)))
        one.reply = lambda _: Reply(text=RATED)
        one.requests.clear()
        assert refine("resume", run).exit_code == 0
        assert 20 <= len(one.requests) <= 28


def test_an_overload_loses_no_row(tmp_path: Path) -> None:
    """Calls that meet 429 are repeated until they are answered, however often, and not counted."""
    rows = [{"question": "q", "answer": str(i)} for i in range(20)]
    told: list[Progress] = []
    settings = RunSettings(folder=tmp_path / "run", max_calls=20, on_progress=told.append)
    with serving(lambda _: Reply(text=RATED)) as one, no_waiting():
        one.reply = lambda _: Reply(text=RATED) if len(one.requests) % 6 == 0 else Reply(status=429, text="slow")
        with OpenAICompatible(one.url, model="m", api_key="") as model:
            evaluation = evaluate(rows, Helpfulness(model), run=settings)
    assert (evaluation["helpfulness"].scored, told[-1].calls) == (20, 20)


def test_judges_of_a_row_share_one_bound_on_calls(tmp_path: Path) -> None:
    """Several judges of a row are asked side by side, and no more calls than allowed are in flight."""
    flying: list[Progress] = []
    model = ScriptedModel(lambda _: json.loads(RATED), delay_s=0.02)
    judges = {name: Helpfulness(model) for name in ("a", "b", "c", "d")}
    rows = [{"question": "q", "answer": str(i)} for i in range(8)]
    settings = RunSettings(folder=tmp_path / "run", on_progress=flying.append)
    evaluation = evaluate(rows, judges, run=settings, max_concurrency=16)
    assert len(evaluation) == 8
    assert max(progress.in_flight for progress in flying) <= 16
    last = flying[-1]
    assert (last.done, last.total, last.unscored, last.calls, last.in_flight) == (32, 32, 0, 32, 0)
    assert last.seconds_left == 0
    assert str(last).startswith("judged 32 of 32 cells, 0 unscored, 0 in flight, 32 calls, cost unknown, 0:00:0")


def test_limits_hold_from_python(tmp_path: Path) -> None:
    """A limit ends `evaluate` with an error of its own; a second start goes on, and rows may be an iterator."""
    model = ScriptedModel(lambda _: json.loads(RATED))
    settings = RunSettings(folder=tmp_path / "run", max_calls=5)
    with pytest.raises(RunStopped, match="stopped after 5 calls"):
        evaluate(({"question": "q", "answer": str(i)} for i in range(9)), Helpfulness(model), run=settings)
    rows = ({"question": "q", "answer": str(i)} for i in range(9))
    evaluation = evaluate(rows, Helpfulness(model), run=tmp_path / "run", resume=True)
    assert [row.index for row in evaluation.rows] == list(range(9))
    assert len(model.prompts) == 9
    with pytest.raises(ConfigurationError, match="resume=True goes with run="):
        evaluate([], Helpfulness(model), resume=True)


def test_calls_a_minute_are_held(tmp_path: Path) -> None:
    """No window of a minute sees more calls begin than `--rate` says; the run waits, and loses nothing."""
    rows, run = write_rows(tmp_path / "rows.jsonl", 25), tmp_path / "run"
    with serving(lambda _: Reply(text=RATED)) as one, no_waiting() as waits:
        assert refine(*begin(rows, run, one.url, "--rate", 10)).exit_code == 0
        assert len(one.requests) == 25
    assert 100 < sum(waits) <= 120, "two of three windows are waited for"


def test_tokens_a_minute_are_held(tmp_path: Path) -> None:
    """Tokens are counted when a call is over and estimated before; one that exceeds the window goes alone."""
    rows = write_rows(tmp_path / "rows.jsonl", 12)
    for tokens, windows in ((12_400, 3), (500, 12)):
        with serving(lambda _: Reply(text=RATED, usage=(3_000, 100))) as one, no_waiting() as waits:
            run = tmp_path / f"run-{tokens}"
            limits = ["--tokens-per-minute", tokens, "--max-concurrency", 1]
            assert refine(*begin(rows, run, one.url, *limits)).exit_code == 0
            assert len(one.requests) == 12
        assert 60 * (windows - 1) - 10 < sum(waits) <= 60 * (windows - 1), tokens


def test_calls_of_a_function_are_counted_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A function that calls a model itself cannot be held back: that is said once, and its calls end the run."""
    model = ScriptedModel(lambda _: json.loads(RATED))
    inner = GenericFakeChatModel(messages=cycle([AIMessage("3", usage_metadata=USED)]))

    def own(response: str) -> int:
        return int(inner.invoke(response).text)

    rows = [{"question": "q", "answer": str(i)} for i in range(9)]
    settings = RunSettings(folder=tmp_path / "run", max_calls=6)
    with pytest.raises(RunStopped, match="stopped after"):
        evaluate(rows, [as_judge(own), Helpfulness(model)], run=settings, max_concurrency=1)
    (line,) = [record.message for record in caplog.records]
    assert line.startswith(
        "the judge 'own' calls a model by itself: its calls count, but no limit of the run holds"
    )
    prices = {"m": Price(input=100_000.0, output=0.0)}
    priced = GenericFakeChatModel(messages=cycle([AIMessage("3", usage_metadata=USED, response_metadata=NAMED)]))
    costly = RunSettings(folder=tmp_path / "costly", max_cost=1.2, prices=prices)
    with pytest.raises(RunStopped, match=r"stopped at \$1\.5000 after 3 calls, as --max-cost 1\.2 says"):
        evaluate(rows, as_judge(lambda response: int(priced.invoke(response).text)), run=costly, max_concurrency=1)
    evaluation = evaluate(rows, [as_judge(own), Helpfulness(model)], run=tmp_path / "run", resume=True)
    assert (evaluation["own"].usage.calls, evaluation["helpfulness"].usage.calls) == (9, 9)
    assert len(model.prompts) == 9


def test_vectors_are_paid_from_the_same_limit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What embeddings cost counts toward the limit, unless they cannot say it, which is said once."""
    rows = [{"question": "q", "answer": str(i), "reference": f"r {i}"} for i in range(9)]

    def embedded(_: object) -> Wire:
        data = [{"index": i, "embedding": [1.0, 0.5]} for i in range(2)]
        return answered({"data": data, "model": "e-1", "usage": {"prompt_tokens": 1_000, "total_tokens": 1_000}})

    def judge_by(embeddings: object, price: Mapping[str, Price], folder: str) -> Evaluation:
        settings = RunSettings(folder=tmp_path / folder, max_cost=0.0035, prices=price)
        return evaluate(rows, SemanticSimilarity(embeddings=embeddings), run=settings, max_concurrency=1)

    with serving(embedded) as one:
        embeddings = OpenAICompatibleEmbeddings(one.url, model="e", api_key="")
        with pytest.raises(RunStopped, match=r"stopped at \$0\.0040 after 0 calls, as --max-cost 0\.0035 says"):
            judge_by(embeddings, {"e": Price(input=1.0, output=0.0)}, "priced")
        assert len(one.requests) == 4
        with pytest.raises(ConfigurationError, match="what the model 'e-1' costs is unknown"):
            judge_by(embeddings, {}, "unpriced")
    assert not caplog.records
    judge_by(DeterministicFakeEmbedding(size=3), {}, "silent")
    (line,) = [record.message for record in caplog.records]
    assert line.startswith("--max-cost leaves out what the embeddings of")


def test_an_unknown_cost_does_not_lift_the_limit(server: ModelServer, tmp_path: Path) -> None:
    """A function that asks a model without a price is past the limit, and what is known is held within it."""
    inner = GenericFakeChatModel(messages=cycle([AIMessage("3", usage_metadata=USED)]))

    def own(response: str) -> int:
        return int(inner.invoke(response).text)

    rows = [{"question": "q", "answer": str(i)} for i in range(9)]
    settings = RunSettings(folder=tmp_path / "run", max_cost=0.005, prices={"m": Price(input=1.0, output=10.0)})
    with (
        OpenAICompatible(server.url, model="m", api_key="") as model,
        pytest.raises(RunStopped, match=r"stopped at \$0\.0040 .* may exceed --max-cost 0\.005"),
    ):
        evaluate(rows, [as_judge(own), Helpfulness(model)], run=settings, max_concurrency=1)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ({"folder": " "}, "the folder of a run is empty text"),
        ({"max_calls": 1.5}, "max_calls is a whole number from 1, not 1.5"),
        ({"max_calls": 0}, "max_calls is a whole number from 1, not 0"),
        ({"max_cost": -1.0}, "max_cost is a number of US dollars from 0, not -1.0"),
        ({"shard": (3, 2)}, "a shard is one part of several"),
        ({"max_cost": float("nan")}, "max_cost is a number of US dollars from 0, not nan"),
        ({"shard": "1/2"}, "a shard is one part of several"),
        ({"shard": (1.0, 2)}, "a shard is one part of several"),
    ],
)
def test_settings_that_cannot_be_kept_are_refused(setting: dict[str, Any], line: str) -> None:
    """A wrong setting of a run is one line before anything is judged."""
    with pytest.raises(ConfigurationError, match=line):
        RunSettings(**{"folder": "run", **setting})
