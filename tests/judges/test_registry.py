"""Judges are known by name, and the package's public names are the ones it lists."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import judges
from judges import (
    ConfigurationError,
    Entry,
    Helpfulness,
    JsonValid,
    Judge,
    Length,
    NumericRange,
    Pattern,
    Rubric,
    Sample,
    Verdict,
    load,
)
from judges.catalogue.registry import Registry, catalogue, default_registry
from judges.requests import Deliberation
from judges.testing import ScriptedJudge, ScriptedModel
from refine.cli.app import app
from tests.laws import for_every

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
    ("name", "settings", "message"),
    [
        ("xyzzy", {}, f"there is no judge 'xyzzy'; `refine judges` lists the {len(catalogue())} there are"),
        (
            "length",
            {"colour": 1},
            "the judge 'length' got an unexpected keyword argument 'colour'; known are at_least",
        ),
        ("length", {"at_mst": 1}, "unexpected keyword argument 'at_mst'; did you mean 'at_most'?"),
        ("ragas.faithfulness", {"thresold": 1, "model": "a:b"}, "'thresold'; did you mean 'threshold'?"),
        ("pattern", {"required": 5}, "a pattern is a regular expression, or a list of them, not 5"),
        ("length", {"at_most": 1, "name": 5}, "name is a text, not 5"),
        ("length", {"at_most": 1, "name": " "}, "a judge's name is a text such as 'tone', not ' '"),
        (
            "rubric",
            {"model": "a:b"},
            "the judge 'rubric' needs more settings; give criteria=... (what to judge by) and",
        ),
        ("helpfulness", {}, "a judge needs a model to ask"),
        ("numeric_range", {}, "give at_least=..., at_most=... or both"),
    ],
)
def test_a_judge_that_cannot_be_made_is_refused(name: str, settings: dict[str, Any], message: str) -> None:
    """A wrong name or setting is one kind of error, naming it."""
    with pytest.raises(ConfigurationError) as caught:
        load(name, **settings)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300


@for_every("name", judges.__all__)
def test_every_public_name_is_there(name: str) -> None:
    """Each listed name resolves, and says what it is."""
    assert getattr(judges, name) is not None


def test_the_public_names_are_those_listed() -> None:
    """The list is complete, without doubles, and nothing beside it is offered."""
    assert len(judges.__all__) == len(set(judges.__all__))
    assert dir(judges) == sorted(judges.__all__)
    assert set(judges.__all__) == {*judges._HOMES, "catalogue"}


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A misspelt name fails as in any module."""
    with pytest.raises(AttributeError, match="has no attribute 'Jury'"):
        judges.Jury  # noqa: B018


def called(name: str, *aliases: str) -> type[Judge]:
    """Make a judge's class that is called by these names."""

    class Named(ScriptedJudge):
        entry = Entry(name=name, aliases=aliases, asks="Is it?", needs=("response",))

        def __init__(self) -> None:
            super().__init__([])

    return Named


def test_a_judge_answers_to_its_name_and_its_aliases() -> None:
    """Any of them makes the same kind of judge; the list holds each once, by its name, sorted."""
    b, a = called("b.judge", "b", "BJudge"), called("a.judge")
    registry = Registry((b, a))
    assert {type(registry.load(name)) for name in ("b.judge", "b", "BJudge")} == {b}
    assert list(registry.entries) == ["a.judge", "b.judge"]


@pytest.mark.parametrize(
    ("classes", "name"),
    [
        ((called("a"), called("a")), "a"),
        ((called("a", "x"), called("b", "x")), "x"),
        ((called("a"), called("b", "a")), "a"),
        ((called("b", "a"), called("a")), "a"),
    ],
)
def test_two_judges_of_one_name_are_refused(classes: tuple[type[Judge], ...], name: str) -> None:
    """Names and aliases alike: the error names both classes, so that one can be renamed."""
    with pytest.raises(ConfigurationError, match=f"called '{name}': .*Named and .*Named; rename one"):
        Registry(classes)


def test_a_judge_may_repeat_its_own_name() -> None:
    """An alias that is the name, or another alias, does no harm."""
    assert Registry((called("a", "a", "b", "b"),)).load("b").name == "scripted"


def test_what_has_no_entry_is_refused() -> None:
    """The error says what is wanting."""
    with pytest.raises(ConfigurationError, match="Length has no entry"):
        Registry((type("Length", (Judge,), {}),))


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("faithfullness", "faithfulness"),
        ("ragas.faithfull", "ragas.faithfulness"),
        ("helpfullness", "helpfulness"),
        ("Faithfulnes", "Faithfulness"),
        ("ConcisenessEvaluator", "length"),
    ],
)
def test_a_misspelt_name_is_told_the_right_one(name: str, near: str) -> None:
    """The error lists what may have been meant, the likeliest first."""
    with pytest.raises(ConfigurationError, match=re.escape(f"there is no judge {name!r}; did you mean {near}")):
        load(name, model="a:b")


