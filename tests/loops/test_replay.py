"""What recorded loops tell of attempts, and of policies that were not in force."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from judges import ConfigurationError
from judges.offline import LoopReplay, replay
from judges.offline.dataset.reading import read_rows
from judges.offline.run.evaluate import evaluate
from judges.offline.trust.loops import read_loops
from judges.testing import ScriptedJudge
from refine import SelfRefine
from refine.record import DatabaseRecord
from tests.loops.recorded import V_B, rows_of, write_loops
from tests.runs.commands import refine

CLOSE: dict[str, Any] = {"abs": 1e-9}


def table(result: LoopReplay) -> dict[tuple[int, int, int | None], Any]:
    """Return the policies by their settings."""
    return {(row.success_rating, row.max_attempts, row.patience): row for row in result.policies}


def test_the_published_loops(tmp_path: Path) -> None:
    """Curve, changes and policies of the loops whose figures are known."""
    path = write_loops(tmp_path / "attempts.jsonl", V_B)
    result = replay(path)
    assert (result.loops, result.attempts, result.reason, result.left_out) == (15, 38, None, {})
    assert [(point.at_risk, point.passed) for point in result.curve] == [(15, 4), (11, 3), (7, 2), (5, 3)]
    expected = [0.2666666666666666, 0.4666666666666666, 0.6190476190476191, 0.8476190476190476]
    assert [point.cumulative for point in result.curve] == pytest.approx(expected, **CLOSE)
    assert all(point.low < point.cumulative < point.high for point in result.curve)
    changes = [(gain.n, gain.raw_change, gain.regressions) for gain in result.gains]
    assert changes == [(10, 0.6, 1), (6, pytest.approx(1 / 6), 0), (5, 1.2, 0)]
    assert result.gain_title == "looks better by the raw change; part of that is luck: --rejudge removes it"
    rows = table(result)
    assert result.policies[0] is rows[4, 4, None]
    assert {key: dict(row.ends) for key, row in rows.items() if key in {(3, 4, None), (4, 4, 1), (4, 4, 2)}} == {
        (3, 4, None): {"pass": 14, "exhausted": 1},
        (4, 4, 1): {"pass": 7, "patience": 7, "censored": 1},
        (4, 4, 2): {"pass": 11, "patience": 3, "censored": 1},
    }
    assert rows[4, 4, None].status == "bounds"  # one loop crashed
    assert rows[4, 4, None].release_rate == pytest.approx((12 / 15, 13 / 15))
    assert (rows[2, 4, None].status, rows[2, 4, None].mean_attempts) == ("exact", (19 / 15, 19 / 15))
    assert rows[3, 4, None].bad_rate == pytest.approx((3 / 14, 3 / 14))
    assert rows[2, 4, None].bad_rate == pytest.approx((8 / 14, 8 / 14))
    assert rows[4, 2, None].release_rate == pytest.approx((7 / 15, 7 / 15))
    assert rows[4, 5, None].status == "bounds"  # more attempts than were made
    assert "do" not in result.to_dict()["policies"][0]
    assert json.loads(json.dumps(result.to_dict()))["policy"]["success_rating"] == 4
    assert "fixed sequence" in str(result)


def test_exploration_gives_an_estimate_where_it_is_enough(tmp_path: Path) -> None:
    """Shadow attempts narrow bounds; a point estimate needs an effective number of 20 loops."""
    logs = ["3", "34", "23", "1222", "4", "2324", "3", "224", "334", "13"]
    path = write_loops(tmp_path / "few.jsonl", logs, success_rating=3, exploration=0.25)
    few = table(replay(path, thresholds=[4], max_attempts=[2, 4]))
    assert few[4, 4, None].release_rate == pytest.approx((0.5, 0.9))
    assert few[4, 2, None].release_rate == pytest.approx((0.2, 0.4))
    assert (few[4, 4, None].status, few[4, 4, None].hajek) == ("bounds", None)
    forced = table(replay(path, thresholds=[4], max_attempts=[2, 4], least_effective=0))[4, 4, None]
    assert (forced.status, forced.horvitz_thompson) == ("estimate", pytest.approx(2.6))
    assert forced.hajek == pytest.approx(26 / 27)
    many = write_loops(tmp_path / "many.jsonl", logs * 30, success_rating=3, exploration=0.25)
    rows = table(replay(many, thresholds=[4], max_attempts=[4, 5]))
    assert rows[4, 4, None].hajek == pytest.approx(26 / 27)
    assert rows[4, 5, None].hajek is None  # nothing was ever continued after the last attempt


def test_a_gain_that_is_none(tmp_path: Path) -> None:
    """Without any improvement the raw change is above 0, and the one with a second judgement is not."""
    draw = random.Random(7)
    noisy = [draw.choice((1, 2, 3, 4)) for _ in range(3_000)]
    loops, place = [], 0
    while place < len(noisy) - 4:
        ratings: list[int] = []
        while len(ratings) < 3 and (not ratings or ratings[-1] < 3):
            ratings.append(noisy[place])
            place += 1
        loops.append("".join(map(str, ratings)))
    path = write_loops(tmp_path / "attempts.jsonl", loops, success_rating=3, max_attempts=3)
    judge = ScriptedJudge(lambda _: draw.choice((1, 2, 3, 4)))
    result = replay(path, judge=judge, rejudge_fraction=0.5)
    first = result.gains[0]
    assert first.raw_change > 0.8
    assert first.gain is not None
    assert abs(first.gain) < 0.2
    assert first.gain_low is not None
    assert first.gain_low < 0 < (first.gain_high or 0)
    assert 0.4 < first.rejudged / first.n < 0.6
    assert "judged again" in result.gain_title
    assert result.best is not None
    assert (result.best.rejudged_rating or 0) < (result.best.best_rating or 0) - 0.2
    with pytest.raises(ConfigurationError, match="rejudge_fraction"):
        replay(path, judge=judge, rejudge_fraction=0)


def test_what_is_not_identified_is_reported(tmp_path: Path) -> None:
    """Rows without policy or stop reason say nothing, and the remedy is named; others are counted."""
    old = [
        {"question": "q", "answer": "a", "metadata": {"attempt": 1, "rating": 1}},
        {"question": "q", "answer": "b", "metadata": {"attempt": 2, "rating": 4, "stop_reason": "accepted"}},
        {"question": "q", "answer": "c", "metadata": {"attempt": 1, "rating": 4, "stop_reason": "accepted"}},
    ]
    result = replay(old)
    assert (result.reason, result.left_out, result.policies) == ("not_identified", {"no policy": 2}, ())
    assert "under which policy" in result.detail
    unstopped = [{**row, "metadata": {**row["metadata"], "stop_reason": None}} for row in rows_of(0, "14")]
    assert "why the loops stopped" in replay(unstopped).detail
    mixed = replay([*old, *rows_of(1, "14"), *rows_of(2, "4")[:0], {"metadata": 3}])
    assert (mixed.loops, mixed.left_out) == (1, {"no policy": 2, "unreadable": 1})
    gap = replay([*rows_of(1, "124")[::2], *rows_of(2, "4")])
    assert gap.left_out == {"attempts missing": 1}
    with pytest.raises(ConfigurationError, match="no row is a recorded attempt"):
        replay([{"question": "q", "answer": "a"}])
    with pytest.raises(ConfigurationError, match="threshold"):
        replay(old, thresholds=[5])


def test_policies_are_not_mixed() -> None:
    """Loops of another policy are left out and counted, and can be chosen by its digest."""
    rows = [
        *rows_of(0, "14"),
        *rows_of(1, "4"),
        *rows_of(2, "13", success_rating=3, policy_digest="q" * 32),
    ]
    result = replay(rows)
    assert (result.loops, result.other_policies) == (2, {"q" * 32: 1})
    assert replay(rows, policy="qqq").loops == 1
    with pytest.raises(ConfigurationError, match=r"policy 'zz'; there are pppppppp, qqqqqqqq"):
        replay(rows, policy="zz")


def test_the_best_attempt_is_the_latest_of_those_rated_highest() -> None:
    """A tie is the later attempt's, as for the loop itself; shadows do not count."""
    (loop,) = read_loops(rows_of(0, "13344", max_attempts=5, success_rating=3)).loops
    assert loop.best is loop.attempts[1]
    (tied,) = read_loops(rows_of(0, "1331")).loops
    assert tied.best is tied.attempts[2]


