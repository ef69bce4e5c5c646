"""Whether a loop still does what it was certified to do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from judges import ConfigurationError, Length, Verdict, as_judge
from judges.certificate import IssuedCertificate, Subject
from judges.offline import monitor, replay
from judges.offline.statistics import e_cusum
from judges.testing import ScriptedJudge
from refine import SelfRefine
from refine.record import DatabaseRecord
from tests import forks
from tests.loops.recorded import certified, issued, rows_of, write_loops
from tests.runs.commands import refine


def written(path: Path, **fields: Any) -> Path:
    """Write a certificate that tolerates 10 % of the loops that are written here."""
    subject = Subject(judge="judge", judge_digest="j" * 32, policy={"max_attempts": 4})
    issued(**{"subject": subject, **fields}).write(path)
    return path


def test_a_certificate_takes_the_place_of_files_alone(tmp_path: Path) -> None:
    """A link stays a link, and what is no file, such as a pipe or `/dev/null`, is written to, not replaced."""
    (tmp_path / "latest.json").symlink_to(tmp_path / "first.json")
    written(tmp_path / "latest.json")
    written(tmp_path / "latest.json", alpha=0.2)
    assert (tmp_path / "latest.json").is_symlink()
    assert IssuedCertificate.read(tmp_path / "first.json").alpha == 0.2
    os.mkfifo(tmp_path / "pipe")
    read = "import sys; print(open(sys.argv[1]).read())"
    reader = subprocess.Popen(
        [sys.executable, "-c", read, str(tmp_path / "pipe")], stdout=subprocess.PIPE, text=True
    )
    written(tmp_path / "pipe")
    assert json.loads(reader.communicate(timeout=60)[0])["alpha"] == 0.1
    assert (tmp_path / "pipe").is_fifo()
    assert {file.name for file in tmp_path.iterdir()} == {"latest.json", "first.json", "pipe"}


def canary_rows(n: int, *, wrong: int = 0) -> list[dict[str, Any]]:
    """Return rows of which half are good, and the judge was wrong about the first few."""
    return [
        {
            "user_input": f"question {number}?",
            "response": "good" if number % 2 else "bad",
            "metadata": {
                "rating": 4 if (number % 2 == 1) is (number >= wrong) else 1,
                "labels": [{"by": "ann", "rating": 4 if number % 2 else 1}],
            },
        }
        for number in range(n)
    ]


def test_the_pass_rate_holds_at_any_look(tmp_path: Path) -> None:
    """The interval is the confidence sequence; what was not judged is reported in outer bounds."""
    path = write_loops(tmp_path / "a.jsonl", ["4"] * 45 + ["1111"] * 5)
    rate = monitor(path, alpha=0.1).pass_rate
    assert (rate.low, rate.high) == pytest.approx((0.7134621031268706, 0.9841525898093346))
    crashed = write_loops(tmp_path / "b.jsonl", ["4"] * 45 + ["1111"] * 5 + ["1*"] * 5)
    outer = monitor(crashed, alpha=0.1).pass_rate
    assert (outer.low, outer.high, outer.unjudged) == (rate.low, rate.high, 5)
    assert outer.low_if_refused < rate.low
    assert outer.high_if_passed > outer.high


def test_the_alarm_on_audited_answers(tmp_path: Path) -> None:
    """It is due when the statistic reaches 100, counts passed answers in the order of audits, and stays."""
    loops = ["4|b" if bad else "4|g" for bad in [0, 1, 0, 1, 1, 0, 1, 1]]
    path = write_loops(tmp_path / "a.jsonl", [*loops, "1111|bbbb", "4"])
    audits = monitor(path, alpha=0.1).audits
    assert (audits.audits, audits.bad, audits.p0, audits.p1) == (8, 5, 0.1, 0.2)
    assert audits.statistic == pytest.approx(25.283950617)
    assert not audits.alarm
    bads = [1] * 7 + [0] * 60
    path = write_loops(tmp_path / "b.jsonl", ["4|b" if bad else "4|g" for bad in bads])
    result = refine("monitor", path, "--alpha", "0.1", "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["alarm"]) == (1, True)
    assert report["audits"]["highest"] == pytest.approx(128)
    assert report["audits"]["statistic"] == pytest.approx(e_cusum(bads, 0.1)[-1])
    text = refine("monitor", path, "--alpha", "0.1").stdout
    assert text.startswith("ALARM")
    assert "highest 128" in text
    tuned = [row for number in range(9) for row in rows_of(number, "4")]
    for row in tuned:
        row["metadata"]["labels"] = [{"by": "ann", "up": False, "split": "tune"}]
    report = monitor(tuned, alpha=0.1).to_dict()
    assert (report["audits"]["reason"], report["silent"]) == ("too_few", True)
    assert "tuned_on" in report["notes"][0]


@pytest.mark.parametrize(
    ("loops", "differs"), [(["4"] * 60 + ["1*"] * 60, False), (["4"] * 5 + ["1111"] * 85, True)]
)
def test_another_pass_rate_than_the_certificate_s_is_told(tmp_path: Path, loops: list[str], differs: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Both rates are of all loops, those without a verdict too, and only intervals that are apart differ."""
    row = certified(4, release_rate=0.5, release_interval=(0.41, 0.59))
    written(tmp_path / "c.json", rows=(row,))
    notes = monitor(write_loops(tmp_path / "a.jsonl", loops), certificate=tmp_path / "c.json").notes
    assert any("50.0% of the loops passed when it was certified" in note for note in notes) is differs


