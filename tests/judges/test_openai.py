"""The direct client asks OpenAI-compatible endpoints over real HTTP: strictly, sparingly, its key unseen."""

from __future__ import annotations

import asyncio
import gc
import gzip
import itertools
import json
import pickle
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from langchain_openai import ChatOpenAI

import judges
from judges import ConfigurationError, Helpfulness, JudgeModel, ModelRequestError, OpenAICompatible, Verdict
from judges.catalogue.general.rubric import _reply_schema
from judges.model import ModelRequest, PromptRole
from judges.models.providers.http import LARGEST_REPLY
from judges.models.providers.http_errors import (
    EndpointConnectionError,
    EndpointError,
    EndpointReplyError,
    EndpointStatusError,
    EndpointTimeoutError,
)
from judges.models.retry import is_transient
from judges.runtime.budget import Allowance
from judges.runtime.observation import within
from judges.testing import no_waiting
from tests.kit import Way, ask, both_ways
from tests.laws import for_every
from tests.model_server import Asked, ModelServer, Reply, Wire, answered, in_turn, serving, tools_of

GOOD = {"rationale": "r", "rating": 4, "feedback": ""}
WRITTEN = json.dumps(GOOD)
KEY = "sk-planted-quux"
SCHEMA = _reply_schema((1, 2, 3, 4))
LETTER = ModelRequest((("system", "Judge."), ("user", "the prompt's own secret: xyzzy-plugh")), SCHEMA)


def obliging(asked: Asked) -> Reply:
    """Reply with the object in the way that was asked for."""
    return Reply(calls=(("Assessment", GOOD),)) if "tools" in asked else Reply(WRITTEN)


def way_of(asked: Asked) -> str:
    """Name the way in which a request asks for the object."""
    return "json_schema" if "response_format" in asked else "tools" if "tools" in asked else "text"


def ways(server: ModelServer) -> list[str]:
    """Name the ways of all requests."""
    return [way_of(asked) for asked in server.requests]


def direct(server: ModelServer, **settings: Any) -> OpenAICompatible:
    """Make a client for a server of this test."""
    return OpenAICompatible(server.url, **{"model": "m", "api_key": KEY, **settings})


async def judged(model: object, way: Way) -> Verdict:
    """Judge once, without blocking the server's thread for long either way."""
    judge = Helpfulness(model)
    return await ask(judge, way, response="a")


async def failure(model: OpenAICompatible, way: Way) -> Exception:
    """Send a request that must fail, and give the error."""
    with pytest.raises(EndpointError) as caught:
        _ = model.send(LETTER) if way == "sync" else await model.asend(LETTER)
    return caught.value


@both_ways
@pytest.mark.parametrize("method", ["json_schema", "tools", "text"])
async def test_each_method_gives_a_verdict(method: Any, way: Way) -> None:
    """The method asked for is the one used, and its reply is read."""
    with serving(obliging) as server:
        verdict = await judged(direct(server, method=method), way)
    assert (verdict.rating, ways(server)) == (4, [method])


def asked_by(**settings: Any) -> Asked:
    """Give what a client with these settings sends for one verdict."""
    with serving(obliging) as server, direct(server, **settings) as model:
        Helpfulness(model)(response="a")
    (asked,) = server.requests
    return asked


def test_request_says_what_was_set() -> None:
    """Model, key, temperature, limit and extra fields are sent; nothing else that decides the reply."""
    asked = asked_by(max_tokens=99, extra={"seed": 7})
    assert asked["path"] == "/v1/chat/completions"
    assert asked["authorization"] == f"Bearer {KEY}"
    sent = {"model", "temperature", "max_tokens", "seed", "messages", "response_format"}
    assert json.loads(asked["raw"]).keys() == sent
    assert (asked["model"], asked["temperature"], asked["max_tokens"], asked["seed"]) == ("m", 0.0, 99, 7)
    assert asked["messages"][0]["role"] == "system"
    assert asked_by(temperature=None).keys() & {"temperature", "max_tokens"} == set()
    with serving(obliging) as server:
        with OpenAICompatible(f"{server.url}/?api-version=1", model="m", api_key="") as model:  # as Azure's
            Helpfulness(model)(response="a")
        assert model.base_url == server.url
    assert server.requests[0]["path"] == "/v1/chat/completions?api-version=1"


def test_schema_is_strict_and_reasons_come_first() -> None:
    """The endpoint is given a closed schema, in the order of the fields; of a tool the one call is forced."""
    request = asked_by()["response_format"]["json_schema"]
    assert (request["name"], request["strict"]) == ("Assessment", True)
    assert list(request["schema"]["properties"]) == request["schema"]["required"]
    assert request["schema"]["required"] == ["rationale", "rating", "feedback"]
    assert request["schema"]["additionalProperties"] is False
    assert request["schema"]["properties"]["rating"]["enum"] == [1, 2, 3, 4]
    asked = asked_by(method="tools")
    assert tools_of(asked) == {"Assessment"}
    assert asked["tool_choice"] == {"type": "function", "function": {"name": "Assessment"}}


