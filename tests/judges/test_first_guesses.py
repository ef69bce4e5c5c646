"""What somebody new types first works, or says in one line what to use instead."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable

import pytest

import graphs
import judges
import refine
from judges import Cascade, ConfigurationError, Helpfulness, Judge, Length, Panel, Pattern, Rubric, Verdict
from judges.catalogue.registry import find
from judges.offline import aevaluate, evaluate
from judges.requests import Deliberation
from judges.sample import Sample
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine
from tests.laws import for_every

CHAT = ScriptedModel([{"rationale": "Right.", "rating": 4, "feedback": ""}], cycle=True)


@pytest.mark.parametrize(
    ("make", "arguments", "settings", "message"),
    [
        (Helpfulness, [], {"llm": CHAT}, "got an unexpected keyword argument 'llm'; here it is model=..."),
        (Helpfulness, [CHAT], {"threshold": 0.5}, "success_rating=... is the rating from which it passes"),
        (Helpfulness, [CHAT], {"include_reason": True}, "leave it out: every verdict has its rationale"),
        (Rubric, [CHAT, "polite"], {}, "takes 1 positional argument but 2 were given; its settings are named"),
        (Length, [80], {}, "it asks no model, and its settings are named: at_least, at_most"),
        (Length, [], {"at_mst": 80}, "did you mean 'at_most'? Known are at_least"),
        (Length, [], {"max_length": 80}, "here it is at_most=..."),
        (Length, [], {"at_most": 80, "llm": CHAT}, "it asks no model; leave it out"),
        (Pattern, [], {"regex": "x"}, "here it is required=..."),
        (Panel, [["json"]], {"aggregation": "all"}, "here it is rule=..."),
        (Panel, [CHAT], {}, "give a list of judges, or a mapping of names to judges"),
        (Cascade, ["json", "code"], {}, "give the judges as one list"),
        (SelfRefine, [CHAT], {"judges": ["json"]}, "it is judge=... here, which takes a list of judges, too"),
        (ScriptedJudge, [3], {}, "the script of 'scripted' is a list of lines, or a function, not 3"),
        (evaluate, [lambda answer: True, "rows.jsonl"], {}, "the rows come first, and the judges after them"),
        (SelfRefine, [], {"model": CHAT, "judge": "json"}, "has no argument 'model'; it is generator=... here"),
    ],
)
def test_a_class_says_what_to_use_instead_of_a_setting(
    make: Callable[..., object], arguments: list[object], settings: dict[str, object], message: str
) -> None:
    """As `judges.load` does; the error stays Python's own for wrong arguments."""
    with pytest.raises((TypeError, ConfigurationError)) as caught:
        make(*arguments, **settings)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_signatures_stay_those_of_the_classes() -> None:
    """Editors and `help` read them, and what the class has no word on is left to Python."""
    assert list(inspect.signature(Length).parameters)[:2] == ["at_least", "at_most"]
    assert list(inspect.signature(SelfRefine).parameters)[:2] == ["generator", "judge"]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'judge'"):
        SelfRefine(CHAT)  # type: ignore[call-arg] # the mistake


class Loose(Judge):
    """A judge of one's own that takes any setting."""

    def __init__(self, *words: str, **settings: object) -> None:
        self.name = "loose"
        self.words, self.settings = words, settings

    def deliberate(self, sample: Sample) -> Deliberation:
        """Pass everything."""
        yield from ()
        return Verdict.checked(passed=True)


class Broken(Loose):
    """One whose property fails."""

    @property
    def worth(self) -> object:
        """Read what is not there."""
        return self.nothing  # type: ignore[attr-defined] # the mistake


def test_judges_of_ones_own_take_what_they_take() -> None:
    """Any setting where the class says so; copies are made as ever."""
    judge = Loose("a", "b", llm=1)
    assert (judge.words, judge.settings) == (("a", "b"), {"llm": 1})
    assert copy.deepcopy(judge).settings == {"llm": 1}
    assert copy.copy(Length(at_most=3))(answer="abcd").passed is False


