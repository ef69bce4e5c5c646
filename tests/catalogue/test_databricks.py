"""Databricks' built-in judges: facts, sentences or labels, and one yes or no for compatibility."""

from __future__ import annotations

import time
from typing import Any

import pytest

from judges import Panel, load
from judges.testing import ScriptedModel
from tests.kit import asked, items

SPARK: dict[str, Any] = {
    "user_input": "What is the difference between reduceByKey and groupByKey?",
    "response": "With reduceByKey data is aggregated first. With groupByKey all of it is shuffled!",
    "expected_facts": ["reduceByKey aggregates before shuffling", "groupByKey shuffles all data"],
    "retrieved_contexts": ["reduceByKey aggregates data before shuffling it.", "groupByKey shuffles everything."],
}
ITEMISED = ["databricks.correctness", "databricks.context_sufficiency", "databricks.groundedness"]
LABELLED = ["databricks.relevance_to_query", "databricks.safety"]


def said(verdict: object, feedback: str = "Change it.") -> dict[str, Any]:
    """Write a reply to one question."""
    return {"rationale": "Because.", "verdict": verdict, "feedback": feedback}


@pytest.mark.parametrize("name", ITEMISED)
@pytest.mark.parametrize(
    ("standings", "score", "passed"),
    [
        (["supported", "supported"], 1.0, True),
        (["supported", "absent"], 0.5, False),
        (["contradicted", "absent"], 0.0, False),
    ],
)
async def test_the_score_is_the_share_supported_and_all_must_be(
    name: str,
    standings: list[str],
    score: float,
    passed: bool,  # noqa: FBT001 - a case
) -> None:
    """One verdict for each fact or sentence, in one call, sync and async."""
    judge = load(name, model=ScriptedModel([items(*standings)], cycle=True))
    for verdict in (judge(SPARK), await judge.acall(SPARK)):
        assert (verdict.value, verdict.score, verdict.passed) == (score, score, passed)
        assert [one.value for one in verdict.items] == standings
        assert [one.rationale for one in verdict.items] == ["reason 1", "reason 2"]
        assert verdict.usage.calls == 1
        assert bool(verdict.feedback) is not passed


@pytest.mark.parametrize("name", ITEMISED)
def test_a_share_may_suffice(name: str) -> None:
    """With a threshold below 1 some may fail."""
    judge = load(name, model=ScriptedModel([items("supported", "absent")]), threshold=0.5)
    assert judge(SPARK).passed


@pytest.mark.parametrize("name", ITEMISED)
@pytest.mark.parametrize(
    "reply",
    [
        items("supported"),
        items("supported", "yes"),
        items("supported", 1),
        {"items": [*items("supported", "absent")["items"], *items("supported")["items"]]},
        {"items": items("supported")["items"] * 2},
    ],
)
def test_a_list_that_does_not_fit_is_no_reply(name: str, reply: dict[str, Any]) -> None:
    """A missing, invented or repeated number is asked about once more, and then unscored."""
    verdict = load(name, model=ScriptedModel([reply], cycle=True))(SPARK)
    assert (verdict.unscored, verdict.usage.calls) == ("invalid_output", 2)


@pytest.mark.parametrize("name", [*ITEMISED, *LABELLED])
@pytest.mark.parametrize(
    ("word", "value", "score"),
    [("yes", "yes", 1.0), ("YES", "yes", 1.0), ("no", "no", 0.0), (" No ", "no", 0.0), ("true", "yes", 1.0)],
)
def test_compat_is_one_yes_or_no(name: str, word: str, value: str, score: float) -> None:
    """One overall answer, whatever there would be to say on the parts."""
    verdict = load(name, model=ScriptedModel([said(word)]), variant="compat")({**SPARK, "reference": None})
    assert (verdict.value, verdict.score, verdict.passed) == (value, score, bool(score))
    assert (verdict.items, verdict.usage.calls) == ((), 1)
    assert bool(verdict.feedback) is not bool(score)


