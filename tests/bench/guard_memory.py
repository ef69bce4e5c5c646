"""What the guard keeps of many requests: `python -m tests.bench.guard_memory --requests 100000`.

Clients ask `refine serve` at once, over connections that stay open; some questions take three attempts, and every
tenth client leaves before its answer. Printed are resident memory and open descriptors of the server's process
after a warm-up, and at ten points from then on: what grows with the requests is a leak.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, Popen

from tests.bench import instant_server
from tests.bench.guard import load, question

POINTS = 10
_WARM_UP = 2_000
_SETTLE_S = 0.5
"""Seconds in which connections that were closed end at the server, too."""


@dataclass(frozen=True)
class Footprint:
    """What a process holds.

    Args:
        resident: Resident memory in bytes.
        descriptors: Open files and connections.
    """

    resident: int
    descriptors: int

    @classmethod
    def of(cls, process: int) -> Footprint:
        """Measure a process."""
        pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
        return cls(pages * os.sysconf("SC_PAGE_SIZE"), len(list(Path(f"/proc/{process}/fd").iterdir())))


@contextmanager
def guard(root: str, *options: str, log: list[str] | None = None) -> Iterator[tuple[int, int]]:
    """Run `refine serve` while the block runs; yields its port and its process id, and fills `log`."""
    command = [sys.executable, "-m", "refine", "serve", "--port", "0", "--no-record", "--success-rating", "4"]
    models = ["--upstream", f"{root}/0/v1", "--judge-base-url", f"{root}/0/v1", "--judge-model", "m"]
    with Popen([*command, *models, "--judge", "helpfulness", *options], stderr=PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            lines = iter(process.stderr.readline, "")
            port = next(int(at[1]) for line in lines if (at := re.search(r"listening at .*:(\d+)/v1", line)))
            lines_left = deque[str](maxlen=0) if log is None else log
            threading.Thread(target=lines_left.extend, args=(process.stderr,), daemon=True).start()
            yield port, process.pid
        finally:
            process.kill()


async def leave(port: int, clients: int) -> None:
    """Let clients ask, and close their connections before there is an answer."""
    body = question(3, 1)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    for _ in range(clients):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()


async def ask(port: int, process: int, requests: int, clients: int) -> int:
    """Ask about so many questions, and return how many replies were no 200."""
    share = max(1, requests // 10)
    await leave(port, share)
    thrice = await load(port, process, question(3, 1), clients=clients, rounds=-(-share // clients))
    once = await load(port, process, question(1, 12), clients=clients, rounds=-(-share * 8 // clients))
    return once.errors + thrice.errors


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000, help="requests after the warm-up (default 10,000)")
    parser.add_argument("--clients", type=int, default=64, help="clients at once (default 64)")
    parser.add_argument("--record", help="where the guard records outcomes (default nowhere)")
    options = parser.parse_args()
    record = () if options.record is None else ("--record", options.record)
    with instant_server.serving() as root, guard(root, *record) as (port, process):
        errors = asyncio.run(ask(port, process, _WARM_UP, options.clients))
        print(f"{'requests':>10}{'RSS MB':>10}{'growth MB':>11}{'descriptors':>13}{'errors':>8}")
        time.sleep(_SETTLE_S)
        warm, part = Footprint.of(process), options.requests // POINTS
        report(0, warm, warm, errors)
        for number in range(1, POINTS + 1):
            errors += asyncio.run(ask(port, process, part, options.clients))
            time.sleep(_SETTLE_S)
            report(number * part, Footprint.of(process), warm, errors)


def report(requests: int, held: Footprint, warm: Footprint, errors: int) -> None:
    """Print a line."""
    growth = (held.resident - warm.resident) / 1e6
    print(
        f"{requests:>10,}{held.resident / 1e6:>10.1f}{growth:>+11.1f}{held.descriptors:>13}{errors:>8}", flush=True
    )


if __name__ == "__main__":
    main()
