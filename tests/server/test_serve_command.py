"""The command `refine serve`: it starts, says where it is, checks its settings, and stops in order."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner

from refine.cli.app import app
from refine.server.keys import digest_of
from tests.guarding import QUESTION, wait_until
from tests.model_server import Asked, Reply, serving

ROOT = Path(__file__).parents[2]
BODY = json.dumps({"model": "m", "messages": QUESTION})


@contextmanager
def serving_command(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `refine serve` at a free port while the block runs; yields the process and its base URL."""
    command = [
        sys.executable,
        "-m",
        "refine.cli",
        "serve",
        "--port",
        "0",
        "--judge",
        "tests.guarding:rates",
        *arguments,
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            lines = iter(process.stderr.readline, "")
            line = next(line for line in lines if "listening at" in line or "refine: " not in line)
            found = re.search(r"http://\S+?/v1", line)
            assert found is not None, line + process.stderr.read()
            yield process, found.group()
        finally:
            process.kill()


def test_it_serves_and_drains() -> None:
    """On SIGTERM `/readyz` says no while it still serves; what is in flight is finished, and the process ends."""

    def slowly(asked: Asked) -> Reply:
        return Reply("good", delay_s=1.0 if "slow" in asked["headers"].get("x-speed", "") else 0.0)

    with serving(slowly) as upstream, serving_command("--upstream", upstream.url) as (process, url):
        config = {"content": BODY, "timeout": 10}
        assert httpx2.post(f"{url}/chat/completions", **config).json()["refine"]["passed"] is True  # type: ignore[arg-type]
        root = url.removesuffix("/v1")
        assert httpx2.get(f"{root}/readyz").status_code == 200
        replies: list[httpx2.Response] = []

        def ask() -> None:
            replies.append(httpx2.post(f"{url}/chat/completions", headers={"x-speed": "slow"}, **config))  # type: ignore[arg-type]

        asking = threading.Thread(target=ask)
        asking.start()
        wait_until(lambda: len(upstream.requests) == 2)
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: httpx2.get(f"{root}/readyz").status_code == 503)
        assert httpx2.post(f"{url}/chat/completions", **config).status_code == 200  # type: ignore[arg-type]
        process.send_signal(signal.SIGTERM)  # the second does not wait for load balancers
        asking.join(10)
        assert replies[0].json()["choices"][0]["message"]["content"] == "good"
        assert process.wait(10) == -signal.SIGTERM


def test_what_does_not_finish_gets_an_error(tmp_path: Path) -> None:
    """A request that outlives the drain ends with an error of the API, streamed or not; no connection breaks."""
    file = tmp_path / "refine.toml"
    file.write_text("ready_s = 0\ndrain_s = 0.3\nkeep_alive_s = 0.1\n", encoding="utf-8")
    hanging = Reply("good", delay_s=30)
    with (
        serving(lambda _: hanging) as upstream,
        serving_command("--upstream", upstream.url, "--config", str(file)) as (process, url),
    ):
        replies: dict[bool, httpx2.Response] = {}

        def ask(streamed: bool) -> None:  # noqa: FBT001 - an argument of the thread
            body = json.dumps({**json.loads(BODY), "stream": streamed})
            replies[streamed] = httpx2.post(f"{url}/chat/completions", content=body, timeout=10)

        threads = [threading.Thread(target=ask, args=(streamed,)) for streamed in (False, True)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(upstream.requests) == 2)
        time.sleep(0.3)  # until the stream has begun
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(10)
        assert replies[False].status_code == 503
        assert replies[False].json()["error"]["code"] == "shutting_down"
        assert replies[True].status_code == 200
        assert "shutting_down" in replies[True].text
        assert replies[True].text.endswith("data: [DONE]\n\n")
        assert process.wait(10) == -signal.SIGTERM


def run(*arguments: str) -> tuple[int, str]:
    """Run the command line in this process; return the exit code and what it wrote to stderr."""
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.stderr


def test_checking_only() -> None:
    """`--check` says what the settings mean, one line a guard, and serves nothing."""
    base = [
        "serve",
        "--upstream",
        "http://127.0.0.1:9/v1",
        "--check",
        "--success-rating",
        "4",
        "--max-attempts",
        "2",
    ]
    code, lines = run(
        *base, "--judge", "helpfulness", "--judge-base-url", "http://127.0.0.1:9/v1", "--judge-model", "m"
    )
    assert code == 0
    assert "judge helpfulness (m), upstream http://127.0.0.1:9, accepted from 4, at most 2 attempts" in lines
    assert "the configuration can be used" in lines


def test_checking_looks_at_record_and_page_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--check` refuses what the start would refuse, and writes nothing."""
    base = ["serve", "--upstream", "http://127.0.0.1:9/v1", "--judge", "tests.guarding:rates", "--check"]
    for record in ("postgresq://x/y", f"{tmp_path}/missing/record.db"):
        code, lines = run(*base, "--record", record)
        assert (code, "can be used" in lines) == (2, False), record
        assert "record: " in lines
    good = [*base, "--record", f"{tmp_path}/record.db"]
    assert run(*good)[0] == 0
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("REFINE_PAGE_KEY", "short")
    code, lines = run(*good)
    assert code == 2
    assert "the page's key has 5 characters" in lines


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--judge", "tests.guarding:rates"], "upstream is not set"),
        (["--upstream", "http://127.0.0.1:9/v1", "--judge", "helpfulnes"], "did you mean helpfulness"),
        (["--config", "/nowhere.toml"], "No such file"),
        (
            ["--upstream", "http://127.0.0.1:9/v1", "--judge", "tests.guarding:rates", "--host", "256.1.1.1"],
            "--host",
        ),
        (["--max-attempts", "0"], "max_attempts = 0"),
    ],
)
def test_wrong_settings_end_it_with_one_line(arguments: list[str], part: str) -> None:
    """A wrong setting is one line on stderr and exit code 2."""
    code, lines = run("serve", *arguments)
    assert code == 2
    assert part in lines.splitlines()[-1]
    assert "Traceback" not in lines


def test_making_a_key() -> None:
    """`refine key` writes the key to stderr and the lines for the file, with its hash, to stdout."""
    result = CliRunner().invoke(app, ["key", "app"])
    key = result.stderr.splitlines()[0]
    assert result.stdout == f'[[keys]]\nname = "app"\nsha256 = "{digest_of(key)}"\n'
    assert run("key", "a b")[0] == 2