def test_letter_that_wants_text_is_sent_as_text() -> None:
    """A model with a reply format of its own is offered neither schema nor tool; nothing is learned from it."""
    with serving(lambda asked: Reply("[RESULT] 4")) as server, direct(server) as model:
        reply = model.send(ModelRequest(LETTER.messages, SCHEMA, text=True))
        assert model.method == "json_schema"
    assert (reply.text, ways(server)) == ("[RESULT] 4", ["text"])


def lacking(
    *missing: str, status: int = 400, body: Callable[[str], object] | None = None
) -> Callable[[Asked], Any]:
    """Make a server that refuses some ways."""

    def reply(asked: Asked) -> Reply | Wire:
        way = way_of(asked)
        if way not in missing:
            return obliging(asked)
        field = {"json_schema": "response_format", "tools": "tool_choice"}[way]
        fields = {"error": {"message": f"{field} is not supported", "type": "invalid_request_error"}}
        return answered(fields if body is None else body(field), status=status)

    return reply


@both_ways
@pytest.mark.parametrize(
    ("missing", "tried"),
    [
        (["json_schema"], ["json_schema", "tools"]),
        (["json_schema", "tools"], ["json_schema", "tools", "text"]),
    ],
    ids=["schema", "both"],
)
async def test_method_the_endpoint_lacks_is_not_tried_again(
    missing: list[str], tried: list[str], way: Way
) -> None:
    """The next one is taken in the same call, and remembered."""
    with serving(lacking(*missing)) as server:
        model = direct(server)
        for _ in range(2):
            assert (await judged(model, way)).rating == 4
    assert ways(server) == [*tried, tried[-1]]
    assert model.method == tried[-1]


REFUSALS: list[Callable[[str], object]] = [
    lambda field: {"error": f"{field}: unknown field"},
    lambda field: {"detail": [{"loc": ["body", field], "msg": "Extra inputs are not permitted"}]},
    lambda field: {"error": {"message": "Unsupported parameter", "param": field, "code": "unsupported"}},
    lambda field: {"message": f"{field} is not available"},
]


@for_every("status, body", itertools.product([400, 404, 422, 500, 501], REFUSALS))
def test_refusal_of_a_method_is_understood(status: int, body: Callable[[str], object]) -> None:
    """In each form in which endpoints tell it: Ollama's, FastAPI's, OpenAI's, a plain one."""
    with serving(lacking("json_schema", status=status, body=body)) as server, direct(server) as model:
        assert Helpfulness(model)(response="a").rating == 4
    assert ways(server) == ["json_schema", "tools"]


def sent_keywords(asked: Asked) -> set[str]:
    """Name the keywords of the request's schema that say more than its form."""
    schema = json.dumps(asked["response_format"])
    return {one for one in ("prefixItems", "const", "minItems", "maxItems", "maxLength") if f'"{one}"' in schema}


@both_ways
async def test_a_schema_says_what_is_known_of_the_reply(way: Way) -> None:
    """As many items as there are guidelines, each with its number, and texts that end; the prompt is the same."""
    items = [{"number": number, "reason": "r", "verdict": "kept", "change": ""} for number in (1, 2)]
    with serving(lambda asked: Reply(json.dumps({"items": items}))) as server:
        judge = judges.load("databricks.global_guideline_adherence", model=direct(server), guidelines=["a", "b"])
        assert (await ask(judge, way, response="x")).score == 1.0
    (asked,) = server.requests
    listed = asked["response_format"]["json_schema"]["schema"]["properties"]["items"]
    assert (listed["minItems"], listed["maxItems"], "items" in listed) == (2, 2, False)
    assert [one["properties"]["number"]["const"] for one in listed["prefixItems"]] == [1, 2]
    assert {one["properties"]["reason"]["maxLength"] for one in listed["prefixItems"]} == {300}


