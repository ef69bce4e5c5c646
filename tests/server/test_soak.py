"""Opt-in soak: minutes of faults in upstream, judge and database, and every request ends in a typed outcome.

`TEST_SOAK_S=600 pytest tests/server/test_soak.py -s` lets the real command serve for ten minutes, and prints how
many requests came to which end.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import aiohttp
import httpx2
import pytest

from graphs.refinement import StopReason
from refine.record import DatabaseRecord
from tests.bench.guard_memory import Footprint
from tests.faults.catalogue import CRITIC, FAULTS, WRITER, good
from tests.guarding import events_of
from tests.model_server import Asked, Reply, Wire, answered, serving
from tests.postgres import Cluster, cluster
from tests.snippets import ROOT

SOAK = "TEST_SOAK_S"
CLIENTS = 32
FAULTY = 0.25
"""Share of the replies of upstream and judge that go wrong."""
BUSY, BUSY_S = "503 server_busy", 0.2
"""What a client reads that is one too many, and how long it waits then."""
DEADLINE_S, SLACK_S = 3.0, 5.0
UP_S, DOWN_S = 8.0, 4.0
"""Longest time for which the database is there, and is away."""
GROWTH = 40_000_000
"""Most bytes that the process may grow by after its first quarter, with outcomes that wait for the database."""
STOP_REASONS = frozenset(get_args(StopReason))
SOON = [fault for fault in FAULTS if not (fault.endless or fault.refused or fault.name == "10 MB body")]
ENDLESS = [fault for fault in FAULTS if fault.endless]
CONFIG = f"""
upstream_timeout_s = 1
judge = "helpfulness"
judge_model = "{CRITIC}"
breaker_failures = 8
breaker_cooldown_s = 0.1
keep_alive_s = 0.1
body_timeout_s = 1
max_in_flight = {CLIENTS - 4}
ready_s = 0.2
drain_s = 5
default_guard = "open"

[guards.open]
policy = {{ deadline_s = {DEADLINE_S} }}

[guards.closed]
fail = "closed"
policy = {{ deadline_s = {DEADLINE_S}, on_exhausted = "raise", success_rating = 4 }}
"""


class Chaos:
    """Plays the upstream and the judge's model, of whose replies some go wrong."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def __call__(self, asked: Asked) -> Reply | Wire:
        """Reply well, or not."""
        choose = self._random
        if not asked["path"].endswith("/chat/completions"):
            reply = answered({"object": "list", "data": []})
            return Wire(reply.parts, then="reset") if choose.random() < FAULTY else reply
        reply_of_model = good(asked, rating=choose.randint(1, 4))
        if choose.random() < FAULTY:
            return choose.choice(ENDLESS if choose.random() < 0.05 else SOON).spoil(asked, reply_of_model)
        return reply_of_model


@dataclass
class Ends:
    """What the requests came to.

    Args:
        counts: How many came to which end.
        untyped: Requests without an end of a known type: what became of them instead.
        left: How many clients left.
        slowest_s: Seconds until the slowest end of a known type.
    """

    counts: Counter[str] = field(default_factory=Counter)
    untyped: list[str] = field(default_factory=list)
    left: int = 0
    slowest_s: float = 0.0

    @property
    def total(self) -> int:
        """How many requests were sent."""
        return self.counts.total() + len(self.untyped) + self.left


def end_of(document: Any, status: int) -> str:
    """Return the typed outcome of a response; anything else is an AssertionError."""
    if "error" in document:
        error = document["error"]
        assert isinstance(error["message"], str)
        assert error["message"]
        code = error.get("code") or error["type"]
        assert code != "internal_error", document
        return f"{status} {code}"
    assert status == 200, (status, document)
    if "refine" not in document:
        return "verdict" if "rating" in document else "passed through"
    refine = document["refine"]
    assert refine["stop_reason"] in STOP_REASONS, refine
    assert refine["passed"] == (refine["stop_reason"] == "accepted"), refine
    return str(refine["stop_reason"])


