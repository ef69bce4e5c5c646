"""What a report says: figures, groups, the worst rows, two runs, and of trust, as page, Markdown and table."""

from __future__ import annotations

import csv
import io
import json
import re
import tomllib
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import pytest
from pydantic import JsonValue
from typer.testing import CliRunner

from judges import Cascade, ConfigurationError, Helpfulness, Length, Sample, Usage, Verdict
from judges.offline import Evaluation, Row, certify, evaluate
from judges.offline.results import percentiles, summarise_rows
from judges.testing import ScriptedJudge, ScriptedModel
from refine.cli.app import app
from refine.report.contents import RunData, build_report
from refine.report.document import Document, WorstRow, dollars, moment, p_value, percent
from refine.report.file import _csv_cell, _csv_rows
from refine.report.markdown import _escape_markup, markdown
from refine.report.page import page
from refine.report.trust import TrustSources
from tests.loops.recorded import V_B, write_loops
from tests.runs.commands import line_of, refine

DATA = tomllib.loads(Path(__file__).with_name("report.toml").read_text(encoding="utf-8"))
FORMULAS = DATA["formulas"]
"""Texts that a spreadsheet takes for a formula, and two that look like one made harmless."""


WRONG = DATA["wrong"]
"""Wrong commands, and what their one line says."""


def row(index: int, *verdicts: Verdict, question: str = "", answer: str = "An answer.", **metadata: str) -> Row:
    """Return a judged row."""
    sample = Sample(user_input=question or f"question {index}", response=answer, metadata=dict(metadata))
    return Row(index=index, sample=sample, verdicts={verdict.judge: verdict for verdict in verdicts})


def run(*rows: Row, name: str = "runs/1") -> RunData:
    """Return a run of rows."""
    return RunData(name=name, evaluation=Evaluation(rows=rows, summary=summarise_rows(rows)))


def rated(rating: int, **fields: object) -> Verdict:
    """Return a verdict of one judge."""
    return Verdict.rated(rating, judge="helpfulness", **fields)  # type: ignore[arg-type]  # fields of a verdict


def failed() -> Verdict:
    """Return a verdict that came to nothing."""
    return Verdict.without_score("judge_failed", "503").model_copy(update={"judge": "helpfulness"})


def test_a_judge_has_its_figures_and_what_is_unscored_its_reasons() -> None:
    """Means, passes, coverage, ratings, reasons, tokens and costs are those of the rows."""
    rows = [row(n, rated(4 if n < 6 else 2, usage=Usage(calls=1, input_tokens=n, cost=0.5))) for n in range(8)]
    report = build_report([run(*rows, row(8, failed()), row(9, failed()))])
    text = markdown(report)
    assert f"| helpfulness | {(6 + 2 / 3) / 8:.3f} (" in text
    assert "| 1: 0, 2: 2, 3: 0, 4: 6 |" in text
    assert "Scores of helpfulness" not in text  # ratings say as much
    assert "| helpfulness | 8 | – | 2 (6 / 7) | 28 |" in text
    assert "| \\$4.00 |" in text
    assert "75.0% (40.9% to 92.9%)" in text
    assert "80.0% (2 judge failed)" in text
    assert percentiles([]) == {}


def test_the_worst_rows_come_first_with_reasons_and_parts() -> None:
    """Rows that did not pass are shown, lowest mean first; passes and unscored rows are not among them."""
    part = Verdict.checked(passed=False, subject="names the option", rationale="It does not.")
    rows = [
        row(0, rated(4)),
        row(1, rated(2)),
        row(2, rated(1, rationale="Wrong.", items=(part,))),
        row(3, failed()),
    ]
    report = build_report([run(*rows)])
    worst = next(section for section in report.sections if section.key == "worst")
    assert [block.index for block in worst.blocks if isinstance(block, WorstRow)] == [2, 1]
    text = markdown(report)
    assert text.index("### Row 2") < text.index("### Row 1")
    assert "- **helpfulness** 0.00, not passed: Wrong." in text
    assert "  - **names the option** 0.00, not passed: It does not." in text
    assert "Rows that did worst" not in markdown(build_report([run(row(0, rated(4)))]))


def test_groups_have_figures_of_their_own() -> None:
    """Rows are grouped by the text of a column, those without it too; an unknown column is named."""
    rows = [row(n, rated(4), topic="git") for n in range(3)] + [row(3, rated(1), topic="tea"), row(4, rated(1))]
    report = build_report([run(*rows)], slices=["topic"])
    text = markdown(report)
    assert "| (none) | 1 | 0.000 (0.0% passed) |" in text
    assert "| git | 3 | 1.000 (" in text
    assert "| tea | 1 | 0.000 (0.0% passed) |" in text
    with pytest.raises(ConfigurationError, match=r"no row has a column 'topics'.*did you mean 'topic'"):
        build_report([run(*rows)], slices=["topics"])


