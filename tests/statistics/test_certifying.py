"""Certificates of recorded loops and of single answers: what counts, what is refused, what labels are spent on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special

from judges import ConfigurationError
from judges.certificate import IssuedCertificate
from judges.offline import certify
from judges.offline.statistics import clopper_pearson
from judges.offline.statistics.certificates import questions_needed
from judges.offline.trust.drawing import labels_to_certify, write_queue
from judges.offline.trust.loops import read_loops
from tests.laws import for_every
from tests.loops.recorded import V_B, write_loops

Row = dict[str, Any]


def loop_rows(loops: str = " ".join(V_B), *, ids: bool = True) -> list[Row]:
    """Write loops as rows of a record."""
    rows = []
    for number, loop in enumerate(loops.split()):
        ratings, labels = loop.rstrip("*").split("|")
        for attempt, (rating, label) in enumerate(zip(ratings, labels, strict=True), 1):
            rows.append(
                {
                    **({"outcome_id": f"o{number}"} if ids else {}),
                    "question": f"question {number}",
                    "answer": f"{number}.{attempt}",
                    "attempt": attempt,
                    "rating": None if rating == "." else int(rating),
                    "labels": [{"by": "ann", "rating": 4 if label == "g" else 1}],
                }
            )
    return rows


def single_rows(released: Mapping[int, tuple[int, int]]) -> list[Row]:
    """Write single answers: by rating, how many there are, and how many of them are bad."""
    return [
        {"question": f"{rating}.{n}", "answer": "a", "rating": rating, "label": "bad" if n < bad else "good"}
        for rating, (count, bad) in released.items()
        for n in range(count)
    ]


def table(certificate: IssuedCertificate) -> dict[object, tuple[int, int]]:
    """Return released and bad by policy."""
    return {row.policy: (row.released, row.bad) for row in certificate.rows}


def test_the_report_has_a_table_of_what_was_counted_and_what_is_certain() -> None:
    """A line for each rating to pass from: answers, bad ones, their share and bound, the evidence, the runs."""
    report = str(certify(single_rows({4: (100, 1), 3: (40, 4), 2: (5, 5)}), alpha=0.1))
    assert report.splitlines()[4:8] == [
        "from  passed  bad  share  at most       p     status     of the runs  tries",
        "4        100    1   1.0%     4.7%  <0.001  certified    69% (61-76%)   1.00",
        "3        140    5   3.6%     7.4%   0.004  certified    97% (92-99%)   1.00",
        "2        145   10   6.9%    11.4%    0.13    refused  100% (97-100%)   1.00",
    ]
    few, tried = single_rows({3: (60, 0)}), (4, 3)
    exact = certify(few, alpha=0.1, thresholds=tried)
    anytime = certify(few, alpha=0.1, thresholds=tried, method="anytime")
    for evidence, found in (("-", exact), ("E 1", anytime)):
        assert found.report_parts[2][0] == ["4", "0", "0", "-", "-", evidence, "too few", "0% (0-6%)", "1.00"]


@pytest.mark.parametrize("ids", [True, False])
def test_loops_are_replayed_under_every_threshold(ids: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """The published loops come to the published counts, with or without ids of outcomes."""
    rows = loop_rows(ids=ids)
    four = certify(rows, max_attempts=4, alpha=0.2)
    assert table(four) == {4: (12, 2), 3: (14, 3), 2: (14, 8)}
    two = certify(rows, max_attempts=2, alpha=0.2)
    assert table(two) == {4: (7, 1), 3: (11, 2), 2: (14, 8)}
    assert [row.status for row in four.rows] == ["too_few", "refused", "not_tested"]
    assert table(certify(rows, max_attempts=4, patience=2, thresholds=(4,), alpha=0.2)) == {4: (11, 2)}
    assert table(certify(rows, max_attempts=4, patience=1, thresholds=(4,), alpha=0.2)) == {4: (7, 1)}
    assert four.runs == 15
    assert four.rows[0].mean_attempts == pytest.approx(38 / 15)
    assert "too few: 14 released answers" in str(four)


def test_labels_in_a_file_of_their_own(tmp_path: Path) -> None:
    """They are found by outcome and attempt, or by question and answer; labels of other answers are named."""
    bare = [{name: value for name, value in row.items() if name != "labels"} for row in loop_rows()]
    attempts = tmp_path / "attempts.jsonl"
    attempts.write_text("".join(f"{json.dumps(row)}\n" for row in bare))
    by_id = [{name: row[name] for name in ("outcome_id", "attempt", "labels")} for row in loop_rows()]
    flat = [{**row, "labels": None, **row["labels"][0]} for row in by_id]
    flat = [{name: value for name, value in row.items() if name != "labels"} for row in flat]
    by_text = [{name: row[name] for name in ("question", "answer", "labels")} for row in loop_rows()]
    for name, labels in (("ids", by_id), ("flat", flat), ("texts", by_text)):
        file = tmp_path / f"{name}.jsonl"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in labels))
        assert table(certify(attempts, file, max_attempts=4, alpha=0.2)) == {4: (12, 2), 3: (14, 3), 2: (14, 8)}
    blank = tmp_path / "blank.jsonl"
    blank.write_text('{"outcome_id": "o0", "attempt": 1, "by": "ann"}\n')
    assert f"labels: nobody has filled in any in {blank}" in certify(loop_rows(), blank, max_attempts=4).notes
    without_ids = [{name: value for name, value in row.items() if name != "outcome_id"} for row in bare]
    both = [{**row, "labels": labelled["labels"]} for row, labelled in zip(bare, by_id, strict=True)]
    assert table(certify(without_ids, both, max_attempts=4, alpha=0.2))[3] == (14, 3)
    stranger = {"outcome_id": "o99", "attempt": 1, "by": "ann", "rating": 4}
    assert "1 labels belong to no recorded attempt" in str(certify(bare, [*by_id, stranger], max_attempts=4))
    with pytest.raises(ConfigurationError, match="no label belongs to a recorded attempt"):
        certify(bare, [stranger], max_attempts=4)


def test_what_counts_as_bad() -> None:
    """A tie of people, and an answer without a label, are bad; a run that is left out must be asked for."""
    rows = single_rows({4: (40, 0)})
    rows[0]["labels"], rows[1]["labels"] = [1, 4], {"ann": True, "bob": False, "cy": True}
    del rows[0]["label"], rows[1]["label"], rows[2]["label"]
    found = certify(rows)
    assert (found.released, found.bad, found.threshold) == (40, 2, None)
    assert "1 released answer has no label, and counts as bad: label it" in str(found)
    left_out = certify(rows, unlabelled="left_out")
    assert (left_out.released, left_out.bad) == (39, 1)
    assert "1 run without a label is left out: those with one are taken to stand for all" in str(left_out)
    stricter = certify(single_rows({3: (40, 0)}), good=4)
    assert stricter.threshold == 3


def test_a_promise_is_about_traffic_or_about_questions() -> None:
    """Every run counts as often as it was asked, or one run a question; the sentence says which."""
    rows = [{**row, "question_id": f"q{place // 2}"} for place, row in enumerate(single_rows({4: (60, 0)}))]
    traffic = certify(rows)
    assert (traffic.runs, traffic.certified) == (60, True)
    assert traffic.promise.endswith("questions counted as often as asked")
    questions = certify(rows, estimand="questions")
    assert (questions.runs, questions.certified) == (30, True)
    assert questions.promise.endswith("each question counted once")
    assert "30 further runs of the same questions are left out: the promise counts each" in str(questions)
    with pytest.raises(ConfigurationError, match="estimand is 'traffic'"):
        certify(rows, estimand="sessions")  # type: ignore[arg-type]


def test_popular_questions_that_are_harder_do_not_break_a_promise_about_traffic() -> None:
    """A promise about questions is none about traffic: there it would be broken nearly always."""
    random, resamples = np.random.default_rng(2), 12
    wrong = {"traffic": 0, "questions": 0}
    for _ in range(resamples):
        asked = np.where(random.random(150) < 0.6, random.integers(0, 6, 150), np.arange(150) + 6)
        bad = random.random(150) < np.where(asked < 6, 0.2, 0.02)  # of traffic 12.8 % are bad
        rows = [
            {"question": f"q{n}", "answer": f"a{place}", "rating": 4, "label": not is_bad}
            for place, (n, is_bad) in enumerate(zip(asked.tolist(), bad.tolist(), strict=True))
        ]
        for estimand in wrong:
            found = certify(rows, alpha=0.1, thresholds=[4], estimand=estimand)  # type: ignore[arg-type]
            wrong[estimand] += found.certified
    assert wrong["traffic"] / resamples <= 0.05 + 3 * (0.05 * 0.95 / resamples) ** 0.5
    assert wrong["questions"] / resamples > 0.3


def test_no_rating_is_accepted_that_nobody_has_seen() -> None:
    """Where all are rated 4 the loop accepts from 4; the laxest is taken on demand, and what it adds is said."""
    alike = single_rows({4: (60, 0)})
    found = certify(alike)
    assert (found.threshold, [row.status for row in found.rows]) == (4, ["certified"] * 3)
    assert "accepting from 3 is certified, too, and adds no answer: nobody has seen what it would" in str(found)
    assert certify(alike, laxest=True).threshold == 2
    mixed = certify(single_rows({4: (60, 0), 3: (40, 1), 2: (5, 0)}))
    assert mixed.threshold == 3
    assert "accepting from 3 adds 40 answers of lower ratings, 1 of them bad: 2.5%, at most" in str(mixed)
    assert (
        certify(single_rows({4: (5000, 9), 3: (60, 0)})).threshold == 4
    )  # 1.2 points of answers are not worth it
    rare = single_rows({4: (28, 0), 2: (1, 0)})  # one answer is no evidence of what is rated 2
    found = certify(rare)
    assert (found.threshold, [row.status for row in found.rows]) == (None, ["too_few"] * 3)
    assert "hardly seen: of 29 answers 1 below 3, and 29 are asked for" in str(found)
    assert certify(rare, laxest=True).threshold == 2
    for scored, taken in (({0.97: 60}, 0.95), ({0.97: 20, 0.82: 20, 0.66: 30}, 0.65), ({0.97: 28, 0.52: 1}, None)):
        rows = [{**row, "score": row["rating"]} for row in single_rows({s: (n, 0) for s, n in scored.items()})]  # type: ignore[misc]
        assert certify([{**row, "rating": None} for row in rows], scores=True).threshold == taken


def test_labels_without_names_are_of_two_people() -> None:
    """Two that differ are a tie, which is bad; of one person's two the later counts; any tuning is tuning."""
    rows = single_rows({4: (60, 0)})
    for row in rows:
        del row["label"]
    good, bad = ([{**row, "labels": [{"up": up}]} for row in rows] for up in (True, False))
    assert certify(good, good).bad == 0
    assert certify(good, bad).bad == 60
    assert certify(bad, good).bad == 60
    named = [[{**row, "labels": [{"by": "ann", "up": up}]} for row in rows] for up in (False, True)]
    assert certify(*named).bad == 0
    for split in ("prompt-tuning", "trainset", "Few-shot", "fine_tune", "optimizer", "dev", "Tune ", "TRAIN"):
        with pytest.raises(ConfigurationError, match="tuned_on"):
            certify([{**row, "split": split} for row in good])


