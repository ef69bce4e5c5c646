"""Every token is in a figure: record, metrics, budgets and a counting upstream and judge agree."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2

from refine.server.access import digest_of
from tests.guarding import guarding, wait_until
from tests.model_server import Asked, Reply, Wire, serving

MANY = int(os.environ.get("REFINE_MIXED_REQUESTS", "240"))
"""How many requests are mixed; 10,000 take some minutes."""
IN, OUT = 100, 10
JUDGED_IN, JUDGED_OUT = 50, 5
HANGS, FAILS, BAD, ATTACKS, PASSES = "hanging", "failing", "bad", "assailing", "passing"
KINDS = ("good", BAD, FAILS, ATTACKS, HANGS, PASSES)


class Counting:
    """An upstream and a judge that count what they hand out."""

    def __init__(self) -> None:
        self.answers = self.verdicts = self.questions = 0
        self.hanging: set[int] = set()

    def answer(self, asked: Asked) -> Reply | Wire:
        """Answer as the question says; what hangs or fails hands nothing out."""
        if asked["path"].endswith("embeddings"):
            return Reply("{}")
        said = json.dumps(asked.get("messages"))
        if HANGS in said:
            self.hanging |= {int(number) for number in re.findall(r"#(\d+)", said)}
            return Wire((), then="hang")
        if FAILS in said:
            return Reply("down", status=400)
        self.answers += 1
        return Reply("bad" if BAD in said else "good", usage=(IN, OUT))

    def judge(self, asked: Asked) -> Reply:
        """Rate what is bad 1; name an attack where there is one."""
        shown = str(asked["messages"][-1]["content"])
        usage = (JUDGED_IN, JUDGED_OUT)
        if "steered" in str(asked["messages"][0]["content"]):
            self.questions += 1
            seen = {"source": "user", "demand": "x", "reason": "x", "outcome": "resisted"}
            return Reply(json.dumps({"items": [seen] if ATTACKS in shown else []}), usage=usage)
        self.verdicts += 1
        rating = 1 if re.search(r'"answer": ?"bad"', shown) else 4
        return Reply(json.dumps({"rationale": "x", "rating": rating, "feedback": "Be good."}), usage=usage)


async def ask(client: httpx2.AsyncClient, url: str, number: int, kind: str, key: str) -> None:
    """Ask one question of a kind, and wait for its answer."""
    headers = {"authorization": f"Bearer {key}"}
    path, body = "chat/completions", {"model": "m", "messages": [{"role": "user", "content": f"{kind} #{number}"}]}
    if kind == PASSES:
        path, body = "embeddings", {"model": "m", "input": "x"}
    await client.post(f"{url}/{path}", json=body, headers=headers, timeout=120)


async def ask_and_leave(asking: asyncio.Task[None], number: int, counting: Counting) -> None:
    """Leave once the upstream was asked, which answers nothing."""
    while number not in counting.hanging:  # noqa: ASYNC110 - the upstream runs in another thread
        await asyncio.sleep(0.01)
    asking.cancel()
    await asyncio.wait((asking,))


def total(metrics: str, name: str, **labels: str) -> float:
    """Return the sum of a metric over all series with these labels."""
    rows = re.findall(rf"^{name}{{([^}}]*)}} (\S+)$", metrics, re.MULTILINE)
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    return sum(float(value) for series, value in rows if all(one in series for one in wanted))


async def test_sums_agree(tmp_path: Path) -> None:
    """Of mixed requests, some of which fail, pass through, are refused or left, each token is in every figure."""
    counting, chance = Counting(), random.Random(7)
    kinds = [*KINDS, *chance.choices(KINDS, weights=(8, 4, 2, 3, 1, 2), k=MANY - len(KINDS))]
    file = tmp_path / "record.db"
    keys = [{"name": name, "sha256": digest_of(f"rf-{name}")} for name in ("one", "two")]
    with serving(counting.answer) as upstream, serving(counting.judge) as judge:
        settings: dict[str, Any] = {"judge": "helpfulness", "judge_model": "j", "judge_base_url": judge.url}
        settings |= {"input": "prompt_injection", "input_mode": "before", "max_attempts": 2, "record": str(file)}
        with guarding(upstream.url, **settings, keys=keys, breaker_failures=0) as guard:
            client = httpx2.AsyncClient(trust_env=False)
            async with client:
                for start in range(0, MANY, 20):
                    numbered = list(enumerate(kinds[start : start + 20], start))
                    keys_of = [chance.choice(("rf-one", "rf-two")) for _ in numbered]
                    tasks = [
                        asyncio.ensure_future(ask(client, guard.url, number, kind, key))
                        for (number, kind), key in zip(numbered, keys_of, strict=True)
                    ]
                    left = [
                        ask_and_leave(task, number, counting)
                        for task, (number, kind) in zip(tasks, numbered, strict=True)
                        if kind == HANGS
                    ]
                    await asyncio.gather(*left)
                    await asyncio.gather(*(task for task in tasks if not task.cancelled()))
            await asyncio.to_thread(wait_until, lambda: guard.service.admission.in_flight == 0, seconds=60)
            await asyncio.to_thread(
                wait_until, lambda: "refine_record_queue 0.0" in guard.get("/metrics").text, seconds=60
            )
            metrics = guard.get("/metrics").text
    judged = counting.verdicts + counting.questions
    tokens_in = IN * counting.answers + JUDGED_IN * judged
    tokens_out = OUT * counting.answers + JUDGED_OUT * judged
    assert min(counting.answers, counting.verdicts, counting.questions) > 0
    for kind, tokens in (("input", tokens_in), ("output", tokens_out)):
        assert total(metrics, "refine_tokens_total", kind=kind) == tokens
        assert total(metrics, "refine_key_tokens_total", kind=kind) == tokens
    assert total(metrics, "refine_requests_total") == MANY
    assert total(metrics, "refine_key_requests_total") == MANY
    with closing(sqlite3.connect(file)) as connection:
        recorded = connection.execute("SELECT sum(input_tokens), sum(output_tokens) FROM outcome").fetchone()
    assert recorded == (tokens_in, tokens_out)
