"""Judges by name, by reference and from a file, wherever a judge is taken."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent

import judges
from graphs import SelfJudgingWarning, self_refine
from judges import Cascade, ConfigurationError, Judge, Length, Panel, Repeat, Verdict, as_judge, load, load_file
from judges.catalogue.names import JudgeSpec
from judges.compose.cascade import Escalation
from judges.offline import acompare, compare, evaluate
from judges.testing import ScriptedModel
from refine import SelfRefine
from refine.middleware import SelfRefineMiddleware
from tests.laws import for_every

HERE = "tests.catalogue.test_judges_by_name"
ROW = {"question": "?", "answer": "four words of text"}
FINE = {"rationale": "It helps.", "rating": 4, "feedback": ""}
FILE = f"""
model = "openai:gpt-5-mini"

[judges.helpfulness]
success_rating = 4

[judges.short]
use = "length"
at_most = 3
unit = "words"

[judges.own]
use = "{HERE}:Worded"
word = "text"
"""


class Worded(Judge):
    """A judge of one's own: passes answers with a word in them."""

    def __init__(self, word: str = "", *, name: str = "worded") -> None:
        self.word, self.name = word, name

    def deliberate(self, sample: judges.Sample) -> Any:
        """Look for the word."""
        yield from ()
        return Verdict.checked(self.word in (sample.answer or ""))


class Asking(Worded):
    """One that needs a model, which it passes on its other settings."""

    def __init__(self, model: object, **settings: Any) -> None:
        super().__init__(**settings)
        self.model = model


def polite(answer: str) -> bool:
    """Check that the answer thanks."""
    return "thank" in answer


def made(*, word: str) -> Worded:
    """Make a judge."""
    return Worded(word)


ready = Worded("ready")
no_judge = 3


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Write a file of judges."""
    path = tmp_path / "judges.toml"
    path.write_text(FILE, encoding="utf-8")
    return path


def helpful(times: int = 9) -> ScriptedModel:
    """Make a model that rates every answer highly."""
    return ScriptedModel([FINE] * times, name="helper")


def test_a_text_is_a_judge() -> None:
    """A name with settings, a JSON object, or a judge, a class, a maker or a function of one's own."""
    cases: dict[str, tuple[type[Judge] | None, str]] = {
        "length:at_most=3": (Length, "length"),
        " length:at_most=3 , name=short": (Length, "short"),
        '{"use": "length", "at_most": 3}': (Length, "length"),
        f"{HERE}:ready": (Worded, "worded"),
        f"{HERE}:Worded": (Worded, "worded"),
        f"{HERE}:Worded:word=a:b,name=mine": (Worded, "mine"),
        f"{HERE}:made:word=x": (Worded, "worded"),
        f"{HERE}:polite": (None, "polite"),
    }
    for text, (kind, name) in cases.items():
        judge = as_judge(text)
        assert judge.name == name, text
        assert kind is None or isinstance(judge, kind), text
        assert judge(ROW).unscored is None, text
    assert as_judge(f"{HERE}:Worded:word=a:b").word == "a:b"  # type: ignore[attr-defined]


def test_a_text_names_its_model() -> None:
    """A judge that asks a model has it in its settings."""
    assert [model.name for model in as_judge("helpfulness:model=openai:gpt-5-mini").models] == [
        "openai:gpt-5-mini"
    ]
    assert as_judge(f"{HERE}:Asking:model=any").model == "any"  # type: ignore[attr-defined]