_OF = {"outcome_id": "outcome 0", "attempt": 2}
_TEXTS = {"question": "question 0?", "answer": "answer 2 to 0"}


@for_every(
    "labels, bad",
    [
        ([{**_OF, "label": one} for one in ("bad", "bad", "good", "good")], True),
        ([{**_OF, "label": one} for one in ("bad", "bad", "bad", "good", "good")], True),
        ([{**_OF, "label": one} for one in ("good", "bad", "good")], False),
        ([{**_OF, "labels": ["bad", "bad"]}, {**_OF, "labels": ["good", "good"]}], True),
        ([{**_OF, "by": "ann", "up": True}, {**_OF, "up": False}], True),
        ([{**_OF, "by": "ann", "up": True}, {**_OF, "by": " ", "rating": 1}], True),
        ([{**_OF, "attempt": "", "up": False}], True),
        ([{**_OF, "by": "ann", "up": True}, {**_TEXTS, "by": "bob", "up": False}], True),
        ([{**_TEXTS, "up": False}], True),
        ([{**_OF, "labels": [False]}, {**_OF, "labels": [{"by": "rater 1", "up": True}]}], True),
        ([{**_OF, "by": "ann", "up": False}, {**_OF, "by": "ann ", "up": True}], False),
    ],
)
def test_no_label_replaces_another_persons(tmp_path: Path, labels: list[Row], *, bad: bool) -> None:
    """Each without a name is a person's own, by outcome or by text, and none is lost."""
    (loop,) = read_loops(write_loops(tmp_path / "attempts.jsonl", ["34"]), labels).loops
    assert [attempt.bad for attempt in loop.attempts] == [None, bad]
    with pytest.raises(ConfigurationError, match="no label says whose it is"):
        read_loops(write_loops(tmp_path / "attempts.jsonl", ["34"]), [{**_TEXTS, "rating": 1}])


