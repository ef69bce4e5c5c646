"""`refine mcp`: its tools with the official client, over standard input and output and over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent
from typer.testing import CliRunner

from judges.offline.trust.label import LabelFile, Labelling, items_of
from judges.offline.trust.rows import labels_file, read_judged
from refine.cli.app import app
from refine.mcp_server import McpServer
from refine.server.access import describe_new_key
from refine.server.config import load_settings
from tests import forks
from tests.guarding import wait_until
from tests.model_server import ModelServer, Reply, Wire, in_turn, serving

ROOT = Path(__file__).parents[2]
BRIEF = "length:at_most=80"
LONG = "An answer that is far too long. " * 4
PRIVATE = "PRIVATE-ANSWER"
PATIENCE_S = 60.0
WAYS = pytest.mark.parametrize("way", ["stdio", "http"])
Mode = Literal["auto", "legacy"]
MODES: tuple[Mode, ...] = ("auto", "legacy")


@contextmanager
def listening(folder: Path, *options: str) -> Iterator[str]:
    """Run `refine mcp --http` at a free port, and yield where it is."""
    words = ("mcp", "--http", "--port", "0", *options)
    with forks.listening("stderr", "refine", *words, folder=folder) as (_, written):
        line = written.readline()
        found = re.search(r"http://\S+/mcp", line)
        assert found is not None, line + written.read()
        yield found[0]


@asynccontextmanager
async def over_http(url: str, *, key: str = "", mode: Mode = "auto") -> AsyncIterator[Client]:
    """Connect a client, with a key if there is one."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=PATIENCE_S) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


@asynccontextmanager
async def connected(way: str, folder: Path, *options: str) -> AsyncIterator[Client]:
    """Run `refine mcp` in a folder, and connect a client."""
    if way == "http":
        with listening(folder, *options) as url:
            async with over_http(url) as client:
                yield client
        return
    environment = {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": sys.pycache_prefix or ""}
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "refine", "mcp", *options], cwd=folder, env=environment
    )
    async with Client(server) as client:
        yield client


async def structured(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool, and return what it says."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    content = result.structured_content
    assert isinstance(content, dict)
    return content


def text_of(result: CallToolResult) -> str:
    """Return the text of a result."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder with a finished run in `runs/1`."""
    rows = tmp_path / "rows.jsonl"
    answers = ("Paris.", LONG, "It is Paris.")
    rows.write_text("\n".join(json.dumps({"question": "Capital?", "answer": one}) for one in answers))
    out = tmp_path / "runs" / "1"
    assert CliRunner().invoke(app, ["evaluate", str(rows), "--judge", BRIEF, "--out", str(out)]).exit_code == 0
    return out


@WAYS
async def test_every_tool_does_what_its_command_does(way: str, run: Path) -> None:
    """Judging, refining, finding, explaining and labelling come to what the library and the commands come to."""
    folder = run.parents[1]
    with serving(in_turn(Reply(LONG), Reply("Paris."))) as upstream:
        options = "--judge", BRIEF, "--upstream", upstream.url, "--model", "small"
        async with connected(way, folder, *options) as client:
            tools = (await client.list_tools()).tools
            bad = await structured(client, "judge", question="Capital?", answer=LONG)
            good = await structured(
                client, "judge", question="Capital?", answer='{"a": 1}', judge="exact_match", reference='{"a": 1}'
            )
            refined = await structured(client, "refine", question="Capital?")
            found = await structured(client, "find_judge", sentence="my bot invents prices")
            shown = await structured(client, "explain_run", run="runs/1")
            queue = await structured(client, "next_to_label", source="runs/1", by="ann", most=2)

    assert [tool.name for tool in tools if tool.output_schema] == [
        "judge",
        "refine",
        "find_judge",
        "explain_run",
        "next_to_label",
    ]
    assert (bad["judge"], bad["rating"], bad["passed"]) == ("length", 1, False)
    assert "80" in bad["feedback"]
    assert (good["score"], good["passed"], good["unscored"]) == (1.0, True, None)
    assert (refined["answer"], refined["passed"], refined["attempts"]) == ("Paris.", True, 2)
    assert [request["model"] for request in upstream.requests] == ["small", "small"]
    assert LONG.strip() not in json.dumps(refined)
    assert any("faithfulness" in judge["name"] for judge in found["judges"])
    assert shown["result"] == CliRunner().invoke(app, ["show", str(run)]).output
    labelling = Labelling(items_of(read_judged(run)), LabelFile(labels_file(run)), by="ann")
    assert labelling.current is not None
    assert queue["left"] == labelling.total
    assert queue["answers"][0]["answer"] == labelling.current.sample.answer
    assert "rating" not in json.dumps(queue)


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("judge", {"question": "q"}, "judge: answer: Field required"),
    ("judge", {"question": "q", "answer": [PRIVATE]}, "judge: answer"),
    ("judge", {"question": "q", "answer": PRIVATE, "contextz": []}, "takes no 'contextz'"),
    ("judge", {"question": "q", "answer": PRIVATE}, "name a judge"),
    ("judge", {"question": "q", "answer": PRIVATE, "judge": "lenth"}, "did you mean length?"),
    ("judge", {"question": "q", "answer": PRIVATE, "judge": "length:at_mots=3"}, "it can set at_least, at_most"),
    ("judge", {"question": "q", "answer": PRIVATE, "judge": "os:getcwd"}, "judge of the catalogue"),
    ("judge", {"question": "q", "answer": PRIVATE, "judge": "judges.toml"}, "judge of the catalogue"),
    ("judge", {"question": "q", "answer": PRIVATE, "judge": '{"use": "os:getcwd"}'}, "judge of the catalogue"),
    ("judge", {"question": "q", "answer": PRIVATE, "judge": "checklist:file=x.json"}, "cannot set 'file'"),
    ("judge", {"question": "q", "answer": PRIVATE, "judge": "helpfulness"}, "asks a model"),
    (
        "judge",
        {"question": "q", "answer": PRIVATE, "judge": "helpfulness", "model": "openai-compatible:m@http://x"},
        "PROVIDER:NAME",
    ),
    ("refine", {"question": "q"}, "needs an upstream"),
    ("find_judge", {"sentence": "prices", "most": 0}, "find_judge: most"),
    ("explain_run", {"run": ".."}, "not below the folder"),
    ("explain_run", {"run": "none"}, "there is no 'none'"),
    ("explain_run", {"run": "a\x00b"}, "not below the folder"),
    ("explain_run", {"run": "."}, "no run"),
    ("next_to_label", {"source": "postgresql://host/db"}, "not below the folder"),
    ("next_to_label", {"source": "broken.jsonl"}, "broken.jsonl"),
    ("nothing", {}, "there is no tool 'nothing'"),
]


