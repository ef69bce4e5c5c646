"""docs/choosing.md tells of judges and fields what the catalogue knows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import judges
from judges import Sample
from judges.catalogue.registry import entry_called
from judges.hints import translate_settings
from judges.sample import FIELD_NAMES, canonical_field
from judges.testing import ScriptedModel

PAGE = (Path(__file__).resolve().parents[2] / "docs/choosing.md").read_text(encoding="utf-8")


def rows(head: str) -> list[list[str]]:
    """Return the cells of the table with this head."""
    table = PAGE.partition(f"{head}\n")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in table.splitlines()[1:]]


def test_the_judges_to_begin_with_are_described_as_the_catalogue_does() -> None:
    """What they need, what they cost, and whether they can stand in the loop; three for each beginning."""
    listed = rows("| you have | judge | needs | calls | loop |")
    for _, name, needs, calls, loop in listed:
        entry = entry_called(name.strip("`"))
        assert name == f"`{entry.name}`"
        assert needs == ", ".join("`{}`".format(need.replace(" or ", "` or `")) for need in entry.needs)
        assert (calls, loop) == (entry.calls, entry.in_loop), name
    assert [index for index, row in enumerate(listed) if row[0]] == list(range(0, len(listed), 3))
    assert [row[0] for row in listed[::3]][:5] == [
        "question and answer",
        "contexts",
        "reference",
        "tools",
        "conversation",
    ]


def test_the_four_of_groundedness_are_told_apart() -> None:
    """Each costs what the catalogue says, and passes where the page says."""
    listed = rows("| judge | unit | passes | calls | take it |")
    model = ScriptedModel([])
    marks = {name.strip("`"): calls for name, _, _, calls, _ in listed}
    assert {name: entry_called(name).calls for name in marks} == marks
    passes = {name: judges.load(name, model).threshold for name in marks}  # type: ignore[attr-defined]  # of a Metric
    assert list(passes.values()) == [0.5, 1.0, 1.0, 0.5]
    assert set(marks) <= {
        entry.name for entry in judges.catalogue() if "hallucination" in (entry.name, *entry.tags)
    }


def test_every_field_is_listed_with_all_its_names() -> None:
    """In the order of the class, none left out."""
    listed = rows("| field | also called | holds |")
    assert [row[0].strip("`") for row in listed] == list(Sample.model_fields)
    for field, names, _ in listed:
        known = {name for name in FIELD_NAMES if canonical_field(name) == field.strip("`")} - {field.strip("`")}
        assert set(re.findall(r"`(\w+)`", names)) == known


def test_names_of_settings_elsewhere_stand_for_those_here() -> None:
    """Each name of the table becomes the one beside it, for a judge that has it; other settings stay."""
    for there, here in rows("| there | here |"):
        name, _, value = here.strip("`").partition("=")
        for rival, given in re.findall(r"`(\w+)(=True)?`", there):
            settings = translate_settings({rival: True if given else "x", "other": 1}, {name, "other"})
            assert settings == {name: float(value) if value else "x", "other": 1}


def test_what_is_wrong_is_told_in_these_words() -> None:
    """Each line of the last table, run as it stands."""
    listed = rows("| what is wrong | what is said |")
    for code, told in listed:
        with pytest.raises((judges.ConfigurationError, AttributeError)) as caught:
            eval(code.strip("`"), {"judges": judges, "chat": ScriptedModel([])})  # noqa: S307 - the page is ours
        assert told.strip("`") in str(caught.value)
        assert "\n" not in str(caught.value)
    assert listed
