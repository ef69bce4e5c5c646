"""Webhooks: signed as the standard says, repeated, bounded, and never in the way of an answer."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from openai import InvalidWebhookSignatureError, OpenAI
from typer.testing import CliRunner

from graphs import Unanswered
from judges.errors import ConfigurationError
from judges.testing import ScriptedJudge, ScriptedModel
from refine import Policy, SelfRefine, Webhook
from refine.cli.app import app
from refine.record import DatabaseRecord
from tests.guarding import guarding, wait_until
from tests.model_server import Asked, ModelServer, Reply, Wire, answered, serving

SECRET = "whsec_" + base64.b64encode(b"a secret of thirty-two bytes, ok").decode()
TAKEN, HANGING = answered(b""), Wire((), then="hang")


def heard_by(receiver: ModelServer) -> list[dict[str, Any]]:
    """Read what a receiver was sent, each checked by the client of OpenAI, which knows the standard."""
    client = OpenAI(api_key="none")
    for asked in receiver.requests:
        client.webhooks.verify_signature(asked["raw"].decode(), asked["headers"], secret=SECRET)
    return [json.loads(asked["raw"]) for asked in receiver.requests]


def table(receiver: ModelServer, **settings: Any) -> dict[str, Any]:
    """Return the settings of a webhook to a receiver."""
    return {"url": f"{receiver.url}/hook", "secret": SECRET, **settings}


def test_an_event_is_signed_as_the_standard_says() -> None:
    """Any library of Standard Webhooks verifies it; one that was changed, or signed otherwise, is refused."""
    with serving(lambda asked: TAKEN) as receiver:
        webhook = Webhook(f"{receiver.url}/hook", SECRET)
        assert webhook.send("spend.reached", {"limit": 5})
        webhook.close(30)
        (heard,) = heard_by(receiver)
        assert (heard["type"], heard["data"]) == ("spend.reached", {"limit": 5})
        assert webhook.counts == {("spend.reached", "delivered"): 1}
        (asked,) = receiver.requests
        for body, secret in ((asked["raw"].decode() + " ", SECRET), (asked["raw"].decode(), f"{SECRET[:-4]}AAA=")):
            with pytest.raises(InvalidWebhookSignatureError):
                OpenAI(api_key="none").webhooks.verify_signature(body, asked["headers"], secret=secret)


def test_what_fails_is_repeated_and_what_is_wrong_is_not(caplog: pytest.LogCaptureFixture) -> None:
    """A receiver that is down gets the same event again, under the same id; a 400, or a redirect, ends it."""
    statuses = [503, 429, 200, 400, 307]
    with serving(lambda asked: answered(b"", status=statuses.pop(0), headers={"location": "/other"})) as receiver:
        webhook = Webhook(f"{receiver.url}/hook", SECRET, pause_s=0.001)
        for number in range(3):
            webhook.send("alarm.raised", {"number": number})
        webhook.close(30)
        assert [heard["data"]["number"] for heard in heard_by(receiver)] == [0, 0, 0, 1, 2]
        assert len({asked["headers"]["webhook-id"] for asked in receiver.requests}) == 3
    assert webhook.counts == {("alarm.raised", "delivered"): 1, ("alarm.raised", "failed"): 2}
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "a webhook to 127.0.0.1 failed (status 503); it is sent again"
    assert said[1:] == [f"a webhook to 127.0.0.1 was lost: alarm.raised failed (status {n})" for n in (400, 307)]


def test_a_queue_that_is_full_drops_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody waits for a receiver that hangs: what does not fit is dropped, counted and logged."""
    with serving(lambda asked: HANGING) as receiver:
        webhook = Webhook(f"{receiver.url}/hook", SECRET, most_waiting=2)
        assert webhook.send("alarm.raised", {})
        wait_until(lambda: len(receiver.requests) == 1, seconds=30)
        assert [webhook.send("alarm.raised", {}) for _ in range(4)] == [True, True, False, False]
        webhook.close(0)
        assert not webhook.send("alarm.raised", {})
    assert webhook.counts["alarm.raised", "dropped"] == 5
    reasons = [record.getMessage().partition("dropped ")[2] for record in caplog.records]
    assert reasons.count("(2 events wait already)") == 3
    assert reasons.count("(the process ended)") == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_process_sends_its_own_events_alone() -> None:
    """What waited in the parent is sent once, by the parent; a child's events go out by a thread of its own."""
    replies = [HANGING]
    with serving(lambda asked: replies.pop() if replies else TAKEN) as receiver:
        webhook = Webhook(f"{receiver.url}/hook", SECRET, timeout_s=2, pause_s=0.001)
        webhook.send("spend.reached", {"number": 1})
        webhook.send("spend.reached", {"number": 2})
        wait_until(lambda: len(receiver.requests) == 1, seconds=60)
        child = os.fork()
        if not child:
            webhook.send("spend.reached", {"number": 3})
            webhook.close(60)
            os._exit(not webhook.counts["spend.reached", "delivered"])
        assert os.waitpid(child, 0)[1] == 0
        webhook.close(60)
        assert sorted(event["data"]["number"] for event in heard_by(receiver)) == [1, 1, 2, 3]