async def test_wrong_input_is_an_error_of_one_line(tmp_path: Path) -> None:
    """Whatever is wrong comes back as the tool's error, on one line, without what was to be judged."""
    (tmp_path / "broken.jsonl").write_text("{\n")
    broken = []
    async with tools_with(tmp_path) as client:
        for tool, arguments, expected in WRONG:
            result = await client.call_tool(tool, arguments)
            text = text_of(result)
            if not result.is_error or expected not in text or "\n" in text or PRIVATE in text:
                broken.append((tool, arguments, text))
    assert broken == []


def tools_with(folder: Path, **settings: Any) -> Client:
    """Return a client of a server in this process, with settings of a guard."""
    return Client(McpServer(settings=load_settings(None, settings), root=folder).make_server())


@pytest.mark.parametrize(
    ("reply", "settings", "expected"),
    [
        (Reply("no", status=401), {}, 'upstream_key = "env:NAME"'),
        (Reply("no", status=400), {"upstream_key": "k" * 20}, "name the upstream's model"),
        (Wire(then="close"), {}, "the connection to the upstream broke"),
    ],
)
async def test_an_upstream_that_fails_is_an_error_of_one_line(
    reply: Reply | Wire, settings: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    """What to do is said, and nothing of the upstream's own text."""
    with serving(lambda _: reply) as upstream:
        async with tools_with(tmp_path, judge=BRIEF, upstream=upstream.url, **settings) as client:
            result = await client.call_tool("refine", {"question": "q"})
    assert result.is_error
    assert expected in text_of(result)
    assert "\n" not in text_of(result)


@pytest.mark.parametrize(
    ("settings", "answer"),
    [
        ({}, LONG.strip()),
        (
            {
                "judge": "pattern:forbidden=long",
                "release": "pieces",
                "policy": {"on_exhausted": "fallback", "fallback": "Sorry."},
            },
            "Sorry.",
        ),
        ({"policy": {"on_exhausted": "raise"}}, None),
    ],
)
async def test_without_an_accepted_answer_the_policy_decides(
    settings: dict[str, Any], answer: str | None, tmp_path: Path
) -> None:
    """The best answer, a fallback or none comes back, marked as not accepted."""
    with serving(lambda _: Reply(LONG.strip())) as upstream:
        settings = {"judge": BRIEF, "upstream": upstream.url, "max_attempts": 2, **settings}
        async with tools_with(tmp_path, **settings) as client:
            refined = await structured(client, "refine", question="q", model="m")
    assert (refined["answer"], refined["passed"], refined["stop_reason"]) == (answer, False, "max_attempts")


async def test_the_page_names_the_tools_and_its_configuration_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table has every tool, and what stands there as settings of a guard and of an agent can be used."""
    page = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"^```(toml|json)\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    monkeypatch.setenv("OPENAI_API_KEY", "k" * 20)
    config = tmp_path / "refine.toml"
    config.write_text(blocks["toml"])
    async with Client(McpServer(settings=load_settings(config, {}), root=tmp_path).make_server()) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
    assert re.findall(r"^\| `(\w+)`", page, re.MULTILINE) == tools
    (server,) = json.loads(blocks["json"])["mcpServers"].values()
    help_text = CliRunner().invoke(app, [server["args"][0], "--help"]).output
    assert server["args"][1] in help_text


@WAYS
async def test_a_cancelled_call_cancels_the_judging(way: str, tmp_path: Path) -> None:
    """The call of the judge's model is broken off, and the server goes on to answer; for old clients, too.

    Over HTTP, without keys, neither another site's page nor a stranger's name for this machine is answered.
    """
    with serving(lambda _: Wire(then="hang")) as server:
        options = "--judge", "helpfulness", "--judge-base-url", server.url, "--judge-model", "m"
        if way == "stdio":
            async with connected("stdio", tmp_path, *options) as client:
                await cancel(client, server)
            return
        with listening(tmp_path, *options) as url:
            for mode in MODES:
                async with over_http(url, mode=mode) as client:
                    await cancel(client, server)
            async with httpx2.AsyncClient(trust_env=False) as http:
                page = await http.post(url, json={}, headers={"origin": "https://evil.example"})
                name = await http.post(url, json={}, headers={"host": "evil.example"})
            assert (page.status_code, name.status_code) == (403, 403)


async def cancel(client: Client, server: ModelServer) -> None:
    """Cancel a call while the judge's model is asked, and wait until it is asked no more."""
    before = len(server.requests)
    call = asyncio.create_task(client.call_tool("judge", {"question": "q", "answer": "a"}))
    await asyncio.to_thread(wait_until, lambda: len(server.requests) > before, seconds=PATIENCE_S)
    call.cancel()
    await asyncio.to_thread(wait_until, lambda: not server.open_connections, seconds=PATIENCE_S)
    assert (await structured(client, "find_judge", sentence="helpful"))["judges"]


async def test_keys_and_budgets_of_the_guard_hold(tmp_path: Path) -> None:
    """Without a key nobody is let in; with one as many calls a day as it may have, and no regular expression."""
    line, table = describe_new_key("ann")
    config = tmp_path / "refine.toml"
    config.write_text(f'judge = "{BRIEF}"\n{table}\nrequests_per_day = 4\n')
    with listening(tmp_path, "--config", str(config)) as url:
        async with httpx2.AsyncClient(trust_env=False) as http:
            refused = await http.post(url, json={})
        async with over_http(url, key=line.splitlines()[0]) as client:
            own = {
                "forbidden": "pattern:forbidden=(a+)+$",
                "schema": 'json:schema={"pattern":"(a+)+$"}',
                "patterns": "pii_leakage:patterns={}",
            }
            asked = {"question": "q", "answer": f"{'a' * 40}!"}
            endless = {  # which would hold up all others
                name: text_of(await client.call_tool("judge", {**asked, "judge": spec}))
                for name, spec in own.items()
            }
            first = await client.call_tool("judge", {"question": "q", "answer": "a"})
            second = await client.call_tool("judge", {"question": "q", "answer": "a"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
    for name, line in endless.items():
        assert f"a call cannot set '{name}'" in line
    assert not first.is_error
    assert second.is_error
    assert "has used 4 of its 4 requests" in text_of(second)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--http"], "--judge"),
        (["--root", "nowhere"], "not 'nowhere'"),
        (["--http", "--judge", BRIEF, "--host", "0.0.0.0"], "refine key"),  # noqa: S104
    ],
)
def test_what_may_not_be_served_is_refused(options: list[str], expected: str) -> None:
    """Over HTTP there are the limits of a guard, and beyond this machine keys; else it does not start."""
    result = CliRunner().invoke(app, ["mcp", *options])
    assert result.exit_code == 2
    assert expected in result.output
    assert result.output.count("\n") == 1


def test_nothing_but_the_protocol_is_on_standard_output(tmp_path: Path) -> None:
    """What a judge prints goes elsewhere: every line is a message of the protocol."""
    (tmp_path / "loud.py").write_text("def judge(answer: str) -> bool:\n    print('LOUD')\n    return True\n")
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    call = {"name": "judge", "arguments": {"question": "q", "answer": "a"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]
    command = [sys.executable, "-m", "refine", "mcp", "--judge", "loud:judge"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, text=True, stdin=-1, stdout=-1, stderr=-1
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(f"{json.dumps(one)}\n" for one in messages))
        process.stdin.flush()
        lines = [json.loads(process.stdout.readline()) for _ in range(2)]
        rest, errors = process.communicate()
    assert [line["id"] for line in lines] == [1, 2]
    assert lines[1]["result"]["structuredContent"]["passed"] is True
    assert rest == ""
    assert "LOUD" in errors
