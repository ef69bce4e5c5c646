"""Answer relevancy compares the question with those the answer would answer, or looks at its parts."""

from __future__ import annotations

from typing import Any

import pytest

from judges import ConfigurationError, load
from judges.testing import ScriptedEmbeddings, ScriptedModel
from tests.kit import Shown, asked, replying

DANUBE: dict[str, Any] = {
    "user_input": "Where does the Danube rise, and how long is it?",
    "response": "It rises in the Black Forest.",
}
QUESTION = DANUBE["user_input"]


def asking_back(*found: tuple[str, object]) -> ScriptedModel:
    """Make a model that writes these questions in one reply, each with its flag."""
    items = [
        {"number": number, "question": question, "reason": f"reason {number}", "noncommittal": flag}
        for number, (question, flag) in enumerate(found, 1)
    ]
    return replying(lambda data: {"items": items})


def asking_back_apart(*found: object) -> ScriptedModel:
    """Make a model that writes one of these questions a call, with its flag, or fails."""
    lines = [{"question": one[0], "noncommittal": one[1]} if isinstance(one, tuple) else one for one in found]
    return ScriptedModel(lines)


def near(**cosines: float) -> ScriptedEmbeddings:
    """Make embeddings in which each text has this cosine with the question."""
    vectors = {name: [cosine, (1 - cosine**2) ** 0.5] for name, cosine in cosines.items()}
    return ScriptedEmbeddings({QUESTION: [1.0, 0.0], **vectors, "": [0.0, 1.0]})


def addressing(*levels: object) -> ScriptedModel:
    """Make a model that finds as many parts, each addressed so far."""
    parts = [
        {"part": f"part {number}", "reason": f"reason {number}", "addressed": one}
        for number, one in enumerate(levels, 1)
    ]
    return replying(lambda data: {"parts": parts})


@pytest.mark.parametrize(
    ("cosines", "flags", "value", "score"),
    [
        ([1, 1, 0], [0, 0, 0], 2 / 3, 2 / 3),
        ([1, 1, 1], [0, 0, 0], 1.0, 1.0),
        ([1, 1, 1], [1, 0, 0], 1.0, 1.0),
        ([1, 1, 1], [1, 1, 0], 0.0, 0.0),
        ([1, 1, 1], [1, 1, 1], 0.0, 0.0),
        ([-1, -1, 0.5], [0, 0, 0], -0.5, 0.0),
        ([0.9], [0], 0.9, 0.9),
        ([0.8, 0.6], [1, 0], 0.7, 0.7),
    ],
)
async def test_the_value_is_the_mean_cosine_unless_most_is_evasive(
    cosines: list[float], flags: list[int], value: float, score: float
) -> None:
    """One call for all questions, one batch of texts; sync and async."""
    names = ["a", "b", "c"][: len(cosines)]
    model = asking_back(*[(name, bool(flag)) for name, flag in zip(names, flags, strict=True)])
    embeddings = near(**dict(zip(names, cosines, strict=True)))
    judge = load("ragas.answer_relevancy", model=model, embeddings=embeddings, strictness=len(cosines))
    for verdict in (judge(DANUBE), await judge.acall(DANUBE)):
        assert [verdict.value, verdict.score] == pytest.approx([value, score], abs=1e-12)
        assert verdict.usage.calls == 1
        assert [one.subject for one in verdict.items] == names
        assert [one.value for one in verdict.items] == pytest.approx(cosines, abs=1e-12)
    assert embeddings.batches == [[QUESTION, *names]] * 2
    assert asked(model) == [{"answer": DANUBE["response"], "count": len(cosines)}] * 2


@pytest.mark.parametrize("name", ["answer_relevancy", "ResponseRelevancy", "ragas.response_relevancy"])
@pytest.mark.parametrize(
    ("cosines", "flags", "value"),
    [
        ([1, 1, 0], [0, 0, 0], 0.6666666666666666),
        ([1, 1, 1], [1, 1, 0], 1.0),
        ([1, 1, 1], [1, 1, 1], 0.0),
        ([1, 1, 1], [2, 1, 7], 0.0),
        ([-1, 0, 0], [0, 0, 0], -1 / 3),
    ],
)
async def test_compat_gives_the_numbers_of_ragas(
    name: str, cosines: list[float], flags: list[int], value: float
) -> None:
    """A call for each question; 0 only if all flags are set."""
    for how in ("sync", "async"):
        model = asking_back_apart(*zip("abc", flags, strict=True))
        embeddings = near(**dict(zip("abc", cosines, strict=True)))
        judge = load(name, model=model, embeddings=embeddings, variant="compat")
        verdict = judge(DANUBE) if how == "sync" else await judge.acall(DANUBE)
        assert verdict.value == pytest.approx(value, abs=1e-12)
        assert verdict.score == pytest.approx(max(0, value), abs=1e-12)
        assert verdict.usage.calls == 3
        assert asked(model) == [{"answer": DANUBE["response"]}] * 3
        (batch,) = embeddings.batches
        assert sorted(batch) == sorted([QUESTION, "a", "b", "c"])


