"""The command `refine serve`: it starts, says where it is, checks its settings, and stops in order."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner

from refine.cli.app import app
from refine.server.access import digest_of
from refine.server.running import _keep_for_good
from tests import forks
from tests.guarding import QUESTION, wait_until
from tests.model_server import Asked, Reply, serving

ROOT = Path(__file__).parents[2]
_FINE = ["--upstream", "http://127.0.0.1:9/v1", "--judge", "tests.guarding:rates"]
BODY = json.dumps({"model": "m", "messages": QUESTION})


@contextmanager
def serving_command(
    *arguments: str, folder: Path | None = None
) -> Iterator[tuple[ForkServerProcess, str, list[str]]]:
    """Run `refine serve` at a free port; yields the process, its base URL and the lines that it said before that.

    Without a folder to run in nothing is recorded.
    """
    words = ["serve", "--port", "0", "--judge", "tests.guarding:rates", *arguments]
    words += () if folder else ("--no-record",)
    with forks.listening("stderr", "refine", *words, folder=folder or ROOT) as (process, written):
        lines: list[str] = []
        while not lines or ("listening at" not in lines[-1] and "refine: " in lines[-1]):
            lines.append(written.readline())
        found = re.search(r"http://\S+?/v1", lines[-1])
        assert found is not None, lines[-1] + written.read()
        yield process, found.group(), lines


def test_it_serves_and_drains() -> None:
    """On SIGTERM `/readyz` says no while it still serves; what is in flight is finished, and the process ends."""

    def slowly(asked: Asked) -> Reply:
        return Reply("good", delay_s=1.0 if "slow" in asked["headers"].get("x-speed", "") else 0.0)

    with serving(slowly) as upstream, serving_command("--upstream", upstream.url) as (process, url, _):
        config = {"content": BODY, "timeout": 60}
        assert httpx2.post(f"{url}/chat/completions", **config).json()["refine"]["passed"] is True  # type: ignore[arg-type]
        root = url.removesuffix("/v1")
        assert httpx2.get(f"{root}/readyz").status_code == 200
        replies: list[httpx2.Response] = []

        def ask() -> None:
            replies.append(httpx2.post(f"{url}/chat/completions", headers={"x-speed": "slow"}, **config))  # type: ignore[arg-type]

        asking = threading.Thread(target=ask)
        asking.start()
        wait_until(lambda: len(upstream.requests) == 2)
        forks.tell(process, signal.SIGTERM)
        wait_until(lambda: httpx2.get(f"{root}/readyz").status_code == 503)
        assert httpx2.post(f"{url}/chat/completions", **config).status_code == 200  # type: ignore[arg-type]
        forks.tell(process, signal.SIGTERM)  # the second does not wait for load balancers
        asking.join(60)
        assert replies[0].json()["choices"][0]["message"]["content"] == "good"
        assert forks.end_of(process) == -signal.SIGTERM


async def test_a_stop_costs_nobody_an_answer(tmp_path: Path) -> None:
    """Of 50 clients that ask all the time, on new connections and kept ones, each is answered, or not let in."""
    file, broken = tmp_path / "refine.toml", list[str]()
    file.write_text('ready_s = 0\nlog_level = "warning"\n', encoding="utf-8")
    request = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(BODY)}\r\n\r\n{BODY}"

    async def ask(port: int, *, keeps: bool) -> None:
        reader = writer = None
        with suppress(ConnectionRefusedError):
            while True:
                if reader is None or writer is None:
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    writer.write(request.encode())
                    head = (await reader.readuntil(b"\r\n\r\n")).lower()
                    await reader.readexactly(int(re.findall(rb"content-length: (\d+)", head)[0]))
                except (ConnectionError, EOFError) as error:
                    broken.append(repr(error))
                    return
                if not keeps or b"connection: close" in head:
                    writer.close()
                    reader = writer = None

    for _ in range(3):
        with (
            serving(lambda _: Reply("good", delay_s=0.02)) as upstream,
            serving_command("--upstream", upstream.url, "--config", str(file)) as (process, url, _lines),
        ):
            port = httpx2.URL(url).port or 0
            asking = [asyncio.create_task(ask(port, keeps=number % 2 == 0)) for number in range(50)]
            while len(upstream.requests) < 150:  # noqa: ASYNC110 - the upstream runs in another thread
                await asyncio.sleep(0.01)
            forks.tell(process, signal.SIGTERM)
            assert await asyncio.to_thread(forks.end_of, process) == -signal.SIGTERM
            for task in asking:
                task.cancel()
            await asyncio.wait(asking)
    assert broken == []


def test_what_does_not_finish_gets_an_error(tmp_path: Path) -> None:
    """A request that outlives the drain ends with an error of the API, streamed or not; no connection breaks."""
    file = tmp_path / "refine.toml"
    file.write_text("ready_s = 0\ndrain_s = 0.3\nkeep_alive_s = 0.1\n", encoding="utf-8")
    hanging = Reply("good", delay_s=30)
    with (
        serving(lambda _: hanging) as upstream,
        serving_command("--upstream", upstream.url, "--config", str(file)) as (process, url, _),
    ):
        replies: dict[bool, httpx2.Response] = {}

        def ask(streamed: bool) -> None:  # noqa: FBT001 - an argument of the thread
            body = json.dumps({**json.loads(BODY), "stream": streamed})
            replies[streamed] = httpx2.post(f"{url}/chat/completions", content=body, timeout=60)

        threads = [threading.Thread(target=ask, args=(streamed,)) for streamed in (False, True)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(upstream.requests) == 2)
        time.sleep(0.3)  # until the stream has begun
        forks.tell(process, signal.SIGTERM)
        for thread in threads:
            thread.join(60)
        assert replies[False].status_code == 503
        assert replies[False].json()["error"]["code"] == "shutting_down"
        assert replies[True].status_code == 200
        assert "shutting_down" in replies[True].text
        assert replies[True].text.endswith("data: [DONE]\n\n")
        assert forks.end_of(process) == -signal.SIGTERM


def test_a_record_and_a_page_from_the_start(tmp_path: Path) -> None:
    """Without a setting the command records where it was called, without texts, says so, and has a page."""
    with serving(lambda _: Reply("good")) as upstream:
        started = serving_command("--upstream", upstream.url, folder=tmp_path)
        with started as (process, url, lines):
            assert f"outcomes are recorded in {tmp_path}/refine-record.db, without texts" in "".join(lines)
            assert httpx2.post(f"{url}/chat/completions", content=BODY, timeout=60).status_code == 200
            page = url.removesuffix("v1")
            assert "<title>" in httpx2.get(page).text

            def shown() -> list[dict[str, object]]:
                rows: list[dict[str, object]] = httpx2.get(f"{page}page/api/outcomes").json()
                return rows

            wait_until(lambda: len(shown()) == 1)
            assert (shown()[0]["passed"], shown()[0]["question"]) == (True, None)
            forks.tell(process, signal.SIGINT)
            forks.end_of(process)
    file = tmp_path / "refine-record.db"
    assert oct(file.stat().st_mode & 0o777) == "0o600"
    assert b"capital of France" not in file.read_bytes()


def test_what_is_said_of_record_and_exposure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether there is a record, and that there are no keys where others can reach it, is one line each."""
    monkeypatch.chdir(tmp_path)
    base = ["serve", "--upstream", "http://127.0.0.1:9/v1", "--judge", "tests.guarding:rates", "--check"]
    assert run(*base)[1].count("outcomes are recorded in") == 1
    assert run(*base, "--no-record")[1].count("nothing is recorded") == 1
    code, lines = run(*base, "--no-record", "--record", "a.db")
    assert (code, "exclude each other" in lines) == (2, True)
    monkeypatch.setenv("REFINE_RECORD", "false")
    assert run(*base)[1].count("nothing is recorded") == 1
    for host, expense in (("0.0.0.0", False), ("::", True)):  # noqa: S104 - what the warning is about
        monkeypatch.setenv("REFINE_UPSTREAM_KEY", "sk-operator-of-24-letters" if expense else "caller")
        lines = run(*base, "--host", host)[1]
        assert lines.count(f"whoever reaches {host} is answered") == 1
        assert ("at this server's expense" in lines) == expense
    for host in ("127.0.0.1", "localhost", "::1"):
        assert "warning" not in run(*base, "--host", host)[1]
    monkeypatch.setenv("REFINE_KEYS", json.dumps([{"name": "a", "sha256": digest_of("rf-one")}]))
    assert "warning" not in run(*base, "--host", "0.0.0.0")[1]  # noqa: S104 - as above
    assert list(tmp_path.iterdir()) == []