@pytest.mark.parametrize(
    ("owner", "name", "message"),
    [
        (judges, "SelfRefine", "from refine import SelfRefine"),
        (judges, "LLMTestCase", "a row is a judges.Sample"),
        (judges, "create_llm_as_judge", "judges.load('rubric', criteria=..."),
        (judges, "Helpfullness", "judges.load('helpfulness', ...)"),
        (judges, "Faithfulness", "judges.load('Faithfulness', ...)"),
        (judges, "PanelJudge", "did you mean 'Panel'?"),
        (judges, "ToxicityJudge", "judges.load('toxicity', ...)"),
        (judges, "JudgeResult", "judges.Verdict"),
        (judges, "JsonSchema", "did you mean 'JsonValid'?"),
        (judges, "RegexMatch", "judges.Pattern(required="),
        (refine, "GuardConfig", "the guard is the command `refine serve`"),
        (refine, "refine_stream", "SelfRefine(generator, judge).invoke(question)"),
        (refine, "run_evaluation", "did you mean 'evaluate'?"),
        (refine, "Helpfulness", "from judges import Helpfulness"),
        (graphs, "SelfRefine", "from refine import SelfRefine"),
        (graphs, "as_judge", "from judges import as_judge"),
        (Length(at_most=3), "evaluate", "call the judge: judge(question=..., answer=...)"),
        (Length(at_most=3), "a_measure", "await judge.acall("),
        (Length(at_most=3), "batch", "evaluate(rows, judge) of judges.offline"),
        (Verdict.checked(passed=True), "reason", "it is rationale"),
        (Verdict.checked(passed=True), "success", "it is passed"),
        (evaluate([{"answer": "{}"}], "json"), "mean", "evaluation['length'].mean"),
        (evaluate([{"answer": "{}"}], "json"), "results", "evaluation.rows[0].verdicts"),
        (SelfRefine(ScriptedModel(["Hi."]), ScriptedJudge([4])), "run", "invoke(question) returns the answer"),
        (SelfRefine(ScriptedModel(["Hi."]), ScriptedJudge([4])), "arun", "ainvoke(question)"),
        (SelfRefine(ScriptedModel(["Hi."]), ScriptedJudge([4])).refine("Hello?"), "content", "outcome.text"),
        (SelfRefine(ScriptedModel(["Hi."]), ScriptedJudge([4])).refine("Hello?"), "drafts", "outcome.attempts"),
    ],
)
def test_a_guessed_name_says_what_to_use(owner: object, name: str, message: str) -> None:
    """Of a package, a judge, a verdict, a refiner or an outcome; `hasattr` stays False."""
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'; ") as caught:
        getattr(owner, name)
    assert message in str(caught.value)
    assert not hasattr(owner, name)


def test_other_missing_attributes_are_as_in_any_class() -> None:
    """Without a hint, but for records; and the error inside a property is reported, not hidden."""
    name = "xyzzy"
    with pytest.raises(AttributeError, match="no attribute 'xyzzy'; it has detail, feedback, items"):
        getattr(Verdict.checked(passed=True), name)
    for owner in (refine, graphs, judges, Length(at_most=3)):
        with pytest.raises(AttributeError, match=r"no attribute 'xyzzy'$"):
            getattr(owner, name)
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        Broken().worth  # noqa: B018


