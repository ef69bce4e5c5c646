"""What judges are called and listed as, how they show themselves, in errors too, and their fingerprints."""

from __future__ import annotations

import copy
import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import judges
from graphs import InputError, Policy, self_refine
from judges import (
    Cascade,
    ConfigurationError,
    Entry,
    Helpfulness,
    JsonValid,
    Judge,
    JudgesError,
    Length,
    NumericRange,
    OpenAICompatible,
    Pairwise,
    Panel,
    Pattern,
    Repeat,
    Rubric,
    Sample,
    Verdict,
    as_judge,
    cached,
    chat_model,
    load,
)
from judges.catalogue.registry import Registry, catalogue, default_registry
from judges.fingerprint import fingerprint
from judges.offline import Evaluation, Row, compare, evaluate, rank, read_rows
from judges.rag import RAGEvaluator
from judges.requests import Deliberation
from judges.testing import ScriptedEmbeddings, ScriptedJudge, ScriptedModel
from refine import SelfRefine
from refine.cli.app import app

ROWS = [{"question": "?", "answer": "yes", "reference": "yes"}, {"question": "?", "answer": "x", "reference": "y"}]
NAMES = ("ragas.exact_match", "exact_match", "ExactMatch")


@pytest.fixture
def evaluation() -> Evaluation:
    """Judge two rows by a judge loaded by an alias, and by one without any."""
    return evaluate(ROWS, [load("exact_match"), Length(at_most=5)])


def test_results_are_found_under_any_name(evaluation: Evaluation) -> None:
    """Summaries and verdicts know the names of the catalogue; each is listed once, under the qualified one."""
    for name in NAMES:
        assert evaluation.summary[name].mean == 0.5
        assert [row.verdicts[name].passed for row in evaluation.rows] == [True, False]
        assert name in evaluation.summary
        assert evaluation.rows[0].verdicts.get(name) is evaluation.rows[0].verdicts["ragas.exact_match"]
    assert list(evaluation.summary) == list(evaluation.rows[0].verdicts) == ["ragas.exact_match", "length"]
    assert evaluation.summary.get("bleu") is None
    assert "bleu" not in evaluation.summary
    for name in ("bleu", "no judge at all"):
        with pytest.raises(KeyError, match=name):
            evaluation.rows[0].verdicts[name]


def test_results_read_back_know_the_names_too(evaluation: Evaluation) -> None:
    """JSON holds the qualified name alone; what is read, copied or unpickled finds the others as well."""
    line = evaluation.rows[0].line()
    assert list(json.loads(line)["verdicts"]) == ["ragas.exact_match", "length"]
    restored = Evaluation.model_validate_json(evaluation.model_dump_json())
    assert restored == evaluation
    for row in (
        Row.model_validate_json(line),
        restored.rows[0],
        copy.deepcopy(evaluation).rows[0],
        pickle.loads(pickle.dumps(evaluation)).rows[0],  # noqa: S301 - our own bytes
    ):
        assert row.verdicts["exact_match"].passed is True
        assert dict(row.verdicts) == dict(evaluation.rows[0].verdicts)


def test_a_result_under_an_alias_is_found_by_the_qualified_name() -> None:
    """A mapping may give a judge any name; where two judges have the name, only their own ones find them."""
    found = evaluate(ROWS, {"exact_match": load("exact_match")}).summary
    assert found["ragas.exact_match"] is found["exact_match"]
    both = evaluate(ROWS, {"exact_match": load("exact_match"), "ExactMatch": load("exact_match")}).summary
    assert both["exact_match"].n == 2
    with pytest.raises(KeyError):
        both["ragas.exact_match"]


