"""What a report says of trust: agreement, corrected rates, biases, certificates and attempts, where it can."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import JsonValue

from judges import ConfigurationError, Sample, Verdict
from judges.offline import Evaluation, Row, certify
from judges.offline.results import summarise_rows
from refine.report.contents import RunData, build_report
from refine.report.document import Document
from refine.report.file import markdown
from refine.report.trust import TrustSources
from tests.loops.recorded import V_B, write_loops
from tests.runs.commands import line_of, refine

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
