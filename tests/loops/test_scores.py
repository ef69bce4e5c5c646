"""Scores that are expectations: recorded, certified, accepted by the loop, and held against labels of people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from graphs import InputError, Policy
from judges import ConfigurationError, Helpfulness, Judge, Quick, Sample, Verdict, as_judge
from judges.certificate import IssuedCertificate
from judges.offline import Alignment, align, certify, evaluate, replay
from judges.promise import Audit, follow
from judges.testing import Likely, ScriptedModel
from refine import SelfRefine
from refine.report.contents import RunData, build_report
from refine.report.markdown import markdown
from refine.report.page import page
from refine.report.trust import TrustSources

GOOD = {1: 0.0, 2: 0.02, 3: 0.18, 4: 0.8}
"""Scored 0.93, rated 4."""
DOUBTFUL = {1: 0.0, 2: 0.2, 3: 0.5, 4: 0.3}
"""Scored 0.70, rated 3: accepted by the rating, and not by a score of 0.83."""
QUESTIONS = 60


def shares(messages: list[BaseMessage]) -> Likely:
    """Doubt every fifth answer."""
    doubtful = "weak answer" in messages[-1].text
    return Likely(DOUBTFUL if doubtful else GOOD)


def answered(messages: list[BaseMessage]) -> str:
    """Answer every fifth question weakly."""
    number = int(messages[-1].text.split()[-1])
    return f"{'weak' if number % 5 == 0 else 'good'} answer {number}"


def loop(judge: Judge | None = None, **settings: Any) -> SelfRefine:
    """Make the loop anew, of one attempt."""
    own = judge or Helpfulness(ScriptedModel(shares, name="judge"), probabilities=True)
    return SelfRefine(ScriptedModel(answered, name="gen"), own, max_attempts=1, **settings)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> IssuedCertificate:
    """Record a loop that accepts by score, label what it wrote, and certify a score."""
    file = tmp_path_factory.mktemp("scores") / "attempts.jsonl"
    recorder = loop(success_score=0.95, record=file)
    for number in range(QUESTIONS):
        recorder.refine(f"question {number}")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["metadata"]["p_pass"] for row in rows[:2]] == pytest.approx([0.8, 0.98])
    assert rows[1]["metadata"]["probabilities"] == pytest.approx([0.0, 0.02, 0.18, 0.8])
    labelled = [
        {**row, "labels": [{"by": "ann", "rating": 1 if "weak" in row["response"] else 4}]} for row in rows
    ]
    return certify(labelled, scores=True, thresholds=[0.83, 0.6])


def test_loops_that_accept_by_score_are_replayed_by_score(tmp_path: Path) -> None:
    """A rating of 3 is a score of 0.7 here: by it, and by other scores, the record tells exactly what passes."""
    judge = Helpfulness(ScriptedModel(shares, name="judge"), probabilities=True)
    refiner = loop(judge, success_score=0.83, record=tmp_path / "attempts.jsonl")
    for number in range(10):
        refiner.refine(f"question {number}")
    result = replay(tmp_path / "attempts.jsonl", max_attempts=[1])
    assert str(result.policy) == "success score 0.83, 1 attempts"
    assert [(row.acceptance, row.in_force, row.release_rate) for row in result.policies] == [
        ("score 0.83", True, (0.8, 0.8))
    ]
    assert result.curve[0].cumulative == pytest.approx(0.8)
    rates = {row.acceptance: row.release_rate for row in replay(tmp_path / "attempts.jsonl").policies}
    assert (rates["score 0.95"], rates["score 0.9"], rates["score 0.7"]) == ((0, 0), (0.8, 0.8), (1, 1))
    by_rating = replay(tmp_path / "attempts.jsonl", thresholds=[4, 3, 0.9], max_attempts=[1]).policies[1:]
    assert [(row.acceptance, row.release_rate[0]) for row in by_rating] == [
        ("rating 4", 0.8),
        ("rating 3", 1.0),
        ("score 0.9", 0.8),
    ]
    for wrong in (0, 5, 1.5):
        with pytest.raises(ConfigurationError, match="or a score from"):
            replay(tmp_path / "attempts.jsonl", thresholds=[wrong])


def test_a_loop_accepts_by_the_score_that_is_certified(certificate: IssuedCertificate) -> None:
    """What the rating alone would accept is refused, and the outcome names the certificate."""
    assert (certificate.kind, certificate.threshold) == ("score", 0.83)
    certified = loop(certificate=certificate)

    good, doubtful = (certified.refine(f"question {number}") for number in (1, 5))
    assert certified.policy.success_score == 0.83
    assert (good.passed, doubtful.passed, good.certificate) == (True, False, certificate.id)
    assert loop().refine("question 5").passed


@pytest.mark.parametrize(
    "judge",
    [
        Helpfulness(ScriptedModel(shares, name="judge")),
        Quick(Helpfulness(ScriptedModel(shares, name="judge"), probabilities=True), name="helpfulness"),
    ],
    ids=["without probabilities", "quick"],
)
def test_how_the_score_came_about_is_part_of_what_is_certified(
    certificate: IssuedCertificate, judge: Judge
) -> None:
    """Without probabilities, or by `Quick`, or with another margin, it is another judge."""
    with pytest.raises(ConfigurationError, match="the judge 'helpfulness' changed"):
        loop(judge, certificate=certificate)


def test_a_score_and_a_rating_do_not_stand_beside_each_other(certificate: IssuedCertificate) -> None:
    """One line says which stands beside the certificate; a request cannot weaken a score by a rating."""
    for settings in ({"success_rating": 2}, {"success_score": 0.5}):
        with pytest.raises(ConfigurationError, match=r"stands beside a certificate for success_score=0\.83"):
            loop(certificate=certificate, **settings)
    with pytest.raises(InputError, match="accepted by their score"):
        loop(success_score=0.5).invoke("question 1", context={"success_rating": 4})


def scored(sample: Sample) -> Verdict:
    """Rate every answer 4, and score weak ones lower."""
    return Verdict(rating=4, passed=True, score=0.82 if "weak" in (sample.answer or "") else 0.95)


@pytest.mark.filterwarnings("ignore::graphs.CertificateWarning")
def test_a_policy_stricter_than_a_rating_of_four(tmp_path: Path) -> None:
    """4.9 asks for a rating of 4 and a score of .9: certified where 4 is not, by a loop, and after an alarm."""
    judge = as_judge(scored, name="scored")
    recorder = loop(judge, success_rating=4, success_score=0.95, record=tmp_path / "attempts.jsonl")
    for number in range(QUESTIONS):
        recorder.refine(f"question {number}")
    rows = [json.loads(line) for line in (tmp_path / "attempts.jsonl").read_text().splitlines()]
    labelled = [{**row, "labels": [{"by": "ann", "up": "weak" not in row["response"]}]} for row in rows]
    issued = certify(labelled, thresholds=[4.9, 4], ledger=tmp_path / "ledger")
    assert [(row.policy, row.status) for row in issued.rows] == [(4.9, "certified"), (4, "refused")]
    assert issued.policy_name == "success_rating=4, success_score=0.9, max_attempts=1"
    certified = loop(judge, certificate=issued)
    assert certified.policy.acceptance == "success_rating=4, success_score=0.9"
    assert [certified.refine(f"question {number}").passed for number in (1, 5)] == [True, False]
    assert certify(labelled, thresholds=[4.9, 4], alpha=0.4).threshold == 4
    both = certify(labelled, thresholds=[4.9, 4], alpha=0.35, laxest=True)
    assert both.threshold == 4
    standing = follow(both, [Audit(4.95, bad=False)] * 2 + [Audit(4.82, bad=True)] * 13)
    assert standing.threshold == 4.9
    moved = Policy(certificate=both, on_alarm="stricter", max_attempts=1).under(standing)
    assert moved.acceptance == "success_rating=4, success_score=0.9"
    for wrong in (5, 3.5):
        with pytest.raises(ConfigurationError, match=r"or 4\.9 for a 4 that is scored \.9 or more"):
            certify(labelled, thresholds=[wrong])


def labelled_rows(count: int = 100) -> list[Mapping[str, Any]]:
    """Give rows of which more are good the likelier the judge says so, but fewer than it says."""
    rows: list[Mapping[str, Any]] = []
    for number in range(count):
        said = (number % 10) / 10 + 0.05
        good = (number // 10) / 10 < said**2
        own = {"rating": 4 if said > 0.5 else 1, "score": said, "passed": said > 0.5, "p_pass": said}
        other = {"rating": 4 if good else 1, "score": float(good), "passed": good}
        labels = [{"by": "ann", "rating": 4 if good else 1}]
        verdicts = {"quick": own, "full": other}
        rows.append({"question": f"q{number}", "response": "a", "verdicts": verdicts, "labels": labels})
    return rows


def test_align_draws_whether_p_pass_can_be_believed() -> None:
    """Of each tenth how many are good, whether chance explains it, and the other judge beside."""
    aligned: Alignment = align(labelled_rows(), judge="quick", resamples=100)
    curve = aligned.reliability
    assert curve is not None
    assert [(one.n, round(one.said, 2)) for one in curve.bins] == [
        (10, round(0.05 + n / 10, 2)) for n in range(10)
    ]
    assert [one.good for one in curve.bins][5:] == pytest.approx([0.4, 0.5, 0.6, 0.8, 1.0])
    assert curve.scores.brier is not None
    assert "calibration error 0.110" in str(curve)

    lines = aligned.report().splitlines()
    table = lines.index(next(line for line in lines if line.startswith("on the same labels")))
    assert [line.split()[0] for line in lines[table + 1 : table + 3]] == ["quick", "full"]
    assert lines[table + 2].split()[2] == "1.000"
    assert aligned.to_dict()["reliability"]["bins"][0]["n"] == 10


def test_a_report_draws_it_and_a_run_keeps_it(tmp_path: Path) -> None:
    """As a diagram on the page, and in words in Markdown; of rows judged in a run, quick and full."""
    model = ScriptedModel(shares, name="judge")
    samples = [
        Sample(
            user_input=f"question {number}",
            response=f"{'weak' if number % 5 == 0 else 'good'} answer {number}",
            metadata={"labels": [{"by": "ann", "rating": 1 if number % 5 == 0 else 4}]},
        )
        for number in range(20)
    ]
    judges = [Helpfulness(model, probabilities=True), Quick(Helpfulness(model, probabilities=True), margin=0.1)]
    evaluation = evaluate(samples, judges)

    document = build_report([RunData(name="runs/1", evaluation=evaluation)], sources=TrustSources())
    text, html = markdown(document), page(document)
    assert "pass of helpfulness" in text
    assert "pass of quick-helpfulness" in text
    assert html.count('class="reliability"') == 2