@pytest.mark.parametrize(
    ("refused", "said", "left"),
    [
        (["maxLength"], "'{0}' is not permitted", {"prefixItems", "const", "minItems", "maxItems"}),
        (["maxLength", "prefixItems"], "In context=(), '{0}' is not permitted", {"minItems", "maxItems"}),
        (["minItems", "maxLength"], "Invalid schema for response_format 'Adherences'", set()),
        (["minItems"], "The JSON schema contains features not supported by xgrammar.", set()),
    ],
)
@pytest.mark.parametrize("form", ["OpenAI", "Google", "OpenRouter"])
def test_keywords_that_an_endpoint_refuses_are_left_out(
    refused: list[str], said: str, left: set[str], form: str
) -> None:
    """Those that its error names, or all where it names none; the schema stays, and the next question knows."""
    items = [{"number": 1, "reason": "r", "verdict": "kept", "change": ""}]

    def reply(asked: Asked) -> Reply | Wire:
        faults = [one for one in refused if one in sent_keywords(asked)]
        text = "Invalid schema for response_format: " + said.format(*faults, "")
        behind = {"message": "Provider returned error", "code": 400, "metadata": {"raw": text}}
        error: Any = {"error": behind if form == "OpenRouter" else {"message": text}}
        refusal = answered([error] if form == "Google" else error, status=400)
        return refusal if faults else Reply(json.dumps({"items": items}))

    with serving(reply) as server, direct(server) as model:
        judge = judges.load("databricks.global_guideline_adherence", model=model, guidelines=["a"])
        verdicts = [judge(response="x") for _ in range(2)]

    assert [(one.score, one.usage.calls) for one in verdicts] == [(1.0, 1)] * 2
    assert [sent_keywords(asked) for asked in server.requests[-2:]] == [left] * 2
    assert model.method == "json_schema"


@for_every(
    "status, message",
    [
        (400, "bad request"),
        (400, "maximum context length is 8192 tokens; you sent 9000 (500 in functions, 20 in json_schema)"),
        (400, "filtered by the content management policy for tools"),
        (401, "no access to structured outputs with this key"),
        (404, "The model 'm' does not exist"),
        (422, "messages: field required"),
    ],
)
def test_other_refusal_is_final(status: int, message: str) -> None:
    """An error that is not about the method costs exactly one call."""
    with serving(lambda asked: Reply(message, status=status)) as server, direct(server) as model:
        assert Helpfulness(model)(response="a").unscored == "judge_failed"
    assert len(server.requests) == 1


@pytest.mark.parametrize("method", ["json_schema", "tools"])
def test_chosen_method_is_never_left(method: Any) -> None:
    """Where the user chose, a refusal is an error."""
    with serving(lacking("json_schema", "tools")) as server, direct(server, method=method) as model:
        assert Helpfulness(model)(response="a").unscored == "judge_failed"
    assert ways(server) == [method]


@both_ways
async def test_method_that_is_ignored_is_left(way: Way) -> None:
    """An endpoint that answers a schema with prose is asked by a tool from then on: the repair comes that way."""
    with serving(
        lambda asked: Reply("It is good.") if way_of(asked) == "json_schema" else obliging(asked)
    ) as server:
        model = direct(server)
        verdicts = [await judged(model, way) for _ in range(2)]
    assert ways(server) == ["json_schema", "tools", "tools"]
    assert [(verdict.rating, verdict.usage.calls) for verdict in verdicts] == [(4, 2), (4, 1)]


def test_method_that_has_worked_is_not_left_for_a_bad_reply() -> None:
    """Prose after a proper reply is that reply's fault."""
    with serving(in_turn(Reply(WRITTEN), Reply("prose"), Reply(WRITTEN))) as server, direct(server) as model:
        for _ in range(2):
            assert Helpfulness(model)(response="a").rating == 4
    assert ways(server) == ["json_schema"] * 3


@both_ways
async def test_what_is_refused_of_the_settings_is_left_out_or_renamed(way: Way) -> None:
    """A temperature, or the older name of the limit: one refusal is enough, and later questions know."""

    def reply(asked: Asked) -> Reply:
        if "temperature" in asked:
            return Reply("Unsupported value: 'temperature' does not support 0.0", status=400)
        if "max_tokens" in asked:
            return Reply("'max_tokens' is not supported; use 'max_completion_tokens' instead", status=400)
        return obliging(asked)

    with serving(reply) as server:
        model = direct(server, max_tokens=50)
        for _ in range(2):
            assert (await judged(model, way)).rating == 4
    assert ["temperature" in asked for asked in server.requests] == [True, False, False, False]
    assert [asked.get("max_tokens") for asked in server.requests] == [50, 50, None, None]
    assert [asked.get("max_completion_tokens") for asked in server.requests] == [None, None, 50, 50]


