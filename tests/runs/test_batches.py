"""Runs by a provider's batch endpoint: rounds, half the price, nothing sent twice, every line accounted for."""

from __future__ import annotations

import json
import resource
import signal
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from judges import ConfigurationError, Helpfulness, OpenAICompatible, Price, load
from judges.offline import BatchSettings, Evaluation, Progress, RunSettings, RunStopped, evaluate
from judges.testing import ScriptedModel, no_waiting
from tests.batch_server import BatchProvider
from tests.model_server import Asked, Reply, serving
from tests.runs.commands import RATED, line_of, refine, write_rows

CLAIMS = json.dumps({"claims": ["It is blue.", "It is big."]})
SUPPORTED = json.dumps({"items": [{"number": n, "reason": "r", "verdict": "supported"} for n in (1, 2)]})
ROWS = [{"question": f"q {i}", "answer": f"It is blue {i}.", "contexts": ["blue"]} for i in range(12)]
FILES = ("results.jsonl", "cells.jsonl")
QUICK = BatchSettings(poll_s=0.01)
PRICES = {"m": Price(input=1.0, output=10.0)}


def answer(asked: Asked) -> Reply:
    """Reply as the schema of the request wants it."""
    fields = asked["response_format"]["json_schema"]["schema"]["properties"]
    return Reply(
        text=CLAIMS if "claims" in fields else SUPPORTED if "items" in fields else RATED, usage=(1_000, 100)
    )


def run_of(
    provider: BatchProvider, folder: Path, *, resume: bool = False, settings: BatchSettings = QUICK, **more: Any
) -> Evaluation:
    """Judge the rows by two judges, one of which asks twice."""
    with serving(provider) as server, OpenAICompatible(server.url, model="m", api_key="") as model:
        model._identity = "m"  # the server has another port at each start
        judges = [load("faithfulness", model=model), Helpfulness(model)]
        run = RunSettings(folder=folder, prices=PRICES, **more)
        return evaluate(ROWS, judges, run=run, resume=resume, batch=settings)


def test_batches_give_what_single_calls_give(tmp_path: Path) -> None:
    """Each round is a batch, the files are those of single calls but for the price, which is half."""
    provider = BatchProvider(answer)
    progress: list[Progress] = []
    batched = run_of(provider, tmp_path / "batched", on_progress=progress.append)
    assert [batch["request_counts"]["total"] for batch in provider.batches.values()] == [24, 12]
    assert str(progress[0]).endswith("; batch 1 in_progress, 0 of 24")
    assert (progress[-1].calls, progress[-1].in_flight) == (24, 12)
    with serving(answer) as server, OpenAICompatible(server.url, model="m", api_key="") as model:
        judges = [load("faithfulness", model=model), Helpfulness(model)]
        single = evaluate(ROWS, judges, run=RunSettings(folder=tmp_path / "single", prices=PRICES))
    assert batched.scores == single.scores
    assert batched.cost == pytest.approx((single.cost or 0) / 2) == pytest.approx(36 * 0.001)
    assert sorted(path.name for path in (tmp_path / "batched" / "batches").iterdir()) == ["0001.json", "0002.json"]
    assert not any(batch["input_file_id"] in provider.files for batch in provider.batches.values())


def test_a_batch_says_that_it_reads_no_probabilities(tmp_path: Path) -> None:
    """A judge that asks for them gives the verdict of one that does not, and the reason."""
    with serving(BatchProvider(answer)) as server, OpenAICompatible(server.url, model="m", api_key="") as model:
        judge = Helpfulness(model, probabilities=True)
        judged = evaluate(ROWS[:1], [judge], run=RunSettings(folder=tmp_path / "run"), batch=QUICK)
    (verdict,) = judged.rows[0].verdicts.values()
    assert verdict.rating is not None
    assert "batch" in (verdict.no_probabilities or "")


