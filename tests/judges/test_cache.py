"""A cached model is asked the same question once, and never answers another one."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import pickle
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, SecretStr, create_model

from judges import (
    Cache,
    ConfigurationError,
    Helpfulness,
    Judge,
    JudgeModel,
    Limiter,
    Repeat,
    Rubric,
    Verdict,
    cached,
    limited,
)
from judges.model import ModelRequest, ModelResponse
from judges.models.identity import identity_of
from judges.models.prompt_and_reply import Unreadable
from judges.models.providers.langchain import LangChainModel
from judges.models.wrappers.cache import key_of
from judges.offline import evaluate
from judges.runtime.budget import Allowance
from judges.runtime.observation import within
from judges.runtime.prices import Price
from judges.testing import ScriptedModel
from judges.verdict import Usage
from tests.kit import Way, ask, both_ways
from tests.laws import for_every
from tests.model_server import Reply, serving

ROOT = Path(__file__).resolve().parents[2]
GOOD = {"rationale": "r", "rating": 4, "feedback": ""}
GOOD_TEXT = json.dumps(GOOD)
ROW = {"question": "Why?", "answer": "Because."}


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Cache]:
    """Give an empty cache."""
    with Cache(tmp_path / "replies.db") as cache:
        yield cache


async def judged(way: Way, judge: Judge, row: object = ROW) -> Verdict:
    """Judge one row with the driver named."""
    return await ask(judge, way, row)


@dataclass
class Fixed:
    """A judge's model that always says the same."""

    says: ModelResponse = ModelResponse(GOOD_TEXT, model="fixed-1")
    identity: str = "fixed"
    requests: list[ModelRequest] = field(default_factory=list)
    name: str = "fixed"
    retries: int = 0

    def send(self, request: ModelRequest) -> ModelResponse:
        """Say it."""
        self.requests.append(request)
        return self.says

    async def asend(self, request: ModelRequest) -> ModelResponse:
        """Say it."""
        return self.send(request)

    def is_model(self, other: object) -> bool:
        """Tell whether it is this."""
        return other is self


@both_ways
async def test_the_same_question_is_asked_once(way: Way, cache: Cache) -> None:
    """The second verdict says the same, and costs nothing."""
    model = ScriptedModel([{"rationale": "r", "rating": 3, "feedback": "f"}], name="m")
    judge = Helpfulness(cached(model, cache))
    first, second = await judged(way, judge), await judged(way, judge)
    assert len(model.prompts) == len(cache) == 1
    assert (first.usage.calls, first.usage.cached) == (1, 0)
    assert second.usage == Usage(cached=1, cost=0.0)
    own = {"usage", "latency_s"}
    assert second.model_dump(exclude=own) == first.model_dump(exclude=own)
    assert (second.rating, second.feedback, second.model) == (3, "f", "m")


def test_a_path_is_enough(tmp_path: Path) -> None:
    """Models given one path share one file, which is closed with them; opened anew, the reply is still there."""
    first, other = Fixed(), Fixed()
    for model, given in ((first, tmp_path / "c"), (other, str(tmp_path / "c"))):
        Helpfulness(cached(model, given))(ROW)
        Helpfulness(cached(model, given))(ROW)
    with Cache(tmp_path / "c") as cache:
        verdict = Helpfulness(cached(other, cache))(ROW)
    assert (len(first.requests), len(other.requests), verdict.usage.cached) == (1, 0, 1)


LEVELS = {1: "no", 2: "so", 3: "ok", 4: "yes"}
CHANGES: list[dict[str, Any]] = [
    {"criteria": "Is it kind?"},
    {"levels": {1: "no", 2: "so", 3: "ok", 4: "very"}},
    {"language": "zh"},
    {"examples": [(ROW, GOOD)]},
    {"model": Fixed(identity="another")},
    {"row": {"question": "Why?", "answer": "Because"}},
    {"row": {"question": "Why", "answer": "?Because."}},
    {"row": {**ROW, "reference": "x"}},
    {"row": {**ROW, "retrieved_contexts": ["x"]}},
]


