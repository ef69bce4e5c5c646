"""Nothing goes out in silence: failed judgements, unmet needs and failed generators are warnings, with ids."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from structlog.testing import capture_logs

from graphs.events import GENERATOR_FAILED, MISSING_EVIDENCE, PARTLY_JUDGED, UNJUDGED, WarningThrottle
from graphs.graph import self_refine
from graphs.policy import Policy
from graphs.refinement import Refinement
from judges import BadSample, CannotJudge, Cascade, Panel, Repeat, Sample, Verdict, as_judge, load
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine

QUOTED = "Zanzibar"
Log = pytest.LogCaptureFixture


def warnings_in(log: Log) -> list[str]:
    """List the warnings of the loop, as the default log has them."""
    return [record.getMessage() for record in log.records if record.name == "refine" and record.levelno >= 30]


def failing(error: Exception | None = None) -> ScriptedJudge:
    """Return a judge that always fails."""
    return ScriptedJudge([error or RuntimeError(f"no {QUOTED}")], cycle=True)


def idle() -> ScriptedJudge:
    """Return a judge that never has anything to judge."""
    return ScriptedJudge([Verdict.without_score("no_claims")], cycle=True)


LETTING_OUT: list[dict[str, Any]] = [
    {},
    {"shadow": True},
    {"shadow": True, "on_judge_error": "raise"},
    {"on_exhausted": "last"},
    {"on_exhausted": "raise"},
    {"on_judge_error": "reject", "on_exhausted": "fallback", "fallback": "sorry"},
    {"max_attempts": 1},
]


@pytest.mark.parametrize("settings", LETTING_OUT, ids=str)
@pytest.mark.parametrize("judge", [failing, idle])
async def test_an_answer_without_a_verdict_is_a_warning(
    settings: dict[str, Any], judge: Callable[[], ScriptedJudge], caplog: Log
) -> None:
    """Whatever the policy, in the default log, sync and async, with a graph and without; once for a while."""
    refiner = SelfRefine(lambda _: f"It is {QUOTED}.", judge(), name="guide", **settings)
    outcome = refiner.refine(f"Is it {QUOTED}?")
    (line,) = warnings_in(caplog)
    fell_back = "fallback text released, since a judgement gave no verdict"
    assert (fell_back if "fallback" in settings else UNJUDGED) in line
    assert f"outcome_id={outcome.id!r} refiner='guide' thread_id=None" in line
    assert QUOTED not in caplog.text
    for _ in range(20):
        await refiner.arefine("what?")
    assert len(warnings_in(caplog)) == 1
    graph = self_refine(
        lambda _: "yes", judge(), policy=Policy(**settings), checkpointer=InMemorySaver(), name="g"
    )
    await graph.ainvoke({"messages": ["q"]}, {"configurable": {"thread_id": "t-1"}})
    assert "refiner='g' thread_id='t-1'" in warnings_in(caplog)[1]


def test_a_failure_after_a_verdict_is_a_warning_too(caplog: Log) -> None:
    """The best answer so far goes out because the judge failed on the next one, or the generator did."""
    judge = ScriptedJudge([2, RuntimeError()])
    SelfRefine(ScriptedModel(["one", "two"]), judge, on_judge_error="reject", max_attempts=2).invoke("what?")
    SelfRefine(ScriptedModel(["one", ValueError(QUOTED)]), ScriptedJudge([2])).invoke("what?")
    judged, generated = warnings_in(caplog)
    assert UNJUDGED in judged
    assert "released=1 attempts=2" in judged
    assert GENERATOR_FAILED in generated
    assert "ValueError from the generator" in generated
    assert QUOTED not in caplog.text


def test_a_configured_structlog_has_the_warning() -> None:
    """Where the application has set up structlog, its loggers write the warning, with every figure as a field."""
    with capture_logs() as lines:
        outcome = SelfRefine(lambda _: "yes", failing()).refine("what?")
    (line,) = (line for line in lines if line["log_level"] == "warning")
    assert (line["event"], line["unscored"], line["outcome_id"]) == (UNJUDGED, "judge_failed", outcome.id)


def test_a_spent_budget_that_leaves_an_answer_unjudged_is_a_warning(caplog: Log) -> None:
    """No judge was asked, or it was cut short: the answer goes out without a verdict."""
    limited = SelfRefine(ScriptedModel(["one"]), load("helpfulness", model=ScriptedModel([])), max_calls=1)
    assert limited.refine("what?").stop_reason == "budget"
    assert UNJUDGED in warnings_in(caplog)[0]
    assert "stop_reason='budget'" in warnings_in(caplog)[0]


def test_what_is_no_failure_is_no_warning(caplog: Log) -> None:
    """Accepted, refused, skipped and exhausted answers, and errors that are raised, say so themselves."""
    every: list[dict[str, Any]] = [
        {},
        {"success_rating": 4, "max_attempts": 2},
        {"sample_rate": 0},
        {"skip": bool},
    ]
    for settings in every:
        SelfRefine(lambda _: "yes", ScriptedJudge([3], cycle=True), **settings).invoke("what?")
    for setting in ("raise", "reject"):
        with pytest.raises(Exception, match="no answer may be released"):
            SelfRefine(lambda _: "yes", failing(), on_judge_error=setting).invoke("what?")
    assert warnings_in(caplog) == []


@pytest.mark.parametrize(
    "build", [lambda a, b: Panel([a, b, b], quorum=2), lambda a, b: Panel([Panel([a, b, b], quorum=2), b])]
)
def test_an_accepting_panel_with_a_failed_member_is_a_warning(build: Callable[..., Panel], caplog: Log) -> None:
    """A quorum let the others decide; that one could not is said, but not of one that had nothing to judge."""
    good = ScriptedJudge([4], cycle=True, name="good")
    assert SelfRefine(lambda _: "yes", build(failing(), good)).refine("what?").passed
    (line,) = warnings_in(caplog)
    assert PARTLY_JUDGED in line
    assert "judge='scripted' unscored='judge_failed'" in line
    assert SelfRefine(lambda _: "yes", build(idle(), good)).refine("what?").passed
    assert len(warnings_in(caplog)) == 1


def test_warnings_of_one_kind_are_rationed(caplog: Log) -> None:
    """One a minute, each kind by itself; the clock is monotonic."""
    now = 0.0
    throttle = WarningThrottle(clock=lambda: now)
    assert (throttle.should_warn(("a",)), throttle.should_warn(("a",)), throttle.should_warn(("b",))) == (
        True,
        False,
        True,
    )
    now = 61.0
    assert (throttle.should_warn(("a",)), throttle.should_warn(("b",), once=True)) == (True, False)
    judge = ScriptedJudge([RuntimeError(), Verdict.without_score("no_claims"), RuntimeError()])
    refiner = SelfRefine(lambda _: "yes", judge)
    for _ in range(3):
        refiner.invoke("what?")
    assert len(warnings_in(caplog)) == 2


QUOTING = [
    f"the answer says {QUOTED}",
    f"Answer: {QUOTED.upper()}!",
    "\u6211\u8bf4\u5df4\u9ece",
    f"line\nbreak {QUOTED} " + "x" * 5_000,
]


@pytest.mark.parametrize("detail", QUOTING)
def test_a_judge_that_quotes_in_its_reason_is_not_quoted(detail: str, caplog: Log) -> None:
    """What a careless judge puts into `detail` is masked, unless texts may be logged; the rest is readable."""

    def careless(sample: Sample) -> Verdict:
        return Verdict.without_score("judge_failed", f"KeyError: {detail}")

    answer = f"{QUOTED} \u5df4\u9ece"
    SelfRefine(lambda _: answer, careless).invoke("what?")
    (line,) = warnings_in(caplog)
    assert "KeyError" in line
    assert QUOTED.lower() not in line.lower()
    assert "\u5df4" not in line
    assert len(line) < 1_000
    SelfRefine(lambda _: answer, careless, log_texts=True).invoke("what?")
    assert ("\u5df4" in warnings_in(caplog)[1]) or (QUOTED.lower() in warnings_in(caplog)[1].lower())


def test_a_need_that_nobody_meets_is_told_at_the_first_question(caplog: Log) -> None:
    """Each judge, inside others as well, is named once with what it lacks and how to hand it over."""
    faithful = load("faithfulness", model=ScriptedModel([{"claims": []}], cycle=True))

    def equals(answer: str, ground_truth: str) -> bool:
        return True

    judge = Panel([Repeat(faithful, 2), Cascade([equals]), ScriptedJudge([4], cycle=True)])
    refiner = SelfRefine(lambda _: "yes", judge)
    for _ in range(3):
        refiner.invoke("what?")
    lines = [line for line in warnings_in(caplog) if MISSING_EVIDENCE in line]
    assert len(lines) == 2
    assert "judge='ragas.faithfulness' missing=['retrieved_contexts']" in lines[0]
    assert "evidence={'retrieved_contexts': ...} with the question" in lines[0]
    assert "judge='equals' missing=['reference']" in lines[1]


def test_a_need_that_is_met_is_not_told(caplog: Log) -> None:
    """By evidence with the question, by the generator, or by either of two fields."""

    def needing(response: str, retrieved_contexts: object, reference: str | None = None) -> bool:
        return True

    SelfRefine(lambda _: "yes", needing).invoke("what?", evidence={"contexts": ["a text"]})
    SelfRefine(lambda _: {"answer": "yes", "context": ["a text"]}, needing).invoke("what?")
    correct = load("databricks.correctness", model=ScriptedModel([]))
    for evidence in ({"reference": "yes"}, {"expected_facts": ["yes"]}):
        SelfRefine(lambda _: "yes", correct, max_calls=1).refine("what?", evidence=evidence)
    assert [line for line in warnings_in(caplog) if MISSING_EVIDENCE in line] == []


@pytest.mark.parametrize(
    "evidence", [{"referense": "x"}, {"retreived_contexts": ["x"]}, {"reference": "x", "ground": "y"}]
)
def test_evidence_that_no_sample_knows_is_refused(evidence: dict[str, Any]) -> None:
    """A misspelt key is an error before anything is called, and names the nearest; in the graph as well."""
    model = ScriptedModel([])
    with pytest.raises(BadSample, match=r"is no field of a sample; (did you mean \w+=|known are)"):
        SelfRefine(model, ScriptedJudge([])).invoke("what?", evidence=evidence)
    with pytest.raises(BadSample, match="is no field of a sample"):
        self_refine(model, ScriptedJudge([])).invoke({"messages": ["what?"], "evidence": evidence})


@pytest.mark.parametrize("evidence", [["reference"], "reference", {7: "x"}])
def test_evidence_that_is_no_mapping_of_names_is_refused(evidence: Any) -> None:
    """The error says what evidence is."""
    with pytest.raises(ValueError, match="evidence is a mapping from names of a sample's fields"):
        SelfRefine(ScriptedModel([]), ScriptedJudge([])).invoke("what?", evidence=evidence)


class Listener(BaseCallbackHandler):
    """Keeps the custom events it hears, in order, with what a generator adds."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def on_custom_event(self, name: str, data: Any, **_: Any) -> None:
        """Keep the event."""
        self.heard.append((name, data))


