"""A judge is tried on clear pairs before it guards anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judges import ConfigurationError, Sample, Verdict, as_judge, catalogue, load
from judges.offline import TrialPair, try_judge
from judges.offline.trust.judge_trial import judges_with_cases, settings_of_cases, worked_cases
from judges.testing import ScriptedJudge, ScriptedModel
from tests.catalogue.cases import asks_a_model
from tests.runs.commands import line_of, refine


def has(sample: Sample, need: str) -> bool:
    """Tell whether a sample has one of the fields, or entries of its metadata, that are joined by "or"."""
    return any(getattr(sample, field, None) or sample.metadata.get(field) for field in need.split(" or "))


def test_every_judge_that_asks_a_model_has_twenty_cases() -> None:
    """Twenty or more, both sides, none twice, each with its reason, and every sample has the fields that it needs.

    What passes by a classifier is left out: its model only lists what the classifier decides.
    """
    needs = {entry.name: entry.needs for entry in catalogue() if asks_a_model(entry.name)}
    faults = []
    for name in needs.keys() - {"ragas.faithfulness_with_hhem"}:
        cases = worked_cases(name)
        passing = sum(case.passes for case in cases) / max(len(cases), 1)
        missing = [need for need in needs[name] if not all(has(case.sample, need) for case in cases)]
        repeated = len({case.sample.model_dump_json() for case in cases}) < len(cases)
        if len(cases) < 20 or not 0.4 <= passing <= 0.6 or repeated or missing:
            faults.append((name, len(cases), passing, missing))
    assert faults == []


@pytest.mark.parametrize("name", judges_with_cases())
def test_a_judge_takes_its_cases(name: str) -> None:
    """Each is judged, with the settings that the cases are about; a model that answers nothing has none right."""
    judge = load(name, ScriptedModel(["no JSON"], cycle=True), **settings_of_cases(name))
    trial = try_judge(judge, name=name)
    assert {case.unscored for case in trial.cases} <= {"invalid_output", ""}, trial
    assert trial.unscored >= len(trial.cases) * 3 / 4


def told(rating_of_good: int, rating_of_bad: int, wrong: int = 0) -> str:
    """Return what is said of a judge that rates good and bad answers so, and the first few the other way round."""
    pairs = [TrialPair(question=f"{number}?", good="good", bad="bad") for number in range(12)]
    samples = [case.sample for pair in pairs for case in pair.cases()][: 2 * wrong]
    asked = {sample.question for sample in samples}
    ratings = {True: rating_of_good, False: rating_of_bad}
    judge = as_judge(
        lambda sample: Verdict.rated(ratings[(sample.answer == "good") is (sample.question not in asked)]),
        name="tried",
    )
    return try_judge(judge, pairs).headline


def test_the_finding_is_one_line() -> None:
    """How many are right and what follows, or that it rates everything alike."""
    assert told(4, 1) == "tried: 24 of 24 worked cases right: use it"
    assert told(3, 2, wrong=1) == "tried: 22 of 24 worked cases right: use it"
    assert told(4, 1, wrong=3) == "tried: 18 of 24 worked cases right: use it with care"
    assert told(4, 1, wrong=4) == "tried: 16 of 24 worked cases right: do not use it"
    assert told(4, 4) == "tried: rates everything 4: do not use it"
    assert told(4, 3) == "tried: 12 of 24 worked cases right: do not use it"


def test_what_is_not_scored_is_not_right() -> None:
    """An answer without a verdict is counted, with its reason; what went wrong says why it is a case."""
    unscored = Verdict.without_score("judge_failed")
    trial = try_judge(ScriptedJudge([unscored, 1], cycle=True), name="helpfulness", max_concurrency=1)
    assert trial.headline == "scripted: 13 of 34 worked cases right, 17 not scored: do not use it"
    assert "  not scored (judge_failed), should pass (an honest abstention: the evidence lacks it): What" in str(
        trial
    )


def test_the_command(tmp_path: Path) -> None:
    """Pairs of one's own, exit codes, JSON, and a line where nothing is shipped or a row is no pair."""
    pairs = tmp_path / "pairs.jsonl"
    rows = [
        {"question": f"{n}?", "good": "three words only", "bad": "far too many words for it"} for n in range(12)
    ]
    pairs.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    judge = ("--judge", "length:at_most=3,unit=words", "--pairs", pairs)
    result = refine("try-judge", *judge)
    assert (result.exit_code, result.stdout.strip()) == (0, "length: 24 of 24 worked cases right: use it")
    assert json.loads(refine("try-judge", *judge, "--json").stdout)["right"] == 24
    assert refine("try-judge", "--judge", "length:at_most=9,unit=words", "--pairs", pairs).exit_code == 1
    assert "no cases are shipped for the judge 'length'" in line_of(refine("try-judge", *judge[:2]))
    pairs.write_text('{"question": "q?"}\n')
    assert "a pair has the texts question, good and bad" in line_of(refine("try-judge", *judge))
    assert "--check tries one judge" in line_of(refine("judges", "--check"))
    assert "asks a model" in line_of(refine("judges", "ragas.aspect_critic", "--check"))
    with pytest.raises(ConfigurationError, match="no cases are shipped"):
        try_judge(ScriptedJudge([4]))
    assert try_judge(
        ScriptedJudge([4, 1]), [TrialPair(question="q?", good="g", bad="b")], max_concurrency=1
    ).is_usable


EXAMPLE = (
    "A right answer gives a command that undoes the commit and keeps the changes, such as "
    "`git reset --soft HEAD~1`. The command is named, but not the mode that keeps the changes, so the person "
    "cannot act on it."
)
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
