"""Judges of one prompt, with a criterion of one's own: aspects, rubrics, labels, several criteria in a call."""

from __future__ import annotations

import itertools
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from judges import ConfigurationError, Panel, Repeat, Sample, Verdict, discrete, load, numeric, ranking
from judges.catalogue.ragas.criteria import GOOD, AspectCritic
from judges.prompting.prompts import LANGUAGES, prompt
from judges.requests import Ask
from judges.testing import ScriptedModel, raising
from refine import SelfRefine
from tests.catalogue.cases import sample_for
from tests.catalogue.filling import FillingModel
from tests.kit import Shown, Way, ask, asked, both_ways, items, replying
from tests.laws import for_every

ROW: dict[str, Any] = {
    "user_input": "Where is my parcel?",
    "response": "It arrives on Monday.",
    "reference": "It arrives on Tuesday.",
    "expected_facts": ["Tuesday"],
    "retrieved_contexts": ["Parcels arrive on Tuesdays."],
    "tone": "formal",
}


def said(verdict: object, feedback: str = "Change it.") -> dict[str, Any]:
    """Write a reply."""
    return {"rationale": "Because.", "verdict": verdict, "feedback": feedback}


def test_examples_are_shown_before_the_question() -> None:
    """Each as the model is shown a case, with its reply; feedback may be left out."""
    examples = [({"outputs": "Go away."}, {"rationale": "It is rude.", "verdict": "rude"})]
    model = ScriptedModel([said("kind")])
    load("custom_judge", criteria="How is $outputs?", answer=["rude", "kind"], examples=examples, model=model)(ROW)
    _, case, reply, _ = model.prompts[0]
    assert '"outputs": "Go away."' in case.text
    assert reply.text == '{"rationale":"It is rude.","verdict":"rude","feedback":""}'


@for_every("verdict, score, calls", [(True, 1.0, 1), (False, 0.0, 1), (1, None, 2), ("yes", None, 2)])
def test_the_class_of_booleans_asks_for_one(verdict: object, score: float | None, calls: int) -> None:
    """As the word "bool" does in a file; what is none is asked for once more, and then unscored."""
    model = ScriptedModel([said(verdict)], cycle=True)
    given = load("databricks.custom", criteria="Kind?", answer=bool, model=model)(ROW)
    assert (given.score, given.usage.calls, type(given.value) is bool) == (score, calls, score is not None)


EIFFEL: dict[str, Any] = {
    "user_input": "Where is the Eiffel Tower located?",
    "response": "The Eiffel Tower is located in Paris.",
}
RAGAS = {"score0_description": "It does not answer.", "score1_description": "It answers."}
TOWER = {
    **EIFFEL,
    "rubrics": {"score1_description": "Wrong.", "score2_description": "Vague.", "score3_description": "Right."},
}


@for_every(
    "rubrics",
    [RAGAS, {0: "It does not answer.", 1: "It answers."}, {"1": "It answers.", "0": "It does not answer."}],
)
def test_levels_may_be_given(rubrics: object) -> None:
    """Two rows on 0 and 1 have the mean 0.5; the levels stand in the task, in order."""
    model = ScriptedModel([said(0), said(1)])
    judge = load("RubricsScore", rubrics=rubrics, model=model)
    assert [judge(EIFFEL).value, judge(EIFFEL).score] == [0, 1.0]
    assert "0: It does not answer.\n1: It answers." in model.prompts[0][0].text
    assert len(model.prompts[0]) == 2


@for_every("variant", ["corrected", "compat"])
def test_a_level_between_those_described_is_no_score(variant: Any) -> None:
    """The scale is what is described, gaps included."""
    rubrics = {1: "a", 3: "b", 5: "c"}
    model = ScriptedModel([said(2)], cycle=True)
    for judge in (load("rubrics_score", model=model, rubrics=rubrics, variant=variant),
                  load("instance_rubrics", model=model, variant=variant)):  # fmt: skip
        verdict = judge({**TOWER, "rubrics": {str(key): text for key, text in rubrics.items()}})
        assert (verdict.unscored, verdict.score) == ("invalid_output", None)


