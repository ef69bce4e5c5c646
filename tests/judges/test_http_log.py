"""What the HTTP clients log shows nothing of an endpoint's path and query."""

from __future__ import annotations

import json
import logging

import pytest
import urllib3

from judges import Helpfulness, OpenAICompatible
from judges.testing import no_waiting
from tests.kit import Way, ask, both_ways
from tests.model_server import Reply, Wire, answered, serving

WRITTEN = json.dumps({"rationale": "r", "rating": 4, "feedback": ""})
BROKEN_HEADERS = Wire((b"HTTP/1.1 500 Bad\r\ncontent-length: 2\r\nno colon here\r\nx: y\r\n\r\n{}",), then="close")


@pytest.mark.parametrize(
    "reply",
    [Reply(WRITTEN), answered({"error": "bad"}, status=500), Wire(then="reset"), BROKEN_HEADERS],
    ids=["good", "error", "reset", "headers"],
)
@both_ways
async def test_path_and_query_are_in_no_log(
    reply: Reply | Wire, way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    """A key may stand in either; at level DEBUG the log has host and status, and no more of the address."""
    caplog.set_level(logging.DEBUG)
    with serving(lambda _: reply) as server, no_waiting():
        address = f"{server.url}/deploy-xyzzy?code=key-plugh&api-version=1"
        async with OpenAICompatible(address, model="m", api_key="sk-quux") as model:
            judge = Helpfulness(model)
            _ = await ask(judge, way, response="a")
        assert "xyzzy" in server.requests[0]["path"] or not server.requests
    assert not [word for word in ("xyzzy", "plugh", "quux") if word in caplog.text]
    if way == "sync" and isinstance(reply, Reply):
        assert '"POST /... HTTP/1.1" 200' in caplog.text


def test_requests_of_others_are_logged_as_ever(caplog: pytest.LogCaptureFixture) -> None:
    """Only our own requests are hidden."""
    caplog.set_level(logging.DEBUG)
    with serving(lambda _: Reply(WRITTEN)) as server, OpenAICompatible(server.url, model="m", api_key="") as model:
        Helpfulness(model)(response="a")
        with urllib3.PoolManager() as pool:
            pool.request("POST", f"{server.url}/chat/completions?theirs", body=b'{"model": "m", "messages": []}')
    assert "?theirs" in caplog.text