async def read_end(response: aiohttp.ClientResponse) -> str:
    """Read a response to its end, and return the typed outcome."""
    text = await response.text()
    if response.content_type != "text/event-stream":
        return end_of(json.loads(text), response.status)
    events = events_of(text)
    document = json.loads(events[-2] if events[-1] == "[DONE]" else events[-1])
    assert events[-1] == "[DONE]" or "error" in document, text
    return (
        f"event: {end_of(document, response.status)}" if "error" in document else end_of(document, response.status)
    )


class Client:
    """Asks again and again until the time is over, each time in some other way.

    Args:
        root: Address of the guard.
        ends: Where the ends are counted.
        seed: Seed of its choices.
    """

    def __init__(self, root: str, ends: Ends, seed: int) -> None:
        self._root, self._ends = root, ends
        self._random = random.Random(seed)

    async def ask_until(self, until: float, session: aiohttp.ClientSession) -> None:
        """Ask one question after the other."""
        while time.monotonic() < until:
            await self._ask(session)

    async def _ask(self, session: aiohttp.ClientSession) -> None:
        choose, ends = self._random, self._ends
        path, body = self._request()
        headers = {"x-refine-guard": choose.choice(["open", "closed"]), "content-type": "application/json"}
        leaves = path.endswith("completions") and choose.random() < 0.1
        patience_s = choose.random() * 0.1 if leaves else DEADLINE_S + SLACK_S
        begun = time.monotonic()
        try:
            async with (
                asyncio.timeout(patience_s),
                session.post(f"{self._root}{path}", data=body, headers=headers) as response,
            ):
                end = await read_end(response)
            ends.counts[end] += 1
            ends.slowest_s = max(ends.slowest_s, time.monotonic() - begun)
            if end == BUSY:
                await asyncio.sleep(BUSY_S)
        except TimeoutError:
            if leaves:
                ends.left += 1
            else:
                ends.untyped.append(f"{path} {body!r} {headers}: no end within {patience_s} s")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is no typed outcome
            ends.untyped.append(f"{path}: {error!r}")

    def _request(self) -> tuple[str, bytes]:
        choose = self._random
        kind = choose.random()
        if kind < 0.05:
            return "/v1/judge", json.dumps({"question": "Capital of France?", "answer": "Paris."}).encode()
        if kind < 0.1:
            return "/v1/embeddings", b'{"model": "e", "input": "x"}'
        if kind < 0.13:
            return "/v1/chat/completions", choose.choice(
                [b"{", b"[]", b'{"messages": 1}', b"\xff", b'{"model": "m"}']
            )
        messages = [{"role": "user", "content": f"What is the capital of France? {choose.random()}"}]
        request = {"model": WRITER, "messages": messages, "stream": choose.random() < 0.4}
        return "/v1/chat/completions", json.dumps(request).encode()


