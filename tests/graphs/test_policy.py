"""Every setting of `Policy` does what it says; what cannot be set is refused in one line."""

from __future__ import annotations

import random
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage
from structlog.testing import capture_logs

from graphs import JudgeFailed, NotAccepted, Override, Policy, Unanswered, build_loop, last_drafts, self_refine
from graphs.policy import Policy as SamePolicy
from judges import ConfigurationError, Price, Verdict
from judges.testing import ScriptedJudge, ScriptedModel
from judges.verdict import Rating
from refine import SelfRefine
from tests.kit import Hang

SECRET = "a text of nobody's business"  # noqa: S105 - no password
KEPT: Any = {"configurable": {"thread_id": "1"}}
PRICES = {"scripted": Price(input=1, output=1), "judge": Price(input=1, output=1)}
DEADLINE_S = 0.15


def drafting(count: int = 9) -> ScriptedModel:
    """Make a model that gives numbered drafts."""
    return ScriptedModel([f"draft {number}" for number in range(1, count + 1)])


def rating(*ratings: object) -> ScriptedJudge:
    """Make a judge that gives these ratings, again and again."""
    return ScriptedJudge(ratings, cycle=True)


def exhausted(**settings: Any) -> SelfRefine:
    """Make a refiner of which no attempt is accepted, and the first is best."""
    return SelfRefine(drafting(), rating((2, "a"), (1, "b")), max_attempts=2, **settings)


# success_rating, max_attempts


@pytest.mark.parametrize("success_rating", [1, 2, 3, 4])
def test_success_rating_is_where_an_answer_is_accepted(success_rating: Rating) -> None:
    """The first attempt that reaches it is accepted."""
    inner = SelfRefine(drafting(), ScriptedJudge([1, 2, 3, 4]), success_rating=success_rating, max_attempts=4)
    assert len(inner.refine("what?").attempts) == success_rating


@pytest.mark.parametrize("max_attempts", [1, 2, 5])
def test_max_attempts_counts_every_answer(max_attempts: int) -> None:
    """As many answers are generated and judged as it says, the first one included."""
    model, judge = drafting(), rating(1)
    outcome = SelfRefine(model, judge, max_attempts=max_attempts).refine("what?")
    assert (len(model.prompts), len(judge.samples), outcome.stop_reason) == (
        max_attempts,
        max_attempts,
        "max_attempts",
    )


# on_exhausted, fallback


@pytest.mark.parametrize(
    ("settings", "text", "released"),
    [
        ({"on_exhausted": "best"}, "draft 1", 1),
        ({"on_exhausted": "last"}, "draft 2", 2),
        ({"on_exhausted": "fallback", "fallback": "Sorry."}, "Sorry.", None),
    ],
)
async def test_on_exhausted_decides_what_is_returned(
    settings: dict[str, Any], text: str, released: int | None
) -> None:
    """When nothing passed the best, the last or the fallback comes back, marked as not passed."""
    for outcome in (exhausted(**settings).refine("what?"), await exhausted(**settings).arefine("what?")):
        assert outcome.answer is not None
        assert (outcome.answer.text, outcome.released, outcome.passed) == (text, released, False)
        assert outcome.stop_reason == "max_attempts"


def test_on_exhausted_best_takes_the_latest_on_a_tie() -> None:
    """Of two that are as good the later one has seen more feedback."""
    inner = SelfRefine(drafting(), rating(2), max_attempts=3)
    assert inner.invoke("what?").text == "draft 3"


async def test_on_exhausted_raise_raises() -> None:
    """`NotAccepted` holds every attempt."""
    with pytest.raises(NotAccepted, match="max_attempts after 2 attempts") as raised:
        exhausted(on_exhausted="raise").invoke("what?")
    assert [one.rating for one in raised.value.outcome.attempts] == [2, 1]
    with pytest.raises(NotAccepted):
        await exhausted(on_exhausted="raise").arefine("what?")


def test_on_exhausted_interrupt_needs_a_checkpointer() -> None:
    """It is refused where nothing is made to wait with; `"inherit"` says that there will be a checkpointer."""
    policy = Policy(on_exhausted="interrupt")
    for checkpointer in (None, False):
        with pytest.raises(ConfigurationError, match=r"give checkpointer=\.\.\., or checkpointer='inherit' where"):
            exhausted(on_exhausted="interrupt", checkpointer=checkpointer)
        with pytest.raises(ConfigurationError, match="needs a checkpointer"):
            self_refine(drafting(), rating(1), policy=policy, checkpointer=checkpointer)
    outcome = exhausted(on_exhausted="interrupt", checkpointer="inherit").refine("what?")
    assert (outcome.answer, outcome.stop_reason, outcome.detail) == (None, "interrupted", "max_attempts")
    with pytest.raises(Unanswered, match="review"):
        exhausted(on_exhausted="interrupt", checkpointer="inherit").invoke("what?")