def test_a_run_in_batches_from_the_command_line(tmp_path: Path) -> None:
    """The command waits, may be stopped and resumed without being told of batches, and the estimate is half."""
    rows, run = write_rows(tmp_path / "rows.jsonl", 8), tmp_path / "run"
    prices = tmp_path / "prices.json"
    prices.write_text('{"m": {"input": 1.0, "output": 10.0}}')
    provider = BatchProvider(answer)
    with serving(provider) as server:
        judge = ["--judge", "helpfulness", "--model", "m", "--base-url", server.url]
        begin = ["evaluate", rows, *judge, "--out", run, "--batch", "--poll", 0.01, "--max-calls", 5]
        line = line_of(refine(*begin), code=3)
        assert "stopped after 5 calls in batches, as a further one may exceed --max-calls 5" in line
        assert refine("resume", run, "--poll", 0.01).exit_code == 0
        assert [batch["request_counts"]["total"] for batch in provider.batches.values()] == [5, 3]
        whole = tmp_path / "whole"
        server.reply = answer
        assert refine("evaluate", rows, *judge, "--out", whole).exit_code == 0
        for name in (*FILES, "summary.json"):
            assert (run / name).read_bytes() == (whole / name).read_bytes()
        costs = [
            json.loads(refine("estimate", rows, *judge, "--prices", prices, "--json", *more).stdout)["cost"]
            for more in ((), ("--batch",))
        ]
        assert costs[1] == pytest.approx([cost / 2 for cost in costs[0]])
        for wrong, text in (
            (["--processes", 2], "processes has no use with batches"),
            (["--rate", 2], "rate has no use with batches"),
        ):
            assert text in line_of(refine(*begin[:-2], *wrong, "--out", tmp_path / "new"))
        server.reply = lambda _: Reply(status=404, text="no such page")
        line = line_of(refine("evaluate", rows, *judge, "--out", tmp_path / "none", "--batch"))
        assert line.endswith("begin a new run without them, or give the address of one that has")


def test_nothing_is_sent_twice(tmp_path: Path) -> None:
    """Responses that are lost, and processes that end before they note an id, cost no second upload or batch."""
    provider = BatchProvider(answer, looks=8)

    def stop(progress: Progress) -> None:
        raise RuntimeError(progress.batches)

    provider.lost = 1
    with no_waiting(), pytest.raises(RuntimeError, match="batch 1 in_progress"):
        run_of(provider, tmp_path / "run", on_progress=stop)
    record = tmp_path / "run" / "batches" / "0001.json"
    known = json.loads(record.read_bytes())
    for ids in ({"batch_id": None}, {"batch_id": None, "file_id": None}, {}):
        record.write_text(json.dumps({**known, **ids}))
        with pytest.raises(RuntimeError, match="batch 1 in_progress"):
            run_of(provider, tmp_path / "run", resume=True, on_progress=stop)
    assert run_of(provider, tmp_path / "run", resume=True)["helpfulness"].scored == 12
    assert Counter(provider.log)["POST /files"] == Counter(provider.log)["POST /batches"] == 2
    provider.lost = 2
    with no_waiting():
        run_of(provider, tmp_path / "other")
    assert len(provider.batches) == 4


def test_a_file_manager_may_leave_files_among_the_batches(tmp_path: Path) -> None:
    """A run goes on although its folder holds what it did not write."""
    provider = BatchProvider(answer)
    provider.ending = "failed"
    with pytest.raises(ConfigurationError, match="the provider refused batch"):
        run_of(provider, tmp_path / "run")
    for name in (".DS_Store", "._0001.json", "notes.txt"):
        (tmp_path / "run" / "batches" / name).write_bytes(b"\0")
    provider.ending = "completed"
    assert run_of(provider, tmp_path / "run", resume=True)["helpfulness"].scored == 12


def test_every_line_is_accounted_for(tmp_path: Path) -> None:
    """What expired, failed for now or is missing is asked again; what fails for good is unscored, with why."""
    tries: Counter[str] = Counter()
    later: list[Asked] = []

    def moody(asked: Asked) -> Reply | str | None:
        text = asked["messages"][-1]["content"]
        row = next((i for i in range(12) if f"It is blue {i}." in text), None)
        if row is None:  # a later round, which shows the claims alone
            later.append(asked)
            return answer(asked)
        kind = f"{row} {sorted(asked['response_format']['json_schema']['schema']['properties'])}"
        tries[kind] += 1
        if tries[kind] == 1:
            faults: dict[int, Reply | str | None] = {
                0: "batch_expired",
                1: Reply(status=500, text="down"),
                2: None,
                3: "batch_cancelled",
            }
            if row in faults:
                return faults[row]
        if row == 4:
            return Reply(status=500, text="down")
        if row == 5:
            return Reply(status=400, text=f"no {text}")
        return answer(asked)

    provider = BatchProvider(moody)
    provider.ending = "expired"
    evaluation = run_of(provider, tmp_path / "run")
    assert evaluation["helpfulness"].unscored == {"judge_failed": 2}
    verdicts = {row.index: row.verdicts["helpfulness"] for row in evaluation.rows}
    assert verdicts[4].detail == "status 500 in a batch from m, the last of 3 tries"
    assert verdicts[5].detail == "status 400 in a batch from m"
    assert max(tries.values()) == 3
    provider.answer = answer
    again = run_of(provider, tmp_path / "run", resume=True, retry_failed=True)
    assert again["helpfulness"].unscored == {}
    assert again["faithfulness"].unscored == {}
    assert provider.requests == sum(tries.values()) + len(later) + 4 + 2


