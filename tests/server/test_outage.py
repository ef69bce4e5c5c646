"""The record's database is stopped while the guard is under load: answers go on, and every loss is counted.

`REFINE_OUTAGE_S=30 pytest tests/server/test_outage.py -s` stops it for half a minute, and prints the figures.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from dataclasses import dataclass, field
from statistics import quantiles

import aiohttp

from refine.record import DatabaseRecord
from tests.guarding import QUESTION, guarding, wait_until
from tests.model_server import Reply, serving
from tests.postgres import cluster

OUTAGE_S = float(os.environ.get("REFINE_OUTAGE_S", "0.5"))
BEFORE_S = 0.3
CLIENTS = 16
BODY = json.dumps({"model": "m", "messages": QUESTION}).encode()
HEADERS = {"content-type": "application/json"}


@dataclass
class Load:
    """Clients that ask one question after the other.

    Args:
        root: Address of the guard.
        asking: Whether they go on.
        seconds: Seconds that each answer took, by what the database was then.
    """

    root: str
    asking: bool = True
    seconds: dict[str, list[float]] = field(default_factory=lambda: {"there": [], "away": []})
    state: str = "there"
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, session: aiohttp.ClientSession) -> None:
        """Ask until stopped; every answer must be one."""
        while self.asking:
            begun, state = time.perf_counter(), self.state
            url = f"{self.root}/v1/chat/completions"
            async with session.post(url, data=BODY, headers=HEADERS) as response:
                assert (await response.json())["refine"]["passed"] is True
            self.seconds[state].append(time.perf_counter() - begun)
            self.answered.set()

    async def last(self, seconds: float) -> None:
        """Let so many seconds pass, and more on a busy machine, until a few answers have come in this state."""
        async with asyncio.timeout(60 + seconds):
            await asyncio.sleep(seconds)
            while len(self.seconds[self.state]) < CLIENTS:
                self.answered.clear()
                await self.answered.wait()


async def test_the_database_is_away_under_load() -> None:
    """Every answer comes, none slower than ever; offered = written + lost, in the metrics and in the database."""
    with cluster() as database, serving(lambda _: Reply("good")) as upstream:
        url = database.make_database("outage")
        with guarding(upstream.url, record=url) as guard:
            load = Load(guard.root)
            async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
                for _ in range(CLIENTS):
                    group.create_task(load.run(session))
                await load.last(BEFORE_S)
                await asyncio.to_thread(database.stop)
                load.state = "away"
                await load.last(OUTAGE_S)
                load.state = "there"
                await asyncio.to_thread(database.start)
                await asyncio.sleep(BEFORE_S)
                load.asking = False
            await asyncio.to_thread(
                wait_until, lambda: "refine_record_queue 0.0" in guard.get("/metrics").text, seconds=60
            )
            metrics = guard.get("/metrics").text
        with DatabaseRecord(url) as record:
            written = record.figures()["outcomes"]
    (lost,) = (
        float(line.split()[1]) for line in metrics.splitlines() if line.startswith("refine_record_lost_total")
    )
    answers = sum(map(len, load.seconds.values()))
    slowest = {state: max(seconds) for state, seconds in load.seconds.items()}
    p99 = {state: quantiles(seconds, n=100)[98] for state, seconds in load.seconds.items()}
    sys.stdout.write(
        f"\n{answers} answers, {len(load.seconds['away'])} of them in {OUTAGE_S:g} s without a database; "
        f"{written:.0f} recorded, {lost:.0f} lost; p99 {p99['there'] * 1e3:.0f} ms with it, "
        f"{p99['away'] * 1e3:.0f} ms without\n"
    )
    assert written + lost == answers
    assert slowest["away"] < 2 + slowest["there"]