@for_every("change", CHANGES)
def test_another_question_is_asked(change: dict[str, Any], cache: Cache) -> None:
    """Whatever changes in the prompt, the row or the model, the reply is not taken from the cache."""
    cache.clear()

    def asked(*, row: Any = ROW, model: JudgeModel | None = None, **changed: Any) -> int:
        settings = {"criteria": "Is it short?", "levels": LEVELS, "language": "en", **changed}
        return Rubric(cached(model or Fixed(), cache), **settings)(row).usage.cached

    assert [asked(), asked(**change), asked()] == [0, 0, 1]


def request(**changed: Any) -> ModelRequest:
    """Write a request in which something may be changed."""
    messages = (("system", "judge"), ("user", "<<<n0\n{}\nn0>>>"))
    fields: dict[str, Any] = {"messages": messages, "schema": schema(), "nonce": "n0", **changed}
    return ModelRequest(**fields)


def schema(name: str = "Reply", **fields: Any) -> type[BaseModel]:
    """Make the schema of a reply."""
    return create_model(name, **{"rating": (int, ...), **fields})


def test_the_number_of_the_fence_makes_no_difference() -> None:
    """Two requests that ask the same under different numbers have one key."""
    other = request(messages=(("system", "judge"), ("user", "<<<n1\n{}\nn1>>>")), nonce="n1")
    assert key_of("m", request()) == key_of("m", other)


@pytest.mark.parametrize(
    "changed",
    [
        {"messages": (("system", "judge "), ("user", "<<<n0\n{}\nn0>>>"))},
        {"messages": (("user", "judge"), ("user", "<<<n0\n{}\nn0>>>"))},
        {"messages": (("system", "judge"), ("user", "<<<\n{}\nn0>>>"))},
        {"messages": (("system", "judge"), ("user", "<<<n0\n{}\n>>>"))},
        {"messages": (("system", "judge"), ("user", '<<<", "\n{}\n", ">>>'))},
        {"messages": (("system", "judge"), ("user", "<<<n0\n{}\nn0>>>"), ("user", ""))},
        {"schema": schema("Other")},
        {"schema": schema(more=(str, ...))},
        {"schema": schema(rating=(str, ...))},
        {"text": True},
        {"nonce": "n2"},
    ],
    ids=str,
)
def test_every_part_of_a_letter_is_in_its_key(changed: dict[str, Any]) -> None:
    """A request that differs anywhere else has another key."""
    assert key_of("m", request()) != key_of("m", request(**changed))
    assert key_of("m", request()) != key_of("n", request())


async def test_the_runs_of_a_repeated_judge_are_distinguished(cache: Cache) -> None:
    """Runs, and runs of runs, are questions of their own; asked again each comes from the cache with its reply."""
    replies = [{**GOOD, "rating": rating} for rating in (1, 4, 4)]
    judge = Repeat(Helpfulness(cached(ScriptedModel(replies), cache)), 3)
    first, second = judge(ROW), await judge.acall(ROW)
    assert (first.usage.calls, second.usage.calls, second.usage.cached) == (3, 0, 3)
    assert [one.rating for one in first.items] == [one.rating for one in second.items]
    assert len(cache) == 3
    cache.clear()
    nested = Repeat(Repeat(Helpfulness(cached(ScriptedModel([GOOD], cycle=True), cache)), 2), 2)
    assert [nested(ROW).usage.calls, nested(ROW).usage.cached] == [4, 4]


def chat(**settings: Any) -> ChatOpenAI:
    """Make a chat model that is never asked."""
    fields: dict[str, Any] = {"model": "m", "api_key": SecretStr("key-1"), "base_url": "http://h/v1", **settings}
    return ChatOpenAI(**fields)


DIFFERENT: list[Any] = [
    chat(),
    chat(model="n"),
    chat(base_url="http://other/v1"),
    chat(temperature=0.5),
    chat(temperature=0.6),
    chat(max_tokens=5),
    chat(seed=1),
    chat(top_p=0.5),
    chat(reasoning_effort="low"),
    chat(model_kwargs={"own_setting": True}),
    chat(extra_body={"thinking": True}),
    chat(default_headers={"x-route": "a"}),
    chat(stop=["x"]),
    chat().bind(seed=1),
    chat().bind(seed=2),
    chat().bind(seed=1).bind(stop=["y"]),
    ScriptedModel([]),
    ScriptedModel([], name="m"),
]