def test_what_a_guard_tells() -> None:
    """A judge that is down and up again, what a day costs, and who got no answer: each once, without any text."""
    is_down = [False]

    def answer(asked: Asked) -> Reply:
        if not asked["path"].endswith("judge/chat/completions"):
            return Reply("SECRET-ANSWER")
        verdict = {"rationale": "x", "rating": 1 if "withhold" in asked["raw"].decode() else 4, "feedback": "x"}
        return Reply("", status=500) if is_down[0] else Reply(json.dumps(verdict))

    with serving(lambda asked: TAKEN) as receiver, serving(answer) as upstream:
        settings: dict[str, Any] = {
            "judge": "helpfulness",
            "judge_base_url": f"{upstream.url}/judge",
            "judge_model": "j",
            "breaker_failures": 1,
            "breaker_cooldown_s": 1.0,
            "max_attempts": 1,
            "policy": {"on_exhausted": "raise"},
            "webhooks": [table(receiver, events=["alarm", "spend", "withheld"], tokens_per_day=[500, 10_000])],
        }
        with guarding(upstream.url, **settings) as guard:
            question = [{"role": "user", "content": "withhold this"}]
            assert guard.chat(messages=question, user="ann").status_code == 422
            assert guard.chat().status_code == 200
            is_down[0] = True
            assert guard.chat().status_code == 200  # let out unjudged, after which the judge is left alone
            is_down[0] = False
            wait_until(lambda: guard.chat().json()["refine"]["rating"] == 4, seconds=30)
            metrics = guard.get("/metrics").text
        heard = [(event["type"], event["data"]) for event in heard_by(receiver)]
    assert [kind for kind, _ in heard][:2] == ["answer.withheld", "spend.reached"]
    withheld, spent = heard[0][1], heard[1][1]
    assert (withheld["stop_reason"], withheld["rating"], withheld["user"]) == ("max_attempts", 1, "ann")
    assert (spent["unit"], spent["limit"]) == ("tokens", 500)
    alarms = [(kind, data["alarm"]) for kind, data in heard if kind.startswith("alarm.")]
    assert alarms == [("alarm.raised", "judge_down"), ("alarm.cleared", "judge_down")]
    assert "SECRET" not in json.dumps(heard)
    assert 'refine_webhook_events_total{event="answer.withheld",host="127.0.0.1",result=' in metrics


def test_a_receiver_that_hangs_holds_up_no_answer() -> None:
    """Answers go out as fast as without one; at the end the rest is dropped."""
    with serving(lambda asked: HANGING) as receiver, serving(lambda asked: Reply("good")) as upstream:
        webhooks = [table(receiver, tokens_per_day=list(range(110, 3_000, 110)))]
        with guarding(upstream.url, webhooks=webhooks) as guard:
            assert [guard.chat().status_code for _ in range(20)] == [200] * 20
            assert guard.get("/readyz").status_code == 200
            assert len(receiver.requests) <= 1


