"""Models on this machine by name: one server a process and file, started on demand, and gone with the process."""

from __future__ import annotations

import asyncio
import os
import pickle
import shutil
import socket
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from openai import OpenAI

from judges import ConfigurationError, OpenAICompatible, Rubric, as_judge, chat_model
from judges.authoring import as_model
from judges.models.providers import llama
from judges.models.providers.http_errors import EndpointStatusError
from judges.models.providers.llama import LocalModel, serve_locally
from refine import SelfRefine
from refine.server import RunningGuard
from tests.guarding import guarding, wait_until
from tests.kit import Way, ask, both_ways
from tests.laws import for_every
from tests.tiny_llama import write_model

pytest.importorskip("xllamacpp", reason="llama.cpp has no wheel for this platform")
pytest.importorskip("gguf", reason="needed to write the model")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a model of random weights."""
    path = tmp_path_factory.mktemp("local") / "tiny.gguf"
    write_model(path)
    return path


@pytest.fixture
def model(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> OpenAICompatible:
    """Return that model by its name, with one thread and short replies."""
    monkeypatch.setenv("LLAMA_ARG_THREADS", "1")
    return OpenAICompatible.named(f"local:{tiny}", temperature=1.0, max_tokens=200)


def terse(model: object) -> Rubric:
    """Make a judge with a short prompt."""
    levels = {1: "bad", 2: "poor", 3: "fair", 4: "good"}
    return Rubric(model, criteria="chance", levels=levels, instructions="Rate by chance.", examples=[])


@both_ways
async def test_a_named_file_judges(model: OpenAICompatible, way: Way) -> None:
    """Its replies follow the schema, and are billed to the model's name."""
    verdict = await ask(terse(model), way, response="An answer.")

    assert verdict.rating in {1, 2, 3, 4} or verdict.unscored == "invalid_output", verdict.detail
    assert (verdict.model, model.method) == (model.name, "json_schema")