def test_compat_embeds_an_empty_question_among_others() -> None:
    """As ragas does."""
    model = asking_back_apart(("a", 0), ("", 0))
    judge = load("ragas.answer_relevancy", model=model, embeddings=near(a=1), variant="compat", strictness=2)
    assert judge(DANUBE).value == 0.5


def test_an_empty_question_is_left_out() -> None:
    """It says nothing of the answer."""
    model = asking_back(("a", False), (" ", False), ("b", False))
    verdict = load("ragas.answer_relevancy", model=model, embeddings=near(a=1, b=0.5))(DANUBE)
    assert verdict.value == pytest.approx(0.75)


@pytest.mark.parametrize("flag", [0, 1])
def test_without_any_question_it_is_unscored(flag: int) -> None:
    """In both variants; nothing is embedded."""
    embeddings = near()
    judge = load("ragas.answer_relevancy", model=asking_back(*[("", bool(flag))] * 3), embeddings=embeddings)
    assert judge(DANUBE).unscored == "undefined"
    model = asking_back_apart(*[("", flag)] * 3)
    judge = load("ragas.answer_relevancy", model=model, embeddings=embeddings, variant="compat")
    assert judge(DANUBE).unscored == "undefined"
    assert embeddings.batches == []


def test_one_of_several_calls_may_fail() -> None:
    """The others still tell the value; the failed one is an unscored item."""
    model = asking_back_apart(("a", 0), RuntimeError("busy"), ("a", 0))
    judge = load("ragas.answer_relevancy", model=model, embeddings=near(a=0.6), variant="compat")
    verdict = judge(DANUBE)
    assert verdict.value == pytest.approx(0.6)
    assert [one.unscored for one in verdict.items] == [None, None, "judge_failed"]


def test_when_all_calls_fail_it_is_unscored() -> None:
    """With the first failure."""
    model = asking_back_apart(*[RuntimeError("busy")] * 3)
    verdict = load("ragas.answer_relevancy", model=model, embeddings=near(), variant="compat")(DANUBE)
    assert verdict.unscored == "judge_failed"


@pytest.mark.parametrize(
    "items",
    [
        [("a", False), ("b", False)],
        [("a", False)] * 4,
        [("a", False), ("b", "maybe"), ("c", False)],
        [("a", False), ("b", None), ("c", False)],
    ],
    ids=["too few", "too many", "a word as flag", "no flag"],
)
def test_a_reply_that_is_not_what_was_asked_for_is_asked_for_again(items: list[tuple[str, object]]) -> None:
    """Once; then the verdict is unscored."""
    model = asking_back(*items)
    verdict = load("ragas.answer_relevancy", model=model, embeddings=near(a=1, b=1, c=1))(DANUBE)
    assert (verdict.unscored, verdict.usage.calls) == ("invalid_output", 2)


@pytest.mark.parametrize(
    ("question", "evasive", "astray"),
    [
        ("Where?", "The answer evades the question", "The answer fits these questions"),
        ("在哪里？", "回答回避了问题", "回答针对的不是所提的问题"),
        ("Где?", "Ответ уклоняется", "Это ответ не на заданный вопрос"),
    ],
)
def test_the_feedback_tells_evasion_from_an_answer_to_something_else(
    question: str, evasive: str, astray: str
) -> None:
    """In the language of the question; the questions it does answer are named."""
    embeddings = ScriptedEmbeddings({question: [1, 0], "a?": [0, 1]})
    sample = {**DANUBE, "user_input": question}
    for flag, wanted in ((True, evasive), (False, astray)):
        judge = load(
            "ragas.answer_relevancy", model=asking_back(("a?", flag)), embeddings=embeddings, strictness=1
        )
        feedback = judge(sample).feedback
        assert feedback.startswith(wanted)
        assert ("- a?" in feedback) is not flag


def test_there_is_no_feedback_where_the_answer_is_to_the_question() -> None:
    """Nothing is to change."""
    verdict = load("ragas.answer_relevancy", model=asking_back(*[("a", False)] * 3), embeddings=near(a=0.9))(
        DANUBE
    )
    assert (verdict.passed, verdict.feedback) == (True, "")


def test_a_vector_of_zeros_is_unscored() -> None:
    """It has no direction."""
    embeddings = ScriptedEmbeddings(lambda text: [0.0, 0.0])
    verdict = load("ragas.answer_relevancy", model=asking_back(*[("a", False)] * 3), embeddings=embeddings)(DANUBE)
    assert verdict.unscored == "undefined"


