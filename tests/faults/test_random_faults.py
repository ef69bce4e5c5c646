"""Seeded random sequences of faults, on both sides at once, over HTTP and without."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import httpx2
import openai
import pytest
from langchain_core.messages import AIMessage

from judges import Helpfulness, Panel
from judges.models.providers.langchain import RETRIES
from judges.models.structured import REPAIRS
from judges.testing import ScriptedModel, no_waiting
from refine import SelfRefine
from tests.faults.catalogue import CRITIC, FAULTS, WRITER, good
from tests.faults.stage import HOWS, STOP_REASONS, End, Stage, run
from tests.model_server import Asked, Reply, Wire

ENDS = {*STOP_REASONS, "DraftError"}
MOST_ASKED = (1 + REPAIRS) * (1 + RETRIES)
"""How often one judge may ask its model about one answer, whatever happens."""

OVER_HTTP = 150
SCRIPTED = 1_000
DEADLINE_S, SLACK_S = 1.0, 10.0
SOON = [fault for fault in FAULTS if not (fault.endless or fault.refused or fault.name == "10 MB body")]
ENDLESS = [fault for fault in FAULTS if fault.endless]


class Chaos:
    """Plays both models for many questions at once: each has faults of its own, by its number."""

    def __init__(self) -> None:
        self.asked: defaultdict[int, Counter[str]] = defaultdict(Counter)
        self.rated: dict[int, int] = {}
        self._choosers: dict[int, random.Random] = {}

    def __call__(self, asked: Asked) -> Reply | Wire:
        """Reply well half of the time, and note each rating that was given in good form."""
        number = int(re.search(r"question (\d+)", str(asked["messages"]))[1])  # type: ignore[index]  # it is there
        choose = self._choosers.setdefault(number, random.Random(number))
        self.asked[number][asked["model"]] += 1
        rating = choose.randint(1, 4)
        reply = good(asked, rating=rating)
        if choose.random() < 0.5:
            return choose.choice(ENDLESS if choose.random() < 0.03 else SOON).spoil(asked, reply)
        if asked["model"] == CRITIC:
            self.rated[number] = rating
        return reply


async def test_random_faults_over_http(stage: Stage) -> None:
    """150 questions, 4 at a time, in all three ways: each ends once, in time, and none is accepted unjudged."""
    chaos = Chaos()
    stage.server.reply = chaos
    judge = Helpfulness(stage.chat(CRITIC))
    refiners = {
        how: SelfRefine(stage.chat(WRITER, streaming=how == "stream"), judge, deadline_s=DEADLINE_S)
        for how in HOWS
    }
    at_once = asyncio.Semaphore(4)

    async def ask(number: int) -> End:
        async with at_once:
            how = HOWS[number % len(HOWS)]
            return await run(refiners[how], how, f"question {number}")

    with no_waiting():
        ends = await asyncio.gather(*(ask(number) for number in range(OVER_HTTP)))

    assert {end.stop_reason for end in ends} <= ENDS
    assert {"accepted", "judge_failed", "generator_failed", "deadline", "max_attempts"} <= {
        end.stop_reason for end in ends
    }
    assert [end for end in ends if end.seconds > DEADLINE_S + SLACK_S] == []
    accepted = {number: end.ratings[-1] for number, end in enumerate(ends) if end.passed}
    assert accepted == {number: chaos.rated[number] for number in accepted}
    assert set(accepted.values()) <= {3, 4}
    assert all(asked[WRITER] <= 3 and asked[CRITIC] <= 3 * MOST_ASKED for asked in chaos.asked.values())
    assert len(chaos.asked) == len(ends) == OVER_HTTP


REQUEST = httpx2.Request("POST", "http://127.0.0.1/v1/chat/completions")


def refused(status: int, **headers: str) -> Exception:
    """Make what the OpenAI client raises for a status."""
    response = httpx2.Response(status, request=REQUEST, headers=headers)
    return openai.APIStatusError(f"status {status}", response=response, body=None)


RAISED: list[Callable[[], object]] = [
    *(lambda status=status: refused(status) for status in (400, 401, 403, 404, 408, 422, 429, 500, 503, 529)),
    lambda: refused(429, **{"retry-after": "30"}),
    lambda: refused(429, **{"retry-after-ms": "nonsense"}),
    lambda: openai.APIConnectionError(request=REQUEST),
    lambda: openai.APITimeoutError(REQUEST),
    lambda: httpx2.RemoteProtocolError("cut"),
    lambda: ConnectionResetError(104, "reset"),
    lambda: TimeoutError("slow"),
    lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    lambda: KeyError("choices"),
    lambda: ValueError("no JSON"),
    lambda: RuntimeError("StopIteration"),
    lambda: StopIteration("stray"),
    lambda: RecursionError("deep"),
]
SAID: list[Callable[[], object]] = [
    lambda: "",
    lambda: "I rate it 4.",
    lambda: '{"rationale": "r", "rating": 4, "feed',
    lambda: {"rationale": "r", "rating": 5, "feedback": ""},
    lambda: {"rationale": "r", "rating": True, "feedback": ""},
    lambda: {"rating": 4},
    lambda: AIMessage("", response_metadata={"finish_reason": "length"}),
    lambda: AIMessage("", additional_kwargs={"refusal": "no"}),
    lambda: AIMessage("", tool_calls=[_call(4), _call(1)]),
    lambda: AIMessage("", invalid_tool_calls=[{"name": "Assessment", "args": "{", "id": "1", "error": "cut"}]),
]


def _call(rating: int) -> Any:
    return {"name": "Assessment", "args": {"rationale": "r", "rating": rating, "feedback": ""}, "id": str(rating)}


def _policy(choose: random.Random) -> dict[str, Any]:
    """Choose rules, among them ones that end a run in each of its ways."""
    endings: list[dict[str, Any]] = [
        *({"on_exhausted": one} for one in ("best", "last", "raise")),
        {"on_exhausted": "fallback", "fallback": "Sorry."},
    ]
    return {
        "max_attempts": choose.randint(1, 4),
        "success_rating": choose.randint(2, 4),
        "on_judge_error": choose.choice(["accept", "reject", "raise"]),
        "patience": choose.choice([None, 1, 2]),
        "max_calls": choose.choice([None, None, 3, 6]),
        **choose.choice(endings),
    }


class Sequence:
    """One seeded sequence: a policy, one or two judges, and what each call of a model comes to."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.given: list[int] = []
        members = self.choose.choice([1, 1, 2])
        models = [ScriptedModel(self._verdict, name=f"judge {number}") for number in range(members)]
        self.models = [ScriptedModel(self._draft, name="generator"), *models]
        judges = [Helpfulness(model) for model in models]
        self.policy = _policy(self.choose)
        self.refiner = SelfRefine(self.models[0], judges[0] if members == 1 else Panel(judges), **self.policy)

    def _draft(self, _: object) -> object:
        spoiled = self.choose.random() < 0.2
        return self.choose.choice([*RAISED, SAID[0]])() if spoiled else f"draft {self.choose.random()}"

    def _verdict(self, _: object) -> object:
        if self.choose.random() < 0.45:
            return self.choose.choice(RAISED + SAID)()
        self.given.append(self.choose.randint(1, 4))
        return {"rationale": "r", "rating": self.given[-1], "feedback": "Better."}

    def check(self, end: End) -> None:
        """See that the run ended once, accepted only what was rated so, and kept the count of its calls."""
        attempts, policy = len(end.ratings), self.policy
        assert end.stop_reason in ENDS
        assert end.passed == (end.stop_reason == "accepted")
        rated = [rating for rating in end.ratings if isinstance(rating, int)]
        assert {rating for rating in rated if rating > 1} <= set(self.given)
        assert not end.passed or (rated[-1] >= policy["success_rating"] and self.given)
        drafts, *asked = [len(model.prompts) for model in self.models]
        assert attempts <= drafts <= policy["max_attempts"]
        assert all(count <= attempts * MOST_ASKED for count in asked)
        if policy["on_judge_error"] != "accept" and not rated:
            assert end.answer is None or end.answer.text == "Sorry."


@pytest.mark.parametrize("start", range(0, SCRIPTED, SCRIPTED // 4))
async def test_random_faults_without_a_server(start: int) -> None:
    """1,000 sequences under random policies, in all three ways: each ends once, as its own record says."""
    ends: Counter[str] = Counter()
    with no_waiting():
        for seed in range(start, start + SCRIPTED // 4):
            one = Sequence(seed)
            end = await run(one.refiner, HOWS[seed % len(HOWS)])
            one.check(end)
            ends[end.stop_reason] += 1
    assert ends.total() == SCRIPTED // 4
    assert {"accepted", "judge_failed", "generator_failed", "budget", "max_attempts", "no_progress"} <= set(ends)