def test_a_label_of_an_outcome_alone_is_about_the_answer_shown() -> None:
    """Not about its first attempt; where the record does not say what was shown, about the last."""
    for released in (True, None):
        rows = [
            {
                "question": f"q{n}",
                "answer": f"a{attempt}",
                "metadata": {
                    "outcome_id": f"o{n}",
                    "attempt": attempt,
                    "rating": 2 * attempt,
                    "max_attempts": 2,
                    **({} if released is None else {"released": attempt == 2}),
                    "at": f"2026-11-22T00:00:{n:02}",
                },
            }
            for n in range(40)
            for attempt in (1, 2)
        ]
        labels = [{"outcome_id": f"o{n}", "labels": [{"by": "ann", "up": n > 0}]} for n in range(40)]
        found = certify(rows, labels, thresholds=[4])
        assert (found.released, found.bad, found.labels) == (40, 1, 40)
        assert (found.recorded_from, found.recorded_until) == ("2026-11-22T00:00:00", "2026-11-22T00:00:39")


def test_runs_of_another_loop_are_left_out() -> None:
    """The certificate is about the loop with the most runs, and says what the others were."""
    own = {"judge": "helpful", "judge_digest": "1", "policy": {"max_attempts": 1, "feedback": "f"}}
    other = {**own, "policy": {"max_attempts": 2, "feedback": "f"}}
    rows = [{**row, "subject": other if n >= 40 else own} for n, row in enumerate(single_rows({4: (50, 0)}))]
    found = certify(rows)
    assert (found.runs, found.subject.judge, found.subject.max_attempts) == (40, "helpful", 1)
    assert "10 runs of another loop are left out: max_attempts was 1 and is 2" in str(found)