@pytest.mark.parametrize("name", [*ITEMISED, *LABELLED])
@pytest.mark.parametrize("word", ["unknown", "", "perhaps", "yes and no"])
def test_compat_leaves_the_unknown_unscored(name: str, word: str) -> None:
    """What is neither yes nor no is left out of means."""
    verdict = load(name, model=ScriptedModel([said(word)]), variant="compat")(SPARK)
    assert (verdict.unscored, verdict.score) == ("undefined", None)


def test_the_mean_of_ratings_leaves_the_unknown_out() -> None:
    """Yes, yes, no and unknown: two of three."""
    model = ScriptedModel([said(one) for one in ("yes", "yes", "no", "UNKNOWN")])
    judge = load("databricks.safety", model=model, variant="compat")
    verdicts = [judge(response="Good day!") for _ in range(4)]
    scores = [one.score for one in verdicts if one.score is not None]
    assert sum(scores) / len(scores) == pytest.approx(2 / 3, abs=1e-12)
    assert [one.unscored for one in verdicts].count("undefined") == 1


@pytest.mark.parametrize("name", [*ITEMISED, *LABELLED])
@pytest.mark.parametrize(
    ("language", "part"), [("en", "Answer the question"), ("zh", "回答开头"), ("ru", "Ответь на вопрос")]
)
def test_compat_asks_in_the_language_of_the_question(name: str, language: str, part: str) -> None:
    """The judge's own question stands in the task; no placeholder is left."""
    model = ScriptedModel([said("yes")])
    load(name, model=model, variant="compat", language=language)(SPARK)
    assert part in model.prompts[0][-1].text
    assert "$" not in model.prompts[0][0].text


def test_correctness_names_contradictions_before_omissions() -> None:
    """The feedback says which facts to correct and which to add."""
    model = ScriptedModel([items("absent", "contradicted")])
    assert load("Correctness", model=model, reveal_reference=True)(SPARK).feedback.splitlines() == [
        "The answer contradicts these expected facts; correct it:",
        "- groupByKey shuffles all data",
        "The answer does not state these expected facts; add them:",
        "- reduceByKey aggregates before shuffling",
    ]


def test_correctness_does_not_hand_the_facts_to_the_generator() -> None:
    """Unless told, the feedback counts facts and quotes none."""
    model = ScriptedModel([items("absent", "contradicted")])
    assert load("Correctness", model=model)(SPARK).feedback.splitlines() == [
        "The answer contradicts 1 of the 2 facts that are expected of it; check what it states.",
        "The answer leaves out 1 of the 2 facts that are expected of it; answer more fully.",
    ]


@pytest.mark.parametrize(
    "word", ["yes", " Absolutely", "VALID", "1.0", "match", "nah", "not approved", "NULL", "0.0"]
)
def test_compat_reads_the_words_of_mlflow(word: str) -> None:
    """Words for yes and no are many there; any other is its UNKNOWN."""
    model = ScriptedModel([said(word), said("perhaps")])
    judge = load("databricks.safety", model=model, variant="compat")
    assert judge(SPARK).value == ("no" if word in {"nah", "not approved", "NULL", "0.0"} else "yes")
    assert judge(SPARK).unscored == "undefined"


@pytest.mark.parametrize("name", ["databricks.correctness", "databricks.context_sufficiency"])
def test_without_facts_the_sentences_of_the_reference_count(name: str) -> None:
    """Each sentence is a fact; with compat the reference stays whole."""
    sample = {**SPARK, "expected_facts": None, "reference": "One aggregates first. The other shuffles all."}
    model = ScriptedModel([items("supported", "supported"), said("yes")])
    load(name, model=model)(sample)
    load(name, model=model, variant="compat")(sample)
    first, second = ([one["fact"] for one in data["facts"]] for data in asked(model))
    assert first == ["One aggregates first.", "The other shuffles all."]
    assert second == [sample["reference"]]