def test_an_accepted_answer_asks_no_human() -> None:
    """Exhaustion settings do not matter to what passed."""
    each: list[dict[str, Any]] = [
        {"on_exhausted": "interrupt", "checkpointer": "inherit"},
        {"on_exhausted": "fallback", "fallback": "Sorry."},
    ]
    for settings in each:
        assert SelfRefine(drafting(), rating(4), **settings).invoke("what?").text == "draft 1"


# on_judge_error; the table of faults is in test_judge_outage


def test_on_judge_error_raise_raises() -> None:
    """`JudgeFailed`, also where an earlier attempt was judged."""
    with pytest.raises(JudgeFailed, match="judge_failed after 2 attempts"):
        SelfRefine(drafting(), rating(2, OSError()), on_judge_error="raise").refine("what?")


# budgets; their properties are in test_budgets


# deadline_s


def hanging(hang: Hang, after: int = 0) -> Any:
    """Make a generator that hangs after some drafts."""
    given = iter(range(after))

    def generate(_: list[BaseMessage]) -> str:
        number = next(given, None)
        if number is None:
            hang.wait()
        return f"draft {(number or 0) + 1}"

    return generate


def ahanging(hang: Hang, after: int = 0) -> Any:
    """Make the same without blocking."""
    given = iter(range(after))

    async def generate(_: list[BaseMessage]) -> str:
        number = next(given, None)
        if number is None:
            await hang.await_()
        return f"draft {(number or 0) + 1}"

    return generate


async def test_deadline_abandons_a_hanging_generator(hang: Hang) -> None:
    """A generator that hangs is not waited for; with nothing to return there is no answer."""
    outcome = SelfRefine(hanging(hang), rating(4), deadline_s=DEADLINE_S).refine("what?")
    assert (outcome.answer, outcome.stop_reason, outcome.attempts) == (None, "deadline", ())
    outcome = await SelfRefine(ahanging(hang), rating(4), deadline_s=DEADLINE_S).arefine("what?")
    assert (outcome.answer, outcome.stop_reason, outcome.attempts) == (None, "deadline", ())


async def test_deadline_returns_the_best_so_far(hang: Hang) -> None:
    """What was judged before the deadline is returned, with the reason."""
    settings: dict[str, Any] = {"deadline_s": 2 * DEADLINE_S, "max_attempts": 9}
    for outcome in (
        SelfRefine(hanging(hang, 2), rating(2, 1), **settings).refine("what?"),
        await SelfRefine(ahanging(hang, 2), rating(2, 1), **settings).arefine("what?"),
    ):
        assert outcome.answer is not None
        assert (outcome.answer.text, outcome.passed, outcome.stop_reason) == ("draft 1", False, "deadline")


async def test_deadline_abandons_a_hanging_judge(hang: Hang) -> None:
    """A judge that hangs is not waited for; its draft comes back flagged."""

    def judge(response: str) -> int:
        hang.wait()
        return 4

    async def ajudge(response: str) -> int:
        await hang.await_()
        return 4

    for outcome in (
        SelfRefine(drafting(), judge, deadline_s=DEADLINE_S).refine("what?"),
        await SelfRefine(drafting(), ajudge, deadline_s=DEADLINE_S).arefine("what?"),
    ):
        assert outcome.answer is not None
        assert (outcome.answer.text, outcome.passed, outcome.stop_reason) == ("draft 1", False, "deadline")


def test_a_deadline_far_off_changes_nothing() -> None:
    """An answer in time is an answer."""
    assert SelfRefine(drafting(), rating(1, 4), deadline_s=1e9).invoke("what?").text == "draft 2"


# patience


# augment


def seen_on_retry(augment: Any, attempts: int = 3) -> list[str]:
    """Give what the generator saw after the question on the last attempt."""
    model = drafting()
    SelfRefine(model, rating((1, "fault")), max_attempts=attempts, augment=augment).invoke("what?")
    assert str(model.prompts[-1][0].text) == "what?"
    return [str(one.text).splitlines()[0] for one in model.prompts[-1][1:]]