def test_labels_that_tuned_the_judge_are_refused() -> None:
    """The firewall: `tuned_on`, unless another split is chosen."""
    rows = [{**row, "split": "tune" if n % 2 else "certify"} for n, row in enumerate(single_rows({4: (80, 0)}))]
    with pytest.raises(ConfigurationError, match="tuned_on"):
        certify(rows)
    with pytest.raises(ConfigurationError, match="tuned_on"):
        certify(rows, split="tune")
    assert certify(rows, split="certify", unlabelled="left_out").released == 40
    own = [{**row, "label": None, "labels": [{"by": "ann", "up": True, "split": "tune"}]} for row in rows]
    with pytest.raises(ConfigurationError, match="tuned_on"):
        certify([{**row, "split": None} for row in own])


def test_a_further_certificate_on_the_same_labels_spends_delta(tmp_path: Path) -> None:
    """The k-th question to the same labels gets delta / (k (k + 1)); fresh labels begin anew, a copy does not."""
    file, ledger = tmp_path / "rows.jsonl", tmp_path / "rows.jsonl.ledger"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in single_rows({4: (40, 0), 3: (40, 2)})))
    first = certify(file)
    assert (first.use_of_labels, first.delta) == (1, 0.025)
    assert ledger.exists()
    assert certify(file).use_of_labels == 1
    assert len(ledger.read_text().splitlines()) == 1, "the same question on the same labels is written once"
    second = certify(file, alpha=0.2)
    assert (second.use_of_labels, second.delta_in_all) == (2, 0.05)
    assert second.delta == pytest.approx(0.05 / 6)
    assert certify(file, method="fallback").delta == pytest.approx(0.05 / 12)
    copied = tmp_path / "fresh-labels.jsonl"
    copied.write_text(file.read_text())
    assert certify(copied, alpha=0.3).use_of_labels == 4, "a copy is no fresh set"
    with pytest.raises(ConfigurationError, match="not all of delta is left"):
        certify(copied, alpha=0.4, once=True)
    assert certify(file, alpha=0.2).use_of_labels == 2
    fresh = [{**row, "answer": "b"} for row in single_rows({4: (40, 0)})]
    assert certify(fresh, ledger=ledger).use_of_labels == 1
    whole = certify(fresh, alpha=0.3, ledger=tmp_path / "other", once=True)
    assert (whole.delta, certify(fresh, alpha=0.3, ledger=tmp_path / "other", once=True).delta) == (0.05, 0.05)
    with pytest.raises(ConfigurationError, match="not all of delta is left"):
        certify(fresh, ledger=tmp_path / "other")
    ledger.write_text("no ledger\n")
    with pytest.raises(ConfigurationError, match=r"the ledger .* cannot be read"):
        certify(file)


def test_ten_judges_on_the_same_labels_break_no_more_than_one(tmp_path: Path) -> None:
    """Ten versions just above alpha: of 4,000 teams that ask for each, delta at most get any certificate."""
    rows, ledger = single_rows({4: (40, 0)}), tmp_path / "ledger"
    deltas = [
        certify([{**row, "judge": f"v{n}"} for row in rows], thresholds=[4], ledger=ledger).delta
        for n in range(10)
    ]
    bad = np.random.default_rng(7).binomial(300, 0.101, size=(4_000, 10))
    p = special.bdtr(bad, 300, 0.1)
    within = 0.05 + 3 * (0.05 * 0.95 / 4_000) ** 0.5
    assert (p <= deltas).any(axis=1).mean() <= within
    assert (p <= 0.05 / np.arange(1, 11)).any(axis=1).mean() > within, "delta / k is too much"


