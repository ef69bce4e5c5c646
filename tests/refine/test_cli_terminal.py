"""The command line in a real terminal, narrow and wide, and what a shell asks of it."""

from __future__ import annotations

import json
import os
import pty
import re
import sqlite3
import sys
import termios
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from judges import as_judge
from judges.certificate import IssuedCertificate
from judges.testing import ScriptedJudge
from refine import DatabaseRecord, SelfRefine
from refine.cli.app import app
from tests import forks
from tests.laws import for_every
from tests.snippets import ROOT
from tests.statistics.test_certifying import loop_rows

LONG = "a_rather_long_name_of_a_judge"


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write some rows in a folder to work in."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "rows.jsonl"
    lines = [{"question": f"q {n}", "answer": "word " * (n % 4 + 1), "topic": f"topic-{n % 2}"} for n in range(12)]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def screen(*words: object, columns: int, keys: bytes = b"", code: int = 0) -> str:
    """Return what a command writes in a terminal of so many columns, without its colours."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, columns))
    unset = dict.fromkeys(("COLUMNS", "LINES", "NO_COLOR"))
    terminal = (theirs, theirs, theirs)
    process = forks.start("refine", *words, streams=terminal, folder=Path.cwd(), **unset, TERM="xterm")
    os.close(theirs)
    os.write(ours, keys)  # typed ahead
    written = b""
    while True:
        try:
            part = os.read(ours, 65_536)
        except OSError:  # the terminal is closed by its last user
            break
        if not part:
            break
        written += part
    os.close(ours)
    assert forks.end_of(process) == code, written
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written.decode()).replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_no_name_is_broken_and_no_digit_cut(rows: Path, columns: int) -> None:
    """Every name and figure stands whole on a line that fits, in tables of runs and of groups."""
    judges = ["--judge", "length:at_most=2,unit=words", "--judge", f"pattern:name={LONG},required=word"]
    assert CliRunner().invoke(app, ["evaluate", str(rows), *judges, "--out", "run"]).exit_code == 0
    lines = screen("show", "run", "--slice", "topic", columns=columns).splitlines()
    assert max(map(len, lines)) <= columns
    for whole in (LONG, "length", "topic-0", "topic-1", "50.0%", "100.0%", "18.8% to 81.2%", "61.0% to 100.0%"):
        assert any(whole in line for line in lines), whole
    assert "…" not in "".join(lines)


def test_sentences_break_between_words(rows: Path) -> None:
    """A line that is too long for the terminal goes on with a whole word."""
    for name in ("a", "b"):
        made = ["evaluate", str(rows), "--judge", "length:at_most=2,unit=words", "--out", name]
        assert CliRunner().invoke(app, made).exit_code == 0
    text = screen("compare", "a", "b", columns=60)
    piped = CliRunner().invoke(app, ["compare", "a", "b"]).stdout
    assert max(map(len, text.splitlines())) <= 60
    assert text.split() == piped.split()


@pytest.mark.parametrize("columns", [60, 80])
def test_no_figure_is_broken_on_any_screen(rows: Path, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Whatever has a digit where output is piped stands whole, and beside its name, on a line that fits."""
    known = {"success_rating": 4, "max_attempts": 4, "judge": "helpfulness"}
    loops = [{**row, **known, "stop_reason": "accepted" if row["rating"] == 4 else None} for row in loop_rows()]
    (rows.parent / "loops.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in loops))
    for name in ("a", "b"):
        made = ["evaluate", str(rows), "--judge", f"pattern:name={LONG},required=word", "--out", name]
        assert (
            CliRunner().invoke(app, [*made, "--judge", f"length:at_most={len(name) + 1},unit=words"]).exit_code
            == 0
        )
    wrong = []
    commands = (
        "show a --slice topic",
        "compare a b",
        "align loops.jsonl --full --max-attempts 4",
        "certify loops.jsonl --max-attempts 4 --alpha 0.4 --out made.json",
        "replay loops.jsonl",
        "estimate rows.jsonl --judge helpfulness --model scripted",
        "report a b --out report.html",
        f"try-judge --judge {LONG}",
    )
    for command in commands:
        screens = []
        for settings in ({}, {"TTY_COMPATIBLE": "1", "COLUMNS": str(columns), "NO_COLOR": "1"}):
            for name, value in settings.items():
                monkeypatch.setenv(name, value)
            (rows.parent / "made.json").unlink(missing_ok=True)
            # a certificate's id follows the second in which it is made
            screens.append(
                re.sub(
                    r"\x1b\[[0-9;?]*[a-zA-Z]|\b[0-9a-f]{32}\b", "", CliRunner().invoke(app, command.split()).stdout
                )
            )
            for name in settings:
                monkeypatch.delenv(name)
        if command.startswith("certify") and columns == 60 and "\nfrom 4" not in screens[1]:
            wrong.append(f"{command}: a threshold without its name")
        piped, narrow = ([word.strip(",;") for word in text.split()] for text in screens)
        figures = {word for word in piped if any(letter.isdigit() for letter in word)} - {*narrow}
        wrong += [f"{command}: {word}" for word in sorted(figures) if len(word) < columns]
        wrong += [f"{command}: {line}" for line in screens[1].splitlines() if len(line.rstrip()) > columns]
    assert not wrong


def test_without_out_a_run_has_a_folder_of_its_own_which_is_named(rows: Path) -> None:
    """Two runs of the same second have two folders; with --json stdout is JSON alone."""
    folders = []
    for _ in range(2):
        result = CliRunner().invoke(app, ["evaluate", str(rows), "--judge", "length:at_most=2", "--json"])
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["rows"] == 12
        (line,) = [line for line in result.stderr.splitlines() if line.startswith("refine: ")]
        match = re.fullmatch(r"refine: the run is written to (runs/\d{4}-\d\d-\d\d-\d{6}(?:-\d)?)", line)
        assert match is not None, line
        folders.append(Path(match[1]))
    assert len(set(folders)) == 2
    assert all((folder / "summary.json").is_file() for folder in folders)


@for_every(
    "typed, offered",
    [
        ("refine ev", "evaluate"),
        ("refine judges ragas.faithf", "ragas.faithfulness"),
        ("refine evaluate --judge leng", "length"),
    ],
)
def test_a_shell_completes_commands_and_judges(typed: str, offered: str) -> None:
    """What bash asks for is answered: commands, options and judges by name; the script can be installed."""
    words = typed.split()
    asked = {"_REFINE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    result = forks.run("refine", folder=ROOT, **asked)
    assert offered in result.stdout.split(), result
    assert "--install-completion" in CliRunner().invoke(app, ["--help"]).stdout


def test_a_record_in_which_nothing_passes_has_nothing_to_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says so, and how many attempts have no verdict; nobody is asked to label."""
    monkeypatch.chdir(tmp_path)
    with closing(DatabaseRecord("sqlite:///record.db", texts=True)) as record:
        judge = ScriptedJudge([RuntimeError()], cycle=True)
        SelfRefine(lambda _: "It is so.", judge, record=record).refine("Why?")
    text = screen("certify", "sqlite:///record.db", "--by", "ann", columns=80, code=2)
    assert "there is nothing to label: no recorded answer would pass; 1 of 1 attempts have no verdict" in text
    with closing(sqlite3.connect("record.db")) as connection, connection:
        connection.execute("delete from attempt")
    text = screen("certify", "sqlite:///record.db", "--by", "ann", columns=80, code=2)
    assert "there is nothing to label: the record holds no answer yet" in text


def record_answers(count: int) -> None:
    """Record answers that pass, in the folder to work in."""
    with closing(DatabaseRecord("sqlite:///record.db", texts=True)) as record:
        loop = SelfRefine(lambda _: "It is so.", as_judge(lambda answer: (len(answer) > 3, "")), record=record)
        for number in range(count):
            loop.refine(f"Why {number}?")


def labels_by_person() -> Counter[str]:
    """Count the labels of that record by who gave them."""
    with closing(DatabaseRecord("sqlite:///record.db")) as record:
        return Counter(label["by"] for row in record.attempts() for label in row.get("labels", ()))


def test_two_people_label_a_record_and_it_is_certified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ann labels what would go out, Bob what she called bad; then a certificate is written, within 80 columns."""
    monkeypatch.chdir(tmp_path)
    record_answers(40)
    ann = b"b" + b"g" * 39 + b"\r"
    first = screen("certify", "sqlite:///record.db", "--by", "ann", columns=80, keys=ann, code=1)
    assert "to be seen by another person (people err): 1 answer; another NAME in" in " ".join(first.split())
    assert max(map(len, first[first.index("refine: called bad") :].splitlines())) <= 80
    settings = ("--alpha", "0.2", "--once")
    text = screen("certify", "sqlite:///record.db", "--by", "bob", *settings, columns=80, keys=b"b")
    assert labels_by_person() == {"ann": 40, "bob": 1}
    above, crontab = text.rstrip().split("*/15 * * * * ")
    found = Path(sys.executable).with_name("refine")
    assert max(map(len, above[above.index("CERTIFIED") :].splitlines())) <= 80
    assert (
        crontab.split()
        == f"cd {tmp_path} && {found} monitor sqlite:///record.db --certificate certificate.json".split()
    )
    table = [line for line in text.splitlines() if "certified  " in line]
    assert [line.split()[-1] for line in table] == ["1.00"] * 3
    assert IssuedCertificate.read("certificate.json").certified


def test_a_tie_is_decided_in_the_same_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is there labels on at once: a third person decides a tie, and the certificate is written."""
    monkeypatch.chdir(tmp_path)
    record_answers(40)
    keys = b"b" + b"g" * 39 + b"bob\rg" + b"cy\rb"
    settings = ("--alpha", "0.2", "--once")
    text = screen("certify", "sqlite:///record.db", "--by", "ann", *settings, columns=80, keys=keys)
    assert labels_by_person() == {"ann": 40, "bob": 1, "cy": 1}
    assert IssuedCertificate.read("certificate.json").bad == 1
    assert "CERTIFIED" in text


def test_more_labels_are_asked_for_in_the_same_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where too few are labelled it says how many the next certificate needs, and whether the record has them."""
    monkeypatch.chdir(tmp_path)
    record_answers(50)
    command = ("certify", "sqlite:///record.db", "--by", "ann")
    text = screen(*command, "--budget", "20", columns=80, keys=b"g" * 20 + b"bob\r" + b"g" * 26)
    assert "About 46 released and labelled answers are needed, 26 more than now" in " ".join(text.split())
    assert "26 more labels would probably do." in text
    assert labels_by_person() == {"ann": 20, "bob": 26}
    certificate = IssuedCertificate.read("certificate.json")
    assert (certificate.certified, certificate.use_of_labels, certificate.runs) == (True, 2, 46)
    strict = ("--alpha", "0.05", "--out", "strict.json", "--budget", "46")
    text = " ".join(screen(*command, *strict, columns=80, code=1).split())
    assert "The record holds 4 more answers that would pass: let it record more first." in text
    assert "Who is it?" not in text