def test_loops_with_another_rating_than_a_certificate_have_no_pass_rate_to_compare(tmp_path: Path) -> None:
    """Fewer pass from 4 than from 2, whatever the questions are."""
    row = certified(2, release_rate=1.0, release_interval=(0.94, 1.0))
    loops = ["4"] * 45 + ["2222"] * 45
    written(tmp_path / "c.json", rows=(row,), threshold=2.0)
    notes = monitor(write_loops(tmp_path / "a.jsonl", loops), certificate=tmp_path / "c.json").notes
    assert (
        "these loops ran with 4, and the certificate is for 2: whether as many pass as then is not compared"
        in notes
    )
    assert not any("more or fewer" in note for note in notes)


def test_nothing_can_be_said(tmp_path: Path) -> None:
    """Without audits, or without a tolerated share, nothing can raise an alarm: exit code 3 says so."""
    path = write_loops(tmp_path / "a.jsonl", ["4", "1111"])
    result = refine("monitor", path)
    assert result.exit_code == 3
    assert "NOTHING CAN BE SAID" in result.stdout
    assert "give a certificate" in result.stdout
    assert refine("monitor", path, "--alpha", "0.1").exit_code == 3
    nothing = tmp_path / "nothing.json"
    written(nothing, threshold=None)
    labelled = write_loops(tmp_path / "b.jsonl", ["4|g"])
    assert refine("monitor", labelled, "--certificate", nothing).exit_code == 3
    assert refine("monitor", labelled, "--alpha", "0.1").exit_code == 0
    assert refine("monitor", labelled, "--alpha", "7").exit_code == 2
    assert refine("monitor", labelled, "--watch", "--json").exit_code == 2
    with pytest.raises(ConfigurationError, match="canary needs a judge"):
        monitor(path, canary=[])