def test_labels_that_are_no_sample_are_refused() -> None:
    """Where the easy runs were labelled, the exact test says nothing; where one hardly sees it, a note does."""
    rows = single_rows({4: (120, 0), 3: (120, 0)})
    easy = [{**row, "label": "good" if row["rating"] == 4 and n < 60 else None} for n, row in enumerate(rows)]
    with pytest.raises(ConfigurationError, match=r"labels_not_a_sample: .*rating of the first answer 4: 60 of 60"):
        certify(easy, unlabelled="left_out")
    slightly = [
        {**row, "label": "good" if (n % 6 if n < 120 else n % 30 < 19) else None} for n, row in enumerate(rows)
    ]
    assert "may be no random sample" in str(certify(slightly, unlabelled="left_out"))
    fair = [{**row, "label": "good" if n % 3 else None} for n, row in enumerate(rows)]
    assert "no random sample of" not in str(certify(fair, unlabelled="left_out"))
    drawn = [{**row, "probability": 0.2 if row["rating"] == 4 else 0.9} for row in rows]
    with pytest.raises(ConfigurationError, match="simple random sample"):
        certify(drawn)
    assert certify(drawn, method="weighted").method == "weighted"


def test_a_promise_says_that_it_takes_labels_for_a_sample() -> None:
    """Bad answers that people left out look like others: nothing is assumed only of the runs that were drawn."""
    rows = [
        {**row, "label": None, "outcome_id": f"o{n}", "at": f"2026-11-{1 + n // 100:02}"}
        for n, row in enumerate(single_rows({4: (200, 0)}))
    ]
    pleased = [{**row, "label": None if n % 5 == 0 else "good"} for n, row in enumerate(rows)]
    found = certify(pleased, unlabelled="left_out")
    assert found.certified
    assert found.assumes.startswith("that the 160 labelled runs are a random sample of all 200")
    assert str(found).startswith("CERTIFIED ON AN ASSUMPTION  success_rating=4")
    assert str(found).splitlines()[2] == f"ASSUMES {found.assumes}"
    before = rows[:100]  # others are recorded after these are drawn
    drawn = {one.row.outcome_id for one in labels_to_certify(before, budget=60)}
    sample = [{**row, "label": "good" if row["outcome_id"] in drawn else None} for row in rows]
    found = certify(sample, unlabelled="left_out")
    assert (found.certified, found.labels, found.assumes) == (True, 60, "")
    assert str(found).startswith("CERTIFIED  ")
    labelled, others = ([row for row in sample if bool(row["label"]) == is_drawn] for is_drawn in (True, False))
    by_chance = [
        {**row, "rating": 4 if n < most else 3}
        for group, most in ((labelled, 45), (others, 128))
        for n, row in enumerate(group)
    ]
    assert "no random sample" not in str(certify(by_chance, unlabelled="left_out"))
    skipped = [{**row, "label": row["label"] if n % 10 else None} for n, row in enumerate(sample)]
    assert certify(skipped, unlabelled="left_out").assumes


def test_it_says_how_many_answers_are_covered() -> None:
    """Answers that did not pass are shown without a promise; who changed their mind is said once."""
    rows = single_rows({4: (55, 0), 1: (35, 35)})
    assert "55 of 90 answers shown are covered" in str(certify(rows))
    twice = [{"question": "4.0", "answer": "a", "labels": [{"by": "ann", "up": up}]} for up in (False, True)]
    found = certify([{**row, "label": None} if n == 0 else row for n, row in enumerate(rows)], twice)
    assert "two labels of the same person, of which the later counts: 1 answer" in found.notes
    assert found.bad == 0