def test_two_models_never_share_an_answer(cache: Cache) -> None:
    """Models that differ in class, name, endpoint or a setting have different identities."""
    identities = [identity_of(LangChainModel(one)) for one in DIFFERENT]
    identities += [identity_of(LangChainModel(DIFFERENT[0], temperature=asked)) for asked in (None, 0.3)]
    identities += [identity_of(model) for model in (Fixed(identity="a"), Fixed(identity="b"))]
    assert len(set(identities)) == len(identities)
    judges = [Helpfulness(cached(Fixed(ModelResponse(GOOD_TEXT), one), cache)) for one in identities]
    assert [judge(ROW).usage.cached for judge in judges] == [0] * len(identities)


@pytest.mark.parametrize(
    "other",
    [
        chat(),
        chat(api_key=SecretStr("key-2")),
        chat(max_retries=7),
        chat(metadata={"a": 1}, tags=["t"], verbose=True),
    ],
    ids=["equal", "key", "retries", "metadata"],
)
def test_what_changes_no_reply_is_no_difference(other: ChatOpenAI) -> None:
    """A new key, or another count of retries, leaves the cache as it was."""
    assert identity_of(LangChainModel(other)) == identity_of(LangChainModel(chat()))


def test_an_endpoint_of_the_environment_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that takes its address from the environment is distinguished from one that takes another."""
    identities = []
    for url in ("http://one/v1", "http://two/v1"):
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        identities.append(identity_of(LangChainModel(ChatOpenAI(model="m", api_key=SecretStr("k")))))
    assert identities[0] != identities[1]


def test_an_identity_holds_no_secret() -> None:
    """Keys, headers and addresses are not readable in it."""
    identity = identity_of(LangChainModel(chat(base_url="http://u:pw@h/v1", default_headers={"x": "hd"})))
    assert not [secret for secret in ("key-1", "pw", "hd") if secret in identity.replace("judges.models", "")]


class Configured(Fixed):
    """A model that tells its settings, as the direct client does."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(identity="")
        self.settings = settings


def test_the_settings_that_a_model_tells_are_its_identity() -> None:
    """Without an identity it is known by what it says that decides replies, or by class and name."""
    models = [Configured(base_url="a"), Configured(base_url="b"), Configured(base_url="a", temperature=0.0)]
    assert len({identity_of(one) for one in models}) == 3
    assert identity_of(Configured(base_url="a")) == identity_of(models[0])

    class Own(Fixed):
        identity = ""

    one, two = Own(identity=""), Own(identity="", name="two")
    assert identity_of(one).endswith("Own:fixed")
    assert identity_of(one) != identity_of(two)


class Bare(Fixed):
    """A model of a user's own class that says nothing of its identity; what it was given stands in attributes."""

    def __init__(self, base_url: str, *, api_key: str = "", **options: Any) -> None:
        super().__init__(identity="")
        self._base_url, self.api_key, self.options = base_url, api_key, options


class Closed(Fixed):
    """One that keeps to itself what it was given."""

    def __init__(self, client: object, prompt: str = "") -> None:
        super().__init__(identity="")
        self.client = client


@both_ways
async def test_a_model_without_identity_is_known_by_what_it_was_given(way: Way, cache: Cache) -> None:
    """Models of one class and name share replies where address and options are the same; the key makes none."""
    alike = [Bare("a", temperature=0), Bare("a", api_key="k", temperature=0)]
    other = [Bare("b", temperature=0), Bare("a", temperature=1), Bare("a", stop=("x", {"y": Path("z")}))]
    verdicts = [await judged(way, Helpfulness(cached(model, cache))) for model in (*alike, *other)]
    assert [verdict.usage.cached for verdict in verdicts] == [0, 1, 0, 0, 0]
    assert identity_of(Bare("a")) == identity_of(Bare("a", api_key="k"))