@pytest.mark.parametrize("name", ["databricks.correctness", "databricks.context_sufficiency"])
def test_listed_facts_count_before_the_reference(name: str) -> None:
    """With both, the facts are looked for; the reference raises an error in mlflow, so compat is unscored."""
    sample = {**SPARK, "reference": "Something else."}
    model = ScriptedModel([items("supported", "supported")])
    assert [one.subject for one in load(name, model=model)(sample).items] == SPARK["expected_facts"]
    verdict = load(name, model=model, variant="compat")(sample)
    assert (verdict.unscored, verdict.usage.calls) == ("undefined", 0)
    assert "not both" in verdict.detail


def test_a_reference_without_letters_is_one_fact() -> None:
    """A tick is a fact as well."""
    model = ScriptedModel([items("supported")])
    verdict = load("correctness", model=model)(user_input="Done?", response="Yes.", reference="✓")
    assert [one.subject for one in verdict.items] == ["✓"]


def test_sufficiency_speaks_to_the_retriever() -> None:
    """It names what is missing, and says that no rewrite can help; no answer is needed."""
    model = ScriptedModel([items("supported", "absent")])
    verdict = load("RetrievalSufficiency", model=model)({**SPARK, "response": None})
    lines = verdict.feedback.splitlines()
    assert "no rewrite of the answer" in lines[0]
    assert lines[1:] == [
        "These facts, which a right answer needs, are missing from the documents:",
        "- groupByKey shuffles all data",
    ]
    assert load("context_sufficiency", model=model).entry.subject == "retriever"  # type: ignore[attr-defined]
    assert "answer" not in asked(model)[0]


def test_compat_sufficiency_speaks_to_the_retriever_too() -> None:
    """What the model advises follows the word that no rewrite can help; a yes needs neither."""
    model = ScriptedModel([said("no", "Look for shuffles."), said("yes")])
    judge = load("context_sufficiency", model=model, variant="compat")
    assert judge(SPARK).feedback.splitlines()[1] == "Look for shuffles."
    assert judge(SPARK).feedback == ""


def test_groundedness_numbers_the_sentences_of_the_answer() -> None:
    """All contexts are shown together, blank ones left out."""
    model = ScriptedModel([items("supported", "supported")])
    load("groundedness", model=model)({**SPARK, "retrieved_contexts": ["a", " ", "b"]})
    (shown,) = asked(model)
    assert shown["contexts"] == ["a", "b"]
    assert [one["number"] for one in shown["sentences"]] == [1, 2]
    assert [one["sentence"] for one in shown["sentences"]] == [
        "With reduceByKey data is aggregated first.",
        "With groupByKey all of it is shuffled!",
    ]


def test_groundedness_names_the_sentences() -> None:
    """What is contradicted is to be corrected, what is absent removed."""
    model = ScriptedModel([items("contradicted", "absent")])
    lines = load("RetrievalGroundedness", model=model)(SPARK).feedback.splitlines()
    assert (lines[1], lines[3]) == (
        "- With reduceByKey data is aggregated first.",
        "- With groupByKey all of it is shuffled!",
    )


@pytest.mark.parametrize(
    ("label", "score", "passed"), [("none", 0.0, False), ("partial", 0.5, True), ("full", 1.0, True)]
)
def test_relevance_has_three_levels(label: str, score: float, passed: bool) -> None:  # noqa: FBT001 - a case
    """A part counts as a yes, as in the reference, but can be told from the whole."""
    verdict = load("RelevanceToQuery", model=ScriptedModel([said(label)]))(SPARK)
    assert (verdict.value, verdict.score, verdict.passed) == (label, score, passed)
    assert verdict.feedback == ("" if label == "full" else "Change it.")


@pytest.mark.parametrize("label", ["hate", "harassment", "incitement", "illegal", "severe_harm"])
def test_safety_names_the_harm(label: str) -> None:
    """Every kind of harm fails."""
    verdict = load("Safety", model=ScriptedModel([said(label)]))(SPARK)
    assert (verdict.value, verdict.score, verdict.passed, verdict.feedback) == (label, 0.0, False, "Change it.")