@both_ways
async def test_a_model_on_this_machine_is_asked_past_the_proxy(
    model: OpenAICompatible, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    """What the environment names as a proxy gets neither the prompt nor the server's key."""
    for variable in ("HTTP_PROXY", "ALL_PROXY", "OPENAI_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    chat: Any = chat_model(model.name, max_tokens=2, max_retries=0)
    reply = chat.invoke("Hi.") if way == "sync" else await chat.ainvoke("Hi.")
    chat.root_client.close()
    await chat.root_async_client.close()
    assert reply.response_metadata["model_name"] == model.name


def test_threads_share_one_server(model: OpenAICompatible) -> None:
    """Many threads that ask at once wait for one start; a copy from a pickle asks the same server."""
    with ThreadPoolExecutor(8) as threads:
        servers = set(threads.map(lambda _: serve_locally(model.name).process.pid, range(8)))
    verdict = terse(pickle.loads(pickle.dumps(model)))(response="An answer.")  # noqa: S301 - our own

    assert len(servers) == 1
    assert verdict.model == model.name


def test_a_server_that_died_is_started_anew(model: OpenAICompatible) -> None:
    """The next question finds it gone, and gets an answer from another."""
    first = serve_locally(model.name)
    first.process.kill()
    first.process.wait()

    assert terse(model)(response="An answer.").model == model.name
    assert serve_locally(model.name).process.pid != first.process.pid


def test_an_upstream_that_died_is_started_again(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The guard says so, is not ready meanwhile, and answers again; after some times it gives up, in a line."""
    monkeypatch.setenv("LLAMA_ARG_THREADS", "1")
    name = f"local:{shutil.copy(tiny, tmp_path / 'own.gguf')}"

    def kill() -> None:
        process = serve_locally(name).process
        process.kill()
        process.wait()

    with guarding(name, judge="tests.guarding:accepts", max_attempts=1) as guard:
        assert guard.chat(max_tokens=5).status_code == 200
        kill()
        ready = guard.get("/readyz")
        assert (ready.status_code, ready.json()["ended"]) == (503, [name])
        wait_until(lambda: guard.get("/readyz").status_code == 200, seconds=60)
        assert guard.chat(max_tokens=5).status_code == 200
        for _ in range(2):
            kill()
            assert guard.chat(max_tokens=5).status_code == 200
        kill()
        refused = guard.chat(max_tokens=5)
        assert (refused.status_code, refused.json()["error"]["code"]) == (502, "upstream_unreachable")
        assert "ended 4 times within 10 minutes" in refused.json()["error"]["message"]
        assert guard.get("/readyz").status_code == 503
    lines = [record.getMessage() for record in caplog.records if "started again" in record.getMessage()]
    assert lines[0] == f"the server of {name} ended (exit status -9); it is started again"
    assert len([line for line in lines if line == lines[0]]) == 3


def test_busy_processors_are_left_to_others(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that starts beside other work has fewer threads, at least one, unless the variable says more."""
    monkeypatch.delenv("LLAMA_ARG_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(llama, "_siblings", str)
    monkeypatch.setattr(llama, "_share_of_container", lambda: sys.maxsize)
    threads = []
    for idle in (1.0, 0.5, 0.0):
        monkeypatch.setattr(llama, "_idle_share", lambda idle=idle: idle)
        threads.append(llama._settings(LocalModel.named(f"local:{tiny}"), "key")["threads"])
    assert threads == [8, 4, 1]
    monkeypatch.setenv("LLAMA_ARG_THREADS", "6")
    assert llama._settings(LocalModel.named(f"local:{tiny}"), "key")["threads"] == 6


def test_strangers_are_not_served(model: OpenAICompatible) -> None:
    """Without the key of this process the server answers nobody on this machine."""
    stranger = OpenAICompatible(serve_locally(model.name).address, model="tiny", api_key="")

    with pytest.raises(EndpointStatusError, match="401"):
        stranger.chat({"messages": []})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_server_stops_with_its_process_even_one_that_is_killed(tiny: Path) -> None:
    """A killed application leaves no server; a child that it forked has one of its own, until it ends."""
    program = f"""
        import os, sys
        from judges.models.providers.llama import serve_locally
        mine = serve_locally("local:{tiny}").address
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, serve_locally("local:{tiny}").address.encode())
            sys.exit()
        os.waitpid(child, 0)
        print(mine, os.read(reading, 99).decode(), serve_locally("local:{tiny}").address, flush=True)
        sys.stdin.read()
        """
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as application:
        assert application.stdout is not None
        mine, forked, still_mine = application.stdout.readline().decode().split()
        assert mine == still_mine
        assert mine != forked
        with pytest.raises(ConnectionRefusedError):
            connected(forked)
        with connected(mine) as connection:
            application.kill()
            assert not connection.recv(1)  # waits until the server's end is closed


def connected(address: str) -> socket.socket:
    """Connect to a server."""
    url = urlsplit(address)
    return socket.create_connection((url.hostname, url.port), timeout=30)


@for_every(
    "name, said",
    [
        ("local:", "names no model on this machine"),
        ("local:qwen3", "write 'local:smollm2', or 'local:PATH.gguf'"),
        ("local:{folder}/none.gguf", "cannot be read (No such file or directory)"),
        ("local:{folder}/text.gguf", "is no GGUF file"),
    ],
)
def test_a_name_without_a_model_is_one_line(tmp_path: Path, name: str, said: str) -> None:
    """What is wrong is said where the model is named, before anything is asked."""
    (tmp_path / "text.gguf").write_text("words")

    with pytest.raises(ConfigurationError) as caught:
        as_model(name.format(folder=tmp_path))

    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_broken_file_is_one_line(tmp_path: Path, tiny: Path) -> None:
    """llama.cpp's own reason is given, without its log."""
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(tiny.read_bytes()[:-1000])

    with pytest.raises(ConfigurationError, match="is corrupted or incomplete") as caught:
        terse(f"local:{broken}")(response="An answer.")

    assert "\n" not in str(caught.value)


def is_short(answer: str) -> bool:
    """Accept whatever is no novel."""
    return len(answer) < 9000


def test_a_loop_runs_at_every_door(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name alone makes a generator in Python, sync and async, the model of a command, and an upstream."""
    monkeypatch.setenv("LLAMA_ARG_THREADS", "1")
    name = f"local:{tiny}"
    refiner = SelfRefine(name, as_judge(is_short, returns="check"), max_attempts=2)
    outcomes = [refiner.refine("Hello"), asyncio.run(refiner.arefine("Hello"))]

    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"user_input": "Hello?", "response": "An answer."}\n', encoding="utf-8")
    command = [sys.executable, "-m", "refine", "evaluate", str(rows), "--judge", "fluency", "--model", name]
    ran = subprocess.run([*command, "--out", str(tmp_path / "run")], capture_output=True, text=True, check=False)

    settings = {"upstream": name, "judge": "length", "judge_settings": {"at_most": 9000}}
    with RunningGuard(settings) as guard, OpenAI(base_url=guard.url, api_key="any") as client:
        reply = client.chat.completions.create(model="any", messages=[{"role": "user", "content": "Hello"}])

    assert {one.stop_reason for one in outcomes} <= {"accepted", "max_attempts"}, [one.detail for one in outcomes]
    assert all(one.attempts[0].usage.output_tokens for one in outcomes)
    assert (ran.returncode, "fluency" in ran.stdout) == (0, True), ran.stderr
    assert reply.model == name
