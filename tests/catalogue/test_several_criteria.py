"""Several criteria in one call agree with one at a time, and a checklist is the same for all that meet it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judges import ConfigurationError, load
from judges.testing import ScriptedModel
from refine import SelfRefine

LEVELS = {1: "no", 2: "partly", 3: "yes"}
LIST = {
    "items": [
        {"ask": "Does it name the price?", "counts": "none", "at_least": 0, "at_most": 0},
        {"ask": "Is it short?", "counts": "words", "at_least": 0, "at_most": 9},
    ]
}


def answered(verdict: str) -> dict[str, Any]:
    """Return a reply about the one item that is asked for."""
    return {"items": [{"number": 1, "reason": "So it says.", "verdict": verdict, "change": "Name the price."}]}


def test_dimensions_give_what_judges_of_one_each_give() -> None:
    """The same places and verdicts, at one call instead of several; the score weighs them."""
    ratings = {"content": 3, "tone": 2, "form": 1}
    rubrics = [
        load(
            "rubric",
            ScriptedModel([{"rationale": "r", "rating": rating, "feedback": "f"}]),
            criteria=name,
            levels=LEVELS,
        )(question="How much?", answer="Nine euros.")
        for name, rating in ratings.items()
    ]
    replies = [
        {"number": number, "rationale": "r", "rating": rating, "change": "f"}
        for number, rating in enumerate(ratings.values(), 1)
    ]
    dimensions = {name: {"criteria": name, "levels": LEVELS} for name in ratings}
    verdict = load("dimensions", ScriptedModel([{"items": replies}]), dimensions=dimensions)(
        question="How much?", answer="Nine euros."
    )
    assert [(item.score, item.passed) for item in verdict.items] == [(one.score, one.passed) for one in rubrics]
    assert verdict.score == pytest.approx(sum(one.score or 0 for one in rubrics) / 3)
    assert (verdict.usage.calls, sum(one.usage.calls for one in rubrics)) == (1, 3)


def test_every_attempt_of_a_loop_meets_the_same_checklist() -> None:
    """It is written for the first one alone, and what failed is what the second is told."""
    model = ScriptedModel([LIST, answered("no"), answered("yes")])
    generator = ScriptedModel(["It depends on the size.", "It costs nine euros."])
    answer = SelfRefine(generator, load("checklist", model), max_attempts=2).invoke("How much is it?")
    assert answer.text == "It costs nine euros."
    written, first, second = ("".join(map(str, prompt)) for prompt in model.prompts)
    assert "Does it name the price?" not in written
    assert "Does it name the price?" in first
    assert "Does it name the price?" in second


def test_a_list_in_a_file_is_kept_and_can_be_edited(tmp_path: Path) -> None:
    """Another judge of the same file asks what people made of it, without writing it again."""
    file = tmp_path / "checklists.json"
    load("checklist", ScriptedModel([LIST, answered("yes")]), file=file)(
        question="How much?", answer="Nine euros."
    )
    lists = json.loads(file.read_text())
    ((digest, written),) = lists.items()
    lists[digest]["items"] = [*written["items"], {"ask": "Is it one line?", "check": {"kind": "no_commas"}}]
    file.write_text(json.dumps(lists))
    later = load("checklist", ScriptedModel([answered("yes")]), file=file)
    verdict = later(question="How much?", answer="Nine euros, they say.")
    assert [item.passed for item in verdict.items] == [True, True, False]
    assert verdict.usage.calls == 1
    file.write_text('{"x": 3}')
    with pytest.raises(ConfigurationError, match="is no file of checklists"):
        load("checklist", ScriptedModel([]), file=file)


@pytest.mark.parametrize("about", ["request", "system"])
def test_what_a_list_is_about_must_be_there(about: str) -> None:
    """Without a system prompt, or without a question, there is nothing to write a list for."""
    judge = load("checklist", ScriptedModel([LIST, answered("yes")], cycle=True), about=about)
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How much?"}]
    assert judge(messages=messages, answer="Nine euros.").passed
    if about == "system":
        assert judge(question="How much?", answer="Nine euros.").unscored == "no_guidelines"
