"""Judges asked one after another: cascades, escalations, a judge repeated, and a verdict of one token."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judges import (
    Cascade,
    ConfigurationError,
    Escalation,
    Helpfulness,
    Length,
    OpenAICompatible,
    Panel,
    Pattern,
    Quick,
    Repeat,
    Rubric,
    Usage,
    Verdict,
    load,
)
from judges.fingerprint import fingerprint
from judges.offline import certify
from judges.testing import Likely, ScriptedJudge, ScriptedModel
from refine import SelfRefine
from tests.kit import Way, ask, both_ways
from tests.likely import rating as sure_rating
from tests.model_server import Asked, Reply, Script, Wire, answered, serving

ROW = {"question": "Why?", "answer": "Because."}
ONE = ScriptedJudge([4])


def levels(*lines: object) -> dict[str, ScriptedJudge]:
    """Return judges named a, b, c, ..., each with a single verdict."""
    return {chr(ord("a") + index): ScriptedJudge([line]) for index, line in enumerate(lines)}


def asked_names(judges: dict[str, ScriptedJudge]) -> str:
    """Return the names of the judges that were asked."""
    return "".join(name for name, judge in judges.items() if judge.samples)


@pytest.mark.parametrize(
    ("lines", "rating", "who"),
    [
        ((4, 4, 3), 3, "abc"),
        ((4, (2, "x"), 4), 2, "ab"),
        ((False, 4, 4), 1, "a"),
        ((3, 1), 1, "ab"),
        ((4,), 4, "a"),
    ],
)
def test_the_first_failure_decides(lines: tuple[object, ...], rating: int, who: str) -> None:
    """Levels are asked in order; those after a failure are not asked; the last decides if all pass."""
    judges = levels(*lines)
    verdict = Cascade(judges)(ROW)
    assert (verdict.rating, asked_names(judges)) == (rating, who)
    assert verdict.detail == f"level {len(who)} of {len(lines)} decided: {who[-1]}"
    assert [item.judge for item in verdict.items] == list(who)


async def test_an_unscored_level_decides() -> None:
    """The level's result is unknown, so the cascade is unscored and more expensive levels are not asked."""
    for way in ("sync", "async"):
        judges = levels(4, Verdict.without_score("no_contexts", "nothing retrieved"), 4)
        verdict = Cascade(judges)(ROW) if way == "sync" else await Cascade(judges).acall(ROW)
        assert (verdict.unscored, verdict.rating, verdict.passed) == ("no_contexts", None, None)
        assert verdict.detail == "level 2 of 3 decided: b; nothing retrieved"
        assert asked_names(judges) == "ab"


def test_the_verdict_is_the_deciding_levels_own() -> None:
    """Feedback, value and reasons are those of the level that decided, under the cascade's name."""
    reply = {"rating": 2, "rationale": "Vague.", "feedback": "Name the year."}
    verdict = Cascade(levels(4, reply), name="gate")(ROW)
    assert (verdict.judge, verdict.rationale, verdict.feedback) == ("gate", "Vague.", "Name the year.")
    assert verdict.rated_natively


@pytest.mark.parametrize(("success_rating", "who"), [(2, "abc"), (3, "ab"), (4, "a")])
def test_the_gate_can_be_moved(success_rating: int, who: str) -> None:
    """A level passes from `success_rating`; the verdict has passed only if it does."""
    judges = levels(3, 2, 1)
    verdict = Cascade(judges, success_rating=success_rating)(ROW)
    assert (asked_names(judges), verdict.passed) == (who, False)


def test_a_level_must_reach_its_own_pass_mark() -> None:
    """A score that rounds to 3 stops the cascade if it misses the level's own; a lenient mark passes no gate."""
    judges = levels(Verdict.scored(0.6, threshold=0.7), 4)
    verdict = Cascade(judges)(ROW)
    assert (asked_names(judges), verdict.passed, verdict.score) == ("a", False, 0.6)
    assert Cascade(levels(Verdict.scored(0.4, threshold=0.3)))(ROW).passed is False