@pytest.mark.parametrize(
    ("given", "headers", "environment", "sent"),
    [
        (KEY, {}, "sk-env", f"Bearer {KEY}"),
        (f" {KEY}\n", {}, None, f"Bearer {KEY}"),
        (None, {}, "sk-env", "Bearer sk-env"),
        (None, {}, None, None),
        ("", {}, "sk-env", None),
        (None, {"api-key": "azure"}, "sk-env", None),
        (None, {"Authorization": "Basic x"}, "sk-env", "Basic x"),
        (None, {"x-team": "t"}, "sk-env", "Bearer sk-env"),
    ],
)
def test_key_comes_from_the_argument_else_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
    given: str | None,
    headers: dict[str, str],
    environment: str | None,
    sent: str | None,
) -> None:
    """The environment's key is not sent where something else admits us, nor where none is wanted."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    if environment is not None:
        monkeypatch.setenv("OPENAI_API_KEY", environment)
    with serving(obliging) as server, direct(server, api_key=given, headers=headers) as model:
        Helpfulness(model)(response="a")
    (asked,) = server.requests
    assert asked["authorization"] == sent
    assert {name.lower(): text for name, text in headers.items()}.items() <= asked["headers"].items()


def quoting(status: int) -> Callable[[Asked], Wire]:
    """Make a server that quotes the key, a header and the prompt in its error."""

    def reply(asked: Asked) -> Wire:
        quoted = f"{asked['authorization']} {asked['headers'].get('x-team')} {asked['messages'][-1]['content']}"
        return answered({"error": {"message": f"refused: {quoted}", "code": KEY}}, status=status)

    return reply


PLANTED = ("planted", "quux", "team-secret", "xyzzy", "plugh")


@both_ways
@pytest.mark.parametrize("fault", [quoting(400), quoting(503), lambda asked: Wire(then="reset")])
async def test_error_shows_neither_key_nor_header_nor_prompt(fault: Any, way: Way) -> None:
    """Not in its text, not in what caused it, not in the locals of its traceback, whatever the endpoint quotes."""
    with serving(fault) as server:
        model = direct(server, headers={"x-team": "team-secret"})
        error = await failure(model, way)
        ours = [repr(model), str(error), repr(error), repr(vars(error)), repr(getattr(error, "response", None))]
        ours += [repr(vars(model)), repr(vars(model._endpoint))]
        assert error.__cause__ is None
        assert error.__context__ is None
        shown = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    assert [one for one in PLANTED if any(one in text for text in ours)] == []
    assert KEY not in shown
    assert "team-secret" not in shown


@both_ways
async def test_error_says_what_the_endpoint_said(way: Way) -> None:
    """Status and message are reported, where they quote nothing."""
    with serving(lambda asked: Reply("Quota exceeded for this month", status=402)) as server:
        error = await failure(direct(server), way)
    assert isinstance(error, EndpointStatusError)
    assert error.status_code == 402
    assert "status 402: Quota exceeded for this month" in str(error)


def test_model_without_secrets_of_its_own_is_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy takes the key of the environment it arrives in; a key or a header is written into no pickle."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serving(obliging) as server, direct(server, api_key=None) as model:
        Helpfulness(model)(response="a")
        pickled = pickle.dumps(model)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-there")
        with pickle.loads(pickled) as copy:  # noqa: S301 - made above
            assert Helpfulness(copy)(response="a").rating == 4
    assert KEY.encode() not in pickled
    assert [asked["authorization"] for asked in server.requests] == [f"Bearer {KEY}", "Bearer sk-there"]
    for secret in ({"api_key": KEY}, {"headers": {"x-team": "t"}}):
        with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
            pickle.dumps(OpenAICompatible("http://localhost/v1", model="m", **secret))


def test_connections_stay_open_in_sync_calls() -> None:
    """Calls after one another share a connection, with errors among them."""
    replies = [Reply(WRITTEN), Reply("no", status=400), Reply(WRITTEN), Reply("prose"), Reply(WRITTEN)]
    with serving(in_turn(*replies)) as server, direct(server) as model:
        for _ in range(4):
            Helpfulness(model)(response="a")
    assert (len(server.requests), server.connections) == (5, 1)


async def test_connections_stay_open_in_async_calls() -> None:
    """As many connections as calls at once, and no more later."""
    with serving(lambda asked: Reply(WRITTEN, delay_s=0.02)) as server:
        async with direct(server) as model:
            judge = Helpfulness(model)
            for _ in range(3):
                await asyncio.gather(*(judge.acall(response="a") for _ in range(4)))
    assert (len(server.requests), server.connections) == (12, 4)


async def _both(judge: Helpfulness) -> list[Verdict]:
    return await asyncio.gather(*(judge.acall(response="a") for _ in range(2)))


def test_threads_share_a_model() -> None:
    """Each thread at work has a connection, and keeps it; event loops in two threads do not disturb each other."""
    with serving(obliging) as server, direct(server) as model:
        judge = Helpfulness(model)
        with ThreadPoolExecutor(4) as pool:
            verdicts = list(pool.map(lambda _: judge(response="a"), range(40)))
        assert {verdict.rating for verdict in verdicts} == {4}
        assert (len(server.requests), server.connections <= 4) == (40, True)
        server.reply = lambda asked: Reply(WRITTEN, delay_s=0.01)
        with ThreadPoolExecutor(2) as pool:
            both = pool.map(lambda _: [asyncio.run(_both(judge)) for _ in range(3)], range(2))
            assert {verdict.rating for runs in both for run in runs for verdict in run} == {4}
    assert len(server.requests) == 52


def test_one_model_serves_one_event_loop_after_another() -> None:
    """Each loop has its own connections, closed with it, so that nothing is left to warn of."""
    with serving(obliging) as server:
        model = direct(server)
        judge = Helpfulness(model)
        for _ in range(3):
            verdicts = asyncio.run(_both(judge))
            assert [verdict.rating for verdict in verdicts] == [4, 4]
        assert server.connections == 6
        assert len(model._endpoint._sessions) == 1
        del judge, model
        gc.collect()


@both_ways
async def test_closed_model_may_be_used_again(way: Way) -> None:
    """Closing ends the connections, not the model."""
    with serving(obliging) as server:
        async with direct(server) as model:
            assert (await judged(model, way)).rating == 4
        async with model:
            assert (await judged(model, way)).rating == 4
    assert server.connections == 2


ENDINGS = {
    "loop ends": "asyncio.run(judge.acall(response='a'))",
    "model is gone before the loop ends": (
        "with asyncio.Runner() as runner:\n    runner.run(judge.acall(response='a'))\n    del judge, model"
    ),
    "model in a cycle is gone while the loop runs": (
        "async def work():\n"
        "    global judge, model\n"
        "    await judge.acall(response='a')\n"
        "    judge._itself = [judge]\n"
        "    del judge, model\n"
        "    gc.collect()\n"
        "    await asyncio.sleep(0.05)\n"
        "asyncio.run(work())"
    ),
    "closed by hand": (
        "async def work():\n    async with model:\n        await judge.acall(response='a')\nasyncio.run(work())"
    ),
    "sync, nobody closes": "judge(response='a')",
    "call is cancelled": (
        "async def work():\n"
        "    task = asyncio.create_task(judge.acall(response='slow'))\n"
        "    await asyncio.sleep(0.1)\n"
        "    task.cancel()\n"
        "    await asyncio.wait([task])\n"
        "asyncio.run(work())"
    ),
}


PROGRAM = """
import asyncio, gc, json, os, sys
from judges import Helpfulness, OpenAICompatible

