"""Certificates where the exact test does not apply: weights, several runs a question, graded harm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judges import ConfigurationError
from judges.certificate import IssuedCertificate
from judges.offline import certify
from judges.offline.statistics import certify as certify_counts
from judges.offline.statistics import certify_weighted, hoeffding_bentkus, weighted_risk
from judges.offline.statistics.certificates import Release
from tests.runs.commands import refine

Row = dict[str, Any]


def rows_of(ratings: list[int], people: list[int], **more: Any) -> list[Row]:
    """Return single answers with what the judge and a person say."""
    return [
        {"question": f"q {n}", "answer": "a", "rating": mine, "labels": [{"by": "ann", "rating": theirs}], **more}
        for n, (mine, theirs) in enumerate(zip(ratings, people, strict=True))
    ]


def test_the_bound_takes_the_place_of_the_exact_test() -> None:
    """With plain labels it is Hoeffding-Bentkus of bad ones over questions, strictest first until one fails."""
    strict = [Release(0.0, 1.0, n) for n in range(60)]
    lax = [*strict, *(Release(1.0, 1.0, 60 + n) for n in range(30))]
    result = certify_weighted({4: strict, 3: lax, 2: lax}, 0.1, 0.05)
    assert [row.status for row in result.rows] == ["certified", "refused", "not_tested"]
    assert result.rows[0].p == pytest.approx(hoeffding_bentkus(0.0, 60, 0.1), abs=1e-12)
    assert result.rows[1].p == pytest.approx(hoeffding_bentkus(1 / 3, 90, 0.1), abs=1e-12)
    upper = result.rows[0].upper
    assert upper is not None
    assert hoeffding_bentkus(0.0, 60, upper + 1e-6) <= 0.05 < hoeffding_bentkus(0.0, 60, upper - 1e-6)
    few = certify_weighted([strict[:28]], 0.1, 0.05)
    assert (few.rows[0].status, few.least, few.certified) == ("too_few", 29, None)
    assert few.reachable_alpha == few.rows[0].upper


def test_only_the_strictest_policies_are_skipped_for_too_few_releases() -> None:
    """After a success a policy with few releases is tested, and its failure ends the sequence, in either test."""
    sure, few = [Release(0.0, 1.0, n) for n in range(60)], [Release(0.0, 1.0, n) for n in range(5)]
    weighted = certify_weighted([few, sure, few, sure], 0.1, 0.05)
    exact = certify_counts([(5, 0), (60, 0), (5, 0), (60, 0)], 0.1, 0.05)
    for certificate in (weighted, exact):
        assert [row.status for row in certificate.rows] == ["too_few", "certified", "refused", "not_tested"]
        assert certificate.certified == 1


def test_weights_and_runs_of_a_question_are_summed_by_question() -> None:
    """The p-value is that of `weighted_risk`, with the largest weight of a question fixed before."""
    releases = [Release(0.5 * (n % 7 == 0), 1 + n % 2, n // 2) for n in range(160)]
    losses, weights, questions = zip(*releases, strict=True)
    result = certify_weighted([releases], 0.2, 0.05, largest=4.0)
    expected = weighted_risk(losses, 0.2, weights=weights, clusters=questions, largest=4.0)
    assert result.rows[0].p == pytest.approx(expected, abs=1e-12)
    assert result.rows[0].rate == pytest.approx(
        sum(map(float.__mul__, losses, map(float, weights))) / sum(weights)
    )
    with pytest.raises(ValueError, match="at least the largest sum of weights"):
        certify_weighted([releases], 0.2, 0.05, largest=2.0)
    with pytest.raises(ValueError, match="a loss is 0 to 1"):
        certify_weighted([[Release(1.5, 1.0, "q")]])


def test_graded_harm_is_bounded_on_average(tmp_path: Path) -> None:
    """A 2 that does a fifth of the harm is tolerated where a bad answer is not; the promise says so."""
    rows = rows_of([4] * 120, [2 if n % 5 == 0 else 4 for n in range(120)])
    assert not certify(rows, thresholds=[4]).certified
    certificate = certify(rows, thresholds=[4], method="weighted", harm={1: 1.0, 2: 0.2})
    assert (certificate.threshold, certificate.harm) == (4.0, (1.0, 0.2, 0.0, 0.0))
    assert certificate.rows[0].rate == pytest.approx(0.04)
    assert certificate.promise.startswith("the answers that pass do at most 10.0% of the worst harm on average")
    assert "Hoeffding-Bentkus" in str(certificate)
    certificate.write(tmp_path / "certificate.json")
    assert IssuedCertificate.read(tmp_path / "certificate.json") == certificate
    for harm in ({1: 0.2, 2: 0.5}, [1, 0.5], {5: 1.0}, [2, 1, 0, 0]):
        with pytest.raises(ConfigurationError, match="harm is 0 to 1 for each of the ratings"):
            certify(rows, method="weighted", harm=harm)
    with pytest.raises(ConfigurationError, match="harm is for method='weighted'"):
        certify(rows, harm={1: 1.0})


def test_rows_with_weights_and_questions_with_several_runs_are_taken() -> None:
    """Weights are refused by the exact test alone; no run is left out; silent runs count among all questions."""
    rows = rows_of([4] * 150, [4] * 150, probability=0.5)  # for a weight of 2 where a row says none
    weighted = [{**row, "weight": 1.0 + n % 3} for n, row in enumerate(rows)]
    with pytest.raises(ConfigurationError, match="--method weighted"):
        certify(weighted)
    certificate = certify(weighted, method="weighted", largest_weight=3)
    assert (certificate.certified, certificate.runs, certificate.released) == (True, 150, 150)
    assert not any("weighs at most" in note for note in certificate.notes)
    assert any("weighs at most 3" in note for note in certify(weighted, method="weighted").notes)
    assert any("weighs at most 2" in note for note in certify(rows, method="weighted").notes)
    with pytest.raises(ConfigurationError, match=r"largest_weight=2 is exceeded: .* weigh 3 together"):
        certify(weighted, method="weighted", largest_weight=2)
    with pytest.raises(ConfigurationError, match="largest_weight is above 0, and for method='weighted'"):
        certify(rows_of([4] * 30, [4] * 30), largest_weight=2)
    twice = [
        {**row, "question": f"q {n // 2}", "answer": f"a {n}"} for n, row in enumerate(rows_of([4] * 80, [4] * 80))
    ]
    assert certify(twice).runs == 80
    assert certify(twice, estimand="questions").runs == 40
    assert certify(twice, method="weighted").runs == 80
    half = rows_of([4, 1] * 60, [1, 1] * 60)
    alone, all_questions = (
        certify(half, thresholds=[4], alpha=0.7, method="weighted", risk=risk).rows[0]
        for risk in ("released", "per_question")
    )
    assert (alone.rate, all_questions.rate) == (1.0, 0.5)


def test_the_command_takes_harm_and_weights(tmp_path: Path) -> None:
    """`--method weighted --harm 1,0.2,0,0 --largest-weight 1`; a wrong list has one line."""
    file = tmp_path / "rows.jsonl"
    rows = rows_of([4] * 120, [2 if n % 5 == 0 else 4 for n in range(120)])
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    command = ("certify", file, "--thresholds", "4", "--method", "weighted", "--once", "--largest-weight", "1")
    done, wrong = (
        refine(*command, "--out", tmp_path / f"{harm[2:]}.json", "--harm", harm) for harm in ("1,0.2,0,0", "1,x")
    )
    assert (done.exit_code, wrong.exit_code) == (0, 2)
    assert "of the worst harm on average" in " ".join(done.stdout.split())
    assert "--harm are numbers with commas, for instance 1,0.5,0,0" in wrong.stderr