@pytest.mark.parametrize("checkpointed", [False, True])
async def test_a_start_is_heard_before_the_generator_is_asked(*, checkpointed: bool) -> None:
    """Whoever listens knows of an attempt while it is being written, sync and async."""
    listener = Listener()

    def generate(_: object) -> str:
        listener.heard.append(("asked", None))
        return f"draft {len(listener.heard)}"

    saver = InMemorySaver() if checkpointed else None
    refiner = SelfRefine(generate, ScriptedJudge([1, 4], cycle=True), checkpointer=saver)
    config: RunnableConfig = {"callbacks": [listener], "configurable": {"thread_id": "1"}}
    refiner.invoke("what?", config)
    order = ["refine.start", "asked", "refine.attempt", "refine.verdict"] * 2
    assert [name for name, _ in listener.heard] == [*order, "refine.finish"]
    listener.heard.clear()
    await refiner.ainvoke("what?", config)
    assert [name for name, _ in listener.heard] == [*order, "refine.finish"]
    assert [data["attempt"] for name, data in listener.heard if name == "refine.start"] == [1, 2]


def test_every_event_and_line_says_whose_it_is(caplog: Log) -> None:
    """Outcome, refiner and thread are in every custom event and log line, and the outcome has the same id."""
    listener = Listener()
    model = ScriptedModel([f"draft {number}" for number in range(4)])
    refiner = SelfRefine(model, ScriptedJudge([1, 4], cycle=True), name="guide", show_drafts=True)
    config: RunnableConfig = {"callbacks": [listener], "configurable": {"thread_id": "t-1"}}
    with caplog.at_level(logging.INFO, logger="refine"):
        first, second = refiner.refine("what?", config), refiner.refine("what?", config)
    assert first.id != second.id
    assert first.answer is not None
    assert first.answer.response_metadata["refine"]["outcome_id"] == first.id
    labels = {(data["outcome_id"], data["refiner"], data["thread_id"]) for _, data in listener.heard}
    assert labels == {(first.id, "guide", "t-1"), (second.id, "guide", "t-1")}
    label = "outcome_id={!r} refiner='guide' thread_id='t-1'"
    for outcome in (first, second):
        assert sum(label.format(outcome.id) in record.getMessage() for record in caplog.records) == 7
    assert len(caplog.records) == 14