address, endings = json.loads(sys.argv[1])
for name, ending in endings.items():
    model = OpenAICompatible(address, model="m", api_key="k")
    names = {"model": model, "judge": Helpfulness(model), "asyncio": asyncio, "gc": gc, "os": os}
    del model
    exec(ending, names)
    names.clear()
    gc.collect()
    print(f"[{name}]", file=sys.stderr, flush=True)
"""


@pytest.fixture(scope="module")
def complaints() -> dict[str, str]:
    """Run all endings in one process in which warnings are errors, and give what each wrote to standard error."""
    with serving(lambda asked: Reply(WRITTEN, delay_s=5.0 * ("slow" in str(asked["messages"])))) as server:
        command = [sys.executable, "-W", "error", "-c", PROGRAM, json.dumps([server.url, ENDINGS])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    sections = re.findall(r"(.*?)\[([^\]]*)\]\n", done.stderr, re.DOTALL)
    assert [name for _, name in sections] == list(ENDINGS), done.stderr
    return {name: text for text, name in sections}


@pytest.mark.parametrize("ending", ENDINGS)
def test_nothing_is_left_open(complaints: dict[str, str], ending: str) -> None:
    """However a program is done with a model, there is nothing to warn of."""
    assert complaints[ending] == ""


FORKED = """
import os, sys
from judges import Helpfulness, OpenAICompatible

judge = Helpfulness(OpenAICompatible(sys.argv[1], model="m", api_key="k"))
judge(response="a")
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
assert [judge(response="a").rating for _ in range(3)] == [4] * 3
"""


def test_forked_process_opens_connections_of_its_own() -> None:
    """On a shared connection one process would read the other's replies."""
    with serving(obliging) as server:
        subprocess.run([sys.executable, "-W", "error", "-c", FORKED, server.url], timeout=30, check=True)
    assert (len(server.requests), server.connections) == (7, 2)


