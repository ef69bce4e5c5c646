"""What every test shares: no request leaves for a provider, nothing is traced, terminals have 80 columns."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import certifi
import pytest
import structlog

from judges import no_model_requests

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.kit import Clock, Hang

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
"""Read when NumPy is loaded: where tests share the cores, its threads take thirty times as long as one does."""


def pytest_configure(config: pytest.Config) -> None:
    """Keep bytecode in pytest's own cache, and give no example of a property a deadline.

    The former where the environment forbids Python to write it beside the sources: else each worker, and each
    process that a test starts, would compile every framework anew. It comes before anything large is imported.
    """
    if sys.dont_write_bytecode and hasattr(config, "cache"):
        sys.pycache_prefix = str(config.cache.mkdir("bytecode"))
        sys.dont_write_bytecode = False
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if not hasattr(config, "workerinput") and hasattr(config, "cache"):
        _trust_one_authority(config.cache.mkdir("trusted") / "one.pem")
    with suppress(ModuleNotFoundError):  # the lowest versions are tested without it
        from hypothesis import settings  # noqa: PLC0415 - not everywhere

        settings.register_profile("untimed", deadline=None)  # an example's time says how busy the machine is
        settings.load_profile("untimed")


def _trust_one_authority(file: Path) -> None:
    """Have clients trust one authority, as none of them leaves this machine: to read all takes 20 ms a client."""
    end = "-----END CERTIFICATE-----\n"
    file.write_text(Path(certifi.where()).read_text(encoding="utf-8").partition(end)[0] + end, encoding="utf-8")
    os.environ["SSL_CERT_FILE"] = str(file)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among all that is loaded: while it is being loaded, there is none."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_unconfigure() -> None:
    """Leave the end of the process as it is: connections that are still open are closed without a word."""
    gc.unfreeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run single files in this process, as starting others would take longer; folders get one more than cores.

    Tests of deadlines and of servers wait, and while they do another process can work.
    """
    named = [config.invocation_params.dir / one.partition("::")[0] for one in config.args]
    return 0 if all(one.is_file() for one in named) else (os.cpu_count() or 1) + 1


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start Chromium once a module: while it runs, no test has an event loop of its own."""
    from tests.browsers import open_browser  # noqa: PLC0415 - most tests need none

    with open_browser() as browser:
        yield browser


@pytest.fixture
def hang() -> Iterator[Hang]:
    """Give calls that hang; the test fails if they were waited for."""
    from tests.kit import Hang  # noqa: PLC0415 - it loads much, of which bytecode must be kept

    hang = Hang()
    yield hang
    hang.end()
    assert not hang.waited_out, "what hangs was waited for"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Give the clocks of this process, to be put forward."""
    from tests.kit import Clock  # noqa: PLC0415 - it loads much, of which bytecode must be kept

    return Clock(monkeypatch)


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every terminal 80 columns: lines would else be broken elsewhere for whoever runs the tests."""
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture(autouse=True)
def _logs_as_users_find_them() -> Iterator[None]:
    """Leave logging unconfigured: what one test does to it would else decide where the warnings of others go."""
    loggers = [logging.getLogger(name) for name in ("refine", "refine.access", "judges")]
    before = [(one, one.handlers, one.propagate, one.level) for one in loggers]
    yield
    structlog.reset_defaults()
    for one, handlers, propagate, level in before:
        one.handlers, one.propagate = handlers, propagate
        one.setLevel(level)


@pytest.fixture(autouse=True)
def _no_provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep tests from reaching a provider, or a tracing service, by accident."""
    for variable in ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2"):
        monkeypatch.setenv(variable, "false")
    with no_model_requests():
        yield
