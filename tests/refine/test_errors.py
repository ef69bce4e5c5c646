"""What is raised, when, and what it holds."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import SecretStr

from graphs import (
    DraftError,
    GeneratorFailed,
    InputError,
    JudgeFailed,
    NotAccepted,
    RefineError,
    Unanswered,
)
from judges import ConfigurationError, Helpfulness
from judges.errors import ModelRequestError
from judges.testing import ScriptedJudge, ScriptedModel
from refine import Outcome, SelfRefine

KEPT: Any = {"configurable": {"thread_id": "1"}}


class Down(Exception):  # noqa: N818 - a state
    """A provider that does not answer."""


def down() -> ScriptedModel:
    """Make a model whose provider is down."""
    return ScriptedModel([Down("secret address")], cycle=True)


def test_the_tree_of_errors() -> None:
    """All errors of the loop are one family, with those that hold a record below one parent."""
    assert {one.__mro__[1] for one in (InputError, DraftError, Unanswered)} == {RefineError}
    assert all(issubclass(one, Unanswered) for one in (NotAccepted, JudgeFailed, GeneratorFailed))
    assert issubclass(InputError, ValueError)
    assert issubclass(DraftError, TypeError)


plain_and_kept = pytest.mark.parametrize("checkpointer", [None, InMemorySaver()], ids=["plain", "kept"])


@plain_and_kept
async def test_what_is_raised_holds_the_record(checkpointer: Any) -> None:
    """Refusals at every entrance, a judge without a verdict, and a generator, whose own error is the cause."""
    judge = ScriptedJudge([(1, "no")], cycle=True)
    strict = SelfRefine(lambda _: "bad", judge, on_exhausted="raise", max_attempts=2, checkpointer=checkpointer)
    raised: list[NotAccepted] = []
    for call in (strict.invoke, strict.refine, lambda *given: list(strict.stream(*given))):
        with pytest.raises(NotAccepted, match="max_attempts after 2 attempts") as one:
            call("what?", KEPT)
        raised.append(one.value)
    for acall in (strict.ainvoke, strict.arefine):
        with pytest.raises(NotAccepted, match="max_attempts after 2 attempts") as one:
            await acall("what?", KEPT)
        raised.append(one.value)
    for error in raised:
        assert isinstance(error.outcome, Outcome)
        assert error.outcome.answer is None
        assert [one.rating for one in error.outcome.attempts] == [1, 1]
    judge = ScriptedJudge([RuntimeError("secret")], cycle=True)
    strict = SelfRefine(lambda _: "draft", judge, on_judge_error="raise", checkpointer=checkpointer)
    with pytest.raises(JudgeFailed, match="judge_failed after 1 attempts") as unjudged:
        strict.invoke("what?", KEPT)
    with pytest.raises(JudgeFailed):
        await strict.arefine("what?", KEPT)
    assert unjudged.value.outcome.attempts[0].text == "draft"
    assert "secret" not in str(unjudged.value)


@plain_and_kept
async def test_a_failed_generator_is_the_cause(checkpointer: Any) -> None:
    """Without an answer it is `GeneratorFailed`, with its error as the cause; `refine` returns the outcome."""
    inner = SelfRefine(down(), ScriptedJudge([4]), checkpointer=checkpointer)
    with pytest.raises(GeneratorFailed, match="Down from the generator on attempt 1") as raised:
        inner.invoke("what?", KEPT)
    with pytest.raises(GeneratorFailed) as araised:
        await inner.ainvoke("what?", KEPT)
    for one in (raised, araised):
        assert isinstance(one.value.__cause__, Down)
        assert one.value.outcome.stop_reason == "generator_failed"
        assert "secret" not in str(one.value)
    for outcome in (inner.refine("what?", KEPT), await inner.arefine("what?", KEPT)):
        assert (outcome.answer, outcome.stop_reason) == (None, "generator_failed")


def test_a_generator_that_fails_later_ends_as_the_policy_says() -> None:
    """The best draft so far, flagged; `NotAccepted` where asked; or the fallback, whatever failed."""

    def failing(model: Any, **settings: Any) -> SelfRefine:
        return SelfRefine(model, ScriptedJudge([(2, "more")]), **settings)

    outcomes = [
        failing(ScriptedModel(["first", Down()])).refine("what?"),
        failing(down(), on_exhausted="fallback", fallback="sorry").refine("what?"),
    ]
    assert [(one.text, one.answer is not None, one.passed) for one in outcomes] == [
        ("first", True, False),
        ("sorry", True, False),
    ]
    assert outcomes[0].stop_reason == "generator_failed"
    with pytest.raises(NotAccepted, match="generator_failed"):
        failing(ScriptedModel(["first", Down()]), on_exhausted="raise").invoke("what?")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_process_is_not_caught(error: type[BaseException]) -> None:
    """An interrupt from the keyboard goes through, from generator and judge."""

    def dies(_: object) -> str:
        raise error

    with pytest.raises(error):
        SelfRefine(dies, ScriptedJudge([4])).invoke("what?")
    with pytest.raises(error):
        SelfRefine(lambda _: "yes", ScriptedJudge([error])).invoke("what?")


def test_a_broken_judge_never_rejects() -> None:
    """By default a judge that fails lets the answer through, flagged: not passed, and why."""
    outcome = SelfRefine(lambda _: "yes", ScriptedJudge([RuntimeError()])).refine("what?")
    assert outcome.answer is not None
    assert (outcome.passed, outcome.stop_reason, outcome.best) == (False, "judge_failed", None)
    assert outcome.answer.response_metadata["refine"]["rating"] is None
    assert "judge_failed" in outcome.detail


@plain_and_kept
def test_what_is_set_up_wrongly_raises(checkpointer: Any) -> None:
    """A judge or a generator that is set up wrongly is an error of the user, never a verdict or a failure."""
    with pytest.raises(ConfigurationError, match="a judge needs a model"):
        Helpfulness(None)
    judge = ScriptedJudge([ConfigurationError("no key")], cycle=True)
    with pytest.raises(ConfigurationError, match="no key"):
        SelfRefine(lambda _: "yes", judge, checkpointer=checkpointer).refine("what?", KEPT)
    with pytest.raises(ConfigurationError, match="script of 'scripted' has run out"):
        SelfRefine(ScriptedModel([]), ScriptedJudge([4]), checkpointer=checkpointer).refine("what?", KEPT)


def test_a_real_model_is_refused_in_tests() -> None:
    """Where requests are forbidden, a real model is refused before anything leaves the machine."""
    from langchain_openai import ChatOpenAI  # noqa: PLC0415 - slow to load

    model = ChatOpenAI(model="gpt-5", api_key=SecretStr("none"))
    with pytest.raises(ModelRequestError, match="no_model_requests"):
        SelfRefine(model, ScriptedJudge([4])).invoke("what?")
