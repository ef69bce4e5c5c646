"""`refine align` and `refine certify`: what they print, write and refuse."""

from __future__ import annotations

import json
import math
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from judges.certificate import IssuedCertificate
from judges.offline.trust.drawing import people_needed
from judges.offline.trust.rows import read_judged
from judges.testing import ScriptedJudge
from refine import SelfRefine
from refine.record import DatabaseRecord
from tests.guarding import guarding
from tests.laws import for_every
from tests.model_server import Reply, in_turn, serving
from tests.runs.commands import refine


def call(*words: object) -> tuple[int, str, str]:
    """Call `refine` in this process, and return exit code, output and errors."""
    result = refine(*words)
    return result.exit_code, result.stdout, result.stderr


def written(file: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as JSON lines."""
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return file


def recorded(record: Any) -> None:
    """Record 40 loops, of which every fourth needs a second attempt."""
    ratings = [rating for number in range(40) for rating in ((2, 4) if number % 4 == 0 else (4,))]
    drafts = count()
    refiner = SelfRefine(
        lambda _: f"answer {next(drafts)}", ScriptedJudge(ratings), success_rating=4, max_attempts=2, record=record
    )
    for number in range(40):
        refiner.refine(f"question {number}")


def test_from_a_record_to_a_certificate(tmp_path: Path) -> None:
    """Choose what to label, have it labelled, certify: each step leads to the next."""
    attempts, queue, out = tmp_path / "attempts.jsonl", tmp_path / "queue.jsonl", tmp_path / "certificate.json"
    recorded(attempts)
    code, shown, _ = call("certify", attempts, "--next", queue)
    assert (code, shown.split()[0]) == (0, "50")
    rows = [json.loads(line) for line in queue.read_text().splitlines()]
    assert all("rating" not in row for row in rows)
    labels = written(tmp_path / "labels.jsonl", [{**row, "labels": [{"by": "ann", "up": True}]} for row in rows])
    code, shown, _ = call("certify", attempts, "--labels", labels, "--out", out)
    assert code == 0
    assert shown.startswith("CERTIFIED  success_rating=4, max_attempts=2\nAt most 10.0% of the answers that pass")
    assert f"written to {out}, id {IssuedCertificate.read(out).id}" in shown
    code, _, errors = call("certify", attempts, "--labels", labels, "--out", out)
    assert (code, errors.count("\n")) == (2, 1)
    assert "is there already" in errors
    none = tmp_path / "none.json"
    for _ in range(2):  # a file that certifies nothing may be replaced
        code, shown, _ = call("certify", attempts, "--labels", labels, "--out", none, "--alpha", "0.01")
        assert (code, shown.split("  ")[0]) == (1, "NOT CERTIFIED")
    for words, threshold in (((), 4.0), (("--laxest",), 2.0)):
        json_ = ("--json", "--out", tmp_path / f"{threshold}.json", *words)
        code, shown, _ = call("certify", attempts, "--labels", labels, *json_)
        assert (code, json.loads(shown)["threshold"]) == (0, threshold)


def test_a_record_in_a_database_has_its_labels(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels given on the page are enough; what they were used for is in the database, wherever one certifies."""
    with DatabaseRecord(url) as record:
        recorded(record)
        record.flush()
        for row in record.outcomes(limit=100):
            for number in range(1, row["attempts"] + 1):
                record.label(row["id"], number, by="ann", rating=4)
    code, shown, _ = call("certify", url, "--out", tmp_path / "certificate.json")
    assert code == 0
    assert "40 runs, 50 labels" in shown
    for ledger in tmp_path.glob("*.ledger"):  # beside a database in a file, for what is exported next to it
        ledger.unlink()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for alpha, use in ((0.1, 1), (0.2, 2), (0.3, 3), (0.2, 2)):
        out = tmp_path / f"{use}-{alpha}.json"
        out.unlink(missing_ok=True)
        assert call("certify", url, "--alpha", alpha, "--out", out)[0] == 0
        assert IssuedCertificate.read(out).use_of_labels == use
    assert list(Path().iterdir()) == []
    _, shown, _ = call("certify", url, "--alpha", "0.05", "--out", tmp_path / "stricter.json")
    needed = IssuedCertificate.read(tmp_path / "stricter.json").labels_needed or 0
    assert f"--by NAME --budget {math.ceil(80 * needed / 40)}`" in shown
    subject = IssuedCertificate.read(tmp_path / "certificate.json").subject
    assert (subject.judge, subject.max_attempts) == ("scripted", 2)


def test_people_who_differ_are_all_heard(url: str, tmp_path: Path) -> None:
    """By API and page: two who differ are a tie, which is bad, until a third decides; the certificate says who."""
    upstream = serving(in_turn(*[Reply("good")] * 40))
    with upstream as served, guarding(served.url, record=url, max_attempts=1) as guard:
        ids = [guard.chat().json()["refine"]["id"] for _ in range(40)]

        def post(answer: int, **fields: object) -> None:
            reply = guard.post("/v1/labels", {"id": ids[answer], **fields})
            assert reply.status_code == 200, reply.text

        for answer in range(2, 40):
            post(answer, up=True, by="ann")
        for is_up in (True, False, True, False):
            post(0, up=is_up)  # nobody knows whether that is one person
        for page_label in ({"by": "ann", "rating": 4}, {"by": "bob", "rating": 1}):
            body = {"outcome": ids[1], "number": 1, **page_label}
            reply = guard.post("/page/api/label", body, headers={"content-type": "application/json"})
            assert reply.status_code == 200, reply.text
        post(2, up=False, by="bob")
        post(2, up=True, by="cy")
        authors = "ann (39), bob (2), somebody: up (1), somebody: down (1), cy (1)"
        for decided, ties in ((1, 2), (2, 1)):
            out = tmp_path / f"{ties}.json"
            assert call("certify", url, "--out", out, "--alpha", "0.3")[0] == 0
            certificate = IssuedCertificate.read(out)
            told = f"most decided {decided}, and {ties} with as many on each side count as bad"
            assert (certificate.bad, certificate.notes[0].partition(": most")[2]) == (ties, told[4:])
            assert certificate.notes[0].startswith(f"labels of {authors}; they differ on 3 answers: ")
            authors = "ann (39), bob (2), cy (2), somebody: up (1), somebody: down (1)"
            post(1, up=True, by="cy")


def test_a_record_is_certified_by_labels_of_its_texts(tmp_path: Path) -> None:
    """What is to be labelled has question and answer; labels by text find their attempts; what watches is said."""
    file, queue, out = tmp_path / "record.db", tmp_path / "queue.jsonl", tmp_path / "certificate.json"
    with DatabaseRecord(f"sqlite:///{file}", texts=True) as record:
        recorded(record)
    assert call("certify", file, "--next", queue)[0] == 0
    rows = [json.loads(line) for line in queue.read_text().splitlines()]
    assert all(row["user_input"] and row["response"] for row in rows)
    by_text = [
        {"user_input": row["user_input"], "response": row["response"], "by": "ann", "rating": 4} for row in rows
    ]
    labels = written(tmp_path / "labels.jsonl", by_text)
    code, shown, _ = call("certify", file, "--labels", labels, "--unlabelled", "left-out", "--out", out)
    assert (code, "labels belong to no recorded attempt" in shown) == (0, False)
    assert f"refine monitor {file} --certificate {out}" in shown


def test_bad_labels_get_a_second_look_and_ties_a_third() -> None:
    """One who calls it good is enough; a second person looks at bad ones, a third where the two differ."""
    needed = {
        labels: people_needed(row)
        for labels in ((), (4,), (1,), (1, 1), (1, 4), (1, 4, 4))
        for row in read_judged([{"question": "q", "answer": "a", "rating": 4, "labels": list(labels)}])
    }
    assert list(needed.values()) == [1, 1, 2, 2, 3, 1]


def test_the_report(tmp_path: Path) -> None:
    """Agreement first; `--full` adds all figures, `--json` is all as data, `--next` and `--certificate` write."""
    rows = [
        {"question": f"q{n}", "answer": "a", "rating": 1 + n % 4, "label": 1 + (n + (n % 7 == 0)) % 4}
        for n in range(60)
    ]
    file = written(tmp_path / "labelled.jsonl", rows)
    _, shown, _ = call("align", file, "--json", "--certificate", tmp_path / "certificate.json")
    assert json.loads(shown)["agreement"]["figures"]["exact"]["value"] == pytest.approx(51 / 60)
    assert IssuedCertificate.read(tmp_path / "certificate.json").runs == 60
    written(file, [{**row, "label": None if n % 2 else row["label"]} for n, row in enumerate(rows)])
    code, shown, _ = call("align", file, "--full", "--next", tmp_path / "next.jsonl", "--budget", 20)
    assert code == 0
    assert shown.startswith("judge: 30 labelled rows, 100% of them scored\npeople say good")
    assert "all figures" in shown
    assert "pass rate, corrected" in shown
    assert (tmp_path / "next.jsonl").read_text().count("\n") > 0


@for_every(
    "words, message",
    [
        (["certify", "none.jsonl"], "there is no file"),
        (["certify", "none.db"], "there is no record"),
        (
            ["certify", "rows.jsonl", "--method", "exact"],
            "--method is sequence, fallback, anytime, assisted or weighted",
        ),
        (["certify", "rows.jsonl", "--thresholds", "high"], "--thresholds are numbers with commas"),
        (["certify", "rows.jsonl", "--chain", "5,4"], "--chain is for --escalation"),
        (["certify", "rows.jsonl", "--unlabelled", "good"], "--unlabelled is bad or left-out"),
        (["certify", "rows.jsonl", "--escalation", "a,b", "--thresholds", "4"], "are given as --chain"),
        (["certify", "rows.jsonl"], "no attempt has a label"),
        (["align", "rows.jsonl"], "no row has a label"),
        (["align", "rows.jsonl", "--drawn", "once"], "--drawn is random, by-rating, active or elsewhere"),
    ],
)
def test_wrong_usage_is_one_line(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was given, and what to do; exit code 2."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "rows.jsonl", [{"question": "q", "answer": "a", "rating": 4}])
    code, shown, errors = call(*words)
    assert (code, shown, errors.count("\n")) == (2, "", 1)
    assert message in errors


def test_labels_beside_a_file_are_found(tmp_path: Path) -> None:
    """Align, certify and replay take what `refine label` left beside the attempts, or beside the rows chosen."""
    attempts, queue = tmp_path / "attempts.jsonl", tmp_path / "queue.jsonl"
    recorded(attempts)
    code, _, errors = call("certify", attempts)
    assert (code, "no attempt has a label" in errors) == (2, True)
    assert call("certify", attempts, "--next", queue)[0] == 0
    rows = [json.loads(line) for line in queue.read_text().splitlines()]
    labels = [{"by": "ann", "up": True, **{name: row[name] for name in ("outcome_id", "attempt")}} for row in rows]
    written(tmp_path / "queue.labels.jsonl", labels)
    out = tmp_path / "by-queue.json"
    code, shown, _ = call("certify", attempts, "--labels", queue, "--unlabelled", "left-out", "--out", out)
    assert (code, "labels: queue.labels.jsonl, which lies beside queue.jsonl" in shown) == (0, True)
    assert (tmp_path / "queue.labels.jsonl.ledger").is_file()
    (tmp_path / "queue.labels.jsonl").rename(tmp_path / "attempts.labels.jsonl")
    note = "labels: attempts.labels.jsonl, which lies beside attempts.jsonl"
    assert note in call("align", attempts)[1]
    assert note in call("certify", attempts, "--out", tmp_path / "certificate.json")[1]
    shown = call("replay", attempts)[1]
    assert note in shown
    assert "bad among them" in shown
    strangers = [{**row, "outcome_id": "another"} for row in labels]
    written(tmp_path / "attempts.labels.jsonl", strangers)
    for command in ("align", "certify", "replay", "monitor"):
        code, _, errors = call(command, attempts, *(("--out", "c.json") if command == "certify" else ()))
        assert (code, errors.count("\n"), note in errors) == (2, 1, True), command
    other = written(tmp_path / "other.jsonl", [{**row, "up": False} for row in labels])
    assert note not in call("align", attempts, "--labels", other)[1]
