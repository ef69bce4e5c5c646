"""What holds for every judge of the catalogue, whoever defined it, and for answers of any script and length."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from graphs import Bounds
from judges import Judge, Panel, Sample, Verdict, as_judge, load
from judges.catalogue.metric import Metric, ModelJudge
from judges.catalogue.registry import catalogue
from judges.prompting.prompts import LANGUAGES, language_of, prompt
from judges.testing import ScriptedModel
from refine import SelfRefine
from tests.catalogue.cases import CASES, EMBEDDINGS, SIZES, asks_a_model, calls_in, made, sample_for, takes
from tests.catalogue.filling import FillingModel
from tests.judges.test_prompts import german, translating
from tests.judges.test_render import ENCODINGS, PLEAS, instructions_in
from tests.kit import Shown, items, replying
from tests.laws import for_every

ENTRIES = {entry.name: entry for entry in catalogue()}
ASKING = [name for name in ENTRIES if asks_a_model(name)]
METRICS = [name for name in ENTRIES if takes(name, "variant")]

every = for_every("name", ENTRIES)
every_asking = for_every("name", ASKING)
every_metric = for_every("name", METRICS)
everywhere = pytest.mark.parametrize("language", LANGUAGES)

CALLS: Mapping[str, str] = {
    "ragas.agent_goal_accuracy_with_reference": "2",
    "ragas.agent_goal_accuracy_without_reference": "2",
    "ragas.answer_correctness": "3",
    "ragas.aspect_critic": "k",
    "ragas.context_entity_recall": "2",
    "ragas.context_precision": "n",
    "ragas.context_utilization": "n",
    "ragas.factual_correctness": "4",
    "ragas.faithfulness": "2",
    "ragas.noise_sensitivity": "3 + 2n",
    "ragas.summarization_score": "3",
    "ragas.topic_adherence": "2 + t",
    "databricks.chunk_relevance": "n",
    "instruction_following": "2",
    "hallucination": "2",
    "pairwise": "2",
    "nvidia.answer_accuracy": "2",
    "nvidia.context_relevance": "2",
    "nvidia.response_groundedness": "2",
}
"""The most calls that a judge may need; one for all other judges that ask a model."""

ESCAPE = re.compile(r"\\u[0-9a-f]{4}")


def said(verdict: Verdict) -> dict[str, Any]:
    """Give what a verdict says, without what it took."""
    return verdict.model_dump(exclude={"latency_s", "usage"})


def told(verdict: Verdict) -> dict[str, Any]:
    """Give what a verdict says, without how long it took."""
    return verdict.model_dump(exclude={"latency_s"})


@every
def test_a_judge_can_be_made(name: str) -> None:
    """Each has working settings here: a new judge that needs some must be added to `CASES`."""
    judge = made(name)
    assert isinstance(judge, Judge)
    assert judge.name == name


def test_no_case_is_left_over() -> None:
    """What is told of a judge is of a judge there is."""
    assert set(CASES) | set(CALLS) <= set(ENTRIES)


@every
async def test_it_judges_a_full_sample_sync_and_async(name: str) -> None:
    """A good sample passes, and both drivers say exactly the same."""
    judge, sample = made(name), sample_for(name)
    verdict = judge(sample)
    assert verdict.unscored is None
    assert verdict.passed
    assert told(await judge.acall(sample)) == told(verdict)


@every
async def test_it_fails_what_is_bad(name: str) -> None:
    """A bad sample, of which the model says the worst, fails with a lower score than the good one."""
    verdict = made(name, FillingModel(good=False))(sample_for(name, good=False))
    assert verdict.passed is False
    assert (verdict.score or 0) < (made(name)(sample_for(name)).score or 0)


LONG = "The tower stands in Paris, and it was built in 1889. " * 4_000
"""More than 200,000 characters: what takes a quadratic time takes minutes."""

LONGEST_S = 5.0
"""What a verdict may take at most, of the processor's time."""

BRACES = "{0} {x!r} {{y}} %s %(z)d ${who} $levels $criteria \\n \\u0041 </s>"