@pytest.mark.parametrize(
    ("augment", "seen"),
    [
        ("auto", ["draft 2", "That answer is not good enough yet: this has to change."]),
        ("last_draft", ["draft 2", "That answer is not good enough yet: this has to change."]),
        ("restated", ["what?"]),
        ("feedback_only", ["what?"]),
        ("verify_first", ["draft 2", "Somebody who read your answer says that this has to change:"]),
        ("fresh", []),
        (
            "all_drafts",
            [
                "draft 1",
                "That answer was not good enough: this had to change.",
                "draft 2",
                "That answer is not good enough either: this has to change.",
            ],
        ),
        (last_drafts(1), ["draft 2", "That answer is not good enough yet: this has to change."]),
        (lambda made: [HumanMessage(f"again, for the {made.number}. time")], ["again, for the 3. time"]),
        (lambda made: [], []),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_augment_decides_what_the_generator_sees(augment: Any, seen: list[str]) -> None:
    """Each way of augmenting, by name or as a function of the refinement."""
    assert seen_on_retry(augment) == seen


# overrides


def test_an_override_of_temperature_reaches_the_model() -> None:
    """From its attempt on the chat model is called with it; before, with none."""
    model = drafting()
    overrides: Any = {2: {"temperature": 0.8}, 4: Override(temperature=1.2)}
    SelfRefine(model, rating(1), max_attempts=4, overrides=overrides).invoke("what?")
    assert [one.get("temperature") for one in model.settings] == [None, 0.8, 0.8, 1.2]


def test_an_override_may_be_a_function() -> None:
    """Any generator will do."""
    inner = SelfRefine(drafting(), rating(1, 4), overrides={2: {"model": lambda _: "mine"}})
    assert inner.invoke("what?").text == "mine"


def test_an_override_before_the_first_attempt_it_names_changes_nothing() -> None:
    """The entry with the highest number not above the attempt counts."""
    policy = Policy(overrides={2: Override(temperature=0.5), 3: Override(temperature=0.9)})
    assert [policy.override(number).temperature for number in (1, 2, 3, 9)] == [None, 0.5, 0.9, 0.9]


def test_an_override_that_is_no_generator_is_refused_when_made() -> None:
    """What cannot generate is reported before anything is called."""
    with pytest.raises(ConfigurationError, match="cannot generate with 3"):
        SelfRefine(drafting(), rating(1), overrides={2: {"model": 3}})


# skip, sample_rate, shadow


def test_skip_is_a_rule_of_ones_own() -> None:
    """What it names is returned unjudged; everything else is judged."""
    judge = rating(4)
    inner = SelfRefine(
        ScriptedModel(["Hello!", "It is 15 degrees."]), judge, skip=lambda answer: "Hello" in str(answer.text)
    )
    assert [inner.refine("what?").stop_reason for _ in range(2)] == ["skipped", "accepted"]
    assert [one.response for one in judge.samples] == ["It is 15 degrees."]


def test_skip_is_asked_of_every_draft() -> None:
    """A retry may be skipped as well, and is then the answer."""
    inner = SelfRefine(drafting(), rating(1), skip=lambda answer: answer.text == "draft 2")
    outcome = inner.refine("what?")
    assert outcome.answer is not None
    assert (outcome.answer.text, outcome.stop_reason) == ("draft 2", "skipped")


@pytest.mark.parametrize(("sample_rate", "judged"), [(0, 0), (1, 30)])
def test_sample_rate_none_or_all(sample_rate: float, judged: int) -> None:
    """With 0 nothing is judged, with 1 everything."""
    judge = rating(4)
    inner = SelfRefine(lambda _: "draft", judge, sample_rate=sample_rate)
    answers = [inner.invoke("what?") for _ in range(30)]
    assert len(judge.samples) == judged
    assert {one.text for one in answers} == {"draft"}


def test_sample_rate_is_the_share_that_is_judged() -> None:
    """Of 1000 questions about that share is judged."""
    random.seed(7)
    loop = build_loop(lambda _: "draft", rating(4), Policy(sample_rate=0.3), name="n")
    question = {"messages": [HumanMessage("what?")]}
    assert 250 < sum(loop.begin(question).is_judged for _ in range(1_000)) < 350


@pytest.mark.parametrize(
    "settings", [{}, {"on_exhausted": "raise"}, {"on_exhausted": "fallback", "fallback": "x"}], ids=str
)
def test_shadow_judges_and_changes_nothing(settings: dict[str, Any]) -> None:
    """The first draft is returned whatever the verdict, which is there to be read."""
    model, judge = drafting(), rating((1, "bad"))
    outcome = SelfRefine(model, judge, shadow=True, **settings).refine("what?")
    assert outcome.answer is not None
    assert (outcome.answer.text, outcome.passed, len(model.prompts)) == ("draft 1", False, 1)
    assert outcome.attempts[0].rating == 1


def test_shadow_logs_the_verdict() -> None:
    """What would have been refused is in the log."""
    with capture_logs() as logs:
        SelfRefine(drafting(), rating(1), shadow=True).invoke("what?")
    (verdict,) = [one for one in logs if one["event"] == "verdict"]
    assert (verdict["rating"], verdict["accepted"]) == (1, False)


# show_drafts, log_texts


@pytest.mark.parametrize("show_drafts", [False, True])
async def test_show_drafts_sends_drafts_as_progress(show_drafts: bool) -> None:  # noqa: FBT001
    """Only where asked is a draft told, and then a discard follows it unless it is the answer."""
    inner = SelfRefine(drafting(), rating((1, "bad"), 4), show_drafts=show_drafts)
    events: list[tuple[str, Any]] = [
        (one["name"], one["data"])
        async for one in inner.astream_events("what?", version="v2")
        if one["event"] == "on_custom_event"
    ]
    shown = [data["text"] for name, data in events if name == "refine.draft"]
    discarded = [data["attempt"] for name, data in events if name == "refine.discard"]
    assert (shown, discarded) == ((["draft 1", "draft 2"], [1]) if show_drafts else ([], []))
    assert ("draft 1" in str(events)) == show_drafts


def logged(*, log_texts: bool) -> list[Any]:
    """Run a loop whose every text is a secret, and give its log."""
    verdict = Verdict.rated(1, rationale=f"why {SECRET}", feedback=f"change {SECRET}")
    model = ScriptedModel([f"draft {SECRET}", f"another {SECRET}"])
    with capture_logs() as logs:
        inner = SelfRefine(model, rating(verdict), max_attempts=2, log_texts=log_texts)
        inner.invoke(f"question {SECRET}", evidence={"reference": f"reference {SECRET}"})
    return list(logs)


def test_the_log_has_figures_for_every_attempt_and_verdict() -> None:
    """Each attempt, each verdict and the end are an event with figures."""
    logs = logged(log_texts=False)
    assert [one["event"] for one in logs] == [*["start", "attempt", "verdict"] * 2, "finish"]
    for one in logs:
        if one["event"] == "attempt":
            assert {"attempt", "calls", "tokens", "latency_s"} <= one.keys()
        if one["event"] == "verdict":
            assert {"attempt", "judge", "rating", "score", "accepted", "unscored", "tokens"} <= one.keys()
    assert [one["attempt"] for one in logs[:-1]] == [1, 1, 1, 2, 2, 2]
    assert (logs[-1]["stop_reason"], logs[-1]["attempts"]) == ("max_attempts", 2)


def test_the_log_has_no_text_unless_asked() -> None:
    """Neither prompt nor draft nor feedback nor reference is logged."""
    assert SECRET not in str(logged(log_texts=False))


def test_the_log_has_texts_where_asked() -> None:
    """Drafts, rationale and feedback are logged with `log_texts`."""
    _, attempt, verdict, *_ = logged(log_texts=True)
    assert attempt["text"] == f"draft {SECRET}"
    assert (verdict["rationale"], verdict["feedback"]) == (f"why {SECRET}", f"change {SECRET}")


# What cannot be set

PRICE: dict[str, Any] = {"m": {"input": 1, "output": 1}}

BAD: list[tuple[dict[str, Any], str]] = [
    ({"success_rating": 5}, "setting success_rating: input should be 1, 2, 3 or 4 (given 5)"),
    ({"success_rating": "3"}, "a whole number is wanted"),
    ({"success_rating": True}, "a whole number is wanted"),
    ({"max_attempts": 0}, "setting max_attempts: input should be greater than or equal to 1 (given 0)"),
    ({"max_attempts": True}, "valid integer (given True)"),
    ({"max_attempts": 2.5}, "valid integer (given 2.5)"),
    ({"on_exhausted": "first"}, "'best', 'last', 'raise', 'fallback' or 'interrupt' (given 'first')"),
    ({"on_exhausted": "fallback"}, "needs fallback='the text to return' (given None)"),
    ({"on_exhausted": "fallback", "fallback": " "}, "needs fallback='the text to return' (given ' ')"),
    ({"fallback": "Sorry."}, "fallback='Sorry.' is returned under on_exhausted='fallback' only, not under 'best'"),
    ({"on_judge_error": "ignore"}, "'accept', 'reject' or 'raise' (given 'ignore')"),
    ({"max_calls": 0}, "setting max_calls: input should be greater than or equal to 1 (given 0)"),
    ({"max_calls": True}, "valid integer (given True)"),
    ({"max_tokens": -1}, "setting max_tokens: input should be greater than or equal to 1 (given -1)"),
    ({"max_tokens": "many"}, "valid integer (given 'many')"),
    ({"max_cost": 0, "prices": PRICE}, "setting max_cost: input should be greater than 0 (given 0)"),
    ({"max_cost": 1}, "max_cost=1 needs prices={'model name': Price(input=..., output=...)}"),
    ({"max_cost": float("inf"), "prices": PRICE}, "finite number (given inf)"),
    ({"prices": {"m": 3}}, "setting prices.m: input should be a valid dictionary or instance of Price (given 3)"),
    ({"prices": {"m": {"input": 1}}}, "setting prices.m.output: field required"),
    ({"deadline_s": 0}, "setting deadline_s: input should be greater than 0 (given 0)"),
    ({"deadline_s": float("nan")}, "(given nan)"),
    ({"deadline_s": float("inf")}, "finite number (given inf)"),
    ({"patience": 0}, "setting patience: input should be greater than or equal to 1 (given 0)"),
    ({"patience": True}, "valid integer (given True)"),
    ({"augment": "lastdraft"}, "'verify_first', 'fresh' or 'all_drafts', or a function from the refinement"),
    ({"augment": 3}, "(given 3)"),
    ({"overrides": {0: {"temperature": 1}}}, "overrides is keyed by attempt numbers from 1, not [0]"),
    ({"overrides": {"x": {"temperature": 1}}}, "setting overrides.x: input should be a valid integer"),
    ({"overrides": {2: {"temprature": 1}}}, "setting overrides.2: there is no override setting 'temprature'"),
    ({"overrides": {2: {"temprature": 1}}}, "did you mean 'temperature'?"),
    (
        {"overrides": {2: {"temperature": -1}}},
        "override setting temperature: input should be greater than or equal",
    ),
    ({"overrides": {2: 0.8}}, "setting overrides.2: input should be a valid dictionary or instance of Override"),
    ({"skip": "tools"}, "setting skip: input should be callable (given 'tools')"),
    ({"sample_rate": 1.5}, "setting sample_rate: input should be less than or equal to 1 (given 1.5)"),
    ({"sample_rate": -0.5}, "setting sample_rate: input should be greater than or equal to 0 (given -0.5)"),
    ({"shadow": "maybe"}, "setting shadow: input should be a valid boolean"),
    ({"sucess_rating": 4}, "there is no policy setting 'sucess_rating' (given 4); did you mean 'success_rating'?"),
    ({"nonsense": 4}, "there is no policy setting 'nonsense' (given 4); known are augment, "),
]


@pytest.mark.parametrize(("setting", "message"), BAD, ids=lambda one: str(one)[:40])
def test_a_bad_setting_is_one_line(setting: dict[str, Any], message: str) -> None:
    """One clear line names the setting, what was given, and what is possible."""
    with pytest.raises(ConfigurationError) as raised:
        SelfRefine(drafting(), rating(4), **setting)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_policy_cannot_be_changed() -> None:
    """A policy is shared by every question, so it is immutable."""
    with pytest.raises(ValueError, match="frozen"):
        Policy().max_attempts = 4


def test_policies_are_values() -> None:
    """Policies with the same settings are equal, and are copied with a change."""
    assert Policy(max_attempts=4) == SamePolicy(max_attempts=4)
    assert Policy().model_copy(update={"max_attempts": 4}) == Policy(max_attempts=4)


def test_the_defaults_are_the_ancestors() -> None:
    """Rating 3, and three answers."""
    policy = Policy()
    assert (policy.success_rating, policy.max_attempts, policy.on_exhausted) == (3, 3, "best")
    assert (policy.on_judge_error, policy.sample_rate) == ("accept", 1.0)
