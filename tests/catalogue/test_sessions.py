"""Judges of whole conversations: completeness, frustration, role and memory, one call each."""

from __future__ import annotations

import time
from typing import Any

import pytest

from judges import ConfigurationError, load
from judges.testing import ScriptedModel
from tests.kit import asked, items, replying

CHAT: dict[str, Any] = {
    "user_input": [
        {"role": "system", "content": "You are a pirate."},
        {"role": "user", "content": "I am Ann. Where is the treasure?"},
        {"role": "assistant", "content": "", "tool_calls": [{"name": "dig", "args": {"x": 1}}]},
        {"role": "tool", "content": "sand"},
        {"role": "assistant", "content": "Arr, on the island!"},
        {"role": "user", "content": "Which island, and what is my name?"},
    ],
    "response": "I am a bank clerk.",
}
TURNS = ("role_adherence", "knowledge_retention")
turns = pytest.mark.parametrize("name", TURNS)
every = pytest.mark.parametrize("name", [*TURNS, "conversation_completeness", "user_frustration"])


def saying(*verdicts: object) -> ScriptedModel:
    """Make a model with a verdict on each numbered turn."""
    return replying(lambda data: items(*verdicts))


def feeling(verdict: object, feedback: str = "Be kind.") -> ScriptedModel:
    """Make a model that finds the user in this mood."""
    return replying(lambda data: {"rationale": "because", "verdict": verdict, "feedback": feedback})


def fitting(name: str) -> ScriptedModel:
    """Make a model whose reply fits the judge."""
    if name == "user_frustration":
        return feeling("none")
    return saying(*(["addressed"] * 2 if name == "conversation_completeness" else [True] * 2))


@pytest.mark.parametrize(
    ("name", "verdicts", "score", "compat"),
    [
        ("role_adherence", [True, True], 1.0, 1.0),
        ("role_adherence", [True, False], 0.5, 0.0),
        ("role_adherence", [False, False], 0.0, 0.0),
        ("knowledge_retention", [True, True], 1.0, 1.0),
        ("knowledge_retention", [True, False], 0.0, 0.0),
        ("conversation_completeness", ["addressed", "addressed"], 1.0, 1.0),
        ("conversation_completeness", ["open", "addressed"], 0.5, 0.0),
        ("conversation_completeness", ["nothing_asked", "addressed"], 1.0, 1.0),
        ("conversation_completeness", ["nothing_asked", "open"], 0.0, 0.0),
    ],
)
async def test_the_turns_make_the_score(name: str, verdicts: list[object], score: float, compat: float) -> None:
    """The share of good turns, or the worst turn; it passes only if all are good. One call, sync and async."""
    judge = load(f"mlflow.{name}", model=saying(*verdicts))
    for found in (judge(CHAT), await judge.acall(CHAT)):
        assert (found.score, found.passed, found.usage.calls) == (score, score == 1, 1)
        assert len(found.items) == len([one for one in verdicts if one != "nothing_asked"])
        assert bool(found.feedback) == (score < 1)
    assert load(f"mlflow.{name}", model=saying(*verdicts), variant="compat")(CHAT).score == compat


@pytest.mark.parametrize(
    ("mood", "score", "passed"), [("none", 1, True), ("resolved", 0.5, True), ("unresolved", 0, False)]
)
@pytest.mark.parametrize("variant", ["corrected", "compat"])
async def test_frustration_has_three_degrees(mood: str, score: float, passed: bool, variant: str) -> None:  # noqa: FBT001
    """The label is the value; feedback is for those who were frustrated."""
    judge = load("mlflow.user_frustration", model=feeling(mood), variant=variant)
    for found in (judge(CHAT), await judge.acall(CHAT)):
        assert (found.value, found.score, found.passed, found.usage.calls) == (mood, score, passed, 1)
        assert (found.rationale, found.feedback) == ("because", "" if mood == "none" else "Be kind.")


def test_the_pass_mark_can_be_lowered() -> None:
    """Half of the answers in the role may be enough."""
    assert load("role_adherence", model=saying(*[True, False]), threshold=0.5)(CHAT).passed


def test_the_users_messages_are_numbered_for_completeness() -> None:
    """All of the conversation is shown, the last answer included; only the user's messages have numbers."""
    model = fitting("conversation_completeness")
    found = load("ConversationCompleteness", model=model)(CHAT)
    (shown,) = asked(model)
    assert shown["conversation"] == [
        {"role": "system", "content": "You are a pirate."},
        {"number": 1, "role": "user", "content": "I am Ann. Where is the treasure?"},
        {"role": "assistant", "tool_calls": [{"name": "dig", "args": {"x": 1}}]},
        {"role": "tool", "content": "sand"},
        {"role": "assistant", "content": "Arr, on the island!"},
        {"number": 2, "role": "user", "content": "Which island, and what is my name?"},
        {"role": "assistant", "content": "I am a bank clerk."},
    ]
    assert [one.subject for one in found.items] == [
        "I am Ann. Where is the treasure?",
        "Which island, and what is my name?",
    ]


def test_the_answers_are_numbered_for_role_and_memory() -> None:
    """Messages that only call tools are shown without a number; a role leaves the system message out."""
    for name in TURNS:
        model = fitting(name)
        found = load(name, model=model)(CHAT)
        (shown,) = asked(model)
        numbers = [one.get("number") for one in shown["conversation"] if one["role"] == "assistant"]
        assert numbers == [None, 1, 2]
        assert [one.subject for one in found.items] == ["Arr, on the island!", "I am a bank clerk."]
        systems = [one for one in shown["conversation"] if one["role"] == "system"]
        assert len(systems) == (name == "knowledge_retention")