def test_two_runs_are_paired_by_row_and_question() -> None:
    """Differences, regressions and a win rate; rows of one run alone, or with another question, stand alone."""
    before = [row(n, rated(3)) for n in range(20)]
    after = [row(n, rated(1 if n < 9 else 3)) for n in range(1, 19)] + [row(19, rated(3), question="another?")]
    report = build_report([run(*before), run(*after, name="runs/2")])
    sides = {(pair.index, tuple(side is not None for side in pair.sides)) for pair in report.rows}
    assert {(0, (True, False)), (1, (True, True)), (19, (True, False)), (19, (False, True))} <= sides
    text = markdown(report)
    assert "# runs/2 against runs/1" in text
    assert "- row 1: 0.667 to 0.000: 'question 1'" in text
    assert "Not the same dataset, so a change may come from that: 2 rows are missing; 1 row is new." in text
    assert "helpfulness: 8 rows fell, the largest fall first" in text
    assert "| 0 up, 8 down (10 equal) | 27.8%" in text


def test_two_runs_stand_beside_each_other_by_group_and_by_score() -> None:
    """A group has the mean before in brackets; scores before and after are drawn, and a reason is told once."""
    said = "Name the option."
    before = [row(n, rated(2, rationale=said, feedback=said), topic="git") for n in range(6)]
    after = [row(n, rated(4 if n < 4 else 1, rationale=said, feedback=said), topic="git") for n in range(6)]
    report = build_report([run(*before), run(*after, name="runs/2")], slices=["topic"])
    text = markdown(report)
    assert re.search(r"\| git \| 6 \| 0\.667 \(0\.333\) .*66\.7% passed \(0\.0%\)", text)
    assert "helpfulness: 4 rose, 2 fell" in text
    assert text.count(said) == 2
    assert page(report).count("0.33 to 1.00, 4 rows") == 1


def test_no_cell_of_a_table_is_a_formula_and_every_text_comes_back() -> None:
    """Twenty texts begin with no sign of a formula; without the apostrophe they are as before."""
    assert len(set(FORMULAS)) == 20
    rows = [row(n, rated(2, rationale=text), question=text, answer=text) for n, text in enumerate(FORMULAS)]
    table = list(csv.DictReader(io.StringIO(_csv_rows(build_report([run(*rows)])), newline="")))
    for text, line in zip(FORMULAS, table, strict=True):
        for column in ("question", "answer", "helpfulness reasons"):
            assert line[column][0] not in "=+-@\t\r\n"
            assert line[column].removeprefix("'") == text
        assert float(line["helpfulness"]) == pytest.approx(1 / 3)
    assert [_csv_cell(value) for value in (-1, None, "plain", "")] == [-1, "", "plain", ""]


def test_numbers_never_say_more_than_they_know() -> None:
    """A share just above 0 is not 0, a small sum is not nothing, and a time is written out."""
    shares = {0: "0.0%", 0.0001: "< 0.1%", 0.5: "50.0%", 0.99999: "> 99.9%", 1 - 1e-16: "100.0%", None: "–"}
    assert {share: percent(share) for share in shares} == shares
    sums = {0: "$0.00", 0.00012: "$0.00012", 0.0123: "$0.0123", 1234.5: "$1,234.50", None: "unknown"}
    assert {sum_: dollars(sum_) for sum_ in sums} == sums
    assert [p_value(p) for p in (0.00001, 0.04, None)] == ["< 0.001", "0.040", "–"]
    assert moment("2026-11-22T03:04:05+00:00") == "22 November 2026, 03:04 UTC"
    assert _escape_markup("# a|b <i>\n`x` [y](z) & 1. 2") == "\\# a\\|b &lt;i&gt; \\`x\\` \\[y\\](z) &amp; 1. 2"
    marks = {"1. a": "&#49;. a", "- a": "\\- a", "95.8 %": "95.8 %", "+0.1": "+0.1"}
    assert {text: _escape_markup(text) for text in marks} == marks


