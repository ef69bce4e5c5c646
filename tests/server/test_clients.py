"""The official clients as they are, against the guard: whole answers, streams, errors."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openai
import pytest
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from tests.guarding import Guarded, guarding
from tests.model_server import Asked, ModelServer, Reply, Wire
from tests.server.apis import reply_in

if TYPE_CHECKING:
    from anthropic import Anthropic

TEXTS = ["bad DRAFT", "good at last"]
SLOW_S = 0.15
NODE = "REFINE_TEST_NODE"
"""Names a folder in which the packages of Node that `.ci/run` names were installed."""


def reply_to(asked: Asked) -> Reply | Wire:
    """Answer badly at first, well on a retry; a question for an error gets one, `slowly` at that if it says so."""
    raw = asked["raw"].decode()
    delay = SLOW_S if "slowly" in raw else 0.0
    if "error" in raw:
        return Reply("too many", status=429, headers={"retry-after": "1"}, delay_s=delay)
    text = TEXTS["SECRET-FEEDBACK" in raw]
    if asked["path"].endswith("/chat/completions"):
        return Reply(text, delay_s=delay)
    calls_tool = "use the tool" in raw and "function_call_output" not in raw
    return reply_in(asked, text, thought="hm", call={} if calls_tool else None)


UPSTREAM = reply_to


@pytest.fixture(scope="module")
def guard(upstream: ModelServer) -> Iterator[Guarded]:
    """Start a guard that sends a comment every 0.05 s and accepts a 4."""
    with guarding(upstream.url, success_rating=4, keep_alive_s=0.05) as running:
        yield running


@pytest.fixture(scope="module")
def showing(upstream: ModelServer) -> Iterator[Guarded]:
    """Start a guard that shows the generator its refused draft."""
    with guarding(upstream.url, success_rating=4, policy={"augment": "last_draft"}) as running:
        yield running


@pytest.fixture
def client(guard: Guarded) -> Iterator[openai.OpenAI]:
    """Make OpenAI's client."""
    with openai.OpenAI(base_url=guard.url, api_key="sk-1", max_retries=0) as made:
        yield made


@pytest.fixture
def claude(guard: Guarded) -> Iterator[Anthropic]:
    """Make Anthropic's client, whose base URL is without `/v1`."""
    from anthropic import Anthropic  # noqa: PLC0415 - it loads for a second, in each process that runs tests

    with Anthropic(base_url=guard.root, api_key="sk-ant", max_retries=0) as made:
        yield made


def question(text: str = "What?") -> Any:
    """Ask one question."""
    return [{"role": "user", "content": text}]


