"""What resuming repeats and refuses after any stop, kill or fault: no call twice, the same bytes at the end."""

from __future__ import annotations

import asyncio
import errno
import json
import multiprocessing
import os
import random
import resource
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from judges import ConfigurationError, Helpfulness, Length, Sample, Verdict, as_judge, load
from judges.judge import Judge
from judges.model import EmbeddingResponse, ModelRequest, ModelResponse
from judges.offline import Evaluation, Progress, RunSettings, RunStopped, evaluate, load_run
from judges.requests import Deliberation, Embed, ask
from judges.testing import ScriptedModel, no_waiting
from judges.verdict import Usage
from tests.model_server import Reply, serving
from tests.runs.commands import RATED, begin, killed, line_of, refine, write_rows

FILES = ("results.jsonl", "cells.jsonl", "summary.json")


def test_a_call_that_was_answered_is_not_repeated(tmp_path: Path) -> None:
    """A judge of two calls that stopped between them makes only the second; cost and bytes are the same."""
    rows = [{"question": "q", "answer": "It is blue. It is big.", "contexts": ["It is blue."]}]
    first, second = _replies_of_faithfulness()
    model = ScriptedModel([first, second])
    judge = load("faithfulness", model=model)
    whole = evaluate(rows, judge, run=tmp_path / "whole")
    assert whole["faithfulness"].usage.calls == 2
    again = ScriptedModel([first, second])
    with pytest.raises(RunStopped):
        evaluate(rows, load("faithfulness", model=again), run=RunSettings(folder=tmp_path / "run", max_calls=1))
    evaluate(rows, load("faithfulness", model=again), run=tmp_path / "run", resume=True)
    assert len(again.prompts) == 2
    for name in FILES:
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def _replies_of_faithfulness() -> tuple[object, object]:
    return (
        {"claims": ["It is blue.", "It is big."]},
        {
            "items": [
                {"number": 1, "reason": "r", "verdict": "supported"},
                {"number": 2, "reason": "r", "verdict": "absent"},
            ]
        },
    )


def test_what_changed_is_refused_unless_accepted(tmp_path: Path) -> None:
    """A changed row, judge or prompt is named; accepted, only what changed is judged again."""
    rows = write_rows(tmp_path / "rows.jsonl", 6)
    run = tmp_path / "run"
    assert refine("evaluate", rows, "--judge", "length:at_most=3", "--out", run).exit_code == 0
    rows.write_text(rows.read_text().replace("a 4", "a longer answer"))
    assert "has changed since the run began" in line_of(refine("resume", run))
    result = refine("resume", run, "--accept-changes", "--json")
    assert json.loads(result.stdout)["judges"]["length"]["ratings"] == {"1": 1, "2": 0, "3": 0, "4": 5}
    samples = [{"question": "q", "answer": str(i)} for i in range(3)]
    evaluate(samples, Length(at_most=3), run=tmp_path / "python")
    with pytest.raises(ConfigurationError, match="the judge 'length' \\(has at_most=0 instead of 3\\)"):
        evaluate(samples, Length(at_most=0), run=tmp_path / "python", resume=True)
    other = [samples[0], {"question": "q", "answer": "x"}, samples[2]]
    with pytest.raises(ConfigurationError, match="row 1 changed since 'length' judged it"):
        evaluate(other, Length(at_most=3), run=tmp_path / "python", resume=True)
    with pytest.raises(ConfigurationError, match="the number of rows \\(3 then, 2 now\\)"):
        evaluate(samples[:2], Length(at_most=3), run=tmp_path / "python", resume=True)
    settings = RunSettings(folder=tmp_path / "python", resume=True, accept_changes=True)
    assert evaluate(samples, Length(at_most=0), run=settings)["length"].mean == 0.0
    rows.unlink()
    assert "is gone; say where it is now with --rows FILE" in line_of(refine("resume", run))