@both_ways
async def test_what_cannot_be_distinguished_is_not_cached(
    way: Way, cache: Cache, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning names the model and what of it cannot be read, also through a wrapper; the model is asked."""
    for model in (Closed(object()), limited(Closed(object()), Limiter(2))):
        caplog.clear()
        judge = Helpfulness(cached(model, cache))
        (line,) = [record.getMessage() for record in caplog.records]
        assert "client, prompt cannot be read; give its class an attribute identity" in line
        assert [(await judged(way, judge)).usage.cached for _ in range(2)] == [0, 0]
        assert len(caplog.records) == 1
    assert len(cache) == 0


UNREADABLE = [
    ModelResponse('{"rationale": "r", "rating": 4, "feedb', finish_reason="length"),
    ModelResponse(GOOD_TEXT, finish_reason="length"),
    ModelResponse(GOOD_TEXT, finish_reason="content_filter"),
    ModelResponse(GOOD_TEXT, refusal="no"),
    ModelResponse("nonsense"),
    ModelResponse(""),
    ModelResponse('{"rationale": "r", "rating": 5, "feedback": ""}'),
    ModelResponse(calls=(("Other", GOOD),)),
    ModelResponse(GOOD_TEXT, broken_calls=1),
]


@both_ways
@for_every("reply", UNREADABLE)
async def test_what_cannot_be_read_is_not_kept(way: Way, reply: ModelResponse, cache: Cache) -> None:
    """Replies that were cut, filtered, refused or are invalid are asked for again the next time."""
    model = Fixed(reply, requests=[])
    judge = Helpfulness(cached(model, cache))
    assert (await judged(way, judge)).unscored == "invalid_output"
    asked = len(model.requests)
    assert (await judged(way, judge)).usage.cached == 0
    assert (len(model.requests), len(cache)) == (2 * asked, 0)


@both_ways
async def test_a_failure_is_not_kept(way: Way, cache: Cache) -> None:
    """What failed in transport is asked again, and then kept."""
    judge = Helpfulness(cached(ScriptedModel([ValueError(), GOOD]), cache))
    verdicts = [await judged(way, judge) for _ in range(3)]
    assert [one.unscored for one in verdicts] == ["judge_failed", None, None]
    assert verdicts[2].usage.cached == 1


def test_a_reply_mended_on_request_is_kept_under_that_request(cache: Cache) -> None:
    """The first reply is asked for each time, the mended one comes from the cache."""
    model = ScriptedModel(["nonsense", GOOD, "nonsense"])
    judge = Helpfulness(cached(model, cache))
    first, second = judge(ROW), judge(ROW)
    assert (first.usage.calls, second.usage.calls, second.usage.cached) == (2, 1, 1)
    assert (second.rating, len(model.prompts)) == (4, 3)


def test_a_tool_call_is_kept_as_it_came(cache: Cache) -> None:
    """Arguments as raw text, and as an object, are read again as they were."""
    for arguments in (GOOD_TEXT, GOOD):
        cache.clear()
        model = Fixed()
        judge = Helpfulness(cached(model, cache))
        model.says = ModelResponse(
            calls=((judge._question.reply.__name__, arguments),), finish_reason="tool_calls"
        )
        assert [judge(ROW).rating, judge(ROW).rating] == [4, 4]
        assert len(model.requests) == 1


class Echo(Fixed):
    """A model that says the number of the fence."""

    def send(self, request: ModelRequest) -> ModelResponse:
        """Say it in the rationale, in capitals too."""
        super().send(request)
        said = f"a{request.nonce}b{request.nonce.upper()}c"
        return ModelResponse(json.dumps({**GOOD, "rationale": said}), model=request.nonce)


def test_the_number_of_the_fence_is_not_kept(cache: Cache) -> None:
    """A model that gives it away does not give it to the file, and both verdicts say the same."""
    model = Echo()
    judge = Helpfulness(cached(model, cache))
    assert [judge(ROW).rationale, judge(ROW).rationale] == ["abc", "abc"]
    nonce = model.requests[0].nonce.encode()
    everything = b"".join(file.read_bytes() for file in cache.path.parent.iterdir())
    assert nonce
    assert nonce not in everything
    assert nonce.upper() not in everything


class YesOrNo:
    """A dialect of its own: yes is a 4, no a 1, anything else is unreadable."""

    def compose(self, ask: Any, nonce: str) -> ModelRequest:
        """Ask briefly."""
        return ModelRequest((("user", f"{nonce}: good?"),), ask.schema, nonce, text=True)

    def read(self, response: ModelResponse, schema: type[BaseModel]) -> BaseModel:
        """Read a word."""
        if response.text not in ("yes", "no"):
            raise Unreadable("neither yes nor no")
        return schema.model_validate({**GOOD, "rating": 4 if response.text == "yes" else 1})


def test_a_dialect_decides_what_can_be_read(cache: Cache) -> None:
    """The words of a model with a format of its own are kept; an object would not be."""
    model: Any = Fixed(ModelResponse("yes"))
    model.dialect = YesOrNo()
    judge = Helpfulness(cached(model, cache))
    assert [judge(ROW).rating, judge(ROW).usage.cached] == [4, 1]
    cache.clear()
    model.says = ModelResponse(GOOD_TEXT)
    assert judge(ROW).unscored == "invalid_output"
    assert len(cache) == 0


def test_a_hit_gives_its_claim_back(cache: Cache) -> None:
    """A budget of two calls is enough for two rows, however often they are judged; hits cost nothing."""
    model = ScriptedModel([GOOD], cycle=True)
    judge = Helpfulness(cached(model, cache))
    prices = {"scripted": Price(input=1, output=1)}
    with within(Allowance(calls=2, cost=1000, prices=prices)):
        verdicts = [judge(ROW), *(judge(ROW) for _ in range(5)), judge(question="Who?", answer="Me.")]
        over = judge(question="What?", answer="That.")
    assert [one.unscored for one in verdicts] == [None] * 7
    assert over.unscored == "budget"
    assert [one.usage.cost for one in verdicts[1:6]] == [0.0] * 5


def test_a_real_endpoint_is_asked_once(cache: Cache) -> None:
    """Over HTTP, in threads: ten rows are ten requests, a second round none; the summary tells calls from hits."""
    with serving(lambda _: Reply(GOOD_TEXT)) as server:
        model = ChatOpenAI(base_url=server.url, model="m", api_key=SecretStr("k"), max_retries=0)
        judge = Helpfulness(cached(model, cache))
        rows = [{**ROW, "answer": f"Because of {number}."} for number in range(10)]
        usages = [evaluate(rows, judge, max_concurrency=4).summary["helpfulness"].usage for _ in range(2)]
    assert len(server.requests) == 10
    assert [(one.calls, one.cached) for one in usages] == [(10, 0), (0, 10)]
    assert usages[1].cost == 0.0


class Bomb:
    """What must never be unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.marker}",)


