"""Measure what judging a dataset costs: `uv run --group dev python -m tests.bench.evaluating`.

Judgements per second of `aevaluate` with a journal and of a bare aiohttp loop that makes the same calls, at 20 ms
a call and 64 in flight, taken in turns; and what a further row costs in memory where rows are not kept.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

from judges import Helpfulness, Length, OpenAICompatible
from judges.offline import aevaluate
from tests.bench.instant_server import serving
from tests.bench.judging import Bare, Row, rate

IN_FLIGHT = 64
SHAPES = ((2_000, 1), (500, 4))
FEW, MANY = 2_000, 12_000


def rows(count: int) -> Iterator[dict[str, str]]:
    """Make rows of a dataset, one at a time."""
    return ({"question": f"How do I boil an egg {n}?", "answer": f"Put it in water {n}."} for n in range(count))


def length(response: str) -> bool:
    """Judge an answer by its length."""
    return len(response) > 20


async def bare(url: str, calls: int) -> float:
    """Return the calls per second of a loop that does nothing else."""
    client = Bare(url)
    await client.open()
    result = await rate(client.acall, calls=calls, in_flight=IN_FLIGHT)
    await client.close()
    return result


async def evaluated(url: str, count: int, judges: int, folder: Path) -> float:
    """Return the judgements per second of an evaluation."""
    async with OpenAICompatible(url, model="m", api_key="k") as model:
        members = {f"judge {number}": Helpfulness(model) for number in range(judges)}
        started = time.perf_counter()
        await aevaluate(list(rows(count)), members, max_concurrency=IN_FLIGHT, keep_rows=False, run=folder)
        return count * judges / (time.perf_counter() - started)


def throughput(runner: asyncio.Runner, url: str, folder: Path, rounds: int) -> Iterator[Row]:
    """Measure evaluations of each shape."""
    for count, judges in SHAPES:
        row = Row(f"{count} rows, {judges} judges, 20 ms, {IN_FLIGHT} in flight", "judgements/s")
        row.targets = [("aevaluate with a journal", "bare aiohttp", ">=", 0.7)]
        for number in range(rounds + 1):
            alone = runner.run(bare(url, count * judges))
            ours = runner.run(evaluated(url, count, judges, folder / f"{count} {judges} {number}"))
            if number:  # the first round warms up
                row.note("bare aiohttp", alone)
                row.note("aevaluate with a journal", ours)
        yield row


def memory(runner: asyncio.Runner, folder: Path) -> float:
    """Return the KiB that a further row costs at the peak."""
    peaks = []
    for count in (FEW, MANY):
        tracemalloc.start()
        judged = aevaluate(
            rows(count),
            Length(at_least=20),
            max_concurrency=IN_FLIGHT,
            keep_rows=False,
            run=folder / f"memory {count}",
        )
        runner.run(judged)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return (peaks[1] - peaks[0]) / (MANY - FEW) / 1024


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each (default 5)")
    options = parser.parse_args()
    os.environ["LANGSMITH_TRACING"] = "false"
    with serving() as root, asyncio.Runner() as runner, tempfile.TemporaryDirectory() as folder:
        for row in throughput(runner, f"{root}/20/v1", Path(folder), options.rounds):
            print("\n".join(row.lines()))
        print(f"memory of a further row, not kept: {memory(runner, Path(folder)):.2f} KiB (target <= 0.2)")


if __name__ == "__main__":
    main()
