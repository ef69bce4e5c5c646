"""The offline demo: from recorded loops to a certificate and a report, on labels that are shipped."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from demos.offline import _support_judge, _support_questions, demonstrate, main
from judges.certificate import IssuedCertificate
from judges.offline import align, read_rows, replay
from judges.testing import ScriptedJudge
from refine.cli.app import app
from tests.snippets import ROOT

CPU_SECONDS = 20.0
"""Most that the demo may take; of CPU, since the wall clock also measures what else a machine does."""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run the demo as a person does, with its output piped; return its folder and what it printed."""
    folder = tmp_path_factory.mktemp("offline") / "demo"
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run(
        [sys.executable, "-m", "demos.offline", "--out", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "80", "PYTHONUTF8": "1"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < CPU_SECONDS
    return folder, done.stdout


def test_it_is_shown_in_eighty_columns_without_colours(shown: tuple[Path, str]) -> None:
    """Every step has its heading, no line is too wide, nothing is coloured, and the end says what is promised."""
    _, text = shown
    for heading in ("Record", "Label", "Align", "Certify", "Guard", "Change something", "Replay", "Report"):
        assert f"  {heading} ─" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    _, end = text.split("What is promised, and what is not ")
    words = " ".join(end.split())
    promised = "Promised: at most 10.0% of the answers that pass are bad, with confidence 95.0%, questions counted"
    assert f"{promised} as often as asked." in words
    assert "Not promised: anything about a single answer" in words


def test_its_figures_are_those_of_the_library(shown: tuple[Path, str]) -> None:
    """Agreement, thresholds and replay are what `align`, the certificate and `replay` say of what it recorded."""
    folder, text = shown
    words = " ".join(text.split())
    kappa = align(folder / "attempts.jsonl", resamples=10).agreement.figures["pass_kappa"].value
    assert f"kappa {kappa:.2f}" in words
    certificate = IssuedCertificate.read(folder / "certificate.json")
    assert f"id {certificate.id}" in words
    for row in certificate.rows:
        finding = "keeps it" if row.status == "certified" else "does not"
        cells = (row.policy_text, certificate.runs, row.released, row.bad, f"{row.rate:.1%} {row.upper:.1%}")
        assert " ".join(map(str, ("rating", *cells, finding))) in words
    last = replay(folder / "attempts.jsonl").curve[-1]
    assert f"{last.attempt} {last.at_risk} {last.passed} {last.cumulative:.0%}" in words


def test_too_few_loops_certify_nothing_and_enough_do(shown: tuple[Path, str]) -> None:
    """The first day's loops get an answer, with what is needed; the certificate the laxest rating that holds."""
    folder, text = shown
    first, second = text.split("Then from the loops")
    assert first.count("too few") == 3
    assert "NOT CERTIFIED. That is an answer" in first
    assert "released and labelled answers are needed" in first
    assert "CERTIFIED  success_rating=3, max_attempts=3" in second
    assert IssuedCertificate.read(folder / "certificate.json").success_rating == 3


def test_outcomes_bear_the_certificate_and_changes_are_refused(shown: tuple[Path, str]) -> None:
    """What passed names the certificate; another prompt, model or number of attempts does not start."""
    folder, text = shown
    id_ = IssuedCertificate.read(folder / "certificate.json").id[:8]
    assert text.count(f"passed; certificate {id_}") == 2
    words = " ".join(text.split())
    assert "did not pass: the promise says nothing about it" in words
    for changed in ("'support-quality' changed", "is 'judge-model-2'", "max_attempts was 3 and is 5"):
        assert changed in words
    assert words.count(f"refused: certificate {id_} is not about this loop") == 3


def test_its_commands_go_on_from_where_it_ends(
    shown: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command certifies what the demo did: the same question to the same labels spends nothing of delta."""
    folder, _ = shown
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as exit_:
        app(["certify", "attempts.jsonl", "--out", "again.json"])
    assert exit_.value.code == 0
    first, again = (IssuedCertificate.read(folder / name) for name in ("certificate.json", "again.json"))
    assert (again.rows, again.delta, again.use_of_labels) == (first.rows, 0.05, 1)
    assert "labels: attempts.labels.jsonl, which lies beside attempts.jsonl" in capsys.readouterr().out


def test_everything_is_kept_and_judged_again(shown: tuple[Path, str]) -> None:
    """The folder holds record, labels, run and report; the recorded ratings are those of the shipped answers."""
    folder, text = shown
    samples = list(read_rows(folder / "attempts.jsonl"))
    assert f"{len(samples)} of {len(samples)} verdicts equal those given online" in text
    ratings = {answer.answer: answer.rating for question in _support_questions() for answer in question.answers}
    assert [sample.metadata["rating"] for sample in samples] == [ratings[str(sample.answer)] for sample in samples]
    report = (folder / "report.html").read_text()
    assert "What is certified" in report
    assert "What another attempt brings" in report
    (line, *_) = (folder / "attempts.labels.jsonl").read_text().splitlines()
    assert json.loads(line).keys() >= {"by", "rating", "outcome_id", "attempt", "user_input", "response"}


def test_a_judge_that_certifies_nothing_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a judge that accepts everything no threshold holds; it says so, and the exit code is 1."""
    judge = ScriptedJudge(lambda _: 4, name=_support_judge(_support_questions()).name)
    assert demonstrate(tmp_path, judge=judge) == 1
    assert "CERTIFIED  nothing" in capsys.readouterr().out


def test_a_record_is_not_added_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that already holds a record is refused in one line."""
    (tmp_path / "attempts.jsonl").touch()
    assert main(["--out", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "choose another --out" in line


def test_the_page_on_trust_tells_what_the_demo_shows(shown: tuple[Path, str]) -> None:
    """The rounded figures of the page are those of the demo."""
    folder, _ = shown
    figures = align(folder / "attempts.jsonl", resamples=10).agreement.figures
    rows = {row.policy: row for row in IssuedCertificate.read(folder / "certificate.json").rows}
    first = replay(folder / "attempts.jsonl").curve[0]
    page = (ROOT / "docs" / "trust.md").read_text()
    assert f"in {figures['agreement'].value:.0%} of" in page.replace("97 of 100", "97% of")
    assert (round(1 / (1 - (figures["tnr"].value or 0))), "one bad one in eight" in page) == (8, True)
    assert (round(100 * (rows[2.0].rate or 0)), "20 bad ones in 100" in page) == (20, True)
    assert (round(3 * (first.at_risk - first.passed) / first.at_risk), "a third of the questions" in page) == (
        1,
        True,
    )