def test_openai_whole_and_streamed(client: openai.OpenAI) -> None:
    """`create`, its stream and the stream helper get the accepted answer, with `refine`."""
    whole = client.chat.completions.create(model="m", messages=question())
    assert whole.choices[0].message.content == TEXTS[1]
    assert whole.refine["passed"] is True  # type: ignore[attr-defined]  # of the guard
    chunks = list(client.chat.completions.create(model="m", messages=question("slowly"), stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == TEXTS[1]
    assert chunks[-1].refine["rating"] == 4  # type: ignore[attr-defined]  # of the guard
    with client.chat.completions.stream(model="m", messages=question("slowly")) as stream:
        done = stream.get_final_completion()
    assert done.choices[0].message.content == TEXTS[1]
    assert done.usage is not None


def test_openai_gets_errors_as_its_own(client: openai.OpenAI) -> None:
    """A fast error keeps its class, also for a stream; a late one is an APIError of the stream."""
    for streamed in (False, True):
        with pytest.raises(openai.RateLimitError, match="too many"):
            client.chat.completions.create(model="m", messages=question("error"), stream=streamed)
    with pytest.raises(openai.APIError, match="too many"):
        list(client.chat.completions.create(model="m", messages=question("error, slowly"), stream=True))


def test_openai_responses(client: openai.OpenAI, upstream: ModelServer, showing: Guarded) -> None:
    """Responses, whole and as events: the accepted text, `refine`, and nothing of the rejected one."""
    whole = client.responses.create(model="m", input="What?", instructions="Be kind.")
    assert whole.output_text == TEXTS[1]
    assert whole.refine["passed"] is True  # type: ignore[attr-defined]  # of the guard
    assert whole.vendor == {"kept": True}  # type: ignore[attr-defined]  # of the upstream
    assert [item.type for item in whole.output] == ["message"]
    retry = json.loads(upstream.requests[1]["raw"])
    assert [item["role"] for item in retry["input"]] == ["user", "user"]
    upstream.requests.clear()
    with openai.OpenAI(base_url=showing.url, api_key="sk-1", max_retries=0) as shown:
        assert shown.responses.create(model="m", input="What?").output_text == TEXTS[1]
    retry = json.loads(upstream.requests[1]["raw"])
    assert [item["role"] for item in retry["input"]] == ["user", "assistant", "user"]
    with pytest.raises(openai.BadRequestError, match="no message of the user is not judged"):
        client.responses.create(model="m", prompt={"id": "pmpt_1"})
    with client.responses.stream(model="m", input=question("What?")) as stream:
        events = [event.type for event in stream]
        final = stream.get_final_response()
    assert final.output_text == TEXTS[1]
    assert final.refine["rating"] == 4  # type: ignore[attr-defined]  # of the guard
    assert "response.output_text.delta" in events
    kinds = [event.type for event in client.responses.create(model="m", input="What?", stream=True)]
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    with pytest.raises(openai.RateLimitError):
        client.responses.create(model="m", input="error")
    with client.responses.stream(model="m", input="error, slowly") as stream:
        late = list(stream)
    assert [event.type for event in late] == ["response.created", "error"]
    assert late[1].message == "too many"  # type: ignore[union-attr]  # an error, as the line above says


def test_anthropic_messages(claude: Anthropic, upstream: ModelServer) -> None:
    """Messages, whole and as events, with the key as it was sent and errors in Anthropic's form."""
    import anthropic  # noqa: PLC0415 - as above

    whole = claude.messages.create(model="m", max_tokens=9, messages=question(), system="Be kind.")
    assert [block.type for block in whole.content] == ["text"]
    assert whole.content[0].text == TEXTS[1]  # type: ignore[union-attr]  # a text, as the line above says
    assert whole.refine["passed"] is True  # type: ignore[attr-defined]  # of the guard
    assert upstream.requests[1]["authorization"] == "Bearer sk-ant"
    with claude.messages.stream(model="m", max_tokens=9, messages=question()) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == TEXTS[1]
    assert final.refine["rating"] == 4  # type: ignore[attr-defined]  # of the guard
    assert final.usage.output_tokens == 10
    with pytest.raises(anthropic.RateLimitError):
        claude.messages.create(model="m", max_tokens=9, messages=question("error"))
    with pytest.raises(anthropic.BadRequestError, match="messages is a list"):
        claude.messages.create(model="m", max_tokens=9, messages=[])
    with pytest.raises(anthropic.APIStatusError, match="too many"):
        claude.messages.create(model="m", max_tokens=9, messages=question("error, slowly"), stream=True).__next__()


async def test_langchain(guard: Guarded) -> None:
    """ChatOpenAI drops unknown fields, so it learns of the loop by the headers."""
    model = ChatOpenAI(
        model="m", base_url=guard.url, api_key=SecretStr("sk-1"), max_retries=0, include_response_headers=True
    )
    answer = await model.ainvoke([HumanMessage("What?")])
    assert answer.text == TEXTS[1]
    assert answer.response_metadata["headers"]["x-refine-passed"] == "true"
    chunks = [chunk async for chunk in model.astream([HumanMessage("slowly")])]
    assert "".join(chunk.text for chunk in chunks) == TEXTS[1]
    results = await asyncio.gather(*(model.ainvoke([HumanMessage(f"What? {n}")]) for n in range(8)))
    assert {result.text for result in results} == {TEXTS[1]}


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl(guard: Guarded) -> None:
    """Curl gets the answer and the headers, and a body of 30 MB is refused in words."""
    body = json.dumps({"model": "m", "messages": question()})
    command = ["curl", "-sS", "-i", "--max-time", "20", f"{guard.url}/chat/completions"]
    done = subprocess.run([*command, "-d", body], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("HTTP/1.1 200")
    assert "x-refine-attempts: 2" in done.stdout
    for chunked in ([], ["-H", "transfer-encoding: chunked"]):
        large = subprocess.run(
            [*command, *chunked, "--data-binary", "@-"], input=b"x" * 30_000_000, capture_output=True, check=False
        )
        assert b"413" in large.stdout.splitlines()[0] or b"413" in large.stdout
        assert b"body_too_large" in large.stdout


@pytest.mark.skipif(NODE not in os.environ, reason=f"{NODE} does not name a folder with Node's clients")
def test_node(guard: Guarded, tmp_path: Path) -> None:
    """Node's OpenAI client, AI SDK and Agents SDK get the accepted answer everywhere, and errors as their own."""
    script = tmp_path / "clients.mjs"
    script.write_text(Path(__file__).with_name("node_clients.mjs").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "node_modules").symlink_to(Path(os.environ[NODE]) / "node_modules")
    node = shutil.which("node") or "node"
    done = subprocess.run([node, str(script), guard.url], capture_output=True, text=True, check=True)
    output = json.loads(done.stdout)
    assert len(output["results"]) == 14
    assert set(output["results"].values()) == {TEXTS[1]}
    assert output["errors"] == [["RateLimitError", True], ["APIError", True]]