def test_the_catalogue_can_be_listed_again_and_again() -> None:
    """Loading the judges does not put a module in the place of the function."""
    assert judges.catalogue() == judges.catalogue() == catalogue()


def test_every_name_and_alias_of_the_catalogue_is_its_own() -> None:
    """No two judges share a name, and each name leads to the judge whose entry lists it."""
    names = [name for entry in catalogue() for name in (entry.name, *entry.aliases)]
    assert len(names) == len(set(names))
    assert [entry.name for entry in catalogue()] == sorted(entry.name for entry in catalogue())


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a folder in which distributions count as installed."""
    monkeypatch.syspath_prepend(str(tmp_path))
    default_registry.cache_clear()
    yield tmp_path
    for file in tmp_path.glob("*.py"):
        sys.modules.pop(file.stem, None)
    default_registry.cache_clear()


def install(folder: Path, name: str, code: str) -> None:
    """Install a distribution that offers one judge."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[selfrefine.judges]\nmine = {name}:Mine\n", encoding="utf-8")
    (folder / f"{name}.py").write_text(code, encoding="utf-8")


MINE = """
from judges import Entry, Length

class Mine(Length):
    entry = Entry(name="mine.length", aliases=("my_length",), asks="Short?", needs=("response",))
"""


def test_another_distribution_offers_judges(distribution: Path) -> None:
    """What it names as an entry point is listed and loaded like the package's own."""
    install(distribution, "judges_of_mine", MINE)
    assert "mine.length" in [entry.name for entry in catalogue()]
    assert load("my_length", at_most=1)(answer="abc").passed is False


PLAIN = """
from judges import Entry, Length

class Mine(Length):
    entry = Entry(name="mine.plain", asks="Short?", needs=("response",))

    def __init__(self, limit, **rest):
        super().__init__(at_most=limit, **rest)
"""


def test_another_distributions_judge_is_shown_although_it_says_little(distribution: Path) -> None:
    """Without types, meanings and examples: on the command line, and as a line that loads it."""
    install(distribution, "judges_that_say_little", PLAIN)
    shown = CliRunner().invoke(app, ["judges", "mine.plain"]).stdout
    assert 'judges.load("mine.plain", limit=...)' in shown
    assert "example: \n" not in shown
    with pytest.raises(ConfigurationError, match=r"the judge 'mine.plain' needs more settings; give limit="):
        load("mine.plain")


def test_a_judge_of_ones_own_explains_itself_by_its_entry() -> None:
    """What it asks, needs and costs, as the catalogue lists it."""

    class Mine(Judge):
        entry = Entry(name="mine.own", asks="Is it?", needs=("response", "reference"), calls="1", better="low")
        name = "mine"

        def deliberate(self, sample: Sample) -> Deliberation:
            yield from ()
            return Verdict.checked(sample.answer == sample.reference)

    description = Mine().explain()
    assert (description.asks, description.needs, description.calls, description.better) == (
        "Is it?",
        ("response", "reference"),
        "1",
        "low",
    )


BROKEN = ["raise RuntimeError('no\\nway')", "raise SystemExit(3)", "class Mine: pass", ""]


@pytest.mark.parametrize("code", BROKEN)
def test_a_broken_distribution_costs_one_line_where_judges_are_listed(distribution: Path, code: str) -> None:
    """It costs nobody the other judges; the line names it, and what to do."""
    install(distribution, "judges_that_break", code)
    with pytest.warns(
        UserWarning, match="judges_that_break:Mine of an installed package cannot be loaded"
    ) as caught:
        names = [entry.name for entry in catalogue()]
    assert "helpfulness" in names
    (line,) = {str(warning.message) for warning in caught}
    assert "\n" not in line
    assert line.endswith("mend or uninstall 'judges_that_break'")


@pytest.mark.parametrize("code", BROKEN)
def test_a_broken_distribution_is_told_of_where_it_is_used_and_nowhere_else(distribution: Path, code: str) -> None:
    """Loading another judge does not even import it; loading it, or an unknown name, says why it is not there."""
    install(distribution, "judges_that_break", code)
    assert load("exact_match").name == "ragas.exact_match"
    assert "judges_that_break" not in sys.modules
    with pytest.raises(
        ConfigurationError, match=r"^the judge judges_that_break:Mine of an installed package cannot"
    ):
        load("mine")
    with pytest.raises(
        ConfigurationError, match=r"^there is no judge 'mine.length'; .*; the judge judges_that_break"
    ):
        load("mine.length")


def test_a_distribution_cannot_take_a_known_name(distribution: Path) -> None:
    """The name stays with the judge that has it, and the line that says so names both."""
    install(distribution, "judges_that_clash", MINE.replace("my_length", "faithfulness"))
    with pytest.warns(
        UserWarning, match="two judges are called 'faithfulness': judges_that_clash.Mine and judges."
    ):
        assert "mine.length" not in [entry.name for entry in catalogue()]
    assert load("faithfulness", model="a:b").name == "ragas.faithfulness"