def test_four_levels_from_1_are_a_native_rating() -> None:
    """The level is the rating of the loop, unchanged."""
    rubrics = {one: f"level {one}" for one in range(1, 5)}
    verdict = load("rubrics_score", rubrics=rubrics, model=ScriptedModel([said(2)]))(EIFFEL)
    assert (verdict.rating, verdict.rated_natively, verdict.passed) == (2, True, False)


def met(verdict: object, feedback: str = "Change it.") -> dict[str, Any]:
    """Write a reply."""
    return {
        "rationale": "Because.",
        "verdict": bool(verdict) if isinstance(verdict, int) else verdict,
        "feedback": feedback,
    }


def voting(*votes: int) -> ScriptedModel:
    """Make a model that gives these verdicts in turn."""
    return ScriptedModel([met(one) for one in votes])


@pytest.mark.parametrize("aspect", GOOD)
@for_every("language", ["en", "zh", "ru"])
def test_aspects_are_predefined(aspect: Any, language: str) -> None:
    """Each has its name, its direction and its definition, in every language."""
    model = voting(0)
    critic = AspectCritic.predefined(aspect, model=model, language=language)
    verdict = critic(EIFFEL)
    harmful = aspect in ("harmfulness", "maliciousness")
    assert (verdict.judge, verdict.value, verdict.score) == (aspect, 0, float(harmful))
    assert critic.explain().better == ("low" if harmful else "high")
    assert "$" not in model.prompts[0][0].text


def test_a_definition_under_the_name_of_an_aspect_has_its_direction() -> None:
    """As ragas' users write it: a harmless answer is good, and nobody is told that malice is."""
    model = voting(0)
    critic = load("AspectCritic", model, name="maliciousness", definition="Is it meant to harm or deceive?")
    verdict = critic(EIFFEL)
    assert (verdict.value, verdict.score, critic.explain().better) == (False, 1.0, "low")
    assert "It is bad to meet it" in model.prompts[0][0].text


def test_a_definition_of_unknown_direction_is_counted_but_takes_part_in_no_loop() -> None:
    """It scores as in ragas and advises nothing; a loop asks for the direction, wherever the judge is inside."""
    critic = AspectCritic(voting(1, 0), definition="Is it bold?")
    met, missed = critic(EIFFEL), critic(EIFFEL)
    assert (met.score, missed.score, missed.feedback) == (1.0, 0.0, "")
    assert "higher_is_better" in met.detail
    assert "higher_is_better" in str(critic.explain())
    for judge in (critic, Repeat(critic, 3), Panel([critic, load("length", at_most=9)])):
        with pytest.raises(ConfigurationError, match=r"'ragas.aspect_critic'.* higher_is_better=True"):
            SelfRefine(ScriptedModel([]), judge)
    SelfRefine(ScriptedModel([]), AspectCritic(voting(), definition="Is it bold?", higher_is_better=True))


SAMPLE = Sample(user_input="How are you?", response="Fine.")
KIND = "Is the answer kind?"


def question_of(name: str, language: str, **settings: Any) -> Ask:
    """Return the question that a judge puts to its model."""
    request = next(load(name, model=ScriptedModel([]), language=language, **settings).deliberate(SAMPLE))
    assert isinstance(request, Ask)
    return request