def run(*arguments: str) -> tuple[int, str]:
    """Run the command line in this process; return the exit code and what it wrote to stderr."""
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.stderr


def test_checking_only(tmp_path: Path) -> None:
    """`--check` says what the settings mean, a score beside a rating, one line a guard, and serves nothing."""
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
    assert (
        "judge helpfulness (m), upstream http://127.0.0.1:9, accepted at success_rating=4, at most 2 attempts"
        in lines
    )
    assert "the configuration can be used" in lines
    file = tmp_path / "refine.toml"
    file.write_text('judge = "tests.guarding:rates"\n[policy]\nsuccess_score = 0.9\n')
    lines = run(*base, "--config", str(file))[1]
    assert "accepted at success_rating=4, success_score=0.9, at most 2 attempts" in lines


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
        ([*_FINE, "--host", "256.1.1.1"], "--host"),
        (["--max-attempts", "0"], "max_attempts = 0"),
        ([*_FINE, "--host", "no-such-host.invalid", "--check"], "'no-such-host.invalid' is no address of this"),
        ([*_FINE, "--host", "", "--check"], "host = '': it is empty; leave it out"),
    ],
)
def test_wrong_settings_end_it_with_one_line(
    arguments: list[str], part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong setting is one line on stderr and exit code 2."""
    monkeypatch.chdir(tmp_path)
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


@pytest.mark.skipif(sys.platform != "linux", reason="large pages are Linux's")
def test_what_is_kept_for_good_stays_as_it_is() -> None:
    """Moving what was made until now into large pages changes none of it."""
    made = [bytes([number % 256]) * 1_000 for number in range(10_000)]
    _keep_for_good()
    gc.unfreeze()
    assert all(one == bytes([number % 256]) * 1_000 for number, one in enumerate(made))
