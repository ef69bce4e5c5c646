"""The report of `align`: every figure of the published rows, in eight lines, and what follows from labels."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from judges import ConfigurationError, Length
from judges.offline import align, evaluate
from judges.offline.statistics import CorrectedRate
from judges.offline.trust.align import Alignment
from judges.offline.trust.drawing import to_estimate
from judges.offline.trust.rows import read_judged

Row = dict[str, Any]
HUMAN, JUDGE = "44321433214423143241", "43331443224433142243"
SCORES = tuple(
    two / 100 for two in (95, 80, 70, 62, 10, 90, 85, 66, 35, 40, 97, 88, 60, 72, 5, 93, 45, 30, 90, 65)
)
RATERS = (
    "443322114433221144332211443322114433",
    "443222114433211144432211443322124433",
    "433322114443221144332111443322114443",
)
SUBSTITUTE = "443322124433221144322211443222114433"


def published() -> list[Row]:
    """Return the published rows: one person, a judge's ratings and scores."""
    return [
        {"question": f"q{n}", "answer": "a" * (n + 1), "rating": int(judge), "score": score, "label": int(human)}
        for n, (human, judge, score) in enumerate(zip(HUMAN, JUDGE, SCORES, strict=True))
    ]


def rated(labels: str, judged: str) -> list[Row]:
    """Return rows with one label each, `.` for none, that say good or bad, and verdicts that pass or refuse."""
    words = {"g": "good", "b": "bad", ".": None}
    return [
        {"question": f"q{n}", "answer": "a", "passed": verdict == "p", "label": words[label]}
        for n, (label, verdict) in enumerate(zip(labels, judged, strict=True))
    ]


def quick(rows: Any, **settings: Any) -> Alignment:
    """Align with few resamples."""
    return align(rows, resamples=50, **settings)


def test_the_published_rows() -> None:
    """Agreement of one person and a judge: the figures of the published vectors, in at most eight lines."""
    aligned = quick(published())
    found = aligned.agreement
    expected = {
        "exact": 0.65,
        "within_one": 0.95,
        "mean_difference": 0.2,
        "kappa_quadratic": 0.7802197802197802,
        "pass_kappa": 0.5652173913043478,
        "precision": 0.7857142857142857,
        "tpr": 0.9166666666666666,
        "tnr": 0.625,
        "auc": 0.96875,
        "brier": 0.11218,
    }
    assert {name: found[name].value for name in expected} == pytest.approx(expected)
    assert aligned.calibration is not None
    assert aligned.calibration.ece == pytest.approx(0.194)
    short = aligned.report().split("\n\n")[0].splitlines()
    assert len(short) <= 8
    assert short[0] == "judge: 20 labelled rows, 100% of them scored, indicative: few questions"
    assert "kappa 0.57" in short[2]
    assert short[3].startswith("errors             passes 92%")
    assert "balanced accuracy" not in aligned.report()
    assert "balanced accuracy" in aligned.report(full=True)
    assert json.loads(json.dumps(aligned.to_dict()))["agreement"]["figures"]["exact"]["value"] == 0.65


def test_several_people() -> None:
    """Ratings by the lower median, a ceiling, Krippendorff's alpha, and whether the judge may stand in for one."""
    rows = [
        {
            "question": f"q{n}",
            "answer": "a",
            "rating": int(judge),
            "labels": {"a": int(a), "b": int(b), "c": int(c)},
        }
        for n, (judge, a, b, c) in enumerate(zip(SUBSTITUTE, *RATERS, strict=True))
    ]
    aligned = quick(rows)
    people = aligned.people
    assert people is not None
    assert people.names == ("a", "b", "c")
    assert people.alt_test is not None
    assert people.alt_test.winning_rate == 1
    assert people.alt_test.advantage == pytest.approx(0.9166666666666666)
    assert "the judge may stand in for one (omega 1.00)" in str(aligned)
    assert len(aligned.report().split("\n\n")[0].splitlines()) == 8


def test_ties_are_left_out_and_counted() -> None:
    """As many good as bad is no verdict; the rating in the middle counts all the same."""
    rows = [*published(), {"question": "q99", "answer": "a", "rating": 4, "score": 0.9, "labels": [2, 3]}]
    aligned = quick(rows)
    assert aligned.ties == 1
    assert aligned.agreement["base_rate"].n == 20
    assert aligned.agreement["within_one"].n == 21
    assert "1 tie left out" in str(aligned)
    binary = quick(
        [*rated("gb" * 10, "pr" * 10), {**rated("g", "p")[0], "question": "t", "label": ["good", "bad"]}]
    )
    assert (binary.ties, binary.agreement.n, binary.ratings) == (1, 20, False)
    assert "quadratic" not in str(binary)


