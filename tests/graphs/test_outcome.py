"""The record of one question: its samples, and the summary that goes with the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from graphs import Attempt, Outcome, Policy, Refinement
from graphs.outcome import sample_of
from judges import Sample, Usage, Verdict

ASKED: list[AnyMessage] = [HumanMessage("what?")]
CALL: dict[str, Any] = {"name": "t", "args": {"a": 1}, "id": "1"}
STEPS: tuple[AnyMessage, ...] = (AIMessage("", tool_calls=[CALL]), ToolMessage("found", tool_call_id="1"))


def refined(**fields: Any) -> Refinement:
    """Make a refinement whose second attempt was accepted and released."""
    made = Refinement(policy=Policy(), question="what?", started_at=10.0, **fields)
    made = made.add_draft(AIMessage("bad"), usage=Usage(calls=1, input_tokens=3))
    made = made.add_verdict(Verdict.rated(1, rationale="too bad", feedback="be good"), now=11.0).add_messages(())
    made = made.add_draft(AIMessage("good"), steps=STEPS, evidence={"retrieved_contexts": ["text"]})
    return made.add_verdict(Verdict.rated(4, rationale="truth it is"), now=13.0).release(2)


def outcome(**fields: Any) -> Outcome:
    """Sum such a refinement up."""
    return Outcome.of(refined(**fields), ASKED, AIMessage("good"), now=99.0)


def test_it_sums_up() -> None:
    """An outcome tells answer, reason, best attempt, usage, and the seconds from question to end."""
    result = outcome()
    assert (result.passed, result.stop_reason, result.detail, result.released) == (True, "accepted", "", 2)
    assert (result.best, result.usage.tokens, result.latency_s) == (result.attempts[1], 3, 3.0)


def test_a_refinement_that_waits_is_interrupted() -> None:
    """One that is not done has no reason of its own yet, and its time runs on, but never below zero."""
    interrupted = Outcome.of(Refinement(policy=Policy(), started_at=10.0), ASKED, None, now=12.0)
    assert (interrupted.stop_reason, interrupted.passed, interrupted.latency_s) == ("interrupted", False, 2.0)
    assert Outcome.of(Refinement(policy=Policy(), started_at=10.0), ASKED, None, now=9.0).latency_s == 0


def test_each_attempt_is_a_sample() -> None:
    """Samples hold question, draft, steps and evidence of their attempt, and what became of it."""
    first, second = outcome(evidence={"reference": "truth"}).samples()
    assert (first.user_input, first.response, first.reference) == ("what?", "bad", "truth")
    assert (first.trajectory, first.retrieved_contexts) == ((), None)
    assert (second.response, second.reference, second.retrieved_contexts) == ("good", "truth", ("text",))
    assert [one.role for one in second.trajectory] == ["assistant", "tool"]
    assert first.metadata == {"attempt": 1, "rating": 1}
    assert second.metadata == {"attempt": 2, "rating": 4, "stop_reason": "accepted"}


def test_a_samples_own_metadata_is_kept() -> None:
    """Metadata that came with the question stays next to what became of it."""
    first = outcome(evidence={"metadata": {"ticket": 7, "attempt": "x"}}).samples()[0]
    assert first.metadata == {"ticket": 7, "attempt": 1, "rating": 1}


def test_a_sample_reads_back() -> None:
    """A sample goes through JSON as a row of a dataset does."""
    for one in outcome(evidence={"reference": "truth"}).samples():
        assert Sample.model_validate_json(one.model_dump_json(exclude_defaults=True)) == one


@pytest.mark.parametrize(
    ("conversation", "turns"),
    [
        ([SystemMessage("be kind"), HumanMessage("what?")], ["system", "user"]),
        ([HumanMessage("hi"), AIMessage("hello"), HumanMessage("what?")], ["user", "assistant", "user"]),
        ([HumanMessage([{"type": "text", "text": "what?"}, {"type": "image", "url": "u"}])], ["user"]),
    ],
)
def test_more_than_a_plain_question_is_a_conversation(conversation: list[AnyMessage], turns: list[str]) -> None:
    """Whatever is more than one plain text is given to the judge message by message."""
    sample = sample_of(conversation, Attempt(number=1, answer=AIMessage("yes")), {})
    assert [one.role for one in sample.conversation] == turns
    assert sample.question.startswith("what?")


def test_the_questions_evidence_comes_before_the_attempts() -> None:
    """A generator replaces nothing of what the question brought; what it alone found is judged by."""
    attempt = Attempt(number=1, answer=AIMessage("yes"), evidence={"retrieved_contexts": ["found"]})
    assert sample_of(ASKED, attempt, {"retrieved_contexts": ["given"]}).retrieved_contexts == ("given",)
    assert sample_of(ASKED, attempt, {"reference": "truth"}).retrieved_contexts == ("found",)


def test_the_summary_tells_figures_of_all_and_words_of_the_released() -> None:
    """Plain data: of refused drafts there are figures alone; rating and rationale are those of the answer."""
    summary = outcome().summary()
    assert json.loads(json.dumps(summary)) == summary
    assert (summary["rating"], summary["rationale"]) == (4, "truth it is")
    assert [(one["number"], one["rating"], one["unscored"]) for one in summary["attempts"]] == [
        (1, 1, None),
        (2, 4, None),
    ]
    for text in ("too bad", "be good"):
        assert text not in str(summary)


def test_the_summary_holds_no_reference() -> None:
    """A rationale that quotes the reference answer goes out without it."""
    assert outcome(evidence={"reference": "Truth."}).summary()["rationale"] == "[...] it is"


def test_the_summary_of_what_is_no_attempt_has_no_rating() -> None:
    """A fallback, or a reviewer's own words, were rated by nobody."""
    made = refined().release(None, detail="written by a reviewer")
    summary = Outcome.of(made, ASKED, AIMessage("mine"), now=99.0).summary()
    assert (summary["rating"], summary["rationale"], summary["detail"]) == (None, "", "written by a reviewer")


def test_an_outcome_goes_through_json() -> None:
    """An outcome is read back from its JSON, and sums up the same."""
    result = outcome(evidence={"reference": "truth"})
    again = Outcome.model_validate_json(result.model_dump_json())
    assert again == result
    assert (again.summary(), again.samples()) == (result.summary(), result.samples())
