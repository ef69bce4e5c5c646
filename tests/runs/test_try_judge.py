"""A judge is tried on clear pairs before it guards anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judges import ConfigurationError, Sample, Verdict, as_judge, catalogue, load
from judges.offline import TrialPair, try_judge
from judges.offline.trust.judge_trial import judges_with_pairs, trial_pairs
from judges.testing import ScriptedJudge, ScriptedModel
from tests.runs.commands import line_of, refine


def test_every_shipped_pair_fits_the_judge_it_is_for() -> None:
    """A dozen for each judge, which has that name, and every sample has the fields that the judge needs."""
    needs = {entry.name: entry.needs for entry in catalogue()}
    faults = []
    for name in judges_with_pairs():
        pairs = trial_pairs(name)
        samples = [pair.sample(answer) for pair in pairs for answer in (pair.good, pair.bad)]
        texts = {(sample.user_input, sample.response) for sample in samples}
        missing = [
            need
            for need in needs[name]
            if not all(any(getattr(one, field, None) for field in need.split(" or ")) for one in samples)
        ]
        if len(pairs) != 12 or len(texts) != 24 or missing:
            faults.append((name, len(pairs), missing))
    assert faults == []


def told(rating_of_good: int, rating_of_bad: int, wrong: int = 0) -> str:
    """Return what is said of a judge that rates good and bad answers so, and the first few the other way round."""
    pairs = trial_pairs("helpfulness")
    ratings = {pair.good: rating_of_good for pair in pairs} | {pair.bad: rating_of_bad for pair in pairs}
    for pair in pairs[:wrong]:
        ratings[pair.good], ratings[pair.bad] = rating_of_bad, rating_of_good
    judge = as_judge(lambda sample: Verdict.rated(ratings[sample.answer]), name="tried")
    return try_judge(judge, name="helpfulness").headline


def test_the_finding_is_one_line() -> None:
    """How many of a dozen are told apart and what follows, or that it rates everything alike."""
    assert told(4, 1) == "tried: 12 of 12 clear pairs told apart: use it"
    assert told(3, 2, wrong=1) == "tried: 11 of 12 clear pairs told apart: use it"
    assert told(4, 1, wrong=3) == "tried: 9 of 12 clear pairs told apart: use it with care"
    assert told(4, 1, wrong=4) == "tried: 8 of 12 clear pairs told apart: do not use it"
    assert told(4, 4) == "tried: rates everything 4: do not use it"
    assert told(4, 3) == "tried: 0 of 12 clear pairs told apart: do not use it"


def test_what_is_not_scored_is_not_right() -> None:
    """An answer without a verdict is counted, with its reason."""
    unscored = Verdict.without_score("judge_failed")
    trial = try_judge(ScriptedJudge([unscored, 1], cycle=True), name="helpfulness", max_concurrency=1)
    assert trial.headline == "scripted: 0 of 12 clear pairs told apart, 12 not scored: do not use it"
    assert "not scored (judge_failed): What is the capital" in str(trial)


def test_the_command(tmp_path: Path) -> None:
    """Pairs of one's own, exit codes, JSON, and a line where nothing is shipped or a row is no pair."""
    pairs = tmp_path / "pairs.jsonl"
    rows = [
        {"question": f"{n}?", "good": "three words only", "bad": "far too many words for it"} for n in range(12)
    ]
    pairs.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    judge = ("--judge", "length:at_most=3,unit=words", "--pairs", pairs)
    result = refine("try-judge", *judge)
    assert (result.exit_code, result.stdout.strip()) == (0, "length: 12 of 12 clear pairs told apart: use it")
    assert json.loads(refine("try-judge", *judge, "--json").stdout)["right"] == 12
    assert refine("try-judge", "--judge", "length:at_most=9,unit=words", "--pairs", pairs).exit_code == 1
    assert "no pairs are shipped for the judge 'length'" in line_of(refine("try-judge", *judge[:2]))
    pairs.write_text('{"question": "q?"}\n')
    assert "a pair has the texts question, good and bad" in line_of(refine("try-judge", *judge))
    with pytest.raises(ConfigurationError, match="no pairs are shipped"):
        try_judge(ScriptedJudge([4]))
    assert try_judge(
        ScriptedJudge([4, 1]), [TrialPair(question="q?", good="g", bad="b")], max_concurrency=1
    ).is_usable


EXAMPLE = "The command is named, but not the mode that keeps the changes, so the person cannot act on it."
REPLY = {"rationale": EXAMPLE, "rating": 2, "feedback": "Give the exact command."}


def test_a_rationale_copied_from_the_prompt_is_no_verdict() -> None:
    """Word for word, however spaced, the model is asked once more without examples, and then it is unscored."""
    for rationale in (EXAMPLE, f" {EXAMPLE.upper()}\n"):
        model = ScriptedModel([json.dumps({**REPLY, "rationale": rationale})], cycle=True)
        verdict = load("helpfulness", model)(Sample(user_input="Do you like animals?", response="I like turtles."))
        assert (verdict.unscored, verdict.usage.calls) == ("copied_example", 2)
        assert "word for word" in verdict.detail
        assert [EXAMPLE in str(prompt) for prompt in model.prompts] == [True, False]
    mending = ScriptedModel([json.dumps(REPLY), json.dumps({**REPLY, "rationale": "No word on what was asked."})])
    asked = Sample(user_input="Do you like animals?", response="I like turtles.")
    assert load("helpfulness", mending)(asked).rating == 2
    own = ScriptedModel([json.dumps({**REPLY, "rationale": "It says nothing about what was asked."})])
    assert load("helpfulness", own)(Sample(user_input="Do you?", response="I like turtles.")).rating == 2
    same = Sample(
        user_input="How do I undo my last git commit but keep the changes?",
        response="You can use git reset. It has several modes.",
    )
    assert load("helpfulness", ScriptedModel([json.dumps(REPLY)]))(same).rating == 2