def test_the_page_allows_its_own_script_and_nothing_else() -> None:
    """The content policy names two hashes; nothing points out of the page, and the same run is the same page."""
    report = build_report([run(row(0, rated(2), topic="git"))], slices=["topic"])
    text = page(report)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert re.fullmatch(
        r"default-src 'none'; script-src 'sha256-[\w+/]{43}='; style-src 'sha256-[\w+/]{43}='; base-uri 'none'; "
        r"form-action 'none'",
        policy[1],
    )
    assert re.findall(r"(?:src|href|action|srcset|style)=\"(?!#)[^\"]*\"", text) == []
    assert "http" not in text.replace("http-equiv", "")
    assert page(build_report([run(row(0, rated(2), topic="git"))], slices=["topic"])) == text


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with two finished runs over the same questions."""
    monkeypatch.chdir(tmp_path)
    for name, longest in (("1", 3), ("2", 1)):
        rows = [{"question": f"q {n}", "answer": "word " * (n % 3 + 1), "topic": "ab"[n % 2]} for n in range(12)]
        Path("rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        judged = ["evaluate", "rows.jsonl", "--judge", f"length:at_most={longest},unit=words"]
        assert refine(*judged, "--out", f"runs/{name}").exit_code == 0
    return tmp_path


def test_the_command_writes_a_file_that_its_owner_alone_can_read(folder: Path) -> None:
    """By default report.html in the run; --out names another, whose ending is its format; - is stdout."""
    result = refine("report", "runs/1")
    assert (result.exit_code, result.stdout) == (0, "runs/1/report.html\n")
    assert Path("runs/1/report.html").stat().st_mode & 0o777 == 0o600
    assert refine("report", "runs/1", "runs/2", "--slice", "topic", "--out", "new/r.md").exit_code == 0
    assert "## Against the run before" in Path("new/r.md").read_text()
    again = Path("runs/1/report.html").read_bytes()
    assert refine("report", "runs/1", "--out", "r.htm").exit_code == 0
    assert Path("r.htm").read_bytes() == again
    shown = refine("report", "runs/1", "--out", "-", "--format", "csv").stdout
    assert shown.startswith("row,question,answer,length")
    assert "12 rows, 1 judge, finished " in again.decode()


def test_a_judge_card_has_the_prompt_and_the_versions(tmp_path: Path) -> None:
    """What a judge was told, also one inside another, and by which versions it was made."""
    judge = Cascade([ScriptedJudge([2], name="cheap"), Helpfulness(ScriptedModel(["4"], name="m"))], name="both")
    evaluate([{"question": "q", "answer": "a"}], {"both": judge}, run=str(tmp_path / "run"))
    assert refine("report", str(tmp_path / "run"), "--out", str(tmp_path / "r.md")).exit_code == 0
    assert refine("report", str(tmp_path / "run"), "--out", str(tmp_path / "r.html")).exit_code == 0
    text, html = (tmp_path / "r.md").read_text(), (tmp_path / "r.html").read_text()
    assert "> You assess answers of a chat assistant." in text
    assert f"selfrefine {version('selfrefine')}, pydantic {version('pydantic')}, langchain-core" in text
    assert "<summary>Prompt of both: helpfulness</summary>" in html


def test_a_judge_card_has_settings_and_model_of_a_judge_made_in_python(tmp_path: Path) -> None:
    """What it was given, and the model it asks; none beside a judge that asks none."""
    rated = {"rationale": "r", "rating": 3, "feedback": "f"}
    judges = [Helpfulness(ScriptedModel([rated], cycle=True), success_rating=4, language="ru"), Length(at_most=9)]
    evaluate([{"question": "q", "answer": "a b"}], judges, run=tmp_path / "run")
    text = refine("report", tmp_path / "run", "--out", "-", "--format", "md").stdout.replace("\\_", "_")
    card, other = (line for line in text.splitlines() if "given in Python" in line)
    assert "Helpfulness(model=scripted, success_rating=4, language=ru), given in Python" in card
    assert "| scripted" in card
    assert "| ru |" in card
    assert "Length(at_most=9), given in Python" in other
    assert "scripted" not in other


def test_a_wrong_command_is_one_line(folder: Path) -> None:
    """What is wrong, and what to do, with exit code 2; nothing is judged and nothing written."""
    for command, line in WRONG:
        assert line in line_of(CliRunner().invoke(app, command.split())), command
    assert refine("plan").exit_code == 2
    assert not Path("runs/3").exists()


HUMAN = "44321433214423143241"
JUDGE = "43331443224433142243"


def rows_of(judge: str, human: str = "") -> tuple[Row, ...]:
    """Return rows by the ratings of a judge, with the labels of a person in them if there are any."""
    return tuple(row_of(index, int(rating), human[index : index + 1]) for index, rating in enumerate(judge))


def row_of(index: int, rating: int, label: str) -> Row:
    """Return a row that one judge rated."""
    metadata: dict[str, JsonValue] = {"labels": [{"by": "ann", "rating": int(label)}]} if label else {}
    sample = Sample(user_input=f"question {index}", response=f"answer {index}", metadata=metadata)
    verdict = Verdict.rated(rating, judge="helpfulness")
    return Row(index=index, sample=sample, verdicts={"helpfulness": verdict})


def report_of(rows: Sequence[Row], **sources: Path) -> Document:
    """Return the report of a run, and of what there is besides."""
    run = RunData(name="runs/1", evaluation=Evaluation(rows=tuple(rows), summary=summarise_rows(rows)))
    return build_report([run], sources=TrustSources(**sources))


def test_without_labels_nothing_is_said_of_trust() -> None:
    """No section, and no column of labels."""
    report = report_of(rows_of(JUDGE))
    assert {section.key for section in report.sections} == {"judges", "costs", "worst"}
    assert "Do people agree?" not in markdown(report)


def test_labels_in_the_rows_or_in_a_file_say_how_people_agree(tmp_path: Path) -> None:
    """Agreement, reliability by rating, corrected rates and biases are those of the labels, from either place."""
    labels = tmp_path / "labels.jsonl"
    rows = [
        {"question": f"question {n}", "answer": f"answer {n}", "by": "ann", "rating": int(rating)}
        for n, rating in enumerate(HUMAN)
    ]
    labels.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    inside, beside = report_of(rows_of(JUDGE, HUMAN)), report_of(rows_of(JUDGE), labels=labels)
    assert [pair.label for pair in inside.rows] == [pair.label for pair in beside.rows]
    assert inside.rows[0].label == "good"
    assert inside.rows[3].label == "bad"
    text = markdown(inside)
    certificate = "Nothing is certified"  # labels in a file have a ledger, which keeps a share of delta
    assert markdown(beside).partition(certificate)[0] == text.partition(certificate)[0]
    assert "0.57 (" in text  # kappa
    assert "91.7% (61.5% to 99.8%)" in text  # good ones passed
    assert "21.4% (" in text  # bad among passes
    assert "With 20 labelled questions all of this is only indicative." in text
    assert "## Pass rates, corrected by labels" in text
    assert (
        "| leniency (rates higher than people do) | helpfulness | not tested, people and judge differ on" in text
    )
    assert "| helpfulness | 0.0% (0.0% to 84.2%, n = 2)" in text  # rated 1


def test_attempts_and_a_certificate_have_sections_of_their_own(tmp_path: Path) -> None:
    """The curve with its intervals, bounds where the record ends, and a table of thresholds with its finding."""
    attempts = write_loops(tmp_path / "attempts.jsonl", V_B)
    text = markdown(report_of(rows_of(JUDGE), attempts=attempts))
    assert "| 1 | 15 | 4 | 26.7% (" in text
    assert "part of that is luck: --rejudge removes it" in text
    assert "rating 4, 4 attempts (in force)" in text
    assert "80.0% to 86.7% (bounds)" in text
    assert "Nothing is certified: no threshold keeps what was asked for" in text
    assert "Calculated for this report" in text
    good = write_loops(tmp_path / "good.jsonl", ["4|g"] * 60)
    file = tmp_path / "certificate.json"
    issued = certify(good, thresholds=[4, 3], ledger=tmp_path / "own.ledger", once=True)
    issued.write(file)
    text = markdown(report_of(rows_of(JUDGE), certificate=file))
    assert "Certified: success\\_rating=" in text
    assert f"Certificate {issued.id[:8]}, issued " in text
    assert "0.0% (at most 4.9%)" in text


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    """A missing file, one that is something else, and a certificate that was changed."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "q", "answer": "a"}\n')
    run = tmp_path / "run"
    assert refine("evaluate", rows, "--judge", "length:at_most=3", "--out", run).exit_code == 0
    changed = tmp_path / "certificate.json"
    certify(write_loops(tmp_path / "good.jsonl", ["4|g"] * 60)).write(changed)
    changed.write_text(changed.read_text().replace('"delta": 0.025', '"delta": 0.01'))
    for options, line in (
        (("--labels", tmp_path / "none.jsonl"), "there is no file"),
        (("--labels", rows), "no row has a label"),
        (("--attempts", rows), "no row is a recorded attempt"),
        (("--certificate", rows), "is no certificate of selfrefine"),
        (("--certificate", changed), "was changed after it was issued"),
    ):
        assert line in line_of(refine("report", run, *options)), options
    with pytest.raises(ConfigurationError, match="there is no certificate"):
        report_of(rows_of(JUDGE), certificate=tmp_path / "none.json")