def crafted(marker: Path) -> list[bytes | str | float]:
    """Write records that an unwary reader would execute, or take for a verdict."""
    pickled = pickle.dumps(Bomb(marker))
    constructor = {
        "lc": 1,
        "type": "constructor",
        "id": ["os", "system"],
        "kwargs": {"command": f"touch {marker}"},
    }
    reply = {"text": GOOD_TEXT, "finish_reason": "stop"}
    return [
        pickled,
        base64.b64encode(pickled),
        base64.b64encode(pickled).decode(),
        pickled.decode("latin-1"),
        json.dumps(constructor),
        json.dumps({**reply, "text": constructor}),
        json.dumps({**reply, "calls": [["Reply", constructor]]}),
        json.dumps({**reply, "calls": [["os.system", {"command": f"touch {marker}"}]]}),
        json.dumps({**reply, "usage": {"calls": -1}}),
        json.dumps({**reply, "usage": {"calls": 1, "more": 1}}),
        json.dumps({**reply, "broken_calls": "0"}),
        json.dumps({**reply, "broken_calls": 1}),
        json.dumps({**reply, "finish_reason": "length"}),
        json.dumps({**reply, "refusal": "no"}),
        json.dumps({**reply, "text": "{}"}),
        json.dumps({**reply, "text": f'{{"rating": __import__("os").system("touch {marker}")}}'}),
        json.dumps({**reply, "text": GOOD_TEXT.replace("4", "5")}),
        json.dumps({**reply, "text": GOOD_TEXT.replace("4", "true")}),
        json.dumps({**reply, "text": GOOD_TEXT * 2}),
        json.dumps({"py/object": "os.system", "py/reduce": [f"touch {marker}"]}),
        f"!!python/object/apply:os.system ['touch {marker}']",
        f"__import__('os').system('touch {marker}')",
        "null",
        "[]",
        "{}",
        "NaN",
        "",
        "\x00",
        "[" * 100_000,
        '{"text":' * 100_000,
        7.5,
    ]