def test_a_certificate_tells_what_is_tolerated_and_of_which_loop(tmp_path: Path) -> None:
    """Its calibration is no audit; a change of what it depends on voids it."""
    subject = {"judge": "judge", "judge_digest": "j" * 32, "policy": {"max_attempts": 4}}
    file = written(tmp_path / "certificate.json", recorded_until="2026-11-22T00:00:01+00:00")
    loops = ["4|g", "4|g", "4|b", "4|g"]
    path = write_loops(tmp_path / "a.jsonl", loops, subject=subject)
    report = monitor(path, certificate=file)
    assert (report.audits.audits, report.audits.bad, report.audits.p0) == (2, 1, 0.1)
    assert "2 labelled answers are those of the certificate" in report.notes[0]
    assert (report.alarm, report.changes) == (False, ())
    other = write_loops(tmp_path / "b.jsonl", loops, subject={**subject, "judge_digest": "k" * 32})
    result = refine("monitor", other, "--certificate", file)
    assert result.exit_code == 1
    assert "the certificate is void" in result.stdout
    assert "changed" in result.stdout


def test_a_record_is_monitored_as_it_is(tmp_path: Path) -> None:
    """Labels that people give on the page are audits, also in a record without texts."""
    url = f"sqlite:///{tmp_path / 'record.db'}"
    with DatabaseRecord(url) as record:
        assistant = SelfRefine(lambda _: "draft", ScriptedJudge([4], cycle=True), record=record)
        ids = [assistant.refine(f"{number}?").id for number in range(3)]
        assert record.flush()
        for number, bad in zip(ids, (False, True, False), strict=True):
            record.label(number, 1, by="ann", up=not bad)
    report = json.loads(refine("monitor", url, "--alpha", "0.1", "--json").stdout)
    assert (report["audits"]["audits"], report["audits"]["bad"]) == (3, 1)
    assert report["pass_rate"]["passed"] == 3


def test_the_policy_in_force_is_that_of_most(tmp_path: Path) -> None:
    """A request that overrides the policy does not hide the others; an earlier policy does not count."""
    rows = [
        row for number in range(90) for row in rows_of(number, "4", policy_digest="new" if number > 29 else "old")
    ]
    rows += rows_of(91, "4", policy_digest="overridden")
    report = monitor(rows, alpha=0.1)
    assert (report.loops, report.other_loops) == (60, 31)
    assert "31 loops ran under another policy" in report.notes[0]
    assert monitor([*rows_of(0, "4")], alpha=0.1).loops == 1


def test_a_canary(tmp_path: Path) -> None:
    """The same judge raises no alarm; one that got worse does; too few rows, or verdicts, say nothing."""
    path = write_loops(tmp_path / "a.jsonl", ["4"])
    same = ScriptedJudge(lambda sample: 4 if sample.response == "good" else 1)
    worse = ScriptedJudge(lambda sample: 4)
    mute = ScriptedJudge(lambda sample: Verdict.without_score("judge_failed"))
    fine = monitor(path, canary=canary_rows(60, wrong=3), judge=same).canary
    assert fine is not None
    assert (fine.right_before, fine.right_now, fine.only_now, fine.p, fine.alarm) == (57, 60, 3, 0.25, False)
    report = monitor(path, canary=canary_rows(60), judge=worse)
    assert report.canary is not None
    assert (report.canary.only_before, report.canary.alarm, report.alarm) == (30, True, True)
    assert report.canary.p is not None
    assert report.canary.p < 0.001
    few = monitor(path, canary=canary_rows(49), judge=same)
    assert few.canary is not None
    assert (few.canary.reason, few.silent) == ("too_few", True)
    unjudged = monitor(path, canary=canary_rows(60), judge=mute).canary
    assert unjudged is not None
    assert unjudged.reason == "not_identified"


def test_a_canary_whose_hard_rows_stand_together_raises_no_alarm(tmp_path: Path) -> None:
    """A judge that errs on the same eight rows as ever has not changed, wherever in the file they stand."""
    path = write_loops(tmp_path / "a.jsonl", ["4"])
    hard = {f"question {number}?" for number in range(8)}
    same = ScriptedJudge(lambda sample: 4 if (sample.response == "good") is (sample.user_input not in hard) else 1)
    report = monitor(path, canary=canary_rows(100, wrong=8), judge=same)
    assert report.canary is not None
    assert (report.canary.right_before, report.canary.right_now, report.canary.p) == (92, 92, 1)
    assert (report.canary.alarm, report.alarm) == (False, False)


