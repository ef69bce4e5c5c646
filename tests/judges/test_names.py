"""A judge is found under any of its names, wherever results or members are looked up; JSON has one of them."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from judges import Cascade, ConfigurationError, Length, Panel, load
from judges.offline import Evaluation, Row, evaluate
from judges.rag import RAGEvaluator
from judges.testing import ScriptedEmbeddings, ScriptedModel

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