@pytest.mark.parametrize(
    ("guess", "name"),
    [
        ("Helpfulness", "helpfulness"),
        ("HELPFULNESS", "helpfulness"),
        ("answer relevancy", "answer_relevancy"),
        ("faithfulness_metric", "FaithfulnessMetric"),
        ("ragas/faithfulness", "ragas.faithfulness"),
        ("deepeval.faithfulness", "faithfulness"),
    ],
)
def test_a_name_in_another_spelling_is_answered_with_the_judges_own(guess: str, name: str) -> None:
    """A judge has its documented names; the error says which was probably meant."""
    with pytest.raises(ConfigurationError, match=f"there is no judge '{guess}'; did you mean {name}"):
        judges.load(guess, llm=CHAT)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("length,json", "name each by itself: ['length', 'json'] in a list, or --judge length --judge json"),
        ("length(at_most=80)", "settings follow a colon: length:at_most=80"),
        ("tool:use", "tool:use cannot be imported"),
        ("rules_of_ours.py:Strict", "a module without .py: rules_of_ours:Strict"),
        ("rules_of_ours.py", "name what is in the file: rules_of_ours:NAME"),
        ("judges.testing:ScriptedJudg", "did you mean judges.testing:ScriptedJudge?"),
        ("judges.testing:ScriptedJudge", "write judges.testing:ScriptedJudge:script=..."),
        (Helpfulness, "a class is called: Helpfulness(...)"),
    ],
)
def test_what_is_no_name_says_how_to_write_it(name: str, message: str) -> None:
    """Several names in one, settings in brackets, a file for a module, a class."""
    with pytest.raises(ConfigurationError) as caught:
        judges.load(name)
    assert message in str(caught.value)


@for_every(
    "word, name",
    [
        ("cited", "citations"),
        ("unsafe", "harm"),
        ("irrelevant", "databricks.relevance_to_query"),
        ("unbiased", "bias"),
        ("profanity", "harm"),
        ("racism", "bias"),
        ("rude", "tone"),
        ("brief", "length"),
        ("empty", "length"),
        ("coding", "code"),
        ("coherent", "fluency"),
        ("regexp", "pattern"),
        ("repetitive", "tool_use"),
        ("honest", "hallucination"),
        ("translated", "ragas.bleu_score"),
    ],
)
def test_words_of_everyday_find_their_judges(word: str, name: str) -> None:
    """In the grammatical form in which somebody types them."""
    assert name in [entry.name for entry in find(judges.catalogue(), text=word)]


def test_fields_and_subjects_may_be_written_freely() -> None:
    """With blanks or commas, and in any case."""
    entries = judges.catalogue()
    assert find(entries, fields="context ground_truth") == find(entries, fields="context, ground_truth")
    assert find(entries, subject="Agent") == find(entries, subject="agent")


def test_rows_given_to_a_judge_are_sent_to_evaluate() -> None:
    """A list is no sample."""
    with pytest.raises(judges.BadSample, match=r"several rows are evaluate\(rows, judge\) of judges.offline"):
        Length(at_most=3)([{"answer": "abc"}])


async def test_arguments_of_other_evaluations_say_what_they_are_here() -> None:
    """In threads and in tasks; the function itself is as before, and of any other name the error lists them."""
    guesses = {
        "dataset": "samples",
        "metrics": "judges",
        "llm": "model",
        "concurrency": "max_concurrency",
        "callback": "on_result",
    }
    for guess, name in guesses.items():
        with pytest.raises(
            TypeError, match=rf"^evaluate\(\) has no argument '{guess}'; here it is {name}=\.\.\.$"
        ):
            evaluate([], Length(at_most=3), **{guess: None})  # type: ignore[arg-type]  # what is tried
        with pytest.raises(TypeError, match=rf"^aevaluate\(\) has no argument '{guess}'; here it is {name}="):
            await aevaluate([], Length(at_most=3), **{guess: None})  # type: ignore[arg-type]  # what is tried
    with pytest.raises(TypeError, match="no argument 'bogus'; known are batch, judges"):
        evaluate([], Length(at_most=3), bogus=1)  # type: ignore[call-arg]  # what is tried
    assert inspect.iscoroutinefunction(aevaluate)
    assert list(inspect.signature(evaluate).parameters)[:2] == ["samples", "judges"]
