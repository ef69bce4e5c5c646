"""What the guard costs: `python -m tests.bench.guard` prints latency added, CPU, and requests a second.

Upstream and judge answer at once, in a process of their own; the CPU is that of the server's process, the least of
all rounds. Compared in turns with plain proxies of the same requests on the same server, and with the loop over
LangChain's client, since the machine's other load changes milliseconds more than ratios. `two_calls` is the floor
of every guard on this server and client: a proxy that makes a second call and reads nothing. `judging` adds the
judge alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen

from tests.bench import guard_servers, instant_server


@dataclass(frozen=True)
class Load:
    """What came of many requests.

    Args:
        seconds: How long each took.
        cpu_s: CPU that the server consumed.
        wall_s: How long all took together.
        errors: How many were answered with another status than 200.
    """

    seconds: Sequence[float]
    cpu_s: float
    wall_s: float
    errors: int

    @property
    def cpu_ms(self) -> float:
        """CPU for a request."""
        return self.cpu_s / len(self.seconds) * 1e3


@dataclass(frozen=True)
class Case:
    """One line of the table.

    Args:
        name: Name of the server.
        attempts: How many answers are generated for a question.
        messages: How many messages a question has.
    """

    name: str
    attempts: int = 1
    messages: int = 1

    @property
    def calls(self) -> int:
        """Calls of the upstream and the judge together."""
        return 1 if "proxy" in self.name else 2 * self.attempts


CASES = (
    Case("proxy"),
    Case("raw_proxy"),
    Case("two_calls"),
    Case("judging"),
    Case("guard"),
    Case("logged_guard"),
    Case("guard", attempts=3),
    Case("proxy", messages=12),
    Case("guard", messages=12),
    Case("chat_openai"),
)


def question(attempts: int, messages: int) -> bytes:
    """Write a request that is accepted at the first or at the third attempt, after some messages of history."""
    first = "Draft 2." if attempts == 1 else "How do I undo my last git commit but keep the changes?"
    history = [
        {"role": ("user", "assistant")[number % 2], "content": "Some words. " * 10}
        for number in range(messages - 1)
    ]
    return json.dumps({"model": "m", "messages": [*history, {"role": "user", "content": first}]}).encode()


@contextmanager
def server(name: str, url: str) -> Iterator[tuple[int, int]]:
    """Run a server in a process of its own; yields its port and its process id."""
    command = [sys.executable, "-m", guard_servers.__name__, name, url]
    errors = DEVNULL if name == "logged_guard" else None
    with Popen(command, stdin=PIPE, stdout=PIPE, stderr=errors, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline()), process.pid
        finally:
            process.stdin.close()
            process.wait(20)


def cpu_of(process: int) -> float:
    """Return the seconds of CPU that the first thread of a process has consumed."""
    return int(Path(f"/proc/{process}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9


async def one_client(port: int, path: str, body: bytes, rounds: int, seconds: list[float]) -> int:
    """Ask again and again over one connection; return how many replies were no 200."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    head = (
        f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    errors = 0
    for _ in range(rounds):
        started = time.perf_counter()
        writer.write(head.encode() + body)
        received = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(received.split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        seconds.append(time.perf_counter() - started)
        errors += b" 200 " not in received.split(b"\r\n")[0]
    writer.close()
    return errors


async def load(port: int, process: int, body: bytes, *, path: str = "", clients: int = 1, rounds: int) -> Load:
    """Let clients ask at once, each so many times."""
    seconds: list[float] = []
    cpu, started = cpu_of(process), time.perf_counter()
    asking = (one_client(port, f"{path}/v1/chat/completions", body, rounds, seconds) for _ in range(clients))
    errors = sum(await asyncio.gather(*asking))
    return Load(seconds, cpu_of(process) - cpu, time.perf_counter() - started, errors)


def one_at_a_time(root: str, rounds: int) -> None:
    """Ask every server in turns, so that the machine's other load meets all of them, and print the table."""
    with ExitStack() as stack:
        names = {case.name for case in CASES}
        servers = {name: stack.enter_context(server(name, f"{root}/0/v1")) for name in sorted(names)}
        loads: dict[Case, list[Load]] = {case: [] for case in CASES}
        direct: list[Load] = []
        for number in range(rounds + 1):
            upstream = int(root.rpartition(":")[2])
            alone = asyncio.run(load(upstream, os.getpid(), question(1, 1), path="/0", rounds=100))
            turns = {
                case: asyncio.run(load(*servers[case.name], question(case.attempts, case.messages), rounds=100))
                for case in CASES
            }
            if number:  # the first round warms up
                direct.append(alone)
                for case, result in turns.items():
                    loads[case].append(result)
    alone_ms = _quantile(direct, 0.5)
    print(f"one client, no latency (upstream alone: p50 {alone_ms:.2f} ms)")
    print(f"{'':<34}{'p50 ms':>8}{'p99 ms':>8}{'CPU ms':>8}  attempt:{'added p50':>9}{'added p99':>10}{'CPU':>13}")
    bases = {case.messages: min(one.cpu_ms for one in loads[case]) for case in CASES if case.name == "proxy"}
    for case, results in loads.items():
        cpu = min(result.cpu_ms for result in results)
        middle, high = _quantile(results, 0.5), _quantile(results, 0.99)
        added = [(value - case.calls * alone_ms) / case.attempts for value in (middle, high)]
        text = f"{case.name}, {case.attempts} attempts, {case.messages} messages"
        print(
            f"{text:<34}{middle:>8.2f}{high:>8.2f}{cpu:>8.2f}{'':<16}{added[0]:>10.2f}{added[1]:>10.2f}"
            f"{cpu / case.attempts / bases[case.messages]:>6.1f} x proxy"
        )


def _quantile(loads: Sequence[Load], share: float) -> float:
    """Return a quantile of all requests, in milliseconds."""
    seconds = sorted(second for result in loads for second in result.seconds)
    return seconds[int(len(seconds) * share)] * 1e3


def many_at_once(root: str, clients: int) -> None:
    """Let many clients ask each server, with an upstream and a judge of 20 ms, and print the table."""
    print(f"\n{clients} clients, 20 ms{'':<12}{'req/s':>8}{'CPU ms':>8}{'errors':>8}")
    for name in ("proxy", "guard", "chat_openai"):
        rounds = 3 if name == "chat_openai" else 12
        with server(name, f"{root}/20/v1") as (port, process):
            asyncio.run(load(port, process, question(1, 1), clients=clients, rounds=1))
            result = asyncio.run(load(port, process, question(1, 1), clients=clients, rounds=rounds))
        rate = len(result.seconds) / result.wall_s
        print(f"{name:<29}{rate:>8.0f}{result.cpu_ms:>8.2f}{result.errors:>8}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12, help="rounds of 100 requests of one client (default 12)")
    parser.add_argument("--clients", type=int, default=256, help="clients at 20 ms (default 256)")
    options = parser.parse_args()
    with instant_server.serving() as root:
        one_at_a_time(root, options.rounds)
        many_at_once(root, options.clients)


if __name__ == "__main__":
    main()