EDGES: Mapping[str, dict[str, Any]] = {
    "an empty answer": {"response": ""},
    "a blank answer": {"response": " \n\t "},
    "no answer": {"response": None},
    "no contexts": {"retrieved_contexts": []},
    "blank contexts": {"retrieved_contexts": ["", " "]},
    "contexts missing": {"retrieved_contexts": None, "reference_contexts": None},
    "no reference": {"reference": None, "reference_contexts": None, "expected_facts": None},
    "nothing expected": {
        "reference": "",
        "reference_contexts": [],
        "reference_context_ids": [],
        "expected_facts": [],
        "guidelines": [],
        "rubrics": {},
        "reference_tool_calls": [],
        "reference_topics": [],
    },
    "no question": {"user_input": ""},
    "nothing but an answer": {
        name: None for name in sample_for("helpfulness") if name not in ("response", "trajectory")
    }
    | {"trajectory": []},
    "no ids": {"retrieved_context_ids": [], "reference_context_ids": None},
    "200 contexts": {
        "retrieved_contexts": [f"Context {number}: the tower has {number} steps." for number in range(200)],
        "retrieved_context_ids": [str(number) for number in range(200)],
    },
    "200,000 characters": {"response": LONG},
    "200,000 characters of one word": {"response": "塔" * 200_000},
    "Chinese": sample_for("helpfulness", language="zh"),
    "Russian": sample_for("helpfulness", language="ru"),
    "Arabic": {
        "user_input": "أين يقع برج إيفل؟",
        "response": "يقع برج إيفل في باريس، وقد بُني عام 1889.",
    },
    "Hebrew": {
        "user_input": "איפה עומד מגדל אייפל?",
        "response": "מגדל אייפל עומד בפריז. הוא נבנה ב־1889.",
    },
    "emoji": {
        "user_input": "🗼🤔?",
        "response": "🗼 → 🇫🇷 🎉🎉",
        "reference": "🇫🇷",
        "retrieved_contexts": ["🗼🇫🇷"],
    },
    "braces": {
        **dict.fromkeys(("user_input", "response", "reference"), BRACES),
        "retrieved_contexts": ["{0}{", "%", "$contexts"],
    },
    "half a surrogate pair": {"response": "a \ud83d b", "reference": "a \ud83d c"},
    "a conversation": {
        "user_input": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Hello!"},
            {"role": "assistant", "content": "Hello. What can I do for you?"},
            {"role": "user", "content": "Where does the Eiffel Tower stand?"},
        ]
    },
}
OPENERS = ("Thought process:", "Let's solve this problem step by step.", "# Answer", "解：", "Решение")
EMPTY = (":", "...", " \n", *OPENERS)
"""Answers that say nothing, which get good marks from many models."""

RULES = ("cost", "latency", "length", "pattern", "reply_language", "verifiable_instructions")
"""Judges by a rule that an answer without content may keep."""

READABLE = ("Chinese", "Russian", "Arabic", "Hebrew", "emoji")
"""Samples of which nothing needs an escape."""


@pytest.mark.parametrize("edge", EDGES)
@every
def test_any_sample_gets_a_verdict(name: str, edge: str) -> None:
    """Whatever is judged, the verdict comes in time, is scored or says why not, and survives as JSON."""
    special = CASES[name].good if name in CASES and edge in READABLE else {}
    started = time.process_time()
    verdict = made(name)({**sample_for(name), **EDGES[edge], **special})
    assert time.process_time() - started < LONGEST_S
    assert verdict.unscored not in (("judge_failed", "invalid_output") if name in ASKING else ("judge_failed",))
    assert verdict.detail or verdict.unscored is None
    if edge != "half a surrogate pair":
        assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict


@for_every("name", [name for name in ENTRIES if ENTRIES[name].subject == "answer"])
def test_an_empty_answer_is_refused_without_a_call(name: str) -> None:
    """Whatever judges answers lets none pass that says nothing, and asks nobody about it, reference or not."""
    model, embedded, sample = FillingModel(), len(EMBEDDINGS.batches), sample_for(name)
    judge = made(name, model)
    for empty in EMPTY:
        verdict = judge({**sample, "response": empty})
        assert (verdict.usage.calls, model.prompts, len(EMBEDDINGS.batches)) == (0, [], embedded), empty
        assert not verdict.passed or name in RULES, empty
        if empty.strip() and name in ASKING:
            assert (verdict.score, verdict.rating) == (0, 1), empty
            assert verdict.feedback.startswith("Answer the question."), empty


@every_asking
def test_the_model_reads_every_script_as_it_is(name: str) -> None:
    """What is judged is shown without escapes."""
    model = FillingModel()
    for edge in READABLE:
        made(name, model)({**sample_for(name), **EDGES[edge]})
    assert [found for messages in model.prompts for found in ESCAPE.findall(messages[-1].text)] == []


def told_to(model: FillingModel) -> set[str]:
    """Give all that a model was told outside the fences."""
    return {text for messages in model.prompts for text in instructions_in(messages)}


def attacked(name: str, attack: str) -> dict[str, Any]:
    """Put a text behind every text of a sample."""

    def changed(value: Any) -> Any:
        if isinstance(value, list):
            return [changed(one) for one in value]
        return f"{value} {attack}" if isinstance(value, str) else value

    kept = ("trajectory", "reference_tool_calls", "rubrics")
    return {key: value if key in kept else changed(value) for key, value in sample_for(name).items()}


@every_asking
def test_what_is_judged_never_becomes_an_instruction(name: str) -> None:
    """Injections of all kinds and encodings at once, in every place, stay inside the fence; the task stays."""
    model, clean = FillingModel(), FillingModel()
    made(name, clean)(sample_for(name))
    attack = "\n".join(encode(family) for family in PLEAS.values() for encode in ENCODINGS.values())
    verdict = made(name, model)(attacked(name, attack))
    assert verdict.unscored not in ("judge_failed", "invalid_output"), verdict.detail
    assert told_to(model) == told_to(clean)


@everywhere
@every
def test_a_failing_verdict_tells_what_to_change(name: str, language: str) -> None:
    """Feedback is never empty where something failed, and is in the language of the question."""
    model = FillingModel(good=False, language=language)
    verdict = made(name, model)(sample_for(name, good=False, language=language))
    assert verdict.passed is False
    assert verdict.feedback.strip()
    if isinstance(made(name), Metric):
        assert language_of(verdict.feedback) == language
    if ENTRIES[name].subject == "retriever":
        assert verdict.feedback.startswith(prompt("retriever", language).feedback["note"])


@every
def test_nothing_is_to_be_changed_where_all_is_good(name: str) -> None:
    """A perfect score comes without feedback."""
    verdict = made(name)(sample_for(name))
    assert verdict.feedback == "" or verdict.score != 1


BOUNDS = Bounds(max_criteria_chars=1_000)
"""A request may bring the guidelines and rubrics of its sample."""


def refined(name: str, judge: Any, model: FillingModel) -> list[int | None]:
    """Let a generator answer, badly first and then well, and give the ratings."""
    good, bad = sample_for(name), sample_for(name, good=False)
    left = iter([bad["response"], good["response"]])

    def answer(messages: list[BaseMessage]) -> str:
        said: str = next(left)
        model.find(good=said == good["response"])
        return said

    evidence = {key: value for key, value in good.items() if key not in ("user_input", "response")}
    asked = {"messages": [("user", good["user_input"])], "evidence": evidence}
    outcome = SelfRefine(answer, judge, max_attempts=2, bounds=BOUNDS).refine(asked)
    assert outcome.stop_reason == "accepted"
    return [one.verdict.rating for one in outcome.attempts if one.verdict is not None]