def test_a_crafted_record_is_data_and_no_verdict(tmp_path: Path) -> None:
    """Nothing in a record is executed; whatever is no readable reply is asked anew, and replaced."""
    marker = tmp_path / "executed"
    records = crafted(marker)
    assert len(records) > 30
    with Cache(tmp_path / "c") as cache, sqlite3.connect(cache.path) as other:
        judge = Helpfulness(cached(Fixed(), cache))
        judge(ROW)
        for record in records:
            other.execute("UPDATE replies SET reply = ?", (record,))
            other.commit()
            verdict = judge(ROW)
            assert (verdict.rating, verdict.usage.calls, verdict.usage.cached) == (4, 1, 0), record
        assert judge(ROW).usage.cached == 1
    other.close()
    assert not marker.exists()


def test_no_module_of_ours_unpickles() -> None:
    """The source of the cache names no reader that executes what it reads."""
    words = ("pickle", "marshal", "shelve", "eval(", "exec(")
    files = [*(ROOT / "judges/models/wrappers").glob("cache*.py"), ROOT / "judges/models/identity.py"]
    assert len(files) == 2
    assert not [(file.name, word) for file in files for word in words if word in file.read_text(encoding="utf-8")]


def test_the_file_is_its_owners_alone(cache: Cache) -> None:
    """The file and its logs are the owner's only, whatever the umask; judged texts are kept as a digest only."""
    Helpfulness(cached(Fixed(), cache))(question="SECRET-QUESTION", answer="SECRET-ANSWER")
    files = list(cache.path.parent.iterdir())
    assert len(files) == 3
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    everything = b"".join(file.read_bytes() for file in files)
    assert b"SECRET" not in everything
    assert b"rationale" in everything


def test_clearing_forgets_everything(cache: Cache) -> None:
    """After it all is asked anew."""
    judge = Helpfulness(cached(Fixed(), cache))
    judge(ROW)
    cache.clear()
    assert (len(cache), bool(cache), judge(ROW).usage.cached) == (0, True, 0)


def database(path: Path, *statements: str) -> Path:
    """Make a database."""
    with sqlite3.connect(path) as made:
        for statement in statements:
            made.execute(statement)
    made.close()
    return path


def filled(path: Path) -> Path:
    """Make a cache of 200 records."""
    with Cache(path) as cache:
        for number in range(200):
            cache.put(str(number).encode(), "x" * 1000)
    return path


SPOILED: dict[str, tuple[Callable[[Path], object], str]] = {
    "text": (
        lambda path: path.write_text("not a database at all, but long enough to look like one " * 50),
        "is no cache of replies, or it is damaged: file is not a database",
    ),
    "folder": (Path.mkdir, "cannot be opened"),
    "no folder": (lambda path: path.parent.rmdir(), "cannot be opened: .*No such file"),
    "foreign": (
        lambda path: database(path, "CREATE TABLE checkpoints (id)"),
        "is a database, but no cache of replies; give another path",
    ),
    "marked": (
        lambda path: database(path, "PRAGMA application_id = 7"),
        "is a database, but no cache of replies",
    ),
    "newer": (
        lambda path: database(filled(path), "PRAGMA user_version = 99"),
        "written by another version of selfrefine .format 99, this one knows 1.; give another path",
    ),
    "cut": (
        lambda path: path.write_bytes(filled(path).read_bytes()[:8192]),
        "is no cache of replies, or it is damaged",
    ),
}