def test_the_id_survives_a_checkpoint_and_a_review() -> None:
    """The record keeps it as plain data; a record from before there was one is still read."""
    judge = ScriptedJudge([1], cycle=True)
    refiner = SelfRefine(
        lambda _: "yes", judge, on_exhausted="interrupt", max_attempts=1, checkpointer=InMemorySaver()
    )
    config: RunnableConfig = {"configurable": {"thread_id": "1"}}
    waiting = refiner.refine("what?", config)
    assert waiting.id
    assert refiner.refine(Command(resume="accept"), config).id == waiting.id
    state = Refinement(policy=Policy(), id="7", refiner="guide").to_state()
    assert json.loads(json.dumps(state)) == state
    assert Refinement.read(state, Policy()).id == "7"
    old = {name: value for name, value in state.items() if name not in ("id", "refiner")}
    assert Refinement.read(old, Policy()).id == ""


def test_a_judge_whose_needs_cannot_be_read_costs_no_answer() -> None:
    """What serves a warning alone never ends a question."""

    class Odd(ScriptedJudge):
        def explain(self) -> Any:
            raise CannotJudge("undefined", "odd")

    assert SelfRefine(lambda _: "yes", Odd([4])).invoke("what?").text == "yes"


def test_a_fault_in_a_judge_is_logged_with_the_outcome_it_befell(caplog: pytest.LogCaptureFixture) -> None:
    """The line of the logger `judges` has the id that the lines of the loop have; outside of it there is none."""

    def broken(answer: str) -> int:
        raise KeyError(answer)

    outcome = SelfRefine(lambda _: "draft", broken).refine("what?")
    (line,) = [record.getMessage() for record in caplog.records if record.name == "judges"]
    assert line.endswith(f"(outcome_id={outcome.id!r})")
    assert "KeyError" in line
    caplog.clear()
    as_judge(broken)(answer="draft")
    (line,) = [record.getMessage() for record in caplog.records]
    assert "outcome_id" not in line