@contextmanager
def served(config: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str, list[str]]]:
    """Run `refine serve`; yields the process, its address, and the lines that it writes."""
    command = [sys.executable, "-m", "refine", "serve", "--port", "0", "--config", str(config), *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    lines: list[str] = []
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as process:
        stderr = process.stderr
        assert stderr is not None
        try:
            address = next(
                at[1] for line in iter(stderr.readline, "") if (at := re.search(r"at (http\S+)/v1", line))
            )
            reader = threading.Thread(target=lambda: lines.extend(stderr))
            reader.start()
            yield process, address, lines
        finally:
            process.kill()
            reader.join()


async def interrupt(database: Cluster, until: float) -> int:
    """Stop the database and start it again until the time is over; return how often."""
    choose, times = random.Random(1), 0
    while time.monotonic() < until:
        await asyncio.sleep(choose.uniform(1, UP_S))
        await asyncio.to_thread(database.stop)
        await asyncio.sleep(choose.uniform(0.5, DOWN_S))
        await asyncio.to_thread(database.start)
        times += 1
    return times


async def soak(root: str, process: int, database: Cluster, seconds: float) -> tuple[Ends, int, list[Footprint]]:
    """Ask with many clients while the database comes and goes; return the ends, and what was held by quarter."""
    ends, footprints = Ends(), []
    until = time.monotonic() + seconds
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as group:
        interrupting = group.create_task(interrupt(database, until))
        for seed in range(CLIENTS):
            group.create_task(Client(root, ends, seed).ask_until(until, session))
        for quarter in range(4):
            await asyncio.sleep(max(0.0, until - time.monotonic()) / (4 - quarter))
            footprints.append(Footprint.of(process))
    return ends, interrupting.result(), footprints


def series_of(root: str, name: str) -> dict[str, float]:
    """Read one metric: its values by the text of the labels."""
    text = httpx2.get(f"{root}/metrics", trust_env=False).text
    return {labels: float(value) for labels, value in re.findall(rf"^{name}(\S*) (\S+)$", text, re.MULTILINE)}


def settled(root: str, name: str) -> bool:
    """Check whether a gauge is back at zero."""
    return sum(series_of(root, name).values()) == 0


@pytest.mark.skipif(SOAK not in os.environ, reason=f"{SOAK} does not say for how many seconds")
def test_every_request_ends_in_a_typed_outcome(tmp_path: Path) -> None:
    """Faults in upstream, judge and database: typed outcomes, an exact record, no growth, an orderly stop."""
    seconds = float(os.environ[SOAK])
    config = tmp_path / "refine.toml"
    with cluster() as database, serving(Chaos(0)) as models:
        url = database.make_database("soak")
        config.write_text(
            f'upstream = "{models.url}"\njudge_base_url = "{models.url}"\n{CONFIG}', encoding="utf-8"
        )
        with served(config, "--record", url) as (process, root, lines):
            ends, interruptions, footprints = asyncio.run(soak(root, process.pid, database, seconds))
            assert until(lambda: settled(root, "refine_in_flight"), DEADLINE_S + SLACK_S)
            assert until(lambda: settled(root, "refine_record_queue"), 30)
            requests = series_of(root, "refine_requests_total")
            (lost,) = series_of(root, "refine_record_lost_total").values()
            process.send_signal(signal.SIGTERM)
            process.wait(30)
        with DatabaseRecord(url) as record:
            recorded = record.figures()["outcomes"]
    report(ends, interruptions, footprints, recorded, lost)
    assert ends.untyped == []
    assert ends.counts["accepted"] > ends.total / 10
    assert ends.counts[BUSY] > 0
    assert ends.total - ends.left <= sum(requests.values()) <= ends.total
    outcomes = sum(count for labels, count in requests.items() if outcome_of(labels) in STOP_REASONS)
    assert recorded + lost == outcomes
    assert footprints[-1].resident - footprints[0].resident < GROWTH
    assert "".join(line for line in lines if not line.startswith(("{", "refine: "))) == ""


def outcome_of(labels: str) -> str:
    """Return the label `outcome` of a series."""
    match = re.search(r'outcome="(\w+)"', labels)
    assert match is not None
    return match[1]


def until(condition: Any, seconds: float) -> bool:
    """Wait until something holds; return whether it did in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def report(ends: Ends, interruptions: int, footprints: list[Footprint], recorded: int, lost: float) -> None:
    """Print what happened."""
    held = ", ".join(f"{footprint.resident / 1e6:.0f} MB/{footprint.descriptors}" for footprint in footprints)
    sys.stdout.write(
        f"\n{ends.total} requests, {ends.left} left, {len(ends.untyped)} untyped, the slowest "
        f"{ends.slowest_s:.1f} s; database away {interruptions} times, {recorded:.0f} outcomes recorded, "
        f"{lost:.0f} lost; memory/descriptors by quarter: {held}\n"
    )
    for end, count in ends.counts.most_common():
        sys.stdout.write(f"{count:>8}  {end}\n")