@for_every(
    "text, line",
    [
        (
            "helpfulness",
            "the judge 'helpfulness' asks a model; give judges.load('helpfulness', model=...), or name",
        ),
        ("Lenght", "there is no judge 'Lenght'; did you mean length"),
        ("", "there is no judge ''"),
        ("length", "the judge 'length': any length would pass; give at_least"),
        ("length:at_most", "'at_most' is no setting; write length:key=value"),
        ("length:at_most=1,at_most=2", "at_most is set twice"),
        ("length:longest=3", "unexpected keyword argument 'longest'"),
        ("exact_match:model=x", "unexpected keyword argument 'model'"),
        ("nowhere:judge", "nowhere:judge cannot be imported: No module named 'nowhere'; write module:object"),
        ("lenght:judge", "(did you mean the judge length?)"),
        (f"{HERE}:nothing", "has no attribute 'nothing'; write module:object"),
        (f"{HERE}:no_judge", "cannot make a judge of 3"),
        (f"{HERE}:ready:word=x", "is a judge already; leave its settings out"),
        (f"{HERE}:polite:word=x", "if it is a judge already, leave them out"),
        (f"{HERE}:Worded:colour=x", "unexpected keyword argument 'colour'"),
        (f"{HERE}:Asking", ":Asking', model=...), or name one: "),
        ('{"at_most": 3}', "`use` names the kind of judge, such as length, not None"),
        ("{length}", "is not valid JSON"),
        ("nowhere.toml", "the judges file nowhere.toml cannot be read: No such file"),
    ],
)
def test_a_text_that_names_no_judge_is_one_line(text: str, line: str) -> None:
    """It says what was given, what is known or missing, and what to do."""
    with pytest.raises(ConfigurationError) as raised:
        as_judge(text)
    assert line in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_load_takes_what_names_a_judge(file: Path) -> None:
    """A text that a judge is named by elsewhere, with more settings and a model."""
    assert load("length:at_most=3", unit="words")(ROW).passed is False
    assert load("length:at_most=3", unit="words", at_most=4)(ROW).passed is True
    assert load(f"{HERE}:Worded", word="text")(ROW).passed is True
    assert load(f"{HERE}:Asking", helpful()).model  # type: ignore[attr-defined]
    assert load("tone:tone=kind", helpful()).models[0].name == "helper"
    assert load(f"{file}:short").name == "short"
    assert load(str(file), helpful()).models[0].name == "helper"
    for name, settings, line in (
        (str(file), {"word": "x"}, "stand in the file; write them there"),
        (f"{HERE}:Asking", {}, "asks a model; give judges.load"),
        ("lenght:at_most=3", {}, "there is no judge 'lenght'; did you mean length"),
        (f"{HERE}:ready", {"word": "x"}, "is a judge already"),
        (["length:at_most=3"], {}, "there is no judge ['length:at_most=3']"),
    ):
        with pytest.raises(ConfigurationError) as raised:
            load(name, **settings)  # type: ignore[arg-type]
        assert line in str(raised.value)


def test_a_module_that_breaks_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a module of one's own raises is named with the reference."""
    (tmp_path / "broken_judges.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(
        ConfigurationError, match=r"broken_judges:x cannot be imported: ZeroDivisionError: division"
    ):
        as_judge("broken_judges:x")


def test_composed_judges_take_names(file: Path) -> None:
    """Panel, Cascade and Repeat take names and files among their members; a file alone is all its judges."""
    assert list(Panel(["length:at_most=3", f"{HERE}:polite"]).judges) == ["length", "polite"]
    assert list(Panel({"a": "length:at_most=3", "b": str(file)}).judges) == ["a", "b"]
    assert list(Cascade(["json", file]).judges) == ["json", "helpfulness", "short", "own"]
    assert list(Panel(str(file)).judges) == ["helpfulness", "short", "own"]
    assert Repeat("length:at_most=3").judge.name == "length"
    assert load("json_match", fields={"a": "length:at_most=3"}).name == "json_match"
    with pytest.raises(ConfigurationError, match="give a list of judges"):
        Panel("length:at_most=3")
    with pytest.raises(ConfigurationError, match="several judges are called 'short'; rename a table"):
        Panel([str(file), "length:at_most=3,name=short"])


def test_composed_judges_have_a_model_for_names() -> None:
    """It is for members by name that can ask one, at any depth and in a file; without it the error says so."""
    members = ["helpfulness", "length:at_most=3", ["tone:tone=kind"]]
    for composed in (
        Panel(members, model=helpful()),
        Cascade(members, model=helpful()),
        Escalation(members, model=helpful()),
        Repeat(members, model=helpful()),
        Panel({"a": "helpfulness", "b": "tone:tone=kind"}, model=helpful()),
        load("judges:Panel", judges=members, model=helpful()),
    ):
        assert [model.name for model in composed.models] == ["helper"] * 2
    for make in (Panel, Cascade, Escalation):
        with pytest.raises(
            ConfigurationError, match=r"'helpfulness' asks a model; give model=\.\.\., for instance"
        ):
            make(members)
    with pytest.raises(ConfigurationError, match="'helpfulness' asks a model"):
        Repeat("helpfulness")


