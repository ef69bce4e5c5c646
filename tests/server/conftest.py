"""What stands behind the guards of most tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.guarding import ending_beside_tests
from tests.model_server import ModelServer, Reply, Script, serving


@pytest.fixture(scope="session", autouse=True)
def _guards_end() -> Iterator[None]:
    """See every guard end before the process does."""
    with ending_beside_tests():
        yield


def _usual(request: pytest.FixtureRequest) -> Script:
    script: Script = getattr(request.module, "UPSTREAM", lambda _: Reply("good"))
    return script


@pytest.fixture(scope="module")
def upstream(request: pytest.FixtureRequest) -> Iterator[ModelServer]:
    """Start an upstream; it says what `UPSTREAM` of the module makes of a request, or else that all is good."""
    with serving(_usual(request)) as server:
        yield server


@pytest.fixture(autouse=True)
def _forgetful(request: pytest.FixtureRequest) -> None:
    """Have that upstream say again what it usually does, and forget what it was asked, before each test."""
    if "upstream" in request.fixturenames and not hasattr(request.module, "upstream"):
        server: ModelServer = request.getfixturevalue("upstream")
        server.reply, server.requests = _usual(request), []