def test_a_run_whose_judge_an_update_changed_is_told_what_changed_and_how_to_add_judges(tmp_path: Path) -> None:
    """A judge's other prompt is named as that, and the command that is told for it is one that there is."""
    rows, run = write_rows(tmp_path / "rows.jsonl", 2), tmp_path / "run"
    assert refine("evaluate", rows, "--judge", "length:at_most=3", "--out", run).exit_code == 0
    written = json.loads((run / "run.json").read_text())
    written["judges"][0] |= {"fingerprint": "an older one", "prompts": {"length.toml": "older words"}}
    (run / "run.json").write_text(json.dumps(written))
    line = line_of(refine("rescore", run, "--judge", "json"))
    assert "the judge 'length' (has another prompt)" in line
    assert f"`refine resume {run} --accept-changes`" in line
    assert refine("resume", run, "--accept-changes").exit_code == 0
    assert refine("rescore", run, "--judge", "json").exit_code == 0


def test_results_are_gone_while_cells_are_missing_again(tmp_path: Path) -> None:
    """Whoever reads the folder of a finished run that goes on finds no results that are out of date."""
    results, found = tmp_path / "run" / "results.jsonl", []

    def look(response: str) -> bool:
        found.append(results.exists())
        return True

    for answer in "ab":
        settings = RunSettings(folder=tmp_path / "run", resume=answer == "b", accept_changes=answer == "b")
        evaluate([{"question": "q", "answer": answer}], {"look": look}, run=settings)
        assert results.exists()
    assert found == [False, False]


def test_a_second_starter_is_refused(tmp_path: Path) -> None:
    """It is told who works on the run; a lock of a process that died is taken over."""
    rows, refusals = write_rows(tmp_path / "rows.jsonl", 3), []

    class Meddling(Judge):
        name = "meddling"

        def deliberate(self, sample: Sample) -> Deliberation:
            refusals.append(refine("evaluate", rows, "--judge", "json", "--out", run).stderr)
            refusals.append(refine("resume", run).stderr)
            yield from ()
            return Verdict.checked(passed=True)

    run = tmp_path / "run"
    evaluate([{"question": "q", "answer": "a"}], Meddling(), run=run)
    assert "is in use by process" in refusals[0]
    assert "given to evaluate(...) in Python" in refusals[1]
    (run / "lock").write_text(json.dumps({"pid": 1, "host": "elsewhere", "since": "2026-01-01"}))
    line = line_of(refine("merge", run, "--out", tmp_path / "merged"))
    assert "is a whole run" in line
    with pytest.raises(
        ConfigurationError, match=r"in use by process 1 on host elsewhere since 2026-01-01; .* delete .*lock"
    ):
        evaluate([{"question": "q", "answer": "a"}], Meddling(), run=run, resume=True)


