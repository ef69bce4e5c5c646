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

import pytest

_MISSING = "PostgreSQL is not installed: apt-get install postgresql"


@contextmanager
def throw_away_cluster() -> Iterator[str]:
    """Start a cluster that nobody but this user reaches, and yield the connection string of its database."""
    programs, user = _programs(), _user()
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # a socket's path must be short
    if user is not None:
        shutil.chown(folder, user)
    data, settings = folder / "data", f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
    control: list[str | Path] = [programs / "pg_ctl", "--pgdata", data, "--wait", "--timeout=30"]
    try:
        initdb: list[str | Path] = [
            programs / "initdb",
            "--pgdata",
            data,
            "--username=test",
            "--auth=trust",
            "--no-sync",
        ]
        _run([*initdb, "--encoding=UTF8", "--locale=C"], user)
        _run([*control, "--options", settings, "--log", folder / "log", "start"], user)
        try:
            yield f"host={folder} user=test dbname=postgres"
        finally:
            _run([*control, "--mode=immediate", "stop"], user)
    finally:
        shutil.rmtree(folder)


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


def _run(command: list[str | Path], user: str | None) -> None:
    subprocess.run(
        command,
        user=user,
        group=None if user is None else pwd.getpwnam(user).pw_gid,
        extra_groups=None,
        cwd="/",
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=60,
    )
