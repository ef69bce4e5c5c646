"""Twelve planted secrets, and everything the library writes down, shows or raises.

What a provider's own error says stays in that error: our errors have it as their `__cause__`, and a traceback that
is printed whole shows it. Nothing of it is in a message, a record or a log line of ours.
"""

from __future__ import annotations

import io
import logging
import traceback
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import structlog
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from graphs import RefineError
from judges import Cache, ConfigurationError, Helpfulness, JudgesError, OpenAICompatible, Verdict, cached
from judges.model import ModelRequest
from judges.models.providers.http_errors import EndpointError
from judges.offline import aevaluate
from refine import SelfRefine
from tests.faults.catalogue import CRITIC, WRITER, good
from tests.faults.stage import CLIENTS, Client, Stage
from tests.model_server import Asked, Reply, Wire, answered

SECRET = "sk-hunter2-correct-horse"  # noqa: S105 - nobody's
"""What is planted; nothing else here contains it."""

REACHING = ("key from the environment", "key as an argument", "header", "userinfo", "query", "path")
"""Where the secret is part of how a model is reached, on both sides."""

SAID = ("prompt", "tool argument", "metadata")
"""Where the secret came with the question: what keeps the question keeps it too."""


class Events(BaseCallbackHandler):
    """Hears the progress of runs."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Note an event whole."""
        self.heard.append(f"{name} {data!r}")


@dataclass
class Planted:
    """A generator, a judge and a question, with the secret somewhere in them."""

    generator: Any
    judge: Any
    question: Any = "What is the capital of France?"
    config: RunnableConfig = field(default_factory=RunnableConfig)


def raising(text: str = "broken") -> Callable[[Any], Any]:
    """Make a function that raises, while the secret stands in a variable of its frame."""

    def function(given: Any) -> Any:
        key = SECRET
        raise RuntimeError(text if key else "")

    return function