def test_a_canary_of_loops_that_accept_by_score(tmp_path: Path) -> None:
    """What is rated 4 and scored below the loops' score is refused, before and now."""
    path = write_loops(tmp_path / "a.jsonl", ["4"], success_score=0.9)
    rows = canary_rows(60)
    for row in rows:
        good = row["response"] == "good"
        row["metadata"].update(rating=4, score=0.95 if good else 0.8)
    by_score = as_judge(
        lambda answer: Verdict(rating=4, passed=True, score=0.95 if answer == "good" else 0.8), name="s"
    )
    found = monitor(path, canary=rows, judge=by_score).canary
    assert found is not None
    assert (found.right_before, found.right_now) == (60, 60)
    by_rating = monitor(path, canary=rows, judge=by_score, success_rating=4).canary
    assert by_rating is not None
    assert (by_rating.right_before, by_rating.right_now) == (30, 30)


def test_audits_of_a_certificate_above_a_rating_of_four(tmp_path: Path) -> None:
    """An answer rated 4 and scored .95 is one that a threshold of 4.9 releases, in files, too."""
    file = written(tmp_path / "certificate.json", threshold=4.9)
    own = IssuedCertificate.read(file)
    rows = [row for number in range(40) for row in rows_of(number, "4|b", certificate=own.id)]
    for row in rows:
        row["metadata"]["score"] = 0.95
    standing = monitor(rows, certificate=file).standing
    assert standing is not None
    assert (standing.audits, standing.bad, standing.state) == (40, 40, "withdrawn")


def test_a_promise_about_all_questions_tolerates_no_share_of_those_that_pass(tmp_path: Path) -> None:
    """One bad answer to ten questions may be one of two that passed: audits of these raise no false alarm."""
    file = written(tmp_path / "certificate.json", risk="per_question")
    report = monitor(write_loops(tmp_path / "a.jsonl", ["4|b"] * 9), certificate=file)
    assert (report.audits.reason, report.alarm) == ("not_identified", False)
    assert monitor(tmp_path / "a.jsonl", certificate=file, alpha=0.1).audits.alarm


def test_a_canary_is_judged_by_a_judge_by_name(tmp_path: Path) -> None:
    """Its text stands for it, here and in a replay; one that asks a model names it."""
    path = write_loops(tmp_path / "a.jsonl", ["14"] * 40)
    by_name = monitor(path, canary=canary_rows(60), judge="length:at_least=1").canary
    assert by_name == monitor(path, canary=canary_rows(60), judge=Length(at_least=1)).canary
    assert by_name is not None
    assert by_name.alarm
    names = "length:at_least=1", ["length:at_least=1", "json"]
    assert [replay(path, judge=judge, rejudge_fraction=1).gains[0].rejudged for judge in names] == [40, 40]
    for look in (
        lambda: monitor(path, canary=canary_rows(60), judge="helpfulness"),
        lambda: replay(path, judge="helpfulness"),
    ):
        with pytest.raises(ConfigurationError, match="'helpfulness' asks a model"):
            look()


def test_watching_until_somebody_ends_it(tmp_path: Path) -> None:
    """The screen follows the record; Ctrl-C ends with the exit code of the last look."""
    path = write_loops(tmp_path / "a.jsonl", ["4|b"] * 6)
    words = ("monitor", path, "--alpha", "0.1", "--watch", "--every", "0.1")
    with forks.listening("stdout", "refine", *words, folder=tmp_path) as (process, written):
        assert "no alarm" in written.readline()
        write_loops(path, ["4|b"] * 7)
        assert any("ALARM" in line for line in written)
        forks.tell(process, signal.SIGINT)
        assert forks.end_of(process) == 1