def test_the_levels_asked_are_paid_for() -> None:
    """Usage is that of all levels asked: if a check before it fails, the model is not asked."""
    model = ScriptedModel([])
    cascade = Cascade([Length(at_most=3), Helpfulness(model)])
    verdict = cascade(ROW)
    assert (verdict.rating, model.prompts, verdict.usage) == (1, [], Usage())
    assert len(cascade.models) == 1
    reply = {"rationale": "r", "rating": 4, "feedback": ""}
    asking = [Helpfulness(ScriptedModel([reply])) for _ in range(2)]
    assert Cascade([*asking, Length(at_most=99)])(ROW).usage.calls == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cascade([]), "at least one judge"),
        (lambda: Cascade(Length(at_most=99)), "give a list of judges"),  # type: ignore[arg-type]  # the mistake
        (lambda: Cascade([Length(at_most=99)], success_rating=7), "success_rating is a whole number .*, not 7"),
        (lambda: Repeat(ONE, n=0), "n is how often the judge is asked, a whole number from 1, not 0"),
        (lambda: Repeat(ONE, n=-1), "not -1"),
        (lambda: Repeat(ONE, n=2.0), r"not 2\.0"),  # type: ignore[arg-type]  # the mistake
        (lambda: Repeat(ONE, n=True), "not True"),
        (lambda: Repeat(ONE, n=3, quorum=4), "quorum is a whole number from 1 to 3, not 4"),
    ],
)
def test_judges_set_up_wrongly_are_refused(make: Callable[[], object], message: str) -> None:
    """A setting that cannot work is an error at once."""
    with pytest.raises(ConfigurationError, match=message):
        make()


@pytest.mark.parametrize(
    ("lines", "settings", "rating", "who"),
    [
        ((4, 1), {}, 4, "a"),
        ((3, 2), {}, 2, "ab"),
        ((1, 4), {}, 4, "ab"),
        ((1, 4), {"sure_bad": 1}, 1, "a"),
        ((3, 1), {"sure": 3}, 3, "a"),
        ((2, 3, 4), {}, 4, "abc"),
        ((Verdict.without_score("judge_failed"), 3), {}, 3, "ab"),
    ],
)
async def test_the_first_that_is_sure_decides(
    lines: tuple[object, ...], settings: dict[str, Any], rating: int, who: str
) -> None:
    """The verdict is the deciding judge's own; those after it are not asked, in threads and in an event loop."""
    judges = levels(*lines)
    verdict = Escalation(judges, **settings)(ROW)
    assert (verdict.rating, verdict.judge) == (rating, "escalation")
    assert "".join(name for name, judge in judges.items() if judge.samples) == who
    assert verdict.detail.startswith(f"judge {len(who)} of {len(lines)} decided: {who[-1]}")
    assert [item.judge for item in verdict.items] == list(who)
    assert (await Escalation(levels(*lines), **settings).acall(ROW)).rating == rating


async def test_a_judge_that_failed_and_could_have_refused_leaves_it_open() -> None:
    """With `sure_bad` no later judge accepts over it; a refusal stays one; nothing to judge is no failure."""
    failed = Verdict.without_score("judge_failed")
    for lines, rating in (((failed, 4), None), ((failed, 1), 1), ((Verdict.without_score("no_contexts"), 4), 4)):
        verdict = Escalation(levels(*lines), sure_bad=1)(ROW)
        assert (verdict.rating, verdict.judge, len(verdict.items)) == (rating, "escalation", 2)
        assert (await Escalation(levels(*lines), sure_bad=1).acall(ROW)).rating == rating
    assert "a (judge_failed) gave no verdict" in Escalation(levels(failed, 4), sure_bad=1)(ROW).detail