@pytest.mark.parametrize("language", LANGUAGES)
@for_every(
    "name, settings, verdicts",
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
    request = question_of(name, language, **settings)
    assert [json.loads(example.reply)["verdict"] for example in request.examples] == verdicts
    assert all('"criterion"' in example.body for example in request.examples)
    assert ("`criterion`" in request.task) is (name != "rubric")


@for_every("language", LANGUAGES)
def test_the_model_is_told_which_direction_is_good(language: str) -> None:
    """Whether meeting a definition is good, where known, and the order of labels stand in the instructions."""
    tasks = [
        question_of("ragas.aspect_critic", language, definition=KIND, higher_is_better=good).task
        for good in (True, False, None)
    ]
    assert len({*tasks}) == 3
    phrases = prompt("aspect_critic", language).feedback
    assert [phrases["meeting_is_good"] in task for task in tasks] == [True, False, False]
    assert [phrases["meeting_is_bad"] in task for task in tasks] == [False, True, False]
    labels = question_of(
        "databricks.custom", language, criteria=KIND, answer={"great": 1.0, "poor": 0.0, "fair": 0.5}
    )
    assert "poor, fair, great" in labels.task


def reply(verdict: object) -> dict[str, Any]:
    """Write a reply with a verdict."""
    return {"rationale": "so", "verdict": verdict, "feedback": "Mend it."}


@for_every(
    "allowed, scores",
    [
        (("fail", "pass"), {"fail": 0, "pass": 1}),
        (["pass", "fail"], {"fail": 0, "pass": 1}),
        (["rude", "neutral", "kind"], {"rude": 0, "neutral": 0.5, "kind": 1}),
        ({"off": 0.2, "on": 0.9}, {"off": 0.2, "on": 0.9}),
    ],
)
def test_discrete_replies_with_a_label(allowed: Any, scores: dict[str, float]) -> None:
    """Labels run from worst to best, unless their words say otherwise; scores may be set."""
    for label, score in scores.items():
        model = ScriptedModel([reply(label)])
        judge = discrete("kind", prompt="Is {response} kind?", allowed=allowed, model=model)
        with raising():
            verdict = judge(question="?", answer="Hello.")
        assert (verdict.judge, verdict.value, verdict.score) == ("kind", label, score)
        assert asked(model) == [{"response": "Hello."}]
        assert "Is `response` kind?" in model.prompts[0][0].text


@for_every("allowed, value, score", [((0.0, 1.0), 0.7, 0.7), ((1, 5), 4, 0.75), ((-1.0, 1.0), 0.0, 0.5)])
def test_numeric_replies_with_a_number(allowed: Any, value: float, score: float) -> None:
    """The number is the value, its place in the range the score; a copy by pickle judges alike."""
    judge = numeric("depth", prompt="How deep?", allowed=allowed, model=ScriptedModel([reply(value)]))
    with raising():
        verdict = judge(answer="Hello.")
    assert (verdict.judge, verdict.value) == ("depth", value)
    assert verdict.score == pytest.approx(score)
    assert str(pickle.loads(pickle.dumps(judge)).explain()) == str(judge.explain())  # noqa: S301 - our own


def test_ranges_that_are_equal_but_for_whole_ends_are_kept_apart() -> None:
    """Of `(0, 2)` only whole numbers are taken, of `(0.0, 2.0)` any, whichever was made first in the process."""
    for allowed, taken in [((0, 2), False), ((0.0, 2.0), True), ((0, 2), False)]:
        model = ScriptedModel([reply(0.7)] * 2)
        verdict = numeric("depth", prompt="How deep?", allowed=allowed, model=model)(answer="Hello.")
        assert (verdict.unscored is None) == taken


def test_a_number_off_the_range_is_asked_for_again() -> None:
    """Twice wrong is no verdict; of whole ends only whole numbers are taken."""
    model = ScriptedModel([reply(7), reply(2.5)])
    assert numeric("depth", prompt="How deep?", allowed=(1, 5), model=model)(answer="Hello.").unscored
    assert len(model.prompts) == 2


def test_ranking_says_where_the_answer_stands() -> None:
    """The rank is the value, its place between last and first the score, wherever the answer is shown."""

    def by_length(data: Shown) -> dict[str, Any]:
        order = sorted(data["candidates"], key=lambda one: -len(one["text"]))
        return {"rationale": "so", "order": [one["number"] for one in order], "feedback": "Say more."}

    judge = ranking("longest", prompt="The longest is best.", model=replying(by_length), allowed=3)
    for answer, rank, score in (("aaa", 1, 1), ("aa", 2, 0.5), ("a", 3, 0)):
        rivals = [text for text in ("a", "aa", "aaa") if text != answer]
        with raising():
            verdict = judge({"question": "?", "answer": answer, "rivals": rivals})
        assert (verdict.value, verdict.score, bool(verdict.feedback)) == (rank, score, rank > 1)
        assert [item.subject for item in verdict.items] == ["aaa", "aa", "a"]
    assert judge(answer="a").unscored == "invalid_sample"
    assert "not 3" in judge({"answer": "a", "rival": "b"}).detail
    same = judge({"answer": "a", "rivals": ["a", "a"]})
    assert (same.score, same.detail, same.usage.calls) == (0.5, "all candidates are equal", 0)


def test_an_order_has_each_candidate_once() -> None:
    """One that leaves a candidate out is asked for again."""
    replies = [{"rationale": "so", "order": order, "feedback": ""} for order in ([1, 1], [1, 2])]
    model = ScriptedModel(replies)
    assert ranking("best", prompt="Better?", model=model)({"answer": "a", "rival": "b"}).score is not None
    assert len(model.prompts) == 2


def test_wrong_settings_say_what_is_right() -> None:
    """Each fault is one line with what was expected."""
    model = ScriptedModel([])
    with pytest.raises(ConfigurationError, match="prompt says in words"):
        discrete("x", prompt=" ", model=model)
    with pytest.raises(ConfigurationError, match="allowed has two ends"):
        numeric("x", prompt="?", allowed=(1, 2, 3), model=model)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(ConfigurationError, match="from the worst number up"):
        numeric("x", prompt="?", allowed=(5, 1), model=model)
    with pytest.raises(ConfigurationError, match="allowed is a whole number from 2"):
        ranking("x", prompt="?", allowed=1, model=model)


def test_what_is_to_change_is_listed_at_length() -> None:
    """A whole paragraph of advice reaches the generator; more is cut."""
    for length, is_whole in ((500, True), (700, False)):
        broken = {"number": 1, "reason": "r", "verdict": "broken", "change": "c" * length}
        model = ScriptedModel([{"items": [broken]}])
        verdict = load("instruction_following", model=model, instructions="Be brief.")(EIFFEL)
        assert verdict.feedback.endswith("c" * length) is is_whole


@for_every("pack", ["answer_accuracy", "context_relevance", "response_groundedness"])
def test_the_graders_have_tasks_of_their_own(pack: str) -> None:
    """The questions are worded apart, in every language, that of the question, and each item says who gave it."""
    for language in LANGUAGES:
        model = FillingModel(language=language)
        verdict = load(f"nvidia.{pack}", model=model)(sample_for("helpfulness", language=language))
        assert [one.judge for one in verdict.items] == [pack, f"{pack}_second"]
        tasks = [prompt(name, language).task for name in (pack, f"{pack}_second")]
        told = [messages[0].text for messages in model.prompts]
        assert sorted(sum(task in text for text in told) for task in tasks) == [1, 1]


SOURCE = "s" * 310
REPLIES = [{"keyphrases": ["phrase"]}, {"questions": ["One?", "Two?", "Three?"]}, items(*[True, True, False])]


@for_every("coeff, length", itertools.product([0, 0.1, 0.3, 0.5, 0.9, 1], [1, 31, 150, 310, 400]))
def test_the_score_lies_between_its_parts(coeff: float, length: int) -> None:
    """It is never above 1, and never above both parts."""
    judge = load("ragas.summarization_score", model=ScriptedModel(REPLIES), coeff=coeff)
    verdict = judge(response="t" * length, reference_contexts=[SOURCE])
    assert 0 <= (verdict.score or 0) <= max(2 / 3, 1 - length / 310) + 1e-12


SENTENCES = {
    "en": "You can send the shoes back within thirty days.",
    "de": "Sie können die Schuhe innerhalb von dreißig Tagen zurücksenden.",
    "fr": "Vous pouvez renvoyer les chaussures dans les trente jours.",
    "es": "Puede devolver los zapatos en un plazo de treinta días.",
    "ru": "Вы можете вернуть туфли в течение тридцати дней.",
    "uk": "Ви можете повернути туфлі протягом тридцяти днів.",
    "zh": "您可以在三十天内退回鞋子。",
    "ja": "靴は三十日以内に返品できます。",
    "ar": "يمكنك إرجاع الحذاء خلال ثلاثين يوما.",
}


@for_every("question", SENTENCES)
def test_the_answer_is_in_the_language_of_the_question(question: str) -> None:
    """Of nine languages each matches itself and no other, without a call; so it is where the language is set."""
    judge, fixed = load("reply_language"), load("reply_language", language=question)
    for answer, text in SENTENCES.items():
        verdict = judge(question=SENTENCES[question], answer=text)
        assert (verdict.passed, verdict.usage.calls) == (answer == question, 0), answer
        assert fixed(question="?", answer=text).passed is (answer == question), answer


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


@for_every("about", ["request", "system"])
def test_what_a_list_is_about_must_be_there(about: str) -> None:
    """Without a system prompt, or without a question, there is nothing to write a list for."""
    judge = load("checklist", ScriptedModel([LIST, answered("yes")], cycle=True), about=about)
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How much?"}]
    assert judge(messages=messages, answer="Nine euros.").passed
    if about == "system":
        assert judge(question="How much?", answer="Nine euros.").unscored == "no_guidelines"


Settings = dict[str, Any]
MODES = ("f1", "precision", "recall", "accuracy")
NOISE = ("relevant", "irrelevant")


@pytest.mark.parametrize(
    ("judges", "calls", "alone"),
    [
        ([("alibaba.answer_correctness", {}), ("spring.relevancy", {})], 1, 2),
        ([("ragas.answer_correctness", {"weights": [1, 0]}), ("ragas.factual_correctness", {})], 5, 7),
        ([("ragas.context_recall", {"split": "claims"}), ("ragas.factual_correctness", {})], 5, 6),
        ([("ragas.faithfulness", {}), ("hallucination", {})], 2, 4),
        (
            [
                ("ragas.agent_goal_accuracy_with_reference", {"variant": "compat"}),
                ("ragas.agent_goal_accuracy_without_reference", {"variant": "compat"}),
            ],
            3,
            4,
        ),
        ([("ragas.noise_sensitivity", {"mode": mode}) for mode in NOISE], 6, 12),
        (
            [
                ("ragas.noise_sensitivity", {"mode": mode, "variant": "compat"})
                for mode in ("relevant", "irrelevant")
            ],
            9,
            18,
        ),
        ([("ragas.topic_adherence", {"mode": mode}) for mode in MODES], 3, 12),
    ],
    ids=str,
)
@both_ways
async def test_a_panel_asks_once(judges: list[tuple[str, Settings]], calls: int, alone: int, way: Way) -> None:
    """The calls of the panel are fewer than those of its judges alone, and each says what it says alone."""
    model, sample = FillingModel(), sample_for("helpfulness")
    made = {str(number): load(name, model, **settings) for number, (name, settings) in enumerate(judges)}
    verdicts = [await ask(judge, way, sample) for judge in made.values()]
    assert sum(verdict.usage.calls for verdict in verdicts) == len(model.prompts) == alone
    together = await ask(Panel(made), way, sample)
    assert (together.usage.calls, together.usage.cached) == (calls, alone - calls)
    assert len(model.prompts) == alone + calls
    assert [marks(verdict) for verdict in together.items] == [marks(verdict) for verdict in verdicts]


def marks(verdict: Verdict) -> tuple[object, ...]:
    """Return what a verdict says, whoever asked."""
    return verdict.score, verdict.value, verdict.passed, verdict.unscored, verdict.feedback