def test_unscored_rows_are_counted_and_bound_the_rate() -> None:
    """Coverage is printed; the pass rate has bounds with every unscored row refused, and passed."""
    rows = published()
    rows[0] = {**rows[0], "rating": None, "score": None}
    aligned = quick(rows)
    assert aligned.agreement.coverage == 0.95
    assert aligned.pass_rate is not None
    assert aligned.pass_rate.bounds == (13 / 20, 14 / 20)
    assert "95% of them scored" in str(aligned)
    assert "65% if all are refused, 70% if all pass" in str(aligned)


def test_one_class_is_said_so() -> None:
    """Kappa of one class is undefined, and AC1 is shown in its place."""
    aligned = quick(rated("g" * 20, "p" * 20))
    assert aligned.agreement["pass_kappa"].reason == "one_class"
    assert "one class only, AC1 1.00" in str(aligned)
    refused = align([{"question": f"q{n}", "answer": "a", "rating": 1 + n % 4, "label": 4} for n in range(20)])
    assert {refused.agreement[name].reason for name in ("pass_kappa", "kappa_quadratic")} == {"one_class"}


def test_pass_rates_are_corrected_as_labels_were_drawn() -> None:
    """A random sample, labels by rating, and labels of other data have an estimator each."""
    labels = "".join("gb"[y == "0"] for y in "110111011110111011010111") + "." * 58
    verdicts = "".join("rp"[int(f)] for f in "110111111110111111011101")
    verdicts += "".join("rp"[int(f)] for f in "1111011101111011111101110111011111011110111101110111111011")
    aligned = quick(rated(labels, verdicts))
    assert aligned.pass_rate is not None
    corrected = aligned.pass_rate.corrected
    assert isinstance(corrected, CorrectedRate)
    assert (corrected.value, corrected.low) == pytest.approx((0.7317531928565691, 0.5750786994350234))
    assert corrected.weight == pytest.approx(0.3709537069265575)
    assert aligned.pass_rate.human is not None
    assert aligned.pass_rate.human.value == 0.75
    assert aligned.pass_rate.uncorrected.n == 82
    assert "pass rate, uncorrected" in str(aligned)
    elsewhere = rated("b" * 40 + "g" * 160 + "." * 1000, "r" * 28 + "p" * 159 + "r" * 13 + "p" * 780 + "r" * 220)
    found = quick(elsewhere, sampling="elsewhere").pass_rate
    assert found is not None
    assert (found.corrected.value, found.corrected.low) == pytest.approx((0.7757575757575759, 0.6842982616244533))
    strata = [(1, 120, 8, 1), (2, 180, 10, 5), (3, 300, 12, 10), (4, 600, 20, 20)]
    rows = [
        {
            "question": f"{rating}.{n}",
            "rating": rating,
            "label": None if n >= drawn else "good" if n < passed else "bad",
        }
        for rating, count, drawn, passed in strata
        for n in range(count)
    ]
    by_rating = quick(rows, sampling="by_rating")
    assert by_rating.pass_rate is not None
    assert by_rating.pass_rate.corrected.value == pytest.approx(0.7958333333333334)
    assert by_rating.pass_rate.corrected.low == pytest.approx(0.7103615284977297)
    assert by_rating.certificate is None
    assert "needs a simple random sample" in str(by_rating)
    useless = rated("gb" * 20 + "." * 100, "p" * 140)
    reason = quick(useless, sampling="elsewhere").pass_rate
    assert reason is not None
    assert reason.corrected.reason == "not_identified"


def test_rows_of_one_question_are_one_cluster() -> None:
    """Intervals are over questions where some have several rows; no count of answers is made of questions."""
    rows = [{**row, "question_id": f"q{n // 2}"} for n, row in enumerate(published())]
    aligned = quick(rows)
    assert aligned.questions == 10
    assert aligned.agreement["agreement"].method.startswith("BCa bootstrap over questions")
    assert quick(published()).agreement["agreement"].method == "Wilson"
    assert "3 of 14 passing answers are bad: 21.4 %" in quick(published()).report()
    report = aligned.report()
    assert "passing answers" not in report
    assert "of the answers that pass 21.4 %, at most" in report
    assert "(at 95 %, over 10 questions)" in report