def test_torn_and_foreign_lines_cost_their_cells_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A line cut off at the end is removed, others are said; what they held is judged again, nothing is run."""
    model = ScriptedModel(lambda _: json.loads(RATED))
    rows = [{"question": "q", "answer": str(i)} for i in range(5)]
    run = tmp_path / "run"
    whole = evaluate(rows, Helpfulness(model), run=run)
    before = {name: (run / name).read_bytes() for name in FILES}
    journal = run / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    assert len(lines) == 5
    bad = [b'{"cell": 99999999999, "judge": "x"}\n', b"\x00\xff\n", b"[]\n", b'"text"\n', b'{"cell": "1"}\n']
    bad.append(b'{"cell": -1, "judge": "helpfulness", "key": 1, "verdict": {"unscored": null}}\n')
    journal.write_bytes(b"".join([*lines[:2], *bad, *lines[3:-1], lines[-1][:-20]]))
    again = evaluate(rows, Helpfulness(model), run=run, resume=True)
    assert "6 lines cannot be read, the first is line 3; their cells are judged again" in caplog.text
    assert len(model.prompts) == 7
    assert again.scores == whole.scores
    assert {name: (run / name).read_bytes() for name in FILES} == before
    journal.write_bytes(
        journal.read_bytes().replace(b'"detail":', b'"details":', 1) + b'{"call":0,"digest":"d"}\n'
    )
    with pytest.raises(
        ConfigurationError, match=r"the verdict of 'helpfulness' on row 0 cannot be read; .*delete"
    ):
        evaluate(rows, Helpfulness(model), run=run, resume=True)


def test_a_failed_judge_is_asked_again_and_no_answer_to_another_is_lost(tmp_path: Path) -> None:
    """Judging again what failed repeats the calls of that judge alone; another judge's on the row are kept."""
    rows = [{"question": "q", "answer": "It is blue. It is big.", "contexts": ["It is blue."]}]
    first, second = _replies_of_faithfulness()
    unclear = ScriptedModel(["no rating", "none again"], delay_s=0.01)  # so that its calls are written, too
    clear = ScriptedModel([json.loads(RATED)], delay_s=0.01)
    asked = ScriptedModel([first, second])
    run = tmp_path / "run"
    evaluate(rows, [Helpfulness(unclear), load("faithfulness", model=asked)], run=run)
    journal = run / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    cut = [line for line in lines if not line.startswith(b'{"cell":0,"judge":"ragas.faithfulness"')]
    assert len(cut) == len(lines) - 1
    journal.write_bytes(b"".join(cut))  # as a crash before the last verdict leaves it
    silent = ScriptedModel([])
    settings = RunSettings(folder=run, resume=True, retry_failed=True)
    again = evaluate(rows, [Helpfulness(clear), load("faithfulness", model=silent)], run=settings)
    assert (len(clear.prompts), len(silent.prompts)) == (1, 0)
    assert (again["helpfulness"].unscored, again["helpfulness"].usage.calls) == ({}, 1)
    assert again["faithfulness"].mean == 0.5


def test_what_a_run_finds_is_counted_in_its_progress(tmp_path: Path) -> None:
    """Cells that were there count as done, and those without a score as unscored."""
    rows = [{"question": "q", "answer": str(i)} for i in range(6)]
    seen: list[Progress] = []

    def run(model: ScriptedModel, folder: str = "run", **settings: Any) -> Evaluation:
        seen.clear()
        chosen = RunSettings(folder=tmp_path / folder, on_progress=seen.append, **settings)
        return evaluate(rows, Helpfulness(model), run=chosen, max_concurrency=1)

    replies = ["no rating"] * 4 + [RATED] * 9
    with pytest.raises(RunStopped):
        run(ScriptedModel(replies), max_calls=6)
    evaluation = run(ScriptedModel([json.loads(RATED)] * 2), resume=True)
    assert (seen[-1].done, seen[-1].unscored) == (6, 2)
    assert (evaluation["helpfulness"].unscored, evaluation["helpfulness"].scored) == ({"invalid_output": 2}, 4)
    timing = json.loads((tmp_path / "run" / "timing.json").read_text())
    assert timing.keys() == {"seconds", "finished", "judges"}
    assert timing["seconds"] == round(timing["seconds"], 3) > 0


def test_what_failed_in_a_part_is_judged_again_in_the_whole(tmp_path: Path) -> None:
    """A merged run knows which of its cells failed: they count as unscored, and are judged again on request."""
    rows, merged = write_rows(tmp_path / "rows.jsonl", 4), tmp_path / "merged"
    parts = [tmp_path / f"part{number}" for number in (1, 2)]
    with serving(lambda _: Reply(text="no rating")) as server:
        judged = ["evaluate", rows, "--judge", "helpfulness", "--model", "m", "--base-url", server.url, "--out"]
        for number, part in enumerate(parts, 1):
            assert refine(*judged, part, "--shard", f"{number}/2").exit_code == 1
        assert refine("merge", *parts, "--out", merged).exit_code == 1
        server.requests.clear()
        server.reply = lambda _: Reply(text=RATED)
        assert refine("resume", merged).exit_code == 1
        assert server.requests == []
        assert refine("resume", merged, "--retry-failed").exit_code == 0
        assert len(server.requests) == 4


