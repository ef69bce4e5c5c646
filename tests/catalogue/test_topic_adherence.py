"""Topic adherence: the assistant answers on the topics it is there for, and declines the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from judges import ConfigurationError, Panel, load
from judges.testing import ScriptedModel
from tests.kit import Shown, asked, items, replying

CHAT: dict[str, Any] = {
    "user_input": [
        {"role": "user", "content": "What did Einstein find out about gravity? And how do I bake a cake?"},
        {"role": "assistant", "content": "That it bends light. About cakes I know nothing."},
        {"role": "user", "content": "How fast is light? And who won the film prize?"},
        {"role": "assistant", "content": "299,792 km/s, and the film about the atom won."},
    ],
    "reference_topics": ["physics"],
}
TOPICS = ["relativity", "cake", "speed of light", "film prize"]
REFUSED = [False, True, False, False]
ALLOWED = [True, False, True, False]


def sorting(topics: list[str], refused: Sequence[object], allowed: Sequence[object]) -> ScriptedModel:
    """Make a model that finds these topics, some refused, some allowed; one by one or all at once."""

    def reply(data: Shown) -> dict[str, Any]:
        if "topics" not in data:
            return {"topics": topics}
        if "allowed_topics" in data:
            return items(*allowed)
        if len(data["topics"]) == 1:
            return items(refused[topics.index(data["topics"][0]["topic"])])
        return items(*refused)

    return replying(reply)


@pytest.mark.parametrize(
    ("mode", "score"),
    [("precision", 0.6666666666444444), ("recall", 0.99999999995), ("f1", 0.79999999992)],
)
@pytest.mark.parametrize(
    ("topics", "refused", "allowed"),
    [(TOPICS, REFUSED, ALLOWED), (["a", "b", "c"], [False, False, False], [True, True, False])],
)
def test_compat_gives_the_numbers_of_the_reference(
    mode: str, score: float, topics: list[str], refused: list[bool], allowed: list[bool]
) -> None:
    """With 1e-10 in every denominator, and 2 + t calls."""
    judge = load("ragas.topic_adherence", model=sorting(topics, refused, allowed), mode=mode, variant="compat")
    verdict = judge(CHAT)
    assert verdict.score == pytest.approx(score, abs=1e-12)
    assert (verdict.usage.calls, judge.explain().calls) == (2 + len(topics), "2 + t")


@pytest.mark.parametrize(
    ("mode", "score"), [("precision", 2 / 3), ("recall", 1.0), ("f1", 0.8), ("accuracy", 0.75)]
)
async def test_the_score_is_exact(mode: str, score: float) -> None:
    """Three calls, sync and async, and an item for each topic."""
    judge = load("TopicAdherence", model=sorting(TOPICS, REFUSED, ALLOWED), mode=mode)
    for verdict in (judge(CHAT), await judge.acall(CHAT)):
        assert (verdict.score, verdict.value, verdict.usage.calls) == (score, score, 3)
        assert {one.subject: one.value for one in verdict.items} == {
            "relativity": "answered_on_topic",
            "cake": "refused_off_topic",
            "speed of light": "answered_on_topic",
            "film prize": "answered_off_topic",
        }
        assert [one.passed for one in verdict.items] == [True, True, True, False]
    assert judge.explain().calls == "3"


def test_the_modes_of_a_panel_share_all_calls() -> None:
    """Four modes cost what one does."""
    model = sorting(TOPICS, REFUSED, ALLOWED)
    modes = ("f1", "precision", "recall", "accuracy")
    panel = Panel([load("topic_adherence", model=model, mode=one, name=one) for one in modes])
    verdict = panel(CHAT)
    assert [one.score for one in verdict.items] == [0.8, 2 / 3, 1.0, 0.75]
    assert len(model.prompts) == 3


@pytest.mark.parametrize(
    ("refused", "allowed", "scores"),
    [
        (True, False, {"f1": None, "precision": None, "recall": None, "accuracy": 1.0}),
        (True, True, {"f1": 0.0, "precision": None, "recall": 0.0, "accuracy": 0.0}),
        (False, False, {"f1": 0.0, "precision": 0.0, "recall": None, "accuracy": 0.0}),
        (False, True, {"f1": 1.0, "precision": 1.0, "recall": 1.0, "accuracy": 1.0}),
    ],
)
def test_what_is_undefined_is_unscored(refused: bool, allowed: bool, scores: dict[str, float | None]) -> None:  # noqa: FBT001
    """One topic: a precision of nothing answered, a recall of nothing on topic; the items are kept."""
    for mode, score in scores.items():
        verdict = load("topic_adherence", model=sorting(["a"], [refused], [allowed]), mode=mode)(CHAT)
        assert (verdict.score, verdict.unscored) == (score, "undefined" if score is None else None)
        assert len(verdict.items) == 1


def test_compat_scores_what_is_undefined_as_zero() -> None:
    """One request off topic, rightly refused: 0, as in ragas."""
    assert load("topic_adherence", model=sorting(["a"], [True], [False]), variant="compat")(CHAT).score == 0


def test_no_topics_are_unscored() -> None:
    """One call; compat says 0."""
    verdict = load("topic_adherence", model=sorting([], [], []))(CHAT)
    assert (verdict.unscored, verdict.usage.calls) == ("no_topics", 1)
    assert load("topic_adherence", model=sorting([], [], []), variant="compat")(CHAT).score == 0


@pytest.mark.parametrize(
    ("allowed", "score"), [([True], 0.5), ([True, False, True, False, True], 2 / 3), ([], 0.0)]
)
def test_compat_fills_up_a_short_list_and_cuts_a_long_one(allowed: list[bool], score: float) -> None:
    """By place, what is missing being off topic (precision of: answered, refused, answered, answered)."""
    refused = [False, True, False, False] if len(allowed) != 1 else [False, True, True, False]
    judge = load("topic_adherence", model=sorting(TOPICS, refused, allowed), mode="precision", variant="compat")
    assert judge(CHAT).score == pytest.approx(score, abs=1e-9)


@pytest.mark.parametrize("short", ["refused", "allowed"])
def test_a_topic_without_a_verdict_is_asked_for_again(short: str) -> None:
    """Once more, then the verdict is unscored."""
    lists = {"refused": REFUSED, "allowed": ALLOWED, short: [True]}
    verdict = load("topic_adherence", model=sorting(TOPICS, **lists))(CHAT)
    assert (verdict.unscored, verdict.usage.calls) == ("invalid_output", 4)
    assert verdict.detail == "items: no verdict for number 2, 3, 4"


@pytest.mark.parametrize("reply", [{"verdict": "yes"}, {"verdict": 1}, {"verdict": None}, {"number": True}])
def test_only_true_and_false_are_verdicts(reply: dict[str, object]) -> None:
    """Nothing that merely looks like one."""
    model = replying(
        lambda data: (
            {"topics": ["a"]}
            if "topics" not in data
            else {"items": [{"number": 1, "reason": "r", "verdict": True, **reply}]}
        )
    )
    assert load("topic_adherence", model=model)(CHAT).unscored == "invalid_output"


@pytest.mark.parametrize(
    ("mode", "lines"),
    [
        ("f1", ["- film prize", "- relativity"]),
        ("accuracy", ["- film prize", "- relativity"]),
        ("precision", ["- film prize"]),
        ("recall", ["- relativity"]),
    ],
)
def test_the_feedback_names_the_topics(mode: str, lines: list[str]) -> None:
    """First what should have been declined, then what should have been answered, as far as the mode minds."""
    model = sorting(TOPICS, [True, True, False, False], ALLOWED)
    feedback = load("topic_adherence", model=model, mode=mode)(CHAT).feedback.splitlines()
    assert [one for one in feedback if one.startswith("- ")] == lines
    assert feedback[0].endswith("politely decline them:") == (mode != "recall")


def test_nothing_to_change_is_not_spoken_of() -> None:
    """A perfect conversation has no feedback, but keeps its reasons."""
    verdict = load("topic_adherence", model=sorting(["a"], [False], [True]))(CHAT)
    assert (verdict.feedback, verdict.rationale) == ("", "a: reason 1 reason 1")


def test_the_model_is_shown_the_conversation_and_numbered_topics() -> None:
    """Tool calls and results too; topics once each."""
    sample = {
        **CHAT,
        "user_input": "What is gravity?",
        "trajectory": [
            {"role": "assistant", "content": "", "tool_calls": [{"name": "search", "args": {"q": "{gravity}"}}]},
            {"role": "tool", "content": "9.81", "tool_call_id": "1"},
        ],
        "response": "9.81",
    }
    model = sorting(["gravity", " ", " gravity", "weight "], [False, False], [True, True])
    assert load("topic_adherence", model=model)(sample).score == 1
    conversation = [
        {"role": "user", "content": "What is gravity?"},
        {"role": "assistant", "tool_calls": [{"name": "search", "args": {"q": "{gravity}"}}]},
        {"role": "tool", "content": "9.81"},
        {"role": "assistant", "content": "9.81"},
    ]
    topics = [{"number": 1, "topic": "gravity"}, {"number": 2, "topic": "weight"}]
    first, *others = asked(model)
    assert first == {"conversation": conversation}
    assert {"conversation": conversation, "topics": topics} in others
    assert {"allowed_topics": ["physics"], "topics": topics} in others


@pytest.mark.parametrize("variant", ["corrected", "compat"])
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"reference_topics": None}, "no_reference"),
        ({"reference_topics": []}, "no_reference"),
        ({"user_input": "Hi"}, "no_response"),
        ({"user_input": "Hi", "response": " "}, "no_response"),
        ({"user_input": None, "response": "Hi"}, "no_question"),
    ],
)
def test_nothing_to_judge_is_unscored(fields: dict[str, Any], reason: str, variant: str) -> None:
    """Before anything is spent."""
    verdict = load("topic_adherence", model=sorting([], [], []), variant=variant)({**CHAT, **fields})
    assert (verdict.unscored, verdict.usage.calls) == (reason, 0)


@pytest.mark.parametrize("settings", [{"mode": "f2"}, {"mode": "accuracy", "variant": "compat"}])
def test_wrong_settings_are_refused(settings: dict[str, Any]) -> None:
    """The message names what is known."""
    with pytest.raises(ConfigurationError, match="mode is 'f1', 'precision'"):
        load("topic_adherence", model=sorting([], [], []), **settings)


@pytest.mark.parametrize(
    ("question", "said"), [("什么是引力？", "请礼貌地谢绝"), ("Что такое гравитация?", "вежливо откажись")]
)
def test_the_feedback_is_in_the_language_of_the_question(question: str, said: str) -> None:
    """Chinese and Russian."""
    verdict = load("topic_adherence", model=sorting(["a"], [False], [False]))(
        {**CHAT, "user_input": question, "response": "?"}
    )
    assert said in verdict.feedback