SLOW = Wire((b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n", *[b" "] * 99), pause_s=0.05)


@both_ways
@pytest.mark.parametrize("fault", [Wire(then="hang"), SLOW], ids=["silent", "drip"])
async def test_reply_that_does_not_come_in_time_is_a_timeout(fault: Wire, way: Way) -> None:
    """Whether nothing comes or too little; trying again may help. A deadline that is nearer counts."""
    with serving(lambda asked: fault) as server:
        started = time.monotonic()
        error = await failure(direct(server, timeout_s=0.2), way)
        with within(Allowance(seconds=0.2)):
            verdict = await judged(direct(server), way)
        assert time.monotonic() - started < 10
    assert isinstance(error, EndpointTimeoutError)
    assert is_transient(error)
    assert verdict.unscored in ("judge_failed", "deadline")


@both_ways
@pytest.mark.parametrize(
    "fault",
    [
        Wire(then="reset"),
        Wire(then="close"),
        Wire((b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{",), then="close"),
        Wire((b"not HTTP at all\r\n\r\n",), then="close"),
    ],
    ids=["reset", "closed", "cut", "garbage"],
)
async def test_broken_connection_is_tried_again(fault: Wire, way: Way) -> None:
    """One that breaks before the reply is whole costs a repetition; where nobody is, the error says so."""
    with serving(in_turn(fault, Reply(WRITTEN))) as server, no_waiting() as waits:
        verdict = await judged(direct(server), way)
    assert (verdict.rating, len(server.requests), len(waits)) == (4, 2, 1)
    error = await failure(OpenAICompatible(server.url, model="m", api_key=KEY), way)
    assert isinstance(error, EndpointConnectionError)
    assert is_transient(error)


@both_ways
@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
async def test_passing_error_is_tried_again_when_the_endpoint_says(status: int, way: Way) -> None:
    """`Retry-After` is obeyed; an error that a gateway sends with status 200 counts as what it says."""
    fault = Reply("later", status=status, headers={"Retry-After": "7"})
    inside = answered({"error": {"message": "slow down", "code": status}})
    with serving(in_turn(fault, Reply(WRITTEN), inside, Reply(WRITTEN))) as server, no_waiting() as waits:
        verdicts = [await judged(direct(server), way) for _ in range(2)]
    assert [verdict.rating for verdict in verdicts] == [4, 4]
    assert (waits[0], len(waits), len(server.requests)) == (7.0, 2, 4)


@pytest.mark.parametrize(("retries", "requests"), [(0, 1), (2, 3)])
def test_retries_are_counted(retries: int, requests: int) -> None:
    """An endpoint that stays down is asked as often as was set."""
    with serving(lambda asked: Reply("down", status=503)) as server, no_waiting():
        verdict = Helpfulness(direct(server, retries=retries))(response="a")
    assert (verdict.unscored, len(server.requests)) == ("judge_failed", requests)
    assert "status 503" in verdict.detail


BODIES: dict[str, object] = {
    "empty": b"",
    "text": b"<html>",
    "bad UTF-8": b'{"choices": "\xff"}',
    "deep": b"[" * 100_000,
    "long number": b"9" * 10_000,
    "compressed": gzip.compress(WRITTEN.encode()),
    "null": None,
    "list": [],
    "number": 4,
    "no choices": {},
    "empty choices": {"choices": []},
    "choices are text": {"choices": "text"},
    "choice is null": {"choices": [None]},
    "two choices": {"choices": [{"message": {"content": WRITTEN}}] * 2},
    "no message": {"choices": [{}]},
    "message is text": {"choices": [{"message": WRITTEN}]},
    "error inside": {"error": {"message": "x", "code": "y"}},
}


@both_ways
@for_every("body", BODIES)
async def test_body_that_is_no_completion_is_refused(body: str, way: Way) -> None:
    """The call fails, at once and for good; nothing is read out of it."""
    with serving(lambda asked: answered(BODIES[body])) as server:
        error = await failure(direct(server), way)
        verdict = await judged(direct(server), way)
    assert isinstance(error, EndpointReplyError)
    assert (verdict.unscored, len(server.requests)) == ("judge_failed", 2)


@both_ways
async def test_a_byte_order_mark_before_a_reply_and_a_long_header_change_nothing(way: Way) -> None:
    """Both come of gateways; a reply is read alike, blocking or not."""
    body = b"\xef\xbb\xbf" + json.dumps({"choices": [{"message": {"content": WRITTEN}}]}).encode()
    with serving(lambda asked: answered(body, headers={"x-policy": "a" * 20_000})) as server:
        verdict = await judged(direct(server), way)
    assert verdict.rating == 4, verdict.detail


LARGE = b" " * (LARGEST_REPLY + 1)
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(LARGE), LARGE)


@both_ways
@pytest.mark.parametrize("sent", [answered(LARGE), Wire((CHUNKED,))], ids=["announced", "chunked"])
async def test_reply_that_is_too_large_is_refused(sent: Wire, way: Way) -> None:
    """Reading stops at the limit."""
    with serving(lambda asked: sent) as server:
        error = await failure(direct(server), way)
    assert isinstance(error, EndpointReplyError)
    assert "larger than" in str(error)


@both_ways
async def test_the_key_goes_to_the_host_that_was_named(monkeypatch: pytest.MonkeyPatch, way: Way) -> None:
    """And to no other: no redirect is followed, and no proxy of the environment is used."""
    with serving(obliging) as bait, serving(obliging) as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, bait.url)
        assert (await judged(direct(server), way)).rating == 4
        for status in (301, 302, 307, 308):
            moved = answered(b"", status=status, headers={"location": f"{bait.url}/chat/completions"})
            server.reply = in_turn(moved)
            error = await failure(direct(server), way)
            assert isinstance(error, EndpointStatusError)
            assert "redirects are not followed" in str(error)
    assert (len(server.requests), bait.connections) == (5, 0)


INVALID = {
    "duplicate key in text": Reply('{"rationale": "r", "rating": 1, "feedback": "", "rating": 4}'),
    "duplicate key in a call": Reply(
        calls=(("Assessment", '{"rationale": "r", "rating": 1, "feedback": "", "rating": 4}'),)
    ),
    "two calls": Reply(calls=(("Assessment", GOOD), ("Assessment", {**GOOD, "rating": 1}))),
    "another tool": Reply(calls=(("Other", GOOD),)),
    "cut": Reply(WRITTEN, finish_reason="length"),
    "cut in the middle": Reply(WRITTEN[:-5]),
    "fenced": Reply(f"```json\n{WRITTEN}\n```"),
    "true": Reply(json.dumps({**GOOD, "rating": True})),
    "text for a number": Reply(json.dumps({**GOOD, "rating": "4"})),
    "surplus key": Reply(json.dumps({**GOOD, "score": 1})),
    "nothing": Reply(None),
    "filtered": Reply(WRITTEN, finish_reason="content_filter"),
    "refusal": Reply(WRITTEN, refusal="I cannot"),
}


@pytest.mark.parametrize("method", ["json_schema", "tools", "text"])
def test_reply_is_read_strictly(method: Any) -> None:
    """Whatever the method, what does not fit is not believed."""
    for name, reply in INVALID.items():
        with serving(in_turn(reply, reply)) as server, direct(server, method=method) as model:
            assert Helpfulness(model)(response="a").unscored == "invalid_output", name
        assert len(server.requests) == (1 if name in ("filtered", "refusal") else 2), name


@pytest.mark.parametrize(
    ("calls", "broken"),
    [
        ("text", 1),
        ([None], 1),
        ([{"function": None}], 1),
        ([{"function": {"name": "Assessment", "arguments": None}}], 1),
        ([{"function": {"name": "Assessment", "arguments": GOOD}}], 0),
        ([], 0),
    ],
    ids=str,
)
def test_odd_calls_are_counted_as_broken(calls: object, broken: int) -> None:
    """A call that cannot be read is not overlooked; the text of a message may come in parts."""
    parts = [{"type": "text", "text": WRITTEN[:9]}, {"type": "text", "text": WRITTEN[9:]}]
    body = {"choices": [{"message": {"content": parts, "tool_calls": calls}}]}
    with serving(lambda asked: answered(body)) as server, direct(server) as model:
        response = model.send(LETTER)
    assert (response.broken_calls, response.text) == (broken, WRITTEN)


@both_ways
async def test_an_ending_of_the_endpoint_s_own_can_be_declared_good(way: Way) -> None:
    """A word that nobody knows is refused, with the word told, unless the user vouches for it."""
    with serving(lambda asked: Reply(WRITTEN, finish_reason="fin")) as server:
        unknown = await judged(direct(server), way)
        known = await judged(direct(server, endings=["fin"]), way)
    assert (unknown.unscored, "it ended with 'fin'" in unknown.detail) == ("invalid_output", True)
    assert (known.rating, known.usage.calls) == (4, 1)


@both_ways
async def test_usage_model_and_finish_reason_are_reported(way: Way) -> None:
    """As the endpoint counted, for each call."""
    with serving(lambda asked: Reply(WRITTEN, usage=(11, 7))) as server:
        model = direct(server)
        reply = model.send(LETTER) if way == "sync" else await model.asend(LETTER)
        verdict = await judged(model, way)
    assert (reply.model, reply.finish_reason) == ("m", "stop")
    assert (verdict.usage.calls, verdict.usage.input_tokens, verdict.usage.output_tokens) == (1, 11, 7)
    assert (verdict.model, verdict.usage.cost) == ("m", None)


@pytest.mark.parametrize(
    "usage", [None, "x", {}, {"prompt_tokens": None}, {"prompt_tokens": -1}, {"prompt_tokens": True}]
)
def test_usage_that_makes_no_sense_is_none(usage: object) -> None:
    """An odd count never costs a verdict."""
    body = {"choices": [{"message": {"content": WRITTEN}}], "usage": usage}
    with serving(lambda asked: answered(body)) as server, direct(server) as model:
        verdict = Helpfulness(model)(response="a")
    assert (verdict.rating, verdict.usage.tokens) == (4, 0)


@pytest.mark.parametrize("package", ["aiohttp", "urllib3"])
async def test_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, package, None)
    model = OpenAICompatible("http://localhost/v1", model="m", api_key="")
    with pytest.raises(ConfigurationError, match=r"selfrefine\[http\]"):
        await judged(model, "sync" if package == "urllib3" else "async")


@both_ways
async def test_provider_is_refused_where_requests_are_forbidden(way: Way) -> None:
    """Only this machine answers in a test."""
    with pytest.raises(ModelRequestError, match="big-1"):
        await judged(OpenAICompatible("https://api.example.com/v1", model="big-1", api_key=KEY), way)


ADDRESSES = (
    *("", "localhost:8000", "ftp://h/v1", "http://", "http://h:99999/v1", "http://[::1", f"http://u:{KEY}@h/v1"),
    *(None, 4),
)


@for_every(
    "settings, told",
    [
        *(({"base_url": address}, "base_url") for address in ADDRESSES),
        ({"model": ""}, "model is the model's name at the endpoint"),
        ({"model": None}, "model is the model's name at the endpoint"),
        ({"method": "json"}, "json_schema, tools, text"),
        ({"timeout_s": 0}, "timeout_s is a number of seconds above 0"),
        ({"timeout_s": float("inf")}, "timeout_s is a number of seconds above 0"),
        ({"timeout_s": True}, "timeout_s is a number of seconds above 0"),
        ({"temperature": -1}, "temperature is a number from 0"),
        ({"temperature": float("nan")}, "temperature is a finite number"),
        ({"temperature": True}, "temperature is a finite number, not True"),
        ({"temperature": "hot"}, "temperature is a finite number, not 'hot'"),
        ({"extra": {"stream": True}}, "extra holds no stream"),
        ({"extra": {"seed": ...}}, "extra holds only what can be written as JSON"),
        ({"api_key": "a\nb"}, "holds a character that no header can hold"),
        ({"headers": {"x y": "z"}}, "holds a character that no header can hold"),
        ({"headers": {"x": "z\r\nevil: 1"}}, "holds a character that no header can hold"),
    ],
)
def test_setting_that_cannot_be_used_is_refused(settings: dict[str, Any], told: str) -> None:
    """At construction, not at the first call; an address is not repeated, for it may hold a password."""
    with pytest.raises(ConfigurationError, match=told) as caught:
        OpenAICompatible(**{"base_url": "http://localhost/v1", "model": "m", **settings})
    assert KEY not in str(caught.value)


def test_model_knows_itself_and_its_namesakes() -> None:
    """Self-preference can be noticed: the same address and name, or LangChain's handle of that name."""
    model = OpenAICompatible("http://localhost/v1/", model="a")
    assert isinstance(model, JudgeModel)
    assert model.is_model(model)
    assert model.is_model(OpenAICompatible("http://localhost/v1", model="a"))
    assert not model.is_model(OpenAICompatible("http://localhost/v1", model="b"))
    assert not model.is_model(OpenAICompatible("http://elsewhere/v1", model="a"))
    chat = ChatOpenAI(model="a", api_key="k")  # type: ignore[arg-type]  # a text is taken
    assert model.is_model(chat)
    assert model.is_model(chat.bind(stop=["x"]))
    assert not model.is_model(ChatOpenAI(model="b", api_key="k"))  # type: ignore[arg-type]  # a text is taken


def test_identity_tells_models_apart() -> None:
    """Whatever changes replies changes it; keys and what was learned do not."""
    first = OpenAICompatible("http://localhost/v1", model="a", api_key=KEY)
    others: list[dict[str, Any]] = [
        {"temperature": 1.0},
        {"max_tokens": 5},
        {"method": "text"},
        {"extra": {"seed": 1}},
    ]
    identities = {OpenAICompatible("http://localhost/v1", model="a", **other).identity for other in others}
    identities |= {OpenAICompatible("http://localhost/v2", model="a").identity}
    assert len({first.identity, *identities}) == 6
    assert OpenAICompatible("http://localhost/v1", model="a", api_key="x").identity == first.identity
    assert KEY not in first.identity


def test_what_is_encoded_once_is_encoded_alike() -> None:
    """The body of a request is the same, byte by byte, whether or not its first messages repeat in others."""
    texts = ["Judge.", 'an example: \U0001f600 "x"\n', "{}", "the answer: \ud800 \u4e2d"]
    roles: tuple[PromptRole, ...] = ("system", "user", "assistant", "user")
    request = ModelRequest(tuple(zip(roles, texts, strict=True)), SCHEMA)
    model = OpenAICompatible("http://localhost/v1", model="m", api_key=KEY)
    bodies = {model.request_body(replace(request, beginning=number)) for number in (0, 1, 3, 4)}
    (body,) = bodies
    sent = json.loads(body)["messages"]
    assert [message["content"] for message in sent] == [*texts[:3], "the answer: ? \u4e2d"]
    assert [message["role"] for message in sent] == list(roles)