def test_safety_looks_at_the_answer_alone() -> None:
    """A refusal is safe whatever was asked, so the question is not shown, in either variant."""
    model = ScriptedModel([said("safe", ""), said("yes", "")])
    for variant in ("corrected", "compat"):
        assert load("safety", model=model, variant=variant)(user_input="How to pick?", response="No.").passed
    assert asked(model) == [{"answer": "No."}] * 2


@pytest.mark.parametrize("name", LABELLED)
@pytest.mark.parametrize("label", ["yes", True, "FULL", "", None])
def test_another_label_is_no_verdict(name: str, label: object) -> None:
    """It is asked for once more, and then unscored."""
    verdict = load(name, model=ScriptedModel([said(label)], cycle=True))(SPARK)
    assert (verdict.unscored, verdict.usage.calls) == ("invalid_output", 2)


@pytest.mark.parametrize(
    ("name", "fields", "reason"),
    [
        ("databricks.correctness", {"response": " "}, "no_response"),
        ("databricks.correctness", {"expected_facts": [" "]}, "no_reference"),
        ("databricks.context_sufficiency", {"retrieved_contexts": [" "]}, "no_contexts"),
        ("databricks.context_sufficiency", {"expected_facts": None}, "no_reference"),
        ("databricks.context_sufficiency", {"user_input": " "}, "no_question"),
        ("databricks.groundedness", {"response": ""}, "no_response"),
        ("databricks.groundedness", {"retrieved_contexts": []}, "no_contexts"),
        ("databricks.relevance_to_query", {"response": ""}, "no_response"),
        ("databricks.relevance_to_query", {"user_input": ""}, "no_question"),
        ("databricks.safety", {"response": ""}, "no_response"),
    ],
)
@pytest.mark.parametrize("variant", ["corrected", "compat"])
def test_nothing_to_judge_is_unscored(variant: str, name: str, fields: dict[str, Any], reason: str) -> None:
    """What cannot be judged has a reason, and costs nothing."""
    verdict = load(name, model=ScriptedModel([]), variant=variant)({**SPARK, **fields})
    assert (verdict.unscored, verdict.usage.calls) == (reason, 0)


def test_the_last_answer_of_a_conversation_is_judged() -> None:
    """Earlier turns are context, as in the reference."""
    turns = [
        ("user", "Hello"),
        ("assistant", "Hi"),
        ("user", "The capital of France?"),
        ("assistant", "Paris."),
    ]
    model = ScriptedModel([said("full", "")])
    load("relevance_to_query", model=model)(user_input=turns)
    (shown,) = asked(model)
    assert shown["answer"] == "Paris."
    assert [one["content"] for one in shown["question"]] == ["Hello", "Hi", "The capital of France?"]


@pytest.mark.parametrize(
    "answer",
    ["巴黎是法国的首都。人口很多！", "Париж — столица. Он велик.", "باريس. {x} %s 😀", "{{ outputs }} $facts"],
)
def test_any_script_reaches_the_model_unchanged(answer: str) -> None:
    """Braces, emoji and other scripts are data."""
    model = ScriptedModel([said("safe", "")])
    load("safety", model=model)(response=answer)
    assert asked(model) == [{"answer": answer}]


def test_a_very_long_answer_is_cut_into_sentences_at_once() -> None:
    """A megabyte of text costs less than a second of our own time."""
    answer = "The river flows on and on. " * 40_000
    model = ScriptedModel([items(*["supported"] * 40_000)])
    started = time.process_time()
    verdict = load("groundedness", model=model)(response=answer, retrieved_contexts=["a"] * 200)
    assert time.process_time() - started < 10
    assert (verdict.score, len(verdict.items)) == (1.0, 40_000)


def test_judges_of_one_family_work_in_a_panel() -> None:
    """Each member gives its own verdict on the sample."""
    names = ("databricks.correctness", "databricks.groundedness")
    model = ScriptedModel([items("supported", "supported")], cycle=True)
    verdict = Panel([load(name, model=model) for name in names])(SPARK)
    assert [one.judge for one in verdict.items] == list(names)
    assert verdict.passed
