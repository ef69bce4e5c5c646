"""Judges are known by name, and the package's public names are the ones it lists."""

from __future__ import annotations

from typing import Any

import pytest

import judges
from judges import ConfigurationError, Helpfulness, JsonValid, Judge, Length, NumericRange, Pattern, Rubric, load
from judges.testing import ScriptedModel

LEVELS = {"1": "no", "2": "yes"}


@pytest.mark.parametrize(
    ("name", "settings", "kind"),
    [
        ("helpfulness", {"model": "openai:gpt-5-mini"}, Helpfulness),
        ("rubric", {"model": ScriptedModel([]), "criteria": "Kind?", "levels": LEVELS}, Rubric),
        ("length", {"at_most": 9}, Length),
        ("pattern", {"required": "x"}, Pattern),
        ("json", {"schema": {"type": "object"}}, JsonValid),
        ("numeric_range", {"at_least": 0}, NumericRange),
    ],
)
def test_a_judge_is_made_by_name(name: str, settings: dict[str, Any], kind: type[Judge]) -> None:
    """A name and settings make the judge, which is called by its name, or by one of its own."""
    judge = load(name, **settings)
    assert type(judge) is kind
    assert judge.name == name
    assert load(name, name="mine", **settings).name == "mine"


def test_settings_reach_the_judge() -> None:
    """What is set counts."""
    assert load("length", at_most=2)(answer="abc").feedback == "Write at most 2 characters; there are 3."


@pytest.mark.parametrize(
    ("name", "settings", "told"),
    [
        ("poetry", {}, "there is no judge 'poetry'; known are helpfulness, json, length"),
        ("length", {"colour": 1}, "the judge 'length' got an unexpected keyword argument 'colour'"),
        ("rubric", {"model": "a:b"}, "the judge 'rubric' missing 2 required keyword-only arguments"),
        ("helpfulness", {}, "a judge needs a model to ask"),
        ("numeric_range", {}, "give at_least=..., at_most=... or both"),
    ],
)
def test_a_judge_that_cannot_be_made_is_refused(name: str, settings: dict[str, Any], told: str) -> None:
    """A wrong name or setting is one kind of error, naming it."""
    with pytest.raises(ConfigurationError) as caught:
        load(name, **settings)
    assert told in str(caught.value)


@pytest.mark.parametrize("name", judges.__all__)
def test_every_public_name_is_there(name: str) -> None:
    """Each listed name resolves, and says what it is."""
    assert getattr(judges, name) is not None


def test_the_public_names_are_those_listed() -> None:
    """The list is sorted and complete, and nothing beside it is offered."""
    assert judges.__all__ == sorted(set(judges.__all__))
    assert dir(judges) == judges.__all__
    assert set(judges.__all__) == set(judges._HOMES)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A misspelt name fails as in any module."""
    with pytest.raises(AttributeError, match="has no attribute 'Jury'"):
        judges.Jury  # noqa: B018