def test_settings_that_are_refused_are_left_out(tmp_path: Path) -> None:
    """A model that knows no JSON schema is asked otherwise in the next batch."""

    def plain(asked: Asked) -> Reply:
        if "response_format" in asked:
            return Reply(status=400, text="response_format is not supported")
        (tool,) = asked["tools"]
        fields = tool["function"]["parameters"]["properties"]
        reply = CLAIMS if "claims" in fields else SUPPORTED if "items" in fields else RATED
        return Reply(calls=((tool["function"]["name"], reply),))

    provider = BatchProvider(plain)
    evaluation = run_of(provider, tmp_path / "run")
    assert evaluation["faithfulness"].scored == evaluation["helpfulness"].scored == 12
    assert [batch["request_counts"]["total"] for batch in provider.batches.values()] == [24, 24, 12]


def refuse(status: int, asked: Asked) -> Reply:
    """Refuse whatever is asked."""
    return Reply(status=status, text="no")


def test_refusals_are_one_line(tmp_path: Path) -> None:
    """A refused batch, limits, and models that have no batches are reported; the run goes on later."""
    provider = BatchProvider(answer)
    provider.ending = "failed"
    with pytest.raises(
        ConfigurationError, match="refused batch batch-1: token_limit_exceeded: Enqueued token limit"
    ):
        run_of(provider, tmp_path / "run")
    provider.ending = "completed"
    with pytest.raises(RunStopped, match=r"as a further one may exceed --max-cost 0\.02"):
        run_of(provider, tmp_path / "run", resume=True, max_cost=0.02)
    spent = provider.requests - 24
    assert 0 < spent * 0.001 <= 0.02
    small = BatchSettings(poll_s=0.01, max_requests=5)
    assert run_of(provider, tmp_path / "run", resume=True, settings=small)["faithfulness"].scored == 12
    assert max(batch["request_counts"]["total"] for batch in list(provider.batches.values())[2:]) <= 5
    with pytest.raises(ConfigurationError, match="'helpfulness' asks 'scripted' in a way that has no batches"):
        evaluate(ROWS, Helpfulness(ScriptedModel([])), run=tmp_path / "new", batch=True)
    with pytest.raises(ConfigurationError, match="batch=True goes with run="):
        evaluate(ROWS, Helpfulness(ScriptedModel([])), batch=True)
    for status, line in (
        (401, r"refuses all calls \(status 401\); check the key"),
        (
            404,
            "'m' has no batches: its endpoint answered with status 404",
        ),
    ):
        with serving(partial(refuse, status)) as server:
            model = OpenAICompatible(server.url, model="m", api_key="")
            with pytest.raises(ConfigurationError, match=line):
                evaluate(ROWS, Helpfulness(model), run=tmp_path / str(status), batch=True)
    with pytest.raises(ConfigurationError, match="poll_s is a number from"):
        BatchSettings(poll_s=0)


def test_a_full_disk_while_a_batch_is_collected(tmp_path: Path) -> None:
    """The line says which run to go on with, and a batch whose file could not be written is never sent."""
    provider = BatchProvider(answer)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(
            ConfigurationError, match=r"0001\.requests\.jsonl cannot be written .*`refine resume .*/run`$"
        ):
            run_of(provider, tmp_path / "run")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert provider.log == []
    assert run_of(provider, tmp_path / "run", resume=True)["helpfulness"].scored == 12
    assert len(provider.batches) == 2


def test_uploaded_files_are_deleted_after_use(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file that stays at the provider is told of once, is tried again by a resume, and costs the run nothing."""
    provider = BatchProvider(answer)
    small = BatchSettings(poll_s=0.01, max_requests=6)
    provider.deleting = 403
    assert run_of(provider, tmp_path / "run", settings=small)["helpfulness"].scored == 12
    (line,) = [record.getMessage() for record in caplog.records if "uploaded file" in record.getMessage()]
    assert "stays at the provider, as later ones do (EndpointStatusError (status 403))" in line
    assert sum(entry.startswith("DELETE") for entry in provider.log) == 1
    caplog.clear()
    provider.deleting, provider.lost = 200, 1
    with no_waiting():
        run_of(provider, tmp_path / "run", resume=True, settings=small)
    assert not any(batch["input_file_id"] in provider.files for batch in provider.batches.values())
    assert not [record for record in caplog.records if "uploaded file" in record.getMessage()]
    deleted = len(provider.log)
    run_of(provider, tmp_path / "run", resume=True, settings=small)
    assert len(provider.log) == deleted, "nothing is left to delete"