def test_a_file_of_judges_is_loaded(file: Path) -> None:
    """Each judge has the name of its table; those that ask a model have the file's, unless there is another."""
    loaded = load_file(file)
    assert list(loaded) == ["helpfulness", "short", "own"]
    assert [model.name for model in loaded["helpfulness"].models] == ["openai:gpt-5-mini"]
    assert loaded["short"].name == "short"
    assert loaded["short"](ROW).passed is False
    assert loaded["own"](ROW).passed is True
    assert [model.name for model in load_file(file, model=helpful())["helpfulness"].models] == ["helper"]
    assert list(load_file(f"{file}:short")) == ["short"]


def test_a_file_is_a_panel_where_one_judge_is_taken(file: Path) -> None:
    """All of it as strict as the strictest, or the one that is named behind it."""
    panel = as_judge(str(file))
    assert isinstance(panel, Panel)
    assert list(panel.judges) == ["helpfulness", "short", "own"]
    assert as_judge(file).models[0].name == "openai:gpt-5-mini"
    assert as_judge(f"{file}:short").name == "short"


FAULTY = {
    "": "names no judge; write [judges.helpfulness]",
    "[judges]": "names no judge",
    "[judge.short]\nuse = 'length'": "'judge' is not known; write [judges.helpfulness]",
    "judges = 3": "names no judge",
    "[judges]\nshort = 3": "judges.short is a table of settings, not 3",
    "[judges.short]\nuse = 3": "judges.short: `use` names the kind of judge, such as length, not 3",
    "[judges.short]\nuse = 'lenght'": "judges.short: there is no judge 'lenght'; did you mean length",
    "[judges.shrt]\nat_most = 3": "judges.shrt: there is no judge 'shrt'",
    "[judges.length]\nlongest = 3": "judges.length: the judge 'length' got an unexpected keyword",
    "[judges.helpfulness]": 'asks a model; write model = "openai:gpt-5-mini" in its table, or at the top',
    "model = 3\n[judges.helpfulness]": "model is a text such as",
    "[judges.x]\nuse = 'nowhere:x'": "judges.x: nowhere:x cannot be imported",
    "[judges": "is not valid TOML",
}


@for_every("text", FAULTY)
def test_a_faulty_file_is_one_line(text: str, tmp_path: Path) -> None:
    """It names the file, the table and the remedy."""
    path = tmp_path / "faulty.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        load_file(path)
    line = str(raised.value)
    assert str(path) in line
    assert FAULTY[text] in line
    assert len(line.splitlines()) == 1


def test_a_name_that_is_not_in_the_file_is_refused(file: Path) -> None:
    """The error says which are."""
    for name, hint in {"shrt": "did you mean 'short'?", "xyz": "known are helpfulness, own, short"}.items():
        with pytest.raises(ConfigurationError, match=f"has no judge '{name}'; ") as raised:
            load_file(f"{file}:{name}")
        assert hint in str(raised.value)


def test_a_table_may_have_its_own_model_and_language(tmp_path: Path) -> None:
    """They count before those of the file and of the door."""
    path = tmp_path / "judges.toml"
    path.write_text(
        '[judges.helpfulness]\nmodel = "openai:gpt-5"\nlanguage = "zh"\n[judges.tone]\ntone = "kind"\n'
    )
    loaded = load_file(path, model=helpful())
    assert [judge.models[0].name for judge in loaded.values()] == ["openai:gpt-5", "helper"]


async def test_the_loop_takes_names() -> None:
    """A judge by name asks the generator where it needs a model, with a warning; one that needs none does not."""
    llm = ScriptedModel(["an answer", FINE], cycle=True)
    with pytest.warns(SelfJudgingWarning, match="'helpfulness' asks the very model that generates"):
        refiner = SelfRefine(llm, "helpfulness")
    assert refiner.invoke("?").response_metadata["refine"]["passed"]
    assert (await refiner.ainvoke("?")).text == "an answer"
    with pytest.warns(SelfJudgingWarning):
        graph = self_refine(llm, ["helpfulness", "length:at_most=99"])
    assert graph.invoke({"messages": [("user", "?")]})["messages"][-1].text == "an answer"
    free = SelfRefine(llm, ["length:at_most=99", f"{HERE}:Worded", "pii_leakage"])
    assert free.judge.models == ()
    copy = pickle.loads(pickle.dumps(SelfRefine("openai:gpt-5-mini", "length:at_most=9")))  # noqa: S301 - its own
    assert copy.judge.name == "length"