def test_judges_are_added_and_replaced(tmp_path: Path) -> None:
    """Rescoring asks the new judge alone, and the run is as if all had judged from the beginning."""
    rows = write_rows(tmp_path / "rows.jsonl", 5)
    with serving(lambda _: Reply(text=RATED)) as server:
        run, whole = tmp_path / "run", tmp_path / "whole"
        assert refine(*begin(rows, run, server.url)).exit_code == 0
        server.requests.clear()
        assert refine("rescore", run, "--judge", "json", "--judge", "length:at_most=1").exit_code == 0
        assert server.requests == []
        arguments = begin(rows, whole, server.url, "--judge", "json")
        arguments[arguments.index("length:at_most=3")] = "length:at_most=1"
        assert refine(*arguments).exit_code == 0
    for name in (*FILES, "run.json"):
        assert (run / name).read_bytes() == (whole / name).read_bytes()
    rows.write_text(rows.read_text().replace("a 4", "b"))
    line = line_of(refine("rescore", run, "--judge", "json"))
    assert f"undo it, or first go on by `refine resume {run}` with --accept-changes" in line


def test_a_shard_from_python_is_every_other_row(tmp_path: Path) -> None:
    """Of five rows the second of two shards judges two."""
    rows = [{"question": "q", "answer": "a" * n} for n in range(1, 6)]
    settings = RunSettings(folder=tmp_path / "run", shard=(2, 2))
    assert len(evaluate(rows, as_judge(lambda response: response > "a", name="own"), run=settings)) == 2


def test_shards_merge_into_the_whole(tmp_path: Path) -> None:
    """Parts judged apart are byte for byte the whole; what is missing or twice is said."""
    rows = write_rows(tmp_path / "rows.jsonl", 7)
    judged = ["evaluate", rows, "--judge", "length:at_most=3", "--out"]
    assert refine(*judged, tmp_path / "whole").exit_code == 0
    parts = [tmp_path / f"part{i}" for i in (1, 2, 3)]
    for number, part in enumerate(parts, 1):
        assert refine(*judged, part, "--shard", f"{number}/3").exit_code == 0
    other = tmp_path / "other"
    stricter = ("--judge", "length:at_most=2", "--shard", "2/3")
    assert refine("evaluate", rows, *stricter, "--out", other).exit_code == 0
    assert refine("merge", *reversed(parts), "--out", tmp_path / "merged").exit_code == 0
    for name in (*FILES, "run.json"):
        assert (tmp_path / "merged" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    for wrong, text in (
        (parts[:2], "shards are missing: 3/3"),
        ([parts[0], parts[0]], "the same shard is named twice"),
        ([parts[0], tmp_path / "whole"], "is a whole run"),
        ([tmp_path / "none"], "holds no run"),
        ([parts[0], other, parts[2]], "are not shards of one run: the judge 'length' (is length:at_most=2"),
    ):
        assert text in line_of(refine("merge", *wrong, "--out", tmp_path / "new"))
    for shard in ("0/3", "4/3", "x", "1/", "1/3/4"):
        assert "--shard is part and number of parts" in line_of(
            refine(*judged, tmp_path / "new", "--shard", shard)
        )


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path: Path) -> None:
    """A run that cannot write says so; with room again it goes on, and nothing judged is judged twice."""
    rows, run = write_rows(tmp_path / "rows.jsonl", 40), tmp_path / "run"
    report = tmp_path / "report"
    child = multiprocessing.get_context("fork").Process(target=_judge_on_a_small_disk, args=(rows, run, report))
    child.start()
    child.join(30)
    code, _, line = report.read_text().partition("\n")
    assert code == "2"
    assert line.count("\n") <= 1
    assert "cannot be written (File too large)" in line
    assert f"refine resume {run}" in line
    judged = len((run / "journal.jsonl").read_text().splitlines())
    assert 0 < judged < 40
    result = refine("resume", run)
    assert result.exit_code == 0
    assert len((run / "journal.jsonl").read_text().splitlines()) == 40