def test_members_are_found_under_any_name() -> None:
    """A panel's veto and weights name members as they were loaded, and so does looking one up."""
    members = [load("exact_match"), Length(at_most=5)]
    sample = {"question": "?", "answer": "no", "reference": "yes"}
    for name in NAMES:
        assert Panel(members, rule="veto", veto=[name])(sample).detail == "vetoed by ragas.exact_match"
        weighted = Panel(members, rule="weighted", weights={name: 0, "length": 1})(sample)
        assert (weighted.rating, [item.judge for item in weighted.items]) == (4, ["ragas.exact_match", "length"])
        assert Panel(members).judges[name] is Cascade(members).judges[name] is members[0]
    with pytest.raises(ConfigurationError, match=r"the members are ragas.exact_match, length, given was"):
        Panel(members, rule="veto", veto=["bleu"])
    with pytest.raises(ConfigurationError, match="weights gives each of"):
        Panel(members, rule="weighted", weights={"exact_match": 1, "ExactMatch": 2, "length": 1})


def test_metrics_of_the_rag_evaluator_are_found_under_any_name() -> None:
    """Its results are under the reference's names, and found by the catalogue's."""
    evaluator = RAGEvaluator(ScriptedModel([]), ScriptedEmbeddings({"yes": [1.0, 0.0]}))
    found = evaluator.evaluate(["answer_similarity"], {"response": ["yes"], "reference": ["yes"]})
    assert list(found) == ["semantic_similarity"]
    assert found["ragas.semantic_similarity"] == found["answer_similarity"] == [1.0]
    assert found.verdicts["SemanticSimilarity"][0].score == 1.0


def test_a_name_is_a_text_that_is_not_blank() -> None:
    """Another is refused where judges get their names, before anything is judged."""
    for name in (5, "", " "):
        with pytest.raises(ConfigurationError, match=r"name is a text(, not 5| such as)"):
            evaluate(ROWS, Length(at_most=5, name=name))  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match=r"name is a text(, not 5| such as)"):
            Panel([Length(at_most=5, name=name)])  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="a judge's name is a text such as 'tone', not "):
            Panel({name: Length(at_most=5)})  # type: ignore[dict-item]


SECRET_KEY = "sk-very-secret"  # noqa: S105 - made up, to be looked for
ENDPOINT = OpenAICompatible("http://localhost:9/v1?token=t", model="qwen", api_key=SECRET_KEY)


def polite(answer: str) -> bool:
    """Look for a word."""
    return "please" in answer