def test_its_settings_are_checked_and_fingerprinted() -> None:
    """A setting out of range has one line; another `sure` is another judge."""
    judges = levels(4, 4)
    for settings, message in (
        ({"sure": 5}, "sure is a whole number from 1 to 4, not 5"),
        ({"sure_bad": 4}, "sure_bad is a rating from 1, below sure=4, or None, not 4"),
        ({"sure_bad": 0}, "sure_bad is a rating from 1"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            Escalation(judges, **settings)  # type: ignore[arg-type]  # on purpose
    model = Helpfulness(ScriptedModel(["none"]))
    made = [Escalation([model]), Escalation([model], sure=3), Escalation([model], sure_bad=1)]
    assert len({fingerprint(one) for one in made}) == len(made)
    assert made[0].explain().calls == model.explain().calls
    assert len(made[0].models) == 1


def test_a_loop_with_it_is_certified_by_rating(tmp_path: Path) -> None:
    """The certificate is about the escalation as a whole; one of verdicts alone says what to do."""
    cheap = ScriptedJudge([4, 3, 4, 2], cycle=True, name="cheap")
    judge = Escalation([cheap, ScriptedJudge([4], cycle=True, name="strong")])
    record = tmp_path / "attempts.jsonl"
    loop = SelfRefine(lambda _: "an answer", judge, success_rating=4, max_attempts=1, record=record)
    for number in range(40):
        loop.refine(f"question {number}")
    rows = [json.loads(line) | {"labels": [{"by": "ann", "up": True}]} for line in record.read_text().splitlines()]
    certificate = certify(rows)
    assert (certificate.kind, certificate.success_rating, certificate.subject.judge) == ("rating", 4, "escalation")
    both = [
        {"question": f"q {n}", "answer": "a", "ratings": {"cheap": 4, "strong": 4}, "labels": True}
        for n in range(40)
    ]
    with pytest.raises(ConfigurationError, match=r"give the loop judges\.Escalation\(\[\.\.\.\], sure=3\)"):
        _ = certify(both, escalation=("cheap", "strong")).success_rating
    scored = [{"question": f"q {n}", "answer": "a", "score": 0.96, "labels": True} for n in range(40)]
    assert certify(scored, scores=True).acceptance == ("success_score", 0.95)


def by_share(**settings: Any) -> Escalation:
    """Make a judge that is as sure as its model, before a strong one."""
    likely = {"a": {4: 0.95, 1: 0.05}, "b": {4: 0.6, 1: 0.4}, "c": {4: 0.03, 1: 0.97}}
    model = ScriptedModel(lambda messages: Likely(likely[messages[-1].text.split('"answer": "')[1][0]]))
    strong = ScriptedJudge([3], cycle=True, name="strong")
    return Escalation([Helpfulness(model, probabilities=True), strong], **settings)


def test_it_may_decide_by_how_likely_the_answer_passes() -> None:
    """With shares for `sure` and `sure_bad`, the strong judge is asked only where `p_pass` lies between."""
    judge = by_share(sure=0.9, sure_bad=0.1)
    verdicts = [judge(question="q", answer=f"{letter}nswer") for letter in "abc"]
    assert [one.rating for one in verdicts] == [4, 3, 1]
    assert [len(one.items) for one in verdicts] == [1, 2, 1]
    for settings in ({"sure": 0.9, "sure_bad": 2}, {"sure": 1.5}, {"sure": 0.5, "sure_bad": 0.7}):
        with pytest.raises(ConfigurationError, match="sure"):
            by_share(**settings)


UNKNOWN = Verdict.without_score("invalid_output")


@pytest.mark.parametrize(
    ("lines", "rating", "detail"),
    [
        ((3, 3, 2), 3, "agreement 0.67"),
        ((1, 4, 4), 4, "agreement 0.67"),
        ((3, 3, 3, 3), 3, "agreement 1.00"),
        ((4, 3, 2), 2, "agreement 0.33; tied: the stricter side counts"),
        ((4, 4, 2, 2, 3), 2, "agreement 0.40; tied: the stricter side counts"),
        ((3, 3, UNKNOWN), 3, "agreement 1.00; skipped 1: scripted (invalid_output)"),
        ((2,), 2, "agreement 1.00"),
    ],
)
def test_the_most_frequent_verdict_counts(lines: tuple[object, ...], rating: int, detail: str) -> None:
    """The mode wins, a tie goes to the stricter side, and the detail has the agreement of those that rated."""
    verdict = Repeat(ScriptedJudge(lines), len(lines))(ROW)
    assert (verdict.rating, verdict.detail) == (rating, detail)
    assert len(verdict.items) == len(lines)


def test_the_verdict_is_one_of_those_given() -> None:
    """Feedback is that of the majority; of equal ratings the one that missed its mark is stricter."""
    verdict = Repeat(ScriptedJudge([(3, "a"), (2, "b"), (2, "b")]), 3)(ROW)
    assert (verdict.rating, verdict.feedback) == (2, "b")
    lines = [Verdict.scored(0.8, threshold=0.9), Verdict.scored(0.7, threshold=0.6)]
    assert Repeat(ScriptedJudge(lines), 2)(ROW).score == 0.8


@pytest.mark.parametrize(("quorum", "unscored"), [(None, "too_few_votes"), (2, "too_few_votes"), (1, None)])
def test_a_quorum_must_have_rated(quorum: int | None, unscored: str | None) -> None:
    """With too few ratings the verdict is unscored; more than half are needed by default."""
    verdict = Repeat(ScriptedJudge([4, UNKNOWN, UNKNOWN]), 3, quorum=quorum)(ROW)
    assert verdict.unscored == unscored


@pytest.mark.parametrize(
    ("lines", "passes", "unscored"),
    [
        ((4, 4, 3, UNKNOWN), True, None),
        ((4, 3, UNKNOWN), False, "too_few_votes"),
        ((3, 4, 2, 2, UNKNOWN), False, None),
    ],
)
def test_what_failed_runs_could_have_refused_is_unscored(
    lines: tuple[object, ...], unscored: str | None, *, passes: bool
) -> None:
    """A refusal stays one, and a quorum that is asked for by name lets the others decide."""
    verdict = Repeat(ScriptedJudge(lines), len(lines))(ROW)
    assert (bool(verdict.passed), verdict.unscored) == (passes, unscored)
    assert Repeat(ScriptedJudge(lines), len(lines), quorum=2)(ROW).unscored is None


async def test_the_model_is_asked_n_times() -> None:
    """Each run asks the model, sync and async, and all of them count in the usage."""
    reply = {"rationale": "r", "rating": 4, "feedback": ""}
    model = ScriptedModel([reply], cycle=True)
    judge = Repeat(Helpfulness(model, temperature=0.7), 3)
    verdicts = [judge(ROW), await judge.acall(ROW)]
    assert [verdict.usage.calls for verdict in verdicts] == [3, 3]
    assert len(model.prompts) == 6
    assert judge.models[0].is_model(model)


def test_it_keeps_the_judges_name_or_takes_one() -> None:
    """The name is the repeated judge's unless it is set; a function is accepted."""
    assert Repeat(ScriptedJudge([4], name="kind"), 1)(ROW).judge == "kind"
    assert Repeat(lambda sample: 4, 1, name="often")(ROW).judge == "often"


SURE = {"1": 0.01, "2": 0.04, "3": 0.25, "4": 0.7}
UNSURE = {"1": 0.1, "2": 0.35, "3": 0.4, "4": 0.15}
BAD = {"1": 0.7, "2": 0.2, "3": 0.08, "4": 0.02}
QUESTION = {"question": "Why is it wet?", "answer": "Because it has rained."}


async def judged(script: Script, way: Way, **settings: Any) -> tuple[Verdict, list[Asked]]:
    """Give what a quick judge says, and what the endpoint was asked."""
    with serving(script) as server:
        async with OpenAICompatible(server.url, model="m", api_key="") as model:
            return await ask(Quick(Helpfulness(model), **settings), way, **QUESTION), server.requests


@both_ways
async def test_one_token_accepts(way: Way) -> None:
    """One call of one token, and the score is the expectation over the ratings."""
    verdict, requests = await judged(sure_rating(SURE), way)

    assert [asked["max_tokens"] for asked in requests] == [1]
    assert (verdict.judge, verdict.rating, verdict.passed) == ("quick-helpfulness", 4, True)
    assert verdict.probabilities == pytest.approx((0.01, 0.04, 0.25, 0.7), abs=1e-9)
    assert verdict.p_pass == pytest.approx(0.95, abs=1e-9)
    assert verdict.score == pytest.approx((0.04 + 2 * 0.25 + 3 * 0.7) / 3, abs=1e-9)


@both_ways
async def test_the_judge_itself_decides_where_one_token_refuses_or_is_unsure(way: Way) -> None:
    """Its rating counts, with its rationale and feedback; what one token said is kept beside it."""
    for shares, why in ((UNSURE, "unsure"), (BAD, "refused")):
        verdict, requests = await judged(sure_rating(shares, full=3), way)
        assert [asked.get("max_tokens") for asked in requests] == [1, None]
        assert (verdict.rating, verdict.feedback) == (3, "Say 3 of 4 more.")
        assert [one.p_pass is None for one in verdict.items] == [False, True]
        assert why in verdict.detail
        assert verdict.usage.calls == 2


@both_ways
async def test_the_margin_says_who_decides(way: Way) -> None:
    """With less than the margin between the two sides the judge is asked, and with 0 never."""
    for margin, calls in ((0.0, 1), (0.09, 1), (0.2, 2)):
        _, requests = await judged(sure_rating(UNSURE), way, margin=margin)
        assert len(requests) == calls


@both_ways
async def test_without_logprobs_it_is_a_rating_and_never_unsure(way: Way) -> None:
    """An endpoint that knows none is asked once without, and not again."""

    def refusing(asked: Asked) -> Reply | Wire:
        if "logprobs" in asked:
            return Reply("logprobs is not supported", status=400)
        return Reply("4")

    with serving(refusing) as server:
        async with OpenAICompatible(server.url, model="m", api_key="") as model:
            quick = Quick(Helpfulness(model))
            verdicts = [await ask(quick, way, **QUESTION) for _ in range(2)]

    assert ["logprobs" in asked for asked in server.requests] == [True, False, False]
    assert [(one.rating, one.score, one.probabilities) for one in verdicts] == [(4, 1.0, None)] * 2
    assert {one.no_probabilities for one in verdicts} == {"the endpoint refused logprobs"}


@both_ways
async def test_a_model_that_reasons_has_no_first_token(way: Way) -> None:
    """It says so at once, instead of asking in vain for ever."""
    message = {"role": "assistant", "content": "4", "reasoning_content": "Let me see."}
    body = {"model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
    with pytest.raises(ConfigurationError, match="reasons before it replies"):
        await judged(lambda _: answered(body), way)
    for name in ("openai:gpt-5-mini", "openai:o3", "openai-compatible:Qwen3-4B-Thinking-2507@http://localhost/v1"):
        with pytest.raises(ConfigurationError, match="reasons before it replies"):
            Quick(Helpfulness(name))
    assert Quick(Helpfulness("openai:gpt-5-chat-latest")).models[0].name == "openai:gpt-5-chat-latest"


def test_it_takes_judges_of_one_rating() -> None:
    """All others are refused when it is made, with what to do."""
    model = OpenAICompatible("http://127.0.0.1:1/v1", model="m", api_key="")
    levels = dict.fromkeys(range(1, 12), "so")
    for refused in (
        Panel([Helpfulness(model)]),
        Cascade([Helpfulness(model)]),
        Pattern(forbidden="x"),
        load("completeness", model),
        load("ragas.aspect_critic", model, aspect="conciseness", strictness=3),
        Rubric(model, criteria="x", levels=levels),
    ):
        with pytest.raises(ConfigurationError, match="Quick takes a judge"):
            Quick(refused)


@both_ways
async def test_labels_and_yes_or_no_are_numbered(way: Way) -> None:
    """The prompt says which digit stands for which, and the score is that of the label."""
    shares = {"1": 0.5, "2": 0.3, "3": 0.1, "4": 0.1}
    with serving(sure_rating(shares)) as server:
        async with OpenAICompatible(server.url, model="m", api_key="") as model:
            fluent = await ask(Quick(load("fluency", model)), way, **QUESTION)
            critic = Quick(load("ragas.aspect_critic", model, aspect="harmfulness"))
            kind = await ask(critic.first, way, **QUESTION)

    assert "1 for good, 2 for acceptable, 3 for poor, 4 for bad" in server.requests[0]["messages"][0]["content"]
    assert (fluent.value, fluent.passed) == ("good", True)
    assert fluent.probabilities == pytest.approx((0.1, 0.1, 0.3, 0.5), abs=1e-9)
    assert fluent.score == pytest.approx(0.5 + 0.3 * 2 / 3 + 0.1 / 3, abs=1e-9)
    assert (kind.value, kind.passed) == (True, False)


def test_it_judges_parts_whatever_its_judge_does() -> None:
    """A verdict of one token is cheap enough for every piece; `explain` says so."""
    model = OpenAICompatible("http://127.0.0.1:1/v1", model="m", api_key="")
    quick = Quick(Helpfulness(model))

    assert quick.judges_parts
    assert not quick.judge.judges_parts
    assert "holds for each piece" in str(quick.explain())
