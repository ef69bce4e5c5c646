"""What stands behind the guards of most tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.guarding import ending_beside_tests
from tests.model_server import ModelServer, Reply, serving


@pytest.fixture(scope="session", autouse=True)
def _guards_end() -> Iterator[None]:
    """See every guard end before the process does."""
    with ending_beside_tests():
        yield


@pytest.fixture(scope="module")
def upstream(request: pytest.FixtureRequest) -> Iterator[ModelServer]:
    """Start an upstream; it says what `UPSTREAM` of the module makes of a request, or else that all is good."""
    with serving(getattr(request.module, "UPSTREAM", lambda _: Reply("good"))) as server:
        yield server
