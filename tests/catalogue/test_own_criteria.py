"""Judges with a criterion of one's own show no example that could be false, and say which direction is good."""

from __future__ import annotations

import json
from typing import Any

import pytest

from judges import Sample, load
from judges.prompting.prompts import prompt
from judges.requests import Ask
from judges.testing import ScriptedModel

SAMPLE = Sample(user_input="How are you?", response="Fine.")
LANGUAGES = ("en", "zh", "ru")
KIND = "Is the answer kind?"


def asked(name: str, language: str, **settings: Any) -> Ask:
    """Return the question that a judge puts to its model."""
    request = next(load(name, model=ScriptedModel([]), language=language, **settings).deliberate(SAMPLE))
    assert isinstance(request, Ask)
    return request


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("name", "settings", "verdicts"),
    [
        ("ragas.aspect_critic", {"definition": KIND}, [True, False]),
        ("ragas.aspect_critic", {"aspect": "harmfulness"}, [True, False]),
        ("ragas.simple_criteria_score", {"definition": KIND, "min_score": 2, "max_score": 7}, [7, 2]),
        ("databricks.custom", {"criteria": KIND}, [True, False]),
        ("databricks.custom", {"criteria": KIND, "answer": (1, 9)}, [9, 1]),
        ("databricks.custom", {"criteria": KIND, "answer": ("rude", "kind")}, []),
        ("rubric", {"criteria": KIND, "levels": {0: "rude", 1: "kind"}}, []),
    ],
)
def test_an_example_brings_its_own_criterion(
    name: str, settings: dict[str, Any], verdicts: list[object], language: str
) -> None:
    """On both sides, so that it is true whatever the criterion; where labels are one's own, none is shown."""
    request = asked(name, language, **settings)
    assert [json.loads(example.reply)["verdict"] for example in request.examples] == verdicts
    assert all('"criterion"' in example.body for example in request.examples)
    assert ("`criterion`" in request.task) is (name != "rubric")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_model_is_told_which_direction_is_good(language: str) -> None:
    """Whether meeting a definition is good, where known, and the order of labels stand in the instructions."""
    tasks = [
        asked("ragas.aspect_critic", language, definition=KIND, higher_is_better=good).task
        for good in (True, False, None)
    ]
    assert len({*tasks}) == 3
    phrases = prompt("aspect_critic", language).feedback
    assert [phrases["meeting_is_good"] in task for task in tasks] == [True, False, False]
    assert [phrases["meeting_is_bad"] in task for task in tasks] == [False, True, False]
    labels = asked("databricks.custom", language, criteria=KIND, answer={"great": 1.0, "poor": 0.0, "fair": 0.5})
    assert "poor, fair, great" in labels.task