def test_a_generator_that_is_no_model_cannot_be_asked(file: Path) -> None:
    """Then the judge's model is named with it, or in the file."""
    with pytest.raises(ConfigurationError, match=r"'helpfulness' asks a model; give judges\.load"):
        SelfRefine(lambda _: "an answer", "helpfulness")
    with pytest.raises(ConfigurationError, match=r"'helpfulness' asks a model; give judges\.load"):
        SelfRefine(SelfRefine(helpful(), "length:at_most=9"), "helpfulness")
    judge = SelfRefine(lambda _: "an answer", str(file)).judge
    assert [model.name for model in judge.models] == ["openai:gpt-5-mini"]
    fallbacks = helpful().with_fallbacks([helpful()])
    with pytest.warns(SelfJudgingWarning):
        assert SelfRefine(fallbacks, "helpfulness").invoke("?").text


def test_the_middleware_takes_names() -> None:
    """An agent is judged by a judge that is named; one that asks a model names it."""
    agent: Any = create_agent(ScriptedModel(["an answer"]), middleware=[SelfRefineMiddleware("length:at_most=99")])
    assert agent.invoke({"messages": [("user", "?")]})["messages"][-1].text == "an answer"
    with pytest.raises(ConfigurationError, match="'helpfulness' asks a model"):
        SelfRefineMiddleware("helpfulness")


def test_evaluation_takes_names(file: Path) -> None:
    """One, a list, a mapping or a file, side by side under their names; `model` is for all that can ask one."""
    names = {
        "length:at_most=3": ["length"],
        ("length:at_most=3", "helpfulness"): ["length", "helpfulness"],
        str(file): ["helpfulness", "short", "own"],
        file: ["helpfulness", "short", "own"],
        (str(file), "json"): ["helpfulness", "short", "own", "json"],
        f"{file}:own": ["own"],
    }
    for named, expected in names.items():
        given = list(named) if isinstance(named, tuple) else named
        evaluation = evaluate([ROW], given, model=helpful())
        assert list(evaluation.summary) == expected
        assert all(
            verdict.unscored is None for verdict in evaluation.rows[0].verdicts.values() if verdict.judge != "json"
        )
    by_name = evaluate([ROW], {"short": "length:at_most=3", "all": str(file)}, model=helpful())
    assert [by_name.rows[0].verdicts[name].passed for name in ("short", "all")] == [False, False]
    with pytest.raises(ConfigurationError, match="'helpfulness' asks a model; give model="):
        evaluate([ROW], ["length:at_most=3", "helpfulness"])


async def test_comparison_takes_a_name() -> None:
    """Two answers are compared by a judge by name, with its model."""
    rows = [{"question": "?", "answer": "a", "rival": "b"}]
    reply = {"rationale": "", "verdict": "tie", "feedback": ""}
    model = ScriptedModel([reply], cycle=True)
    for comparison in (compare(rows, "pairwise", model=model), await acompare(rows, "pairwise", model=model)):
        assert (comparison.n, comparison.ties) == (1, 1)
    with pytest.raises(ConfigurationError, match=r"give model=\.\.\., or Pairwise"):
        compare(rows, "pairwise")
    with pytest.raises(ConfigurationError, match="there is no judge 'pairwize'"):
        compare(rows, "pairwize", model=model)


def test_a_spec_is_written_as_text() -> None:
    """And read again as it was: settings of every kind, levels by number, a comma and a colon in a text."""
    specs = [
        JudgeSpec(name="json"),
        JudgeSpec(name="length", settings={"at_most": 3, "unit": "words"}),
        JudgeSpec(name="pattern", settings={"forbidden": ["a, b=c", "x:y"], "name": "p"}),
        JudgeSpec(name=f"{HERE}:Worded", settings={"word": "a,b=c"}),
        JudgeSpec(name="rubric", settings={"criteria": "c", "levels": {"1": "bad", "4": "good"}}),
        JudgeSpec(name="length", settings={"at-most": 3}),
        JudgeSpec(name="x", settings={"y": None, "z": True}),
    ]
    for spec in specs:
        assert JudgeSpec.parse(spec.text) == spec
    assert specs[1].text == 'length:at_most=3,unit="words"'
    with pytest.raises(ConfigurationError, match="a setting of length cannot be written"):
        _ = JudgeSpec(name="length", settings={"at_most": object()}).text