@pytest.mark.parametrize(
    ("name", "verdicts", "lines"),
    [
        (
            "role_adherence",
            [True, False],
            ["These answers left the role; keep to it in the next one:", "- I am a bank clerk. - reason 2"],
        ),
        (
            "knowledge_retention",
            [False, True],
            [
                "These answers forgot or contradicted what the user said; take it into account in the next one:",
                "- Arr, on the island! - reason 1",
            ],
        ),
        (
            "conversation_completeness",
            ["addressed", "open"],
            [
                "These requests of the user are still open; deal with them fully:",
                "- Which island, and what is my name? - reason 2",
            ],
        ),
    ],
)
def test_the_feedback_names_the_turns(name: str, verdicts: list[object], lines: list[str]) -> None:
    """With the reasons, so that the next answer can do better."""
    found = load(name, model=saying(*verdicts))(CHAT)
    assert found.feedback.splitlines() == lines
    assert lines[1].removeprefix("- ").replace(" - reason", ": reason") == found.rationale


@pytest.mark.parametrize(
    ("settings", "fields", "role"),
    [
        ({}, {}, "You are a pirate."),
        ({}, {"metadata": {"role": "a clerk"}}, "a clerk"),
        ({"role": "a queen"}, {"metadata": {"role": "a clerk"}}, "a queen"),
        ({}, {"metadata": {"role": 3}}, "You are a pirate."),
    ],
)
def test_the_role_comes_from_setting_metadata_or_system_message(
    settings: dict[str, Any], fields: dict[str, Any], role: str
) -> None:
    """In this order."""
    model = fitting("role_adherence")
    load("RoleAdherence", model=model, **settings)({**CHAT, **fields})
    assert asked(model)[0]["role"] == role


def test_without_a_role_there_is_no_verdict() -> None:
    """Nothing is asked."""
    found = load("role_adherence", model=fitting("role_adherence"))(user_input="Hi", response="Ho")
    assert (found.unscored, found.usage.calls) == ("no_guidelines", 0)


@pytest.mark.parametrize("role", ["", " ", 3])
def test_a_blank_role_is_refused(role: Any) -> None:
    """At construction."""
    with pytest.raises(ConfigurationError, match=r"role is (the role in words|a text)"):
        load("role_adherence", model=saying(), role=role)


def test_where_nothing_is_asked_completeness_is_unscored() -> None:
    """Greetings need no answer."""
    found = load("conversation_completeness", model=saying("nothing_asked", "nothing_asked"))(CHAT)
    assert (found.unscored, found.usage.calls) == ("no_question", 1)


@every
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"response": " "}, "no_response"),
        ({"user_input": "Hi", "response": None}, "no_response"),
        ({"user_input": None, "response": "Ho"}, "no_question"),
    ],
)
def test_nothing_to_judge_is_unscored(name: str, fields: dict[str, Any], reason: str) -> None:
    """Before anything is spent."""
    found = load(name, model=fitting(name))({**CHAT, "metadata": {"role": "a pirate"}, **fields})
    assert (found.unscored, found.usage.calls) == (reason, 0)


@turns
def test_an_agent_that_only_calls_tools_says_nothing(name: str) -> None:
    """There is no answer to have a role or a memory."""
    sample = {**CHAT, "user_input": CHAT["user_input"][:4], "response": None}
    assert load(name, model=fitting(name))(sample).unscored == "no_response"


@every
def test_a_conversation_may_have_a_single_turn(name: str) -> None:
    """A question and an answer are enough."""
    model = (
        feeling("none")
        if name == "user_frustration"
        else saying("addressed" if name == "conversation_completeness" else True)
    )
    assert load(name, model=model)(user_input="Hi?", response="Ho", metadata={"role": "x"}).score == 1


@pytest.mark.parametrize(
    ("name", "verdicts"),
    [
        ("role_adherence", [True]),
        ("role_adherence", [True, True, True]),
        ("role_adherence", ["yes", "no"]),
        ("knowledge_retention", [True]),
        ("knowledge_retention", [1, 0]),
        ("conversation_completeness", ["addressed"]),
        ("conversation_completeness", ["addressed", "closed"]),
        ("conversation_completeness", [True, False]),
    ],
)
def test_a_faulty_list_is_asked_for_again(name: str, verdicts: list[object]) -> None:
    """A number left out or invented, or a verdict outside the set: once more, then unscored."""
    found = load(name, model=saying(*verdicts))(CHAT)
    assert (found.unscored, found.usage.calls) == ("invalid_output", 2)


def test_an_unknown_mood_is_refused() -> None:
    """Only the three degrees."""
    assert load("user_frustration", model=feeling("some"))(CHAT).unscored == "invalid_output"


@turns
@pytest.mark.parametrize(("question", "language"), [("你好，宝藏在哪里？", "zh"), ("Где сокровище?", "ru")])
def test_the_feedback_is_in_the_language_of_the_question(name: str, question: str, language: str) -> None:
    """Chinese and Russian, the turn cut where it is long."""
    judge = load(name, model=saying(*[False]))
    found = judge(user_input=question, response="宝" * 1000, metadata={"role": "x"})
    starts = {"zh": "以下回答", "ru": "Эти ответы"}
    assert found.feedback.startswith(starts[language])
    assert "宝宝宝 ... - reason 1" in found.feedback
    assert len(found.feedback) < 400


@every
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