@pytest.mark.parametrize(
    ("judge", "line"),
    [
        (Helpfulness(ScriptedModel(["x"], name="gpt")), "Helpfulness('helpfulness', model='gpt')"),
        (Helpfulness(ENDPOINT), "Helpfulness('helpfulness', model='qwen')"),
        (load("ragas.faithfulness", model="openai:m"), "Faithfulness('ragas.faithfulness', model='openai:m')"),
        (Length(at_most=9), "Length('length')"),
        (as_judge(polite), "FunctionJudge('polite')"),
        (ScriptedJudge([4]), "ScriptedJudge('scripted')"),
        (Panel([Length(at_most=9), polite], name="both"), "Panel('both')"),
        (Cascade([Length(at_most=9), Helpfulness(ENDPOINT)]), "Cascade('cascade', model='qwen')"),
        (Repeat(Helpfulness(ENDPOINT), 3), "Repeat('helpfulness', model='qwen')"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_judge_names_itself_and_its_models(judge: Judge, line: str) -> None:
    """The class, the name and the models that are asked are shown, and nothing else."""
    assert repr(judge) == line


def test_a_refiner_names_its_generator_its_judge_and_its_main_settings() -> None:
    """Whatever the generator is, the refiner is one short line."""

    def answer(messages: object) -> str:
        return "secret"

    generators: dict[str, Any] = {
        "'scripted'": ScriptedModel(["secret"]),
        "'openai:m'": "openai:m",
        "'answer'": answer,
    }
    for name, generator in generators.items():
        refiner = SelfRefine(generator, Length(at_most=9), success_rating=4)
        assert repr(refiner) == f"SelfRefine({name}, 'length', success_rating=4, max_attempts=3)"


def test_an_evaluation_shows_its_figures() -> None:
    """Number of rows and mean score of each judge, in `repr` and `str`; no row is shown."""
    evaluation = evaluate([{"answer": "a secret"}, {"answer": "b"}], [Length(at_most=3), polite])
    assert repr(evaluation) == str(evaluation) == "Evaluation(2 rows, length 0.500, polite 0.000)"
    silent = evaluate([{"question": "?"}], Length(at_most=3))
    assert repr(silent) == "Evaluation(1 row, length unscored: there is no answer to judge)"
    some = evaluate([{"answer": "ok"}, {"question": "?"}], Length(at_most=2))
    assert repr(some) == "Evaluation(2 rows, length 1.000 (1 unscored))"


def test_no_secret_is_shown(tmp_path: object) -> None:
    """Keys and queries appear in no line, also not through wrappers."""
    model = cached(ENDPOINT, f"{tmp_path}/c.db")
    rubric = Rubric(model, criteria="The secret criteria.", levels={1: "a", 2: "b", 3: "c", 4: "d"})
    for shown in map(repr, (rubric, SelfRefine("openai:m", rubric), model)):
        assert not [word for word in (SECRET_KEY, "token", "criteria.") if word in shown]


_ALL = """
import judges
from judges.fingerprint import fingerprint
from judges.testing import ScriptedModel

for entry in judges.catalogue():
    try:
        judge = judges.load(entry.name, model=ScriptedModel([{}], cycle=True))
    except (judges.ConfigurationError, TypeError):
        continue
    print(entry.name, fingerprint(judge))
"""


def fingerprints_of_the_catalogue() -> dict[str, str]:
    """Return the fingerprints of the judges that need a model alone, computed by a process with another seed."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    run = subprocess.run([sys.executable, "-c", _ALL], capture_output=True, text=True, check=True, env=environment)
    return dict(line.split() for line in run.stdout.splitlines())


def test_every_process_computes_the_same_fingerprints() -> None:
    """No address, order of a set or random number enters; no two judges of the catalogue share one."""
    theirs = fingerprints_of_the_catalogue()
    ours = {name: fingerprint(judges.load(name, model=ScriptedModel([{}], cycle=True))) for name in theirs}
    assert ours == theirs
    assert len(theirs) > 30
    assert len(set(theirs.values())) == len(theirs)


def test_whatever_a_verdict_depends_on_changes_the_fingerprint() -> None:
    """Settings, models, members, criteria, the code and values of functions; what work computed does not count."""
    model = ScriptedModel([{"rationale": "r", "feedback": "", "rating": 4}], name="one", cycle=True)

    def bound(limit: int) -> Callable[[Sample], bool]:
        return lambda sample: len(sample.answer or "") < limit

    different = [
        Length(at_most=3),
        Length(at_most=4),
        Length(at_most=3, name="short"),
        Helpfulness(model),
        Rubric(model, criteria="Polite.", levels={1: "no", 4: "yes"}),
        Rubric(model, criteria="Kind.", levels={1: "no", 4: "yes"}),
        Panel([Length(at_most=3), Length(at_least=1, name="long")]),
        Cascade([Length(at_most=3), Length(at_least=1, name="long")]),
        as_judge(lambda sample: True, name="check"),
        as_judge(lambda sample: False, name="check"),
        as_judge(bound(3), name="check"),
        as_judge(bound(4), name="check"),
    ]
    before = [fingerprint(judge) for judge in different]
    assert len(set(before)) == len(different)
    assert fingerprint(as_judge(bound(3), name="check")) == fingerprint(as_judge(bound(3), name="check"))
    for judge in different:
        judge(user_input="q", response="a")
        judge.explain()
    assert [fingerprint(judge) for judge in different] == before


def test_a_word_of_a_prompt_changes_the_fingerprint(tmp_path: Path) -> None:
    """A prompt file of the user's with another word is another judge."""
    model = ScriptedModel([{}])
    source = Path(judges.__file__).parent / "packs" / "en" / "helpfulness.toml"
    (tmp_path / "en").mkdir()
    copy = tmp_path / "en" / "helpfulness.toml"
    copy.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    before = fingerprint(Helpfulness(model, prompts=tmp_path))
    copy.write_text(source.read_text(encoding="utf-8").replace("helpful", "useful", 1), encoding="utf-8")
    assert fingerprint(Helpfulness(model, prompts=tmp_path)) != before


LENGTH = Length(at_most=9)
MODEL = ScriptedModel(["x"], cycle=True)
EVALUATION = evaluate([{"question": "?", "answer": "a" * 5_000}] * 300, LENGTH)


class _Endless:
    """A value whose repr is long, and of many lines."""

    def __repr__(self) -> str:
        return "many\n" * 10_000


class _Mute:
    """A value that has no repr."""

    def __repr__(self) -> str:
        raise RuntimeError("there is none")


VALUES = {
    "text": "x" * 100_000,
    "lines": "x\n" * 50_000,
    "list": ["x" * 1_000] * 1_000,
    "mapping": {f"column {number}": "x" * 100 for number in range(1_000)},
    "number": 10**5_000,
    "evaluation": EVALUATION,
    "rows": EVALUATION.rows,
    "sample": EVALUATION.rows[0].sample,
    "endless": _Endless(),
    "mute": _Mute(),
}
DOORS: dict[str, Callable[[object], object]] = {
    "as_judge": as_judge,
    "panel": lambda value: Panel([value]),
    "panel rule": lambda value: Panel([LENGTH], rule=value),  # type: ignore[arg-type]
    "cascade": lambda value: Cascade([value]),
    "repeat": lambda value: Repeat(LENGTH, [value]),  # type: ignore[arg-type]
    "evaluate": lambda value: evaluate([], value),
    "names": lambda value: evaluate([], Length(at_most=9, name=value)) if not isinstance(value, str) else load(""),  # type: ignore[arg-type]
    "compare": lambda value: compare([], value),  # type: ignore[call-overload]
    "columns": lambda value: compare([], Pairwise(MODEL), a=value, b=value),  # type: ignore[call-overload]
    "rank": lambda value: rank([value]),  # type: ignore[list-item]
    "load": load,  # type: ignore[dict-item]
    "setting": lambda value: load("length", at_most=value if value != 10**5_000 else "many"),
    "metric": lambda value: load("ragas.rouge_score", rouge_type=value),
    "language": lambda value: load("ragas.faithfulness", model=MODEL, language=value),
    "pattern": lambda value: Pattern(required=[value, "("]),  # type: ignore[list-item]
    "model": Helpfulness,
    "chat model": lambda value: chat_model(value, base_url="localhost"),  # type: ignore[arg-type]
    "field": lambda value: Sample.read(user_input="?", reference_topics=value, response=5),
    "columns of a row": lambda value: Sample.read({str(id(value)): value}),
    "rag": lambda value: RAGEvaluator(MODEL).evaluate(value, {"response": ["x"]}),  # type: ignore[arg-type]
    "policy": lambda value: Policy(max_attempts=value if value != 10**5_000 else "many"),  # type: ignore[arg-type]
    "policy's name": lambda value: Policy(max_atempts=value),  # type: ignore[call-arg]
    "generator": lambda value: self_refine(value, ScriptedJudge([4])),  # type: ignore[arg-type]
    "question": lambda value: SelfRefine(MODEL, LENGTH).refine([object(), value]),  # type: ignore[list-item]
}


@pytest.mark.parametrize("door", DOORS)
def test_an_error_is_one_short_line(door: str) -> None:
    """What was given is shown by its beginning, and nothing but our own error comes through."""
    lines = {}
    for name, value in VALUES.items():
        with pytest.raises((JudgesError, InputError)) as caught:
            DOORS[door](value)
        lines[name] = str(caught.value)
    assert {name: line for name, line in lines.items() if "\n" in line or len(line) > 450} == {}


def test_an_evaluation_in_place_of_rows_says_what_to_give() -> None:
    """Judged again as rows, it would be all unscored; a value that is short is shown whole."""
    with pytest.raises(
        ConfigurationError, match=r"not an Evaluation; give \[row.sample for row in evaluation.rows\]"
    ):
        evaluate(EVALUATION, LENGTH)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="not an Evaluation; give paired"):
        compare(EVALUATION, Pairwise(MODEL))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="rows are read from the path of a file, not from Evaluation"):
        read_rows(EVALUATION)  # type: ignore[call-overload]
    with pytest.raises(ConfigurationError, match=r"a list of them, not 5$"):
        Pattern(required=5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"cannot make a judge of 5; give"):
        as_judge(5)


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


def test_the_public_names_are_those_listed() -> None:
    """Each resolves; the list is complete, without doubles, and nothing beside it is offered."""
    assert [name for name in judges.__all__ if getattr(judges, name) is None] == []
    assert len(judges.__all__) == len(set(judges.__all__))
    assert dir(judges) == sorted(judges.__all__)
    assert set(judges.__all__) == {*judges._HOMES, "catalogue"}
    with pytest.raises(AttributeError, match="has no attribute 'Jury'"):
        judges.Jury  # noqa: B018
    assert judges.catalogue() == judges.catalogue() == catalogue()  # no module took the place of the function


def called(name: str, *aliases: str) -> type[Judge]:
    """Make a judge's class that is called by these names."""

    class Named(ScriptedJudge):
        entry = Entry(name=name, aliases=aliases, asks="Is it?", needs=("response",))

        def __init__(self) -> None:
            super().__init__([])

    return Named


def test_a_judge_answers_to_its_name_and_its_aliases() -> None:
    """Any of them, also one given twice, makes the same kind; the list holds each once, by name, sorted."""
    b, a = called("b.judge", "b", "BJudge"), called("a.judge", "a.judge", "x", "x")
    registry = Registry((b, a))
    assert {type(registry.load(name)) for name in ("b.judge", "b", "BJudge")} == {b}
    assert list(registry.entries) == ["a.judge", "b.judge"]
    assert registry.load("x").name == "scripted"
    with pytest.raises(ConfigurationError, match="Length has no entry"):
        Registry((type("Length", (Judge,), {}),))


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

    told = Mine().explain()
    assert (told.asks, told.needs, told.calls, told.better) == ("Is it?", ("response", "reference"), "1", "low")


BROKEN = ["raise RuntimeError('no\\nway')", "raise SystemExit(3)", "class Mine: pass", ""]


@pytest.mark.parametrize("code", BROKEN)
def test_a_broken_distribution_is_told_of_where_it_is_used_and_nowhere_else(distribution: Path, code: str) -> None:
    """Loading another judge does not even import it; loading it, or an unknown name, or listing says why."""
    install(distribution, "judges_that_break", code)
    assert load("exact_match").name == "ragas.exact_match"
    assert "judges_that_break" not in sys.modules
    fault = "the judge judges_that_break:Mine of an installed package cannot"
    with pytest.raises(ConfigurationError, match=f"^{fault}"):
        load("mine")
    with pytest.raises(ConfigurationError, match=f"^there is no judge 'mine.length'; .*; {fault}"):
        load("mine.length")
    with pytest.warns(UserWarning, match=f"{fault} be loaded") as caught:
        names = [entry.name for entry in catalogue()]
    assert "helpfulness" in names
    (line,) = {str(warning.message) for warning in caught}
    assert "\n" not in line
    assert line.endswith("mend or uninstall 'judges_that_break'")


def test_a_distribution_cannot_take_a_known_name(distribution: Path) -> None:
    """The name stays with the judge that has it, and the line that says so names both."""
    install(distribution, "judges_that_clash", MINE.replace("my_length", "faithfulness"))
    with pytest.warns(
        UserWarning, match="two judges are called 'faithfulness': judges_that_clash.Mine and judges."
    ):
        assert "mine.length" not in [entry.name for entry in catalogue()]
    assert load("faithfulness", model="a:b").name == "ragas.faithfulness"