def test_labels_that_come_in_may_be_looked_at_with_e_values(tmp_path: Path) -> None:
    """Exact tests of a growing file are further questions to it; e-values are not."""
    ledger = tmp_path / "ledger"
    few, many = single_rows({4: (30, 0)}), single_rows({4: (43, 0)})
    assert certify(few, ledger=ledger).use_of_labels == 1
    assert certify(many, ledger=ledger).use_of_labels == 2
    own = tmp_path / "own"
    looks = [
        certify(single_rows({4: (n, 0)}), method="anytime", thresholds=(4,), ledger=own, delta=0.1)
        for n in (30, 42, 43)
    ]
    assert [look.certified for look in looks] == [False, False, True]
    assert [look.use_of_labels for look in looks] == [1, 1, 1]
    assert looks[2].rows[0].e == pytest.approx(20.887534920767465)
    assert looks[0].needed.startswith("About 43 released and labelled answers are needed, 13 more than now")
    rarely_4 = certify(single_rows({4: (10, 0), 3: (60, 0)}), method="anytime")
    assert rarely_4.needed.startswith("About 77 released and labelled answers are needed, 7 more than now")
    assert "the strictest has too few to begin with, so that the others need an E of 400" in rarely_4.notes
    for other in (looks[2], certify(single_rows({4: (10, 0), 3: (60, 0)}), ledger=tmp_path / "other")):
        assert "the strictest has too few" not in str(other)


def scored_rows(labelled: int, runs: int = 1_000) -> list[Row]:
    """Write single answers, 1 in 16 bad, of which the judge's score knows; the first to be drawn have labels."""
    rows: list[Row] = [
        {
            "outcome_id": f"o{n}",
            "attempt": 1,
            "question": f"q{n}",
            "answer": "a",
            "rating": 4,
            "score": 0.4 if n % 16 == 0 else 0.95,
        }
        for n in range(runs)
    ]
    chosen = labels_to_certify(rows, max_attempts=1, budget=labelled)
    for place, one in enumerate(sorted(chosen, key=lambda one: one.row.index)):
        label = {"by": "ann", "up": one.row.index % 16 != 0, "at": f"{place:05d}"}
        rows[one.row.index]["labels"] = [label]
    return rows