class Scene:
    """Plants the secret in one of the twelve places, and looks for it afterwards.

    Args:
        stage: Clients and their server.
        cache: Keeps the judges' replies where the secret is in how they are reached.
        log: Everything that was logged.
        monkeypatch: Sets the environment.
    """

    def __init__(self, stage: Stage, cache: Cache, log: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stage = stage
        self._cache, self._log, self._monkeypatch = cache, log, monkeypatch
        self.opened: list[OpenAICompatible] = []

    def plant(self, place: str, client: Client) -> Planted:
        """Make a generator and a judge, whose client is one of the two."""
        writer, judge = self.stage.chat(WRITER), self.stage.judge(client)
        match place:
            case "prompt":
                return Planted(writer, judge, question=f"My key is {SECRET}. What is the capital of France?")
            case "tool argument":
                return Planted(searching, judge)
            case "metadata":
                return Planted(writer, judge, config={"metadata": {"key": SECRET}})
            case "generator's error":
                return Planted(raising(SECRET), judge)
            case "judge's error":
                return Planted(writer, raising(SECRET))
            case "local variable":
                return Planted(raising(), raising())
        writer, model = self.reached(place, client)
        return Planted(writer, Helpfulness(cached(model, self._cache)))

    def reached(self, place: str, client: Client) -> tuple[Any, Any]:
        """Make clients for both models, with the secret in how they are reached."""
        self._monkeypatch.setenv("OPENAI_API_KEY", SECRET if place == "key from the environment" else "none")
        key = {"key as an argument": SECRET, "key from the environment": None}.get(place, "none")
        url = self.stage.server.url
        url = url.replace("/v1", f"/{SECRET}/v1") if place == "path" else url
        url = url.replace("//", f"//user:{SECRET}@") if place == "userinfo" else url
        headers = {"x-access": SECRET} if place == "header" else None
        query = {"signature": SECRET} if place == "query" else None
        fields: dict[str, Any] = {
            "base_url": url,
            "api_key": key,
            "default_headers": headers,
            "default_query": query,
        }
        if client == "langchain" or place == "userinfo":
            return self.stage.chat(WRITER, **fields), self.stage.chat(CRITIC, **fields)
        signed = f"{url}?signature={SECRET}" if query else url
        self.opened.append(OpenAICompatible(signed, model=CRITIC, api_key=key, headers=headers))
        return self.stage.chat(WRITER, **fields), self.opened[-1]

    async def surfaces(self, planted: Planted) -> dict[str, str]:
        """Run what was planted in several ways, and collect all that can be seen of it from outside."""
        events, saver, rows = Events(), InMemorySaver(), self._cache.path.with_name("rows.jsonl")
        config: RunnableConfig = {**planted.config, "callbacks": [events], "configurable": {"thread_id": "1"}}
        refiner = SelfRefine(planted.generator, planted.judge, record=rows, max_attempts=2)
        kept = SelfRefine(planted.generator, planted.judge, checkpointer=saver)
        strict = SelfRefine(planted.generator, planted.judge, on_judge_error="raise")
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            outcome = await refiner.arefine(planted.question, config)
            errors = [await _error_of(one.ainvoke(planted.question, config)) for one in (kept, strict)]
            structlog.reset_defaults()  # from here on, the standard library's logging
            refiner.refine(planted.question, config)
            evaluation = await aevaluate([{"question": "Capital?", "answer": "Paris."}], [planted.judge])
        verdicts = [one.verdict for one in outcome.attempts], [one.verdicts for one in evaluation.rows]
        models = getattr(planted.judge, "models", ())
        made = [refiner, refiner.policy, refiner.graph, planted.judge, *models, *(one.name for one in models)]
        return {
            "log": self._log.getvalue(),
            "warnings": "".join(str(one.message) for one in warned),
            "verdicts": repr(verdicts),
            "outcome": outcome.model_dump_json(),
            "answer": repr(outcome.answer),
            "errors": "".join(f"{one} {one!r} {traceback.format_exception_only(one)}" for one in errors if one),
            "events": "".join(events.heard),
            "checkpoints": repr((dict(saver.storage), dict(saver.writes), dict(saver.blobs))),
            "repr": repr(made),
            **self._files(),
        }

    def _files(self) -> dict[str, str]:
        """Read what was written down, the cache's write-ahead log included."""
        return {one.name: repr(one.read_bytes()) for one in self._cache.path.parent.iterdir()}


@pytest.fixture
async def scene(
    stage: Stage, log: io.StringIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Scene]:
    """Set the scene."""
    with Cache(tmp_path / "cache.sqlite") as cache:
        one = Scene(stage, cache, log, monkeypatch)
        yield one
        for client in one.opened:
            await client.aclose()


def searching(messages: list[Any]) -> list[Any]:
    """Answer as an agent does, after a call of a tool."""
    call = {"name": "search", "args": {"key": SECRET}, "id": "1"}
    found = [AIMessage("", tool_calls=[call]), ToolMessage(f"found with {SECRET}", tool_call_id="1")]
    return [*messages, *found, AIMessage("Paris.")]


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Log through structlog, with all that it can write of an error, and through the standard library."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    loggers = [logging.getLogger(name) for name in ("refine", "judges", "graphs")]
    structlog.configure(
        processors=[structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer(default=repr)],
        logger_factory=structlog.WriteLoggerFactory(file=written),
    )
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
    yield written
    structlog.reset_defaults()
    for logger in loggers:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)


async def _error_of(answer: Awaitable[object]) -> Exception | None:
    try:
        await answer
    except (RefineError, JudgesError) as error:
        return error
    return None


WITH_THE_QUESTION = {"outcome", "rows.jsonl", "checkpoints"}
LEGITIMATE = {"prompt": WITH_THE_QUESTION, "tool argument": WITH_THE_QUESTION, "metadata": {"checkpoints"}}
"""Where what came with a question belongs: with the question. LangGraph itself keeps a run's metadata."""


