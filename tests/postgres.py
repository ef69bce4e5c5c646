"""A throw-away PostgreSQL: a cluster in a temporary folder, on a socket in it, that ends with the test.

It needs Debian's package `postgresql`, or another one that brings `initdb` and `pg_ctl`. Where there is none,
tests skip; with `TEST_POSTGRESQL=required` in the environment, as in the gate, they fail.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

_MISSING = "PostgreSQL is not installed: apt-get install postgresql"


class Cluster:
    """A running server that can be stopped and started again.

    Args:
        folder: An empty folder, for its data and its socket.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._data = folder, folder / "data"
        self._programs, self._user = _programs(), _user()
        if self._user is not None:
            shutil.chown(folder, self._user)
        initdb: list[str | Path] = [
            "initdb",
            "--pgdata",
            self._data,
            "--username=test",
            "--auth=trust",
            "--no-sync",
        ]
        self._run([*initdb, "--encoding=UTF8", "--locale=C"])
        self.start()

    @property
    def conninfo(self) -> str:
        """The connection string of its database."""
        return f"host={self._folder} user=test dbname=postgres"

    def make_database(self, name: str) -> str:
        """Make an empty database, and return its URL."""
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        return f"postgresql://test@/{name}?host={self._folder}"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        folder = self._folder
        settings = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
        self._control(["--options", settings, "--log", folder / "log", "start"])

    def stop(self) -> None:
        """Stop the server at once, as a crash would."""
        self._control(["--mode=immediate", "stop"])

    def _control(self, arguments: list[str | Path]) -> None:
        self._run(["pg_ctl", "--pgdata", self._data, "--wait", "--timeout=30", *arguments])

    def _run(self, command: list[str | Path]) -> None:
        user = self._user
        subprocess.run(
            [self._programs / command[0], *command[1:]],
            user=user,
            group=None if user is None else pwd.getpwnam(user).pw_gid,
            extra_groups=None,
            cwd="/",
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=60,
        )


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Start a cluster that nobody but this user reaches, and remove it afterwards."""
    _programs()  # skips before anything is made
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # a socket's path must be short
    try:
        server = Cluster(folder)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


@contextmanager
def throw_away_cluster() -> Iterator[str]:
    """Start a cluster, and yield the connection string of its database."""
    with cluster() as server:
        yield server.conninfo


def _programs() -> Path:
    """Return the folder of the server's programs; Debian keeps it out of the path."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    found = shutil.which("initdb") or (debian[-1] if debian else None)
    if found is not None:
        return Path(found).resolve().parent
    if os.environ.get("TEST_POSTGRESQL") == "required":
        pytest.fail(_MISSING)
    pytest.skip(_MISSING)


def _user() -> str | None:
    """Return the user to run as: None for our own, unless that is root, as whom the server refuses to run."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"