def test_a_judge_helps_labels(tmp_path: Path) -> None:
    """What the scores know takes fewer labels; what it is not for is refused in a line."""
    rows = scored_rows(200)
    found = {
        method: certify(rows, method=method, thresholds=(4,), max_attempts=1, ledger=tmp_path / method, once=True)
        for method in ("anytime", "assisted")
    }
    evidence = {method: one.rows[0].e or 0.0 for method, one in found.items()}
    assert {one.released for one in found.values()} == {200}
    assert evidence["assisted"] > 1.5 * evidence["anytime"]
    assert "the judge as control variate" in str(found["assisted"])
    for settings, message in (
        ({"estimand": "questions"}, "leave out what asks for another promise"),
        ({"break_at_most": 0.1}, "leave out what asks for another promise"),
        ({"control": "nobody"}, "no row has a verdict of 'nobody'"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            certify(rows, method="assisted", max_attempts=1, **settings)
    with pytest.raises(ConfigurationError, match="control is for method='assisted'"):
        certify(rows, max_attempts=1, control="judge")


def test_what_is_drawn_to_be_labelled_stays_as_the_record_grows() -> None:
    """Of a longer record the draw holds what it held of the shorter one, as far as there is room."""
    short, long = scored_rows(0, 300), scored_rows(0, 330)
    first = {one.row.outcome_id for one in labels_to_certify(short, max_attempts=1, budget=100)}
    again = {one.row.outcome_id for one in labels_to_certify(long, max_attempts=1, budget=130)}
    assert len(first) == 100
    assert first <= again


def test_a_record_says_nothing_about_what_it_did_not_do() -> None:
    """A stricter threshold, more attempts and more patience than recorded are refused; crashed loops are not."""
    accepted = [{**row, "stop_reason": "accepted"} for row in single_rows({4: (40, 0), 3: (20, 0)})]
    accepted = [{**row, "attempt": 1, "max_attempts": 3} for row in accepted]
    found = certify(accepted)
    assert [row.policy for row in found.rows] == [3, 2]
    assert "4 is not in the record" in str(found)
    with pytest.raises(ConfigurationError, match="recorded with a laxer threshold than 4"):
        certify(accepted, thresholds=(4, 3))
    exhausted = [{**row, "stop_reason": "max_attempts"} for row in single_rows({4: (40, 0), 1: (1, 1)})]
    exhausted = [{**row, "attempt": 1, "max_attempts": 1} for row in exhausted]
    assert certify(exhausted).threshold == 4
    with pytest.raises(ConfigurationError, match="1 recorded loops were ended by max_attempts"):
        certify(exhausted, max_attempts=2)
    impatient = [{**row, "stop_reason": "no_progress"} if row["rating"] == 1 else row for row in exhausted]
    with pytest.raises(ConfigurationError, match="ended by patience"):
        certify(impatient, max_attempts=2)
    crashed = [{**row, "stop_reason": "deadline"} if row["rating"] == 1 else row for row in exhausted]
    assert certify(crashed, max_attempts=2).rows[0].released == 40
    with pytest.raises(ConfigurationError, match="the loop has the attempts 2"):
        certify([{**row, "attempt": 2} for row in loop_rows("4|g")], max_attempts=2)
    with pytest.raises(ConfigurationError, match="give max_attempts"):
        certify(loop_rows())


def test_a_certificate_names_its_labels_and_how_many_are_missing() -> None:
    """Other labels have another digest; a weighted test counts the questions that its own bound needs."""
    good, mixed = single_rows({4: (40, 0)}), single_rows({4: (40, 2)})
    assert certify(good).labels_digest == certify(good).labels_digest != certify(mixed).labels_digest
    weighted = certify(mixed, method="weighted", thresholds=(4,))
    assert (weighted.certified, weighted.labels_needed) == (False, questions_needed(0.1, 0.05, 0.05))
    assert f"{weighted.released} " in str(weighted)


def test_other_promises() -> None:
    """Scores on a fixed grid, bad answers among all questions, and single answers of loops never recorded."""
    rows = [
        {**row, "score": (row["rating"] - 1) / 3} for row in single_rows({4: (60, 1), 3: (60, 2), 1: (80, 80)})
    ]
    by_score = certify(rows, scores=True)
    assert (by_score.kind, by_score.threshold, len(by_score.rows)) == ("score", 0.65, 10)
    assert by_score.acceptance == ("success_score", 0.65)
    per_question = certify(rows, risk="per_question")
    assert [(row.released, row.bad) for row in per_question.rows] == [(200, 1), (200, 3), (200, 3)]
    assert per_question.promise.startswith("at most 10.0% of the questions get a bad answer")
    assumed = certify(single_rows({4: (100, 0)}), independent_attempts=True, max_attempts=3)
    assert assumed.certified
    assert assumed.rows[0].p == pytest.approx(float(special.bdtr(0, 100, 0.1 / 3)))
    assert "ASSUMES independent attempts" in str(assumed)
    first_alone = certify(loop_rows(), independent_attempts=True, max_attempts=4)
    assert first_alone.rows[0].released == sum(loop.startswith("4") for loop in V_B)
    weak: dict[str, Any] = {"independent_attempts": True, "max_attempts": 3}
    assert not certify(single_rows({4: (80, 0)}), **weak).certified
    few, many = (
        [{**row, "labels": None} for row in loop_rows(" ".join(["134|ggg", "4|g"] * times))] for times in (4, 50)
    )
    less_weak = certify(single_rows({4: (80, 0)}), loops=many, **weak)
    assert less_weak.certified
    most_at_once = clopper_pearson(50, 100, level=0.99)[1]
    assert less_weak.rows[0].p == pytest.approx(float(special.bdtr(0, 80, 0.1 / most_at_once / 3)))
    assert not certify(single_rows({4: (80, 0)}), loops=few, **weak).certified, "it may be chance in four of eight"
    with pytest.raises(ConfigurationError, match="an exact certificate needs a simple random sample"):
        certify([{**row, "weight": 5} for row in single_rows({4: (40, 0)})])


def escalation_rows(groups: Sequence[tuple[int, int, str, int]]) -> list[Row]:
    """Write answers that a cheap and a strong judge rated."""
    return [
        {"question": f"{cheap}{strong}{label}{n}", "answer": "a", "ratings": {"cheap": cheap, "strong": strong},
         "label": label}
        for cheap, strong, label, count in groups
        for n in range(count)
    ]  # fmt: skip


def test_an_escalation_from_cheap_to_strong_to_people() -> None:
    """The chain of joint policies is tested as one, only what machines release counts, and shares are reported."""
    groups = [(4, 4, "good", 60), (4, 2, "bad", 1), (2, 4, "good", 40), (3, 3, "bad", 30), (1, 1, "bad", 20)]
    found = certify(escalation_rows(groups), escalation=("cheap", "strong"))
    assert [row.policy for row in found.rows] == [(5, 4), (4, 4), (4, 3), (3, 3)]
    assert [(row.released, row.bad) for row in found.rows] == [(100, 0), (101, 1), (131, 31), (131, 31)]
    assert [row.status for row in found.rows] == ["certified", "certified", "refused", "not_tested"]
    assert (found.threshold, found.subject.policy) == (1, {})
    assert found.rows[1].shares == pytest.approx((61 / 151, 40 / 151, 50 / 151))
    assert "judge 1 releases 40%, judge 2 releases 26%, people decide 33%" in str(found)
    with pytest.raises(ConfigurationError, match="goes from strict to lax"):
        certify(escalation_rows(groups), escalation=("cheap", "strong"), thresholds=((4, 4), (5, 4)))
    with pytest.raises(ConfigurationError, match="choose one with judge="):
        certify(escalation_rows(groups))
    assert certify(escalation_rows(groups), judge="strong").rows[0].released == 100


def test_how_many_labels_are_missing() -> None:
    """Where nothing is certified: the alpha that would have passed, and the labels that probably suffice."""
    found = certify(single_rows({4: (60, 3)}), thresholds=(4,))
    assert (found.certified, found.labels_needed) == (False, 203)
    assert found.reachable_alpha == pytest.approx(float(special.betaincinv(4, 57, 0.95)))
    assert "About 203 released and labelled answers are needed, 143 more than now" in str(found)
    hopeless = certify(single_rows({4: (60, 30)}), thresholds=(4,))
    assert hopeless.labels_needed is None
    assert "More labels will not do" in str(hopeless)
    warned = certify(single_rows({4: (40, 3), 3: (60, 0)}))
    assert "consider --method fallback" in str(warned)
    assert certify(single_rows({4: (40, 3), 3: (60, 0)}), method="fallback").threshold == 3


def test_answers_without_a_label_are_no_reason_to_give_up_labelling() -> None:
    """They count as bad, but what the labels say tells how many more would probably do."""
    rows = single_rows({4: (60, 0)})
    some = [row if n < 6 else {**row, "label": None} for n, row in enumerate(rows)]
    found = certify(some, thresholds=(4,))
    assert (found.certified, found.released, found.bad, found.labels) == (False, 60, 54, 6)
    assert "29 released and labelled answers are needed, 23 more than now" in str(found)
    hopeless = [{**row, "label": "bad"} if n < 6 else row for n, row in enumerate(some)]
    assert "More labels will not do" in str(certify(hopeless, thresholds=(4,)))


def test_which_answers_to_label(tmp_path: Path) -> None:
    """Of a random sample of runs whatever a threshold would release: blind, shuffled, one in ten for two."""
    bare = [{name: value for name, value in row.items() if name != "labels"} for row in loop_rows()]
    chosen = labels_to_certify(bare, max_attempts=4, budget=100)
    keys = {(label.row.outcome_id, label.row.attempt) for label in chosen}
    assert len(keys) == len(chosen) == 24
    assert ("o2", 1) in keys
    assert ("o2", 3) not in keys
    assert sum(label.raters == 2 for label in chosen) == 2
    assert labels_to_certify(bare, max_attempts=4, budget=5) != chosen
    assert len(labels_to_certify(bare, loop_rows(), max_attempts=4)) == 0
    write_queue(chosen, tmp_path / "queue.jsonl")
    written = [json.loads(line) for line in (tmp_path / "queue.jsonl").read_text().splitlines()]
    assert all(row["labels"] == [] and "rating" not in row and row["response"] for row in written)
    with pytest.raises(ConfigurationError, match="is there already, perhaps with labels in it"):
        write_queue(chosen, tmp_path / "queue.jsonl")
    labels = [{**row, "labels": [{"by": "ann", "up": True}]} for row in written]
    assert certify(bare, labels, max_attempts=4).rows[0].bad == 0


def test_wrong_input_is_one_line() -> None:
    """What was given, and what to do."""
    rows = single_rows({4: (40, 0)})
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        ([], {}, "there are no attempts"),
        (
            [{**rows[0], "label": 7}],
            {},
            "row 0: a label is a rating from 1 to 4, true or false, or 'good' or 'bad'",
        ),
        ([{**rows[0], "rating": 7}], {}, "the judge's rating is a whole number from 1 to 4, not 7"),
        ([{"question": "q", "answer": "a", "label": 4}], {}, "no row has a verdict"),
        ([{"question": "q", "answer": "a", "rating": 4}], {}, "no attempt has a label"),
        (rows, {"alpha": 10}, "alpha lies between 0 and 1"),
        (rows, {"thresholds": (5,)}, "thresholds are ratings from 1 to 4"),
        (rows, {"thresholds": (0,)}, "thresholds are ratings from 1 to 4"),
        (rows, {"judge": "other"}, "no row has a verdict of 'other'"),
        (rows, {"max_attempts": 0}, "max_attempts is a whole number from 1"),
        (3, {}, "rows are a file, the folder of a run, or samples, not 3"),
    ]
    for source, settings, message in wrong:
        with pytest.raises(ConfigurationError) as caught:
            certify(source, **settings)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)