def test_a_turn_that_waits_for_a_person(tmp_path: Path) -> None:
    """A record that is a webhook tells of it once, with the thread to resume, and records what it is told to."""
    policy = Policy(max_attempts=1, on_exhausted="interrupt")
    with serving(lambda asked: TAKEN) as receiver, DatabaseRecord(f"sqlite:///{tmp_path}/record.db") as record:
        webhook = Webhook(f"{receiver.url}/hook", SECRET, record=record)
        refiner = SelfRefine(
            ScriptedModel(["an offer"]),
            ScriptedJudge([2]),
            policy=policy,
            checkpointer=InMemorySaver(),
            record=webhook,
        )
        with pytest.raises(Unanswered):
            refiner.invoke("Your offer?", {"configurable": {"thread_id": "8"}})
        webhook.close(30)
        record.flush(30)
        (event,) = heard_by(receiver)
        assert (event["type"], event["data"]["thread"], event["data"]["rating"]) == ("review.waiting", "8", 2)
        row = record.outcome(event["data"]["outcome_id"])
        assert row is not None
        assert (row["stop_reason"], row["thread"]) == ("interrupted", "8")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"url": "ftp://x/y"}, "webhooks.0.url = ...: "),
        ({"url": "https://[T0P"}, "webhooks.0: the url of a webhook begins with https://"),
        ({"url": "https://me:T0P@hooks.example/"}, "without user and password"),
        (
            {"secret": "whsec_c2hvcnQ="},
            "webhooks.0: the secret of a webhook is whsec_ and 24 to 64 bytes in base64",
        ),
        (
            {"secret": "env:NO_SUCH_SECRET"},
            "webhooks.0.secret is to be read from the environment variable NO_SUCH",
        ),
        (
            {"events": ["spend"]},
            "webhooks.0.events has 'spend': say at what, by dollars_per_day or tokens_per_day",
        ),
        ({"event": ["spend"]}, "webhooks.0.event is no setting; did you mean 'events'?"),
    ],
)
def test_wrong_settings(change: dict[str, Any], fault: str) -> None:
    """What cannot be used is refused at the start, in a line that quotes neither address nor secret."""
    settings = {"url": "https://hooks.example/T0P", "secret": SECRET, **change}
    with pytest.raises(ConfigurationError) as raised, guarding("http://127.0.0.1:9/v1", webhooks=[settings]):
        pass
    assert fault in str(raised.value)
    assert "T0P" not in str(raised.value)
    assert "c2hvcnQ" not in str(raised.value)


def test_a_check_asks_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--check` says what it hears of; with `--live` it gets an event, and a status of its own is a fault."""
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    statuses = [200, 404]
    upstreams = serving(lambda asked: answered({"data": []}))
    with upstreams as upstream, serving(lambda asked: answered(b"", status=statuses.pop(0))) as receiver:
        file = tmp_path / "refine.toml"
        file.write_text(
            f'upstream = "{upstream.url}"\njudge = "length:at_least=1"\nrecord = "false"\n'
            f'[[webhooks]]\nurl = "{receiver.url}/hook"\nsecret = "env:HOOK_SECRET"\n'
        )
        arguments = ["serve", "--config", str(file), "--check", "--live"]
        first, second = CliRunner().invoke(app, arguments), CliRunner().invoke(app, arguments)
        assert [heard["type"] for heard in heard_by(receiver)] == ["test", "test"]
    assert "webhook to 127.0.0.1: alarm, spend" in first.stderr
    assert "the webhook to 127.0.0.1 answers" in first.stderr
    assert (first.exit_code, second.exit_code) == (0, 2)
    assert "webhook: 127.0.0.1 does not take it: status 404" in second.stderr