@pytest.mark.parametrize(
    ("levels", "value", "score"),
    [
        (["full"], "full", 1.0),
        (["full", "full"], "full", 1.0),
        (["full", "none"], "partial", 0.5),
        (["partial"], "partial", 0.5),
        (["partial", "none"], "partial", 0.5),
        (["none", "none"], "none", 0.0),
    ],
)
async def test_without_embeddings_a_model_says_what_is_addressed(
    levels: list[str], value: str, score: float
) -> None:
    """One call; full where all parts are, none where none is, else partial. Sync and async."""
    model = addressing(*levels)
    judge = load("ragas.answer_relevancy", model=model)
    for verdict in (judge(DANUBE), await judge.acall(DANUBE)):
        assert (verdict.value, verdict.score, verdict.usage.calls) == (value, score, 1)
        assert [one.value for one in verdict.items] == levels
        assert "part 1: reason 1" in verdict.rationale
    assert asked(model) == [{"question": QUESTION, "answer": DANUBE["response"]}] * 2


def test_the_feedback_names_what_is_not_addressed() -> None:
    """In full, that is; nothing where everything is."""
    verdict = load("ragas.answer_relevancy", model=addressing("full", "none", "partial"))(DANUBE)
    assert verdict.feedback.splitlines() == [
        "These parts of the question are not, or not fully, answered; answer them:",
        "- part 2",
        "- part 3",
    ]
    assert load("ragas.answer_relevancy", model=addressing("full"))(DANUBE).feedback == ""


def test_embeddings_may_be_left_unused() -> None:
    """With method='judge'."""
    embeddings = near()
    judge = load("ragas.answer_relevancy", model=addressing("full"), embeddings=embeddings, method="judge")
    assert (judge(DANUBE).value, embeddings.batches) == ("full", [])


@pytest.mark.parametrize("levels", [[], ["mostly"], ["full", 1], [True]], ids=str)
def test_parts_that_cannot_be_read_leave_it_unscored(levels: list[object]) -> None:
    """No part at all, or a level that is none."""
    verdict = load("ragas.answer_relevancy", model=addressing(*levels))(DANUBE)
    assert (verdict.unscored, verdict.usage.calls) == ("invalid_output", 2)


@pytest.mark.parametrize("settings", [{}, {"embeddings": near()}, {"embeddings": near(), "variant": "compat"}])
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"response": " "}, "no_response"),
        ({"response": None}, "no_response"),
        ({"user_input": ""}, "no_question"),
        ({"user_input": None}, "no_question"),
    ],
)
def test_nothing_to_judge_costs_nothing(settings: dict[str, Any], fields: dict[str, Any], reason: str) -> None:
    """It is unscored."""
    verdict = load("ragas.answer_relevancy", model=addressing("full"), **settings)({**DANUBE, **fields})
    assert (verdict.unscored, verdict.usage.calls) == (reason, 0)


def test_of_a_conversation_the_last_question_counts() -> None:
    """It is embedded; a model that judges sees what came before."""
    talk = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": "In the Black Forest."},
    ]
    embeddings = near(a=1)
    load("ragas.answer_relevancy", model=asking_back(*[("a", False)] * 3), embeddings=embeddings)(
        {"messages": talk}
    )
    assert embeddings.batches == [[QUESTION, "a", "a", "a"]]
    model = addressing("full")
    load("ragas.answer_relevancy", model=model)({"messages": talk})
    assert [one["content"] for one in asked(model)[0]["question"]] == ["Hello", "Hello!", QUESTION]


@pytest.mark.parametrize(
    ("settings", "calls", "prompts"),
    [
        ({}, "1", {"addressed"}),
        ({"embeddings": near()}, "1", {"reverse_questions"}),
        ({"embeddings": near(), "variant": "compat", "strictness": 5}, "5", {"reverse_question"}),
    ],
)
def test_it_tells_what_it_will_cost(settings: dict[str, Any], calls: str, prompts: set[str]) -> None:
    """As it is set up."""
    told = load("ragas.answer_relevancy", model=addressing(), **settings).explain()
    assert (told.calls, set(told.prompts)) == (calls, prompts)


@pytest.mark.parametrize(
    "settings",
    [
        {"strictness": 0},
        {"strictness": True},
        {"strictness": 2.0},
        {"method": "cosine"},
        {"method": "embeddings"},
        {"variant": "compat"},
        {"variant": "compat", "method": "judge", "embeddings": near()},
        {"embeddings": "text-embedding-3-small"},
    ],
    ids=", ".join,
)
def test_a_wrong_setting_is_refused(settings: dict[str, Any]) -> None:
    """At construction."""
    with pytest.raises(ConfigurationError):
        load("ragas.answer_relevancy", model=addressing(), **settings)


@pytest.mark.parametrize("text", ["{braces} %s $count", "你好，世界。", "שלום", "🎈", "a" * 1_000_000])
def test_any_answer_reaches_the_model_as_it_is(text: str) -> None:
    """Nothing is substituted or cut."""
    seen: list[Shown] = []

    def reply(data: Shown) -> dict[str, Any]:
        seen.append(data)
        return {"parts": [{"part": "p", "reason": "r", "addressed": "full"}]}

    load("ragas.answer_relevancy", model=replying(reply))({**DANUBE, "response": text})
    assert [one["answer"] for one in seen] == [text]
