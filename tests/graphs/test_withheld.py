"""What is withheld from answers, feedback, summaries and events: reasoning, and the judge's evidence."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from graphs import Bounds, Policy, reply_without_reasoning, self_refine
from graphs.redaction import withhold
from judges import Sample, Verdict
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine
from tests.graphs.test_streams import ASKED, GOOD, MARK, MODES, strict

THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}
TEXT = {"type": "text", "text": GOOD}
THOUGHT = f"The refused draft said {MARK}."

THOUGHTS: dict[str, dict[str, Any]] = {
    "anthropic": {"content": [{"type": "thinking", "thinking": THOUGHT, "signature": "x"}, TEXT]},
    "redacted": {"content": [{"type": "redacted_thinking", "data": THOUGHT}, TEXT]},
    "standard": {"content": [{"type": "reasoning", "reasoning": THOUGHT}, TEXT]},
    "wrapped": {"content": [{"type": "non_standard", "value": {"type": "thinking", "thinking": THOUGHT}}, TEXT]},
    "responses": {
        "content": [
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": THOUGHT}]},
            {**TEXT, "id": "msg_1"},
        ]
    },
    "bedrock": {"content": [{"type": "reasoning_content", "reasoning_content": {"text": THOUGHT}}, TEXT]},
    "deepseek": {"content": GOOD, "additional_kwargs": {"reasoning_content": THOUGHT, "refusal": None}},
    "openai": {"content": GOOD, "additional_kwargs": {"reasoning": {"summary": [{"text": THOUGHT}]}}},
    "openrouter": {"content": GOOD, "additional_kwargs": {"reasoning_details": [{"text": THOUGHT}]}},
    "metadata": {"content": GOOD, "response_metadata": {"reasoning_content": THOUGHT}},
}


@pytest.mark.parametrize("provider", THOUGHTS)
async def test_reasoning_after_a_refusal_stays_in_the_record(provider: str) -> None:
    """The released answer has none, in any stream; the attempt keeps it."""

    def model() -> ScriptedModel:
        return ScriptedModel([f"wrong {MARK}", AIMessage(**THOUGHTS[provider])])

    outcome = await SelfRefine(model(), strict()).arefine("what?")
    assert outcome.answer is not None
    assert outcome.answer.text == GOOD
    assert MARK not in repr(outcome.answer)
    assert MARK in repr(outcome.attempts[1].answer)
    assert "msg_1" not in repr(outcome.answer)
    assert MARK not in repr(list(self_refine(model(), strict()).stream(ASKED, stream_mode=list(MODES))))
    answer = SelfRefine(model(), strict(), keep_reasoning=True).invoke("what?")
    assert MARK in repr(answer)


@pytest.mark.parametrize("provider", THOUGHTS)
def test_an_answer_accepted_at_once_keeps_its_reasoning(provider: str) -> None:
    """Without a refusal there is nothing that the reasoning could speak of."""
    message = AIMessage(**THOUGHTS[provider])
    answer = SelfRefine(ScriptedModel([message]), ScriptedJudge([4])).invoke("what?")
    assert (answer.content, answer.additional_kwargs) == (message.content, message.additional_kwargs)


def test_thoughts_written_as_text_are_text() -> None:
    """`<think>` is part of what was judged, so it is released."""
    text = "<think>hm</think> right"
    answer = SelfRefine(ScriptedModel(["bad", text]), ScriptedJudge([1, 4])).invoke("what?")
    assert answer.content == text


EVIDENCE: dict[str, Any] = {
    "reference": "The capital is Zorbalia.",
    "expected_facts": ["Zorbalia has nine bridges", "Zorb", "yes"],
    "rubrics": {"score1_description": "says Quibbleford instead"},
    "reference_contexts": ["An atlas: the river Wimborne runs there.", "It was called Old Plimm."],
    "reference_tool_calls": [{"name": "look_up_atlas", "args": {"page": 4178834, "of": ["Xanthium"]}}],
    "reference_topics": ["cartography", "a"],
}
SECRETS = (
    "capital is Zorbalia",
    "nine bridges",
    "Zorb",
    "Quibbleford",
    "Wimborne",
    "Plimm",
    "look_up_atlas",
    "4178834",
    "Xanthium",
    "artography",
)
LEAK = (
    "Yes, a reader sees no name. The capital is Zorbalia. Zorbalia has nine bridges. Call look_up_atlas "
    "with page 4178834 of Xanthium. It says Quibbleford instead. "
    "The river: An atlas: the river Wimborne runs there. "
    "It was called Old Plimm. It is about cartography. Follow the guideline of brevity."
)

BOUNDS = Bounds(max_criteria_chars=1_000)


async def test_evidence_of_the_judge_reaches_neither_generator_nor_client() -> None:
    """Feedback on a retry, summary, shown verdicts and the reviewer's question withhold every kind of it."""
    model = ScriptedModel(["one", "two"], cycle=True)
    judge = ScriptedJudge([Verdict.rated(1, rationale=LEAK, feedback=LEAK)], cycle=True)
    asked = {**ASKED, "evidence": {**EVIDENCE, "guidelines": ["brevity"]}}
    made = self_refine(model, judge, policy=Policy(max_attempts=2, show_drafts=True), bounds=BOUNDS)
    seen = repr([part async for part in made.astream(asked, stream_mode=list(MODES))])
    policy = Policy(max_attempts=2, on_exhausted="interrupt")
    saved = self_refine(model, judge, policy=policy, checkpointer=InMemorySaver(), bounds=BOUNDS)
    for text in (seen, repr(model.prompts), repr(saved.invoke(asked, THREAD))):
        assert [secret for secret in SECRETS if secret in text] == []
    feedback = str(model.prompts[1][-1].text)
    assert "guideline of brevity" in feedback
    assert "Yes, a reader sees no name" in feedback