@pytest.mark.parametrize("kind", SPOILED)
def test_what_is_no_cache_is_refused(kind: str, tmp_path: Path) -> None:
    """One clear error, and a file that is not ours stays as it was."""
    spoil, message = SPOILED[kind]
    path = tmp_path / "folder" / "c"
    path.parent.mkdir()
    spoil(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(ConfigurationError, match=message) as refused:
        len(Cache(path))
    assert str(path) in str(refused.value)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_damage_that_shows_later_is_reported(tmp_path: Path) -> None:
    """A page that is no page any more is an error of configuration, not a verdict."""
    pages = filled(tmp_path / "c").read_bytes()
    (tmp_path / "c").write_bytes(pages[:4096] + b"\xff" * (len(pages) - 4096))
    with Cache(tmp_path / "c") as cache, pytest.raises(ConfigurationError, match="damaged"):
        Helpfulness(cached(Fixed(), cache))(ROW)


def test_a_closed_cache_says_so(tmp_path: Path) -> None:
    """Its use is an error; closing it again is none."""
    cache = Cache(tmp_path / "c")
    cache.close()
    cache.close()
    with pytest.raises(ConfigurationError, match="was closed"):
        Helpfulness(cached(Fixed(), cache))(ROW)
    assert [file.name for file in tmp_path.iterdir()] == ["c"]


def test_a_reply_that_cannot_be_kept_is_not_lost(cache: Cache, caplog: pytest.LogCaptureFixture) -> None:
    """Where the file cannot be written the verdict is given all the same, and the log says why."""
    cache._writer.run("PRAGMA query_only = ON")
    verdict = Helpfulness(cached(Fixed(), cache))(ROW)
    assert (verdict.rating, len(cache)) == (4, 0)
    assert "could not be written: attempt to write a readonly database" in caplog.text


async def test_a_writer_elsewhere_does_not_hold_up_the_event_loop(cache: Cache) -> None:
    """While another connection writes, a reply that is kept is read at once, and a new one waits in a thread."""
    judge = Helpfulness(cached(Fixed(), cache))
    await judge.acall(ROW)
    other = sqlite3.connect(cache.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert (await judge.acall(ROW)).usage.cached == 1
    task = asyncio.create_task(judge.acall(question="Who?", answer="Me."))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not task.done()
    other.execute("COMMIT")
    other.close()
    assert (await task).rating == 4
    assert len(cache) == 2


def test_threads_share_a_cache(cache: Cache) -> None:
    """Sixteen threads that read and write at once see no error, and what they wrote is there."""
    failures: list[Exception] = []

    def work(number: int) -> None:
        try:
            for turn in range(30):
                key = f"{(number + turn) % 20}".encode()
                assert cache.get(key) in (None, key.decode() * 50)
                cache.put(key, key.decode() * 50)
        except Exception as error:  # noqa: BLE001 - told at the end
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (failures, len(cache)) == ([], 20)


HAMMER = """
import logging, os, sys, threading
from judges import Cache, Helpfulness, cached
from judges.model import ModelResponse

path, inherited = sys.argv[1], sys.argv[2] == "inherited"
logging.basicConfig(level=logging.WARNING)

class Model:
    name, retries, identity, asked = "m", 0, "m", 0
    def send(self, request):
        Model.asked += 1
        number = request.messages[-1][1].partition("number ")[2].partition(".")[0]
        return ModelResponse('{"rationale": "%s", "rating": 4, "feedback": ""}' % number)
    async def asend(self, request):
        return self.send(request)
    def is_model(self, other):
        return False

def hammer(cache):
    judge = Helpfulness(cached(Model(), cache))
    for turn in range(60):
        number = turn * 7 % 20
        verdict = judge(question="Which?", answer=f"It is number {number}.")
        assert (verdict.rating, verdict.rationale) == (4, str(number)), verdict
    os._exit(0 if Model.asked < 60 else 3)

shared = Cache(path) if inherited else None
children = []
for _ in range(8):
    child = os.fork()
    if child == 0:
        try:
            hammer(shared or Cache(path))
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
    children.append(child)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
with Cache(path) as cache:
    print(codes, len(cache))
"""


@pytest.mark.parametrize("way", ["own", "inherited"])
def test_processes_share_a_file(way: str, tmp_path: Path) -> None:
    """Eight processes create and hammer one file without an error; so do eight that a cache was forked into."""
    command = [sys.executable, "-W", "error", "-c", HAMMER, str(tmp_path / "c"), way]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[0, 0, 0, 0, 0, 0, 0, 0] 20", "")