def test_bias_is_reported_where_the_rows_hold_data() -> None:
    """Padded copies, cues, pairs in both orders, families with a control, leniency and length."""
    drawn = random.Random(1)
    rows: list[Row] = []
    for n in range(120):
        quality = drawn.choice([1, 2, 3])
        label = [{"by": name, "rating": min(4, max(1, quality + drawn.choice([-1, 0, 0, 1])))} for name in "ab"]
        rows += [
            {"id": n, "question": f"q{n}", "answer": "a" * (n + 5), "rating": quality, "labels": label},
            {"question": f"q{n}", "answer": "p", "rating": quality + 1, "probe": "verbosity", "probe_of": n},
            {"question": f"q{n}", "answer": "c", "rating": quality, "probe": "authority", "probe_of": n},
            {"question": f"q{n}", "answer": "r", "rating": quality, "repeat_of": n},
        ]
    rows += [{"question": f"p{n}", "answer": "a", "places": "FF" if n < 40 else "FS"} for n in range(60)]
    aligned = quick(rows)
    assert aligned.bias is not None
    names = {test.bias: test.finding for test in aligned.bias.tests}
    assert names["verbosity"] == names["position"] == "flagged"
    assert names["authority"] == "small"
    assert names.keys() >= {"leniency", "length", "verbosity (robustness)"}
    assert "verbosity        FLAGGED: +1.00" in str(aligned)
    assert aligned.rows == 180
    alone = quick(published()).bias
    assert alone is not None
    assert alone["length"].finding == "association"


def test_which_rows_to_label_next(tmp_path: Path) -> None:
    """Ten of each rating at first, then by how many rows a rating has and how uncertain people are there."""
    rows: list[Row] = [
        {"question": f"{rating}.{n}", "answer": "a", "rating": rating}
        for rating in (1, 2, 3, 4)
        for n in range(40)
    ]
    first = to_estimate(read_judged(rows), "judge", budget=80, good=3)
    assert [sum(label.row.metadata["rating"] == rating for label in first) for rating in (1, 2, 3, 4)] == [10] * 4
    assert sum(label.raters == 2 for label in first) == 4
    for row in rows:
        if int(row["question"][2:]) < 10:
            row["label"] = "good" if row["rating"] == 4 or int(row["question"][2:]) % 2 else "bad"
    then = to_estimate(read_judged(rows), "judge", budget=40, good=3)
    counts = [sum(label.row.metadata["rating"] == rating for label in then) for rating in (1, 2, 3, 4)]
    assert counts[3] == 5 < counts[0] == counts[1] == counts[2]
    aligned = quick(rows, next_labels=tmp_path / "next.jsonl", budget=40)
    assert len(aligned.next_labels) == len((tmp_path / "next.jsonl").read_text().splitlines())


def test_a_run_and_labels_of_its_rows(tmp_path: Path) -> None:
    """Verdicts of `evaluate` and a file of labels come together by question and answer."""
    rows = [{"question": f"q{n}", "answer": "word " * (n + 1)} for n in range(20)]
    evaluation = evaluate(rows, [Length(at_most=10, unit="words"), Length(at_least=1, unit="words", name="some")])
    labels = tmp_path / "labels.csv"
    labels.write_text("question,answer,label\n" + "".join(f"{r['question']},{r['answer']},good\n" for r in rows))
    aligned = quick(evaluation, labels=labels, judge="length")
    assert (aligned.judge, aligned.agreement["agreement"].value) == ("length", 0.5)
    with pytest.raises(ConfigurationError, match="the rows have verdicts of length, some; choose one"):
        quick(evaluation, labels=labels)


def test_thresholds_and_a_certificate(tmp_path: Path) -> None:
    """What labels certify is in the report, and in a file where one is asked for."""
    rows = [{"question": f"q{n}", "answer": "a", "rating": 4, "label": 4 if n < 60 else None} for n in range(80)]
    aligned = quick(rows, certificate=tmp_path / "certificate.json")
    assert aligned.certificate is not None
    assert (aligned.certificate.threshold, aligned.certificate.released) == (4, 60)
    assert (tmp_path / "certificate.json").exists()
    assert "CERTIFIED ON AN ASSUMPTION  success_rating=4, max_attempts=1" in str(aligned)


def test_wrong_input_is_one_line() -> None:
    """The firewall, rows without labels, and settings that are none."""
    tuned = [{**row, "split": "tune"} for row in published()]
    for rows, settings, message in (
        (tuned, {}, "tuned_on: labels of the split tune"),
        ([{"question": "q", "answer": "a", "rating": 3}], {}, "no row has a label"),
        (published(), {"sampling": "some"}, "sampling is 'random', 'by_rating', 'active' or 'elsewhere'"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            quick(rows, **settings)
    assert math.isclose(quick(published(), split=None).agreement["exact"].value or 0, 0.65)


def test_the_same_label_is_not_for_tuning_and_for_certifying() -> None:
    """A person's label of an answer that tuned the judge is refused under another split, too."""
    labels = [{"by": "ann", "rating": 4, "split": "tune"}, {"by": "ann", "rating": 4, "split": "certify"}]
    rows = [{"user_input": f"q{i}", "response": "a", "rating": 4, "labels": labels} for i in range(12)]
    with pytest.raises(ConfigurationError, match="tuned_on: 'ann' labelled the same answer for tuning"):
        align(rows, split="certify")
    apart = [{**row, "labels": [label]} for row in rows for label in labels]
    with pytest.raises(ConfigurationError, match="tuned_on: 'ann' labelled the same answer for tuning"):
        align(apart, split="certify")