def test_a_disk_that_fails_later_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system reports only when a journal is brought to the disk ends the run, too."""

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("judges.offline.run.journal._SYNC_EVERY_S", 0)
    monkeypatch.setattr("os.fsync", fail)
    for folder, rows in ((tmp_path / "run", 50), (tmp_path / "only at the end", 1)):
        with pytest.raises(
            ConfigurationError, match=r"cannot be written \(Input/output error\); nothing that was"
        ) as e:
            evaluate([{"answer": "a"}] * rows, Length(at_most=3), run=folder)
        assert str(e.value).endswith(f"make room, then go on with `refine resume {folder}`")
        monkeypatch.setattr("judges.offline.run.journal._SYNC_EVERY_S", 100)


def _judge_on_a_small_disk(rows: Path, run: Path, report: Path) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, 8_000))
    result = refine("evaluate", rows, "--judge", "length:at_most=3", "--out", run)
    report.write_text(f"{result.exit_code}\n{result.stderr}")


def test_a_result_that_was_changed_is_told(tmp_path: Path) -> None:
    """A finished run whose results no longer read as rows says what does not fit."""
    evaluate([{"answer": "a"}], Length(at_most=3), run=tmp_path / "run")
    results = tmp_path / "run" / "results.jsonl"
    results.write_text(results.read_text().replace('"index":0', '"index":"zero"'))
    with pytest.raises(ConfigurationError, match=r"cannot be read: .*integer.*; it was changed after the run"):
        load_run(tmp_path / "run")


def test_files_stay_in_the_folder(tmp_path: Path) -> None:
    """Names of judges are no paths, links out of the folder are refused, and odd folders are one line."""
    rows, run = write_rows(tmp_path / "rows.jsonl", 2), tmp_path / "run"
    assert refine("evaluate", rows, "--judge", "json:name=../../x", "--out", run).exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.jsonl", "run"]
    target = tmp_path / "target"
    target.write_text("mine")
    for name in ("results.jsonl.part", "journal.jsonl", "lock", "run.json.part"):
        folder = tmp_path / f"linked-{name}"
        folder.mkdir()
        (folder / name).symlink_to(target)
        assert "is a link" in line_of(refine("evaluate", rows, "--judge", "json", "--out", folder))
    assert target.read_text() == "mine"
    for odd in ("a\0b", "x" * 300, str(rows), f"{rows}/run"):
        line_of(refine("evaluate", rows, "--judge", "json", "--out", odd))


ENDURING, KILLS = (1_000, 20) if os.environ.get("SELFREFINE_LONG_RUNS") else (150, 20)
IN_FLIGHT = 8


def test_twenty_kills_lose_nothing_and_change_no_byte(tmp_path: Path) -> None:
    """Killed 20 times, a run ends with the same bytes as one that was not, and repeats only calls in flight."""
    rows = write_rows(tmp_path / "rows.jsonl", ENDURING)
    with serving(lambda _: Reply(text=RATED, delay_s=0.004)) as server:
        assert refine(*begin(rows, tmp_path / "whole", server.url)).exit_code == 0
        assert len(server.requests) == ENDURING
        server.requests.clear()
        chance = random.Random(7)
        run = tmp_path / "killed"
        kills = 0
        for number in range(KILLS):
            arguments = ["resume", run] if number else begin(rows, run, server.url)
            kills += killed(arguments, run / "journal.jsonl", chance.randint(1, 2 * ENDURING // KILLS - 1))
        assert refine("resume", run).exit_code == 0
        assert kills >= KILLS * 3 // 4
        assert ENDURING <= len(server.requests) <= ENDURING + kills * IN_FLIGHT
    for name in FILES:
        assert (run / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (run / "lock").exists()
    modes = {path.name: path.stat().st_mode & 0o777 for path in run.iterdir()}
    assert set(modes.values()) == {0o600}
    assert run.stat().st_mode & 0o777 == 0o700


ROWS = [
    {
        "question": f"q{i}",
        "answer": "It is blue. It is big.",
        "contexts": ["blue", "big"],
        "reference": "It is blue.",
    }
    for i in range(2)
]
CLAIMS = {"claims": ["It is blue.", "It is big."]}
SUPPORTED = {"items": [{"number": number, "reason": "r", "verdict": "supported"} for number in (1, 2)]}
RATING = {"rationale": "r", "rating": 3, "feedback": "f"}


class CountingModel:
    """A model that finds two claims in everything, supports both, and counts its calls."""

    name = "counting"
    identity = "counting"
    retries = 0
    scripted = True

    def __init__(self) -> None:
        self.calls = 0

    def send(self, request: ModelRequest) -> ModelResponse:
        """Reply as the schema wants it."""
        self.calls += 1
        fields = request.schema.model_fields
        reply: object = CLAIMS if "claims" in fields else SUPPORTED if "items" in fields else RATING
        return ModelResponse(text=json.dumps(reply), usage=Usage.of_call(10, 3), finish_reason="stop")

    async def asend(self, request: ModelRequest) -> ModelResponse:
        """Reply after the others had their turn."""
        await asyncio.sleep(0.001)
        return self.send(request)

    def is_model(self, other: object) -> bool:
        """Check whether another is this one."""
        return other is self


def judged(
    model: CountingModel, folder: Path, *, max_calls: int | None = None, resume: bool = False
) -> Evaluation:
    """Judge by three judges, two of which share the claims of the answer."""
    judges = [load(name, model=model) for name in ("faithfulness", "ragas.factual_correctness", "helpfulness")]
    settings = RunSettings(folder=folder, max_calls=max_calls, resume=resume)
    return evaluate(ROWS, judges, run=settings, max_concurrency=5)


def test_no_stop_repeats_a_call_or_changes_a_byte(tmp_path: Path) -> None:
    """Wherever it stops: no call more than allowed, none twice, the same usage and the same bytes in the end."""
    whole = CountingModel()
    evaluation = judged(whole, tmp_path / "whole")
    usage = evaluation["ragas.factual_correctness"].usage
    assert (whole.calls, usage.calls, usage.cached) == (12, 6, 2)
    for stop in range(1, whole.calls):
        model, folder = CountingModel(), tmp_path / f"stopped-{stop}"
        with pytest.raises(RunStopped):
            judged(model, folder, max_calls=stop)
        assert model.calls == stop
        judged(model, folder, resume=True)
        assert model.calls == whole.calls
        for name in FILES:
            assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert load_run(tmp_path / "whole").scores == evaluation.scores


class CrowdedModel(CountingModel):
    """A model that remembers how many calls were made at once."""

    def __init__(self) -> None:
        super().__init__()
        self.in_flight = self.most = 0

    async def asend(self, request: ModelRequest) -> ModelResponse:
        """Reply, and count whoever waits meanwhile."""
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        response = await super().asend(request)
        self.in_flight -= 1
        return response


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_calls_are_in_flight_than_allowed(tmp_path: Path, most: int) -> None:
    """The bound of `evaluate` is that of its run, and it is used."""
    model = CrowdedModel()
    evaluate(ROWS * 4, load("helpfulness", model=model), run=tmp_path / "run", max_concurrency=most)
    assert (model.most, model.calls) == (most, 8)


class Counted:
    """Embeddings that count their texts."""

    name = "counted"
    texts: ClassVar[list[str]] = []  # of the class, as what an object holds is part of its judge's fingerprint

    def __init__(self, divisor: int = 3) -> None:
        self.divisor = divisor

    def embed(self, texts: Sequence[str]) -> EmbeddingResponse:
        """Return a vector for each text."""
        self.texts.extend(texts)
        return EmbeddingResponse([[len(text) / self.divisor, 0.1] for text in texts], Usage.of_call(7, 0), "e")

    async def aembed(self, texts: Sequence[str]) -> EmbeddingResponse:
        """Return vectors after the others had their turn."""
        await asyncio.sleep(0.001)
        return self.embed(texts)


class Embedding(Judge):
    """Embeds an answer, and then asks a model."""

    def __init__(self, name: str, embeddings: Counted, model: CountingModel) -> None:
        self.name, self._embeddings, self._model = name, embeddings, model

    def deliberate(self, sample: Sample) -> Deliberation:
        """Score the first number of the vector, if the model replies."""
        ((first, _),) = yield Embed(self._embeddings, (sample.answer or "",))
        yield from ask(Rated, model=self._model, task=self.name, data={}, reminder="Rate.")
        return Verdict.checked(passed=first > 0, rationale=repr(first))


class Rated(BaseModel):
    """A reply."""

    rationale: str
    rating: int
    feedback: str


@pytest.mark.parametrize("names", [("one",), ("one", "other")])
def test_texts_are_not_embedded_again(tmp_path: Path, names: tuple[str, ...]) -> None:
    """What was embedded before a stop is in the journal: exact, paid once, also for judges that share it."""

    def run(folder: str, **settings: Any) -> Evaluation:
        embeddings = Counted()
        judges = [Embedding(name, embeddings, CountingModel()) for name in names]
        return evaluate(ROWS, judges, run=RunSettings(folder=tmp_path / folder, **settings), max_concurrency=2)

    Counted.texts.clear()
    run("whole")
    assert len(Counted.texts) == len(ROWS)
    with pytest.raises(RunStopped):
        run("run", max_calls=1)
    run("run", resume=True)
    assert len(Counted.texts) == 2 * len(ROWS)
    for name in FILES:
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_vectors_of_another_model_are_not_taken(tmp_path: Path) -> None:
    """Two judges that embed the same texts by different models hear each its own, after a stop, too."""
    rows = [{"answer": "a" * 21}, {"answer": "a" * 42}]

    def run(**settings: Any) -> Evaluation:
        judges = [
            Embedding(name, Counted(divisor), CountingModel()) for name, divisor in (("one", 3), ("other", 7))
        ]
        return evaluate(rows, judges, run=RunSettings(folder=tmp_path / "run", **settings), max_concurrency=1)

    with pytest.raises(RunStopped):
        run(max_calls=2)  # the first judge has embedded the second row, and the other has not
    heard = [[verdict.rationale for verdict in row.verdicts.values()] for row in run(resume=True).rows]
    assert heard == [["7.0", "3.0"], ["14.0", "6.0"]]


class RisingModel(CountingModel):
    """A model that rates higher with every call."""

    def send(self, request: ModelRequest) -> ModelResponse:
        """Reply with the number of the call as the rating."""
        response = super().send(request)
        return replace(response, text=json.dumps({**RATING, "rating": self.calls}))


class Insisting(Judge):
    """Asks the same three times, and says what it heard."""

    name = "insisting"

    def __init__(self, model: CountingModel) -> None:
        self._model = model

    def deliberate(self, sample: Sample) -> Deliberation:
        """Pass, with the three ratings as the reason."""
        ratings = []
        for _ in range(3):
            reply = yield from ask(Rated, model=self._model, task="same", data={}, reminder="Rate.")
            ratings.append(str(reply.rating))
        return Verdict.checked(passed=True, rationale=" ".join(ratings))


def test_a_repeated_request_is_replayed_with_its_own_answer(tmp_path: Path) -> None:
    """The same request may have several answers: each comes back in its place, not the first for all of them."""
    model = RisingModel()
    with pytest.raises(RunStopped):
        evaluate(ROWS[:1], Insisting(model), run=RunSettings(folder=tmp_path / "run", max_calls=2))
    (row,) = evaluate(ROWS[:1], Insisting(model), run=tmp_path / "run", resume=True).rows
    assert (row.verdicts["insisting"].rationale, model.calls) == ("1 2 3", 3)


def test_a_judge_that_a_function_asks_is_journaled_too(tmp_path: Path) -> None:
    """What blocks is counted, limited, shared and replayed as what does not: the same bytes, and no call twice."""

    def run(folder: str, model: CountingModel, **settings: Any) -> Evaluation:
        inner = load("helpfulness", model=model)

        def own(question: str, response: str) -> int:
            return inner(user_input=question, response=response).rating or 0

        judges = {"own": as_judge(own), "helpfulness": inner}
        return evaluate(ROWS, judges, run=RunSettings(folder=tmp_path / folder, **settings), max_concurrency=1)

    whole = CountingModel()
    evaluation = run("whole", whole)
    assert whole.calls == sum(evaluation[name].usage.calls for name in ("own", "helpfulness")) == 4
    for calls in (1, 2, 3):
        with pytest.raises(RunStopped, match=f"stopped after {calls} calls, as --max-calls {calls} says"):
            run(f"stopped-{calls}", CountingModel(), max_calls=calls)
        again = CountingModel()
        run(f"stopped-{calls}", again, resume=True)
        assert again.calls == 4 - calls
        for name in FILES:
            assert (tmp_path / f"stopped-{calls}" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


class StatusError(Exception):
    """What an endpoint answers that refuses a call."""

    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


class RefusingModel(CountingModel):
    """A model whose endpoint refuses every other call with a status."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self._status = status

    def send(self, request: ModelRequest) -> ModelResponse:
        """Reply, or refuse."""
        response = super().send(request)
        if self.calls % 2:
            raise StatusError(self._status)
        return response


