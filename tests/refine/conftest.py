"""A database of either kind for a record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.postgres import Cluster, cluster


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    """Start a PostgreSQL server, in which each test has a database of its own."""
    with cluster() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Name an empty database of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/record.db"
    server: Cluster = request.getfixturevalue("postgres")
    return server.make_database(f"t{uuid4().hex}")
