"""An escalation asks its judges, cheapest first, until one is sure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judges import ConfigurationError, Escalation, Helpfulness, Verdict
from judges.fingerprint import fingerprint
from judges.offline import certify
from judges.testing import Likely, ScriptedJudge, ScriptedModel
from refine import SelfRefine

ROW = {"question": "Why?", "answer": "Because."}


def judges_of(*lines: object) -> dict[str, ScriptedJudge]:
    """Return judges named a, b, c, ..., each with a single verdict."""
    return {chr(ord("a") + index): ScriptedJudge([line]) for index, line in enumerate(lines)}


@pytest.mark.parametrize(
    ("lines", "settings", "rating", "who"),
    [
        ((4, 1), {}, 4, "a"),
        ((3, 2), {}, 2, "ab"),
        ((1, 4), {}, 4, "ab"),
        ((1, 4), {"sure_bad": 1}, 1, "a"),
        ((3, 1), {"sure": 3}, 3, "a"),
        ((2, 3, 4), {}, 4, "abc"),
        ((Verdict.without_score("judge_failed"), 3), {}, 3, "ab"),
    ],
)
async def test_the_first_that_is_sure_decides(
    lines: tuple[object, ...], settings: dict[str, Any], rating: int, who: str
) -> None:
    """The verdict is the deciding judge's own; those after it are not asked, in threads and in an event loop."""
    judges = judges_of(*lines)
    verdict = Escalation(judges, **settings)(ROW)
    assert (verdict.rating, verdict.judge) == (rating, "escalation")
    assert "".join(name for name, judge in judges.items() if judge.samples) == who
    assert verdict.detail.startswith(f"judge {len(who)} of {len(lines)} decided: {who[-1]}")
    assert [item.judge for item in verdict.items] == list(who)
    assert (await Escalation(judges_of(*lines), **settings).acall(ROW)).rating == rating


async def test_a_judge_that_failed_and_could_have_refused_leaves_it_open() -> None:
    """With `sure_bad` no later judge accepts over it; a refusal stays one; nothing to judge is no failure."""
    failed = Verdict.without_score("judge_failed")
    for lines, rating in (((failed, 4), None), ((failed, 1), 1), ((Verdict.without_score("no_contexts"), 4), 4)):
        verdict = Escalation(judges_of(*lines), sure_bad=1)(ROW)
        assert (verdict.rating, verdict.judge, len(verdict.items)) == (rating, "escalation", 2)
        assert (await Escalation(judges_of(*lines), sure_bad=1).acall(ROW)).rating == rating
    assert "a (judge_failed) gave no verdict" in Escalation(judges_of(failed, 4), sure_bad=1)(ROW).detail


def test_its_settings_are_checked_and_fingerprinted() -> None:
    """A setting out of range has one line; another `sure` is another judge."""
    judges = judges_of(4, 4)
    for settings, message in (
        ({"sure": 5}, "sure is a whole number from 1 to 4, not 5"),
        ({"sure_bad": 4}, "sure_bad is a rating from 1, below sure=4, or None, not 4"),
        ({"sure_bad": 0}, "sure_bad is a rating from 1"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            Escalation(judges, **settings)  # type: ignore[arg-type]  # on purpose
    model = Helpfulness(ScriptedModel(["none"]))
    made = [Escalation([model]), Escalation([model], sure=3), Escalation([model], sure_bad=1)]
    assert len({fingerprint(one) for one in made}) == len(made)
    assert made[0].explain().calls == model.explain().calls
    assert len(made[0].models) == 1


def test_a_loop_with_it_is_certified_by_rating(tmp_path: Path) -> None:
    """The certificate is about the escalation as a whole; one of verdicts alone says what to do."""
    cheap = ScriptedJudge([4, 3, 4, 2], cycle=True, name="cheap")
    judge = Escalation([cheap, ScriptedJudge([4], cycle=True, name="strong")])
    record = tmp_path / "attempts.jsonl"
    loop = SelfRefine(lambda _: "an answer", judge, success_rating=4, max_attempts=1, record=record)
    for number in range(40):
        loop.refine(f"question {number}")
    rows = [json.loads(line) | {"labels": [{"by": "ann", "up": True}]} for line in record.read_text().splitlines()]
    certificate = certify(rows)
    assert (certificate.kind, certificate.success_rating, certificate.subject.judge) == ("rating", 4, "escalation")
    both = [
        {"question": f"q {n}", "answer": "a", "ratings": {"cheap": 4, "strong": 4}, "labels": True}
        for n in range(40)
    ]
    with pytest.raises(ConfigurationError, match=r"give the loop judges\.Escalation\(\[\.\.\.\], sure=3\)"):
        _ = certify(both, escalation=("cheap", "strong")).success_rating
    scored = [{"question": f"q {n}", "answer": "a", "score": 0.96, "labels": True} for n in range(40)]
    assert certify(scored, scores=True).acceptance == ("success_score", 0.95)


def by_share(**settings: Any) -> Escalation:
    """Make a judge that is as sure as its model, before a strong one."""
    likely = {"a": {4: 0.95, 1: 0.05}, "b": {4: 0.6, 1: 0.4}, "c": {4: 0.03, 1: 0.97}}
    model = ScriptedModel(lambda messages: Likely(likely[messages[-1].text.split('"answer": "')[1][0]]))
    strong = ScriptedJudge([3], cycle=True, name="strong")
    return Escalation([Helpfulness(model, probabilities=True), strong], **settings)


def test_it_may_decide_by_how_likely_the_answer_passes() -> None:
    """With shares for `sure` and `sure_bad`, the strong judge is asked only where `p_pass` lies between."""
    judge = by_share(sure=0.9, sure_bad=0.1)
    verdicts = [judge(question="q", answer=f"{letter}nswer") for letter in "abc"]
    assert [one.rating for one in verdicts] == [4, 3, 1]
    assert [len(one.items) for one in verdicts] == [1, 2, 1]
    for settings in ({"sure": 0.9, "sure_bad": 2}, {"sure": 1.5}, {"sure": 0.5, "sure_bad": 0.7}):
        with pytest.raises(ConfigurationError, match="sure"):
            by_share(**settings)