def _asked_by_a_function(model: CountingModel, folder: Path) -> Evaluation:
    inner = load("helpfulness", model=model)

    def own(response: str) -> int:
        return inner(user_input="q", response=response).rating or 0

    settings = RunSettings(folder=folder, max_calls=2)
    return evaluate(ROWS, {"own": as_judge(own)}, run=settings, max_concurrency=1)


def test_an_overload_costs_a_judge_that_a_function_asks_nothing(tmp_path: Path) -> None:
    """A call that blocks is repeated like any other, with the same request, and only the answered one counts."""
    with no_waiting():
        evaluation = _asked_by_a_function(RefusingModel(429), tmp_path / "run")
    assert (evaluation["own"].scored, evaluation["own"].usage.calls) == (2, 2)


def test_a_refused_key_ends_a_run_whose_function_asks(tmp_path: Path) -> None:
    """A call that blocks ends the run like any other, where every further one would fail alike."""
    model = RefusingModel(401)
    with pytest.raises(ConfigurationError, match=r"'counting' refuses all calls \(status 401\); check the key"):
        _asked_by_a_function(model, tmp_path / "run")
    assert model.calls == 1


def test_half_a_character_comes_back_as_it_was_judged(tmp_path: Path) -> None:
    """A run reads a verdict that is no valid Unicode from its journal, too, and so are results that were saved."""
    half = as_judge(lambda response: Verdict.checked(passed=bool(response), rationale="\ud83d"), name="half")
    for resume in (False, True):
        evaluation = evaluate(ROWS, half, run=RunSettings(folder=tmp_path / "run", resume=resume))
        assert [row.verdicts["half"].rationale for row in evaluation.rows] == ["\ud83d"] * 2
    evaluation.save(tmp_path / "saved.jsonl")
    for read in (load_run(tmp_path / "run"), Evaluation.load(tmp_path / "saved.jsonl")):
        assert [row.verdicts["half"].rationale for row in read.rows] == ["\ud83d"] * 2


async def test_a_run_inside_a_running_loop(tmp_path: Path) -> None:
    """In a notebook, where a loop runs already, a run that blocks is judged in a thread of its own."""
    model = CountingModel()
    evaluation = evaluate(ROWS, load("helpfulness", model=model), run=tmp_path / "run")
    assert (evaluation["helpfulness"].scored, model.calls) == (2, 2)