def test_patience_leaves_bounds(tmp_path: Path) -> None:
    """A loop that patience stopped never passes, or passes at its next attempt: the curve says both."""
    path = write_loops(tmp_path / "attempts.jsonl", ["22", "4", "24", "11"], patience=1)
    result = replay(path)
    assert "under this patience" in result.curve_note
    assert result.curve[-1].cumulative == pytest.approx(0.5)
    assert result.curve[2].if_patience_passed == pytest.approx(1.0)
    rows = table(replay(path, patience=[1, None]))
    assert (rows[4, 4, 1].status, rows[4, 4, None].status) == ("exact", "bounds")


def test_questions_asked_twice_are_one(tmp_path: Path) -> None:
    """Ten copies of a question are no ten questions: the interval is that of the questions."""
    once = replay(write_loops(tmp_path / "once.jsonl", ["4", "1111", "4", "1111"]))
    copies = [row for number in range(40) for row in rows_of(number, ("4", "1111")[number % 2])]
    for row in copies:
        row["metadata"]["question_id"] = f"question {int(row['metadata']['outcome_id'].split()[1]) % 4}"
    repeated = replay(copies)
    assert (once.questions, repeated.questions, repeated.loops) == (4, 4, 40)
    assert repeated.curve[0].high - repeated.curve[0].low > 0.5
    assert "over questions" in repeated.curve[0].method