def test_words_that_tell_nothing_remain() -> None:
    """A fact of one short word, a letter or a truth value does not blank the feedback; a number is a fact."""
    evidence: dict[str, Any] = {
        "expected_facts": ["yes", "a", "42", "."],
        "reference_tool_calls": [{"name": "f", "args": {"x": True, "y": None}}],
    }
    assert withhold("yes, a None or True f, not 42", evidence) == "yes, a None or True f, not [...]"
    assert withhold("Name Paris.", {"expected_facts": ["Paris"]}) == "Name [...]."
    assert withhold("the Paris of old", {}) == "the Paris of old"


@pytest.mark.parametrize(
    ("evidence", "feedback", "left"),
    [
        (
            {"rubrics": {"1": "missing", "2": "Incomplete", "3": "kind of terse", "4": "names Linz"}},
            "The date is missing, the list is incomplete and kind of terse; it names Linz.",
            "The date is missing, the list is incomplete and kind of terse; it [...].",
        ),
        ({"reference": "Not complete."}, "The list is not complete.", "The list is not complete."),
        ({"reference": "Wrong. It is 42 km."}, "It was wrong. Say: it is 42 km.", "It was wrong. Say: [...]."),
        ({"reference": "正确"}, "日期不正确。", "日期不正确。"),
        ({"expected_facts": ["неполный", "Линц"]}, "Список неполный, нет: Линц.", "Список неполный, нет: [...]."),
        ({"reference": "complete combustion"}, "Name complete combustion.", "Name [...]."),
    ],
)
def test_words_of_any_judgement_remain(evidence: dict[str, Any], feedback: str, left: str) -> None:
    """A rubric or a reference of ordinary words does not blank the feedback; names and numbers go."""
    assert withhold(feedback, evidence) == left


def test_a_longer_secret_is_withheld_whole() -> None:
    """A topic that is part of a fact leaves nothing of the fact."""
    evidence: dict[str, Any] = {
        "reference_topics": ["Paris"],
        "expected_facts": ["Paris lies on the Seine"],
    }
    assert withhold("Say: Paris lies on the Seine!", evidence) == "Say: [...]!"


def test_a_reviewer_sees_one_draft_and_other_streams_none() -> None:
    """An interrupt shows the draft under review as LangGraph's interrupt alone, and no other draft."""

    def verdict(sample: Sample) -> Verdict:
        return Verdict.rated(2 if "best" in (sample.response or "") else 1, feedback=f"not {sample.response}")

    def made() -> Any:
        policy = Policy(max_attempts=2, on_exhausted="interrupt")
        model = ScriptedModel([f"worse {MARK}", "the best"])
        return self_refine(model, ScriptedJudge(verdict), policy=policy, checkpointer=InMemorySaver())

    for mode in MODES:
        loop = made()
        seen = list(loop.stream(ASKED, THREAD, stream_mode=mode, subgraphs=True))
        assert MARK not in repr(seen)
        if mode not in ("updates", "values", "tasks", "debug"):
            assert "the best" not in repr(seen)
        rest = repr(
            [part for part in seen if "__interrupt__" not in repr(part) and "interrupts" not in repr(part)]
        )
        assert "the best" not in rest
        assert "the best" in repr(loop.invoke(Command(resume="accept"), THREAD)["messages"][-1])


def test_numbers_of_tokens_stay_with_the_reasoning() -> None:
    """They are those of what was thought, too; beside an answer without thoughts its probabilities stay."""
    said = {"message": {"content": "x", "reasoning": None}, "token_ids": [1], "logprobs": {"content": []}}
    thought = {**said, "message": {"content": "x", "reasoning": "thought"}, "logprobs": {"content": [1]}}
    kept = reply_without_reasoning({"prompt_token_ids": [1], "choices": [said, thought]})
    assert kept == {
        "choices": [
            {"message": {"content": "x"}, "logprobs": {"content": []}},
            {"message": {"content": "x"}, "logprobs": None},
        ]
    }
