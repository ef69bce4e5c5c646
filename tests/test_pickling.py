"""Errors, judges, models and refiners go through copies and pickles unchanged, and a key never does."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import SecretStr

import graphs
import judges
import refine
from graphs import GeneratorFailed, JudgeFailed, NotAccepted, Policy, Unanswered, last_drafts, self_refine
from judges import (
    Cascade,
    ConfigurationError,
    Escalation,
    Helpfulness,
    OpenAICompatible,
    Panel,
    Repeat,
    Usage,
    Verdict,
    as_judge,
)
from judges.catalogue.registry import catalogue
from judges.errors import AskFailed, CannotJudge
from judges.models.providers.embeddings import LangChainEmbeddings, OpenAICompatibleEmbeddings
from judges.models.providers.http_errors import EndpointStatusError
from judges.models.resolve import as_model
from judges.models.wrappers.breaker import Breaker
from judges.models.wrappers.cache import Cache, cached
from judges.models.wrappers.limiter import Limiter, limited
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine
from refine.server.upstream import UpstreamReply
from tests.catalogue.cases import made as made_judge
from tests.catalogue.cases import sample_for, takes

KEY = "sk-Xq7Zsecret"


def pickled(value: Any, protocol: int = pickle.DEFAULT_PROTOCOL) -> Any:
    """Send a value through a pickle."""
    return pickle.loads(pickle.dumps(value, protocol))  # noqa: S301 - our own, just made


WAYS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickled,
    "oldest pickle": partial(pickled, protocol=2),
}


def modules(package: ModuleType) -> Iterator[ModuleType]:
    """Import every module of a package."""
    yield package
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not info.name.endswith("__main__"):
            yield importlib.import_module(info.name)


def error_types() -> dict[str, type[Exception]]:
    """List the exceptions that our modules define, by their qualified names."""
    return {
        f"{module.__name__}.{name}": value
        for package in (judges, graphs, refine)
        for module in modules(package)
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, Exception) and value.__module__ == module.__name__
    }


def made(kind: type[Exception]) -> Exception:
    """Make an error with a value for each parameter."""
    outcome = SelfRefine(lambda _: "yes", lambda response: 4).refine("what?")
    values: dict[str, Any] = {
        "reason": "judge_failed",
        "detail": "the detail",
        "usage": Usage(calls=3, input_tokens=7),
        "raw": "raw reply",
        "message": "the message",
        "outcome": outcome,
        "status_code": 429,
        "headers": {"Retry-After": "7"},
        "fault": "the fault",
        "mendable": False,
        "status": 503,
        "code": "overloaded",
        "param": "model",
        "retry_after_s": 1.5,
        "allow": "GET, POST",
        "draft": "the draft",
        "verdict": Verdict.rated(1, judge="own"),
        "reply": UpstreamReply(status=500, kind="text/plain", headers=[], body=b"broken"),
    }
    if not inspect.isfunction(kind.__init__):
        return kind("the message")
    _, *parameters = inspect.signature(kind.__init__).parameters.values()
    positional = [values[one.name] for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    return kind(*positional, **{one.name: values[one.name] for one in parameters if one.kind is one.KEYWORD_ONLY})


def test_every_error_goes_through_copies_and_pickles() -> None:
    """Each error that we define keeps its type, its message and its attributes."""
    faults = []
    kinds = error_types()
    for name, kind in kinds.items():
        error = made(kind)
        error.__notes__ = ["a note"]
        for way, through in WAYS.items():
            try:
                twin = through(error)
            except Exception as fault:  # noqa: BLE001 - listed
                faults.append(f"{name}, {way}: {fault!r}")
                continue
            if (type(twin), str(twin), twin.args, vars(twin)) != (kind, str(error), error.args, vars(error)):
                faults.append(f"{name}, {way}: {twin!r} {vars(twin)}")
    assert faults == []
    assert {
        GeneratorFailed,
        JudgeFailed,
        NotAccepted,
        Unanswered,
        AskFailed,
        CannotJudge,
        EndpointStatusError,
    } <= set(kinds.values())


def good(response: str) -> bool:
    """Judge an answer, as a function of a module."""
    return "good" in response


def echo(messages: list[BaseMessage]) -> str:
    """Generate an answer, as a function of a module."""
    return f"good answer to {messages[-1].text}"


def test_every_judge_goes_through_copies_and_pickles() -> None:
    """Each judge that can be loaded, in each variant, explains itself and judges as before."""
    faults = []
    for entry in catalogue():
        for variant in ("corrected", "compat") if takes(entry.name, "variant") else (None,):
            judge = made_judge(entry.name, **({} if variant is None else {"variant": variant}))
            sample = sample_for(entry.name)
            expected = judge(sample).model_dump(exclude={"latency_s"})
            for way, through in WAYS.items():
                try:
                    twin = through(judge)
                    same = twin(sample).model_dump(exclude={"latency_s"}) == expected
                    if not same or str(twin.explain()) != str(judge.explain()):
                        faults.append(f"{entry.name}, {variant}, {way}: judges otherwise")
                except Exception as fault:  # noqa: BLE001 - listed
                    faults.append(f"{entry.name}, {variant}, {way}: {fault!r}")
    assert faults == []


def test_judges_made_of_judges_go_through_copies_and_pickles() -> None:
    """Panels, cascades, repetitions and functions of a module do, too."""
    helpful = Helpfulness(ScriptedModel(["none"]))
    for judge in (
        as_judge(good),
        as_judge(partial(good)),
        Panel([good, helpful], rule="weighted", weights=[1, 2]),
        Panel([good, helpful], rule="veto"),
        Cascade({"first": good, "second": helpful}),
        Escalation({"first": good, "second": helpful}),
        Repeat(good, 3),
        ScriptedJudge([4, (1, "more")]),
    ):
        for way, through in WAYS.items():
            twin = through(judge)
            assert (way, repr(twin), str(twin.explain())) == (way, repr(judge), str(judge.explain()))
    assert pickled(Panel([good]))(response="good").passed is True


def test_a_script_goes_on_where_it_was() -> None:
    """A pickled double continues its script; the original goes on by itself."""
    judge = ScriptedJudge([1, 2, 3])
    judge(response="a")
    twin = pickled(judge)
    assert [twin(response="b").rating, judge(response="c").rating, judge(response="d").rating] == [2, 2, 3]


def test_what_cannot_be_pickled_says_why_in_a_line(tmp_path: Path) -> None:
    """A lambda, a lock, a limiter, a checkpointer or a key is refused in one line; copies share what they hold."""
    chat = ChatOpenAI(model="gpt-5", api_key=SecretStr(KEY))
    judge = lambda response: 4  # noqa: E731 - a lambda is what is tried
    cases = {
        as_judge(judge): "the judge .* cannot be pickled: .*lambda.*; define its function by def in a module",
        Panel([judge]): "define its function by def in a module",
        as_judge(RunnableLambda(lambda _: 4)): "the judge .* cannot be pickled: .*; make it in each process",
        Helpfulness(chat): "the chat model 'gpt-5' holds a key, openai_api_key, so it is not pickled; name it",
        Helpfulness(chat.bind(stop=["x"])): "holds a key, openai_api_key",
        as_model(chat): "holds a key",
        LangChainEmbeddings(OpenAIEmbeddings(api_key=SecretStr(KEY))): "holds a key, openai_api_key",
        OpenAICompatible("http://localhost:1/v1", model="m", api_key=KEY): "holds a key or headers is not pickled",
        OpenAICompatible("http://localhost:1/v1", model="m", headers={"api-key": KEY}): "holds a key or headers",
        OpenAICompatibleEmbeddings("http://localhost:1/v1", model="m", api_key=KEY): "holds a key or headers",
        Helpfulness(limited(ScriptedModel([]), Limiter(2))): "a Limiter is not pickled, since it counts the calls",
        SelfRefine(lambda _: "yes", good): "the generator of this SelfRefine cannot be pickled: .*lambda",
        SelfRefine(echo, judge): "the judge .* cannot be pickled: .*lambda.*; define its function by def",
        SelfRefine(chat, good): "the generator of this SelfRefine holds a key, openai_api_key",
        SelfRefine(echo, good, overrides={2: {"model": chat}}): "the policy of this SelfRefine holds a key",
        SelfRefine(
            echo, good, checkpointer=InMemorySaver()
        ): "with a checkpointer is not pickled; make it in each",
        self_refine(echo, good): "a compiled graph is not pickled; make it by self_refine in each process",
    }
    for value, message in cases.items():
        with pytest.raises(ConfigurationError, match=message) as raised:
            pickle.dumps(value)
        assert "\n" not in str(raised.value)
        assert KEY not in str(raised.value)
        assert type(copy.copy(value)) is type(copy.deepcopy(value)) is type(value)


def test_a_key_comes_from_the_environment_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Models whose key is the environment's are pickled without it, and take it from the environment again."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    models = [
        OpenAICompatible("http://localhost:1/v1", model="m", temperature=0.5),
        OpenAICompatibleEmbeddings("http://localhost:1/v1", model="m"),
        as_model("openai:gpt-5"),
        cached(OpenAICompatible("http://localhost:1/v1", model="m"), Cache(tmp_path / "cache.sqlite")),
        limited_by_breaker := Breaker(2, cooldown_s=7),
    ]
    named: Any = models[2]
    assert named._model.chat.openai_api_key.get_secret_value() == KEY
    for model in models:
        assert KEY.encode() not in pickle.dumps(model)
        assert type(pickled(model)) is type(model)
        assert getattr(pickled(model), "identity", None) == getattr(model, "identity", None)
    assert pickled(limited_by_breaker)._cooldown == 7
    assert pickled(models[0])._endpoint._headers["authorization"].get_secret_value() == f"Bearer {KEY}"
    assert KEY.encode() not in pickle.dumps(SelfRefine("openai:gpt-5", Helpfulness("openai:gpt-5-mini")))
    assert KEY.encode() not in pickle.dumps(Helpfulness("openai:gpt-5-mini"))


def test_a_refiner_goes_through_copies_and_pickles(tmp_path: Path) -> None:
    """A refiner without a checkpointer answers, records and is set as before."""
    policy = Policy(max_attempts=2, augment=last_drafts(2), show_drafts=True)
    record = tmp_path / "attempts.jsonl"
    asked = SelfRefine(echo, [good, Helpfulness("openai:gpt-5")], policy=policy, name="Refiner")
    assert {way: repr(through(asked)) for way, through in WAYS.items()} == dict.fromkeys(WAYS, repr(asked))
    assert repr(pickled(asked).policy) == repr(policy)
    twin = pickled(SelfRefine(echo, good, record=record, durability="exit"))
    assert twin.invoke("what?").text == "good answer to what?"
    assert len(record.read_bytes().splitlines()) == 1
    assert pickled(twin.refine("what?")).answer.text == "good answer to what?"