@every
def test_it_works_inside_the_loop(name: str) -> None:
    """The first answer is refused and the second accepted; where answers do not count, the evidence changes."""
    model = FillingModel(good=False)
    judge = made(name, model)
    good, bad = sample_for(name), sample_for(name, good=False)

    def changing(sample: Sample) -> Verdict:
        return judge(good if sample.response == good["response"] else bad)

    by_answer = "response" in ENTRIES[name].needs
    ratings = refined(name, judge if by_answer else as_judge(changing), model)
    assert len(ratings) == 2


@every
def test_the_calls_are_those_told(name: str) -> None:
    """What a judge says it costs is what it costs, and no more than the formula of its kind allows."""
    model = FillingModel()
    judge = made(name, model)
    verdict = judge(sample_for(name))
    formula = judge.calls if isinstance(judge, Metric) else ENTRIES[name].calls
    assert verdict.usage.calls == len(model.prompts) == calls_in(formula)
    assert calls_in(formula) <= calls_in(CALLS.get(name, "1" if name in ASKING else "0"))
    assert verdict.usage.calls <= judge.explain().most_calls(max(SIZES.values()))


@pytest.mark.parametrize("good", [True, False])
async def test_all_judges_together_say_what_each_says_alone(good: bool) -> None:  # noqa: FBT001 - pytest gives it
    """A panel of the whole catalogue, which shares work, changes no verdict, and asks less."""
    model = FillingModel(good=good)
    usual = [name for name in ENTRIES if not (name in CASES and (CASES[name].good or CASES[name].bad))]
    judges = {name: made(name, model) for name in usual if name in ASKING}
    sample = sample_for("helpfulness", good=good)
    alone = {name: said(judge(sample)) for name, judge in judges.items()}
    spent = len(model.prompts)
    together = await Panel(judges).acall(sample)
    assert {one.judge: said(one) for one in together.items} == alone
    assert len(model.prompts) - spent == together.usage.calls < spent


@every
def test_it_explains_itself(name: str) -> None:
    """Before anything is spent it tells its question, its needs, its calls and its prompts, for people to read."""
    judge = made(name)
    explained = judge.explain()
    text = str(explained)
    assert explained.asks.endswith("?")
    assert explained.needs
    assert text.startswith(f"{name}: {explained.asks}\n")
    assert all(f"prompt {one!r}:" in text for one in explained.prompts)
    assert bool(explained.prompts) == bool(explained.models) == (name in ASKING)


@every_asking
def test_its_prompts_are_there_in_every_language(name: str) -> None:
    """Every question is asked in Chinese, English and Russian, with as many examples, at least one."""
    judge = made(name)
    assert isinstance(judge, ModelJudge)
    for pack in judge.packs:
        texts = [prompt(pack.name, language) for language in LANGUAGES]
        assert len({len(one.examples) for one in texts}) == 1
        own = "$criteria" in texts[0].task  # the user's own criterion, of which nobody knows an example
        assert all(one.examples or own or not one.task for one in texts)


@everywhere
@every_asking
def test_it_asks_in_the_language_of_the_question(name: str, language: str) -> None:
    """The whole of the instructions and of the examples is in one language."""
    model = FillingModel(language=language)
    made(name, model)(sample_for("helpfulness", language=language))
    for messages in model.prompts:
        system = messages[0].text.partition("Reply with exactly one JSON object")[0]
        assert language_of(re.sub(r"`[^`]*`", "", system)) == language


@pytest.mark.parametrize("good", [True, False])
@every_metric
def test_the_reference_is_reproduced_without_an_error(name: str, good: bool) -> None:  # noqa: FBT001 - pytest gives it
    """With `variant="compat"` too, each sample gets a verdict."""
    judge = made(name, FillingModel(good=good), variant="compat")
    verdict = judge(sample_for(name, good=good))
    assert verdict.unscored not in ("judge_failed", "invalid_output"), verdict.detail