def careless(model: str | None) -> Callable[[Asked], Reply | Wire]:
    """Make a server of which one model throws all it was sent, key, address and prompt, back in an error."""

    def reply(asked: Asked) -> Reply | Wire:
        if asked["model"] != model:
            return good(asked)
        quoted = SECRET if SECRET in repr(asked) else "nothing"  # first, before a message is cut short
        text = f"{quoted} is not welcome at {asked['path']} with {asked['headers']} and {asked['messages']}"
        return answered({"error": {"message": text, "type": "invalid"}}, status=401)

    return reply


PLANTED = [
    *product((*REACHING, *SAID), (None, WRITER, CRITIC), CLIENTS),
    ("generator's error", None, "direct"),
    ("judge's error", None, "direct"),
    ("judge's error", WRITER, "direct"),
    ("local variable", None, "direct"),
]
"""Where the secret is, which model throws back all that it was sent, and the judge's client: if there is one."""


@pytest.mark.parametrize(("place", "speaking", "client"), PLANTED)
async def test_a_planted_secret_is_seen_nowhere(
    scene: Scene, place: str, speaking: str | None, client: Client
) -> None:
    """Whether the run goes well or a provider tells all it knows."""
    scene.stage.server.reply = careless(speaking)

    seen = await scene.surfaces(scene.plant(place, client))

    assert {surface for surface, text in seen.items() if SECRET in text} <= LEGITIMATE.get(place, set())


@pytest.mark.parametrize("client", CLIENTS)
async def test_there_is_something_to_look_at(scene: Scene, client: Client) -> None:
    """The secret does arrive at the provider, and no surface is empty but that of the warnings."""
    scene.stage.server.reply = careless(CRITIC)

    seen = await scene.surfaces(scene.plant("key as an argument", client))

    assert {surface for surface, text in seen.items() if text in ("", "b''", "None")} == {"warnings"}
    assert {"rows.jsonl", "cache.sqlite"} <= set(seen)
    assert all(SECRET in asked["authorization"] for asked in scene.stage.server.requests)


@pytest.mark.parametrize("sent", ["told", "reset", "no JSON"])
@pytest.mark.parametrize(
    "place", ["key as an argument", "key from the environment", "header", "query", "path", "prompt"]
)
def test_our_own_clients_errors_hold_no_secret(scene: Scene, place: str, sent: str) -> None:
    """The direct client's errors are ours: the whole traceback is clean, whatever the provider sent."""
    replies = {
        "told": careless(CRITIC),
        "reset": lambda _: Wire(then="reset"),
        "no JSON": lambda _: answered(b"{"),
    }
    scene.stage.server.reply = replies[sent]
    _, model = scene.reached(place, "direct")
    asked = f"My key is {SECRET}." if place == "prompt" else "What is the capital of France?"

    with pytest.raises(EndpointError) as raised:
        model.send(ModelRequest((("user", asked),), Verdict))

    assert SECRET not in "".join(traceback.format_exception(raised.value)) + repr(raised.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"base_url": f"http://user:{SECRET}@127.0.0.1/v1"},
        {"base_url": f"127.0.0.1/{SECRET}"},
        {"base_url": "http://127.0.0.1/v1", "api_key": f"{SECRET}\n"},
        {"base_url": "http://127.0.0.1/v1", "api_key": f"{SECRET}\u2014"},
        {"base_url": "http://127.0.0.1/v1", "headers": {"x-access": f"{SECRET}\r\n"}},
        {"base_url": "http://127.0.0.1/v1", "extra": {"messages": SECRET}},
    ],
    ids=["userinfo", "no address", "key with a newline", "key with a dash", "header", "extra"],
)
def test_a_secret_in_a_setting_that_is_refused_is_not_quoted(settings: dict[str, Any]) -> None:
    """What cannot be used is reported by its name alone."""
    try:
        shown = repr(OpenAICompatible(model="m", **settings))
    except ConfigurationError as error:
        shown = "".join(traceback.format_exception(error)) + repr(error)

    assert SECRET not in shown