def test_the_loop_itself_is_replayed_exactly(tmp_path: Path) -> None:
    """The policy in force, replayed, does what the loop did: also with scores, a pass mark and patience."""
    url = f"sqlite:///{tmp_path / 'record.db'}"
    draw = random.Random(3)
    with DatabaseRecord(url) as record:
        judge = ScriptedJudge([draw.random() for _ in range(160)])
        settings = {"max_attempts": 4, "patience": 1, "success_rating": 4}
        assistant = SelfRefine(lambda _: "draft", judge, policy=settings, record=record)
        for _ in range(40):
            assistant.refine("what?")
        assert record.flush()
        result = replay(record.attempts())
        outcomes = record.outcomes(limit=100)
    own = result.policies[0]
    assert own.status == "exact"
    assert own.release_rate[0] == sum(row["passed"] for row in outcomes) / 40
    assert own.mean_attempts[0] == sum(row["attempts"] for row in outcomes) / 40
    assert own.ends.get("patience", 0) == sum(row["stop_reason"] == "no_progress" for row in outcomes) > 0
    with pytest.raises(ConfigurationError, match="without texts"):
        replay(DatabaseRecord(url).attempts(), judge=ScriptedJudge([1]))


def test_the_tables(tmp_path: Path) -> None:
    """Everything is on the screen in 100 columns, people's labels first, with what it rests on."""
    result = refine("replay", write_loops(tmp_path / "attempts.jsonl", V_B))
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "The loop HELPS: people call 40.0% of first answers good, 80.0% of final ones."
    assert "15 loops, recorded with success rating 4, 4 attempts" in lines
    assert max(map(len, lines)) <= 100
    for part in (
        "part of that is luck: --rejudge removes it",
        "rating 4, 4 attempts (in force)",
        "80.0-86.7%",
        "93.3% (70-99%)",
        "15.4-23.1%",
        "the attempts of a",
        "1 of the loops ended early",
    ):
        assert part in result.stdout
    again = refine("replay", tmp_path / "attempts.jsonl", "--rejudge", "length:at_most=3,unit=words")
    assert "Gain per attempt (the earlier attempt judged again, independently)" in again.stdout
    assert "judged again" in again.stdout


def test_chosen_policies_as_json(tmp_path: Path) -> None:
    """Thresholds, attempts and patience are combined; the JSON holds what the tables show."""
    path = write_loops(tmp_path / "attempts.jsonl", V_B)
    chosen = ("--threshold", 3, "--max-attempts", 2, "--max-attempts", 4, "--patience", 1)
    report = json.loads(refine("replay", path, *chosen, "--json").stdout)
    assert [(row["success_rating"], row["max_attempts"], row["patience"]) for row in report["policies"]] == [
        (4, 4, None),
        (3, 2, 1),
        (3, 4, 1),
    ]
    assert report["curve"][0]["at_risk"] == 15


def test_every_place_where_loops_are_recorded(tmp_path: Path) -> None:
    """A file, its export, the folder of a run over it, and a database without texts say the same."""
    url, file = f"sqlite:///{tmp_path / 'record.db'}", tmp_path / "attempts.jsonl"
    for record in (DatabaseRecord(url, texts=True), file):
        judge = ScriptedJudge([1, 4, 2, 2, 2, 4, 3, 4], cycle=True)
        assistant = SelfRefine(lambda _: "draft", judge, record=record, success_rating=4)
        for number in range(8):
            assistant.invoke(f"{number}?")
        if isinstance(record, DatabaseRecord):
            record.close()
    assert refine("export", url, "--out", tmp_path / "rows.jsonl").exit_code == 0
    evaluate(read_rows(file), ScriptedJudge([1], cycle=True), run=tmp_path / "run")
    reports = [
        json.loads(refine("replay", source, "--json").stdout)
        for source in (url, tmp_path / "record.db", file, tmp_path / "rows.jsonl", tmp_path / "run")
    ]
    same = [{name: report[name] for name in ("loops", "curve", "gains", "policies")} for report in reports]
    assert same == [same[0]] * 5
    assert same[0]["loops"] == 8


def test_wrong_input_is_one_line(tmp_path: Path) -> None:
    """A remedy on stderr; what is not identified is reported, with exit code 1."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "q", "answer": "a"}\n')
    old = tmp_path / "old.jsonl"
    old.write_text('{"question": "q", "answer": "a", "metadata": {"attempt": 1, "rating": 4}}\n')
    for arguments, remedy in (
        ((rows,), "record loops with SelfRefine"),
        ((tmp_path / "nothing.jsonl",), "there is no file"),
        ((f"sqlite:///{tmp_path / 'nothing.db'}",), "there is no record"),
        ((old, "--threshold", "7"), "rating from 1 to 4"),
        ((old, "--rejudge", "helpfulness"), "asks a model"),
    ):
        result = refine("replay", *arguments)
        assert (result.exit_code, result.stdout) == (2, ""), result.output
        assert remedy in result.stderr
        assert len(result.stderr.splitlines()) == 1
    result = refine("replay", old)
    assert result.exit_code == 1
    assert "not_identified" in result.stdout
    assert "left out: 1 no policy" in result.stdout