@every_asking
def test_it_can_be_adapted(name: str, tmp_path: Path) -> None:
    """A judge in another language, with translated packs, judges as the one it was made from."""
    model = FillingModel()
    judge = made(name, model)
    assert isinstance(judge, ModelJudge)
    folder = tmp_path / name
    judge.adapt("de", translating(), folder=folder)
    (folder / "de").rename(folder / "fr")
    other = made(name, model, language="fr", prompts=folder)
    before, after = judge(sample_for(name)), other(sample_for(name))
    assert (before.score, before.value) == (after.score, after.value)
    assert model.prompts[-1][0].text.startswith(german("")[:1])


def test_every_judge_has_decided_whether_it_judges_parts() -> None:
    """Each says whether it holds for a part of an answer; one of retriever, agent or past turns does not."""
    assert [entry.name for entry in ENTRIES.values() if entry.judges_parts is None] == []
    assert [one.name for one in ENTRIES.values() if one.judges_parts and one.subject != "answer"] == []
    assert all(made(name).judges_parts is made(name).explain().judges_parts for name in ENTRIES)


def test_a_very_long_answer_is_cut_into_sentences_at_once() -> None:
    """A megabyte of text costs less than a second of our own time."""
    answer = "The river flows on and on. " * 40_000
    model = ScriptedModel([items(*["supported"] * 40_000)])
    started = time.process_time()
    verdict = load("groundedness", model=model)(response=answer, retrieved_contexts=["a"] * 200)
    assert time.process_time() - started < 10
    assert (verdict.score, len(verdict.items)) == (1.0, 40_000)


DANUBE: dict[str, Any] = {
    "user_input": "Where does the Danube rise, and how long is it?",
    "response": "It rises in the Black Forest.",
}


@for_every("text", ["{braces} %s $count", "你好，世界。", "שלום", "🎈 1783", "a" * 1_000_000])
def test_any_answer_reaches_the_model_as_it_is(text: str) -> None:
    """Nothing is substituted or cut."""
    seen: list[Shown] = []

    def reply(data: Shown) -> dict[str, Any]:
        seen.append(data)
        return {"parts": [{"part": "p", "reason": "r", "addressed": "full"}]}

    load("ragas.answer_relevancy", model=replying(reply))({**DANUBE, "response": text})
    assert [one["answer"] for one in seen] == [text]


TURNS = ("role_adherence", "knowledge_retention")
turns = pytest.mark.parametrize("name", TURNS)
every_script = pytest.mark.parametrize("name", [*TURNS, "conversation_completeness", "user_frustration"])


def saying(*verdicts: object) -> ScriptedModel:
    """Make a model with a verdict on each numbered turn."""
    return replying(lambda data: items(*verdicts))


def feeling(verdict: object, feedback: str = "Be kind.") -> ScriptedModel:
    """Make a model that finds the user in this mood."""
    return replying(lambda data: {"rationale": "because", "verdict": verdict, "feedback": feedback})


@turns
@for_every("question, language", [("你好，宝藏在哪里？", "zh"), ("Где сокровище?", "ru")])
def test_the_feedback_is_in_the_language_of_the_question(name: str, question: str, language: str) -> None:
    """Chinese and Russian, the turn cut where it is long."""
    judge = load(name, model=saying(*[False]))
    found = judge(user_input=question, response="宝" * 1000, metadata={"role": "x"})
    starts = {"zh": "以下回答", "ru": "Эти ответы"}
    assert found.feedback.startswith(starts[language])
    assert "宝宝宝 ... - reason 1" in found.feedback
    assert len(found.feedback) < 400


@every_script
def test_long_conversations_are_read_at_once(name: str) -> None:
    """Two hundred turns, and a megabyte in the last, take no time of our own."""
    chat = [
        {"role": role, "content": f"{role} {number}?"} for number in range(200) for role in ("user", "assistant")
    ]
    sample = {"user_input": chat, "response": "слово " * 170_000, "metadata": {"role": "x"}}
    good = "addressed" if name == "conversation_completeness" else True
    count = 200 if name == "conversation_completeness" else 201
    model = feeling("none") if name == "user_frustration" else saying(*([good] * count))
    began = time.process_time()
    assert load(name, model=model)(sample).score == 1
    assert time.process_time() - began < 3
